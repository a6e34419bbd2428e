//! Ports and wires of a fabric, and the turns of packets.

use super::spec::{MAX_CYCLES, RouterSpec};
use crate::error::ModelError;
use crate::network::{Network, Way};
use hopbyte_fabric::{Direction, End, Fabric, LinkId, NodeId, RouterId, Routing};

/// Marks a wire that ends at a node; the rest of the number is the node.
pub(super) const NODE: u32 = 1 << 31;
/// No router, no link.
pub(super) const NONE: u32 = u32::MAX;
/// Dimension of links off any grid, of the way out, and of a packet that has not moved.
const NO_DIM: u8 = 254;
const EJECT: u8 = 255;
pub(super) const AT_HOME: u8 = 253;
/// Dimensions of links between groups and within one, where routes go by groups.
const GLOBAL: u8 = 252;
const LOCAL: u8 = 251;

/// Maximum number of virtual channels of an input: a set of them is a byte.
pub(super) const MAX_LANES: usize = 8;
/// Maximum number of ports of a router: a set of them is a word.
pub(super) const MAX_PORTS: usize = 64;

/// The receiving side of a wire into a router.
#[derive(Clone, Copy, Debug)]
pub(super) struct In {
    pub(super) router: u32,
    /// Number among the router's inputs.
    pub(super) index: u8,
    /// The sending side.
    pub(super) from: u32,
    /// Its link and tile; injection wires have their node's link.
    pub(super) link: u32,
    pub(super) tile: u16,
}

/// The sending side of a wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    /// Input at the far end, or a node.
    pub(super) to: u32,
    /// Router, or for injection wires the node with [`NODE`].
    pub(super) router: u32,
    pub(super) link: u32,
    pub(super) tile: u16,
    /// Outputs of its link, and its dimension.
    pub(super) tiles: u8,
    pub(super) dim: u8,
    /// Cycles to the far end.
    pub(super) forward: u32,
    pub(super) cycles_per_phit: f64,
}

/// Marks a step after which the rest of the way in this ring crosses its closing link.
const CROSSES: u8 = 1 << 7;

/// Ports, wires and turns.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) ins: Vec<In>,
    pub(super) outs: Vec<Out>,
    /// First output of each router, and one past the last.
    pub(super) out_base: Vec<u32>,
    pub(super) in_base: Vec<u32>,
    /// First injection wire of each node; every node has the same number.
    pub(super) inject_base: Vec<u32>,
    pub(super) host_channels: u8,
    /// Outputs by router and node: first output of the link among the router's.
    steps: Vec<u8>,
    nodes: usize,
}

/// Maximum number of routers times nodes at packet level, a byte each.
const MAX_STEPS: usize = 1 << 27;

impl Layout {
    /// Lays out a machine; rejects machines that are too large for this level.
    pub(super) fn new(network: &Network<'_>, spec: &RouterSpec) -> Result<Self, ModelError> {
        let fabric = network.fabric;
        let (routers, nodes) = (fabric.routers().len(), fabric.nodes().len());
        if !matches!(spec.lanes(), 1 | 2 | 4 | 8) {
            let expected = "1, 2, 4 or 8 (networks x 2 dateline classes x channels)";
            return Err(ModelError::out_of_range(
                "virtual channels",
                &spec.lanes(),
                expected,
            ));
        }
        if matches!(network.routing, Routing::Hosts(_)) {
            let expected = "a network without them when every packet is followed";
            return Err(ModelError::out_of_range(
                "fabric",
                &"links inside hosts",
                expected,
            ));
        }
        let steps = routers.saturating_mul(nodes);
        if steps > MAX_STEPS {
            let expected = format!("at most {MAX_STEPS} when every packet is followed");
            return Err(ModelError::out_of_range(
                "routers times nodes",
                &steps,
                expected,
            ));
        }
        let mut layout = Self {
            ins: Vec::new(),
            outs: Vec::new(),
            out_base: vec![0; routers + 1],
            in_base: vec![0; routers + 1],
            inject_base: vec![0; nodes],
            host_channels: spec.host_channels,
            steps: vec![0; steps],
            nodes,
        };
        let first = layout.add_outs(network, spec);
        layout.check_times(network, spec)?;
        layout.add_ins(network);
        layout.check_ports()?;
        layout.find_steps(network, spec, &first)?;
        Ok(layout)
    }

