//! Placements to start from.

use crate::graph::Graph;
use crate::paths::Paths;
use crate::search::{FREE, Slots, Weights};

/// Places the unit with the heaviest links to placed units next, at the free slot that costs it least
/// among those near its partners (Hoefler and Snir, ICS 2011, by cost instead of distance).
pub(crate) fn greedy<P: Paths>(
    graph: &Graph,
    slots: &Slots,
    paths: &P,
    weights: &Weights,
) -> Vec<u32> {
    let mut prices = paths.prices();
    let all: Vec<u32> = (0..paths.links() as u32).collect();
    paths.reprice(&mut prices, &all, |l| weights.hop[l] + 1e-3);
    let units = graph.units();
    let places = slots.first_free();
    let mut free = places;
    let mut slot_of = vec![FREE; units];
    let mut pull = vec![0.0f64; units];
    let mut queue = std::collections::BinaryHeap::new();
    let bytes: Vec<f64> = (0..units as u32).map(|u| graph.bytes(u)).collect();
    let mut order: Vec<u32> = (0..units as u32).collect();
    order.sort_by(|&a, &b| {
        bytes[b as usize]
            .total_cmp(&bytes[a as usize])
            .then(a.cmp(&b))
    });
    let mut order = order.into_iter();
    for _ in 0..units {
        let unit = loop {
            match queue.pop() {
                Some((weight, std::cmp::Reverse(unit))) => {
                    let unit: u32 = unit;
                    if slot_of[unit as usize] == FREE && weight == pull[unit as usize].to_bits() {
                        break Some(unit);
                    }
                }
                None => break order.by_ref().find(|&u| slot_of[u as usize] == FREE),
            }
        };
        let Some(unit) = unit else { break };
        let placed: Vec<(u32, f64, f64)> = graph
            .edges(unit)
            .iter()
            .filter(|e| slot_of[e.to as usize] != FREE)
            .map(|e| (slots.place[slot_of[e.to as usize] as usize], e.out, e.back))
            .collect();
        let mut choice = (f64::INFINITY, None);
        for place in 0..free.len() as u32 {
            if free[place as usize].is_empty() {
                continue;
            }
            let mut cost = 0.0;
            for &(other, out, back) in &placed {
                cost += out * paths.price(&prices, place, other)
                    + back * paths.price(&prices, other, place);
                if cost >= choice.0 {
                    break;
                }
            }
            if cost < choice.0 {
                choice = (cost, Some(place));
            }
            if placed.is_empty() {
                break;
            }
        }
        let Some(slot) = choice.1.and_then(|p| free[p as usize].next()) else {
            break;
        };
        slot_of[unit as usize] = slot;
        for edge in graph
            .edges(unit)
            .iter()
            .filter(|e| slot_of[e.to as usize] == FREE)
        {
            let sum = &mut pull[edge.to as usize];
            *sum += edge.out + edge.back;
            queue.push((sum.to_bits(), std::cmp::Reverse(edge.to)));
        }
    }
    slot_of
}
