//! Slurm topologies: trees of switches, blocks, rings, tori.
//!
//! Slurm's files have the positions of nodes but no speeds: full bisection is assumed unless the user says otherwise
//! ([`AssumedRates`]), and a note states this. Tables and real cables are in the dumps of the networks' own tools.

pub mod conf;
pub mod topology_yaml;
mod yaml;

use super::names::note_of;
use crate::placement::host_list;
use crate::text::Text;
use hopbyte_fabric::AssumedRates;
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    Direction, End, Fabric, FabricBuilder, FabricError, Family, LinkId, LinkSpec, NodeId, RouterId,
    Shape,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Assumed capacity of a node's link, one direction, as in specs: 100 Gbit/s.
pub(super) const CAPACITY: BytesPerSecond = BytesPerSecond(12.5e9);
/// Assumed latency of one hop.
const LATENCY: Seconds = Seconds(100e-9);

/// Maximum number of names in a file, so that short lists with huge ranges do not exhaust the memory.
const MOST_NAMES: usize = 1 << 21;

/// Expands lists of names, counting the names of the file so far.
#[derive(Default)]
struct Names(usize);

impl Names {
    /// The names of a list; `None` if there are none, if it is not a list, or if there are too many.
    fn of(&mut self, list: &str) -> Option<Vec<String>> {
        let names = host_list(list)?;
        self.0 += names.len();
        (!names.is_empty() && self.0 <= MOST_NAMES).then(|| {
            names
                .iter()
                .map(|n| super::names::name(n.as_bytes()))
                .collect()
        })
    }
}

/// A switch with its nodes and child switches.
#[derive(Clone, Debug)]
pub struct Switch {
    /// Name.
    pub name: String,
    /// Nodes.
    pub nodes: Vec<String>,
    /// Switches below.
    pub children: Vec<String>,
    /// Line.
    pub line: u64,
}

/// A block or ring of nodes.
#[derive(Clone, Debug)]
pub struct Block {
    /// Name.
    pub name: String,
    /// Nodes in order.
    pub nodes: Vec<String>,
    /// Line.
    pub line: u64,
}

/// A three-dimensional torus of nodes.
#[derive(Clone, Debug)]
pub struct Torus {
    /// Name.
    pub name: String,
    /// Nodes along each dimension.
    pub dims: [u32; 3],
    /// Nodes in order.
    pub nodes: Vec<String>,
    /// Line.
    pub line: u64,
}

/// Content of a file.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Switches, usually a tree.
    Tree(Vec<Switch>),
    /// Blocks, and the sizes to which they combine.
    Blocks {
        /// Nodes of a block, of two blocks, …
        sizes: Vec<u32>,
        /// The blocks.
        blocks: Vec<Block>,
    },
    /// Rings.
    Rings(Vec<Block>),
    /// Tori.
    Toruses(Vec<Torus>),
}

impl Plan {
    /// Builds the fabric.
    pub fn build(self, text: &Text, notes: &mut Vec<String>) -> Result<Fabric, FabricError> {
        notes.push(AssumedRates::full(CAPACITY).describe());
        match self {
            Self::Tree(switches) => tree(text, &switches, notes),
            Self::Blocks { sizes, blocks } => tree(text, &block_tree(&sizes, blocks), notes),
            Self::Rings(rings) => {
                let dims = |r: &Block| [r.nodes.len() as u32, 1, 1];
                let as_torus = |r: Block| Torus {
                    dims: dims(&r),
                    name: r.name,
                    nodes: r.nodes,
                    line: r.line,
                };
                toruses(text, rings.into_iter().map(as_torus).collect())
            }
            Self::Toruses(list) => {
                notes.push("nodes of a torus fill x first, then y, then z (assumed)".into());
                toruses(text, list)
            }
        }
    }
}

