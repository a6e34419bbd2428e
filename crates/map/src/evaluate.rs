//! Cost of a placement.

use crate::crossed::Crossed;
use crate::problem::{MapError, Objective, Problem};
use crate::schedule::Stop;
use crate::straight::Straight;
use hopbyte_fabric::routing::Spread;
use hopbyte_fabric::{End, Exchange, LinkId, Placement, Routing, Unroutable};
use rayon::prelude::*;
use serde::Serialize;

/// Cost of a placement. Times are bytes / live capacity of a directed link (see [`Problem::live_capacity`]):
/// the time that the link needs for one exchange, with other jobs' use included.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evaluation {
    /// Time of the worst link of all.
    pub worst_link_seconds: f64,
    /// The worst link.
    pub worst_link: Option<LinkId>,
    /// Time of the worst link between two routers.
    pub worst_network_link_seconds: f64,
    /// The worst link between two routers.
    pub worst_network_link: Option<LinkId>,
    /// Time of the worst link into or out of nodes.
    pub worst_host_link_seconds: f64,
    /// Time that 99 % of the loaded links stay below.
    pub p99_link_seconds: f64,
    /// Mean time over the loaded links.
    pub mean_link_seconds: f64,
    /// Number of links with load.
    pub loaded_links: usize,
    /// Bytes × hops of the request routes, summed.
    pub hop_bytes: f64,
    /// Mean hops of a byte; bytes that stay on their node count with 0 hops.
    pub average_dilation: f64,
    /// Payload bytes that leave their node.
    pub off_node_bytes: f64,
    /// Maximum payload bytes that one node sends.
    pub worst_injection_bytes: f64,
    /// Time of the worst link of each phase, for phases that follow one another ([`Problem::turns`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turn_seconds: Vec<f64>,
    /// Bytes × cost over pairs, summed, for [`Objective::RouteCost`].
    pub route_cost: Option<f64>,
    /// Bytes on every link, by link id, from [`Problem::loads`] if given.
    #[serde(skip)]
    pub link_bytes: Vec<f64>,
}

impl Evaluation {
    /// Time of one exchange: that of the worst link, of one phase after the other if they follow one another.
    pub fn exchange_seconds(&self) -> f64 {
        match &self.turn_seconds[..] {
            [] => self.worst_link_seconds,
            times => times.iter().sum(),
        }
    }

    /// The value of an objective, and its tie-breaker.
    pub fn score(&self, objective: &Objective<'_>) -> (f64, f64) {
        match objective {
            Objective::WorstLink => (self.exchange_seconds(), self.hop_bytes),
            Objective::WorstNetworkLink => (self.worst_network_link_seconds, self.hop_bytes),
            Objective::HopBytes => (self.hop_bytes, self.worst_link_seconds),
            Objective::RouteCost(_) => (
                self.route_cost.unwrap_or(f64::INFINITY),
                self.worst_link_seconds,
            ),
        }
    }

    /// Whether this costs less than another placement; relative differences below 1e-9 are ties.
    pub fn better_than(&self, other: &Self, objective: &Objective<'_>) -> bool {
        let ((a, a_tie), (b, b_tie)) = (self.score(objective), other.score(objective));
        less(a, b) || (!less(b, a) && less(a_tie, b_tie))
    }

    /// Whether this raises nothing above a reference that the objective does not cover but every byte crosses: the
    /// time of host links, and the bytes that leave their node. Always true for objectives without such limits.
    pub fn keeps_limits(&self, reference: &Self, objective: &Objective<'_>) -> bool {
        !objective.has_limits()
            || !(less(
                reference.worst_host_link_seconds,
                self.worst_host_link_seconds,
            ) || less(reference.off_node_bytes, self.off_node_bytes))
    }
}

/// Whether `x` is less than `y` by more than rounding.
pub(crate) fn less(x: f64, y: f64) -> bool {
    x < y - 1e-9 * y.abs()
}

/// Flows between two looks at the stop flag.
const STRIDE: usize = 1024;

/// From this number on, flows are routed in parallel, in as many portions on any machine: sums round alike. Each of
/// those with detours costs as much as a hundred others.
const MANY: usize = 1 << 16;
const MANY_DETOURED: usize = 1 << 12;
const PORTIONS: usize = 4;

/// Bytes from one node of the allocation to another.
struct Flow {
    from: u32,
    to: u32,
    /// Payload.
    bytes: f64,
    /// Bytes on the wire, with the replies to messages of the other direction.
    load: f64,
}

