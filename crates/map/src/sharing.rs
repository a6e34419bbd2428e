//! Assignment of tasks to routers, for machines with a last link of its own for every place (fat trees by
//! destination).
//!
//! A task's traffic from other routers arrives over that link for any placement on the routers, so the
//! assignment to routers alone determines this part of the worst link. A trial reads the partners, not the
//! routes, and takes a tenth of the time of one that updates loads. The placement on each router is left to
//! [`crate::search`].

use crate::arrangement::{Arrangement, FREE, Slots, Swap};
use crate::change::Change;
use crate::evaluate::is_network;
use crate::graph::Graph;
use crate::near::Near;
use crate::paths::routers::{Between, RouterPaths};
use crate::problem::Problem;
use crate::schedule::{Budget, Schedule, Stop};
use hopbyte_fabric::LinkId;
use hopbyte_fabric::random::Random;

/// Share of the tasks that stays above the limit.
const ABOVE: f64 = 0.03;

/// Starting temperature, as a share of a typical flow squared; and cost of a byte between routers relative to a
/// byte above the limit, as a share of a typical flow.
const HEAT: f64 = 0.4;
const APART: f64 = 0.006;

/// Share of the limit that a router's uplinks keep to if they split its bytes evenly; real splits are uneven.
const EVEN: f64 = 0.93;

/// Chances in 4 that a trial starts from a task above its limit, and number of draws to find one.
const HOT: (usize, usize) = (3, 8);

/// Routers of places, and seconds per byte on the links that depend on the assignment only.
pub(crate) struct Routers {
    /// Router of every place.
    of: Vec<u32>,
    /// Seconds per byte on every place's own last link.
    way_in: Vec<f64>,
    /// Seconds per byte on all links out of every router together.
    out: Vec<f64>,
    /// The places of a place's router.
    pub(crate) beside: Near,
}

impl Routers {
    /// `None` unless routers have several places and every place has a last link of its own, or if stopped.
    pub(crate) fn new<B: Between>(
        problem: &Problem<'_>,
        paths: &RouterPaths<B>,
        stop: Stop,
    ) -> Option<Self> {
        let ways = paths.ways_in(stop)?;
        let seconds = |l: LinkId| 1.0 / problem.live_capacity(l);
        let way_in = |links: &Vec<u32>| {
            let links = links.iter().map(|&l| LinkId(l));
            let network = links.filter(|&l| is_network(problem, l));
            network.map(seconds).max_by(f64::total_cmp)
        };
        let way_in = ways.iter().map(way_in).collect::<Option<Vec<f64>>>()?;
        let of = paths.routers().to_vec();
        let mut out = Vec::new();
        for (place, &router) in of.iter().enumerate() {
            // Routers are numbered in the order of their first places.
            if router as usize == out.len() {
                let router = problem.fabric.node(problem.node_at(place as u32)).router;
                let links = problem.fabric.links_from(router).iter();
                let network = links.filter(|&&l| is_network(problem, l));
                let capacity: f64 = network.map(|&l| problem.live_capacity(l)).sum();
                out.push(1.0 / capacity);
            }
        }
        Some(Self {
            beside: Near::beside(&of),
            of,
            way_in,
            out,
        })
    }
}

/// An assignment of tasks to routers, and the bytes that each task receives from other routers.
struct Sharing<'a> {
    graph: &'a Graph,
    routers: &'a Routers,
    at: Arrangement<'a>,
    /// Arrivals by unit; and departures by router.
    arrives: Vec<f64>,
    leaves: Vec<f64>,
    /// Time that few tasks exceed.
    limit: f64,
    apart: f64,
}

impl<'a> Sharing<'a> {
    fn new(graph: &'a Graph, slots: &'a Slots, routers: &'a Routers, start: &[u32]) -> Self {
        Self {
            graph,
            routers,
            at: Arrangement::new(slots, graph, start),
            arrives: vec![0.0; graph.units()],
            leaves: vec![0.0; routers.out.len()],
            limit: f64::INFINITY,
            apart: APART * graph.typical_flow(),
        }
    }

    fn router_of(&self, unit: u32) -> u32 {
        self.routers.of[self.at.place(unit) as usize]
    }

    fn time(&self, unit: u32) -> f64 {
        self.arrives[unit as usize] * self.routers.way_in[self.at.place(unit) as usize]
    }

