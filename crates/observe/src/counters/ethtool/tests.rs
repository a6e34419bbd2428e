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
        ("rx_crc_errors_phy", None),
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

#[test]
fn a_list_without_its_heading_is_known_by_its_lines() {
    let list = "     rx_packets: 5\n     rx_bytes: 50\n     rx_errors: 2\n";
    let of = |content: &str| {
        let text = Text::from_bytes("f", content.as_bytes(), Limits::TEXT).unwrap();
        crate::counters::format(&text).map(|known| known.name)
    };
    assert_eq!(of(list).unwrap(), "ethtool -S");
    assert!(of("rx_errors: many\n").is_err());
    let with = format!("NIC statistics:\n{list}");
    let found = read(list, Some("n")).unwrap().0;
    assert_eq!(found, read(&with, Some("n")).unwrap().0);
    // Only a counter of the port has to be there once: vmxnet3 has two of this name for each queue.
    let others = "     giant hdr: 1\n     giant hdr: 2\n";
    assert!(read(&format!("{with}{others}"), Some("n")).is_ok());
    let error = read(&format!("{with}     rx_bytes: 51\n"), Some("n")).unwrap_err();
    assert!(error.contains("every statistic once"), "{error}");
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

/// An interface of a bnxt_en adapter on the link of a node: the values of its counters by name.
fn bnxt(counters: &[(&str, u64)]) -> hopbyte_fabric::Totals {
    let mut text = "NIC statistics:\n     rx_total_frames: 9\n     rx_bytes: 900\n".to_owned();
    for (name, value) in counters {
        text += &format!("     {name}: {value}\n");
    }
    joined(&text, "n0-0", "torus:4x4").unwrap()
}

fn joined(content: &str, node: &str, fabric: &str) -> Result<hopbyte_fabric::Totals, String> {
    let fabric = hopbyte_fabric::spec::fabric(fabric).unwrap();
    let text = Text::from_bytes("e", content.as_bytes(), Limits::TEXT).unwrap();
    let options = crate::counters::CounterOptions {
        node: Some(node.into()),
        ..Default::default()
    };
    match crate::counters::counters(&text, &fabric, &options) {
        Ok(crate::counters::Counted::Totals(totals)) => Ok(totals),
        Ok(_) => Err("an increase".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn errors_of_a_driver_are_the_sum_of_their_causes() {
    let fabric = hopbyte_fabric::spec::fabric("torus:4x4").unwrap();
    let node = fabric.node(fabric.node_named("n0-0").unwrap());
    let causes = [
        "rx_fcs_err_frames",
        "rx_align_err_frames",
        "rx_undrsz_frames",
        "rx_ovrsz_frames",
        "rx_runt_frames",
        "rx_jbr_frames",
    ];
    let mut counters = causes.map(|name| (name, 7)).to_vec();
    counters.extend([
        ("rx_stat_discard", 4),
        ("tx_err", 5),
        ("tx_stat_discard", 1),
    ]);
    let totals = bnxt(&counters);
    assert_eq!(totals.errors(node.eject), Ok(46.0));
    assert_eq!(totals.drops(node.eject), Ok(4.0));
    assert_eq!(totals.errors(node.inject), Ok(6.0));
    // Some of the causes give a lower bound, and drops alone are not all errors.
    assert_eq!(bnxt(&counters[..1]).errors(node.eject), Ok(7.0));
    let drops = bnxt(&[("rx_stat_discard", 4), ("tx_stat_discard", 1)]);
    assert_eq!(
        drops.errors(node.eject),
        Err(hopbyte_fabric::Missing::Unread)
    );
    assert_eq!(drops.drops(node.eject), Ok(4.0));
}

#[test]
fn a_link_that_went_down_is_counted_in_both_directions() {
    let fabric = hopbyte_fabric::spec::fabric("torus:4x4").unwrap();
    let node = fabric.node(fabric.node_named("n0-0").unwrap());
    let totals = bnxt(&[("link_down_events", 20)]);
    let state = hopbyte_fabric::LinkState::of_totals(&fabric, &totals);
    for link in [node.eject, node.inject] {
        assert_eq!(state.downs.get(link), Some(20.0));
    }
}

#[test]
fn an_unknown_driver_leaves_the_other_nodes() {
    let hns3 = "n2: NIC statistics:\nn2:      mac_rx_total_oct_num: 5\nn2:      mac_tx_total_oct_num: 6\n\
        n2:      mac_rx_total_pkt_num: 7\nn2:      mac_rx_fcs_err_pkt_num: 1\n";
    let other = "n1: NIC statistics:\nn1:      queue_0_bytes: 7\n";
    let (found, said) = read(&format!("{other}{hns3}"), None).unwrap();
    assert_eq!((found.len(), &*found[0].layout.node), (1, "n2"));
    let of = values(&found[0]);
    for (name, value) in [
        ("rx_bytes", 5),
        ("tx_bytes", 6),
        ("rx_packets", 7),
        ("mac_rx_fcs_err_pkt_num", 1),
    ] {
        assert!(of.contains(&(name, Some(value))), "{name}: {of:?}");
    }
    assert!(
        said[0].starts_with("1 left out, interface whose driver")
            && said[0].ends_with("n1 ethtool"),
        "{said:?}"
    );
    assert!(
        read(other, None)
            .unwrap_err()
            .contains("mac_rx_total_oct_num")
    );
}

#[test]
fn the_lists_of_a_host_are_its_ports_in_order() {
    let fabric = hopbyte_fabric::spec::fabric("gpu-rails").unwrap();
    let lists = |n: u64| {
        let list = |i| of_node("h1", 100 + i).join("\n") + "\n";
        (0..n).map(list).collect::<String>()
    };
    let totals = joined(&lists(8), "", "gpu-rails").unwrap();
    for (place, bytes) in [("h1-r0", 100.0), ("h1-r7", 107.0)] {
        let eject = fabric.node(fabric.node_named(place).unwrap()).eject;
        assert_eq!(
            totals.get(Quantity::ReceivedBytes, eject),
            Some(bytes),
            "{place}"
        );
    }
    let said: Vec<String> = totals.left_out.sentences().collect();
    assert!(
        said[0].contains("is taken for its n-th port: h1 ethtool,"),
        "{said:?}"
    );
    let error = joined(&lists(3), "", "gpu-rails").unwrap_err();
    for words in ["--counters-of PLACE", "h1 ethtool (h1-r0 to h1-r7)"] {
        assert!(error.contains(words), "{error}");
    }
}
