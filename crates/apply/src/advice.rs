//! Launch commands for each launcher's file, and warnings about launchers that override a placement.

use crate::blocks;
use crate::layout::Layout;
use crate::training;
use serde::Serialize;
use std::fmt::Write;

/// Longest process mapping accepted by every Cray MPICH: 9.1.0 is reported to fail on longer ones.
const CRAY_MAPPING: usize = 1023;

/// The launch command for a rendered file, with its caveats.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The command line (or settings), with `FILE` in place of the file name.
    pub command: String,
    /// Reason not to use the file: the launcher ignores it, or follows it at a cost in performance.
    pub refused: Option<Refusal>,
    /// Possible side effects, if the MPI library or the order of hosts is unknown.
    pub warnings: Vec<String>,
}

/// The side effect of a launcher on a placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The loss.
    pub why: String,
    /// The alternative.
    pub instead: String,
}

/// Launcher files that keep the shared memory of each node's ranks.
const KEEPS_MEMORY: &str = "mpich-rank-order keeps it: Cray's MPICH reads that file by itself, any other MPI with the preload library \
     libhopbyte_reorder; with Open MPI, openmpi-rankfile";

/// How a launcher's file binds ranks to the cores of their slots, if the cores are known.
#[derive(Clone, Copy)]
pub(crate) enum Binding {
    /// The file names the core of every rank.
    Rankfile,
    /// The launcher does not bind; its advice reports that.
    Unbound,
    /// Ranks are exchanged between processes: the i-th process of a node keeps its i-th slot.
    Slots,
    /// An option before the program: the option text before a list of processors (the same list on every node) and
    /// the separator of the list.
    Option(&'static str, &'static str),
    /// No binding.
    Lost,
}

impl Advice {
    pub(crate) fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            ..Self::default()
        }
    }

    pub(crate) fn warn(mut self, warnings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.warnings.extend(warnings.into_iter().map(Into::into));
        self
    }

    /// Adds an option that binds every rank to the core of its slot, if the cores are known and the launcher has such
    /// an option.
    pub(crate) fn bound(mut self, binding: Binding, layout: &Layout<'_>) -> Self {
        let list = |processors: &[u32], between: &str| {
            let words: Vec<String> = processors.iter().map(u32::to_string).collect();
            words.join(between)
        };
        let option = match binding {
            _ if layout.cores.is_none() => return self,
            Binding::Rankfile | Binding::Unbound => return self,
            Binding::Slots => {
                if let Some(processors) = layout.processors_by_slot() {
                    let p = list(processors, ",");
                    let words = format!(
                        "; bind with srun --cpu-bind=map_cpu:{p} or mpiexec -bind-to user:{p}"
                    );
                    self.command.push_str(&words);
                }
                return self;
            }
            Binding::Option(words, between) => layout
                .processors_by_rank()
                .map(|p| format!("{words}{}", list(&p, between))),
            Binding::Lost => None,
        };
        match option {
            Some(option) => {
                self.command = self.command.replace(" ./app", &format!(" {option} ./app"));
                self
            }
            None => self.warn(["ranks are bound to their node's cores in rank order here, or not at all: the choice of slots is lost; openmpi-rankfile and mpich-rank-order keep it"]),
        }
    }
}

pub(crate) fn rank_order(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    let mapping = process_mapping(layout).len();
    let long = (mapping > CRAY_MAPPING).then(|| format!(
        "the process mapping takes {mapping} bytes; Cray MPICH 9.1.0 is reported to fail in MPI_Init above {CRAY_MAPPING} (9.0.1 does not)"
    ));
    Advice::new("export MPICH_RANK_REORDER_METHOD=3  # with the file as MPICH_RANK_ORDER in the working directory")
        .warn(long)
        .warn(layout.order_note())
        .warn(training::gpu_order(layout).map(|_| {
            "the choice of GPUs holds where programs take them by the launcher's local number (SLURM_LOCALID): by MPI's rank \
             on the node it is lost; rank-gpus keeps it"
        }))
}

pub(crate) fn grid_order(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    Advice::new("export MPICH_RANK_REORDER_METHOD=3; sh FILE > MPICH_RANK_ORDER  # in the working directory")
        .warn(layout.order_note())
}

pub(crate) fn method_4(_: &Layout<'_>, _: Option<bool>) -> Advice {
    Advice::new("export MPICH_RANK_REORDER_METHOD=4 MPICH_RANK_REORDER_OPTS=\"$(cat FILE)\"").warn([
        "the library chooses the cells itself: mpich-rank-order gives this placement, and `apply --check` verifies the result",
    ])
}

pub(crate) fn rankfile(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    let n = layout.ranks();
    Advice::new(format!(
        "mpirun -n {n} --rankfile FILE ./app  # Open MPI 5: --map-by rankfile:file=FILE"
    ))
}

