//! Bars by kind and dimension, and the distribution of the loads.

use super::markup::rendered;
use super::view::View;
use crate::draw::{LinkLoads, directions, escape};
use askama::Template;
use hopbyte_fabric::{Direction, Fabric, LinkId};
use std::fmt::Write;

/// Links of one kind or dimension.
pub struct Group {
    /// `X links`, `4xQDR`, …
    pub name: String,
    links: Vec<LinkId>,
}

/// Mean and maximum over the known links of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupSummary {
    mean: f64,
    max: f64,
    known: usize,
}

impl Group {
    fn summary(&self, loads: &LinkLoads) -> Option<GroupSummary> {
        let known: Vec<f64> = self.links.iter().filter_map(|&l| loads.get(l)).collect();
        let max = known.iter().copied().reduce(f64::max)?;
        Some(GroupSummary {
            mean: known.iter().sum::<f64>() / known.len() as f64,
            max,
            known: known.len(),
        })
    }
}

/// Links by kind.
pub fn kinds(fabric: &Fabric) -> Vec<Group> {
    let mut groups: Vec<Group> = fabric
        .kinds()
        .iter()
        .map(|k| Group {
            name: k.name.clone(),
            links: Vec::new(),
        })
        .collect();
    for l in fabric.link_ids() {
        groups[fabric.link(l).kind.index()].links.push(l);
    }
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    groups
}

/// Links by dimension of the grid, and those into and out of nodes; empty without a grid.
pub fn dimensions(fabric: &Fabric) -> Vec<Group> {
    let Some(directions) = directions(fabric) else {
        return Vec::new();
    };
    let mut groups: Vec<Group> = Vec::new();
    let dims = directions.iter().flatten().map(|d| d.dim + 1).max();
    for dim in 0..dims.unwrap_or(0) {
        groups.push(Group {
            name: format!("{} links", Direction::letter(dim as usize)),
            links: Vec::new(),
        });
    }
    for name in ["into the network", "out of the network"] {
        groups.push(Group {
            name: name.into(),
            links: Vec::new(),
        });
    }
    let hosts = groups.len() - 2;
    for l in fabric.link_ids() {
        let group = match (directions[l.index()], fabric.link(l).to) {
            (Some(d), _) => d.dim as usize,
            (None, hopbyte_fabric::End::Router(_)) => hosts,
            (None, _) => hosts + 1,
        };
        groups[group].links.push(l);
    }
    groups
}

#[derive(Template)]
#[template(path = "bars.html")]
struct Bars {
    compared: bool,
    /// The end of the scale.
    top: String,
    tables: Vec<BarTable>,
}

struct BarTable {
    caption: &'static str,
    rows: Vec<BarRow>,
}

struct BarRow {
    class: &'static str,
    /// In the first row of a group.
    group: Option<GroupHead>,
    side: &'static str,
    bar: Option<Bar>,
}

struct GroupHead {
    span: usize,
    name: String,
    links: usize,
}

/// Mean filled and maximum as a tick, in per cent of the scale and in words.
struct Bar {
    mean: String,
    max: String,
    mean_text: String,
    max_text: String,
    known: Option<usize>,
}