    pub(super) fn routers(&self) -> usize {
        self.out_base.len() - 1
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// A packet's output at a router by destination node: the link's first output, and whether the rest of the
    /// way in this ring crosses its closing link.
    #[inline]
    pub(super) fn step(&self, router: u32, node: u32) -> (u32, bool) {
        let step = self.steps[router as usize * self.nodes + node as usize];
        let out = self.out_base[router as usize] + u32::from(step & !CROSSES);
        (out, step & CROSSES != 0)
    }

    /// Approximate longest delay of an event, in cycles.
    pub(super) fn longest_wait(&self, spec: &RouterSpec) -> u32 {
        let wire = |o: &Out| f64::from(o.forward) + 40.0 * o.cycles_per_phit;
        let longest = self.outs.iter().map(wire).fold(0.0, f64::max);
        longest.min(1e5) as u32 + spec.credit_cycles + spec.route_cycles
    }

    /// Outputs router by router: links' tiles, then the nodes'; then injection wires. Returns the first
    /// output of each link.
    fn add_outs(&mut self, network: &Network<'_>, spec: &RouterSpec) -> Vec<u32> {
        let fabric = network.fabric;
        let mut first = vec![NONE; fabric.links().len()];
        for router in fabric.router_ids() {
            self.out_base[router.index()] = self.outs.len() as u32;
            for &id in fabric.links_from(router) {
                let link = fabric.link(id);
                if !link.is_up() || !matches!(link.to, End::Router(_)) {
                    continue;
                }
                first[id.index()] = self.outs.len() as u32;
                let tiles = fabric.ports(id).len().max(1);
                let rate = network.link_rate(id) / tiles as f64;
                for tile in 0..tiles {
                    self.outs.push(Out {
                        to: NONE,
                        router: router.0,
                        link: id.0,
                        tile: tile as u16,
                        tiles: tiles.min(255) as u8,
                        dim: dimension(network, id),
                        forward: spec.forward_cycles + spec.cycles(network.hop_latency(id)),
                        cycles_per_phit: spec.cycles_per_phit(rate),
                    });
                }
            }
            for &node in fabric.nodes_on(router) {
                for tile in 0..spec.host_channels {
                    self.outs.push(Out {
                        to: NODE | node.0,
                        router: router.0,
                        link: fabric.node(node).eject.0,
                        tile: u16::from(tile),
                        tiles: spec.host_channels,
                        dim: EJECT,
                        forward: spec.eject_cycles
                            + spec.cycles(network.hop_latency(fabric.node(node).eject)),
                        cycles_per_phit: spec
                            .host_cycles_per_phit(network, fabric.node(node).eject)
                            / network.ejection_share(node),
                    });
                }
            }
        }
        self.out_base[fabric.routers().len()] = self.outs.len() as u32;
        for node in fabric.node_ids() {
            let link = fabric.node(node).inject;
            self.inject_base[node.index()] = self.outs.len() as u32;
            for tile in 0..spec.host_channels {
                self.outs.push(Out {
                    to: NONE,
                    router: NODE | node.0,
                    link: link.0,
                    tile: u16::from(tile),
                    tiles: spec.host_channels,
                    dim: NO_DIM,
                    forward: spec.inject_cycles + spec.cycles(network.hop_latency(link)),
                    cycles_per_phit: spec.host_cycles_per_phit(network, link),
                });
            }
        }
        first
    }

    /// An input for every wire that ends at a router, router by router.
    fn add_ins(&mut self, network: &Network<'_>) {
        let fabric = network.fabric;
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); fabric.routers().len()];
        for (i, out) in self.outs.iter().enumerate() {
            let router = if out.router & NODE != 0 {
                fabric.node(NodeId(out.router & !NODE)).router
            } else if out.to & NODE != 0 && out.to != NONE {
                continue;
            } else {
                let End::Router(router) = fabric.link(LinkId(out.link)).to else {
                    continue;
                };
                router
            };
            into[router.index()].push(i as u32);
        }
        for (router, outs) in into.into_iter().enumerate() {
            self.in_base[router] = self.ins.len() as u32;
            for (index, from) in outs.into_iter().enumerate() {
                self.outs[from as usize].to = self.ins.len() as u32;
                let Out { link, tile, .. } = self.outs[from as usize];
                self.ins.push(In {
                    router: router as u32,
                    index: index.min(255) as u8,
                    from,
                    link,
                    tile,
                });
            }
        }
        self.in_base[fabric.routers().len()] = self.ins.len() as u32;
    }

    /// Rejects links whose times would not be whole numbers of cycles any more.
    fn check_times(&self, network: &Network<'_>, spec: &RouterSpec) -> Result<(), ModelError> {
        let fabric = network.fabric;
        for out in &self.outs {
            let link = LinkId(out.link);
            let seconds = network.hop_latency(link);
            let rate = spec.phit_bytes / (out.cycles_per_phit * spec.cycle.0);
            let (what, found, limit) = if seconds > MAX_CYCLES * spec.cycle.0 {
                let limit = format!("at most {:.3} s", MAX_CYCLES * spec.cycle.0);
                ("latency", format!("{seconds} s"), limit)
            } else if out.cycles_per_phit > MAX_CYCLES {
                let least = spec.phit_bytes / (MAX_CYCLES * spec.cycle.0);
                (
                    "rate",
                    format!("{rate:.1e} bytes/s"),
                    format!("at least {least:.1e} bytes/s"),
                )
            } else {
                continue;
            };
            let what = format!("{what} of {}", fabric.link_name(link));
            let expected = format!("{limit} when every packet is followed");
            return Err(ModelError::out_of_range(&what, &found, expected));
        }
        Ok(())
    }

    fn check_ports(&self) -> Result<(), ModelError> {
        let widest = |base: &[u32]| base.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
        let ports = widest(&self.in_base).max(widest(&self.out_base)) as usize;
        if ports > MAX_PORTS {
            let expected = format!("at most {} when every packet is followed", MAX_PORTS);
            return Err(ModelError::out_of_range(
                "ports of a router",
                &ports,
                expected,
            ));
        }
        Ok(())
    }

    fn find_steps(
        &mut self,
        network: &Network<'_>,
        spec: &RouterSpec,
        first: &[u32],
    ) -> Result<(), ModelError> {
        let fabric = network.fabric;
        for router in fabric.router_ids() {
            let base = self.out_base[router.index()];
            for node in fabric.node_ids() {
                let target = fabric.node(node);
                let at = router.index() * self.nodes + node.index();
                if router == target.router {
                    let outs =
                        &self.outs[base as usize..self.out_base[router.index() + 1] as usize];
                    let out = outs.iter().position(|o| o.to == NODE | node.0).unwrap_or(0);
                    self.steps[at] = out as u8;
                    continue;
                }
                // Pairs without a route are rejected when a job needs them.
                let Ok(link) = network.routing.next_link(fabric, router, node) else {
                    continue;
                };
                let link = match other_way(fabric, router, target.router, link) {
                    Some(other) if spec.spread_ties => other,
                    _ => link,
                };
                let out = first[link.index()];
                if out == NONE {
                    continue;
                }
                self.steps[at] = (out - base) as u8;
                if crosses(network, router, target.router, link) {
                    self.steps[at] |= CROSSES;
                }
            }
        }
        Ok(())
    }

    /// Rejects a pair of nodes without a route.
    pub(super) fn check_route(
        network: &Network<'_>,
        from: NodeId,
        to: NodeId,
        way: &mut Way,
    ) -> Result<(), ModelError> {
        let found = network.find(from, to, way);
        found.map_err(|pair| ModelError::unroutable(network.fabric, &pair))
    }
}

