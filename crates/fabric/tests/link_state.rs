//! Link state from readings: ratios, lanes, windows, missing values and their reasons.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::{
    Fabric, Increase, LinkId, LinkState, Missing, Quantity as Q, RouterId, Side, Totals, spec,
};

fn machine() -> (Fabric, LinkId) {
    let fabric = spec::fabric("gemini:2x2x8").unwrap();
    // Z+ of the first router: eight backplane tiles of 1.875 GB/s, 24 lanes.
    let link = fabric.find_link("c0-0c0s0g0 Z+").unwrap();
    assert_eq!(fabric.link(link).lanes, 24);
    (fabric, link)
}

fn near(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|v| (v - expected).abs() < 1e-12 * expected.abs().max(1.0))
}

#[test]
fn lanes_that_are_out_reduce_the_capacity() {
    let (fabric, link) = machine();
    let mut snapshot = Increase::new(&fabric, "test");
    snapshot.window_seconds = Some(1.0);
    snapshot.set(Q::ReceivedBytes, link, 4_687_500_000.0);
    let state = |s: &Increase| LinkState::of_increase(&fabric, s);
    assert!(near(state(&snapshot).used_ratio.get(link), 0.3125));
    snapshot.set(Q::Lanes, link, 23.0);
    assert!(near(
        state(&snapshot).used_ratio.get(link),
        0.3125 * 24.0 / 23.0
    ));
    snapshot.set(Q::Lanes, link, 0.0);
    assert_eq!(state(&snapshot).used_ratio.get(link), None);
    assert_eq!(state(&snapshot).lanes.get(link), Some(0.0));
}

#[test]
fn each_end_of_a_link_has_its_own_window() {
    let (fabric, link) = machine();
    let mut snapshot = Increase::new(&fabric, "test");
    snapshot.set(Q::InputStallNs, link, 5e8);
    snapshot.set(Q::CreditStallNs, link, 5e8);
    snapshot.set_window(Side::Arrivals, link, 1.0);
    snapshot.set_window(Side::Departures, link, 2.0);
    let state = LinkState::of_increase(&fabric, &snapshot);
    assert!(near(state.input_stall_ratio.get(link), 0.5));
    assert!(near(state.credit_stall_ratio.get(link), 0.25));
    assert_eq!(state.coverage[link.index()], 1.0);
    assert_eq!(state.coverage[0], 0.0);
}

#[test]
fn intervals_add_up_and_what_is_lost_in_one_is_lost_in_the_sum() {
    let (fabric, link) = machine();
    let other = fabric.links_from(RouterId(1))[0];
    let interval = |bytes: f64, lanes: f64| {
        let mut s = Increase::new(&fabric, "test");
        s.window_seconds = Some(1.0);
        s.set(Q::ReceivedBytes, link, bytes);
        s.set(Q::ReceivedBytes, other, bytes);
        s.set(Q::Lanes, link, lanes);
        s.matched = 2;
        s
    };
    let mut sum = interval(100.0, 24.0);
    let mut next = interval(50.0, 20.0);
    next.lose(Q::ReceivedBytes, other, Missing::Reset);
    sum.extend_by(&next);
    assert_eq!(sum.get(Q::ReceivedBytes, link), Some(150.0));
    assert_eq!(sum.get(Q::Lanes, link), Some(20.0));
    assert_eq!(sum.get(Q::ReceivedBytes, other), None);
    assert_eq!(sum.missing(Q::ReceivedBytes, other), Some(Missing::Reset));
    assert_eq!((sum.window_seconds, sum.matched), (Some(2.0), 4));
    assert_eq!(sum.lost().count(), 1);
}

