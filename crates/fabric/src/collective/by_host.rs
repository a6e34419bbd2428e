//! Collectives in two levels, for hosts of `inner` consecutive ranks.
//!
//! *Hierarchical*: rings inside every host and rings across hosts between ranks of equal number (Cho et al., "BlueConnect",
//! 2019; two-dimensional rings of NCCL and RCCL); an all-to-all gathers blocks inside the host at the rank whose number
//! the targets have, which sends them on (as NCCL's PXN).
//!
//! *NVLS tree*: the switch inside a host adds up and copies (NVLink SHARP), double binary trees across hosts. Each rank
//! owns a share of the vector: the switch reads all others' values of it and its own, and writes the result to all. A
//! rank's link then carries the vector and its share, V·(1 + 1/g) each way for g ranks, where a ring carries
//! 2·V·(g − 1)/g. As no pair of ranks exchanges these bytes, they are spread evenly over the pairs of a host.

use super::Step;
use super::steps::Out;

impl<F: FnMut(Step)> Out<'_, F> {
    /// Rings over `count` groups of `size` members each, all at once; `bytes` of a message by its sender.
    fn rings(
        &mut self,
        (count, size): (usize, usize),
        member: impl Fn(usize, usize) -> usize,
        bytes: f64,
    ) {
        if size < 2 {
            return;
        }
        for group in 0..count {
            for i in 0..size {
                let (from, to) = (member(group, i), member(group, (i + 1) % size));
                self.repeat(from, to, bytes, size - 1);
            }
        }
        self.round += size as u32 - 1;
    }

    /// Rings inside all hosts.
    fn inside(&mut self, inner: usize, bytes: f64) {
        let hosts = self.n / inner;
        self.rings((hosts, inner), |host, i| host * inner + i, bytes);
    }

    /// Rings over the ranks of equal number on their hosts.
    fn across(&mut self, inner: usize, bytes: f64) {
        let hosts = self.n / inner;
        self.rings((inner, hosts), |i, host| host * inner + i, bytes);
    }

    /// Reduce-scatter inside, allreduce across, allgather inside.
    pub fn allreduce_by_host(&mut self, inner: usize, bytes: f64) {
        let (share, hosts) = (bytes / inner as f64, self.n / inner);
        self.inside(inner, share);
        for _ in 0..2 {
            self.across(inner, share / hosts as f64);
        }
        self.inside(inner, share);
    }

    /// Blocks across first, then those of all hosts inside.
    pub fn allgather_by_host(&mut self, inner: usize, block: f64) {
        self.across(inner, block);
        self.inside(inner, block * (self.n / inner) as f64);
    }

    /// Sums of the blocks of all hosts inside first, then across.
    pub fn reduce_scatter_by_host(&mut self, inner: usize, block: f64) {
        self.inside(inner, block * (self.n / inner) as f64);
        self.across(inner, block);
    }

    /// Blocks to the rank of the target's number inside, then across.
    pub fn alltoall_by_host(&mut self, inner: usize, block: f64) {
        let hosts = self.n / inner;
        for step in 1..inner {
            for i in 0..self.n {
                let to = i / inner * inner + (i % inner + step) % inner;
                self.send(i, to, block * hosts as f64);
            }
            self.round += 1;
        }
        for step in 1..hosts {
            for i in 0..self.n {
                self.send(i, (i + step * inner) % self.n, block * inner as f64);
            }
            self.round += 1;
        }
    }

    /// Sums in the switch of every host, double trees of the shares across, copies by the switch.
    pub fn nvls_tree(&mut self, inner: usize, bytes: f64) {
        let share = bytes / inner as f64;
        let each = if inner > 1 {
            (bytes + share) / (inner - 1) as f64
        } else {
            0.0
        };
        for turn in 0..2 {
            for host in (0..self.n).step_by(inner) {
                for (a, b) in (0..inner).flat_map(|a| (0..inner).map(move |b| (a, b))) {
                    if a != b {
                        self.send(host + a, host + b, each / 2.0);
                    }
                }
            }
            self.round += u32::from(inner > 1);
            if turn == 0 {
                self.double_tree((self.n / inner, inner), share);
            }
        }
    }
}
