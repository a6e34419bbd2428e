//! A machine as plain records: hopbyte's own format, for JSON and for the compact binary form.
//!
//! A [`Document`] holds the complete [`Fabric`] and its [`Routing`], by number, so that reading it back gives the
//! same ids, names, links and routes. Input is untrusted and fully checked.

use crate::bounds::{MAX_DISTANCES, MAX_ENTRIES};
use crate::builder::{FabricBuilder, LinkSpec};
use crate::direction::Direction;
use crate::error::FabricError;
use crate::fabric::{End, Fabric, Family, Shape};
use crate::fat_tree::FatTree;
use crate::hosts::HostsRecord;
use crate::ids::{KindId, LinkId, NodeId, RouterId};
use crate::routing::{ForwardingTables, Routing, Spread, TreeRouting};
use crate::units::{BytesPerSecond, Seconds};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Name and version of the format.
pub const SCHEMA: &str = "hopbyte.machine/1";

/// Grid positions that any machine may declare; larger grids must be at least 1/64 full.
const POSITIONS: usize = 1 << 20;

/// A machine as records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// Network family.
    pub family: Family,
    /// Source of the description.
    pub source: String,
    /// The grid, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Kinds of link, by number.
    pub kinds: Vec<KindRecord>,
    /// Routers, by number.
    pub routers: Vec<RouterRecord>,
    /// Nodes, by number.
    pub nodes: Vec<NodeRecord>,
    /// Links, by number.
    pub links: Vec<LinkRecord>,
    /// Routing of the network.
    pub routing: RoutingRecord,
    /// Hosts with their inner links, if described; all other parts are the network's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostsRecord>,
}

/// A kind of link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindRecord {
    /// Name.
    pub name: String,
    /// Whether it is inside a router's board.
    #[serde(default, skip_serializing_if = "is_false")]
    pub onboard: bool,
}

/// A router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterRecord {
    /// Name.
    pub name: String,
    /// Coordinate on a grid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coord: Vec<u32>,
    /// Aliases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRecord {
    /// Name.
    pub name: String,
    /// Host name.
    pub host: String,
    /// The machine's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nid: Option<u32>,
    /// Router.
    pub router: u32,
    /// Link into the network.
    pub inject: u32,
    /// Link out of it.
    pub eject: u32,
    /// Aliases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndRecord {
    /// A router.
    Router(u32),
    /// A node.
    Node(u32),
    /// The hosts behind a router.
    Hosts(u32),
}

/// A directed link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkRecord {
    /// Sending end.
    pub from: EndRecord,
    /// Receiving end.
    pub to: EndRecord,
    /// Kind.
    pub kind: u16,
    /// Direction on the grid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Capacity with all lanes in service.
    pub capacity_bytes_per_s: f64,
    /// Latency of link and receiving router.
    pub latency_seconds: f64,
    /// Lanes.
    pub lanes: u16,
    /// Lanes in service.
    pub lanes_in_service: u16,
    /// Pairs of ports, sending and receiving.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<(u16, u16)>,
}

/// The routing of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingRecord {
    /// A name accepted by [`Routing::named`].
    Named(String),
    /// Closed-form up/down routing of a pure fat tree: children and parents of a switch, by level (see
    /// [`FatTree::down`] and [`FatTree::up`]).
    Tree {
        /// Children, by level from the leaves.
        down: Vec<u32>,
        /// Parents.
        up: Vec<u32>,
    },
    /// The link by router and destination node, or none.
    Tables(Vec<Vec<Option<u32>>>),
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde requires a reference
fn is_false(value: &bool) -> bool {
    !value
}

impl Document {
    /// The records of a machine.
    pub fn of(fabric: &Fabric, routing: &Routing) -> Self {
        let network = fabric.network();
        let record = routing_record(&network, routing.network());
        Self {
            hosts: fabric.hosts_record(),
            ..Self::with(&network, record)
        }
    }

