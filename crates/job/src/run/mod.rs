//! `hopbyte run -- COMMAND`: launches a job with the rank order that earlier runs of the command have shown to pay.
//!
//! The first run of a command with a number of ranks is recorded. Later ones are mapped by that record onto the nodes
//! that they get. The preload library of `mpi/reorder` delivers the order, so the launcher's own options stay as they
//! are, and the job replaces this process: process ID, signals and exit status are the launcher's. A record is
//! therefore settled at the start of the next run. Any failure launches the command unchanged.

mod allocation;
mod launch;
mod options;
mod slurm;
mod store;

use crate::error::{Context, JobError, Result, one_line, refuse};
use crate::identity::Sum;
use crate::load::{Live, ReadCollector};
use crate::machine::MachineSource;
use crate::mapping::Mapping;
use crate::question::{Asked, Effort, Question};
use crate::record::launch::{FLAVOURS, Job, find};
use crate::search::search;
use crate::settings::{Settings, misspelt_variables};
use allocation::Shape;
use hopbyte_apply::Launcher;
use hopbyte_fabric::units::count;
use hopbyte_fabric::{InputError, similar};
use hopbyte_map::Evaluation;
use hopbyte_observe::{parse_node_list, read_traffic};
pub use launch::Launch;
use options::{before_launcher, is_launcher, set_before};
pub(crate) use slurm::unlike_slurm;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use store::{Decision, Record, Store};

/// Least reduction of the worst link's time for which ranks are reordered.
const WORTH: f64 = 0.01;
/// Time after the deadline in which a stopped search may still return its best placement.
const GRACE: Duration = Duration::from_millis(250);

/// Ends the search at the deadline.
static STOP: AtomicBool = AtomicBool::new(false);

/// Programs that start jobs, for a misspelt one.
const LAUNCHERS: [&str; 8] = [
    "mpirun", "mpiexec", "srun", "flux", "torchrun", "orterun", "prterun", "aprun",
];

/// A message on a program that could not be started.
pub fn not_started(program: &OsString, error: &std::io::Error) -> String {
    let name = program.to_string_lossy();
    let near = match error.kind() {
        ErrorKind::NotFound => similar(&name, LAUNCHERS),
        _ => Vec::new(),
    };
    match near.first().filter(|near| **near != name) {
        Some(near) => format!("{name}: {error}; did you mean {near}?"),
        None => format!("{name}: {error}"),
    }
}

/// From now on a panic of any thread tells `say` why, and launches the command unchanged: a program that is built to abort
/// on panics, as the static one is, has no later moment for it.
pub fn launch_on_panic(words: &[OsString], say: impl Fn(&str) + Send + Sync + 'static) {
    let words = words.to_vec();
    std::panic::set_hook(Box::new(move |panic| {
        let reason = panic.to_string().replace('\n', " ");
        say(&format!("command unchanged: internal error: {reason}"));
        let error = Launch::unchanged(&words, Vec::new()).replace();
        say(&not_started(&words[0], &error));
    }));
}

/// Options of a preparation.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// The machine, in place of the configured one.
    pub machine: Option<MachineSource>,
    /// Time limit.
    pub deadline: Duration,
    /// Whether the command is not launched, so that nothing is written.
    pub is_dry: bool,
    /// Reader of a configured collector.
    pub read_collector: ReadCollector,
}

/// Prepares a command within the deadline; the user's own command if that fails or takes longer. `words` is not empty.
pub fn prepare(words: &[OsString], preparation: &Preparation) -> Launch {
    let deadline = preparation.deadline;
    let until = Instant::now() + deadline;
    let (send, receive) = mpsc::channel();
    let (own, preparation) = (words.to_vec(), preparation.clone());
    let decide = move || {
        let _ = send.send(decide(&own, &preparation, until));
    };
    // Under a limit of processes a thread may be refused; its end of the channel is then closed.
    let _ = std::thread::Builder::new().spawn(decide);
    let left = |until: Instant| until.saturating_duration_since(Instant::now());
    let decided = match receive.recv_timeout(left(until)) {
        Err(RecvTimeoutError::Timeout) => {
            STOP.store(true, Ordering::Relaxed);
            receive.recv_timeout(left(until + GRACE))
        }
        other => other,
    };
    let reason = match decided {
        Ok(Ok(launch)) => return launch,
        Ok(Err(error)) => in_settings(&one_line(&error)),
        Err(RecvTimeoutError::Timeout) => {
            format!("no placement within {} s", deadline.as_secs_f64())
        }
        Err(RecvTimeoutError::Disconnected) => "the preparation failed".to_owned(),
    };
    Launch::unchanged(words, vec![format!("command unchanged: {reason}")])
}

