//! A row as its file holds it.

use super::figure::Figure;
use crate::error::ModelError;
use hopbyte_fabric::InputError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

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
    /// What the row's claim rests on. A check may rest on something else.
    pub basis: Basis,
    /// To what the row is fitted, for [`Basis::Fitted`].
    #[serde(default)]
    pub fitted_to: String,
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
    /// What it rests on, where that is not the row's basis. Checks without an expression are
    /// [`Basis::Elsewhere`].
    #[serde(default)]
    pub basis: Option<Basis>,
    /// To what it is fitted, where that is not the row's.
    #[serde(default)]
    pub fitted_to: String,
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

/// What a figure of ours rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Computed from inputs that the figure itself did not set.
    Computed,
    /// An input was chosen so that the figure comes out.
    Fitted,
    /// An input of the model read back.
    Restated,
    /// Measured where it runs; no model says it.
    Elsewhere,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Computed => "computed",
            Self::Fitted => "fitted",
            Self::Restated => "restated",
            Self::Elsewhere => "elsewhere",
        })
    }
}

/// Largest ratio of the ends of a range: a wider one hardly excludes anything.
const WIDEST_RANGE: f64 = 10.0;

impl Row {
    /// Reads a row's TOML and refuses checks that cannot fail; `file` is named in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, ModelError> {
        let row: Self = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |s| {
                1 + text[..s.start.min(text.len())].matches('\n').count() as u64
            });
            let error = InputError::new(file, e.message(), "a row to reproduce in TOML");
            ModelError::from(
                error
                    .at(line)
                    .hint("scenarios/*.toml are examples of every field"),
            )
        })?;
        row.examine().map_err(|(found, expected)| {
            let error = InputError::new(file, found, expected);
            ModelError::from(error.hint("docs: Published figures, Writing a row"))
        })?;
        Ok(row)
    }

    /// Found and expected of the first thing that makes a check or a basis meaningless.
    fn examine(&self) -> Result<(), (String, &'static str)> {
        if (self.basis == Basis::Fitted) == self.fitted_to.is_empty() {
            let found = format!("row {}: {}", self.id, self.basis);
            return Err((found, "fitted_to with basis = \"fitted\", and only there"));
        }
        self.check.iter().try_for_each(|c| c.examine(self))?;
        if !self.check.iter().any(|c| c.basis(self) == self.basis) {
            let found = format!("row {}: basis {}", self.id, self.basis);
            return Err((found, "a check with the basis of its row"));
        }
        Ok(())
    }
}

impl Check {
    /// What the check rests on.
    pub fn basis(&self, row: &Row) -> Basis {
        match self.ours {
            None => Basis::Elsewhere,
            Some(_) => self.basis.unwrap_or(row.basis),
        }
    }

    /// To what the check is fitted; empty when it is not.
    pub fn fitted_to<'a>(&'a self, row: &'a Row) -> &'a str {
        match self.basis(row) {
            Basis::Fitted if self.fitted_to.is_empty() => &row.fitted_to,
            Basis::Fitted => &self.fitted_to,
            _ => "",
        }
    }

    fn examine(&self, row: &Row) -> Result<(), (String, &'static str)> {
        let wrong = |expected| Err((format!("row {}, {}", row.id, self.what), expected));
        let basis = self.basis(row);
        if (self.kind == Kind::Elsewhere) != (basis == Basis::Elsewhere) {
            return wrong("kind = \"elsewhere\" without `ours`, and `ours` with every other kind");
        }
        if basis == Basis::Fitted && self.fitted_to(row).is_empty() {
            return wrong("fitted_to: the figure or the value that an input was fitted to");
        }
        if let Some([a, b]) = self.between {
            let wide =
                !(a.is_finite() && b.is_finite()) || a >= b || (a > 0.0 && b > WIDEST_RANGE * a);
            if wide {
                return wrong("between = [low, high], at most a factor of ten apart");
            }
        }
        if self
            .within
            .is_some_and(|share| !(share > 0.0 && share < 0.5))
        {
            return wrong("within: a share above 0, below 0.5");
        }
        let words: Vec<&str> = (self.ours.iter())
            .flat_map(|ours| ours.split_whitespace())
            .collect();
        if words.windows(2).any(|w| w == ["0", "*"] || w == ["*", "0"]) {
            return wrong("an expression in which nothing is multiplied by zero");
        }
        Ok(())
    }
}
