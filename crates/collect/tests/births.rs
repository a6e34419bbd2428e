//! Interfaces that come and go: kinds of sources are reclaimed, and memory does not grow.

#![allow(clippy::unwrap_used)]

mod common;

use common::{close, resident_bytes};
use hopbyte_collect::block::{Cluster, split};
use hopbyte_collect::flows::Flows;
use hopbyte_collect::gather::{Channel, Gathering, Rules};
use hopbyte_collect::lines::parse;
use hopbyte_collect::node::MOST_SHAPES;
use hopbyte_collect::server::Feed;
use hopbyte_collect::wire::{Header, Hello, Sampled, put_report, put_source};
use hopbyte_fabric::Quantity;
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;

const SECOND: u64 = 1_000_000_000;

/// An agent whose interfaces are `lo` and one that is new in every tick.
#[test]
fn ten_thousand_births_of_interfaces_leave_room_for_others() {
    let mut gathering = Gathering::new(Rules::default(), SECOND);
    let mut viewer = <(Cluster, Flows)>::default();
    let hello = |node: &str| Hello {
        node: node.into(),
        boot: 1,
        start: 1,
        period_ns: SECOND,
    };
    let (id, _) = gathering
        .hello(&hello("n1"), Channel::Stream(0), SECOND)
        .unwrap();
    let mut before = 0;
    for birth in 1..=10_000 {
        let mut layout = Layout::new("", "linux");
        for port in ["lo".to_owned(), format!("veth{birth:06x}")] {
            layout.counter(&Port::Named(port), "rx_bytes", Quantity::ReceivedBytes, 1.0);
        }
        let mut body = Vec::new();
        put_source(0, None, &layout, &mut body).unwrap();
        gathering.source(id, &body).unwrap();
        let now = gathering.closes_ns() - 1;
        let header = Header {
            sequence: birth,
            tick: now / SECOND,
            time_ns: now,
            steady_ns: now,
            ..Header::default()
        };
        let mut values = Values::new(2);
        (0..2).for_each(|i| values.set(i, Some(birth * 10 + i as u64)));
        let mut body = Vec::new();
        put_report(&header, [Sampled::new(&values, None)], &mut body);
        gathering.report(id, &body, now).unwrap();
        close(&mut gathering, &mut viewer);
        // A viewer decodes every block, with the ports of this tick.
        let (cluster, flows) = &viewer;
        let node = cluster.node(0).unwrap();
        let reading = node.readings(&cluster.shapes).next().unwrap();
        assert_eq!(reading.get(1), Some(birth * 10 + 1));
        assert_eq!(
            reading.layout.ports[1].to_string(),
            format!("veth{birth:06x}")
        );
        assert_eq!(
            flows.iter(cluster).next().unwrap().1.layout.ports,
            reading.layout.ports
        );
        if birth == 5_000 {
            before = resident_bytes();
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 30_000_000, "{grown} bytes for 5,000 births");
    assert!(gathering.events.reclaimed_shapes > 9_000);
    assert!(viewer.0.shapes.len() <= 4 * MOST_SHAPES);
    // A new node with a kind of its own is accepted.
    let (other, _) = gathering
        .hello(&hello("n2"), Channel::Stream(1), SECOND)
        .unwrap();
    let mut layout = Layout::new("", "other");
    layout.counter(&Port::Host, "bytes", Quantity::ReceivedBytes, 1.0);
    let mut body = Vec::new();
    put_source(0, None, &layout, &mut body).unwrap();
    gathering.source(other, &body).unwrap();
}

/// Lines of other tools name a new interface in every moment.
#[test]
fn lines_of_interfaces_that_come_and_go_are_forgotten() {
    let mut gathering = Gathering::new(Rules::default(), SECOND);
    let mut viewer = <(Cluster, Flows)>::default();
    let mut feed = Feed::default();
    let mut before = 0;
    for birth in 0..5_000u64 {
        let now = gathering.closes_ns() - 1;
        let mut text = String::new();
        for port in ["eth0".to_owned(), format!("veth{birth:06x}")] {
            for name in [
                "net_bytes_in",
                "net_bytes_out",
                "net_pkts_in",
                "net_pkts_out",
            ] {
                let tags = format!("hostname=n1,type=node,stype=network,stype-id={port}");
                text.push_str(&format!("{name},{tags} value={birth} {}\n", now / SECOND));
            }
        }
        let verdict = feed.take(parse(&text), &mut gathering, now);
        assert_eq!((verdict.kept, verdict.refused), (8, 0), "{verdict:?}");
        assert_eq!(feed.tick(&mut gathering, now).lines, 0);
        close(&mut gathering, &mut viewer);
        if birth == 2_500 {
            before = resident_bytes();
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 30_000_000, "{grown} bytes for 2,500 births");
    let ports = viewer
        .1
        .iter(&viewer.0)
        .next()
        .unwrap()
        .1
        .layout
        .ports
        .len();
    assert!(ports < 40, "{ports} ports");
    let (names, bytes) = gathering.size();
    assert!(names == 1 && bytes < 2_000_000, "{bytes} bytes");
}

/// A post with a bad line, a node with an agent, and good nodes before and after both.
#[test]
fn a_bad_line_and_a_node_with_an_agent_affect_no_other_lines() {
    let mut gathering = Gathering::new(Rules::default(), SECOND);
    let agent = Hello {
        node: "n2".into(),
        boot: 1,
        start: 1,
        period_ns: SECOND,
    };
    gathering.hello(&agent, Channel::Stream(0), SECOND).unwrap();
    let line = |node: &str| format!("net_bytes_in,hostname={node},stype-id=eth0 value=1 1\n");
    let bad = "net_bytes_in,hostname=n1,stype-id=eth0 value=-1 1\n".to_owned();
    let all = [
        line("n1"),
        bad,
        line("n2"),
        line("n3"),
        line("../n"),
        line("n4"),
    ];
    let verdict = Feed::default().take(parse(&all.concat()), &mut gathering, SECOND);
    assert_eq!((verdict.kept, verdict.refused), (3, 3), "{verdict:?}");
    let said = verdict.refusals.join("\n");
    for text in [
        "line 2: found",
        "line 5: found",
        "line 3: found lines of n2, which an agent reports",
    ] {
        assert!(said.contains(text), "{said}");
    }
    for node in ["n1", "n3", "n4"] {
        assert!(gathering.members().find(node).is_some(), "{node}");
    }
}

/// Lines that were accepted, and whose node an agent takes over before they are complete, are counted.
#[test]
fn accepted_lines_without_a_report_are_counted() {
    let mut gathering = Gathering::new(Rules::default(), SECOND);
    let mut feed = Feed::default();
    let post = |moment: u64, ports: usize| {
        let line = |n| format!("net_bytes_in,hostname=n1,stype-id=eth{n} value={n} {moment}\n");
        parse(&(0..ports).map(line).collect::<String>())
    };
    let verdict = feed.take(post(1, 3), &mut gathering, SECOND);
    assert_eq!((verdict.kept, verdict.refused), (3, 0));
    let hello = Hello {
        node: "n1".into(),
        boot: 1,
        start: 1,
        period_ns: SECOND,
    };
    gathering.hello(&hello, Channel::Stream(0), SECOND).unwrap();
    // While the agent is there its lines are refused; those before are lost, and counted once.
    let verdict = feed.take(post(2, 2), &mut gathering, SECOND);
    assert_eq!((verdict.kept, verdict.refused), (0, 2), "{verdict:?}");
    let lost = feed.tick(&mut gathering, 2 * SECOND);
    assert_eq!(lost.lines, 3);
    assert!(lost.first.unwrap().starts_with("lines of n1, "));
    assert_eq!(feed.tick(&mut gathering, 9 * SECOND).lines, 0);
    // Silence before the agent comes: the report at the tick is refused.
    gathering.gone(0, Channel::Stream(0));
    let mut gathering = Gathering::new(Rules::default(), SECOND);
    let mut feed = Feed::default();
    feed.take(post(1, 4), &mut gathering, SECOND);
    gathering.hello(&hello, Channel::Stream(0), SECOND).unwrap();
    let lost = feed.tick(&mut gathering, 9 * SECOND);
    assert_eq!(lost.lines, 4);
    assert!(lost.first.unwrap().contains("which an agent reports"));
    assert_eq!(feed.tick(&mut gathering, 10 * SECOND).lines, 0);
}

/// Lines of several moments, sorted by metric as a batch of another tool may be: one report for each moment, whole.
#[test]
fn lines_sorted_by_metric_are_whole_reports() {
    let mut gathering = Gathering::new(Rules::default(), 9 * SECOND);
    let mut feed = Feed::default();
    let line = |metric: &str, moment: u64| {
        format!("{metric},hostname=n1,stype-id=eth0 value={moment}00 {moment}\n")
    };
    let metrics = ["net_bytes_in", "net_bytes_out"];
    let text: String = metrics
        .iter()
        .flat_map(|m| (4..7).map(move |moment| line(m, moment)))
        .collect();
    feed.take(parse(&text), &mut gathering, 9 * SECOND);
    feed.tick(&mut gathering, 20 * SECOND);
    let (_, block) = gathering.close(20 * SECOND);
    let (entries, _) = split(block).unwrap().unwrap();
    let mut seen = Vec::new();
    let (mut cluster, mut flows) = <(Cluster, Flows)>::default();
    let read = cluster.read(entries, |cluster, id, _| {
        flows.report(cluster, id);
        let node = cluster.node(id).unwrap();
        let reading = node.readings(&cluster.shapes).next().unwrap();
        seen.push((node.header.time_ns / SECOND, reading.get(0), reading.get(1)));
    });
    read.unwrap();
    let whole = |moment: u64| (moment, Some(100 * moment), Some(100 * moment));
    assert_eq!(seen, [whole(4), whole(5), whole(6)]);
    let all = flows.iter(&cluster).flat_map(|(_, source)| &source.flows);
    let totals: Vec<_> = all.map(|flow| flow.total).collect();
    assert_eq!(totals, [Some(600.0); 2]);
}

/// A counter that was never read has no total, rather than zero.
#[test]
fn what_was_never_read_is_not_exported() {
    let mut gathering = Gathering::new(Rules::default(), 9 * SECOND);
    let mut feed = Feed::default();
    let line = |metric: &str, moment: u64| {
        format!("{metric},hostname=n1,stype-id=eth0 value=7 {moment}\n")
    };
    let mut viewer = <(Cluster, Flows)>::default();
    // The layout of the second report has both counters, its values one of them.
    for text in [line("net_bytes_in", 4), line("net_bytes_out", 5)] {
        feed.take(parse(&text), &mut gathering, 9 * SECOND);
    }
    feed.tick(&mut gathering, 20 * SECOND);
    close(&mut gathering, &mut viewer);
    let flows: Vec<_> = viewer
        .1
        .iter(&viewer.0)
        .flat_map(|(_, s)| &s.flows)
        .collect();
    let totals: Vec<_> = flows.iter().map(|f| f.total).collect();
    assert_eq!(totals, [None, Some(7.0)]);
}

/// The agent of a node that starts again after an adapter was removed, on the same boot.
#[test]
fn sources_of_an_earlier_agent_are_gone_and_the_others_go_on() {
    let mut gathering = Gathering::new(Rules::default(), SECOND);
    let mut viewer = <(Cluster, Flows)>::default();
    let mut sequence = 0;
    let mut tick = |gathering: &mut Gathering, sources: &[&str], start: u64, bytes: u64| {
        let hello = Hello {
            node: "n1".into(),
            boot: 1,
            start,
            period_ns: SECOND,
        };
        let now = gathering.closes_ns() - 1;
        let (id, _) = gathering
            .hello(&hello, Channel::Stream(start as u32), now)
            .unwrap();
        for (at, source) in (0u8..).zip(sources) {
            let mut layout = Layout::new("", *source);
            let port = Port::Named((*source).into());
            layout.counter(&port, "bytes", Quantity::ReceivedBytes, 1.0);
            let mut body = Vec::new();
            put_source(at, None, &layout, &mut body).unwrap();
            gathering.source(id, &body).unwrap();
        }
        sequence += 1;
        let header = Header {
            sequence,
            tick: now / SECOND,
            time_ns: now,
            steady_ns: now,
            ..Header::default()
        };
        let mut values = Values::new(1);
        values.set(0, Some(bytes));
        let sampled = (0u8..).zip(sources).map(|(at, _)| {
            let mut sampled = Sampled::new(&values, None);
            sampled.part.source = at;
            sampled
        });
        let mut body = Vec::new();
        put_report(&header, sampled.collect::<Vec<_>>(), &mut body);
        gathering.report(id, &body, now).unwrap();
        gathering.gone(id, Channel::Stream(start as u32));
        close(gathering, &mut viewer);
        let flows = viewer.1.iter(&viewer.0).flat_map(|(_, source)| {
            source
                .flows
                .iter()
                .map(|flow| (source.layout.source.clone(), flow.total, flow.rate))
        });
        let held = viewer.0.node(id).unwrap().sources.iter().flatten().count();
        assert_eq!(held, sources.len());
        flows.collect::<Vec<_>>()
    };
    tick(&mut gathering, &["mlx5_0", "mlx5_1"], 1, 100);
    let both = tick(&mut gathering, &["mlx5_0", "mlx5_1"], 1, 400);
    assert_eq!(both.len(), 2);
    let (_, bytes) = gathering.size();
    assert!(gathering.gone_sources().is_empty());
    // Its own place is another one now, and its total goes on.
    let left = tick(&mut gathering, &["mlx5_1"], 2, 600);
    assert_eq!(left.len(), 1);
    let (source, total, rate) = &left[0];
    assert_eq!((source.as_str(), *total), ("mlx5_1", Some(600.0)));
    assert!(rate.is_ok_and(|r| (r - 200.0).abs() < 1.0), "{rate:?}");
    let told = gathering.gone_sources();
    assert_eq!(
        told,
        ["n1: the agent that started last has no source mlx5_0"]
    );
    assert!(gathering.gone_sources().is_empty() && gathering.events.gone_sources == 1);
    assert!(gathering.size().1 < bytes);
}
