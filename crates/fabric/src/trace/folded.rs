//! Traces with loops folded, and shortened ones that stand for the whole.
//!
//! A recorder folds while a job runs, so a loop's calls have mean times and sizes. The sequence of calls is exact: a loop
//! inside a loop has the number of its iterations for each execution.

use super::{Call, Order, RankTrace, Trace, wrong};
use crate::error::FabricError;
use std::collections::HashMap;

/// A part of a rank's program.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// One call.
    Call(Call),
    /// Repeated steps.
    Loop(Loop),
    /// A boundary of iterations of a shortened loop: the number of the [`Span`], and of the iteration.
    Mark(u32, u64),
}

/// A loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// Iterations of its executions, in order: (iterations, number of such executions).
    pub counts: Vec<(u64, u64)>,
    /// Steps of one iteration.
    pub body: Vec<Step>,
}

/// The program of one rank.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FoldedRank {
    /// Its steps.
    pub steps: Vec<Step>,
    /// Bytes to each member, as in [`RankTrace::rows`].
    pub rows: Vec<f64>,
    /// Order of the calls of a trace without loops.
    pub order: Order,
    /// Duration of the recorded run; 0 if unknown.
    pub seconds: f64,
    /// Time that it spent in calls; 0 if unknown.
    pub mpi_seconds: f64,
}

/// The programs of all ranks of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Folded {
    /// Source of the trace.
    pub source: String,
    /// The program of each rank.
    pub ranks: Vec<FoldedRank>,
    /// Members of each group; the first is the world.
    pub groups: Vec<Vec<u32>>,
    /// Whether it has every call of every rank.
    pub complete: bool,
    /// Caveats, one sentence each.
    pub notes: Vec<String>,
}

/// Iterations of a loop that a shortened trace leaves out.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Left-out iterations of each rank.
    pub skipped: Vec<u64>,
    /// Executed iterations of each rank.
    pub kept: Vec<u64>,
    /// For each rank the number of its part: parts exchange no messages in this loop.
    pub part: Vec<u32>,
}

/// A boundary of iterations: the call before which it lies, the span, and the iterations done.
pub type Mark = (u32, u32, u64);

/// A trace without most iterations of its loops.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortened {
    /// What is executed.
    pub trace: Trace,
    /// Boundaries of each rank, in order.
    pub marks: Vec<Vec<Mark>>,
    /// Shortened loops; a loop inside another has a larger number.
    pub spans: Vec<Span>,
    /// Calls of the whole trace.
    pub calls: u64,
    /// Whether all loops are shortened by about the same factor.
    pub evenly: bool,
}

/// Share of a rank's calls below which a loop is not compared with those of other ranks.
const LIGHT: f64 = 0.02;

impl Folded {
    /// A trace as it is, without loops.
    pub fn of(trace: Trace) -> Self {
        let ranks = trace.ranks.into_iter().map(|rank| FoldedRank {
            steps: rank.calls.into_iter().map(Step::Call).collect(),
            rows: rank.rows,
            order: rank.order,
            ..FoldedRank::default()
        });
        Self {
            source: trace.source,
            ranks: ranks.collect(),
            groups: trace.groups,
            complete: true,
            notes: Vec::new(),
        }
    }

    /// Calls of all ranks.
    pub fn calls(&self) -> u64 {
        self.ranks.iter().map(|r| calls(&r.steps)).sum()
    }

    /// The trace with every iteration.
    ///
    /// # Errors
    /// More than `most` calls.
    pub fn unfold(&self, most: u64) -> Result<Trace, FabricError> {
        Ok(self.unfolded(most)?.trace)
    }

