//! The inside of a node: its number of ranks, and the cores of each.

use crate::error::{JobError, Result, refuse};
use crate::mapping::Mapping;
use crate::question::Question;
use hopbyte_apply::SlotCores;
use hopbyte_fabric::document::Document;
use hopbyte_fabric::{End, NodeId, Placement};
use hopbyte_map::{Inside, arrange, between_slots};
use hopbyte_observe::{Machine, MachineFiles, is_numbered, read_machine};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::str::FromStr;

/// A part of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// A core
    #[default]
    Cores,
    /// A NUMA memory
    Memories,
    /// A GPU
    Gpus,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|p| p.name() == word);
        found.ok_or_else(|| format!("found {word:?}, expected cores, memories or gpus"))
    }
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 3] = [Self::Cores, Self::Memories, Self::Gpus];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::Memories => "memories",
            Self::Gpus => "gpus",
        }
    }

    /// Its meaning, for help.
    pub fn help(self) -> &'static str {
        match self {
            Self::Cores => "A core",
            Self::Memories => "A NUMA memory",
            Self::Gpus => "A GPU",
        }
    }

    /// Whether a name is that of such a part: `core 3`, `memory 0`, `gpu1`, `nvml1`.
    fn is(self, name: &str) -> bool {
        let numbered = |word: &str| is_numbered(name, word);
        match self {
            Self::Cores => numbered("core"),
            Self::Memories => numbered("memory"),
            Self::Gpus => ["gpu", "nvml", "cuda", "rsmi"].into_iter().any(numbered),
        }
    }
}

/// The inside of every node of the job.
pub struct NodeInside {
    file: String,
    part: Part,
    inside: Machine,
    /// The part that each rank gets exclusively.
    parts: Vec<NodeId>,
}

/// Slots of the ranks on every node, and the resulting internal traffic.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Arranged {
    #[serde(default)]
    node_topology: String,
    #[serde(default)]
    rank_per: String,
    /// Parts behind the slots, by the names in the file.
    #[serde(default)]
    parts: Vec<String>,
    /// Cores and processors of the slots, for launchers; empty if slots are other parts.
    #[serde(flatten)]
    pub cores: Option<SlotCores>,
    /// Bytes over the joints inside nodes, by kind.
    #[serde(default)]
    pub joints: Vec<Joint>,
}

/// Bytes over one kind of joint inside nodes, on all of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Joint {
    /// Kind of link.
    pub kind: String,
    /// With the ranks in order.
    pub bytes_in_order: f64,
    /// As placed.
    pub bytes: f64,
}

impl NodeInside {
    /// Reads the description of a node's inside.
    ///
    /// # Errors
    /// The file describes no node (hwloc XML, an NCCL topology, `nvidia-smi topo -m`), or has none of these parts.
    pub fn read(file: &Path, part: Part) -> Result<Self> {
        let file = file.display().to_string();
        let inside = read_machine(&MachineFiles::new(file.clone()))?;
        let nodes = inside.fabric.node_ids();
        let parts: Vec<NodeId> = nodes
            .filter(|&n| part.is(&inside.fabric.node(n).name))
            .collect();
        if parts.is_empty() {
            refuse!(
                "{file}: found no {}, expected hwloc XML, an NCCL topology or nvidia-smi topo -m with some\nhint: lstopo --of xml writes one; GPUs are in it when hwloc was built with their library",
                part.name()
            );
        }
        Ok(Self {
            file,
            part,
            inside,
            parts,
        })
    }

    /// Ranks per node: the requested number if there is a part for each, else one per part.
    pub fn slots(&self, asked: Option<u32>) -> Result<u32> {
        let count = self.parts.len() as u32;
        match asked {
            Some(n) if n > count => refuse!(
                "found {n} ranks a node, expected at most {count}, as many {} as {} has\nhint: allocate more nodes, or leave --node-topology out",
                self.part.name(),
                self.file
            ),
            Some(n) => Ok(n),
            None => Ok(count),
        }
    }

