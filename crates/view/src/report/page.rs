//! The HTML around the pictures.

use super::section::{capital, machine, section};
use super::view::{NUMBERED, View};
use super::{Job, ReportInput, charts, data, placement, words};
use crate::draw::{LinkLoads, Picture, escape, sheet};
use hopbyte_fabric::LinkId;
use hopbyte_fabric::units::{bytes_text, significant};
use hopbyte_map::{Baseline, Certificate, Evaluation};
use std::fmt::Write;

/// The script and the style sheet, built from `web/src` by `npm run build` (see web/README.md).
const SCRIPT: &str = include_str!("../../../../web/dist/report.js");
const STYLE: &str = include_str!("../../../../web/dist/report.css");

/// Rows of the table of links that are there without the script.
const ROWS: usize = 30;
/// Links that the script may list beyond them.
const LISTED: usize = 2000;

/// Makes the page; a live one may ask its own server for news.
pub fn html(input: &ReportInput<'_>, live: bool) -> String {
    let views = View::all(input);
    let job_nodes = input.job.as_ref().map_or(Vec::new(), placement::nodes);
    let title = title(input, job_nodes.len());
    let mut main = String::new();
    head(&mut main, input, &title);
    if let Some(job) = &input.job {
        cards(&mut main, job);
    }
    let mut geometry = None;
    if views.is_empty() {
        geometry = Some(machine(&mut main, input));
    } else {
        main.push_str("<section id=\"pictures\"><h2>Where the load is</h2>");
        for (i, view) in views.iter().enumerate() {
            let picture = section(&mut main, input, view, i, &job_nodes);
            geometry = geometry.or(Some(picture));
        }
        main.push_str("</section>");
    }
    let listed = views.first().map_or(Vec::new(), View::loaded);
    let listed = &listed[..listed.len().min(LISTED)];
    if let Some(first) = views.first() {
        links(&mut main, input, &views, listed);
        spread(&mut main, first);
    }
    if let Some(job) = &input.job {
        main.push_str("<section id=\"ranks\"><h2>Where the ranks are</h2>");
        placement::table(&mut main, input.fabric, job);
        main.push_str("</section>");
        if let Some(c) = job.certificate {
            certificate(&mut main, c);
        }
    }
    how(&mut main, input);
    let data = geometry.map_or(String::new(), |p: Picture| {
        let size = [p.width, p.height];
        let data = data::Data::new(input, &views, &p.geometry, size, listed);
        format!(
            "<script type=\"application/json\" id=\"data\">{}</script>\n",
            data.json()
        )
    });
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"hopbyte {}\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:{}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{}{}</style>\n</head>\n<body{}>\n\
         <main>\n{main}</main>\n{data}<script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        if live { "; connect-src 'self'" } else { "" },
        escape(&title),
        sheet(),
        STYLE,
        if live { " data-live=\"state\"" } else { "" },
    )
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

fn head(out: &mut String, input: &ReportInput<'_>, title: &str) {
    let _ = writeln!(
        out,
        "<header><h1>{}</h1>\n<p class=\"lead\">{}</p>",
        escape(title),
        escape(&words::lead(input))
    );
    if !input.readings_source.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"note\">{}</p>",
            escape(&input.readings_source)
        );
    }
    if input.job.is_some() {
        out.push_str(
            "<p class=\"note\">Uncalibrated: times are bytes over the capacity that other jobs leave on \
             a link. They order placements; they do not predict seconds of the run.</p>",
        );
    }
    out.push_str("</header>\n");
}

/// Takes a figure from an evaluation.
type Get = fn(&Evaluation) -> f64;
/// Writes a figure.
type Text = fn(f64) -> String;

