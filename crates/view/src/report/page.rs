//! The page around the pictures, as data for the templates.

use super::hosts::HostsPart;
use super::markup::rendered;
use super::placement::Ranks;
use super::section::{capital, machine, pictures};
use super::view::{NUMBERED, View};
use super::{Job, ReportInput, charts, data, hosts, placement, words};
use crate::draw::{LinkLoads, Signs, sheet};
use askama::Template;
use hopbyte_fabric::LinkId;
use hopbyte_fabric::units::{bytes_text, count, significant};
use hopbyte_map::{Baseline, Certificate, Evaluation};

/// The script and the style sheet, built from `web/src` by `npm run build` (see web/README.md).
const SCRIPT: &str = include_str!("../../../../web/dist/report.js");
const STYLE: &str = include_str!("../../../../web/dist/report.css");

/// Rows of the table of links that work without the script.
const ROWS: usize = 30;
/// Further links that the script may list.
const LISTED: usize = 2000;

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    version: &'static str,
    live: bool,
    title: String,
    sheet: String,
    style: &'static str,
    script: &'static str,
    lead: String,
    readings_source: &'a str,
    of_job: bool,
    cards: Vec<Card>,
    pictures: String,
    hosts: Option<HostsPart>,
    links: Option<LinksTable>,
    spread: Option<Spread<'a>>,
    ranks: Option<placement::RanksTable>,
    certificate: Option<CertificateTable>,
    items: Vec<(&'static str, String)>,
    command: &'a str,
    data: Option<String>,
}

/// A key figure.
struct Card {
    name: &'static str,
    figure: String,
    change: Option<Change>,
    /// Widths of the meter, in per cent.
    before: String,
    after: Option<String>,
    /// Place of the bound and its figure.
    bound: Option<(String, String)>,
}

/// How a figure changed.
struct Change {
    was: String,
    class: &'static str,
    text: String,
}

/// The table of links; the script sorts and filters it.
struct LinksTable {
    /// Keys and headings of the columns of figures.
    columns: Vec<(String, String)>,
    rows: Vec<LinkRow>,
    more: usize,
}

struct LinkRow {
    link: LinkId,
    name: String,
    to: String,
    kind: String,
    cells: Vec<Cell>,
}

/// A figure, and the link's number in a picture.
struct Cell {
    number: Option<usize>,
    text: String,
}

struct Spread<'a> {
    name: &'a str,
    compared: bool,
    histogram: String,
}

struct CertificateTable {
    objective: String,
    gap: String,
    rows: Vec<(String, [String; 5])>,
    search: String,
}

/// Renders the page; a live one may poll its own server for changes.
pub fn html(input: &ReportInput<'_>, live: bool) -> String {
    let views = View::all(input);
    let job_nodes = input.job.as_ref().map_or(Vec::new(), placement::nodes);
    let (pictures, picture) = match views.is_empty() {
        true => machine(input),
        false => pictures(input, &views, &job_nodes),
    };
    let listed = View::listed(input, &views);
    let listed = &listed[..listed.len().min(LISTED)];
    let data = picture.map(|p| {
        let size = [p.width, p.height];
        data::Data::new(input, &views, &p.geometry, size, listed).json()
    });
    rendered(&Page {
        version: env!("CARGO_PKG_VERSION"),
        live,
        title: title(input, job_nodes.len()),
        sheet: sheet(),
        style: STYLE,
        script: SCRIPT,
        lead: words::lead(input),
        readings_source: &input.readings_source,
        of_job: input.job.is_some(),
        cards: input.job.as_ref().map_or(Vec::new(), cards),
        pictures,
        hosts: views
            .first()
            .and_then(|view| hosts::part(input, view, &job_nodes)),
        links: (!views.is_empty()).then(|| links(input, &views, listed)),
        spread: views.first().map(|view| Spread {
            name: view.name,
            compared: view.after.is_some(),
            histogram: charts::histogram(view),
        }),
        ranks: input
            .job
            .as_ref()
            .map(|job| placement::table(input.fabric, job)),
        certificate: input
            .job
            .as_ref()
            .and_then(|j| j.certificate)
            .map(certificate),
        items: how(input),
        command: &input.command,
        data,
    })
}

/// The given title, or one made from the job and the machine.
pub fn title(input: &ReportInput<'_>, nodes: usize) -> String {
    if !input.title.is_empty() {
        return input.title.clone();
    }
    let source = input.fabric.source();
    let machine = source.rsplit('/').next().unwrap_or(source);
    match &input.job {
        Some(job) => format!(
            "{} ranks on {nodes} nodes of {machine}",
            job.before.placement.tasks()
        ),
        None => format!("Links of {machine}"),
    }
}

/// Takes a figure from an evaluation.
type Get = fn(&Evaluation) -> f64;
/// Writes a figure.
type Text = fn(f64) -> String;

