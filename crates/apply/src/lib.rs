//! Writes placements for launchers, and machines for other tools.
//!
//! [`Launch`] writes a [`Placement`](hopbyte_fabric::Placement) in a launcher's syntax with the launch command and
//! its caveats, and compares a placement with the reports of a job's ranks. [`write_fabric`] writes a machine in the
//! formats of other tools. [`write_atomic`] replaces files atomically. Host names come from networks and files and
//! end up in files that shells and launchers read, so they are checked first.
//!
//! # Example
//!
//! ```
//! use hopbyte_apply::{Launch, Launcher};
//! use hopbyte_fabric::{Allocation, NodeId, Placement, spec};
//!
//! let fabric = spec::fabric("torus:2x2x1")?;
//! let allocation = Allocation::new(&fabric, vec![(NodeId(0), 1), (NodeId(1), 1), (NodeId(2), 1)])?;
//! let nodes = [NodeId(2), NodeId(0), NodeId(1)];
//! let placement = Placement::on_nodes(&fabric, &allocation, nodes)?;
//!
//! let (fabric, allocation, placement) = (&fabric, &allocation, &placement);
//! let launch = Launch { fabric, allocation, placement, mpich: None, cores: None, job: None };
//! let prepared = launch.prepare(Launcher::MpichRankOrder)?;
//! assert!(prepared.text.lines().any(|line| line == "1,2,0"), "{}", prepared.text);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod advice;
mod blocks;
mod check;
mod error;
mod fabric_formats;
mod files;
mod grid;
mod launcher;
mod layout;
mod megatron;
mod ranks;
mod training;

pub use advice::{Advice, Refusal};
pub use check::{Checked, Difference, OffCore, Seen, Split, same_host};
pub use error::ApplyError;
pub use fabric_formats::{FabricFormat, Written, folded_parts, write_fabric};
pub use files::{Staged, Together, beside, readable_name, tidy, write_atomic, write_atomic_by};
pub use launcher::{Launcher, Prepared};
pub use layout::{Job, Launch, SlotCores};
pub use megatron::{Tuned, tuned};
