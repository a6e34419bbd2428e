//! Lower bounds that hold for every placement, and their derivation.
//!
//! A task keeps at most (slots of a node − 1) partners on its node and (slots of a router − 1) on its router.
//! Its traffic with all others must leave, over links of known capacity. Sums over tasks and averages over
//! links follow. For small jobs the eigenvalues of the traffic give stronger bounds on the bytes that must
//! leave nodes and routers ([`crate::spectral`]); for stencils the surface of the parts does. A gap to a bound
//! does not imply that a better placement exists.

use crate::cuts::{network_hops, splits};
use crate::evaluate::{Evaluation, is_network};
use crate::graph::Graph;
use crate::problem::{Objective, Problem};
use crate::regrid::TaskGrid;
use crate::spectral::Spectrum;
use crate::together::Together;
use hopbyte_fabric::{End, Exchange, LinkId, Routing};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of forwarding-table routes that are followed for a bound.
const MOST_ROUTES: usize = 1 << 19;

/// Maximum bytes of a message in whole numbers.
const MOST_BYTES: f64 = (1u64 << 52) as f64;

/// Safety factor for a sum of numbers that may have been rounded up to single precision.
const ROUNDED: f64 = 1.0 - 4.0 * f32::EPSILON as f64;

/// Values that no placement of the problem can go below.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Minimum time of the worst link.
    pub worst_link_seconds: f64,
    /// Minimum sum of the times of the phases' worst links, if phases follow one another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_seconds: Option<f64>,
    /// Minimum time of the worst link between routers.
    pub worst_network_link_seconds: f64,
    /// Minimum hop-bytes.
    pub hop_bytes: f64,
    /// Minimum average dilation.
    pub average_dilation: f64,
    /// Minimum bytes that leave their node.
    pub off_node_bytes: f64,
}

impl Bound {
    /// The bound on an objective's value; 0 if none is known.
    pub fn of(&self, objective: &Objective<'_>) -> f64 {
        match objective {
            Objective::WorstLink => self.turns_seconds.unwrap_or(self.worst_link_seconds),
            Objective::WorstNetworkLink => self.worst_network_link_seconds,
            Objective::HopBytes => self.hop_bytes,
            Objective::RouteCost(_) => 0.0,
        }
    }
}

impl Bound {
    /// Takes over the cost of a placement that is known to be the best of all.
    pub(crate) fn raise(&mut self, objective: &Objective<'_>, best: &Evaluation) {
        let raise = |bound: &mut f64, value: f64| *bound = bound.max(value);
        match objective {
            Objective::WorstLink => match &mut self.turns_seconds {
                // The worst link of all phases at once may be lower elsewhere.
                Some(turns) => raise(turns, best.exchange_seconds()),
                None => raise(&mut self.worst_link_seconds, best.worst_link_seconds),
            },
            Objective::WorstNetworkLink => {
                let least = best.worst_network_link_seconds;
                raise(&mut self.worst_network_link_seconds, least);
                raise(&mut self.worst_link_seconds, least);
            }
            Objective::HopBytes => {
                raise(&mut self.hop_bytes, best.hop_bytes);
                raise(&mut self.average_dilation, best.average_dilation);
            }
            Objective::RouteCost(_) => {}
        }
    }
}

/// Best-case resources of the allocation's nodes and routers.
struct Offer {
    /// Slots of the nodes, and of each router's allocated nodes.
    node_rooms: Vec<usize>,
    router_rooms: Vec<usize>,
    /// Maximum over nodes, and over routers.
    node_slots: usize,
    router_slots: usize,
    /// Highest capacity into the network and out of it, of one node and of one router.
    inject: f64,
    eject: f64,
    router_out: f64,
    router_in: f64,
    /// Highest capacity into a router, on all its links from others.
    router_into: f64,
    /// Sums over the allocation.
    all_inject: f64,
    /// Capacity of all network links, and of those that leave the allocation's routers.
    network: f64,
    all_routers: f64,
    /// Hops of host links.
    near_hops: f64,
}

