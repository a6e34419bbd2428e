//! The machine: routers, nodes and directed links, immutable once built.

use crate::direction::Direction;
use crate::error::{FabricError, names_instead};
use crate::hash::Fnv;
use crate::hosts::Inside;
use crate::ids::{KindId, LinkId, NodeId, RouterId};
use crate::numbers::Numbers;
use crate::units::{BytesPerSecond, Seconds};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The network family; determines defaults only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Family {
    /// Cray Gemini 3-D torus (XE/XK).
    Gemini,
    /// Cray Aries dragonfly (XC).
    Aries,
    /// A torus of any dimension.
    Torus,
    /// A mesh of any dimension.
    Mesh,
    /// InfiniBand switches and channel adapters.
    InfiniBand,
    /// HPE Slingshot.
    Slingshot,
    /// A dragonfly other than Aries.
    Dragonfly,
    /// Switch trees.
    FatTree,
    /// HyperX (all-to-all in each dimension).
    HyperX,
    /// Any other network.
    Generic,
}

/// One end of a directed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// A router.
    Router(RouterId),
    /// A node with a link of its own (an InfiniBand channel adapter).
    Node(NodeId),
    /// The hosts behind a router's shared host link (both nodes of a Gemini).
    Hosts(RouterId),
}

/// A kind of link, in the network's usual terms (`X cable`, `backplane`, `4xQDR`).
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Name, unique in the fabric.
    pub name: String,
    /// A host link inside the router's board: absent from dumps, and not a hop.
    pub onboard: bool,
}

/// A directed link; several tiles or cables that act as one are one link with several ports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Sending end.
    pub from: End,
    /// Receiving end.
    pub to: End,
    /// Kind.
    pub kind: KindId,
    /// Direction on the grid, if any.
    pub direction: Option<Direction>,
    /// Capacity with all lanes in service.
    pub nominal: BytesPerSecond,
    /// Time for the head of a packet to cross the link and the receiving router, without load.
    pub latency: Seconds,
    /// Total lanes.
    pub lanes: u16,
    /// Lanes in service; 0 is a link that is down.
    pub lanes_in_service: u16,
}

impl Link {
    /// Capacity of the lanes in service (paper 002, II.C: the link continues with the remaining lanes).
    #[inline]
    pub fn capacity(&self) -> BytesPerSecond {
        if self.lanes_in_service == self.lanes {
            return self.nominal;
        }
        BytesPerSecond(self.nominal.0 * f64::from(self.lanes_in_service) / f64::from(self.lanes))
    }

    /// Whether any lane is in service.
    pub fn is_up(&self) -> bool {
        self.lanes_in_service > 0
    }

    /// Whether both ends are routers.
    pub fn is_between_routers(&self) -> bool {
        matches!((self.from, self.to), (End::Router(_), End::Router(_)))
    }
}

/// The physical ports of a link, one pair for each tile or cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortPair {
    /// Port or tile number at the sending end.
    pub from: u16,
    /// Port or tile number at the receiving end.
    pub to: u16,
}

/// A router or switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Router {
    /// Unique name (cname, switch description or GUID).
    pub name: String,
}

/// A node: an endpoint of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Unique name (cname, `miriel063 qib0`, …).
    pub name: String,
    /// Host name, shared by the endpoints of one host.
    pub host: String,
    /// Number in the machine's own tools, if any.
    pub nid: Option<u32>,
    /// Its router.
    pub router: RouterId,
    /// Link into the network.
    pub inject: LinkId,
    /// Link out of the network.
    pub eject: LinkId,
}

/// A grid: extent and wrap-around of each dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Routers along each dimension.
    pub dims: Vec<u32>,
    /// Whether a dimension is a ring.
    pub wrap: Vec<bool>,
}

impl Shape {
    /// Number of grid positions.
    pub fn positions(&self) -> usize {
        self.dims.iter().map(|&d| d as usize).product()
    }

