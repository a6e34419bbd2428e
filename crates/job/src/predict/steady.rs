//! Runs with more and more iterations of each loop, until run times no longer change.

use crate::by_host::hosts;
use crate::error::Result;
use hopbyte_fabric::collective::{Algorithms, Collective, How};
use hopbyte_fabric::trace::Call;
use hopbyte_fabric::trace::folded::{Folded, Shortened, Step};
use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_model::program::{Ending, Forecast, Forecaster, LeftOut, Placed};
use std::collections::{BTreeMap, BTreeSet};

/// Calls of all ranks that a run executes, about, and iterations of the loops that are shortened to them.
const FIRST: (u64, u64) = (4_000, 4);
/// The same, until run times are steady.
const MORE: [(u64, u64); 3] = [(16_000, 12), (64_000, 12), (LONG, 12)];
/// Calls above which loops of few iterations are shortened, too.
const LONG: u64 = 250_000;
/// Calls where all loops are shortened by one factor, and the least iterations of each.
const EVENLY: ([u64; 3], u64) = ([32_000, 128_000, 512_000], 12);
/// Most calls, where loops cannot be shortened.
const MOST: u64 = 1 << 25;
/// Most calls that are executed where those of shortened loops do not match each other.
const MOST_WHOLE: u64 = 1 << 22;
/// Share of a run time by which it may differ from that of fewer iterations, and that may rest on iteration times which
/// still change without such a comparison.
const STEADY: f64 = 1e-3;
/// Share of its duration within which the end of a transfer counts as simultaneous with another.
const TOLERANCE: f64 = 1e-3;

/// A program, and how it is read.
pub(super) struct Job<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) folded: &'a Folded,
    pub(super) rules: &'a Algorithms,
    pub(super) operations_per_s: Option<f64>,
}

/// Forecasts, and the calls that each executed.
pub(super) struct Steady {
    pub(super) forecasts: Vec<Forecast>,
    pub(super) executed_calls: u64,
    pub(super) left_out: LeftOut,
}