/// Computes the cost of a placement, in time proportional to communicating pairs of tasks plus communicating
/// pairs of nodes × hops.
///
/// # Errors
/// The placement does not fit the problem's tasks and allocation, or communicating tasks are on nodes without a
/// route between them.
pub fn evaluate(problem: &Problem<'_>, placement: &Placement) -> Result<Evaluation, MapError> {
    let whole = evaluate_until(problem, placement, Stop::default())?;
    // Nothing stops it.
    Ok(whole.unwrap_or_default())
}

/// [`evaluate`]; `None` if it was stopped.
pub(crate) fn evaluate_until(
    problem: &Problem<'_>,
    placement: &Placement,
    stop: Stop,
) -> Result<Option<Evaluation>, MapError> {
    problem.check()?;
    problem.check_placement(placement)?;
    let flows = node_flows(problem, placement);
    let Some(routed) = Routed::of_all(problem, &flows, stop) else {
        return Ok(None);
    };
    if !routed.dead.is_empty() {
        return Err(MapError::unroutable(problem.fabric, routed.dead));
    }
    let (hop_bytes, off_node_bytes) = (routed.hop_bytes, routed.off_node_bytes);
    let total = problem.exchange.total_bytes();
    let mut evaluation = Evaluation {
        worst_link_seconds: 0.0,
        worst_link: None,
        worst_network_link_seconds: 0.0,
        worst_network_link: None,
        worst_host_link_seconds: 0.0,
        p99_link_seconds: 0.0,
        mean_link_seconds: 0.0,
        loaded_links: 0,
        hop_bytes,
        average_dilation: if total > 0.0 { hop_bytes / total } else { 0.0 },
        off_node_bytes,
        worst_injection_bytes: routed.sent.iter().copied().fold(0.0, f64::max),
        turn_seconds: Vec::new(),
        route_cost: route_cost(problem, &flows),
        link_bytes: routed.link_bytes,
    };
    time_links(problem, &mut evaluation);
    let Some(times) = turn_seconds(problem, placement, stop)? else {
        return Ok(None);
    };
    evaluation.turn_seconds = times;
    Ok(Some(evaluation))
}

/// Flows on their routes.
struct Routed {
    /// By link.
    link_bytes: Vec<f64>,
    /// Bytes that leave their node, by place.
    sent: Vec<f64>,
    hop_bytes: f64,
    off_node_bytes: f64,
    dead: Vec<Unroutable>,
    /// Sums of legs, not yet in `link_bytes`, and the same of the payload alone if that is not the load.
    legs: Vec<f64>,
    payload: Vec<f64>,
}

/// Legs that many flows share.
enum Legs<'a> {
    Straight(Straight),
    Crossed(Crossed<'a>),
}

impl<'a> Legs<'a> {
    /// `None` if flows are followed one by one.
    fn of(problem: &Problem<'a>, flows: usize) -> Option<Self> {
        let straight = Straight::new(problem, flows).map(Self::Straight);
        straight.or_else(|| Crossed::new(problem, flows).map(Self::Crossed))
    }

    /// Sums of no flows, of the load and of the payload alone.
    fn none(&self, problem: &Problem<'_>) -> [Vec<f64>; 2] {
        match self {
            Self::Straight(straight) => [straight.none(), Vec::new()],
            Self::Crossed(crossed) => {
                let payload = problem.loads.map(|_| crossed.none());
                [crossed.none(), payload.unwrap_or_default()]
            }
        }
    }
}

impl Routed {
    /// All flows; `None` if it was stopped. Outside a pool of threads none is started.
    fn of_all(problem: &Problem<'_>, flows: &[Flow], stop: Stop) -> Option<Self> {
        let detoured = match problem.routing {
            Routing::Groups(paths) => paths.spread() != Spread::Minimal,
            _ => false,
        };
        if flows.len() < if detoured { MANY_DETOURED } else { MANY } {
            return Self::of(problem, flows, None, stop);
        }
        let legs = Legs::of(problem, flows.len());
        match Self::along(problem, flows, legs.as_ref(), stop)? {
            Some(all) => Some(all),
            // The flows without a route are named.
            None => Self::along(problem, flows, None, stop)?,
        }
    }

    /// All flows in portions, along these legs; `None` if it was stopped, and within if a leg has no route.
    fn along(
        problem: &Problem<'_>,
        flows: &[Flow],
        legs: Option<&Legs<'_>>,
        stop: Stop,
    ) -> Option<Option<Self>> {
        let portion = flows.len().div_ceil(PORTIONS);
        let of = |part| Self::of(problem, part, legs, stop);
        let parts: Option<Vec<Self>> = match rayon::current_thread_index() {
            Some(_) => flows.par_chunks(portion).map(of).collect(),
            None => flows.chunks(portion).map(of).collect(),
        };
        let mut all = parts?.into_iter().reduce(Self::and)?;
        match legs {
            Some(Legs::Straight(straight)) => straight.follow(&all.legs, &mut all.link_bytes),
            Some(Legs::Crossed(crossed)) if all.follow(problem, crossed).is_none() => {
                return Some(None);
            }
            _ => {}
        }
        Some(Some(all))
    }

