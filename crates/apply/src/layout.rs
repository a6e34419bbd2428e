//! A placement from the launcher's side: host of each rank, ranks of each host.

use crate::error::ApplyError;
use hopbyte_fabric::{Allocation, Fabric, Placement, Routing, natural};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A placement to be written for a launcher.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// The machine.
    pub fabric: &'a Fabric,
    /// The nodes of the job, in the scheduler's order.
    pub allocation: &'a Allocation,
    /// The node and slot of every rank.
    pub placement: &'a Placement,
    /// Whether the program's MPI is MPICH or a derivative, if known.
    pub mpich: Option<bool>,
    /// The cores of a node's slots, if known.
    pub cores: Option<&'a SlotCores>,
    /// The job and the routes between its nodes, if known.
    pub job: Option<Job<'a>>,
}

/// What the ranks do.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// Its traffic: a spec or a file.
    pub traffic: &'a str,
    /// Routes of the fabric.
    pub routing: &'a Routing,
}

/// The cores of a node's slots, the same on every node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotCores {
    /// The core of each slot, numbered as hwloc and rankfiles number them.
    pub cores: Vec<u32>,
    /// Its first hardware thread, by the operating system's number.
    pub processors: Vec<u32>,
}

/// Hosts in the allocation's order and the position of every rank.
pub(crate) struct Layout<'a> {
    /// Host names in the order of first allocated nodes, checked.
    pub(crate) hosts: Vec<&'a str>,
    /// Slots by host.
    pub(crate) slots: Vec<u32>,
    /// Host by rank.
    pub(crate) place: Vec<u32>,
    /// Slot on its host by rank.
    pub(crate) slot: Vec<u32>,
    /// Whether the slots are GPUs.
    pub(crate) gpus: bool,
    /// The cores of the slots, if known.
    pub(crate) cores: Option<&'a SlotCores>,
    /// Its source.
    pub(crate) launch: Launch<'a>,
}

impl<'a> Layout<'a> {
    /// Checks host names. Allocated nodes of one host are one host with their slots together, in order.
    pub(crate) fn new(launch: &Launch<'a>) -> Result<Self, ApplyError> {
        let (fabric, allocation, placement) = (launch.fabric, launch.allocation, launch.placement);
        let mut hosts: Vec<&str> = Vec::new();
        let mut slots: Vec<u32> = Vec::new();
        let mut index: HashMap<&str, usize> = HashMap::new();
        // Host and first slot of every allocated node.
        let mut seats: Vec<(u32, u32)> = Vec::with_capacity(allocation.nodes().len());
        for &(id, capacity) in allocation.nodes() {
            let node = fabric.node(id);
            if !is_host_name(&node.host) {
                return Err(ApplyError::HostName {
                    node: node.name.clone(),
                    found: node.host.chars().take(80).collect(),
                });
            }
            let host = *index.entry(&node.host).or_insert_with(|| {
                hosts.push(&node.host);
                slots.push(0);
                hosts.len() - 1
            });
            seats.push((host as u32, slots[host]));
            slots[host] += capacity;
        }
        order_gpus(fabric, allocation, &mut seats);
        let mut place = Vec::with_capacity(placement.tasks());
        let mut slot_of = Vec::with_capacity(placement.tasks());
        for (rank, slot) in placement.slots().iter().enumerate() {
            match allocation.position(slot.node) {
                Some(position) => {
                    let (host, first) = seats[position];
                    place.push(host);
                    slot_of.push(first + slot.slot);
                }
                None => {
                    return Err(ApplyError::OutsideAllocation {
                        rank,
                        node: fabric.node(slot.node).name.clone(),
                    });
                }
            }
        }
        Ok(Self {
            hosts,
            slots,
            place,
            slot: slot_of,
            gpus: fabric.inside().is_some_and(|inside| {
                let mut nodes = allocation.nodes().iter();
                nodes.all(|n| inside.is_exclusive(n.0))
            }),
            cores: launch.cores,
            launch: *launch,
        })
    }

