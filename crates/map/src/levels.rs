//! Search level by level on machines that are trees: which tasks share the largest parts of the machine first, then which
//! share the parts of these, down to single places.
//!
//! Where a byte between two large parts costs far more than one inside, a single annealing is either too hot for the lower
//! levels or too cold for the upper ones. Each level has a temperature of its own here, and its parts take as many tasks as
//! their places do, so a swap is one between parts (compare Faraj, van der Grinten, Meyerhenke, Träff and Schulz,
//! "High-quality hierarchical process mapping", SEA 2020, which divides graphs from the top down).

use crate::arrangement::{Arrangement, FREE, Swap};
use crate::engine::{Engine, Outcome};
use crate::graph::Graph;
use crate::linear::{Distances, change};
use crate::paths::Paths;
use crate::problem::APART;
use crate::schedule::Schedule;
use hopbyte_fabric::random::Random;

/// Maximum number of places, all pairs of which are compared, and of levels.
const MOST: usize = 2048;
const DEEP: usize = 8;

/// Least ratio of two successive distances, of any level, from which levels are searched one by one. In the fat tree of SPf
/// of `bench/map` (2 and 4 hops) a single annealing ends 0.3 and 0.8 % lower for two seeds; with distances of 1:5:25 levels
/// end 1.9 and 2.1 % lower on SP in 7 s of processor time, and alike in 4 s.
const STEPS: f64 = 3.0;

/// Temperature at the start of a level, by the mean cost of a flow between its parts, and at the end, as a share of
/// that. Chosen on the traffic of SP in eight parts.
const HEAT: f64 = 2.0;
const COLD: f64 = 0.05;

/// A level of the tree: parts of places, none of them nearer to another part than its own places are.
struct Level {
    /// Part of every place.
    of: Vec<u32>,
    /// A place of every part.
    stands: Vec<u32>,
    /// Distance beyond which parts do not have the same larger part.
    within: f64,
}

/// The levels of a tree, from the largest parts to the smallest.
pub(crate) struct Levels {
    levels: Vec<Level>,
    /// Most bytes that a place may send or receive, if there is such a limit.
    most: Option<f64>,
}

/// Cost of a byte above the limit of a place: by the distance of the nearest places at first, then, when little else
/// changes any more, by that of the farthest. Guessed.
const STEEP: f64 = 8.0;
const HARD: f64 = 2.0;
const COOL: f64 = 0.2;

/// Distances between parts.
struct Between<'a, D> {
    stands: &'a [u32],
    distances: &'a D,
}

impl<D: Distances> Distances for Between<'_, D> {
    #[inline]
    fn get(&self, a: u32, b: u32) -> f64 {
        if a == b {
            return 0.0;
        }
        let [a, b] = [a, b].map(|part| self.stands[part as usize]);
        self.distances.get(a, b)
    }
}

impl Levels {
    /// `None` if distances are not those of a tree with levels far apart, or places are many. With a placement of tasks no
    /// place may send or receive more bytes than one does there.
    pub(crate) fn of<D: Distances>(
        places: usize,
        distances: &D,
        limit: Option<(&Graph, &[u32])>,
    ) -> Option<Self> {
        if !(4..=MOST).contains(&places) {
            return None;
        }
        let heights = heights(places, distances)?;
        // Bytes that only leave their node cost next to nothing.
        let apart = if limit.is_some() { APART } else { 0.0 };
        let far = heights.partition_point(|h| *h <= apart);
        if !heights[far..].windows(2).any(|h| h[1] >= STEPS * h[0]) {
            return None;
        }
        let mut levels: Vec<Level> = Vec::new();
        for ends in heights.windows(2).rev() {
            let (of, stands) = parts(places, distances, ends[0])?;
            let within = ends[1];
            levels.push(Level { of, stands, within });
        }
        let most = limit.map(|(graph, place_of)| {
            let loads = loads(graph, places, |unit| place_of[unit as usize]);
            loads.iter().flatten().copied().fold(0.0, f64::max)
        });
        (levels.len() > 1).then_some(Self { levels, most })
    }
}

