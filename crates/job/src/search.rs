//! The search for a placement. A search takes its messages as given: where a placement makes others, it is repeated with those of
//! its result, and every placement is judged by the messages that it would make itself.

use crate::by_host::hosts_of;
use crate::error::{JobError, Result};
use crate::mapping::Mapping;
use crate::question::{Effort, Question};
use crate::wire::WireOptions;
use hopbyte_fabric::wire::Loads;
use hopbyte_fabric::{Exchange, Fabric, Placement, Traffic};
use hopbyte_map::budget::{Stakes, weigh, within};
use hopbyte_map::{
    Baseline, Bound, Certificate, Evaluation, Options, Problem, Progress, Turn, Verdict, baseline,
    evaluate, map,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Most searches; each has its share of the effort.
const SEARCHES: u32 = 4;

/// Searches for the best placement; `progress` is called from any thread.
///
/// # Errors
/// The problem is infeasible: more ranks than slots, nodes without routes, options out of range.
pub fn search(
    question: &Question,
    effort: &Effort,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Mapping> {
    if question.following.is_some() {
        return following(question, effort, progress);
    }
    let (placement, certificate) = map(&question.problem(), &Options::from(effort), progress)?;
    Ok(Mapping::new(placement, certificate))
}

/// The traffic that a placement makes.
struct Own {
    exchange: Exchange,
    loads: Loads,
    turns: Vec<Turn>,
    notes: Vec<String>,
}

impl Own {
    fn of(traffic: Traffic, wire: &WireOptions, fabric: &Fabric) -> Result<Self> {
        let exchange = traffic.total();
        Ok(Self {
            loads: wire.loads(fabric, &exchange)?,
            turns: wire.turns(fabric, &traffic)?,
            exchange,
            notes: traffic.notes,
        })
    }

    fn problem<'a>(&'a self, question: &'a Question) -> Problem<'a> {
        Problem {
            exchange: &self.exchange,
            loads: self.loads.exchange.as_ref(),
            turns: &self.turns,
            ..question.problem()
        }
    }
}

impl Question {
    fn own(&self, placement: &Placement) -> Result<Option<Own>> {
        let Some(following) = &self.following else {
            return Ok(None);
        };
        let fabric = &self.machine.fabric;
        let traffic = following.traffic(fabric, placement)?;
        Own::of(traffic, &following.wire, fabric).map(Some)
    }

    /// Cost of a placement, with the messages that it makes.
    ///
    /// # Errors
    /// The placement does not fit, or nodes without a route.
    pub fn evaluate(&self, placement: &Placement) -> Result<Evaluation> {
        let own = self.own(placement)?;
        let problem = own.as_ref().map(|own| own.problem(self));
        Ok(evaluate(
            &problem.unwrap_or_else(|| self.problem()),
            placement,
        )?)
    }

    /// The same question with the traffic of a placement in place of the recorded one.
    ///
    /// # Errors
    /// More messages than an expansion may have.
    pub fn settle(&mut self, placement: &Placement) -> Result<()> {
        if let Some(own) = self.own(placement)? {
            self.exchange = Arc::new(own.exchange);
            self.loads = own.loads;
            self.turns = own.turns;
            self.traffic_notes = own.notes;
        }
        Ok(())
    }

    /// What the verdict rests on where the traffic depends on the placement.
    pub fn following_note(&self) -> Option<String> {
        self.following.is_some().then(|| {
            format!(
                "collectives of this record go inside hosts and between them: every placement is judged by the messages that \
                 it would make, in {SEARCHES} searches at most, of orders of hosts and with the messages of the best and of \
                 results; bounds hold for the other messages alone"
            )
        })
    }
}

/// A placement with its cost, both by its own messages.
type Judged = (Placement, Evaluation);

/// A search with traffic that follows from the placement.
struct Search<'a> {
    question: &'a Question,
    effort: &'a Effort,
    usual: Vec<(Baseline, Judged)>,
    reference: usize,
}

/// Searches with the traffic of one placement after the other.
///
/// # Errors
/// As for [`search`].
fn following(
    question: &Question,
    effort: &Effort,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Mapping> {
    let begin = Instant::now();
    let mut usual = Vec::new();
    for which in Baseline::ALL {
        let problem = question.problem();
        if let Some(placement) = baseline(&problem, which, effort.seed)? {
            let cost = question.evaluate(&placement)?;
            usual.push((which, (placement, cost)));
        }
    }
    let current = usual.iter().position(|u| u.0 == Baseline::Current);
    let search = Search {
        question,
        effort,
        reference: current.unwrap_or(0),
        usual,
    };
    search.whole(begin, progress)
}

impl Search<'_> {
    fn is_better(&self, found: &Evaluation, than: &Evaluation) -> bool {
        let objective = &self.question.problem().objective;
        let limits = &self.usual[self.reference].1.1;
        found.keeps_limits(limits, objective) && found.better_than(than, objective)
    }

    /// The best of the usual placements.
    fn best_usual(&self) -> usize {
        let mut best = self.reference;
        for (i, (_, (_, cost))) in self.usual.iter().enumerate() {
            if self.is_better(cost, &self.usual[best].1.1) {
                best = i;
            }
        }
        best
    }

    /// All searches, and the best placement of them and the usual ones.
    fn searches(&self, progress: &(dyn Fn(Progress) + Sync)) -> Result<(Judged, Vec<Certificate>)> {
        let begin = Instant::now();
        let fabric = &self.question.machine.fabric;
        let mut best = self.usual[self.best_usual()].1.clone();
        let mut next = vec![self.usual[self.reference].1.clone(), best.clone()];
        let mut searched: BTreeSet<Vec<u32>> = BTreeSet::new();
        let mut certificates: Vec<Certificate> = Vec::new();
        // Hosts with the same ranks make the same messages: an order of hosts is judged by its own ones.
        let mut keeps_hosts = !self.question.keep_hosts;
        while let Some((from, _)) = match keeps_hosts {
            true => Some(self.usual[0].1.clone()),
            false => next.pop(),
        } {
            let late = begin.elapsed().as_secs_f64() > self.effort.seconds;
            let late = late && self.effort.trials.is_none();
            let enough = certificates.len() as u32 == SEARCHES;
            if enough || (!certificates.is_empty() && (late || self.effort.is_stopped())) {
                break;
            }
            if !keeps_hosts && !searched.insert(hosts_of(fabric, &from)) {
                continue;
            }
            let done = f64::from(certificates.len() as u32);
            let share = |p: Progress| {
                progress(Progress {
                    done: (done + p.done) / f64::from(SEARCHES),
                    ..p
                });
            };
            let (placement, certificate) = self.once(&from, keeps_hosts, &share)?;
            certificates.push(certificate);
            let cost = self.question.evaluate(&placement)?;
            let better = self.is_better(&cost, &best.1);
            if better {
                best = (placement.clone(), cost.clone());
            }
            if better || !keeps_hosts {
                next.push((placement, cost));
            }
            keeps_hosts = false;
        }
        Ok((best, certificates))
    }

    fn whole(&self, begin: Instant, progress: &(dyn Fn(Progress) + Sync)) -> Result<Mapping> {
        let (which, start) = &self.usual[self.best_usual()];
        let (best, certificates) = self.searches(progress)?;
        let Some(last) = certificates.last().cloned() else {
            return Err(JobError::refused("no search was begun"));
        };
        let certificate = Certificate {
            baseline: self.usual[0].1.1.clone(),
            best_baseline: (*which, start.1.clone()),
            current: (self.usual.iter())
                .find(|u| u.0 == Baseline::Current)
                .map(|u| u.1.1.clone()),
            result: best.1,
            divided: None,
            bound: self.bound()?,
            verdict: match best.0 == start.0 {
                true => Verdict::NoImprovement,
                false => Verdict::Improved,
            },
            moved_tasks: best.0.moved(&self.usual[self.reference].1.0),
            trials: certificates.iter().map(|c| c.trials).sum(),
            optimal: false,
            interrupted: self.effort.is_stopped(),
            wall_seconds: begin.elapsed().as_secs_f64(),
            cpu_seconds: certificates.iter().map(|c| c.cpu_seconds).sum(),
            ..last
        };
        Ok(Mapping::new(best.0, certificate))
    }

    /// A search with the traffic of a placement, from it, or among orders of hosts.
    fn once(
        &self,
        from: &Placement,
        keeps_hosts: bool,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<(Placement, Certificate)> {
        let own = self.question.own(from)?;
        let own = own.ok_or_else(|| JobError::refused("traffic of no record"))?;
        let problem = own.problem(self.question);
        let problem = Problem {
            current: Some(from).filter(|_| !keeps_hosts),
            keep_hosts: problem.keep_hosts || keeps_hosts,
            ..problem
        };
        let options = Options {
            seconds: self.effort.seconds / f64::from(SEARCHES),
            trials: self.effort.trials.map(|n| n.div_ceil(SEARCHES.into())),
            ..Options::from(self.effort)
        };
        Ok(map(&problem, &options, progress)?)
    }

    /// A bound by the messages that every placement makes.
    fn bound(&self) -> Result<Bound> {
        let Some(following) = &self.question.following else {
            return Ok(Bound::default());
        };
        let mut others = following.record.others()?;
        others.in_turn &= !following.overlap;
        let fabric = &self.question.machine.fabric;
        let least = Own::of(others, &WireOptions::payload(), fabric)?;
        if least.exchange.pairs() == 0 {
            return Ok(Bound::default());
        }
        let problem = Problem {
            current: None,
            ..least.problem(self.question)
        };
        let options = Options {
            trials: Some(0),
            ..Options::from(self.effort)
        };
        Ok(Bound {
            // A mean over the bytes of other messages.
            average_dilation: 0.0,
            ..map(&problem, &options, &|_| {})?.1.bound
        })
    }
}

/// A migration's placement within its budget, by the messages that it makes itself.
///
/// # Errors
/// Nodes without a route.
fn within_budget(
    question: &Question,
    (target, certificate): Searched<'_>,
    stakes: &Stakes,
    effort: &Effort,
) -> Result<Option<Judged>> {
    let (Some(own), Some(current), Some(now)) = (
        question.own(target)?,
        &question.current,
        &certificate.current,
    ) else {
        return Ok(None);
    };
    let budget = stakes.budget.filter(|&b| b < target.moved(current));
    let Some(budget) = budget.filter(|_| !question.keep_hosts) else {
        return Ok(None);
    };
    let problem = own.problem(question);
    let (placement, _) = within(&problem, current, target, budget, effort.stop)?;
    let cost = question.evaluate(&placement)?;
    let objective = &problem.objective;
    let better = cost.keeps_limits(now, objective) && cost.better_than(now, objective);
    Ok(Some(match better {
        true => (placement, cost),
        false => (current.clone(), now.clone()),
    }))
}

/// A placement with its certificate.
type Searched<'a> = (&'a Placement, &'a Certificate);

impl Mapping {
    /// Weighs a migration of a running job. The effort's flag ends the search for a migration within a budget.
    ///
    /// # Errors
    /// Stakes out of range.
    pub fn weighed(self, question: &Question, stakes: &Stakes, effort: &Effort) -> Result<Self> {
        let (mut placement, mut certificate) = (self.placement, self.certificate);
        let mut weighed = *stakes;
        let target = (&placement, &certificate);
        let mut wanted = None;
        if let Some(found) = within_budget(question, target, stakes, effort)? {
            wanted = question.current.as_ref().map(|c| placement.moved(c));
            (placement, certificate.result) = found;
            weighed.budget = None;
        }
        let searched = (placement, certificate);
        let (placement, certificate, mut migration) =
            weigh(&question.problem(), searched, &weighed, effort.stop)?;
        if let Some(wanted) = wanted {
            (migration.budget, migration.wanted_tasks) = (stakes.budget, wanted);
        }
        Ok(Self {
            migration: Some(migration),
            seeds: self.seeds,
            ..Self::new(placement, certificate)
        })
    }
}