    /// Row-major position of a coordinate (last dimension fastest), or `None` outside the grid.
    pub fn position(&self, coord: &[u32]) -> Option<usize> {
        if coord.len() != self.dims.len() {
            return None;
        }
        coord
            .iter()
            .zip(&self.dims)
            .try_fold(0usize, |at, (&c, &d)| {
                (c < d).then_some(at * d as usize + c as usize)
            })
    }

    /// Ordered pairs of positions, equal ones included, by their distance on the grid.
    pub fn distances(&self) -> Vec<u64> {
        let mut all = vec![1];
        for (&n, &wrap) in self.dims.iter().zip(&self.wrap) {
            let mut one = vec![0; n as usize];
            for ahead in 0..n {
                // On a line, pairs of either order.
                let (hops, pairs) = match (wrap, ahead) {
                    (true, _) => (ahead.min(n - ahead), n),
                    (false, 0) => (0, n),
                    (false, _) => (ahead, 2 * (n - ahead)),
                };
                one[hops as usize] += u64::from(pairs);
            }
            let mut next = vec![0; all.len() + one.len() - 1];
            for (a, x) in all.iter().enumerate() {
                for (b, y) in one.iter().enumerate() {
                    next[a + b] += x * y;
                }
            }
            all = next;
        }
        all
    }
}

/// A validated machine. Build one with [`crate::FabricBuilder`].
#[derive(Clone, Debug, PartialEq)]
pub struct Fabric {
    pub(crate) family: Family,
    pub(crate) source: String,
    pub(crate) shape: Option<Shape>,
    pub(crate) routers: Vec<Router>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) coords: Vec<u32>,
    pub(crate) grid: Vec<u32>,
    pub(crate) ports: Vec<PortPair>,
    pub(crate) port_offsets: Vec<u32>,
    pub(crate) reverse: Vec<u32>,
    pub(crate) out_links: Vec<LinkId>,
    pub(crate) out_offsets: Vec<u32>,
    pub(crate) nodes_of: Vec<NodeId>,
    pub(crate) nodes_of_offsets: Vec<u32>,
    pub(crate) router_index: HashMap<String, RouterId>,
    pub(crate) node_index: HashMap<String, NodeId>,
    /// Hosts with their inner links; their parts have the highest ids.
    pub(crate) inside: Option<Arc<Inside>>,
    pub(crate) numbers: Numbers,
}

/// Represents "none" in the packed index arrays.
pub(crate) const NONE: u32 = u32::MAX;

/// Number of names that an error of an unknown one shows.
const EXAMPLES: usize = 3;

impl Fabric {
    /// Network family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Source of the description: file name or spec.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// All routers, by [`RouterId`].
    pub fn routers(&self) -> &[Router] {
        &self.routers
    }

    /// All nodes, by [`NodeId`].
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All directed links, by [`LinkId`], including implied host links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// All kinds of link, by [`KindId`].
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The grid, when routers have coordinates.
    pub fn shape(&self) -> Option<&Shape> {
        self.shape.as_ref()
    }

    /// Ids of all links.
    pub fn link_ids(&self) -> impl ExactSizeIterator<Item = LinkId> + use<> {
        (0..self.links.len()).map(LinkId::of)
    }

    /// Ids of all routers.
    pub fn router_ids(&self) -> impl ExactSizeIterator<Item = RouterId> + use<> {
        (0..self.routers.len()).map(RouterId::of)
    }

