//! Links that fail, slow down or err, tick after tick: from when to when, the jobs that crossed them, and what each of these
//! lost.
//!
//! A job's loss is the difference between the bytes that its nodes would have sent at their mean rate of the ticks before the
//! fault and those that they sent while it lasted. It is no proof: a job that computes in the meantime loses as much.

use crate::attribution::Attribution;
use hopbyte_fabric::{Fabric, LinkId, LinkState};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Ticks before a fault that give the rates of jobs.
const BEFORE: usize = 10;
/// Seconds without an error after which a link no longer errs.
const QUIET_SECONDS: f64 = 10.0;
/// Share of the usual traffic of all links below which the network stands still.
const STILL: f64 = 0.02;
/// Faults that are kept after their end.
const ENDED: usize = 200;
/// Share of its rate below which a link is slower than others.
pub(crate) const SLOWER: f64 = 0.95;

/// What is wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No lane is in service.
    Down,
    /// Fewer lanes are in service than the machine has.
    Lanes,
    /// Its ends agreed on a lower rate than the machine has.
    Slower,
    /// It counts errors, or drops packets.
    Errors,
}

/// What became of a fault in a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It began.
    Began,
    /// It ended.
    Ended,
    /// It lasts at the end of the ticks.
    Lasts,
}

/// Bytes that a job lost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// The job.
    pub job: String,
    /// Bytes per second that its nodes sent before.
    pub bytes_per_s_before: f64,
    /// Bytes that they sent less than at this rate so far.
    pub less_bytes: f64,
}

/// A fault of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// `hopbyte.fault/1`.
    pub schema: &'static str,
    /// The link.
    #[serde(skip)]
    pub id: LinkId,
    /// Its name.
    pub link: String,
    /// Its kind.
    pub fault: Kind,
    /// What happened.
    pub change: Change,
    /// Time of the first tick with it, in Unix seconds.
    pub from_seconds: f64,
    /// Time of the first tick without it; `None` while it lasts.
    pub to_seconds: Option<f64>,
    /// Share of its lanes or of its capacity that was left at least; 0 if it is down. `None` for errors.
    pub left_ratio: Option<f64>,
    /// Errors while it lasted.
    pub errors: f64,
    /// Seconds of it in which the whole network stood still, as it does when it is quiesced to be routed anew.
    pub still_seconds: f64,
    /// Jobs with bytes on the link before or at its beginning, the largest loss first.
    pub jobs: Vec<Loss>,
}

/// The faults of a machine's links over time.
#[derive(Default)]
pub struct Timeline {
    open: BTreeMap<(LinkId, Kind), Open>,
    /// Bytes by job, and seconds, of the last ticks.
    sent: VecDeque<(f64, BTreeMap<String, f64>)>,
    last: Option<Arc<Attribution>>,
    /// Seconds, and bytes of all links between routers, of the last ticks in which the network did not stand still.
    carried: VecDeque<(f64, f64)>,
    /// Time up to which bytes by job are known.
    charged: Option<f64>,
    /// The last ones that ended, the newest last.
    ended: VecDeque<Fault>,
}

/// Bytes that each job sent in an interval.
struct Bill {
    seconds: f64,
    sent: BTreeMap<String, f64>,
    by_job: Arc<Attribution>,
}

impl Bill {
    /// Bytes that a job sent less than at a rate. A job that has ended loses nothing more.
    fn less(&self, job: &str, bytes_per_s: f64) -> f64 {
        let sent = self.sent.get(job);
        sent.map_or(0.0, |sent| bytes_per_s * self.seconds - sent)
    }
}

struct Open {
    fault: Fault,
    /// Time of the last tick with it.
    seen: f64,
}

impl Timeline {
    /// Takes the state of a time with the bytes by job, if they are known; returns the faults that began or ended.
    pub fn take(
        &mut self,
        fabric: &Fabric,
        state: &LinkState,
        at: f64,
        by_job: Option<Arc<Attribution>>,
    ) -> Vec<Fault> {
        let bill = by_job.map(|all| self.bill(at, all));
        if let Some(bill) = &bill {
            self.lose(bill);
        }
        let mut changes = Vec::new();
        let agreed = state.agreed_shares(fabric);
        for link in fabric.link_ids() {
            let now = (at, agreed.get(link), bill.as_ref());
            self.look(fabric, state, link, now, &mut changes);
        }
        let still = self.standstill(fabric, state);
        for open in self.open.values_mut() {
            open.fault.still_seconds += still;
        }
        if let Some(bill) = bill {
            self.keep(bill);
        }
        let ended = changes.iter().filter(|f| f.change == Change::Ended);
        self.ended.extend(ended.cloned());
        let many = self.ended.len().saturating_sub(ENDED);
        self.ended.drain(..many);
        changes
    }

