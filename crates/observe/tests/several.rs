//! Files in which something is twice: readings of counters, keys, names, rows.

#![allow(clippy::unwrap_used)]

use crate::common::{parse, text};
use hopbyte_fabric::{Fabric, Quantity as Q, spec};
use hopbyte_observe::CounterOptions;
use hopbyte_observe::counters::{Counted, counter_series};

const SUBNET: &str = include_str!("../../../fuzz/seeds/ibnetdiscover/two-switches.txt");

fn read(fabric: &Fabric, node: Option<&str>, files: &[&str]) -> Result<Vec<Counted>, String> {
    let texts: Vec<_> = files.iter().map(|f| text("file", f)).collect();
    let options = CounterOptions {
        node: node.map(str::to_owned),
        ..CounterOptions::default()
    };
    let series = counter_series(&texts, fabric, &options).map_err(|e| e.to_string())?;
    Ok(series.all())
}

fn refused(fabric: &Fabric, file: &str) -> String {
    read(fabric, Some("n0-0"), &[file]).unwrap_err()
}

#[test]
fn a_series_of_two_samples_is_refused_or_the_later_one() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let sample =
        |value: &str| format!("node_network_transmit_bytes_total{{device=\"eth0\"}} {value}\n");
    let error = refused(&fabric, &[sample("2000000"), sample("2500000")].concat());
    assert!(error.contains("file:2: "), "{error}");
    assert!(error.contains("which is on line 1 too"), "{error}");
    // A further label does not make it another counter.
    let other = "node_network_transmit_bytes_total{job=\"b\",device=\"eth0\"} 7\n";
    let error = refused(&fabric, &[&sample("2000000"), other].concat());
    assert!(error.contains("file:2: "), "{error}");

    let late = sample("2500000 1700000010000");
    let early = sample("2000000 1700000000000");
    for file in [[&*early, &*late].concat(), [&*late, &*early].concat()] {
        let counted = &read(&fabric, Some("n0-0"), &[&file]).unwrap()[0];
        let link = fabric.node(fabric.find_node("n0-0").unwrap()).inject;
        assert_eq!(counted.get(Q::SentBytes, link), Some(2.5e6));
        let said: Vec<String> = counted.left_out.sentences().collect();
        assert!(
            said.iter()
                .any(|s| s.contains("1 left out, earlier sample")),
            "{said:?}"
        );
    }
}

#[test]
fn a_port_has_one_row_and_a_table_is_no_reading() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let walk = "SNMPv2-MIB::sysName.0 = STRING: r0-0\nIF-MIB::ifName.3 = STRING: swp1\n\
         IF-MIB::ifHCInOctets.3 = Counter64: 700\nIF-MIB::ifHCOutOctets.3 = Counter64: 900\n";
    let table = "switch,port,peer\nr0-0,swp1,r1-0\n";
    let twice = format!("{table}r0-0,swp1,r0-1\n");
    let error = read(&fabric, None, &[walk, &twice]).unwrap_err();
    assert!(error.contains("file:3: "), "{error}");
    assert!(error.contains("which line 2 has too"), "{error}");
    let counted = read(&fabric, None, &[walk, table]).unwrap();
    assert_eq!(counted[0].source, "file");
    // Of two tables the later one counts.
    let other = "switch,port,peer\nr0-0,swp1,r0-1\n";
    let counted = &read(&fabric, None, &[walk, table, other]).unwrap()[0];
    let out = fabric.find_link("r0-0 Y+").unwrap();
    assert_eq!(counted.get(Q::SentBytes, out), Some(900.0));
    let said: Vec<String> = counted.left_out.sentences().collect();
    assert!(
        said.iter()
            .any(|s| s.contains("a later table has another peer")),
        "{said:?}"
    );
}

