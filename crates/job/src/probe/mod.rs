//! Are the links as fast as they should be, and which component is not? (paper 002, III)
//!
//! [`plan`] schedules the transfers, [`results`] reads what topobw printed, [`explain`] names the slow component.

pub mod explain;
pub mod plan;
pub mod results;
