//! Hopbyte's libraries, each tried in a job.

use super::basics::Basics;
use super::connect::Attempt;
use super::{Ability, Checked, Folder, Tried, last_line};
use crate::error::{JobError, Result};
use crate::record::launch::{self, Flavour, Launcher};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Preload libraries with a flavour that are tried by loading them, and their purpose.
pub(super) const LIBRARIES: [(&str, &str); 7] = [
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
impl Checked {
    /// Whether jobs run with a library.
    pub(super) fn preloaded(
        &self,
        tool: &'static str,
        about: &str,
        flavour: Flavour,
        program: &Path,
        libraries: Option<&Path>,
    ) -> Result<Ability> {
        let path = match launch::library(tool, flavour, libraries) {
            Ok(path) => path,
            Err(error) => return Ok(self.absent(tool, &error)),
        };
        let words = preload(&self.kind, &path);
        let attempt = self.attempt(&words);
        // The recorder writes files.
        let folder = Folder::new()?;
        let mut command = self.command(2, &attempt, program);
        command.env("HOPBYTE_RECORD_DIR", &folder.0);
        let tried: Option<Basics> = self.answer(command)?;
        let says = match &tried {
            Some(basics) if basics.has_loaded(&path) => {
                return Ok(self.row(tool, Some(true), &words.join(" "), about));
            }
            Some(_) => format!(
                "{about}: the job ran without it, the loader ignored {}",
                path.display()
            ),
            None => format!("{about}: a job of two ranks with it gave no answer"),
        };
        Ok(self.row(tool, Some(false), "", says))
    }

    /// Whether a program reads the recorder's counters through PAPI; the probe is such a program.
    pub(super) fn papi(
        &self,
        flavour: Flavour,
        program: &Path,
        libraries: Option<&Path>,
    ) -> Result<Ability> {
        let (papi, record) = (
            unflavoured("papi", libraries),
            launch::library("record", flavour, libraries),
        );
        let (papi, record) = match (papi, record) {
            (Ok(papi), Ok(record)) => (papi, record),
            (Err(error), _) | (_, Err(error)) => return Ok(self.absent("papi", &error)),
        };
        let both = format!("{}:{}", papi.display(), record.display());
        let words = preload(&self.kind, Path::new(&both));
        let attempt = self.attempt(&words);
        let folder = Folder::new()?;
        let mut command = self.command(2, &attempt, program);
        command
            .args(["--try", "papi"])
            .env("HOPBYTE_RECORD_DIR", &folder.0);
        let tried: Option<Tried> = self.answer(command)?;
        let about = "hopbyte's counters as events of PAPI";
        Ok(match tried {
            Some(t) if t.works => {
                let says = format!("{about}, {}", t.found);
                self.row("papi", Some(true), &words.join(" "), says)
            }
            Some(t) => self.row("papi", Some(false), "", format!("{about}: {}", t.error)),
            None => {
                let says = format!("{about}: a job of two ranks with it gave no answer");
                self.row("papi", Some(false), "", says)
            }
        })
    }

    /// An attempt with the words that preload a library; under a scheduler without them.
    fn attempt(&self, words: &[String]) -> Attempt {
        let words = match self.kind {
            Launcher::Scheduler => Vec::new(),
            _ => words.to_vec(),
        };
        Attempt {
            words,
            ..Attempt::default()
        }
    }

    /// A library that is not there or cannot be preloaded.
    fn absent(&self, tool: &'static str, error: &JobError) -> Ability {
        let text = error.to_string();
        self.row(tool, Some(false), "", text.replace("\nhint: ", "; "))
    }

    /// Rendezvous by file works where the MPI can connect two jobs.
    pub(super) fn rendezvous(
        &self,
        connect: &Ability,
        flavour: Flavour,
        libraries: Option<&Path>,
    ) -> Ability {
        let path = match launch::library("dpm", flavour, libraries) {
            Ok(path) => path,
            Err(error) => return self.absent("dpm", &error),
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
    pub(super) fn notify(
        &self,
        basics: &Basics,
        flavour: Flavour,
        program: &Path,
        libraries: Option<&Path>,
    ) -> Result<Ability> {
        let path = match launch::library("notify", flavour, libraries) {
            Ok(path) => path,
            Err(error) => return Ok(self.absent("notify", &error)),
        };
        let mut command = self.command(2, &Attempt::default(), program);
        command.args(["--try", "notify"]);
        let tried: Option<Tried> = self.answer(command)?;
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
    pub(super) fn lock(&self, basics: &Basics, libraries: Option<&Path>) -> Ability {
        let path = match unflavoured("lock", libraries) {
            Ok(path) => path,
            Err(error) => return self.absent("lock", &error),
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

    pub(super) fn shmem(&self) -> Ability {
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

/// A library that calls no MPI, so that there is one for all.
fn unflavoured(tool: &str, folder: Option<&Path>) -> Result<PathBuf> {
    launch::preloadable(&format!("libhopbyte_{tool}.so"), folder)
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