/// A message with the settings of `hopbyte run` in place of the options of `hopbyte record`.
fn in_settings(message: &str) -> String {
    message
        .replace(
            "--libraries",
            "`libraries` of hopbyte.toml or HOPBYTE_LIBRARIES",
        )
        .replace(
            FLAVOURS,
            "name an MPI program, or record the job with `hopbyte record --flavour`",
        )
}

/// The answer of a question that may take longer than there is time: `None` if it is not answered within `limit`.
fn within<T: Send + 'static>(
    limit: Duration,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (send, receive) = mpsc::channel();
    let answer = move || drop(send.send(ask()));
    std::thread::Builder::new().spawn(answer).ok()?;
    receive.recv_timeout(limit).ok()
}

fn decide(words: &[OsString], preparation: &Preparation, until: Instant) -> Result<Launch> {
    let (before, words) = words.split_at(before_launcher(words)?);
    let variable = |name: &str| {
        let value = set_before(before, name).or_else(|| std::env::var(name).ok());
        value.filter(|v| !v.is_empty())
    };
    let shape = Shape::of(words, &variable)?;
    let hosts = shape.hosts(&variable)?;
    if let Some(reason) = unplaceable(words, &shape, &hosts)? {
        let remark = format!("command unchanged: {reason}");
        return Ok(Launch::unchanged(words, vec![remark]).behind(before));
    }
    let settings = Settings::load();
    let decided = settings.and_then(|s| decided(words, &shape, hosts, &s, preparation, until));
    match (decided, misspelt_variables()) {
        (Ok(mut launch), Some(misspelt)) => {
            launch.remarks.insert(0, misspelt);
            Ok(launch.behind(before))
        }
        (Err(error), Some(misspelt)) => {
            refuse!("{}; {misspelt}", one_line(&error))
        }
        (other, None) => Ok(other?.behind(before)),
    }
}

/// Why there is nothing to place, if so.
fn unplaceable(
    words: &[OsString],
    shape: &Shape,
    hosts: &[(String, u32)],
) -> Result<Option<String>> {
    let used = match shape.ranks {
        Some(ranks) if hosts.len() > 1 => shape.spread(hosts, ranks)?.len(),
        _ => hosts.len(),
    };
    Ok(match used {
        0 if is_launcher(&words[0]) => Some("no hosts found in options or environment".to_owned()),
        0 => Some(format!("`{}` is no known launcher", words[0].display())),
        1 => Some("one host, nothing to place".to_owned()),
        _ => None,
    })
}

