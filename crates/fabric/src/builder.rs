//! Building a [`Fabric`]: readers add parts, `finish` checks and indexes them once.

use crate::bounds::{CAPACITY, MAX_LATENCY};
use crate::direction::Direction;
use crate::error::FabricError;
use crate::fabric::{End, Fabric, Family, Kind, Link, NONE, Node, PortPair, Router, Shape};
use crate::ids::{KindId, LinkId, NodeId, RouterId};
use crate::numbers::Numbers;
use crate::units::{BytesPerSecond, Seconds};
use std::collections::HashMap;

/// Largest number of grid positions: they index a dense table.
const MAX_POSITIONS: usize = 1 << 26;

/// A directed link to add; by default one lane, in service.
#[derive(Clone, Copy, Debug)]
pub struct LinkSpec {
    /// Sending end.
    pub from: End,
    /// Receiving end.
    pub to: End,
    /// Kind, from [`FabricBuilder::kind`].
    pub kind: KindId,
    /// Direction on the grid, if any.
    pub direction: Option<Direction>,
    /// Capacity with all lanes in service.
    pub capacity: BytesPerSecond,
    /// Unloaded latency of link and receiving router.
    pub latency: Seconds,
    /// Total lanes of the link (at least 1).
    pub lanes: u16,
    /// Lanes in service.
    pub lanes_in_service: u16,
}

impl LinkSpec {
    /// A healthy one-lane link without direction.
    pub fn new(
        from: End,
        to: End,
        kind: KindId,
        capacity: BytesPerSecond,
        latency: Seconds,
    ) -> Self {
        Self {
            from,
            to,
            kind,
            direction: None,
            capacity,
            latency,
            lanes: 1,
            lanes_in_service: 1,
        }
    }
}

/// Collects a fabric's parts. Ids follow the order of calls.
#[derive(Debug)]
pub struct FabricBuilder {
    family: Family,
    source: String,
    shape: Option<Shape>,
    routers: Vec<Router>,
    nodes: Vec<Node>,
    links: Vec<Link>,
    kinds: Vec<Kind>,
    kind_index: HashMap<String, KindId>,
    coords: Vec<u32>,
    ports: Vec<(LinkId, PortPair)>,
    router_aliases: Vec<(String, RouterId)>,
    node_aliases: Vec<(String, NodeId)>,
}

impl FabricBuilder {
    /// An empty fabric of a family; `source` is the file or spec it comes from.
    pub fn new(family: Family, source: impl Into<String>) -> Self {
        Self {
            family,
            source: source.into(),
            shape: None,
            routers: Vec::new(),
            nodes: Vec::new(),
            links: Vec::new(),
            kinds: Vec::new(),
            kind_index: HashMap::new(),
            coords: Vec::new(),
            ports: Vec::new(),
            router_aliases: Vec::new(),
            node_aliases: Vec::new(),
        }
    }

    /// Declares a grid; then every router needs a coordinate.
    pub fn shape(&mut self, shape: Shape) {
        self.shape = Some(shape);
    }

    /// The id of a link kind, created at first use.
    pub fn kind(&mut self, name: &str, onboard: bool) -> KindId {
        if let Some(&id) = self.kind_index.get(name) {
            return id;
        }
        let id = KindId::of(self.kinds.len());
        self.kinds.push(Kind {
            name: name.into(),
            onboard,
        });
        self.kind_index.insert(name.into(), id);
        id
    }

    /// Adds a router; `coord` is empty for fabrics without a grid.
    pub fn router(&mut self, name: impl Into<String>, coord: &[u32]) -> RouterId {
        let id = RouterId::of(self.routers.len());
        self.routers.push(Router { name: name.into() });
        self.coords.extend_from_slice(coord);
        id
    }

    /// An alias (GUID, LID) of a router.
    pub fn router_alias(&mut self, alias: impl Into<String>, router: RouterId) {
        self.router_aliases.push((alias.into(), router));
    }

    /// An alias of a node.
    pub fn node_alias(&mut self, alias: impl Into<String>, node: NodeId) {
        self.node_aliases.push((alias.into(), node));
    }

