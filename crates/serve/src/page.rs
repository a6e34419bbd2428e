//! The live page: shows its source's readings as they come, and earlier ones. It is served on the loopback address
//! to browsers with the token.
//!
//! Its HTML is the same as that of the static page. A script polls for updates: fragments of the static
//! page that changed, and numbers for the tables.

use crate::error::{Result, ServeError};
use crate::http::{Answer, Needs, Request};
use crate::jobs::{Attributor, OfLink, Shown as ShownJobs};
use crate::past::{Moment, Past, Point, Series};
use crate::source::{Fresh, Sink, Source};
use hopbyte_fabric::{InputError, LinkId, printable};
use hopbyte_job::faults::{Fault, Timeline};
use hopbyte_job::{Machine, told};
use hopbyte_observe::{threads, unix};
use hopbyte_view::draw::Signs;
use hopbyte_view::report::section::{bars, legend};
use hopbyte_view::report::view::View;
use hopbyte_view::report::{ReportInput, data, page, readings, words};
use hopbyte_view::terminal::fault_words;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Interval of checks for the first reading.
const FIRST: Duration = Duration::from_millis(10);

/// Faults that are listed.
const MOST_FAULTS: usize = 100;

/// A live page with its readings.
pub struct Live {
    machine: Machine,
    title: String,
    command: String,
    /// The source of the readings.
    source: String,
    /// The folder of the store, of which past ticks can be read again.
    store: Option<PathBuf>,
    now: Mutex<Now>,
    jobs: Option<Attributor>,
    /// Faults of links, with what they cost the jobs if there is a list of jobs.
    faults: Mutex<Timeline>,
    /// The jobs of the past reading that was asked for last.
    past_jobs: Mutex<Option<(f64, Arc<ShownJobs>)>>,
}

/// The readings so far.
#[derive(Default)]
struct Now {
    /// Number of changes; 0 before the first reading.
    sequence: u64,
    /// Version of the latest reading.
    version: u64,
    past: Past,
    /// The error of the last reading.
    error: Option<String>,
    /// Jobs on the latest attributed reading, and the number of attributions.
    jobs: Option<Arc<ShownJobs>>,
    attributions: u64,
}

/// Updates for the page.
#[derive(Serialize)]
struct News {
    sequence: u64,
    unix_seconds: f64,
    lead: String,
    source: String,
    error: Option<String>,
    views: Vec<Shown>,
    signs: data::Symbols,
    /// Names of the quantities of `history`.
    names: Vec<String>,
    history: Vec<Point>,
    /// Earlier readings that are not kept.
    dropped: u64,
    /// Number of attributions of bytes to jobs so far, if there is a list of jobs.
    jobs: Option<u64>,
    /// Faults that last, then those that ended, the newest first; with `at` those of that time.
    faults: Vec<Listed>,
}

/// A fault of a link.
#[derive(Serialize)]
struct Listed {
    link: u32,
    from_seconds: f64,
    to_seconds: Option<f64>,
    words: String,
}

/// A link's readings and its jobs.
#[derive(Serialize)]
struct Selected {
    #[serde(flatten)]
    series: Series,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_job: Option<OfLink>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs_error: Option<String>,
}

/// A quantity at a time.
#[derive(Serialize)]
struct Shown {
    name: String,
    max: f64,
    values: String,
    numbered: Vec<u32>,
    picture: String,
    legend: String,
    bars: String,
}

impl Live {
    /// A page that follows a source on its own thread; returns after the first reading. `jobs` is a list of jobs.
    ///
    /// # Errors
    /// The source cannot be read, its first reading fails, or it ends without one.
    pub fn begin(
        machine: Machine,
        source: Source,
        title: String,
        command: String,
        jobs: Option<Attributor>,
    ) -> Result<Arc<Self>> {
        let live = Arc::new(Self {
            machine,
            title,
            command,
            source: source.words(),
            store: source.store().map(Path::to_owned),
            now: Mutex::default(),
            jobs,
            faults: Mutex::default(),
            past_jobs: Mutex::default(),
        });
        let attributing = live.clone();
        threads::start(move || attributing.attribute())?;
        let follower = live.clone();
        let mut thread = Some(threads::start(move || {
            let followed = source.follow(&follower.machine, &*follower, &|| {}, &|_| {});
            followed.inspect_err(|e| follower.fail(&told(e)))
        })?);
        loop {
            let ended = thread.take_if(|t| t.is_finished());
            if live.has_reading() {
                return Ok(live);
            }
            if let Some(ended) = ended {
                ended.join().unwrap_or(Ok(()))?;
                let expected = "two ticks that name a link of the machine";
                return Err(InputError::new(&live.source, "no reading", expected).into());
            }
            // A failed collector or store is tried again without end; the command is not.
            if let Some(error) = live.now().error.take_if(|_| thread.is_some()) {
                return Err(ServeError::Reading(error));
            }
            std::thread::sleep(FIRST);
        }
    }

