//! Sizes that a peer chooses: bounded in blocks, times and counters.

#![allow(clippy::unwrap_used)]

use hopbyte_collect::block::{Closing, Cluster, LONGEST_BLOCK, MOST_VALUES, Writer, split};
use hopbyte_collect::flows::Flows;
use hopbyte_collect::gather::{Channel, Gathering, Rules};
use hopbyte_collect::node::NodeState;
use hopbyte_collect::shape;
use hopbyte_collect::tick::TickLine;
use hopbyte_collect::wire::{Header, Hello, Origin, Part, Sampled, put_report, put_source};
use hopbyte_fabric::Quantity;
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;
use std::time::Instant;

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_800_000_000 * SECOND;
const COUNTERS: usize = 4096;
const SOURCES: u8 = 64;

fn layout(ports: usize) -> Layout {
    let mut layout = Layout::new("", "test");
    let ports: Vec<Port> = (0..ports).map(|n| Port::Named(format!("p{n}"))).collect();
    for n in 0..COUNTERS {
        let quantity = [Quantity::SentBytes, Quantity::Capacity][n % 2];
        layout.counter(&ports[n / 2 % ports.len()], format!("c{n}"), quantity, 1.0);
    }
    layout
}

fn greet(gathering: &mut Gathering) -> u32 {
    let hello = Hello {
        node: "n1".into(),
        boot: 1,
        start: 1,
        period_ns: SECOND,
    };
    let (id, _) = gathering.hello(&hello, Channel::Stream(0), NOW).unwrap();
    for source in 0..SOURCES {
        let mut body = Vec::new();
        put_source(source, None, &layout(8), &mut body).unwrap();
        gathering.source(id, &body).unwrap();
    }
    id
}

/// The largest report that an agent can send, over and over.
fn report(sequence: u64, values: &Values) -> Vec<u8> {
    let header = Header {
        sequence,
        tick: NOW / SECOND,
        time_ns: NOW,
        ..Header::default()
    };
    let sources = (0..SOURCES).map(|source| Sampled {
        part: Part {
            source,
            ..Sampled::new(values, None).part
        },
        values,
        base: None,
    });
    let mut body = Vec::new();
    put_report(&header, sources.collect::<Vec<_>>(), &mut body);
    body
}

#[test]
fn a_block_never_grows_beyond_what_readers_accept() {
    let mut gathering = Gathering::new(Rules::default(), NOW);
    let id = greet(&mut gathering);
    let mut values = Values::new(COUNTERS);
    (0..COUNTERS).for_each(|i| values.set(i, Some(u64::MAX / 3)));
    let most = (1..400)
        .find(|&sequence| {
            let body = report(sequence, &values);
            let taken = gathering.report(id, &body, NOW);
            assert!(gathering.block().len() < LONGEST_BLOCK);
            taken.is_err_and(|refusal| refusal.to_string().contains("send it again"))
        })
        .unwrap();
    let (_, block) = gathering.close(NOW);
    let (entries, _) = split(block).unwrap().unwrap();
    let (mut reports, mut cluster) = (0, Cluster::default());
    cluster.read(entries, |_, _, _| reports += 1).unwrap();
    assert_eq!(reports, most - 1, "those that were accepted can be read");
    gathering.next(NOW, true);
    let again = report(most, &values);
    gathering.report(id, &again, NOW).unwrap();
}

/// A block of some kilobytes that declares sources for gigabytes of values is refused; one that declares the same
/// sources again and again is not.
#[test]
fn declared_values_are_bounded() {
    let block = |nodes: u32, again: usize| {
        let mut writer = Writer::default();
        writer.shape(0, &shape::of(&layout(8)).unwrap());
        for id in 0..nodes {
            writer.node(id, &NodeState::new(&format!("n{id}"), 1, 1));
            for source in (0..SOURCES).cycle().take(usize::from(SOURCES) * again) {
                let origin = Origin {
                    source,
                    ..Origin::default()
                };
                writer.source(id, &origin, 0);
            }
        }
        writer.close(&Closing::default()).to_vec()
    };
    let read = |block: &[u8]| {
        let (entries, _) = split(block).unwrap().unwrap();
        Cluster::default().read(entries, |_, _, _| {})
    };
    let most = (MOST_VALUES / COUNTERS / usize::from(SOURCES)) as u32;
    let large = block(most + 1, 1);
    assert!(large.len() < 1 << 20);
    let refusal = read(&large).unwrap_err().to_string();
    assert!(refusal.contains("values of all nodes"), "{refusal}");
    read(&block(2, 1 + most as usize)).unwrap();
}

#[test]
fn extreme_times_are_stored_and_shown() {
    let closing = Closing {
        tick: u64::MAX,
        period_ns: SECOND,
        spread_ns: Some(u64::MAX),
        ..Closing::default()
    };
    let mut writer = Writer::default();
    let (entries, _) = split(writer.close(&closing)).unwrap().unwrap();
    let read = Cluster::default().read(entries, |_, _, _| {}).unwrap();
    assert_eq!(read.spread_ns, Some(u64::MAX - 1));
    let line = TickLine::of(&read, |_| String::new()).text();
    assert!(line.contains("0 of 0 nodes"), "{line}");
}

#[test]
fn the_speeds_of_thousands_of_counters_are_found_once() {
    let layout = layout(1024);
    let speeds = layout.speeds();
    assert_eq!(speeds.len(), 1024);
    // A port's first speed counts.
    let first = layout.counters.iter().position(|c| c.name == "c1");
    assert_eq!(speeds.values().min().map(|&i| i as usize), first);

    let mut gathering = Gathering::new(Rules::default(), NOW);
    let id = greet(&mut gathering);
    let values = Values::new(COUNTERS);
    gathering.report(id, &report(1, &values), NOW).unwrap();
    let (closing, block) = gathering.close(NOW);
    let (entries, _) = split(block).unwrap().unwrap();
    let (mut cluster, mut flows) = (Cluster::default(), Flows::default());
    let began = Instant::now();
    let read = cluster.read(entries, |cluster, id, _| flows.report(cluster, id));
    assert_eq!(read.unwrap(), closing);
    // 64 sources of 4,096 counters: a second by a search of each counter, milliseconds by a map.
    let seconds = began.elapsed().as_secs_f64();
    assert!(seconds < 0.5, "{seconds} s");
}
