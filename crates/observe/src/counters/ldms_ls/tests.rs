use super::*;
use crate::counters::{Counted, CounterOptions, counter_series, counters};
use crate::text::Limits;
use hopbyte_fabric::{Direction, Fabric, LinkId, LinkState, Missing, Quantity as Q, spec};

fn text(content: &str) -> Text {
    Text::from_bytes("ldms.txt", content.as_bytes(), Limits::TEXT).unwrap()
}

fn read(content: &str, fabric: &Fabric) -> Result<Counted, String> {
    counters(&text(content), fabric, &CounterOptions::default()).map_err(|e| e.to_string())
}

const DIRECTIONS: [&str; 6] = ["X+", "X-", "Y+", "Y-", "Z+", "Z-"];

/// Counter values of one reading, by direction in the order of [`DIRECTIONS`].
struct NodeText {
    second: u32,
    traffic: [u64; 6],
    inq: [u64; 6],
    credit: [u64; 6],
    lanes: [u64; 6],
}

impl NodeText {
    fn print(&self, coordinate: [u32; 3]) -> String {
        let [x, y, z] = coordinate;
        let mut out = format!(
            "nid00000/r: consistent, last update: Wed Jan 14 15:08:{:02} 2015 [0us]\n\
             U64 {x} nettopo_mesh_coord_X\nU64 {y} nettopo_mesh_coord_Y\nU64 {z} nettopo_mesh_coord_Z\n",
            self.second
        );
        for (i, d) in DIRECTIONS.iter().enumerate() {
            out += &format!("U64 {} {d}_traffic (B)\n", self.traffic[i]);
            out += &format!("U64 {} {d}_packets (1)\n", self.traffic[i] / 32);
            out += &format!("U64 {} {d}_inq_stall (ns)\n", self.inq[i]);
            out += &format!("U64 {} {d}_credit_stall (ns)\n", self.credit[i]);
            out += &format!("U64 {} {d}_sendlinkstatus (1)\n", self.lanes[i]);
            out += &format!("U64 {} {d}_recvlinkstatus (1)\n", self.lanes[i]);
        }
        out
    }
}

/// The vectors of LDMS's own derived metrics: one second, 4,687,500,000 B in every direction, input
/// stalls of a quarter and credit stalls of half the time on each tile.
fn vectors(tiles: [u64; 6], lanes: [u64; 6]) -> [NodeText; 2] {
    let start = NodeText {
        second: 10,
        traffic: [1_000_000; 6],
        inq: [500; 6],
        credit: [700; 6],
        lanes,
    };
    let end = NodeText {
        second: 11,
        traffic: start.traffic.map(|t| t + 4_687_500_000),
        inq: std::array::from_fn(|d| start.inq[d] + tiles[d] * 250_000_000),
        credit: std::array::from_fn(|d| start.credit[d] + tiles[d] * 500_000_000),
        lanes,
    };
    [start, end]
}

const TILES: [u64; 6] = [8, 8, 4, 4, 8, 8];
const LANES: [u64; 6] = [24, 24, 12, 12, 24, 24];

/// Links of a router's directions: (arriving, leaving).
fn links(fabric: &Fabric, at: [u32; 3]) -> Vec<(LinkId, LinkId)> {
    let router = fabric.router_at(&at).unwrap();
    DIRECTIONS
        .iter()
        .map(|d| {
            let out = fabric
                .link_towards(router, Direction::parse(d).unwrap())
                .unwrap();
            (fabric.reverse(out).unwrap(), out)
        })
        .collect()
}

fn state(fabric: &Fabric, at: [u32; 3], readings: &[NodeText]) -> (Counted, LinkState) {
    let content: String = readings.iter().map(|r| r.print(at)).collect();
    let snapshot = read(&content, fabric).unwrap();
    let state = snapshot.state(fabric);
    (snapshot, state)
}

