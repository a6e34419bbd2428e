//! Inputs: machines, counters, traffic and placements from files and live sources.
//!
//! Every reader takes a file (or the root of a tree of files), so that a captured machine and a live one run the same
//! code. Input is untrusted: readers never panic, their memory is bounded by [`text::Limits`], and errors state file,
//! line, the text found, the text expected and a hint.
//!
//! # Example
//!
//! Traffic from a text in memory, and the error for a bad line:
//!
//! ```
//! use hopbyte_observe::text::{Limits, Text};
//! use hopbyte_observe::traffic::traffic;
//!
//! let read = |text: &str| traffic(&Text::from_bytes("app.csv", text.as_bytes(), Limits::ANY)?);
//! let total = read("src,dst,bytes\n0,1,1000\n1,0,500\n")?.total();
//! assert_eq!((total.tasks(), total.total_bytes()), (2, 1500.0));
//!
//! let error = read("src,dst,bytes\n0,1,many\n").map(|_| ()).unwrap_err().to_string();
//! assert!(error.starts_with("app.csv:2: found many, expected bytes"), "{error}");
//! # Ok::<(), hopbyte_observe::ObserveError>(())
//! ```

#![forbid(unsafe_code)]

pub mod address;
pub mod counters;
mod error;
pub mod fabric;
pub mod http;
pub mod kinds;
pub mod known;
pub mod oracle;
pub mod placement;
pub mod resolve;
pub mod secret;
pub mod sources;
mod stamp;
pub mod text;
pub mod threads;
pub mod trace;
pub mod traffic;

pub use counters::{
    CounterOptions, Jobs, KEPT_JOBS, Listed, Then, kept_jobs, list_jobs, read_counter_series,
    read_counters, read_jobs, without_nodes,
};
pub use error::{ObserveError, system_class};
pub use fabric::{Machine, MachineFiles, is_numbered, read_machine};
pub use placement::{
    Placed, deal, host_line, host_list, host_names, parse_node_list, parse_nodes, read_placement,
};
pub use stamp::{Stamp, stamp, unix};
pub use trace::{read_folded, read_noted, read_trace};
pub use traffic::{ByHost, Measured, Measurement, measurement, read_traffic, read_traffic_by_host};
