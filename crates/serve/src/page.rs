//! The live page: reads its counters again when their files change. It is served on the loopback address
//! to browsers with the token.
//!
//! Its HTML is the same as that of the static page. A script polls for updates: fragments of the static
//! page that changed, and numbers for the tables.

use crate::http::{Answer, Needs, Request};
use anyhow::Result;
use hopbyte_job::{Files, Machine, unix};
use hopbyte_observe::CounterOptions;
use hopbyte_view::draw::{LinkLoads, Scale, Signs};
use hopbyte_view::report::section::{bars, legend};
use hopbyte_view::report::view::View;
use hopbyte_view::report::{ReportInput, data, page, readings, words};
use serde::Serialize;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Number of moments in the charts.
const REMEMBERED: usize = 720;

/// A live page with its counters.
pub struct Live {
    machine: Machine,
    files: Mutex<Files>,
    title: String,
    command: String,
    now: Mutex<Now>,
}

/// The current reading and the history.
struct Now {
    /// Number of the reading; 0 before the first.
    sequence: u64,
    loads: Vec<LinkLoads>,
    signs: Signs,
    source: String,
    /// Largest end of the scale so far, by quantity, so that pictures of different moments are comparable.
    scales: Vec<(String, Scale)>,
    history: VecDeque<Moment>,
    /// Notes on the reading.
    notes: Vec<String>,
    /// The error of the last reading.
    error: Option<String>,
}

/// One reading in the charts.
#[derive(Clone, Serialize)]
struct Moment {
    unix_seconds: f64,
    /// Largest and mean load by quantity; `null` if missing.
    values: Vec<Option<[f64; 2]>>,
}

/// Updates for the page.
#[derive(Serialize)]
struct News {
    sequence: u64,
    lead: String,
    source: String,
    error: Option<String>,
    views: Vec<Fresh>,
    signs: data::Symbols,
    history: Vec<Moment>,
}

/// The current state of a quantity.
#[derive(Serialize)]
struct Fresh {
    max: f64,
    values: String,
    numbered: Vec<u32>,
    picture: String,
    legend: String,
    bars: String,
}

impl Live {
    /// Follows the given counters; fails if the first reading fails.
    pub fn new(
        machine: Machine,
        files: Vec<PathBuf>,
        about: CounterOptions,
        title: String,
        command: String,
    ) -> Result<Self> {
        let live = Self {
            now: Mutex::new(Now {
                sequence: 0,
                loads: Vec::new(),
                signs: Signs::default(),
                source: String::new(),
                scales: Vec::new(),
                history: VecDeque::new(),
                notes: Vec::new(),
                error: None,
            }),
            machine,
            files: Mutex::new(Files::new(files, about)),
            title,
            command,
        };
        live.update()?;
        Ok(live)
    }

    /// Reads the counters periodically without end. An error is shown on the page until the next successful
    /// reading.
    pub fn follow(&self, every: Duration) {
        loop {
            std::thread::sleep(every);
            if let Err(error) = self.update() {
                let mut now = self.now();
                now.error = Some(format!("{error:#}"));
                now.sequence += 1;
            }
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        // Readings are replaced as a whole, so a panic in another thread leaves a consistent state.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the counters again if a file changed.
    fn update(&self) -> Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(change) = files.look(&self.machine.fabric)? else {
            return Ok(());
        };
        let mut now = self.now();
        now.source = readings::words(&change.state, &files.names(), change.rows);
        now.loads = readings::loads(&change.state);
        now.signs = Signs::of(&self.machine.fabric, Some(&change.state));
        now.notes = change.notes;
        now.remember(change.modified);
        now.error = None;
        now.sequence += 1;
        Ok(())
    }

    /// Answers a request of the browser.
    ///
    /// # Errors
    /// None: a page is as large as its machine, and there is one.
    pub fn answer(&self, request: &Request) -> Result<Answer, Needs> {
        Ok(match request.name.as_str() {
            "" => self.page(),
            "state" => self.news(request),
            _ => Answer::words(404, "no such page"),
        })
    }

    fn page(&self) -> Answer {
        let now = self.now();
        let page = page::html(&self.input(&now), true);
        Answer {
            status: 200,
            kind: "text/html; charset=utf-8",
            body: page.into_bytes(),
        }
    }

    fn news(&self, request: &Request) -> Answer {
        let now = self.now();
        let since = request.value("since").and_then(|s| s.parse().ok());
        if since == Some(now.sequence) {
            return Answer {
                status: 204,
                ..Answer::words(204, "")
            };
        }
        let input = self.input(&now);
        let views = View::all(&input);
        let fresh = views.into_iter().map(|view| {
            let scale = now.scale(view.name).unwrap_or(view.scale);
            let view = view.at_scale(scale);
            Fresh {
                max: view.scale.max,
                values: data::floats(view.before),
                numbered: data::numbered(view.before),
                picture: view
                    .picture(&input, view.before, &[], view.size(&input))
                    .body,
                legend: legend(&view, &now.signs),
                bars: bars(&input, &view),
            }
        });
        let news = News {
            sequence: now.sequence,
            lead: words::lead(&input),
            source: now.source.clone(),
            error: now.error.clone(),
            views: fresh.collect(),
            signs: data::Symbols::of(&now.signs),
            history: now.history.iter().cloned().collect(),
        };
        match serde_json::to_vec(&news) {
            Ok(body) => Answer {
                status: 200,
                kind: "application/json",
                body,
            },
            Err(error) => Answer::words(500, &error.to_string()),
        }
    }

    fn input<'a>(&'a self, now: &Now) -> ReportInput<'a> {
        ReportInput {
            title: self.title.clone(),
            fabric: &self.machine.fabric,
            routing: &self.machine.routing,
            job: None,
            readings: now.loads.clone(),
            signs: now.signs.clone(),
            readings_source: now.source.clone(),
            notes: [&self.machine.notes[..], &now.notes].concat(),
            command: self.command.clone(),
        }
    }
}

impl Now {
    fn scale(&self, name: &str) -> Option<Scale> {
        let of = |(known, scale): &(String, Scale)| (known == name).then_some(*scale);
        self.scales.iter().find_map(of)
    }

    /// Adds the current reading to the history, and extends the scales if necessary.
    fn remember(&mut self, time: Option<SystemTime>) {
        let values = self
            .loads
            .iter()
            .map(|l| {
                let known: Vec<f64> = l.values().iter().copied().filter(|v| !v.is_nan()).collect();
                let mean = known.iter().sum::<f64>() / known.len() as f64;
                (!known.is_empty()).then_some([l.max(), mean])
            })
            .collect();
        for load in &self.loads {
            let Some(fresh) = Scale::of([load]) else {
                continue;
            };
            match self.scales.iter_mut().find(|(name, _)| *name == load.name) {
                Some((_, scale)) if scale.unit == fresh.unit => {
                    scale.max = scale.max.max(fresh.max);
                }
                Some((_, scale)) => *scale = fresh,
                None => self.scales.push((load.name.clone(), fresh)),
            }
        }
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        self.history.push_back(Moment {
            unix_seconds: unix(time.unwrap_or_else(SystemTime::now)),
            values,
        });
    }
}
