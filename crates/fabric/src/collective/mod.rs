//! Expansion of collective operations into messages and rounds, by algorithm.
//!
//! Algorithms of MPICH, Open MPI and NCCL as described by their authors: recursive doubling and halving and
//! Rabenseifner's reduction (Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
//! MPICH", 2005), Bruck's (Bruck et al., 1997), rings, and NCCL's double binary trees (Sanders, Speck and Träff,
//! 2009).
//!
//! Sizes are in bytes: the whole vector of a broadcast, reduction or scan; the block of one rank in a
//! gather, scatter, allgather, all-to-all or reduce-scatter.

mod by_host;
mod choice;
mod cost;
mod han;
mod kinds;
mod libnbc;
mod open_mpi;
mod steps;
mod trees;

pub use choice::{Algorithms, Arranged, Library, Used};
pub use cost::Cost;
pub use kinds::{Algorithm, Collective, How};

use crate::error::FabricError;
use steps::{Blocks, Out};

/// A message of a collective, between positions in its group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Round of sending; a rank's messages depend on those it received in earlier rounds.
    pub round: u32,
    /// Number of consecutive rounds in which it is sent (rings).
    pub times: u32,
    /// Sender.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// Bytes each time; if blocks differ, their mean over the rounds of a ring.
    pub bytes: f64,
}

/// Data sizes; see the module for their meaning.
#[derive(Clone, Copy, Debug)]
pub enum Sizes<'a> {
    /// The same for all ranks.
    Same(f64),
    /// The block of each rank.
    Each(&'a [f64]),
    /// Bytes from each rank to each (all-to-all only), row by row.
    Matrix(&'a [f64]),
}

impl Sizes<'_> {
    /// Mean size of the ranks, or of the pairs; bytes.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Same(bytes) => bytes,
            Self::Each(each) | Self::Matrix(each) => {
                each.iter().sum::<f64>() / each.len().max(1) as f64
            }
        }
    }
}

/// A collective of `ranks` ranks.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// The operation.
    pub collective: Collective,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Members of the group.
    pub ranks: u32,
    /// Position of the root, if any.
    pub root: u32,
    /// The data sizes.
    pub sizes: Sizes<'a>,
    /// Members on each host, one host after the other, where an algorithm by hosts has unequal ones; else none.
    pub hosts: &'a [u32],
}

/// Largest number of pairs for expanding an all-to-all collective (4,096 ranks).
pub const MAX_PAIRS: u64 = 1 << 24;