    /// Host of a rank.
    pub(crate) fn host(&self, rank: usize) -> &'a str {
        self.hosts[self.place[rank] as usize]
    }

    /// Name of a rank's node: with GPUs that of its GPU.
    pub(crate) fn node_name(&self, rank: usize) -> &'a str {
        let slot = self.launch.placement.slots()[rank];
        &self.launch.fabric.node(slot.node).name
    }

    /// Core of a rank: by default the number of its slot.
    pub(crate) fn core(&self, rank: usize) -> u32 {
        let slot = self.slot[rank];
        let core = self.cores.and_then(|c| c.cores.get(slot as usize));
        core.copied().unwrap_or(slot)
    }

    /// The processors of a node's slots; `None` if unknown.
    pub(crate) fn processors_by_slot(&self) -> Option<&'a [u32]> {
        let all = &self.cores?.processors;
        all.get(..self.most())
    }

    /// The processors of a node's ranks in rank order; `None` if unknown or different between nodes.
    pub(crate) fn processors_by_rank(&self) -> Option<Vec<u32>> {
        let all = &self.cores?.processors;
        let mut nodes: Vec<Vec<u32>> = vec![Vec::new(); self.hosts.len()];
        for (&place, &slot) in self.place.iter().zip(&self.slot) {
            nodes[place as usize].push(*all.get(slot as usize)?);
        }
        let longest = nodes.iter().max_by_key(|n| n.len())?.clone();
        nodes
            .iter()
            .all(|n| longest.starts_with(n))
            .then_some(longest)
    }

    /// Number of ranks.
    pub(crate) fn ranks(&self) -> usize {
        self.place.len()
    }

    /// Ranks of every node in the allocation's order, by slot.
    pub(crate) fn ranks_by_place(&self) -> Vec<Vec<u32>> {
        let mut by_place: Vec<Vec<u32>> = vec![Vec::new(); self.hosts.len()];
        for (rank, &place) in self.place.iter().enumerate() {
            by_place[place as usize].push(rank as u32);
        }
        for ranks in &mut by_place {
            ranks.sort_by_key(|&r| self.slot[r as usize]);
        }
        by_place
    }

    /// Largest number of ranks on a node.
    pub(crate) fn most(&self) -> usize {
        let counts = self.ranks_by_place().into_iter().map(|r| r.len());
        counts.max().unwrap_or(0)
    }

    /// Warning for hosts that are not sorted by name: Slurm and others number nodes in name order.
    pub(crate) fn order_note(&self) -> Option<String> {
        let out_of_order = |pair: &&[&str]| natural(pair[0]) > natural(pair[1]);
        let pair = self.hosts.windows(2).find(out_of_order)?;
        Some(format!(
            "nodes are taken in the scheduler's order, regardless of the requested order; here {} comes before {}",
            pair[0], pair[1]
        ))
    }

    /// Runs of consecutive ranks on one node: (position, number of ranks).
    pub(crate) fn runs(&self) -> Vec<(u32, u32)> {
        self.place
            .chunk_by(|a, b| a == b)
            .map(|run| (run[0], run.len() as u32))
            .collect()
    }
}

/// Numbers the slots of hosts with GPUs in the order of these, not in that of the allocation: a launcher's local
/// ranks take them in that order.
fn order_gpus(fabric: &Fabric, allocation: &Allocation, seats: &mut [(u32, u32)]) {
    let Some(inside) = fabric.inside() else {
        return;
    };
    let mut gpus: Vec<(u32, u32, usize)> = Vec::new();
    for (at, (&(id, _), seat)) in allocation.nodes().iter().zip(&*seats).enumerate() {
        if let Some(number) = inside
            .number_on_host(id)
            .filter(|_| inside.is_exclusive(id))
        {
            gpus.push((seat.0, number, at));
        }
    }
    gpus.sort_unstable();
    for host in gpus.chunk_by(|a, b| a.0 == b.0) {
        for (slot, &(.., at)) in (0..).zip(host) {
            seats[at].1 = slot;
        }
    }
}

/// Whether a name is safe unquoted in a launcher's file or command line.
pub(crate) fn is_host_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (1..=255).contains(&name.len()) && !name.starts_with('-') && name.chars().all(plain)
}
