//! Workloads: communication patterns of applications as programs or as repeated phases.

use super::limits::MAX_RANKS;
use super::limits::{countable, not_negative, positive, product, size, step_messages};
use super::wavefront::Wavefront;
use crate::engine::program::{Builder, MAX_OPERATIONS, Program};
use crate::error::ModelError;
use hopbyte_fabric::collective::{Algorithm, Collective, Operation, Sizes};
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Exchange, FabricError, Trace as Recording, Traffic};
use serde::{Deserialize, Serialize};

/// Workload of a job's ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Ranks on a grid exchange halos with their neighbours, compute, and may reduce (MiniGhost, SpMV on
    /// a regular mesh, CTH, S3D).
    Halo(Halo),
    /// All-to-all exchange.
    AllToAll(AllToAll),
    /// Ranks 0 and 1 send a message back and forth.
    PingPong(PingPong),
    /// Transport sweeps over a grid of ranks, corner to corner (Partisn, SNAP).
    Wavefront(Wavefront),
    /// Every rank sends to ranks given by a pattern.
    Synthetic(Synthetic),
    /// Recorded or described traffic: a traffic file or spec.
    Recorded(Recorded),
    /// A recorded program: GOAL, SimGrid time-independent traces, DUMPI text.
    Trace(Trace),
}

/// A halo exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halo {
    /// Ranks along each dimension; the last is fastest.
    pub grid: Vec<u32>,
    /// Bytes to neighbours across a face, an edge, a corner; missing ones are not sent.
    pub bytes: Vec<f64>,
    /// Whether the grid closes to a torus.
    #[serde(default)]
    pub periodic: bool,
    /// Number of iterations.
    #[serde(default = "once")]
    pub iterations: u32,
    /// Computing in each iteration.
    #[serde(default)]
    pub compute_s: f64,
    /// Global reductions in each iteration.
    #[serde(default)]
    pub reductions: u32,
    /// Bytes of each reduction.
    #[serde(default = "word")]
    pub reduction_bytes: f64,
    /// Simulate phases of all messages between nodes instead of every message (large jobs).
    #[serde(default)]
    pub phases: bool,
}

/// An all-to-all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllToAll {
    /// Number of ranks.
    pub ranks: u32,
    /// Bytes from each rank to each other.
    pub bytes: f64,
    /// Whether a rank finishes with one partner before it begins with the next.
    #[serde(default)]
    pub rounds_apart: bool,
    /// Number of iterations.
    #[serde(default = "once")]
    pub iterations: u32,
    /// Computing in each iteration.
    #[serde(default)]
    pub compute_s: f64,
}

/// A ping-pong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PingPong {
    /// Bytes of the message.
    pub bytes: f64,
    /// Round trips.
    #[serde(default = "once")]
    pub iterations: u32,
}

/// Traffic by pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Synthetic {
    /// Number of ranks.
    pub ranks: u32,
    /// Pattern of receivers.
    pub pattern: Pattern,
    /// Bytes of each message.
    pub bytes: f64,
    /// Messages of each rank.
    #[serde(default = "once")]
    pub messages: u32,
    /// Seed of the random numbers.
    #[serde(default)]
    pub seed: u64,
    /// Number of iterations.
    #[serde(default = "once")]
    pub iterations: u32,
    /// Computing in each iteration.
    #[serde(default)]
    pub compute_s: f64,
}

/// Pattern of receivers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Any other rank, drawn for each message.
    Uniform,
    /// One partner for each rank, drawn once.
    Permutation,
    /// A share goes to rank 0, the rest to any other rank.
    HotSpot {
        /// The share.
        share: f64,
    },
    /// The rank at a fixed distance (a ring with 1).
    Shift(u32),
}

/// Recorded traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// File or spec of the traffic of one iteration.
    pub traffic: String,
    /// Number of iterations.
    #[serde(default = "once")]
    pub iterations: u32,
    /// Computing in each iteration.
    #[serde(default)]
    pub compute_s: f64,
    /// Global reductions in each iteration.
    #[serde(default)]
    pub reductions: u32,
    /// Simulate phases of all messages between nodes instead of every message.
    #[serde(default)]
    pub phases: bool,
}

/// A recorded program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// File, or folder or archive of one file a rank.
    pub file: String,
    /// Processor speed for work that a trace counts in operations (SimGrid).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_per_s: Option<f64>,
}

fn once() -> u32 {
    1
}

fn word() -> f64 {
    8.0
}

