//! Recorded programs: the calls of every rank as operations with dependencies.
//!
//! Calls come in order, or as a graph (GOAL). Messages are matched by MPI's rules: within a pair of ranks
//! and a communicator, in order and by tag. A receive from any source takes the first message that its
//! sender sent and that no other receive matches. Collectives become the messages of their algorithms
//! when all members have reached them.

mod open;

use super::{Action, Builder, OpId, Program};
use hopbyte_fabric::collective::Algorithms;
use hopbyte_fabric::trace::folded::Mark;
use hopbyte_fabric::trace::{Call, Called, Dependency, Order, RankTrace, Trace};
use hopbyte_fabric::{FabricError, InputError};
use open::{Arrival, Open};
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
        let mut writer = Writer::new(trace, operations_per_s, &rules, &marks);
        writer.all()?;
        writer.pair()?;
        writer.builder.finish()
    }

    /// The program of a run that ended, with given algorithms of collectives, and for every mark of a rank (the call before
    /// which it lies, in order) an operation that ends when the rank gets there. Calls without their counterparts are left
    /// out and counted, and sends that could end by being buffered alone are buffered.
    ///
    /// # Errors
    /// As [`Program::of_trace`], unmatched messages and collectives excepted.
    pub fn of_marked(
        trace: &Trace,
        operations_per_s: Option<f64>,
        rules: &Algorithms,
        marks: &[Vec<Mark>],
    ) -> Result<Recorded, FabricError> {
        let mut writer = Writer::new(trace, operations_per_s, rules, marks);
        writer.left_out = Some(LeftOut::default());
        writer.all()?;
        writer.pair()?;
        let mut program = writer.builder.finish()?;
        program.ended = true;
        Ok(Recorded {
            program,
            marks: writer.marked,
            left_out: writer.left_out.unwrap_or_default(),
        })
    }
}

/// The program of a recorded run.
#[derive(Debug)]
pub struct Recorded {
    /// The program.
    pub program: Program,
    /// Of each rank the operations of its marks.
    pub marks: Vec<Vec<OpId>>,
    /// Calls that are not in it.
    pub left_out: LeftOut,
}

/// Calls of a trace whose counterparts it lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Sends.
    pub sends: u64,
    /// Receives.
    pub receives: u64,
    /// Collective calls that not all members make: they end at once.
    pub collectives: u64,
}

impl LeftOut {
    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
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
    cancelled: bool,
}

/// A pending request: the operation that ends it, and its receive in [`Writer::receives`].
#[derive(Clone, Copy)]
struct Pending {
    op: OpId,
    receive: Option<usize>,
}

struct Writer<'a> {
    trace: &'a Trace,
    rules: &'a Algorithms,
    marks: &'a [Vec<Mark>],
    marked: Vec<Vec<OpId>>,
    speed: Option<f64>,
    builder: Builder,
    requests: Vec<HashMap<u32, Pending>>,
    /// By receiver and group, then by sender.
    messages: HashMap<(u32, u32), BTreeMap<u32, Vec<Sent>>>,
    receives: Vec<Wanted>,
    /// Counts what is left out; without it, that is an error.
    left_out: Option<LeftOut>,
    /// For each rank its place among the calls of the collective that is expanded.
    places: Vec<u32>,
}

fn wrong(rank: u32, found: impl Into<String>, expected: impl Into<String>) -> FabricError {
    FabricError::OutOfRange {
        what: format!("trace of rank {rank}"),
        found: found.into(),
        expected: expected.into(),
    }
}

impl<'a> Writer<'a> {
    fn new(
        trace: &'a Trace,
        speed: Option<f64>,
        rules: &'a Algorithms,
        marks: &'a [Vec<Mark>],
    ) -> Self {
        let ranks = trace.ranks.len();
        Self {
            trace,
            rules,
            marks,
            marked: vec![Vec::new(); ranks],
            speed,
            builder: Builder::new(ranks),
            requests: vec![HashMap::new(); ranks],
            messages: HashMap::new(),
            receives: Vec::new(),
            left_out: None,
            places: vec![0; ranks],
        }
    }