    /// Seconds of a tick if the network stands still in it, else 0.
    fn standstill(&mut self, fabric: &Fabric, state: &LinkState) -> f64 {
        let hops = fabric.link_ids().filter(|&l| fabric.is_hop(l));
        let known = hops.filter_map(|l| state.received_bytes.get(l));
        let bytes = known.reduce(|sum, more| sum + more);
        let Some((seconds, bytes)) = state.window_seconds.zip(bytes) else {
            return 0.0;
        };
        let sum = |of: fn(&(f64, f64)) -> f64| self.carried.iter().map(of).sum::<f64>();
        let usual = seconds * sum(|c| c.1) / sum(|c| c.0);
        if self.carried.len() >= BEFORE && bytes < STILL * usual {
            return seconds;
        }
        self.carried.push_back((seconds, bytes));
        let many = self.carried.len().saturating_sub(BEFORE);
        self.carried.drain(..many);
        0.0
    }

    /// Takes the bytes by job up to a time, of one or several states that were taken without.
    pub fn charge(&mut self, at: f64, by_job: Arc<Attribution>) {
        let bill = self.bill(at, by_job);
        self.lose(&bill);
        self.keep(bill);
    }

    /// The bytes by job since the last ones.
    fn bill(&mut self, at: f64, by_job: Arc<Attribution>) -> Bill {
        let before = self.charged.replace(at);
        let sent = by_job.sent().map(|(job, bytes)| (job.to_owned(), bytes));
        Bill {
            seconds: before.map_or(0.0, |before| (at - before).max(0.0)),
            sent: sent.collect(),
            by_job,
        }
    }

    fn keep(&mut self, bill: Bill) {
        if bill.seconds > 0.0 {
            self.sent.push_back((bill.seconds, bill.sent));
            let many = self.sent.len().saturating_sub(BEFORE);
            self.sent.drain(..many);
        }
        self.last = Some(bill.by_job);
    }

    /// Faults that ended, the newest last; the oldest of them are no longer kept.
    pub fn ended(&self) -> impl DoubleEndedIterator<Item = &Fault> + ExactSizeIterator {
        self.ended.iter()
    }

    /// Faults that last, the oldest first.
    pub fn lasting(&self) -> Vec<Fault> {
        let lasts = |open: &Open| Fault {
            change: Change::Lasts,
            ..open.fault.clone()
        };
        let mut all: Vec<Fault> = self.open.values().map(lasts).collect();
        all.iter_mut().for_each(sort);
        all.sort_by(|a, b| a.from_seconds.total_cmp(&b.from_seconds));
        all
    }

    fn lose(&mut self, bill: &Bill) {
        for open in self.open.values_mut() {
            for loss in &mut open.fault.jobs {
                loss.less_bytes += bill.less(&loss.job, loss.bytes_per_s_before);
            }
        }
    }

    fn look(
        &mut self,
        fabric: &Fabric,
        state: &LinkState,
        link: LinkId,
        (at, rate, bill): (f64, Option<f64>, Option<&Bill>),
        changes: &mut Vec<Fault>,
    ) {
        let full = fabric.link(link);
        let lanes = state.lanes.get(link).filter(|_| full.is_up());
        let rate = rate.filter(|_| full.is_up());
        let left = lanes.map(|lanes| lanes / f64::from(full.lanes_in_service));
        let in_service = left.or(rate.filter(|&r| r <= 0.0));
        let is_down = in_service.is_some_and(|l| l <= 0.0);
        let has_fewer = !is_down && left.is_some_and(|l| l < 1.0);
        let errors = state.damaged(link);
        for (kind, left, is_read, is_now) in [
            (
                Kind::Down,
                in_service,
                left.is_some() || rate.is_some(),
                is_down,
            ),
            (Kind::Lanes, left, left.is_some(), has_fewer),
            (
                Kind::Slower,
                rate,
                rate.is_some(),
                !is_down && !has_fewer && rate.is_some_and(|r| r < SLOWER),
            ),
            (
                Kind::Errors,
                None,
                errors.is_some() || is_down,
                errors.is_some_and(|e| e > 0.0),
            ),
        ] {
            let key = (link, kind);
            if is_now {
                if !self.open.contains_key(&key) {
                    let fault = self.begin(fabric, key, (at, bill), left);
                    changes.push(fault.clone());
                    self.open.insert(key, Open { fault, seen: at });
                }
                let Some(open) = self.open.get_mut(&key) else {
                    continue;
                };
                open.seen = at;
                open.fault.errors += errors.unwrap_or(0.0);
                open.fault.left_ratio = match (open.fault.left_ratio, left) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                continue;
            }
            let quiet = kind != Kind::Errors
                || (self.open.get(&key)).is_some_and(|open| at - open.seen >= QUIET_SECONDS);
            // A link that was not read may still have it.
            if is_read
                && quiet
                && let Some(Open { mut fault, .. }) = self.open.remove(&key)
            {
                (fault.change, fault.to_seconds) = (Change::Ended, Some(at));
                sort(&mut fault);
                changes.push(fault);
            }
        }
    }