/// Tables of bars, with a row for each group and each side.
pub fn bars(tables: &[(&'static str, Vec<Group>)], view: &View<'_>) -> String {
    let table = |(caption, groups): &(&'static str, Vec<Group>)| {
        let groups = groups.iter().filter(|g| !g.links.is_empty());
        (groups.clone().next().is_some()).then(|| BarTable {
            caption,
            rows: groups.flat_map(|group| rows(group, view)).collect(),
        })
    };
    rendered(&Bars {
        compared: view.after.is_some(),
        top: view.before.text(view.scale.max),
        tables: tables.iter().filter_map(table).collect(),
    })
}

/// The rows of a group.
fn rows(group: &Group, view: &View<'_>) -> Vec<BarRow> {
    let sides: Vec<(&'static str, &'static str, &LinkLoads)> = match &view.after {
        Some(after) => vec![("before", "b", view.before), ("after", "a", after)],
        None => vec![("", "b", view.before)],
    };
    let top = view.scale.max.max(f64::MIN_POSITIVE);
    let percent = |v: f64| format!("{:.2}", (v / top * 100.0).clamp(0.0, 100.0));
    let span = sides.len();
    let row =
        |(i, (side, class, loads)): (usize, (&'static str, &'static str, &LinkLoads))| BarRow {
            class,
            group: (i == 0).then(|| GroupHead {
                span,
                name: group.name.clone(),
                links: group.links.len(),
            }),
            side,
            bar: group.summary(loads).map(|s| Bar {
                mean: percent(s.mean),
                max: percent(s.max),
                mean_text: loads.text(s.mean),
                max_text: loads.text(s.max),
                known: (s.known < group.links.len()).then_some(s.known),
            }),
        };
    sides.into_iter().enumerate().map(row).collect()
}

/// Columns of the histogram above zero.
const COLUMNS: usize = 20;

/// Histogram of the loads: counts for zero, and for each twentieth of the scale.
fn counts(loads: &LinkLoads, top: f64) -> [usize; COLUMNS + 1] {
    let mut counts = [0; COLUMNS + 1];
    for &v in loads.values() {
        if v.is_nan() {
            continue;
        }
        let column = if v <= 0.0 || top <= 0.0 {
            0
        } else {
            ((v / top * COLUMNS as f64 - 1e-9).ceil() as usize).clamp(1, COLUMNS)
        };
        counts[column] += 1;
    }
    counts
}

/// The histogram as SVG, heights on a logarithmic scale so that one link can be seen among thousands.
pub fn histogram(view: &View<'_>) -> String {
    let before = counts(view.before, view.scale.max);
    let after = view.after.as_ref().map(|a| counts(a, view.scale.max));
    let most = before
        .iter()
        .chain(after.iter().flatten())
        .copied()
        .max()
        .unwrap_or(1);
    let (left, base, height, pitch) = (44.0, 214.0, 190.0, 31.0);
    let ceiling = (most.max(9) as f64).log10().ceil();
    let y = |n: usize| {
        // One link is drawn slightly above the floor: log 1 is 0.
        let share = if n == 0 {
            0.0
        } else {
            ((n as f64).log10() + 0.18) / (ceiling + 0.18)
        };
        base - height * share
    };
    let mut out = String::from(
        "<svg class=\"chart\" viewBox=\"0 0 720 252\" role=\"img\" aria-label=\"Histogram of link load\">",
    );
    for power in 0..=ceiling as u32 {
        let n = 10usize.pow(power);
        let at = y(n);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{left} {at:.1}H716\"/><text class=\"tick e\" x=\"{:.0}\" y=\"{:.1}\">{}</text>",
            left - 6.0,
            at + 4.0,
            hopbyte_fabric::units::count(n)
        );
    }
    let sides: Vec<(&str, &[usize; COLUMNS + 1])> = match &after {
        Some(after) => vec![("b", &before), ("a", after)],
        None => vec![("b", &before)],
    };
    let wide = 24.0 / sides.len() as f64;
    for (s, (class, counts)) in sides.iter().enumerate() {
        for (column, &n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let x = left + 6.0 + pitch * column as f64 + wide * s as f64;
            let range = match column {
                0 => "nothing".to_owned(),
                c => format!(
                    "{} to {}",
                    view.before
                        .text(view.scale.max * (c - 1) as f64 / COLUMNS as f64),
                    view.before.text(view.scale.max * c as f64 / COLUMNS as f64)
                ),
            };
            let _ = write!(
                out,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}: {} links</title></rect>",
                y(n),
                wide - 1.0,
                base - y(n),
                escape(&range),
                hopbyte_fabric::units::count(n)
            );
        }
    }
    let _ = write!(out, "<path class=\"axis\" d=\"M{left} {base}H716\"/>");
    for (column, text) in [
        (0, "0".to_owned()),
        (5, view.before.text(view.scale.max * 0.25)),
        (10, view.before.text(view.scale.max * 0.5)),
        (15, view.before.text(view.scale.max * 0.75)),
        (20, view.before.text(view.scale.max)),
    ] {
        let x = if column == 0 {
            left + 6.0 + 12.0
        } else {
            left + 6.0 + pitch * (column + 1) as f64 - 3.5
        };
        let anchor = if column == 20 { "tick e" } else { "tick m" };
        let _ = write!(
            out,
            "<text class=\"{anchor}\" x=\"{x:.1}\" y=\"{}\">{}</text>",
            base + 18.0,
            escape(&text)
        );
    }
    out.push_str("</svg>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Unit;

    #[test]
    fn nothing_and_unknown_are_told_apart() {
        let l = LinkLoads::new("x", Unit::Bytes, vec![0.0, f64::NAN, 1.0, 20.0, 0.5]);
        let c = counts(&l, 20.0);
        assert_eq!((c[0], c[1], c[20]), (1, 2, 1));
        assert_eq!(c.iter().sum::<usize>(), 4);
    }
}
