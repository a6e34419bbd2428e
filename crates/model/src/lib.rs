//! What would happen? Models of one machine, from a static bound to single packets.

mod error;
pub mod fluid;
pub mod loads;
pub mod network;
pub mod parameters;
pub mod program;
pub mod protocol;

pub use error::ModelError;