    /// Adds a directed link.
    pub fn link(&mut self, spec: LinkSpec) -> LinkId {
        let id = LinkId::of(self.links.len());
        self.links.push(Link {
            from: spec.from,
            to: spec.to,
            kind: spec.kind,
            direction: spec.direction,
            nominal: spec.capacity,
            latency: spec.latency,
            lanes: spec.lanes,
            lanes_in_service: spec.lanes_in_service,
        });
        id
    }

    /// Access to an added link (for readers that sum tiles).
    pub fn link_mut(&mut self, link: LinkId) -> &mut Link {
        &mut self.links[link.index()]
    }

    /// Adds a port pair to a link.
    pub fn port(&mut self, link: LinkId, from: u16, to: u16) {
        self.ports.push((link, PortPair { from, to }));
    }

    /// Adds a node that uses the given injection and ejection links.
    pub fn node(
        &mut self,
        name: impl Into<String>,
        host: impl Into<String>,
        nid: Option<u32>,
        router: RouterId,
        inject: LinkId,
        eject: LinkId,
    ) -> NodeId {
        let id = NodeId::of(self.nodes.len());
        self.nodes.push(Node {
            name: name.into(),
            host: host.into(),
            nid,
            router,
            inject,
            eject,
        });
        id
    }

    /// Adds the shared host link of a router, both directions: (injection, ejection).
    pub fn host_link(
        &mut self,
        router: RouterId,
        kind: KindId,
        capacity: BytesPerSecond,
        latency: Seconds,
    ) -> (LinkId, LinkId) {
        let (r, h) = (End::Router(router), End::Hosts(router));
        let inject = self.link(LinkSpec::new(h, r, kind, capacity, latency));
        let eject = self.link(LinkSpec::new(r, h, kind, capacity, latency));
        (inject, eject)
    }

    /// Adds a node with an on-board link pair of its own.
    pub fn node_with_link(
        &mut self,
        name: impl Into<String>,
        host: impl Into<String>,
        router: RouterId,
        kind: KindId,
        capacity: BytesPerSecond,
    ) -> NodeId {
        let (at, end) = (End::Router(router), End::Node(NodeId::of(self.nodes.len())));
        let inject = self.link(LinkSpec::new(end, at, kind, capacity, Seconds(0.0)));
        let eject = self.link(LinkSpec::new(at, end, kind, capacity, Seconds(0.0)));
        let nid = self.nodes.len() as u32;
        self.node(name, host, Some(nid), router, inject, eject)
    }

    /// Sets the node's number in the machine's own tools.
    pub fn set_nid(&mut self, node: NodeId, nid: u32) {
        self.nodes[node.index()].nid = Some(nid);
    }

    /// Name of an added router.
    pub fn router_name(&self, router: RouterId) -> &str {
        &self.routers[router.index()].name
    }

    /// Number of routers so far.
    pub fn router_count(&self) -> usize {
        self.routers.len()
    }

    /// Number of nodes so far (the next node's id).
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Checks everything and builds the indices.
    pub fn finish(self) -> Result<Fabric, FabricError> {
        self.check_counts()?;
        self.check_links()?;
        let grid = self.grid()?;
        let (ports, port_offsets) = self.port_lists();
        let (out_links, out_offsets) = group(
            self.routers.len(),
            self.links.iter().enumerate(),
            |link| match link.from {
                End::Router(r) => Some(r.index()),
                _ => None,
            },
        );
        let (nodes_of, nodes_of_offsets) =
            group(self.routers.len(), self.nodes.iter().enumerate(), |node| {
                Some(node.router.index())
            });
        let router_index = index(
            "router",
            self.routers.iter().map(|r| &r.name),
            self.router_aliases,
            RouterId::of,
        )?;
        let mut node_index = index(
            "node",
            self.nodes.iter().map(|n| &n.name),
            self.node_aliases,
            NodeId::of,
        )?;
        index_numbers_and_hosts(&self.nodes, &mut node_index);
        let mut fabric = Fabric {
            family: self.family,
            source: self.source,
            shape: self.shape,
            routers: self.routers,
            nodes: self.nodes,
            links: self.links,
            kinds: self.kinds,
            coords: self.coords,
            grid,
            ports,
            port_offsets,
            reverse: Vec::new(),
            out_links: out_links.into_iter().map(LinkId).collect(),
            out_offsets,
            nodes_of: nodes_of.into_iter().map(NodeId).collect(),
            nodes_of_offsets,
            router_index,
            node_index,
            inside: None,
            numbers: Numbers::default(),
        };
        fabric.reverse = reverse_links(&fabric);
        Ok(fabric)
    }

