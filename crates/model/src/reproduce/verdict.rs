//! The checks of a row, run.

use super::cases::Cases;
use super::expression::{self, Value};
use super::row::{Check, Kind, Row};
use crate::error::ModelError;
use serde::Serialize;

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