impl Offer {
    fn of(problem: &Problem<'_>) -> Self {
        let fabric = problem.fabric;
        let mut router_slots: BTreeMap<_, usize> = BTreeMap::new();
        for &(node, slots) in problem.allocation.nodes() {
            *router_slots.entry(fabric.node(node).router).or_default() += slots as usize;
        }
        let best = |links: &mut dyn Iterator<Item = LinkId>| {
            links.map(|l| problem.live_capacity(l)).fold(0.0, f64::max)
        };
        let nodes = || problem.allocation.nodes().iter().map(|n| fabric.node(n.0));
        let mut into: HashMap<_, f64> = HashMap::new();
        let mut out: HashMap<_, f64> = HashMap::new();
        let mut network = 0.0;
        for link in fabric.link_ids().filter(|&l| is_network(problem, l)) {
            let capacity = problem.live_capacity(link);
            network += capacity;
            *out.entry(fabric.link(link).from).or_default() += capacity;
            *into.entry(fabric.link(link).to).or_default() += capacity;
        }
        let at_routers = |sums: &HashMap<End, f64>| {
            router_slots
                .keys()
                .filter_map(|&r| sums.get(&End::Router(r)).copied())
                .fold(0.0, f64::max)
        };
        let mut shared: Vec<LinkId> = nodes().map(|n| n.inject).collect();
        shared.sort_unstable();
        shared.dedup();
        let cabled = nodes().all(|n| fabric.is_hop(n.inject) && fabric.is_hop(n.eject));
        let near_hops = if cabled { 2.0 } else { 0.0 };
        let nodes_of = problem.allocation.nodes().iter();
        let node_rooms: Vec<usize> = nodes_of.map(|n| n.1 as usize).collect();
        let router_rooms: Vec<usize> = router_slots.values().copied().collect();
        let leave = router_slots.keys();
        Self {
            all_routers: leave.filter_map(|&r| out.get(&End::Router(r))).sum(),
            node_slots: node_rooms.iter().copied().max().unwrap_or(0),
            router_slots: router_rooms.iter().copied().max().unwrap_or(0),
            node_rooms,
            router_rooms,
            inject: best(&mut nodes().map(|n| n.inject)),
            eject: best(&mut nodes().map(|n| n.eject)),
            router_out: at_routers(&out),
            router_into: at_routers(&into),
            router_in: last_links(problem).unwrap_or_else(|| at_routers(&into)),
            all_inject: shared.iter().map(|&l| problem.live_capacity(l)).sum(),
            network,
            near_hops,
        }
    }
}

/// Highest total capacity of the links on which forwarding tables reach one node from other routers. With a
/// single path down to every node, as in a fat tree, this is one link. `None` for other routings and for too
/// many routes.
fn last_links(problem: &Problem<'_>) -> Option<f64> {
    let fabric = problem.fabric;
    let Routing::Tables(_) = problem.routing else {
        return None;
    };
    let nodes = problem.allocation.nodes();
    let sources: BTreeMap<_, _> = nodes
        .iter()
        .map(|n| (fabric.node(n.0).router, n.0))
        .collect();
    if sources.len() * nodes.len() > MOST_ROUTES {
        return None;
    }
    let mut most = 0.0f64;
    let mut shares = Vec::new();
    for &(to, _) in nodes {
        let router = fabric.node(to).router;
        let mut last = BTreeSet::new();
        for (_, &from) in sources.iter().filter(|s| *s.0 != router) {
            shares.clear();
            let routed = problem.routing.shares(fabric, from, to, &mut shares);
            routed.ok()?;
            let links = shares.iter().map(|s| s.0);
            let arrives =
                |l: &LinkId| is_network(problem, *l) && fabric.link(*l).to == End::Router(router);
            last.extend(links.filter(arrives));
        }
        let capacity = last.iter().map(|&l| problem.live_capacity(l)).sum();
        most = most.max(capacity);
    }
    Some(most)
}

/// Bytes that a task must send and receive beyond its `keep` heaviest partners, given the partners' (out, back)
/// bytes. Each direction keeps its own heaviest partners, which can only weaken the bound.
pub(crate) fn leaving(
    edges: &[crate::graph::Edge],
    keep: usize,
    scratch: &mut Vec<f64>,
) -> (f64, f64) {
    let mut beyond = |bytes: &dyn Fn(&crate::graph::Edge) -> f32| {
        scratch.clear();
        scratch.extend(edges.iter().map(|e| f64::from(bytes(e))));
        if scratch.len() <= keep {
            return 0.0;
        }
        scratch.select_nth_unstable_by(keep, |a, b| b.total_cmp(a));
        scratch[keep..].iter().sum()
    };
    (beyond(&|e| e.out), beyond(&|e| e.back))
}

/// A stencil's cells: a grid of tasks that all exchange at least `bytes` each way with their neighbours.
pub(crate) struct Cells {
    dims: Vec<u32>,
    bytes: f64,
}

