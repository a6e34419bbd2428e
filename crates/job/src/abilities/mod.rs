//! Abilities of the MPIs of this machine, found by running a probe under their launchers: `hopbyte doctor --mpi`.

mod basics;
mod connect;
mod libraries;

use crate::error::{Context, Result, refuse};
use crate::record::launch::{self, Flavour, Launcher};
use crate::record::output::{SAID, output, said_by};
use basics::Basics;
use connect::Attempt;
use libraries::LIBRARIES;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Timeout of the first job, which tells how fast this host starts one.
const FIRST: Duration = Duration::from_secs(60);
/// Least timeout of a trial; the probe ends by itself before it.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time of a trial in units of the first job's: it is a job too, and the slowest is two at once beside a server.
const SLACK: u32 = 10;
/// Variable by which the probe is told its own timeout, in seconds.
const PROBE_SECONDS: &str = "HOPBYTE_ABILITIES_SECONDS";
/// Launchers that are looked for.
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich"];
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

/// The probe's answer about a trial.
#[derive(Debug, Deserialize)]
struct Tried {
    works: bool,
    #[serde(default)]
    error: String,
    /// What was found, where the trial tells it.
    #[serde(default)]
    found: String,
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
    /// Timeout of a trial.
    patience: Duration,
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
            patience: FIRST,
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
            launch::beside(
                "abilities",
                own.as_deref(),
                &places,
                ("make -C probes", None),
            )
            .ok()
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
            .envs(attempt.environment.iter().copied())
            .env(PROBE_SECONDS, (self.patience * 2 / 3).as_secs().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        command
    }

    /// The answer of a trial.
    fn answer<T: for<'a> Deserialize<'a>>(&self, command: Command) -> Result<Option<T>> {
        answer(command, self.patience)
    }

    fn rows(&mut self, libraries: Option<&Path>, rows: &mut Vec<Ability>) -> Result<()> {
        let (Some(flavour), Some(program)) = (self.flavour, self.program.clone()) else {
            let says = match self.flavour {
                None => "not a launcher of Open MPI or MPICH: nothing can be tried".to_owned(),
                Some(f) => format!("no probe `abilities` for {}: make -C probes", f.words()),
            };
            rows.push(self.row("launch", Some(false), "", says));
            return Ok(());
        };
        let program = program.as_path();
        let start = Instant::now();
        let basics = self.answer(self.command(2, &Attempt::default(), program))?;
        self.patience = patience_after(start.elapsed());
        let Some(basics): Option<Basics> = basics else {
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
        rows.push(self.papi(flavour, program, libraries)?);
        rows.push(self.rendezvous(&connect, flavour, libraries));
        rows.push(connect);
        rows.push(self.notify(&basics, flavour, program, libraries)?);
        rows.push(self.lock(&basics, libraries));
        rows.push(self.shmem());
        Ok(())
    }
}

/// Timeout of the trials on a host that took this long for its first job: a loaded host must not look like an MPI that hangs.
fn patience_after(first: Duration) -> Duration {
    (first * SLACK).max(PATIENCE)
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
            let said = said_by(Command::new(launcher).arg("--version"))?;
            let line = said.lines().find(|l| l.contains("Version"));
            line.and_then(version_in).unwrap_or(0)
        }
        Launcher::Scheduler => 0,
    })
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

/// The last line of a command's output that is the probe's; `None` without one.
fn answer<T: for<'a> Deserialize<'a>>(
    mut command: Command,
    patience: Duration,
) -> Result<Option<T>> {
    let text = output(&mut command, patience, SAID)?.text();
    let mut lines = text.lines().rev();
    Ok(lines.find_map(|l| serde_json::from_str(l.get(l.find("{\"schema\"")?..)?).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_slow_host_gets_longer_trials() {
        for (first, trial) in [(0, 15_000), (1_400, 15_000), (8_000, 80_000)] {
            let found = patience_after(Duration::from_millis(first));
            assert_eq!(found, Duration::from_millis(trial), "{first}");
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
        assert!(answer::<Tried>(command, PATIENCE).unwrap().unwrap().works);
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo '{\"schema\"'"])
            .stdout(Stdio::piped());
        assert!(answer::<Tried>(command, PATIENCE).unwrap().is_none());
    }

    #[test]
    fn a_library_that_the_loader_would_ignore_is_refused() {
        let folder = Folder::new().unwrap();
        for (name, bad) in [("a b", "' '"), ("a:b", "':'")] {
            let below = folder.0.join(name);
            std::fs::create_dir(&below).unwrap();
            std::fs::write(below.join("libhopbyte_lock.so"), "").unwrap();
            let error = launch::preloadable("libhopbyte_lock.so", Some(&below)).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains(&format!("LD_PRELOAD ends a name at {bad}")),
                "{text}"
            );
        }
        std::fs::write(folder.0.join("libhopbyte_lock.so"), "").unwrap();
        assert!(launch::preloadable("libhopbyte_lock.so", Some(&folder.0)).is_ok());
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
