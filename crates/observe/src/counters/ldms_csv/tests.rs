use super::*;
use crate::counters::join::PortMap;
use crate::counters::series;
use crate::text::Limits;
use hopbyte_fabric::{Missing, Quantity, spec};

fn text(content: &str) -> Text {
    Text::from_bytes("ldms.csv", content.as_bytes(), Limits::TEXT).unwrap()
}

#[test]
fn producers_are_told_apart_and_their_intervals_kept() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let content = "#Time,Time_usec,ProducerName,component_id,X+_traffic (B),Z+_credit_stall (ns),X+_sendlinkstatus (1),loadavg\n\
        10.001,1000,nid00000,1,1000,800,24,7\n\
        10.002,2000,nid00010,1,500,0,24,7\n\
        11.001,1000,nid00000,1,4000,1600,24,7\n\
        11.502,2000,nid00010,1,1100,,24,7\n\
        12.001,1000,nid00000,1,4000,900,24,7\n";
    let readings = readings(&text(content), &mut LeftOut::default()).unwrap();
    assert_eq!(readings.len(), 5);
    let series = series(&fabric, "f", readings, &PortMap::new())
        .unwrap()
        .all();
    assert_eq!(series.len(), 2);
    let at = |nid: &str, d: &str| {
        let router = fabric.node(fabric.find_node(nid).unwrap()).router;
        let d = hopbyte_fabric::Direction::parse(d).unwrap();
        fabric.link_towards(router, d).unwrap()
    };
    let x = fabric.reverse(at("nid00000", "X+")).unwrap();
    let y = fabric.reverse(at("nid00010", "X+")).unwrap();
    let z = at("nid00000", "Z+");
    assert_eq!(series[0].get(Quantity::ReceivedBytes, x), Some(3000.0));
    assert_eq!(series[0].get(Quantity::ReceivedBytes, y), Some(600.0));
    let state = series[0].state(&fabric);
    assert_eq!(state.used_ratio.get(y), Some(600.0 / (1.5 * 9.375e9)));
    // 800 ns over eight tiles in a second.
    let stall = state.credit_stall_ratio.get(z).unwrap();
    assert!((stall - 100e-9).abs() < 1e-20);
    assert_eq!(
        series[0].missing(Quantity::CreditStallNs, at("nid00010", "Z+")),
        Some(Missing::Unread)
    );
    // Back by 700 in a second: a reset.
    assert_eq!(
        series[1].missing(Quantity::CreditStallNs, z),
        Some(Missing::Reset)
    );
    assert_eq!(series[1].get(Quantity::ReceivedBytes, x), Some(0.0));
}

#[test]
fn components_of_version_2_are_nids() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    for header in [
        "#Time, Time_usec, CompId, X+_traffic (B), loadavg",
        "#Time, Time_usec, X+_traffic (B).CompId, X+_traffic (B).value, loadavg",
    ] {
        let content = format!("{header}\n10.001, 1000, 62, 1000, 7\n11.001, 1000, 62, 4000, 7\n");
        let readings = readings(&text(&content), &mut LeftOut::default()).unwrap();
        let series = series(&fabric, "f", readings, &PortMap::new())
            .unwrap()
            .all();
        assert_eq!((series.len(), series[0].matched), (1, 1), "{header}");
    }
}

#[test]
fn rows_of_blue_waters_name_their_router_with_and_without_a_header() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let row = |time: u32, used: u32, at: [u32; 3]| {
        let mut cells = vec![time.to_string()];
        cells.extend((0..18).map(|i| if i == 17 { used } else { 0 }.to_string()));
        cells.extend(at.map(|c| c.to_string()));
        cells.join(",") + "\n"
    };
    // Z, Y, X; both nodes of the router report it.
    let rows = row(1_483_250_400, 25_000_000, [7, 3, 2]).repeat(2);
    let with = format!("{}\n{rows}", released_header().replace(',', ", "));
    for content in [&rows, &with] {
        let mut left_out = LeftOut::default();
        let readings = readings(&text(content), &mut left_out).unwrap();
        assert_eq!((readings.len(), left_out.counts().count()), (1, 1));
        let series = series(&fabric, "f", readings, &PortMap::new())
            .unwrap()
            .all();
        let router = fabric.router_at(&[2, 3, 7]).unwrap();
        let x = hopbyte_fabric::Direction::parse("X+").unwrap();
        let link = fabric
            .reverse(fabric.link_towards(router, x).unwrap())
            .unwrap();
        assert_eq!(series[0].get(Quantity::UsedRatio, link), Some(0.25));
    }
    let mut left_out = LeftOut::default();
    assert!(
        readings(&text(&(released_header() + "\n")), &mut left_out)
            .unwrap()
            .is_empty()
    );
    assert!(left_out.counts().any(|(why, _)| why == NO_ROWS));
    assert!(!is_released(row(5, 0, [0, 0, 0]).as_bytes()), "1970");
    assert!(!is_released(row(1_483_250_400, 0, [0, 0, 5000]).as_bytes()));
}

#[test]
fn a_row_that_was_stored_twice_counts_once() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let content = "#Time,Time_usec,ProducerName,X+_traffic (B)\n10.0,0,nid00000,1000\n\
        11.0,0,nid00000,3000\n11.0,0,nid00000,3000\n12.0,0,nid00000,7000\n";
    let mut left_out = LeftOut::default();
    let readings = readings(&text(content), &mut left_out).unwrap();
    assert_eq!(readings.len(), 3);
    let said: Vec<String> = left_out.sentences().collect();
    assert!(said[0].contains("same node and time"), "{said:?}");
    let series = series(&fabric, "f", readings, &PortMap::new());
    let windows = series.unwrap().all();
    let windows: Vec<_> = windows
        .iter()
        .map(crate::counters::series::Counted::window_seconds)
        .collect();
    assert_eq!(windows, [Some(1.0), Some(1.0)]);
}

