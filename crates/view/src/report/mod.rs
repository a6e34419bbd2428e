//! One HTML file with a result: location of the load, gain of a mapping, and its
//! certificate. It needs no network, works without JavaScript, and offers more with it.
//!
//! [`html`] makes the page from a [`ReportInput`]: with a job it compares placements (before and
//! after at the same scale), without one it shows the readings of the fabric's links.

mod charts;
pub mod data;
mod figure;
mod flows;
mod hosts;
mod mapping;
pub(crate) mod markup;
pub mod page;
mod placement;
pub mod readings;
pub mod section;
mod sweep;
pub mod view;
pub mod words;

pub use figure::figure_svg;
pub use mapping::{About, mapping_page};
pub use sweep::sweep_svg;

use crate::draw::{DrawOptions, LinkLoads, Signs, compare_svg, fabric_svg};
use hopbyte_fabric::{Exchange, Fabric, Placement, Routing};
use hopbyte_map::{Certificate, Evaluation, Problem};

/// Contents of a report.
pub struct ReportInput<'a> {
    /// Title of the page; empty for one made from the job or the fabric.
    pub title: String,
    /// The machine.
    pub fabric: &'a Fabric,
    /// Its routing.
    pub routing: &'a Routing,
    /// The job and its placements, if the report is about one.
    pub job: Option<Job<'a>>,
    /// Further readings, each with a picture of its own (use, stalls, …).
    pub readings: Vec<LinkLoads>,
    /// Links with errors and links that are down.
    pub signs: Signs,
    /// Source, window and coverage of the readings, as text; empty without readings.
    pub readings_source: String,
    /// Remarks of the inputs' readers.
    pub notes: Vec<String>,
    /// The command line of the report.
    pub command: String,
}

/// A job with its placements before and after.
pub struct Job<'a> {
    /// Source of its traffic.
    pub traffic: String,
    /// Its traffic.
    pub exchange: &'a Exchange,
    /// Time that each link needs for its bytes under a placement (see [`link_times`]).
    pub before: Side<'a>,
    /// The better placement.
    pub after: Option<Side<'a>>,
    /// Its certificate.
    pub certificate: Option<&'a Certificate>,
}

/// One placement and its cost.
pub struct Side<'a> {
    /// Label: `as it ran`, `in order`, `mapped`.
    pub label: String,
    /// The placement.
    pub placement: &'a Placement,
    /// Its cost.
    pub evaluation: &'a Evaluation,
    /// Time by link, seconds.
    pub link_times: LinkLoads,
}

impl<'a> Side<'a> {
    /// A side of a mapping question: its link times are bytes over the capacity that other jobs leave.
    pub fn new(
        label: impl Into<String>,
        problem: &Problem<'_>,
        placement: &'a Placement,
        evaluation: &'a Evaluation,
    ) -> Self {
        Self {
            label: label.into(),
            placement,
            evaluation,
            link_times: link_times(problem, evaluation),
        }
    }
}

/// Time of each link for the bytes of an evaluation: bytes over the capacity that the
/// lanes in service have left beside other jobs ([`Problem::live_capacity`]).
pub fn link_times(problem: &Problem<'_>, evaluation: &Evaluation) -> LinkLoads {
    let seconds = problem
        .fabric
        .link_ids()
        .map(|l| {
            let bytes = evaluation.link_bytes.get(l.index()).copied();
            match (bytes, problem.live_capacity(l)) {
                (Some(b), capacity) if capacity > 0.0 => b / capacity,
                (Some(0.0), _) => 0.0,
                _ => f64::NAN,
            }
        })
        .collect();
    LinkLoads::new("link time", crate::draw::Unit::Seconds, seconds)
}

/// The page as one string: no references to other files or servers.
pub fn html(input: &ReportInput<'_>) -> String {
    page::html(input, false)
}

/// The same in one SVG picture: before and after side by side at one scale, the gain above,
/// the worst links below. Without a second placement or a job, the first quantity alone.
pub fn svg(input: &ReportInput<'_>) -> String {
    let nodes = input.job.as_ref().map_or(Vec::new(), placement::nodes);
    let mut options = DrawOptions {
        title: page::title(input, nodes.len()),
        subtitle: words::lead(input),
        command: input.command.clone(),
        worst: 5,
        job: nodes,
        signs: Some(input.signs.clone()),
        ..DrawOptions::default()
    };
    let Some(job) = &input.job else {
        options.worst = 10;
        return fabric_svg(input.fabric, input.readings.first(), &options);
    };
    let before = (job.before.label.as_str(), &job.before.link_times);
    match &job.after {
        Some(after) => {
            let after = (after.label.as_str(), &after.link_times);
            compare_svg(input.fabric, before, after, &options)
        }
        None => fabric_svg(input.fabric, Some(before.1), &options),
    }
}
