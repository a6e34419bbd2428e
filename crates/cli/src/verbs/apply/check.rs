//! Did the launcher put the ranks where the mapping has them? It starts a program that says where it is, or a
//! job has said so before.

use super::super::Answer;
use super::super::record::launch::{self, Flavour, Launcher};
use crate::failure::Lacking;
use crate::output::{Output, Table, count};
use anyhow::{Context, Result, bail};
use hopbyte_apply::{Checked, Launch, Seen};
use hopbyte_fabric::{Allocation, Fabric};
use hopbyte_observe::read_placement;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Most that a job may print before it is taken for another program.
const MOST_PRINTED: u64 = 1 << 28;
/// Rows of differences that are printed.
const ROWS: usize = 20;
/// A rank's line where no MPI program can say it. Slurm's own name of the node comes first: several of its daemons
/// may run on one machine.
const SCRIPT: &str = "rank=${SLURM_PROCID:-${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PALS_RANKID:-$FLUX_TASK_RANK}}}}}; \
     printf '{\"schema\":\"hopbyte.where/1\",\"rank\":%s,\"host\":\"%s\"}\\n' \"${rank:-null}\" \"${SLURMD_NODENAME:-$(hostname)}\"";

/// How to look.
#[derive(clap::Args, Debug)]
pub struct Settings {
    /// Start a program under the launcher behind `--` that says where its ranks are, and compare; exit code 1 when
    /// they are elsewhere or shared memory is lost
    #[arg(long, requires = "launcher", help_heading = "Check")]
    pub check: bool,
    /// Compare with where a job's ranks ran: the placement.csv of `hopbyte record`, a rankfile, a hostfile
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "check",
        help_heading = "Check"
    )]
    pub ran: Option<PathBuf>,
    /// The launcher's MPI, where it does not tell; without one only hosts are compared
    #[arg(long, value_enum, value_name = "MPI", help_heading = "Check")]
    flavour: Option<Flavour>,
    /// Where the probes are: a folder with ompi, mpich, abi (default: installed, or build/probes)
    #[arg(long, value_name = "FOLDER", help_heading = "Check")]
    programs: Option<PathBuf>,
    /// End the job after so long
    #[arg(
        long,
        default_value_t = 120.0,
        value_name = "SECONDS",
        help_heading = "Check"
    )]
    deadline: f64,
    /// The launcher with its options, behind `--`, without a program
    #[arg(last = true, value_name = "LAUNCHER", requires = "check")]
    launcher: Vec<OsString>,
}

impl Settings {
    /// Whether the program's MPI is MPICH or a relative, where it was said.
    pub fn mpich(&self) -> Option<bool> {
        self.flavour.map(|f| f != Flavour::Ompi)
    }
}

/// A line of the program.
#[derive(Deserialize)]
struct Line {
    rank: Option<usize>,
    host: String,
    cpus: Option<String>,
    cores: Option<String>,
    shared: Option<u32>,
}

/// The answer for scripts.
#[derive(Serialize)]
struct Answered<'a> {
    schema: &'static str,
    as_placed: bool,
    #[serde(flatten)]
    checked: &'a Checked,
}