/// Contents of the files that a workload names; the caller reads them.
#[derive(Clone, Debug)]
pub enum Input {
    /// For [`Workload::Recorded`].
    Traffic(Traffic),
    /// For [`Workload::Trace`].
    Trace(Recording),
}

/// Expanded workload of a job.
#[derive(Clone, Debug)]
pub enum Work {
    /// Every operation of every rank.
    Program(Program),
    /// Phases in which all messages begin together, with computing and reductions between them.
    Phases(Phases),
}

impl Work {
    /// With random variation of computing times (standard deviation over mean) from operation to operation. A
    /// phase lasts until the slowest rank has finished.
    pub(crate) fn with_noise(mut self, noise: f64, seed: u64, ranks: usize) -> Self {
        if noise == 0.0 {
            return self;
        }
        let mut random = Random::new(seed ^ NOISE);
        match &mut self {
            Self::Program(program) => program.vary(|| (1.0 + noise * random.normal()).max(0.0)),
            Self::Phases(phases) => {
                let steps = phases.iterations.clamp(1, NOISY_STEPS);
                let mut slowest = || {
                    let of_ranks = (0..ranks).map(|_| 1.0 + noise * random.normal());
                    of_ranks.fold(0.0, f64::max)
                };
                let sum: f64 = (0..steps).map(|_| slowest()).sum();
                phases.compute_s *= sum / f64::from(steps);
            }
        }
        self
    }
}

/// Mixed into a seed where it draws noise.
const NOISE: u64 = 0x6e6f_6973;
/// Steps for which the slowest rank is drawn; more steps change the mean only slightly.
const NOISY_STEPS: u32 = 16;

/// Bulk-synchronous work: the same phases in every iteration.
#[derive(Clone, Debug)]
pub struct Phases {
    /// Messages of each phase of an iteration.
    pub exchanges: Vec<Exchange>,
    /// Number of iterations.
    pub iterations: u32,
    /// Computing in each iteration.
    pub compute_s: f64,
    /// Global reductions in each iteration.
    pub reductions: u32,
}

impl Workload {
    /// Rejects invalid values; returns the number of ranks if the workload states it.
    pub fn check(&self) -> Result<Option<u64>, ModelError> {
        let times = |iterations: u32, compute: f64| {
            positive("iterations", iterations.into())?;
            not_negative("compute_s", compute)
        };
        let (ranks, messages) = match self {
            Self::Halo(h) => {
                times(h.iterations, h.compute_s)?;
                h.bytes.iter().try_for_each(|&b| size("bytes", b))?;
                size("reduction_bytes", h.reduction_bytes)?;
                let d = h.grid.len();
                if d == 0 || d > 6 || h.bytes.is_empty() || h.bytes.len() > d {
                    let found = format!("{d} dimensions, {} byte counts", h.bytes.len());
                    let expected =
                        "1 to 6 dimensions, a byte count for faces and up to each further order";
                    return Err(ModelError::out_of_range("halo", &found, expected));
                }
                let ranks = product(&h.grid)?;
                let each = if h.bytes.len() == 1 {
                    2 * d as u64
                } else {
                    3u64.pow(d as u32) - 1
                };
                let steps = if h.phases { 1 } else { u64::from(h.iterations) };
                let step = if h.phases {
                    ranks.saturating_mul(each)
                } else {
                    step_messages(ranks.saturating_mul(each), ranks, h.reductions)
                };
                (Some(ranks), step.saturating_mul(steps))
            }
            Self::AllToAll(a) => {
                times(a.iterations, a.compute_s)?;
                size("bytes", a.bytes)?;
                let n = u64::from(a.ranks);
                (
                    Some(n),
                    n.saturating_mul(n).saturating_mul(a.iterations.into()),
                )
            }
            Self::PingPong(p) => {
                positive("iterations", p.iterations.into())?;
                size("bytes", p.bytes)?;
                (Some(2), 2 * u64::from(p.iterations))
            }
            Self::Wavefront(w) => (Some(w.check()?), w.messages()),
            Self::Synthetic(s) => {
                times(s.iterations, s.compute_s)?;
                size("bytes", s.bytes)?;
                if let Pattern::HotSpot { share } = s.pattern
                    && !(0.0..=1.0).contains(&share)
                {
                    return Err(ModelError::out_of_range(
                        "share of the hot spot",
                        &share,
                        "0 to 1",
                    ));
                }
                let n = u64::from(s.ranks);
                (Some(n), n * u64::from(s.messages) * u64::from(s.iterations))
            }
            Self::Recorded(r) => {
                times(r.iterations, r.compute_s)?;
                (None, 0)
            }
            Self::Trace(t) => {
                t.operations_per_s
                    .map_or(Ok(()), |speed| positive("operations_per_s", speed))?;
                (None, 0)
            }
        };
        if let Some(n) = ranks
            && !(1..=MAX_RANKS).contains(&n)
        {
            return Err(ModelError::out_of_range(
                "ranks",
                &n,
                format!("1 to {MAX_RANKS}"),
            ));
        }
        countable(messages)?;
        Ok(ranks)
    }