#[test]
fn the_published_vectors_are_reproduced_exactly() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    // y = 2: Y+ is a mezzanine link, Y- a cable; z = 3: both Z links are backplane.
    let at = [1, 2, 3];
    let (snapshot, state) = state(&fabric, at, &vectors(TILES, LANES));
    assert!(matches!(snapshot, Counted::Increase(_)));
    assert_eq!(snapshot.window_seconds(), Some(1.0));
    assert_eq!((snapshot.matched, snapshot.unmatched), (6, 0));
    let used = [0.5, 0.5, 0.5, 1.0, 0.3125, 0.3125];
    for (d, (arrives, leaves)) in links(&fabric, at).into_iter().enumerate() {
        assert_eq!(
            state.used_ratio.get(arrives),
            Some(used[d]),
            "{}",
            DIRECTIONS[d]
        );
        assert_eq!(state.input_stall_ratio.get(arrives), Some(0.25));
        assert_eq!(state.credit_stall_ratio.get(leaves), Some(0.5));
        assert_eq!(
            state.credit_stall_ratio.get(arrives),
            None,
            "the neighbour's to say"
        );
        assert_eq!(state.packet_bytes(arrives), Some(32.0));
        assert_eq!(state.lanes.get(arrives), Some(LANES[d] as f64));
    }
}

#[test]
fn a_counter_that_crosses_its_end_counts_on() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let mut readings = vectors(TILES, LANES);
    readings[0].credit = [u64::MAX - 999; 6];
    readings[1].credit = TILES.map(|tiles| tiles * 500_000_000 - 1000);
    let (_, state) = state(&fabric, [1, 2, 3], &readings);
    for (_, leaves) in links(&fabric, [1, 2, 3]) {
        assert_eq!(state.credit_stall_ratio.get(leaves), Some(0.5));
    }
}

#[test]
fn a_reset_is_not_a_number() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let mut readings = vectors(TILES, LANES);
    readings[0].traffic = [5_443_101_840_963; 6];
    readings[0].inq = [2_918_109_228_198; 6];
    let (snapshot, state) = state(&fabric, [1, 2, 3], &readings);
    for (arrives, leaves) in links(&fabric, [1, 2, 3]) {
        assert_eq!(state.received_bytes.get(arrives), None);
        assert_eq!(state.used_ratio.get(arrives), None);
        assert_eq!(state.input_stall_ratio.get(arrives), None);
        assert_eq!(
            snapshot.missing(Q::ReceivedBytes, arrives),
            Some(Missing::Reset)
        );
        assert_eq!(
            state.credit_stall_ratio.get(leaves),
            Some(0.5),
            "this one went on"
        );
    }
}

#[test]
fn a_lane_that_is_out_takes_its_part_of_the_capacity() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let lanes = [23, 24, 12, 11, 24, 24];
    let (_, state) = state(&fabric, [1, 2, 3], &vectors(TILES, lanes));
    let links = links(&fabric, [1, 2, 3]);
    let used = |d: usize| state.used_ratio.get(links[d].0).unwrap();
    assert!((used(0) - 0.5 * 24.0 / 23.0).abs() < 1e-15);
    assert!((used(3) - 12.0 / 11.0).abs() < 1e-15);
    assert_eq!(used(1), 0.5);
}

#[test]
fn a_link_that_is_down_has_no_figures() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let (snapshot, state) = state(&fabric, [1, 2, 3], &vectors(TILES, [0, 24, 12, 12, 24, 24]));
    let (arrives, leaves) = links(&fabric, [1, 2, 3])[0];
    assert_eq!(state.used_ratio.get(arrives), None);
    assert_eq!(state.received_bytes.get(arrives), None);
    assert_eq!(state.credit_stall_ratio.get(leaves), None);
    assert_eq!(
        snapshot.missing(Q::ReceivedBytes, arrives),
        Some(Missing::Down)
    );
    assert_eq!(
        snapshot.missing(Q::CreditStallNs, leaves),
        Some(Missing::Down)
    );
}

#[test]
fn no_time_between_readings_is_no_idle_link() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let mut readings = vectors(TILES, LANES);
    readings[1].second = 10;
    let (snapshot, state) = state(&fabric, [1, 2, 3], &readings);
    assert_eq!(state.window_seconds, None);
    let (arrives, leaves) = links(&fabric, [1, 2, 3])[0];
    assert_eq!(state.used_ratio.get(arrives), None);
    assert_eq!(
        snapshot.missing(Q::ReceivedBytes, arrives),
        Some(Missing::ZeroInterval)
    );
    assert_eq!(
        snapshot.missing(Q::CreditStallNs, leaves),
        Some(Missing::ZeroInterval)
    );
}