    /// Ids of all nodes.
    pub fn node_ids(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId::of)
    }

    /// One router.
    #[inline]
    pub fn router(&self, id: RouterId) -> &Router {
        &self.routers[id.index()]
    }

    /// One node.
    #[inline]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// One link.
    #[inline]
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    /// The kind of a link.
    pub fn kind(&self, link: LinkId) -> &Kind {
        &self.kinds[self.link(link).kind.0 as usize]
    }

    /// Whether crossing the link is a hop: true for every cable and backplane trace, false for host links inside a
    /// router's board (two nodes of one Gemini are 0 hops apart, paper 003).
    pub fn is_hop(&self, link: LinkId) -> bool {
        !self.kind(link).onboard
    }

    /// The port pairs of a link, in the order of the dump; empty for links that are not in dumps.
    pub fn ports(&self, link: LinkId) -> &[PortPair] {
        let i = link.index();
        &self.ports[self.port_offsets[i] as usize..self.port_offsets[i + 1] as usize]
    }

    /// All link ends in the dump (tiles or cabled ports).
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// The reverse link over the same cable or tiles.
    pub fn reverse(&self, link: LinkId) -> Option<LinkId> {
        let r = self.reverse[link.index()];
        (r != NONE).then_some(LinkId(r))
    }

    /// Links from a router, to routers and to its nodes.
    #[inline]
    pub fn links_from(&self, router: RouterId) -> &[LinkId] {
        let i = router.index();
        &self.out_links[self.out_offsets[i] as usize..self.out_offsets[i + 1] as usize]
    }

    /// Nodes on a router.
    pub fn nodes_on(&self, router: RouterId) -> &[NodeId] {
        let i = router.index();
        &self.nodes_of[self.nodes_of_offsets[i] as usize..self.nodes_of_offsets[i + 1] as usize]
    }

    /// Number of distinct values of the first coordinate: groups of a dragonfly, of which numbers may be absent.
    pub fn groups(&self) -> u32 {
        let first = self.router_ids().filter_map(|r| self.coord(r)?.first());
        first.collect::<std::collections::BTreeSet<_>>().len() as u32
    }

    /// Coordinates of a router, if the fabric is a grid.
    pub fn coord(&self, router: RouterId) -> Option<&[u32]> {
        let n = self.shape.as_ref()?.dims.len();
        let at = router.index() * n;
        self.coords.get(at..at + n)
    }

    /// The router at a coordinate.
    pub fn router_at(&self, coord: &[u32]) -> Option<RouterId> {
        let position = self.shape.as_ref()?.position(coord)?;
        let r = *self.grid.get(position)?;
        (r != NONE).then_some(RouterId(r))
    }

    /// The link from `router` in `direction`.
    pub fn link_towards(&self, router: RouterId, direction: Direction) -> Option<LinkId> {
        self.links_from(router)
            .iter()
            .copied()
            .find(|&l| self.link(l).direction == Some(direction))
    }

    /// Finds a router by name, alias (GUID, LID) or coordinates (`3,0,7` or `(3,0,7)`).
    pub fn find_router(&self, text: &str) -> Result<RouterId, FabricError> {
        self.router_named(text).ok_or_else(|| {
            self.unknown("router", text, self.routers.iter().map(|r| r.name.as_str()))
        })
    }

    /// As [`Fabric::find_router`], for names that may well be unknown: an error costs a comparison with all names.
    pub fn router_named(&self, text: &str) -> Option<RouterId> {
        let by_guid = || self.router_index.get(&full_guid(text)?);
        let id = self.router_index.get(text).or_else(by_guid).copied();
        id.or_else(|| self.router_at(&parse_coord(text)?))
    }

    /// Finds a node by name, alias (GUID, LID), host name (if the host has one endpoint), nid (`1234` or `nid01234`),
    /// or the name of a router that has exactly one node.
    pub fn find_node(&self, text: &str) -> Result<NodeId, FabricError> {
        match self.nodes_called(text)[..] {
            [one] => Ok(one),
            [] => Err(self.unknown("node", text, self.nodes.iter().map(|n| n.name.as_str()))),
            ref many => Err(self.ambiguous(text, many)),
        }
    }

    /// As [`Fabric::find_node`], for names that may well be unknown or ambiguous.
    pub fn node_named(&self, text: &str) -> Option<NodeId> {
        match self.nodes_called(text)[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    fn nodes_called(&self, text: &str) -> Vec<NodeId> {
        let by_guid = || self.node_index.get(&full_guid(text)?);
        if let Some(&id) = self.node_index.get(text).or_else(by_guid) {
            return vec![id];
        }
        let on_host = self.places_of_host(text);
        if !on_host.is_empty() {
            return on_host;
        }
        let router = self.router_named(text);
        router.map_or_else(Vec::new, |r| self.nodes_on(r).to_vec())
    }

    /// All endpoints of a host.
    pub fn find_host(&self, host: &str) -> Vec<NodeId> {
        self.node_ids()
            .filter(|&n| self.node(n).host == host)
            .collect()
    }

    /// The places of a host, in its order; without described hosts all endpoints.
    pub fn places_of_host(&self, host: &str) -> Vec<NodeId> {
        let nodes = self.find_host(host);
        let Some(inside) = self.inside() else {
            return nodes;
        };
        let mut places: Vec<NodeId> = nodes.into_iter().filter(|&n| inside.is_place(n)).collect();
        places.sort_by_key(|&n| inside.number_on_host(n));
        places
    }

    /// The ports of a host, in the order of their ids; without described hosts all endpoints.
    pub fn ports_of_host(&self, host: &str) -> Vec<NodeId> {
        let mut nodes = self.find_host(host);
        if let Some(inside) = self.inside() {
            let ports = |n: NodeId| inside.unit_of(n).map(|unit| inside.ports_of(unit));
            nodes.retain(|n| ports(*n).is_none_or(|ports| ports.contains(n)));
        }
        nodes
    }

    fn ambiguous(&self, name: &str, nodes: &[NodeId]) -> FabricError {
        FabricError::Ambiguous {
            name: name.into(),
            count: nodes.len(),
            examples: nodes
                .iter()
                .take(3)
                .map(|&n| self.node(n).name.clone())
                .collect(),
        }
    }

    fn unknown<'a>(
        &self,
        what: &'static str,
        name: &str,
        all: impl Iterator<Item = &'a str> + Clone,
    ) -> FabricError {
        let some: Vec<String> = all.clone().take(EXAMPLES).map(str::to_owned).collect();
        self.no_such(what, name, &crate::similar(name, all), &some)
    }

    fn no_such(
        &self,
        what: &'static str,
        name: &str,
        similar: &[String],
        some: &[String],
    ) -> FabricError {
        FabricError::Unknown {
            what,
            name: name.chars().take(80).collect(),
            fabric: self.source().to_owned(),
            hint: names_instead(what, similar, some),
        }
    }

    /// Name of a link's end: router or node name, or `ROUTER hosts` for a shared host link.
    pub fn end_name(&self, end: End) -> String {
        match end {
            End::Router(r) => self.router(r).name.clone(),
            End::Node(n) => self.node(n).name.clone(),
            End::Hosts(r) => format!("{} hosts", self.router(r).name),
        }
    }

    /// Unique name of a link: `c0-0c0s0g0 X+` on a grid, `ibcore01[29]` for a cabled port,
    /// `c0-0c0s0g0 HH in` / `HH out` for a shared host link (named from the router's side),
    /// `FROM->TO KIND` for several tiles without a direction. Links that would have the same name are numbered:
    /// `FROM->TO KIND 1`, `FROM->TO KIND 2`.
    pub fn link_name(&self, id: LinkId) -> String {
        let link = self.link(id);
        match (link.from, link.to) {
            (End::Hosts(r), _) => return format!("{} HH in", self.router(r).name),
            (_, End::Hosts(r)) => return format!("{} HH out", self.router(r).name),
            _ => {}
        }
        let from = self.end_name(link.from);
        let name = match (link.direction, self.ports(id)) {
            (Some(direction), _) => format!("{from} {direction}"),
            (None, [port]) => format!("{from}[{}]", port.from),
            (None, _) => format!("{from}->{} {}", self.end_name(link.to), self.kind(id).name),
        };
        match self.numbers.of(self, id) {
            Some(number) => format!("{name} {number}"),
            None => name,
        }
    }

    /// Finds a link by its [`Fabric::link_name`].
    pub fn find_link(&self, name: &str) -> Result<LinkId, FabricError> {
        self.link_ids()
            .find(|&l| self.link_name(l) == name)
            .ok_or_else(|| {
                let some = self.link_ids().take(EXAMPLES);
                let some: Vec<String> = some.map(|l| self.link_name(l)).collect();
                self.no_such("link", name, &[], &some)
            })
    }

    /// Number of connected components of the network's undirected graph; a router and its nodes count as one vertex.
    pub fn components(&self) -> usize {
        let mut parent: Vec<u32> = (0..self.network_routers() as u32).collect();
        fn root(parent: &mut [u32], mut at: u32) -> u32 {
            while parent[at as usize] != at {
                parent[at as usize] = parent[parent[at as usize] as usize];
                at = parent[at as usize];
            }
            at
        }
        let mut parts = self.network_routers();
        let network = &self.links[..self.network_links()];
        for link in network.iter().filter(|l| l.is_up()) {
            if let (End::Router(a), End::Router(b)) = (link.from, link.to) {
                let (a, b) = (root(&mut parent, a.0), root(&mut parent, b.0));
                if a != b {
                    parent[a as usize] = b;
                    parts -= 1;
                }
            }
        }
        parts
    }

    /// A fingerprint of 16 hexadecimal digits, equal for fabrics with the same names, ends, capacities and order of
    /// nodes, routers and links: link numbers of one are valid for the other. Faults do not affect it.
    pub fn fingerprint(&self) -> String {
        let mut hash = Fnv::default();
        let mut add = |bytes: &[u8]| hash.part(bytes);
        self.routers.iter().for_each(|r| add(r.name.as_bytes()));
        self.nodes.iter().for_each(|n| add(n.name.as_bytes()));
        for link in &self.links {
            for end in [link.from, link.to] {
                match end {
                    End::Router(r) => add(&[&[1][..], &r.0.to_le_bytes()].concat()),
                    End::Node(n) => add(&[&[2][..], &n.0.to_le_bytes()].concat()),
                    End::Hosts(r) => add(&[&[3][..], &r.0.to_le_bytes()].concat()),
                }
            }
            add(&link.nominal.0.to_le_bytes());
        }
        hash.hex()
    }

    /// Number of links and most frequent capacity of every kind, by kind name.
    pub fn kind_summary(&self) -> BTreeMap<&str, (usize, BytesPerSecond)> {
        let rates = self.kind_rates().into_iter();
        let summary = rates.map(|(kind, rates)| {
            let links = rates.iter().map(|&(_, n)| n).sum();
            let common = rates.first().map_or(BytesPerSecond(0.0), |&(rate, _)| rate);
            (kind, (links, common))
        });
        summary.collect()
    }

    /// The nominal capacities of every kind's links and the number of links of each, the most frequent first.
    pub fn kind_rates(&self) -> BTreeMap<&str, Vec<(BytesPerSecond, usize)>> {
        let mut capacities: BTreeMap<&str, BTreeMap<u64, usize>> = BTreeMap::new();
        for id in self.link_ids() {
            let bits = self.link(id).nominal.0.to_bits();
            *capacities
                .entry(&self.kind(id).name)
                .or_default()
                .entry(bits)
                .or_default() += 1;
        }
        let sorted = capacities.into_iter().map(|(kind, counts)| {
            let mut rates: Vec<(u64, usize)> = counts.into_iter().collect();
            rates.sort_unstable_by_key(|&(bits, n)| std::cmp::Reverse((n, bits)));
            let of_bits = |(bits, n)| (BytesPerSecond(f64::from_bits(bits)), n);
            (kind, rates.into_iter().map(of_bits).collect())
        });
        sorted.collect()
    }
}

/// `0x` and the 16 digits of a GUID that is written without its leading zeros.
fn full_guid(text: &str) -> Option<String> {
    let digits = text
        .strip_prefix("0x")
        .filter(|d| (1..16).contains(&d.len()))?;
    let guid = u64::from_str_radix(digits, 16).ok()?;
    digits
        .bytes()
        .all(|b| b.is_ascii_hexdigit())
        .then(|| format!("0x{guid:016x}"))
}

/// Parses `x,y,z` with optional parentheses.
fn parse_coord(text: &str) -> Option<Vec<u32>> {
    let inner = text
        .strip_prefix('(')
        .and_then(|t| t.strip_suffix(')'))
        .unwrap_or(text);
    inner
        .split(',')
        .map(|word| word.trim().parse().ok())
        .collect()
}