    /// Keeps the jobs of the latest readings, without end; returns if there is no list of jobs.
    fn attribute(&self) {
        let Some(jobs) = &self.jobs else { return };
        let said = |text: &str| eprintln!("hopbyte: {}", printable(text));
        jobs.run(&self.machine, &said, |state, at, jobs, all| {
            let all = Arc::new(all);
            self.faults().charge(at, all.clone());
            let shown = ShownJobs::new(&self.machine.fabric, state, jobs, all);
            let mut now = self.now();
            now.jobs = Some(Arc::new(shown));
            now.attributions += 1;
            now.sequence += 1;
        });
    }

    fn faults(&self) -> MutexGuard<'_, Timeline> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Faults of now and before, or those of a time.
    fn listed_faults(&self, at: Option<f64>) -> Vec<Listed> {
        let faults = self.faults();
        let lasting = faults.lasting();
        let all = lasting.iter().chain(faults.ended().rev());
        let was = |f: &&Fault| {
            at.is_none_or(|at| f.from_seconds <= at && f.to_seconds.is_none_or(|to| to > at))
        };
        let listed = |fault: &Fault| Listed {
            link: fault.id.0,
            from_seconds: fault.from_seconds,
            to_seconds: fault.to_seconds,
            words: fault_words(fault),
        };
        all.filter(was).take(MOST_FAULTS).map(listed).collect()
    }