    fn check_counts(&self) -> Result<(), FabricError> {
        if self.routers.is_empty() {
            return Err(FabricError::OutOfRange {
                what: format!("routers in {}", self.source),
                found: "none".into(),
                expected: "at least one router or switch".into(),
            });
        }
        for (what, count) in [
            ("routers", self.routers.len()),
            ("nodes", self.nodes.len()),
            ("links", self.links.len()),
            ("ports", self.ports.len()),
        ] {
            if count >= NONE as usize {
                return Err(FabricError::OutOfRange {
                    what: what.into(),
                    found: count.to_string(),
                    expected: format!("fewer than {NONE}"),
                });
            }
        }
        Ok(())
    }

    fn check_links(&self) -> Result<(), FabricError> {
        for (i, link) in self.links.iter().enumerate() {
            let bad = |what: &str, found: String, expected: &str| FabricError::OutOfRange {
                what: format!("{what} of link {i} in {}", self.source),
                found,
                expected: expected.into(),
            };
            for end in [link.from, link.to] {
                let known = match end {
                    End::Router(r) | End::Hosts(r) => r.index() < self.routers.len(),
                    End::Node(n) => n.index() < self.nodes.len(),
                };
                if !known {
                    return Err(bad(
                        "end",
                        format!("{end:?}"),
                        "an end that was added before",
                    ));
                }
            }
            if !(CAPACITY.0..=CAPACITY.1).contains(&link.nominal.0) {
                return Err(bad(
                    "capacity",
                    link.nominal.0.to_string(),
                    "a rate from 1e-6 to 1e18 B/s",
                ));
            }
            if !(0.0..=MAX_LATENCY).contains(&link.latency.0) {
                return Err(bad(
                    "latency",
                    link.latency.0.to_string(),
                    "a time from 0 to 1e6 s",
                ));
            }
            if link.lanes == 0 || link.lanes_in_service > link.lanes {
                let found = format!("{} of {}", link.lanes_in_service, link.lanes);
                return Err(bad(
                    "lanes in service",
                    found,
                    "at most the lanes it has, of at least one",
                ));
            }
        }
        Ok(())
    }

    fn grid(&self) -> Result<Vec<u32>, FabricError> {
        let Some(shape) = &self.shape else {
            return Ok(Vec::new());
        };
        let dims = shape.dims.len();
        let size = shape
            .dims
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d as usize));
        let Some(size) = size.filter(|&s| s <= MAX_POSITIONS && dims <= Direction::MAX_DIMENSIONS)
        else {
            return Err(FabricError::OutOfRange {
                what: format!("grid of {}", self.source),
                found: format!("{:?}", shape.dims),
                expected: format!("at most {MAX_POSITIONS} positions in 6 dimensions"),
            });
        };
        let mut grid = vec![NONE; size];
        for (r, coord) in self.coords.chunks_exact(dims.max(1)).enumerate() {
            let wrong = |expected: &str| FabricError::OutOfRange {
                what: format!("coordinate of router {}", self.routers[r].name),
                found: format!("{coord:?}"),
                expected: expected.into(),
            };
            let at = shape
                .position(coord)
                .ok_or_else(|| wrong("a position on the grid"))?;
            if grid[at] != NONE {
                return Err(wrong("a position that no other router has"));
            }
            grid[at] = r as u32;
        }
        Ok(grid)
    }

    /// Port pairs by link, keeping the dump's order within a link.
    fn port_lists(&self) -> (Vec<PortPair>, Vec<u32>) {
        let mut offsets = vec![0u32; self.links.len() + 1];
        for (link, _) in &self.ports {
            offsets[link.index() + 1] += 1;
        }
        for i in 0..self.links.len() {
            offsets[i + 1] += offsets[i];
        }
        let mut at = offsets.clone();
        let mut ports = vec![PortPair { from: 0, to: 0 }; self.ports.len()];
        for &(link, pair) in &self.ports {
            let slot = &mut at[link.index()];
            ports[*slot as usize] = pair;
            *slot += 1;
        }
        (ports, offsets)
    }
}

