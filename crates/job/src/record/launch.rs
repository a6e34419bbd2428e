//! Selects the preload library for a command, and the way its launcher passes it to the ranks.

use super::child::{Ended, run_until};
use super::output::said_by;
use super::preload::{
    PRELOAD, exported, exporting, is_srun, last_rule_of_flux, open_mpi_files, with_preload,
};
use crate::Lacking;
use crate::error::{Context, Result, refuse};
use crate::program;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The variable that turns the trace on.
pub const TRACE: &str = "HOPBYTE_RECORD_TRACE";
/// The recorder's environment variables, passed to the ranks if set.
const SETTINGS: [&str; 5] = [
    TRACE,
    "HOPBYTE_RECORD_TABLE",
    "HOPBYTE_RECORD_PCONTROL",
    "HOPBYTE_RECORD_LIVE",
    "HOPBYTE_RECORD_PVARS",
];

/// A binary interface of MPI, and the preload library for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Open MPI (libmpi.so.40)
    Ompi,
    /// MPICH and its relatives: Intel MPI, Cray MPICH, MVAPICH
    Mpich,
    /// The standard interface of MPI 5 (libmpi_abi.so)
    Abi,
}

/// Advice if the MPI of a program is not known.
pub(crate) const FLAVOURS: &str = "give --flavour ompi, mpich or abi";

impl FromStr for Flavour {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|f| f.name() == word);
        found.ok_or_else(|| format!("found {word:?}, expected ompi, mpich or abi"))
    }
}

impl Flavour {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ompi, Self::Mpich, Self::Abi];

    /// Name in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ompi => "ompi",
            Self::Mpich => "mpich",
            Self::Abi => "abi",
        }
    }

    /// Name in text output.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ompi => "Open MPI",
            Self::Mpich => "MPICH or a relative",
            Self::Abi => "the standard MPI ABI",
        }
    }

    /// The flavour of a shared library's name. MPICH's relatives call theirs `libmpi.so.12`, Open MPI
    /// from 2 on `libmpi.so.20` and above.
    fn of_library(name: &str) -> Option<Self> {
        let version = |stem: &str| {
            name.strip_prefix(stem)
                .and_then(|rest| rest.split('.').next())
                .and_then(|v| v.parse::<u32>().ok())
        };
        if name.starts_with("libmpi_abi.so") {
            Some(Self::Abi)
        } else if version("libmpi.so.").is_some_and(|v| v >= 20) {
            Some(Self::Ompi)
        } else if version("libmpi.so.").is_some()
            || name.starts_with("libmpich.so")
            || name.starts_with("libmpi_cray.so")
            || name.starts_with("libmpi_gnu")
        {
            Some(Self::Mpich)
        } else {
            None
        }
    }
}

/// Folders that hold the probes of a flavour, below an installation or a checkout.
pub fn probe_places(flavour: Flavour) -> [String; 2] {
    ["libexec/hopbyte", "build/probes"].map(|folder| format!("{folder}/{}", flavour.name()))
}

/// A program that starts ranks, by its way of passing an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Open MPI's mpirun, with its version: `-x NAME=VALUE`.
    OpenMpi(u32),
    /// Hydra, of MPICH and Intel MPI: `-genv NAME VALUE`.
    Hydra,
    /// Schedulers that start any MPI and pass their own environment.
    Scheduler,
}

impl Launcher {
    /// Recognises the first word of a command, by its name and its version output.
    pub fn of(word: &OsStr) -> Result<Self> {
        if !speaks(word) {
            return Ok(Self::Scheduler);
        }
        let said = said_by(Command::new(word).arg("--version"))
            .with_context(|| format!("asking {} for its version", word.display()))?;
        let version = |text: &str| {
            let mut numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.');
            let major = numbers.rfind(|n| n.contains('.'));
            major.and_then(|n| n.split('.').next()?.parse().ok())
        };
        let first = said.lines().next().unwrap_or("");
        if ["Open MPI", "OpenRTE", "PRRTE", "prte"]
            .iter()
            .any(|w| said.contains(w))
        {
            Ok(Self::OpenMpi(version(first).unwrap_or(0)))
        } else if ["HYDRA", "Intel(R) MPI", "MPICH"]
            .iter()
            .any(|w| said.contains(w))
        {
            Ok(Self::Hydra)
        } else {
            Ok(Self::Scheduler)
        }
    }