    fn unfolded(&self, most: u64) -> Result<Shortened, FabricError> {
        let calls = self.calls();
        if calls > most {
            return Err(FabricError::OutOfRange {
                what: self.source.clone(),
                found: format!("{calls} calls"),
                expected: format!("at most {most}"),
            });
        }
        let mut marks = Vec::with_capacity(self.ranks.len());
        let mut ranks = Vec::with_capacity(self.ranks.len());
        for (number, rank) in (0u32..).zip(&self.ranks) {
            let mut out = Out::default();
            let mut cursors = cursors(&rank.steps);
            run(&rank.steps, &mut cursors, &mut out).ok_or_else(|| {
                wrong(
                    number,
                    "a loop without its counts",
                    "a count for each execution",
                )
            })?;
            ranks.push(RankTrace {
                calls: out.calls,
                rows: rank.rows.clone(),
                order: rank.order.clone(),
            });
            marks.push(out.marks);
        }
        let trace = Trace {
            source: self.source.clone(),
            ranks,
            groups: self.groups.clone(),
        };
        Ok(Shortened {
            trace,
            marks,
            spans: Vec::new(),
            calls,
            evenly: false,
        })
    }

    /// A trace of about `aim` calls: loops that all ranks have with as many iterations are cut to `kept`, from the
    /// outermost inwards. It has more calls if the ranks' loops differ.
    ///
    /// # Errors
    /// More than `most` calls remain.
    pub fn shorten(&self, aim: u64, kept: u64, most: u64) -> Result<Shortened, FabricError> {
        let mut short = self.clone();
        let mut spans: Vec<Span> = Vec::new();
        while short.calls() > aim {
            let Some(chosen) = short.alike(kept) else {
                if !short.open(kept) {
                    break;
                }
                continue;
            };
            short.cut_all(&chosen, &mut spans, |_| kept);
            short.open(kept);
        }
        self.shortened(&short, spans, most)
    }

    /// The same, with the outermost loops alone, all by about the same factor, so that simultaneous calls of the whole
    /// trace are simultaneous in this one.
    ///
    /// # Errors
    /// As for [`Self::shorten`].
    pub fn shorten_evenly(&self, aim: u64, kept: u64, most: u64) -> Result<Shortened, FabricError> {
        let mut short = self.clone();
        let mut spans: Vec<Span> = Vec::new();
        let factor = self.calls().div_ceil(aim.max(1));
        if factor > 1 {
            let mut chosen = short.alike(kept);
            while chosen.is_none() && short.open(kept) {
                chosen = short.alike(kept);
            }
            short.cut_all(&chosen.unwrap_or_default(), &mut spans, |iterations| {
                kept.max(iterations / factor)
            });
        }
        let mut found = self.shortened(&short, spans, most)?;
        found.evenly = true;
        Ok(found)
    }

    fn shortened(
        &self,
        short: &Self,
        spans: Vec<Span>,
        most: u64,
    ) -> Result<Shortened, FabricError> {
        let mut found = short.unfolded(most)?;
        found.calls = self.calls();
        found.spans = spans;
        Ok(found)
    }

    /// Cuts every rank's loops to `keep` of their iterations.
    fn cut_all(&mut self, chosen: &[Vec<usize>], spans: &mut Vec<Span>, keep: impl Fn(u64) -> u64) {
        for at in 0..chosen.iter().map(Vec::len).max().unwrap_or(0) {
            spans.push(self.cut(chosen, at, spans.len() as u32, &keep));
        }
    }

    /// The long loops of every rank's list, if all ranks with calls have as many.
    fn alike(&self, kept: u64) -> Option<Vec<Vec<usize>>> {
        let mut found = Vec::with_capacity(self.ranks.len());
        let mut expected = None;
        for rank in &self.ranks {
            let whole = calls(&rank.steps) as f64;
            let long = |(_, step): &(usize, &Step)| match step {
                Step::Loop(l) => iterations(l) > 2 * kept && loop_calls(l) as f64 > LIGHT * whole,
                _ => false,
            };
            let list: Vec<usize> = rank
                .steps
                .iter()
                .enumerate()
                .filter(long)
                .map(|(i, _)| i)
                .collect();
            if whole == 0.0 {
                found.push(list);
                continue;
            }
            if *expected.get_or_insert(list.len()) != list.len() || list.is_empty() {
                return None;
            }
            found.push(list);
        }
        expected.filter(|&n| n > 0)?;
        Some(found)
    }

