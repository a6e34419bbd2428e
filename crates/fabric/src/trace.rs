//! The operations of every rank, in order: a recorded program, independent of a machine.
//!
//! Readers of traces build a [`Trace`]; a model runs it, and [`Trace::traffic`] adds it up. Ranks are world ranks:
//! readers translate ranks of communicators.

use crate::collective::{Algorithms, Collective, How, Sizes, Used};
use crate::error::FabricError;
use crate::traffic::{Exchange, Phase, Traffic};
use std::collections::{BTreeMap, HashMap};

mod called;
pub mod folded;

pub use called::Called;

/// One call of a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Call {
    /// Computation.
    Compute {
        /// Duration on the machine of the trace.
        seconds: f64,
    },
    /// Computation with unknown speed (SimGrid).
    Work {
        /// Floating-point operations or instructions.
        operations: f64,
    },
    /// Sends a message.
    Send {
        /// Receiver.
        to: u32,
        /// Tag.
        tag: u32,
        /// Communicator, an index of [`Trace::groups`]: messages match within one.
        group: u32,
        /// Request number for a wait; without one the call ends when the buffer is free.
        request: Option<u32>,
        /// Size.
        bytes: f64,
    },
    /// Receives a message.
    Receive {
        /// Sender; any if absent.
        from: Option<u32>,
        /// Tag; any if absent.
        tag: Option<u32>,
        /// Communicator, as for a send.
        group: u32,
        /// Request number for a wait; without one the call ends with the message.
        request: Option<u32>,
    },
    /// Waits for a pending request. Numbers can be reused after the wait.
    Wait {
        /// The request.
        request: u32,
    },
    /// Waits for all pending requests.
    WaitAll,
    /// Takes part in a collective operation of a group.
    Collective {
        /// The operation.
        kind: Collective,
        /// How it is called.
        how: How,
        /// Group, an index of [`Trace::groups`].
        group: u32,
        /// Position of the root in the group (0 without a root).
        root: u32,
        /// This rank's size, as defined in [`crate::collective`].
        bytes: f64,
        /// Start of this rank's row in [`RankTrace::rows`], for an all-to-all with different sizes; it has a value
        /// for each member.
        row: Option<u32>,
        /// Request number for a wait; without one the call ends with the operation.
        request: Option<u32>,
        /// Members without bytes for each other exchange no message (neighbourhood collectives, two groups).
        neighbors: bool,
    },
    /// A pending receive from any source took a message of this sender and tag.
    Matched {
        /// The request.
        request: u32,
        /// Sender.
        from: u32,
        /// Tag.
        tag: u32,
    },
    /// Withdraws a pending receive that no message has matched, or a send.
    Cancel {
        /// The request.
        request: u32,
    },
}

/// A dependency between two calls of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The call that waits.
    pub later: u32,
    /// The call that it depends on.
    pub earlier: u32,
    /// Whether it depends only on the start of the other call, not on its end.
    pub begun: bool,
}

/// Execution order of a rank's calls.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Order {
    /// Sequential, as in MPI programs.
    #[default]
    InTurn,
    /// Concurrent except for these dependencies (GOAL).
    Graph(Vec<Dependency>),
}

/// The operations of one rank.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RankTrace {
    /// Its calls.
    pub calls: Vec<Call>,
    /// Bytes to each member, of all-to-alls with different sizes.
    pub rows: Vec<f64>,
    /// Their order.
    pub order: Order,
}

/// The operations of all ranks of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Source of the trace.
    pub source: String,
    /// The operations of each rank.
    pub ranks: Vec<RankTrace>,
    /// Members of each group, in order; the first is the world.
    pub groups: Vec<Vec<u32>>,
}

impl Trace {
    /// All messages: point-to-point messages as recorded, collectives as the messages of [`Algorithms::default`],
    /// each kind as its own phase.
    ///
    /// # Errors
    /// Ranks and groups that do not exist; members of a group that call different collectives; all-to-alls with too
    /// many pairs.
    pub fn traffic(&self) -> Result<Traffic, FabricError> {
        self.traffic_by(&Algorithms::default())
    }

    /// [`Trace::traffic`] with another choice of algorithms.
    ///
    /// # Errors
    /// As for [`Trace::traffic`].
    pub fn traffic_by(&self, rules: &Algorithms) -> Result<Traffic, FabricError> {
        let tasks = self.ranks.len();
        let mut phases = Vec::new();
        let exchange = Exchange::new(tasks, self.messages())?;
        if exchange.pairs() > 0 {
            let name = "point-to-point".into();
            phases.push(Phase { name, exchange });
        }
        let mut used = Used::default();
        for (kind, pairs) in self.collectives(rules, &mut used)? {
            let entries = pairs.into_iter();
            let exchange = Exchange::new(tasks, entries.map(|((f, t), (b, n))| (f, t, b, n)))?;
            if exchange.pairs() > 0 {
                let name = kind.name().into();
                phases.push(Phase { name, exchange });
            }
        }
        let mut traffic = Traffic::phased(self.source.clone(), tasks, phases);
        traffic.notes = used.lines();
        Ok(traffic)
    }

