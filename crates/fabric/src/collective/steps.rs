//! Messages of collectives, round by round.

use super::{Operation, Sizes, Step};
use crate::error::FabricError;
use crate::traffic::Exchange;

/// Prefix sums of blocks, by position relative to the root.
pub(super) struct Blocks {
    same: f64,
    sums: Vec<f64>,
}

impl Blocks {
    pub fn new(sizes: Sizes<'_>, n: usize, root: usize) -> Self {
        match sizes {
            Sizes::Same(same) => Self { same, sums: vec![] },
            Sizes::Each(each) | Sizes::Matrix(each) => {
                let mut sums = vec![0.0; n + 1];
                for i in 0..n {
                    sums[i + 1] = sums[i] + each[(root + i) % n];
                }
                Self { same: 0.0, sums }
            }
        }
    }

    /// Bytes of `count` blocks from `first` on, cyclic.
    pub fn of(&self, first: usize, count: usize) -> f64 {
        if self.sums.is_empty() {
            return self.same * count as f64;
        }
        let n = self.sums.len() - 1;
        let end = first + count;
        if end <= n {
            self.sums[end] - self.sums[first]
        } else {
            self.sums[n] - self.sums[first] + self.sums[end - n]
        }
    }
}

impl Operation<'_> {
    /// Adds every message to `entries` of an exchange among `tasks`; `task` is that of a position in the group.
    ///
    /// # Errors
    /// As [`Self::steps`], and more bytes than an entry takes; nothing is collected after the first such entry.
    pub(crate) fn add_to(
        &self,
        entries: &mut Vec<(u32, u32, f64, u64)>,
        tasks: usize,
        task: impl Fn(u32) -> u32,
    ) -> Result<(), FabricError> {
        let mut checked = Ok(());
        self.steps(&mut |s| {
            if checked.is_ok() {
                let times = u64::from(s.times);
                let entry = (task(s.from), task(s.to), s.bytes * times as f64, times);
                checked = Exchange::check(tasks, &entry);
                entries.push(entry);
            }
        })?;
        checked
    }
}

/// Emits steps; positions are relative to the root.
pub(super) struct Out<'a, F> {
    pub n: usize,
    pub root: usize,
    pub round: u32,
    /// The active rank of a folded pair: 1 is the odd rank, as in allreduces; 0 is the even one, as in reduces, since
    /// it may be the root (both in MPICH and in Open MPI).
    pub odd: usize,
    pub each: &'a mut F,
}

