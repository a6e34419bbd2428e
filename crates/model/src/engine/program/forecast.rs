//! Run time of a recorded program on a network, and its parts.
//!
//! Four runs of one engine: messages that take no time, their latency alone, also their bytes without other traffic, and
//! everything. Their differences are the parts. A loop of which only some iterations are executed is extended by its
//! iteration time at the end of those.

use super::alone::{Alone, Cost};
use super::run::run_on;
use super::{Flows, OpId, Program, ProgramTimes, Queued, Stream};
use crate::error::ModelError;
use crate::network::Network;
use hopbyte_fabric::collective::Algorithms;
use hopbyte_fabric::trace::Call;
use hopbyte_fabric::trace::folded::{Shortened, Span};
use hopbyte_fabric::{FabricError, NodeId};
use rayon::prelude::*;
use std::collections::HashMap;

/// A program whose run time is asked for.
#[derive(Debug)]
pub struct Forecaster {
    program: Program,
    /// Of each rank, in order: boundary, span, and its computing time until there.
    marks: Vec<Vec<(OpId, u32, f64)>>,
    spans: Vec<Span>,
    /// Computing time of each rank, whole loops included.
    compute: Vec<f64>,
}

/// A run time with its parts: their sum is the run time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Run time.
    pub seconds: f64,
    /// Computation, mean over ranks.
    pub compute_seconds: f64,
    /// Waiting for other ranks that compute: imbalance and dependencies.
    pub waiting_seconds: f64,
    /// Latencies and overheads of messages.
    pub latency_seconds: f64,
    /// Bytes of messages on routes without other traffic.
    pub bandwidth_seconds: f64,
    /// Links that messages share.
    pub contention_seconds: f64,
    /// Change of the iteration times at the end of the executed iterations, extended to the whole run.
    pub unsteady_seconds: f64,
}

impl Forecast {
    /// The parts that depend on the network.
    pub fn network_seconds(&self) -> f64 {
        self.latency_seconds + self.bandwidth_seconds + self.contention_seconds
    }
}

impl Forecaster {
    /// The program of a shortened trace; `rules` choose the algorithms of collectives, `operations_per_s` converts work
    /// that the trace counts in operations.
    ///
    /// # Errors
    /// See [`Program::of_trace`].
    pub fn new(
        short: &Shortened,
        rules: &Algorithms,
        operations_per_s: Option<f64>,
    ) -> Result<Self, FabricError> {
        let (program, found) =
            Program::of_marked(&short.trace, operations_per_s, rules, &short.marks)?;
        let computing = |calls: &[Call]| computing(calls, operations_per_s);
        let mut marks = Vec::with_capacity(found.len());
        let mut compute = Vec::with_capacity(found.len());
        for (rank, (ops, places)) in found.iter().zip(&short.marks).enumerate() {
            let calls = &short.trace.ranks[rank].calls;
            let mut sum = 0.0;
            let mut done = 0;
            let mut list = Vec::with_capacity(ops.len());
            for (&op, &(before, span, _)) in ops.iter().zip(places) {
                sum += computing(&calls[done..before as usize]);
                done = before as usize;
                list.push((op, span, sum));
            }
            sum += computing(&calls[done..]);
            let values = list.iter().map(|&(_, span, sum)| (span, sum));
            compute.push(extended(rank, values, sum, &short.spans).0);
            marks.push(list);
        }
        Ok(Self {
            program,
            marks,
            spans: short.spans.clone(),
            compute,
        })
    }

    /// Operations that a run executes.
    pub fn operations(&self) -> usize {
        self.program.operations().len()
    }

