//! The page or picture of a mapping.

use super::{Mapping, Question};
use crate::report::{Job, ReportInput, Side, html, readings, svg};
use anyhow::Result;
use hopbyte_map::{Baseline, baseline, evaluate};
use std::path::Path;

/// Compares where the ranks are (or where a launcher would put them) with where they should be.
///
/// A path that ends in `.svg` gets a picture, any other the page.
pub fn page(question: &Question, mapping: &Mapping, command: &str, path: &Path) -> Result<String> {
    let render = match path.extension() {
        Some(end) if end == "svg" => svg,
        _ => html,
    };
    let problem = question.problem();
    let certificate = &mapping.certificate;
    let (label, before) = match &question.current {
        Some(current) => ("as it was", Some(current.clone())),
        None => {
            let in_order = baseline(&problem, Baseline::InOrder, certificate.seed)?;
            ("in order, as launchers do", in_order)
        }
    };
    let before = before.unwrap_or_else(|| mapping.placement.clone());
    let cost = evaluate(&problem, &before)?;
    let background = question.background.as_ref();
    let mut notes = question.machine.notes.clone();
    notes.extend(background.iter().flat_map(|b| b.notes.clone()));
    Ok(render(&ReportInput {
        title: String::new(),
        fabric: problem.fabric,
        routing: problem.routing,
        job: Some(Job {
            traffic: question.traffic.source.clone(),
            exchange: problem.exchange,
            before: Side::new(label, &problem, &before, &cost),
            after: Some(Side::new(
                "mapped",
                &problem,
                &mapping.placement,
                &certificate.result,
            )),
            certificate: Some(certificate),
        }),
        readings: background.map_or(Vec::new(), |b| readings::loads(&b.state)),
        readings_source: background.map_or(String::new(), |b| {
            readings::words(&b.state, &b.source, (b.matched, b.unmatched))
        }),
        notes,
        command: command.to_owned(),
    }))
}
