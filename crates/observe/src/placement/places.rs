//! Ranks and nodes as named in files, until every rank has a slot.

use super::nodes::{Names, deal};
use crate::ObserveError;
use crate::text::{Line, Text, decimal_u32, lossy, without_comment};
use hopbyte_fabric::{Allocation, Fabric, FabricError, InputError, NodeId, Placement, Slot};
use std::collections::{BTreeMap, HashMap};

/// A placement with its allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Nodes and their slots.
    pub allocation: Allocation,
    /// Whether the order of the nodes is the launcher's: of the given allocation, or of one that the file states. Otherwise
    /// they come as the ranks do.
    pub order_is_known: bool,
    /// A slot for every rank.
    pub placement: Placement,
    /// Whether the file states the GPU of every rank, not its host alone.
    pub states_gpus: bool,
    /// That the file may have been cut.
    pub notes: Vec<String>,
}

/// Lines without comments that are not empty.
pub(super) fn content_lines(text: &Text) -> impl Iterator<Item = Line<'_>> {
    text.lines().filter_map(|line| {
        let bytes = without_comment(line.bytes);
        let line = Line { bytes, ..line };
        (!line.trimmed().is_empty()).then_some(line)
    })
}

/// The error for an unknown node name, with similar names from the fabric.
pub(super) fn no_node(error: InputError, why: &FabricError) -> InputError {
    let error = error.of(why.class());
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

/// The place that a file names for a rank: a node, or a host with several places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// A node.
    Node(NodeId),
    /// A host, by its first place.
    Host(NodeId),
}

/// Nodes of the ranks, before slots are assigned.
pub(super) struct Places<'a> {
    names: Names<'a>,
    /// By rank: the node or host and, if given, the slot or core on it.
    pub(super) ranks: BTreeMap<u32, (Spot, Option<u32>)>,
    /// Line of each rank that has one of its own.
    lines: HashMap<u32, u64>,
    /// Whether slots are cores, of which those of hosts with GPUs give an order alone.
    pub(super) slots_are_cores: bool,
}

impl<'a> Places<'a> {
    pub(super) fn of(fabric: &'a Fabric) -> Self {
        Self {
            names: Names::of(fabric),
            ranks: BTreeMap::new(),
            lines: HashMap::new(),
            slots_are_cores: false,
        }
    }

    /// Resolves the name of a node or host.
    pub(super) fn named(&self, name: &str) -> Result<Spot, FabricError> {
        Ok(match self.names.find(name)?[..] {
            [node] => Spot::Node(node),
            [first, ..] => Spot::Host(first),
            [] => Spot::Node(self.names.fabric.find_node(name)?),
        })
    }

    /// The same; the error states its position.
    pub(super) fn node(
        &self,
        text: &Text,
        line: Line<'_>,
        name: &[u8],
    ) -> Result<Spot, InputError> {
        let found = self.named(&lossy(name));
        found.map_err(|e| no_node(text.error_in(line, name, "a node of the fabric"), &e))
    }

    /// Number of GPUs of a host that is described with them.
    pub(super) fn gpus(&self, spot: Spot) -> Option<usize> {
        let (fabric, Spot::Host(first)) = (self.names.fabric, spot) else {
            return None;
        };
        let inside = fabric.inside().filter(|i| i.is_exclusive(first))?;
        let host = fabric.node(first).host.as_str();
        let all = self.names.hosts.get(host)?;
        all.iter()
            .all(|&n| inside.is_exclusive(n))
            .then_some(all.len())
    }

    pub(super) fn add(
        &mut self,
        text: &Text,
        line: Line<'_>,
        rank: u32,
        place: (Spot, Option<u32>),
    ) -> Result<(), InputError> {
        if self.ranks.insert(rank, place).is_some() {
            let expected = format!("every rank once; rank {rank} came before");
            return Err(text.error_at(line, expected));
        }
        self.lines.insert(rank, line.number);
        Ok(())
    }

    /// Adds the host of the next rank.
    pub(super) fn push(&mut self, place: (Spot, Option<u32>)) {
        self.ranks.insert(self.ranks.len() as u32, place);
    }

