//! Published figures beside ours: files of scenarios that hold what a paper printed and how to compute it.
//!
//! A file is one row of what is to be reproduced: a base scenario, named cases that change some of its
//! values, and checks, each an expression over the cases. A row and each of
//! its checks say on what they rest ([`Basis`]); only computed rows count as reproduced. What needs the mapper or
//! the analysis of probes comes in as [`Tools`].

mod case;
mod cases;
mod draw;
mod expression;
mod figure;
mod machines;
mod remap;
mod row;
mod tools;
mod verdict;

pub use expression::Value;
pub use figure::{Curve, Drawn, FIGURE_SCHEMA, Figure, Panel, Point};
pub use row::{Basis, Check, Kind, Row};
pub use tools::{Located, Locator, Remap, Remapper, Tools};
pub use verdict::{Checks, Summary, VERDICT_SCHEMA, Verdict};
