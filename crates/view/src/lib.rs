//! Pictures and pages: fabrics, loads and mappings as SVG, and one-file HTML reports.
//!
//! [`draw`] draws a fabric with the load of its links; [`report`] makes the page of a mapping or of a reading;
//! [`terminal`] shows a running collector.
//!
//! # Example
//!
//! ```
//! use hopbyte_fabric::spec;
//! use hopbyte_view::draw::{DrawOptions, LinkLoads, Unit, fabric_svg};
//!
//! let fabric = spec::fabric("torus:4x4")?;
//! let bytes = (0..fabric.links().len()).map(|link| link as f64 * 1e6).collect();
//! let loads = LinkLoads::new("bytes received", Unit::Bytes, bytes);
//! let options = DrawOptions { title: "4 × 4".into(), worst: 3, ..DrawOptions::default() };
//! let svg = fabric_svg(&fabric, Some(&loads), &options);
//! assert!(svg.starts_with("<svg") && svg.contains("4 × 4"));
//! # Ok::<(), hopbyte_fabric::FabricError>(())
//! ```

#![forbid(unsafe_code)]

pub mod draw;
pub mod report;
pub mod terminal;
