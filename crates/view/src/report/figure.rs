//! A paper's figure with the model's values.

use crate::draw::{Curve, CurvePoint, Panel, curves_svg};
use hopbyte_model::reproduce::{Drawn, Point, Row};

/// The figure of a row as SVG.
pub fn figure_svg(row: &Row, figure: &Drawn) -> String {
    let point = |p: &Point| CurvePoint {
        x: p.x,
        y: p.y,
        low: p.y,
        high: p.most.unwrap_or(p.y),
    };
    let panels = figure.panel.iter().map(|panel| Panel {
        x: figure.x.clone(),
        y: panel.y.clone(),
        log: figure.log,
        names: figure.names.clone(),
        curves: panel
            .curve
            .iter()
            .map(|curve| Curve {
                name: curve.name.clone(),
                points: curve.points.iter().map(point).collect(),
                published: curve.published.clone(),
            })
            .collect(),
    });
    let panels: Vec<Panel> = panels.collect();
    let paper = row.paper.split(',').next().unwrap_or_default();
    let title = format!("{paper}, {}", figure.title);
    let command = format!("hopbyte model reproduce {} --figures", row.id);
    curves_svg(&title, &panels, &command)
}
