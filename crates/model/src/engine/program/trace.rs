//! Recorded programs: the calls of every rank as operations with dependencies.
//!
//! Calls come in order, or as a graph (GOAL). Messages are matched by MPI's rules: within a pair of ranks
//! and a communicator, in order and by tag. A receive from any source takes the first message that its
//! sender sent and that no other receive matches. Collectives become the messages of their algorithms
//! when all members have reached them.

use super::{Action, Builder, OpId, Program};
use hopbyte_fabric::collective::{Algorithms, Operation};
use hopbyte_fabric::trace::folded::Mark;
use hopbyte_fabric::trace::{Call, Called, Dependency, Order, RankTrace, Trace};
use hopbyte_fabric::{FabricError, InputError};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of operations of a trace.
const MAX_TRACE_OPERATIONS: usize = 1 << 26;

impl Program {
    /// The program of a trace; `operations_per_s` converts work that the trace counts in operations
    /// (SimGrid) to time.
    ///
    /// # Errors
    /// Ranks and groups that do not exist, unmatched messages, members of a group that call different
    /// collectives, work without a speed, traces above the size limit.
    pub fn of_trace(trace: &Trace, operations_per_s: Option<f64>) -> Result<Self, FabricError> {
        let marks = vec![Vec::new(); trace.ranks.len()];
        let rules = Algorithms::default();
        Ok(Self::of_marked(trace, operations_per_s, &rules, &marks)?.0)
    }

    /// [`Program::of_trace`] with given algorithms of collectives, and for every mark of a rank (the call before which it
    /// lies, in order) an operation that ends when the rank gets there.
    ///
    /// # Errors
    /// As there.
    pub fn of_marked(
        trace: &Trace,
        operations_per_s: Option<f64>,
        rules: &Algorithms,
        marks: &[Vec<Mark>],
    ) -> Result<(Self, Vec<Vec<OpId>>), FabricError> {
        let mut writer = Writer {
            trace,
            rules,
            marks,
            marked: vec![Vec::new(); trace.ranks.len()],
            speed: operations_per_s,
            builder: Builder::new(trace.ranks.len()),
            requests: vec![HashMap::new(); trace.ranks.len()],
            messages: HashMap::new(),
            receives: Vec::new(),
        };
        writer.all()?;
        writer.pair()?;
        Ok((writer.builder.finish()?, writer.marked))
    }
}

/// A send found in the trace.
struct Sent {
    op: OpId,
    tag: u32,
    /// Its position among its rank's calls.
    at: u32,
    taken: bool,
}

/// A receive found in the trace.
struct Wanted {
    op: OpId,
    from: Option<u32>,
    to: u32,
    tag: Option<u32>,
    group: u32,
}

struct Writer<'a> {
    trace: &'a Trace,
    rules: &'a Algorithms,
    marks: &'a [Vec<Mark>],
    marked: Vec<Vec<OpId>>,
    speed: Option<f64>,
    builder: Builder,
    requests: Vec<HashMap<u32, OpId>>,
    /// By receiver and group, then by sender.
    messages: HashMap<(u32, u32), BTreeMap<u32, Vec<Sent>>>,
    receives: Vec<Wanted>,
}

fn wrong(rank: u32, found: impl Into<String>, expected: impl Into<String>) -> FabricError {
    FabricError::OutOfRange {
        what: format!("trace of rank {rank}"),
        found: found.into(),
        expected: expected.into(),
    }
}

impl<'a> Writer<'a> {
    /// Every rank proceeds to its next collective; the last member to arrive lets all members continue.
    fn all(&mut self) -> Result<(), FabricError> {
        let count = self.trace.ranks.len();
        let mut next = vec![0usize; count];
        let mut there: HashMap<u32, u32> = HashMap::new();
        let mut free: Vec<u32> = (0..count as u32).rev().collect();
        while let Some(rank) = free.pop() {
            let calls = &self.trace.ranks[rank as usize];
            if let Order::Graph(dependencies) = &calls.order {
                self.graph(rank, calls, dependencies)?;
                next[rank as usize] = calls.calls.len();
                continue;
            }
            while let Some(call) = calls.calls.get(next[rank as usize]) {
                self.mark(rank, next[rank as usize]);
                if let Call::Collective { group, .. } = *call {
                    let members = self.members(rank, group)?;
                    let came = there.entry(group).or_default();
                    *came += 1;
                    if *came as usize == members.len() {
                        there.remove(&group);
                        self.collective(members, &next)?;
                        for &member in members {
                            next[member as usize] += 1;
                        }
                        // This rank continues at once, the others after it.
                        free.extend(members.iter().filter(|&&m| m != rank));
                        continue;
                    }
                    break;
                }
                self.call(rank, *call, next[rank as usize] as u32)?;
                next[rank as usize] += 1;
            }
            if next[rank as usize] == calls.calls.len() {
                self.mark(rank, calls.calls.len());
            }
        }
        let stuck = |&r: &usize| next[r] < self.trace.ranks[r].calls.len();
        match (0..count).find(stuck) {
            Some(rank) => Err(wrong(
                rank as u32,
                format!(
                    "a collective as call {} that others do not make",
                    next[rank]
                ),
                "every member of a group in every collective of it",
            )),
            None => Ok(()),
        }
    }

