//! Abilities of the MPIs of this machine, found by running a probe under their launchers: `hopbyte doctor --mpi`.

use crate::error::{Context, Result, refuse};
use crate::record::launch::{self, Flavour, Launcher};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Timeout of a trial; the probe ends by itself before it.
const PATIENCE: Duration = Duration::from_secs(15);
/// Launchers that are looked for.
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich"];
/// Preload libraries with a flavour that are tried by loading them, and their purpose.
const LIBRARIES: [(&str, &str); 7] = [
    ("record", "messages between ranks and time in MPI"),
    (
        "gm",
        "network counters of the job; `hopbyte doctor` lists those of this host",
    ),
    ("reorder", "rank order, MPICH_RANK_REORDER_METHOD 0 to 4"),
    ("io", "MPI-IO timers"),
    (
        "memory",
        "kinds of memory; `hopbyte doctor --memory` lists those of this host",
    ),
    ("mpit", "hopbyte's counters through MPI_T"),
    (
        "topology",
        "Cray's PMI and RCA calls, with HOPBYTE_COORDS_FILE",
    ),
];
/// The remedy for a library that is not there.
const MAKE: &str = "make -C mpi";
/// Settings under which a check may run more ranks than there are cores, and as root.
const LENIENT: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
];

/// One ability of an MPI: a row of `hopbyte.ability/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ability {
    schema: &'static str,
    /// The launcher.
    pub launcher: String,
    /// Short name, such as `spawn`.
    pub ability: &'static str,
    /// Whether it works; absent for properties.
    pub works: Option<bool>,
    /// Words for the launcher and its environment with which it works, empty if none are needed.
    pub flags: String,
    /// What was found.
    pub says: String,
}

/// The probe's line about a whole MPI.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Basics {
    library: String,
    mpi: String,
    abi: Option<String>,
    threads: String,
    windows: bool,
    small_windows_right: bool,
    performance_variables: i64,
    control_variables: i64,
    io: Option<String>,
    memory_kinds: Option<String>,
}

/// Its answer about a trial.
#[derive(Debug, Deserialize)]
struct Tried {
    works: bool,
    #[serde(default)]
    error: String,
}

/// Checks one launcher, or all that are found if the name is empty, with probes and libraries from these folders (default: installed beside
/// hopbyte, or built).
///
/// # Errors
/// The launcher is not there, or there is none.
pub fn check(
    launcher: &Path,
    probes: Option<&Path>,
    libraries: Option<&Path>,
) -> Result<Vec<Ability>> {
    let found = match launcher.as_os_str() {
        none if none.is_empty() => distinct(LAUNCHERS.iter().map(OsStr::new)),
        named if launch::find(named).is_some() => vec![launcher.to_owned()],
        named => refuse!("{}: no such program", named.display()),
    };
    if found.is_empty() {
        return Err(crate::Lacking(format!(
            "no launcher of an MPI ({}) was found\nhint: name it: --mpi PATH",
            LAUNCHERS.join(", ")
        ))
        .into());
    }
    let mut rows = Vec::new();
    for launcher in &found {
        Checked::new(launcher, probes)?.rows(libraries, &mut rows)?;
    }
    Ok(rows)
}

/// Whether a job could be started under every launcher.
#[must_use]
pub fn launched(rows: &[Ability]) -> bool {
    rows.iter()
        .all(|r| r.ability != "launch" || r.works == Some(true))
}

/// Launchers on the path, each once: `mpirun` is often another name of one that follows.
fn distinct<'a>(names: impl Iterator<Item = &'a OsStr>) -> Vec<PathBuf> {
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut found = Vec::new();
    for name in names {
        let Some(path) = launch::find(name) else {
            continue;
        };
        let real = path.canonicalize().unwrap_or(path);
        if !seen.contains(&real) {
            seen.push(real);
            found.push(PathBuf::from(name));
        }
    }
    found
}