    /// The run time of each placement on its network, side by side; see [`Self::run`].
    ///
    /// # Errors
    /// See [`run_on`].
    pub fn run_all(
        &self,
        placed: &[(&Network<'_>, &[NodeId])],
        background: &[Stream],
        tolerance: f64,
    ) -> Result<Vec<Forecast>, ModelError> {
        let each = placed
            .par_iter()
            .map(|(network, nodes)| self.run(network, nodes, background, tolerance));
        each.collect()
    }

    /// The run time with rank `i` on `nodes[i]`; `tolerance` as in [`Flows::new`].
    ///
    /// # Errors
    /// See [`run_on`].
    pub fn run(
        &self,
        network: &Network<'_>,
        nodes: &[NodeId],
        background: &[Stream],
        tolerance: f64,
    ) -> Result<Forecast, ModelError> {
        let mut free = network.parameters.clone();
        free.overhead_s = 0.0;
        free.messages_per_s = None;
        let free = Network::new(network.fabric, network.routing, &free, network.point);
        let alone = |network: &Network<'_>, cost| -> Result<(f64, f64), ModelError> {
            let (times, _) = run_on(Alone::new(network, cost), network, &self.program, nodes)?;
            Ok(self.whole(&times))
        };
        let (ideal, _) = alone(&free, Cost::Nothing)?;
        let (latency, _) = alone(network, Cost::Latency)?;
        let (bandwidth, _) = alone(network, Cost::Bandwidth)?;
        // Frames of one path a pair; shares over several paths are known to flows alone.
        let rules = network.parameters.queues;
        let times = match rules.filter(|_| network.routing.is_single_path()) {
            Some(rules) => {
                let queued = Queued::new(network, rules, background)?;
                run_on(queued, network, &self.program, nodes)?.0
            }
            None => {
                let flows = Flows::new(network, background, tolerance)?;
                run_on(flows, network, &self.program, nodes)?.0
            }
        };
        let (seconds, unsteady_seconds) = self.whole(&times);
        let compute = self.compute.iter().sum::<f64>() / self.compute.len().max(1) as f64;
        Ok(Forecast {
            seconds,
            compute_seconds: compute,
            waiting_seconds: ideal - compute,
            latency_seconds: latency - ideal,
            bandwidth_seconds: bandwidth - latency,
            contention_seconds: seconds - bandwidth,
            unsteady_seconds,
        })
    }

    /// The end of the last rank, loops extended, and the part of it that is not steady.
    fn whole(&self, times: &ProgramTimes) -> (f64, f64) {
        let each = self.marks.iter().enumerate().map(|(rank, marks)| {
            let values = marks
                .iter()
                .map(|&(op, span, _)| (span, times.by_operation[op.0 as usize]));
            extended(rank, values, times.by_rank[rank], &self.spans)
        });
        each.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
    }
}

fn computing(calls: &[Call], operations_per_s: Option<f64>) -> f64 {
    let each = |call: &Call| match (call, operations_per_s) {
        (Call::Compute { seconds }, _) => *seconds,
        (Call::Work { operations }, Some(speed)) => operations / speed,
        _ => 0.0,
    };
    calls.iter().map(each).sum()
}

/// The end of a rank that executes all iterations of its loops, and the part that rests on iteration times which still
/// change. `marks`: span and time at the end of every executed iteration, in order.
fn extended(
    rank: usize,
    marks: impl Iterator<Item = (u32, f64)>,
    end: f64,
    spans: &[Span],
) -> (f64, f64) {
    let (mut added, mut unsteady) = (0.0, 0.0);
    let mut seen: HashMap<u32, Vec<f64>> = HashMap::new();
    for (number, time) in marks {
        let span = &spans[number as usize];
        let list = seen.entry(number).or_default();
        list.push(time + added);
        if list.len() as u64 != span.kept[rank] || list.len() < 2 {
            continue;
        }
        // Means over the last half of the iterations, and over the last quarter.
        let last = list.len() - 1;
        let mean = |from: usize| (list[last] - list[from]) / (last - from) as f64;
        let half = last / 2;
        let late = mean(half);
        let skipped = span.skipped[rank] as f64;
        unsteady += skipped * (mean(usize::midpoint(half, last).min(last - 1)) - late).abs();
        added += skipped * late;
    }
    (end + added, unsteady)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{OperatingPoint, Parameters};
    use hopbyte_fabric::collective::Collective;
    use hopbyte_fabric::trace::folded::{Folded, FoldedRank, Loop, Step};
    use hopbyte_fabric::{Fabric, Routing, spec};

    /// A ring with an allreduce every four steps; ranks compute for different times.
    fn ring(ranks: u32, iterations: u64) -> Folded {
        let rank = |r: u32| {
            let send = Call::Send {
                to: (r + 1) % ranks,
                tag: 0,
                group: 0,
                request: Some(1),
                bytes: 1e6,
            };
            let receive = Call::Receive {
                from: Some((r + ranks - 1) % ranks),
                tag: Some(0),
                group: 0,
                request: Some(0),
            };
            let inner = vec![
                Step::Call(Call::Compute {
                    seconds: 1e-3 + 1e-5 * f64::from(r % 3),
                }),
                Step::Call(receive),
                Step::Call(send),
                Step::Call(Call::Wait { request: 0 }),
                Step::Call(Call::Wait { request: 1 }),
            ];
            let outer = vec![
                Step::Loop(Loop {
                    counts: vec![(4, iterations)],
                    body: inner,
                }),
                Step::Call(Call::Collective {
                    kind: Collective::Allreduce,
                    group: 0,
                    root: 0,
                    bytes: 8.0,
                    row: None,
                }),
            ];
            FoldedRank {
                steps: vec![Step::Loop(Loop {
                    counts: vec![(iterations, 1)],
                    body: outer,
                })],
                ..FoldedRank::default()
            }
        };
        Folded {
            source: "ring".into(),
            ranks: (0..ranks).map(rank).collect(),
            groups: vec![(0..ranks).collect()],
            complete: true,
            notes: Vec::new(),
        }
    }

    fn forecast(machine: &(Fabric, Routing), short: &Shortened, nodes: &[u32]) -> Forecast {
        let parameters = Parameters {
            latency_s: 2e-6,
            overhead_s: 1e-7,
            ..Parameters::plain()
        };
        let point = OperatingPoint::default();
        let network = Network::new(&machine.0, &machine.1, &parameters, point);
        let nodes: Vec<NodeId> = nodes.iter().map(|&n| NodeId(n)).collect();
        let forecaster = Forecaster::new(short, &Algorithms::default(), None).unwrap();
        forecaster.run(&network, &nodes, &[], 0.0).unwrap()
    }

    /// A wait for a request that began earlier stays when a later one is waited for after it.
    #[test]
    fn waits_for_several_requests_all_count() {
        let rank = |r: u32, order: [u32; 2]| {
            let receive = Call::Receive {
                from: Some(1 - r),
                tag: Some(0),
                group: 0,
                request: Some(0),
            };
            let send = Call::Send {
                to: 1 - r,
                tag: 0,
                group: 0,
                request: Some(1),
                bytes: 12.5e6,
            };
            let waits = order.map(|request| Call::Wait { request });
            let step = [
                Call::Compute { seconds: 1e-3 },
                receive,
                send,
                waits[0],
                waits[1],
            ];
            FoldedRank {
                steps: vec![Step::Loop(Loop {
                    counts: vec![(10, 1)],
                    body: step.map(Step::Call).to_vec(),
                })],
                ..FoldedRank::default()
            }
        };
        let machine = spec::machine("torus:4x4").unwrap();
        let machine = (machine.fabric, machine.routing);
        for order in [[0, 1], [1, 0]] {
            let folded = Folded {
                source: "two".into(),
                ranks: (0..2).map(|r| rank(r, order)).collect(),
                groups: vec![vec![0, 1]],
                complete: true,
                notes: Vec::new(),
            };
            let whole = folded.shorten(u64::MAX, 12, 1000).unwrap();
            let found = forecast(&machine, &whole, &[0, 1]);
            // 12.5 MB at 12.5 GB/s.
            assert!((found.seconds - 20e-3).abs() < 1e-4, "{order:?} {found:?}");
            assert!((found.bandwidth_seconds - 10e-3).abs() < 1e-4, "{found:?}");
        }
    }

    /// Messages between ranks of one node, whose memory has no limit by default, take no time.
    #[test]
    fn ranks_of_one_node_exchange_through_memory() {
        let machine = spec::machine("torus:4x4").unwrap();
        let machine = (machine.fabric, machine.routing);
        let whole = ring(8, 100).shorten(u64::MAX, 12, 1 << 24).unwrap();
        let found = forecast(&machine, &whole, &[0; 8]);
        let parts = found.compute_seconds + found.waiting_seconds + found.latency_seconds;
        assert!((found.seconds / parts - 1.0).abs() < 1e-6, "{found:?}");
        let pairs = forecast(&machine, &whole, &[0, 0, 1, 1, 2, 2, 3, 3]);
        assert!(pairs.bandwidth_seconds > 0.0, "{pairs:?}");
    }

    #[test]
    fn shortened_loops_take_the_time_of_the_whole_program() {
        let machine = spec::machine("torus:4x4").unwrap();
        let machine = (machine.fabric, machine.routing);
        let folded = ring(8, 100);
        let whole = folded.shorten(u64::MAX, 12, 1 << 24).unwrap();
        assert!(whole.spans.is_empty());
        let short = folded.shorten(1000, 12, 1 << 24).unwrap();
        assert!(!short.spans.is_empty());
        assert_eq!(short.calls, folded.calls());
        for nodes in [[0, 1, 2, 3, 4, 5, 6, 7], [0, 9, 2, 11, 4, 13, 6, 15]] {
            let exact = forecast(&machine, &whole, &nodes);
            let fast = forecast(&machine, &short, &nodes);
            for (a, b) in [
                (exact.seconds, fast.seconds),
                (exact.compute_seconds, fast.compute_seconds),
                (exact.waiting_seconds, fast.waiting_seconds),
                (exact.network_seconds(), fast.network_seconds()),
            ] {
                assert!((a - b).abs() <= 1e-3 * exact.seconds, "{exact:?} {fast:?}");
            }
            assert!(fast.unsteady_seconds <= 1e-3 * fast.seconds, "{fast:?}");
            let parts = fast.compute_seconds + fast.waiting_seconds + fast.network_seconds();
            assert!((parts - fast.seconds).abs() < 1e-9);
            assert!(fast.contention_seconds > -1e-9 && fast.bandwidth_seconds > 0.0);
        }
    }
}
