//! Reproduction of published figures: scenario files with printed values and the expressions that compute them.
//!
//! A file is one row of the table: a base scenario, named cases that change some of its
//! values, and checks, each an expression over the cases. A row and each of its checks state
//! their basis ([`Basis`]); only computed rows count as reproduced. The mapper and the analysis of
//! probes are passed in as [`Tools`].

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
