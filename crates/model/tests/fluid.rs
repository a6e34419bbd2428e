//! The fluid solver against an independent slow one.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_model::fluid::{Clock, Sharing, Use};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Transfer {
    start: f64,
    bytes: f64,
    limit: f64,
    uses: Vec<(usize, f64)>,
}

/// Max-min fair rates by definition: all rates grow together; flows at a full resource or at their limit
/// stop. One stop at a time, with all sums computed again.
fn slow_rates(capacities: &[f64], running: &[&Transfer]) -> Vec<f64> {
    let mut rates: Vec<Option<f64>> = vec![None; running.len()];
    while rates.iter().any(Option::is_none) {
        let mut best = (f64::INFINITY, None, None);
        for (r, &capacity) in capacities.iter().enumerate() {
            let mut free = capacity;
            let mut weight = 0.0;
            for (t, rate) in running.iter().zip(&rates) {
                for &(_, w) in t.uses.iter().filter(|u| u.0 == r) {
                    match rate {
                        Some(rate) => free -= rate * w,
                        None => weight += w,
                    }
                }
            }
            if weight > 0.0 && free / weight < best.0 {
                best = (free / weight, Some(r), None);
            }
        }
        for (i, t) in running.iter().enumerate() {
            if rates[i].is_none() && t.limit < best.0 {
                best = (t.limit, None, Some(i));
            }
        }
        let (rate, resource, flow) = best;
        for (i, t) in running.iter().enumerate() {
            let stopped = match (resource, flow) {
                (Some(r), None) => t.uses.iter().any(|u| u.0 == r),
                (_, only) => only == Some(i),
            };
            if stopped && rates[i].is_none() {
                rates[i] = Some(rate.max(0.0));
            }
        }
    }
    rates.into_iter().map(Option::unwrap).collect()
}

/// End times by stepping from one start or end to the next.
fn slow_ends(capacities: &[f64], transfers: &[Transfer]) -> Vec<f64> {
    let mut left: Vec<f64> = transfers.iter().map(|t| t.bytes).collect();
    let mut ends = vec![f64::NAN; transfers.len()];
    let mut now = 0.0;
    loop {
        let ids: Vec<usize> = (0..transfers.len())
            .filter(|&i| transfers[i].start <= now && ends[i].is_nan())
            .collect();
        let running: Vec<&Transfer> = ids.iter().map(|&i| &transfers[i]).collect();
        let rates = slow_rates(capacities, &running);
        let next_start = transfers
            .iter()
            .map(|t| t.start)
            .filter(|&s| s > now)
            .fold(f64::INFINITY, f64::min);
        let first_end = ids
            .iter()
            .zip(&rates)
            .map(|(&i, r)| now + left[i] / r)
            .fold(f64::INFINITY, f64::min);
        let next = next_start.min(first_end);
        if next == f64::INFINITY {
            return ends;
        }
        for (&i, rate) in ids.iter().zip(&rates) {
            left[i] -= rate * (next - now);
            if left[i] <= 1e-9 * transfers[i].bytes {
                ends[i] = next;
            }
        }
        now = next;
    }
}

/// End times by the solver under test.
fn fast_ends(capacities: &[f64], transfers: &[Transfer]) -> Vec<f64> {
    let mut clock = Clock::new(Sharing::new(capacities), 0.0);
    let mut paths: Vec<(Vec<(usize, f64)>, hopbyte_model::fluid::PathId)> = Vec::new();
    let mut order: Vec<usize> = (0..transfers.len()).collect();
    order.sort_by(|&a, &b| transfers[a].start.total_cmp(&transfers[b].start));
    let mut ends = vec![f64::NAN; transfers.len()];
    let mut done = Vec::new();
    let mut next = 0;
    loop {
        let start = order.get(next).map(|&i| transfers[i].start);
        let end = clock.next_end();
        match (start, end) {
            (None, None) => break,
            (Some(s), e) if e.is_none_or(|e| s < e) => {
                clock.advance_to(s);
                while let Some(&i) = order.get(next).filter(|&&i| transfers[i].start == s) {
                    let t = &transfers[i];
                    let known = paths.iter().find(|p| p.0 == t.uses).map(|p| p.1);
                    let path = known.unwrap_or_else(|| {
                        let uses: Vec<Use> = t
                            .uses
                            .iter()
                            .map(|&(r, w)| Use {
                                resource: r as u32,
                                weight: w as f32,
                            })
                            .collect();
                        let id = clock.add_path(&uses);
                        paths.push((t.uses.clone(), id));
                        id
                    });
                    clock.begin(path, t.bytes, t.limit, i as u32);
                    next += 1;
                }
            }
            _ => clock.end_next(&mut done),
        }
    }
    for d in done {
        assert!(ends[d.tag as usize].is_nan(), "{} ended twice", d.tag);
        ends[d.tag as usize] = d.seconds;
    }
    ends
}

fn cases() -> impl Strategy<Value = (Vec<f64>, Vec<Transfer>)> {
    let resources = 1usize..9;
    resources.prop_flat_map(|n| {
        let capacities = prop::collection::vec(prop_oneof![Just(1.0), Just(2.0), 0.5..4.0f64], n);
        let uses = prop::collection::btree_map(
            0..n,
            prop_oneof![Just(1.0), Just(1.5), Just(0.140625)],
            1..=n.min(5),
        );
        let transfer = (
            prop_oneof![3 => Just(0.0), 1 => 0.0..5.0f64],
            prop_oneof![Just(1.0), Just(3.0), 0.01..10.0f64],
            prop_oneof![4 => Just(f64::INFINITY), 1 => 0.05..1.0f64],
            uses,
        )
            .prop_map(|(start, bytes, limit, uses)| Transfer {
                start,
                bytes,
                limit,
                uses: uses.into_iter().collect(),
            });
        (capacities, prop::collection::vec(transfer, 1..25))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn transfers_end_when_the_slow_solver_says((capacities, transfers) in cases()) {
        let slow = slow_ends(&capacities, &transfers);
        let fast = fast_ends(&capacities, &transfers);
        for i in 0..transfers.len() {
            prop_assert!(
                (slow[i] - fast[i]).abs() <= 1e-8 * slow[i].max(1e-9),
                "transfer {i}: slow {} fast {}", slow[i], fast[i]
            );
        }
    }
}

/// The tolerance is a share of a transfer's duration, not of the time since the beginning.
#[test]
fn late_transfers_end_one_after_the_other() {
    let mut clock = Clock::new(Sharing::new(&[1.0, 1.0]), 1e-3);
    let paths = [0, 1].map(|resource| {
        clock.add_path(&[Use {
            resource,
            weight: 1.0,
        }])
    });
    clock.advance_to(1e4);
    clock.begin(paths[0], 1.0, f64::INFINITY, 0);
    clock.begin(paths[1], 2.0, f64::INFINITY, 1);
    let mut done = Vec::new();
    clock.end_next(&mut done);
    assert_eq!(done.len(), 1);
    assert!((clock.now() - 10_001.0).abs() < 1e-6);
}
