//! Are the links as fast as they should be, and which component is not? (paper 002, III)
//!
//! [`plan`] schedules the transfers, [`measure`] runs them, [`results`] reads what topobw printed, [`explain`] names the slow component.

pub mod analysis;
pub mod explain;
pub mod measure;
pub mod plan;
pub mod results;
