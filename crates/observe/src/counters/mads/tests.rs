use super::*;
use crate::counters::join::PortMap;
use crate::counters::series;
use crate::text::Limits;
use hopbyte_fabric::{LinkId, Missing, Quantity as Q};

const SUBNET: &str = include_str!("../../../../../fuzz/seeds/ibnetdiscover/two-switches.txt");

fn text(content: &str) -> Text {
    Text::from_bytes("mads", content.as_bytes(), Limits::TEXT).unwrap()
}

fn fabric() -> hopbyte_fabric::Fabric {
    let companions = crate::fabric::Companions::default();
    let machine = crate::fabric::read_machine_text(&text(SUBNET), None, companions);
    machine.unwrap().fabric
}

/// A switch's port in the form of `ibqueryerrors`.
fn row(guid: u64, name: &str, port: u16, data: u64, wait: u64, extended: bool) -> String {
    let unicast = if extended {
        "[PortUnicastXmitPkts == 0 (0.000)]"
    } else {
        ""
    };
    format!(
        "Data Counters for 0x{guid:x} \"{name}\"\n   GUID 0x{guid:x} port ALL: [PortXmitWait == 9]\n   \
         GUID 0x{guid:x} port {port}: [PortXmitData == {data} (7.312KB)] [PortXmitWait == {wait}] {unicast}\n\
         \x20        Link info: 1 2[ ] ==( 4X 25 Gbps Active/ LinkUp)==> 0x1 1[ ] \"x\" ( )\n\
         ## Summary: 8 nodes checked, 0 bad nodes found\n"
    )
}

#[test]
fn words_and_ticks_of_a_switch_s_port_are_of_the_link_that_leaves() {
    let fabric = fabric();
    let router = fabric.find_router("leaf two").unwrap();
    let (guid, port) = (2, 4);
    let leaves = |l: &&LinkId| fabric.ports(**l).iter().any(|p| p.from == port);
    let link = *fabric.links_from(router).iter().find(leaves).unwrap();
    let capacity = fabric.link(link).capacity().0;
    // Data for one second, in words; half a second of ticks of eight bytes.
    let (words, ticks) = ((capacity / 4.0) as u64, (capacity / 16.0) as u64);
    let read = |ns, data, wait, name, extended| {
        let text = text(&row(guid, name, port, data, wait, extended));
        readings(&text, None, Moment::at_ns(ns), &mut LeftOut::default())
            .unwrap()
            .remove(0)
    };
    let state = |name, wide| {
        let two = vec![
            read(1_000_000_000, 5, 7, name, wide),
            read(3_000_000_000, 5 + words, 7 + ticks, name, wide),
        ];
        let series = series(&fabric, "t", two, &PortMap::new()).unwrap().all();
        series[0].state(&fabric)
    };
    let quantum = state("MF0;core:MQM8700/U1", true);
    assert_eq!(quantum.used_ratio.get(link), Some(0.5));
    let stall = quantum.credit_stall_ratio.get(link).unwrap();
    assert!((stall - 0.25).abs() < 1e-6, "{stall}");
    let other = state("ibsw01", true);
    assert_eq!(
        other.credit_stall_ratio.get(link),
        None,
        "ticks of unknown length"
    );
    assert_eq!(other.credit_stall_count.get(link), Some(ticks as f64));
    // The older counters saturate at 2^32-1.
    let top = 0xffff_ffff;
    let stuck = [read(1, top, top, "s", false), read(9, top, top, "s", false)];
    let stuck = &series(&fabric, "t", stuck.into(), &PortMap::new())
        .unwrap()
        .all()[0];
    assert_eq!(stuck.missing(Q::SentBytes, link), Some(Missing::Stuck));
    let said: Vec<String> = stuck.left_out.sentences().collect();
    let told = |s: &String| s.contains("until it is cleared") && s.contains("[4] port_xmit_wait");
    assert!(said.iter().any(told), "{said:?}");
}