    /// Recounts arrivals; returns the longest time and the total bytes.
    fn recount(&mut self) -> (f64, f64) {
        let (mut worst, mut all) = (0.0f64, 0.0);
        self.leaves.fill(0.0);
        for unit in 0..self.graph.units() as u32 {
            let here = self.router_of(unit);
            let others = self.graph.edges(unit).iter();
            let (mut bytes, mut out) = (0.0, 0.0);
            for edge in others.filter(|e| self.router_of(e.to) != here) {
                bytes += f64::from(edge.back);
                out += f64::from(edge.out);
            }
            self.leaves[here as usize] += out;
            self.arrives[unit as usize] = bytes;
            worst = worst.max(self.time(unit));
            all += bytes;
        }
        (worst, all)
    }

    /// Lowers the limit to the time that few tasks exceed.
    fn tighten(&mut self) {
        let mut times: Vec<f64> = (0..self.graph.units() as u32)
            .map(|u| self.time(u))
            .collect();
        if times.is_empty() {
            return;
        }
        let at = (times.len() as f64 * ABOVE) as usize;
        let few = *times.select_nth_unstable_by(at, |a, b| b.total_cmp(a)).1;
        self.limit = self.limit.min(few);
    }

    /// Changes of arrivals, and of both routers' departures, by a unit's move between routers; `partner` moves
    /// the other way.
    fn shift(
        &self,
        (unit, partner): (u32, u32),
        (from, to): (u32, u32),
        change: &mut Change,
    ) -> (f64, f64) {
        let (mut here, mut there) = (0.0, 0.0);
        for edge in self.graph.edges(unit) {
            let (out, back) = (f64::from(edge.out), f64::from(edge.back));
            if edge.to == partner {
                // Still on different routers, with roles exchanged.
                here -= out;
                there += out;
                continue;
            }
            let other = self.router_of(edge.to);
            let sign = if other == from {
                here += back;
                there += out;
                1.0
            } else if other == to {
                here -= out;
                there -= back;
                -1.0
            } else {
                here -= out;
                there += out;
                continue;
            };
            change.put(unit as usize, sign * back);
            change.put(edge.to as usize, sign * out);
        }
        (here, there)
    }

    /// Performs a swap if the cost grows by no more than `most`: excess over the limit in bytes, squared, and
    /// bytes between routers.
    fn attempt(&mut self, swap: Swap, most: f64, change: &mut Change) {
        let [from, to] = [swap.from, swap.to].map(|p| self.routers.of[p as usize]);
        let (mut here, mut there) = self.shift((swap.unit, swap.partner), (from, to), change);
        change.put(swap.unit as usize, 0.0);
        if swap.partner != FREE {
            let (more, less) = self.shift((swap.partner, swap.unit), (to, from), change);
            (here, there) = (here + less, there + more);
            change.put(swap.partner as usize, 0.0);
        }
        let takes =
            self.grows(swap, change) + self.crowds(swap.from, here) + self.crowds(swap.to, there)
                <= most;
        if takes {
            for &unit in &change.touched {
                self.arrives[unit as usize] += change.delta[unit as usize];
            }
            self.leaves[from as usize] += here;
            self.leaves[to as usize] += there;
            self.at.perform(swap);
        }
        change.clear();
    }

    /// Growth of the cost of arrivals.
    fn grows(&self, swap: Swap, change: &Change) -> f64 {
        let mut sum = 0.0;
        for &unit in &change.touched {
            let old_place = self.at.place(unit);
            let new_place = match unit {
                u if u == swap.unit => swap.to,
                u if u == swap.partner => swap.from,
                _ => old_place,
            };
            let above = |bytes: f64, place: u32| {
                let excess = bytes - self.limit / self.routers.way_in[place as usize];
                excess.max(0.0).powi(2)
            };
            let (old, delta) = (self.arrives[unit as usize], change.delta[unit as usize]);
            sum += above(old + delta, new_place) - above(old, old_place) + self.apart * delta;
        }
        sum
    }

    /// Growth of the cost of departures from the router of a place, if split evenly over its uplinks.
    fn crowds(&self, place: u32, change: f64) -> f64 {
        let router = self.routers.of[place as usize] as usize;
        let (way, all) = (
            self.routers.way_in[place as usize],
            self.routers.out[router],
        );
        let above = |bytes: f64| ((bytes * all - EVEN * self.limit) / way).max(0.0).powi(2);
        way / all * (above(self.leaves[router] + change) - above(self.leaves[router]))
    }