    /// Every rank proceeds to its next blocking collective; the last member to arrive lets all members continue.
    fn all(&mut self) -> Result<(), FabricError> {
        let count = self.trace.ranks.len();
        let mut next = vec![0usize; count];
        let mut open: HashMap<u32, Open> = HashMap::new();
        let mut free: Vec<u32> = (0..count as u32).rev().collect();
        loop {
            if free.is_empty() {
                self.go_on(&mut open, &mut next, &mut free);
            }
            let Some(rank) = free.pop() else { break };
            let calls = &self.trace.ranks[rank as usize];
            if let Order::Graph(dependencies) = &calls.order {
                self.graph(rank, calls, dependencies)?;
                next[rank as usize] = calls.calls.len();
                continue;
            }
            while let Some(call) = calls.calls.get(next[rank as usize]) {
                let at = next[rank as usize];
                self.mark(rank, at);
                if let Call::Collective { group, request, .. } = *call {
                    let members = self.members(rank, group)?;
                    let later = request.map(|number| self.begin_later(rank, number));
                    let open = open.entry(group).or_default();
                    let waits = later.is_none();
                    let arrived = open.add(Arrival { rank, at, later }, members.len());
                    if let Some(arrived) = arrived {
                        self.collective(members, &arrived)?;
                        // This rank continues at once, the others after it.
                        for a in arrived
                            .iter()
                            .filter(|a| a.later.is_none() && a.rank != rank)
                        {
                            next[a.rank as usize] += 1;
                            free.push(a.rank);
                        }
                    } else if waits {
                        break;
                    }
                    next[rank as usize] += 1;
                    continue;
                }
                self.call(rank, *call, at as u32)?;
                next[rank as usize] += 1;
            }
            if next[rank as usize] == calls.calls.len() {
                self.mark(rank, calls.calls.len());
            }
        }
        let stuck = |&r: &usize| next[r] < self.trace.ranks[r].calls.len();
        match (0..count).find(stuck) {
            Some(rank) if self.left_out.is_none() => Err(wrong(
                rank as u32,
                format!(
                    "a collective as call {} that others do not make",
                    next[rank]
                ),
                "every member of a group in every collective of it",
            )),
            _ => {
                if let Some(left_out) = &mut self.left_out {
                    let open = open.values().flat_map(|o| &o.list);
                    left_out.collectives = open.map(Vec::len).sum::<usize>() as u64;
                }
                Ok(())
            }
        }
    }

    /// Ranks that wait in collectives for each other go on, each with a wait for the end of its own: calls of several
    /// threads, or the first of two broadcasts that its root has left.
    fn go_on(&mut self, open: &mut HashMap<u32, Open>, next: &mut [usize], free: &mut Vec<u32>) {
        if self.left_out.is_none() {
            return;
        }
        let mut groups: Vec<_> = open.iter_mut().collect();
        groups.sort_unstable_by_key(|g| *g.0);
        let waiting = groups
            .into_iter()
            .flat_map(|g| g.1.list.iter_mut().flatten());
        for arrival in waiting.filter(|a| a.later.is_none()) {
            let (begin, end) = self.begin(arrival.rank);
            self.builder.wait(arrival.rank, end);
            arrival.later = Some((begin, end));
            next[arrival.rank as usize] += 1;
            free.push(arrival.rank);
        }
    }

    /// The operations of the begin and the end of a collective during which the rank goes on.
    fn begin(&mut self, rank: u32) -> (OpId, OpId) {
        let begin = self.builder.aside(rank);
        let end = self.builder.free(rank, Action::Compute { seconds: 0.0 });
        self.builder.order(begin, end);
        (begin, end)
    }