/// A launcher under examination.
struct Checked {
    launcher: PathBuf,
    kind: Launcher,
    /// Of the launcher; 0 if it does not say it.
    version: u32,
    flavour: Option<Flavour>,
    program: Option<PathBuf>,
    probes: Option<PathBuf>,
}

impl Checked {
    fn new(launcher: &Path, probes: Option<&Path>) -> Result<Self> {
        let kind = Launcher::of(launcher.as_os_str())?;
        let flavour = kind.flavour();
        let mut checked = Self {
            launcher: launcher.to_owned(),
            version: version_of(launcher, &kind)?,
            kind,
            flavour,
            program: None,
            probes: probes.map(Path::to_owned),
        };
        checked.program = flavour.and_then(|f| checked.probe(f));
        Ok(checked)
    }

    /// The probe of a flavour, if possible of the launcher's version: `mpich4` before `mpich`.
    fn probe(&self, flavour: Flavour) -> Option<PathBuf> {
        let names = [
            format!("{}{}", flavour.name(), self.version),
            flavour.name().to_owned(),
        ];
        names.iter().find_map(|name| {
            let own = self.probes.as_ref().map(|p| p.join(name));
            let places = ["libexec/hopbyte", "build/probes"].map(|f| format!("{f}/{name}"));
            launch::beside("abilities", own.as_deref(), &places, "make -C probes").ok()
        })
    }

    fn row(
        &self,
        ability: &'static str,
        works: Option<bool>,
        flags: &str,
        says: impl Into<String>,
    ) -> Ability {
        Ability {
            schema: "hopbyte.ability/1",
            launcher: self.launcher.display().to_string(),
            ability,
            works,
            flags: flags.to_owned(),
            says: says.into(),
        }
    }

    /// The launch of a program on `ranks` ranks.
    fn command(&self, ranks: u32, attempt: &Attempt, program: &Path) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(&attempt.words);
        command.args(["-n", &ranks.to_string()]).arg(program);
        command
            .envs(LENIENT)
            .envs(attempt.environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        command
    }

    fn rows(&self, libraries: Option<&Path>, rows: &mut Vec<Ability>) -> Result<()> {
        let (Some(flavour), Some(program)) = (self.flavour, &self.program) else {
            let says = match self.flavour {
                None => "not a launcher of Open MPI or MPICH: nothing can be tried".to_owned(),
                Some(f) => format!("no probe `abilities` for {}: make -C probes", f.words()),
            };
            rows.push(self.row("launch", Some(false), "", says));
            return Ok(());
        };
        let basics: Option<Basics> = answer(self.command(2, &Attempt::default(), program))?;
        let Some(basics) = basics else {
            let says = "a job of two ranks gave no answer: run it by hand, `… -n 2 abilities`";
            rows.push(self.row("launch", Some(false), "", says));
            return Ok(());
        };
        self.properties(&basics, rows);
        rows.push(self.standard_abi(&basics)?);
        rows.push(self.spawn(program)?);
        let connect = self.connect(program)?;
        for (tool, about) in LIBRARIES {
            rows.push(self.preloaded(tool, about, flavour, program, libraries)?);
        }
        rows.push(self.rendezvous(&connect, flavour, libraries));
        rows.push(connect);
        rows.push(self.notify(&basics, flavour, program, libraries)?);
        rows.push(self.lock(&basics, libraries));
        rows.push(self.shmem());
        Ok(())
    }

    /// Whether jobs run with a library.
    fn preloaded(
        &self,
        tool: &'static str,
        about: &str,
        flavour: Flavour,
        program: &Path,
        libraries: Option<&Path>,
    ) -> Result<Ability> {
        let Ok(path) = launch::library(tool, flavour, libraries) else {
            return Ok(self.absent(tool, &format!("libhopbyte_{tool}_{}.so", flavour.name())));
        };
        let words = preload(&self.kind, &path);
        let mut attempt = Attempt::default();
        match self.kind {
            Launcher::Scheduler => {}
            _ => attempt.words.clone_from(&words),
        }
        // The recorder writes files.
        let folder = Folder::new()?;
        let mut command = self.command(2, &attempt, program);
        command.env("HOPBYTE_RECORD_DIR", &folder.0);
        let tried: Option<Basics> = answer(command)?;
        let says = match &tried {
            Some(_) => about.to_owned(),
            None => format!("{about}: a job of two ranks with it gave no answer"),
        };
        Ok(self.row(tool, Some(tried.is_some()), &words.join(" "), says))
    }