#[test]
fn a_dimension_of_two_is_one_record_for_two_links() {
    // Paper 003's machine: 2x2x8, 48 lanes under X+ and none under X-; Y likewise, 24 lanes.
    let fabric = spec::fabric("gemini:2x2x8").unwrap();
    let (tiles, lanes) = ([16, 0, 8, 0, 8, 8], [48, 0, 24, 0, 24, 24]);
    let mut readings = vectors(tiles, lanes);
    for r in &mut readings {
        for d in [1, 3] {
            (r.traffic[d], r.inq[d], r.credit[d]) = (0, 0, 0);
        }
    }
    let (snapshot, state) = state(&fabric, [1, 1, 7], &readings);
    assert_eq!((snapshot.matched, snapshot.unmatched), (4, 0));
    let links = links(&fabric, [1, 1, 7]);
    for (d, (arrives, leaves)) in links.iter().enumerate() {
        // X: 4.6875 GB over 18.75 GB/s; Y: over mezzanine 9.375 and cable 4.6875 together.
        let used = [0.25, 0.25, 1.0 / 3.0, 1.0 / 3.0, 0.5, 0.3125][d];
        let ours = state.used_ratio.get(*arrives).unwrap();
        assert!((ours - used).abs() < 1e-15, "{}: {ours}", DIRECTIONS[d]);
        assert_eq!(state.input_stall_ratio.get(*arrives), Some(0.25));
        assert_eq!(state.credit_stall_ratio.get(*leaves), Some(0.5));
        assert_eq!(
            state.lanes.get(*arrives),
            Some([24., 24., 12., 12., 24., 24.][d])
        );
    }
    let x: f64 = (0..2)
        .filter_map(|d| state.received_bytes.get(links[d].0))
        .sum();
    assert_eq!(x, 4_687_500_000.0, "no byte is counted twice");
    // The same machine with both directions reported separately: 24 lanes each, nothing is folded.
    let mut apart = vectors(TILES, LANES);
    apart[0].traffic[1] = 0;
    apart[1].traffic[1] = 0;
    let (_, state) = self::state(&fabric, [1, 1, 7], &apart);
    assert_eq!(state.used_ratio.get(links[0].0), Some(0.5));
    assert_eq!(state.used_ratio.get(links[1].0), Some(0.0));
}

#[test]
fn two_nodes_of_a_router_tell_the_same_once() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let [first, _] = vectors(TILES, LANES);
    let one = first.print([1, 2, 3]);
    let two = one.replace("nid00000/r", "nid00001/r");
    let (alone, both) = (
        read(&one, &fabric).unwrap(),
        read(&(one.clone() + &two), &fabric).unwrap(),
    );
    assert!(matches!(both, Counted::Totals(_)));
    assert_eq!(
        alone.column(Q::ReceivedBytes),
        both.column(Q::ReceivedBytes)
    );
}

#[test]
fn series_and_sets_that_are_not_consistent() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let [a, b] = vectors(TILES, LANES);
    let c = NodeText {
        second: 13,
        traffic: b.traffic.map(|t| t + 200),
        ..vectors(TILES, LANES)[1]
    };
    let content = a.print([1, 2, 3]) + &b.print([1, 2, 3]) + &c.print([1, 2, 3]);
    let series = counter_series(&[text(&content)], &fabric, &CounterOptions::default())
        .unwrap()
        .all();
    let (arrives, _) = links(&fabric, [1, 2, 3])[0];
    let seen: Vec<_> = series
        .iter()
        .map(|s| (s.window_seconds(), s.get(Q::ReceivedBytes, arrives)))
        .collect();
    assert_eq!(
        seen,
        [(Some(1.0), Some(4_687_500_000.0)), (Some(2.0), Some(200.0))]
    );
    // A set printed during an update has no values, and the interval over it is unknown.
    let torn = a.print([1, 2, 3]) + &b.print([1, 2, 3]).replace("consistent", "inconsistent");
    let s = read(&torn, &fabric).unwrap();
    assert_eq!(s.missing(Q::ReceivedBytes, arrives), Some(Missing::Unread));
}

