//! The engines: static loads, flows over time, single packets, and programs that run on them.

pub mod fluid;
pub mod loads;
pub mod network;
pub mod packet;
pub mod program;
pub mod schedule;
pub mod topobw;
