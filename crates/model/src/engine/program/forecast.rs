//! Run time of a recorded program on a network, and its parts.
//!
//! Four runs of one engine: messages that take no time, their latency alone, also their bytes without other traffic, and
//! everything. Their differences are the parts. The first three are the same for placements whose messages take as long
//! there, which are all of many machines, so that those share them. A loop of which only some iterations are executed is extended by its
//! iteration time at the end of those; where loops of ranks that exchange no messages end at different times, all are shortened by
//! one factor and time passes that many times as fast.

use super::alone::{Alone, Cost, Messages};
use super::run::run_on;
use super::together::{Executed, Together};
use super::{Flows, LeftOut, OpId, Program, ProgramTimes, Queued, Recorded, Stream};
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
    /// Whether all loops are shortened by about the same factor.
    evenly: bool,
    /// Computing time of each rank, whole loops included.
    compute: Vec<f64>,
    left_out: LeftOut,
}

/// A network, and nodes by rank.
pub type Placed<'a> = (&'a Network<'a>, &'a [NodeId]);

/// Most costs of messages that are compared at a time.
const MOST_COMPARED: usize = 1 << 23;

/// A run time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ending {
    /// Run time.
    pub seconds: f64,
    /// Change of the iteration times at the end of the executed iterations, extended to the whole run.
    pub unsteady_seconds: f64,
    /// As [`ProgramTimes::buffered_bytes`].
    pub buffered_bytes: f64,
    /// Whether ranks that exchange no messages with each other end their loops at different times, so that iterations at the
    /// end of the executed ones may share links with other ranks than most.
    pub apart: bool,
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
    /// As [`ProgramTimes::buffered_bytes`].
    pub buffered_bytes: f64,
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
        let Recorded {
            program,
            marks: found,
            left_out,
        } = Program::of_marked(&short.trace, operations_per_s, rules, &short.marks)?;
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
            compute.push(extended(rank, values, sum, &short.spans, &mut |_, _| ()).0);
            marks.push(list);
        }
        Ok(Self {
            program,
            marks,
            spans: short.spans.clone(),
            evenly: short.evenly,
            compute,
            left_out,
        })
    }

    /// Calls of the trace that a run does not execute, since it lacks their counterparts.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// Operations that a run executes.
    pub fn operations(&self) -> usize {
        self.program.operations().len()
    }

    /// The run time of each placement on its network, side by side; see [`Self::ending`].
    ///
    /// # Errors
    /// See [`run_on`].
    pub fn endings(
        &self,
        placed: &[Placed<'_>],
        background: &[Stream],
        tolerance: f64,
    ) -> Result<Vec<Ending>, ModelError> {
        let each = placed
            .par_iter()
            .map(|placed| self.ending(*placed, background, tolerance));
        each.collect()
    }

    /// The run time with rank `i` on node `i` of the list; `tolerance` as in [`Flows::new`].
    ///
    /// # Errors
    /// See [`run_on`].
    pub fn ending(
        &self,
        (network, nodes): Placed<'_>,
        background: &[Stream],
        tolerance: f64,
    ) -> Result<Ending, ModelError> {
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
        Ok(self.whole(&times))
    }

    /// The parts of the run times that [`Self::endings`] found.
    ///
    /// # Errors
    /// See [`run_on`].
    pub fn parts(
        &self,
        placed: &[Placed<'_>],
        endings: &[Ending],
    ) -> Result<Vec<Forecast>, ModelError> {
        let messages = Messages::new(&self.program);
        let together = MOST_COMPARED / messages.different.len().max(1);
        let mut found = Vec::with_capacity(placed.len());
        for placed in placed.chunks(together.max(1)) {
            found.extend(self.without_traffic(&messages, placed)?);
        }
        let compute = self.compute.iter().sum::<f64>() / self.compute.len().max(1) as f64;
        let forecast = |(ending, [ideal, latency, bandwidth]): (&Ending, [f64; 3])| Forecast {
            seconds: ending.seconds,
            compute_seconds: compute,
            waiting_seconds: ideal - compute,
            latency_seconds: latency - ideal,
            bandwidth_seconds: bandwidth - latency,
            contention_seconds: ending.seconds - bandwidth,
            unsteady_seconds: ending.unsteady_seconds,
            buffered_bytes: ending.buffered_bytes,
        };
        Ok(endings.iter().zip(found).map(forecast).collect())
    }

    /// The run times of placements with messages that take no time, with their latency, and with their bytes, too.
    fn without_traffic(
        &self,
        messages: &Messages,
        placed: &[Placed<'_>],
    ) -> Result<Vec<[f64; 3]>, ModelError> {
        let quiet = placed
            .par_iter()
            .map(|placed| Quiet::new(*placed, messages));
        let quiet: Vec<Quiet<'_>> = quiet.collect::<Result<_, _>>()?;
        let ranks = Quiet::firsts(&quiet, Quiet::has_ranks_of);
        let costs = Quiet::firsts(&quiet, Quiet::is_like);
        let runs = (0..quiet.len()).flat_map(|i| {
            let ideal = (ranks[i] == Some(i)).then_some((i, Cost::Nothing));
            let costly = [(i, Cost::Latency), (i, Cost::Bandwidth)];
            let costly = (costs[i] == Some(i)).then_some(costly);
            ideal.into_iter().chain(costly.into_iter().flatten())
        });
        let runs: Vec<(usize, Cost)> = runs.collect();
        let seconds = runs.par_iter().map(|&(i, cost)| {
            let seconds = self.alone(messages, &quiet[i], cost)?;
            Ok(((i, cost), seconds))
        });
        let seconds: HashMap<(usize, Cost), f64> = seconds.collect::<Result<_, ModelError>>()?;
        let of = |first: Option<usize>, i, cost| seconds[&(first.unwrap_or(i), cost)];
        let all = (0..quiet.len()).map(|i| {
            [
                of(ranks[i], i, Cost::Nothing),
                of(costs[i], i, Cost::Latency),
                of(costs[i], i, Cost::Bandwidth),
            ]
        });
        Ok(all.collect())
    }

    fn alone(&self, messages: &Messages, quiet: &Quiet<'_>, cost: Cost) -> Result<f64, ModelError> {
        let (network, nodes) = quiet.placed;
        let alone = Alone::new(messages, &quiet.costs, cost);
        let whole = |network: &Network<'_>| {
            let (times, _) = run_on(alone, network, &self.program, nodes)?;
            Ok(self.whole(&times).seconds)
        };
        if cost != Cost::Nothing {
            return whole(network);
        }
        let mut free = network.parameters.clone();
        free.overhead_s = 0.0;
        free.messages_per_s = None;
        whole(&Network::new(
            network.fabric,
            network.routing,
            &free,
            network.point,
        ))
    }

    /// The end of the last rank, loops extended.
    fn whole(&self, times: &ProgramTimes) -> Ending {
        let mut together = Together::default();
        let each = self.marks.iter().enumerate().map(|(rank, marks)| {
            let values = marks
                .iter()
                .map(|&(op, span, _)| (span, times.by_operation[op.0 as usize]));
            let mut loops = |span: u32, executed: Executed| {
                together.add(span, &self.spans[span as usize], rank, &executed);
            };
            extended(rank, values, times.by_rank[rank], &self.spans, &mut loops)
        });
        let last = each.max_by(|a, b| a.0.total_cmp(&b.0));
        let (mut seconds, mut unsteady_seconds) = last.unwrap_or_default();
        if self.evenly {
            let executed = times.by_rank.iter().copied().fold(0.0, f64::max);
            (seconds, unsteady_seconds) = (executed + together.left_out(), 0.0);
        }
        Ending {
            seconds,
            unsteady_seconds,
            buffered_bytes: times.buffered_bytes,
            apart: !self.evenly && together.is_apart(),
        }
    }
}

/// A placement without other traffic.
struct Quiet<'a> {
    placed: Placed<'a>,
    /// For every rank the first of its node.
    together: Vec<u32>,
    /// Latency and duration of every different message.
    costs: Vec<(f64, f64)>,
}

