//! Task mapping: evaluation and search of placements.
//!
//! [`evaluate`] computes the cost of a placement on the machine's real routes and live capacities. [`map`]
//! looks for a better one and certifies its quality in a [`Certificate`]: against the placement that a launcher
//! makes by default, and against a bound that no placement can pass. The result is never worse than the best of
//! the in-order, round robin, random and current placements that keep the objective's limits; "no improvement" is a
//! normal answer.
//!
//! This crate reads neither files nor the environment; it reads the clock for the time budget only.
//!
//! # Example
//!
//! ```
//! use hopbyte_fabric::{Allocation, Routing, declared, spec};
//! use hopbyte_map::{Options, Problem, map};
//!
//! let fabric = spec::fabric("torus:4x4x4")?;
//! let routing = Routing::default_for(&fabric);
//! let exchange = declared::traffic("stencil:8x8:9:1000")?.total();
//! let nodes = fabric.node_ids().map(|node| (node, 1)).collect();
//! let allocation = Allocation::new(&fabric, nodes)?;
//!
//! let problem = Problem::new(&fabric, &routing, &exchange, &allocation);
//! // A number of trials instead of a time: the same placement on any machine.
//! let options = Options { trials: Some(20_000), ..Options::default() };
//! let (placement, certificate) = map(&problem, &options, &|_| {})?;
//! assert_eq!(placement.tasks(), 64);
//! assert!(certificate.result.worst_link_seconds <= certificate.baseline.worst_link_seconds);
//! assert!(certificate.bound.worst_link_seconds <= certificate.result.worst_link_seconds);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod arrangement;
mod batch;
mod bisect;
mod bound;
mod boxes;
pub mod budget;
mod change;
mod construct;
mod coords;
mod crossed;
mod cuts;
mod dense;
mod dual;
mod engine;
mod evaluate;
mod exact;
#[cfg(test)]
mod forms;
mod goal;
mod graph;
mod groups;
mod hosts;
mod inside;
mod keep;
mod levels;
mod linear;
mod mapper;
mod near;
mod partition;
mod paths;
mod problem;
mod regrid;
mod rounds;
mod schedule;
mod search;
mod sharing;
mod spectral;
mod starts;
mod straight;
mod threads;
mod together;
mod turns;
mod weights;

pub use bound::Bound;
pub use evaluate::{Evaluation, evaluate};
pub use goal::Goal;
pub use inside::{Inside, arrange, between_slots};
pub use mapper::{Certificate, MAX_THREADS, Options, Progress, Verdict, baseline, map};
pub use problem::{Baseline, LEAST_LIVE_SHARE, MapError, Objective, Problem, Turn};
pub use threads::start_shared_pool;