#[test]
fn two_readings_in_a_file_are_refused() {
    let fabric = parse(SUBNET).unwrap().fabric;
    let report = |wait: u32| {
        format!(
            "Errors for 0x2 \"leaf two\"\n   GUID 0x2 port 4: [PortXmitWait == {wait}]\n\n## Summary: 1 nodes checked\n"
        )
    };
    let error = refused(&fabric, &[report(2), report(90)].concat());
    assert!(
        error.contains("file:6: ") && error.contains("on line 2 too"),
        "{error}"
    );
    let block = "# Port extended counters: Lid 2 port 4\nPortSelect:......................4\n\
        PortXmitData:....................61200\nPortMulticastRcvPkts:............0\n";
    let error = refused(&fabric, &block.repeat(2));
    assert!(
        error.contains("file:6: ") && error.contains("on line 2 too"),
        "{error}"
    );
    // Data and errors of one port are two reports of one reading.
    let data = "Data Counters for 0x2 \"leaf two\"\n   GUID 0x2 port 4: [PortXmitData == 5]\n\n## Summary: 1\n";
    assert!(read(&fabric, None, &[&[data, &report(2)].concat()]).is_ok());

    let torus = spec::fabric("torus:4x4").unwrap();
    let link = torus.link_name(torus.node(torus.find_node("n0-0").unwrap()).inject);
    let table = format!(
        "{{\"schema\":\"hopbyte.link/1\",\"link\":\"{link}\",\"received_bytes\":5}}\n\
         {{\"schema\":\"hopbyte.link/1\",\"summary\":{{\"window_seconds\":null}}}}\n"
    );
    assert!(read(&torus, None, &[&table]).is_ok());
    let error = refused(&torus, &table.repeat(2));
    assert!(
        error.contains("file:3: ") && error.contains("every link once"),
        "{error}"
    );
}

#[test]
fn more_rows_than_a_link_has_tiles_are_refused() {
    let fabric = spec::fabric("aries:2x6x16").unwrap();
    let file = "sg,sr,sc,dg,dr,dc,color,flits,stalls\n0,0,0,0,0,5,g,3,8\n";
    assert!(read(&fabric, None, &[file]).is_ok());
    let error = refused(&fabric, &format!("{file}0,0,0,0,0,5,g,3,8\n"));
    assert!(
        error.contains("file:3: ") && error.contains("one more tile"),
        "{error}"
    );
}

#[test]
fn keys_and_names_are_given_once() {
    let (named, cut) = (
        flux(&["n0", "n1", "n1"], ""),
        flux(&["n0", "n1"], ", {\"source\": \"r\", \"target\": \"9\"}"),
    );
    let yaml = "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n      - switch: s1\n        nodes: a[1-4]\n        nodes: b[1-2]\n";
    for (file, expected) in [
        (
            "SwitchName=s1 Nodes=a[1-4] Nodes=b[1-2]\n",
            "input:1: found Nodes=b[1-2], expected Nodes once",
        ),
        (
            yaml,
            "input:7: found nodes, expected every key once, but line 6 has it too",
        ),
        (
            named.as_str(),
            "found n1 at /c/r/v1 and at /c/r/v2, expected every name of a node once",
        ),
        (
            cut.as_str(),
            "found an edge from r to 9, expected a vertex 9",
        ),
    ] {
        let error = parse(file).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let whole = parse(&flux(&["n0", "n1"], "")).unwrap();
    assert_eq!(whole.fabric.nodes().len(), 2);
}

/// A graph of a rack of nodes.
fn flux(names: &[&str], more: &str) -> String {
    let vertex = |(i, name): (usize, &&str)| {
        format!(
            ", {{\"id\": \"{i}\", \"metadata\": {{\"type\": \"node\", \"name\": \"{name}\", \"paths\": {{\"containment\": \"/c/r/v{i}\"}}}}}}"
        )
    };
    let edge = |i: usize| format!("{{\"source\": \"r\", \"target\": \"{i}\"}}");
    let vertices: String = names.iter().enumerate().map(vertex).collect();
    let edges: Vec<String> = (0..names.len()).map(edge).collect();
    format!(
        "{{\"graph\": {{\"nodes\": [{{\"id\": \"r\", \"metadata\": {{\"type\": \"rack\", \"paths\": {{\"containment\": \"/c/r\"}}}}}}{vertices}], \"edges\": [{}{more}]}}}}",
        edges.join(", ")
    )
}
