//! Greedy construction of a placement, task by task.

use crate::graph::Graph;
use crate::linear::Distances;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No place.
const NOWHERE: u32 = u32::MAX;

/// Places the task with the heaviest links to placed tasks next, at the free place nearest to its
/// partners (Hoefler and Snir, ICS 2011). Takes tasks × places steps.
pub(crate) fn greedy<D: Distances>(graph: &Graph, rooms: &[u32], distances: &D) -> Vec<u32> {
    let units = graph.units();
    let mut room = rooms.to_vec();
    let mut place_of = vec![NOWHERE; units];
    let mut pull = vec![0.0f64; units];
    let mut queue: BinaryHeap<(u64, Reverse<u32>)> = BinaryHeap::new();
    let bytes: Vec<f64> = (0..units as u32).map(|u| graph.bytes(u)).collect();
    let mut order: Vec<u32> = (0..units as u32).collect();
    order.sort_by(|&a, &b| {
        let heavier = bytes[b as usize].total_cmp(&bytes[a as usize]);
        heavier.then(a.cmp(&b))
    });
    let mut order = order.into_iter();
    for _ in 0..units {
        let unit = loop {
            match queue.pop() {
                Some((weight, Reverse(unit))) => {
                    let u = unit as usize;
                    if place_of[u] == NOWHERE && weight == pull[u].to_bits() {
                        break Some(unit);
                    }
                }
                None => {
                    break order.by_ref().find(|&u| place_of[u as usize] == NOWHERE);
                }
            }
        };
        let Some(unit) = unit else { break };
        let edges = graph.edges(unit).iter();
        let placed: Vec<(u32, f64, f64)> = edges
            .filter(|e| place_of[e.to as usize] != NOWHERE)
            .map(|e| {
                let place = place_of[e.to as usize];
                (place, f64::from(e.out), f64::from(e.back))
            })
            .collect();
        let Some(place) = nearest(&room, &placed, distances) else {
            break;
        };
        room[place as usize] -= 1;
        place_of[unit as usize] = place;
        for edge in graph.edges(unit) {
            if place_of[edge.to as usize] == NOWHERE {
                let sum = &mut pull[edge.to as usize];
                *sum += f64::from(edge.out + edge.back);
                queue.push((sum.to_bits(), Reverse(edge.to)));
            }
        }
    }
    place_of
}

/// The place with room that costs least towards partners given as (place, bytes to, bytes from).
fn nearest<D: Distances>(room: &[u32], placed: &[(u32, f64, f64)], d: &D) -> Option<u32> {
    let mut best = (f64::INFINITY, None);
    for place in (0..room.len() as u32).filter(|&p| room[p as usize] > 0) {
        let mut cost = 0.0;
        for &(other, out, back) in placed {
            cost += out * d.get(place, other) + back * d.get(other, place);
            if cost >= best.0 {
                break;
            }
        }
        if cost < best.0 {
            best = (cost, Some(place));
        }
        if placed.is_empty() {
            break;
        }
    }
    best.1
}
