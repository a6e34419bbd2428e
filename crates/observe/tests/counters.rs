//! Counters of real machines against independent counts, and damaged ones against the reader.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{content, machine};
use hopbyte_fabric::{End, Fabric, Quantity as Q, spec};
use hopbyte_observe::counters::{Counted, Series, counter_series};
use hopbyte_observe::text::{Limits, Text};
use hopbyte_observe::{CounterOptions, Then, read_counters, read_jobs};
use hopbyte_testdata::shared;
use std::collections::{BTreeMap, BTreeSet};

fn options() -> CounterOptions {
    CounterOptions::default()
}

fn edison() -> Option<Fabric> {
    Some(machine(&shared("cray/edison.interconnect.txt.zst")?).fabric)
}

/// Rows of a CSV file after its header.
fn rows(raw: &str) -> impl Iterator<Item = Vec<&str>> {
    raw.lines().skip(1).map(|l| l.split(',').collect())
}

fn coordinate(cells: &[&str]) -> Vec<u32> {
    cells.iter().map(|c| c.parse().unwrap()).collect()
}

/// Every row's tile exists, is wired as stated, and its counts are under the link that ends there.
fn check_edison(name: &str, expected_rows: usize) {
    let (Some(fabric), Some(path)) = (edison(), shared(&format!("aries-counters/{name}"))) else {
        return;
    };
    let snapshot = read_counters(&[&path], &fabric, &options()).unwrap();
    assert_eq!((snapshot.matched, snapshot.unmatched), (expected_rows, 0));
    let raw = content(&path);
    // Summed from the text alone: flits and stalls of every (counting router, neighbour, colour).
    type Pair<'a> = (Vec<u32>, Vec<u32>, &'a str);
    let mut flits: BTreeMap<Pair, (u64, u64, u64)> = BTreeMap::new();
    for row in rows(&raw) {
        let key = (coordinate(&row[0..3]), coordinate(&row[3..6]), row[6]);
        let sum = flits.entry(key).or_default();
        sum.0 += row[7].parse::<u64>().unwrap();
        sum.1 += row[8].parse::<u64>().unwrap();
        sum.2 += 1;
    }
    let known = |q| snapshot.column(q).unwrap().known();
    assert_eq!(known(Q::ReceivedBytes), flits.len());
    for ((here, there, colour), (flits, stalls, tiles)) in flits {
        let (to, from) = (
            fabric.router_at(&here).unwrap(),
            fabric.router_at(&there).unwrap(),
        );
        let kind = match colour {
            "g" => "green",
            "k" => "black",
            _ => "blue",
        };
        let link = fabric
            .link_ids()
            .filter(|&l| fabric.kind(l).name == kind)
            .find(|&l| {
                (fabric.link(l).from, fabric.link(l).to) == (End::Router(from), End::Router(to))
            })
            .unwrap();
        assert_eq!(
            fabric.ports(link).len() as u64,
            tiles,
            "all tiles of a link are listed"
        );
        let bytes = snapshot.get(Q::ReceivedBytes, link).unwrap();
        assert!((bytes - flits as f64 * 20.0 / 3.0).abs() <= 1e-9 * bytes);
        let stall = snapshot.get(Q::InputStallNs, link).unwrap();
        assert!((stall - stalls as f64 * 1.25 / tiles as f64).abs() <= 1e-9 * stall);
    }
}

#[test]
fn edison_2016_every_row_finds_its_link() {
    check_edison("edison.21.net_counters.csv.zst", 4694);
}

#[test]
fn edison_2014_every_row_finds_its_link() {
    check_edison("edison.2014.net_counters.csv.zst", 5658);
}