    /// Ranks along each dimension, if the workload has a grid.
    pub fn grid(&self) -> Option<Vec<u32>> {
        match self {
            Self::Halo(h) => Some(h.grid.clone()),
            Self::Wavefront(w) => Some(w.grid.to_vec()),
            _ => None,
        }
    }

    /// The file or spec that it needs.
    pub fn needs(&self) -> Option<&str> {
        match self {
            Self::Recorded(r) => Some(&r.traffic),
            Self::Trace(t) => Some(&t.file),
            _ => None,
        }
    }

    /// Number of ranks, with the input that was read.
    pub fn ranks(&self, input: Option<&Input>) -> Result<usize, ModelError> {
        if let Some(n) = self.check()? {
            return Ok(n as usize);
        }
        match input {
            Some(Input::Traffic(traffic)) => Ok(traffic.tasks),
            Some(Input::Trace(trace)) => Ok(trace.ranks.len()),
            None => Err(self.unread()),
        }
    }

    fn unread(&self) -> ModelError {
        let what = self.needs().unwrap_or_default().to_owned();
        ModelError::out_of_range(
            format!("input {what}"),
            &"not read",
            "to be read before the run",
        )
    }

    /// The expanded work, with the input that was read.
    pub fn work(&self, input: Option<&Input>) -> Result<Work, ModelError> {
        self.check()?;
        match (self, input) {
            (Self::Halo(h), _) => h.work(),
            (Self::AllToAll(a), _) => Ok(Work::Program(a.program()?)),
            (Self::PingPong(p), _) => Ok(Work::Program(p.program()?)),
            (Self::Wavefront(w), _) => Ok(Work::Program(w.program()?)),
            (Self::Synthetic(s), _) => {
                let exchange = s.exchange()?;
                Ok(Work::Program(bulk(
                    &exchange,
                    s.iterations,
                    s.compute_s,
                    0,
                    0.0,
                )?))
            }
            (Self::Recorded(r), Some(Input::Traffic(traffic))) => r.work(traffic),
            (Self::Trace(t), Some(Input::Trace(trace))) => {
                Ok(Work::Program(Program::of_trace(trace, t.operations_per_s)?))
            }
            _ => Err(self.unread()),
        }
    }

    /// All messages of one iteration, for background jobs.
    pub fn exchange(&self, input: Option<&Input>) -> Result<Exchange, ModelError> {
        match self.work(input)? {
            Work::Phases(phases) => {
                let all = phases
                    .exchanges
                    .iter()
                    .flat_map(|e| e.iter().map(|(from, m)| (from, m.to, m.bytes, m.messages)));
                let tasks = phases.exchanges.first().map_or(0, Exchange::tasks);
                Ok(Exchange::new(tasks, all)?)
            }
            Work::Program(program) => {
                let all = program
                    .messages()
                    .map(|(from, to, bytes)| (from, to, bytes, 1));
                Ok(Exchange::new(program.ranks(), all)?)
            }
        }
    }
}

/// An exchange, repeated, message by message: every rank computes, posts receives and sends, waits.
pub(crate) fn bulk(
    exchange: &Exchange,
    iterations: u32,
    compute_s: f64,
    reductions: u32,
    reduction_bytes: f64,
) -> Result<Program, FabricError> {
    let ranks = exchange.tasks();
    let everybody: Vec<u32> = (0..ranks as u32).collect();
    let mut b = Builder::new(ranks);
    for iteration in 0..iterations {
        for rank in 0..ranks as u32 {
            b.compute(rank, compute_s);
        }
        for (from, message) in exchange.iter() {
            let each = message.bytes / message.messages.max(1) as f64;
            for _ in 0..message.messages.max(1) {
                b.receive(message.to, from, iteration);
                b.send(from, message.to, each, iteration);
            }
        }
        everybody.iter().for_each(|&r| b.wait_all(r));
        for _ in 0..reductions {
            b.allreduce(&everybody, reduction_bytes)?;
        }
    }
    b.finish()
}

