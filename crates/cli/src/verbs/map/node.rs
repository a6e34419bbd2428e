//! How many ranks does a node hold? Counted in the description of what is inside it.

use anyhow::{Result, bail};
use clap::ValueEnum;
use hopbyte_observe::{MachineFiles, read_machine};
use std::path::{Path, PathBuf};

/// What a node has inside.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct NodeArgs {
    /// What is inside a node (hwloc XML or an NCCL topology): it holds a rank for each core
    ///
    /// --ranks-per-node may ask for fewer, not for more; slots of single nodes in the list (NAME:SLOTS) count as
    /// they stand.
    #[arg(long, value_name = "FILE", help_heading = "Job")]
    pub node_topology: Option<PathBuf>,
    /// For --node-topology: what a rank has to itself
    #[arg(
        long,
        value_enum,
        default_value_t = Part::Cores,
        requires = "node_topology",
        help_heading = "Job"
    )]
    pub rank_per: Part,
}

/// A part of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// A core
    #[default]
    Cores,
    /// A NUMA memory
    Memories,
    /// A GPU
    Gpus,
}

impl Part {
    /// As the command line says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::Memories => "memories",
            Self::Gpus => "gpus",
        }
    }

    /// Whether a name is one of such a part: `core 3`, `memory 0`, `gpu1`, `nvml1`.
    fn is(self, name: &str) -> bool {
        let numbered = |word: &str| {
            name.strip_prefix(word).is_some_and(|rest| {
                let digits = rest.trim_start_matches(' ');
                !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
            })
        };
        match self {
            Self::Cores => numbered("core"),
            Self::Memories => numbered("memory"),
            Self::Gpus => ["gpu", "nvml", "cuda", "rsmi"].into_iter().any(numbered),
        }
    }
}

impl NodeArgs {
    /// Ranks that a node holds: those asked for, if there is a part for each, else one for each part.
    pub fn slots(&self, asked: Option<u32>) -> Result<Option<u32>> {
        let Some(file) = &self.node_topology else {
            return Ok(asked);
        };
        let (count, part) = (self.count(file)?, self.rank_per.name());
        match asked {
            Some(n) if n > count => bail!(
                "found {n} ranks a node, expected at most {count}, as many {part} as {} has\nhint: allocate more nodes, or leave --node-topology out",
                file.display()
            ),
            Some(n) => Ok(Some(n)),
            None => Ok(Some(count)),
        }
    }

    fn count(&self, file: &Path) -> Result<u32> {
        let inside = read_machine(&MachineFiles::new(file.display().to_string()))?.fabric;
        let part = self.rank_per;
        let count = inside.nodes().iter().filter(|n| part.is(&n.name)).count();
        match u32::try_from(count) {
            Ok(n) if n > 0 => Ok(n),
            _ => bail!(
                "{}: found no {}, expected hwloc XML or an NCCL topology with some\nhint: lstopo --of xml writes one; GPUs are in it when hwloc was built with their library",
                file.display(),
                part.name()
            ),
        }
    }
}