    /// Refuses ranks of one node, in order, of which two name the same slot.
    fn once(
        &self,
        text: &Text,
        name: &str,
        ranks: &[(Option<u32>, u32)],
    ) -> Result<(), InputError> {
        let two = ranks
            .windows(2)
            .find(|two| two[0].0.is_some() && two[0].0 == two[1].0);
        let Some(&[(slot, one), (_, other)]) = two else {
            return Ok(());
        };
        let found = format!(
            "ranks {one} and {other} in slot {} of {name}",
            slot.unwrap_or(0)
        );
        let error = text.error(found, "every slot of a node once");
        let lines = [one, other].map(|rank| self.lines.get(&rank).copied());
        Err(match lines.iter().flatten().max() {
            Some(&line) => error.at(line),
            None => error,
        })
    }

    /// A place for every rank: those on a host with several take its places in the order of slots, as launchers number
    /// local ranks. With an allocation only allocated places count.
    ///
    /// Numbers of GPUs count among the allocated ones if all are below their number, as in a job that sees no others;
    /// else they are those of the host.
    fn seated(
        &self,
        text: &Text,
        allocation: Option<&Allocation>,
    ) -> Result<BTreeMap<u32, (NodeId, Option<u32>)>, InputError> {
        let fabric = self.names.fabric;
        let mut seated = BTreeMap::new();
        let mut on_host: BTreeMap<NodeId, Vec<(Option<u32>, u32)>> = BTreeMap::new();
        let mut taken: HashMap<NodeId, u32> = HashMap::new();
        for (&rank, &(spot, slot)) in &self.ranks {
            match spot {
                Spot::Node(node) => {
                    seated.insert(rank, (node, slot));
                    *taken.entry(node).or_default() += 1;
                }
                Spot::Host(first) => on_host.entry(first).or_default().push((slot, rank)),
            }
        }
        for (first, mut ranks) in on_host {
            let host = fabric.node(first).host.as_str();
            let all = self.names.hosts.get(host).map_or(&[][..], Vec::as_slice);
            let free = self.free(all, ranks.len(), (&taken, allocation));
            if ranks.len() > free.len() {
                let found = format!("{} ranks on {host}", ranks.len());
                let expected = match allocation {
                    Some(_) => format!("at most {}, its allocated places", free.len()),
                    None => format!("at most {}, one for each GPU", free.len()),
                };
                return Err(text.error(found, expected));
            }
            let exact = self.takes_gpus(first) && ranks.iter().all(|r| r.0.is_some());
            let among = allocation.is_some() || !exact;
            let below = |s: u32| (s as usize) < free.len();
            let as_said = ranks.iter().all(|(s, _)| s.is_some_and(below)) && among;
            ranks.sort_unstable();
            if as_said || exact {
                self.once(text, host, &ranks)?;
            }
            if exact && !as_said {
                for (slot, rank) in ranks {
                    let gpu = self.gpu(text, (slot.unwrap_or(0), rank), (host, &free))?;
                    seated.insert(rank, (gpu, None));
                }
                continue;
            }
            for (order, (slot, rank)) in ranks.into_iter().enumerate() {
                let own = slot.filter(|_| as_said).map_or(order, |s| s as usize);
                seated.insert(rank, (free[own], None));
            }
        }
        Ok(seated)
    }

    /// Whether the slots of ranks on a host are numbers of its GPUs.
    fn takes_gpus(&self, first: NodeId) -> bool {
        let inside = self.names.fabric.inside();
        !self.slots_are_cores && inside.is_some_and(|i| i.is_exclusive(first))
    }

    /// The GPU of a rank by its number on its host.
    fn gpu(
        &self,
        text: &Text,
        (number, rank): (u32, u32),
        (host, free): (&str, &[NodeId]),
    ) -> Result<NodeId, InputError> {
        let own = |n: NodeId| self.names.fabric.inside()?.number_on_host(n);
        let found = free.iter().copied().find(|&n| own(n) == Some(number));
        found.ok_or_else(|| {
            let all: Vec<String> = free
                .iter()
                .filter_map(|&n| own(n))
                .map(|n| n.to_string())
                .collect();
            let expected = format!("one of the job's GPUs on it: {}", all.join(", "));
            let error = text.error(format!("rank {rank} on GPU {number} of {host}"), expected);
            match self.lines.get(&rank) {
                Some(&line) => error.at(line),
                None => error,
            }
        })
    }

