//! Metrics of every link for Prometheus: totals since the start with both ends of the link, and bytes by job.

use crate::faults::Faults;
use crate::jobs::Attributor;
use crate::source::Fresh;
use hopbyte_collect::export::openmetrics::head;
use hopbyte_fabric::{Column, Fabric, LinkId, LinkState};
use hopbyte_job::Machine;
use hopbyte_job::attribution::Attribution;
use hopbyte_observe::{Jobs, unix};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

type Family = (&'static str, &'static str, fn(&LinkState) -> &Column);

/// Quantities that are added up over all readings.
const TOTALS: [Family; 5] = [
    (
        "received_bytes",
        "Bytes received over the link since the oracle started",
        |s| &s.received_bytes,
    ),
    (
        "packets",
        "Packets received over the link since the oracle started",
        |s| &s.packets,
    ),
    (
        "errors",
        "Transmission errors of the link since the oracle started",
        |s| &s.errors,
    ),
    (
        "input_stall_seconds",
        "Seconds that arrivals waited in the input queue since the oracle started",
        |s| &s.input_stall_seconds,
    ),
    (
        "credit_stall_seconds",
        "Seconds that departures lacked credits since the oracle started",
        |s| &s.credit_stall_seconds,
    ),
];

/// Values of the last reading.
const LATEST: [Family; 5] = [
    (
        "used_ratio",
        "Received bytes over the link's capacity in the last window",
        |s| &s.used_ratio,
    ),
    (
        "input_stall_ratio",
        "Share of the last window that arrivals waited in the input queue",
        |s| &s.input_stall_ratio,
    ),
    (
        "credit_stall_ratio",
        "Share of the last window that departures lacked credits",
        |s| &s.credit_stall_ratio,
    ),
    (
        "queued_bytes",
        "Bytes queued for the link at the last reading",
        |s| &s.queued_bytes,
    ),
    ("lanes", "Lanes in service at the last reading", |s| {
        &s.lanes
    }),
];

/// Jobs of a link that are named in one attribution, and series by job in all; the rest is [`OTHER`].
const MOST_JOBS: usize = 8;
const MOST_SERIES: usize = 50_000;
const OTHER: &str = "(other jobs)";
/// Bytes that no job of the list explains.
const UNEXPLAINED: &str = "(unexplained)";
/// Time after which the series of a job that is no longer listed end.
const ENDED: Duration = Duration::from_secs(600);
/// Bytes of a sample without its labels, at most.
const SAMPLE_BYTES: usize = 80;
/// Series by job that may come between the question for room and the answer.
const MORE_BYTES: usize = 1 << 20;

/// Totals of every link since the start.
pub struct Ledger<'a> {
    machine: &'a Machine,
    /// Labels of every link, made at the first scrape.
    labels: OnceLock<Vec<String>>,
    jobs: Option<Attributor>,
    faults: Faults,
    kept: Mutex<Kept>,
}

struct Kept {
    since: f64,
    /// By family of [`TOTALS`] and link; not-a-number if never read.
    totals: Vec<Vec<f64>>,
    /// Time of the last reading; failures since.
    time_seconds: Option<f64>,
    failed: bool,
    by_job: ByJob,
}

/// Bytes by link and job.
#[derive(Default)]
struct ByJob {
    bytes: HashMap<(LinkId, String), f64>,
    listed: HashMap<String, Instant>,
}

