//! A row as read from its file.

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
    /// The claim.
    pub claim: String,
    /// Sources of parameters, and remarks.
    #[serde(default)]
    pub about: String,
    /// Basis of the row's claim. A check may have another one.
    pub basis: Basis,
    /// Target of the fit, for [`Basis::Fitted`].
    #[serde(default)]
    pub fitted_to: String,
    /// The scenario that cases change.
    #[serde(default)]
    pub base: toml::Table,
    /// Cases by name: fields of a scenario that differ from the base.
    #[serde(default)]
    pub case: BTreeMap<String, toml::Table>,
    /// The comparisons.
    pub check: Vec<Check>,
    /// The paper's figure.
    #[serde(default)]
    pub figure: Option<Figure>,
}

/// One comparison.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Number of its own claim, otherwise the row's name.
    #[serde(default)]
    pub id: Option<String>,
    /// Kind of the check.
    pub kind: Kind,
    /// Basis, if it differs from the row's. Checks without an expression are
    /// [`Basis::Elsewhere`].
    #[serde(default)]
    pub basis: Option<Basis>,
    /// Target of the fit, if it differs from the row's.
    #[serde(default)]
    pub fitted_to: String,
    /// The compared quantity, with its unit.
    pub what: String,
    /// The published value, as printed.
    pub published: String,
    /// Our value, as an expression; absent if no model covers it.
    #[serde(default)]
    pub ours: Option<String>,
    /// The published number, for a relative tolerance.
    #[serde(default)]
    pub is: Option<f64>,
    /// The relative tolerance; without it our value is equal to rounding (1e-9).
    #[serde(default)]
    pub within: Option<f64>,
    /// Permitted range of our value, for checks of a range.
    #[serde(default)]
    pub between: Option<[f64; 2]>,
    /// Reason why it does not hold, or why no model covers it.
    #[serde(default)]
    pub why: String,
    /// Command of the measurement, if no model covers it.
    #[serde(default)]
    pub command: String,
}

/// Kind of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Follows from protocol or wiring.
    Exact,
    /// Depends on a machine that is not available.
    Shape,
    /// Measured elsewhere in this repository, or not at all.
    Elsewhere,
}

/// Basis of our value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Computed from inputs that the figure itself did not set.
    Computed,
    /// An input was chosen so that the figure comes out.
    Fitted,
    /// An input of the model, read back.
    Restated,
    /// Measured on the real system; no model covers it.
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

/// Largest ratio of the ends of a range: a wider one excludes almost nothing.
const WIDEST_RANGE: f64 = 10.0;

impl Row {
    /// Parses a row's TOML and rejects checks that cannot fail; `file` is named in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, ModelError> {
        let row: Self = toml::from_str(text).map_err(|e| {
            let error = InputError::parsed(file, e.message(), "a row to reproduce in TOML");
            let begin = e.span().map_or(0, |span| span.start);
            ModelError::from(
                error
                    .at_byte(text, begin)
                    .hint("scenarios/*.toml are examples of every field"),
            )
        })?;
        row.examine().map_err(|(found, expected)| {
            let error = InputError::new(file, found, expected);
            ModelError::from(error.hint("docs: Published figures, Writing a row"))
        })?;
        Ok(row)
    }

    /// Found and expected of the first error in a check or a basis.
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
    /// Basis of the check.
    pub fn basis(&self, row: &Row) -> Basis {
        match self.ours {
            None => Basis::Elsewhere,
            Some(_) => self.basis.unwrap_or(row.basis),
        }
    }

    /// Target of the check's fit; empty without one.
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
        if self.published.is_empty() || self.published.starts_with('-') {
            return wrong("published: a figure or statement of the paper");
        }
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
