//! Multilevel bisection of a graph into parts of exact size: coarsen along heavy edges, grow a part, and refine
//! it by single moves while uncoarsening (Karypis and Kumar 1998; Fiduccia and Mattheyses 1982).

use crate::graph::Graph;
use hopbyte_fabric::random::Random;
use std::collections::BinaryHeap;

/// Size at which coarsening ends.
const SMALL: usize = 80;

/// Parts grown from different seeds on the coarsest graph.
const TRIES: usize = 4;

/// Passes of moves at each level.
const PASSES: usize = 3;

/// Number of moves without improvement after which a pass ends.
const PATIENCE: usize = 150;

/// A graph to bisect: weighted undirected edges, and a bias for each vertex, its attraction to part B
/// (negative: to part A) by vertices outside the graph.
pub(crate) struct Cut {
    offsets: Vec<u32>,
    edges: Vec<(u32, f32)>,
    size: Vec<u32>,
    bias: Vec<f32>,
}

impl Cut {
    /// The subgraph on `units`, numbered in that order. `number` gives a unit's position there (arbitrary for
    /// others), `inside` whether it is one of them.
    pub(crate) fn of(
        graph: &Graph,
        units: &[u32],
        number: &[u32],
        inside: impl Fn(u32) -> bool,
        bias: Vec<f32>,
    ) -> Self {
        let mut offsets = vec![0];
        let mut edges = Vec::new();
        for &unit in units {
            for edge in graph.edges(unit).iter().filter(|e| inside(e.to)) {
                edges.push((number[edge.to as usize], edge.out + edge.back));
            }
            offsets.push(edges.len() as u32);
        }
        Self {
            offsets,
            edges,
            size: units.iter().map(|&u| graph.size[u as usize]).collect(),
            bias,
        }
    }

    fn len(&self) -> usize {
        self.size.len()
    }

    fn edges(&self, v: u32) -> &[(u32, f32)] {
        &self.edges[self.offsets[v as usize] as usize..self.offsets[v as usize + 1] as usize]
    }

    /// Side of every vertex (true is B), with exactly `target` tasks in A if all sizes are 1, else as near as
    /// the sizes allow.
    pub(crate) fn bisect(&self, target: u64, rng: &mut Random) -> Vec<bool> {
        if self.len() > SMALL {
            let (coarse, parent) = self.coarsen(rng);
            if coarse.len() * 10 < self.len() * 9 {
                let above = coarse.bisect(target, rng);
                let mut side: Vec<bool> = parent.iter().map(|&p| above[p as usize]).collect();
                self.improve(&mut side, target);
                return side;
            }
        }
        let mut best: Option<(f64, Vec<bool>)> = None;
        for _ in 0..TRIES {
            let mut side = self.grow(target, rng);
            self.improve(&mut side, target);
            let cost = self.cost(&side) + self.off_balance(&side, target) as f64 * 1e18;
            if best.as_ref().is_none_or(|b| cost < b.0) {
                best = Some((cost, side));
            }
        }
        best.map_or_else(Vec::new, |b| b.1)
    }

    fn cost(&self, side: &[bool]) -> f64 {
        (0..self.len())
            .map(|v| {
                let cut = |e: &&(u32, f32)| side[e.0 as usize] != side[v];
                let edges = self.edges(v as u32).iter().filter(cut);
                let pull = f64::from(self.bias[v]) * if side[v] { -0.5 } else { 0.5 };
                edges.map(|e| f64::from(e.1)).sum::<f64>() * 0.5 + pull
            })
            .sum()
    }

    fn in_a(&self, side: &[bool]) -> u64 {
        let sizes = self.size.iter().zip(side);
        sizes.filter(|s| !s.1).map(|s| u64::from(*s.0)).sum()
    }

    fn off_balance(&self, side: &[bool], target: u64) -> u64 {
        self.in_a(side).abs_diff(target)
    }