/// The counters are of arrivals: a green link from a router without a job carries packets on their last hop, so on
/// higher virtual channels than a link between routers of the job.
#[test]
fn edison_s_channels_show_that_rows_are_arrivals() {
    let (Some(net), Some(jobs)) = (
        shared("aries-counters/edison.2014.net_counters.csv.zst"),
        shared("aries-counters/edison.2014.jobs.csv"),
    ) else {
        return;
    };
    let (net, jobs) = (content(&net), content(&jobs));
    let of_jobs: BTreeSet<Vec<u32>> = rows(&jobs).map(|r| coordinate(&r[0..3])).collect();
    let share_of_channel_2 = |empty: bool| {
        let (mut second, mut all) = (0u64, 0u64);
        for row in rows(&net).filter(|r| r[6] == "g") {
            if of_jobs.contains(&coordinate(&row[3..6])) != empty {
                second += row[12].parse::<u64>().unwrap();
                all += (10..14)
                    .map(|i| row[i].parse::<u64>().unwrap())
                    .sum::<u64>();
            }
        }
        second as f64 / all as f64
    };
    let (empty, own) = (share_of_channel_2(true), share_of_channel_2(false));
    assert!(empty > 1.5 * own, "{empty} against {own}");
}

#[test]
fn edison_s_jobs_are_found_and_shared_out() {
    let Some(fabric) = edison() else { return };
    for (name, nodes, ids) in [("edison.21", 2682, 10), ("edison.2014", 512, 3)] {
        let Some(path) = shared(&format!("aries-counters/{name}.jobs.csv")) else {
            return;
        };
        let jobs = read_jobs(&path, &fabric, Then::Now(0.0)).unwrap();
        assert_eq!(
            (jobs.nodes(), jobs.ids().len(), jobs.unmatched()),
            (nodes, ids, 0)
        );
        // Node by node: the nid that follows from the coordinates has the job of the row.
        let raw = content(&path);
        for row in rows(&raw) {
            let c = coordinate(&row[0..4]);
            let nid = 384 * c[0] + 64 * c[1] + 4 * c[2] + c[3];
            let node = fabric.find_node(&format!("nid{nid:05}")).unwrap();
            assert_eq!(jobs.ids()[jobs.jobs_on(node)[0]], row[4]);
        }
        // Every node is at the ends of the same number of its router's links: shares add up again.
        for link in fabric.link_ids().step_by(97) {
            let shares = jobs.shares(&fabric, link);
            let sum: f64 = shares.iter().map(|(_, s)| s).sum();
            assert!((0.0..=1.0).contains(&sum));
            assert!(shares.is_sorted_by(|a, b| a.1 >= b.1));
        }
    }
}

#[test]
fn blue_gene_s_links_carry_what_the_table_says() {
    let Some(path) = shared("bgp-torus/bgpc_links.yaml.gz") else {
        return;
    };
    let fabric = spec::fabric("torus:8x8x8").unwrap();
    let raw = content(&path);
    let mut sums: BTreeMap<(i64, u64), u64> = BTreeMap::new();
    let mut ends: BTreeMap<u64, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    let table = raw.split("...\n").nth(1).unwrap();
    for line in table.lines() {
        let w: Vec<&str> = line.split_whitespace().collect();
        let id: u64 = w[0].parse().unwrap();
        *sums.entry((w[7].parse().unwrap(), id)).or_default() += w[8].parse::<u64>().unwrap();
        ends.insert(id, (coordinate(&w[1..4]), coordinate(&w[4..7])));
    }
    assert_eq!(ends.len(), 3072);
    for (region, rows) in [
        (None, 3072),
        (Some(0), 3072),
        (Some(4), 6144),
        (Some(8), 3072),
    ] {
        let options = CounterOptions {
            region,
            ..CounterOptions::default()
        };
        let snapshot = read_counters(&[&path], &fabric, &options).unwrap();
        assert_eq!((snapshot.matched, snapshot.unmatched), (rows, 0));
        for (&id, (from, to)) in &ends {
            let from = fabric.router_at(from).unwrap();
            let to = End::Router(fabric.router_at(to).unwrap());
            let links = fabric.links_from(from).iter().copied();
            let link = links
                .into_iter()
                .find(|&l| fabric.link(l).to == to)
                .unwrap();
            let expected = sums[&(region.unwrap_or(-2), id)] as f64;
            assert_eq!(snapshot.get(Q::SentPackets, link), Some(expected));
        }
    }
    let error = read_counters(
        &[&path],
        &fabric,
        &CounterOptions {
            region: Some(99),
            ..options()
        },
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("there are -2, 0, 1, 2"), "{error}");
}

