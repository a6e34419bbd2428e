//! Bounds from the groups of tasks that fit on one node, or on the nodes of one router.
//!
//! All connected groups of at most as many tasks as there are slots are enumerated (Wernicke, "Efficient detection of
//! network motifs", IEEE/ACM TCBB 2006). The tasks of a node form such groups, which exchange nothing with one another,
//! so bytes out of the node, and bytes inside, are sums over them.
//!
//! - Bytes inside: a task's part of its group's inner bytes, in equal parts, is at most the largest one over all groups
//!   with that task. The sum over tasks bounds the bytes that do not leave.
//! - Worst node: if no node sends or receives more than B, a task shares its node with at most n(B) − 1 others, and the
//!   tasks need at least Σ 1 / n(B) nodes. The least B for which there are so many is a bound.

use crate::graph::Graph;

/// Maximum number of groups that are enumerated, and of tasks in a group.
const MOST_GROUPS: u64 = 1 << 20;
const MOST_TASKS: usize = 8;

/// Reduction of results for rounding errors of sums.
const ROUNDED: f64 = 1.0 - 1e-12;

/// What groups of tasks send at least, receive at least, and keep at most.
pub(crate) struct Together {
    most: usize,
    /// Least bytes out of a group of k tasks with task t, at t × `most` + k − 1, and into it. Groups need not be
    /// connected.
    out: Vec<f64>,
    back: Vec<f64>,
    /// Bytes that leave groups in any partition.
    leaving: f64,
}

impl Together {
    /// Groups of at most `most` tasks; `None` if there are too many groups, or single tasks only.
    pub(crate) fn of(graph: &Graph, most: usize) -> Option<Self> {
        let tasks = graph.units();
        if !(2..=MOST_TASKS).contains(&most) || tasks == 0 {
            return None;
        }
        let mut walk = Walk {
            graph,
            most,
            left: MOST_GROUPS,
            members: Vec::new(),
            is_member: vec![false; tasks],
            is_seen: vec![false; tasks],
            out: vec![f64::INFINITY; tasks * most],
            back: vec![f64::INFINITY; tasks * most],
            part: vec![0.0; tasks],
        };
        for first in 0..tasks as u32 {
            walk.begin(first)?;
        }
        let (own, kept) = (0..tasks as u32).fold((0.0, 0.0), |(own, kept), t| {
            (own + sides(graph, t).0, kept + walk.part[t as usize])
        });
        Some(Self {
            most,
            out: united(&walk.out, most),
            back: united(&walk.back, most),
            leaving: (own * ROUNDED - kept).max(0.0),
        })
    }

    /// Least bytes that leave groups, of all tasks together.
    pub(crate) fn leaving(&self) -> f64 {
        self.leaving
    }

    /// Least time of the worst of `nodes` groups, which send and receive at the given rates at most.
    pub(crate) fn worst(&self, nodes: usize, (inject, eject): (f64, f64)) -> f64 {
        if inject.is_nan() || eject.is_nan() || inject <= 0.0 || eject <= 0.0 {
            return 0.0;
        }
        let times = self.out.iter().zip(&self.back);
        let times: Vec<f64> = times
            .map(|(out, back)| (out / inject).max(back / eject))
            .collect();
        let fits = |limit: f64| {
            let needed = times.chunks(self.most).map(|of_task| {
                let size = of_task.iter().rposition(|&time| time <= limit);
                size.map_or(f64::INFINITY, |at| 1.0 / (at + 1) as f64)
            });
            needed.sum::<f64>() <= nodes as f64 * (1.0 + 1e-9)
        };
        let mut limits = times.clone();
        limits.sort_by(f64::total_cmp);
        limits.dedup();
        let at = limits.partition_point(|&limit| !fits(limit));
        limits.get(at).map_or(0.0, |limit| limit * ROUNDED)
    }
}

/// Bytes from a task to others, and from others to it.
fn sides(graph: &Graph, task: u32) -> (f64, f64) {
    let others = graph.edges(task).iter().filter(|e| e.to != task);
    others.fold((0.0, 0.0), |(out, back), e| {
        (out + f64::from(e.out), back + f64::from(e.back))
    })
}

/// Least bytes of unions of a connected group with a task and any others, from those of connected groups.
fn united(connected: &[f64], most: usize) -> Vec<f64> {
    let mut alone = vec![f64::INFINITY; most + 1];
    for of_task in connected.chunks(most) {
        for (least, &bytes) in alone[1..].iter_mut().zip(of_task) {
            *least = least.min(bytes);
        }
    }
    let mut rest = vec![0.0; most + 1];
    for size in 1..=most {
        let ways = (1..=size).map(|first| alone[first] + rest[size - first]);
        rest[size] = ways.fold(f64::INFINITY, f64::min);
    }
    let unions = connected.chunks(most).flat_map(|of_task| {
        let rest = &rest;
        (1..=most).map(move |size| {
            let ways = (1..=size).map(|own| of_task[own - 1] + rest[size - own]);
            ways.fold(f64::INFINITY, f64::min)
        })
    });
    unions.collect()
}

/// An enumeration of connected groups, each once: from its lowest task, by neighbours that no member had before.
struct Walk<'a> {
    graph: &'a Graph,
    most: usize,
    /// Groups that may still be visited.
    left: u64,
    members: Vec<u32>,
    is_member: Vec<bool>,
    /// Members and their neighbours.
    is_seen: Vec<bool>,
    out: Vec<f64>,
    back: Vec<f64>,
    /// Largest equal part of a group's inner bytes, by task.
    part: Vec<f64>,
}

