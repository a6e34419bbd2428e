//! The tests of this crate in one program, which takes less time to link and to run than one for each file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/cluster.rs"]
mod cluster;
mod convert;
mod damage;
mod explain;
mod help;
mod live;
mod metrics;
mod oracle;
mod ranges;
mod refusals;
mod reproduce;
mod spread;
mod sweep;
mod tables;
mod times;
mod view;
mod wire;