    /// The MPI that it belongs to, if any.
    pub fn flavour(&self) -> Option<Flavour> {
        match self {
            Self::OpenMpi(_) => Some(Flavour::Ompi),
            Self::Hydra => Some(Flavour::Mpich),
            Self::Scheduler => None,
        }
    }

    /// Whether ranks of a flavour can connect under it. Open MPI supports the standard ABI from version 6.
    pub(crate) fn starts(&self, flavour: Flavour) -> bool {
        match self {
            Self::OpenMpi(version) => {
                flavour == Flavour::Ompi || (flavour == Flavour::Abi && *version >= 6)
            }
            Self::Hydra => flavour != Flavour::Ompi,
            Self::Scheduler => true,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::OpenMpi(version) => format!("Open MPI {version}'s"),
            Self::Hydra => "MPICH's or Intel MPI's".into(),
            Self::Scheduler => "a scheduler's".into(),
        }
    }
}

/// Whether a word names a launcher of an MPI, which answers for its version.
pub(crate) fn speaks(word: &OsStr) -> bool {
    let name = Path::new(word)
        .file_name()
        .unwrap_or(word)
        .to_string_lossy();
    let all = ["mpirun", "mpiexec", "orterun", "prterun", "prun"];
    all.iter().any(|start| name.starts_with(start))
}

/// A parsed command.
#[derive(Debug)]
pub struct Job {
    words: Vec<OsString>,
    launcher: Launcher,
    /// The flavour that the program needs.
    pub flavour: Flavour,
    /// The preload library.
    pub library: PathBuf,
    /// Whether the ranks' programs are recorded in order.
    pub trace: bool,
}

impl Job {
    /// Parses a launch command. Fails, before anything is started, for a launcher that cannot
    /// start the program's MPI, and for an unrecognised command.
    pub fn understand(
        words: &[OsString],
        asked: Option<Flavour>,
        libraries: Option<&Path>,
    ) -> Result<Self> {
        let Some(first) = words.first() else {
            refuse!("no command\nhint: hopbyte record -- mpirun -np 4 ./app");
        };
        if find(first).is_none() {
            refuse!("{}: no such program", first.display());
        }
        let launcher = Launcher::of(first)?;
        // A launcher of an MPI is known by its version already.
        let launches = usize::from(launcher != Launcher::Scheduler);
        let linked = words[launches..].iter().find_map(|word| {
            let program = find(word)?;
            Some((program.clone(), linked_to(&program)?))
        });
        let flavour = match (asked, &linked, launcher.flavour()) {
            (Some(flavour), ..) => flavour,
            (None, Some((_, (flavour, _))), _) => *flavour,
            (None, None, Some(flavour)) => flavour,
            (None, None, None) => refuse!(
                "no program of '{}' is linked with an MPI, and the launcher does not tell which it is\n\
                 hint: {FLAVOURS}; a script that calls a launcher needs it too",
                words
                    .iter()
                    .map(|w| w.to_string_lossy())
                    .collect::<Vec<_>>()
                    .join(" ")
            ),
        };
        if let Some((program, (theirs, library))) = &linked {
            let name = program.display();
            if *theirs != flavour {
                refuse!(
                    "{name} is linked with {library}, {}; --flavour {} would not see its calls",
                    theirs.words(),
                    flavour.name()
                );
            }
        }
        if !launcher.starts(flavour) {
            let program = linked
                .as_ref()
                .map_or("the program".into(), |(p, (_, library))| {
                    format!("{} is linked with {library}", p.display())
                });
            refuse!(
                "{program}: {}, but {} is {}, under which every rank would be alone\n\
                 hint: use the launcher that belongs to the program's MPI",
                flavour.words(),
                first.display(),
                launcher.words()
            );
        }
        if let Launcher::OpenMpi(version) = launcher {
            open_mpi_files(words, version)?;
        }
        Ok(Self {
            words: words.to_vec(),
            launcher,
            flavour,
            library: library("record", flavour, libraries)?,
            trace: false,
        })
    }

