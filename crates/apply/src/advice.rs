//! How to launch with a launcher's file, and what the launcher would spoil.

use crate::blocks;
use crate::launcher::Launcher;
use crate::layout::Layout;
use serde::Serialize;
use std::fmt::Write;

/// Longest process mapping that every Cray MPICH starts with: 9.1.0 is reported to fail above.
const CRAY_MAPPING: usize = 1023;

/// How to launch with a rendered file, and what to know before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The command line (or settings), with `FILE` where the file's name goes.
    pub command: String,
    /// Why the file should not be used: the launcher obeys it and the run is worse for it, or does not obey it.
    pub refused: Option<Refusal>,
    /// What the launcher may spoil, depending on what is not known here.
    pub warnings: Vec<String>,
}

/// What a launcher would do to a placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// What would be lost.
    pub why: String,
    /// What to do instead.
    pub instead: String,
}

/// A file for launchers with which every rank keeps its node's shared memory.
const KEEPS_MEMORY: &str = "mpich-rank-order keeps it: Cray's MPICH reads that file by itself, any other MPI with the preload library \
     libhopbyte_reorder; with Open MPI, openmpi-rankfile";

/// Says how to use the file of a launcher, and what the launcher would spoil. `mpich` says whether the program's MPI
/// is MPICH or a relative, where that is known.
pub(crate) fn advise(launcher: Launcher, layout: &Layout<'_>, mpich: Option<bool>) -> Advice {
    let n = layout.ranks();
    let mut warnings = Vec::new();
    let mut refused = None;
    let command = match launcher {
        Launcher::MpichRankOrder => {
            let mapping = process_mapping(layout).len();
            if mapping > CRAY_MAPPING {
                warnings.push(format!(
                    "the process mapping takes {mapping} bytes; Cray MPICH 9.1.0 is reported to fail in MPI_Init above {CRAY_MAPPING} (9.0.1 does not)"
                ));
            }
            warnings.extend(layout.order_note());
            "export MPICH_RANK_REORDER_METHOD=3  # with the file as MPICH_RANK_ORDER in the working directory"
                .into()
        }
        Launcher::GridOrder => {
            warnings.extend(layout.order_note());
            "export MPICH_RANK_REORDER_METHOD=3; sh FILE > MPICH_RANK_ORDER  # in the working directory".into()
        }
        Launcher::MpichMethod4 => {
            warnings.push(
                "the library cuts the grid by itself: mpich-rank-order delivers this placement, and `apply --check` shows what came of it".into(),
            );
            "export MPICH_RANK_REORDER_METHOD=4 MPICH_RANK_REORDER_OPTS=\"$(cat FILE)\"".into()
        }
        Launcher::OpenmpiRankfile => {
            format!(
                "mpirun -n {n} --rankfile FILE ./app  # Open MPI 5: --map-by rankfile:file=FILE"
            )
        }
        Launcher::OpenmpiHostfile => {
            warnings.push(
                "sequential mapping does not bind ranks to cores; openmpi-rankfile does".into(),
            );
            format!(
                "mpirun -n {n} --map-by seq --hostfile FILE ./app  # Open MPI 5: --map-by seq:file=FILE"
            )
        }
        Launcher::SlurmHostfile => {
            warnings.push("set SLURM_HOSTFILE for srun alone: on salloc and sbatch it changes the allocation".into());
            let lost = "in this distribution Slurm's pmi2 (22.05) gives every rank of MPICH (4.0, 5.0) a node of its own, and shared memory is lost";
            match mpich {
                Some(true) if layout.most() > 1 => refused = Some(Refusal {
                    why: lost.into(),
                    instead: format!("{KEEPS_MEMORY}; slurm-plane keeps it too"),
                }),
                Some(_) => {}
                None => {
                    warnings.push(format!("{lost}: --flavour says which MPI it is, --check looks"));
                    warnings.push("Cray PMI refuses this distribution: use mpich-rank-order there".into());
                }
            }
            format!("SLURM_HOSTFILE=FILE srun -n {n} --distribution=arbitrary ./app")
        }
        Launcher::SlurmPlane => {
            refused = layout.order_note().map(|why| Refusal {
                why,
                instead: "give `map --nodes` the order of `scontrol show hostnames`; --force where slurm.conf has this one".into(),
            });
            format!(
                "srun -N {} -n {n} --ntasks-per-node={} --distribution=$(cat FILE) ./app",
                layout.hosts.len(),
                layout.most()
            )
        }
        Launcher::HydraHostfile => {
            refused = blocks::split_nodes(layout).map(|why| Refusal {
                why,
                instead: KEEPS_MEMORY.into(),
            });
            warnings.push("inside Slurm, MPICH refuses a host that is named several times".into());
            format!("mpiexec -n {n} -f FILE ./app")
        }
        // Intel's Hydra counts ranks by host name: 2021.17 keeps shared memory however they are named.
        Launcher::IntelMachinefile => format!("mpiexec -n {n} -machinefile FILE ./app"),
        Launcher::FluxHostfile => format!(
            "flux run -N {} -n {n} --taskmap=hostfile:FILE ./app",
            layout.hosts.len()
        ),
        Launcher::FluxTaskmap => {
            warnings.push("nodes are numbered in the allocation's order: flux resource list must show the same".into());
            format!(
                "flux run -N {} -n {n} --taskmap=manual:\"$(cat FILE)\" ./app",
                layout.hosts.len()
            )
        }
        Launcher::Pals => format!("mpiexec -n {n} $(cat FILE) ./app"),
        Launcher::NodeOrder => "torchrun --nnodes=$(wc -l < FILE) --node-rank=$(($(grep -nxF \"$(hostname)\" FILE | cut -d: -f1) - 1)) app.py".into(),
        // Plain files: nothing starts with them.
        Launcher::Csv | Launcher::Json => String::new(),
    };
    let command = bound(launcher, layout, command, &mut warnings);
    Advice {
        command,
        refused,
        warnings,
    }
}