impl Phases {
    /// The same message by message.
    pub(crate) fn program(&self) -> Result<Program, ModelError> {
        let pairs = self.exchanges.iter().flat_map(Exchange::iter);
        let sent: u64 = pairs.map(|(_, m)| m.messages.max(1)).sum();
        let ranks = self.exchanges.first().map_or(0, Exchange::tasks) as u64;
        let step = step_messages(sent, ranks, self.reductions);
        countable(step.saturating_mul(self.iterations.into()))?;
        let all = self
            .exchanges
            .iter()
            .flat_map(|e| e.iter().map(|(from, m)| (from, m.to, m.bytes, m.messages)));
        let tasks = self.exchanges.first().map_or(0, Exchange::tasks);
        let exchange = Exchange::new(tasks, all)?;
        bulk(
            &exchange,
            self.iterations,
            self.compute_s,
            self.reductions,
            word(),
        )
        .map_err(ModelError::from)
    }
}

impl Halo {
    fn exchange(&self) -> Result<Exchange, FabricError> {
        let stencil = hopbyte_fabric::Stencil {
            dims: self.grid.clone(),
            bytes: self.bytes.clone(),
            periodic: self.periodic,
        };
        Ok(stencil.traffic("halo")?.total())
    }

    fn work(&self) -> Result<Work, ModelError> {
        let exchange = self.exchange()?;
        if self.phases {
            return Ok(Work::Phases(Phases {
                exchanges: vec![exchange],
                iterations: self.iterations,
                compute_s: self.compute_s,
                reductions: self.reductions,
            }));
        }
        let program = bulk(
            &exchange,
            self.iterations,
            self.compute_s,
            self.reductions,
            self.reduction_bytes,
        )?;
        Ok(Work::Program(program))
    }
}

impl AllToAll {
    fn program(&self) -> Result<Program, FabricError> {
        let ranks: Vec<u32> = (0..self.ranks).collect();
        let operation = Operation {
            collective: Collective::Alltoall,
            algorithm: if self.rounds_apart {
                Algorithm::Pairwise
            } else {
                Algorithm::Linear
            },
            ranks: self.ranks,
            root: 0,
            sizes: Sizes::Same(self.bytes),
            hosts: &[],
        };
        let mut b = Builder::new(ranks.len());
        for _ in 0..self.iterations {
            ranks.iter().for_each(|&r| b.compute(r, self.compute_s));
            b.collective(&ranks, &operation, MAX_OPERATIONS)?;
        }
        b.finish()
    }
}

impl PingPong {
    fn program(&self) -> Result<Program, FabricError> {
        let mut b = Builder::new(2);
        for i in 0..self.iterations {
            for (from, to) in [(0, 1), (1, 0)] {
                b.send(from, to, self.bytes, i);
                b.receive(to, from, i);
                b.wait_all(from);
                b.wait_all(to);
            }
        }
        b.finish()
    }
}

impl Recorded {
    fn work(&self, traffic: &Traffic) -> Result<Work, ModelError> {
        if self.phases {
            return Ok(Work::Phases(Phases {
                exchanges: traffic.phases.iter().map(|p| p.exchange.clone()).collect(),
                iterations: self.iterations,
                compute_s: self.compute_s,
                reductions: self.reductions,
            }));
        }
        let total = traffic.total();
        let messages: u64 = total.iter().map(|(_, m)| m.messages.max(1)).sum();
        let step = step_messages(messages, traffic.tasks as u64, self.reductions);
        countable(step.saturating_mul(self.iterations.into()))?;
        let program = bulk(
            &total,
            self.iterations,
            self.compute_s,
            self.reductions,
            word(),
        )?;
        Ok(Work::Program(program))
    }
}

impl Synthetic {
    fn exchange(&self) -> Result<Exchange, FabricError> {
        let n = self.ranks as usize;
        let mut random = Random::new(self.seed);
        let partners = random.permutation(self.ranks as usize);
        let mut entries = Vec::new();
        for from in 0..self.ranks {
            for _ in 0..self.messages {
                let anybody = |random: &mut Random| {
                    ((from as usize + 1 + random.below((n - 1).max(1))) % n) as u32
                };
                let to = match self.pattern {
                    Pattern::Uniform => anybody(&mut random),
                    Pattern::Permutation => partners[from as usize],
                    Pattern::HotSpot { share } if random.unit() < share => 0,
                    Pattern::HotSpot { .. } => anybody(&mut random),
                    Pattern::Shift(by) => ((from as usize + by as usize) % n) as u32,
                };
                entries.push((from, to, self.bytes, 1));
            }
        }
        Exchange::new(self.ranks as usize, entries)
    }
}