    /// Point-to-point messages, summed by pair.
    fn messages(&self) -> Vec<(u32, u32, f64, u64)> {
        let mut list = Vec::new();
        for (from, rank) in (0u32..).zip(&self.ranks) {
            let mut row: BTreeMap<u32, (f64, u64)> = BTreeMap::new();
            for call in &rank.calls {
                if let Call::Send { to, bytes, .. } = *call {
                    let entry = row.entry(to).or_default();
                    *entry = (entry.0 + bytes, entry.1 + 1);
                }
            }
            list.extend(row.into_iter().map(|(to, (bytes, n))| (from, to, bytes, n)));
        }
        list
    }

    /// Collective calls of each rank by group, as numbers of its calls.
    fn calls_by_group(&self) -> Result<Vec<HashMap<u32, Vec<u32>>>, FabricError> {
        let mut all = Vec::with_capacity(self.ranks.len());
        for (rank, trace) in (0u32..).zip(&self.ranks) {
            let mut by_group: HashMap<u32, Vec<u32>> = HashMap::new();
            for (at, call) in (0u32..).zip(&trace.calls) {
                if let Call::Collective { group, .. } = *call {
                    if group as usize >= self.groups.len() {
                        let expected = format!("one of {} groups", self.groups.len());
                        return Err(wrong(rank, format!("group {group}"), expected));
                    }
                    by_group.entry(group).or_default().push(at);
                }
            }
            all.push(by_group);
        }
        Ok(all)
    }

    fn collectives(
        &self,
        rules: &Algorithms,
        used: &mut Used,
    ) -> Result<BTreeMap<Collective, Pairs>, FabricError> {
        let calls = self.calls_by_group()?;
        let mut found = BTreeMap::new();
        for (group, members) in (0u32..).zip(&self.groups) {
            if let Some(&beyond) = members.iter().find(|&&m| m as usize >= calls.len()) {
                let expected = format!("ranks below {}", calls.len());
                let what = format!("group {group} with rank {beyond}");
                return Err(wrong(beyond, what, expected));
            }
            let lists: Vec<&[u32]> = members
                .iter()
                .map(|&m| calls[m as usize].get(&group).map_or(&[][..], |l| l))
                .collect();
            let Some(first) = lists.first() else { continue };
            if let Some(i) = lists.iter().position(|l| l.len() != first.len()) {
                let found = format!("{} collective calls", lists[i].len());
                let expected = format!("{}, as rank {} makes", first.len(), members[0]);
                return Err(wrong(members[i], found, expected));
            }
            let mut group = Group {
                trace: self,
                members,
                lists,
                alike: BTreeMap::new(),
                found: &mut found,
                rules,
                used,
            };
            group.expand()?;
        }
        Ok(found)
    }
}

/// Bytes and messages by pair.
type Pairs = HashMap<(u32, u32), (f64, u64)>;

/// Collective, how it is called, root, bits of the bytes.
type Alike = (Collective, How, u32, u64);

fn wrong(rank: u32, found: impl Into<String>, expected: impl Into<String>) -> FabricError {
    FabricError::OutOfRange {
        what: format!("trace of rank {rank}"),
        found: found.into(),
        expected: expected.into(),
    }
}

/// The collectives of one group during expansion.
struct Group<'a> {
    trace: &'a Trace,
    members: &'a [u32],
    /// Calls of each member.
    lists: Vec<&'a [u32]>,
    /// Identical calls, and their number.
    alike: BTreeMap<Alike, (Called, u64)>,
    found: &'a mut BTreeMap<Collective, Pairs>,
    rules: &'a Algorithms,
    used: &'a mut Used,
}

