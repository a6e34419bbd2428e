//! Open MPI's `coll/han`, which it uses from release 5.0 on in groups with several ranks on each of several hosts: one
//! collective inside every host and one between the hosts' ranks of equal number. Vectors go in segments of 64 KiB, one
//! behind the other. Inside hosts, and between them for blocks and the first segment of a broadcast, `coll/tuned`
//! decides; between hosts, reductions and the broadcasts of other segments and of allreduces are `coll/libnbc`'s. Counted in 5.0.11 (`tests/mpi/test_han.py`);
//! here for ranks of a host that follow each other, for others after [`super::Algorithms::arranged`]. Where hosts have unequal
//! numbers of ranks, an allreduce alone goes this way: the others are `coll/tuned`'s in the whole group.

use super::libnbc;
use super::open_mpi::choose;
use super::steps::Out;
use super::{Algorithm, Collective, How, Operation, Sizes, Step};

const SEGMENT: f64 = 65_536.0;
/// Parts of a segment in a chain of `coll/libnbc`.
const CHAINED: u32 = 8;

/// Segments that follow each other through the levels; more go in so many groups.
const GROUPS: u32 = 16;

/// One level: a collective among some ranks.
struct Level<'a> {
    collective: Collective,
    algorithm: Algorithm,
    ranks: usize,
    root: usize,
    bytes: f64,
    times: u32,
    /// Rank of the world by position.
    member: &'a dyn Fn(usize) -> usize,
}

/// Hosts, and the root's place.
struct Han<'a, 'o, F> {
    /// The position of each host's first member, and their number.
    first: Vec<usize>,
    /// Its host, and its number there.
    root: (usize, usize),
    out: &'a mut Out<'o, F>,
}

impl Operation<'_> {
    pub(super) fn by_han(&self, inner: u32, out: &mut Out<'_, impl FnMut(Step)>) {
        let Sizes::Same(bytes) = self.sizes else {
            return;
        };
        let even = vec![inner; out.n / inner.max(1) as usize];
        let hosts = if self.hosts.is_empty() {
            &even
        } else {
            self.hosts
        };
        let mut first = vec![0];
        first.extend(hosts.iter().scan(0, |end, &n| {
            *end += n as usize;
            Some(*end)
        }));
        let root = std::mem::take(&mut out.root);
        let host = first.partition_point(|&f| f <= root) - 1;
        let mut han = Han {
            root: (host, root - first[host]),
            first,
            out,
        };
        let block = bytes * f64::from(inner);
        match self.collective {
            Collective::Gather => {
                han.inside(Collective::Gather, bytes, 1);
                han.across(Collective::Gather, block, 1);
            }
            Collective::Scatter => {
                han.across(Collective::Scatter, block, 1);
                han.inside(Collective::Scatter, bytes, 1);
            }
            Collective::Allgather => {
                han.inside(Collective::Gather, bytes, 1);
                han.across(Collective::Allgather, block, 1);
                han.inside(Collective::Broadcast, block * hosts.len() as f64, 1);
            }
            collective => han.vector(collective, bytes),
        }
    }
}

impl<F: FnMut(Step)> Han<'_, '_, F> {
    /// A broadcast or reduction in segments.
    fn vector(&mut self, collective: Collective, bytes: f64) {
        let start = self.out.round;
        for ((size, times), behind) in segments(bytes).into_iter().zip(0..) {
            self.out.round = start + behind;
            if collective == Collective::Broadcast {
                match behind {
                    0 => self.across(Collective::Broadcast, size, times),
                    _ => self.broadcast_across(size, times),
                }
                self.inside(Collective::Broadcast, size, times);
                continue;
            }
            self.inside(Collective::Reduce, size, times);
            self.reduce_across(size, times);
            if collective == Collective::Allreduce {
                self.broadcast_across(size, times);
                self.inside(Collective::Broadcast, size, times);
            }
        }
    }

    fn hosts(&self) -> usize {
        self.first.len() - 1
    }

    /// The position of each host's member of the root's number.
    fn equals(&self) -> Vec<usize> {
        let first = &self.first[..self.hosts()];
        first.iter().map(|f| f + self.root.1).collect()
    }