    /// The records of a network without described hosts.
    pub(crate) fn with(fabric: &Fabric, routing: RoutingRecord) -> Self {
        let aliases = Aliases::of(fabric);
        Self {
            schema: SCHEMA.into(),
            family: fabric.family,
            source: fabric.source.clone(),
            shape: fabric.shape.clone(),
            kinds: fabric
                .kinds
                .iter()
                .map(|k| KindRecord {
                    name: k.name.clone(),
                    onboard: k.onboard,
                })
                .collect(),
            routers: fabric
                .router_ids()
                .map(|r| RouterRecord {
                    name: fabric.router(r).name.clone(),
                    coord: fabric.coord(r).unwrap_or_default().to_vec(),
                    aliases: aliases.routers.get(&r).cloned().unwrap_or_default(),
                })
                .collect(),
            nodes: fabric
                .node_ids()
                .map(|n| {
                    let node = fabric.node(n);
                    NodeRecord {
                        name: node.name.clone(),
                        host: node.host.clone(),
                        nid: node.nid,
                        router: node.router.0,
                        inject: node.inject.0,
                        eject: node.eject.0,
                        aliases: aliases.nodes.get(&n).cloned().unwrap_or_default(),
                    }
                })
                .collect(),
            links: fabric.link_ids().map(|l| link_record(fabric, l)).collect(),
            routing,
            hosts: None,
        }
    }

    /// Checks the records and builds the machine.
    ///
    /// # Errors
    /// Indices out of range, links that do not belong to their nodes, directions that do not match the link's ends,
    /// sizes above the bounds, or a routing that does not fit.
    pub fn build(mut self) -> Result<(Fabric, Routing), FabricError> {
        let record = std::mem::replace(&mut self.routing, RoutingRecord::Named(String::new()));
        let hosts = self.hosts.take();
        let fabric = self.build_fabric()?;
        let routing = record.build(&fabric)?;
        let Some(hosts) = hosts else {
            return Ok((fabric, routing));
        };
        let rule = hosts.rule;
        Ok((fabric.with_hosts(hosts)?, routing.within(rule)))
    }

    pub(crate) fn build_fabric(self) -> Result<Fabric, FabricError> {
        if self.schema != SCHEMA {
            return Err(out_of_range("schema", &self.schema, SCHEMA));
        }
        self.check()?;
        let mut b = FabricBuilder::new(self.family, self.source);
        if let Some(shape) = self.shape {
            b.shape(shape);
        }
        for kind in &self.kinds {
            b.kind(&kind.name, kind.onboard);
        }
        for router in self.routers {
            let id = b.router(router.name, &router.coord);
            for alias in router.aliases {
                b.router_alias(alias, id);
            }
        }
        for link in &self.links {
            let id = b.link(LinkSpec {
                from: link.from.end(),
                to: link.to.end(),
                kind: KindId(link.kind),
                direction: link.direction.as_deref().and_then(Direction::parse),
                capacity: BytesPerSecond(link.capacity_bytes_per_s),
                latency: Seconds(link.latency_seconds),
                lanes: link.lanes,
                lanes_in_service: link.lanes_in_service,
            });
            for &(from, to) in &link.ports {
                b.port(id, from, to);
            }
        }
        for node in self.nodes {
            let (inject, eject) = (LinkId(node.inject), LinkId(node.eject));
            let router = RouterId(node.router);
            let id = b.node(node.name, node.host, node.nid, router, inject, eject);
            for alias in node.aliases {
                b.node_alias(alias, id);
            }
        }
        b.finish()
    }

    /// Preconditions of builder and routing.
    fn check(&self) -> Result<(), FabricError> {
        self.check_shape()?;
        let mut names: Vec<&str> = self.kinds.iter().map(|k| k.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|w| w[0] == w[1]) {
            return Err(out_of_range("kinds", pair[0], "every kind once"));
        }
        for (i, link) in self.links.iter().enumerate() {
            if usize::from(link.kind) >= self.kinds.len() {
                let what = format!("kind of link {i}");
                return Err(out_of_range(what, link.kind, "a kind of the list"));
            }
            if let Some(text) = &link.direction
                && !self.leads(link, text)
            {
                let what = format!("direction of link {i}");
                return Err(out_of_range(
                    what,
                    text,
                    "X+, X-, … to a neighbour on the grid",
                ));
            }
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let at = EndRecord::Router(node.router);
            let own = [EndRecord::Node(i as u32), EndRecord::Hosts(node.router)];
            let link = |id: u32| self.links.get(id as usize);
            let fits = link(node.inject).is_some_and(|l| own.contains(&l.from) && l.to == at)
                && link(node.eject).is_some_and(|l| own.contains(&l.to) && l.from == at);
            if !fits {
                let (router, inject, eject) = (node.router, node.inject, node.eject);
                let found = format!("router {router}, links {inject} and {eject}");
                let what = format!("node {i}");
                return Err(out_of_range(
                    what,
                    found,
                    "a router, and its links to and from it",
                ));
            }
        }
        Ok(())
    }

