//! HTTP: the oracle's endpoint, the live page, and a collector's metrics and line protocol.
//!
//! Every server binds to the loopback address by default, and requires a token on other addresses.

#![forbid(unsafe_code)]

pub mod desk;
pub mod door;
mod error;
pub mod export;
pub mod http;
pub mod page;
pub mod past;
pub mod socket;
pub mod source;

pub use error::{Result, ServeError};
