//! The table of launchers: the source of help, `--emit`, writers, advice, tests and the book.

use crate::advice::{self, Advice, Binding};
use crate::blocks;
use crate::error::ApplyError;
use crate::grid;
use crate::layout::{Launch, Layout};
use crate::megatron;
use crate::ranks;
use crate::training;
use std::str::FromStr;

/// One row of the table.
struct Syntax {
    /// Name on the command line.
    name: &'static str,
    /// Purpose of the file, in one line.
    about: &'static str,
    /// Default file name.
    file_name: &'static str,
    /// The launcher's effect on a placement, and the loss.
    effect: &'static str,
    /// Versions tested by starting a job.
    seen_on: &'static str,
    /// Whether it can express few placements only: blocks of consecutive ranks, or those of a plan.
    narrow: bool,
    /// Whether it can express an order of hosts alone, with the same local ranks on each.
    whole_hosts: bool,
    write: Write,
    /// How ranks are bound to the cores of their slots.
    binding: Binding,
    /// The reader of placements (by its name in `hopbyte_observe::placement`) that reads the file back.
    read_back: Option<&'static str>,
}

/// The writer of the file.
enum Write {
    /// From nodes; host names are not checked, since no launcher reads the file.
    Plain(fn(&Launch<'_>) -> String),
    /// From checked host names, with advice on the launch; `mpich` states whether the program's MPI is MPICH or a
    /// derivative, if known.
    Hosts {
        text: fn(&Layout<'_>) -> Result<String, ApplyError>,
        advice: fn(&Layout<'_>, Option<bool>) -> Advice,
    },
}

/// The enum and its table from one list.
macro_rules! launchers {
    ($($launcher:ident: $about:literal => $row:expr,)*) => {
        /// A program that starts ranks by a placement, or a plain file format for people and scripts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Launcher {
            $(#[doc = $about] $launcher,)*
        }

        impl Launcher {
            /// All launchers, in the order of help texts.
            pub const ALL: [Self; TABLE.len()] = [$(Self::$launcher),*];
        }

        const TABLE: &[Syntax] = &[$(Syntax { about: $about, ..$row }),*];
    };
}

const fn row(name: &'static str, file_name: &'static str, write: Write) -> Syntax {
    Syntax {
        name,
        about: "",
        file_name,
        effect: "",
        seen_on: "",
        narrow: false,
        whole_hosts: false,
        write,
        binding: Binding::Lost,
        read_back: None,
    }
}

const fn hosts(
    text: fn(&Layout<'_>) -> Result<String, ApplyError>,
    advice: fn(&Layout<'_>, Option<bool>) -> Advice,
) -> Write {
    Write::Hosts { text, advice }
}

launchers! {
    MpichRankOrder: "Cray/HPE MPICH, rank reordering method 3: the file MPICH_RANK_ORDER" => Syntax {
        effect: "permutes the ranks of the default launch, so shared memory is kept; cannot express uneven nodes; warns of names out of the scheduler's order, and of a mapping too long for Cray MPICH 9.1.0",
        seen_on: "a preload library of our own under Open MPI and MPICH; Cray's is closed",
        binding: Binding::Slots,
        read_back: Some("mpich-rank-order"),
        ..row("mpich-rank-order", "MPICH_RANK_ORDER", hosts(ranks::rank_order, advice::rank_order))
    },
    GridOrder: "The command of Cray's grid_order that prints the same file" => Syntax {
        effect: "only boxes of a grid, one per node and in order; else as mpich-rank-order",
        seen_on: "the same",
        narrow: true,
        binding: Binding::Slots,
        ..row("grid-order", "grid_order.command", hosts(grid::grid_order, advice::grid_order))
    },
    MpichMethod4: "Options of Cray MPICH's reordering method 4" => Syntax {
        effect: "only boxes of a grid; the library chooses their shape, with a warning",
        seen_on: "the same",
        narrow: true,
        ..row("mpich-method-4", "method4.options", hosts(grid::method_4, advice::method_4))
    },
    OpenmpiRankfile: "Open MPI rankfile: mpirun --rankfile, from version 5 --map-by rankfile:file=" => Syntax {
        effect: "nothing is lost: each rank is bound to the core of its slot; refused for GPUs, whose cores are not known",
        seen_on: "Open MPI 4.1.4, 5.0.11",
        binding: Binding::Rankfile,
        read_back: Some("rankfile"),
        ..row("openmpi-rankfile", "rankfile", hosts(ranks::rankfile, advice::rankfile))
    },
    OpenmpiHostfile: "Open MPI hostfile for sequential mapping, one host per rank" => Syntax {
        effect: "ranks are not bound to cores, and a choice of GPUs on a host is lost, with warnings",
        seen_on: "Open MPI 4.1.4, 5.0.11",
        binding: Binding::Unbound,
        read_back: Some("hostfile"),
        ..row("openmpi-hostfile", "hostfile", hosts(ranks::host_a_rank, advice::openmpi_hosts))
    },
    SlurmHostfile: "Slurm hostfile for --distribution=arbitrary" => Syntax {
        effect: "MPICH loses shared memory under pmi2, neighbours or not: refused with `--flavour mpich`, otherwise a warning; changes the allocation when sbatch sees it",
        seen_on: "Slurm 22.05 with MPICH 5.0.2",
        binding: Binding::Option("--cpu-bind=map_cpu:", ","),
        read_back: Some("hostfile"),
        ..row("slurm-hostfile", "slurm.hosts", hosts(ranks::host_a_rank, advice::slurm_hosts))
    },
    SlurmPlane: "Slurm's --distribution=plane=N" => Syntax {
        effect: "only blocks of one size dealt to the nodes in turn, in Slurm's own order: refused where names are out of that order",
        seen_on: "Slurm 22.05",
        narrow: true,
        binding: Binding::Option("--cpu-bind=map_cpu:", ","),
        ..row("slurm-plane", "slurm.plane", hosts(blocks::plane, advice::slurm_plane))
    },
    HydraHostfile: "Hostfile of MPICH's Hydra: host:ranks in rank order" => Syntax {
        effect: "each run of neighbouring ranks becomes a node of its own: refused where a node has two; a choice of GPUs on a host is lost, with a warning",
        seen_on: "MPICH 4.0.2, 5.0.2",
        binding: Binding::Option("-bind-to user:", ","),
        read_back: Some("hostfile"),
        ..row("hydra-hostfile", "hydra.hosts", hosts(blocks::host_counts, advice::hydra))
    },
    IntelMachinefile: "Machine file of Intel MPI: the same syntax, for its Hydra" => Syntax {
        effect: "ranks are counted by host name, and shared memory is kept; a choice of GPUs on a host is lost, with a warning",
        seen_on: "Intel MPI 2021.17",
        binding: Binding::Option("-genv I_MPI_PIN_PROCESSOR_LIST ", ","),
        read_back: Some("hostfile"),
        ..row("intel-machinefile", "intel.machines", hosts(blocks::host_counts, advice::intel))
    },
    FluxHostfile: "Hostfile for Flux's --taskmap=hostfile:, one host per rank" => Syntax {
        effect: "cannot express nodes without a rank",
        seen_on: "flux-core 0.88",
        read_back: Some("hostfile"),
        ..row("flux-hostfile", "flux.hosts", hosts(ranks::flux_hosts, advice::flux_hosts))
    },
    FluxTaskmap: "Flux's task map (RFC 34) for --taskmap=manual:" => Syntax {
        effect: "cannot express nodes without a rank; numbers nodes in Flux's own order, with a warning",
        seen_on: "the same",
        ..row("flux-taskmap", "flux.taskmap", hosts(blocks::task_map, advice::flux_task_map))
    },
    Pals: "Options of PALS' mpiexec" => Syntax {
        effect: "only the same number of neighbouring ranks on every node",
        seen_on: "nowhere: PALS is closed",
        narrow: true,
        whole_hosts: true,
        binding: Binding::Option("--cpu-bind list:", ":"),
        ..row("pals", "pals.options", hosts(blocks::pals, advice::pals))
    },
    NodeOrder: "The nodes in rank order: node ranks of torchrun, indices of an indexed Kubernetes job" => Syntax {
        effect: "only the same number of neighbouring ranks on every node",
        seen_on: "nowhere: torchrun and Kubernetes read an order of hosts",
        narrow: true,
        whole_hosts: true,
        ..row("node-order", "nodes.order", hosts(blocks::node_order, advice::node_order))
    },
    Torchrun: "Node ranks and GPUs of every host for torchrun, with the one line to start it" => Syntax {
        effect: "only the same number of neighbouring ranks on every node; keeps the order of GPUs on a host",
        seen_on: "PyTorch 1.13 with gloo, on the lab",
        narrow: true,
        whole_hosts: true,
        read_back: Some("torchrun"),
        ..row("torchrun", "torchrun.hosts", hosts(training::torchrun, training::torchrun_line))
    },
    RankGpus: "The host and GPU of every rank, for srun with CUDA_VISIBLE_DEVICES" => Syntax {
        effect: "nothing is lost",
        seen_on: "nowhere: no GPUs",
        read_back: Some("csv"),
        ..row("rank-gpus", "rank.gpus", hosts(training::rank_gpus, training::rank_gpus_advice))
    },
    DlroverWorld: "DLRover's world of a rendezvous in rank order, as JSON" => Syntax {
        effect: "only the same number of neighbouring ranks on every node; the order of GPUs on a host is lost, with a warning",
        seen_on: "nowhere: written after DLRover's source",
        narrow: true,
        whole_hosts: true,
        read_back: Some("dlrover"),
        ..row("dlrover-world", "dlrover.json", hosts(training::dlrover, training::dlrover_advice))
    },
    JaxDevices: "A permutation of jax.devices() for a Mesh, as JSON" => Syntax {
        effect: "nothing is lost",
        seen_on: "nowhere: written after JAX's documentation",
        read_back: Some("jax"),
        ..row("jax-devices", "jax.devices.json", hosts(training::jax, training::jax_advice))
    },
    KueueAssignment: "Kueue's topologyAssignment with one pod for every node in rank order" => Syntax {
        effect: "only the same number of neighbouring ranks on every node; the order of GPUs on a host is lost, with a warning",
        seen_on: "nowhere: written after Kueue's API",
        narrow: true,
        whole_hosts: true,
        read_back: Some("kueue"),
        ..row("kueue-assignment", "kueue.yaml", hosts(training::kueue, training::kueue_advice))
    },
    MegatronOrder: "Megatron-LM's order of dimensions, and the hosts on which ranks in turn then have the placement" => Syntax {
        effect: "only placements of a plan that some order of dimensions on whole hosts has",
        seen_on: "nowhere: written after Megatron-LM's RankGenerator",
        narrow: true,
        whole_hosts: true,
        read_back: Some("megatron"),
        ..row("megatron-order", "megatron.order", hosts(megatron::order, megatron::order_advice))
    },
    NcclTuner: "Ring or tree for allreduces by size, for the example plugin of NCCL's tuner" => Syntax {
        effect: "no order of ranks: a choice of algorithms on the placement",
        seen_on: "nowhere: written after the example plugin of NCCL's tuner",
        narrow: true,
        ..row("nccl-tuner", "nccl_tuner.conf", hosts(megatron::tuner, megatron::tuner_advice))
    },
    Csv: "A table rank,node,slot with a header, for people and scripts" => Syntax {
        effect: "a plain file",
        seen_on: "read back by `--current` and `--ran`",
        read_back: Some("csv"),
        ..row("csv", "placement.csv", Write::Plain(ranks::csv))
    },
    Json: "One JSON object with the allocation, the node and the slot of every rank" => Syntax {
        effect: "a plain file",
        seen_on: "read back by `--current`",
        read_back: Some("json"),
        ..row("json", "placement.json", Write::Plain(ranks::json))
    },
}

impl Launcher {
    fn syntax(self) -> &'static Syntax {
        &TABLE[self as usize]
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        self.syntax().name
    }

    /// Purpose of its file, in one line.
    pub fn about(self) -> &'static str {
        self.syntax().about
    }

    /// Default file name; the name that the launcher looks for, if it does.
    pub fn file_name(self) -> &'static str {
        self.syntax().file_name
    }

    /// The launcher's effect on a placement, and the loss.
    pub fn effect(self) -> &'static str {
        self.syntax().effect
    }

    /// Versions with which a job was started from the file.
    pub fn seen_on(self) -> &'static str {
        self.syntax().seen_on
    }

    /// Whether it can express few placements only: blocks of consecutive ranks, or those of a plan.
    pub fn narrow(self) -> bool {
        self.syntax().narrow
    }

    /// Whether an order of hosts is all that it can express, so that a search has to keep hosts whole for it.
    pub fn whole_hosts(self) -> bool {
        self.syntax().whole_hosts
    }

    /// Whether its file assigns a core to every rank, known or assumed.
    pub fn names_cores(self) -> bool {
        matches!(self.syntax().binding, Binding::Rankfile)
    }

    /// Name of the reader of placements that reads the file back, if there is one.
    pub fn read_back(self) -> Option<&'static str> {
        self.syntax().read_back
    }
}