/// One Gemini node in 2015, with the percentages that LDMS computed.
#[test]
fn ldms_s_own_percentages_follow_from_its_rates() {
    let Some(path) = shared("ldms/gemini.nid00064.ldms_ls.txt") else {
        return;
    };
    // (0,4,0) is nid 64 where Z is 8 and X is 1.
    let fabric = spec::fabric("gemini:1x6x8").unwrap();
    let router = fabric.router_at(&[0, 4, 0]).unwrap();
    assert_eq!(
        fabric.node(fabric.find_node("nid00064").unwrap()).router,
        router
    );
    let snapshot = read_counters(&[&path], &fabric, &options()).unwrap();
    assert!(matches!(snapshot, Counted::Totals(_)));
    assert_eq!(
        (snapshot.matched, snapshot.unmatched),
        (4, 0),
        "X has no links"
    );
    assert_eq!(snapshot.time_seconds, Some(1_421_248_080.009_395));
    let raw = content(&path);
    let value = |name: &str| -> f64 {
        let line = raw.lines().find(|l| l.contains(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let state = snapshot.state(&fabric);
    for direction in ["Y+", "Y-", "Z+", "Z-"] {
        let leaves = fabric
            .link_towards(router, hopbyte_fabric::Direction::parse(direction).unwrap())
            .unwrap();
        let arrives = fabric.reverse(leaves).unwrap();
        assert_eq!(
            snapshot.get(Q::ReceivedBytes, arrives),
            Some(value(&format!("{direction}_traffic")))
        );
        let tiles = if direction.starts_with('Y') { 4.0 } else { 8.0 };
        assert_eq!(
            snapshot.get(Q::CreditStallNs, leaves),
            Some(value(&format!("{direction}_credit_stall")) / tiles)
        );
        assert_eq!(state.lanes.get(arrives), Some(3.0 * tiles));
        let printed = value(&format!("{direction}_SAMPLE_GEMINI_LINK_USED_BW"));
        assert_eq!(state.used_ratio.get(arrives), Some(printed / 1e8));
        // USED_BW = 100 LINK_BW / capacity, in millionths of a percent, cut off. LDMS prints 0 for Y-,
        // although its own rate of 148 B/s over 4.6875 GB/s gives 3.
        let rate = value(&format!("{direction}_SAMPLE_GEMINI_LINK_BW"));
        let formula = (1e8 * rate / fabric.link(arrives).nominal.0).floor();
        if direction != "Y-" {
            assert_eq!(printed, formula, "{direction}");
        }
    }
}

/// An exporter's text that was cut after its first line has no value; the others are not all readings.
#[test]
fn a_file_without_values_among_several_is_refused() {
    let fabric = spec::fabric("mesh:2").unwrap();
    let text = |name: &str, content: &str| {
        Text::from_bytes(name, content.as_bytes(), Limits::TEXT).unwrap()
    };
    let head = "# TYPE node_network_receive_bytes_total counter\n";
    let whole =
        |bytes: u64| format!("{head}node_network_receive_bytes_total{{device=\"eth0\"}} {bytes}\n");
    let options = CounterOptions {
        interval_seconds: Some(10.0),
        node: Some("n0".into()),
        ..options()
    };
    let of = |after: &str| {
        let texts = [text("before.prom", &whole(1000)), text("after.prom", after)];
        counter_series(&texts, &fabric, &options)
    };
    assert!(matches!(of(&whole(3000)).unwrap(), Series::Increases(_)));
    let error = of(head).unwrap_err().to_string();
    assert!(error.starts_with("after.prom: found no values"), "{error}");
    assert!(error.contains("was cut"), "{error}");
}
