//! The question: a scenario, its job, and the job's placement.

pub(crate) mod computing;
mod geometric;
pub(crate) mod level;
pub(crate) mod limits;
pub mod parameters;
pub mod place;
pub(crate) mod placed;
pub(crate) mod protection;
pub(crate) mod scenario;
pub(crate) mod wavefront;
pub mod workload;

pub use computing::Interruptions;
pub use level::Level;
pub use limits::MAX_RANKS;
pub use placed::{Inputs, Question};
pub use protection::Protection;
pub use scenario::{Background, Job, Nodes, PlacementRule, Scenario, Slow};
pub use wavefront::Wavefront;
