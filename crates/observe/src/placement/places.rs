//! Ranks and nodes as named in files, until every rank has a slot.

use crate::ObserveError;
use crate::text::{Line, Text, decimal_u32, lossy};
use hopbyte_fabric::{Allocation, Fabric, FabricError, InputError, NodeId, Placement, Slot};
use std::collections::{BTreeMap, HashMap};

/// A placement with its allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Nodes and their slots.
    pub allocation: Allocation,
    /// A slot for every rank.
    pub placement: Placement,
}

/// Lines without comments (`#` to the end of the line) that are not empty.
pub(super) fn content_lines(text: &Text) -> impl Iterator<Item = Line<'_>> {
    text.lines().filter_map(|line| {
        let end = line.bytes.iter().position(|&b| b == b'#');
        let bytes = &line.bytes[..end.unwrap_or(line.bytes.len())];
        let line = Line { bytes, ..line };
        (!line.trimmed().is_empty()).then_some(line)
    })
}

/// Resolves a node name; the error states its position.
pub(super) fn node(
    text: &Text,
    line: Line<'_>,
    name: &[u8],
    fabric: &Fabric,
) -> Result<NodeId, InputError> {
    let found = fabric.find_node(&lossy(name));
    found.map_err(|e| no_node(text.error_in(line, name, "a node of the fabric"), &e))
}

/// The error for an unknown node name, with similar names from the fabric.
pub(super) fn no_node(error: InputError, why: &FabricError) -> InputError {
    let why = why.to_string();
    match why.split_once("\nhint: ") {
        Some((_, hint)) => error.hint(hint),
        None => error.hint(why),
    }
}

/// A rank below the limit.
pub(super) fn rank(text: &Text, line: Line<'_>, word: &[u8]) -> Result<u32, InputError> {
    decimal_u32(word)
        .filter(|&r| (r as usize) < crate::traffic::MAX_TASKS)
        .ok_or_else(|| text.error_in(line, word, "a rank (a whole number)"))
}

/// Nodes of the ranks, before slots are assigned.
#[derive(Default)]
pub(super) struct Places {
    /// By rank: the node and, if given, the slot or core on it.
    pub(super) ranks: BTreeMap<u32, (NodeId, Option<u32>)>,
}

impl Places {
    pub(super) fn add(
        &mut self,
        text: &Text,
        line: Line<'_>,
        rank: u32,
        place: (NodeId, Option<u32>),
    ) -> Result<(), InputError> {
        if self.ranks.insert(rank, place).is_some() {
            let expected = format!("every rank once; rank {rank} came before");
            return Err(text.error_at(line, expected));
        }
        Ok(())
    }

    /// Adds the host of the next rank.
    pub(super) fn push(&mut self, place: (NodeId, Option<u32>)) {
        self.ranks.insert(self.ranks.len() as u32, place);
    }

    /// Assigns the slots. Numbers beyond a node's slots are core numbers, and so are all numbers if there is no
    /// allocation: then only their order counts.
    pub(super) fn finish(
        self,
        text: &Text,
        fabric: &Fabric,
        allocation: Option<&Allocation>,
    ) -> Result<Placed, ObserveError> {
        if let Some(missing) = (0..).zip(self.ranks.keys()).find(|(i, r)| i != *r) {
            let found = format!("{} ranks without rank {}", self.ranks.len(), missing.0);
            return Err(text.error(found, "every rank from 0").into());
        }
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut on_node: HashMap<NodeId, Vec<(Option<u32>, u32)>> = HashMap::new();
        for (&rank, &(node, slot)) in &self.ranks {
            let list = on_node.entry(node).or_insert_with(|| {
                nodes.push(node);
                Vec::new()
            });
            list.push((slot, rank));
        }
        let allocation = match allocation {
            Some(given) => given.clone(),
            None => Allocation::new(
                fabric,
                nodes
                    .iter()
                    .map(|&n| (n, on_node[&n].len() as u32))
                    .collect(),
            )?,
        };
        let mut slots: Vec<Slot> = self
            .ranks
            .values()
            .map(|&(node, _)| Slot { node, slot: 0 })
            .collect();
        for (node, mut ranks) in on_node {
            let room = allocation
                .position(node)
                .map_or(0, |i| allocation.nodes()[i].1);
            let as_said = ranks.iter().all(|(s, _)| s.is_some_and(|s| s < room));
            ranks.sort_unstable();
            for (order, (slot, rank)) in (0..).zip(ranks) {
                let own = slot.filter(|_| as_said).unwrap_or(order);
                slots[rank as usize].slot = own;
            }
        }
        let placement = Placement::new(fabric, &allocation, slots)?;
        Ok(Placed {
            allocation,
            placement,
        })
    }
}
