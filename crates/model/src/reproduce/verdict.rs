//! The checks of a row, run.

use super::cases::Cases;
use super::expression::{self, Value};
use super::row::{Basis, Check, Kind, Row};
use super::tools::Tools;
use crate::error::ModelError;
use serde::Serialize;
use std::collections::BTreeMap;

/// Result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// [`VERDICT_SCHEMA`].
    pub schema: &'static str,
    /// The row.
    pub row: String,
    /// Number of the claim, or the row's name.
    pub id: String,
    /// Kind of the check.
    pub kind: Kind,
    /// Basis of the check.
    pub basis: Basis,
    /// Target of its fit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fitted_to: String,
    /// Basis of the row's claim.
    pub row_basis: Basis,
    /// Paper and section.
    pub paper: String,
    /// The compared quantity.
    pub what: String,
    /// The published value.
    pub published: String,
    /// Our value.
    pub ours: Option<Value>,
    /// Permitted values of ours.
    pub tolerance: String,
    /// Whether it holds; absent if no model covers it.
    pub holds: Option<bool>,
    /// Reason why it does not hold.
    pub why: String,
    /// Command of the measurement, if no model covers it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
}

/// Schema string of every verdict.
pub const VERDICT_SCHEMA: &str = "hopbyte.reproduced/1";

impl Row {
    /// Runs all checks.
    ///
    /// # Errors
    /// Invalid expressions, cases and scenarios, and errors of the tools.
    pub fn reproduce(&self, tools: &Tools<'_>) -> Result<Vec<Verdict>, ModelError> {
        let mut cases = Cases::with(self, tools, Vec::new());
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
            basis: self.basis(row),
            fitted_to: self.fitted_to(row).to_owned(),
            row_basis: row.basis,
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
            (_, _, Some([a, b])) => format!("{a} to {b}"),
            _ if self.ours.is_none() => "-".into(),
            _ => "true".into(),
        }
    }
}

/// Number of rows by basis, and the computed rows that hold or do not.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Rows.
    pub rows: usize,
    /// Computed rows of which all computed checks hold.
    pub reproduced: usize,
    /// Computed rows.
    pub computed: usize,
    /// Computed rows with a computed check that does not hold.
    pub not_holding: Vec<String>,
    /// Fitted rows.
    pub fitted: usize,
    /// Restated rows: a value of the model read back.
    pub restated: usize,
    /// Rows measured on the real system.
    pub elsewhere: usize,
    /// Checks by basis.
    pub checks: BTreeMap<Basis, Checks>,
}

/// Checks of one basis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checks {
    /// Those that hold.
    pub hold: usize,
    /// Those that do not.
    pub do_not: usize,
    /// Those that no model covers.
    pub not_modelled: usize,
}

impl Summary {
    /// Counts verdicts; rows in the order of their first one.
    pub fn of(verdicts: &[Verdict]) -> Self {
        let mut summary = Self::default();
        for of_row in verdicts.chunk_by(|a, b| a.row == b.row) {
            summary.rows += 1;
            for v in of_row {
                let checks = summary.checks.entry(v.basis).or_default();
                match v.holds {
                    Some(true) => checks.hold += 1,
                    Some(false) => checks.do_not += 1,
                    None => checks.not_modelled += 1,
                }
            }
            let Some(first) = of_row.first() else {
                continue;
            };
            match first.row_basis {
                Basis::Computed => {
                    summary.computed += 1;
                    let mut computed = of_row.iter().filter(|v| v.basis == Basis::Computed);
                    if computed.all(|v| v.holds == Some(true)) {
                        summary.reproduced += 1;
                    } else {
                        summary.not_holding.push(first.row.clone());
                    }
                }
                Basis::Fitted => summary.fitted += 1,
                Basis::Restated => summary.restated += 1,
                Basis::Elsewhere => summary.elsewhere += 1,
            }
        }
        summary
    }
}
