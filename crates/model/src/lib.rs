//! What would happen? Models of one machine, from a static bound to single packets.
//!
//! A [`Scenario`] is the question: machine, operating point, job, other jobs. [`Question`] puts it on
//! its machine and refuses what is impossible; [`Outcome`] is the answer. Levels differ in how exactly
//! they look: [`loads`] counts what static routes carry, [`fluid`] shares links among flows over time.

mod answer;
mod error;
pub mod fluid;
mod geometric;
mod limits;
pub mod loads;
pub mod network;
mod outcome;
pub mod packet;
pub mod parameters;
pub mod place;
pub mod program;
mod protection;
pub mod protocol;
mod random;
pub mod reproduce;
mod scenario;
mod stalls;
pub mod sweep;
pub mod topobw;
mod wavefront;
pub mod workload;

pub use answer::{Inputs, Question};
pub use error::ModelError;
pub use outcome::{HeldBack, LinkOutcome, Outcome};
pub use protection::{Protection, ThrottleEvent, ThrottleKind};
pub use scenario::{Background, Job, Level, MAX_RANKS, Nodes, PlacementRule, Scenario, Slow};
pub use wavefront::Wavefront;
