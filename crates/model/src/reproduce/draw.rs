//! Reproduction of a paper's figure: expressions over the cases of a row for each value on the axis.

use super::cases::Cases;
use super::expression::{self, Value};
use super::figure::{Curve, Drawn, FIGURE_SCHEMA, Figure, Panel, Point};
use super::row::Row;
use super::tools::Tools;
use crate::error::ModelError;
use rayon::prelude::*;

impl Row {
    /// The values of the row's figure, if it has one.
    pub fn figure(&self, tools: &Tools<'_>) -> Result<Option<Drawn>, ModelError> {
        let figure = self.figure.as_ref();
        figure.map(|f| f.draw(self, tools)).transpose()
    }
}

impl Figure {
    fn draw(&self, row: &Row, tools: &Tools<'_>) -> Result<Drawn, ModelError> {
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
            .map(|i| self.column(row, i, tools))
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
                    published: recipe.published.clone(),
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

    /// The points of all curves at one position; none beyond the end of a panel.
    fn column(
        &self,
        row: &Row,
        i: usize,
        tools: &Tools<'_>,
    ) -> Result<Vec<Option<Point>>, ModelError> {
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
        let mut cases = Cases::with(row, tools, set.collect());
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
