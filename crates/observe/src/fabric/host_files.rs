//! Kinds of hosts from files of hwloc, NCCL and `nvidia-smi`, joined with a scan's adapters by GUID or name.

use super::inside;
use crate::ObserveError;
use crate::text::{Limits, Text};
use hopbyte_fabric::hosts::{HostKind, InnerLink, Local, OwnPlace, joins_gpus};
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId};
use std::collections::HashMap;
use std::path::Path;

/// A host's structure: GPUs (or cores) and adapters of a file with the links between them.
pub struct Described {
    file: String,
    fabric: Fabric,
    places: Vec<NodeId>,
    /// Adapters with their GUIDs, if the file has them.
    adapters: Vec<(NodeId, Option<u64>)>,
}

/// Adapters that a scan's host has, by their number in the file; `None` for those that the file does not have.
pub type Matched = Vec<Option<usize>>;

impl Described {
    /// Reads a file of one host.
    ///
    /// # Errors
    /// Neither hwloc XML nor a topology of GPUs, several machines, no adapter, or neither GPUs nor cores.
    pub fn read(path: &Path, notes: &mut Vec<String>) -> Result<Self, ObserveError> {
        let text = Text::read(path, Limits::ANY)?;
        let wrong = |found: &str, expected: &str| text.error(found, expected);
        let mut own = Vec::new();
        let fabric = match super::Format::of(&text)? {
            super::Format::Nccl => inside::nccl::read(&text, &mut own)?,
            super::Format::GpuTopology => inside::topo::read(&text, &mut own)?,
            super::Format::Hwloc => inside::hwloc::read(&text, &mut own)?,
            _ => {
                let expected =
                    "hwloc XML, an NCCL topology or nvidia-smi topo -m, or a kind of hosts";
                return Err(wrong("another description", expected).into());
            }
        };
        notes.extend(own.into_iter().map(|n| format!("{}: {n}", text.file())));
        if fabric.router_named("host1 system").is_some() {
            return Err(wrong("several machines", "the file of one host").into());
        }
        let named = |word: &str| -> Vec<NodeId> {
            let is = |n: &NodeId| is_numbered(&fabric.node(*n).name, word);
            fabric.node_ids().filter(is).collect()
        };
        let first = |words: &[&str]| {
            let found = words.iter().map(|w| named(w));
            found.into_iter().find(|l| !l.is_empty())
        };
        let places = first(&["gpu", "nvml", "cuda", "rsmi", "core"]);
        let mut places =
            places.ok_or_else(|| wrong("neither GPUs nor cores", "places for tasks"))?;
        // Files list devices by PCI; their numbers are those of launchers and of CUDA_VISIBLE_DEVICES.
        places.sort_by_key(|n| number(&fabric.node(*n).name));
        let guids = guids(&fabric);
        let name = |n: NodeId| fabric.node(n).name.as_str();
        let is_adapter = |n: NodeId| guids.contains_key(&n) || is_adapter_name(name(n));
        let is_ethernet = |n: NodeId| ETHERNET.iter().any(|start| name(n).starts_with(start));
        let ways: [&dyn Fn(NodeId) -> bool; 2] = [&is_adapter, &is_ethernet];
        let of = |is: &dyn Fn(NodeId) -> bool| -> Vec<(NodeId, Option<u64>)> {
            let nodes = fabric.node_ids().filter(|n| is(*n));
            nodes.map(|n| (n, guids.get(&n).copied())).collect()
        };
        let adapters = ways.into_iter().map(of).find(|found| !found.is_empty());
        let adapters = adapters.unwrap_or_default();
        if adapters.is_empty() {
            return Err(wrong("no adapter", "adapters of the network").into());
        }
        Ok(Self {
            file: text.file().to_owned(),
            fabric,
            places,
            adapters,
        })
    }

    /// The adapters of a scan's host in the file: by GUID, else by name (`HOST mlx5_0`), else `in_order` if both have
    /// as many. `None` if none of these holds.
    pub fn matched(&self, scan: &Fabric, endpoints: &[NodeId], in_order: bool) -> Option<Matched> {
        let by_guid = |n: &NodeId| {
            let at = |guid: u64| scan.node_named(&format!("0x{guid:016x}"));
            self.adapters.iter().position(|a| {
                // NCCL writes the GUID as the adapter has it in memory, with the bytes of the network.
                let guid = a.1.unwrap_or(0);
                guid != 0 && (at(guid.swap_bytes()) == Some(*n) || at(guid) == Some(*n))
            })
        };
        let by_name = |n: &NodeId| {
            let name = scan.node(*n).name.rsplit(' ').next()?;
            let named = self.fabric.node_named(name)?;
            self.adapters.iter().position(|a| a.0 == named)
        };
        for way in [&by_guid as &dyn Fn(&NodeId) -> Option<usize>, &by_name] {
            let found: Matched = endpoints.iter().map(way).collect();
            if found.iter().any(Option::is_some) {
                return Some(found);
            }
        }
        let all = (0..endpoints.len()).map(Some).collect();
        (in_order && endpoints.len() == self.adapters.len()).then_some(all)
    }