#[test]
fn printed_percentages_take_the_scale_of_their_unit() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let head = vectors(TILES, LANES)[0].print([1, 2, 3]);
    let (arrives, leaves) = links(&fabric, [1, 2, 3])[0];
    for (unit, value) in [("(%)", 61), ("(% x1e6)", 61_000_000), ("", 0)] {
        let line = if unit.is_empty() {
            "U64 61 X+_SAMPLE_GEMINI_LINK_USED_BW_(%)\n".to_string()
        } else {
            format!(
                "U64 {value} X+_SAMPLE_GEMINI_LINK_USED_BW {unit}\nU64 {value} X+_SAMPLE_GEMINI_LINK_CREDIT_STALL {unit}\n"
            )
        };
        let s = read(&(head.clone() + &line), &fabric).unwrap();
        assert_eq!(s.get(Q::UsedRatio, arrives), Some(0.61));
        if !unit.is_empty() {
            assert_eq!(s.get(Q::CreditStallRatio, leaves), Some(0.61));
        }
    }
}

#[test]
fn newer_listings_are_read_too() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let old = vectors(TILES, LANES)[0].print([1, 2, 3]);
    let new: String = old
        .lines()
        .map(|l| match l.split_whitespace().collect::<Vec<_>>()[..] {
            ["U64", value, name, ..] => {
                let unit = l
                    .split_once('(')
                    .map_or(String::new(), |(_, u)| format!(" ({u}"));
                format!(" D u64 {name} {value}{unit}\n")
            }
            _ => l.to_string() + "\n",
        })
        .collect();
    assert_eq!(read(&old, &fabric).unwrap(), read(&new, &fabric).unwrap());
}

/// The sampler's manual names sets after `localhost1`; only their metrics say where they are.
#[test]
fn sets_of_localhost_are_of_their_router_or_component() {
    let fabric = spec::fabric("aries:3x2x4").unwrap();
    let router = fabric.router_named("c0-0c0s1a0").unwrap();
    let node = fabric.nodes_on(router)[0];
    let nid = fabric.node(node).nid.unwrap();
    let rows = |host: &str, metrics: &str| {
        format!(
            "{host}/aries_mmr: consistent, last update: Sun Apr 12 19:04:00 2020 -0600 [290661us]\n\
             {metrics} D u64 AR_RTR_1_2_INQ_PRF_INCOMING_FLIT_VC0 5000\n"
        )
    };
    let named = rows("localhost1", "M char[] aries_rtr_id \"c0-0c0s1a0\"\n");
    let numbered = rows("localhost", &format!("M u64 component_id {nid}\n"));
    let expected = read(&rows(&fabric.node(node).name, ""), &fabric).unwrap();
    // One tile of several: the bytes of its link are known to be missing.
    let is_named = |l: LinkId| expected.missing(Q::ReceivedBytes, l).is_some();
    assert!(fabric.link_ids().any(is_named));
    for content in [named, numbered] {
        let found = read(&content, &fabric).unwrap();
        assert_eq!(
            found.column(Q::ReceivedBytes),
            expected.column(Q::ReceivedBytes)
        );
    }
    // Component 0 is LDMS's default, and says nothing.
    let nowhere = rows("localhost", "M u64 component_id 0\n");
    assert!(read(&nowhere, &fabric).is_err());
}

#[test]
fn dates_are_seconds_since_1970() {
    // `date -u -d '2015-01-14 15:08:00' +%s`
    assert_eq!(
        date_ns(" Wed Jan 14 15:08:00 2015 [9395us]"),
        Some(1_421_248_080_009_395_000)
    );
    assert_eq!(
        date_ns(" Tue Feb 29 00:00:00 2000 [0us]"),
        Some(951_782_400_000_000_000)
    );
    assert_eq!(
        date_ns(" Tue Jul 31 11:00:00 2018 -0600 [1006us]"),
        Some(1_533_056_400_001_006_000)
    );
    for bad in [
        "",
        "Wed Jan 14",
        "Wed Foo 14 15:08:00 2015",
        "Wed Jan 99 15:08:00 2015",
        "Wed Jan 14 25:08:00 2015",
        "Wed Jan 14 15:08:00 2015 [xus]",
    ] {
        assert_eq!(date_ns(bad), None, "{bad}");
    }
}