impl Operation<'_> {
    /// Whether every rank sends to every rank.
    fn is_all_pairs(&self) -> bool {
        match self.collective {
            Collective::Alltoall => {
                self.algorithm != Algorithm::Bruck || matches!(self.sizes, Sizes::Matrix(_))
            }
            Collective::Allgather | Collective::ReduceScatter => {
                matches!(self.algorithm, Algorithm::Pairwise | Algorithm::Linear)
            }
            _ => false,
        }
    }

    /// Whether it is the one operation whose hosts may have unequal numbers of ranks, and they add up.
    fn is_uneven(&self) -> bool {
        let what = (self.collective, self.algorithm);
        let sum: u64 = self.hosts.iter().map(|&n| u64::from(n)).sum();
        what == (Collective::Allreduce, Algorithm::Han(0)) && sum == self.ranks.into() && sum > 0
    }

    /// Calls `each` with every message, by rounds.
    ///
    /// # Errors
    /// Algorithms that do not support this collective or number of ranks; sizes that do not fit; more pairs than
    /// [`MAX_PAIRS`].
    pub fn steps(&self, each: &mut impl FnMut(Step)) -> Result<(), FabricError> {
        self.check()?;
        let n = self.ranks as usize;
        if n < 2 {
            return Ok(());
        }
        let root = self.root as usize;
        let mut out = Out {
            n,
            root,
            round: 0,
            odd: usize::from(self.collective != Collective::Reduce),
            each,
        };
        self.expand(&mut out);
        Ok(())
    }

    fn check(&self) -> Result<(), FabricError> {
        let n = self.ranks as usize;
        let wrong = |what: &str, found: String, expected: String| FabricError::OutOfRange {
            what: format!("{what} of {}", self.collective.name()),
            found,
            expected,
        };
        if !self.collective.has(self.algorithm) {
            let found = self.algorithm.name().to_owned();
            return Err(wrong("algorithm", found, self.collective.algorithm_names()));
        }
        if let Some(inner) = self.algorithm.inner() {
            let name = self.algorithm.name();
            let even = inner > 0 && self.ranks.is_multiple_of(inner) && self.hosts.is_empty();
            if !even && !self.is_uneven() {
                let found = format!("{n} for {name}/{inner}");
                return Err(wrong(
                    "ranks",
                    found,
                    "a multiple of the ranks of a host".into(),
                ));
            }
            if !matches!(self.sizes, Sizes::Same(_)) {
                let found = "sizes that differ".to_owned();
                return Err(wrong(
                    "sizes",
                    found,
                    format!("the same for all, with {name}"),
                ));
            }
        }
        let neighbors = (Collective::Allgather, Algorithm::NeighborExchange);
        if (self.collective, self.algorithm) == neighbors && n % 2 == 1 {
            let expected = format!("an even number for {}", self.algorithm.name());
            return Err(wrong("ranks", n.to_string(), expected));
        }
        let halves = (Collective::Allgather, Algorithm::RecursiveDoubling);
        if (self.collective, self.algorithm) == halves && !self.ranks.is_power_of_two() {
            let expected = format!("a power of two for {}", self.algorithm.name());
            return Err(wrong("ranks", n.to_string(), expected));
        }
        if self.is_all_pairs() && (n as u64).pow(2) > MAX_PAIRS {
            let fewer = match self.collective {
                Collective::Alltoall => "bruck has",
                _ => "bruck or ring have",
            };
            let expected = format!("at most {MAX_PAIRS} pairs; {fewer} fewer");
            return Err(wrong("ranks", n.to_string(), expected));
        }
        if n > 0 && self.root as usize >= n {
            let expected = format!("a rank from 0 to {}", n - 1);
            return Err(wrong("root", self.root.to_string(), expected));
        }
        let (fits, good) = match self.sizes {
            Sizes::Same(b) => (true, good(b)),
            Sizes::Each(b) => (b.len() == n, b.iter().all(|&b| good(b))),
            Sizes::Matrix(b) => (
                b.len() == n * n && self.collective == Collective::Alltoall,
                b.iter().all(|&b| good(b)),
            ),
        };
        if !fits || !good {
            let found = if good { "another number" } else { "a bad size" };
            let expected = format!("sizes for {n} ranks, not below zero");
            return Err(wrong("sizes", found.into(), expected));
        }
        Ok(())
    }

    fn expand(&self, out: &mut Out<'_, impl FnMut(Step)>) {
        use Algorithm as A;
        use Collective as C;
        let n = out.n;
        let whole = match self.sizes {
            Sizes::Same(b) => b,
            Sizes::Each(b) | Sizes::Matrix(b) => b.iter().copied().fold(0.0, f64::max),
        };
        let rooted = matches!(self.collective, C::Gather | C::Scatter);
        if !rooted && !matches!(self.collective, C::Broadcast | C::Reduce) {
            out.root = 0;
        }
        let blocks = Blocks::new(self.sizes, n, out.root);
        match (self.collective, self.algorithm) {
            (_, A::Han(inner)) => self.by_han(inner, out),
            (C::Broadcast, A::Binomial) => out.tree(false, |_| whole),
            (C::Reduce, A::Binomial) => out.tree(true, |_| whole),
            (C::Allreduce, A::Binomial) => {
                out.tree(true, |_| whole);
                out.tree(false, |_| whole);
            }
            (C::Gather, A::Binomial) => out.tree(true, |s| blocks.of(s.0, s.1)),
            (C::Scatter, A::Binomial) => out.tree(false, |s| blocks.of(s.0, s.1)),
            (C::Broadcast, A::Linear) => out.star(false, |_| whole),
            (C::Reduce, A::Linear) => out.star(true, |_| whole),
            (C::Gather, A::SynchronisedLinear) => {
                out.star(false, |_| 0.0);
                out.star(true, |i| blocks.of(i, 1));
                out.star(true, |_| 0.0);
            }
            (C::Gather, _) => out.star(true, |i| blocks.of(i, 1)),
            (C::Scatter, _) => out.star(false, |i| blocks.of(i, 1)),
            (C::Barrier, A::Linear) => {
                out.star(true, |_| 0.0);
                out.star(false, |_| 0.0);
            }
            (C::Barrier, A::Binomial) => {
                out.tree(true, |_| 0.0);
                out.tree(false, |_| 0.0);
            }
            (C::Barrier, A::RecursiveDoubling) => out.allreduce_doubling(0.0),
            (C::Barrier, _) => out.doubling_ring(false, |_, _| 0.0),
            (C::Broadcast, A::Binary) => out.binary(false, whole),
            (C::Broadcast, A::NearBinomial) => out.near_binomial(whole),
            (C::Broadcast, A::Knomial) => out.knomial(whole),
            (C::Broadcast, A::SplitBinary) => out.split_binary(whole),
            (C::Broadcast, A::ScatterDoubling) => {
                let part = whole / n as f64;
                out.tree(false, |s| part * s.1 as f64);
                out.doubling_any(|first, count| part * count.min(n - first) as f64);
            }
            (C::Reduce, A::Binary) => out.binary(true, whole),
            (C::Reduce, A::InOrderBinary) => out.in_order_binary(whole),
            (C::Allreduce, A::Linear) => {
                out.star(true, |_| whole);
                out.star(false, |_| whole);
            }
            (C::Allreduce, A::UpAndDown) => {
                out.tree(true, |_| whole);
                out.near_binomial(whole);
            }
            (C::Allreduce, A::NearRabenseifner) => out.near_rabenseifner(whole),
            (C::Allreduce, A::ReduceThenBroadcast) => {
                self.part(out, C::Reduce, whole);
                self.part(out, C::Broadcast, whole);
            }
            (C::Allgather, A::NeighborExchange) => out.neighbor_exchange(&blocks),
            (C::Allgather, A::GatherThenBroadcast) => {
                out.star(true, |i| blocks.of(i, 1));
                self.part(out, C::Broadcast, blocks.of(0, n));
            }
            (C::ReduceScatter, A::Butterfly) => {
                out.butterfly(&blocks, matches!(self.sizes, Sizes::Each(_)));
            }
            (C::ReduceScatter, A::UpThenScatter) => {
                let all = blocks.of(0, n);
                out.tree(true, |_| all);
                out.star(false, |i| blocks.of(i, 1));
            }
            (C::ReduceScatter, A::RecursiveDoubling) => {
                let all = blocks.of(0, n);
                out.doubling_any(|first, count| all - blocks.of(first, count.min(n - first)));
            }
            (C::ReduceScatter, A::ReduceThenScatter) => {
                self.part(out, C::Reduce, blocks.of(0, n));
                match self.sizes {
                    Sizes::Same(block) => self.part(out, C::Scatter, block),
                    _ => out.star(false, |i| blocks.of(i, 1)),
                }
            }
            (C::Broadcast, A::Ring) | (C::Scan, A::Linear) => out.chain(false, whole),
            (C::Reduce, A::Ring) => out.chain(true, whole),
            (C::Broadcast, _) => {
                let part = whole / n as f64;
                out.tree(false, |s| part * s.1 as f64);
                out.ring(|_| part);
            }
            (C::Reduce, A::NearRabenseifner) => out.reduce_by_halves(whole, Out::fold_by_halves),
            (C::Reduce, _) => out.reduce_by_halves(whole, Out::fold),
            (C::Allreduce, A::RecursiveDoubling) => out.allreduce_doubling(whole),
            (C::Allreduce, A::Ring) => {
                let part = whole / n as f64;
                out.ring(|_| part);
                out.ring(|_| part);
            }
            (C::Allreduce, A::Tree) => out.double_tree((n, 1), whole),
            (C::Allreduce, A::Hierarchical(g)) => out.allreduce_by_host(g as usize, whole),
            (C::Allreduce, A::NvlsTree(g)) => out.nvls_tree(g as usize, whole),
            (C::Allgather, A::Hierarchical(g)) => out.allgather_by_host(g as usize, whole),
            (C::ReduceScatter, A::Hierarchical(g)) => out.reduce_scatter_by_host(g as usize, whole),
            (C::Allreduce, _) => {
                let core = out.fold(whole);
                out.near_halving(core, whole);
                out.far_doubling(core, whole);
                out.unfold(core, |_| Some(whole));
            }
            // Each forwards all blocks except its successor's.
            (C::Allgather, A::Ring) => {
                let all = blocks.of(0, n);
                out.ring(|i| (all - blocks.of((i + 1) % n, 1)) / (n - 1) as f64);
            }
            (C::Allgather, A::Bruck) => out.doubling_ring(true, |i, count| blocks.of(i, count)),
            (C::Allgather, A::RecursiveDoubling) => {
                out.exchange(|i, mask| blocks.of(i / mask * mask, mask));
            }
            (C::Allgather, A::Linear) => out.all_pairs(false, |i, _| blocks.of(i, 1)),
            (C::Allgather, _) => out.all_pairs(true, |i, _| blocks.of(i, 1)),
            // Each forwards partial sums of all blocks except its own.
            (C::ReduceScatter, A::Ring) => {
                let all = blocks.of(0, n);
                out.ring(|i| (all - blocks.of(i, 1)) / (n - 1) as f64);
            }
            (C::ReduceScatter, A::RecursiveHalving) => out.scatter_halving(&blocks),
            (C::ReduceScatter, _) => out.all_pairs(true, |_, to| blocks.of(to, 1)),
            (C::Alltoall, algorithm) => self.alltoall(out, algorithm, &blocks),
            (C::Scan, _) => out.scan(whole),
        }
    }

    /// A collective that Open MPI calls within another, from rank 0.
    fn part(&self, out: &mut Out<'_, impl FnMut(Step)>, collective: Collective, bytes: f64) {
        let part = Operation {
            collective,
            algorithm: open_mpi::choose(collective, false, out.n, bytes),
            ranks: self.ranks,
            root: 0,
            sizes: Sizes::Same(bytes),
            hosts: &[],
        };
        part.expand(out);
    }

    fn alltoall(&self, out: &mut Out<'_, impl FnMut(Step)>, algorithm: Algorithm, blocks: &Blocks) {
        let n = out.n;
        match (self.sizes, algorithm) {
            // Empty blocks are not sent, as in Open MPI and MPICH.
            (Sizes::Matrix(rows), Algorithm::Linear) => out.filled_pairs(|i, to| rows[i * n + to]),
            // Unequal rows are sent directly: Bruck's algorithm would need all rows at every rank.
            (Sizes::Matrix(rows), algorithm) => {
                out.all_pairs(algorithm == Algorithm::Pairwise, |i, to| rows[i * n + to]);
            }
            (Sizes::Same(block), Algorithm::Hierarchical(g)) => {
                out.alltoall_by_host(g as usize, block);
            }
            (_, Algorithm::Bruck) => out.doubling_bits(|i, k| {
                // Numbers below n with bit k set.
                let count = n / (2 * k) * k + (n % (2 * k)).saturating_sub(k);
                blocks.of(i, 1) * count as f64
            }),
            (_, algorithm) => {
                out.all_pairs(algorithm == Algorithm::Pairwise, |i, _| blocks.of(i, 1));
            }
        }
    }
}

fn good(bytes: f64) -> bool {
    bytes.is_finite() && bytes >= 0.0
}

#[cfg(test)]
mod host_tests;
#[cfg(test)]
mod tests;