    /// The preload library `tool` of the same flavour, from the recorder's folder.
    ///
    /// # Errors
    /// It is not there.
    pub fn tool(&self, tool: &str) -> Result<PathBuf> {
        library(tool, self.flavour, self.library.parent())
    }

    /// The command with the recorder preloaded, writing into `folder`.
    fn command(&self, folder: &Path) -> Command {
        self.preloading(&[&self.library], &[("HOPBYTE_RECORD_DIR", folder.into())])
    }

    /// The command with libraries preloaded, the first nearest to the program, and settings for its ranks.
    pub fn preloading(&self, libraries: &[&Path], settings: &[(&str, OsString)]) -> Command {
        let ours = libraries
            .iter()
            .map(|l| l.as_os_str())
            .collect::<Vec<_>>()
            .join(OsStr::new(":"));
        let mut preload = ours.clone();
        if let Some(others) = std::env::var_os(PRELOAD).filter(|o| !o.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let mut settings = settings.to_vec();
        settings.insert(0, (PRELOAD, preload.clone()));
        settings.extend(
            SETTINGS
                .iter()
                .filter_map(|&n| Some((n, std::env::var_os(n)?))),
        );
        if self.trace {
            settings.retain(|s| s.0 != TRACE);
            settings.push((TRACE, "1".into()));
        }
        let names: Vec<&str> = settings.iter().map(|s| s.0).collect();
        let is_srun = is_srun(&self.words[0]);
        let mut command = Command::new(&self.words[0]);
        if let Some(list) = std::env::var_os("SLURM_EXPORT_ENV")
            .and_then(|l| exported(&l, &names))
            .filter(|_| is_srun)
        {
            command.env("SLURM_EXPORT_ENV", list);
        }
        self.pass(&mut command, &settings, &self.words[1..]);
        // Open MPI before 5 passes to the programs of one job (a : b) what stands before each.
        let by_program = matches!(self.launcher, Launcher::OpenMpi(version) if version < 5);
        let last_rule = last_rule_of_flux(&self.words);
        for (at, word) in self.words.iter().enumerate().skip(1) {
            let merged = with_preload(&self.words[..at], word, &ours, &preload);
            let word = merged.as_ref().unwrap_or(word);
            match exporting(&self.words[..at], word, &names).filter(|_| is_srun) {
                Some(list) => command.arg(list),
                None => command.arg(word),
            };
            if last_rule == Some(at) {
                for (name, value) in &settings {
                    let mut rule = OsString::from(format!("--env={name}="));
                    rule.push(value);
                    command.arg(rule);
                }
            }
            if by_program && word == ":" {
                self.pass(&mut command, &settings, &self.words[at + 1..]);
            }
        }
        command
    }

    /// Adds settings for the ranks, as the launcher takes them, before the words of a program. Of two values of one
    /// name, Open MPI 4 takes the last and Open MPI 5 the first, so a preload of the user's stands for both.
    fn pass(&self, command: &mut Command, settings: &[(&str, OsString)], words: &[OsString]) {
        let mut program = words.split(|w| w == ":").next().unwrap_or(&[]).windows(2);
        let theirs = program.any(|pair| {
            let value = pair[1].to_string_lossy();
            pair[0] == "-x" && (value == PRELOAD || value.starts_with("LD_PRELOAD="))
        });
        for (name, value) in settings {
            match self.launcher {
                Launcher::OpenMpi(_) if theirs && *name == PRELOAD => {}
                Launcher::OpenMpi(_) => {
                    let mut word = OsString::from(name);
                    word.push("=");
                    word.push(value);
                    command.arg("-x").arg(word);
                }
                Launcher::Hydra => {
                    command.arg("-genv").arg(name).arg(value);
                }
                Launcher::Scheduler => {
                    command.env(name, value);
                }
            }
        }
    }

    /// Runs it with this process's input and output; see [`run_until`].
    pub fn run(
        &self,
        folder: &Path,
        deadline: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<Ended> {
        run_until(&mut self.command(folder), deadline, stop)
    }
}

/// The file that a word of a command line would execute.
pub fn find(word: &OsStr) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let runs = |p: &PathBuf| {
        p.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if word.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(word)).filter(runs);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(word))
        .find(runs)
}

