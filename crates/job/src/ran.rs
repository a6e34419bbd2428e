//! Observed placement of a job's ranks: from the job's own file, or from a program started under its launcher.

use crate::Lacking;
use crate::error::{Result, refuse};
use crate::record::child::{LONGEST, limit};
use crate::record::launch::{self, FLAVOURS, Flavour, Launcher};
use crate::record::output::output;
use hopbyte_apply::{Launch, Seen};
use hopbyte_fabric::units::count;
use hopbyte_fabric::{Class, InputError};
use hopbyte_observe::read_placement;
use serde::Deserialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Limit of a job's output; more is not the expected program's.
const MOST_PRINTED: usize = 1 << 28;
/// A rank's line without an MPI program. Slurm's node name comes first: several of its daemons
/// may run on one machine.
const SCRIPT: &str = "rank=${SLURM_PROCID:-${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PALS_RANKID:-$FLUX_TASK_RANK}}}}}; \
     printf '{\"schema\":\"hopbyte.where/1\",\"rank\":%s,\"host\":\"%s\"}\\n' \"${rank:-null}\" \"${SLURMD_NODENAME:-$(hostname)}\"";

/// Options to start the placement program.
#[derive(Clone, Debug)]
pub struct Start {
    /// The launcher with its options, without a program.
    pub launcher: Vec<OsString>,
    /// The launcher's MPI, if it cannot be detected.
    pub flavour: Option<Flavour>,
    /// Folder of the probes; default: installed, or build/probes.
    pub programs: Option<PathBuf>,
    /// Time limit of the job in seconds.
    pub deadline: f64,
}

/// A line of the program's output.
#[derive(Deserialize)]
struct PlaceLine {
    rank: Option<usize>,
    host: String,
    cpus: Option<String>,
    cores: Option<String>,
    shared: Option<u32>,
}

/// Ranks' places from the job's own file (placement.csv of `hopbyte record`, rankfile, hostfile); their GPUs if it states
/// them; `say` is told where the file may have been cut.
///
/// # Errors
/// The file cannot be read, names other nodes or has another number of ranks than the placement.
pub fn of_file(
    path: &Path,
    launch: &Launch<'_>,
    say: &mut dyn FnMut(String),
) -> Result<Vec<Option<Seen>>> {
    let Launch {
        fabric, allocation, ..
    } = *launch;
    // Numbers of GPUs may count among the allocated ones; a job that ran elsewhere is read without its allocation.
    let placed = read_placement(path, fabric, Some(allocation));
    let placed = match placed {
        Ok(placed) => placed,
        Err(why) => read_placement(path, fabric, None).map_err(|_| why)?,
    };
    placed.notes.iter().cloned().for_each(say);
    let (ran, ranks) = (placed.placement.tasks(), launch.placement.tasks());
    if ran != ranks {
        let found = format!("{} ranks", count(ran));
        let expected = format!("the {} ranks of the mapping", count(ranks));
        let error = InputError::new(path.display().to_string(), found, expected);
        let hint = "it is of another job, or of a run that was not launched as mapped";
        return Err(error.of(Class::OtherJob).hint(hint).into());
    }
    let of = |slot: &hopbyte_fabric::Slot| {
        let node = fabric.node(slot.node);
        Some(Seen {
            host: node.host.clone(),
            gpu: placed.states_gpus.then(|| node.name.clone()),
            shared: None,
            cpus: None,
            cores: None,
        })
    };
    Ok(placed.placement.slots().iter().map(of).collect())
}

/// Starts the program; `None` if the job did not complete, with the reason given to `say`.
///
/// # Errors
/// No such launcher, or ranks that contradict each other.
pub fn by_program(
    settings: &Start,
    ranks: usize,
    say: &mut dyn FnMut(String),
) -> Result<Option<Vec<Option<Seen>>>> {
    let Some(first) = settings.launcher.first() else {
        refuse!(
            "no launcher\nhint: hopbyte apply MAPPING --check -- mpirun -n 8 --rankfile rankfile"
        );
    };
    let deadline = limit(settings.deadline, LONGEST)?;
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
            say(format!("starting {}", program.display()));
            command.arg(program).arg("--json");
            command.args(["--deadline", &settings.deadline.to_string()]);
        }
        None => {
            say(
                "no MPI program for this launcher: hosts are compared, shared memory is not \
                 (--flavour names the MPI, `make -C probes` builds the program)"
                    .to_owned(),
            );
            command.args(["sh", "-c", SCRIPT]);
        }
    }
    let printed = output(&mut command, deadline, MOST_PRINTED)?;
    if printed.truncated {
        refuse!("the job printed more than {MOST_PRINTED} B, expected a line for each rank");
    }
    match printed.status {
        Some(status) if status.success() => Ok(Some(said(&printed.text(), ranks)?)),
        Some(status) => {
            say(format!("the launcher did not start the job ({status})"));
            Ok(None)
        }
        None => {
            say(format!(
                "the job was ended at the deadline of {} s",
                settings.deadline
            ));
            Ok(None)
        }
    }
}

/// The program `where` of an MPI; its absence is an error only if the MPI was named.
fn mpi_program(flavour: Option<Flavour>, settings: &Start) -> Result<Option<PathBuf>> {
    let Some(flavour) = flavour else {
        return Ok(None);
    };
    let relative = launch::probe_places(flavour);
    let own = settings.programs.as_ref().map(|p| p.join(flavour.name()));
    match launch::beside(
        "where",
        own.as_deref(),
        &relative,
        ("make -C probes", Some("--programs")),
    ) {
        Ok(program) => Ok(Some(program)),
        Err(error) if settings.programs.is_some() || settings.flavour.is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

/// The ranks' lines in a job's output.
fn said(text: &str, ranks: usize) -> Result<Vec<Option<Seen>>> {
    let mut seen: Vec<Option<Seen>> = vec![None; ranks];
    let lines = text
        .lines()
        .filter_map(|l| serde_json::from_str::<PlaceLine>(l.trim()).ok());
    let mut count = 0;
    for line in lines {
        count += 1;
        let Some(rank) = line.rank else {
            refuse!(
                "the ranks' numbers are missing\nhint: this launcher sets none of the usual variables; give --flavour"
            );
        };
        if rank >= seen.len() {
            if rank > hopbyte_observe::traffic::MAX_TASKS {
                refuse!("a rank reports the number {rank}");
            }
            seen.resize(rank + 1, None);
        }
        if seen[rank].is_some() {
            refuse!(
                "rank {rank} came twice: every process is a job of its own\n\
                 hint: the program's MPI is not the launcher's; {FLAVOURS}"
            );
        }
        seen[rank] = Some(Seen {
            host: line.host,
            gpu: None,
            shared: line.shared,
            cpus: line.cpus,
            cores: line.cores.filter(|c| !c.is_empty()),
        });
    }
    if count == 0 {
        refuse!("the job ended without a report of its ranks' places");
    }
    Ok(seen)
}
