//! Sources of readings: files, a collector, its store, or a replay of a store. One reading, or all of them.

use crate::access::{Access, unused};
use crate::error::Result;
use crate::range::Range;
use crate::window::{Window, before, since};
use hopbyte_collect::links::Links;
use hopbyte_collect::store;
use hopbyte_collect::stream::Stream;
use hopbyte_fabric::{Class, Fabric, Increase, InputError, LeftOut, LinkId, LinkState};
use hopbyte_job::inputs::LinkReading;
use hopbyte_job::live::within_limits;
use hopbyte_job::{Files, JobError, Live, Machine, told};
use hopbyte_observe::CounterOptions;
use hopbyte_observe::address::{FORM, is_address};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Pause before a failed source is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// Times in seconds are rounded.
const HALF_MICROSECOND: f64 = 5e-7;

/// Length of the history that is read of a store.
const HISTORY_NS: u64 = 600_000_000_000;

/// A reading.
pub struct Fresh {
    /// State of the links.
    pub state: LinkState,
    /// Increases with every reading; equal for all followers of the same source.
    pub version: u64,
    /// Time of the reading.
    pub time_seconds: Option<f64>,
    /// Number of rows matched to a link, and of rows without a link.
    pub rows: (usize, usize),
    /// Caveats for the user, one sentence each.
    pub notes: Vec<String>,
}

/// A consumer of readings.
pub trait Sink: Sync {
    /// Takes a reading.
    fn publish(&self, fresh: Fresh);
    /// Takes the error of a failed reading; the readings before it stay.
    fn fail(&self, error: &str);
    /// Version of the latest reading; 0 before the first.
    fn version(&self) -> u64;
}

/// A source of readings.
pub enum Source {
    /// No readings: hops and bandwidths only.
    None,
    /// Files of counters, read again after changes.
    Files(Box<Files>, Duration),
    /// A running collector.
    Collector(Box<Collector>),
    /// A collector's store.
    Store(PathBuf, Range),
    /// A replay of a store from its start, with its speed factor.
    Replay(PathBuf, f64),
    /// The ticks of one of the last three, added up over so many seconds.
    Summed(Box<Source>, f64),
}

/// The running source of a mapping's load: an oracle, or a background that is a collector or its store.
///
/// # Errors
/// Those of [`unused`].
pub fn live(
    oracle: Option<&str>,
    background: &[PathBuf],
    token: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
) -> Result<Option<Live>, InputError> {
    if let Some(address) = oracle {
        unused(None, tls_ca.as_deref())?;
        let address = address.to_owned();
        return Ok(Some(Live::Oracle { address, token }));
    }
    let named = |one: &Path| Source::named(one, Access::default(), Range::default()).is_some();
    if let [one] = background
        && named(one)
    {
        return Ok(Some(Live::Collector {
            address: one.display().to_string(),
            token,
            tls_ca,
            read: read_collector,
        }));
    }
    unused(token.as_deref(), tls_ca.as_deref())?;
    Ok(None)
}

/// The latest reading of a collector or its store, over so many seconds, for a mapping.
///
/// # Errors
/// As [`Source::latest`], or another source.
pub fn read_collector(
    address: &str,
    token: Option<&Path>,
    tls_ca: Option<&Path>,
    over: Option<f64>,
    fabric: &Fabric,
) -> Result<LinkReading, JobError> {
    let access = Access::read(token, tls_ca)?;
    let Some(source) = Source::named(Path::new(address), access, Range::default()) else {
        let expected = format!("{FORM}, or the folder of a store");
        return Err(InputError::new("collector", address, expected).into());
    };
    Ok(source.latest(fabric, over)?)
}