/// The command with an option that binds every rank to the core of its slot, where these are known and the launcher
/// has words for them: a list of processors, the same on every node.
fn bound(
    launcher: Launcher,
    layout: &Layout<'_>,
    command: String,
    warnings: &mut Vec<String>,
) -> String {
    let list = |processors: &[u32], between: &str| {
        let words: Vec<String> = processors.iter().map(u32::to_string).collect();
        words.join(between)
    };
    let by_rank = match launcher {
        // A rank order exchanges ranks and leaves processes where they are: the i-th of a node has its i-th slot.
        Launcher::MpichRankOrder | Launcher::GridOrder => {
            return layout.processors_by_slot().map_or(command.clone(), |p| {
                let p = list(p, ",");
                format!(
                    "{command}; bind with srun --cpu-bind=map_cpu:{p} or mpiexec -bind-to user:{p}"
                )
            });
        }
        Launcher::OpenmpiRankfile | Launcher::OpenmpiHostfile | Launcher::Csv | Launcher::Json => {
            return command;
        }
        _ if layout.cores.is_none() => return command,
        _ => layout.processors_by_rank(),
    };
    let option = by_rank.and_then(|p| match launcher {
        Launcher::SlurmHostfile | Launcher::SlurmPlane => {
            Some(format!("--cpu-bind=map_cpu:{}", list(&p, ",")))
        }
        Launcher::HydraHostfile => Some(format!("-bind-to user:{}", list(&p, ","))),
        Launcher::IntelMachinefile => {
            Some(format!("-genv I_MPI_PIN_PROCESSOR_LIST {}", list(&p, ",")))
        }
        Launcher::Pals => Some(format!("--cpu-bind list:{}", list(&p, ":"))),
        _ => None,
    });
    match option {
        Some(option) => command.replace(" ./app", &format!(" {option} ./app")),
        None => {
            warnings.push("ranks take the cores of their node in the order of ranks here, or in none: which slot each has is lost; openmpi-rankfile and mpich-rank-order keep it".into());
            command
        }
    }
}

/// The mapping as PMI tells it to MPICH: `(vector,(first node,nodes,ranks each),…)`.
fn process_mapping(layout: &Layout<'_>) -> String {
    let mut text = String::from("(vector");
    for (place, ranks) in layout.runs() {
        // Writing to a String cannot fail.
        let _ = write!(text, ",({place},1,{ranks})");
    }
    text.push(')');
    text
}
