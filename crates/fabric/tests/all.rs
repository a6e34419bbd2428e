//! The tests of this crate in one program, which takes less time to link and to run than one for each file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod classes;
mod document;
mod families;
mod faults;
mod hosts;
mod link_state;
mod routing;