/// A cable that was moved to a port which the machine's file has as free.
#[test]
fn traffic_at_a_port_without_a_link_is_told() {
    let fabric = fabric();
    let of = |data: [u64; 2]| {
        let rows = |at: usize| {
            let free = row(2, "leaf two", 7, data[at], 0, true);
            let known = row(2, "leaf two", 4, 5 + at as u64, 0, true);
            let rows = known.split("## Summary").next().unwrap().to_owned();
            rows + free
                .split_once("port ALL")
                .unwrap()
                .1
                .split_once('\n')
                .unwrap()
                .1
        };
        let read = |at: usize| {
            let moment = Moment::at_ns(1_000_000_000 * (1 + at as u64));
            let read = readings(&text(&rows(at)), None, moment, &mut LeftOut::default());
            read.unwrap().remove(0)
        };
        let two = vec![read(0), read(1)];
        let all = series(&fabric, "t", two, &PortMap::new()).unwrap().all();
        let said: Vec<String> = all[0].left_out.sentences().collect();
        said.join(" ")
    };
    let said = of([100, 900]);
    assert!(
        said.contains("1 left out, port that counts traffic"),
        "{said}"
    );
    assert!(said.contains("0x0000000000000002[7]"), "{said}");
    let earlier = of([100, 100]);
    assert!(!earlier.contains("counts traffic"), "{earlier}");
}

#[test]
fn errors_of_a_cable_are_those_of_both_switches() {
    let fabric = fabric();
    let row = |guid, port, received, discarded| {
        let mut text = format!("Data Counters for 0x{guid} \"s\"\n   GUID 0x{guid} port {port}:");
        for (name, _) in COUNTERS {
            let value = match name {
                "SymbolErrorCounter" => received,
                "PortXmitDiscards" => discarded,
                _ => 0,
            };
            text += &format!(" [{name} == {value}]");
        }
        text + "\n"
    };
    // Both orders: neither switch hides the other's.
    for (one, other) in [((2, 4), (1, 3)), ((1, 3), (2, 4))] {
        let rows = row(one.0, one.1, 40, 1) + &row(other.0, other.1, 500, 2);
        let read = readings(
            &text(&rows),
            None,
            Moment::default(),
            &mut LeftOut::default(),
        );
        let read = read.unwrap();
        let totals = &series(&fabric, "t", read, &PortMap::new()).unwrap().all()[0];
        let counted = |l: LinkId| totals.errors(l).ok();
        let mut errors: Vec<f64> = fabric.link_ids().filter_map(counted).collect();
        errors.sort_by(f64::total_cmp);
        assert_eq!(errors, [42.0, 501.0]);
    }
}

/// `ibqueryerrors` without options lists only what is above its thresholds.
#[test]
fn listed_errors_are_errors_though_others_are_not_listed() {
    let fabric = fabric();
    let of = |counters: &str| {
        let row = format!("Errors for 0x2 \"leaf two\"\n   GUID 0x2 port 4: {counters}\n");
        let read = readings(
            &text(&row),
            None,
            Moment::default(),
            &mut LeftOut::default(),
        );
        let totals = series(&fabric, "t", read.unwrap(), &PortMap::new()).unwrap();
        let totals = totals.all().remove(0);
        let errors = fabric.link_ids().find_map(|l| totals.errors(l).ok());
        let said = totals
            .left_out
            .counts()
            .any(|(why, _)| why.starts_with("error counter"));
        (errors, said)
    };
    assert_eq!(
        of("[SymbolErrorCounter == 5000] [PortXmitWait == 9]"),
        (Some(5000.0), true)
    );
    assert_eq!(
        of("[SymbolErrorCounter == 65535]"),
        (Some(65535.0), true),
        "at its highest"
    );
    assert_eq!(
        of("[SymbolErrorCounter == 123456]"),
        (Some(123_456.0), true),
        "64 bits"
    );
    assert_eq!(of("[PortXmitWait == 9]").0, None);
}

