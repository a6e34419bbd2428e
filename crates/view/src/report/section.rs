//! The pictures of a report, each with its legend and bars.

use super::markup::rendered;
use super::view::{NUMBERED, View, WHOLE};
use super::{ReportInput, charts};
use crate::draw::{CLASSES, LinkLoads, Looks, Mark, Picture, Scale, Signs, sample, sign_sample};
use askama::Template;
use hopbyte_fabric::NodeId;
use hopbyte_fabric::units::count;

#[derive(Template)]
#[template(path = "pictures.html")]
struct Pictures {
    heading: &'static str,
    views: Vec<PictureView>,
}

/// One quantity: its legend, its pictures, its bars.
struct PictureView {
    index: Option<usize>,
    name: Option<String>,
    legend: String,
    layout: &'static str,
    figures: Vec<Figure>,
    note: String,
    bars: Option<String>,
}

struct Figure {
    side: &'static str,
    caption: String,
    label: String,
    width: f32,
    height: f32,
    body: String,
}

#[derive(Template)]
#[template(path = "legend.html")]
struct Legend {
    entries: Vec<Entry>,
}

/// An entry of a legend, with its number of links.
struct Entry {
    class: String,
    sample: String,
    text: String,
    count: Option<String>,
}

/// The machine alone, with its links by kind; the picture is returned for its geometry.
pub fn machine(input: &ReportInput<'_>) -> (String, Option<Picture>) {
    let looks = Looks::new(input.fabric, None, None, &[]).with_signs(&input.signs);
    let picture = crate::draw::picture(&looks, WHOLE[0], WHOLE[1]);
    let entries = crate::draw::legend(&looks).into_iter();
    let legend = Legend {
        entries: entries
            .map(|(mark, text)| entry(mark, text, None, None))
            .chain(sign_entries(&input.signs))
            .collect(),
    };
    let view = PictureView {
        index: None,
        name: None,
        legend: rendered(&legend),
        layout: "stack",
        figures: vec![figure(&picture, "before", "Links by kind".into(), None)],
        note: picture.words.clone(),
        bars: None,
    };
    let page = Pictures {
        heading: "The machine",
        views: vec![view],
    };
    (rendered(&page), Some(picture))
}

/// All quantities; the first picture is returned for its geometry.
pub fn pictures(
    input: &ReportInput<'_>,
    views: &[View<'_>],
    job: &[NodeId],
) -> (String, Option<Picture>) {
    let mut first = None;
    let views = views.iter().enumerate().map(|(i, view)| {
        let (section, picture) = section(input, view, i, job);
        first.get_or_insert(picture);
        section
    });
    let page = Pictures {
        heading: "Where the load is",
        views: views.collect(),
    };
    (rendered(&page), first)
}

/// One quantity, and its first picture.
fn section(
    input: &ReportInput<'_>,
    view: &View<'_>,
    index: usize,
    job: &[NodeId],
) -> (PictureView, Picture) {
    let size = view.size(input);
    let before = view.picture(input, view.before, job, size);
    let after = view.after.map(|a| view.picture(input, a, job, size));
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
    let caption = name(word, labels.map(|l| l.0));
    let worst = |loads: &LinkLoads| {
        let worst = loads.worst(1);
        let worst = worst
            .first()
            .map(|&(link, _)| input.signs.text(loads, link));
        worst.flatten().unwrap_or_else(|| "no load".into())
    };
    let mut figures = vec![figure(&before, "before", caption, Some(worst(view.before)))];
    if let (Some(picture), Some(loads)) = (&after, view.after) {
        let caption = name("After", labels.map(|l| l.1));
        figures.push(figure(picture, "after", caption, Some(worst(loads))));
    }
    let mut note = before.words.clone();
    if !view.before.worst(1).is_empty() {
        note.push_str(&format!(
            " Numbers: the {NUMBERED} worst links, named in the table below."
        ));
    }
    if !view.scale.colours().is_empty() {
        note.push_str(
            " Darker means more: this quantity is no share of a capacity, and its scale ends at the largest value.",
        );
    }
    if !job.is_empty() {
        note.push_str(" Blue: nodes of the job.");
    }
    let section = PictureView {
        index: Some(index),
        name: Some(capital(view.name)),
        legend: legend(view, &input.signs),
        layout: match after.is_some() && size[0] < 1000.0 {
            true => "pair",
            false => "stack",
        },
        figures,
        note,
        bars: Some(bars(input, view)),
    };
    (section, before)
}

fn figure(picture: &Picture, side: &'static str, caption: String, worst: Option<String>) -> Figure {
    Figure {
        side,
        label: match worst {
            Some(worst) => format!("{caption}. Worst: {worst}"),
            None => caption.clone(),
        },
        caption,
        width: picture.width.ceil(),
        height: picture.height.ceil(),
        body: picture.body.clone(),
    }
}

/// The bars of a quantity by dimension and by kind.
pub fn bars(input: &ReportInput<'_>, view: &View<'_>) -> String {
    let groups = [
        ("By dimension", charts::dimensions(input.fabric)),
        ("By kind of link", charts::kinds(input.fabric)),
    ];
    charts::bars(&groups, view)
}

fn entry(mark: Mark, text: String, count: Option<String>, scale: Option<&Scale>) -> Entry {
    Entry {
        class: mark.class().to_string(),
        sample: sample(mark, scale),
        text,
        count,
    }
}

/// The entries of symbols in use.
fn sign_entries(signs: &Signs) -> impl Iterator<Item = Entry> {
    signs.counts().map(|(sign, links)| Entry {
        class: sign.class().to_string(),
        sample: sign_sample(sign),
        text: sign.words().into(),
        count: Some(count(links)),
    })
}

/// The entries of a legend, with their numbers of links.
pub fn legend(view: &View<'_>, signs: &Signs) -> String {
    let scale = &view.scale;
    let links = |loads: &LinkLoads, class: Option<usize>| {
        let of = |v: &f64| (!v.is_nan()).then(|| scale.class(*v));
        loads.values().iter().filter(|v| of(v) == class).count()
    };
    let both = |class: Option<usize>| {
        let before = count(links(view.before, class));
        match view.after {
            Some(after) => format!("{before} → {}", count(links(after, class))),
            None => before,
        }
    };
    let classes = if scale.max > 0.0 { CLASSES } else { 0 };
    let mut rows = vec![(Mark::Idle, scale.idle_text(), both(Some(0)))];
    for class in 1..=classes {
        let text = format!("{} {}", scale.range_text(class), scale.unit_text());
        rows.push((Mark::Load(class as u8), text, both(Some(class))));
    }
    rows.push((Mark::Unknown, "not known".into(), both(None)));
    rows.retain(|(mark, _, counts)| {
        !matches!(counts.as_str(), "0" | "0 → 0") || matches!(mark, Mark::Load(_))
    });
    let entries = rows
        .into_iter()
        .map(|(mark, text, counts)| entry(mark, text, Some(counts), Some(scale)));
    rendered(&Legend {
        entries: entries.chain(sign_entries(signs)).collect(),
    })
}

/// With a capital letter.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}
