//! The oracle against a naive walk of every route, and against cases calculated by hand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agreement;
mod by_hand;
mod machines;
mod naive;

use hopbyte_fabric::{Fabric, Routing};
use hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts};

/// Links of a message's route.
fn hops<'a>(fabric: &'a Fabric, routing: &'a Routing, over: Over) -> RouteCosts<'a> {
    RouteCosts::new(fabric, routing, None, Metric::Hops, Aggregate::Sum, over)
}