impl<F: FnMut(Step)> Out<'_, F> {
    pub fn send(&mut self, from: usize, to: usize, bytes: f64) {
        self.repeat(from, to, bytes, 1);
    }

    pub fn repeat(&mut self, from: usize, to: usize, bytes: f64, times: usize) {
        let real = |position: usize| ((position + self.root) % self.n) as u32;
        (self.each)(Step {
            round: self.round,
            times: times as u32,
            from: real(from),
            to: real(to),
            bytes,
        });
    }

    pub fn swap(&mut self, a: usize, b: usize, bytes: f64) {
        self.send(a, b, bytes);
        self.send(b, a, bytes);
    }

    /// A binomial tree; the edge to a subtree (first position, size) carries `bytes`.
    pub fn tree(&mut self, up: bool, bytes: impl Fn((usize, usize)) -> f64) {
        let n = self.n;
        let rounds = n.next_power_of_two().trailing_zeros();
        for round in 0..rounds {
            let bit = if up { round } else { rounds - 1 - round };
            let mask = 1usize << bit;
            for child in (mask..n).step_by(2 * mask) {
                let size = mask.min(n - child);
                let (parent, amount) = (child - mask, bytes((child, size)));
                let (from, to) = if up { (child, parent) } else { (parent, child) };
                self.send(from, to, amount);
            }
            self.round += 1;
        }
    }

    pub fn star(&mut self, up: bool, bytes: impl Fn(usize) -> f64) {
        for i in 1..self.n {
            let (from, to) = if up { (i, 0) } else { (0, i) };
            self.send(from, to, bytes(i));
        }
        self.round += 1;
    }

    pub fn chain(&mut self, up: bool, bytes: f64) {
        for i in 1..self.n {
            let (from, to) = if up {
                (self.n - i, self.n - i - 1)
            } else {
                (i - 1, i)
            };
            self.send(from, to, bytes);
            self.round += 1;
        }
    }

    pub fn ring(&mut self, bytes: impl Fn(usize) -> f64) {
        let n = self.n;
        for i in 0..n {
            self.repeat(i, (i + 1) % n, bytes(i), n - 1);
        }
        self.round += n as u32 - 1;
    }

    /// Distances 1, 2, 4, …: `bytes` of the first block and the number of blocks; backward as in Bruck's allgather.
    pub fn doubling_ring(&mut self, backward: bool, bytes: impl Fn(usize, usize) -> f64) {
        let n = self.n;
        let mut k = 1;
        while k < n {
            for i in 0..n {
                let to = if backward { i + n - k } else { i + k } % n;
                self.send(i, to, bytes(i, k.min(n - k)));
            }
            self.round += 1;
            k *= 2;
        }
    }

    pub fn doubling_bits(&mut self, bytes: impl Fn(usize, usize) -> f64) {
        let n = self.n;
        let mut k = 1;
        while k < n {
            for i in 0..n {
                self.send(i, (i + k) % n, bytes(i, k));
            }
            self.round += 1;
            k *= 2;
        }
    }

    pub fn all_pairs(&mut self, apart: bool, bytes: impl Fn(usize, usize) -> f64) {
        let n = self.n;
        for step in 1..n {
            for i in 0..n {
                let to = (i + step) % n;
                self.send(i, to, bytes(i, to));
            }
            self.round += u32::from(apart || step + 1 == n);
        }
    }

    /// The pairs with bytes, in one round.
    pub fn filled_pairs(&mut self, bytes: impl Fn(usize, usize) -> f64) {
        let n = self.n;
        for step in 1..n {
            for i in 0..n {
                let to = (i + step) % n;
                let size = bytes(i, to);
                if size > 0.0 {
                    self.send(i, to, size);
                }
            }
        }
        self.round += 1;
    }

    /// Every rank with its partner at 1, 2, 4, …; `bytes` by sender and distance.
    pub fn exchange(&mut self, bytes: impl Fn(usize, usize) -> f64) {
        let mut mask = 1;
        while mask < self.n {
            for i in 0..self.n {
                self.send(i, i ^ mask, bytes(i, mask));
            }
            self.round += 1;
            mask *= 2;
        }
    }

    pub fn scan(&mut self, bytes: f64) {
        let mut mask = 1;
        while mask < self.n {
            for i in 0..self.n {
                if i & mask == 0 && i | mask < self.n {
                    self.swap(i, i | mask, bytes);
                }
            }
            self.round += 1;
            mask *= 2;
        }
    }

    /// Active ranks after reduction to a power of two: position of the `j`th.
    pub fn core_rank(&self, core: usize, j: usize) -> usize {
        let rest = self.n - core;
        if j < rest { 2 * j + self.odd } else { j + rest }
    }

    /// One rank of each of the first pairs sends its vector to the other; returns the remaining power of two.
    pub fn fold(&mut self, bytes: f64) -> usize {
        let core = 1usize << self.n.ilog2();
        for j in 0..self.n - core {
            self.send(2 * j + 1 - self.odd, 2 * j + self.odd, bytes);
        }
        self.round += u32::from(core < self.n);
        core
    }

    /// Sends the result to each rank that was folded, `bytes` by its position; no message for `None`.
    pub fn unfold(&mut self, core: usize, bytes: impl Fn(usize) -> Option<f64>) {
        for j in 0..self.n - core {
            let other = 2 * j + 1 - self.odd;
            if let Some(bytes) = bytes(other) {
                self.send(2 * j + self.odd, other, bytes);
            }
        }
        self.round += u32::from(core < self.n);
    }

    /// Vectors exchanged at distances 1, 2, 4, …, with the ranks beyond a power of two folded.
    pub fn allreduce_doubling(&mut self, bytes: f64) {
        let core = self.fold(bytes);
        self.doubling(core, |_| bytes);
        self.unfold(core, |_| Some(bytes));
    }

    /// Halves of the remaining data exchanged from far to near, until each rank has its block.
    pub fn scatter_halving(&mut self, blocks: &Blocks) {
        let n = self.n;
        let core = self.fold(blocks.of(0, n));
        // Blocks of the ranks before the `j`th active one.
        let start = |j: usize| (2 * j).min(j + n - core);
        // Open MPI sends no message for a part without elements.
        let part = |first, count| Some(blocks.of(first, count)).filter(|&bytes| bytes > 0.0);
        let mut mask = core / 2;
        while mask > 0 {
            for j in 0..core {
                let first = (j ^ mask) / mask * mask;
                let (begin, end) = (start(first), start(first + mask));
                let (from, to) = (self.core_rank(core, j), self.core_rank(core, j ^ mask));
                if let Some(bytes) = part(begin, end - begin) {
                    self.send(from, to, bytes);
                }
            }
            self.round += 1;
            mask /= 2;
        }
        self.unfold(core, |i| part(i, 1));
    }

    pub fn doubling(&mut self, core: usize, bytes: impl Fn(usize) -> f64) {
        let mut mask = 1;
        while mask < core {
            self.core_swaps(core, mask, bytes(mask));
            mask *= 2;
        }
    }

    /// Halves, quarters, … at distances 1, 2, …
    pub fn near_halving(&mut self, core: usize, bytes: f64) {
        self.doubling(core, |mask| bytes / (2 * mask) as f64);
    }

    /// …, quarters, halves at distances …, 2, 1.
    pub fn far_doubling(&mut self, core: usize, bytes: f64) {
        let mut mask = core / 2;
        while mask > 0 {
            self.core_swaps(core, mask, bytes / (2 * mask) as f64);
            mask /= 2;
        }
    }

    pub fn core_swaps(&mut self, core: usize, mask: usize, bytes: f64) {
        for j in (0..core).filter(|j| j & mask == 0) {
            let (a, b) = (self.core_rank(core, j), self.core_rank(core, j | mask));
            self.swap(a, b, bytes);
        }
        self.round += 1;
    }

    /// One rank of each of the first pairs gets the sums of both vectors, of which each adds up a half; returns the remaining
    /// power of two.
    pub fn fold_by_halves(&mut self, bytes: f64) -> usize {
        let core = 1usize << self.n.ilog2();
        let rest = self.n - core;
        self.odd = 0;
        for pair in 0..rest {
            self.swap(2 * pair, 2 * pair + 1, bytes / 2.0);
        }
        self.round += u32::from(rest > 0);
        for pair in 0..rest {
            self.send(2 * pair + 1, 2 * pair, bytes / 2.0);
        }
        self.round += u32::from(rest > 0);
        core
    }

    /// Rabenseifner's reduction after [`Self::fold`] or [`Self::fold_by_halves`]: halves exchanged from near to far, and their
    /// results gathered at the root from far to near. A root that was folded takes the place of the first rank, which sends it
    /// its part.
    pub fn reduce_by_halves(&mut self, bytes: f64, fold: fn(&mut Self, f64) -> usize) {
        let root = std::mem::take(&mut self.root);
        let core = fold(self, bytes);
        self.near_halving(core, bytes);
        let (part, rest) = (bytes / core as f64, self.n - core);
        let was_folded = root < 2 * rest && !root.is_multiple_of(2);
        let top = match root {
            _ if was_folded => 0,
            _ if root < 2 * rest => root / 2,
            _ => root - rest,
        };
        if was_folded {
            self.send(0, root, part);
            self.round += 1;
        }
        let rank = |out: &Self, j: usize| match was_folded && j == 0 {
            true => root,
            false => out.core_rank(core, j),
        };
        let mut mask = core / 2;
        while mask > 0 {
            for j in mask..2 * mask {
                let (from, to) = (rank(self, j ^ top), rank(self, j ^ top ^ mask));
                self.send(from, to, part * (core / (2 * mask)) as f64);
            }
            self.round += 1;
            mask /= 2;
        }
        self.root = root;
    }

    /// Two binary trees; the second is the first mirrored, or shifted by one for an odd number of members. `count` of
    /// these at once, over the positions of equal rest.
    pub fn double_tree(&mut self, (n, count): (usize, usize), bytes: f64) {
        let second = |i: usize| {
            if n.is_multiple_of(2) {
                n - 1 - i
            } else {
                (i + 1) % n
            }
        };
        let depths: Vec<u32> = (0..n).map(|i| depth(i, n)).collect();
        let deepest = depths.iter().copied().max().unwrap_or(0);
        let start = self.round;
        for (i, &d) in depths.iter().enumerate() {
            let Some(p) = parent(i, n) else { continue };
            for (child, above) in [(i, p), (second(i), second(p))] {
                for rest in 0..count {
                    let (child, above) = (child * count + rest, above * count + rest);
                    self.round = start + deepest - d;
                    self.send(child, above, bytes / 2.0);
                    self.round = start + deepest + d - 1;
                    self.send(above, child, bytes / 2.0);
                }
            }
        }
        self.round = start + 2 * deepest;
    }
}

/// Parent in the in-order binary tree over 0..n, with 0 above its top; leaves have odd numbers.
fn parent(i: usize, n: usize) -> Option<usize> {
    if i == 0 {
        return None;
    }
    let bit = i & i.wrapping_neg();
    let up = (i ^ bit) | (bit << 1);
    Some(if up < n { up } else { i ^ bit })
}

fn depth(mut i: usize, n: usize) -> u32 {
    let mut d = 0;
    while let Some(p) = parent(i, n) {
        i = p;
        d += 1;
    }
    d
}