/// All distances between places, rising; `None` if they are many.
fn heights<D: Distances>(places: usize, distances: &D) -> Option<Vec<f64>> {
    let mut all = vec![0.0];
    for a in 0..places as u32 {
        for b in 0..a {
            let far = distances.get(a, b);
            if far != distances.get(b, a) {
                return None;
            }
            if let Err(at) = all.binary_search_by(|x: &f64| x.total_cmp(&far)) {
                all.insert(at, far);
                if all.len() > DEEP {
                    return None;
                }
            }
        }
    }
    Some(all)
}

/// Part of every place, where those of a part are no farther apart than `within`, and a place of each; `None` if such
/// parts overlap.
fn parts<D: Distances>(places: usize, distances: &D, within: f64) -> Option<(Vec<u32>, Vec<u32>)> {
    let mut stands: Vec<u32> = Vec::new();
    let mut of = Vec::with_capacity(places);
    for place in 0..places as u32 {
        let near = |&s: &u32| s == place || distances.get(s, place) <= within;
        let part = stands.iter().position(near).unwrap_or(stands.len());
        if part == stands.len() {
            stands.push(place);
        }
        of.push(part as u32);
    }
    let fits =
        |a: usize, b: usize| (of[a] == of[b]) == (distances.get(a as u32, b as u32) <= within);
    let all = (0..places).all(|a| (0..a).all(|b| fits(a, b)));
    all.then_some((of, stands))
}

impl<P: Paths, D: Distances> Engine<'_, P, D> {
    /// Searches every level, from the largest parts to the smallest, each as long as all that follow.
    pub(crate) fn by_level(
        &self,
        levels: &Levels,
        state: &mut Outcome,
        whole: f64,
        rng: &mut Random,
    ) {
        let mut left = whole;
        for (number, level) in levels.levels.iter().enumerate() {
            if number + 1 < levels.levels.len() {
                left *= 0.5;
            }
            let last = level.stands.len() == level.of.len();
            let ways = match levels.most.filter(|_| last) {
                None => vec![(HEAT, 0.0)],
                Some(_) => vec![
                    (HEAT, STEEP * level.within),
                    (COOL, HARD * levels.levels[0].within),
                ],
            };
            let share = left / ways.len() as f64;
            for (heat, steep) in ways {
                let limit = levels.most.filter(|_| last).map(|most| (most, steep));
                if !self.one_level((level, heat, limit), state, share, rng) {
                    return;
                }
            }
        }
    }

    /// Searches one level; whether it was not cut short.
    fn one_level(
        &self,
        (level, heat, limit): (&Level, f64, Option<(f64, f64)>),
        state: &mut Outcome,
        share: f64,
        rng: &mut Random,
    ) -> bool {
        if state.effort.is_over() {
            return false;
        }
        let single = self.level(&state.place_of, false);
        let (slots, order) = single.slots.gathered(&level.of);
        let mut slot_at = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            slot_at[old as usize] = new as u32;
        }
        let start: Vec<u32> = single.start.iter().map(|&s| slot_at[s as usize]).collect();
        let between = Between {
            stands: &level.stands,
            distances: self.distances,
        };
        let flow = self.flow(level, &state.place_of);
        let schedule = Schedule::new(state.effort.part(share, true), heat * flow, 1e-9 * flow);
        let at = Arrangement::new(&slots, &single.graph, &start);
        let limit = limit.map(|(most, steep)| Limit {
            most,
            steep,
            loads: loads(&single.graph, level.stands.len(), |unit| at.place(unit)),
        });
        let mut search = Parted {
            graph: &single.graph,
            distances: &between,
            at,
            limit,
        };
        let (end, trials, cut) = search.anneal(schedule.down_to(COLD), rng);
        state.trials += trials;
        state.effort.charge(trials, true);
        if cut {
            return false;
        }
        let end: Vec<u32> = end.iter().map(|&s| order[s as usize]).collect();
        Self::take(state, &single, &end);
        self.keep(state);
        true
    }

    /// Mean cost of the flows of two tasks between parts of one larger part.
    fn flow(&self, level: &Level, place_of: &[u32]) -> f64 {
        let (mut sum, mut flows) = (0.0, 0.0f64);
        for (task, &here) in (0..).zip(place_of) {
            for edge in self.graph.edges(task) {
                let there = place_of[edge.to as usize];
                let far = self.distances.get(here, there);
                if level.of[here as usize] != level.of[there as usize] && far <= level.within {
                    sum += f64::from(edge.out + edge.back) * far;
                    flows += 1.0;
                }
            }
        }
        sum / flows.max(1.0)
    }
}

