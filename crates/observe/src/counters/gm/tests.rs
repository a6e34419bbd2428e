use crate::counters::{Counted, CounterOptions, counter_series, counters};
use crate::text::{Limits, Text};
use hopbyte_fabric::{Direction, Fabric, Quantity, RouterId, spec};
use proptest::prelude::*;

fn text(content: &str) -> Text {
    Text::from_bytes("counters.txt", content.as_bytes(), Limits::TEXT).unwrap()
}

fn read(content: &str, fabric: &Fabric) -> Result<Counted, String> {
    counters(&text(content), fabric, &CounterOptions::default()).map_err(|e| e.to_string())
}

/// Paper 000, Fig. 4: the two Geminis, without the figure's scanning errors.
const FIGURE: &str = "\
# DEST_COORD
# SRC_COORD GB/s VC0_PHITS VC1_PHITS VC0_PKTS VC1_PKTS INQ_STALLS OUTQ_STALLS
(0,1,1)
X+ (1,1,1)   9.38  1626452284 304999266 101662806 101666422 3533598961 2689080952
X- (15,1,1)  9.38  100506 38796 9780 12932 83 0
Y+ (0,2,1)   4.69  1627257610 305156760 101726643 101718920 1702270109 0
Y- (0, 0, 1) 9.38  1153554135 216313236 72105559 72104412 1925883229 2366983378
Z+ (0,1,2)   15.00 815234359 152948952 50988260 50982984 133047991 776502961
Z- (0,1,0)   15.00 1743043 378399 156635 126133 580 992022669
HH (0,1,1)   10.40 1834489368 344019696 114672167 114673232 10585723107 2263990777
(0,0,1)
X+ (1,0,1)   9.38  1966685020 368797209 122929393 122932403 3317929506 3063532486
X- (15,0,1)  9.38  122194 43005 11983 14335 9 0
Y+ (0,1,1)   9.38  1154016206 216417552 72141025 72139184 3589170400 1097189607
Y- (0,11,1)  4.69  96911 20538 9646 6846 56244 0
Z+ (0,0,2)   15.00 2477453033 458007486 153779007 152669162 952487628 2209098748
Z- (0,0,0)   15.00 2071415 3684912 128723 1228304 464902 387186094
HH (0,0,1)   10.40 2174662127 407809092 135934105 135936364 10604254673 2216827070
";

#[test]
fn the_figure_is_filed_under_directed_links() {
    let fabric = spec::fabric("gemini:16x12x24").unwrap();
    let snapshot = read(FIGURE, &fabric).unwrap();
    assert_eq!((snapshot.matched, snapshot.unmatched), (14, 0));
    assert!(matches!(snapshot, Counted::Increase(_)));
    let at = |x, y, z| fabric.router_at(&[x, y, z]).unwrap();
    let leaving = |r: RouterId, d: &str| {
        fabric
            .link_towards(r, Direction::parse(d).unwrap())
            .unwrap()
    };
    let get = |q, l| snapshot.get(q, l);
    // Arrivals from X+ belong to the link that leaves (1,1,1) towards X-.
    let arrivals = leaving(at(1, 1, 1), "X-");
    assert_eq!(
        get(Quantity::ReceivedBytes, arrivals),
        Some(3.0 * (1_626_452_284.0 + 304_999_266.0))
    );
    assert_eq!(
        get(Quantity::ReceivedPackets, arrivals),
        Some(101_662_806.0 + 101_666_422.0)
    );
    // 3,533,598,961 cycles of 1.25 ns over eight tiles.
    assert_eq!(
        get(Quantity::InputStallNs, arrivals),
        Some(3_533_598_961.0 * 1.25 / 8.0)
    );
    // Departure stalls belong to the link that leaves (0,1,1) towards X+.
    let departures = leaving(at(0, 1, 1), "X+");
    assert_eq!(
        get(Quantity::CreditStallNs, departures),
        Some(2_689_080_952.0 * 1.25 / 8.0)
    );
    // The figure has neither the arrivals of (1,1,1) nor its departure stalls towards X-.
    assert_eq!(get(Quantity::ReceivedBytes, departures), None);
    assert_eq!(get(Quantity::CreditStallNs, arrivals), None);
    // Between the two Geminis both ends are known: Y- of (0,1,1) ends at (0,0,1), whose Y+ line counts
    // the arrivals; four tiles.
    let down = leaving(at(0, 1, 1), "Y-");
    assert_eq!(
        get(Quantity::ReceivedBytes, down),
        Some(3.0 * (1_154_016_206.0 + 216_417_552.0))
    );
    assert_eq!(
        get(Quantity::CreditStallNs, down),
        Some(2_366_983_378.0 * 1.25 / 4.0)
    );
    // Host link: arrivals are the hosts' injection, credit stalls are towards the hosts.
    let node = fabric.node(fabric.nodes_on(at(0, 1, 1))[0]);
    assert_eq!(
        get(Quantity::ReceivedBytes, node.inject),
        Some(3.0 * (1_834_489_368.0 + 344_019_696.0))
    );
    assert_eq!(
        get(Quantity::CreditStallNs, node.eject),
        Some(2_263_990_777.0 * 1.25 / 8.0)
    );
    let state = snapshot.state(&fabric);
    assert_eq!(state.coverage[down.index()], 1.0);
    assert_eq!(state.coverage[departures.index()], 0.25);
    assert_eq!(state.used_ratio.known(), 0, "no interval, no ratio");
}