    fn absent(&self, tool: &'static str, file: &str) -> Ability {
        self.row(
            tool,
            Some(false),
            "",
            format!("{file} is not there: {MAKE}"),
        )
    }

    /// Rendezvous by file works where the MPI can connect two jobs.
    fn rendezvous(&self, connect: &Ability, flavour: Flavour, libraries: Option<&Path>) -> Ability {
        let Ok(path) = launch::library("dpm", flavour, libraries) else {
            return self.absent("dpm", &format!("libhopbyte_dpm_{}.so", flavour.name()));
        };
        let about = "MPICH_DPM_SERVER and MPICH_DPM_CLIENT by file";
        if connect.works != Some(true) {
            let says = format!("{about}: two jobs do not connect, see the next row");
            return self.row("dpm", Some(false), "", says);
        }
        let mut words = preload(&self.kind, &path).join(" ");
        if !connect.flags.is_empty() {
            words = format!("{words} and {}", connect.flags);
        }
        self.row("dpm", Some(true), &words, about)
    }

    /// Puts with signals between two ranks of this host; the probe has the library's source in it.
    fn notify(
        &self,
        basics: &Basics,
        flavour: Flavour,
        program: &Path,
        libraries: Option<&Path>,
    ) -> Result<Ability> {
        let Ok(path) = launch::library("notify", flavour, libraries) else {
            let file = format!("libhopbyte_notify_{}.so", flavour.name());
            return Ok(self.absent("notify", &file));
        };
        let mut command = self.command(2, &Attempt::default(), program);
        command.args(["--try", "notify"]);
        let tried: Option<Tried> = answer(command)?;
        let hosts = match self.kind {
            Launcher::OpenMpi(4) => "; between hosts over TCP only with Open MPI 5 or MPICH 5",
            _ => "",
        };
        let works = tried.as_ref().is_some_and(|t| t.works);
        let says = match tried {
            Some(t) if t.works && basics.threads == "multiple" => {
                format!("puts with signals, several threads, tried on this host{hosts}")
            }
            Some(t) if t.works => "puts with signals, one thread, tried on this host".to_owned(),
            Some(t) => format!("puts with signals: {}", last_line(&t.error)),
            None => "puts with signals: the trial did not end".to_owned(),
        };
        let flags = format!("{} on the link line", path.display());
        Ok(self.row("notify", Some(works), if works { &flags } else { "" }, says))
    }

    /// The fair lock is of use where the library has a global pthread mutex.
    fn lock(&self, basics: &Basics, libraries: Option<&Path>) -> Ability {
        let places = ["lib/hopbyte".into(), "build/mpi".into()];
        let Ok(path) = launch::beside("libhopbyte_lock.so", libraries, &places, MAKE) else {
            return self.absent("lock", "libhopbyte_lock.so");
        };
        let says = match self.kind {
            Launcher::OpenMpi(_) => {
                "Open MPI has locks of its own: HOPBYTE_LOCK=auto changes nothing"
            }
            _ if basics.mpi.split('.').next().and_then(|v| v.parse().ok()) < Some(5) => {
                let words = preload(&self.kind, &path).join(" ");
                let says =
                    "fair global lock for several threads (MPICH up to 4), HOPBYTE_LOCK=auto";
                return self.row("lock", Some(true), &words, says);
            }
            _ => "MPICH from 5 on serves threads fairly: HOPBYTE_LOCK=auto changes nothing",
        };
        self.row("lock", Some(false), "", says)
    }