/// A cable goes down in both directions, and an end that restarted counts from zero.
#[test]
fn a_link_went_down_as_often_as_either_end_counts_and_its_last_time_is_kept() {
    let (fabric, link) = machine();
    let back = fabric.reverse(link).unwrap();
    let interval = |downs: [f64; 2], lanes: f64| {
        let mut i = Increase::new(&fabric, "test");
        i.window_seconds = Some(10.0);
        i.set(Q::Downs, link, downs[0]);
        i.set(Q::Downs, back, downs[1]);
        i.set(Q::Lanes, link, lanes);
        i
    };
    let mut sum = interval([1.0, 0.0], 24.0);
    let parts = [
        ([0.0, 2.0], 12.0),
        ([0.0, 0.0], 12.0),
        ([0.0, 0.0], 24.0),
        ([0.0, 0.0], 24.0),
    ];
    for (downs, lanes) in parts {
        sum.extend_by(&interval(downs, lanes));
    }
    let state = LinkState::of_increase(&fabric, &sum);
    assert_eq!([link, back].map(|l| state.downs.get(l)), [Some(2.0); 2]);
    let ended = |q, l| state.ended.get(&(q, l)).copied();
    assert_eq!(
        [
            ended(Q::Downs, link),
            ended(Q::Downs, back),
            ended(Q::Lanes, link)
        ],
        [Some(40.0), Some(30.0), Some(20.0)]
    );
    assert_eq!(state.ended.len(), 3);
    sum.lose(Q::Downs, back, Missing::Reset);
    let state = LinkState::of_increase(&fabric, &sum);
    assert_eq!(state.downs.get(back), Some(1.0));
}

#[test]
fn without_a_window_the_ratios_are_the_source_s_own() {
    let (fabric, link) = machine();
    let mut totals = Totals::new(&fabric, "test");
    totals.set(Q::ReceivedBytes, link, 1e12);
    totals.set(Q::UsedRatio, link, 0.13);
    totals.set(Q::CreditStallRatio, link, 0.68);
    let state = LinkState::of_totals(&fabric, &totals);
    assert_eq!(state.received_bytes.get(link), Some(1e12));
    assert_eq!(state.used_ratio.get(link), Some(0.13));
    assert_eq!(state.credit_stall_ratio.get(link), Some(0.68));
    assert_eq!(state.input_stall_ratio.get(link), None);
    let mut increase = Increase::new(&fabric, "test");
    increase.set(Q::ReceivedBytes, link, 1e12);
    increase.set(Q::UsedRatio, link, 0.13);
    increase.window_seconds = Some(1000.0);
    let state = LinkState::of_increase(&fabric, &increase);
    assert!(near(state.used_ratio.get(link), 1e12 / 15e12));
}

#[test]
fn a_device_that_misses_an_interval_keeps_its_own_window() {
    let (fabric, link) = machine();
    let other = fabric.links_from(RouterId(1))[0];
    let interval = |speaks: &[LinkId], own: bool| {
        let mut i = Increase::new(&fabric, "test");
        i.window_seconds = Some(1.0);
        for &link in speaks {
            i.set(Q::ReceivedBytes, link, 100.0);
            if own {
                i.set_window(Side::Arrivals, link, 1.0);
            }
        }
        i
    };
    for (first, second) in [([link, other], vec![link]), ([other, link], vec![link])] {
        let mut sum = interval(&first, true);
        sum.extend_by(&interval(&second, true));
        sum.extend_by(&interval(&first, true));
        let state = LinkState::of_increase(&fabric, &sum);
        assert_eq!(state.received_bytes.get(link), Some(300.0));
        assert_eq!(state.received_bytes.get(other), Some(200.0));
        assert_eq!(
            (state.window.get(link), state.window.get(other)),
            (Some(3.0), Some(2.0))
        );
        assert_eq!(state.coverage[other.index()], 1.0);
    }
    // Without a window of its own its rate would be wrong: missing, with the reason.
    let mut sum = interval(&[link, other], false);
    sum.extend_by(&interval(&[link], false));
    let state = LinkState::of_increase(&fabric, &sum);
    assert_eq!(state.received_bytes.read(other), Err(Missing::Unread));
    assert!(state.is_spoken_of(other));
    assert_eq!(state.missing(other).count(), 2, "bytes and their share");
}

