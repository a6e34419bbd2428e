//! The domain types: routers, nodes, directed links, routes, readings, traffic and placements, with their invariants.
//!
//! Everything here is pure: no files, no network, no clock, no environment. Readers in `observe` build a [`Fabric`]
//! through [`FabricBuilder`], which checks it once; then it is immutable. [`Routing`] gives the route of every pair,
//! [`LinkState`] the load of every link, [`Traffic`] the messages of an application and [`Placement`] the nodes of
//! its tasks.
//!
//! # Example
//!
//! ```
//! use hopbyte_fabric::{NodeId, Routing, spec};
//!
//! let fabric = spec::fabric("torus:4x4x4")?;
//! let routing = Routing::default_for(&fabric);
//! // Dimension order, the shorter way round each ring: 1 hop in X, 2 in Y, 1 in Z.
//! let (from, to) = (fabric.find_node("(0,0,0)")?, fabric.find_node("(1,2,3)")?);
//! assert_eq!(routing.hops(&fabric, from, to)?, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod aries;
mod bisection;
pub mod bits;
pub mod bounds;
mod builder;
pub mod check;
pub mod class;
pub mod collective;
mod column;
pub mod compact;
pub mod declared;
pub mod diff;
mod direction;
pub mod document;
pub mod dragonfly;
mod error;
mod fabric;
pub mod fat_tree;
pub mod faults;
pub mod gemini;
pub mod hash;
pub mod hosts;
pub mod hyperx;
mod ids;
pub mod infiniband;
mod left_out;
mod link_state;
mod natural;
mod node_times;
mod numbers;
mod pairing;
mod paths;
mod placement;
pub mod plan;
pub mod presets;
pub mod random;
mod reach;
pub mod routing;
mod similar;
mod snapshot;
pub mod spec;
pub mod torus;
pub mod trace;
mod traffic;
pub mod units;
pub mod wire;

pub use bisection::AssumedRates;
pub use builder::{FabricBuilder, LinkSpec};
pub use class::Class;
pub use column::{Column, Missing};
pub use direction::Direction;
pub use error::{FabricError, InputError, printable};
pub use fabric::{End, Fabric, Family, Kind, Link, Node, PortPair, Router, Shape};
pub use ids::{KindId, LinkId, NodeId, RouterId};
pub use left_out::LeftOut;
pub use link_state::LinkState;
pub use natural::natural;
pub use node_times::{NodeTimes, TimesOfNodes};
pub use paths::{PathCounts, Paths};
pub use placement::{Allocation, Placement, Slot};
pub use reach::Reach;
pub use routing::{MeanHops, Routing, Unroutable};
pub use similar::{misspelt, similar};
pub use snapshot::{Increase, Least, LinkCounts, Quantity, Side, Totals};
pub use trace::Trace;
pub use traffic::{Exchange, Message, Phase, Stencil, Traffic};
