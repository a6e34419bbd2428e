//! The launchers and their syntax.

use crate::advice::{Advice, advise};
use crate::blocks;
use crate::error::ApplyError;
use crate::grid;
use crate::layout::{Layout, SlotCores};
use hopbyte_fabric::{Allocation, Fabric, Placement};
use serde::Serialize;
use std::fmt::Write;
use std::str::FromStr;

/// Longest line of a rank order.
const LINE: usize = 80;

/// Something that starts ranks where we say, or a plain file for people and scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Launcher {
    /// Cray/HPE MPICH rank reordering method 3: the file `MPICH_RANK_ORDER`.
    MpichRankOrder,
    /// The command of Cray's `grid_order` that prints the same file, where the placement is boxes of a grid.
    GridOrder,
    /// Options of Cray MPICH's reordering method 4, where the placement is boxes of a grid.
    MpichMethod4,
    /// Open MPI rankfile (`mpirun -rf`; Open MPI 5 `--map-by rankfile:file=`).
    OpenmpiRankfile,
    /// Open MPI hostfile for sequential mapping, one host a rank.
    OpenmpiHostfile,
    /// Slurm hostfile for `--distribution=arbitrary`.
    SlurmHostfile,
    /// Slurm's `--distribution=plane=N`, where the placement is one.
    SlurmPlane,
    /// Hostfile of MPICH's Hydra: `host:ranks` in rank order.
    HydraHostfile,
    /// Machine file of Intel MPI: the same, for its Hydra.
    IntelMachinefile,
    /// Hostfile of Flux's `--taskmap=hostfile:`, one host a rank.
    FluxHostfile,
    /// Flux's task map (RFC 34) for `--taskmap=manual:`.
    FluxTaskmap,
    /// Options of PALS' mpiexec, where every node has the same number of neighbouring ranks.
    Pals,
    /// The nodes in rank order: torchrun's node ranks, indices of an indexed Kubernetes job.
    NodeOrder,
    /// `rank,node,slot` with a header.
    Csv,
    /// One JSON object.
    Json,
}

impl Launcher {
    /// All of them, in the order of help texts.
    pub const ALL: [Self; 15] = [
        Self::MpichRankOrder,
        Self::GridOrder,
        Self::MpichMethod4,
        Self::OpenmpiRankfile,
        Self::OpenmpiHostfile,
        Self::SlurmHostfile,
        Self::SlurmPlane,
        Self::HydraHostfile,
        Self::IntelMachinefile,
        Self::FluxHostfile,
        Self::FluxTaskmap,
        Self::Pals,
        Self::NodeOrder,
        Self::Csv,
        Self::Json,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::MpichRankOrder => "mpich-rank-order",
            Self::GridOrder => "grid-order",
            Self::MpichMethod4 => "mpich-method-4",
            Self::OpenmpiRankfile => "openmpi-rankfile",
            Self::OpenmpiHostfile => "openmpi-hostfile",
            Self::SlurmHostfile => "slurm-hostfile",
            Self::SlurmPlane => "slurm-plane",
            Self::HydraHostfile => "hydra-hostfile",
            Self::IntelMachinefile => "intel-machinefile",
            Self::FluxHostfile => "flux-hostfile",
            Self::FluxTaskmap => "flux-taskmap",
            Self::Pals => "pals",
            Self::NodeOrder => "node-order",
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }

    /// Name that the file usually has; the first is the one the launcher itself looks for.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::MpichRankOrder => "MPICH_RANK_ORDER",
            Self::GridOrder => "grid_order.command",
            Self::MpichMethod4 => "method4.options",
            Self::OpenmpiRankfile => "rankfile",
            Self::OpenmpiHostfile => "hostfile",
            Self::SlurmHostfile => "slurm.hosts",
            Self::SlurmPlane => "slurm.plane",
            Self::HydraHostfile => "hydra.hosts",
            Self::IntelMachinefile => "intel.machines",
            Self::FluxHostfile => "flux.hosts",
            Self::FluxTaskmap => "flux.taskmap",
            Self::Pals => "pals.options",
            Self::NodeOrder => "nodes.order",
            Self::Csv => "placement.csv",
            Self::Json => "placement.json",
        }
    }

    /// Whether it has words for blocks of ranks alone, so that most placements are beyond it.
    pub fn blocks_only(self) -> bool {
        matches!(
            self,
            Self::GridOrder | Self::MpichMethod4 | Self::SlurmPlane | Self::Pals | Self::NodeOrder
        )
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

/// A placement on its way to a launcher.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// The machine.
    pub fabric: &'a Fabric,
    /// The nodes of the job, in the scheduler's order.
    pub allocation: &'a Allocation,
    /// Where the ranks go.
    pub placement: &'a Placement,
    /// Whether the program's MPI is MPICH or a relative, where that is known.
    pub mpich: Option<bool>,
    /// What the slots of a node are, where that is known.
    pub cores: Option<&'a SlotCores>,
}

/// What a launcher reads, and how to use it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The file.
    pub text: String,
    /// How to launch with it, and what the launcher would spoil.
    pub advice: Advice,
}

