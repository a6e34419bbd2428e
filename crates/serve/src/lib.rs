//! HTTP: the oracle's endpoint, the live page, and a collector's metrics and line protocol.
//!
//! Every server binds to the loopback address by default, and requires a token on other addresses.
//!
//! # Example
//!
//! The cost of a route on an idle machine, as `/ask` and the Unix socket answer it:
//!
//! ```
//! use hopbyte_job::MachineSource;
//! use hopbyte_serve::desk::Desk;
//!
//! let source = MachineSource {
//!     fabric: "torus:4x4x4".into(),
//!     ..MachineSource::default()
//! };
//! let machine = source.read()?;
//! let desk = Desk::new(&machine, "idle");
//! let line = br#"{"from":"n0-0-0","to":"n1-1-1","metric":"hops"}"#;
//! // The last argument is the number of bytes that the answer may take.
//! let Ok(answer) = desk.answer(line, &[], 1 << 20) else {
//!     return Err("the answer takes more than 1 MiB".into());
//! };
//! assert!(!answer.refused);
//! println!("{}", String::from_utf8_lossy(&answer.line));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod access;
pub mod desk;
pub mod door;
mod error;
pub mod export;
mod faults;
pub mod http;
pub mod jobs;
mod ledger;
pub mod page;
pub mod past;
pub mod range;
pub mod socket;
pub mod source;
mod window;

pub use error::{Result, ServeError};