/// Looks, compares, says.
pub fn run(
    settings: &Settings,
    launch: &Launch<'_>,
    cores: bool,
    out: &mut Output,
) -> Result<Answer> {
    let seen = match &settings.ran {
        Some(path) => ran(path, launch.fabric, launch.allocation)?,
        None => match start(settings, launch.placement.tasks(), out)? {
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
    Ok(if checked.holds() {
        Answer::Yes
    } else {
        Answer::No
    })
}

/// Where a job's ranks ran, from its own file.
fn ran(path: &Path, fabric: &Fabric, allocation: &Allocation) -> Result<Vec<Option<Seen>>> {
    let placed = read_placement(path, fabric, None)
        .or_else(|_| read_placement(path, fabric, Some(allocation)))?;
    let of = |slot: &hopbyte_fabric::Slot| {
        Some(Seen {
            host: fabric.node(slot.node).host.clone(),
            shared: None,
            cpus: None,
            cores: None,
        })
    };
    Ok(placed.placement.slots().iter().map(of).collect())
}

/// Starts the program; what the ranks said, or `None` when the job did not come to its end, which is said.
fn start(settings: &Settings, ranks: usize, out: &mut Output) -> Result<Option<Vec<Option<Seen>>>> {
    let Some(first) = settings.launcher.first() else {
        bail!(
            "no launcher\nhint: hopbyte apply MAPPING --check -- mpirun -n 8 --rankfile rankfile"
        );
    };
    if !(settings.deadline > 0.0 && settings.deadline <= 1e6) {
        bail!(
            "--deadline: found {}, expected seconds above 0",
            settings.deadline
        );
    }
    let Some(program) = launch::find(first) else {
        return Err(Lacking(format!(
            "{}: no such program\nhint: give the launcher as on the job's own command line",
            first.display()
        ))
        .into());
    };
    let flavour = settings
        .flavour
        .or(Launcher::of(program.as_os_str())?.flavour());
    let mut command = Command::new(first);
    command.args(&settings.launcher[1..]);
    match mpi_program(flavour, settings)? {
        Some(program) => {
            out.talk(format!("starting {}", program.display()));
            command.arg(program).arg("--json");
            command.args(["--deadline", &settings.deadline.to_string()]);
        }
        None => {
            out.talk(
                "no MPI program for this launcher: hosts are compared, shared memory is not \
                 (--flavour names the MPI, `make -C probes` builds the program)",
            );
            command.args(["sh", "-c", SCRIPT]);
        }
    }
    let (reader, writer) = std::io::pipe().context("making a pipe")?;
    command.stdin(Stdio::null()).stdout(writer);
    let printed = std::thread::spawn(move || {
        let mut text = Vec::new();
        // What was printed before an error counts; the job's own status tells of the rest.
        let _ = reader.take(MOST_PRINTED).read_to_end(&mut text);
        text
    });
    let deadline = Duration::from_secs_f64(settings.deadline);
    let status = launch::run_for(&mut command, Some(deadline))?;
    drop(command);
    let text = printed.join().unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(Some(said(&String::from_utf8_lossy(&text), ranks)?)),
        Some(status) => {
            out.talk(format!("the launcher did not start the job ({status})"));
            Ok(None)
        }
        None => {
            out.talk(format!(
                "the job was ended at the deadline of {} s",
                settings.deadline
            ));
            Ok(None)
        }
    }
}

/// The program `where` of an MPI; without one asked for by name, its absence is no error.
fn mpi_program(flavour: Option<Flavour>, settings: &Settings) -> Result<Option<PathBuf>> {
    let Some(flavour) = flavour else {
        return Ok(None);
    };
    let relative = [
        format!("libexec/hopbyte/{}", flavour.name()),
        format!("build/probes/{}", flavour.name()),
    ];
    let own = settings.programs.as_ref().map(|p| p.join(flavour.name()));
    match launch::beside("where", own.as_deref(), &relative, "make -C probes") {
        Ok(program) => Ok(Some(program)),
        Err(error) if settings.programs.is_some() || settings.flavour.is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

/// The ranks' lines among what a job printed.
fn said(text: &str, ranks: usize) -> Result<Vec<Option<Seen>>> {
    let mut seen: Vec<Option<Seen>> = vec![None; ranks];
    let lines = text
        .lines()
        .filter_map(|l| serde_json::from_str::<Line>(l.trim()).ok());
    let mut count = 0;
    for line in lines {
        count += 1;
        let Some(rank) = line.rank else {
            bail!(
                "the ranks do not know their number\nhint: this launcher sets none of the usual variables; give --flavour"
            );
        };
        if rank >= seen.len() {
            if rank > hopbyte_observe::traffic::MAX_TASKS {
                bail!("a rank says it is number {rank}");
            }
            seen.resize(rank + 1, None);
        }
        if seen[rank].is_some() {
            bail!(
                "rank {rank} came twice: every process is a job of its own\n\
                 hint: the program's MPI is not the launcher's; give --flavour ompi, mpich or abi"
            );
        }
        seen[rank] = Some(Seen {
            host: line.host,
            shared: line.shared,
            cpus: line.cpus,
            cores: line.cores.filter(|c| !c.is_empty()),
        });
    }
    if count == 0 {
        bail!("the job ended without a word of where its ranks were");
    }
    Ok(seen)
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
            "all {all} ranks are on their hosts, and {} of the hosts were taken for several: their ranks talk through the network; `hopbyte apply MAPPING` says which launcher keeps shared memory",
            count(split)
        ),
        (wrong, ..) => format!("{} of {all} ranks are not where they were placed", count(wrong)),
    })?;
    Ok(())
}