    fn begin(
        &self,
        fabric: &Fabric,
        (link, kind): (LinkId, Kind),
        (at, bill): (f64, Option<&Bill>),
        left_ratio: Option<f64>,
    ) -> Fault {
        let rate = |job: &str| {
            let ticks = self.sent.iter();
            let known = ticks.filter_map(|(seconds, sent)| Some((sent.get(job)?, seconds)));
            let (bytes, seconds) = known.fold((0.0_f64, 0.0_f64), |sum, more| {
                (sum.0 + more.0, sum.1 + more.1)
            });
            (seconds > 0.0).then(|| bytes / seconds)
        };
        // Traffic may already take another way in the first tick of a fault.
        let known = [self.last.as_ref(), bill.map(|b| &b.by_job)]
            .into_iter()
            .flatten();
        let crossing = known.flat_map(|all| all.link(link, None).jobs);
        let jobs: BTreeMap<String, f64> = crossing
            .filter(|job| job.bytes > 0.0)
            .filter_map(|job| Some((rate(&job.job)?, job.job)))
            .map(|(rate, job)| (job, rate))
            .collect();
        Fault {
            schema: "hopbyte.fault/1",
            id: link,
            link: fabric.link_name(link),
            fault: kind,
            change: Change::Began,
            from_seconds: at,
            to_seconds: None,
            left_ratio,
            errors: 0.0,
            still_seconds: 0.0,
            jobs: jobs
                .into_iter()
                .map(|(job, bytes_per_s_before)| Loss {
                    less_bytes: bill.map_or(0.0, |b| b.less(&job, bytes_per_s_before)),
                    job,
                    bytes_per_s_before,
                })
                .collect(),
        }
    }
}

