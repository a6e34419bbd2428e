//! The tests of this crate in one program, which takes less time to link and to run than one for each file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_machines;
mod bent_inputs;
mod bent_machines;
mod codes;
mod common;
mod copied;
mod counters;
mod cray;
mod described;
mod floor;
mod formats;
mod infiniband;
mod infiniband_forms;
mod infiniband_tools;
mod inside;
mod link_state;
mod placement;
mod prefixes;
mod real_forms;
mod real_traffic;
mod several;
mod slingshot;
mod slurm;
mod sources_agree;
mod tool_variants;
mod traces;
mod traffic;
