//! Lower bounds on machines with links inside hosts.
//!
//! As in [`crate::bound`], with a unit of hosts in place of a node. A task's bytes cross the links of its place: those to
//! partners in its unit the inner links, those to others the ports that the rule gives a pair. Bytes that must leave
//! units share the ports of the allocated hosts, and the links between the switches of the network.

use super::apart;
use super::divided;
use super::rates::{Reach, reach};
use crate::bound::{Bound, Cells, leaving};
use crate::evaluate::is_network;
use crate::graph::{Edge, Graph};
use crate::problem::Problem;
use crate::spectral::Spectrum;
use hopbyte_fabric::hosts::{Inside, PortRule};
use hopbyte_fabric::{End, NodeId, RouterId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Endpoints of the network by unit (or node without an inside), with the slots behind them, and a switch for each that
/// stands for all that its endpoints join.
struct Sides {
    rooms: Vec<usize>,
    ports: Vec<Vec<NodeId>>,
    router: Vec<RouterId>,
    /// Every switch with ports of allocated hosts, and another one joined with it or itself.
    joined: BTreeMap<RouterId, RouterId>,
}

impl Sides {
    fn of(problem: &Problem<'_>) -> Self {
        let fabric = problem.fabric;
        let mut number: HashMap<(bool, u32), usize> = HashMap::new();
        let (mut rooms, mut ports) = (Vec::new(), Vec::<Vec<NodeId>>::new());
        for &(node, slots) in problem.allocation.nodes() {
            let unit = fabric.inside().and_then(|i| Some((i, i.unit_of(node)?)));
            let key = unit.map_or((false, node.0), |(_, unit)| (true, unit));
            let at = *number.entry(key).or_insert_with(|| {
                rooms.push(0);
                ports.push(Vec::new());
                rooms.len() - 1
            });
            rooms[at] += slots as usize;
            match unit {
                None => ports[at].push(node),
                Some((inside, unit)) => {
                    let host = &fabric.node(node).host;
                    let all = inside.ports_of(unit).iter().copied();
                    ports[at].extend(all.filter(|&p| fabric.node(p).host == *host));
                }
            }
        }
        let mut joined: BTreeMap<RouterId, RouterId> = BTreeMap::new();
        for ports in &mut ports {
            ports.sort_unstable();
            ports.dedup();
            let routers = ports.iter().map(|&p| fabric.node(p).router);
            let roots: Vec<RouterId> = routers.map(|r| root(&joined, r)).collect();
            let Some(&first) = roots.iter().min() else {
                continue;
            };
            for &r in &roots {
                joined.insert(r, first);
            }
        }
        let first = |ports: &Vec<NodeId>| ports.first().map(|&p| fabric.node(p).router);
        let router = |ports| first(ports).map_or(RouterId(0), |r| root(&joined, r));
        Self {
            router: ports.iter().map(router).collect(),
            rooms,
            ports,
            joined,
        }
    }
}

/// The switch that stands for those joined with `router`.
fn root(joined: &BTreeMap<RouterId, RouterId>, router: RouterId) -> RouterId {
    let mut at = router;
    while let Some(&next) = joined.get(&at).filter(|&&n| n != at) {
        at = next;
    }
    at
}

/// Highest rates of single places in one direction, bytes per second.
struct Rates {
    /// Over all links of a place.
    all: f64,
    /// Over its inner links.
    inner: f64,
    /// Over the ports that the bytes between two tasks use.
    pair: f64,
    /// Over the ports that the bytes of one task use, in any unit and in each.
    task: f64,
    tasks: Vec<f64>,
    /// Over the inner links between two places.
    inner_link: f64,
    /// Over all ports of a unit, and of the allocation.
    unit: f64,
    ports: f64,
    /// Over all ports of a host.
    host: f64,
}

/// Rate of some ports, out or in. Several endpoints may share a link.
fn of_ports(problem: &Problem<'_>, ports: &[NodeId], arriving: bool) -> f64 {
    let link = |p: &NodeId| match arriving {
        true => problem.fabric.node(*p).eject,
        false => problem.fabric.node(*p).inject,
    };
    let links: BTreeSet<_> = ports.iter().map(link).collect();
    links.into_iter().map(|l| problem.live_capacity(l)).sum()
}

impl Rates {
    /// Rates out of places, or into them.
    fn of(problem: &Problem<'_>, sides: &Sides, reach: &Reach, arriving: bool) -> Self {
        let fabric = problem.fabric;
        // By node: over the link into the network, and over inner links.
        let mut sums = vec![[0.0f64; 2]; fabric.nodes().len()];
        let mut inner_link = 0.0f64;
        for node in fabric.node_ids().take(fabric.network_nodes()) {
            let ends = fabric.node(node);
            let link = if arriving { ends.eject } else { ends.inject };
            sums[node.index()][0] = problem.live_capacity(link);
        }
        let inner = fabric.link_ids().skip(fabric.network_links());
        for link in inner {
            let ends = fabric.link(link);
            if let End::Node(node) = if arriving { ends.to } else { ends.from } {
                let capacity = problem.live_capacity(link);
                sums[node.index()][1] += capacity;
                inner_link = inner_link.max(capacity);
            }
        }
        let most = |of: &dyn Fn(&[f64; 2]) -> f64| {
            let places = problem.allocation.nodes().iter();
            places.map(|n| of(&sums[n.0.index()])).fold(0.0, f64::max)
        };
        let rule = fabric.inside().map(Inside::rule);
        let striped = rule == Some(PortRule::Striped);
        // Bytes of one task leave on the rails of its partners, and arrive at its nearest port.
        let many = striped || (rule == Some(PortRule::Rail) && !arriving);
        let of_unit = |ports: &Vec<NodeId>, spreads: bool| {
            let mut by_host: BTreeMap<&str, f64> = BTreeMap::new();
            for port in ports {
                let sum = by_host.entry(&fabric.node(*port).host).or_default();
                let capacity = sums[port.index()][0];
                *sum = match spreads {
                    true => *sum + capacity,
                    false => sum.max(capacity),
                };
            }
            by_host.into_values().fold(0.0, f64::max)
        };
        let units = sides.ports.iter();
        let ports = |spreads| {
            units
                .clone()
                .map(|p| of_unit(p, spreads))
                .fold(0.0, f64::max)
        };
        let way = usize::from(arriving);
        let inner = most(&|s| s[1]).min(reach.inner[way]);
        let task = ports(many).min(reach.outer[way]);
        let tasks = units
            .clone()
            .map(|p| of_unit(p, many).min(reach.outer[way]));
        Self {
            all: most(&|s| s[0] + s[1]).min(inner + task),
            inner,
            pair: ports(striped).min(reach.pair),
            task,
            tasks: tasks.collect(),
            inner_link: inner_link.min(reach.inner_pair),
            unit: sides
                .ports
                .iter()
                .map(|p| of_ports(problem, p, arriving))
                .fold(0.0, f64::max),
            ports: of_ports(problem, &sides.ports.concat(), arriving),
            host: ports(true),
        }
    }

    /// Those that tell which tasks share a unit.
    fn of_parts(&self) -> apart::Rates {
        apart::Rates {
            inner: self.inner,
            pair: self.pair,
            task: self.task,
            unit: self.unit,
            all: self.ports,
        }
    }

    /// Least time for the bytes between one task and its partners, heaviest first, with `place` slots on a place and
    /// `unit` slots in a unit.
    fn least(&self, bytes: &[f64], (place, unit): (usize, usize)) -> f64 {
        // Partners on the same place cross no link.
        let kept = bytes.len().min(place.saturating_sub(1));
        let bytes = &bytes[kept..];
        // A pair's bytes have one way inside.
        let pair = bytes.first().copied().unwrap_or(0.0);
        let pair = ratio(pair, self.pair.max(self.inner_link));
        let all: f64 = bytes.iter().sum();
        let keep = bytes.len().min(unit.saturating_sub(1 + kept));
        let (mut least, mut staying) = (f64::INFINITY, 0.0);
        for stay in 0..=keep {
            // The heaviest that leaves comes after `stay` heavier ones, which stay.
            let leaves = bytes.get(stay).copied().unwrap_or(0.0);
            let time = f64::max(ratio(staying, self.inner), ratio(leaves, self.pair));
            least = least.min(time);
            staying += leaves;
        }
        let beyond: f64 = bytes[keep..].iter().sum();
        least
            .max(pair)
            .max(ratio(all, self.all))
            .max(ratio(beyond, self.task))
    }
}

/// Time of bytes at a rate; without links no bytes are there, and no time is known.
fn ratio(bytes: f64, rate: f64) -> f64 {
    if rate > 0.0 {
        bytes / rate
    } else if bytes > 0.0 {
        f64::INFINITY
    } else {
        0.0
    }
}

/// Bytes that leave units and joined switches in any placement.
#[derive(Clone, Copy)]
struct Forced {
    unit: f64,
    router: f64,
}

impl Forced {
    fn of(problem: &Problem<'_>, graph: &Graph, units: &[usize], routers: &[usize]) -> Self {
        let most = |rooms: &[usize]| rooms.iter().copied().max().unwrap_or(0).saturating_sub(1);
        let mut scratch = Vec::new();
        let mut sum = |keep: usize| -> f64 {
            let tasks = 0..graph.units() as u32;
            let leave = tasks.map(|t| leaving(graph.edges(t), keep, &mut scratch).0);
            leave.sum()
        };
        let (mut unit, mut router) = (sum(most(units)), sum(most(routers)));
        if let Some(spectrum) = Spectrum::of(graph, units.len()) {
            unit = unit.max(spectrum.cut(units, graph.units()));
            router = router.max(spectrum.cut(routers, graph.units()));
        }
        if let Some(cells) = Cells::of(problem, graph) {
            unit = unit.max(cells.cut(units));
            router = router.max(cells.cut(routers));
        }
        Self { unit, router }
    }
}

/// Factor for sums of numbers that may have been rounded up to single precision.
const ROUNDED: f64 = 1.0 - 8.0 * f32::EPSILON as f64;

/// Bounds for machines with links inside hosts.
///
/// `block_of`: the block of every task, if the tasks of a block are on one host. `reached`: the worst link's time in some
/// placement.
pub(crate) fn bound(
    problem: &Problem<'_>,
    requests: &Graph,
    flows: &Graph,
    block_of: Option<&[u32]>,
    reached: f64,
) -> Bound {
    let fabric = problem.fabric;
    let sides = Sides::of(problem);
    let mut rooms: BTreeMap<RouterId, usize> = BTreeMap::new();
    for (&router, &room) in sides.router.iter().zip(&sides.rooms) {
        *rooms.entry(router).or_default() += room;
    }
    let routers: Vec<usize> = rooms.into_values().collect();
    let payload = Forced::of(problem, requests, &sides.rooms, &routers);
    // Of payload alone both graphs are one.
    let wire = match std::ptr::eq(requests, flows) {
        true => payload,
        false => Forced::of(problem, flows, &sides.rooms, &routers),
    };
    let places = problem.allocation.nodes().iter().map(|n| n.1 as usize);
    let place = places.max().unwrap_or(0);
    let unit = sides.rooms.iter().copied().max().unwrap_or(0);
    let reach = reach(problem);
    let sorts = [false, true].map(|arriving| Rates::of(problem, &sides, &reach, arriving));
    let unit_ports = |ports: &Vec<NodeId>| [false, true].map(|into| of_ports(problem, ports, into));
    let unit_ports: Vec<[f64; 2]> = sides.ports.iter().map(unit_ports).collect();
    let offer = apart::Offer {
        rooms: &sides.rooms,
        place,
        rates: [sorts[0].of_parts(), sorts[1].of_parts()],
        ports: &unit_ports,
        tasks: [&sorts[0].tasks, &sorts[1].tasks],
        host: [sorts[0].host, sorts[1].host],
        block_of,
    };
    let finite = |time: f64| if time.is_finite() { time } else { 0.0 };
    let mut worst = finite(apart::least(flows, &offer));
    for (rates, arriving) in sorts.iter().zip([false, true]) {
        let mut bytes: Vec<f64> = Vec::new();
        for task in 0..flows.units() as u32 {
            bytes.clear();
            let of = |e: &Edge| f64::from(if arriving { e.back } else { e.out });
            bytes.extend(flows.edges(task).iter().map(of));
            bytes.sort_unstable_by(|a, b| b.total_cmp(a));
            worst = worst.max(finite(rates.least(&bytes, (place, unit))));
        }
        worst = worst.max(finite(ratio(wire.unit, rates.ports)));
    }
    // Out of joined switches with ports of the allocation, and into them.
    let mut between = [0.0f64; 2];
    for link in fabric.link_ids().filter(|&l| is_network(problem, l)) {
        let ends = fabric.link(link);
        let is_side = |end: End| match end {
            End::Router(r) => sides.joined.contains_key(&r),
            _ => false,
        };
        let capacity = problem.live_capacity(link);
        between[0] += if is_side(ends.from) { capacity } else { 0.0 };
        between[1] += if is_side(ends.to) { capacity } else { 0.0 };
    }
    worst = divided::raise(flows, &offer, worst, reached);
    let least = between[0].min(between[1]);
    let network = finite(ratio(wire.router, least));
    let ports = || sides.ports.iter().flatten().map(|&p| fabric.node(p));
    let cabled = ports().all(|n| fabric.is_hop(n.inject) && fabric.is_hop(n.eject));
    let near = if cabled { 2.0 } else { 0.0 };
    let mut links = fabric.link_ids().filter(|&l| is_network(problem, l));
    let far = if links.all(|l| fabric.is_hop(l)) {
        payload.router
    } else {
        0.0
    };
    let hop_bytes = ROUNDED * (near * payload.unit + far);
    let total = problem.exchange.total_bytes();
    Bound {
        worst_link_seconds: ROUNDED * worst.max(network),
        turns_seconds: None,
        worst_network_link_seconds: ROUNDED * network,
        hop_bytes,
        average_dilation: if total > 0.0 { hop_bytes / total } else { 0.0 },
        off_node_bytes: ROUNDED * payload.unit,
    }
}