impl Cells {
    pub(crate) fn of(problem: &Problem<'_>, graph: &Graph) -> Option<Self> {
        let TaskGrid { dims, cell } = TaskGrid::of(problem.exchange, graph)?;
        let mut task_at = vec![0; cell.len()];
        for (task, &cell) in (0..).zip(&cell) {
            task_at[cell as usize] = task;
        }
        let mut bytes = f64::INFINITY;
        let mut stride = 1;
        for &size in dims.iter().rev() {
            for at in (0..graph.units() as u32).filter(|t| t / stride % size + 1 < size) {
                let next = task_at[(at + stride) as usize];
                let edge = graph.edge(task_at[at as usize], next)?;
                bytes = bytes.min(f64::from(edge.out.min(edge.back)));
            }
            stride *= size;
        }
        Some(Self { dims, bytes })
    }

    /// Minimum bytes between parts of at most the given sizes. A part of k cells has projections along the D
    /// axes whose product is at least k^(D-1) (Loomis and Whitney, Bull. AMS 1949), so at least 2·D·k^((D-1)/D)
    /// faces; faces on the grid's own surface cost nothing. In small parts whole numbers of neighbours count ([`joined`]).
    pub(crate) fn cut(&self, rooms: &[usize]) -> f64 {
        let (cells, d) = (
            self.dims.iter().map(|&n| f64::from(n)).product::<f64>(),
            self.dims.len() as f64,
        );
        let surface: f64 = self.dims.iter().map(|&n| 2.0 * cells / f64::from(n)).sum();
        let mut sizes = rooms.to_vec();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let joined = joined(d, sizes.first().copied().unwrap_or(0));
        let (mut left, mut faces, mut inside) = (cells, 0.0, 0.0);
        for room in sizes {
            // Filling the largest parts first gives the fewest faces: faces grow slower than cells.
            let size = left.min(room as f64);
            left -= size;
            faces += 2.0 * d * size.powf((d - 1.0) / d);
            // No smaller part has more neighbours by cell.
            inside += size * joined(room);
        }
        let pairs = d * cells - 0.5 * surface;
        let divided = 2.0 * (pairs - inside * (1.0 + ROUNDING));
        self.bytes * (faces - surface).max(divided).max(0.0)
    }
}

/// Relative error of sums over cells, at most.
const ROUNDING: f64 = 1e-9;

/// Cells of a part up to which neighbours within it are counted one by one.
const COUNTED: usize = 4_096;

/// Greatest number of pairs of neighbours by cell in parts of up to some number of cells of a grid of `d` dimensions, for
/// numbers up to `most`. All k cells have D·k such pairs less one for each line of cells, of which there are at least
/// D·k^((D-1)/D) (see [`Cells::cut`]), a whole number. A grid is also part of a hypercube, where the cells 0 to k - 1 have
/// most pairs, as many as these numbers have ones in binary (Hart, Discrete Math. 14, 1976).
fn joined(d: f64, most: usize) -> impl Fn(usize) -> f64 {
    let (mut ones, mut ratio) = (0.0, vec![0.0f64]);
    for k in 1..=most.min(COUNTED) {
        ones += f64::from((k - 1).count_ones());
        let cells = k as f64;
        let lines = (d * cells.powf((d - 1.0) / d) * (1.0 - ROUNDING)).ceil();
        let pairs = f64::min(ones, d * cells - lines);
        ratio.push(ratio[k - 1].max(pairs / cells));
    }
    move |k| match ratio.get(k) {
        Some(&ratio) => ratio,
        None => d - d * (k as f64).powf(-1.0 / d),
    }
}

/// Time of the traffic between parts of the machine on the links that join them.
fn between_parts(
    problem: &Problem<'_>,
    flows: &Graph,
    (spectrum, cells): (Option<&Spectrum>, Option<&Cells>),
) -> f64 {
    let mut scratch = Vec::new();
    let mut worst = 0.0f64;
    let splits = splits(problem);
    for split in splits.iter().filter(|s| s.capacity > 0.0) {
        let keep = split.rooms.iter().max().map_or(0, |&room| room - 1);
        let tasks = 0..flows.units() as u32;
        let mut bytes: f64 = tasks
            .map(|t| leaving(flows.edges(t), keep, &mut scratch).0)
            .sum();
        if let Some(spectrum) = spectrum {
            bytes = bytes.max(spectrum.cut(&split.rooms, flows.units()));
        }
        if let Some(cells) = cells {
            bytes = bytes.max(cells.cut(&split.rooms));
        }
        worst = worst.max(bytes / split.capacity);
    }
    worst
}

/// Whether edges store the bytes of all pairs exactly.
fn is_single(exchange: &Exchange) -> bool {
    let mut messages = exchange.iter();
    messages.all(|(_, m)| f64::from(m.bytes as f32) == m.bytes)
}

