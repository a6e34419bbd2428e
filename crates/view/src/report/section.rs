//! The pictures of a report, each with its legend and bars.

use super::view::{NUMBERED, View, WHOLE};
use super::{ReportInput, charts};
use crate::draw::{CLASSES, LinkLoads, Looks, Mark, Picture, escape, sample};
use hopbyte_fabric::NodeId;
use std::fmt::Write;

/// The machine alone, its links by kind.
pub fn machine(out: &mut String, input: &ReportInput<'_>) -> Picture {
    let looks = Looks::new(input.fabric, None, None, &[]);
    let picture = crate::draw::picture(&looks, WHOLE[0], WHOLE[1]);
    out.push_str(
        "<section id=\"pictures\"><h2>The machine</h2><div class=\"view\"><ul class=\"legend\">",
    );
    for (mark, text) in crate::draw::legend(&looks) {
        let _ = write!(
            out,
            "<li data-mark=\"{}\">{} {}</li>",
            mark.class(),
            sample(mark),
            escape(&text)
        );
    }
    out.push_str("</ul><div class=\"pictures stack\">");
    figure(out, &picture, "before", "Links by kind", None);
    let _ = write!(
        out,
        "</div><p class=\"note\">{}</p></div></section>",
        escape(&picture.words)
    );
    picture
}

/// One quantity: pictures, legend, bars. Returns the first picture for its geometry.
pub fn section(
    out: &mut String,
    input: &ReportInput<'_>,
    view: &View<'_>,
    index: usize,
    job: &[NodeId],
) -> Picture {
    let size = view.size(input);
    let before = view.picture(input, view.before, job, size);
    let after = view.after.map(|a| view.picture(input, a, job, size));
    let _ = write!(
        out,
        "<div class=\"view\" data-view=\"{index}\"><h3>{}</h3>",
        escape(&capital(view.name))
    );
    let _ = write!(out, "<ul class=\"legend\">{}</ul>", legend(view));
    let class = if after.is_some() && size[0] < 1000.0 {
        "pair"
    } else {
        "stack"
    };
    let _ = write!(out, "<div class=\"pictures {class}\">");
    let labels = input.job.as_ref().filter(|_| index == 0).map(|job| {
        let after = job.after.as_ref().map_or("", |a| a.label.as_str());
        (job.before.label.as_str(), after)
    });
    let name = |word: &str, label: Option<&str>| match label {
        Some(label) if !word.is_empty() => format!("{word}: {label}"),
        Some(label) => capital(label),
        None => capital(view.name),
    };
    let word = if after.is_some() { "Before" } else { "" };
    figure(
        out,
        &before,
        "before",
        &name(word, labels.map(|l| l.0)),
        Some(view.before),
    );
    if let (Some(picture), Some(loads)) = (&after, view.after) {
        figure(
            out,
            picture,
            "after",
            &name("After", labels.map(|l| l.1)),
            Some(loads),
        );
    }
    out.push_str("</div>");
    let _ = write!(out, "<p class=\"note\">{}", escape(&before.words));
    if view.before.max() > 0.0 {
        let _ = write!(
            out,
            " Numbers: the {NUMBERED} worst links, named in the table below."
        );
    }
    if !job.is_empty() {
        out.push_str(" Blue: nodes of the job.");
    }
    out.push_str("</p><div class=\"columns\">");
    out.push_str(&bars(input, view));
    out.push_str("</div></div>");
    before
}

fn figure(
    out: &mut String,
    picture: &Picture,
    side: &str,
    caption: &str,
    loads: Option<&LinkLoads>,
) {
    let _ = write!(
        out,
        "<figure data-side=\"{side}\"><figcaption>{}</figcaption><div class=\"canvas\"><div><svg class=\"hb\" viewBox=\"0 0 {w} {h}\" style=\"max-width:{w}px\" role=\"img\" aria-label=\"{}\">\n{}</svg></div></div></figure>",
        escape(caption),
        escape(&match loads {
            Some(loads) => format!(
                "{caption}. Worst: {}",
                loads
                    .worst(1)
                    .first()
                    .map_or("no load".into(), |&(_, v)| loads.text(v))
            ),
            None => caption.to_owned(),
        }),
        picture.body,
        w = picture.width.ceil(),
        h = picture.height.ceil(),
    );
}

/// The bars of a quantity by dimension and by kind.
pub fn bars(input: &ReportInput<'_>, view: &View<'_>) -> String {
    let mut out = String::new();
    let dimensions = charts::dimensions(input.fabric);
    charts::bars(&mut out, "By dimension", &dimensions, view);
    charts::bars(
        &mut out,
        "By kind of link",
        &charts::kinds(input.fabric),
        view,
    );
    out
}

/// The entries of a legend, with how many links each stands for.
pub fn legend(view: &View<'_>) -> String {
    let mut out = String::new();
    let scale = &view.scale;
    let count = |loads: &LinkLoads, class: Option<usize>| {
        let of = |v: &f64| (!v.is_nan()).then(|| scale.class(*v));
        loads.values().iter().filter(|v| of(v) == class).count()
    };
    let both = |class: Option<usize>| {
        let before = hopbyte_fabric::units::count(count(view.before, class));
        match view.after {
            Some(after) => format!(
                "{before} → {}",
                hopbyte_fabric::units::count(count(after, class))
            ),
            None => before,
        }
    };
    let mut entry = |mark: Mark, text: &str, counts: &str| {
        if matches!(counts, "0" | "0 → 0") && !matches!(mark, Mark::Load(_)) {
            return;
        }
        let _ = write!(
            out,
            "<li data-mark=\"{}\">{} {} <small>{counts}</small></li>",
            mark.class(),
            sample(mark),
            escape(text)
        );
    };
    entry(Mark::Idle, "nothing", &both(Some(0)));
    let classes = if scale.max > 0.0 { CLASSES } else { 0 };
    for class in 1..=classes {
        let text = format!("{} {}", scale.range_text(class), scale.unit_text());
        entry(Mark::Load(class as u8), &text, &both(Some(class)));
    }
    entry(Mark::Unknown, "not known", &both(None));
    out
}

/// With a capital letter.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}
