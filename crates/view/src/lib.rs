//! Pictures and pages: fabrics, loads and mappings as SVG, and one-file HTML reports.
//!
//! [`draw`] draws a fabric with the load of its links; [`report`] makes the page of a mapping or of a reading;
//! [`terminal`] shows a running collector.

#![forbid(unsafe_code)]

pub mod draw;
pub mod report;
pub mod terminal;