/// The counters went on counting while the clock was set back.
#[test]
fn a_clock_that_goes_back_is_told() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let content = "#Time,Time_usec,ProducerName,X+_traffic (B)\n10.0,0,nid00000,1000\n\
        12.0,0,nid00000,3000\n11.0,0,nid00000,5000\n13.0,0,nid00000,7000\n";
    let mut left_out = LeftOut::default();
    let readings = readings(&text(content), &mut left_out).unwrap();
    let said: Vec<String> = left_out.sentences().collect();
    assert!(
        said[0].contains("earlier time") && said[0].ends_with("nid00000, line 4"),
        "{said:?}"
    );
    let all = series(&fabric, "f", readings, &PortMap::new())
        .unwrap()
        .all();
    let column = |s: &crate::counters::series::Counted| s.column(Quantity::ReceivedBytes).is_some();
    assert_eq!(all.iter().filter(|s| column(s)).count(), 2);
}

#[test]
fn times_in_both_formats() {
    assert_eq!(
        time_ns(b"1558387831.001798", Some((b"1798", 1000))),
        Some(1_558_387_831_001_798_000)
    );
    assert_eq!(
        time_ns(b"1558387831", Some((b"17", 1_000_000))),
        Some(1_558_387_831_017_000_000)
    );
    assert_eq!(time_ns(b"1558387831", Some((b"x", 1000))), None);
    for bad in [
        &b"x"[..],
        b"",
        b"1.x",
        b"-1",
        b"1.0000000000",
        b"99999999999999",
    ] {
        assert_eq!(time_ns(bad, None), None);
    }
}

#[test]
fn the_header_names_the_unit_of_the_fraction() {
    let seconds = |header: &str, fractions: [u32; 2]| {
        let mut content = format!("#Time,{header},ProducerName,rx_bytes#eth0\n");
        for (second, fraction) in (10..).zip(fractions) {
            content += &format!("{second},{fraction},a,1\n");
        }
        let readings = readings(&text(&content), &mut LeftOut::default()).unwrap();
        let of = readings[0].moment.seconds_to(readings[1].moment);
        of.unwrap().unwrap()
    };
    // 900 us, then 1100 us: both of one unit.
    assert_eq!(seconds("Time_usec", [900, 1100]), 1.0002);
    assert_eq!(seconds("Time_usec", [0, 17]), 1.000_017);
    assert_eq!(seconds("Time_msec", [0, 17]), 1.017);
    // Without a unit, the largest value of the file decides for all rows.
    assert_eq!(seconds("Time_fraction", [900, 1100]), 1.0002);
    assert_eq!(seconds("Time_fraction", [0, 17]), 1.017);
}

#[test]
fn bad_files_are_named() {
    for (content, found) in [
        (
            "#Time,Time_usec,ProducerName,loadavg\n1,1,a,1\n",
            "ldms.csv:1: found #Time",
        ),
        (
            "#Time,Time_usec,ProducerName,rx_bytes#lo\n1,1,a\n",
            "ldms.csv:2: found 3 cells",
        ),
        (
            "#Time,Time_usec,ProducerName,rx_bytes#lo\nx,1,a,1\n",
            "ldms.csv:2: found x",
        ),
        (
            "#Time,Time_usec,ProducerName,rx_bytes#lo,rx_bytes#lo\n1,1,a,1,2\n",
            "ldms.csv:1: found rx_bytes#lo, expected every metric once in the header",
        ),
        (
            "#Time,Time_usec,ProducerName,rx_bytes#lo\n3,1,a,30\n3,1,b,30\n2,1,a,20\n2,1,b,20\n",
            "ldms.csv:4: found 2,1,a,20, expected rows in the order of time",
        ),
        (
            "#Time,Time_usec,ProducerName,rx_bytes#lo\n1,1,a,1.5\n",
            "ldms.csv:2: found 1.5",
        ),
    ] {
        let error = readings(&text(content), &mut LeftOut::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(found) && error.contains("expected"),
            "{error}"
        );
    }
}

/// Lists of records that a store wrote flat: counters of `procnetdev2` and `slingshot_metrics`.
#[test]
fn rows_of_records_name_their_interface() {
    for (header, name) in [
        ("rx_bytes,tx_bytes,speed", "eth0"),
        (
            "hni_sts_rx_ok_octets,hni_sts_tx_ok_octets,hni_tx_paused_0",
            "cxi1",
        ),
    ] {
        let content = format!(
            "#Time,Time_usec,ProducerName,component_id,name,{header}\n10.0,0,n1,1,{name},1000,2000,5\n\
             10.0,0,n1,1,lo,1,1,0\n11.0,0,n1,1,{name},4000,9000,5\n11.0,0,n1,1,lo,2,2,0\n"
        );
        let mut left_out = LeftOut::default();
        let found = readings(&text(&content), &mut left_out).unwrap();
        let seen: Vec<_> = found
            .iter()
            .map(|r| (r.layout.ports[0].to_string(), r.get(0), r.get(1)))
            .collect();
        let row = |name: &str, received, sent| (name.to_owned(), Some(received), Some(sent));
        let expected = [
            row(name, 1000, 2000),
            row("lo", 1, 1),
            row(name, 4000, 9000),
            row("lo", 2, 2),
        ];
        assert_eq!(seen, expected);
        assert_eq!(found[2].layout.source, format!("ldms {name}"));
        let said: Vec<_> = left_out.sentences().collect();
        let last = header.rsplit(',').next().unwrap();
        let unused = format!("1 left out, column that belongs to no link: {last}");
        assert_eq!(said, [unused]);
    }
}
