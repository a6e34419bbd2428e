//! The outcome: runs of a question, their results, and sweeps over many of them.

mod answer;
mod result;
mod stalls;
pub mod sweep;
pub(crate) mod throttled;
mod throttling;

pub use result::{HeldBack, LinkOutcome, Outcome};
pub use throttled::{ThrottleEvent, ThrottleKind};
