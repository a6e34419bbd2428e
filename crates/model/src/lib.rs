//! Models of one machine: static bounds, flows over time, and single packets.
//!
//! A [`Scenario`] describes machine, operating point, job and other jobs. [`Question`] places it on its
//! machine and rejects invalid input; [`Outcome`] is the result. The levels differ in detail:
//! [`loads`] adds up the bytes of static routes per link, [`fluid`] shares links among flows over time.
//!
//! # Example
//!
//! ```
//! use hopbyte_model::{Inputs, Question, Scenario};
//!
//! let text = r#"
//!     schema = "hopbyte.scenario/1"
//!     name = "halo"
//!     fabric = "gemini:4x4x8"
//!     network = "gemini"
//!     [job]
//!     ranks_per_node = 4
//!     workload.halo = { grid = [8, 8, 8], bytes = [1e6], iterations = 2, compute_s = 0.001 }
//! "#;
//! let scenario = Scenario::parse("halo.toml", text)?;
//! let (fabric, routing) = scenario.machine()?;
//! let outcome = Question::new(&scenario, &fabric, &routing, &Inputs::default())?.answer()?;
//! assert!(outcome.time_seconds >= outcome.bound_seconds);
//! # Ok::<(), hopbyte_model::ModelError>(())
//! ```

#![forbid(unsafe_code)]

pub mod engine;
mod error;
pub mod outcome;
pub mod question;
pub mod reproduce;

pub use engine::{fluid, loads, network, packet, program, schedule, topobw};
pub use error::ModelError;
pub use outcome::{HeldBack, LinkOutcome, Outcome, ThrottleEvent, ThrottleKind, sweep};
pub use question::{
    Background, Inputs, Job, Level, MAX_RANKS, Nodes, PlacementRule, Protection, Question,
    Scenario, Slow, Wavefront, parameters, place, workload,
};
