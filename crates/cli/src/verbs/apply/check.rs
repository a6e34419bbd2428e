//! Checks the launcher's placement against the mapping: by a program that reports its place, or by a job's
//! own record.

use super::super::record::flavour;
use crate::output::{Answer, Output, Table, count};
use anyhow::Result;
use hopbyte_apply::{Checked, Launch};
use hopbyte_job::ran::{self, Start};
use hopbyte_job::record::launch::Flavour;
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;

/// Limit of printed differences.
const ROWS: usize = 20;
/// Options of the check.
#[derive(clap::Args, Debug)]
pub struct Settings {
    /// Start a program under the launcher after `--` that reports the ranks' places, and compare; exit code 1 if
    /// they differ or shared memory is lost
    #[arg(long, requires = "launcher", help_heading = "Check")]
    pub check: bool,
    /// Compare with the places of a job's ranks: the placement.csv of `hopbyte record`, a rankfile, a hostfile
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "check",
        help_heading = "Check"
    )]
    pub ran: Option<PathBuf>,
    /// The launcher's MPI, if it cannot be detected; without one only hosts are compared
    #[arg(long, value_parser = flavour(), value_name = "MPI", help_heading = "Check")]
    flavour: Option<Flavour>,
    /// Folder of the probes, with ompi, mpich, abi (default: installed, or build/probes)
    #[arg(long, value_name = "FOLDER", help_heading = "Check")]
    programs: Option<PathBuf>,
    /// Time limit of the job
    #[arg(
        long,
        default_value_t = 120.0,
        value_name = "SECONDS",
        help_heading = "Check"
    )]
    deadline: f64,
    /// The launcher with its options, after `--`, without a program
    #[arg(last = true, value_name = "LAUNCHER", requires = "check")]
    launcher: Vec<OsString>,
}

impl Settings {
    fn start(&self) -> Start {
        Start {
            launcher: self.launcher.clone(),
            flavour: self.flavour,
            programs: self.programs.clone(),
            deadline: self.deadline,
        }
    }

    /// Whether the program's MPI is MPICH or a relative, if given.
    pub fn mpich(&self) -> Option<bool> {
        self.flavour.map(|f| f != Flavour::Ompi)
    }
}

/// The JSON answer.
#[derive(Serialize)]
struct Answered<'a> {
    schema: &'static str,
    as_placed: bool,
    #[serde(flatten)]
    checked: &'a Checked,
}

/// Finds the places, compares and reports.
pub fn run(
    settings: &Settings,
    launch: &Launch<'_>,
    cores: bool,
    out: &mut Output,
) -> Result<Answer> {
    let say = &mut |note| out.talk(note);
    let seen = match &settings.ran {
        Some(path) => ran::of_file(path, launch, say)?,
        None => match ran::by_program(&settings.start(), launch.placement.tasks(), say)? {
            Some(seen) => seen,
            None => return Ok(Answer::No),
        },
    };
    let checked = launch.check(&seen, cores)?;
    if out.json {
        out.object(&Answered {
            schema: "hopbyte.apply.check/1",
            as_placed: checked.holds(),
            checked: &checked,
        })?;
    } else {
        write(&checked, out)?;
    }
    Ok(Answer::of(checked.holds()))
}

fn write(checked: &Checked, out: &mut Output) -> Result<()> {
    let name = |host: &Option<String>| host.clone().unwrap_or_else(|| "-".into());
    if !checked.elsewhere.is_empty() {
        let mut table = Table::new(&["rank", "<placed on", "<ran on"]);
        for d in checked.elsewhere.iter().take(ROWS) {
            table.row([d.rank.to_string(), name(&d.expected), name(&d.found)]);
        }
        out.table(&table)?;
        if let Some(more) = checked.elsewhere.len().checked_sub(ROWS + 1) {
            out.line(format!("and {} more; --json has all", count(more + 1)))?;
        }
        out.line("")?;
    }
    for split in checked.split.iter().take(ROWS) {
        out.line(format!(
            "{}: of {} ranks at most {} share memory",
            split.host, split.ranks, split.most_shared
        ))?;
    }
    if !checked.off_core.is_empty() {
        let mut table = Table::new(&["rank", "<host", "core", "<may use"]);
        for c in checked.off_core.iter().take(ROWS) {
            table.row([
                c.rank.to_string(),
                c.host.clone(),
                c.expected.to_string(),
                c.found.clone(),
            ]);
        }
        out.table(&table)?;
        out.line("")?;
    }
    for note in &checked.notes {
        out.talk(format!("note: {note}"));
    }
    let memory = if checked.memory_known {
        ", and those of one host share memory"
    } else {
        ""
    };
    let all = count(checked.ranks);
    let (wrong, split, off) = (
        checked.elsewhere.len(),
        checked.split.len(),
        checked.off_core.len(),
    );
    out.line(match (wrong, split, off) {
        (0, 0, 0) => format!("all {all} ranks are where they were placed{memory}"),
        (0, 0, off) => format!("all {all} ranks are on their hosts, and {} not on their cores", count(off)),
        (0, split, _) => format!(
            "all {all} ranks are on their hosts, and {} of the hosts were taken for several: their ranks send through the network; `hopbyte apply MAPPING` says which launcher keeps shared memory",
            count(split)
        ),
        (wrong, ..) => format!("{} of {all} ranks are not where they were placed", count(wrong)),
    })?;
    Ok(())
}
