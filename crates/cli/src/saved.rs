//! Mappings that were saved: what `hopbyte map --json` printed, read back.

use crate::args::CounterArgs;
use crate::machine::MachineSource;
use anyhow::Result;
use hopbyte_apply::SlotCores;
use hopbyte_fabric::{Allocation, Fabric, FabricError, Placement, Slot};
use hopbyte_observe::text::{Limits, Text};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The schema that mappings carry.
pub const SCHEMA: &str = "hopbyte.map/1";

/// The parts of a saved mapping that other verbs need.
#[derive(Debug, Deserialize)]
pub struct Saved {
    schema: String,
    /// The machine.
    pub machine: MachineSource,
    /// What was mapped.
    pub traffic: Sent,
    /// What others put on the links.
    #[serde(default)]
    pub background: Option<Background>,
    /// Bytes on the way back for each byte sent.
    #[serde(default)]
    pub response_fraction: f64,
    /// What the launcher's default costs.
    pub baseline: Figures,
    /// What the placement of that time cost, where it was known.
    pub current: Option<Figures>,
    /// What the mapping costs.
    pub result: Figures,
    allocation: Vec<Room>,
    placement: Vec<String>,
    slots: Vec<u32>,
    /// What the slots of a node are, where that was known.
    #[serde(default)]
    inside: Option<Inside>,
}

#[derive(Debug, Deserialize)]
struct Inside {
    #[serde(flatten)]
    cores: Option<SlotCores>,
}

/// The figures of a placement that can be observed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Figures {
    /// Time of the worst link.
    pub worst_link_seconds: f64,
    /// Bytes times hops.
    pub hop_bytes: f64,
}

/// Where traffic came from.
#[derive(Debug, Deserialize)]
pub struct Sent {
    /// File or spec.
    pub source: String,
}

/// Counters that were taken as background.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Background {
    /// Their files.
    pub files: Vec<PathBuf>,
    /// What the files do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<f64>,
    /// Code region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<i64>,
    /// Node or router that the counters are of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl Background {
    /// The same as options.
    pub fn about(&self) -> CounterArgs {
        CounterArgs {
            interval: self.interval_seconds,
            region: self.region,
            node: self.node.clone(),
        }
    }
}

/// A node of an allocation.
#[derive(Debug, Deserialize, Serialize)]
pub struct Room {
    /// Its name.
    pub node: String,
    /// Tasks it may hold.
    pub slots: u32,
}

impl Saved {
    /// Reads a saved mapping.
    pub fn read(path: &Path) -> Result<Self> {
        let text = Text::read(path, Limits::ROWS)?;
        let wrong = |found: String, expected: &str| {
            let hint = "save one with: hopbyte map … --out FOLDER, or --json";
            text.error(found, expected).hint(hint)
        };
        let saved: Self = serde_json::from_slice(text.bytes()).map_err(|e| {
            let expected = "a mapping as `hopbyte map --json` prints it";
            wrong(e.to_string(), expected).at(e.line() as u64)
        })?;
        if saved.schema != SCHEMA {
            return Err(wrong(saved.schema, "schema hopbyte.map/1").into());
        }
        if saved.placement.len() != saved.slots.len() {
            let (nodes, slots) = (saved.placement.len(), saved.slots.len());
            let found = format!("{nodes} nodes and {slots} slots");
            return Err(wrong(found, "as many slots as nodes in `placement`").into());
        }
        Ok(saved)
    }

    /// Cores of the slots of a node, where they are known for all of them.
    pub fn cores(&self) -> Option<&SlotCores> {
        let cores = self.inside.as_ref()?.cores.as_ref()?;
        let known = cores.cores.len().min(cores.processors.len());
        let most = self.slots.iter().max().map_or(0, |&s| s as usize + 1);
        (known >= most).then_some(cores)
    }

    /// Allocation and placement on a fabric, checked.
    pub fn placed(&self, fabric: &Fabric) -> Result<(Allocation, Placement), FabricError> {
        let rooms = self.allocation.iter();
        let rooms = rooms.map(|r| Ok((fabric.find_node(&r.node)?, r.slots)));
        let allocation = Allocation::new(fabric, rooms.collect::<Result<_, FabricError>>()?)?;
        let ranks = self.placement.iter().zip(&self.slots);
        let slots = ranks.map(|(node, &slot)| {
            let node = fabric.find_node(node)?;
            Ok(Slot { node, slot })
        });
        let slots = slots.collect::<Result<_, FabricError>>()?;
        let placement = Placement::new(fabric, &allocation, slots)?;
        Ok((allocation, placement))
    }
}