/// Tasks in parts.
struct Parted<'a, D> {
    at: Arrangement<'a>,
    graph: &'a Graph,
    distances: &'a Between<'a, D>,
    limit: Option<Limit>,
}

/// A limit of the bytes that places send and receive, and these bytes.
struct Limit {
    most: f64,
    steep: f64,
    loads: Vec<[f64; 2]>,
}

/// Bytes that leave and reach every place.
fn loads(graph: &Graph, places: usize, place: impl Fn(u32) -> u32) -> Vec<[f64; 2]> {
    let mut loads = vec![[0.0; 2]; places];
    for unit in 0..graph.units() as u32 {
        let here = place(unit);
        for edge in graph.edges(unit).iter().filter(|e| place(e.to) != here) {
            loads[here as usize][0] += f64::from(edge.out);
            loads[here as usize][1] += f64::from(edge.back);
        }
    }
    loads
}

impl Limit {
    /// Change of the bytes that leave and reach the places of a swap.
    fn moved(graph: &Graph, at: &Arrangement<'_>, swap: Swap) -> [[f64; 2]; 2] {
        let mut sums = [[0.0; 2]; 2];
        for (unit, partner, home, side) in [
            (swap.unit, swap.partner, swap.from, 0),
            (swap.partner, swap.unit, swap.to, 1),
        ] {
            if unit == FREE {
                continue;
            }
            let away = swap.from + swap.to - home;
            for edge in graph.edges(unit) {
                let (out, back) = (f64::from(edge.out), f64::from(edge.back));
                let there = at.place(edge.to);
                // Bytes between both units of a swap leave the place of the other one afterwards; each unit counts its own.
                if edge.to == partner || (there != home && there != away) {
                    for (which, sign) in [(side, -1.0), (1 - side, 1.0)] {
                        sums[which][0] += sign * out;
                        sums[which][1] += sign * back;
                    }
                    continue;
                }
                // Bytes to a unit that stays are outside both places now, or within one.
                let sign = if there == home { 1.0 } else { -1.0 };
                let (ours, theirs) = if there == home {
                    (1 - side, side)
                } else {
                    (side, 1 - side)
                };
                sums[ours][0] += sign * out;
                sums[ours][1] += sign * back;
                sums[theirs][1] += sign * out;
                sums[theirs][0] += sign * back;
            }
        }
        sums
    }

    /// Cost of such a change, by the bytes above the limit.
    fn cost(&self, swap: Swap, moved: &[[f64; 2]; 2]) -> f64 {
        let above = |bytes: f64| (bytes - self.most).max(0.0);
        let places = [swap.from, swap.to].map(|p| &self.loads[p as usize]);
        let pairs = places.into_iter().flatten().zip(moved.iter().flatten());
        let grown: f64 = pairs
            .map(|(old, more)| above(old + more) - above(*old))
            .sum();
        self.steep * grown
    }
}

