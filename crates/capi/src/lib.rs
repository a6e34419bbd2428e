//! libhopbyte: route costs and mappings over a C interface, for applications that remap themselves.
//!
//! `include/hopbyte.h` is the documentation and the contract; this crate implements it. Every function runs
//! behind `border`, which catches panics and stores the error text.

mod border;
mod machine;
mod mapping;
mod oracle;
mod traffic;

pub use machine::*;
pub use mapping::*;
pub use oracle::*;
pub use traffic::*;

use std::ffi::c_int;

/// Version of the interface; see `hopbyte.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hopbyte_version() -> c_int {
    2
}
