//! Sources of a running oracle's readings: files, a collector, its store, or a replay of a store.

use crate::desk::{Desk, Fresh};
use anyhow::Result;
use hopbyte_collect::links::Links;
use hopbyte_collect::stream::Stream;
use hopbyte_collect::tls::Trust;
use hopbyte_collect::wire::Token;
use hopbyte_fabric::LinkState;
use hopbyte_job::{Files, Machine};
use hopbyte_observe::CounterOptions;
use hopbyte_observe::counters::join::PortMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Pause before a failed source is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// A source of readings.
pub enum Source {
    /// No readings: hops and bandwidths only.
    None,
    /// Files of counters, read again after changes.
    Files(Box<Files>, Duration),
    /// A running collector.
    Collector(Box<Collector>),
    /// A collector's store.
    Store(PathBuf),
    /// A replay of a store from its start, with its speed factor.
    Replay(PathBuf, f64),
}

/// A running collector and the parameters of its connection.
pub struct Collector {
    /// Its address.
    pub address: String,
    /// Its secret.
    pub token: Option<Token>,
    /// Trusted certificates.
    pub trust: Option<Trust>,
    /// Links for ports that no rule resolves.
    pub ports: PortMap,
}

impl Source {
    /// Files of counters, polled at an interval.
    pub fn files(files: Vec<PathBuf>, about: CounterOptions, every: Duration) -> Self {
        Self::Files(Box::new(Files::new(files, about)), every)
    }

    /// The source for messages and the status.
    pub fn words(&self) -> String {
        match self {
            Self::None => "no counters".into(),
            Self::Files(files, _) => files.names(),
            Self::Collector(collector) => format!("collector {}", collector.address),
            Self::Store(folder) => format!("store {}", folder.display()),
            Self::Replay(folder, speed) => format!("replay of {} at {speed}", folder.display()),
        }
    }

    /// Publishes readings without end; calls `ready` once, after readings that already exist are published.
    pub fn follow(
        self,
        machine: &Machine,
        desk: &Desk,
        ready: &dyn Fn(),
        talk: &dyn Fn(&str),
    ) -> Result<()> {
        match self {
            Self::None => ready(),
            Self::Files(mut files, every) => {
                let mut said = Vec::new();
                if let Some(fresh) = fresh_files(&mut files, machine, 0, &mut said, talk)? {
                    desk.publish(fresh);
                }
                ready();
                loop {
                    std::thread::sleep(every);
                    let before = desk.view().version();
                    match fresh_files(&mut files, machine, before, &mut said, talk) {
                        Ok(Some(fresh)) => desk.publish(fresh),
                        Ok(None) => {}
                        Err(error) => desk.fail(&format!("{error:#}")),
                    }
                }
            }
            Self::Collector(collector) => {
                ready();
                endless(desk, talk, || {
                    let (token, trust) = (collector.token.as_ref(), collector.trust.as_ref());
                    let stream = Stream::connect(&collector.address, token, trust)?;
                    let links = Links::new(collector.ports.clone());
                    ticks(stream, links, machine, desk, &|| {}, talk)
                });
            }
            Self::Store(folder) => {
                // An empty store has no readings to wait for.
                if hopbyte_collect::store::logs(&folder).is_ok_and(|logs| logs.is_empty()) {
                    ready();
                }
                endless(desk, talk, || {
                    let stream = Stream::follow(&folder);
                    ticks(stream, Links::default(), machine, desk, ready, talk)
                });
            }
            Self::Replay(folder, speed) => {
                ready();
                let stream = Stream::replay(&folder, speed, 0, u64::MAX)?;
                ticks(stream, Links::default(), machine, desk, &|| {}, talk)?;
                talk("the store is at its end; its last snapshot stays");
            }
        }
        Ok(())
    }
}

/// Retries without end, and prints each new reason once.
fn endless(desk: &Desk, talk: &dyn Fn(&str), mut run: impl FnMut() -> io::Result<()>) {
    let mut said = String::new();
    loop {
        let text = run().map_or_else(|e| e.to_string(), |()| "the stream of ticks ended".into());
        desk.fail(&text);
        if said != text {
            talk(&text);
            said = text;
        }
        std::thread::sleep(AGAIN);
    }
}

/// Publishes the ticks of a stream until it ends.
fn ticks(
    mut stream: Stream,
    mut links: Links,
    machine: &Machine,
    desk: &Desk,
    ready: &dyn Fn(),
    talk: &dyn Fn(&str),
) -> io::Result<()> {
    let fabric = &machine.fabric;
    while let Some(closing) = stream.next(|cluster, id, _| links.report(fabric, cluster, id))? {
        if let Some(text) = links.mismatch() {
            talk(&format!("counters of another machine: {text}"));
        }
        for words in links.left_out().sentences() {
            talk(&words);
        }
        // After a reconnection the first ticks may be older than the current view.
        if stream.is_behind() || closing.tick <= desk.view().version() {
            links.pass();
            if !stream.is_behind() {
                ready();
            }
            continue;
        }
        if let Some(snapshot) = links.close(fabric, &closing, "") {
            if snapshot.matched == 0 {
                desk.fail("no counter of this tick names a link of the fabric");
            } else {
                desk.publish(Fresh {
                    version: closing.tick,
                    time_seconds: snapshot.time_seconds,
                    rows: (snapshot.matched, snapshot.unmatched),
                    state: LinkState::of_increase(fabric, &snapshot),
                });
            }
        }
        ready();
    }
    Ok(())
}

/// A reading of changed files; its version is the time of the last change in milliseconds. New notes on it
/// are printed.
fn fresh_files(
    files: &mut Files,
    machine: &Machine,
    before: u64,
    said: &mut Vec<String>,
    talk: &dyn Fn(&str),
) -> Result<Option<Fresh>> {
    let Some(change) = files.look(&machine.fabric)? else {
        return Ok(None);
    };
    if *said != change.notes {
        change.notes.iter().for_each(|note| talk(note));
        *said = change.notes;
    }
    let modified = change.modified.unwrap_or_else(SystemTime::now);
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Some(Fresh {
        version: (since.as_millis() as u64).max(before + 1),
        time_seconds: change.time_seconds.or(Some(since.as_secs_f64())),
        rows: change.rows,
        state: change.state,
    }))
}