impl Job<'_> {
    /// The run time under each placement on its network. Those under which the ranks share nodes alike are executed with as
    /// many iterations; with others the library may choose other algorithms.
    ///
    /// # Errors
    /// More calls than can be executed; see [`Forecaster::new`] and [`Forecaster::endings`].
    pub(super) fn forecast(&self, placed: &[Placed<'_>]) -> Result<Steady> {
        if !self.rules.follows_hosts() {
            return self.alike(placed);
        }
        let mut by_hosts: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
        for (number, (_, nodes)) in placed.iter().enumerate() {
            by_hosts.entry(self.hosts(nodes)).or_default().push(number);
        }
        let mut found = Vec::new();
        let mut executed_calls = 0;
        let mut left_out = LeftOut::default();
        for (hosts, numbers) in by_hosts {
            let rules = self.rules.clone().on_hosts(hosts);
            let job = Job {
                rules: &rules,
                ..*self
            };
            let some: Vec<_> = numbers.iter().map(|&n| placed[n]).collect();
            let steady = job.alike(&some)?;
            executed_calls = steady.executed_calls.max(executed_calls);
            left_out = steady.left_out;
            found.extend(numbers.into_iter().zip(steady.forecasts));
        }
        found.sort_by_key(|f| f.0);
        Ok(Steady {
            forecasts: found.into_iter().map(|f| f.1).collect(),
            executed_calls,
            left_out,
        })
    }

    fn hosts(&self, nodes: &[NodeId]) -> Vec<u32> {
        hosts(self.fabric, nodes.iter().copied())
    }

    fn alike(&self, placed: &[Placed<'_>]) -> Result<Steady> {
        let (each, numbers) = distinct(placed);
        let mut level = self.level(FIRST)?;
        for aim in MORE {
            if level.is_unchanged(&each)? {
                break;
            }
            let short = self.shorten(aim)?;
            if calls(&short) == level.executed_calls {
                continue;
            }
            if let Some(outer) = self.outer(&short, &each)? {
                level = outer;
                break;
            }
            let mut fewer = std::mem::replace(&mut level, self.program(&short)?);
            if level.is_like(&mut fewer, &each)? {
                break;
            }
        }
        let mut endings = level.all(&each)?;
        if endings.iter().any(|e| e.apart) {
            level = self.evenly(&each)?;
            endings = level.all(&each)?;
        }
        let found = level.forecaster.parts(&each, &endings)?;
        Ok(Steady {
            forecasts: numbers.into_iter().map(|n| found[n]).collect(),
            executed_calls: level.executed_calls,
            left_out: level.forecaster.left_out(),
        })
    }

    /// Ranks that exchange no messages with each other, and end their loops at different times, share links for a part of
    /// these only: all loops are shortened by one factor, less and less until run times are steady.
    fn evenly(&self, placed: &[Placed<'_>]) -> Result<Level> {
        let even = |aim| {
            let short = self.folded.shorten_evenly(aim, EVENLY.1, MOST)?;
            self.program(&short)
        };
        let mut level = even(EVENLY.0[0])?;
        for aim in EVENLY.0[1..].iter().copied() {
            let mut fewer = std::mem::replace(&mut level, even(aim)?);
            if level.is_like(&mut fewer, placed)? {
                break;
            }
            if level.executed_calls == self.folded.calls() {
                break;
            }
            let fewer = fewer.all(placed)?;
            level.all(placed)?;
            for (ending, fewer) in level.endings.iter_mut().zip(&fewer) {
                ending.unsteady_seconds = (ending.seconds - fewer.seconds).abs();
            }
        }
        Ok(level)
    }

    fn shorten(&self, (aim, kept): (u64, u64)) -> Result<Shortened> {
        Ok(self.folded.shorten(aim, kept, MOST)?)
    }

    /// Some iterations of the outermost loops alone, where loops of few but long iterations would be executed whole; if that
    /// is enough.
    fn outer(&self, whole: &Shortened, placed: &[Placed<'_>]) -> Result<Option<Level>> {
        if calls(whole) <= LONG {
            return Ok(None);
        }
        let short = self.shorten((calls(whole) / 2, FIRST.1))?;
        if calls(&short) > calls(whole) / 2 {
            return Ok(None);
        }
        let mut level = self.program(&short)?;
        Ok(level.is_unchanged(placed)?.then_some(level))
    }

    fn level(&self, aim: (u64, u64)) -> Result<Level> {
        self.program(&self.shorten(aim)?)
    }

    /// Loops of ranks that do different things may be shortened so that their calls do not match: then the whole trace, if
    /// it is not too long.
    fn program(&self, short: &Shortened) -> Result<Level> {
        let build = |short: &Shortened| {
            Ok::<_, crate::JobError>(Level {
                forecaster: Forecaster::new(short, self.rules, self.operations_per_s)?,
                executed_calls: calls(short),
                endings: Vec::new(),
            })
        };
        let level = build(short);
        let fits = level
            .as_ref()
            .is_ok_and(|l| l.forecaster.left_out().is_empty());
        if fits || calls(short) == short.calls || short.calls > MOST_WHOLE {
            return level;
        }
        build(&self.shorten((u64::MAX, FIRST.1))?)
    }
}

/// A program with so many iterations, and its run times: of the first placements, of which one may show that there have to be
/// more iterations.
struct Level {
    forecaster: Forecaster,
    executed_calls: u64,
    endings: Vec<Ending>,
}

impl Level {
    /// The run times of this many placements at least.
    fn first(&mut self, number: usize, placed: &[Placed<'_>]) -> Result<&[Ending]> {
        let done = self.endings.len();
        if done < number {
            let more = self
                .forecaster
                .endings(&placed[done..number], &[], TOLERANCE)?;
            self.endings.extend(more);
        }
        Ok(&self.endings[..number])
    }

    fn all(&mut self, placed: &[Placed<'_>]) -> Result<Vec<Ending>> {
        Ok(self.first(placed.len(), placed)?.to_vec())
    }

    fn is_unchanged(&mut self, placed: &[Placed<'_>]) -> Result<bool> {
        for number in stages(placed.len()) {
            let unchanged = |e: &Ending| e.unsteady_seconds <= STEADY * e.seconds;
            if !self.first(number, placed)?.iter().all(unchanged) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_like(&mut self, fewer: &mut Self, placed: &[Placed<'_>]) -> Result<bool> {
        for number in stages(placed.len()) {
            let (all, fewer) = (self.first(number, placed)?, fewer.first(number, placed)?);
            let like =
                |(a, b): (&Ending, &Ending)| (a.seconds - b.seconds).abs() <= STEADY * a.seconds;
            if !all.iter().zip(fewer).all(like) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether ranks share nodes, and there are several of these.
pub(super) fn shares(fabric: &Fabric, nodes: &[NodeId]) -> bool {
    let hosts = hosts(fabric, nodes.iter().copied());
    let distinct = hosts.into_iter().max().map_or(0, |h| h as usize + 1);
    distinct > 1 && distinct < nodes.len()
}

/// Visits the calls of all ranks, those of a loop once.
fn visit(folded: &Folded, see: &mut dyn FnMut(&Call)) {
    fn inside(steps: &[Step], see: &mut dyn FnMut(&Call)) {
        for step in steps {
            match step {
                Step::Call(call) => see(call),
                Step::Loop(l) => inside(&l.body, see),
                Step::Mark(..) => {}
            }
        }
    }
    folded.ranks.iter().for_each(|r| inside(&r.steps, see));
}

/// Collective operations, by how they are called.
pub(super) fn collectives(folded: &Folded) -> BTreeSet<(Collective, How)> {
    let mut found = BTreeSet::new();
    visit(folded, &mut |call| {
        if let Call::Collective { kind, how, .. } = call {
            found.insert((*kind, *how));
        }
    });
    found
}

/// Whether it counts work in operations.
pub(super) fn counts_operations(folded: &Folded) -> bool {
    let mut counts = false;
    visit(folded, &mut |call| {
        counts |= matches!(call, Call::Work { .. });
    });
    counts
}

/// The first placement, then all.
fn stages(placements: usize) -> [usize; 2] {
    [placements.min(1), placements]
}

fn calls(short: &Shortened) -> u64 {
    short.trace.ranks.iter().map(|r| r.calls.len() as u64).sum()
}

/// The different ones among them, and the number of each in these.
fn distinct<'a>(placed: &[Placed<'a>]) -> (Vec<Placed<'a>>, Vec<usize>) {
    let mut found: Vec<Placed<'a>> = Vec::new();
    let mut numbers = Vec::with_capacity(placed.len());
    for &(network, nodes) in placed {
        let known = (found.iter()).position(|f| std::ptr::eq(f.0, network) && f.1 == nodes);
        numbers.push(known.unwrap_or(found.len()));
        if known.is_none() {
            found.push((network, nodes));
        }
    }
    (found, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::trace::folded::{FoldedRank, Loop};
    use hopbyte_fabric::{Routing, spec};
    use hopbyte_model::network::Network;
    use hopbyte_model::parameters::{OperatingPoint, Parameters};

    /// Two ranks that send to each other in turn, in a loop of ten long iterations.
    fn folded(pairs: usize) -> Folded {
        let step = |call: Call| Step::Call(call);
        let send = |to| Call::Send {
            to,
            tag: 0,
            group: 0,
            request: None,
            bytes: 1e4,
        };
        let receive = |from| Call::Receive {
            from: Some(from),
            tag: Some(0),
            group: 0,
            request: None,
        };
        let rank = |me: u32| {
            let mut body = Vec::new();
            for turn in 0..pairs as u32 {
                let seconds = 1e-6 * f64::from(turn % 7);
                body.push(step(Call::Compute { seconds }));
                body.push(step(match turn % 2 == me {
                    true => send(1 - me),
                    false => receive(1 - me),
                }));
            }
            FoldedRank {
                steps: vec![Step::Loop(Loop {
                    counts: vec![(10, 1)],
                    body,
                })],
                ..FoldedRank::default()
            }
        };
        Folded {
            source: "test".into(),
            ranks: vec![rank(0), rank(1)],
            groups: vec![vec![0, 1]],
            complete: true,
            notes: Vec::new(),
        }
    }

    #[test]
    fn few_long_iterations_of_the_outermost_loop_are_not_all_executed() {
        let fabric = spec::fabric("torus:4x4").unwrap();
        let routing = Routing::default_for(&fabric);
        let parameters = Parameters::plain();
        let network = Network::new(&fabric, &routing, &parameters, OperatingPoint::default());
        let nodes = [NodeId(0), NodeId(1)];
        let placed = [(&network, &nodes[..])];
        let rules = Algorithms::default();
        let outer = |folded: &Folded| {
            let job = Job {
                fabric: &fabric,
                folded,
                rules: &rules,
                operations_per_s: None,
            };
            let whole = job.shorten((u64::MAX, 12)).unwrap();
            let all = job.program(&whole).unwrap().all(&placed).unwrap();
            let found = job.outer(&whole, &placed).unwrap();
            (found, all[0].seconds, calls(&whole))
        };
        let (found, seconds, calls) = outer(&folded(8_000));
        let mut level = found.unwrap();
        assert!(
            level.executed_calls * 2 <= calls,
            "{}",
            level.executed_calls
        );
        let fewer = level.all(&placed).unwrap()[0].seconds;
        assert!(
            (fewer - seconds).abs() < 1e-6 * seconds,
            "{fewer} {seconds}"
        );
        // A short program is executed whole.
        assert!(outer(&folded(100)).0.is_none());
    }

    /// Two pairs whose messages share the middle link of a row of four, 10 MB/s, in loops of their own.
    #[test]
    fn loops_of_ranks_without_messages_for_each_other_share_links_while_both_last() {
        let fabric = spec::fabric("mesh:4:link=0.01").unwrap();
        let routing = Routing::default_for(&fabric);
        let parameters = Parameters::plain();
        let network = Network::new(&fabric, &routing, &parameters, OperatingPoint::default());
        let pairs = |loops: [(u64, f64); 2]| {
            let rank = |me: u32| {
                let (iterations, bytes) = loops[me as usize % 2];
                let other = (me + 2) % 4;
                let send = Call::Send {
                    to: other,
                    tag: 0,
                    group: 0,
                    request: None,
                    bytes,
                };
                let receive = Call::Receive {
                    from: Some(other),
                    tag: Some(0),
                    group: 0,
                    request: None,
                };
                let turn = if me < 2 {
                    [send, receive]
                } else {
                    [receive, send]
                };
                FoldedRank {
                    steps: vec![Step::Loop(Loop {
                        counts: vec![(iterations, 1)],
                        body: turn.map(Step::Call).to_vec(),
                    })],
                    ..FoldedRank::default()
                }
            };
            let folded = Folded {
                source: "pairs".into(),
                ranks: (0..4).map(rank).collect(),
                groups: vec![(0..4).collect()],
                complete: true,
                notes: Vec::new(),
            };
            let job = Job {
                fabric: &fabric,
                folded: &folded,
                rules: &Algorithms::default(),
                operations_per_s: None,
            };
            let found = job
                .forecast(&[(&network, &[0, 1, 2, 3].map(NodeId))])
                .unwrap();
            assert!(found.executed_calls < folded.calls(), "{loops:?}");
            found.forecasts[0]
        };
        // Both pairs send over the link from r1 to r2, and back.
        for (loops, seconds) in [
            ([(20_000, 1e5), (20_000, 1e5)], 800.0),
            ([(40_000, 1e5), (20_000, 1e5)], 1200.0),
            ([(40_000, 1e5), (36_000, 1e5)], 1520.0),
            // 60 ms for two iterations and one, then 40 ms for each of the others.
            ([(40_000, 1e5), (40_000, 2e5)], 2000.0),
            ([(40_000, 1e5), (400, 1e5)], 808.0),
        ] {
            let found = pairs(loops);
            let error = found.seconds / seconds - 1.0;
            assert!(
                error.abs() < 5e-3,
                "{loops:?}: {found:?}, expected {seconds}"
            );
        }
    }
}
