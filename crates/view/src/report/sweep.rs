//! The picture of a parameter study: time over each axis.

use crate::draw::{Curve, CurvePoint, Panel, curves_svg};
use hopbyte_model::Scenario;
use hopbyte_model::sweep::{AtFactor, Axis, Sensitivity};

/// A panel for each axis with a curve for each scenario, as SVG.
pub fn sweep_svg(scenarios: &[Scenario], found: &[Sensitivity], command: &str) -> String {
    let panel = |axis: Axis| {
        let curves: Vec<Curve> = found
            .iter()
            .filter(|s| s.axis == axis)
            .map(|s| Curve {
                name: scenarios[s.scenario].name.clone(),
                points: s.factors.iter().map(point).collect(),
                published: Vec::new(),
            })
            .collect();
        (!curves.is_empty()).then(|| Panel {
            x: format!("factor on {}", axis.name()),
            y: "% slower".into(),
            log: false,
            names: Vec::new(),
            curves,
        })
    };
    let panels: Vec<Panel> = Axis::ALL.into_iter().filter_map(panel).collect();
    let title = "Time over operating points, beside the machine as it is";
    curves_svg(title, &panels, command)
}

fn point(at: &AtFactor) -> CurvePoint {
    let slower = &at.slower_percent;
    CurvePoint {
        x: at.factor,
        y: slower.mean,
        low: slower.low.unwrap_or(slower.mean),
        high: slower.high.unwrap_or(slower.mean),
    }
}
