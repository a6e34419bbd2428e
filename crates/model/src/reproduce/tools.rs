//! Interfaces of rows to crates that the model does not depend on.

use crate::topobw::Measured;
use hopbyte_fabric::{Allocation, Exchange, Fabric, LinkState, NodeId, Placement, Routing};

/// A job to be remapped.
#[derive(Clone, Copy, Debug)]
pub struct Remap<'a> {
    /// The machine.
    pub fabric: &'a Fabric,
    /// Its routing.
    pub routing: &'a Routing,
    /// Counters of a run with the other jobs.
    pub state: &'a LinkState,
    /// Traffic of the ranks.
    pub exchange: &'a Exchange,
    /// The job's nodes.
    pub allocation: &'a Allocation,
    /// Current placement of its ranks.
    pub current: &'a Placement,
    /// The objective: `worst-link`, `uniform`, or a metric of routes (`hops`, `used`,
    /// `input-stall`, `credit-stall`).
    pub metric: &'a str,
}

/// Finds a placement, or gives the reason why there is none.
pub type Remapper<'a> = dyn Fn(&Remap<'_>) -> Result<Placement, String> + Sync + 'a;

/// Result of an analysis of slow pairs.
#[derive(Clone, Debug, Default)]
pub struct Located {
    /// Components that explain slow pairs, as `kind name`.
    pub components: Vec<String>,
    /// Slow pairs that no component explains.
    pub unexplained: Vec<(NodeId, NodeId)>,
}

/// Locates the cause of slow pairs from the pairs of each phase, or gives the reason why it cannot.
pub type Locator<'a> =
    dyn Fn(&Fabric, &Routing, &[Vec<Measured>]) -> Result<Located, String> + Sync + 'a;

/// The mapper and the analysis of probes, from crates of the command.
#[derive(Clone, Copy)]
pub struct Tools<'a> {
    /// Implements `remapped()`.
    pub remap: &'a Remapper<'a>,
    /// Implements `located()`.
    pub locate: &'a Locator<'a>,
}
