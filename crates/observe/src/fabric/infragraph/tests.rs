use super::*;
use crate::fabric::{Companions, read_machine_text};
use crate::text::Limits;

const SERVERS: &str = r#"
name: two servers
devices:
- name: server
  components:
  - {name: cpu, count: 1, choice: cpu}
  - {name: xpu, count: 2, choice: xpu}
  - {name: nvsw, count: 1, choice: switch}
  - {name: pciesw, count: 1, choice: switch}
  - {name: mgmt, count: 1, choice: custom, custom: {type: mgmt-nic}}
  - {name: cx, count: 2, choice: device}
  links:
  - {name: nvlink, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 300}}}
  - {name: pcie}
  edges:
  - {scheme: one2one, link: pcie, ep1: {component: mgmt}, ep2: {component: "cpu[0]"}}
  - {scheme: many2many, link: nvlink, ep1: {component: xpu}, ep2: {component: "nvsw[0]"}}
  - {scheme: many2many, link: pcie, ep1: {component: "xpu[:]"}, ep2: {component: pciesw}}
  - {scheme: many2many, link: pcie, ep1: {device: "cx[0:2]", component: "pci[0]"}, ep2: {component: pciesw}}
  - {scheme: one2one, link: pcie, ep1: {component: pciesw}, ep2: {component: cpu}}
- name: cx
  components:
  - {name: asic, count: 1, choice: cpu}
  - {name: pci, count: 1, choice: custom, custom: {type: endpoint}}
  - {name: port, count: 1, choice: port}
  edges:
  - {scheme: one2one, link: ic, ep1: {component: asic}, ep2: {component: pci}}
  - {scheme: one2one, link: ic, ep1: {component: asic}, ep2: {component: port}}
- name: switch
  components:
  - {name: port, count: 4, choice: port}
instances:
- {name: host, device: server, count: 2}
- {name: leaf, device: switch, count: 2}
links:
- {name: down, physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}}}
edges:
- {scheme: one2one, link: down, ep1: {instance: "host[0:2]", component: "cx[0].port[0]"}, ep2: {instance: "leaf[0]", component: "port[0:2]"}}
- {scheme: one2one, link: down, ep1: {instance: "host", component: "cx[-1].port[0]"}, ep2: {instance: "leaf[1]", component: "port[0:2]"}}
- {scheme: one2one, link: up, ep1: {instance: "leaf[0]", component: "port[2:]"}, ep2: {instance: "leaf[1]", component: "port[2:]"}}
"#;

fn machine(content: &str) -> Result<crate::fabric::Machine, String> {
    let text = Text::from_bytes("m.yaml", content.as_bytes(), Limits::ANY).unwrap();
    read_machine_text(&text, None, Companions::default()).map_err(|e| e.to_string())
}

#[test]
fn instances_become_hosts_with_their_inside() {
    let machine = machine(SERVERS).unwrap();
    let fabric = &machine.fabric;
    assert_eq!(fabric.network_routers(), 2);
    assert_eq!(fabric.network_nodes(), 4);
    let hosts = fabric.places_by_host();
    assert_eq!(hosts.len(), 2);
    assert_eq!(hosts[1].0, "host.1");
    let places: Vec<&str> = hosts[1]
        .1
        .iter()
        .map(|&n| fabric.node(n).name.as_str())
        .collect();
    assert_eq!(places.len(), 2, "{places:?}");
    let inside = fabric.inside().unwrap();
    let kind = inside.kinds().next().unwrap();
    assert_eq!(
        fabric.components(),
        1,
        "the switches inside are no part of the network"
    );
    // The processor and the port for administration lead nowhere.
    assert!(
        !kind
            .routers
            .iter()
            .any(|r| r.starts_with("cpu") || r.starts_with("mgmt")),
        "{kind:?}"
    );
    let rates: BTreeSet<u64> = kind
        .links
        .iter()
        .map(|l| l.capacity_bytes_per_s as u64)
        .collect();
    assert!(rates.contains(&300_000_000_000), "{rates:?}");
    let trunk = fabric.links().iter().find(|l| l.lanes == 2).unwrap();
    assert_eq!(trunk.nominal.0, 25e9, "two cables of an assumed rate");
    let notes = machine.notes.join("\n");
    assert!(notes.contains("12.5 GB/s: up"), "{notes}");
    assert!(notes.contains("(ic, pcie)"), "{notes}");
}

