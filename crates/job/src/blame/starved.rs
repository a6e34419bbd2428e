//! Nodes whose processes wait for a processor: other programs run there, or a limit of the host stops them.

use super::{Cause, Kind, View, percent};
use crate::probe::component::Component;
use hopbyte_fabric::units::count;
use hopbyte_fabric::{LinkId, NodeId};
use std::collections::BTreeSet;

/// Smallest share of the time that is reported.
const LEAST: f64 = 0.2;
/// Factor above the other nodes from which a node is an exception. Where all of them wait, each has too many processes.
const ABOVE: f64 = 3.0;
/// Share of the other nodes that is compared with: some may have the same fault.
const MOST: f64 = 0.9;

impl View<'_> {
    /// Nodes of jobs whose most delayed thread waits longer for a processor than those of the other nodes, and the links of
    /// their arrivals.
    pub(super) fn starved(&self) -> Vec<(BTreeSet<LinkId>, Cause)> {
        let of_jobs = self
            .jobs
            .map(|jobs| jobs.nodes().collect::<BTreeSet<NodeId>>());
        let counts = |n: &NodeId| of_jobs.as_ref().is_none_or(|nodes| nodes.contains(n));
        let nodes = self.state.nodes.iter().filter(|(n, _)| counts(n));
        let waits: Vec<(NodeId, f64)> = nodes
            .filter_map(|(&n, times)| Some((n, times.waited_ratio()?)))
            .collect();
        let mut sorted: Vec<f64> = waits.iter().map(|w| w.1).collect();
        sorted.sort_by(f64::total_cmp);
        // Of the nodes without the one that waits longest.
        let others = sorted.len().saturating_sub(1);
        let at = ((others as f64 * MOST).ceil() as usize).saturating_sub(1);
        let usual = if others > 0 { sorted[at] } else { 0.0 };
        let is_starved = |&(_, w): &(NodeId, f64)| w >= LEAST.max(ABOVE * usual);
        let starved = waits.into_iter().filter(is_starved);
        starved
            .map(|(n, w)| self.starved_cause(n, w, usual, others))
            .collect()
    }

    fn starved_cause(
        &self,
        node: NodeId,
        waits: f64,
        usual: f64,
        others: usize,
    ) -> (BTreeSet<LinkId>, Cause) {
        let shown = format!(
            "A thread there was ready to run {} of the time and had no processor.",
            percent(waits)
        );
        let healthy = match others {
            0 => "There are no other nodes to compare it with.".into(),
            n => format!(
                "Of {} other nodes, {} wait {} or less.",
                count(n),
                percent(MOST),
                percent(usual)
            ),
        };
        let cause = self.cause(Kind::Starved, Component::Host(node), [shown, healthy]);
        ([self.fabric.node(node).eject].into(), cause)
    }
}