/// A running collector and the parameters of its connection.
pub struct Collector {
    /// Its address.
    pub address: String,
    /// Token and certificates.
    pub access: Access,
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
            Self::Store(folder, _) => format!("store {}", folder.display()),
            Self::Replay(folder, speed) => format!("replay of {} at {speed}", folder.display()),
            Self::Summed(source, _) => source.words(),
        }
    }

    /// The source that the words of a command line name, if it is a collector (`HOST:PORT`) or its store (a folder).
    pub fn named(word: &Path, access: Access, range: Range) -> Option<Self> {
        if word.is_dir() {
            return is_store(word).then(|| Self::Store(word.to_owned(), range));
        }
        let address = word.to_str().filter(|w| !word.exists() && is_address(w))?;
        Some(Self::Collector(Box::new(Collector {
            address: address.into(),
            access,
        })))
    }

    /// The folder, if it is a store.
    pub fn store(&self) -> Option<&Path> {
        match self {
            Self::Store(folder, _) => Some(folder),
            Self::Summed(source, _) => source.store(),
            _ => None,
        }
    }

    /// The tick of a store at a time or before it.
    ///
    /// # Errors
    /// As [`Source::latest`].
    pub fn tick(folder: &Path, at: f64, fabric: &Fabric) -> Result<LinkReading> {
        // Times of the page are rounded to microseconds.
        let to_ns = Some((at * 1e9) as u64 + 1000);
        let range = Range {
            from_ns: None,
            to_ns,
        };
        Self::Store(folder.to_owned(), range).latest(fabric, None)
    }

    /// The latest reading of a collector or of the range of its store: of one tick, or the sum over the ticks of a window in
    /// seconds, for which a collector is followed.
    ///
    /// # Errors
    /// The collector does not answer, no tick names a link, or the store has no two ticks in the range.
    pub fn latest(self, fabric: &Fabric, window: Option<f64>) -> Result<LinkReading> {
        let name = self.words();
        let window = window.map(within_limits).transpose()?;
        let mut notes = Vec::new();
        let (mut stream, mut links, ends) = match self {
            Self::Collector(c) => (c.access.connect(&c.address)?, Links::default(), false),
            Self::Store(folder, range) if let Some(seconds) = window => {
                let newest = Self::Store(folder.clone(), range).latest(fabric, None)?;
                if let Some(to) = range.to_ns {
                    notes.extend(before(&folder, to)?.1);
                }
                let to = newest.time_seconds.unwrap_or(0.0) + HALF_MICROSECOND;
                let (from, to) = since(&folder, to, seconds)?;
                let stream = Stream::replay(&folder, 0.0, from, to)?;
                (stream, Links::default(), true)
            }
            Self::Store(
                folder,
                Range {
                    to_ns: Some(to), ..
                },
            ) => {
                let (from, note) = before(&folder, to)?;
                notes.extend(note);
                let stream = Stream::replay(&folder, 0.0, from, to)?;
                (stream, Links::default(), true)
            }
            Self::Store(folder, _) => (Stream::newest(&folder)?, Links::default(), true),
            _ => {
                let expected = "a collector or its store";
                return Err(InputError::new(name, "another source", expected).into());
            }
        };
        let mut last: Option<Increase> = None;
        let mut first = true;
        let mut begin = None;
        let mut left_out = LeftOut::default();
        while let Some(closing) = stream.next(|cluster, id, _| links.report(fabric, cluster, id))? {
            notes.extend(links.mismatch().as_deref().map(mismatched));
            left_out.extend(&links.left_out());
            // Reports of the ticks before the range would count as those of its first tick.
            let at = closing.tick.saturating_mul(closing.period_ns) as f64 / 1e9;
            if std::mem::take(&mut first) {
                links.pass();
                begin = Some(at);
                continue;
            }
            let next = links.close(fabric, &closing, &name);
            last = match (last, next) {
                (Some(mut sum), Some(next)) if window.is_some() => {
                    sum.extend_by(&next);
                    Some(sum)
                }
                (before, next) => next.or(before),
            };
            let is_whole = begin.is_none_or(|begin| at - begin >= window.unwrap_or(0.0));
            if last.is_some() && !ends && is_whole {
                break;
            }
        }
        notes.extend(stream.is_sound().1);
        let Some(increase) = last else {
            let found = "fewer than two ticks of a node";
            let expected = "two ticks, the increase of the counters between them";
            return Err(InputError::new(name, found, expected).into());
        };
        if increase.matched == 0 {
            let found = format!(
                "{} ports, none of a link of the machine",
                increase.unmatched
            );
            let hint = "is --fabric the machine that the collector watches?";
            let error = InputError::new(name, found, "ports of its nodes and routers");
            return Err(error.hint(hint).into());
        }
        left_out.extend(&links.left_out());
        notes.extend(left_out.sentences().map(|words| format!("{name}: {words}")));
        Ok(LinkReading {
            source: name,
            time_seconds: increase.time_seconds,
            matched: increase.matched,
            unmatched: increase.unmatched,
            left_out,
            state: LinkState::of_increase(fabric, &increase),
            notes,
        })
    }

    /// A collector or store whose readings after the first cover so many seconds each, without overlap.
    ///
    /// # Errors
    /// No such length of an interval.
    pub fn over(self, seconds: Option<f64>) -> Result<Self> {
        Ok(match (self, seconds) {
            (source @ (Self::Collector(_) | Self::Store(..) | Self::Replay(..)), Some(seconds)) => {
                Self::Summed(Box::new(source), within_limits(seconds)?)
            }
            (source, _) => source,
        })
    }

    /// With the newest ten minutes of a store, by the time of its last write, if no range is given.
    #[must_use]
    pub fn with_history(self) -> Self {
        let Self::Store(
            folder,
            Range {
                from_ns: None,
                to_ns,
            },
        ) = self
        else {
            return self;
        };
        let written = store::logs(&folder).ok().and_then(|logs| {
            let times = logs
                .iter()
                .filter_map(|log| log.metadata().ok()?.modified().ok());
            times.max()?.duration_since(UNIX_EPOCH).ok()
        });
        let last_ns = to_ns.or(written.map(|w| w.as_nanos() as u64));
        let from_ns = last_ns.map(|ns| ns.saturating_sub(HISTORY_NS));
        Self::Store(folder, Range { from_ns, to_ns })
    }

    /// Publishes readings without end; calls `ready` once, after readings that already exist are published.
    pub fn follow(
        self,
        machine: &Machine,
        sink: &dyn Sink,
        ready: &dyn Fn(),
        talk: &dyn Fn(&str),
    ) -> Result<()> {
        self.follow_over(None, machine, sink, ready, talk)
    }

    fn follow_over(
        self,
        over: Option<f64>,
        machine: &Machine,
        sink: &dyn Sink,
        ready: &dyn Fn(),
        talk: &dyn Fn(&str),
    ) -> Result<()> {
        let begin = || (Links::default(), over.map(Window::of));
        let go_on = |stream, sums: &mut Sums, which, ready: &dyn Fn()| {
            ticks(stream, sums, (machine, which), sink, ready, talk)
        };
        let ticks = |stream, which, ready: &dyn Fn()| go_on(stream, &mut begin(), which, ready);
        match self {
            Self::Summed(source, seconds) => {
                return source.follow_over(Some(seconds), machine, sink, ready, talk);
            }
            Self::None => ready(),
            Self::Files(mut files, every) => {
                let mut said = Vec::new();
                if let Some(fresh) = fresh_files(&mut files, machine, 0, &mut said, talk)? {
                    sink.publish(fresh);
                }
                ready();
                loop {
                    std::thread::sleep(every);
                    match fresh_files(&mut files, machine, sink.version(), &mut said, talk) {
                        Ok(Some(fresh)) => sink.publish(fresh),
                        Ok(None) => {}
                        Err(error) => sink.fail(&told(&error)),
                    }
                }
            }
            Self::Collector(collector) => {
                ready();
                // Counters go on while the collector is away.
                let mut sums = begin();
                endless(sink, talk, || {
                    let stream = collector.access.connect(&collector.address)?;
                    go_on(stream, &mut sums, Ticks::Newest, &|| {})
                });
            }
            Self::Store(folder, range) => {
                // An empty store has no readings to wait for.
                if store::logs(&folder).is_ok_and(|logs| logs.is_empty()) {
                    ready();
                }
                if range.from_ns.is_some() || range.to_ns.is_some() {
                    let to = range.to_ns.unwrap_or(u64::MAX);
                    let from = match range.from_ns {
                        Some(from) => from,
                        None => before(&folder, to)?.0,
                    };
                    let past = Stream::replay(&folder, 0.0, from, to)?;
                    ticks(past, Ticks::All, ready)?;
                    if range.to_ns.is_some() {
                        ready();
                        return Ok(());
                    }
                }
                endless(sink, talk, || {
                    ticks(Stream::follow(&folder), Ticks::Newest, ready)
                });
            }
            Self::Replay(folder, speed) => {
                let stream = Stream::replay(&folder, speed, 0, u64::MAX)?;
                ready();
                ticks(stream, Ticks::Newest, &|| {})?;
                talk("the store is at its end; its last snapshot stays");
            }
        }
        Ok(())
    }
}