/// A counter that is full from some tick on: of errors at least those before; bytes are unknown.
#[test]
fn errors_before_a_counter_is_full_stay() {
    let (fabric, link) = machine();
    let sum = |ticks: [Result<f64, Missing>; 3]| {
        let mut all = ticks.into_iter().map(|errors| {
            let mut i = Increase::new(&fabric, "test");
            i.put(Q::Errors, link, errors);
            i.put(Q::ReceivedBytes, link, errors);
            i
        });
        let mut sum = all.next().unwrap();
        all.for_each(|next| sum.extend_by(&next));
        assert_eq!(sum.get(Q::ReceivedBytes, link), None);
        sum.read(Q::Errors, link)
    };
    let full = Err(Missing::Stuck);
    assert_eq!(sum([Ok(3.0), full, full]), Ok(3.0));
    assert_eq!(sum([full, full, Ok(4.0)]), Ok(4.0));
    assert_eq!(sum([Ok(2.0), full, Ok(4.0)]), Ok(6.0));
    assert_eq!(sum([Ok(0.0), full, Ok(0.0)]), full);
    assert_eq!(
        sum([Ok(1.0), Err(Missing::Reset), full]),
        Err(Missing::Reset)
    );
}

/// The state of a sum is that at its end; what was lower before is kept apart, also where the end was not read.
#[test]
fn lanes_and_rates_that_were_lower_are_kept() {
    let (fabric, link) = machine();
    let of = |lanes: &[Option<f64>]| {
        let mut all = lanes.iter().map(|&lanes| {
            let mut i = Increase::new(&fabric, "test");
            lanes.into_iter().for_each(|n| i.set(Q::Lanes, link, n));
            i
        });
        let mut sum = all.next().unwrap();
        all.for_each(|next| sum.extend_by(&next));
        let state = LinkState::of_increase(&fabric, &sum);
        (
            state.lanes.get(link),
            state.least.get(&(Q::Lanes, link)).copied(),
        )
    };
    let [all, half, down] = [24.0, 12.0, 0.0].map(Some);
    assert_eq!(of(&[all, half, all]), (all, half));
    assert_eq!(of(&[down, half, half, None]), (half, down));
    assert_eq!(of(&[half, None, all]), (all, half));
    assert_eq!(of(&[all, half, half]), (half, None));
    assert_eq!(of(&[all, all]), (all, None));
}

#[test]
fn the_bytes_of_both_ends_are_of_the_same_times() {
    let (fabric, link) = machine();
    let interval = |sent: Option<f64>, received: Option<f64>| {
        let mut i = Increase::new(&fabric, "test");
        i.window_seconds = sent.or(received);
        let ends = [
            (Q::SentBytes, Side::Departures, sent),
            (Q::ReceivedBytes, Side::Arrivals, received),
        ];
        for (quantity, side, seconds) in ends {
            let Some(seconds) = seconds else { continue };
            i.set(quantity, link, 100.0 * seconds);
            i.set_window(side, link, seconds);
        }
        i
    };
    let (one, none, two) = (Some(1.0), None, Some(2.0));
    for (intervals, common) in [
        (vec![(one, one), (Some(1.05), one)], Some((205.0, 200.0))),
        (
            vec![(one, one), (one, none), (one, one)],
            Some((200.0, 200.0)),
        ),
        (vec![(one, none), (one, one)], Some((100.0, 100.0))),
        (vec![(one, none), (none, one)], None),
        // The receiver was not read at the end of the first interval.
        (
            vec![(one, none), (one, two), (one, one)],
            Some((100.0, 100.0)),
        ),
        (vec![(one, two)], None),
    ] {
        let mut all = intervals.iter().map(|&(s, r)| interval(s, r));
        let mut sum = all.next().unwrap();
        all.for_each(|next| sum.extend_by(&next));
        let state = LinkState::of_increase(&fabric, &sum);
        assert_eq!(state.at_both_ends(link), common, "{intervals:?}");
    }
}
