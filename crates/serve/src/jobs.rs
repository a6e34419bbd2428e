//! Jobs beside the readings: their bytes on every link, attributed on a thread of its own.

use hopbyte_fabric::{Fabric, Increase, LinkId, LinkState};
use hopbyte_job::attribution::{Attribution, ByJob, Recorded};
use hopbyte_job::{JobError, JobList, Jobs, Machine, told};
use hopbyte_observe::{Stamp, Then, unix};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Pause between attributions: at least this long, and this many times the duration of the last one.
const PAUSE: (Duration, u32) = (Duration::from_secs(1), 20);
/// Links that are listed of a job.
const MOST_LINKS: usize = 300;

/// A list of jobs and the readings that are not attributed yet.
pub struct Attributor {
    list: JobList,
    /// Traffic of jobs, `JOB=RECORD`.
    recorded: Vec<String>,
    pending: Mutex<Option<Reading>>,
    news: Condvar,
}

/// Bytes of the links, and the time up to which they are counted.
#[derive(Clone)]
struct Reading {
    state: LinkState,
    time_seconds: f64,
}

/// The list of jobs, read again when it changes.
struct JobFile<'a> {
    source: &'a Attributor,
    stamp: Option<Stamp>,
    jobs: Jobs,
    recorded: Recorded,
    failure: String,
}

impl Attributor {
    /// Jobs of a list, with the recorded traffic of some (`JOB=RECORD`).
    ///
    /// # Errors
    /// The list or a record of a listed job cannot be read.
    pub fn open(list: JobList, recorded: Vec<String>, fabric: &Fabric) -> Result<Self, JobError> {
        let attributor = Self {
            list,
            recorded,
            pending: Mutex::default(),
            news: Condvar::new(),
        };
        attributor.read(fabric, Then::Live(unix(SystemTime::now())))?;
        Ok(attributor)
    }

    /// The jobs of a time.
    fn read(&self, fabric: &Fabric, then: Then) -> Result<(Jobs, Recorded), JobError> {
        let jobs = self.list.read(fabric, then)?;
        let recorded = Recorded::of_listed(&self.recorded, &jobs, fabric)?;
        Ok((jobs, recorded))
    }

    /// The jobs on the links of a past reading.
    ///
    /// # Errors
    /// The list has no jobs of that time, or cannot be read.
    pub fn past(
        &self,
        machine: &Machine,
        state: &LinkState,
        time_seconds: f64,
    ) -> Result<Shown, JobError> {
        let (fabric, routing) = (&machine.fabric, &machine.routing);
        let (jobs, recorded) = self.read(fabric, Then::Past(time_seconds))?;
        let all = Attribution::of(fabric, routing, state, &jobs, recorded);
        Ok(Shown::new(fabric, state, &jobs, Arc::new(all)))
    }

    /// Bytes by job of a tick, of the jobs that run then; `None` if the list cannot be read, which `talk` hears of.
    pub fn now(
        &self,
        machine: &Machine,
        tick: &Increase,
        mut talk: impl FnMut(String),
    ) -> Option<Attribution> {
        let (fabric, routing) = (&machine.fabric, &machine.routing);
        let state = LinkState::of_increase(fabric, tick);
        let read = self.read(fabric, Then::Live(tick.time_seconds.unwrap_or(0.0)));
        let (jobs, recorded) = read.map_err(|error| talk(told(&error))).ok()?;
        Some(Attribution::of(fabric, routing, &state, &jobs, recorded))
    }

    fn pending(&self) -> MutexGuard<'_, Option<Reading>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the bytes of a reading to those that wait.
    pub fn take(&self, state: &LinkState, time_seconds: f64) {
        match &mut *self.pending() {
            Some(reading) => {
                reading.time_seconds = time_seconds;
                let sum = &mut reading.state;
                for link in (0..state.coverage.len()).map(LinkId::of) {
                    let (more, before) = (&state.received_bytes, &mut sum.received_bytes);
                    if let Some(more) = more.get(link) {
                        before.set(link, Some(before.get(link).unwrap_or(0.0) + more));
                    }
                }
            }
            none => {
                *none = Some(Reading {
                    state: state.clone(),
                    time_seconds,
                });
            }
        }
        self.news.notify_all();
    }

