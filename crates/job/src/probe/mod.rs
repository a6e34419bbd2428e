//! Measures links and finds the slow component (paper 002, III).
//!
//! [`plan`] schedules the transfers, [`measure`] runs them, [`results`] reads topobw's output, [`explain`] names the
//! slow component, [`separate`] finds the transfer that tells it from others, [`analysis`] is the answer.

pub mod analysis;
pub mod component;
pub mod explain;
pub mod measure;
pub mod plan;
pub mod predicted;
pub mod results;
pub mod separate;

#[cfg(test)]
mod tests;