impl Launch<'_> {
    /// Writes the placement in a launcher's syntax, and says how to launch with it.
    ///
    /// # Errors
    /// A host name that is not one, two allocated endpoints of one host, or a placement that the launcher
    /// has no words for.
    pub fn prepare(&self, launcher: Launcher) -> Result<Prepared, ApplyError> {
        let (fabric, placement) = (self.fabric, self.placement);
        let plain = match launcher {
            Launcher::Csv => Some(csv(fabric, placement)),
            Launcher::Json => Some(json(fabric, self.allocation, placement)),
            _ => None,
        };
        if let Some(text) = plain {
            let advice = Advice::default();
            return Ok(Prepared { text, advice });
        }
        let layout = Layout::new(self, launcher.name())?;
        Ok(Prepared {
            text: render(launcher, &layout)?,
            advice: advise(launcher, &layout, self.mpich),
        })
    }
}

/// A launcher's file; the plain ones are written from nodes, whatever their hosts are called.
fn render(launcher: Launcher, layout: &Layout<'_>) -> Result<String, ApplyError> {
    match launcher {
        Launcher::MpichRankOrder => rank_order(layout),
        Launcher::GridOrder => grid::grid_order(layout),
        Launcher::MpichMethod4 => grid::method_4(layout),
        Launcher::OpenmpiRankfile => Ok(rankfile(layout)),
        Launcher::OpenmpiHostfile | Launcher::SlurmHostfile => Ok(host_a_rank(layout)),
        Launcher::FluxHostfile => flux_hosts(layout),
        Launcher::FluxTaskmap => Ok(blocks::task_map(layout)),
        Launcher::SlurmPlane => blocks::plane(layout),
        Launcher::HydraHostfile | Launcher::IntelMachinefile => Ok(blocks::host_counts(layout)),
        Launcher::Pals => blocks::pals(layout),
        Launcher::NodeOrder => blocks::node_order(layout),
        Launcher::Csv | Launcher::Json => Ok(String::new()),
    }
}

/// Ranks in placement order, node by node: rank `order[i]` gets the `i`-th slot of the block layout.
fn rank_order(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let by_place = layout.ranks_by_place();
    let mut left = layout.ranks();
    for (place, ranks) in by_place.iter().enumerate() {
        let default = left.min(layout.slots[place] as usize);
        left -= default;
        if ranks.len() != default {
            return Err(ApplyError::Inexpressible {
                what: "placement",
                format: Launcher::MpichRankOrder.name(),
                why: format!(
                    "it permutes the ranks of the default launch, which has {default} on {}, and the placement has {}",
                    layout.hosts[place],
                    ranks.len()
                ),
                instead: "map onto as many slots as there are ranks, or use a launcher that takes a host for each rank".into(),
            });
        }
    }
    let order: Vec<u32> = by_place.into_iter().flatten().collect();
    Ok(comma_lines(&order))
}

/// Numbers joined by commas, on lines of at most [`LINE`] characters, none ending in a comma (as
/// `grid_order` writes them).
fn comma_lines(numbers: &[u32]) -> String {
    let mut text = String::new();
    let mut width = 0;
    for number in numbers {
        let word = number.to_string();
        if width > 0 && width + 1 + word.len() > LINE {
            text.push('\n');
            width = 0;
        }
        if width > 0 {
            text.push(',');
            width += 1;
        }
        text.push_str(&word);
        width += word.len();
    }
    text.push('\n');
    text
}

fn rankfile(layout: &Layout<'_>) -> String {
    let mut text = String::new();
    for rank in 0..layout.ranks() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "rank {rank}={} slot={}",
            layout.host(rank),
            layout.core(rank)
        );
    }
    text
}

/// A host for each rank; Flux wants every allocated host among them.
fn flux_hosts(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let by_place = layout.ranks_by_place();
    match by_place.iter().position(Vec::is_empty) {
        None => Ok(host_a_rank(layout)),
        Some(idle) => Err(ApplyError::Inexpressible {
            what: "placement",
            format: Launcher::FluxHostfile.name(),
            why: format!(
                "every allocated host must have a rank, and {} has none",
                layout.hosts[idle]
            ),
            instead: "allocate only the nodes that are used, or use flux-taskmap".into(),
        }),
    }
}

fn host_a_rank(layout: &Layout<'_>) -> String {
    (0..layout.ranks()).fold(String::new(), |mut text, rank| {
        text.push_str(layout.host(rank));
        text.push('\n');
        text
    })
}

fn csv(fabric: &Fabric, placement: &Placement) -> String {
    let mut text = String::from("rank,node,slot\n");
    for (rank, slot) in placement.slots().iter().enumerate() {
        let name = &fabric.node(slot.node).name;
        let name = if name.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", name.replace('"', "\"\""))
        } else {
            name.clone()
        };
        let _ = writeln!(text, "{rank},{name},{}", slot.slot);
    }
    text
}

fn json(fabric: &Fabric, allocation: &Allocation, placement: &Placement) -> String {
    let nodes: Vec<_> = allocation
        .nodes()
        .iter()
        .map(|&(id, slots)| {
            let node = fabric.node(id);
            serde_json::json!({"node": node.name, "host": node.host, "slots": slots})
        })
        .collect();
    let names = placement.slots().iter().map(|s| &fabric.node(s.node).name);
    let value = serde_json::json!({
        "schema": "hopbyte.placement/1",
        "tasks": placement.tasks(),
        "nodes": nodes,
        "placement": names.collect::<Vec<_>>(),
        "slots": placement.slots().iter().map(|s| s.slot).collect::<Vec<_>>(),
    });
    format!("{value}\n")
}