/// Blocks as leaves under switches for the larger sizes, and one root.
fn block_tree(sizes: &[u32], blocks: Vec<Block>) -> Vec<Switch> {
    let base = sizes.first().copied().unwrap_or(0).max(1);
    let line = blocks.first().map_or(0, |b| b.line);
    let mut level: Vec<String> = blocks.iter().map(|b| b.name.clone()).collect();
    let mut per_group = 1;
    let mut switches: Vec<Switch> = blocks
        .into_iter()
        .map(|b| Switch {
            name: b.name,
            nodes: b.nodes,
            children: Vec::new(),
            line: b.line,
        })
        .collect();
    let larger = sizes.iter().skip(1).map(|s| s / base);
    for blocks_each in larger.filter(|n| n.is_power_of_two()).chain([u32::MAX]) {
        if level.len() <= 1 || blocks_each <= per_group {
            continue;
        }
        let take = (blocks_each / per_group) as usize;
        per_group = blocks_each;
        let mut next = Vec::new();
        for (i, children) in level.chunks(take).enumerate() {
            let name = match blocks_each {
                u32::MAX => "all blocks".to_owned(),
                n => format!("{} nodes #{i}", u64::from(n) * u64::from(base)),
            };
            next.push(name.clone());
            switches.push(Switch {
                name,
                nodes: Vec::new(),
                children: children.to_vec(),
                line,
            });
        }
        level = next;
    }
    switches
}

fn tree(text: &Text, switches: &[Switch], notes: &mut Vec<String>) -> Result<Fabric, FabricError> {
    let mut b = FabricBuilder::new(Family::FatTree, text.file());
    let mut routers: HashMap<&str, RouterId> = HashMap::new();
    for switch in switches {
        let router = b.router(switch.name.clone(), &[]);
        if routers.insert(&switch.name, router).is_some() {
            let error = text.error(&switch.name, "every switch once");
            return Err(error.at(switch.line).into());
        }
    }
    let mut undescribed = Vec::new();
    let mut cables: BTreeMap<(RouterId, RouterId), u64> = BTreeMap::new();
    let mut parents: HashMap<RouterId, usize> = HashMap::new();
    for switch in switches {
        let parent = routers[switch.name.as_str()];
        for name in &switch.children {
            let child = *routers.entry(name).or_insert_with(|| {
                undescribed.push(name.clone());
                b.router(name.clone(), &[])
            });
            if child == parent {
                let error = text.error(name, "another switch than the one it is under");
                return Err(error.at(switch.line).into());
            }
            // Two switches that list each other have one cable.
            let pair = (parent.min(child), parent.max(child));
            if cables.insert(pair, switch.line).is_none() {
                *parents.entry(child).or_default() += 1;
            }
        }
    }
    let kind = b.kind("cable", false);
    for &(one, other) in cables.keys() {
        join(&mut b, kind, End::Router(one), End::Router(other), None);
    }
    let in_order = switches
        .iter()
        .map(|s| (routers[s.name.as_str()], &s.nodes));
    add_nodes(&mut b, in_order, notes);
    note_of(
        notes,
        &undescribed,
        "switch is",
        "switches are",
        "named and not described",
    );
    note_shape(switches, &routers, &parents, cables.len(), notes);
    Ok(b.finish()?.with_rates(&AssumedRates::full(CAPACITY)))
}

/// Adds a note if the switches form a forest or a graph.
fn note_shape(
    switches: &[Switch],
    routers: &HashMap<&str, RouterId>,
    parents: &HashMap<RouterId, usize>,
    cables: usize,
    notes: &mut Vec<String>,
) {
    let several: Vec<String> = switches
        .iter()
        .filter(|s| {
            parents
                .get(&routers[s.name.as_str()])
                .is_some_and(|&n| n > 1)
        })
        .map(|s| s.name.clone())
        .collect();
    note_of(
        notes,
        &several,
        "switch is",
        "switches are",
        "under several others: a graph, not a tree",
    );
    if several.is_empty() && cables + 1 < routers.len() {
        notes.push(format!(
            "a forest of {} trees: nodes of different trees have no route",
            routers.len() - cables
        ));
    }
}

