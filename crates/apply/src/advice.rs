//! How to launch with a launcher's file, and what the launcher would spoil.

use crate::blocks;
use crate::error::ApplyError;
use crate::launcher::Launcher;
use crate::layout::Layout;
use hopbyte_fabric::{Allocation, Fabric, Placement};
use serde::Serialize;
use std::fmt::Write;

/// Longest process mapping that every Cray MPICH starts with: 9.1.0 is reported to fail above.
const CRAY_MAPPING: usize = 1023;

/// How to launch with a rendered file, and what to know before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The command line (or settings), with `FILE` where the file's name goes.
    pub command: String,
    /// What the launcher would spoil, and what to do instead.
    pub warnings: Vec<String>,
}

/// Says how to use the file of [`render`](crate::render), and what the launcher would spoil.
///
/// # Errors
/// As [`render`](crate::render).
pub fn advise(
    launcher: Launcher,
    fabric: &Fabric,
    allocation: &Allocation,
    placement: &Placement,
) -> Result<Advice, ApplyError> {
    let n = placement.tasks();
    let mut warnings = Vec::new();
    let command = match launcher {
        Launcher::MpichRankOrder => {
            let layout = Layout::new(fabric, allocation, placement, launcher.name())?;
            let mapping = process_mapping(&layout).len();
            if mapping > CRAY_MAPPING {
                warnings.push(format!(
                    "the process mapping takes {mapping} bytes; Cray MPICH 9.1.0 is reported to fail in MPI_Init above {CRAY_MAPPING} (9.0.1 does not)"
                ));
            }
            "export MPICH_RANK_REORDER_METHOD=3  # with the file as MPICH_RANK_ORDER in the working directory"
                .into()
        }
        Launcher::GridOrder => {
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
            warnings.extend([
                "set SLURM_HOSTFILE for srun alone: on salloc and sbatch it changes the allocation".into(),
                "with --mpi=pmi2, MPICH 4.0 under Slurm 22.05 loses shared memory inside nodes in this distribution: check the size of MPI_COMM_TYPE_SHARED".into(),
                "Cray PMI refuses this distribution: use mpich-rank-order there".into(),
            ]);
            format!("SLURM_HOSTFILE=FILE srun -n {n} --distribution=arbitrary ./app")
        }
        Launcher::SlurmPlane => {
            let layout = Layout::new(fabric, allocation, placement, launcher.name())?;
            warnings.extend(layout.order_note());
            format!(
                "srun -N {} -n {n} --ntasks-per-node={} --distribution=$(cat FILE) ./app",
                layout.hosts.len(),
                layout.most()
            )
        }
        Launcher::HydraHostfile | Launcher::IntelMachinefile => {
            let layout = Layout::new(fabric, allocation, placement, launcher.name())?;
            warnings.extend(blocks::split_nodes(&layout));
            if launcher == Launcher::HydraHostfile {
                warnings.push("inside Slurm, MPICH refuses a host that is named several times".into());
                format!("mpiexec -n {n} -f FILE ./app")
            } else {
                format!("mpiexec -n {n} -machinefile FILE ./app")
            }
        }
        Launcher::FluxHostfile => format!(
            "flux run -N {} -n {n} --taskmap=hostfile:FILE ./app",
            allocation.nodes().len()
        ),
        Launcher::FluxTaskmap => {
            warnings.push("nodes are numbered in the allocation's order: flux resource list must show the same".into());
            format!(
                "flux run -N {} -n {n} --taskmap=manual:\"$(cat FILE)\" ./app",
                allocation.nodes().len()
            )
        }
        Launcher::Pals => format!("mpiexec -n {n} $(cat FILE) ./app"),
        Launcher::NodeOrder => "torchrun --nnodes=$(wc -l < FILE) --node-rank=$(($(grep -nxF \"$(hostname)\" FILE | cut -d: -f1) - 1)) app.py".into(),
        Launcher::Csv | Launcher::Json => String::new(),
    };
    Ok(Advice { command, warnings })
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
