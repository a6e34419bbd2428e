//! One version of a machine's state, with its costs.

use crate::costs::{RouteCosts, link_values};
use crate::metric::{Aggregate, Metric, Over};
use hopbyte_fabric::{Fabric, LinkState, Routing};
use std::sync::{Arc, OnceLock};

const KINDS: usize = Metric::ALL.len() * Aggregate::ALL.len() * Over::ALL.len();

/// A machine's state at one time. Immutable: a holder's answers all refer to that time; a new state is a new view.
#[derive(Debug)]
pub struct View<'a> {
    fabric: &'a Fabric,
    routing: &'a Routing,
    version: u64,
    time_seconds: Option<f64>,
    state: Option<LinkState>,
    values: [Arc<[f64]>; Metric::ALL.len()],
    costs: [OnceLock<RouteCosts<'a>>; KINDS],
}

impl<'a> View<'a> {
    /// A view: `version` increases with each, `time_seconds` is the time of the counter reading (Unix time). Without
    /// a state, metrics that need one are unknown.
    pub fn new(
        fabric: &'a Fabric,
        routing: &'a Routing,
        state: Option<LinkState>,
        version: u64,
        time_seconds: Option<f64>,
    ) -> Self {
        Self {
            values: Metric::ALL.map(|metric| link_values(fabric, state.as_ref(), metric)),
            costs: [const { OnceLock::new() }; KINDS],
            fabric,
            routing,
            version,
            time_seconds,
            state,
        }
    }

    /// Version of the state.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Time of the counter reading in seconds since 1970, if the source has a clock.
    pub fn time_seconds(&self) -> Option<f64> {
        self.time_seconds
    }

    /// The machine.
    pub fn fabric(&self) -> &'a Fabric {
        self.fabric
    }

    /// The link state; `None` before the first reading.
    pub fn state(&self) -> Option<&LinkState> {
        self.state.as_ref()
    }

    /// Costs at this time; intermediate results are cached in the view.
    pub fn costs(&self, metric: Metric, aggregate: Aggregate, over: Over) -> &RouteCosts<'a> {
        let kinds = (aggregate as usize, over as usize);
        let at = (metric as usize * Aggregate::ALL.len() + kinds.0) * Over::ALL.len() + kinds.1;
        self.costs[at].get_or_init(|| {
            let values = self.values[metric as usize].clone();
            RouteCosts::of_values(self.fabric, self.routing, values, metric, aggregate, over)
        })
    }
}