pub(crate) fn openmpi_hosts(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    let n = layout.ranks();
    Advice::new(format!(
        "mpirun -n {n} --map-by seq --hostfile FILE ./app  # Open MPI 5: --map-by seq:file=FILE"
    ))
    .warn(
        (!layout.gpus)
            .then_some("sequential mapping does not bind ranks to cores; openmpi-rankfile does"),
    )
    .warn(training::gpu_order(layout))
}

pub(crate) fn slurm_hosts(layout: &Layout<'_>, mpich: Option<bool>) -> Advice {
    let n = layout.ranks();
    let (bind, apart) = match training::gpu_bind(layout) {
        None => (String::new(), None),
        Some(Ok(option)) => (format!("{option} "), None),
        Some(Err(why)) => (String::new(), Some(why)),
    };
    let advice = Advice::new(format!(
        "SLURM_HOSTFILE=FILE srun -n {n} --distribution=arbitrary {bind}./app"
    ))
    .warn(apart)
    .warn(["set SLURM_HOSTFILE for srun alone: on salloc and sbatch it changes the allocation"]);
    let lost = "in this distribution Slurm's pmi2 (22.05) gives every rank of MPICH (4.0, 5.0) a node of its own, and shared memory is lost";
    match mpich {
        Some(true) if layout.most() > 1 => Advice {
            refused: Some(Refusal {
                why: lost.into(),
                instead: format!("{KEEPS_MEMORY}; slurm-plane keeps it too"),
            }),
            ..advice
        },
        Some(_) => advice,
        None => advice
            .warn([format!(
                "{lost}: state the MPI with --flavour, or verify with --check"
            )])
            .warn(["Cray PMI refuses this distribution: use mpich-rank-order there"]),
    }
}

pub(crate) fn slurm_plane(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    let refused = layout.order_note().map(|why| Refusal {
        why,
        instead: "give `map --nodes` the order of `scontrol show hostnames`; --force where slurm.conf has this one".into(),
    });
    Advice {
        refused,
        ..Advice::new(format!(
            "srun -N {} -n {} --ntasks-per-node={} --distribution=$(cat FILE) ./app",
            layout.hosts.len(),
            layout.ranks(),
            layout.most()
        ))
    }
    .warn(training::gpu_order(layout))
}

pub(crate) fn hydra(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    let refused = blocks::split_nodes(layout).map(|why| Refusal {
        why,
        instead: KEEPS_MEMORY.into(),
    });
    Advice {
        refused,
        ..Advice::new(format!("mpiexec -n {} -f FILE ./app", layout.ranks()))
    }
    .warn(["inside Slurm, MPICH refuses a host that is named several times"])
    .warn(training::gpu_order(layout))
}

/// Intel's Hydra groups ranks by host name: 2021.17 keeps shared memory for any order of the file.
pub(crate) fn intel(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    let n = layout.ranks();
    Advice::new(format!("mpiexec -n {n} -machinefile FILE ./app")).warn(training::gpu_order(layout))
}

/// Flux gives every node the same number of cores, so that uneven nodes need all of theirs (`-x`).
fn flux_run(layout: &Layout<'_>) -> String {
    let by_place = layout.ranks_by_place();
    let even = by_place.windows(2).all(|w| w[0].len() == w[1].len());
    format!(
        "flux run -N {} -n {}{}",
        layout.hosts.len(),
        layout.ranks(),
        if even { "" } else { " -x" }
    )
}

pub(crate) fn flux_hosts(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    Advice::new(format!(
        "{} --requires=host:$(sort -u FILE | paste -sd, -) --taskmap=hostfile:FILE ./app",
        flux_run(layout)
    ))
    .warn(training::gpu_order(layout))
}

pub(crate) fn flux_task_map(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    Advice::new(format!(
        "{} --taskmap=manual:\"$(cat FILE)\" ./app",
        flux_run(layout)
    ))
    .warn(["Flux chooses and numbers the nodes: run it in an instance of these alone, mapped with --nodes \"$(flux getattr hostlist)\""])
    .warn(training::gpu_order(layout))
}

pub(crate) fn pals(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    Advice::new(format!("mpiexec -n {} $(cat FILE) ./app", layout.ranks()))
        .warn(training::gpu_order(layout))
}

pub(crate) fn node_order(layout: &Layout<'_>, _: Option<bool>) -> Advice {
    Advice::new(format!(
        "torchrun --nnodes=$(wc -l < FILE) --nproc_per_node={} \
         --node_rank=$(($(grep -nxF \"$(hostname)\" FILE | cut -d: -f1) - 1)) \
         --master_addr=$(head -n 1 FILE) --master_port=29500 app.py",
        layout.most()
    ))
    .warn(training::gpu_order(layout).map(|why| why.replace("rank-gpus keeps", "torchrun keeps")))
}

/// The process mapping that PMI passes to MPICH: `(vector,(first node,nodes,ranks each),…)`.
fn process_mapping(layout: &Layout<'_>) -> String {
    let mut text = String::from("(vector");
    for (place, ranks) in layout.runs() {
        // Writing to a String cannot fail.
        let _ = write!(text, ",({place},1,{ranks})");
    }
    text.push(')');
    text
}