fn decided(
    words: &[OsString],
    shape: &Shape,
    hosts: Vec<(String, u32)>,
    settings: &Settings,
    preparation: &Preparation,
    until: Instant,
) -> Result<Launch> {
    let given = preparation.machine.clone();
    let Some(machine) = given.or_else(|| settings.machine()).or_else(discovered) else {
        refuse!(
            "no machine is configured: `fabric = …` in hopbyte.toml, HOPBYTE_FABRIC or --fabric"
        );
    };
    let mut store = Store::of(&state(settings)?, &identity(words, shape, &hosts));
    if preparation.is_dry {
        store = store.copied()?;
    }
    let mut remarks = store.settle()?;
    let record = match store.record() {
        Ok(record) => record.filter(|record| record.is_current(words, shape)),
        Err(error) => {
            store.forget();
            remarks.push(format!("{DAMAGED}: {}", one_line(&error)));
            None
        }
    };
    if record.as_ref().is_some_and(|record| record.is_refused) {
        remarks.push(format!(
            "command unchanged: the order asked for was not followed; without {} the command is recorded again",
            store.path().display()
        ));
        return Ok(Launch::unchanged(words, remarks));
    }
    let live = settings.live(preparation.read_collector);
    // The live load differs from run to run; without it, the same inputs need no second search.
    let inputs = record.as_ref().filter(|_| live.is_none());
    let inputs = inputs.map(|record| fingerprint(record, &hosts, &machine));
    let known = inputs.as_ref().and_then(|inputs| store.decision(inputs));
    if let Some(Decision {
        placement: None,
        sentence,
        ..
    }) = &known
    {
        remarks.push(sentence.clone());
        return Ok(Launch::unchanged(words, remarks));
    }
    let libraries = settings.value("libraries").map(PathBuf::from);
    let job = Job::understand(words, None, libraries.as_deref())?;
    let Some(record) = record else {
        let limit = until.saturating_duration_since(Instant::now()) / 2;
        let checked = within(limit, move || are_nodes(&hosts, &machine)).transpose()?;
        if let Some(Err(error)) = checked {
            let why = one_line(&error);
            remarks.push(format!(
                "not recorded, since runs on these hosts cannot be placed: {why}"
            ));
            return Ok(Launch::unchanged(words, remarks));
        }
        let (begun, _) = store.begin(None, true)?;
        let said = "recording the traffic of this command; its next run is placed by it";
        remarks.push(said.to_owned());
        return Ok(Launch {
            command: job.preloading(&[&job.library], &[record_into(&begun.folder)]),
            remarks,
            unchanged: false,
            begun: Some(begun),
        });
    };
    let decision = match known {
        Some(decision) => decision,
        None => {
            let placed = place(&record, shape, &hosts, machine, live, until, &mut remarks);
            if placed.is_err() && record.is_damaged() {
                // The next run records again.
                store.forget();
                return placed
                    .map(|_| Launch::unchanged(words, Vec::new()))
                    .context(DAMAGED);
            }
            let Placed {
                question,
                mapping,
                cut,
            } = placed?;
            let decision = Decision {
                // A search that the deadline cut short says nothing of the next one.
                inputs: inputs.filter(|_| !cut).unwrap_or_default(),
                sentence: sentence(&mapping, cut),
                placement: match pays(&mapping) {
                    true => Some(mapping.launch(&question).prepare(Launcher::Csv)?.text),
                    false => None,
                },
            };
            if !decision.inputs.is_empty() {
                store.keep(&decision)?;
            }
            decision
        }
    };
    remarks.push(decision.sentence);
    match decision.placement {
        None => Ok(Launch::unchanged(words, remarks)),
        Some(placement) => deliver(&job, &store, &record, &placement, remarks),
    }
}

/// What determines the outcome of a search: this program, the record, the hosts, and the machine with its files.
fn fingerprint(record: &Record, hosts: &[(String, u32)], machine: &MachineSource) -> String {
    let mut sum = Sum::new();
    sum.add(machine.words().as_bytes());
    for (host, slots) in hosts {
        sum.add(format!("{host}:{slots}").as_bytes());
    }
    let paths = [&machine.routes[..], machine.system_map.as_slice()];
    let paths = paths.into_iter().flatten().chain(&machine.names).cloned();
    let named = machine.hosts.iter().chain([&machine.fabric]);
    let files = paths.chain(named.map(PathBuf::from));
    let files = files.map(|path| (path.display().to_string(), path));
    // A dry run has the record in another folder.
    let own = [("record", &record.folder), ("placement", &record.placement)];
    let own = own.map(|(name, path)| (name.to_owned(), path.clone()));
    for (name, path) in files.chain(own) {
        if let Ok(file) = path.metadata() {
            let time = (file.mtime(), file.mtime_nsec(), file.len());
            sum.add(format!("{name} {time:?}").as_bytes());
        }
    }
    sum.text()
}

/// The command with the requested order, recorded too until a record has shown that it is followed.
fn deliver(
    job: &Job,
    store: &Store,
    record: &Record,
    placement: &str,
    remarks: Vec<String>,
) -> Result<Launch> {
    let (begun, asked) = store.begin(Some(placement), !record.verified)?;
    let reorder = job.tool("reorder")?;
    let mut settings = vec![
        (
            "HOPBYTE_REORDER_MAP",
            asked.unwrap_or_default().into_os_string(),
        ),
        ("HOPBYTE_REORDER_OPTIONAL", "1".into()),
        ("HOPBYTE_REORDER_QUIET", "1".into()),
        // The program's own topologies stay as its MPI makes them.
        ("HOPBYTE_REORDER_TOPOLOGIES", "0".into()),
    ];
    let mut libraries = vec![reorder.as_path()];
    if !record.verified {
        libraries.insert(0, &job.library);
        settings.push(record_into(&begun.folder));
    }
    Ok(Launch {
        command: job.preloading(&libraries, &settings),
        remarks,
        unchanged: false,
        begun: Some(begun),
    })
}