impl Group<'_> {
    fn expand(&mut self) -> Result<(), FabricError> {
        for call in 0..self.lists.first().map_or(0, |l| l.len()) {
            let members = self.members.iter().zip(&self.lists);
            let calls = members.map(|(&member, list)| (member, list[call] as usize));
            let called = Called::gather(self.trace, calls)?;
            match called.sizes() {
                Sizes::Same(bytes) => {
                    let alike = (called.kind, called.how, called.root, bytes.to_bits());
                    self.alike.entry(alike).or_insert((called, 0)).1 += 1;
                }
                _ => self.add(&called, 1)?,
            }
        }
        for (called, times) in std::mem::take(&mut self.alike).into_values() {
            self.add(&called, times)?;
        }
        Ok(())
    }

    fn add(&mut self, called: &Called, times: u64) -> Result<(), FabricError> {
        let pairs = self.found.entry(called.kind).or_default();
        let rules = called.rules(self.rules);
        let what = (called.kind, called.algorithm(&rules, self.members));
        let group = rules.arranged(what, self.members, called.root);
        let (operation, members) = (group.operation(what, called.sizes()), &group.members);
        if members.len() > 1 {
            let of = (operation.ranks, operation.sizes.mean());
            self.used.add(what, rules.basis(called.kind), of, times);
        }
        operation.steps(&mut |step| {
            let from = members[step.from as usize];
            let to = members[step.to as usize];
            let messages = times * u64::from(step.times);
            let entry = pairs.entry((from, to)).or_default();
            *entry = (entry.0 + step.bytes * messages as f64, entry.1 + messages);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(ranks: Vec<Vec<Call>>) -> Trace {
        let world = (0..ranks.len() as u32).collect();
        let ranks = ranks
            .into_iter()
            .map(|calls| RankTrace {
                calls,
                ..RankTrace::default()
            })
            .collect();
        Trace {
            source: "t".into(),
            ranks,
            groups: vec![world],
        }
    }

    fn collective(kind: Collective, root: u32, bytes: f64) -> Call {
        Call::Collective {
            kind,
            how: How::default(),
            group: 0,
            root,
            bytes,
            row: None,
            request: None,
            neighbors: false,
        }
    }

    #[test]
    fn messages_and_collectives_become_phases() {
        let send = |to, bytes| Call::Send {
            to,
            tag: 0,
            group: 0,
            request: None,
            bytes,
        };
        let receive = Call::Receive {
            from: Some(0),
            tag: None,
            group: 0,
            request: None,
        };
        let all = collective(Collective::Allreduce, 0, 8.0);
        let t = trace(vec![
            vec![send(1, 5.0), all, send(1, 2.0), all],
            vec![receive, all, receive, all],
        ]);
        let traffic = t.traffic().unwrap();
        let names: Vec<_> = traffic.phases.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["point-to-point", "allreduce"]);
        let p2p = &traffic.phases[0].exchange.sends(0)[0];
        assert_eq!((p2p.bytes, p2p.messages), (7.0, 2));
        assert_eq!(traffic.phases[0].exchange.sends(1), []);
        // Two allreduces by recursive doubling: each rank sends its vector once in each.
        for rank in 0..2 {
            let m = &traffic.phases[1].exchange.sends(rank)[0];
            assert_eq!((m.bytes, m.messages), (16.0, 2));
        }
    }

    #[test]
    fn different_sizes_and_rows_are_kept() {
        let gather = |bytes| vec![collective(Collective::Gather, 1, bytes)];
        let t = trace(vec![gather(3.0), gather(4.0), gather(5.0)]);
        let total = t.traffic().unwrap().total();
        // Both blocks go directly to the root: 3 + 5 bytes.
        assert_eq!(total.total_bytes(), 8.0);
        let mut t = trace(vec![vec![], vec![]]);
        for (i, rank) in t.ranks.iter_mut().enumerate() {
            rank.rows = vec![1.0, 2.0 + i as f64];
            rank.calls = vec![Call::Collective {
                kind: Collective::Alltoall,
                how: How::default(),
                group: 0,
                root: 0,
                bytes: 0.0,
                row: Some(0),
                request: None,
                neighbors: false,
            }];
        }
        let total = t.traffic().unwrap().total();
        assert_eq!(total.sends(0)[0].bytes, 2.0);
        assert_eq!(total.sends(1)[0].bytes, 1.0);
        t.ranks[1].rows.pop();
        assert!(t.traffic().unwrap_err().to_string().contains("short row"));
    }

    #[test]
    fn ranks_that_disagree_are_named() {
        let barrier = || collective(Collective::Barrier, 0, 0.0);
        let t = trace(vec![vec![barrier()], vec![barrier(), barrier()]]);
        let error = t.traffic().unwrap_err().to_string();
        assert!(error.contains("trace of rank 1: found 2"), "{error}");
        let t = trace(vec![
            vec![barrier()],
            vec![collective(Collective::Broadcast, 0, 1.0)],
        ]);
        let error = t.traffic().unwrap_err().to_string();
        assert!(error.contains("found broadcast"), "{error}");
        let mut t = trace(vec![vec![barrier()]]);
        t.groups.clear();
        assert!(t.traffic().is_err());
        t.groups = vec![vec![7]];
        assert!(t.traffic().is_err());
    }
}