#[test]
fn parallel_switches_of_accelerators_are_one() {
    let four = SERVERS
        .replace("nvsw, count: 1", "nvsw, count: 4")
        .replace("nvsw[0]", "nvsw")
        // Management of the switches carries no bytes of the job.
        .replace(
            "  - {scheme: one2one, link: pcie, ep1: {component: pciesw}",
            "  - {scheme: many2many, link: pcie, ep1: {component: nvsw}, ep2: {component: pciesw}}\n  - {scheme: one2one, link: pcie, ep1: {component: pciesw}",
        );
    let machine = machine(&four).unwrap();
    let kind = machine
        .fabric
        .inside()
        .unwrap()
        .kinds()
        .next()
        .unwrap()
        .clone();
    let fast: Vec<f64> = kind
        .links
        .iter()
        .filter(|l| l.kind == "NVLink")
        .map(|l| l.capacity_bytes_per_s)
        .collect();
    assert_eq!(
        fast, [1200e9; 4],
        "two GPUs, both ways, 4 links of 300 GB/s each"
    );
}

#[test]
fn json_gives_the_same_machine() {
    let yaml =
        yaml::document(&Text::from_bytes("m", SERVERS.as_bytes(), Limits::ANY).unwrap()).unwrap();
    fn json(yaml: &Yaml) -> serde_json::Value {
        match &yaml.value {
            yaml::Value::Scalar(text) => {
                serde_json::from_str(text).unwrap_or_else(|_| text.clone().into())
            }
            yaml::Value::List(all) => all.iter().map(json).collect(),
            yaml::Value::Map(all) => {
                let pairs = all.iter().map(|(k, v)| (k.clone(), json(v)));
                serde_json::Value::Object(pairs.collect())
            }
        }
    }
    let same = machine(&json(&yaml).to_string()).unwrap().fabric;
    let first = machine(SERVERS).unwrap().fabric;
    assert_eq!(same.links(), first.links());
    assert_eq!(same.nodes(), first.nodes());
}

#[test]
fn wrong_documents_are_refused_with_their_place() {
    for (from, to, found) in [
        (
            "leaf[1]\", component: \"port[0:2]",
            "leaf[7]\", component: \"port[0:2]",
            "a slice of 2 instances",
        ),
        ("cx[-1].port[0]", "cx[-3].port[0]", "a slice of 2 parts"),
        ("cx[-1].port[0]", "cx[-1]", "not the whole device"),
        ("{component: xpu}", "{component: tpu}", "not 'tpu'"),
        (
            "device: switch, count: 2",
            "device: router, count: 2",
            "device 'router'",
        ),
        (
            "device: switch, count: 2",
            "device: switch, count: 99999999",
            "a count",
        ),
        (
            "device: switch, count: 2",
            "device: switch, count: 18446744073709551614",
            "a count",
        ),
        (
            "name: xpu, count: 2",
            "name: xpu, count: 999999999",
            "a count of at most",
        ),
        (
            "scheme: one2one, link: up",
            "scheme: ring, link: up",
            "one2one or many2many",
        ),
        (
            "gigabits_per_second: 400",
            "gigabits_per_second: -1",
            "a rate above 0",
        ),
        (
            "choice: device}",
            "choice: device}\n  - {name: server, count: 1, choice: device}",
            "do not hold themselves",
        ),
    ] {
        let error = machine(&SERVERS.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(found), "{from}: {error}");
    }
    let direct = SERVERS.replace(
        "instance: \"leaf[0]\", component: \"port[0:2]\"",
        "instance: \"host[1]\", component: \"cx[1].port[0]\"",
    );
    assert!(
        machine(&direct).unwrap_err().contains("two hosts"),
        "{direct}"
    );
    for end in (0..SERVERS.len()).filter(|&e| SERVERS.is_char_boundary(e)) {
        let _ = machine(&SERVERS[..end]);
    }
}

#[test]
fn slices_are_pythons() {
    assert_eq!(indices("1", 3).unwrap(), [1]);
    assert_eq!(indices("-1", 3).unwrap(), [2]);
    assert_eq!(indices("0:9", 3).unwrap(), [0, 1, 2]);
    assert_eq!(indices("::2", 5).unwrap(), [0, 2, 4]);
    assert_eq!(indices(":-1", 3).unwrap(), [0, 1]);
    assert_eq!(indices("3", 3), None);
    assert_eq!(indices("0:2:0", 3), None);
}