impl<'a> Ledger<'a> {
    /// No readings yet; `jobs` is a list of jobs, for bytes by job.
    pub fn new(machine: &'a Machine, jobs: Option<Attributor>) -> Self {
        let links = machine.fabric.links().len();
        Self {
            machine,
            labels: OnceLock::new(),
            jobs,
            faults: Faults::default(),
            kept: Mutex::new(Kept {
                since: unix(SystemTime::now()),
                totals: vec![vec![f64::NAN; links]; TOTALS.len()],
                time_seconds: None,
                failed: false,
                by_job: ByJob::default(),
            }),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn labels(&self) -> &[String] {
        let fabric = &self.machine.fabric;
        let all = || fabric.link_ids().map(|link| labels(fabric, link)).collect();
        self.labels.get_or_init(all)
    }

    /// Adds a reading. Totals without a window, such as the first reading of a file, are no increase.
    pub fn take(&self, fresh: &Fresh) {
        let mut kept = self.kept();
        kept.time_seconds = fresh.time_seconds;
        kept.failed = false;
        if fresh.state.window_seconds.is_none() {
            return;
        }
        for ((_, _, column), totals) in TOTALS.iter().zip(&mut kept.totals) {
            add(totals, column(&fresh.state));
        }
        drop(kept);
        if let Some(jobs) = &self.jobs {
            let now = || unix(SystemTime::now());
            jobs.take(&fresh.state, fresh.time_seconds.unwrap_or_else(now));
        }
    }

    /// The source of readings failed.
    pub fn fail(&self) {
        self.kept().failed = true;
    }

    /// Attributes new bytes to jobs, without end; returns if there is no list of jobs.
    pub fn attribute(&self, talk: &dyn Fn(&str)) {
        if let Some(attributor) = &self.jobs {
            attributor.run(self.machine, talk, |state, _, jobs, all| {
                self.add_jobs(state, jobs, &all);
            });
        }
    }

    fn add_jobs(&self, state: &LinkState, jobs: &Jobs, all: &Attribution) {
        let fabric = &self.machine.fabric;
        let mut rows = Vec::new();
        for link in fabric.link_ids() {
            let Some(carried) = state.received_bytes.get(link) else {
                continue;
            };
            let of = all.link(link, Some(carried));
            let rest: f64 = of.jobs.iter().skip(MOST_JOBS).map(|j| j.bytes).sum();
            let named = of.jobs.into_iter().take(MOST_JOBS);
            rows.extend(named.map(|j| (link, j.job, j.bytes)));
            rows.push((link, OTHER.to_owned(), rest));
            let unexplained = of.unexplained_bytes.unwrap_or(0.0);
            rows.push((link, UNEXPLAINED.to_owned(), unexplained));
        }
        rows.retain(|row| row.2 > 0.0);
        let mut kept = self.kept();
        kept.by_job.list(jobs.ids());
        for (link, job, bytes) in rows {
            kept.by_job.add(link, job, bytes);
        }
    }

    /// Bytes in memory of [`Ledger::text`], and bytes to ask for, since jobs may come in between.
    pub fn needs(&self, state: Option<&LinkState>) -> (usize, usize) {
        let labels = self.labels();
        let longest = labels.iter().map(String::len).max().unwrap_or(0);
        let kept = self.kept();
        let known = |totals: &Vec<f64>| totals.iter().filter(|v| !v.is_nan()).count();
        let totals: usize = kept.totals.iter().map(known).sum();
        let latest = state.map_or(0, |s| LATEST.iter().map(|f| f.2(s).known()).sum());
        let samples = 2 * labels.len() + totals + latest + kept.by_job.bytes.len();
        let needs = samples * (longest + SAMPLE_BYTES);
        (needs, needs + needs / 4 + MORE_BYTES)
    }

    /// OpenMetrics text about a reading with its version, without its end.
    pub fn text(&self, state: Option<&LinkState>, version: u64) -> String {
        let fabric = &self.machine.fabric;
        let labels = self.labels();
        let mut out = String::with_capacity(self.needs(state).0);
        let mut family = |name: &str, counter: bool, help: &str, value: &dyn Fn(LinkId) -> f64| {
            let name = format!("hopbyte_link_{name}");
            let suffix = if counter { "_total" } else { "" };
            let mut begun = false;
            for (link, labels) in fabric.link_ids().zip(labels) {
                let value = value(link);
                if value.is_nan() {
                    continue;
                }
                if !std::mem::replace(&mut begun, true) {
                    head(&mut out, &name, !counter, help);
                }
                let _ = writeln!(out, "{name}{suffix}{{{labels}}} {value}");
            }
        };
        family(
            "capacity_bytes_per_second",
            false,
            "Bytes per second that the lanes in service carry",
            &|l| fabric.link(l).capacity().0,
        );
        let lanes = |l| state.and_then(|s| s.lanes.get(l));
        family("up", false, "Whether a lane is in service", &|l| {
            f64::from(u8::from(fabric.link(l).is_up() && lanes(l) != Some(0.0)))
        });
        for (name, help, column) in LATEST {
            let read = |l| state.and_then(|s| column(s).get(l)).unwrap_or(f64::NAN);
            family(name, false, help, &read);
        }
        let kept = self.kept();
        for ((name, help, _), totals) in TOTALS.iter().zip(&kept.totals) {
            family(name, true, help, &|l| totals[l.index()]);
        }
        kept.by_job.write(labels, &mut out);
        kept.about(&mut out);
        drop(kept);
        out.push_str(&self.faults.text(self.machine, state, version));
        out
    }
}

impl Kept {
    /// The oracle itself.
    fn about(&self, out: &mut String) {
        let mut gauge = |name: &str, help: &str, value: f64| {
            head(out, name, true, help);
            let _ = writeln!(out, "{name} {value}");
        };
        gauge(
            "hopbyte_oracle_start_time_seconds",
            "Start of the oracle, from which totals are counted",
            self.since,
        );
        gauge(
            "hopbyte_oracle_source_up",
            "Whether the last reading of the counters succeeded",
            f64::from(u8::from(!self.failed)),
        );
        if let Some(time) = self.time_seconds {
            let help = "Time of the last reading";
            gauge("hopbyte_oracle_reading_time_seconds", help, time);
        }
    }
}

impl ByJob {
    /// Takes the jobs that are listed now, and ends the series of those that have not been for long.
    fn list(&mut self, ids: &[String]) {
        let now = Instant::now();
        for id in ids {
            self.listed.insert(id.clone(), now);
        }
        self.listed.retain(|_, seen| now - *seen < ENDED);
        let listed = &self.listed;
        let stays = |job: &str| job == OTHER || job == UNEXPLAINED || listed.contains_key(job);
        self.bytes.retain(|(_, job), _| stays(job));
    }

    fn add(&mut self, link: LinkId, job: String, bytes: f64) {
        let is_new = !self.bytes.contains_key(&(link, job.clone()));
        let is_job = job != OTHER && job != UNEXPLAINED;
        let job = match is_new && is_job && self.bytes.len() >= MOST_SERIES {
            true => OTHER.to_owned(),
            false => job,
        };
        *self.bytes.entry((link, job)).or_default() += bytes;
    }

    fn write(&self, labels: &[String], out: &mut String) {
        if self.bytes.is_empty() {
            return;
        }
        let name = "hopbyte_link_job_bytes";
        let help = "Bytes of a job on the link, estimated from what its nodes sent and received and their routes";
        head(out, name, false, help);
        let mut rows: Vec<_> = self.bytes.iter().collect();
        rows.sort_unstable_by(|a, b| a.0.cmp(b.0));
        for ((link, job), bytes) in rows {
            let labels = &labels[link.index()];
            let _ = writeln!(
                out,
                "{name}_total{{{labels},job=\"{}\"}} {bytes}",
                escaped(job)
            );
        }
    }
}

/// Adds the known values of a column.
fn add(totals: &mut [f64], column: &Column) {
    for (total, &more) in totals.iter_mut().zip(column.as_slice()) {
        if !more.is_nan() {
            *total = if total.is_nan() { more } else { *total + more };
        }
    }
}

fn labels(fabric: &Fabric, id: LinkId) -> String {
    let link = fabric.link(id);
    format!(
        "link=\"{}\",from=\"{}\",to=\"{}\",kind=\"{}\"",
        escaped(&fabric.link_name(id)),
        escaped(&fabric.end_name(link.from)),
        escaped(&fabric.end_name(link.to)),
        escaped(&fabric.kind(id).name)
    )
}

/// A label's value with OpenMetrics' escapes.
pub(crate) fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}