    /// The same on every host, to or from the ranks of the root's number.
    fn inside(&mut self, collective: Collective, bytes: f64, times: u32) {
        let start = self.out.round;
        let mut end = start;
        for host in 0..self.hosts() {
            self.out.round = start;
            let (first, ranks) = (self.first[host], self.first[host + 1] - self.first[host]);
            self.add(&Level {
                collective,
                algorithm: choose(collective, false, ranks, bytes),
                ranks,
                root: self.root.1,
                bytes,
                times,
                member: &|i| first + i,
            });
            end = end.max(self.out.round);
        }
        self.out.round = end;
    }

    /// Between the ranks of the root's number, as `coll/tuned` decides.
    fn across(&mut self, collective: Collective, bytes: f64, times: u32) {
        let equals = self.equals();
        self.add(&Level {
            collective,
            algorithm: choose(collective, false, equals.len(), bytes),
            ranks: equals.len(),
            root: self.root.0,
            bytes,
            times,
            member: &|host| equals[host],
        });
    }

    fn reduce_across(&mut self, bytes: f64, times: u32) {
        let (root, hosts, equals) = (self.root.0, self.hosts(), self.equals());
        let plain = |host: usize| equals[host];
        let by_root = |host: usize| plain(swapped(root, host));
        let algorithm = libnbc::choose(Collective::Reduce, How::default(), hosts, bytes);
        let swaps = libnbc::swaps((Collective::Reduce, algorithm));
        let parts = if algorithm == Algorithm::Ring {
            CHAINED
        } else {
            1
        };
        let level = Level {
            collective: Collective::Reduce,
            algorithm,
            ranks: hosts,
            root: if swaps { 0 } else { root },
            bytes: bytes / f64::from(parts),
            times: times * parts,
            member: if swaps { &by_root } else { &plain },
        };
        self.add(&level);
    }

    fn broadcast_across(&mut self, bytes: f64, times: u32) {
        let (root, equals) = (self.root.0, self.equals());
        let algorithm = libnbc::choose(Collective::Broadcast, How::default(), equals.len(), bytes);
        self.add(&Level {
            collective: Collective::Broadcast,
            algorithm,
            ranks: equals.len(),
            root: 0,
            bytes,
            times,
            member: &|host| equals[swapped(root, host)],
        });
    }

    fn add(&mut self, level: &Level<'_>) {
        if level.ranks < 2 {
            return;
        }
        let start = self.out.round;
        let each = &mut *self.out.each;
        // A trait object, since levels are expanded by the function that expands the whole.
        let mut step: &mut dyn FnMut(Step) = &mut |s| {
            each(Step {
                round: start + s.round,
                times: s.times * level.times,
                from: (level.member)(s.from as usize) as u32,
                to: (level.member)(s.to as usize) as u32,
                bytes: s.bytes,
            });
        };
        let mut out = Out {
            n: level.ranks,
            root: level.root,
            round: 0,
            odd: usize::from(level.collective != Collective::Reduce),
            each: &mut step,
        };
        let operation = Operation {
            collective: level.collective,
            algorithm: level.algorithm,
            ranks: level.ranks as u32,
            root: level.root as u32,
            sizes: Sizes::Same(level.bytes),
            hosts: &[],
        };
        operation.expand(&mut out);
        self.out.round = start + out.round;
    }
}

/// In trees of `coll/libnbc` the first host and the root's change places.
fn swapped(root: usize, host: usize) -> usize {
    match host {
        0 => root,
        h if h == root => 0,
        h => h,
    }
}

/// Sizes and numbers of the segments of a vector: the first, groups of whole ones, and the rest.
fn segments(bytes: f64) -> Vec<(f64, u32)> {
    let whole = (bytes / SEGMENT).floor() as u32;
    let rest = bytes - f64::from(whole) * SEGMENT;
    let more = whole.saturating_sub(1);
    let group = |i: u32| more / GROUPS + u32::from(i < more % GROUPS);
    let groups = (0..GROUPS).map(|i| (SEGMENT, group(i)));
    let mut found = vec![(SEGMENT, whole.min(1))];
    found.extend(groups);
    found.push((rest, u32::from(rest > 0.0 || whole == 0)));
    found.retain(|s| s.1 > 0);
    found
}