fn record_into(folder: &Path) -> (&'static str, OsString) {
    ("HOPBYTE_RECORD_DIR", folder.as_os_str().to_owned())
}

impl Record {
    /// Whether it is of this number of ranks, and of nodes if the command states it, and not older than the program.
    fn is_current(&self, words: &[OsString], shape: &Shape) -> bool {
        let changed = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
        let program = shape
            .program
            .and_then(|i| find(&words[i]))
            .and_then(|p| changed(&p));
        let newer = match (program, changed(&self.placement)) {
            (Some(program), Some(record)) => program > record,
            _ => false,
        };
        let nodes = || self.launched.iter().collect::<BTreeSet<_>>().len() as u32;
        !newer
            && shape.ranks.is_none_or(|ranks| ranks == self.ranks())
            && shape.nodes.is_none_or(|stated| stated == nodes())
    }

    /// Whether its traffic cannot be read.
    fn is_damaged(&self) -> bool {
        read_traffic(&self.folder.display().to_string()).is_err()
    }

    fn ranks(&self) -> u32 {
        self.launched.len() as u32
    }

    /// Slots that the launcher filled on each of these hosts in the recorded run; `None` if it had other hosts.
    fn slots(&self, hosts: &[(String, u32)]) -> Option<String> {
        let mut words = Vec::new();
        let mut found = 0;
        for (host, _) in hosts {
            let own = self.launched.iter().filter(|h| *h == host).count();
            found += own;
            if own > 0 {
                words.push(format!("{host}:{own}"));
            }
        }
        (found == self.launched.len()).then(|| words.join(","))
    }
}

/// A placement on the hosts of this launch.
struct Placed {
    question: Question,
    mapping: Mapping,
    /// Whether the deadline left too little time for the search.
    cut: bool,
}

const DAMAGED: &str = "the record of an earlier run is damaged and was removed";

/// Seconds of a search, and the least of them after which its outcome counts.
const SEARCH: f64 = 1.0;
const ENOUGH: f64 = 0.3;

/// Seconds that are left for the search behind a live load.
const RESERVED: Duration = Duration::from_millis(600);

/// The question with the live load; without it, if it cannot be read in time.
fn read(asked: Asked, until: Instant, remarks: &mut Vec<String>) -> Result<Question> {
    let Some(live) = &asked.live else {
        return asked.read();
    };
    let limit = until.saturating_duration_since(Instant::now());
    let limit = limit.saturating_sub(RESERVED).max(limit / 2);
    let own = asked.clone();
    let reason = match within(limit, move || own.read()) {
        Some(Ok(question)) => return Ok(question),
        Some(Err(error)) => one_line(&error),
        None => format!(
            "{live} gave none within {:.1} s; a longer --deadline waits longer",
            limit.as_secs_f64()
        ),
    };
    remarks.push(format!("placed without the live load: {reason}"));
    Asked {
        live: None,
        ..asked
    }
    .read()
}

/// Whether all hosts are nodes of the machine.
///
/// # Errors
/// The machine cannot be read.
fn are_nodes(hosts: &[(String, u32)], machine: &MachineSource) -> Result<Result<()>> {
    let names: Vec<&str> = hosts.iter().map(|(host, _)| host.as_str()).collect();
    let found = parse_node_list(&names.join(","), &machine.read()?.fabric, &mut |_| ());
    Ok(found.map(drop).map_err(Into::into))
}

