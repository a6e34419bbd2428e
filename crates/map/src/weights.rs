//! Weights of the links in the objectives.

use crate::evaluate::is_network;
use crate::paths::Paths;
use crate::problem::{APART, Objective, Problem};
use crate::search::{Limits, Weights};
use hopbyte_fabric::{LinkId, Node};

/// Weight of every link: links outside the objective only must not get worse.
pub(crate) fn weights<P: Paths>(problem: &Problem<'_>, paths: &P) -> Weights {
    let links = problem.fabric.links().len();
    let real = |number: usize| Some(paths.link(number)).filter(|l| l.index() < links);
    let network = |number: usize| real(number).is_some_and(|l| is_network(problem, l));
    let objective = problem.objective;
    let all = matches!(objective, Objective::WorstLink);
    let loads = all || matches!(objective, Objective::WorstNetworkLink);
    let seconds = |number: usize| {
        let timed = loads || !network(number);
        let capacity = real(number).map_or(0.0, |l| problem.live_capacity(l));
        if timed && capacity > 0.0 {
            1.0 / capacity
        } else {
            0.0
        }
    };
    let counts = |number: usize| loads && real(number).is_some() && (all || network(number));
    let hop = |number: usize| {
        let is_hop = real(number).is_some_and(|l| problem.fabric.is_hop(l));
        f64::from(u8::from(is_hop))
    };
    let mut leaves = vec![false; links];
    for &(node, _) in problem.allocation.nodes() {
        leaves[problem.fabric.node(node).inject.index()] = true;
    }
    let leaves = |number: usize| real(number).is_some_and(|l| leaves[l.index()]);
    let apart = if objective.has_limits() { APART } else { 0.0 };
    let pull = |number: usize| hop(number) + if leaves(number) { apart } else { 0.0 };
    Weights {
        seconds_per_byte: (0..paths.links()).map(seconds).collect(),
        counts: (0..paths.links()).map(counts).collect(),
        hop: (0..paths.links()).map(hop).collect(),
        pull: (0..paths.links()).map(pull).collect(),
        leaves: (0..paths.links()).map(leaves).collect(),
        limits: Limits::NONE,
        floor: 0.0,
    }
}

/// Whether the worst time of host links is the same for all placements: every node takes one task, so all bytes of a task
/// cross the links of its node, and these are equal.
pub(crate) fn has_fixed_hosts(problem: &Problem<'_>) -> bool {
    let nodes = problem.allocation.nodes();
    let fabric = problem.fabric;
    let alike = |link: fn(&Node) -> LinkId| {
        let mut links: Vec<LinkId> = nodes.iter().map(|n| link(fabric.node(n.0))).collect();
        let rate = links.first().map(|&l| problem.live_capacity(l));
        let same = links
            .iter()
            .all(|&l| Some(problem.live_capacity(l)) == rate);
        links.sort_unstable();
        links.dedup();
        same && links.len() == nodes.len()
    };
    matches!(problem.objective, Objective::WorstLink)
        && fabric.inside().is_none()
        && nodes.iter().all(|n| n.1 == 1)
        && alike(|n| n.inject)
        && alike(|n| n.eject)
}

impl Weights {
    /// Leaves out the links that are no links between routers, whose worst time under some loads is that under all.
    pub(crate) fn fix_hosts<P: Paths>(&mut self, problem: &Problem<'_>, paths: &P, load: &[f64]) {
        let links = problem.fabric.links().len();
        for (number, load) in load.iter().enumerate() {
            let link = paths.link(number);
            if link.index() < links && !is_network(problem, link) {
                self.floor = self.floor.max(load * self.seconds_per_byte[number]);
                self.seconds_per_byte[number] = 0.0;
                self.counts[number] = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::count;
    use crate::graph::Graph;
    use crate::paths::grid::GridPaths;
    use hopbyte_fabric::random::Random;
    use hopbyte_fabric::{Allocation, Exchange, Routing, spec};

    /// With one task a node the worst link is the same whether host links are left out or not.
    #[test]
    fn host_links_of_single_tasks_are_a_floor() {
        for (machine, slots, fixed) in [
            ("torus:4x3x2", 1, true),
            // Two nodes of a router share its host links.
            ("gemini:2x2x4", 1, false),
            ("torus:4x3x2", 2, false),
        ] {
            let fabric = spec::fabric(machine).unwrap();
            let routing = Routing::default_for(&fabric);
            let nodes = fabric.node_ids().map(|n| (n, slots)).collect();
            let allocation = Allocation::new(&fabric, nodes).unwrap();
            let places = allocation.nodes().len() as u32;
            // Enough for a host link to be the worst now and then.
            let flows = (0..places).flat_map(|t| {
                let bytes = if t == 0 { 9.0 } else { f64::from(1 + t % 3) };
                [1, 5].map(|d| (t, (t + d) % places, 1e6 * bytes, 1))
            });
            let exchange = Exchange::new(places as usize, flows).unwrap();
            let problem = Problem::new(&fabric, &routing, &exchange, &allocation);
            assert_eq!(has_fixed_hosts(&problem), fixed, "{machine}");
            let paths = GridPaths::new(&problem).unwrap();
            let graph = Graph::of_tasks(&exchange);
            let all = weights(&problem, &paths);
            let mut without = all.clone();
            let mut place: Vec<u32> = (0..places).collect();
            let mut load = vec![0.0; paths.links()];
            count(&paths, &graph, &|t| place[t as usize], &mut load);
            without.fix_hosts(&problem, &paths, &load);
            assert!(without.floor > 0.0);
            let mut rng = Random::stream(3, 0);
            let mut floors = 0;
            for _ in 0..200 {
                rng.shuffle(&mut place);
                count(&paths, &graph, &|t| place[t as usize], &mut load);
                let (a, b) = (all.standing(&load).worst, without.standing(&load).worst);
                assert!(!fixed || (a - b).abs() < 1e-12 * a, "{machine}: {a} {b}");
                floors += u32::from(b == without.floor);
            }
            assert!(
                floors < 200,
                "{machine}: no link between routers is ever worse"
            );
        }
    }
}
