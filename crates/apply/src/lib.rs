//! How does a placement become what a launcher reads?
//!
//! [`Launch`] writes a [`Placement`](hopbyte_fabric::Placement) in a launcher's own syntax and says how to launch
//! with it and what the launcher would spoil, and compares it with what the ranks of a job say, [`write_fabric`] writes a machine in the formats of other tools, [`write_atomic`] puts a
//! file in place whole or not at all. Host names come from networks and files and end up in files that
//! shells and launchers read, so they are checked first.

mod advice;
mod blocks;
mod check;
mod error;
mod fabric_formats;
mod files;
mod grid;
mod launcher;
mod layout;
mod ranks;

pub use advice::{Advice, Refusal};
pub use check::{Checked, Difference, OffCore, Seen, Split};
pub use error::ApplyError;
pub use fabric_formats::{FabricFormat, Written, write_fabric};
pub use files::write_atomic;
pub use launcher::{Launcher, Prepared};
pub use layout::{Launch, SlotCores};