#[test]
fn with_an_interval_there_are_ratios() {
    let fabric = spec::fabric("gemini:16x12x24").unwrap();
    let options = CounterOptions {
        interval_seconds: Some(2.0),
        ..CounterOptions::default()
    };
    let block = "(0,0,0)\nZ+ (0,0,1) 15.00 5000000000 5000000000 1 1 1600000000 3200000000\n";
    let snapshot = counters(&text(block), &fabric, &options).unwrap();
    let state = snapshot.state(&fabric);
    let out = fabric.find_link("c0-0c0s0g0 Z+").unwrap();
    let back = fabric.reverse(out).unwrap();
    // 30 GB in 2 s over 15 GB/s; 2 s of stall over 8 tiles in 2 s; 4 s likewise.
    assert_eq!(state.used_ratio.get(back), Some(1.0));
    assert_eq!(state.input_stall_ratio.get(back), Some(0.125));
    assert_eq!(state.credit_stall_ratio.get(out), Some(0.25));
}

#[test]
fn a_coordinate_that_comes_again_begins_the_next_sample() {
    let fabric = spec::fabric("gemini:2x2x8").unwrap();
    let block = |n: u64| {
        format!("(0,0,0)\nZ+ (0,0,1) 15.00 {n} 0 1 0 8 0\n(0,0,1)\nHH (0,0,1) 10.4 {n} 0 1 0 0 0\n")
    };
    let content = block(100) + &block(50);
    let series = counter_series(&[text(&content)], &fabric, &CounterOptions::default())
        .unwrap()
        .all();
    let back = fabric
        .reverse(fabric.find_link("c0-0c0s0g0 Z+").unwrap())
        .unwrap();
    let bytes: Vec<_> = series
        .iter()
        .map(|s| s.get(Quantity::ReceivedBytes, back))
        .collect();
    assert_eq!(bytes, [Some(300.0), Some(150.0)]);
    let sum = read(&content, &fabric).unwrap();
    assert_eq!(sum.get(Quantity::ReceivedBytes, back), Some(450.0));
    assert_eq!(sum.get(Quantity::InputStallNs, back), Some(2.5));
    assert_eq!(sum.matched, 4);
}

#[test]
fn rows_of_another_machine_are_counted_or_refused() {
    let fabric = spec::fabric("gemini:2x2x8").unwrap();
    let some = "(0,0,0)\nZ+ (0,0,1) 15.00 1 0 1 0 8 0\nZ- (0,0,23) 15.00 1 0 1 0 8 0\n(9,9,9)\nHH (9,9,9) 1 1 1 1 1 1 1\n";
    let snapshot = read(some, &fabric).unwrap();
    assert_eq!((snapshot.matched, snapshot.unmatched), (1, 2));
    let error = read(FIGURE, &spec::fabric("torus:16x12").unwrap()).unwrap_err();
    assert!(error.contains("14 rows, none of which"), "{error}");
}