    /// Cuts the loop number `at` of every rank's list: as many iterations are left out in all ranks of a part, or multiples
    /// of them where a rank's loop is a fraction of the others'.
    fn cut(
        &mut self,
        chosen: &[Vec<usize>],
        at: usize,
        number: u32,
        keep: impl Fn(u64) -> u64,
    ) -> Span {
        let counts: Vec<u64> = (self.ranks.iter().zip(chosen))
            .map(|(rank, list)| match list.get(at).map(|&i| &rank.steps[i]) {
                Some(Step::Loop(l)) => iterations(l),
                _ => 0,
            })
            .collect();
        let mut span = Span {
            skipped: vec![0; counts.len()],
            kept: vec![0; counts.len()],
            part: self.parts(chosen, at),
        };
        let mut least: HashMap<u32, u64> = HashMap::new();
        for (&part, &count) in span.part.iter().zip(&counts).filter(|(_, c)| **c > 0) {
            let least = least.entry(part).or_insert(count);
            *least = count.min(*least);
        }
        for (r, &count) in counts.iter().enumerate().filter(|(_, c)| **c > 0) {
            let least = least[&span.part[r]];
            let kept = keep(least);
            let cut = least - kept;
            let ratio = (count as f64 / least as f64).round() as u64;
            span.skipped[r] = (cut * ratio).min(count - kept);
            span.kept[r] = count - span.skipped[r];
            let steps = &mut self.ranks[r].steps;
            if let Step::Loop(l) = &mut steps[chosen[r][at]] {
                l.counts = vec![(span.kept[r], 1)];
                let mut cursor = Cursor {
                    inner: cursors(&l.body),
                    ..Cursor::default()
                };
                *l = one(l, &mut cursor);
                l.body.push(Step::Mark(number, 0));
            }
        }
        span
    }

    /// For each rank the number of its part: ranks that exchange messages in their loops number `at`, directly or through
    /// others, are of one part.
    fn parts(&self, chosen: &[Vec<usize>], at: usize) -> Vec<u32> {
        let ranks = self.ranks.len() as u32;
        // Groups count as ranks: collectives join their members.
        let mut parent: Vec<u32> = (0..ranks + self.groups.len() as u32).collect();
        for (me, (rank, list)) in (0..).zip(self.ranks.iter().zip(chosen)) {
            if let Some(&at) = list.get(at) {
                each_partner(&rank.steps[at..=at], &mut |partner| {
                    let other = match partner {
                        Partner::Rank(rank) => rank,
                        Partner::Group(group) => ranks.saturating_add(group),
                    };
                    if (other as usize) < parent.len() {
                        let (a, b) = (root_of(&mut parent, me), root_of(&mut parent, other));
                        parent[a.max(b) as usize] = a.min(b);
                    }
                });
            }
        }
        (0..ranks).map(|r| root_of(&mut parent, r)).collect()
    }

    /// Replaces short loops of the lists by their iterations; false if there is none.
    fn open(&mut self, kept: u64) -> bool {
        let mut any = false;
        for rank in &mut self.ranks {
            let mut list = Vec::with_capacity(rank.steps.len());
            for step in std::mem::take(&mut rank.steps) {
                match step {
                    Step::Loop(l) if iterations(&l) <= 2 * kept => {
                        any = true;
                        open_loop(&l, &mut list);
                    }
                    other => list.push(other),
                }
            }
            rank.steps = list;
        }
        any
    }
}

/// Whom a call exchanges messages with.
enum Partner {
    Rank(u32),
    Group(u32),
}