/// Loads of links that single routes can cause: multiples of the greatest common divisor of all messages.
struct Steps {
    bytes: f64,
    /// Live capacities of the links between routers, and of all links, ascending.
    network: Vec<f64>,
    all: Vec<f64>,
}

impl Steps {
    /// `None` if routes split bytes, or messages have no divisor.
    fn of(problem: &Problem<'_>) -> Option<Self> {
        let single = matches!(
            problem.routing,
            Routing::DimensionOrder(_) | Routing::Tables(_) | Routing::Tree(_)
        );
        if !single || problem.loads.is_some() {
            return None;
        }
        let mut divisor = 0u64;
        for (_, message) in problem.exchange.iter() {
            let whole = message.bytes.fract() == 0.0 && (0.0..MOST_BYTES).contains(&message.bytes);
            let (mut a, mut b) = (divisor, whole.then_some(message.bytes as u64)?);
            while b > 0 {
                (a, b) = (b, a % b);
            }
            divisor = a;
        }
        let capacities = |network: bool| -> Vec<f64> {
            let links = problem.fabric.link_ids();
            let links = links.filter(|&l| !network || is_network(problem, l));
            let mut list: Vec<f64> = links.map(|l| problem.live_capacity(l)).collect();
            list.retain(|&capacity| capacity > 0.0);
            list.sort_by(f64::total_cmp);
            list.dedup();
            list
        };
        (divisor > 1).then(|| Self {
            bytes: divisor as f64,
            network: capacities(true),
            all: capacities(false),
        })
    }

    /// Least time of a link that is not below a bound.
    fn next(&self, bound: f64, network: bool) -> f64 {
        let capacities = if network { &self.network } else { &self.all };
        let time = |capacity: &f64| {
            let steps = (bound * capacity / self.bytes * (1.0 - 1e-6)).ceil();
            steps * self.bytes / capacity
        };
        let least = capacities.iter().map(time).fold(f64::INFINITY, f64::min);
        if least.is_finite() {
            bound.max(least)
        } else {
            bound
        }
    }
}