    /// Adds the sums of routes between groups; `None` if one has no route.
    fn follow(&mut self, problem: &Problem<'_>, crossed: &Crossed<'_>) -> Option<()> {
        let mut bytes = vec![0.0; self.link_bytes.len()];
        crossed.follow(problem, &self.legs, &mut bytes)?;
        add(&mut self.link_bytes, &bytes);
        if problem.loads.is_some() {
            bytes.fill(0.0);
            crossed.follow(problem, &self.payload, &mut bytes)?;
        }
        let links = problem.fabric.link_ids().zip(bytes);
        let hops = links.filter(|&(link, _)| problem.fabric.is_hop(link));
        self.hop_bytes += hops.map(|(_, bytes)| bytes).sum::<f64>();
        Some(())
    }

    fn of(
        problem: &Problem<'_>,
        flows: &[Flow],
        legs: Option<&Legs<'_>>,
        stop: Stop,
    ) -> Option<Self> {
        let [sums, payload] = legs.map_or_else(Default::default, |legs| legs.none(problem));
        let mut routed = Self {
            link_bytes: vec![0.0; problem.fabric.links().len()],
            sent: vec![0.0; problem.allocation.nodes().len()],
            hop_bytes: 0.0,
            off_node_bytes: 0.0,
            dead: Vec::new(),
            legs: sums,
            payload,
        };
        let mut shares = Vec::new();
        for (number, flow) in flows.iter().enumerate() {
            if number.is_multiple_of(STRIDE) && stop.is_set() {
                return None;
            }
            let (from, to) = (problem.node_at(flow.from), problem.node_at(flow.to));
            if !problem.is_inside(from, to) {
                routed.sent[flow.from as usize] += flow.bytes;
                routed.off_node_bytes += flow.bytes;
            }
            if let Some(legs) = legs {
                routed.add(problem, legs, flow);
                continue;
            }
            shares.clear();
            match problem
                .routing
                .shares(problem.fabric, from, to, &mut shares)
            {
                Ok(()) => {
                    for &(link, share) in &shares {
                        routed.link_bytes[link.index()] += flow.load * share;
                        if problem.fabric.is_hop(link) {
                            routed.hop_bytes += flow.bytes * share;
                        }
                    }
                }
                Err(error) => routed.dead.push(error),
            }
        }
        Some(routed)
    }

    /// Adds a flow to the sums of legs.
    fn add(&mut self, problem: &Problem<'_>, legs: &Legs<'_>, flow: &Flow) {
        let ends = (flow.from, flow.to);
        match legs {
            Legs::Straight(straight) => {
                let hops = straight.add(ends, flow.load, &mut self.legs);
                self.hop_bytes += flow.bytes * f64::from(hops);
            }
            Legs::Crossed(crossed) => {
                crossed.add(ends, flow.load, &mut self.legs);
                if problem.loads.is_some() {
                    crossed.add(ends, flow.bytes, &mut self.payload);
                }
            }
        }
        let node = |place| problem.fabric.node(problem.node_at(place));
        for link in [node(flow.from).inject, node(flow.to).eject] {
            self.link_bytes[link.index()] += flow.load;
            if problem.fabric.is_hop(link) {
                self.hop_bytes += flow.bytes;
            }
        }
    }

    /// The sums of two parts.
    fn and(mut self, other: Self) -> Self {
        add(&mut self.link_bytes, &other.link_bytes);
        add(&mut self.sent, &other.sent);
        add(&mut self.legs, &other.legs);
        add(&mut self.payload, &other.payload);
        self.hop_bytes += other.hop_bytes;
        self.off_node_bytes += other.off_node_bytes;
        self.dead.extend(other.dead);
        self
    }
}

/// Adds sums to others.
fn add(sums: &mut [f64], more: &[f64]) {
    let both = sums.iter_mut().zip(more);
    both.for_each(|(sum, more)| *sum += more);
}

/// Times of the phases' worst links under a placement; `None` if it was stopped.
fn turn_seconds(
    problem: &Problem<'_>,
    placement: &Placement,
    stop: Stop,
) -> Result<Option<Vec<f64>>, MapError> {
    let alone = problem.turns.iter().map(|turn| problem.alone(turn));
    let times =
        alone.map(|p| Ok(evaluate_until(&p, placement, stop)?.map(|e| e.worst_link_seconds)));
    times.collect()
}

