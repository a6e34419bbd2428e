//! Laws of link state: after any event between two readings, a value is exact or missing.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::{Direction, Fabric, LinkId, Missing, Quantity as Q, spec};
use hopbyte_observe::counters::delta::{Behaviour, Moment};
use hopbyte_observe::counters::join::PortMap;
use hopbyte_observe::counters::reading::{Layout, Port, Reading};
use hopbyte_observe::counters::series;
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};

static FABRIC: LazyLock<Fabric> = LazyLock::new(|| spec::fabric("gemini:4x4x8").unwrap());
/// Maximum bytes per second of a counter in these tests, below every link's capacity.
const MOST: f64 = 4.6875e9;

/// Event at a counter between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// It continues.
    Counts,
    /// The second reading fails.
    Fails,
    /// The device restarts and counts from zero.
    Restarts,
}

/// Event at the device's clock and boot.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    Goes,
    Reboots,
    ClockStands,
    ClockGoesBack,
    SleepsTooLong,
}

fn layout(node: &str, bits: u32) -> Arc<Layout> {
    let mut layout = Layout::new(node, "test");
    for d in 0..6 {
        let port = Port::Direction(Direction::of(d));
        let bytes = layout.counter(&port, "traffic", Q::ReceivedBytes, 1.0);
        bytes.behaviour = Behaviour::bits(bits).at_most(MOST);
    }
    Arc::new(layout)
}

fn arriving(node: &str, d: usize) -> LinkId {
    let router = FABRIC.node(FABRIC.find_node(node).unwrap()).router;
    let leaves = FABRIC.link_towards(router, Direction::of(d)).unwrap();
    FABRIC.reverse(leaves).unwrap()
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![4 => Just(Event::Counts), 1 => Just(Event::Fails), 1 => Just(Event::Restarts)]
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![
        6 => Just(Life::Goes),
        1 => Just(Life::Reboots),
        1 => Just(Life::ClockStands),
        1 => Just(Life::ClockGoesBack),
        1 => Just(Life::SleepsTooLong),
    ]
}

proptest! {
    #[test]
    fn a_figure_is_exact_or_missing(
        bits in prop_oneof![Just(48u32), Just(52), Just(56), Just(64)],
        start: [u64; 6],
        share in prop::array::uniform6(0.0f64..1.0),
        events in prop::array::uniform6(event()),
        life in life(),
        millis in 100u64..10_000,
    ) {
        let layout = layout("nid00000", bits);
        let top = Behaviour::bits(bits).highest();
        let seconds = millis as f64 / 1e3;
        let counted = share.map(|s| (s * MOST * seconds) as u64);
        let begin = 1_700_000_000_000_000_000;
        let first = Moment { time_ns: Some(begin), steady_ns: None, boot: Some(1) };
        let ns = match life {
            Life::ClockStands => begin,
            Life::ClockGoesBack => begin - 5,
            // Longer than 2^48 bytes take; 2^64 bytes take a century.
            Life::SleepsTooLong => begin + 200_000 * 1_000_000_000,
            _ => begin + millis * 1_000_000,
        };
        let boot = Some(if life == Life::Reboots { 2 } else { 1 });
        let second = Moment { time_ns: Some(ns), boot, ..first };
        let before = start.map(|s| Some(s & top));
        let after: Vec<Option<u64>> = (0..6).map(|d| match events[d] {
            Event::Counts => Some((start[d] & top).wrapping_add(counted[d]) & top),
            Event::Fails => None,
            Event::Restarts => Some(counted[d]),
        }).collect();
        let readings = vec![
            Reading::of(layout.clone(), first, &before),
            Reading::of(layout, second, &after),
        ];
        // Readings are sorted by time; a clock that goes back means that the device restarted.
        let all = series(&FABRIC, "t", readings, &PortMap::new()).unwrap().all();
        prop_assert_eq!(all.len(), 1);
        let state = all[0].state(&FABRIC);
        for d in 0..6 {
            let link = arriving("nid00000", d);
            let (bytes, why) = (state.received_bytes.get(link), all[0].missing(Q::ReceivedBytes, link));
            let used = state.used_ratio.get(link);
            prop_assert!(bytes.is_none_or(|b| b.is_finite() && b >= 0.0));
            prop_assert!(used.is_none_or(|u| (0.0..=1.4).contains(&u)), "{used:?}");
            prop_assert!(bytes.is_some() != why.is_some(), "a number or a reason: {bytes:?} {why:?}");
            prop_assert_eq!(bytes.is_some(), state.coverage[link.index()] > 0.0);
            match (life, events[d]) {
                (Life::Goes, Event::Counts) => prop_assert_eq!(bytes, Some(counted[d] as f64)),
                (Life::Goes, Event::Fails) => prop_assert_eq!(why, Some(Missing::Unread)),
                // A restart can look like a wrap only if the counter was near its end.
                (Life::Goes, Event::Restarts) => {
                    let turned = counted[d].wrapping_sub(start[d]) & top;
                    let possible = turned as f64 <= MOST * (seconds * 1.1 + 0.25);
                    prop_assert_eq!(why == Some(Missing::Reset), !possible);
                }
                (Life::Reboots, _) => prop_assert_eq!(why, Some(Missing::Reset)),
                (Life::ClockStands, _) => prop_assert_eq!(why, Some(Missing::ZeroInterval)),
                (Life::ClockGoesBack, _) => prop_assert!(bytes.is_none() || events[d] != Event::Fails),
                (Life::SleepsTooLong, Event::Counts) if bits == 48 => {
                    prop_assert_eq!(why, Some(Missing::Gap));
                }
                (Life::SleepsTooLong, _) => {}
            }
        }
    }

    #[test]
    fn intervals_add_up(counts in prop::collection::vec(0u64..4_000_000_000, 2..6), start: u64) {
        let layout = layout("nid00000", 48);
        let top = Behaviour::bits(48).highest();
        let mut value = start & top;
        let mut readings = Vec::new();
        for (second, &count) in counts.iter().enumerate() {
            value = value.wrapping_add(count) & top;
            let moment = Moment::at_ns(second as u64 * 1_000_000_000);
            readings.push(Reading::of(layout.clone(), moment, &[Some(value); 6]));
        }
        let all = series(&FABRIC, "t", readings, &PortMap::new()).unwrap();
        let sum = hopbyte_observe::counters::sum(all).unwrap();
        let link = arriving("nid00000", 0);
        let whole: u64 = counts[1..].iter().sum();
        prop_assert_eq!(sum.get(Q::ReceivedBytes, link), Some(whole as f64));
        prop_assert_eq!(sum.window_seconds(), Some((counts.len() - 1) as f64));
    }
}
