//! Paper 003's remapping: a new placement of the job by the counters of its congested run.

use super::case::Case;
use super::tools::{Remap, Tools};
use crate::error::ModelError;
use crate::outcome::Outcome;
use crate::question::place::allocate;
use crate::question::scenario::PlacementRule;
use hopbyte_fabric::{LinkState, NodeId};

/// Time of the case's job after remapping by a metric of its congested run.
pub(super) fn time(
    case: &Case,
    tools: &Tools<'_>,
    congested: &Outcome,
    metric: &str,
) -> Result<f64, ModelError> {
    let (scenario, fabric) = (&case.scenario, &case.fabric);
    let question = case.question()?;
    let job = &scenario.job;
    let ranks = question.placement.tasks();
    let allocation = allocate(fabric, &job.nodes, ranks, job.ranks_per_node, scenario.seed)?;
    let placement = (tools.remap)(&Remap {
        fabric,
        routing: &case.routing,
        state: &LinkState::of_increase(fabric, &congested.snapshot(fabric)),
        exchange: &job.workload.exchange(None)?,
        allocation: &allocation,
        current: &question.placement,
        metric,
    });
    let placement = placement.map_err(|e| {
        ModelError::out_of_range(format!("remapping on {metric}"), &e, "a placement")
    })?;
    let name = |n: NodeId| fabric.node(n).name.clone();
    let mut scenario = scenario.clone();
    scenario.job.placement =
        PlacementRule::Nodes(placement.slots().iter().map(|s| name(s.node)).collect());
    let mapped = Case {
        scenario,
        fabric: fabric.clone(),
        routing: case.routing.clone(),
    };
    Ok(mapped.question()?.answer()?.time_seconds)
}