impl<'a> Quiet<'a> {
    fn new(placed: Placed<'a>, messages: &Messages) -> Result<Self, ModelError> {
        let (network, nodes) = placed;
        let mut first: HashMap<NodeId, u32> = HashMap::new();
        let together = (0u32..).zip(nodes);
        let together = together.map(|(rank, &node)| *first.entry(node).or_insert(rank));
        Ok(Self {
            placed,
            together: together.collect(),
            costs: messages.costs(network, nodes)?,
        })
    }

    /// For each the first one that is like it.
    fn firsts(all: &[Self], is_like: fn(&Self, &Self) -> bool) -> Vec<Option<usize>> {
        let first = |one: &Self| all.iter().position(|other| is_like(one, other));
        all.iter().map(first).collect()
    }

    /// Whether a run in which messages take no time takes the same time.
    fn has_ranks_of(&self, other: &Self) -> bool {
        let (a, b) = (self.placed.0, other.placed.0);
        let rates = std::ptr::eq(a.parameters, b.parameters) || a.parameters == b.parameters;
        let same = rates && a.point == b.point && a.computing == b.computing;
        same && self.together == other.together
    }

    /// Whether every run without other traffic takes the same time.
    fn is_like(&self, other: &Self) -> bool {
        self.has_ranks_of(other) && self.costs == other.costs
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
/// change. `marks`: span and time at the end of every executed iteration, in order. `loops` is told of every span.
fn extended(
    rank: usize,
    marks: impl Iterator<Item = (u32, f64)>,
    end: f64,
    spans: &[Span],
    loops: &mut impl FnMut(u32, Executed),
) -> (f64, f64) {
    let (mut added, mut unsteady) = (0.0, 0.0);
    // The end of the first iteration as executed, and those of all, extended.
    let mut seen: HashMap<u32, (f64, Vec<f64>)> = HashMap::new();
    for (number, time) in marks {
        let span = &spans[number as usize];
        let (first, list) = seen.entry(number).or_insert((time, Vec::new()));
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
        let executed = Executed {
            first: *first,
            last: time,
            end: list[last] + skipped * late,
        };
        loops(number, executed);
    }
    (end + added, unsteady)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{OperatingPoint, Parameters};
    use hopbyte_fabric::collective::{Collective, How};
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
                    how: How::default(),
                    group: 0,
                    root: 0,
                    bytes: 8.0,
                    row: None,
                    request: None,
                    neighbors: false,
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
        let placed = [(&network, &*nodes)];
        let endings = forecaster.endings(&placed, &[], 0.0).unwrap();
        forecaster.parts(&placed, &endings).unwrap()[0]
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

    /// Placements whose messages take as long without other traffic share those runs, and have the answers of their own.
    #[test]
    fn placements_together_have_the_parts_of_each_alone() {
        let machine = spec::machine("torus:4x4").unwrap();
        let parameters = Parameters {
            latency_s: 2e-6,
            overhead_s: 1e-7,
            messages_per_s: Some(1e6),
            ..Parameters::plain()
        };
        let point = OperatingPoint::default();
        let network = Network::new(&machine.fabric, &machine.routing, &parameters, point);
        let mut slower = network.clone();
        slower.degrade(machine.fabric.link_ids().next().unwrap(), 0.1);
        let whole = ring(8, 20).shorten(u64::MAX, 12, 1 << 24).unwrap();
        let forecaster = Forecaster::new(&whole, &Algorithms::default(), None).unwrap();
        let nodes: [[u32; 8]; 5] = [
            [0, 1, 2, 3, 7, 6, 5, 4],
            // The same one row further; another order; ranks that share nodes, alike and otherwise.
            [4, 5, 6, 7, 11, 10, 9, 8],
            [0, 9, 2, 11, 4, 13, 6, 15],
            [0, 0, 1, 1, 2, 2, 3, 3],
            [0, 1, 0, 1, 2, 3, 2, 3],
        ];
        let nodes = nodes.map(|list| list.map(NodeId));
        let on = |network| nodes.iter().map(move |list| (network, list.as_slice()));
        let placed: Vec<Placed<'_>> = on(&network).chain(on(&slower)).collect();
        let endings = forecaster.endings(&placed, &[], 0.0).unwrap();
        let found = forecaster.parts(&placed, &endings).unwrap();
        for (i, forecast) in found.iter().enumerate() {
            let alone = forecaster.parts(&placed[i..=i], &endings[i..=i]).unwrap();
            assert_eq!(alone, [*forecast], "placement {i}");
        }
        assert!(found[1].bandwidth_seconds == found[0].bandwidth_seconds);
        assert!(
            found[2].latency_seconds != found[0].latency_seconds,
            "{found:?}"
        );
        // The slower link is on a route of the third.
        assert!(found[7].bandwidth_seconds > found[2].bandwidth_seconds);
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