    /// Reassigns slots within every node to bring ranks with much traffic close together. Fewer
    /// slots than parts are spread evenly over the parts.
    ///
    /// Returns a note if a node has more slots than parts; its ranks then stay in order.
    ///
    /// # Errors
    /// The description has no routes between its parts.
    pub fn arrange(&self, question: &Question, mapping: &mut Mapping) -> Result<Option<String>> {
        let nodes = question.allocation.nodes();
        let most = nodes.iter().map(|n| n.1 as usize).max().unwrap_or(0);
        if most > self.parts.len() {
            return Ok(Some(format!(
                "a node has {most} slots, and {} {} {}: ranks stay in order inside nodes",
                self.file,
                self.parts.len(),
                self.part.name()
            )));
        }
        let slots: Vec<NodeId> = (0..most)
            .map(|s| self.parts[s * self.parts.len() / most])
            .collect();
        let inside = Inside {
            fabric: &self.inside.fabric,
            routing: &self.inside.routing,
            slots: &slots,
        };
        let (fabric, seed) = (&question.machine.fabric, mapping.certificate.seed);
        let (exchange, allocation) = (&question.exchange, &question.allocation);
        let before = &mapping.placement;
        let after = arrange(&inside, exchange, fabric, allocation, before, seed)?;
        let name = |&n: &NodeId| self.inside.fabric.node(n).name.clone();
        mapping.inside = Some(Arranged {
            node_topology: self.file.clone(),
            rank_per: self.part.name().into(),
            parts: slots.iter().map(name).collect(),
            cores: (self.part == Part::Cores).then(|| self.cores(&slots)),
            joints: self.joints(&slots, question, before, &after)?,
        });
        mapping.placement = after;
        Ok(None)
    }

    /// Numbers of the cores, and of their first hardware threads.
    fn cores(&self, slots: &[NodeId]) -> SlotCores {
        let records = Document::of(&self.inside.fabric, &self.inside.routing).nodes;
        let number = |name: &str| name.split_once(' ').and_then(|(_, n)| n.parse().ok());
        let threads = |n: &NodeId| {
            let names = records[n.index()].aliases.iter();
            let threads = names.filter(|a| a.starts_with("pu "));
            threads.filter_map(|a| number(a)).min()
        };
        let core = |n: &NodeId| number(&self.inside.fabric.node(*n).name).unwrap_or(n.0);
        SlotCores {
            cores: slots.iter().map(core).collect(),
            processors: slots
                .iter()
                .map(|n| threads(n).unwrap_or_else(|| core(n)))
                .collect(),
        }
    }

    /// Bytes over the joints inside nodes, by kind, without those of the slots themselves.
    fn joints(
        &self,
        slots: &[NodeId],
        question: &Question,
        before: &Placement,
        after: &Placement,
    ) -> Result<Vec<Joint>> {
        let (fabric, routing) = (&self.inside.fabric, &self.inside.routing);
        let k = slots.len();
        let sums = [before, after].map(|p| between_slots(&question.exchange, p, k));
        let mut joints: Vec<Joint> = Vec::new();
        let mut shares = Vec::new();
        for (i, (&was, &is)) in sums[0].iter().zip(&sums[1]).enumerate() {
            if was == 0.0 && is == 0.0 {
                continue;
            }
            shares.clear();
            let walked = routing.shares(fabric, slots[i / k], slots[i % k], &mut shares);
            walked.map_err(|dead| JobError::refused(&dead.describe(fabric)))?;
            for &(link, share) in &shares {
                let ends = [fabric.link(link).from, fabric.link(link).to];
                if ends.iter().any(|e| matches!(e, End::Node(_))) {
                    continue;
                }
                let kind = &fabric.kind(link).name;
                let at = joints.iter().position(|j| j.kind == *kind);
                let at = at.unwrap_or_else(|| {
                    joints.push(Joint {
                        kind: kind.clone(),
                        bytes_in_order: 0.0,
                        bytes: 0.0,
                    });
                    joints.len() - 1
                });
                joints[at].bytes_in_order += was * share;
                joints[at].bytes += is * share;
            }
        }
        joints.sort_by(|a, b| a.kind.cmp(&b.kind));
        Ok(joints)
    }
}