/// Bytes out of a group, into it, and inside.
type Sums = (f64, f64, f64);

impl Walk<'_> {
    fn begin(&mut self, first: u32) -> Option<()> {
        let (out, back) = sides(self.graph, first);
        self.join(first);
        self.is_seen[first as usize] = true;
        let fresh = self.fresh(first, first);
        let done = self.extend(first, fresh.clone(), (out, back, 0.0));
        self.forget(&fresh);
        self.is_seen[first as usize] = false;
        self.leave(first);
        done
    }

    /// Visits the current group and all that it extends to; `None` after too many.
    fn extend(&mut self, first: u32, mut ways: Vec<u32>, (out, back, inner): Sums) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        let size = self.members.len();
        let part = inner / size as f64;
        for &task in &self.members {
            let at = task as usize * self.most + size - 1;
            self.out[at] = self.out[at].min(out);
            self.back[at] = self.back[at].min(back);
            self.part[task as usize] = self.part[task as usize].max(part);
        }
        if size == self.most {
            return Some(());
        }
        while let Some(task) = ways.pop() {
            let (own_out, own_back) = sides(self.graph, task);
            let inside = self.graph.edges(task).iter();
            let inside = inside.filter(|e| self.is_member[e.to as usize]);
            let shared: f64 = inside.map(|e| f64::from(e.out) + f64::from(e.back)).sum();
            let sums = (
                out + own_out - shared,
                back + own_back - shared,
                inner + shared,
            );
            self.join(task);
            let fresh = self.fresh(task, first);
            let longer = ways.iter().chain(&fresh).copied().collect();
            self.extend(first, longer, sums)?;
            self.forget(&fresh);
            self.leave(task);
        }
        Some(())
    }

    /// Neighbours of a new member above the first that no member has; they are seen from now on.
    fn fresh(&mut self, task: u32, first: u32) -> Vec<u32> {
        let others = self.graph.edges(task).iter().map(|e| e.to);
        let fresh: Vec<u32> = others
            .filter(|&to| to > first && !self.is_seen[to as usize])
            .collect();
        for &to in &fresh {
            self.is_seen[to as usize] = true;
        }
        fresh
    }

    fn forget(&mut self, fresh: &[u32]) {
        for &to in fresh {
            self.is_seen[to as usize] = false;
        }
    }

    fn join(&mut self, task: u32) {
        self.members.push(task);
        self.is_member[task as usize] = true;
    }

    fn leave(&mut self, task: u32) {
        self.members.pop();
        self.is_member[task as usize] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::{Exchange, declared};

    #[test]
    fn squares_of_a_grid_are_the_best_groups_of_four() {
        let grid = declared::traffic("stencil:8x8:5:1000").unwrap().total();
        let groups = Together::of(&Graph::of_tasks(&grid), 4).unwrap();
        // 2 × 8 × 7 neighbours, a message each way; a square of four keeps eight messages.
        assert!((groups.leaving() - (224.0 - 16.0 * 8.0) * 1e3).abs() < 1.0);
        // Inner squares send eight messages. With seven at most, the inner 16 tasks share a node with two others, and
        // 48 / 4 + 16 / 3 nodes are needed.
        let worst = groups.worst(16, (1e3, 1e3));
        assert!((7.999..=8.0).contains(&worst), "{worst}");
        assert!(groups.worst(64, (1e3, 1e3)) <= worst);
    }

    #[test]
    fn every_partition_of_a_small_graph_keeps_the_bounds() {
        let mut random = hopbyte_fabric::random::Random::new(7);
        for case in 0..60 {
            let tasks = 4 + random.below(4);
            let most = 2 + random.below(3);
            let pairs = (0..tasks * 2).map(|_| {
                let ends = [0, 1].map(|_| random.below(tasks) as u32);
                (ends[0], ends[1], (1 + random.below(9)) as f64, 1)
            });
            let exchange = Exchange::new(tasks, pairs.collect::<Vec<_>>()).unwrap();
            let groups = Together::of(&Graph::of_tasks(&exchange), most).unwrap();
            let nodes = tasks.div_ceil(most) + random.below(2);
            let (mut least, mut worst) = (f64::INFINITY, f64::INFINITY);
            for code in 0..nodes.pow(tasks as u32) {
                let of = |t: u32| code / nodes.pow(t) % nodes;
                let room = |n| (0..tasks as u32).filter(|&t| of(t) == n).count();
                if (0..nodes).any(|n| room(n) > most) {
                    continue;
                }
                let (mut sent, mut got) = (vec![0.0; nodes], vec![0.0; nodes]);
                for (from, m) in exchange.iter().filter(|(f, m)| of(*f) != of(m.to)) {
                    sent[of(from)] += m.bytes;
                    got[of(m.to)] += m.bytes;
                }
                least = least.min(sent.iter().sum());
                let busiest = sent.iter().chain(&got).copied().fold(0.0, f64::max);
                worst = worst.min(busiest);
            }
            assert!(groups.leaving() <= least + 1e-9, "case {case}");
            assert!(groups.worst(nodes, (1.0, 1.0)) <= worst, "case {case}");
        }
    }
}