/// Computes the bounds, in time proportional to the traffic plus the machine.
pub(crate) fn bound(problem: &Problem<'_>, requests: &Graph, flows: &Graph) -> Bound {
    let offer = Offer::of(problem);
    let mut bound = Bound::default();
    let (mut off_node, mut off_router) = (0.0, 0.0);
    let (mut flow_off_node, mut flow_off_router) = (0.0, 0.0);
    let mut scratch = Vec::new();
    for task in 0..requests.units() as u32 {
        let keep_node = offer.node_slots.saturating_sub(1);
        let keep_router = offer.router_slots.saturating_sub(1);
        off_node += leaving(requests.edges(task), keep_node, &mut scratch).0;
        off_router += leaving(requests.edges(task), keep_router, &mut scratch).0;
        let (out, back) = leaving(flows.edges(task), keep_node, &mut scratch);
        flow_off_node += out;
        let host = (out / offer.inject).max(back / offer.eject);
        let (out, back) = leaving(flows.edges(task), keep_router, &mut scratch);
        flow_off_router += out;
        let network = (out / offer.router_out).max(back / offer.router_in);
        for (sum, value) in [
            (&mut bound.worst_link_seconds, host),
            (&mut bound.worst_network_link_seconds, network),
        ] {
            *sum = sum.max(if value.is_finite() { value } else { 0.0 });
        }
    }
    let spectrum = |graph| Spectrum::of(graph, offer.node_rooms.len());
    let of_requests = spectrum(requests);
    // If only payload is counted, both graphs are the same.
    let on_wire = (!std::ptr::eq(requests, flows)).then(|| spectrum(flows));
    let of_flows = on_wire.as_ref().unwrap_or(&of_requests).as_ref();
    for (spectrum, node, router) in [
        (of_requests.as_ref(), &mut off_node, &mut off_router),
        (of_flows, &mut flow_off_node, &mut flow_off_router),
    ] {
        if let Some(spectrum) = spectrum {
            *node = node.max(spectrum.cut(&offer.node_rooms, requests.units()));
            *router = router.max(spectrum.cut(&offer.router_rooms, requests.units()));
        }
    }
    let cells_of_requests = Cells::of(problem, requests);
    let cells_on_wire = (!std::ptr::eq(requests, flows)).then(|| Cells::of(problem, flows));
    let cells_of_flows = cells_on_wire
        .as_ref()
        .unwrap_or(&cells_of_requests)
        .as_ref();
    for (cells, node, router) in [
        (cells_of_requests.as_ref(), &mut off_node, &mut off_router),
        (cells_of_flows, &mut flow_off_node, &mut flow_off_router),
    ] {
        if let Some(cells) = cells {
            *node = node.max(cells.cut(&offer.node_rooms));
            *router = router.max(cells.cut(&offer.router_rooms));
        }
    }
    for (graph, node, router) in [
        (requests, &mut off_node, &mut off_router),
        (flows, &mut flow_off_node, &mut flow_off_router),
    ] {
        if let Some(groups) = Together::of(graph, offer.node_slots) {
            *node = node.max(groups.leaving());
            let worst = groups.worst(offer.node_rooms.len(), (offer.inject, offer.eject));
            if std::ptr::eq(graph, flows) {
                bound.worst_link_seconds = bound.worst_link_seconds.max(worst);
            }
        }
        if let Some(groups) = Together::of(graph, offer.router_slots) {
            *router = router.max(groups.leaving());
            let rates = (offer.router_out, offer.router_into);
            let worst = groups.worst(offer.router_rooms.len(), rates);
            if std::ptr::eq(graph, flows) {
                let network = &mut bound.worst_network_link_seconds;
                *network = network.max(worst);
            }
        }
    }
    let ratio = |bytes: f64, rate: f64| if rate > 0.0 { bytes / rate } else { 0.0 };
    bound.off_node_bytes = off_node;
    let near = off_node.max(off_router) * offer.near_hops;
    let fabric = problem.fabric;
    let mut network = fabric.link_ids().filter(|&l| is_network(problem, l));
    bound.hop_bytes = match network.all(|l| fabric.is_hop(l)) {
        true => near + off_router.max(network_hops(problem, requests)),
        false => near,
    };
    let links = network_hops(problem, flows).max(flow_off_router);
    bound.worst_network_link_seconds = (bound.worst_network_link_seconds)
        .max(ratio(links, offer.network))
        .max(between_parts(problem, flows, (of_flows, cells_of_flows)));
    bound.worst_network_link_seconds = bound
        .worst_network_link_seconds
        .max(ratio(flow_off_router, offer.all_routers));
    bound.worst_link_seconds = bound
        .worst_link_seconds
        .max(ratio(flow_off_node, offer.all_inject))
        .max(bound.worst_network_link_seconds);
    if let Some(steps) = Steps::of(problem) {
        bound.worst_network_link_seconds = steps.next(bound.worst_network_link_seconds, true);
        bound.worst_link_seconds = steps.next(bound.worst_link_seconds, false);
    }
    if problem.loads.is_some() || !is_single(problem.exchange) {
        // Bytes on the wire are not whole multiples of payload, and edges store bytes in single precision.
        bound.worst_link_seconds *= ROUNDED;
        bound.worst_network_link_seconds *= ROUNDED;
    }
    let total = problem.exchange.total_bytes();
    bound.average_dilation = ratio(bound.hop_bytes, total);
    bound
}

#[cfg(test)]
mod tests {
    use super::joined;

    /// Every part of small grids.
    #[test]
    fn no_part_of_a_grid_joins_more_neighbours() {
        for dims in [&[4usize, 4][..], &[2, 3, 3], &[2, 2, 2, 2], &[3, 3, 2]] {
            let cells: usize = dims.iter().product();
            let mut strides = vec![1; dims.len()];
            for d in (1..dims.len()).rev() {
                strides[d - 1] = strides[d] * dims[d];
            }
            let pairs: Vec<u32> = (0..dims.len())
                .flat_map(|d| {
                    let stride = strides[d];
                    let size = dims[d];
                    let first = (0..cells).filter(move |c| c / stride % size + 1 < size);
                    first.map(move |c| 1u32 << c | 1 << (c + stride))
                })
                .collect();
            let mut most = vec![0; cells + 1];
            for part in 0u32..1 << cells {
                let inside = pairs.iter().filter(|&&pair| part & pair == pair).count();
                let size = part.count_ones() as usize;
                most[size] = inside.max(most[size]);
            }
            let bound = joined(dims.len() as f64, cells);
            for (size, &most) in most.iter().enumerate().skip(1) {
                let cells = size as f64;
                assert!(
                    most as f64 <= bound(size) * cells * (1.0 + 1e-12),
                    "{dims:?} {size}"
                );
            }
        }
        // Boxes of 2x2x2 and 2x2x2x2 are the best of their sizes.
        assert_eq!(joined(4.0, 8)(8), 1.5);
        assert_eq!(joined(5.0, 16)(16), 2.0);
        assert!(joined(4.0, 5_000)(5_000) > joined(4.0, 4_096)(4_096));
    }
}
