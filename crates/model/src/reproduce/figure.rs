//! A paper's figure again: expressions over the cases of a row, along a value that the cases take.

use super::quantities::Cases;
use super::{Row, Value, expression};
use crate::error::ModelError;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// How a row's figure is made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The paper's number of it and what it shows.
    pub title: String,
    /// What lies across, with its unit.
    pub x: String,
    /// Where the curves have points, from left to right: what `x` means in their expressions.
    #[serde(default)]
    pub at: Vec<f64>,
    /// Words instead of numbers: bars.
    #[serde(default)]
    pub names: Vec<String>,
    /// Whether steps are factors.
    #[serde(default)]
    pub log: bool,
    /// Fields of every case that take the value.
    #[serde(default)]
    pub sets: Vec<String>,
    /// What they take, where it is not `at`.
    #[serde(default)]
    pub values: Vec<toml::Value>,
    /// What lies beside each other.
    pub panel: Vec<Panel<Recipe>>,
}

/// One pair of axes with its curves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel<C> {
    /// What is up, with its unit.
    pub y: String,
    /// Where it ends, where that is before the figure does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// Curves.
    pub curve: Vec<C>,
}

/// How a curve is made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name.
    pub name: String,
    /// Its height.
    pub ours: String,
    /// The upper end of what it stands for (the paper's error bar).
    #[serde(default)]
    pub most: Option<String>,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Name.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<Point>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Where; bars are at 0, 1, 2 …
    pub x: f64,
    /// How high.
    pub y: f64,
    /// Upper end, where there is one.
    pub most: Option<f64>,
}

/// A figure with its values.
#[derive(Clone, Debug, Serialize)]
pub struct Drawn {
    /// [`FIGURE_SCHEMA`].
    pub schema: &'static str,
    /// The row.
    pub row: String,
    /// The paper's number of it and what it shows.
    pub title: String,
    /// What lies across.
    pub x: String,
    /// Words under bars.
    pub names: Vec<String>,
    /// Whether steps across are factors.
    pub log: bool,
    /// Panels.
    pub panel: Vec<Panel<Curve>>,
}

/// What every figure names as its schema.
pub const FIGURE_SCHEMA: &str = "hopbyte.figure/1";

impl Row {
    /// The values of the row's figure, if it has one.
    pub fn figure(&self) -> Result<Option<Drawn>, ModelError> {
        self.figure.as_ref().map(|f| f.draw(self)).transpose()
    }
}

impl Figure {
    fn draw(&self, row: &Row) -> Result<Drawn, ModelError> {
        let count = self.at.len().max(self.names.len());
        let one = self.at.is_empty() != self.names.is_empty();
        if !one || ![0, count].contains(&self.values.len()) {
            let expected = "numbers in `at` or words in `names`, and no values or as many";
            return Err(ModelError::out_of_range(
                format!("figure of row {}", row.id),
                &format!("{} and {}", self.at.len(), self.names.len()),
                expected,
            ));
        }
        let columns: Result<Vec<Vec<Option<Point>>>, ModelError> = (0..count)
            .into_par_iter()
            .map(|i| self.column(row, i))
            .collect();
        let columns = columns?;
        let mut curves = (0..).map(|k| columns.iter().filter_map(|c| c[k]).collect());
        let panel = self.panel.iter().map(|panel| Panel {
            y: panel.y.clone(),
            to: panel.to,
            curve: panel
                .curve
                .iter()
                .zip(&mut curves)
                .map(|(recipe, points)| Curve {
                    name: recipe.name.clone(),
                    points,
                })
                .collect(),
        });
        Ok(Drawn {
            schema: FIGURE_SCHEMA,
            row: row.id.clone(),
            title: self.title.clone(),
            x: self.x.clone(),
            names: self.names.clone(),
            log: self.log,
            panel: panel.collect(),
        })
    }

    /// The points of all curves at one place; none behind the end of a panel.
    fn column(&self, row: &Row, i: usize) -> Result<Vec<Option<Point>>, ModelError> {
        let (x, word) = match self.names.get(i) {
            Some(name) => (i as f64, Value::Text(name.clone())),
            None => (self.at[i], Value::Number(self.at[i])),
        };
        let value = self.values.get(i).cloned().unwrap_or(if x.fract() == 0.0 {
            toml::Value::Integer(x as i64)
        } else {
            toml::Value::Float(x)
        });
        let set = self.sets.iter().map(|path| (path.as_str(), value.clone()));
        let mut cases = Cases::with(row, set.collect());
        let mut number = |text: &str| {
            let mut find = |name: &str, arguments: &[Value]| cases.find(name, arguments);
            match expression::evaluate(text, Some(&word), &mut find)? {
                Value::Number(n) => Ok(n),
                other => {
                    let what = format!("expression '{text}' of a figure");
                    Err(ModelError::out_of_range(what, &other, "a number"))
                }
            }
        };
        let mut points = Vec::new();
        for panel in &self.panel {
            let ended = panel.to.is_some_and(|to| x > to);
            for recipe in &panel.curve {
                let point = || {
                    Ok::<_, ModelError>(Point {
                        x,
                        y: number(&recipe.ours)?,
                        most: recipe.most.as_deref().map(&mut number).transpose()?,
                    })
                };
                points.push((!ended).then(point).transpose()?);
            }
        }
        Ok(points)
    }
}