/// Rows that [`history`] gives at most: a gigabyte or two in a data frame.
pub const MOST_ROWS: usize = 20_000_000;

/// Every reading of a store's range, oldest first: its time, the links with counters, and their state; `take` returns
/// whether there is room for more. `only` names links. Returns caveats.
///
/// # Errors
/// No store, a link that the machine does not have, more than [`MOST_ROWS`] rows, or counters of another machine.
pub fn history(
    folder: &Path,
    range: Range,
    fabric: &Fabric,
    only: Option<&[String]>,
    take: &mut dyn FnMut(f64, &[LinkId], &LinkState) -> bool,
) -> Result<Vec<String>> {
    let name = folder.display().to_string();
    let find = |link: &String| fabric.find_link(link).map_err(JobError::from);
    let only: Option<Vec<LinkId>> = match only {
        Some(names) => Some(names.iter().map(find).collect::<Result<_, _>>()?),
        None => None,
    };
    let (from, to) = (range.from_ns.unwrap_or(0), range.to_ns.unwrap_or(u64::MAX));
    let mut stream = Stream::replay(folder, 0.0, from, to)?;
    let mut links = Links::default();
    let mut left_out = LeftOut::default();
    let mut notes = Vec::new();
    let mut matched = 0;
    let mut first = true;
    while let Some(closing) = stream.next(|cluster, id, _| links.report(fabric, cluster, id))? {
        notes.extend(links.mismatch().as_deref().map(mismatched));
        left_out.extend(&links.left_out());
        // Reports of the ticks before the range would count as those of its first tick.
        if std::mem::take(&mut first) {
            links.pass();
            continue;
        }
        let Some(increase) = links.close(fabric, &closing, &name) else {
            continue;
        };
        matched += increase.matched;
        let state = LinkState::of_increase(fabric, &increase);
        let read = |l: &LinkId| state.coverage[l.index()] > 0.0;
        let links: Vec<LinkId> = match &only {
            Some(only) => only.iter().copied().filter(read).collect(),
            None => fabric.link_ids().filter(read).collect(),
        };
        let at = increase.time_seconds.unwrap_or(f64::NAN);
        if !take(at, &links, &state) {
            let found = format!("more than {MOST_ROWS} rows");
            let error = InputError::new(name, found, "a shorter range, or fewer links");
            return Err(error.of(Class::Limit).into());
        }
    }
    notes.extend(stream.is_sound().1);
    left_out.extend(&links.left_out());
    notes.extend(left_out.sentences());
    if matched == 0 {
        let error = InputError::new(name, "no tick of a link", "ticks of the machine's links");
        let hint =
            "is this the machine that the collector watches, and the range one with two ticks?";
        return Err(error.of(Class::OtherMachine).hint(hint).into());
    }
    Ok(notes)
}

