//! Programs of tasks: computing, sending and receiving, and their dependencies.
//!
//! A program is a graph of operations. [`Builder`] writes it like an MPI program: each rank
//! issues operations in turn and waits for some of them.

mod alone;
mod collectives;
mod earliest;
mod forecast;
mod queued;
mod run;
mod together;
mod trace;
mod transport;

pub use forecast::{Ending, Forecast, Forecaster, Placed};
pub use queued::Queued;
pub use run::{ProgramTimes, Settings, run, run_on};
pub use trace::{LeftOut, Recorded};
pub use transport::{Flows, Stream, Transport};

use hopbyte_fabric::FabricError;
use std::collections::HashMap;

/// Action of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Keeps the rank's processor busy.
    Compute {
        /// Time at normal speed.
        seconds: f64,
    },
    /// Sends to another rank.
    Send {
        /// Receiver.
        to: u32,
        /// Size.
        bytes: f64,
    },
    /// Receives from another rank.
    Receive {
        /// Sender.
        from: u32,
    },
}

/// An operation of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub u32);

/// One operation of one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// Rank.
    pub rank: u32,
    /// Action.
    pub action: Action,
    /// The matching send of a receive, or receive of a send.
    pub partner: Option<OpId>,
    /// Number of operations that it waits for.
    waits_for: u32,
}

/// A checked program: every send has its receive, and there are no cyclic dependencies.
#[derive(Clone, Debug)]
pub struct Program {
    ranks: usize,
    operations: Vec<Operation>,
    /// Operations that wait for each one, in CSR form.
    next_offsets: Vec<u32>,
    next: Vec<u32>,
    /// It is that of a run that ended: sends which wait for each other were buffered.
    ended: bool,
}

/// Most operations of a program.
pub const MAX_OPERATIONS: usize = 1 << 28;

impl Program {
    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// All operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Multiplies computing times by factors that are drawn at random.
    pub(crate) fn vary(&mut self, mut factor: impl FnMut() -> f64) {
        for op in &mut self.operations {
            if let Action::Compute { seconds } = &mut op.action {
                *seconds *= factor();
            }
        }
    }

    /// Operations that wait for one.
    #[inline]
    fn next(&self, id: u32) -> &[u32] {
        let i = id as usize;
        &self.next[self.next_offsets[i] as usize..self.next_offsets[i + 1] as usize]
    }

    /// All messages: (sender, receiver, bytes).
    pub fn messages(&self) -> impl Iterator<Item = (u32, u32, f64)> + '_ {
        self.sends().flatten()
    }

    /// The message of every operation, if it is a send.
    fn sends(&self) -> impl Iterator<Item = Option<(u32, u32, f64)>> + '_ {
        self.operations.iter().map(|op| match op.action {
            Action::Send { to, bytes } => Some((op.rank, to, bytes)),
            _ => None,
        })
    }
}

/// Operations, and the number of all operations when each became one of these.
type Front = Vec<(OpId, u32)>;

/// Writes a program rank by rank.
#[derive(Clone, Debug)]
pub struct Builder {
    operations: Vec<Operation>,
    /// Dependencies: (earlier, later) pairs.
    edges: Vec<(u32, u32)>,
    /// Dependencies of each rank's next operation, and the number of operations when each became one.
    front: Vec<Front>,
    /// Operations of each rank that no other has waited for yet.
    pending: Vec<Vec<OpId>>,
    /// Unmatched sends and receives by (from, to, tag).
    sends: HashMap<(u32, u32, u32), Vec<OpId>>,
    receives: HashMap<(u32, u32, u32), Vec<OpId>>,
}