    fn properties(&self, b: &Basics, rows: &mut Vec<Ability>) {
        let library = b.library.split_whitespace().collect::<Vec<_>>().join(" ");
        let other = match version_in(&library) {
            Some(version) if version != self.version && self.version > 0 => format!(
                "; the launcher is of version {}: the rows below are of the library that the probe is linked with",
                self.version
            ),
            _ => String::new(),
        };
        let says = format!("{library}, MPI {}{other}", b.mpi);
        rows.push(self.row("launch", Some(true), "", says));
        let multiple = b.threads == "multiple";
        rows.push(self.row(
            "threads",
            Some(multiple),
            "",
            format!("MPI_THREAD_{}", b.threads.to_uppercase()),
        ));
        let none = match b.performance_variables {
            0 => "; hopbyte's own are there with libhopbyte_mpit",
            _ => "",
        };
        let (performance, control) = (b.performance_variables, b.control_variables);
        let says =
            format!("{performance} performance and {control} control variables of its own{none}");
        rows.push(self.row("MPI_T", Some(performance >= 0), "", says));
        let io = match b.io.as_deref() {
            Some("ROMIO") => "ROMIO: libhopbyte_io times exchange, file system and waiting",
            Some("OMPIO") => "OMPIO: libhopbyte_io infers the exchange; --mca io romio321 times it",
            _ => "no file could be opened",
        };
        rows.push(self.row("I/O", Some(b.io.is_some()), "", io));
        let windows = match (b.windows, b.small_windows_right) {
            (false, _) => "MPI_Win_allocate fails; Open MPI: --mca osc rdma, or ^ucx",
            (true, false) => {
                "windows below 64 bytes misplace data (MPICH 4.0): allocate larger ones"
            }
            (true, true) => "small ones are right on this host",
        };
        rows.push(self.row(
            "windows",
            Some(b.windows && b.small_windows_right),
            "",
            windows,
        ));
        let kinds = b
            .memory_kinds
            .as_deref()
            .unwrap_or("the MPI tells of none (before MPI 4.1)");
        rows.push(self.row("memory kinds", Some(b.memory_kinds.is_some()), "", kinds));
    }

    /// Whether a program for the standard ABI runs under the launcher.
    fn standard_abi(&self, basics: &Basics) -> Result<Ability> {
        let says = "programs linked with libmpi_abi.so: version";
        if let Some(version) = &basics.abi {
            return Ok(self.row("ABI", Some(true), "", format!("{says} {version}")));
        }
        let Some(program) = self
            .probe(Flavour::Abi)
            .filter(|_| self.kind.starts(Flavour::Abi))
        else {
            return Ok(self.row(
                "ABI",
                Some(false),
                "",
                "no standard ABI: MPICH from 5, Open MPI from 6",
            ));
        };
        let basics: Option<Basics> = answer(self.command(2, &Attempt::default(), &program))?;
        Ok(match basics.and_then(|b| Some((b.abi?, b.library))) {
            Some((version, library)) => {
                let says = format!("{says} {version} ({library})");
                self.row("ABI", Some(true), "", says)
            }
            None => self.row(
                "ABI",
                Some(false),
                "",
                "a program linked with libmpi_abi.so does not run",
            ),
        })
    }

    fn spawn(&self, program: &Path) -> Result<Ability> {
        let mut command = self.command(1, &Attempt::default(), program);
        command.args(["--try", "spawn"]);
        let tried: Option<Tried> = answer(command)?;
        Ok(match tried {
            Some(t) if t.works => {
                self.row("spawn", Some(true), "", "MPI_Comm_spawn started a process")
            }
            Some(t) => self.row(
                "spawn",
                Some(false),
                "",
                format!("MPI_Comm_spawn: {}", last_line(&t.error)),
            ),
            None => self.row(
                "spawn",
                Some(false),
                "",
                "MPI_Comm_spawn did not return, or ended the job",
            ),
        })
    }