    /// A swap that brings a task to a partner's router, often a task above the limit.
    fn candidate(&self, rng: &mut Random) -> Option<Swap> {
        let units = self.graph.units();
        let mut unit = rng.below(units) as u32;
        if rng.below(4) < HOT.0 {
            for _ in 0..HOT.1 {
                if self.time(unit) > self.limit {
                    break;
                }
                unit = rng.below(units) as u32;
            }
        }
        let edges = self.graph.edges(unit);
        if edges.is_empty() {
            return None;
        }
        let other = edges[rng.below(edges.len())].to;
        let (moves, around) = if rng.below(2) == 0 {
            (unit, other)
        } else {
            (other, unit)
        };
        if self.router_of(moves) == self.router_of(around) {
            return None;
        }
        self.at.near(moves, around, &self.routers.beside, rng)
    }
}

/// Searches from a slot for every unit; returns the best assignment seen, the number of trials, and whether they
/// ended before the planned number.
pub(crate) fn share(
    graph: &Graph,
    slots: &Slots,
    routers: &Routers,
    start: &[u32],
    budget: Budget,
    rng: &mut Random,
) -> (Vec<u32>, u64, bool) {
    let units = graph.units();
    let flow = graph.typical_flow();
    let mut sharing = Sharing::new(graph, slots, routers, start);
    let mut change = Change::new(units);
    let mut best = sharing.recount();
    let mut best_slots = start.to_vec();
    let mut schedule = Schedule::new(budget, HEAT * flow * flow, 1e-9 * flow * flow);
    let period = 8 * units as u64;
    let mut next = 0;
    while schedule.go_on(1) {
        if schedule.trials() > next {
            next += period;
            let now = sharing.recount();
            if now < best {
                best = now;
                best_slots.copy_from_slice(sharing.at.slot_of());
            }
            sharing.tighten();
        }
        if let Some(swap) = sharing.candidate(rng) {
            sharing.attempt(swap, schedule.limit(rng), &mut change);
        }
    }
    if !schedule.is_cut() && sharing.recount() < best {
        best_slots.copy_from_slice(sharing.at.slot_of());
    }
    (best_slots, schedule.trials(), schedule.is_cut())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::tests::stored;
    use hopbyte_fabric::{Allocation, Exchange, NodeId, Routing, spec};

    #[test]
    fn what_arrives_and_leaves_is_kept_up_to_date() {
        let spec::Described { fabric, .. } = spec::machine("fattree:down=4x4,up=1x4").unwrap();
        let routing = Routing::named(&fabric, "updown").unwrap();
        // Two places are left free.
        let nodes = (0..14).map(|n| (NodeId(n), 1)).collect();
        let allocation = Allocation::new(&fabric, nodes).unwrap();
        let pairs = (0..12u32).flat_map(|t| [1, 3, 4].map(|d| (t, (t + d) % 12, f64::from(d), 1)));
        let exchange = Exchange::new(12, pairs).unwrap();
        let problem = Problem::new(&fabric, &routing, &exchange, &allocation);
        let graph = Graph::of_tasks(&exchange);
        let routers = Routers::new(&problem, &stored(&problem), Stop::default()).unwrap();
        let slots = Slots::new(14, (0..14).map(|p| (p, 1)));
        let start: Vec<u32> = (0..12).collect();
        let mut sharing = Sharing::new(&graph, &slots, &routers, &start);
        let mut change = Change::new(12);
        let mut rng = Random::stream(1, 1);
        sharing.recount();
        for _ in 0..500 {
            if let Some(swap) = sharing.candidate(&mut rng) {
                sharing.attempt(swap, 1e9, &mut change);
            }
        }
        let (arrives, leaves) = (sharing.arrives.clone(), sharing.leaves.clone());
        sharing.recount();
        let near = |a: &f64, b: &f64| (a - b).abs() < 1e-9;
        assert!(
            arrives
                .iter()
                .zip(&sharing.arrives)
                .all(|(a, b)| near(a, b))
        );
        assert!(leaves.iter().zip(&sharing.leaves).all(|(a, b)| near(a, b)));
        assert_ne!(sharing.at.slot_of(), start);
    }

    #[test]
    fn machines_without_a_way_for_every_place_have_none() {
        let exchange = Exchange::new(2, []).unwrap();
        for (machine, way) in [
            ("torus:4:nodes=2", "shortest"),
            ("dragonfly:3x2:nodes=2", "minimal"),
        ] {
            let fabric = spec::fabric(machine).unwrap();
            let routing = Routing::named(&fabric, way).unwrap();
            let nodes = fabric.node_ids().map(|n| (n, 1)).collect();
            let allocation = Allocation::new(&fabric, nodes).unwrap();
            let problem = Problem::new(&fabric, &routing, &exchange, &allocation);
            let paths = stored(&problem);
            assert!(
                Routers::new(&problem, &paths, Stop::default()).is_none(),
                "{machine}"
            );
        }
    }
}
