//! Flows that share links max-min fairly, over time.

mod clock;
mod lists;
mod sharing;

pub use clock::{Clock, Done};
pub use sharing::{FlowId, PathId, Sharing, Use};
