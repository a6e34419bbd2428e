//! The tests of this crate in one program, which takes less time to link and to run than one for each file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod by_host;
mod collectives;
mod probe;
mod run_panic;
mod run_time;