    /// Merges each vertex with the neighbour of the heaviest edge.
    fn coarsen(&self, rng: &mut Random) -> (Self, Vec<u32>) {
        let n = self.len();
        let most = (self.size.iter().map(|&s| u64::from(s)).sum::<u64>() / 20).max(2);
        let mut order: Vec<u32> = (0..n as u32).collect();
        rng.shuffle(&mut order);
        let mut parent = vec![u32::MAX; n];
        let mut coarse = 0;
        for v in order {
            if parent[v as usize] != u32::MAX {
                continue;
            }
            let fits = |u: u32| {
                u64::from(self.size[v as usize]) + u64::from(self.size[u as usize]) <= most
            };
            let partner = self
                .edges(v)
                .iter()
                .filter(|e| e.0 != v && parent[e.0 as usize] == u32::MAX && fits(e.0))
                .max_by(|a, b| a.1.total_cmp(&b.1));
            parent[v as usize] = coarse;
            if let Some(&(u, _)) = partner {
                parent[u as usize] = coarse;
            }
            coarse += 1;
        }
        (self.contract(&parent, coarse as usize), parent)
    }

    fn contract(&self, parent: &[u32], n: usize) -> Self {
        let mut members: Vec<[u32; 2]> = vec![[u32::MAX; 2]; n];
        let mut cut = Self {
            offsets: vec![0],
            edges: Vec::new(),
            size: vec![0; n],
            bias: vec![0.0; n],
        };
        for (v, &p) in parent.iter().enumerate() {
            let pair = &mut members[p as usize];
            pair[usize::from(pair[0] != u32::MAX)] = v as u32;
            cut.size[p as usize] += self.size[v];
            cut.bias[p as usize] += self.bias[v];
        }
        let mut at = vec![u32::MAX; n];
        for (p, pair) in members.iter().enumerate() {
            let start = cut.edges.len();
            for &v in pair.iter().filter(|&&v| v != u32::MAX) {
                for &(u, w) in self.edges(v) {
                    let q = parent[u as usize];
                    if q as usize == p {
                        continue;
                    }
                    let known = at[q as usize] as usize;
                    if known >= start && known < cut.edges.len() && cut.edges[known].0 == q {
                        cut.edges[known].1 += w;
                    } else {
                        at[q as usize] = cut.edges.len() as u32;
                        cut.edges.push((q, w));
                    }
                }
            }
            cut.offsets.push(cut.edges.len() as u32);
        }
        cut
    }

    /// Grows part A from a random vertex by strongest attraction.
    fn grow(&self, target: u64, rng: &mut Random) -> Vec<bool> {
        let n = self.len();
        let mut side = vec![true; n];
        let mut pull: Vec<f32> = self.bias.iter().map(|b| -b).collect();
        let mut queue = BinaryHeap::new();
        let mut have = 0;
        let mut order: Vec<u32> = (0..n as u32).collect();
        rng.shuffle(&mut order);
        let mut rest = order.into_iter();
        while have < target {
            let next = loop {
                match queue.pop() {
                    Some(Key(pulled, v)) if !side[v as usize] || pulled != pull[v as usize] => {}
                    Some(Key(_, v)) => break Some(v),
                    None => break rest.by_ref().find(|&v| side[v as usize]),
                }
            };
            let Some(v) = next else { break };
            let size = u64::from(self.size[v as usize]);
            if have + size > target && have > 0 && have + size - target > target - have {
                // Too large to approach the target; a smaller vertex may fit.
                pull[v as usize] = f32::NEG_INFINITY;
                if rest.len() == 0 && queue.is_empty() {
                    break;
                }
                continue;
            }
            side[v as usize] = false;
            have += size;
            for &(u, w) in self.edges(v) {
                if side[u as usize] && pull[u as usize] != f32::NEG_INFINITY {
                    pull[u as usize] += 2.0 * w;
                    queue.push(Key(pull[u as usize], u));
                }
            }
        }
        side
    }