impl<D: Distances> Parted<'_, D> {
    /// Counts the bytes of a performed swap.
    fn settle(&mut self, swap: Swap, moved: Option<[[f64; 2]; 2]>) {
        let (Some(limit), Some(moved)) = (&mut self.limit, moved) else {
            return;
        };
        for (place, more) in [swap.from, swap.to].into_iter().zip(moved) {
            let load = &mut limit.loads[place as usize];
            load[0] += more[0];
            load[1] += more[1];
        }
    }

    /// Returns the best arrangement seen, the number of trials, and whether they ended before the planned number.
    fn anneal(&mut self, mut schedule: Schedule, rng: &mut Random) -> (Vec<u32>, u64, bool) {
        let period = (self.graph.units() as u64).next_power_of_two().max(256);
        let (mut grown, mut least) = (0.0, 0.0);
        let mut best = self.at.slot_of().to_vec();
        while schedule.go_on(1) {
            let unit = rng.below(self.graph.units()) as u32;
            if let Some(swap) = self.at.to_part(self.graph, unit, rng) {
                let mut change = change(self.graph, &self.at, self.distances, swap);
                let moved = self.limit.as_ref().map(|limit| {
                    let moved = Limit::moved(self.graph, &self.at, swap);
                    change += limit.cost(swap, &moved);
                    moved
                });
                if change <= schedule.limit(rng) {
                    grown += change;
                    self.at.perform(swap);
                    self.settle(swap, moved);
                }
            }
            if schedule.trials().is_multiple_of(period) && grown < least {
                least = grown;
                best.copy_from_slice(self.at.slot_of());
            }
        }
        if grown < least {
            best.copy_from_slice(self.at.slot_of());
        }
        (best, schedule.trials(), schedule.is_cut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrangement::Slots;
    use crate::linear::MatrixDistances;
    use hopbyte_fabric::Exchange;

    /// Distances of a tree of two levels: 4 parts of 3 places.
    fn tree() -> MatrixDistances {
        let far = |a: usize, b: usize| match (a == b, a / 3 == b / 3) {
            (true, _) => 0.0,
            (_, true) => 2.0,
            _ => 20.0,
        };
        let cost = (0..144).map(|i| far(i / 12, i % 12)).collect();
        MatrixDistances { places: 12, cost }
    }

    #[test]
    fn levels_are_those_of_a_tree() {
        let levels = Levels::of(12, &tree(), None).unwrap().levels;
        let parts: Vec<usize> = levels.iter().map(|l| l.stands.len()).collect();
        assert_eq!(parts, [4, 12]);
        assert_eq!(levels[0].of, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
        assert_eq!([levels[0].within, levels[1].within], [20.0, 2.0]);
        // A ring is no tree, though its distances are few.
        let refused = |places: usize, far: &dyn Fn(usize, usize) -> f32| {
            let cost = (0..places * places).map(|i| far(i / places, i % places));
            let cost = cost.collect();
            Levels::of(places, &MatrixDistances { places, cost }, None).is_none()
        };
        assert!(refused(
            8,
            &|a, b| a.abs_diff(b).min(8 - a.abs_diff(b)).pow(2) as f32
        ));
        // Nor are distances that are not the same back.
        assert!(refused(4, &|a, b| if a < b {
            1.0
        } else {
            (a - b) as f32 * 4.0
        }));
        // All places alike, and levels that a single annealing serves.
        assert!(refused(6, &|a, b| f32::from(a != b)));
        let near = |a: usize, b: usize| if a / 3 == b / 3 { 2.0 } else { 4.0 };
        let near = |a: usize, b: usize| if a == b { 0.0 } else { near(a, b) };
        assert!(refused(12, &near));
        // Leaving a place is no level.
        let leaf = |a: usize, b: usize| if a / 3 == b / 3 { 0.0625 } else { 2.0625 };
        let cost = (0..144).map(|i| {
            if i % 13 == 0 {
                0.0
            } else {
                leaf(i / 12, i % 12)
            }
        });
        let distances = MatrixDistances {
            places: 12,
            cost: cost.collect(),
        };
        let graph = Graph::of_tasks(&Exchange::new(2, vec![(0, 1, 1.0, 1)]).unwrap());
        assert!(Levels::of(12, &distances, Some((&graph, &[0, 1]))).is_none());
        assert!(Levels::of(12, &distances, None).is_some());
    }

    #[test]
    fn bytes_of_places_follow_every_swap() {
        let mut rng = Random::new(5);
        let flows: Vec<_> = (0..90)
            .map(|_| {
                (
                    rng.below(11) as u32,
                    rng.below(11) as u32,
                    rng.below(50) as f64,
                    1,
                )
            })
            .filter(|f| f.0 != f.1)
            .collect();
        let graph = Graph::of_tasks(&Exchange::new(11, flows).unwrap());
        let slots = Slots::new(4, (0..12).map(|s| (s / 3, 1)));
        let start: Vec<u32> = (0..11).collect();
        let mut at = Arrangement::new(&slots, &graph, &start);
        let mut kept = loads(&graph, 4, |unit| at.place(unit));
        let mut swaps = 0;
        while swaps < 200 {
            let Some(swap) = at.swap(rng.below(11) as u32, rng.below(12) as u32) else {
                continue;
            };
            let moved = Limit::moved(&graph, &at, swap);
            at.perform(swap);
            for (place, more) in [swap.from, swap.to].into_iter().zip(moved) {
                (0..2).for_each(|way| kept[place as usize][way] += more[way]);
            }
            assert_eq!(kept, loads(&graph, 4, |unit| at.place(unit)));
            swaps += 1;
        }
    }
}