    /// Two jobs that find each other by a port, without flags and with those that are known to help.
    fn connect(&self, program: &Path) -> Result<Ability> {
        let attempts = Attempt::all(&self.kind);
        let mut said = String::new();
        for attempt in &attempts {
            match self.connect_once(program, attempt)? {
                Ok(()) => {
                    let says = "MPI_Comm_connect and MPI_Comm_accept between two jobs";
                    return Ok(self.row("connect", Some(true), &attempt.flags(), says));
                }
                Err(why) => said = why,
            }
        }
        let tried: Vec<String> = attempts
            .iter()
            .map(Attempt::flags)
            .filter(|f| !f.is_empty())
            .collect();
        let also = match tried.is_empty() {
            true => String::new(),
            false => format!(", also not with {}", tried.join("; ")),
        };
        let hint = match self.kind {
            Launcher::OpenMpi(version) if version >= 5 => {
                "; its documentation asks for both jobs in one DVM (prte, prun), which is not tried"
            }
            _ => "",
        };
        Ok(self.row("connect", Some(false), "", format!("{said}{also}{hint}")))
    }

    fn connect_once(&self, program: &Path, attempt: &Attempt) -> Result<Result<(), String>> {
        let folder = Folder::new()?;
        let (port, uri) = (folder.0.join("port"), folder.0.join("uri"));
        let mut server = Server(None);
        let mut attempt = attempt.clone();
        if attempt.server {
            let Some(started) = Server::start(&uri) else {
                return Ok(Err("ompi-server is not there or does not start".into()));
            };
            server = started;
            attempt.words = vec!["--ompi-server".into(), format!("file:{}", uri.display())];
        }
        let mut accept = self.command(1, &attempt, program);
        accept.args(["--try", "accept"]).arg(&port);
        let accepting = std::thread::spawn(move || answer::<Tried>(accept));
        let mut connect = self.command(1, &attempt, program);
        connect.args(["--try", "connect"]).arg(&port);
        let connected = answer::<Tried>(connect);
        let accepted = accepting.join();
        drop(server);
        let (Ok(accepted), connected) = (accepted, connected?) else {
            return Ok(Err("the trial failed".into()));
        };
        Ok(match (accepted?, connected) {
            (Some(a), Some(c)) if a.works && c.works => Ok(()),
            (a, c) => Err(a
                .into_iter()
                .chain(c)
                .find(|t| !t.works)
                .map_or("the jobs do not find each other".into(), |t| {
                    last_line(&t.error).into()
                })),
        })
    }

    fn shmem(&self) -> Ability {
        let beside = self.launcher.parent().map(|f| f.join("oshrun"));
        let found = beside
            .filter(|p| p.components().count() > 1 && p.is_file())
            .or_else(|| launch::find(OsStr::new("oshrun")));
        match (found, &self.kind) {
            (Some(path), Launcher::OpenMpi(4)) => self.row(
                "shmem",
                Some(true),
                "--mca memory ^patcher",
                format!(
                    "{}; without the flag programs crash at their end (Open MPI 4.1 of Debian)",
                    path.display()
                ),
            ),
            (Some(path), Launcher::OpenMpi(_)) => self.row(
                "shmem",
                None,
                "",
                format!("{}, of which MPI is not checked", path.display()),
            ),
            _ => self.row("shmem", Some(false), "", "no oshrun of this MPI"),
        }
    }
}

/// Words that preload a library.
fn preload(kind: &Launcher, path: &Path) -> Vec<String> {
    let path = path.display();
    match kind {
        Launcher::OpenMpi(_) => vec!["-x".into(), format!("LD_PRELOAD={path}")],
        Launcher::Hydra => vec!["-genv".into(), "LD_PRELOAD".into(), path.to_string()],
        Launcher::Scheduler => vec![format!("LD_PRELOAD={path}")],
    }
}

/// The last line of an error's text, which in MPICH's stacks is the cause.
fn last_line(text: &str) -> &str {
    text.trim_end().lines().last().unwrap_or("").trim()
}

/// The first number with a point, up to the point: the major version.
fn version_in(text: &str) -> Option<u32> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let first = numbers.find(|n| n.trim_matches('.').contains('.'))?;
    first.split('.').next()?.parse().ok()
}