/// What matters most, as large figures.
fn cards(out: &mut String, job: &Job<'_>) {
    let rows: [(&str, Get, Text, Option<f64>); 4] = [
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
    out.push_str("<section class=\"cards\" aria-label=\"Key figures\">");
    for (name, get, text, bound) in rows {
        let before = get(job.before.evaluation);
        let after = job.after.as_ref().map(|a| get(a.evaluation));
        card(out, name, before, after, bound.filter(|b| *b > 0.0), text);
    }
    out.push_str("</section>\n");
}

fn card(
    out: &mut String,
    name: &str,
    before: f64,
    after: Option<f64>,
    bound: Option<f64>,
    text: Text,
) {
    let top = before.max(after.unwrap_or(0.0)).max(f64::MIN_POSITIVE);
    let percent = |v: f64| (v / top * 100.0).clamp(0.0, 100.0);
    let _ = write!(out, "<div class=\"card\"><h3>{}</h3>", escape(name));
    match after {
        Some(after) => {
            let change = words::change(before, after);
            let class = match change.chars().next() {
                Some('−') => "better",
                Some('+') => "worse",
                _ => "same",
            };
            let _ = write!(
                out,
                "<p class=\"figure\">{}<span class=\"was\">was {}</span><span class=\"change {class}\">{change}</span></p>",
                escape(&text(after)),
                escape(&text(before))
            );
        }
        None => {
            let _ = write!(out, "<p class=\"figure\">{}</p>", escape(&text(before)));
        }
    }
    let _ = write!(
        out,
        "<div class=\"meter\" aria-hidden=\"true\"><i class=\"b\" style=\"width:{:.1}%\"></i>",
        percent(before)
    );
    if let Some(after) = after {
        let _ = write!(
            out,
            "<i class=\"a\" style=\"width:{:.1}%\"></i>",
            percent(after)
        );
    }
    if let Some(bound) = bound {
        let _ = write!(out, "<b style=\"left:{:.1}%\"></b>", percent(bound));
    }
    out.push_str("</div>");
    if let Some(bound) = bound {
        let _ = write!(
            out,
            "<p class=\"bound\">no placement below {}</p>",
            escape(&text(bound))
        );
    }
    out.push_str("</div>");
}

/// The table of links; the script sorts and filters it.
fn links(out: &mut String, input: &ReportInput<'_>, views: &[View<'_>], listed: &[LinkId]) {
    let fabric = input.fabric;
    out.push_str(
        "<section id=\"links\"><h2>Worst links</h2><div class=\"tools\" hidden><label>Filter <input type=\"search\" id=\"filter\" placeholder=\"name, kind or end\" autocomplete=\"off\"></label> <output id=\"shown\" aria-live=\"polite\"></output></div><div class=\"scroll\"><table class=\"links\" id=\"links-table\"><caption>Most loaded first</caption><thead><tr><th scope=\"col\" data-key=\"name\">Link</th><th scope=\"col\" data-key=\"to\">To</th><th scope=\"col\" data-key=\"kind\">Kind</th>",
    );
    for (i, view) in views.iter().enumerate() {
        let name = capital(view.name);
        if view.after.is_some() {
            let _ = write!(
                out,
                "<th scope=\"col\" class=\"n\" data-key=\"b{i}\">Before</th><th scope=\"col\" class=\"n\" data-key=\"a{i}\">After</th><th scope=\"col\" class=\"n\" data-key=\"c{i}\">Change</th>"
            );
        } else {
            let _ = write!(
                out,
                "<th scope=\"col\" class=\"n\" data-key=\"b{i}\">{}</th>",
                escape(&name)
            );
        }
    }
    out.push_str("</tr></thead><tbody>");
    for &link in listed.iter().take(ROWS) {
        let _ = write!(
            out,
            "<tr data-link=\"{link}\"><th scope=\"row\">{}</th><td>{}</td><td>{}</td>",
            escape(&fabric.link_name(link)),
            escape(&fabric.end_name(fabric.link(link).to)),
            escape(&fabric.kind(link).name)
        );
        for view in views {
            value_cells(out, view, link);
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    let more = listed.len().saturating_sub(ROWS);
    if more > 0 {
        let _ = write!(
            out,
            "<noscript><p class=\"note\">{more} more links carry something; the script of this page lists them.</p></noscript><button id=\"more\" hidden>Show more</button>"
        );
    }
    out.push_str("</section>");
}

/// The cells of one quantity; a value that a picture has numbered carries its number.
fn value_cells(out: &mut String, view: &View<'_>, link: LinkId) {
    let mut value = |loads: &LinkLoads| {
        out.push_str("<td class=\"n\">");
        let numbered = loads.worst(NUMBERED);
        if let Some(rank) = numbered.iter().position(|&(l, _)| l == link) {
            let _ = write!(out, "<span class=\"no\">{}</span> ", rank + 1);
        }
        let text = loads.get(link).map(|v| loads.text(v));
        let _ = write!(
            out,
            "{}</td>",
            escape(text.as_deref().unwrap_or("not known"))
        );
    };
    value(view.before);
    let Some(after) = view.after else { return };
    value(after);
    let change = match (view.before.get(link), after.get(link)) {
        (Some(b), Some(a)) => words::change(b, a),
        _ => String::new(),
    };
    let _ = write!(out, "<td class=\"n\">{change}</td>");
}

fn spread(out: &mut String, view: &View<'_>) {
    let _ = write!(
        out,
        "<section id=\"spread\"><h2>How the load is spread</h2><figure><figcaption>Links by {}{}</figcaption><div class=\"scroll\">{}</div></figure></section>",
        escape(view.name),
        if view.after.is_some() {
            ": <span class=\"key b\">before</span> <span class=\"key a\">after</span>"
        } else {
            ""
        },
        charts::histogram(view)
    );
}

/// How the placement was found, and against what it was measured.
fn certificate(out: &mut String, c: &Certificate) {
    let _ = write!(
        out,
        "<section id=\"certificate\"><h2>Certificate</h2><p>Made small: {}. {}</p><div class=\"scroll\"><table class=\"certificate\"><thead><tr><th scope=\"col\"></th><th scope=\"col\" class=\"n\">worst link</th><th scope=\"col\" class=\"n\">between switches</th><th scope=\"col\" class=\"n\">hop-bytes</th><th scope=\"col\" class=\"n\">hops a byte</th><th scope=\"col\" class=\"n\">bytes off node</th></tr></thead><tbody>",
        escape(&c.objective),
        escape(&words::gap(c))
    );
    let mut row = |name: &str, figures: [f64; 5]| {
        let [worst, network, hops, dilation, off] = figures;
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            escape(name),
            escape(&words::time(worst)),
            escape(&words::time(network)),
            escape(&bytes_text(hops)),
            significant(dilation, 3),
            escape(&bytes_text(off))
        );
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
    row("in order", figures(&c.baseline));
    let (which, best) = &c.best_baseline;
    row(
        &format!("best usual placement: {}", usual(*which)),
        figures(best),
    );
    if let Some(current) = &c.current {
        row("as it was", figures(current));
    }
    row("result", figures(&c.result));
    let b = &c.bound;
    row(
        "bound",
        [
            b.worst_link_seconds,
            b.worst_network_link_seconds,
            b.hop_bytes,
            b.average_dilation,
            b.off_node_bytes,
        ],
    );
    let _ = write!(
        out,
        "</tbody></table></div><p class=\"note\">Seed {}, {} trials on {} threads, {} of wall time, {} of processor time. {} ranks changed node.</p></section>",
        c.seed,
        hopbyte_fabric::units::count(c.trials as usize),
        c.threads,
        words::time(c.wall_seconds),
        words::time(c.cpu_seconds),
        c.moved_tasks
    );
}

fn usual(which: Baseline) -> &'static str {
    match which {
        Baseline::InOrder => "in order",
        Baseline::RoundRobin => "round robin",
        Baseline::Random => "random",
        Baseline::Current => "as it was",
    }
}

/// Where everything comes from.
fn how(out: &mut String, input: &ReportInput<'_>) {
    let f = input.fabric;
    out.push_str("<section id=\"how\"><h2>How this was made</h2><dl>");
    let mut item = |term: &str, text: &str| {
        let _ = write!(out, "<dt>{term}</dt><dd>{}</dd>", escape(text));
    };
    item(
        "Machine",
        &format!(
            "{}: {} routers, {} nodes, {} directed links",
            f.source(),
            hopbyte_fabric::units::count(f.routers().len()),
            hopbyte_fabric::units::count(f.nodes().len()),
            hopbyte_fabric::units::count(f.links().len())
        ),
    );
    item("Routes", &input.routing.describe());
    if let Some(job) = &input.job {
        item(
            "Traffic",
            &format!(
                "{}: {} ranks, {} between {} pairs",
                job.traffic,
                job.exchange.tasks(),
                bytes_text(job.exchange.total_bytes()),
                hopbyte_fabric::units::count(job.exchange.pairs())
            ),
        );
    }
    for note in &input.notes {
        item("Note", note);
    }
    item("Program", concat!("hopbyte ", env!("CARGO_PKG_VERSION")));
    out.push_str("</dl>");
    if !input.command.is_empty() {
        let _ = write!(
            out,
            "<pre tabindex=\"0\"><code>{}</code></pre>",
            escape(&input.command)
        );
    }
    out.push_str("</section>\n");
}