#[test]
fn perfquery_s_blocks_are_of_a_lid() {
    let block = "# Port extended counters: Lid 4 port 1 (CapMask: 0x1300)\nPortSelect:......................1\n\
                 CounterSelect:...................0x0000\nPortXmitData:....................61200\n\
                 PortMulticastRcvPkts:............0\n";
    let one = &readings(
        &text(block),
        Some("leaf0"),
        Moment::default(),
        &mut LeftOut::default(),
    )
    .unwrap()[0];
    assert_eq!(
        (one.layout.node.as_str(), one.get(0)),
        ("leaf0", Some(61200))
    );
    assert!(!one.layout.counters[0].behaviour.sticky);
    let fabric = fabric();
    let block = block
        .replace("Lid 4 port 1", "Lid 2 port 4")
        .replace(".1\n", ".4\n");
    let two = readings(
        &text(&block),
        None,
        Moment::default(),
        &mut LeftOut::default(),
    )
    .unwrap();
    assert_eq!(two[0].layout.node, "lid:2");
    let totals = &series(&fabric, "t", two, &PortMap::new()).unwrap().all()[0];
    let sent = fabric
        .link_ids()
        .find(|&l| totals.get(Q::SentBytes, l).is_some());
    let sent = fabric.link_name(sent.unwrap());
    assert_eq!(sent, "leaf two[4]");
    let nameless = block.replace("Lid 2", "DR path slid 0");
    let error = readings(
        &text(&nameless),
        None,
        Moment::default(),
        &mut LeftOut::default(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("ibqueryerrors"), "{error}");
}

#[test]
fn ports_without_a_link_and_details_of_errors() {
    let block = |kind: &str, port: u16, name: &str, value: u64| {
        format!(
            "# {kind} counters: Lid 2 port {port} (CapMask: 0x1300)\nPortSelect:......................{port}\nCounterSelect:...................0x0000\n{name}:.........{value}\nPortMulticastRcvPkts:....0\n"
        )
    };
    let all = [
        block("Port extended", 0, "PortXmitData", 9),
        block("Port extended", 255, "PortXmitData", 99),
        block("Port extended", 4, "PortXmitData", 5),
    ]
    .concat();
    let mut left_out = LeftOut::default();
    let read = readings(&text(&all), None, Moment::default(), &mut left_out).unwrap();
    assert_eq!(read[0].layout.ports.len(), 1);
    assert_eq!(left_out.counts().map(|(_, n)| n).sum::<usize>(), 2);
    let sum = block("Port extended", 255, "PortXmitData", 99);
    let error = readings(
        &text(&sum),
        None,
        Moment::default(),
        &mut LeftOut::default(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("perfquery -l"), "{error}");
    let details: String = DETAILS[..6]
        .iter()
        .map(|name| format!("{name}:....2\n"))
        .collect();
    let details = format!(
        "# PortRcvErrorDetails counters: Lid 2 port 4\nPortSelect:......................4\nCounterSelect:...................0x0000\n{details}"
    );
    let read = readings(
        &text(&details),
        None,
        Moment::default(),
        &mut LeftOut::default(),
    )
    .unwrap();
    let fabric = fabric();
    let totals = &series(&fabric, "t", read, &PortMap::new()).unwrap().all()[0];
    let errors: f64 = fabric
        .link_ids()
        .filter_map(|l| totals.get(Q::Errors, l))
        .sum();
    assert_eq!(errors, 12.0);
}

#[test]
fn a_part_number_gives_the_tick() {
    let rows = row(2, "ibsw01", 4, 5, 7, true);
    let mut read = readings(
        &text(&rows),
        None,
        Moment::default(),
        &mut LeftOut::default(),
    )
    .unwrap();
    set_ticks(&mut read, &BTreeMap::from([(2, "MSB7790-ES2F".to_owned())]));
    let wait = read[0]
        .layout
        .counters
        .iter()
        .find(|c| c.name == "port_xmit_wait")
        .unwrap();
    assert_eq!((wait.quantity, wait.factor), (Q::CreditStallBytes, 128.0));
}

/// Headings of adapters have no GUID; the tick of a switch above them is not theirs.
#[test]
fn an_adapter_behind_a_switch_has_no_tick() {
    let switch =
        "Errors for 0x2 \"MF0;s:MQM8700/U1\"\n   GUID 0x2 port 4: [PortXmitWait == 1010]\n";
    let adapter = "Errors for \"h1 HCA-1\"\n   GUID 0x11 port 1: [PortXmitWait == 90]\n";
    let end = "\n## Summary: 2 nodes checked, 2 bad nodes found\n";
    let waits = |content: &str, said: usize| {
        let mut left_out = LeftOut::default();
        let read = readings(&text(content), None, Moment::default(), &mut left_out).unwrap();
        assert_eq!(left_out.counts().count(), said, "{left_out:?}");
        let wait = |r: &Reading| {
            let wait = r
                .layout
                .counters
                .iter()
                .find(|c| c.name == "port_xmit_wait");
            (r.layout.node.clone(), wait.unwrap().quantity)
        };
        read.iter().map(wait).collect::<Vec<_>>()
    };
    let expected = [
        ("0x0000000000000002".to_owned(), Q::CreditStallBytes),
        ("0x0000000000000011".to_owned(), Q::CreditStallCount),
    ];
    assert_eq!(waits(&[switch, adapter, end].concat(), 0), expected);
    assert_eq!(waits(&[adapter, switch, end].concat(), 0), expected);
    // Adapters alone are recognised, and a report that was cut says so.
    let adapters = [adapter, end].concat();
    assert!(adapters.lines().any(|l| is_line(l.as_bytes())));
    assert_eq!(waits(&[switch, adapter].concat(), 1), expected);
}

#[test]
fn what_is_not_above_zero_is_zero() {
    let rows = row(2, "s", 4, 5, 7, true);
    let read = |zero| reading_of_all(&text(&rows), Moment::default(), zero).unwrap();
    let value = |reading: &Reading, name: &str| {
        let mut counters = reading.layout.counters.iter();
        reading.get(counters.position(|c| c.name == name).unwrap())
    };
    assert_eq!(value(&read(true), "port_xmit_wait"), Some(7));
    assert_eq!(value(&read(true), "symbol_error"), Some(0));
    assert_eq!(
        value(&read(true), "port_rcv_data"),
        None,
        "no error counter"
    );
    assert_eq!(value(&read(false), "symbol_error"), None);
}

#[test]
fn bad_rows_are_named() {
    for (bad, found) in [
        ("GUID 0x1 port x: [A == 1]", "mads:1: found GUID 0x1 port x"),
        ("GUID 0x0 port 1: [A == 1]", "mads:1: found GUID 0x0"),
        (
            "GUID 0x1 port 1: [PortXmitData == -1]",
            "mads:1: found GUID",
        ),
        ("GUID 0x1 port 1: [PortXmitData 1]", "mads:1: found GUID"),
        ("PortSelect:..99999", "mads:1: found 99999"),
        ("## Summary: 0 nodes", "mads: found no port"),
        ("PortSelect:..0", "mads: found the management port"),
    ] {
        let error =
            readings(&text(bad), None, Moment::default(), &mut LeftOut::default()).unwrap_err();
        assert!(error.to_string().starts_with(found), "{error}");
    }
}

/// A port with a state as `hopbyte-mads` prints it.
fn trained(state: u64, errors: u64) -> String {
    trained_at(2, ("leaf two", 4), (state, 2), errors)
}

fn trained_at(
    guid: u64,
    (name, port): (&str, u16),
    (state, width): (u64, u64),
    errors: u64,
) -> String {
    let mut row = row(guid, name, port, 5, 7, true);
    let codes = format!(
        " [SymbolErrorCounter == {errors}] [PortState == {state}] [LinkWidthActive == {width}] \
         [LinkSpeedActive == 4] [LinkSpeedExtActive == 2]\n"
    );
    let at = row.find("[PortUnicast").unwrap();
    let end = at + row[at..].find('\n').unwrap();
    row.replace_range(end..=end, &codes);
    row
}

#[test]
fn a_port_s_state_gives_its_rate_and_lanes() {
    let fabric = fabric();
    let link = fabric.find_link("leaf two[4]").unwrap();
    let of = |state| {
        let reading = reading_of_all(&text(&trained(state, 0)), Moment::default(), false);
        let totals = series(&fabric, "t", vec![reading.unwrap()], &PortMap::new()).unwrap();
        let totals = totals.all().remove(0);
        (totals.get(Q::Capacity, link), totals.get(Q::Lanes, link))
    };
    assert_eq!(of(4), (Some(12.5e9), Some(4.0)), "4x EDR");
    assert_eq!(of(1), (None, Some(0.0)), "down");
    let before = reading_of_all(&text(&trained(4, 0)), Moment::default(), false).unwrap();
    let after = reading_of_all(&text(&trained(1, 0)), Moment::default(), false).unwrap();
    assert_eq!(before.layout, after.layout);
}

/// One source has both ends of a cable between switches.
#[test]
fn the_state_of_a_cable_is_the_worse_of_its_ends() {
    let fabric = fabric();
    let [out, back] = ["leaf two[4]", "leaf one[3]"].map(|name| fabric.find_link(name).unwrap());
    let of = |widths: [u64; 2]| {
        let ends = [(1, ("leaf one", 3)), (2, ("leaf two", 4))];
        let texts = ends.iter().zip(widths);
        let both: String = texts
            .map(|(&(guid, port), width)| trained_at(guid, port, (4, width), 0))
            .collect();
        let reading = reading_of_all(&text(&both), Moment::default(), false).unwrap();
        let mut all = series(&fabric, "t", vec![reading], &PortMap::new())
            .unwrap()
            .all();
        let totals = all.remove(0);
        [Q::Lanes, Q::Capacity].map(|q| [out, back].map(|l| totals.get(q, l)))
    };
    assert_eq!(of([2, 2]), [[Some(4.0); 2], [Some(12.5e9); 2]]);
    // Width codes: 1 is one lane.
    assert_eq!(of([1, 2]), [[Some(1.0); 2], [Some(3.125e9); 2]]);
    assert_eq!(of([2, 1]), [[Some(1.0); 2], [Some(3.125e9); 2]]);
}

#[test]
fn errors_that_fill_their_counter_are_at_least_those() {
    let fabric = fabric();
    let grown = |before: u64, now: u64| {
        let read = |ns, errors| {
            reading_of_all(&text(&trained(4, errors)), Moment::at_ns(ns), false).unwrap()
        };
        let two = vec![read(1_000_000_000, before), read(11_000_000_000, now)];
        let mut all = series(&fabric, "t", two, &PortMap::new()).unwrap().all();
        let increase = all.remove(0);
        let errors: Vec<f64> = (fabric.link_ids())
            .filter_map(|l| increase.get(Q::Errors, l))
            .collect();
        let said: Vec<String> = increase.left_out.sentences().collect();
        // Not every counter of errors is in the file.
        assert_eq!(increase.at_least.len(), errors.len());
        (errors, said.join("\n"))
    };
    assert_eq!(grown(0, 65_534).0, [65_534.0]);
    let (errors, said) = grown(0, 65_535);
    assert_eq!(errors, [65_535.0]);
    assert!(
        said.contains("at its highest") && said.contains("symbol_error"),
        "{said}"
    );
    // Nothing is known of the errors after that: no zero, and the port is named.
    let (errors, said) = grown(65_535, 65_535);
    assert!(errors.is_empty(), "{errors:?}");
    assert!(said.contains("symbol_error"), "{said}");
}

#[test]
fn failures_of_a_link_are_said_and_no_errors() {
    let report = "Errors for 0x2 \"s\"\n   GUID 0x2 port 4: [LinkDownedCounter == 12] [LinkErrorRecoveryCounter == 2]\n\n\
        ## Summary: 1 nodes checked, 1 bad nodes found\n";
    let block = "# Port counters: Lid 1 port 4 (CapMask: 0x1)\nPortSelect:......4\nLinkErrorRecoveryCounter:.7\nPortXmitWait:..0\n";
    for (input, name) in [
        (report, "0x0000000000000002[4] LinkErrorRecoveryCounter"),
        (block, "lid:1[4] LinkErrorRecoveryCounter"),
    ] {
        let mut left_out = LeftOut::default();
        let read = readings(&text(input), None, Moment::default(), &mut left_out).unwrap();
        let errors = (read[0].layout.counters.iter().enumerate())
            .filter(|(i, c)| c.quantity == Q::Errors && read[0].get(*i) > Some(0));
        assert_eq!(errors.count(), 0);
        let downs = read[0]
            .layout
            .counters
            .iter()
            .position(|c| c.quantity == Q::Downs);
        let expected = input.starts_with("Errors").then_some(12);
        assert_eq!(read[0].get(downs.unwrap()), expected);
        let said: Vec<String> = left_out.sentences().collect();
        assert!(said.len() == 1 && said[0].contains(name), "{said:?}");
    }
}