    /// Moves vertices across, best gain first, and keeps the best balance and then the lowest cost seen.
    fn improve(&self, side: &mut [bool], target: u64) {
        for _ in 0..PASSES {
            if !self.pass(side, target) {
                break;
            }
        }
    }

    /// Cost saved when a vertex changes sides.
    fn gain(&self, v: u32, side: &[bool]) -> f32 {
        let here = side[v as usize];
        let edges = self.edges(v).iter();
        let sum: f32 = edges
            .map(|e| {
                if side[e.0 as usize] == here {
                    -e.1
                } else {
                    e.1
                }
            })
            .sum();
        sum + if here {
            -self.bias[v as usize]
        } else {
            self.bias[v as usize]
        }
    }

    fn pass(&self, side: &mut [bool], target: u64) -> bool {
        let n = self.len();
        let mut gain: Vec<f32> = (0..n as u32).map(|v| self.gain(v, side)).collect();
        let mut locked = vec![false; n];
        let mut queues = [BinaryHeap::new(), BinaryHeap::new()];
        let unbalanced = self.off_balance(side, target) > 0;
        for v in 0..n {
            let edges = self.edges(v as u32);
            let boundary = edges.iter().any(|e| side[e.0 as usize] != side[v]);
            if boundary || unbalanced || self.bias[v] != 0.0 || edges.is_empty() {
                queues[usize::from(side[v])].push(Key(gain[v], v as u32));
            }
        }
        let mut have = self.in_a(side);
        let mut saved = 0.0f64;
        let mut moves: Vec<u32> = Vec::new();
        let mut best = (have.abs_diff(target), 0.0f64, 0usize);
        let begin = best;
        while moves.len() < best.2 + PATIENCE {
            let from = match have.cmp(&target) {
                std::cmp::Ordering::Greater => 0,
                std::cmp::Ordering::Less => 1,
                std::cmp::Ordering::Equal => {
                    let mut top = |q: usize| self.top(&mut queues[q], q == 1, side, &locked, &gain);
                    usize::from(top(1) > top(0))
                }
            };
            if self.top(&mut queues[from], from == 1, side, &locked, &gain) == f32::NEG_INFINITY {
                break;
            }
            let Some(Key(_, v)) = queues[from].pop() else {
                break;
            };
            locked[v as usize] = true;
            saved += f64::from(gain[v as usize]);
            let size = u64::from(self.size[v as usize]);
            have = if from == 0 { have - size } else { have + size };
            side[v as usize] = from == 0;
            moves.push(v);
            for &(u, w) in self.edges(v) {
                let same = side[u as usize] == side[v as usize];
                gain[u as usize] += if same { -2.0 * w } else { 2.0 * w };
                if !locked[u as usize] {
                    queues[usize::from(side[u as usize])].push(Key(gain[u as usize], u));
                }
            }
            let off = have.abs_diff(target);
            if off < best.0 || (off == best.0 && saved > best.1 + 1e-9 * best.1.abs()) {
                best = (off, saved, moves.len());
            }
        }
        for &v in &moves[best.2..] {
            side[v as usize] = !side[v as usize];
        }
        best.0 < begin.0 || best.1 > 0.0
    }

    /// Gain of the best valid vertex of a queue; the vertex remains at the top.
    fn top(
        &self,
        queue: &mut BinaryHeap<Key>,
        in_b: bool,
        side: &[bool],
        locked: &[bool],
        gain: &[f32],
    ) -> f32 {
        while let Some(&Key(known, v)) = queue.peek() {
            let v = v as usize;
            if !locked[v] && side[v] == in_b && known == gain[v] {
                return known;
            }
            queue.pop();
        }
        f32::NEG_INFINITY
    }
}

/// A vertex by gain; ties by number, so that the order is deterministic.
#[derive(Clone, Copy, Debug)]
struct Key(f32, u32);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
    }
}