fn each_partner(steps: &[Step], each: &mut impl FnMut(Partner)) {
    for step in steps {
        match *step {
            Step::Loop(ref l) => each_partner(&l.body, each),
            Step::Call(Call::Send { to, .. }) => each(Partner::Rank(to)),
            Step::Call(
                Call::Receive {
                    from: Some(from), ..
                }
                | Call::Matched { from, .. },
            ) => each(Partner::Rank(from)),
            Step::Call(
                Call::Receive {
                    from: None, group, ..
                }
                | Call::Collective { group, .. },
            ) => each(Partner::Group(group)),
            Step::Call(_) | Step::Mark(..) => {}
        }
    }
}

/// The representative of a set, with shorter ways to it afterwards.
fn root_of(parent: &mut [u32], mut at: u32) -> u32 {
    while parent[at as usize] != at {
        let next = parent[parent[at as usize] as usize];
        parent[at as usize] = next;
        at = next;
    }
    at
}

/// Iterations of all executions.
fn iterations(l: &Loop) -> u64 {
    l.counts.iter().map(|c| c.0.saturating_mul(c.1)).sum()
}

/// Calls of all executions of a loop.
fn loop_calls(l: &Loop) -> u64 {
    executed(&l.body, iterations(l))
}

/// Calls of some steps.
fn calls(steps: &[Step]) -> u64 {
    executed(steps, 1)
}

/// Calls of steps that are executed a number of times. Counts of inner loops are those of all executions already.
fn executed(steps: &[Step], times: u64) -> u64 {
    let each = |step: &Step| match step {
        Step::Call(_) => times,
        Step::Loop(l) => loop_calls(l),
        Step::Mark(..) => 0,
    };
    steps.iter().map(each).fold(0, u64::saturating_add)
}

/// Position in a loop's counts.
#[derive(Default)]
struct Cursor {
    at: usize,
    used: u64,
    inner: Vec<Cursor>,
}

impl Cursor {
    fn next(&mut self, l: &Loop) -> Option<u64> {
        let &(count, times) = l.counts.get(self.at)?;
        self.used += 1;
        if self.used == times {
            self.at += 1;
            self.used = 0;
        }
        Some(count)
    }
}

fn cursors(steps: &[Step]) -> Vec<Cursor> {
    let each = |step: &Step| match step {
        Step::Loop(l) => Cursor {
            inner: cursors(&l.body),
            ..Cursor::default()
        },
        _ => Cursor::default(),
    };
    steps.iter().map(each).collect()
}

#[derive(Default)]
struct Out {
    calls: Vec<Call>,
    marks: Vec<Mark>,
    done: HashMap<u32, u64>,
}

fn run(steps: &[Step], cursors: &mut [Cursor], out: &mut Out) -> Option<()> {
    for (step, cursor) in steps.iter().zip(cursors) {
        match step {
            Step::Call(call) => out.calls.push(*call),
            Step::Mark(span, _) => {
                let done = out.done.entry(*span).or_default();
                *done += 1;
                out.marks.push((out.calls.len() as u32, *span, *done));
            }
            Step::Loop(l) => {
                for _ in 0..cursor.next(l)? {
                    run(&l.body, &mut cursor.inner, out)?;
                }
            }
        }
    }
    Some(())
}

/// The iterations of a loop's first execution, each inner loop with its own count.
fn open_loop(l: &Loop, list: &mut Vec<Step>) {
    let mut cursors = cursors(&l.body);
    for _ in 0..iterations(l) {
        for (step, cursor) in l.body.iter().zip(&mut cursors) {
            list.push(match step {
                Step::Loop(inner) => Step::Loop(one(inner, cursor)),
                other => other.clone(),
            });
        }
    }
}

/// One execution of a loop.
fn one(l: &Loop, cursor: &mut Cursor) -> Loop {
    let count = cursor.next(l).unwrap_or(0);
    let mut body = l.body.clone();
    for (step, inner) in body.iter_mut().zip(&mut cursor.inner) {
        if let Step::Loop(deep) = step {
            let parts: Vec<Loop> = (0..count).map(|_| one(deep, inner)).collect();
            *deep = joined(parts, deep);
        }
    }
    Loop {
        counts: vec![(count, 1)],
        body,
    }
}

