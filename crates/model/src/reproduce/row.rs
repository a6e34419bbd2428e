//! A row as its file holds it.

use super::figure::Figure;
use crate::error::ModelError;
use hopbyte_fabric::InputError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One row: a claim of a paper, its scenarios and its checks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Short name of the row, such as `D1`.
    pub id: String,
    /// Paper and section.
    pub paper: String,
    /// What is claimed.
    pub claim: String,
    /// Where parameters come from, and what else there is to say.
    #[serde(default)]
    pub about: String,
    /// The scenario that cases change.
    #[serde(default)]
    pub base: toml::Table,
    /// Cases by name: fields of a scenario that differ from the base.
    #[serde(default)]
    pub case: BTreeMap<String, toml::Table>,
    /// What is compared.
    pub check: Vec<Check>,
    /// The paper's figure.
    #[serde(default)]
    pub figure: Option<Figure>,
}

/// One comparison.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Number of a claim if it has one of its own, else the row's name.
    #[serde(default)]
    pub id: Option<String>,
    /// How it binds.
    pub kind: Kind,
    /// What is compared, with its unit.
    pub what: String,
    /// What was published, as it was printed.
    pub published: String,
    /// Ours, as an expression; absent where no model can say it.
    #[serde(default)]
    pub ours: Option<String>,
    /// The published number, where ours is to lie within a share of it.
    #[serde(default)]
    pub is: Option<f64>,
    /// That share; without it ours equals to rounding (1e-9).
    #[serde(default)]
    pub within: Option<f64>,
    /// Where ours has to lie, where that is a range.
    #[serde(default)]
    pub between: Option<[f64; 2]>,
    /// Why it does not hold, or why no model says it.
    #[serde(default)]
    pub why: String,
    /// The command that measures what no model says.
    #[serde(default)]
    pub command: String,
}

/// How a check binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Follows from protocol or wiring.
    Exact,
    /// Depends on a machine that nobody has here.
    Shape,
    /// Measured elsewhere in this repository, or by nobody.
    Elsewhere,
}

impl Row {
    /// Reads a row's TOML; `file` is named in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, ModelError> {
        toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |s| {
                1 + text[..s.start.min(text.len())].matches('\n').count() as u64
            });
            let error = InputError::new(file, e.message(), "a row to reproduce in TOML");
            error
                .at(line)
                .hint("scenarios/*.toml are examples of every field")
                .into()
        })
    }
}