    /// Adds the operations of the marks before a call.
    fn mark(&mut self, rank: u32, call: usize) {
        let (marks, marked) = (&self.marks[rank as usize], &mut self.marked[rank as usize]);
        while marks
            .get(marked.len())
            .is_some_and(|m| m.0 as usize <= call)
        {
            marked.push(self.builder.boundary(rank));
        }
    }

    fn members(&self, rank: u32, group: u32) -> Result<&'a [u32], FabricError> {
        let members = self.trace.groups.get(group as usize).map(Vec::as_slice);
        let exists = |m: &&u32| (**m as usize) < self.trace.ranks.len();
        match members {
            Some(list) if list.contains(&rank) && list.iter().all(|m| exists(&m)) => Ok(list),
            _ => Err(wrong(
                rank,
                format!("a collective of group {group}"),
                "a group that has this rank as a member, and only ranks of the trace",
            )),
        }
    }

    fn fits(&self) -> Result<(), FabricError> {
        if self.builder.len() <= MAX_TRACE_OPERATIONS {
            return Ok(());
        }
        Err(FabricError::OutOfRange {
            what: format!("operations of {}", self.trace.source),
            found: self.builder.len().to_string(),
            expected: format!("at most {MAX_TRACE_OPERATIONS}"),
        })
    }

    fn seconds(&self, rank: u32, operations: f64) -> Result<f64, FabricError> {
        self.speed.map(|speed| operations / speed).ok_or_else(|| {
            let error = InputError::new(
                &self.trace.source,
                format!("work of {operations} operations for rank {rank}"),
                "a processor speed for the trace",
            );
            error
                .hint("give --operations-per-second, or operations_per_s in a scenario's workload")
                .into()
        })
    }

    fn request(&mut self, rank: u32, request: Option<u32>, op: OpId) {
        match request {
            Some(number) => {
                self.requests[rank as usize].insert(number, op);
            }
            None => self.builder.wait(rank, op),
        }
    }

    fn call(&mut self, rank: u32, call: Call, at: u32) -> Result<(), FabricError> {
        self.fits()?;
        match call {
            Call::Compute { seconds } => self.builder.compute(rank, seconds),
            Call::Work { operations } => {
                let seconds = self.seconds(rank, operations)?;
                self.builder.compute(rank, seconds);
            }
            Call::Send {
                to, request, bytes, ..
            } => {
                let op = self.builder.unmatched(rank, Action::Send { to, bytes });
                self.met(rank, call, at, op);
                self.request(rank, request, op);
            }
            Call::Receive { request, from, .. } => {
                let from = from.unwrap_or(0);
                let op = self.builder.unmatched(rank, Action::Receive { from });
                self.met(rank, call, at, op);
                self.request(rank, request, op);
            }
            Call::Wait { request } => {
                // Waits for completed or unknown requests have no effect.
                if let Some(op) = self.requests[rank as usize].remove(&request) {
                    self.builder.wait(rank, op);
                }
            }
            Call::WaitAll => {
                self.requests[rank as usize].clear();
                self.builder.wait_all(rank);
            }
            Call::Collective { .. } => {}
        }
        Ok(())
    }

    /// Records a send or a receive for [`Writer::pair`].
    fn met(&mut self, rank: u32, call: Call, at: u32, op: OpId) {
        match call {
            Call::Send { to, tag, group, .. } => {
                let by_sender = self.messages.entry((to, group)).or_default();
                by_sender.entry(rank).or_default().push(Sent {
                    op,
                    tag,
                    at,
                    taken: false,
                });
            }
            Call::Receive {
                from, tag, group, ..
            } => self.receives.push(Wanted {
                op,
                from,
                to: rank,
                tag,
                group,
            }),
            _ => {}
        }
    }

    /// Matches sends and receives: receives from one sender first, then those from any source.
    fn pair(&mut self) -> Result<(), FabricError> {
        for anybody in [false, true] {
            for wanted in self.receives.iter().filter(|w| w.from.is_none() == anybody) {
                let found = self
                    .messages
                    .get_mut(&(wanted.to, wanted.group))
                    .and_then(|by_sender| take(by_sender, wanted));
                let Some(send) = found else {
                    let from = wanted
                        .from
                        .map_or("any rank".into(), |f| format!("rank {f}"));
                    let found = format!("a receive from {from} without a send");
                    return Err(wrong(wanted.to, found, "a send for each receive"));
                };
                self.builder.pair(send, wanted.op);
            }
        }
        for (&(to, _), by_sender) in &self.messages {
            let left = by_sender
                .iter()
                .find(|(_, list)| list.iter().any(|s| !s.taken));
            if let Some((&from, _)) = left {
                let found = format!("a send to rank {to} that it does not receive");
                return Err(wrong(from, found, "a receive for each send"));
            }
        }
        Ok(())
    }

    /// One collective of a group; all members have reached it.
    fn collective(&mut self, members: &[u32], next: &[usize]) -> Result<(), FabricError> {
        let calls = members.iter().map(|&m| (m, next[m as usize]));
        let called = Called::gather(self.trace, calls)?;
        let operation = Operation {
            collective: called.kind,
            algorithm: called.algorithm(self.rules, members),
            ranks: members.len() as u32,
            root: called.root,
            sizes: called.sizes(),
        };
        self.builder
            .collective(members, &operation, MAX_TRACE_OPERATIONS)
    }

    /// Adds a rank whose calls are a graph.
    fn graph(
        &mut self,
        rank: u32,
        calls: &RankTrace,
        dependencies: &[Dependency],
    ) -> Result<(), FabricError> {
        let mut ops = Vec::with_capacity(calls.calls.len());
        for (at, call) in (0u32..).zip(&calls.calls) {
            self.fits()?;
            let action = match *call {
                Call::Compute { seconds } => Action::Compute { seconds },
                Call::Work { operations } => Action::Compute {
                    seconds: self.seconds(rank, operations)?,
                },
                Call::Send { to, bytes, .. } => Action::Send { to, bytes },
                Call::Receive { from, .. } => Action::Receive {
                    from: from.unwrap_or(0),
                },
                _ => {
                    let found = format!("call {at}, a wait or a collective");
                    return Err(wrong(rank, found, "sends, receives and work in a graph"));
                }
            };
            let op = self.builder.free(rank, action);
            self.met(rank, *call, at, op);
            ops.push(op);
        }
        let edges = ended_edges(calls.calls.len(), dependencies);
        let edges = edges.ok_or_else(|| {
            let expected = format!("an order with at most {MAX_TRACE_OPERATIONS} waits");
            wrong(
                rank,
                "cyclic dependencies of calls, or too many of them",
                expected,
            )
        })?;
        for (earlier, later) in edges {
            self.builder
                .order(ops[earlier as usize], ops[later as usize]);
        }
        Ok(())
    }
}

