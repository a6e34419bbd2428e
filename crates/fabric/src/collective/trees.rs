//! Further algorithms of Open MPI: trees of other shapes, and exchanges that need no power of two.

use super::Step;
use super::steps::{Blocks, Out};

/// Parent in a complete binary tree, filled level by level, whose odd positions are on the left.
fn binary_parent(position: usize) -> usize {
    let level = (position + 1).ilog2();
    let (first, delta) = ((1 << level) - 1, 1usize << level);
    let mut parent = position;
    while parent >= first && parent > 0 {
        parent -= (delta / 2).min(parent);
    }
    parent
}

/// Parent in a binomial tree whose root sends to positions 1, 2, 4, … in turn.
fn near_parent(position: usize) -> usize {
    position ^ (1 << position.ilog2())
}

/// Parent in a tree of radix four: the position without its lowest digit.
fn knomial_parent(position: usize) -> usize {
    let mut mask = 4;
    while position.is_multiple_of(mask) {
        mask *= 4;
    }
    position / mask * mask
}

impl<F: FnMut(Step)> Out<'_, F> {
    /// A tree in which every parent comes before its children; each edge carries `bytes`.
    fn family(&mut self, up: bool, bytes: f64, parent: impl Fn(usize) -> usize) {
        let mut depths = vec![0u32; self.n];
        for child in 1..self.n {
            depths[child] = depths[parent(child)] + 1;
        }
        let deepest = depths.iter().copied().max().unwrap_or(0);
        for round in 1..=deepest {
            let depth = if up { deepest + 1 - round } else { round };
            for child in (1..self.n).filter(|&c| depths[c] == depth) {
                let (from, to) = if up {
                    (child, parent(child))
                } else {
                    (parent(child), child)
                };
                self.send(from, to, bytes);
            }
            self.round += 1;
        }
    }

    pub fn binary(&mut self, up: bool, bytes: f64) {
        self.family(up, bytes, binary_parent);
    }

    pub fn near_binomial(&mut self, bytes: f64) {
        self.family(false, bytes, near_parent);
    }

    pub fn knomial(&mut self, bytes: f64) {
        self.family(false, bytes, knomial_parent);
    }

    /// Halves of the vector down the two sides of a binary tree, then exchanged between the sides.
    pub fn split_binary(&mut self, bytes: f64) {
        let (n, half) = (self.n, bytes / 2.0);
        self.family(false, half, binary_parent);
        for left in (1..n - 1).step_by(2) {
            self.swap(left, left + 1, half);
        }
        if n.is_multiple_of(2) {
            self.send(0, n - 1, half);
        }
        self.round += 1;
    }

    /// A binary tree over the ranks in order, whose top is the last rank; the top sends the result to the root.
    pub fn in_order_binary(&mut self, bytes: f64) {
        let root = std::mem::take(&mut self.root);
        let mut edges = Vec::new();
        let mut parts = vec![(0, self.n, 1u32)];
        while let Some((first, size, depth)) = parts.pop() {
            let (right, top) = (size / 2, first + size - 1);
            if size > 1 {
                edges.push((depth, top - 1, top));
                parts.push((first + right, size - right - 1, depth + 1));
            }
            if size > 2 {
                edges.push((depth, first + right - 1, top));
                parts.push((first, right, depth + 1));
            }
        }
        edges.sort_unstable_by(|a, b| b.cmp(a));
        let deepest = edges.first().map_or(0, |e| e.0);
        let start = self.round;
        for (depth, child, parent) in edges {
            self.round = start + deepest - depth;
            self.send(child, parent, bytes);
        }
        self.round = start + deepest;
        if root != self.n - 1 {
            self.send(self.n - 1, root, bytes);
            self.round += 1;
        }
        self.root = root;
    }

    /// Rabenseifner's allreduce with halves exchanged from near to far; the ranks beyond a power of two share their
    /// vectors by halves.
    pub fn near_rabenseifner(&mut self, bytes: f64) {
        let core = self.fold_by_halves(bytes);
        self.near_halving(core, bytes);
        self.far_doubling(core, bytes);
        self.unfold(core, |_| Some(bytes));
    }

    /// Allgather between neighbours: one block, then two at a time to either side in turn; an even number of ranks.
    pub fn neighbor_exchange(&mut self, blocks: &Blocks) {
        let n = self.n;
        let partner = |i: usize, step: usize| {
            if i.is_multiple_of(2) == step.is_multiple_of(2) {
                (i + 1) % n
            } else {
                (i + n - 1) % n
            }
        };
        // First of the two blocks that were received last.
        let mut last: Vec<usize> = (0..n).map(|i| i / 2 * 2).collect();
        for i in 0..n {
            self.send(i, partner(i, 0), blocks.of(i, 1));
        }
        self.round += 1;
        for step in 1..n / 2 {
            let before = last.clone();
            for (i, &first) in before.iter().enumerate() {
                let to = partner(i, step);
                self.send(i, to, blocks.of(first, 2));
                last[to] = first;
            }
            self.round += 1;
        }
    }

    /// Pairs at distances 1, 2, 4, … for any number of ranks: a subtree without a partner gets the data from those of
    /// its ranks that have one. `bytes` of the sender's subtree or of the one whose data are passed on, given by first
    /// rank and size.
    pub fn doubling_any(&mut self, bytes: impl Fn(usize, usize) -> f64) {
        let n = self.n;
        let mut mask = 1;
        while mask < n {
            for i in (0..n).filter(|i| i ^ mask < n) {
                self.send(i, i ^ mask, bytes(i / mask * mask, mask));
            }
            self.round += 1;
            let mut half = mask / 2;
            while half > 0 {
                for i in 0..n {
                    let (own, far) = (i / mask * mask, (i ^ mask) / mask * mask);
                    let (near, top) = (i ^ half, i / (2 * half) * (2 * half));
                    let whole = (n + top).saturating_sub(own + mask);
                    if far + mask > n
                        && near > i
                        && near < n
                        && i < whole
                        && near >= whole
                        && n > own + mask
                    {
                        self.send(i, near, bytes(far, mask));
                    }
                }
                self.round += 1;
                half /= 2;
            }
            mask *= 2;
        }
    }

    /// Reduce-scatter in which the distance doubles and the data halve; `moved`: blocks end at mirrored positions and
    /// are sent home.
    pub fn butterfly(&mut self, blocks: &Blocks, moved: bool) {
        let n = self.n;
        let core = self.fold(blocks.of(0, n));
        let rest = n - core;
        let start = |j: usize| (2 * j).min(j + rest);
        let mut at = vec![0usize; core];
        let mut count = core;
        let mut mask = 1;
        while mask < core {
            count /= 2;
            for (j, at) in at.iter_mut().enumerate() {
                let first = if j & mask == 0 { *at + count } else { *at };
                *at += if j & mask == 0 { 0 } else { count };
                let (begin, end) = (start(first), start(first + count));
                let (from, to) = (self.core_rank(core, j), self.core_rank(core, j ^ mask));
                self.send(from, to, blocks.of(begin, end - begin));
            }
            self.round += 1;
            mask *= 2;
        }
        if rest == 0 && !moved {
            return;
        }
        for (j, &at) in at.iter().enumerate() {
            let (from, home) = (self.core_rank(core, j), self.core_rank(core, at));
            if at < rest {
                self.send(from, home - 1, blocks.of(home - 1, 1));
            }
            if at != j {
                self.send(from, home, blocks.of(home, 1));
            }
        }
        self.round += 1;
    }
}