/// Sorts the losses of a fault; a job that sent more lost nothing.
fn sort(fault: &mut Fault) {
    for loss in &mut fault.jobs {
        loss.less_bytes = loss.less_bytes.max(0.0);
    }
    fault.jobs.sort_by(|a, b| {
        b.less_bytes
            .total_cmp(&a.less_bytes)
            .then(a.job.cmp(&b.job))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::Recorded;
    use hopbyte_fabric::{End, Increase, Quantity, Routing, Side, spec};
    use hopbyte_observe::counters::{Then, jobs};
    use hopbyte_observe::text::{Limits, Text};

    /// Job a sends 100 B/s over the link between two routers until a lane fails, then half; with the link down nothing;
    /// then the link has half of its lanes. Job b is elsewhere.
    #[test]
    fn a_failed_link_names_the_jobs_that_crossed_it_and_their_loss() {
        let fabric = spec::fabric("gemini:4x4x24").unwrap();
        let routing = Routing::default_for(&fabric);
        let ends = |link: LinkId| {
            let node = |end| match end {
                End::Router(router) => fabric.nodes_on(router)[0],
                _ => panic!(),
            };
            let link = fabric.link(link);
            [node(link.from), node(link.to)]
        };
        let mut hops = fabric.link_ids().filter(|&l| fabric.is_hop(l));
        let link = hops.next().unwrap();
        let other = hops.last().unwrap();
        let mut list = "job,node\n".to_owned();
        for (job, link) in [("a", link), ("b", other)] {
            for node in ends(link) {
                list += &format!("{job},{}\n", fabric.node(node).name);
            }
        }
        let text = Text::from_bytes("jobs", list.as_bytes(), Limits::TEXT).unwrap();
        let jobs = jobs(&text, &fabric, Then::Now(0.0)).unwrap();
        let mut timeline = Timeline::default();
        let mut take = |at: f64, lanes: f64, bytes: f64, errors: f64| {
            let mut tick = Increase::new(&fabric, "t");
            tick.time_seconds = Some(at);
            tick.window_seconds = Some(1.0);
            let mut put = |link: LinkId, bytes: f64| {
                tick.set_window(Side::Arrivals, link, 1.0);
                tick.set(Quantity::ReceivedBytes, link, bytes);
            };
            fabric.link_ids().for_each(|l| put(l, 0.0));
            for (of, bytes) in [(link, bytes), (other, 70.0)] {
                let [from, to] = ends(of);
                for l in [fabric.node(from).inject, of, fabric.node(to).eject] {
                    put(l, bytes);
                }
            }
            tick.set(Quantity::Lanes, link, lanes);
            tick.set(Quantity::Errors, link, errors);
            let state = LinkState::of_increase(&fabric, &tick);
            let all = Attribution::of(&fabric, &routing, &state, &jobs, Recorded::default());
            timeline.take(&fabric, &state, at, Some(Arc::new(all)))
        };
        let full = f64::from(fabric.link(link).lanes_in_service);
        for at in 0..5 {
            assert_eq!(take(f64::from(at), full, 100.0, 0.0), []);
        }
        let began = take(5.0, 0.0, 0.0, 0.0);
        assert_eq!(
            (began.len(), began[0].fault, began[0].change),
            (1, Kind::Down, Change::Began)
        );
        assert_eq!(take(6.0, 0.0, 40.0, 0.0), []);
        // Re-initialised with half of the lanes, and errors.
        let changes = take(7.0, full / 2.0, 100.0, 3.0);
        let kinds: Vec<_> = changes.iter().map(|c| (c.fault, c.change)).collect();
        assert_eq!(
            kinds,
            [
                (Kind::Down, Change::Ended),
                (Kind::Lanes, Change::Began),
                (Kind::Errors, Change::Began)
            ]
        );
        let down = &changes[0];
        assert_eq!((down.from_seconds, down.to_seconds), (5.0, Some(7.0)));
        assert_eq!(down.left_ratio, Some(0.0));
        assert_eq!(down.jobs.len(), 1);
        let loss = &down.jobs[0];
        assert_eq!(loss.job, "a");
        assert!((loss.bytes_per_s_before - 100.0).abs() < 1e-6);
        // 100 in its first tick, 60 in the second; that in which it ended is at the old rate again.
        assert!(
            (loss.less_bytes - 160.0).abs() < 1e-6,
            "{}",
            loss.less_bytes
        );
        assert_eq!(take(8.0, full / 2.0, 100.0, 0.0), []);
        let changes = take(18.0, full / 2.0, 1000.0, 0.0);
        assert_eq!((changes[0].fault, changes[0].errors), (Kind::Errors, 3.0));
        let lasting = timeline.lasting();
        assert_eq!((lasting.len(), lasting[0].fault), (1, Kind::Lanes));
        assert_eq!(lasting[0].left_ratio, Some(0.5));
    }

    /// Two ticks of a fault without traffic anywhere, after ten with; the idle ones before it do not count.
    #[test]
    fn a_network_that_stands_still_is_told_of_its_fault() {
        let fabric = spec::fabric("gemini:4x4x24").unwrap();
        let link = fabric.link_ids().find(|&l| fabric.is_hop(l)).unwrap();
        let full = f64::from(fabric.link(link).lanes_in_service);
        let mut timeline = Timeline::default();
        let mut take = |at: usize, lanes: f64, bytes: f64| {
            let mut state = LinkState::unknown(&fabric);
            state.window_seconds = Some(0.5);
            let hops = fabric.link_ids().filter(|&l| fabric.is_hop(l));
            hops.for_each(|l| state.received_bytes.set(l, Some(bytes)));
            state.lanes.set(link, Some(lanes));
            timeline.take(&fabric, &state, at as f64, None)
        };
        for at in 0..2 * BEFORE {
            take(at, full, if at < BEFORE { 0.0 } else { 100.0 });
        }
        for (at, bytes) in [100.0, 1.0, 0.0, 90.0].into_iter().enumerate() {
            take(2 * BEFORE + at, 0.0, bytes);
        }
        let ended = take(3 * BEFORE, full, 100.0);
        assert_eq!(
            (ended[0].change, ended[0].still_seconds),
            (Change::Ended, 1.0)
        );
    }
}
