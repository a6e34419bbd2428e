//! Allocations and checked placements.

use crate::bounds::{MAX_ALLOCATION, MAX_SLOTS};
use crate::error::FabricError;
use crate::fabric::Fabric;
use crate::ids::NodeId;

/// A slot for one task on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Node.
    pub node: NodeId,
    /// Index on the node, from 0.
    pub slot: u32,
}

/// The nodes of a job, in the launcher's order, with the slots of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    nodes: Vec<(NodeId, u32)>,
    /// Position by node id; [`ABSENT`] for nodes that are not in it.
    index: Vec<u32>,
}

/// No position.
const ABSENT: u32 = u32::MAX;

impl Allocation {
    /// From (node, capacity) pairs; duplicate nodes and capacities of 0 are refused.
    pub fn new(fabric: &Fabric, nodes: Vec<(NodeId, u32)>) -> Result<Self, FabricError> {
        let last = nodes.iter().map(|(node, _)| node.index()).max();
        let mut index = vec![ABSENT; last.map_or(0, |last| last + 1)];
        for (i, &(node, capacity)) in nodes.iter().enumerate() {
            let name = || fabric.node(node).name.clone();
            if capacity == 0 {
                return Err(FabricError::OutOfRange {
                    what: format!("slots of node {}", name()),
                    found: "0".into(),
                    expected: "at least 1".into(),
                });
            }
            if capacity > MAX_SLOTS {
                return Err(FabricError::OutOfRange {
                    what: format!("slots of node {}", name()),
                    found: capacity.to_string(),
                    expected: format!("at most {MAX_SLOTS}"),
                });
            }
            if std::mem::replace(&mut index[node.index()], i as u32) != ABSENT {
                return Err(FabricError::OutOfRange {
                    what: format!("node {} of the allocation", name()),
                    found: "it twice".into(),
                    expected: "each node once, with all its slots (NAME:SLOTS)".into(),
                });
            }
        }
        let slots: u64 = nodes.iter().map(|&(_, c)| u64::from(c)).sum();
        if slots > MAX_ALLOCATION {
            return Err(FabricError::OutOfRange {
                what: format!("slots of {} nodes", nodes.len()),
                found: slots.to_string(),
                expected: format!("at most {MAX_ALLOCATION}"),
            });
        }
        Ok(Self { nodes, index })
    }

    /// Nodes with capacities, in order.
    pub fn nodes(&self) -> &[(NodeId, u32)] {
        &self.nodes
    }

    /// Position of a node in [`Allocation::nodes`].
    pub fn position(&self, node: NodeId) -> Option<usize> {
        let position = self.index.get(node.index()).copied();
        position.filter(|&p| p != ABSENT).map(|p| p as usize)
    }

    /// Number of slots.
    pub fn capacity(&self) -> usize {
        self.nodes.iter().map(|&(_, c)| c as usize).sum()
    }

    /// All slots, node by node.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.nodes
            .iter()
            .flat_map(|&(node, capacity)| (0..capacity).map(move |slot| Slot { node, slot }))
    }

    fn check_tasks(&self, tasks: usize) -> Result<(), FabricError> {
        if tasks <= self.capacity() {
            return Ok(());
        }
        Err(FabricError::OutOfRange {
            what: "tasks to place".into(),
            found: tasks.to_string(),
            expected: format!("at most the {} slots of the allocation", self.capacity()),
        })
    }
}

/// A slot for every task, no slot twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    slots: Vec<Slot>,
}

impl Placement {
    /// Checks that every slot is in the allocation and used once.
    pub fn new(
        fabric: &Fabric,
        allocation: &Allocation,
        slots: Vec<Slot>,
    ) -> Result<Self, FabricError> {
        let mut first = Vec::with_capacity(allocation.nodes.len());
        let mut all = 0;
        for &(_, capacity) in &allocation.nodes {
            first.push(all);
            all += capacity as usize;
        }
        // The task in every slot, counted from 1.
        let mut taken = vec![0u32; all];
        for (task, &slot) in slots.iter().enumerate() {
            let place = allocation.position(slot.node);
            let capacity = place.map_or(0, |i| allocation.nodes[i].1);
            let wrong = |expected: String| FabricError::OutOfRange {
                what: format!("place of task {task}"),
                found: format!("{} slot {}", fabric.node(slot.node).name, slot.slot),
                expected,
            };
            if slot.slot >= capacity {
                return Err(wrong(format!(
                    "a slot of the allocation ({capacity} on that node)"
                )));
            }
            let at = place.map_or(0, |i| first[i]) + slot.slot as usize;
            match std::mem::replace(&mut taken[at], task as u32 + 1) {
                0 => {}
                other => {
                    let other = other - 1;
                    return Err(wrong(format!("a slot that task {other} does not have")));
                }
            }
        }
        Ok(Self { slots })
    }

    /// From a node for every task; slots are assigned in task order.
    pub fn on_nodes(
        fabric: &Fabric,
        allocation: &Allocation,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> Result<Self, FabricError> {
        // Nodes outside the allocation, which are refused, share the last count.
        let outside = allocation.nodes.len();
        let mut used = vec![0u32; outside + 1];
        let slots = nodes
            .into_iter()
            .map(|node| {
                let next = &mut used[allocation.position(node).unwrap_or(outside)];
                *next += 1;
                Slot {
                    node,
                    slot: *next - 1,
                }
            })
            .collect();
        Self::new(fabric, allocation, slots)
    }

    /// Tasks fill the nodes one after the other: the default of launchers.
    pub fn in_order(allocation: &Allocation, tasks: usize) -> Result<Self, FabricError> {
        allocation.check_tasks(tasks)?;
        Ok(Self {
            slots: allocation.slots().take(tasks).collect(),
        })
    }

    /// Tasks are dealt to the nodes in turn (cyclic distribution), skipping full ones.
    pub fn round_robin(allocation: &Allocation, tasks: usize) -> Result<Self, FabricError> {
        allocation.check_tasks(tasks)?;
        let deepest = allocation.nodes.iter().map(|&(_, c)| c).max().unwrap_or(0);
        let slots = (0..deepest)
            .flat_map(|slot| {
                allocation
                    .nodes
                    .iter()
                    .filter(move |&&(_, c)| slot < c)
                    .map(move |&(node, _)| Slot { node, slot })
            })
            .take(tasks)
            .collect();
        Ok(Self { slots })
    }

    /// Number of tasks.
    pub fn tasks(&self) -> usize {
        self.slots.len()
    }

    /// Place of a task.
    #[inline]
    pub fn slot(&self, task: u32) -> Slot {
        self.slots[task as usize]
    }

    /// Node of a task.
    #[inline]
    pub fn node(&self, task: u32) -> NodeId {
        self.slots[task as usize].node
    }

    /// All places by task.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Tasks on different nodes in two placements.
    pub fn moved(&self, other: &Self) -> usize {
        self.slots
            .iter()
            .zip(&other.slots)
            .filter(|(a, b)| a.node != b.node)
            .count()
    }
}
