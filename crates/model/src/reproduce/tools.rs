//! What rows ask of crates that a model does not see.

use crate::topobw::Measured;
use hopbyte_fabric::{Allocation, Exchange, Fabric, LinkState, NodeId, Placement, Routing};

/// A job that is to be placed anew.
#[derive(Clone, Copy, Debug)]
pub struct Remap<'a> {
    /// The machine.
    pub fabric: &'a Fabric,
    /// How it routes.
    pub routing: &'a Routing,
    /// Counters of a run beside the other jobs.
    pub state: &'a LinkState,
    /// What the ranks send.
    pub exchange: &'a Exchange,
    /// The job's nodes.
    pub allocation: &'a Allocation,
    /// Where its ranks are.
    pub current: &'a Placement,
    /// What is made small: `worst-link`, `uniform`, or a metric of routes (`hops`, `used`,
    /// `input-stall`, `credit-stall`).
    pub metric: &'a str,
}

/// Finds a placement, or says why there is none.
pub type Remapper<'a> = dyn Fn(&Remap<'_>) -> Result<Placement, String> + Sync + 'a;

/// What an analysis of slow pairs says.
#[derive(Clone, Debug, Default)]
pub struct Located {
    /// Components that explain slow pairs, as `kind name`.
    pub components: Vec<String>,
    /// Slow pairs that no component explains.
    pub unexplained: Vec<(NodeId, NodeId)>,
}

/// Looks for what makes pairs slow, or says why it cannot.
pub type Locator<'a> =
    dyn Fn(&Fabric, &Routing, &[Measured]) -> Result<Located, String> + Sync + 'a;

/// The mapper and the analysis of probes that users have.
#[derive(Clone, Copy)]
pub struct Tools<'a> {
    /// `remapped()` asks it.
    pub remap: &'a Remapper<'a>,
    /// `located()` asks it.
    pub locate: &'a Locator<'a>,
}