impl FromStr for Launcher {
    type Err = ApplyError;

    fn from_str(text: &str) -> Result<Self, ApplyError> {
        Self::ALL
            .into_iter()
            .find(|l| l.name() == text)
            .ok_or_else(|| ApplyError::UnknownLauncher {
                found: text.chars().take(80).collect(),
                known: Self::ALL.map(Self::name).join(", "),
            })
    }
}

/// A launcher's file with its launch command.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The file.
    pub text: String,
    /// The launch command, with its caveats.
    pub advice: Advice,
}

impl Launch<'_> {
    /// Writes the placement in a launcher's syntax, with its launch command.
    ///
    /// # Errors
    /// An invalid host name, two allocated endpoints of one host, or a placement that the launcher cannot express.
    pub fn prepare(&self, launcher: Launcher) -> Result<Prepared, ApplyError> {
        let syntax = launcher.syntax();
        Ok(match syntax.write {
            Write::Plain(text) => Prepared {
                text: text(self),
                advice: Advice::default(),
            },
            Write::Hosts { text, advice } => {
                let layout = Layout::new(self)?;
                Prepared {
                    text: text(&layout)?,
                    advice: advice(&layout, self.mpich)
                        .bound(syntax.binding, &layout)
                        .warn(training::renumbered(&layout)),
                }
            }
        })
    }
}