    fn begin_later(&mut self, rank: u32, request: u32) -> (OpId, OpId) {
        let (begin, op) = self.begin(rank);
        let receive = None;
        self.pend(rank, request, Pending { op, receive });
        (begin, op)
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

    /// A request that nobody waited for is complete when its number is used again.
    fn pend(&mut self, rank: u32, request: u32, pending: Pending) {
        let old = self.requests[rank as usize].insert(request, pending);
        if let Some(old) = old {
            self.builder.forget(rank, old.op);
        }
    }

    fn request(&mut self, rank: u32, request: Option<u32>, op: OpId, receive: Option<usize>) {
        match request {
            Some(number) => self.pend(rank, number, Pending { op, receive }),
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
                self.request(rank, request, op, None);
            }
            Call::Receive { request, from, .. } => {
                let from = from.unwrap_or(0);
                let op = self.builder.unmatched(rank, Action::Receive { from });
                let number = self.receives.len();
                self.met(rank, call, at, op);
                self.request(rank, request, op, Some(number));
            }
            Call::Wait { request } => {
                // Waits for completed or unknown requests have no effect.
                if let Some(pending) = self.requests[rank as usize].remove(&request) {
                    self.builder.wait(rank, pending.op);
                }
            }
            Call::Matched { request, from, tag } => {
                let pending = self.requests[rank as usize].get(&request);
                if let Some(number) = pending.and_then(|p| p.receive) {
                    let wanted = &mut self.receives[number];
                    wanted.from = wanted.from.or(Some(from));
                    wanted.tag = wanted.tag.or(Some(tag));
                }
            }
            Call::Cancel { request } => {
                if let Some(pending) = self.requests[rank as usize].remove(&request)
                    && let Some(number) = pending.receive
                {
                    self.receives[number].cancelled = true;
                    self.builder.leave_out(rank, pending.op);
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
                cancelled: false,
            }),
            _ => {}
        }
    }

    /// Matches sends and receives: receives from one sender first, then those from any source.
    fn pair(&mut self) -> Result<(), FabricError> {
        for anybody in [false, true] {
            let chosen = |w: &&Wanted| w.from.is_none() == anybody && !w.cancelled;
            for wanted in self.receives.iter().filter(chosen) {
                let found = self
                    .messages
                    .get_mut(&(wanted.to, wanted.group))
                    .and_then(|by_sender| take(by_sender, wanted));
                let Some(send) = found else {
                    if let Some(left_out) = &mut self.left_out {
                        left_out.receives += 1;
                        self.builder.leave_out(wanted.to, wanted.op);
                        continue;
                    }
                    let from = wanted
                        .from
                        .map_or("any rank".into(), |f| format!("rank {f}"));
                    let found = format!("a receive from {from} without a send");
                    return Err(wrong(wanted.to, found, "a send for each receive"));
                };
                self.builder.pair(send, wanted.op);
            }
        }
        if let Some(left_out) = &mut self.left_out {
            for (&from, sent) in self.messages.values().flatten() {
                for send in sent.iter().filter(|s| !s.taken) {
                    left_out.sends += 1;
                    self.builder.leave_out(from, send.op);
                }
            }
            return Ok(());
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
    fn collective(&mut self, members: &[u32], arrived: &[Arrival]) -> Result<(), FabricError> {
        for (place, arrival) in (0u32..).zip(arrived) {
            self.places[arrival.rank as usize] = place;
        }
        let of = |m: &u32| &arrived[self.places[*m as usize] as usize];
        let calls = members.iter().map(|m| (*m, of(m).at));
        let called = Called::gather(self.trace, calls)?;
        let rules = called.rules(self.rules);
        let what = (called.kind, called.algorithm(&rules, members));
        let group = rules.arranged(what, members, called.root);
        let operation = group.operation(what, called.sizes());
        let mut aside = Vec::new();
        for arrival in arrived {
            if let Some((begin, end)) = arrival.later {
                let front = self.builder.turn_aside(arrival.rank, begin);
                aside.push((arrival.rank, end, front));
            }
        }
        self.builder
            .collective(&group.members, &operation, MAX_TRACE_OPERATIONS)?;
        for (rank, end, front) in aside {
            self.builder.rejoin(rank, end, front);
        }
        Ok(())
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