/// Whether a folder is a store, which has logs, or one that a collector has just begun. Others are captured trees.
fn is_store(folder: &Path) -> bool {
    let is_empty = || std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    let has_logs = store::logs(folder).is_ok_and(|logs| !logs.is_empty());
    has_logs || folder.join("lock").is_file() || is_empty()
}

fn mismatched(text: &str) -> String {
    format!("counters of another machine: {text}")
}

/// Retries without end, and prints each new reason once.
fn endless(sink: &dyn Sink, talk: &dyn Fn(&str), mut run: impl FnMut() -> io::Result<()>) {
    let mut said = String::new();
    loop {
        let text = run().map_or_else(|e| e.to_string(), |()| "the stream of ticks ended".into());
        sink.fail(&text);
        if said != text {
            talk(&text);
            said = text;
        }
        std::thread::sleep(AGAIN);
    }
}

/// Which of the available ticks are published.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ticks {
    /// All, for a history.
    All,
    /// The newest of those that wait.
    Newest,
}

/// Latest readings, and the interval that is being added up.
type Sums = (Links, Option<Window>);

/// Publishes the ticks of a stream until it ends.
fn ticks(
    mut stream: Stream,
    (links, window): &mut Sums,
    (machine, which): (&Machine, Ticks),
    sink: &dyn Sink,
    ready: &dyn Fn(),
    talk: &dyn Fn(&str),
) -> io::Result<()> {
    let fabric = &machine.fabric;
    let mut first = true;
    while let Some(closing) = stream.next(|cluster, id, _| links.report(fabric, cluster, id))? {
        // After a reconnection the first ticks may be older than the latest reading.
        let is_old = closing.tick <= sink.version();
        let (behind, is_base) = match which {
            // The next reading has the increase of those that are skipped, but not of those before the first one.
            Ticks::Newest => (stream.is_behind(), sink.version() == 0),
            // Reports of the ticks before the range would count as those of its first tick.
            Ticks::All => (std::mem::take(&mut first), true),
        };
        if behind || is_old {
            if is_base || is_old {
                links.pass();
            }
            if !behind {
                ready();
            }
            continue;
        }
        let increase = links.close(fabric, &closing, "");
        let mut notes: Vec<String> = links
            .mismatch()
            .as_deref()
            .map(mismatched)
            .into_iter()
            .collect();
        notes.extend(links.left_out().sentences());
        notes.iter().for_each(|words| talk(words));
        let increase = match window {
            Some(window) => increase.and_then(|tick| window.take(tick)),
            None => increase,
        };
        if let Some(increase) = increase {
            if increase.matched == 0 {
                sink.fail("no counter of this tick names a link of the fabric");
            } else {
                sink.publish(Fresh {
                    version: closing.tick,
                    time_seconds: increase.time_seconds,
                    rows: (increase.matched, increase.unmatched),
                    state: LinkState::of_increase(fabric, &increase),
                    notes,
                });
            }
        }
        if which == Ticks::Newest || !stream.is_behind() {
            ready();
        }
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
        said.clone_from(&change.notes);
    }
    let modified = change.modified.unwrap_or_else(SystemTime::now);
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Some(Fresh {
        version: (since.as_millis() as u64).max(before + 1),
        time_seconds: change.time_seconds.or(Some(since.as_secs_f64())),
        rows: change.rows,
        state: change.state,
        notes: change.notes,
    }))
}