/// Removes the message that a receive matches.
fn take(by_sender: &mut BTreeMap<u32, Vec<Sent>>, wanted: &Wanted) -> Option<OpId> {
    let fits = |s: &Sent| !s.taken && wanted.tag.is_none_or(|t| t == s.tag);
    let best = by_sender
        .iter_mut()
        .filter(|(from, _)| wanted.from.is_none_or(|f| f == **from))
        .filter_map(|(_, list)| {
            // A message matched at the front cannot match again.
            let gone = list.iter().take_while(|s| s.taken).count();
            if gone > 64 && 2 * gone > list.len() {
                list.drain(..gone);
            }
            list.iter_mut().find(|s| fits(s))
        })
        .min_by_key(|s| s.at)?;
    best.taken = true;
    Some(best.op)
}

/// Edges (earlier, later) between calls for a rank's dependencies: a call that waits until another one
/// began has the dependencies of that one. `None` if they are cyclic.
fn ended_edges(calls: usize, dependencies: &[Dependency]) -> Option<Vec<(u32, u32)>> {
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut waits: Vec<Vec<u32>> = vec![Vec::new(); calls];
    let mut begun: Vec<Vec<u32>> = vec![Vec::new(); calls];
    let mut later_of: Vec<Vec<u32>> = vec![Vec::new(); calls];
    let mut open = vec![0u32; calls];
    for d in dependencies {
        if d.later as usize >= calls || d.earlier as usize >= calls {
            return None;
        }
        if d.begun {
            begun[d.later as usize].push(d.earlier);
            later_of[d.earlier as usize].push(d.later);
            open[d.later as usize] += 1;
        } else {
            waits[d.later as usize].push(d.earlier);
        }
    }
    let mut ready: Vec<u32> = (0..calls as u32)
        .filter(|&c| open[c as usize] == 0)
        .collect();
    let mut done = 0;
    while let Some(call) = ready.pop() {
        done += 1;
        let at = call as usize;
        for i in 0..begun[at].len() {
            let inherited = waits[begun[at][i] as usize].clone();
            waits[at].extend(inherited);
        }
        waits[at].sort_unstable();
        waits[at].dedup();
        edges.extend(waits[at].iter().map(|&earlier| (earlier, call)));
        if edges.len() > MAX_TRACE_OPERATIONS {
            return None;
        }
        for &later in &later_of[at] {
            open[later as usize] -= 1;
            if open[later as usize] == 0 {
                ready.push(later);
            }
        }
    }
    (done == calls).then_some(edges)
}
