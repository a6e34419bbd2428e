//! Published figures beside ours: files of scenarios that hold what a paper printed and how to compute it.
//!
//! A file is one row of what is to be reproduced: a base scenario, named cases that change some of its
//! values, and checks, each an expression over the cases. Parameters come from the papers'
//! micro-benchmarks; nothing in here knows a published figure.

mod expression;
mod figure;
mod machines;
mod quantities;
mod remap;

pub use expression::Value;
pub use figure::{Curve, Drawn, Figure, Panel, Point};

use crate::error::ModelError;
use hopbyte_fabric::InputError;
use quantities::Cases;
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

/// What came out of one check.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// [`VERDICT_SCHEMA`].
    pub schema: &'static str,
    /// The row.
    pub row: String,
    /// Number of the claim, or the row's name.
    pub id: String,
    /// How it binds.
    pub kind: Kind,
    /// Paper and section.
    pub paper: String,
    /// What is compared.
    pub what: String,
    /// What was published.
    pub published: String,
    /// Ours.
    pub ours: Option<Value>,
    /// What ours may be.
    pub tolerance: String,
    /// Whether it holds; absent where no model says it.
    pub holds: Option<bool>,
    /// Why not.
    pub why: String,
    /// The command that measures it, where no model says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
}

/// What every verdict names as its schema.
pub const VERDICT_SCHEMA: &str = "hopbyte.reproduced/1";

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

    /// Runs all checks.
    pub fn reproduce(&self) -> Result<Vec<Verdict>, ModelError> {
        let mut cases = Cases::new(self);
        self.check.iter().map(|c| c.run(self, &mut cases)).collect()
    }
}

impl Check {
    fn run(&self, row: &Row, cases: &mut Cases<'_>) -> Result<Verdict, ModelError> {
        let ours = match &self.ours {
            Some(text) => {
                let mut find = |name: &str, arguments: &[Value]| cases.find(name, arguments);
                Some(expression::evaluate(text, None, &mut find)?)
            }
            None => None,
        };
        let holds = ours.as_ref().map(|ours| self.holds(ours));
        let told = holds != Some(true);
        Ok(Verdict {
            schema: VERDICT_SCHEMA,
            row: row.id.clone(),
            id: self.id.clone().unwrap_or_else(|| row.id.clone()),
            kind: self.kind,
            paper: row.paper.clone(),
            what: self.what.clone(),
            published: self.published.clone(),
            ours,
            tolerance: self.tolerance(),
            holds,
            why: if told {
                self.why.clone()
            } else {
                String::new()
            },
            command: self.command.clone(),
        })
    }

    fn holds(&self, ours: &Value) -> bool {
        match ours {
            Value::Truth(truth) => *truth,
            Value::Text(text) => *text == self.published,
            Value::Number(n) => {
                let near = |is: f64| (n - is).abs() <= self.within.unwrap_or(1e-9) * is.abs();
                self.is.is_none_or(near)
                    && self.between.is_none_or(|[a, b]| (a..=b).contains(n))
                    && (self.is.is_some() || self.between.is_some())
            }
        }
    }

    fn tolerance(&self) -> String {
        match (self.is, self.within, self.between) {
            (Some(_), Some(share), _) => format!("{} %", (share * 1e6).round() / 1e4),
            (Some(_), None, _) => "equal".into(),
            (_, _, Some([a, b])) if b >= 1e9 => format!("from {a}"),
            (_, _, Some([a, b])) => format!("{a} to {b}"),
            _ if self.ours.is_none() => "-".into(),
            _ => "true".into(),
        }
    }
}
