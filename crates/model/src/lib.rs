//! What would happen? Models of one machine, from a static bound to single packets.

pub mod fluid;
pub mod loads;
pub mod network;
pub mod parameters;
pub mod protocol;
