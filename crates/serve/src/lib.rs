//! HTTP: the oracle's endpoint, the live page, and a collector's metrics and line protocol.
//!
//! Every server binds to the loopback address unless told otherwise, and asks for a token beyond it.
//!
//! # Example
//!
//! The answer to one pair, as the oracle's endpoint gives it; links without a value leave it undecided:
//!
//! ```
//! use hopbyte_fabric::{Routing, spec};
//! use hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts};
//! use hopbyte_serve::pair::Pair;
//!
//! let fabric = spec::fabric("torus:4x4x4")?;
//! let routing = Routing::default_for(&fabric);
//! let (from, to) = (fabric.find_node("(0,0,0)")?, fabric.find_node("(1,2,0)")?);
//! let costs = |metric| {
//!     RouteCosts::new(&fabric, &routing, None, metric, Aggregate::Sum, Over::Request)
//! };
//! assert_eq!(Pair::of(&fabric, &costs(Metric::Hops), (from, to)).cost, Some(3.0));
//! let used = Pair::of(&fabric, &costs(Metric::Used), (from, to));
//! assert_eq!((used.cost, used.lower, used.coverage), (None, Some(0.0), 0.0));
//! # Ok::<(), hopbyte_fabric::FabricError>(())
//! ```

#![forbid(unsafe_code)]

pub mod desk;
pub mod export;
pub mod http;
pub mod page;
pub mod socket;
pub mod source;
