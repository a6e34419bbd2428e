//! Published figures beside ours: files of scenarios that hold what a paper printed and how to compute it.
//!
//! A file is one row of what is to be reproduced: a base scenario, named cases that change some of its
//! values, and checks, each an expression over the cases. Parameters come from the papers'
//! micro-benchmarks; nothing in here knows a published figure.

mod case;
mod cases;
mod draw;
mod expression;
mod figure;
mod machines;
mod remap;
mod row;
mod verdict;

pub use expression::Value;
pub use figure::{Curve, Drawn, FIGURE_SCHEMA, Figure, Panel, Point};
pub use row::{Check, Kind, Row};
pub use verdict::{VERDICT_SCHEMA, Verdict};
