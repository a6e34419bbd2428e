//! The loop as a library: from a question to its answer, for every interface (command line, Python, C, HTTP).
//!
//! - [`machine`] and [`inputs`] read the machine and its counters from files or from this host;
//! - [`question`] is a mapping question with its objective and defaults, [`mapping`] its answer, [`document`] the one
//!   JSON form of that answer, read and written here;
//! - [`predict`] gives the run time of a recorded job by placement;
//! - [`verify`] compares a prediction with counters, [`probe`] finds the slow component, [`record`] runs a job under
//!   the recorder, [`sweep`] keeps the journal of a parameter study.
//!
//! # Example
//!
//! ```
//! use hopbyte_job::{Asked, Document, Effort, MachineSource, search};
//!
//! let question = Asked {
//!     traffic: "stencil:8x8:9:1000".into(),
//!     machine: MachineSource {
//!         fabric: "torus:4x4x4".into(),
//!         ..MachineSource::default()
//!     },
//!     nodes: Some("all".into()),
//!     ranks_per_node: Some(1),
//!     ..Asked::default()
//! }
//! .read()?;
//! // A number of trials instead of a time: the same answer on any machine.
//! let effort = Effort { trials: Some(20_000), ..Effort::default() };
//! let mapping = search(&question, &effort, &|_| {})?;
//! let document = Document::of(&question, &mapping);
//! assert!(document.result.worst_link_seconds <= document.baseline.worst_link_seconds);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod abilities;
pub mod attribution;
pub mod blame;
mod by_host;
pub mod calibrate;
pub mod calibration;
pub mod costs;
pub mod demo;
pub mod doctor;
pub mod document;
mod error;
pub mod exchange;
pub mod failure;
pub mod faults;
mod follow;
pub mod identity;
pub mod infer;
pub mod inputs;
mod inside;
mod job_list;
pub mod links;
pub mod live;
pub mod load;
pub mod machine;
pub mod mapping;
pub mod memory;
mod picture;
pub mod predict;
pub mod probe;
pub mod program;
pub mod question;
pub mod ran;
pub mod record;
pub mod reproduce;
pub mod run;
pub mod scenario;
mod search;
pub mod settings;
pub mod spread;
pub mod statistics;
pub mod summary;
pub mod sweep;
pub mod verify;
mod wire;
mod words;

pub use by_host::Following;
pub use document::Document;
pub use error::{JobError, Lacking, Result, causes, class, is_lacking, told};
pub use follow::{Change, Files};
pub use hopbyte_map::MAX_THREADS;
pub use hopbyte_observe::Jobs;
pub use inputs::{LinkReading, nodes, reading};
pub use inside::{Arranged, NodeInside, Part};
pub use job_list::{JobList, jobs_then};
pub use load::Live;
pub use machine::{Machine, MachineSource};
pub use mapping::Mapping;
pub use picture::{check_ending, is_picture, write_picture};
pub use question::{Asked, Effort, Goal, GridOptions, Oracled, Question, WireOptions};
pub use search::search;
pub use words::{command_line, shell_word, standard_input, with_file};
