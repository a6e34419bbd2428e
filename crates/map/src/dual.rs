//! Joint bisection of traffic and machine: the tasks are split to minimise the traffic between the two halves
//! of the machine (Pellegrini's dual recursive bipartitioning, with hops along the machine's routes).

use crate::graph::Graph;
use crate::partition::Cut;
use crate::schedule::Stop;
use hopbyte_fabric::random::Random;

/// A piece of the machine and the units assigned to it.
struct Piece {
    places: Vec<u32>,
    units: Vec<u32>,
}

/// Assigns every unit of a graph to a place: `room` tasks on each, filled exactly if units are single tasks.
/// `hops` is the distance between places. `None` if stopped.
pub(crate) fn dual_bisect(
    graph: &Graph,
    room: &[u32],
    hops: &(impl Fn(u32, u32) -> f64 + Sync),
    (rng, stop): (&mut Random, Stop),
) -> Option<Vec<u32>> {
    let mut place_of = vec![0u32; graph.units()];
    // A representative place for the piece of every unit, refined as pieces shrink.
    let mut stands = vec![0u32; graph.units()];
    let mut piece_of = vec![0u32; graph.units()];
    let mut number = vec![0u32; graph.units()];
    let places: Vec<u32> = (0..room.len() as u32)
        .filter(|&p| room[p as usize] > 0)
        .collect();
    let mut level = vec![Piece {
        places,
        units: (0..graph.units() as u32).collect(),
    }];
    let mut pieces = 1;
    while !level.is_empty() {
        let mut next = Vec::new();
        for piece in level {
            if stop.is_set() {
                return None;
            }
            if piece.places.len() <= 1 || piece.units.is_empty() {
                for &u in &piece.units {
                    place_of[u as usize] = piece.places[0];
                    stands[u as usize] = piece.places[0];
                }
                continue;
            }
            let (a, b) = halves(piece.places, hops);
            let (at_a, at_b) = (middle(&a, hops), middle(&b, hops));
            let target: u64 = a.iter().map(|&p| u64::from(room[p as usize])).sum();
            for (i, &u) in piece.units.iter().enumerate() {
                number[u as usize] = i as u32;
            }
            let here = piece_of[piece.units[0] as usize];
            let inside = |u: u32| piece_of[u as usize] == here;
            let bias = |u: u32| -> f32 {
                let outside = graph.edges(u).iter().filter(|e| !inside(e.to));
                outside
                    .map(|e| {
                        let to = stands[e.to as usize];
                        let nearer_b = hops(to, at_a) - hops(to, at_b);
                        (f64::from(e.out) + f64::from(e.back)) as f32 * nearer_b as f32
                    })
                    .sum()
            };
            let apart = hops(at_a, at_b).max(1.0) as f32;
            let biases = piece.units.iter().map(|&u| bias(u) / apart).collect();
            let cut = Cut::of(graph, &piece.units, &number, inside, biases);
            let side = cut.bisect(target, rng);
            let mut parts = [Vec::new(), Vec::new()];
            for (&u, &in_b) in piece.units.iter().zip(&side) {
                parts[usize::from(in_b)].push(u);
                stands[u as usize] = if in_b { at_b } else { at_a };
                piece_of[u as usize] = pieces + u32::from(in_b);
            }
            pieces += 2;
            let [in_a, in_b] = parts;
            next.push(Piece {
                places: a,
                units: in_a,
            });
            next.push(Piece {
                places: b,
                units: in_b,
            });
        }
        level = next;
    }
    Some(place_of)
}

/// Splits places into two distant halves: finds two far ends and assigns each place to the nearer one; ties
/// follow the allocation's order.
fn halves(mut places: Vec<u32>, hops: &impl Fn(u32, u32) -> f64) -> (Vec<u32>, Vec<u32>) {
    let farthest = |from: u32| {
        let far = |a: &u32, b: &u32| hops(from, *a).total_cmp(&hops(from, *b));
        // The first of the farthest, so that numbering breaks ties and nothing else.
        places.iter().rev().copied().max_by(far).unwrap_or(from)
    };
    let one = farthest(places[0]);
    let other = farthest(one);
    let lean = |p: u32| hops(one, p) - hops(other, p);
    places.sort_by(|&a, &b| lean(a).total_cmp(&lean(b)).then(a.cmp(&b)));
    let b = places.split_off(places.len() / 2);
    (places, b)
}

/// A central place of a piece: the one of a few samples with the fewest hops to the others.
fn middle(places: &[u32], hops: &impl Fn(u32, u32) -> f64) -> u32 {
    let step = places.len().div_ceil(16);
    let some: Vec<u32> = places.iter().copied().step_by(step).collect();
    let sum = |p: u32| some.iter().map(|&q| hops(p, q)).sum::<f64>();
    let best = some
        .iter()
        .copied()
        .min_by(|&a, &b| sum(a).total_cmp(&sum(b)));
    best.unwrap_or(places[0])
}