/// Derives all values that follow from the bytes on the links.
fn time_links(problem: &Problem<'_>, e: &mut Evaluation) {
    let mut times = Vec::new();
    for link in problem.fabric.link_ids() {
        let bytes = e.link_bytes[link.index()];
        if bytes <= 0.0 {
            continue;
        }
        let seconds = bytes / problem.live_capacity(link);
        times.push(seconds);
        if seconds > e.worst_link_seconds {
            (e.worst_link_seconds, e.worst_link) = (seconds, Some(link));
        }
        if is_network(problem, link) {
            if seconds > e.worst_network_link_seconds {
                (e.worst_network_link_seconds, e.worst_network_link) = (seconds, Some(link));
            }
        } else {
            e.worst_host_link_seconds = e.worst_host_link_seconds.max(seconds);
        }
    }
    e.loaded_links = times.len();
    if !times.is_empty() {
        e.mean_link_seconds = times.iter().sum::<f64>() / times.len() as f64;
        let at = (times.len() as f64 * 0.99) as usize;
        e.p99_link_seconds = *times.select_nth_unstable_by(at, f64::total_cmp).1;
    }
}

/// Whether a link joins two routers.
pub(crate) fn is_network(problem: &Problem<'_>, link: LinkId) -> bool {
    let ends = problem.fabric.link(link);
    matches!((ends.from, ends.to), (End::Router(_), End::Router(_)))
        && !problem.fabric.is_inner(link)
}

/// Bytes between places, by source and then target, without traffic inside a node.
fn node_flows(problem: &Problem<'_>, placement: &Placement) -> Vec<Flow> {
    let place_of = problem.places();
    let nodes = problem.allocation.nodes().len();
    let places: Vec<u32> = placement
        .slots()
        .iter()
        .map(|slot| place_of[slot.node.index()])
        .collect();
    let mut tasks: Vec<u32> = (0..places.len() as u32).collect();
    tasks.sort_by_key(|&t| places[t as usize]);
    let (mut bytes_to, mut load_to) = (vec![0.0; nodes], vec![0.0; nodes]);
    let mut targets: Vec<u32> = Vec::new();
    let mut seen = vec![false; nodes];
    let mut flows = Vec::new();
    for group in tasks.chunk_by(|&a, &b| places[a as usize] == places[b as usize]) {
        let from = places[group[0] as usize];
        let mut add = |exchange: &Exchange, sums: &mut [f64]| {
            for message in group.iter().flat_map(|&t| exchange.sends(t)) {
                let to = places[message.to as usize];
                if to != from {
                    if !seen[to as usize] {
                        seen[to as usize] = true;
                        targets.push(to);
                    }
                    sums[to as usize] += message.bytes;
                }
            }
        };
        add(problem.exchange, &mut bytes_to);
        if let Some(loads) = problem.loads {
            add(loads, &mut load_to);
        }
        targets.sort_unstable();
        for to in targets.drain(..) {
            seen[to as usize] = false;
            let bytes = std::mem::take(&mut bytes_to[to as usize]);
            let load = match problem.loads {
                Some(_) => std::mem::take(&mut load_to[to as usize]),
                None => bytes,
            };
            flows.push(Flow {
                from,
                to,
                bytes,
                load,
            });
        }
    }
    flows
}

/// Sum of bytes × cost for the route cost objective.
fn route_cost(problem: &Problem<'_>, flows: &[Flow]) -> Option<f64> {
    let Objective::RouteCost(costs) = problem.objective else {
        return None;
    };
    let costs = known_costs(costs);
    let nodes = problem.allocation.nodes().len();
    let sum = flows
        .iter()
        .map(|f| f.bytes * f64::from(costs[f.from as usize * nodes + f.to as usize]))
        .sum();
    Some(sum)
}

/// Costs of pairs for a search: those of [`known_costs`], and none inside a node, where bytes cross no route.
pub(crate) fn pair_costs(costs: &[f32]) -> Vec<f32> {
    let mut costs = known_costs(costs);
    let nodes = costs.len().isqrt();
    (0..nodes).for_each(|n| costs[n * nodes + n] = 0.0);
    costs
}

/// Costs with unknown ones replaced by the mean of the known (1 if none is known): an unmeasured route ranks
/// neither best nor worst.
fn known_costs(costs: &[f32]) -> Vec<f32> {
    let known = costs.iter().filter(|c| !c.is_nan());
    let (sum, count) = known.fold((0.0, 0u64), |(s, n), &c| (s + f64::from(c), n + 1));
    let mean = if count > 0 {
        (sum / count as f64) as f32
    } else {
        1.0
    };
    costs
        .iter()
        .map(|&c| if c.is_nan() { mean } else { c })
        .collect()
}