/// The MPI that a program is linked with, directly or through its libraries, and that library's name.
pub(super) fn linked_to(program: &Path) -> Option<(Flavour, String)> {
    let mut magic = [0; 4];
    std::fs::File::open(program)
        .ok()?
        .read_exact(&mut magic)
        .ok()?;
    if &magic != b"\x7fELF" {
        return None;
    }
    let listed = said_by(Command::new("ldd").arg(program)).ok()?;
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    // The ABI library of MPICH may load its native one too.
    let found = names
        .iter()
        .filter_map(|&n| Some((Flavour::of_library(n)?, n.to_owned())));
    let found: Vec<_> = found.collect();
    let abi = found.iter().find(|(f, _)| *f == Flavour::Abi);
    abi.or(found.first()).cloned()
}

/// A preload library.
pub(crate) fn library(tool: &str, flavour: Flavour, folder: Option<&Path>) -> Result<PathBuf> {
    let name = format!("libhopbyte_{tool}_{}.so", flavour.name());
    preloadable(&name, folder)
}

/// A preload library by its file name, with a path that the loader can read.
///
/// # Errors
/// It is not there, or its path has a character at which the loader ends a name: it would ignore the library, and the job
/// would run without.
pub(crate) fn preloadable(name: &str, folder: Option<&Path>) -> Result<PathBuf> {
    let relative = ["lib/hopbyte".into(), "build/mpi".into()];
    let path = beside(
        name,
        folder,
        &relative,
        ("make -C mpi", Some("--libraries")),
    )?;
    if let Some(bad) = [' ', ':']
        .iter()
        .find(|&&c| path.to_string_lossy().contains(c))
    {
        return Err(Lacking(format!(
            "{}: LD_PRELOAD ends a name at {bad:?}\nhint: install hopbyte below a folder without blanks and colons, \
             or copy its libraries there and name the folder",
            path.display()
        ))
        .into());
    }
    Ok(path)
}