impl Builder {
    /// An empty program of `ranks` ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            operations: Vec::new(),
            edges: Vec::new(),
            front: vec![Vec::new(); ranks],
            pending: vec![Vec::new(); ranks],
            sends: HashMap::new(),
            receives: HashMap::new(),
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.front.len()
    }

    /// Operations so far.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn add(&mut self, rank: u32, action: Action) -> OpId {
        let id = OpId(self.operations.len() as u32);
        let front = &self.front[rank as usize];
        self.edges.extend(front.iter().map(|f| (f.0.0, id.0)));
        self.operations.push(Operation {
            rank,
            action,
            partner: None,
            waits_for: front.len() as u32,
        });
        id
    }

    /// The rank computes; later operations wait for it.
    pub fn compute(&mut self, rank: u32, seconds: f64) {
        if seconds > 0.0 {
            let id = self.add(rank, Action::Compute { seconds });
            self.depend(rank, &[id]);
        }
    }

    /// An operation that ends when the rank gets there.
    fn boundary(&mut self, rank: u32) -> OpId {
        let id = self.add(rank, Action::Compute { seconds: 0.0 });
        self.depend(rank, &[id]);
        id
    }

    /// An operation that ends when the rank gets there, for which it does not wait.
    fn aside(&mut self, rank: u32) -> OpId {
        self.add(rank, Action::Compute { seconds: 0.0 })
    }

    /// The rank's next operations wait for this one alone, until [`Builder::rejoin`] with the returned dependencies.
    fn turn_aside(&mut self, rank: u32, begin: OpId) -> Front {
        let now = self.operations.len() as u32;
        std::mem::replace(&mut self.front[rank as usize], vec![(begin, now)])
    }

    /// `end` waits for the rank's operations aside, and its next ones for those before them.
    fn rejoin(&mut self, rank: u32, end: OpId, front: Front) {
        let aside = std::mem::replace(&mut self.front[rank as usize], front);
        for (operation, _) in aside {
            self.order(operation, end);
        }
    }

    /// Nobody waits for this operation any more.
    fn forget(&mut self, rank: u32, operation: OpId) {
        self.pending[rank as usize].retain(|&p| p != operation);
    }

    /// A send or a receive without a message.
    fn leave_out(&mut self, rank: u32, operation: OpId) {
        self.forget(rank, operation);
        self.operations[operation.0 as usize].action = Action::Compute { seconds: 0.0 };
    }

    /// The rank begins to send; [`Builder::wait_all`] waits for it.
    pub fn send(&mut self, rank: u32, to: u32, bytes: f64, tag: u32) -> OpId {
        let id = self.add(rank, Action::Send { to, bytes });
        self.pending[rank as usize].push(id);
        self.sends.entry((rank, to, tag)).or_default().push(id);
        id
    }

    /// The rank begins to receive; [`Builder::wait_all`] waits for it.
    pub fn receive(&mut self, rank: u32, from: u32, tag: u32) -> OpId {
        let id = self.add(rank, Action::Receive { from });
        self.pending[rank as usize].push(id);
        self.receives.entry((from, rank, tag)).or_default().push(id);
        id
    }

    /// The rank's next operation waits for all pending operations.
    pub fn wait_all(&mut self, rank: u32) {
        let pending = std::mem::take(&mut self.pending[rank as usize]);
        self.depend(rank, &pending);
    }

    /// The rank's next operation waits for one pending operation, and for all earlier dependencies.
    pub fn wait(&mut self, rank: u32, operation: OpId) {
        self.pending[rank as usize].retain(|&p| p != operation);
        self.depend(rank, &[operation]);
    }

    /// The rank's next operation waits for these too. A dependency remains unless one of them began after it, and
    /// so waits for it itself.
    fn depend(&mut self, rank: u32, operations: &[OpId]) {
        let now = self.operations.len() as u32;
        let front = &mut self.front[rank as usize];
        if let Some(last) = operations.iter().map(|o| o.0).max() {
            front.retain(|&(_, since)| since > last);
        }
        front.extend(operations.iter().map(|&o| (o, now)));
    }

    /// The rank's next operation waits for these, which began in order with no wait between them.
    fn wait_these(&mut self, rank: u32, operations: &[OpId]) {
        self.pending[rank as usize].retain(|p| !operations.contains(p));
        self.depend(rank, operations);
    }

    /// Adds an operation without dependencies (traces that are graphs).
    pub fn free(&mut self, rank: u32, action: Action) -> OpId {
        let id = OpId(self.operations.len() as u32);
        self.operations.push(Operation {
            rank,
            action,
            partner: None,
            waits_for: 0,
        });
        id
    }

    /// The rank begins to send or to receive; [`Builder::pair`] matches it later. [`Builder::wait`] and
    /// [`Builder::wait_all`] wait for it.
    pub fn unmatched(&mut self, rank: u32, action: Action) -> OpId {
        let id = self.add(rank, action);
        self.pending[rank as usize].push(id);
        id
    }

    /// Matches a send and a receive; the receive is then one from that sender.
    pub fn pair(&mut self, send: OpId, receive: OpId) {
        let from = self.operations[send.0 as usize].rank;
        let receiver = &mut self.operations[receive.0 as usize];
        receiver.action = Action::Receive { from };
        receiver.partner = Some(send);
        self.operations[send.0 as usize].partner = Some(receive);
    }

    /// Makes one operation wait for another one.
    pub fn order(&mut self, earlier: OpId, later: OpId) {
        self.edges.push((earlier.0, later.0));
        self.operations[later.0 as usize].waits_for += 1;
    }

    /// Checks the program: sends and receives of a pair and tag match in order.
    pub fn finish(mut self) -> Result<Program, FabricError> {
        if self.operations.len() > MAX_OPERATIONS {
            return Err(FabricError::OutOfRange {
                what: "operations of the program".into(),
                found: self.operations.len().to_string(),
                expected: format!("at most {MAX_OPERATIONS}"),
            });
        }
        self.check_actions()?;
        let mut keys: Vec<_> = self
            .sends
            .keys()
            .chain(self.receives.keys())
            .copied()
            .collect();
        keys.sort_unstable();
        keys.dedup();
        for (from, to, tag) in keys {
            let none = Vec::new();
            let sends = self.sends.get(&(from, to, tag)).unwrap_or(&none);
            let receives = self.receives.get(&(from, to, tag)).unwrap_or(&none);
            if sends.len() != receives.len() {
                return Err(FabricError::OutOfRange {
                    what: format!("messages from rank {from} to rank {to} with tag {tag}"),
                    found: format!("{} sends and {} receives", sends.len(), receives.len()),
                    expected: "as many receives as sends".into(),
                });
            }
            for (&send, &receive) in sends.iter().zip(receives) {
                self.operations[send.0 as usize].partner = Some(receive);
                self.operations[receive.0 as usize].partner = Some(send);
            }
        }
        let alone =
            |op: &Operation| op.partner.is_none() && !matches!(op.action, Action::Compute { .. });
        if let Some(op) = self.operations.iter().find(|op| alone(op)) {
            return Err(FabricError::OutOfRange {
                what: format!("message of rank {}", op.rank),
                found: "no partner".into(),
                expected: "a receive for each send, a send for each receive".into(),
            });
        }
        let (next_offsets, next) = self.successors();
        let program = Program {
            ranks: self.front.len(),
            operations: self.operations,
            next_offsets,
            next,
            ended: false,
        };
        program.check_order()?;
        Ok(program)
    }

    fn check_actions(&self) -> Result<(), FabricError> {
        let ranks = self.front.len();
        for op in &self.operations {
            let good = match op.action {
                Action::Compute { seconds } => seconds.is_finite() && seconds >= 0.0,
                Action::Send { to, bytes } => {
                    (to as usize) < ranks && bytes.is_finite() && bytes >= 0.0
                }
                Action::Receive { from } => (from as usize) < ranks,
            };
            if !good {
                return Err(FabricError::OutOfRange {
                    what: format!("operation of rank {}", op.rank),
                    found: match op.action {
                        Action::Compute { seconds } => format!("computing for {seconds} s"),
                        Action::Send { to, bytes } => format!("sending {bytes} B to rank {to}"),
                        Action::Receive { from } => format!("receiving from rank {from}"),
                    },
                    expected: format!("times and sizes not below zero, ranks below {ranks}"),
                });
            }
        }
        Ok(())
    }

    fn successors(&self) -> (Vec<u32>, Vec<u32>) {
        let mut offsets = vec![0u32; self.operations.len() + 1];
        for &(earlier, _) in &self.edges {
            offsets[earlier as usize + 1] += 1;
        }
        for i in 0..self.operations.len() {
            offsets[i + 1] += offsets[i];
        }
        let mut at = offsets.clone();
        let mut next = vec![0u32; self.edges.len()];
        for &(earlier, later) in &self.edges {
            let slot = &mut at[earlier as usize];
            next[*slot as usize] = later;
            *slot += 1;
        }
        (offsets, next)
    }
}

impl Program {
    /// Rejects cyclic dependencies within ranks.
    fn check_order(&self) -> Result<(), FabricError> {
        let mut waits: Vec<u32> = self.operations.iter().map(|op| op.waits_for).collect();
        let mut ready: Vec<u32> = (0..waits.len() as u32)
            .filter(|&i| waits[i as usize] == 0)
            .collect();
        let mut done = 0;
        while let Some(id) = ready.pop() {
            done += 1;
            for &later in self.next(id) {
                waits[later as usize] -= 1;
                if waits[later as usize] == 0 {
                    ready.push(later);
                }
            }
        }
        if done == waits.len() {
            return Ok(());
        }
        let stuck = waits
            .iter()
            .position(|&w| w > 0)
            .map_or(0, |i| self.operations[i].rank);
        Err(FabricError::OutOfRange {
            what: format!("order of operations of rank {stuck}"),
            found: "a cycle of operations that wait for each other".into(),
            expected: "operations without cyclic dependencies".into(),
        })
    }
}