/// The best placement of the recorded traffic on the hosts of this launch.
fn place(
    record: &Record,
    shape: &Shape,
    hosts: &[(String, u32)],
    machine: MachineSource,
    live: Option<Live>,
    until: Instant,
    remarks: &mut Vec<String>,
) -> Result<Placed> {
    let same = record.slots(hosts);
    let asked = Asked {
        traffic: record.folder.display().to_string(),
        machine,
        current: same.is_some().then(|| record.placement.clone()),
        nodes: Some(match same {
            Some(list) => list,
            None => {
                let spread = shape.spread(hosts, record.ranks())?;
                let words = spread.iter().map(|(host, own)| format!("{host}:{own}"));
                words.collect::<Vec<_>>().join(",")
            }
        }),
        live,
        ..Asked::default()
    };
    let mut question = read(asked, until, remarks)?;
    let left = until
        .saturating_duration_since(Instant::now())
        .as_secs_f64();
    let effort = Effort {
        seconds: (0.6 * left).clamp(0.01, SEARCH),
        stop: Some(&STOP),
        ..Effort::DEFAULT
    };
    let mapping = search(&question, &effort, &|_| {})?;
    question.settle(&mapping.placement)?;
    Ok(Placed {
        cut: effort.seconds < ENOUGH || mapping.certificate.interrupted,
        question,
        mapping,
    })
}

/// The placement that the launcher makes without a change.
fn launched(mapping: &Mapping) -> &Evaluation {
    let c = &mapping.certificate;
    c.current.as_ref().unwrap_or(&c.baseline)
}

fn pays(mapping: &Mapping) -> bool {
    let before = launched(mapping).exchange_seconds();
    mapping.certificate.result.exchange_seconds() < (1.0 - WORTH) * before
}

fn sentence(mapping: &Mapping, cut: bool) -> String {
    let (before, after) = (launched(mapping), &mapping.certificate.result);
    let ratio = after.exchange_seconds() / before.exchange_seconds();
    if !pays(mapping) && cut {
        return "command unchanged: no better order was found before the deadline (--deadline)"
            .to_owned();
    }
    if !pays(mapping) {
        return "command unchanged: the launcher's own order is as good".to_owned();
    }
    format!(
        "the order of {} ranks is changed: {} % less time on the worst link, by bytes over capacity (uncalibrated)",
        count(mapping.placement.tasks()),
        less(ratio)
    )
}

/// Per cent that are gained at least: 100 only if nothing is left.
fn less(ratio: f64) -> u32 {
    (100.0 * (1.0 - ratio) + 1e-6) as u32
}

/// The command's identity: program, arguments, number of ranks with the options that lay them out, and the programs that
/// run it. If the number is not stated, it follows from the slots and these options.
fn identity(words: &[OsString], shape: &Shape, hosts: &[(String, u32)]) -> Vec<String> {
    let start = shape.program.unwrap_or(0);
    let program = find(&words[start]).and_then(|p| p.canonicalize().ok());
    let program = program.map_or_else(|| words[start].clone(), PathBuf::into_os_string);
    let mut ranks = shape.ranks.map_or_else(
        || {
            let slots: u64 = hosts.iter().map(|host| u64::from(host.1)).sum();
            format!("all of {slots} slots on {} hosts as", hosts.len())
        },
        |ranks| ranks.to_string(),
    );
    for option in &shape.layout {
        ranks += &format!(" {option}");
    }
    let around = words
        .get(shape.first.unwrap_or(start)..start)
        .unwrap_or(&[]);
    let all = [OsString::from(ranks + " ranks:")].into_iter();
    let all = all.chain(around.iter().cloned()).chain([program]);
    all.chain(words[start + 1..].iter().cloned())
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// A machine that this host describes.
fn discovered() -> Option<MachineSource> {
    let found = ["/etc/slurm/topology.yaml", "/etc/slurm/topology.conf"];
    let file = found.into_iter().find(|f| Path::new(f).is_file())?;
    Some(MachineSource {
        fabric: file.to_owned(),
        ..MachineSource::default()
    })
}

/// Folder of the records.
fn state(settings: &Settings) -> Result<PathBuf> {
    if let Some(folder) = settings.value("state") {
        let path = std::path::absolute(folder)?;
        if path.exists() && !path.is_dir() {
            let error = InputError::new(settings.shown("state").1, folder, "a folder as state");
            let hint = "name a folder that all nodes share; it is made if it is missing";
            return Err(error.hint(hint).into());
        }
        return Ok(path);
    }
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let home = variable("XDG_STATE_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
    match home {
        Some(home) => Ok(home.join("hopbyte/runs")),
        None => Err(JobError::refused(
            "no HOME: set HOPBYTE_STATE to a folder that all nodes share",
        )),
    }
}
