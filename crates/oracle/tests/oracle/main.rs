//! The oracle against a naive walk of every route, and against cases worked out by hand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agreement;
mod by_hand;
mod machines;
mod naive;
