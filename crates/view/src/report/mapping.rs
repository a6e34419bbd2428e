//! The page or picture of a mapping.

use super::{Job, ReportInput, Side, html, readings, svg};
use crate::draw::Signs;
use hopbyte_job::Result;
use hopbyte_job::mapping::before;
use hopbyte_job::{Mapping, Question, is_picture};
use std::path::Path;

/// Options of a mapping's page.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// Title; empty for one made from the job.
    pub title: &'a str,
    /// The command line of the page.
    pub command: &'a str,
    /// A picture (SVG) in place of the page.
    pub picture: bool,
}

impl<'a> About<'a> {
    /// For a file: a path that ends in `.svg`, `.pdf` or `.png` gets a picture, any other the page.
    pub fn file(path: &Path, command: &'a str) -> Self {
        Self {
            command,
            picture: is_picture(path),
            ..Self::default()
        }
    }
}

/// Compares the current placement (or the launcher's default) with the mapping.
///
/// # Errors
/// The placements cannot be evaluated.
pub fn mapping_page(question: &Question, mapping: &Mapping, about: &About<'_>) -> Result<String> {
    let render = if about.picture { svg } else { html };
    let problem = question.problem();
    let certificate = &mapping.certificate;
    let (label, before) = before(question, mapping)?;
    let cost = question.evaluate(&before)?;
    let background = question.background.as_ref();
    let mut notes = question.machine.notes.clone();
    notes.extend(question.traffic_notes.iter().cloned());
    notes.extend(background.iter().flat_map(|b| b.notes.clone()));
    notes.extend(question.loads.text());
    Ok(render(&ReportInput {
        title: about.title.to_owned(),
        fabric: problem.fabric,
        routing: problem.routing,
        job: Some(Job {
            traffic: question.traffic.clone(),
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
        signs: Signs::of(problem.fabric, background.map(|b| &b.state)),
        readings_source: background.map_or(String::new(), |b| {
            readings::words(&b.state, &b.source, (b.matched, b.unmatched))
        }),
        notes,
        command: about.command.to_owned(),
    }))
}
