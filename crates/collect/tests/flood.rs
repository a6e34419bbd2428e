//! A flood of names and ports by lines, in a process of its own, whose memory is measured.

#![allow(clippy::unwrap_used)]

mod common;

use common::{close, resident_bytes};
use hopbyte_collect::block::Cluster;
use hopbyte_collect::flows::Flows;
use hopbyte_collect::gather::{Channel, Gathering, Rules};
use hopbyte_collect::lines::parse;
use hopbyte_collect::server::Feed;
use hopbyte_collect::wire::Hello;

const SECOND: u64 = 1_000_000_000;

/// Names and ports that lines make up: memory is bounded with what lines hold, agents find room, and a flood costs no
/// search through all nodes for each of them.
#[test]
fn a_flood_by_lines_takes_its_share_and_no_more() {
    const MEMORY: usize = 48 << 20;
    let rules = Rules {
        memory_bytes: MEMORY,
        ..Rules::default()
    };
    let mut gathering = Gathering::new(rules, SECOND);
    let mut feed = Feed::default();
    let mut viewer = <(Cluster, Flows)>::default();
    let before = resident_bytes();
    let began = std::time::Instant::now();
    let mut refused = 0;
    for second in 1..=30 {
        let now = second * SECOND;
        let new =
            |n| format!("net_bytes_in,hostname=x{second}-{n},stype-id=eth0 value={n} {second}\n");
        let wide =
            |n| format!("net_bytes_in,hostname=x1-{n},stype-id=e{second} value={n} {second}\n");
        let text: String = (0..4000).map(new).chain((0..2000).map(wide)).collect();
        refused += feed.take(parse(&text), &mut gathering, now).refused;
        feed.tick(&mut gathering, now);
        close(&mut gathering, &mut viewer);
    }
    assert!(refused > 100_000, "{refused}");
    assert!(gathering.size().1 < MEMORY, "{:?}", gathering.size());
    let grown = (resident_bytes().saturating_sub(before)) as usize;
    // The block, and the viewer's copy of it, are not names and values.
    println!(
        "{} names, {grown} bytes, {:?}",
        gathering.size().0,
        began.elapsed()
    );
    assert!(grown < 2 * MEMORY, "{grown} bytes");
    for agent in 0..1000 {
        let hello = Hello {
            node: format!("n{agent}"),
            boot: 1,
            start: 1,
            period_ns: SECOND,
        };
        let channel = Channel::Stream(agent);
        gathering.hello(&hello, channel, 31 * SECOND).unwrap();
    }
    // Some two seconds; minutes if every refused line looks through all nodes.
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}