/// Positions of items grouped by a bucket, in CSR form.
fn group<'a, T: 'a>(
    buckets: usize,
    items: impl Iterator<Item = (usize, &'a T)> + Clone,
    bucket: impl Fn(&T) -> Option<usize>,
) -> (Vec<u32>, Vec<u32>) {
    let mut offsets = vec![0u32; buckets + 1];
    for b in items.clone().filter_map(|(_, item)| bucket(item)) {
        offsets[b + 1] += 1;
    }
    for i in 0..buckets {
        offsets[i + 1] += offsets[i];
    }
    let mut at = offsets.clone();
    let mut list = vec![0u32; offsets[buckets] as usize];
    for (i, item) in items {
        if let Some(b) = bucket(item) {
            list[at[b] as usize] = i as u32;
            at[b] += 1;
        }
    }
    (list, offsets)
}

/// Name → id; names must be unique, aliases never override a name.
fn index<'a, Id: Copy>(
    what: &'static str,
    names: impl Iterator<Item = &'a String>,
    aliases: Vec<(String, Id)>,
    id: impl Fn(usize) -> Id,
) -> Result<HashMap<String, Id>, FabricError> {
    let mut index = HashMap::with_capacity(names.size_hint().0 + aliases.len());
    for (i, name) in names.enumerate() {
        if index.insert(name.clone(), id(i)).is_some() {
            return Err(FabricError::DuplicateName {
                what,
                name: name.clone(),
            });
        }
    }
    for (alias, id) in aliases {
        index.entry(alias).or_insert(id);
    }
    Ok(index)
}

/// Adds nids (`12`, `nid00012`) and the names of hosts with a single endpoint, unless already in use.
fn index_numbers_and_hosts(nodes: &[Node], index: &mut HashMap<String, NodeId>) {
    let mut endpoints: HashMap<&str, usize> = HashMap::with_capacity(nodes.len());
    for node in nodes {
        *endpoints.entry(&node.host).or_default() += 1;
    }
    for (i, node) in nodes.iter().enumerate() {
        if let Some(nid) = node.nid {
            index.entry(format!("nid{nid:05}")).or_insert(NodeId::of(i));
            index.entry(nid.to_string()).or_insert(NodeId::of(i));
        }
        if endpoints.get(node.host.as_str()) == Some(&1) {
            index.entry(node.host.clone()).or_insert(NodeId::of(i));
        }
    }
}

/// For every link its reverse link over the same ports, or [`NONE`].
pub(crate) fn reverse_links(fabric: &Fabric) -> Vec<u32> {
    // A router may have a hundred thousand nodes, so links of nodes are found by the node.
    let mut from_node: HashMap<End, Vec<LinkId>> = HashMap::new();
    let mut to_node: HashMap<End, Vec<LinkId>> = HashMap::new();
    for id in fabric.link_ids() {
        let link = fabric.link(id);
        for (end, links) in [(link.from, &mut from_node), (link.to, &mut to_node)] {
            if !matches!(end, End::Router(_)) {
                links.entry(end).or_default().push(id);
            }
        }
    }
    let is_back = |id: LinkId, other: LinkId| {
        let (link, back) = (fabric.link(id), fabric.link(other));
        if (back.from, back.to) != (link.to, link.from) {
            return false;
        }
        match (fabric.ports(id).first(), fabric.ports(other)) {
            (Some(p), ports) => ports.iter().any(|q| (q.from, q.to) == (p.to, p.from)),
            (None, ports) => {
                ports.is_empty() && back.direction == link.direction.map(Direction::opposite)
            }
        }
    };
    fabric
        .link_ids()
        .map(|id| {
            let link = fabric.link(id);
            let candidates = match (link.from, link.to) {
                (End::Router(_), End::Router(r)) => fabric.links_from(r),
                (End::Router(_), end) => from_node.get(&end).map_or(&[][..], Vec::as_slice),
                (end, _) => to_node.get(&end).map_or(&[][..], Vec::as_slice),
            };
            candidates
                .iter()
                .find(|&&other| is_back(id, other))
                .map_or(NONE, |l| l.0)
        })
        .collect()
}