    fn check_shape(&self) -> Result<(), FabricError> {
        let Some(shape) = &self.shape else {
            let placed = self.routers.iter().find(|r| !r.coord.is_empty());
            return placed.map_or(Ok(()), |router| {
                let what = format!("coordinate of {}", router.name);
                Err(out_of_range(
                    what,
                    format!("{:?}", router.coord),
                    "none without a shape",
                ))
            });
        };
        let dims = shape.dims.len();
        let positions = shape
            .dims
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d as usize));
        let fits = |&n: &usize| n <= POSITIONS || n / 64 <= self.routers.len();
        if dims != shape.wrap.len()
            || !(1..=Direction::MAX_DIMENSIONS).contains(&dims)
            || positions.filter(fits).is_none()
        {
            let found = format!("{:?} with wrap {:?}", shape.dims, shape.wrap);
            return Err(out_of_range(
                "shape",
                found,
                "one to six sizes and as many wraps, mostly filled",
            ));
        }
        match self.routers.iter().find(|r| r.coord.len() != dims) {
            None => Ok(()),
            Some(router) => {
                let what = format!("coordinate of {}", router.name);
                let found = format!("{:?}", router.coord);
                Err(out_of_range(what, found, format!("{dims} numbers")))
            }
        }
    }

    /// Whether a link between routers leads to the neighbour in a direction.
    fn leads(&self, link: &LinkRecord, direction: &str) -> bool {
        let (Some(shape), Some(direction)) = (&self.shape, Direction::parse(direction)) else {
            return false;
        };
        let (EndRecord::Router(from), EndRecord::Router(to)) = (link.from, link.to) else {
            return false;
        };
        let router = |r: u32| self.routers.get(r as usize);
        let (Some(from), Some(to)) = (router(from), router(to)) else {
            return false;
        };
        let dim = usize::from(direction.dim);
        let Some(&size) = shape.dims.get(dim) else {
            return false;
        };
        let mut expected = from.coord.clone();
        expected[dim] = match direction.positive {
            true if expected[dim].saturating_add(1) < size => expected[dim] + 1,
            true if shape.wrap[dim] => 0,
            false if expected[dim] > 0 => expected[dim] - 1,
            false if shape.wrap[dim] => size.saturating_sub(1),
            _ => return false,
        };
        expected == to.coord
    }
}

impl RoutingRecord {
    /// The routing on its fabric.
    pub(crate) fn build(self, fabric: &Fabric) -> Result<Routing, FabricError> {
        match self {
            Self::Named(name) => {
                let by_distance = !name.starts_with("dimension-order");
                if by_distance && fabric.routers().len() as u64 > MAX_DISTANCES {
                    let found = format!("{name} of {} routers", fabric.routers().len());
                    let expected = format!("at most {MAX_DISTANCES} routers, or tables");
                    return Err(out_of_range("routing", found, expected));
                }
                Routing::named(fabric, &name)
            }
            Self::Tree { down, up } => {
                let found = format!("down {down:?}, up {up:?}");
                FatTree::of_levels(down, up)
                    .filter(|tree| tree.describes(fabric))
                    .map(|tree| Routing::Tree(TreeRouting::new(&tree)))
                    .ok_or_else(|| out_of_range("tree", found, "the levels of this very fat tree"))
            }
            Self::Tables(rows) => Ok(Routing::Tables(tables(fabric, &rows)?)),
        }
    }
}

impl EndRecord {
    fn of(end: End) -> Self {
        match end {
            End::Router(r) => Self::Router(r.0),
            End::Node(n) => Self::Node(n.0),
            End::Hosts(r) => Self::Hosts(r.0),
        }
    }

    fn end(self) -> End {
        match self {
            Self::Router(r) => End::Router(RouterId(r)),
            Self::Node(n) => End::Node(NodeId(n)),
            Self::Hosts(r) => End::Hosts(RouterId(r)),
        }
    }
}

fn link_record(fabric: &Fabric, id: LinkId) -> LinkRecord {
    let link = fabric.link(id);
    LinkRecord {
        from: EndRecord::of(link.from),
        to: EndRecord::of(link.to),
        kind: link.kind.0,
        direction: link.direction.map(|d| d.to_string()),
        capacity_bytes_per_s: link.nominal.0,
        latency_seconds: link.latency.0,
        lanes: link.lanes,
        lanes_in_service: link.lanes_in_service,
        ports: fabric.ports(id).iter().map(|p| (p.from, p.to)).collect(),
    }
}

