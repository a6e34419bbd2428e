//! A paper's figure: its definition in a row, and its curves.

use serde::{Deserialize, Serialize};

/// Definition of a row's figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Number and title of the paper's figure.
    pub title: String,
    /// Label of the horizontal axis, with unit.
    pub x: String,
    /// Positions of the points, from left to right: the values of `x` in their expressions.
    #[serde(default)]
    pub at: Vec<f64>,
    /// Words instead of numbers: bars.
    #[serde(default)]
    pub names: Vec<String>,
    /// Whether the horizontal axis is logarithmic.
    #[serde(default)]
    pub log: bool,
    /// Fields of every case that take the value.
    #[serde(default)]
    pub sets: Vec<String>,
    /// Values of these fields, if they differ from `at`.
    #[serde(default)]
    pub values: Vec<toml::Value>,
    /// Panels, side by side.
    pub panel: Vec<Panel<Recipe>>,
}

/// One pair of axes with its curves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel<C> {
    /// Label of the vertical axis, with unit.
    pub y: String,
    /// Its last position, if that is before the figure's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// Curves.
    pub curve: Vec<C>,
}

/// Definition of a curve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name.
    pub name: String,
    /// Expression of its values.
    pub ours: String,
    /// Expression of the upper end (the paper's error bar).
    #[serde(default)]
    pub most: Option<String>,
    /// Numbers that the paper prints on this curve: position and value.
    #[serde(default)]
    pub published: Vec<[f64; 2]>,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Name.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<Point>,
    /// Numbers that the paper prints on this curve: position and value.
    pub published: Vec<[f64; 2]>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Position; bars are at 0, 1, 2 …
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Upper end, if any.
    pub most: Option<f64>,
}

/// A figure with its values.
#[derive(Clone, Debug, Serialize)]
pub struct Drawn {
    /// `FIGURE_SCHEMA`.
    pub schema: &'static str,
    /// The row.
    pub row: String,
    /// Number and title of the paper's figure.
    pub title: String,
    /// Label of the horizontal axis.
    pub x: String,
    /// Labels of bars.
    pub names: Vec<String>,
    /// Whether the horizontal axis is logarithmic.
    pub log: bool,
    /// Panels.
    pub panel: Vec<Panel<Curve>>,
}

/// Schema string of every figure.
pub const FIGURE_SCHEMA: &str = "hopbyte.figure/1";
