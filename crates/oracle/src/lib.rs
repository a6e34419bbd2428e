//! Route costs: any metric × aggregate along request and response routes.
//!
//! [`RouteCosts`] computes them for one pair of nodes, a list of pairs, all pairs among some nodes, or all pairs of
//! routers (the Resource Oracle of paper 003). Only hops ([`hopbyte_fabric::Fabric::is_hop`]) count as a route's
//! links: on-board host links cost nothing, as in paper 003, where two nodes of one Gemini are zero hops apart;
//! cabled hosts (InfiniBand) are hops.
//!
//! A [`View`] is one version of a machine's state with a cache of its costs; the oracle service answers each request
//! from one view.
//!
//! With several paths between a pair ([`hopbyte_fabric::routing::MinimalPaths`]), sum and mean are
//! expectations over the path set, and the maximum is over every link that any path uses.
//!
//! # Example
//!
//! The most used link on the route between two nodes, with other traffic on one of its links:
//!
//! ```
//! use hopbyte_fabric::{Direction, LinkState, Routing, spec};
//! use hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts};
//!
//! let fabric = spec::fabric("torus:4x4x4")?;
//! let routing = Routing::default_for(&fabric);
//! let mut state = LinkState::unknown(&fabric);
//! for link in fabric.link_ids() {
//!     state.used_ratio.set(link, Some(0.1));
//! }
//! let node = |name| fabric.find_node(name);
//! let from = fabric.node(node("(0,0,0)")?).router;
//! let busy = fabric.link_towards(from, Direction { dim: 0, positive: true }).ok_or("no X+")?;
//! state.used_ratio.set(busy, Some(0.8));
//!
//! let costs =
//!     RouteCosts::new(&fabric, &routing, Some(&state), Metric::Used, Aggregate::Max, Over::Request);
//! assert_eq!(costs.pair(node("(0,0,0)")?, node("(1,1,0)")?)?, Some(0.8));
//! assert_eq!(costs.pair(node("(1,1,0)")?, node("(0,0,0)")?)?, Some(0.1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod code;
mod costs;
mod grid;
mod matrix;
mod metric;
mod tree;
mod view;

pub use costs::{RouteCost, RouteCosts};
pub use matrix::{CostMatrix, OracleError, RouterMatrix};
pub use metric::{Aggregate, Metric, Over};
pub use view::View;