    /// Whether every rank has its own GPU in the file.
    fn states_gpus(&self) -> bool {
        let exclusive = |n: NodeId| {
            let inside = self.names.fabric.inside();
            inside.is_some_and(|i| i.is_exclusive(n))
        };
        self.ranks.values().all(|&(spot, slot)| match spot {
            Spot::Node(node) => exclusive(node),
            Spot::Host(first) => slot.is_some() && self.takes_gpus(first),
        })
    }

    /// The slots of a host's places for a number of ranks that name the host alone.
    fn free(
        &self,
        all: &[NodeId],
        ranks: usize,
        (taken, allocation): (&HashMap<NodeId, u32>, Option<&Allocation>),
    ) -> Vec<NodeId> {
        let inside = self.names.fabric.inside();
        let exclusive = |n: NodeId| inside.is_some_and(|i| i.is_exclusive(n));
        let rooms: Vec<(NodeId, u32)> = match allocation {
            Some(given) => {
                let room = |&n: &NodeId| Some((n, given.nodes()[given.position(n)?].1));
                all.iter().filter_map(room).collect()
            }
            None if all.iter().all(|&n| exclusive(n)) => all.iter().map(|&n| (n, 1)).collect(),
            None => deal(all, ranks as u32).collect(),
        };
        let left = |(node, room): (NodeId, u32)| {
            let used = taken.get(&node).copied().unwrap_or(0);
            std::iter::repeat_n(node, room.saturating_sub(used) as usize)
        };
        rooms.into_iter().flat_map(left).collect()
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
        let states_gpus = self.states_gpus();
        let ranks = self.seated(text, allocation)?;
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut on_node: HashMap<NodeId, Vec<(Option<u32>, u32)>> = HashMap::new();
        for (&rank, &(node, slot)) in &ranks {
            let list = on_node.entry(node).or_insert_with(|| {
                nodes.push(node);
                Vec::new()
            });
            list.push((slot, rank));
        }
        let order_is_known = allocation.is_some();
        let inside = fabric.inside();
        let allocation = match allocation {
            Some(given) => given.clone(),
            None => Allocation::new(
                fabric,
                nodes
                    .iter()
                    .map(|&n| match inside.is_some_and(|i| i.is_exclusive(n)) {
                        true => (n, 1),
                        false => (n, on_node[&n].len() as u32),
                    })
                    .collect(),
            )?,
        };
        let mut slots: Vec<Slot> = ranks
            .values()
            .map(|&(node, _)| Slot { node, slot: 0 })
            .collect();
        for node in nodes {
            let mut ranks = on_node.remove(&node).unwrap_or_default();
            let room = allocation
                .position(node)
                .map_or(0, |i| allocation.nodes()[i].1);
            if let Some((_, more)) = ranks.get(room as usize) {
                let s = if ranks.len() == 1 { "" } else { "s" };
                let name = &fabric.node(node).name;
                let found = format!("{} rank{s} on {name}", ranks.len());
                let expected = match inside.is_some_and(|i| i.is_exclusive(node)) {
                    true => format!("at most {room}, one for each GPU"),
                    false => format!("a slot of the allocation for each ({room} on that node)"),
                };
                let error = text.error(found, expected);
                let line = self.lines.get(more);
                return Err(line.map_or(error.clone(), |&line| error.at(line)).into());
            }
            let as_said = ranks.iter().all(|(s, _)| s.is_some_and(|s| s < room));
            ranks.sort_unstable();
            if as_said {
                self.once(text, &fabric.node(node).name, &ranks)?;
            }
            for (order, (slot, rank)) in (0..).zip(ranks) {
                let own = slot.filter(|_| as_said).unwrap_or(order);
                slots[rank as usize].slot = own;
            }
        }
        let placement = Placement::new(fabric, &allocation, slots)?;
        Ok(Placed {
            allocation,
            order_is_known,
            placement,
            states_gpus,
            notes: Vec::new(),
        })
    }
}