    /// The structure with the ports that a scan has. Adapters without a counterpart are ports without links.
    pub fn structure(&self, matched: &[Option<usize>]) -> HostKind {
        let mut ends: HashMap<End, Local> = HashMap::new();
        for (port, at) in matched.iter().enumerate() {
            if let Some(at) = at {
                // Two ports of one adapter: the links are those of the first.
                let end = End::Node(self.adapters[*at].0);
                ends.entry(end).or_insert(Local::Port(port as u16));
            }
        }
        for (i, &place) in self.places.iter().enumerate() {
            ends.insert(End::Node(place), Local::Place(i as u16));
        }
        let routers: Vec<RouterId> = self.fabric.router_ids().collect();
        // NVSwitches work as one: bytes between two GPUs are spread over them.
        let is_switch = |r: &RouterId| self.fabric.router(*r).name.starts_with("nvswitch");
        let first = routers.iter().position(is_switch).unwrap_or(0);
        for (i, router) in routers.iter().enumerate() {
            let at = if is_switch(router) { first } else { i };
            ends.insert(End::Router(*router), Local::Router(at as u16));
        }
        let link = |id: LinkId| {
            let link = self.fabric.link(id);
            Some(InnerLink {
                from: *ends.get(&link.from)?,
                to: *ends.get(&link.to)?,
                kind: self.fabric.kind(id).name.clone(),
                capacity_bytes_per_s: link.nominal.0,
                latency_seconds: link.latency.0,
            })
        };
        let name = |n: &NodeId| self.fabric.node(*n).name.clone();
        HostKind {
            name: self.file.clone(),
            hosts: 1,
            ports: vec![0; matched.len()],
            own: self
                .places
                .iter()
                .map(|n| OwnPlace {
                    name: name(n),
                    host: 0,
                })
                .collect(),
            places: (0..self.places.len() as u16).map(Local::Place).collect(),
            exclusive: !name(&self.places[0]).starts_with("core"),
            routers: routers
                .iter()
                .map(|&r| self.fabric.router(r).name.clone())
                .collect(),
            links: merged(self.fabric.link_ids().filter_map(link)),
        }
    }

    /// Names of the adapters.
    pub fn adapter_names(&self) -> Vec<&str> {
        let name = |a: &(NodeId, _)| self.fabric.node(a.0).name.as_str();
        self.adapters.iter().map(name).collect()
    }

    /// Whether GPUs have links of their own.
    pub fn has_own_links(&self) -> bool {
        self.fabric.kinds().iter().any(|k| joins_gpus(&k.name))
    }
}

/// Links with those between the same ends added up.
fn merged(links: impl Iterator<Item = InnerLink>) -> Vec<InnerLink> {
    let mut all: Vec<InnerLink> = Vec::new();
    for link in links {
        let same = |l: &&mut InnerLink| (l.from, l.to, &l.kind) == (link.from, link.to, &link.kind);
        match all.iter_mut().find(same) {
            Some(known) => known.capacity_bytes_per_s += link.capacity_bytes_per_s,
            None => all.push(link),
        }
    }
    all
}

/// Beginnings of adapters' names.
const ADAPTERS: [&str; 12] = [
    "mlx", "hfi", "hsn", "hsi", "cxi", "nic", "ib", "bnxt", "irdma", "i40iw", "roce", "rdma",
];
/// Beginnings of the names of Ethernet's interfaces, which are the adapters of a host without others.
const ETHERNET: [&str; 2] = ["en", "eth"];

/// Whether a name begins as an adapter's.
pub(super) fn is_adapter_name(name: &str) -> bool {
    ADAPTERS.iter().any(|start| name.starts_with(start))
}

/// Whether a name is a word and a number: `gpu0`, `core 3`.
pub fn is_numbered(name: &str, word: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| {
        let digits = rest.trim_start_matches(' ');
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    })
}

/// The number at the end of a name.
fn number(name: &str) -> u64 {
    let start = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[start..].parse().unwrap_or(u64::MAX)
}

/// GUIDs of nodes, from their aliases.
fn guids(fabric: &Fabric) -> HashMap<NodeId, u64> {
    let aliases = hopbyte_fabric::document::Document::of(
        fabric,
        &hopbyte_fabric::Routing::default_for(fabric),
    );
    let mut found = HashMap::new();
    for (node, record) in fabric.node_ids().zip(aliases.nodes) {
        let guid = |a: &String| u64::from_str_radix(a.strip_prefix("0x")?, 16).ok();
        if let Some(guid) = record.aliases.iter().find_map(guid) {
            found.insert(node, guid);
        }
    }
    found
}