    fn has_reading(&self) -> bool {
        self.now().past.last().is_some()
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        // Readings are replaced as a whole, so a panic in another thread leaves a consistent state.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request of the browser.
    ///
    /// # Errors
    /// None: a page is as large as its machine, and there is one.
    pub fn answer(&self, request: &Request) -> Result<Answer, Needs> {
        Ok(match request.name.as_str() {
            "" => self.page(),
            "state" => self.news(request),
            "link" => self.link(request),
            "jobs" => self.listed(request),
            _ => Answer::words(404, "no such page"),
        })
    }

    fn page(&self) -> Answer {
        let now = self.now();
        let page = page::html(&self.input(now.past.last()), true);
        Answer {
            status: 200,
            kind: "text/html; charset=utf-8",
            body: page.into_bytes(),
        }
    }

    /// The latest reading if it is newer than `since`, or the one `at` a time.
    fn news(&self, request: &Request) -> Answer {
        let now = self.now();
        let since = request.value("since").and_then(|s| s.parse().ok());
        let at = request.value("at").and_then(|s| s.parse().ok());
        if at.is_none() && since == Some(now.sequence) {
            return Answer {
                status: 204,
                ..Answer::words(204, "")
            };
        }
        let moment = match at {
            Some(time) => now.past.at(time),
            None => now.past.last(),
        };
        let input = self.input(moment);
        let shown = View::all(&input).into_iter().map(|view| {
            let scale = now.past.scale(view.name).unwrap_or(view.scale);
            let view = view.at_scale(scale);
            Shown {
                name: view.name.into(),
                max: view.scale.max,
                values: data::floats(view.before),
                numbered: data::numbered(view.before),
                picture: view
                    .picture(&input, view.before, &[], view.size(&input))
                    .body,
                legend: legend(&view, &input.signs),
                bars: bars(&input, &view),
            }
        });
        let names: Vec<String> = input.readings.iter().map(|l| l.name.clone()).collect();
        json(&News {
            sequence: now.sequence,
            unix_seconds: moment.map_or(0.0, |m| m.unix_seconds),
            lead: words::lead(&input),
            source: input.readings_source.clone(),
            error: now.error.clone(),
            views: shown.collect(),
            signs: data::Symbols::of(&input.signs),
            history: now.past.points(&names),
            names,
            dropped: now.past.dropped,
            jobs: self.jobs.as_ref().map(|_| now.attributions),
            faults: self.listed_faults(at),
        })
    }

    /// The readings of one link, and the jobs on it at the latest.
    fn link(&self, request: &Request) -> Answer {
        let link = request.value("id").and_then(|l| l.parse().ok());
        let known = |&l: &u32| (l as usize) < self.machine.fabric.links().len();
        let Some(link) = link.filter(known).map(LinkId) else {
            return Answer::words(404, "no such link");
        };
        let series = self.now().past.of_link(link);
        let (by_job, jobs_error) = match self.jobs_at(request) {
            Ok(jobs) => (jobs.map(|jobs| jobs.of_link(link)), None),
            Err(error) => (None, Some(error.to_string())),
        };
        json(&Selected {
            series,
            by_job,
            jobs_error,
        })
    }

    /// All jobs with their nodes and links.
    fn listed(&self, request: &Request) -> Answer {
        match self.jobs_at(request) {
            Ok(Some(jobs)) => json(&jobs.list()),
            Ok(None) => Answer::words(404, "no list of jobs, or no reading yet"),
            Err(error) => Answer::words(404, &error.to_string()),
        }
    }

    /// The jobs on the latest reading, or `at` the time of an earlier one of a store.
    fn jobs_at(&self, request: &Request) -> Result<Option<Arc<ShownJobs>>> {
        let at = request.value("at").map(moment).transpose()?;
        let (Some(jobs), Some(at)) = (&self.jobs, at) else {
            return Ok(self.now().jobs.clone());
        };
        let Some(folder) = &self.store else {
            let found = "an earlier reading of files or of a collector";
            let expected = "a store, whose earlier ticks can be read again";
            return Err(InputError::new("jobs", found, expected).into());
        };
        let kept = || {
            self.past_jobs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some((time, shown)) = &*kept()
            && *time == at
        {
            return Ok(Some(shown.clone()));
        }
        // Without the lock: other requests do not wait for the store.
        let reading = Source::tick(folder, at, &self.machine.fabric)?;
        let time = reading.time_seconds.unwrap_or(at);
        let shown = Arc::new(jobs.past(&self.machine, &reading.state, time)?);
        *kept() = Some((at, shown.clone()));
        Ok(Some(shown))
    }

    fn input(&self, moment: Option<&Moment>) -> ReportInput<'_> {
        let signs = moment.map_or_else(
            || Signs::of(&self.machine.fabric, None),
            |m| m.signs.clone(),
        );
        let notes = moment.map_or(&[][..], |m| &m.notes);
        ReportInput {
            title: self.title.clone(),
            fabric: &self.machine.fabric,
            routing: &self.machine.routing,
            job: None,
            readings: moment.map_or(Vec::new(), Moment::loads),
            signs,
            readings_source: moment.map_or(String::new(), |m| m.source.clone()),
            notes: [&self.machine.notes[..], notes].concat(),
            command: self.command.clone(),
        }
    }
}

/// A time of a request, in seconds since 1970.
fn moment(word: &str) -> Result<f64> {
    let seconds = word.parse().ok().filter(|s: &f64| s.is_finite());
    let wrong = || InputError::new("at", word, "seconds since 1970");
    seconds.ok_or_else(|| wrong().into())
}

impl Sink for Live {
    fn publish(&self, fresh: Fresh) {
        let state = &fresh.state;
        let time = fresh.time_seconds;
        let time = time.unwrap_or_else(|| unix(SystemTime::now()));
        self.faults().take(&self.machine.fabric, state, time, None);
        if let Some(jobs) = &self.jobs {
            jobs.take(state, time);
        }
        let mut moment = Moment::new(
            time,
            &readings::loads(state),
            Signs::of(&self.machine.fabric, Some(state)),
        );
        moment.source = readings::words(state, &self.source, fresh.rows);
        moment.notes = fresh.notes;
        let mut now = self.now();
        now.past.push(moment);
        now.version = fresh.version;
        now.error = None;
        now.sequence += 1;
    }

    fn fail(&self, error: &str) {
        let mut now = self.now();
        if now.error.as_deref() != Some(error) {
            now.error = Some(error.into());
            now.sequence += 1;
        }
    }

    fn version(&self) -> u64 {
        self.now().version
    }
}

fn json(answer: &impl Serialize) -> Answer {
    match serde_json::to_vec(answer) {
        Ok(body) => Answer {
            status: 200,
            kind: "application/json",
            body,
        },
        Err(error) => Answer::words(500, &error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn times_of_requests_are_finite() {
        assert_eq!(moment("1700000000.5").unwrap(), 1_700_000_000.5);
        for word in ["nan", "inf", "-inf", "now", ""] {
            assert!(moment(word).is_err(), "{word}");
        }
    }
}