/// Major version of a launcher; 0 if it does not say it.
fn version_of(launcher: &Path, kind: &Launcher) -> Result<u32> {
    Ok(match kind {
        Launcher::OpenMpi(version) => *version,
        Launcher::Hydra => {
            let said = launch::said_by(Command::new(launcher).arg("--version"))?;
            let line = said.lines().find(|l| l.contains("Version"));
            line.and_then(version_in).unwrap_or(0)
        }
        Launcher::Scheduler => 0,
    })
}

/// A way to start two jobs that shall connect.
#[derive(Clone, Debug, Default)]
struct Attempt {
    words: Vec<String>,
    environment: Vec<(&'static str, &'static str)>,
    /// With `ompi-server` beside them.
    server: bool,
}

impl Attempt {
    fn all(kind: &Launcher) -> Vec<Self> {
        let plain = Self::default();
        match kind {
            Launcher::OpenMpi(version) if *version < 5 => vec![Self {
                server: true,
                ..plain
            }],
            Launcher::Hydra => vec![
                Self {
                    environment: vec![("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp")],
                    ..plain.clone()
                },
                plain,
            ],
            _ => vec![plain],
        }
    }

    fn flags(&self) -> String {
        let mut words: Vec<String> = self
            .environment
            .iter()
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        if self.server {
            words.push("ompi-server --no-daemonize -r URI & mpirun --ompi-server file:URI".into());
        }
        words.join(" ")
    }
}

/// A folder of this process's own, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("hopbyte-abilities-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Open MPI's name server, ended when dropped.
struct Server(Option<Child>);

impl Server {
    fn start(uri: &Path) -> Option<Self> {
        let program = launch::find(OsStr::new("ompi-server"))?;
        let mut command = Command::new(program);
        command
            .args(["--no-daemonize", "-r"])
            .arg(uri)
            .envs(LENIENT);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Self(Some(command.spawn().ok()?));
        for _ in 0..250 {
            if uri.metadata().is_ok_and(|m| m.len() > 0) {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The last line of a command's output that is the probe's; `None` without one.
fn answer<T: for<'a> Deserialize<'a>>(command: Command) -> Result<Option<T>> {
    let text = launch::output_for(command, PATIENCE)?;
    let mut lines = text.lines().rev();
    Ok(lines.find_map(|l| serde_json::from_str(l.get(l.find("{\"schema\"")?..)?).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_attempt() {
        let hydra = Attempt::all(&Launcher::Hydra);
        assert_eq!(hydra[0].flags(), "MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=tcp");
        assert_eq!(hydra[1].flags(), "");
        assert!(
            Attempt::all(&Launcher::OpenMpi(4))[0]
                .flags()
                .contains("--ompi-server file:URI")
        );
        assert_eq!(Attempt::all(&Launcher::OpenMpi(5))[0].flags(), "");
    }

    #[test]
    fn versions_are_found() {
        for (text, version) in [
            ("MPICH Version: 5.0.2", Some(5)),
            ("Open MPI v4.1.4", Some(4)),
            (
                "    Version:                                 4.0.2",
                Some(4),
            ),
            (
                "Intel(R) MPI Library for Linux* OS, Version 2021.17 Build 20",
                Some(2021),
            ),
            ("a library.", None),
        ] {
            assert_eq!(version_in(text), version, "{text}");
        }
    }

    #[test]
    fn answers_are_found_among_other_lines() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo warning; echo '[0] {\"schema\":\"x\",\"works\":true}'; echo bye",
        ]);
        command.stdout(Stdio::piped());
        assert!(answer::<Tried>(command).unwrap().unwrap().works);
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo '{\"schema\"'"])
            .stdout(Stdio::piped());
        assert!(answer::<Tried>(command).unwrap().is_none());
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let error = check(Path::new("/nonexistent/mpirun"), None, None).unwrap_err();
        assert_eq!(error.to_string(), "/nonexistent/mpirun: no such program");
        let rows = check(Path::new("true"), None, None).unwrap();
        assert_eq!(rows[0].works, Some(false));
        assert!(rows[0].says.contains("not a launcher"));
    }
}