/// For an odd position at half a ring's distance: the first link in the other direction.
fn other_way(fabric: &Fabric, at: RouterId, to: RouterId, link: LinkId) -> Option<LinkId> {
    let direction = fabric.link(link).direction?;
    let dim = direction.dim as usize;
    let (here, there) = (fabric.coord(at)?[dim], fabric.coord(to)?[dim]);
    let shape = fabric.shape()?;
    if 2 * here.abs_diff(there) != shape.dims[dim] || here % 2 == 0 || !shape.wrap[dim] {
        return None;
    }
    let other = Direction {
        dim: direction.dim,
        positive: !direction.positive,
    };
    fabric.link_towards(at, other)
}

/// The dimension of a link: packets that turn may change their class.
fn dimension(network: &Network<'_>, link: LinkId) -> u8 {
    let spec = network.fabric.link(link);
    match (network.routing, spec.from, spec.to) {
        (Routing::Groups(_), End::Router(a), End::Router(b)) => {
            if leaves_group(network.fabric, a, b) {
                GLOBAL
            } else {
                LOCAL
            }
        }
        _ => spec.direction.map_or(NO_DIM, |d| d.dim),
    }
}

/// Whether two routers are in different groups: in the first of their coordinates.
fn leaves_group(fabric: &Fabric, a: RouterId, b: RouterId) -> bool {
    let group = |r| fabric.coord(r).and_then(|c| c.first());
    group(a) != group(b)
}

/// Whether the way from a router along its ring to the destination's coordinate passes the closing link;
/// with groups, whether it still leaves this one: local links before and after a global one are
/// separate classes.
fn crosses(network: &Network<'_>, at: RouterId, to: RouterId, link: LinkId) -> bool {
    let fabric = network.fabric;
    if matches!(network.routing, Routing::Groups(_)) {
        return leaves_group(fabric, at, to);
    }
    let Some(direction) = fabric.link(link).direction else {
        return false;
    };
    let dim = direction.dim as usize;
    match (fabric.coord(at), fabric.coord(to)) {
        (Some(here), Some(there)) if direction.positive => here[dim] > there[dim],
        (Some(here), Some(there)) => here[dim] < there[dim],
        _ => false,
    }
}
