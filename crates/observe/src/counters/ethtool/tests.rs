use super::*;
use crate::text::Limits;

/// A ConnectX adapter through `pdsh`, its interface's own counters first, and a node with another driver.
const TWO: &str = "n1: NIC statistics:\nn1:      rx_packets: 5\nn1:      rx_bytes: 50\nn2: NIC statistics:\n\
    n1:      rx_discards_phy: 3\nn1:      rx_bytes_phy: 1000\nn1:      tx_bytes_phy: 2000\nn2:      rx_bytes: 7\n\
    n1:      rx_prio3_pause_duration: 40\nn1:      rx_prio4_pause_duration: 90\nn1:      tx_prio3_pause_duration: 11\n\
    n2:      rx_errors: 1\nn1:      rx_prio3_pause_transition: 2\nn1:      ch_events: 9\nn2:      [0]: rx_bytes: 7\n";

fn read(content: &str, node: Option<&str>) -> Result<(Vec<Reading>, Vec<String>), String> {
    let text = Text::from_bytes("e", content.as_bytes(), Limits::TEXT).unwrap();
    let mut left_out = LeftOut::default();
    let found = readings(&text, node, &mut left_out).map_err(|e| e.to_string())?;
    Ok((found, left_out.sentences().collect()))
}

fn values(reading: &Reading) -> Vec<(&str, Option<u64>)> {
    let counters = reading.layout.counters.iter().enumerate();
    counters
        .map(|(i, c)| (c.name.as_str(), reading.get(i)))
        .collect()
}

#[test]
fn the_port_s_own_counters_are_read_and_pauses_are_times() {
    let (found, said) = read(TWO, None).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].layout.node, "n1");
    let of = values(&found[0]);
    for (name, value) in [
        ("rx_bytes", Some(1000)),
        ("tx_bytes", Some(2000)),
        ("rx_dropped", Some(3)),
        ("rx_errors", None),
        ("rx_prio4_pause_duration", Some(90)),
    ] {
        assert!(of.contains(&(name, value)), "{name}: {of:?}");
    }
    let pauses = |quantity| {
        let counters = found[0].layout.counters.iter();
        counters.filter(|c| c.quantity == quantity).count()
    };
    assert_eq!((pauses(RECEIVED), pauses(SENT)), (2, 1));
    assert_eq!(values(&found[1])[0], ("rx_bytes", Some(7)));
    assert!(said.iter().any(|s| s.contains("ch_events")), "{said:?}");
}

#[test]
fn a_list_that_ends_within_the_pauses_has_none() {
    let at = TWO.find("n2:      rx_errors").unwrap();
    let cut = TWO[..at].to_owned() + "n2:      rx_errors: 1\n";
    let (found, said) = read(&cut, None).unwrap();
    assert!(
        values(&found[0])
            .iter()
            .all(|(name, _)| !name.contains("pause"))
    );
    assert!(
        said.iter().any(|s| s.contains("duration of a pause")),
        "{said:?}"
    );
}

#[test]
fn what_is_missing_is_said() {
    let one = "NIC statistics:\n     rx_bytes: 1\n     rx_errors: 2\n";
    assert!(read(one, None).unwrap_err().contains("name of its node"));
    assert_eq!(read(one, Some("n7")).unwrap().0[0].layout.node, "n7");
    let queues = "NIC statistics:\n     rx_queue_0_bytes: 1\n";
    assert!(
        read(queues, Some("n"))
            .unwrap_err()
            .contains("rx_bytes_phy")
    );
    for bad in ["rx_bytes: -1", "rx_bytes: 1x", "rx_bytes: "] {
        let bad = format!("NIC statistics:\n     rx_errors: 2\n     {bad}\n");
        assert!(read(&bad, Some("n")).is_err(), "{bad}");
    }
}

/// Statistics of a node with `pdsh`'s prefix.
fn of_node(node: &str, bytes: u64) -> Vec<String> {
    let lines = [
        "NIC statistics:".into(),
        format!("     rx_bytes: {bytes}"),
        "     rx_errors: 2".into(),
    ];
    lines.map(|l| format!("{node}: {l}")).to_vec()
}

#[test]
fn interfaces_of_a_node_are_told_apart_by_their_order() {
    let lines = [of_node("n1", 5), of_node("n2", 7), of_node("n1", 6)].concat();
    let (found, said) = read(&lines.join("\n"), None).unwrap();
    assert_eq!(said, Vec::<String>::new());
    let bytes = |i: usize| {
        let reading: &Reading = &found[i];
        let counters = reading.layout.counters.iter().zip(0..);
        let bytes = counters.filter(|(c, _)| &*c.name == "rx_bytes");
        bytes
            .map(|(c, i)| {
                (
                    reading.layout.ports[usize::from(c.port)].to_string(),
                    reading.get(i),
                )
            })
            .collect::<Vec<_>>()
    };
    let port = |name: &str, bytes| (name.to_owned(), Some(bytes));
    assert_eq!(bytes(0), [port("ethtool", 5), port("ethtool 2", 6)]);
    assert_eq!(bytes(1), [port("ethtool", 7)]);
    // Sorted lines do not say of which interface they are.
    let mut sorted = lines;
    sorted.sort();
    let error = read(&sorted.join("\n"), None).unwrap_err();
    assert!(
        error.contains("the heading of an interface before"),
        "{error}"
    );
}

#[test]
fn lines_before_their_heading_count_too() {
    let mut lines = [of_node("n1", 5), of_node("n2", 7)].concat();
    lines.reverse();
    let (found, said) = read(&lines.join("\n"), None).unwrap();
    assert_eq!(said, Vec::<String>::new());
    let of = |i: usize| (&*found[i].layout.node, values(&found[i])[0].1);
    assert_eq!((of(0), of(1)), (("n1", Some(5)), ("n2", Some(7))));
}

#[test]
fn lines_without_a_heading_are_said() {
    let mut lines = [of_node("n1", 5), of_node("n2", 7)].concat();
    lines.remove(3);
    let (found, said) = read(&lines.join("\n"), None).unwrap();
    assert_eq!(found.len(), 1);
    let said = said.join("\n");
    let expected = "2 left out, line of a node without the heading 'NIC statistics:': n2";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn dshbak_names_each_node_once() {
    let rule = "----------------";
    let one = |node: &str, bytes: u64| {
        let lines = of_node(node, bytes)
            .join("\n")
            .replace(&format!("{node}: "), "");
        format!("{rule}\n{node}\n{rule}\n{lines}\n")
    };
    let (found, said) = read(&(one("n1", 5) + &one("n2", 7)), None).unwrap();
    assert_eq!(said, Vec::<String>::new());
    let of = |i: usize| (&*found[i].layout.node, values(&found[i])[0].1);
    assert_eq!((of(0), of(1)), (("n1", Some(5)), ("n2", Some(7))));
    assert!(read(&one("n[1-2]", 5), None).unwrap_err().contains("-c"));
}