/// Executions of one loop, one after the other.
fn joined(parts: Vec<Loop>, of: &Loop) -> Loop {
    let mut counts: Vec<(u64, u64)> = Vec::new();
    let mut bodies: Vec<Vec<Step>> = Vec::new();
    for part in parts {
        for (count, times) in part.counts {
            match counts.last_mut() {
                Some(last) if last.0 == count => last.1 += times,
                _ => counts.push((count, times)),
            }
        }
        bodies.push(part.body);
    }
    let mut body = of.body.clone();
    for (i, step) in body.iter_mut().enumerate() {
        if let Step::Loop(deep) = step {
            let inner = bodies.iter().filter_map(|b| match b.get(i) {
                Some(Step::Loop(l)) => Some(l.clone()),
                _ => None,
            });
            *deep = joined(inner.collect(), deep);
        }
    }
    Loop { counts, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: u64 = 12;

    fn compute(seconds: f64) -> Step {
        Step::Call(Call::Compute { seconds })
    }

    fn folded(steps: Vec<Step>) -> Folded {
        let rank = FoldedRank {
            steps,
            ..FoldedRank::default()
        };
        Folded {
            source: "t".into(),
            ranks: vec![rank],
            groups: vec![vec![0]],
            complete: true,
            notes: Vec::new(),
        }
    }

    fn seconds(trace: &Trace) -> Vec<f64> {
        let calls = trace.ranks[0].calls.iter();
        calls
            .map(|c| match c {
                Call::Compute { seconds } => *seconds,
                _ => f64::NAN,
            })
            .collect()
    }

    fn nested() -> Vec<Step> {
        let inner = Loop {
            counts: vec![(1, 1), (2, 2)],
            body: vec![compute(2.0)],
        };
        let outer = Loop {
            counts: vec![(3, 1)],
            body: vec![compute(1.0), Step::Loop(inner)],
        };
        vec![Step::Loop(outer), compute(9.0)]
    }

    #[test]
    fn loops_unfold_with_the_counts_of_each_execution() {
        let f = folded(nested());
        assert_eq!(f.calls(), 9);
        let expected = [1.0, 2.0, 1.0, 2.0, 2.0, 1.0, 2.0, 2.0, 9.0];
        assert_eq!(seconds(&f.unfold(9).unwrap()), expected);
        assert!(f.unfold(8).is_err());
        let mut opened = f.clone();
        while opened.open(12) {}
        assert_eq!(seconds(&opened.unfold(9).unwrap()), expected);
    }

    #[test]
    fn shortened_loops_leave_out_what_their_spans_say() {
        let inner = Loop {
            counts: vec![(100, 1000)],
            body: vec![compute(2.0)],
        };
        let outer = Loop {
            counts: vec![(1000, 1)],
            body: vec![compute(1.0), Step::Loop(inner)],
        };
        let f = folded(vec![Step::Loop(outer)]);
        assert_eq!(f.calls(), 101_000);
        let short = f.shorten(500, KEPT, 2000).unwrap();
        assert_eq!(short.calls, 101_000);
        assert_eq!(short.spans[0].skipped, [1000 - KEPT]);
        assert_eq!(short.spans[1].skipped, [100 - KEPT]);
        assert_eq!(short.spans.len() as u64, 1 + KEPT);
        assert_eq!(short.trace.ranks[0].calls.len() as u64, KEPT * (1 + KEPT));
        // The marks of the outer loop are at the ends of its iterations.
        let outer: Vec<_> = short.marks[0].iter().filter(|m| m.1 == 0).collect();
        assert_eq!(*outer[1], (2 * (1 + KEPT as u32), 0, 2));
    }
}
