//! A paper's figure: its recipe in a row, and its curves.

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
    /// `FIGURE_SCHEMA`.
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
