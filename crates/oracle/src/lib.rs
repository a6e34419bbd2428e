//! What does a route cost? Any metric × aggregate along request and response routes.
//!
//! [`RouteCosts`] answers for one pair of nodes, a list of pairs, all pairs among some nodes, or all
//! pairs of routers (the Resource Oracle of paper 003). A route's links here are its hops
//! ([`hopbyte_fabric::Fabric::is_hop`]): on-board host links cost nothing, as in paper 003, where two
//! nodes of one Gemini are no hop apart; cabled hosts (InfiniBand) are hops.
//!
//! A [`View`] is one version of a machine's state with the costs that were asked of it; a running oracle
//! answers each question from one of them.
//!
//! With several paths between a pair ([`hopbyte_fabric::routing::MinimalPaths`]), sum and mean are
//! expectations over the path set, and the maximum is over every link that any path uses.

mod code;
mod costs;
mod grid;
mod matrix;
mod metric;
mod tree;
mod view;

pub use costs::{RouteCost, RouteCosts};
pub use matrix::{CostMatrix, OracleError};
pub use metric::{Aggregate, Metric, Over};
pub use view::View;