/// Adds nodes to their switches. A node under several switches has an endpoint on each.
fn add_nodes<'a>(
    b: &mut FabricBuilder,
    switches: impl Iterator<Item = (RouterId, &'a Vec<String>)>,
    notes: &mut Vec<String>,
) {
    let mut places: BTreeMap<&str, BTreeSet<RouterId>> = BTreeMap::new();
    let mut order: Vec<(RouterId, &str)> = Vec::new();
    for (router, nodes) in switches {
        for node in nodes {
            if places.entry(node).or_default().insert(router) {
                order.push((router, node));
            }
        }
    }
    let several = places.iter().filter(|(_, r)| r.len() > 1);
    let several: Vec<String> = several.map(|(n, _)| (*n).to_owned()).collect();
    note_of(
        notes,
        &several,
        "node is",
        "nodes are",
        "under several switches and has an endpoint on each",
    );
    let bare = |n: &&&str| !n.starts_with(|c: char| c.is_alphabetic());
    let bare: Vec<String> = places
        .keys()
        .filter(bare)
        .map(|n| (*n).to_owned())
        .collect();
    note_of(
        notes,
        &bare,
        "node name begins",
        "node names begin",
        "with no letter; was a prefix lost in the list?",
    );
    let kind = b.kind("cable", false);
    for (router, name) in order {
        let full = match places[name].len() {
            1 => name.to_owned(),
            _ => format!("{name} [{}]", b.router_name(router)),
        };
        let end = End::Node(NodeId::of(b.node_count()));
        let (inject, eject) = join(b, kind, end, End::Router(router), None);
        b.node(full, name, None, router, inject, eject);
    }
}

/// Tori of nodes, each node on its own router.
fn toruses(text: &Text, list: Vec<Torus>) -> Result<Fabric, FabricError> {
    let one = list.len() == 1;
    let family = if one { Family::Torus } else { Family::Generic };
    let mut b = FabricBuilder::new(family, text.file());
    if let ([torus], true) = (&list[..], one) {
        b.shape(Shape {
            dims: torus.dims.to_vec(),
            wrap: vec![true; 3],
        });
    }
    let kind = b.kind("cable", false);
    for torus in list {
        let positions: u64 = torus.dims.iter().map(|&d| u64::from(d)).product();
        if positions != torus.nodes.len() as u64 {
            let found = format!("{} nodes in {}", torus.nodes.len(), torus.name);
            let expected = format!("{positions}, the number of positions in {:?}", torus.dims);
            return Err(text.error(found, expected).at(torus.line).into());
        }
        let first = b.router_count();
        let coord = |i: usize| {
            let [x, y, _] = torus.dims.map(|d| d as usize);
            [i % x, i / x % y, i / x / y].map(|c| c as u32)
        };
        let at = |[x, y, z]: [u32; 3]| {
            let [nx, ny, _] = torus.dims;
            RouterId::of(first + (x + nx * (y + ny * z)) as usize)
        };
        for (i, node) in torus.nodes.iter().enumerate() {
            let place = coord(i);
            b.router(node.clone(), if one { &place } else { &[] });
        }
        for i in 0..torus.nodes.len() {
            let here = coord(i);
            for index in 0..6 {
                let direction = Direction::of(index);
                let (d, n) = (
                    usize::from(direction.dim),
                    torus.dims[usize::from(direction.dim)],
                );
                let mut there = here;
                there[d] = (here[d] + if direction.positive { 1 } else { n - 1 }) % n;
                if n > 1 {
                    let spec = LinkSpec {
                        direction: Some(direction),
                        ..LinkSpec::new(
                            End::Router(at(here)),
                            End::Router(at(there)),
                            kind,
                            CAPACITY,
                            LATENCY,
                        )
                    };
                    let link = b.link(spec);
                    b.port(link, index as u16, direction.opposite().index() as u16);
                }
            }
        }
        for (i, node) in torus.nodes.into_iter().enumerate() {
            let router = RouterId::of(first + i);
            let host = b.kind("host", true);
            let end = End::Node(NodeId::of(b.node_count()));
            let (inject, eject) = join(&mut b, host, end, End::Router(router), Some(Seconds(0.0)));
            b.node(node.clone(), node, None, router, inject, eject);
        }
    }
    b.finish()
}

/// Adds both directions of a cable: (one → other, other → one).
fn join(
    b: &mut FabricBuilder,
    kind: hopbyte_fabric::KindId,
    one: End,
    other: End,
    latency: Option<Seconds>,
) -> (LinkId, LinkId) {
    let latency = latency.unwrap_or(LATENCY);
    let there = b.link(LinkSpec::new(one, other, kind, CAPACITY, latency));
    let back = b.link(LinkSpec::new(other, one, kind, CAPACITY, latency));
    (there, back)
}