/// The record of a routing.
pub(crate) fn routing_record(fabric: &Fabric, routing: &Routing) -> RoutingRecord {
    if let Routing::Tables(tables) = routing {
        let link = |at, to| tables.next(fabric, at, to).map(|l| l.0);
        let row = |at| fabric.node_ids().map(|to| link(at, to)).collect();
        return RoutingRecord::Tables(fabric.router_ids().map(row).collect());
    }
    rule(routing)
}

/// The record of a rule-based routing; tables have none and are recorded as shortest paths.
pub(crate) fn rule(routing: &Routing) -> RoutingRecord {
    RoutingRecord::Named(match routing {
        Routing::Tree(tree) => {
            let (down, up) = tree.levels();
            return RoutingRecord::Tree { down, up };
        }
        Routing::Hosts(hosts) => return rule(&hosts.network),
        Routing::Minimal(_) | Routing::Tables(_) => "shortest".into(),
        Routing::Groups(groups) => match groups.spread() {
            Spread::Minimal => "minimal".into(),
            Spread::Valiant => "valiant".into(),
            Spread::Adaptive(share) => format!("adaptive:{share}"),
        },
        // A single non-default order was chosen; the default order adapts to the faults, which are in the links.
        Routing::DimensionOrder(order) if order.is_one_order() && !order.order().is_sorted() => {
            let letters = order.order().iter().map(|&d| Direction::letter(d.into()));
            format!("dimension-order:{}", letters.collect::<String>())
        }
        Routing::DimensionOrder(_) => "dimension-order".into(),
    })
}

fn tables(fabric: &Fabric, rows: &[Vec<Option<u32>>]) -> Result<ForwardingTables, FabricError> {
    let (routers, nodes) = (fabric.routers().len(), fabric.nodes().len());
    check_table_size(fabric)?;
    if rows.len() != routers || rows.iter().any(|r| r.len() != nodes) {
        let found = format!("{} rows", rows.len());
        let expected = format!("{routers} rows of {nodes} entries");
        return Err(out_of_range("tables", found, expected));
    }
    let mut tables = ForwardingTables::new(fabric);
    for (router, row) in fabric.router_ids().zip(rows) {
        for (node, &entry) in fabric.node_ids().zip(row) {
            let Some(link) = entry else { continue };
            if !tables.set(fabric, router, node, LinkId(link)) {
                let what = format!("table of router {router} for node {node}");
                return Err(out_of_range(what, link, "a link that leaves the router"));
            }
        }
    }
    Ok(tables)
}

/// Rejects tables that would not fit in memory.
pub(crate) fn check_table_size(fabric: &Fabric) -> Result<(), FabricError> {
    let (routers, nodes) = (fabric.routers().len(), fabric.nodes().len());
    if routers.saturating_mul(nodes) as u64 <= MAX_ENTRIES {
        return Ok(());
    }
    let found = format!("{routers} × {nodes} entries");
    Err(out_of_range(
        "tables",
        found,
        format!("at most {MAX_ENTRIES}"),
    ))
}

/// Aliases, by router and by node.
struct Aliases {
    routers: HashMap<RouterId, Vec<String>>,
    nodes: HashMap<NodeId, Vec<String>>,
}

impl Aliases {
    fn of(fabric: &Fabric) -> Self {
        let mut routers: HashMap<RouterId, Vec<String>> = HashMap::new();
        for (name, &id) in &fabric.router_index {
            if *name != fabric.router(id).name {
                routers.entry(id).or_default().push(name.clone());
            }
        }
        let mut endpoints: HashMap<&str, usize> = HashMap::new();
        for node in fabric.nodes() {
            *endpoints.entry(&node.host).or_default() += 1;
        }
        let mut nodes: HashMap<NodeId, Vec<String>> = HashMap::new();
        for (name, &id) in &fabric.node_index {
            let node = fabric.node(id);
            // The builder generates these again.
            let is_number = node
                .nid
                .is_some_and(|nid| *name == nid.to_string() || *name == format!("nid{nid:05}"));
            let is_host = *name == node.host && endpoints[node.host.as_str()] == 1;
            if *name != node.name && !is_host && !is_number {
                nodes.entry(id).or_default().push(name.clone());
            }
        }
        routers.values_mut().for_each(|list| list.sort_unstable());
        nodes.values_mut().for_each(|list| list.sort_unstable());
        Self { routers, nodes }
    }
}

fn out_of_range(
    what: impl Into<String>,
    found: impl std::fmt::Display,
    expected: impl Into<String>,
) -> FabricError {
    FabricError::OutOfRange {
        what: what.into(),
        found: found.to_string(),
        expected: expected.into(),
    }
}
