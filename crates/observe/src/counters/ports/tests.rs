use crate::counters::{CounterOptions, counter_series};
use crate::text::{Limits, Text};
use hopbyte_fabric::{Quantity, spec};

const TABLE: &str = "Switch,Port,Peer,Peer port\nr0-0,Ethernet4,r1-0,Ethernet8\nr0-0,\"swp, 3\",r0-0-n0\nr9-9,swp1,r0-0\n";

fn walk(name: &str, port: &str) -> String {
    format!(
        "SNMPv2-MIB::sysName.0 = STRING: {name}\nIF-MIB::ifName.3 = STRING: {port}\n\
         IF-MIB::ifHCInOctets.3 = Counter64: 700\nIF-MIB::ifHCOutOctets.3 = Counter64: 900\n"
    )
}

#[test]
fn named_ports_of_a_switch_are_the_links_to_their_peers() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let node = fabric.nodes()[0].name.clone();
    let table = TABLE.replace("r0-0-n0", &node);
    let read = |texts: &[&str]| {
        let texts: Vec<Text> = texts
            .iter()
            .map(|t| Text::from_bytes("t", t.as_bytes(), Limits::TEXT).unwrap())
            .collect();
        counter_series(&texts, &fabric, &CounterOptions::default())
    };
    let switch = walk("r0-0", "Ethernet4");
    let counted = read(&[&switch, &table]).unwrap().all().remove(0);
    let out = fabric.find_link("r0-0 X+").unwrap();
    let back = fabric.reverse(out).unwrap();
    assert_eq!(counted.get(Quantity::SentBytes, out), Some(900.0));
    assert_eq!(counted.get(Quantity::ReceivedBytes, back), Some(700.0));
    let said: Vec<String> = counted.left_out.sentences().collect();
    assert!(said.iter().any(|s| s.contains("r9-9 swp1")), "{said:?}");

    let host = walk("r0-0", "swp, 3");
    let counted = read(&[&table, &host]).unwrap().all().remove(0);
    let eject = fabric.nodes()[0].eject;
    assert_eq!(counted.get(Quantity::SentBytes, eject), Some(900.0));

    // Without the table no rule knows the port.
    let error = read(&[&switch]).unwrap_err().to_string();
    assert!(error.contains("none of which names a link"), "{error}");
    assert!(error.contains("no table of ports names"), "{error}");
    let error = read(&["switch,port,peer\nr0-0,swp1\n"])
        .unwrap_err()
        .to_string();
    assert!(error.contains("switch,port,peer"), "{error}");
}

/// After the manual page of lldpcli: every line is an object and its value; pdsh puts the host before it.
#[test]
fn neighbours_of_lldp_are_a_table_of_ports() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let node = &fabric.nodes()[0].name;
    let lines = [
        format!("{node}: lldp.eth0.via=LLDP"),
        format!("{node}: lldp.eth0.rid=1"),
        format!("{node}: lldp.eth0.chassis.mac=00:00:5e:00:53:01"),
        format!("{node}: lldp.eth0.chassis.name=r0-0"),
        format!("{node}: lldp.eth0.chassis.descr=a system"),
        "of two lines".into(),
        format!("{node}: lldp.eth0.chassis.Bridge.enabled=on"),
        format!("{node}: lldp.eth0.port.mac=00:00:5e:00:53:02"),
        format!("{node}: lldp.eth0.port.descr=swp 3"),
        "r0-0: lldp.Ethernet4.chassis.name=r1-0".into(),
        "r0-0: lldp.Ethernet4.port.ifname=Ethernet8".into(),
        "r1-0: lldp.Ethernet8.chassis.name=r0-0".into(),
        "r1-0: lldp.Ethernet8.port.ifname=Ethernet4".into(),
        "r1-0: lldp.mgmt0.chassis.name=office".into(),
    ];
    let table = lines.join("\n") + "\n";
    let read = |name: &str, port: &str| {
        let texts = [walk(name, port), table.clone()]
            .map(|t| Text::from_bytes("t", t.as_bytes(), Limits::TEXT).unwrap());
        let series = counter_series(&texts, &fabric, &CounterOptions::default()).unwrap();
        let counted = series.all().remove(0);
        let said: Vec<String> = counted.left_out.sentences().collect();
        assert!(
            said.len() == 1 && said[0].contains("r1-0 mgmt0"),
            "{said:?}"
        );
        counted
    };
    let out = fabric.find_link("r0-0 X+").unwrap();
    let back = fabric.reverse(out).unwrap();
    for (name, port, link) in [
        ("r0-0", "Ethernet4", out),
        ("r1-0", "Ethernet8", back),
        ("r0-0", "swp 3", fabric.nodes()[0].eject),
    ] {
        let counted = read(name, port);
        assert_eq!(counted.get(Quantity::SentBytes, link), Some(900.0));
    }
}