/// The key figures.
fn cards(job: &Job<'_>) -> Vec<Card> {
    let rows: [(&'static str, Get, Text, Option<f64>); 4] = [
        (
            "Worst link",
            |e| e.worst_link_seconds,
            words::time,
            job.certificate.map(|c| c.bound.worst_link_seconds),
        ),
        (
            "Worst link between switches",
            |e| e.worst_network_link_seconds,
            words::time,
            job.certificate.map(|c| c.bound.worst_network_link_seconds),
        ),
        (
            "Hop-bytes",
            |e| e.hop_bytes,
            bytes_text,
            job.certificate.map(|c| c.bound.hop_bytes),
        ),
        (
            "Hops a byte travels",
            |e| e.average_dilation,
            |v| significant(v, 3),
            job.certificate.map(|c| c.bound.average_dilation),
        ),
    ];
    let of = |(name, get, text, bound): (&'static str, Get, Text, Option<f64>)| {
        let before = get(job.before.evaluation);
        let after = job.after.as_ref().map(|a| get(a.evaluation));
        card(name, before, after, bound.filter(|b| *b > 0.0), text)
    };
    rows.map(of).into()
}

fn card(
    name: &'static str,
    before: f64,
    after: Option<f64>,
    bound: Option<f64>,
    text: Text,
) -> Card {
    let top = before.max(after.unwrap_or(0.0)).max(f64::MIN_POSITIVE);
    let percent = |v: f64| format!("{:.1}", (v / top * 100.0).clamp(0.0, 100.0));
    Card {
        name,
        figure: text(after.unwrap_or(before)),
        change: after.map(|after| {
            let change = words::change(before, after);
            Change {
                was: text(before),
                class: match change.chars().next() {
                    Some('−') => "better",
                    Some('+') => "worse",
                    _ => "same",
                },
                text: change,
            }
        }),
        before: percent(before),
        after: after.map(percent),
        bound: bound.map(|bound| (percent(bound), text(bound))),
    }
}

fn links(input: &ReportInput<'_>, views: &[View<'_>], listed: &[LinkId]) -> LinksTable {
    let fabric = input.fabric;
    let column = |(i, view): (usize, &View<'_>)| match view.after {
        Some(_) => vec![
            (format!("b{i}"), "Before".to_owned()),
            (format!("a{i}"), "After".into()),
            (format!("c{i}"), "Change".into()),
        ],
        None => vec![(format!("b{i}"), capital(view.name))],
    };
    let row = |&link: &LinkId| LinkRow {
        link,
        name: fabric.link_name(link),
        to: fabric.end_name(fabric.link(link).to),
        kind: fabric.kind(link).name.clone(),
        cells: views
            .iter()
            .flat_map(|view| cells(view, link, &input.signs))
            .collect(),
    };
    LinksTable {
        columns: views.iter().enumerate().flat_map(column).collect(),
        rows: listed.iter().take(ROWS).map(row).collect(),
        more: listed.len().saturating_sub(ROWS),
    }
}

/// The cells of one quantity.
fn cells(view: &View<'_>, link: LinkId, signs: &Signs) -> Vec<Cell> {
    let value = |loads: &LinkLoads| {
        let numbered = loads.worst(NUMBERED);
        let rank = numbered.iter().position(|&(l, _)| l == link);
        Cell {
            number: rank.map(|r| r + 1),
            text: signs
                .text(loads, link)
                .unwrap_or_else(|| "not known".into()),
        }
    };
    let Some(after) = view.after else {
        return vec![value(view.before)];
    };
    let change = match (view.before.get(link), after.get(link)) {
        (Some(b), Some(a)) => words::change(b, a),
        _ => String::new(),
    };
    let change = Cell {
        number: None,
        text: change,
    };
    vec![value(view.before), value(after), change]
}

/// Origin of the placement, and its baseline.
fn certificate(c: &Certificate) -> CertificateTable {
    let row = |name: &str, figures: [f64; 5]| {
        let [worst, network, hops, dilation, off] = figures;
        let figures = [
            words::time(worst),
            words::time(network),
            bytes_text(hops),
            significant(dilation, 3),
            bytes_text(off),
        ];
        (name.to_owned(), figures)
    };
    let figures = |e: &Evaluation| {
        [
            e.worst_link_seconds,
            e.worst_network_link_seconds,
            e.hop_bytes,
            e.average_dilation,
            e.off_node_bytes,
        ]
    };
    let (which, best) = &c.best_baseline;
    let best_name = format!("best usual placement: {}", usual(*which));
    let mut rows = vec![
        row("in order", figures(&c.baseline)),
        row(&best_name, figures(best)),
    ];
    rows.extend(c.current.as_ref().map(|e| row("as it was", figures(e))));
    rows.push(row("result", figures(&c.result)));
    let b = &c.bound;
    let bound = [
        b.worst_link_seconds,
        b.worst_network_link_seconds,
        b.hop_bytes,
        b.average_dilation,
        b.off_node_bytes,
    ];
    rows.push(row("bound", bound));
    CertificateTable {
        objective: c.objective.clone(),
        gap: words::gap(c),
        rows,
        search: format!(
            "Seed {}, {} trials on {} threads, {} of wall time, {} of processor time. {} ranks changed node.",
            c.seed,
            count(c.trials as usize),
            c.threads,
            words::time(c.wall_seconds),
            words::time(c.cpu_seconds),
            c.moved_tasks
        ),
    }
}

fn usual(which: Baseline) -> &'static str {
    match which {
        Baseline::InOrder => "in order",
        Baseline::RoundRobin => "round robin",
        Baseline::Random => "random",
        Baseline::Current => "as it was",
        Baseline::TextOrder => "hosts by name as text",
        Baseline::NumberOrder => "hosts by name",
    }
}

/// Sources of all inputs.
fn how(input: &ReportInput<'_>) -> Vec<(&'static str, String)> {
    let f = input.fabric;
    let machine = format!(
        "{}: {} routers, {} nodes, {} directed links",
        f.source(),
        count(f.routers().len()),
        count(f.nodes().len()),
        count(f.links().len())
    );
    let mut items = vec![("Machine", machine), ("Routes", input.routing.describe())];
    if let Some(job) = &input.job {
        let traffic = format!(
            "{}: {} ranks, {} between {} pairs",
            job.traffic,
            job.exchange.tasks(),
            bytes_text(job.exchange.total_bytes()),
            count(job.exchange.pairs())
        );
        items.push(("Traffic", traffic));
    }
    items.extend(input.notes.iter().map(|note| ("Note", note.clone())));
    items.push((
        "Program",
        concat!("hopbyte ", env!("CARGO_PKG_VERSION")).into(),
    ));
    items
}
