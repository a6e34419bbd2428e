//! Pictures and pages: fabrics, loads and mappings as SVG, and one-file HTML reports.
//!
//! [`draw`] draws a fabric with the load of its links; [`report`] makes the page of a mapping or of a reading;
//! [`terminal`] shows a running collector.
//!
//! # Example
//!
//! ```
//! use hopbyte_fabric::spec;
//! use hopbyte_view::draw::{DrawOptions, fabric_svg};
//!
//! let fabric = spec::fabric("torus:4x4x4")?;
//! let svg = fabric_svg(&fabric, None, &DrawOptions::default());
//! assert!(svg.starts_with("<svg"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod draw;
pub mod report;
pub mod terminal;
