//! Slurm topologies: trees of switches, blocks, rings, tori.
//!
//! Slurm's files have the positions of nodes but no speeds: full bisection is assumed unless the user says otherwise
//! ([`AssumedRates`]), and a note states this. Tables and real cables are in the dumps of the networks' own tools.

pub mod conf;
pub mod topology_yaml;

use super::names::note_of;
use crate::placement::host_list;
use crate::text::Text;
use hopbyte_fabric::AssumedRates;
use hopbyte_fabric::bounds::product;
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    Direction, End, Fabric, FabricBuilder, FabricError, Family, InputError, LinkId, LinkSpec,
    NodeId, RouterId, Shape,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Assumed capacity of a node's link, one direction, as in specs: 100 Gbit/s.
pub(super) const CAPACITY: BytesPerSecond = BytesPerSecond(12.5e9);
/// Assumed latency of one hop.
const LATENCY: Seconds = Seconds(100e-9);

/// Maximum number of names in a file, so that short lists with huge ranges do not exhaust the memory.
const MOST_NAMES: usize = 1 << 21;
/// Hint of an error about a list of names.
pub const LIST: &str = "each [ needs its ], ranges run upwards, a list has at most a million names, and ALL names no node";

/// Expands lists of names, counting the names of the file so far.
#[derive(Default)]
pub struct Names(usize);

impl Names {
    /// The names of a list of nodes, as [`Names::of`]. Slurm's `ALL` stands for nodes that the file does not name.
    pub fn nodes(&mut self, list: &str) -> Option<Vec<String>> {
        let is_all = list.trim().eq_ignore_ascii_case("ALL");
        if is_all { None } else { self.of(list) }
    }

    /// The names of a list; `None` if there are none, if it is not a list, or if there are too many.
    pub fn of(&mut self, list: &str) -> Option<Vec<String>> {
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
    /// Nodes in order, x fastest; empty for positions that no region fills.
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
        self.check(text)?;
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
                let is_empty = |n: &&String| n.is_empty();
                let empty = list.iter().flat_map(|t| &t.nodes).filter(is_empty).count();
                if empty > 0 {
                    notes.push(format!(
                        "{empty} positions are in no region: a router without a node is assumed there"
                    ));
                }
                toruses(text, list)
            }
        }
    }

    /// Refuses plans that Slurm's plugins refuse, apart from trees, which are checked where they are read: names that are
    /// not unique, sizes of blocks that do not combine, rings that are too long.
    fn check(&self, text: &Text) -> Result<(), InputError> {
        match self {
            Self::Tree(switches) => {
                once(text, "switch", switches.iter().map(|s| (&*s.name, s.line)))
            }
            Self::Blocks { sizes, blocks } => {
                once(text, "block", blocks.iter().map(|b| (&*b.name, b.line)))?;
                check_sizes(text, sizes)
            }
            Self::Rings(rings) => {
                once(text, "ring", rings.iter().map(|r| (&*r.name, r.line)))?;
                match rings.iter().find(|r| r.nodes.len() > MOST_IN_RING) {
                    None => Ok(()),
                    Some(ring) => {
                        let found = format!("{} nodes in ring {}", ring.nodes.len(), ring.name);
                        let expected = format!("at most {MOST_IN_RING}, as Slurm accepts");
                        Err(text.error(found, expected).at(ring.line))
                    }
                }
            }
            Self::Toruses(list) => {
                once(text, "torus", list.iter().map(|t| (&*t.name, t.line)))?;
                let nodes = list
                    .iter()
                    .flat_map(|t| t.nodes.iter().map(|n| (&**n, t.line)));
                once(text, "node", nodes.filter(|(name, _)| !name.is_empty()))
            }
        }
    }
}

/// Refuses a name that occurs twice, with both lines.
fn once<'a>(
    text: &Text,
    what: &str,
    names: impl Iterator<Item = (&'a str, u64)>,
) -> Result<(), InputError> {
    let mut seen = HashMap::new();
    for (name, line) in names {
        if let Some(first) = seen.insert(name, line) {
            let expected = format!("every {what} once, but line {first} has it too");
            return Err(text.error(name, expected).at(line));
        }
    }
    Ok(())
}

/// Expected of switches, and the hint where they are not so.
pub const EXPECTED: &str = "a tree of switches that the file lists";
/// Hint of an error for a file that Slurm does not load.
pub const REFUSED: &str = "Slurm refuses this topology";

/// The first reason why switches are not a tree to Slurm, with its line: a child that is not listed, or switches that
/// are below themselves.
pub fn not_a_tree(switches: &[Switch]) -> Option<(String, u64)> {
    let of: HashMap<&str, usize> = (0..).zip(switches).map(|(i, s)| (&*s.name, i)).collect();
    let mut waits = vec![0; switches.len()];
    let mut parents: Vec<Vec<usize>> = vec![Vec::new(); switches.len()];
    for (i, switch) in switches.iter().enumerate() {
        for child in &switch.children {
            match of.get(&**child) {
                Some(&c) if c != i => {
                    parents[c].push(i);
                    waits[i] += 1;
                }
                _ => return Some((format!("{child} below {}", switch.name), switch.line)),
            }
        }
    }
    // Levels from the leaves up: the remaining switches are below themselves.
    let mut ready: Vec<usize> = (0..switches.len()).filter(|&i| waits[i] == 0).collect();
    while let Some(at) = ready.pop() {
        for &parent in &parents[at] {
            waits[parent] -= 1;
            if waits[parent] == 0 {
                ready.push(parent);
            }
        }
    }
    let first = waits.iter().position(|&w| w > 0)?;
    let found = format!(
        "{} below itself, over {}",
        switches[first].name,
        switches[first].children.join(", ")
    );
    Some((found, switches[first].line))
}

/// Nodes of a ring at most (`MAX_RING_SIZE` of Slurm).
const MOST_IN_RING: usize = 16;

/// Sizes are the smallest one times powers of two up to 2^15.
fn check_sizes(text: &Text, sizes: &[u32]) -> Result<(), InputError> {
    let base = sizes.first().copied().unwrap_or(1);
    let fits = |&&size: &&u32| {
        base > 0 && size % base == 0 && (size / base).is_power_of_two() && size / base <= 1 << 15
    };
    match sizes.iter().find(|s| !fits(s)) {
        None => Ok(()),
        Some(size) => Err(text
            .error(
                format!("block size {size}"),
                format!("the first size, {base}, times a power of two"),
            )
            .hint("Slurm refuses other block sizes")),
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
        routers.insert(&switch.name, b.router(switch.name.clone(), &[]));
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
    let bare: Vec<String> = switches
        .iter()
        .filter(|s| s.nodes.is_empty() && s.children.is_empty())
        .map(|s| s.name.clone())
        .collect();
    note_of(
        notes,
        &bare,
        "switch has",
        "switches have",
        "no nodes and no switches below",
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
        "under several switches, with an endpoint on each",
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
        let positions = product(torus.dims.map(u64::from));
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
            let name = match node.as_str() {
                "" => format!("{}-{}-{}-{}", torus.name, place[0], place[1], place[2]),
                node => node.to_owned(),
            };
            b.router(name, if one { &place } else { &[] });
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
        let filled = |(_, node): &(usize, String)| !node.is_empty();
        for (i, node) in torus.nodes.into_iter().enumerate().filter(filled) {
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