/// A file that is installed with hopbyte: in the given folder, else relative to the installed command
/// (`PREFIX/bin`) or built (`target/release`), else to the working folder. `make` builds it; `option`
/// names the folder, if there is one.
pub fn beside(
    name: &str,
    folder: Option<&Path>,
    relative: &[String],
    (make, option): (&str, Option<&str>),
) -> Result<PathBuf> {
    let folders: Vec<PathBuf> = match folder {
        Some(folder) => vec![folder.to_owned()],
        None => program::places(relative),
    };
    let found = folders
        .iter()
        .map(|f| f.join(name))
        .find(|path| path.is_file());
    let Some(path) = found else {
        let places: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
        let make = program::make(make);
        let option = option.map(|option| format!(", or name its folder with {option}"));
        return Err(Lacking(format!(
            "no {name} in {}\nhint: build it with `{make}`{}",
            places.join(", "),
            option.unwrap_or_default()
        ))
        .into());
    };
    path.canonicalize()
        .with_context(|| format!("finding {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_tell_their_mpi() {
        for (name, flavour) in [
            ("libmpi.so.40", Some(Flavour::Ompi)),
            ("libmpi.so.12", Some(Flavour::Mpich)),
            ("libmpich.so.12", Some(Flavour::Mpich)),
            ("libmpi_cray.so.12", Some(Flavour::Mpich)),
            ("libmpi_abi.so.1", Some(Flavour::Abi)),
            ("libmpi_mpifh.so.40", None),
            ("libm.so.6", None),
        ] {
            assert_eq!(Flavour::of_library(name), flavour, "{name}");
        }
    }

    #[test]
    fn launchers_start_their_own() {
        assert!(Launcher::OpenMpi(4).starts(Flavour::Ompi));
        assert!(
            !Launcher::OpenMpi(5).starts(Flavour::Abi) && Launcher::OpenMpi(6).starts(Flavour::Abi)
        );
        assert!(Launcher::Hydra.starts(Flavour::Abi) && !Launcher::Hydra.starts(Flavour::Ompi));
        assert!(Launcher::Scheduler.starts(Flavour::Ompi));
    }

    /// The launcher's arguments for a command.
    fn launched(launcher: Launcher, command: &str) -> String {
        let job = Job {
            words: command.split(' ').map(OsString::from).collect(),
            launcher,
            flavour: Flavour::Ompi,
            library: "r.so".into(),
            trace: true,
        };
        let command = job.preloading(&[Path::new("r.so")], &[]);
        let list = command.get_args().map(|a| a.to_string_lossy().into_owned());
        list.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_preload_of_the_user_comes_after_hopbytes() {
        let trace = "-x HOPBYTE_RECORD_TRACE=1";
        for (version, given, expected) in [
            (
                4,
                "-x LD_PRELOAD=u.so a : b",
                format!("{trace} -x LD_PRELOAD=r.so:u.so a : -x LD_PRELOAD=r.so {trace} b"),
            ),
            (
                5,
                "-x LD_PRELOAD a",
                format!("{trace} -x LD_PRELOAD=r.so a"),
            ),
            (
                5,
                "env LD_PRELOAD= a",
                format!("-x LD_PRELOAD=r.so {trace} env LD_PRELOAD=r.so a"),
            ),
        ] {
            let launcher = Launcher::OpenMpi(version);
            assert_eq!(launched(launcher, &format!("mpirun {given}")), expected);
        }
        let trace = "-genv HOPBYTE_RECORD_TRACE 1";
        for (given, expected) in [
            ("-genv LD_PRELOAD u.so a", "-genv LD_PRELOAD r.so:u.so a"),
            ("-env LD_PRELOAD u.so a", "-env LD_PRELOAD r.so:u.so a"),
            ("-genv LD_PRELOAD=u.so a", "-genv LD_PRELOAD=r.so:u.so a"),
            ("-genv PRELOAD u.so a", "-genv PRELOAD u.so a"),
        ] {
            assert_eq!(
                launched(Launcher::Hydra, &format!("mpiexec {given}")),
                format!("-genv LD_PRELOAD r.so {trace} {expected}")
            );
        }
        assert_eq!(
            launched(
                Launcher::Scheduler,
                "srun --export=ALL,LD_PRELOAD=u.so,A=1 a"
            ),
            "--export=ALL,LD_PRELOAD=r.so:u.so,A=1 a"
        );
        for (given, expected) in [
            (
                "--export=NONE a",
                "--export=LD_PRELOAD,HOPBYTE_RECORD_TRACE a",
            ),
            (
                "--export A=1 a",
                "--export A=1,LD_PRELOAD,HOPBYTE_RECORD_TRACE a",
            ),
            (
                "--export=LD_PRELOAD=u.so a",
                "--export=LD_PRELOAD=r.so:u.so,HOPBYTE_RECORD_TRACE a",
            ),
            ("--export=NONE,ALL a", "--export=NONE,ALL a"),
        ] {
            let said = launched(Launcher::Scheduler, &format!("srun {given}"));
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn filters_of_flux_leave_the_preload() {
        let settings = "--env=LD_PRELOAD=r.so --env=HOPBYTE_RECORD_TRACE=1";
        for (given, expected) in [
            ("-n 2 a", "-n 2 a".to_owned()),
            ("--env=-* -n 2 a", format!("--env=-* {settings} -n 2 a")),
            (
                "--env=-* --env-remove X a",
                format!("--env=-* --env-remove X {settings} a"),
            ),
        ] {
            let said = launched(Launcher::Scheduler, &format!("flux run {given}"));
            assert_eq!(said, format!("run {expected}"));
        }
    }

    #[test]
    fn every_program_of_a_job_gets_the_settings() {
        let arguments = |launcher| launched(launcher, "mpirun -np 2 a : -np 1 b");
        let settings = "-x LD_PRELOAD=r.so -x HOPBYTE_RECORD_TRACE=1";
        assert_eq!(
            arguments(Launcher::OpenMpi(4)),
            format!("{settings} -np 2 a : {settings} -np 1 b")
        );
        assert_eq!(
            arguments(Launcher::OpenMpi(5)),
            format!("{settings} -np 2 a : -np 1 b")
        );
        assert_eq!(
            arguments(Launcher::Hydra),
            "-genv LD_PRELOAD r.so -genv HOPBYTE_RECORD_TRACE 1 -np 2 a : -np 1 b"
        );
    }
}