    /// Attributes readings to jobs, without end. The list is read again when it changes; while it cannot be read the one
    /// before is used, which `talk` hears of. Takes at most a twentieth of a thread's time.
    pub fn run(
        &self,
        machine: &Machine,
        talk: &dyn Fn(&str),
        mut each: impl FnMut(&LinkState, f64, &Jobs, Attribution),
    ) {
        let mut file = JobFile {
            source: self,
            stamp: None,
            jobs: Jobs::default(),
            recorded: Recorded::default(),
            failure: String::new(),
        };
        loop {
            let Reading {
                state,
                time_seconds,
            } = self.next();
            let start = Instant::now();
            file.look(&machine.fabric, time_seconds, talk);
            let (fabric, routing) = (&machine.fabric, &machine.routing);
            let recorded = file.recorded.clone();
            let all = Attribution::of(fabric, routing, &state, &file.jobs, recorded);
            each(&state, time_seconds, &file.jobs, all);
            std::thread::sleep(PAUSE.0.max(start.elapsed() * PAUSE.1));
        }
    }

    fn next(&self) -> Reading {
        let mut pending = self.pending();
        loop {
            if let Some(reading) = pending.take() {
                return reading;
            }
            pending = self
                .news
                .wait(pending)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl JobFile<'_> {
    fn look(&mut self, fabric: &Fabric, now: f64, talk: &dyn Fn(&str)) {
        let stamp = self.source.list.stamp();
        let is_known = stamp.is_some() && stamp == self.stamp;
        if is_known && !self.source.list.is_over_time() && !self.jobs.change {
            return;
        }
        match self.source.read(fabric, Then::Live(now)) {
            Ok((jobs, recorded)) => {
                if !is_known {
                    let notes = self.source.list.notes(&jobs);
                    notes.iter().for_each(|note| talk(note));
                }
                (self.jobs, self.recorded) = (jobs, recorded);
                self.stamp = stamp;
                self.failure.clear();
            }
            Err(error) => {
                let failure = told(&error);
                if self.failure != failure {
                    talk(&failure);
                    self.failure = failure;
                }
            }
        }
    }
}

/// The jobs on the links of a reading, for the live page.
pub struct Shown {
    attribution: Arc<Attribution>,
    state: LinkState,
    list: List,
}

/// All jobs, most bytes first.
#[derive(Serialize)]
struct List {
    jobs: Vec<Listed>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Listed {
    job: String,
    nodes: Vec<u32>,
    /// Bytes on all links between routers.
    bytes: f64,
    /// Links between routers with the share of their bytes, most bytes first.
    links: Vec<(u32, f64)>,
}

/// The jobs of a link.
#[derive(Serialize)]
pub struct OfLink {
    carried_bytes: Option<f64>,
    #[serde(flatten)]
    by_job: ByJob,
}

impl Shown {
    /// Lists the jobs of an attribution.
    pub fn new(
        fabric: &Fabric,
        state: &LinkState,
        jobs: &Jobs,
        attribution: Arc<Attribution>,
    ) -> Self {
        let begin = |(job, id): (usize, &String)| Listed {
            job: id.clone(),
            nodes: jobs.nodes_of(job).iter().map(|n| n.0).collect(),
            bytes: 0.0,
            links: Vec::new(),
        };
        let mut listed: Vec<Listed> = jobs.ids().iter().enumerate().map(begin).collect();
        // Link, bytes, share of the link's bytes.
        let mut links: Vec<Vec<(u32, f64, f64)>> = vec![Vec::new(); listed.len()];
        let positions = jobs.ids().iter().enumerate();
        let position: HashMap<&str, usize> = positions.map(|(i, id)| (id.as_str(), i)).collect();
        for link in fabric.link_ids().filter(|&l| fabric.is_hop(l)) {
            let carried = state.received_bytes.get(link);
            for job in attribution.link(link, carried).jobs {
                let Some(&at) = position.get(job.job.as_str()) else {
                    continue;
                };
                listed[at].bytes += job.bytes;
                let share = carried.map_or(f64::NAN, |c| job.bytes / c);
                links[at].push((link.0, job.bytes, share));
            }
        }
        for (of, mut links) in listed.iter_mut().zip(links) {
            links.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            links.truncate(MOST_LINKS);
            of.links = links
                .iter()
                .map(|&(link, _, share)| (link, share))
                .collect();
        }
        listed.sort_by(|a, b| b.bytes.total_cmp(&a.bytes).then(a.job.cmp(&b.job)));
        let list = List {
            jobs: listed,
            notes: attribution.notes(),
        };
        Self {
            attribution,
            state: state.clone(),
            list,
        }
    }

    /// All jobs, as the page reads them.
    pub fn list(&self) -> impl Serialize + '_ {
        &self.list
    }

    /// The jobs of a link.
    pub fn of_link(&self, link: LinkId) -> OfLink {
        let carried_bytes = self.state.received_bytes.get(link);
        OfLink {
            carried_bytes,
            by_job: self.attribution.link(link, carried_bytes),
        }
    }
}
