//! Weights of the links in the objectives.

use crate::evaluate::is_network;
use crate::paths::Paths;
use crate::problem::{APART, Objective, Problem};
use crate::search::{Limits, Weights};

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
    }
}