#[test]
fn bad_lines_are_named() {
    let fabric = spec::fabric("gemini:2x2x8").unwrap();
    let good = "(0,0,0)\nZ+ (0,0,1) 15.00 1 0 1 0 8 0\n";
    for (bad, line, found) in [
        ("(0,0,0)\nZ+ (0,0,1) 15.00 1 0 1 0 8\n", 2, "Z+ (0,0,1)"),
        ("(0,0,0)\nZ+ (0,0,1) 15.00 1 0 1 0 8 0 0\n", 2, "Z+"),
        ("(0,0,0)\nZ+ (0,0,1) 15.00 1 0 1 0 8 -1\n", 2, "-1"),
        ("(0,0,0)\nZ+ (0,0,1) nan 1 0 1 0 8 1\n", 2, "Z+"),
        (
            "(0,0,0)\nZ+ (0,0,1) 15 1 0 1 0 8 99999999999999999999\n",
            2,
            "99999999999999999999",
        ),
        ("(0,0,0)\nQ+ (0,0,1) 15 1 0 1 0 8 9\n", 2, "Q+"),
        ("(0,0,0)\nZ+ (0,0,1,1) 15 1 0 1 0 8 9\n", 2, "Z+"),
        ("(0,0,0)\n\u{fffd}\n", 2, ""),
        ("(0,0,0) x\n", 1, "(0,0,0) x"),
        ("(0,0,0)\n(0,0,1) x\n", 2, "x"),
        ("hello\n(0,0,0)\n", 1, ""),
        ("", 0, "nothing"),
        (
            "(0,0,0)\nZ+ (0,0,1) 15.00 1 0 1 0 8 0\nZ+ (0,0,1) 15.00 1 0 1 0 8 0\n",
            3,
            "Z+",
        ),
    ] {
        let Err(error) = read(bad, &fabric) else {
            // Only recognition skips a line before the first block that is not a comment.
            panic!("{bad:?} was read")
        };
        assert!(
            error.contains(found) && error.contains("expected"),
            "{bad:?}: {error}"
        );
        if line > 0 {
            assert!(
                error.starts_with(&format!("counters.txt:{line}: ")),
                "{bad:?}: {error}"
            );
        }
    }
    assert!(read(good, &fabric).is_ok());
}

proptest! {
    /// Every router prints its seven links; every link gets exactly the values of its two ends.
    #[test]
    fn all_links_of_a_machine_get_their_counts(seed: u64) {
        let fabric = spec::fabric("gemini:3x2x8").unwrap();
        let number = |r: RouterId, line: u64, column: u64| {
            let mut x = seed ^ (u64::from(r.0) << 20) ^ (line << 10) ^ column;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (x ^ (x >> 27)) % (1 << 40)
        };
        let mut out = String::new();
        for r in fabric.router_ids() {
            let c = fabric.coord(r).unwrap();
            out += &format!("({},{},{})\n", c[0], c[1], c[2]);
            for index in 0..7u64 {
                let direction = (index < 6).then(|| Direction::of(index as usize));
                let (name, far) = match direction {
                    Some(d) => {
                        let link = fabric.link_towards(r, d).unwrap();
                        let hopbyte_fabric::End::Router(far) = fabric.link(link).to else { panic!() };
                        (d.to_string(), far)
                    }
                    None => ("HH".into(), r),
                };
                let f = fabric.coord(far).unwrap();
                out += &format!("{name} ({},{},{}) 1.0", f[0], f[1], f[2]);
                for column in 0..6 {
                    out += &format!(" {}", number(r, index, column));
                }
                out += "\n";
            }
        }
        let snapshot = read(&out, &fabric).unwrap();
        prop_assert_eq!(snapshot.matched, 7 * fabric.routers().len());
        for id in fabric.link_ids() {
            let link = fabric.link(id);
            use hopbyte_fabric::End::{Hosts, Router};
            // The link's line of the receiving router and of the sending router.
            let (receiver, sender) = match (link.from, link.to, link.direction) {
                (Router(a), Router(b), Some(d)) => {
                    (Some((b, d.opposite().index() as u64)), Some((a, d.index() as u64)))
                }
                (Hosts(_), Router(b), _) => (Some((b, 6)), None),
                (Router(a), Hosts(_), _) => (None, Some((a, 6))),
                _ => panic!(),
            };
            let bytes = receiver.map(|(r, l)| 3.0 * (number(r, l, 0) + number(r, l, 1)) as f64);
            prop_assert_eq!(snapshot.get(Quantity::ReceivedBytes, id), bytes);
            let tiles = if link.direction.is_some() { f64::from(link.lanes) / 3.0 } else { 8.0 };
            let stall = sender.map(|(r, l)| number(r, l, 5) as f64 * 1.25 / tiles);
            prop_assert_eq!(snapshot.get(Quantity::CreditStallNs, id), stall);
        }
    }
}
