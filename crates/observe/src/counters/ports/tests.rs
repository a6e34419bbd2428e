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
