//! Measuring the links between a job's nodes with topobw.

use super::plan;
use crate::error::{Context, Result, refuse};
use crate::machine::Machine;
use crate::record::child;
use crate::record::launch::{self, FLAVOURS, Flavour, Launcher};
use hopbyte_apply::write_atomic;
use hopbyte_fabric::NodeId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A run of topobw over a plan.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The probe's launch.
    pub probe: Probe,
    /// File for the output of topobw; the schedule is written beside it.
    pub output: PathBuf,
    /// Bytes of a message, as topobw reads them.
    pub bytes: String,
    /// Messages in flight.
    pub window: u32,
    /// Trials.
    pub trials: u32,
    /// Microseconds between polls of the messages.
    pub nap: u32,
}

impl Measurement {
    /// Runs it; `say` takes remarks.
    ///
    /// # Errors
    /// No launcher or probe, or a job that fails or exceeds its time limit.
    pub fn run(
        &self,
        machine: &Machine,
        nodes: &[NodeId],
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let (mut command, program) = self.probe.command("topobw")?;
        let schedule = self.output.with_extension("schedule");
        write_atomic(
            &schedule,
            &plan::plan(&machine.fabric, &machine.routing, nodes)?.text(),
        )?;
        let schedule = schedule.canonicalize().context("finding the schedule")?;
        command.arg("--schedule").arg(&schedule);
        command.args(["--bytes", &self.bytes]);
        for (option, value) in [
            ("--window", self.window),
            ("--trials", self.trials),
            ("--nap", self.nap),
        ] {
            command.args([option, &value.to_string()]);
        }
        command.arg("--json");
        say(format!("measuring with {}", program.display()));
        let results = self.probe.run("topobw", &mut command, &self.output)?;
        Ok(write_atomic(&self.output, &results)?)
    }
}

/// A probe under a launcher.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The launcher with its options, without a program.
    pub launcher: Vec<OsString>,
    /// The launcher's MPI, if it cannot be detected.
    pub flavour: Option<Flavour>,
    /// Folder of the probes, with one for each MPI; default: installed, or build/probes.
    pub programs: Option<PathBuf>,
    /// Time limit of the job in seconds.
    pub deadline: f64,
}

impl Probe {
    /// The launcher with a probe, and the probe's file.
    ///
    /// # Errors
    /// No launcher or probe, an MPI that cannot be detected, or a wrong time limit.
    pub(crate) fn command(&self, name: &str) -> Result<(Command, PathBuf)> {
        child::limit(self.deadline, child::LONGEST)?;
        let Some(first) = self.launcher.first() else {
            refuse!("no launcher\nhint: end with one, such as -- mpirun -np 16 --map-by node");
        };
        let Some(flavour) = self.flavour.or(Launcher::of(first)?.flavour()) else {
            refuse!(
                "the MPI of {} cannot be detected\nhint: {FLAVOURS}",
                first.display()
            );
        };
        let own = self.programs.as_ref().map(|p| p.join(flavour.name()));
        let places = launch::probe_places(flavour);
        let program = launch::beside(
            name,
            own.as_deref(),
            &places,
            ("make -C probes", Some("--programs")),
        )?;
        let mut command = Command::new(first);
        command.args(&self.launcher[1..]).arg(&program);
        Ok((command, program))
    }

    /// Runs a command and returns its output, which is in a file beside `output` until it has succeeded.
    ///
    /// # Errors
    /// A job that fails or exceeds its time limit.
    pub(crate) fn run(&self, name: &str, command: &mut Command, output: &Path) -> Result<Vec<u8>> {
        let unfinished = hopbyte_apply::beside(output)
            .with_context(|| format!("writing {}", output.display()))?;
        // The name is this process's own; an earlier run of it may have failed.
        let _ = std::fs::remove_file(&unfinished);
        let file = std::fs::File::create_new(&unfinished)
            .with_context(|| format!("writing {}", unfinished.display()))?;
        command.stdin(Stdio::null()).stdout(file);
        let deadline = Duration::from_secs_f64(self.deadline);
        match child::run_for(command, Some(deadline))? {
            Some(status) if status.success() => {}
            Some(status) => refuse!(
                "{name} ended with {status}; its output is in {}",
                unfinished.display()
            ),
            None => refuse!("{name} was ended at the deadline of {} s", self.deadline),
        }
        let results = std::fs::read(&unfinished)
            .with_context(|| format!("reading {}", unfinished.display()))?;
        std::fs::remove_file(&unfinished)?;
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_output_replaces_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let (output, own) = (folder.path().join("r.json"), folder.path().join("r.tmp"));
        std::fs::write(&own, "mine").unwrap();
        let probe = Probe {
            launcher: Vec::new(),
            flavour: None,
            programs: None,
            deadline: 20.0,
        };
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            probe.run("sh", &mut command, &output)
        };
        assert_eq!(shell("echo results").unwrap(), b"results\n");
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files(), 1);
        assert!(shell("echo some; exit 1").is_err());
        // What a failed run printed stays, until the next one.
        assert_eq!(files(), 2);
        assert!(shell("echo results").is_ok());
        assert_eq!(
            (files(), std::fs::read_to_string(&own).unwrap()),
            (1, "mine".into())
        );
    }
}