#[test]
fn bad_sets_are_named() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let good = vectors(TILES, LANES)[0].print([1, 2, 3]);
    for (content, line, found) in [
        (good.replace("2015", "x"), 1, "nid00000/r"),
        (format!("U64 1 X+_traffic (B)\n{good}"), 1, "U64 1"),
        (
            good.replace("U64 1000000 X+_traffic", "U64 -7 X+_traffic"),
            5,
            "-7",
        ),
        (good.clone() + "U64\n", 41, "U64"),
        (
            good.clone() + "U64 1 X+_SAMPLE_GEMINI_LINK_USED_BW (furlong)\n",
            41,
            "furlong",
        ),
        (
            good.replace("U64 24 X+_send", "U64 99 X+_send"),
            0,
            "99 lanes",
        ),
        (
            good.replace("U64 1 nettopo_mesh_coord_X", "U64 77 nettopo_mesh_coord_X"),
            0,
            "6 rows, none",
        ),
    ] {
        let error = read(&content, &fabric).unwrap_err();
        assert!(
            error.contains(found) && error.contains("expected"),
            "{error}"
        );
        if line > 0 {
            assert!(
                error.starts_with(&format!("ldms.txt:{line}: ")),
                "{line}: {error}"
            );
        }
    }
}

/// Sets of other samplers: the machine is not to blame.
#[test]
fn a_listing_without_counters_of_links_says_so() {
    let content = "nid00000/loadavg: consistent, last update: Wed Jan 14 15:08:00 2015 [5us]\nU64 3 load1min\n";
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let error = read(content, &fabric).map(|_| ()).unwrap_err();
    assert!(error.contains("found no counters of links"), "{error}");
    assert!(error.contains("set that belongs to no link"), "{error}");
    assert!(!error.contains("belong to this fabric"), "{error}");
}

/// As LDMS 4 prints them: units within names, the blocks of `-v`, sets of lists, interfaces.
#[test]
fn listings_of_version_4_are_read() {
    let date = "consistent, last update: Mon Oct 22 16:58:15 2018 -0600 [1385us]";
    let content = format!(
        "nid00000/r: {date}\n  METADATA --------\n    Producer Name : nid00000\n  DATA ------------\n\
         \x20            Size : 928\n  -----------------\nM u64          component_id            1\n\
         D u64          Y+_traffic (B)                             5443101840963\n\
         D u64          X+_SAMPLE_GEMINI_LINK_CREDIT_STALL (% x1e6) 75\n\
         nid00000/l: {date}\nM record_type  netdev      LDMS_V_RECORD_TYPE\nD list<>       netdev_list\n\
         \x20 name rx_bytes\n  \"eth0\" 5000\nD u64[]        per_core   1,2,3\nD char[]       s          \"a b\"\n\
         nid00000/procnetdev: {date}\nD u64          rx_bytes#eth0          5000\n\
         D u64          tx_bytes#eth0                              7000 B\n"
    );
    let mut left_out = LeftOut::default();
    let found = readings(&text(&content), &mut left_out).unwrap();
    let [router, interfaces] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        (router.get(0), router.get(1)),
        (Some(5_443_101_840_963), Some(75))
    );
    assert_eq!(router.layout.counters[1].factor, 1e-8);
    let eth0 = [super::super::reading::Port::Named("eth0".into())];
    assert_eq!(interfaces.layout.ports, eth0);
    let values = (interfaces.get(0), interfaces.get(1));
    assert_eq!(values, (Some(5000), Some(7000)));
    let said: Vec<_> = left_out.sentences().collect();
    assert!(
        said[0].contains("belongs to no link: nid00000/l"),
        "{said:?}"
    );
    let cut = content.replace(" 75\n", "\n");
    let error = readings(&text(&cut), &mut LeftOut::default()).unwrap_err();
    assert!(error.to_string().starts_with("ldms.txt:9: "), "{error}");
}
