//! What would happen? Models of one machine, from a static bound to single packets.
//!
//! A [`Scenario`] is the question: machine, operating point, job, other jobs. [`Question`] puts it on
//! its machine and refuses what is impossible; [`Outcome`] is the answer. Levels differ in how exactly
//! they look: [`loads`] counts what static routes carry, [`fluid`] shares links among flows over time.

#![forbid(unsafe_code)]

pub mod engine;
mod error;
pub mod outcome;
pub mod question;
mod random;
pub mod reproduce;

pub use engine::{fluid, loads, network, packet, program, protocol, topobw};
pub use error::ModelError;
pub use outcome::{HeldBack, LinkOutcome, Outcome, ThrottleEvent, ThrottleKind, sweep};
pub use question::{
    Background, Inputs, Job, Level, MAX_RANKS, Nodes, PlacementRule, Protection, Question,
    Scenario, Slow, Wavefront, parameters, place, workload,
};
