//! The tests of this crate in one program, which takes less time to link and to run than one for each file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fluid;
mod packet;
mod program;
mod queued;
mod reproduce;
mod scenario;
mod stalls;
mod sweep;
mod trace;
