//! Hosts with their places and ports, and the bytes that stay inside.

use super::view::{View, WHOLE};
use super::{Job, ReportInput, placement, words};
use crate::draw::{HostBox, LinkLoads, hosts};
use hopbyte_fabric::hosts::Inside;
use hopbyte_fabric::units::{bytes_text, count};
use hopbyte_fabric::{Exchange, Fabric, NodeId, Placement};
use std::collections::{BTreeMap, HashMap};

/// Most hosts that are drawn; the busiest.
const DRAWN: usize = 48;
/// Rows of the table.
const ROWS: usize = 400;

/// The section of a page.
pub struct HostsPart {
    /// What stays inside, in a sentence.
    pub lead: String,
    /// Pictures of each side.
    pub figures: Vec<HostsFigure>,
    /// Labels of the sides.
    pub sides: Vec<String>,
    /// Bytes by host.
    pub rows: Vec<HostRow>,
    /// Hosts that are not listed.
    pub more: usize,
    /// Explanation of the pictures.
    pub note: String,
}

/// A picture of hosts.
pub struct HostsFigure {
    /// `before` or `after`.
    pub side: &'static str,
    /// Its caption.
    pub caption: String,
    /// Width in pixels.
    pub width: f32,
    /// Height in pixels.
    pub height: f32,
    /// SVG elements.
    pub body: String,
}

/// Bytes of a host on every side: those that stay inside, those that leave.
pub struct HostRow {
    /// Its name.
    pub name: String,
    /// Cells.
    pub cells: Vec<String>,
}

/// Bytes that the places of a host send.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    inside: f64,
    leaving: f64,
}

impl Sent {
    fn total(self) -> f64 {
        self.inside + self.leaving
    }

    fn share(self) -> Option<f64> {
        (self.total() > 0.0).then(|| self.inside / self.total())
    }

    fn percent(self) -> String {
        self.share().map_or("–".into(), words::percent)
    }
}

/// Bytes by sending host under a placement.
fn sent<'a>(
    fabric: &'a Fabric,
    inside: &Inside,
    exchange: &Exchange,
    placement: &Placement,
) -> HashMap<&'a str, Sent> {
    let mut hosts: HashMap<&str, Sent> = HashMap::new();
    for (from, message) in exchange.iter() {
        let (a, b) = (placement.node(from), placement.node(message.to));
        let host = hosts.entry(&fabric.node(a).host).or_default();
        if a == b || inside.is_joined(a, b) {
            host.inside += message.bytes;
        } else {
            host.leaving += message.bytes;
        }
    }
    hosts
}

/// The section of a job on described hosts.
pub fn part(input: &ReportInput<'_>, view: &View<'_>, nodes: &[NodeId]) -> Option<HostsPart> {
    let (inside, job) = (input.fabric.inside()?, input.job.as_ref()?);
    let sides = sides(job, view);
    let all: Vec<HashMap<&str, Sent>> = (sides.iter())
        .map(|side| sent(input.fabric, inside, job.exchange, side.placement))
        .collect();
    let names = busiest(input.fabric, nodes, &all);
    if names.is_empty() {
        return None;
    }
    let figures = sides.iter().zip(&all).map(|(side, bytes)| {
        let boxes = boxes(input.fabric, side, bytes, &names[..names.len().min(DRAWN)]);
        let width = WHOLE[0];
        let (height, body) = hosts(input.fabric, side.loads, view.scale, &boxes, width);
        HostsFigure {
            side: side.side,
            caption: side.label.clone(),
            width,
            height: height.ceil(),
            body,
        }
    });
    let row = |&name: &&str| HostRow {
        name: name.to_owned(),
        cells: (all.iter())
            .flat_map(|bytes| {
                let sent = bytes.get(name).copied().unwrap_or_default();
                [
                    bytes_text(sent.inside),
                    bytes_text(sent.leaving),
                    sent.percent(),
                ]
            })
            .collect(),
    };
    Some(HostsPart {
        lead: lead(&all),
        figures: figures.collect(),
        sides: sides.iter().map(|side| side.label.clone()).collect(),
        rows: names.iter().take(ROWS).map(row).collect(),
        more: names.len().saturating_sub(ROWS),
        note: note(names.len()),
    })
}

/// One side of the comparison.
struct Seated<'a> {
    side: &'static str,
    label: String,
    placement: &'a Placement,
    loads: &'a LinkLoads,
}

fn sides<'a>(job: &'a Job<'_>, view: &View<'a>) -> Vec<Seated<'a>> {
    let before = Seated {
        side: "before",
        label: match job.after {
            Some(_) => format!("Before: {}", job.before.label),
            None => job.before.label.clone(),
        },
        placement: job.before.placement,
        loads: view.before,
    };
    let after = job
        .after
        .as_ref()
        .zip(view.after)
        .map(|(after, loads)| Seated {
            side: "after",
            label: format!("After: {}", after.label),
            placement: after.placement,
            loads,
        });
    std::iter::once(before).chain(after).collect()
}

/// Hosts of the job in the order of the fabric; if not all can be drawn, those that send most over their ports first.
fn busiest<'a>(fabric: &'a Fabric, nodes: &[NodeId], all: &[HashMap<&str, Sent>]) -> Vec<&'a str> {
    let described = |n: &&NodeId| fabric.inside().is_some_and(|i| i.unit_of(**n).is_some());
    let mut names: Vec<(NodeId, &str)> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for &node in nodes.iter().filter(described) {
        let host = fabric.node(node).host.as_str();
        if known.insert(host) {
            names.push((node, host));
        }
    }
    names.sort_by_key(|n| n.0);
    if names.len() > DRAWN {
        let leaving = |host: &str| -> f64 {
            all.iter()
                .filter_map(|bytes| bytes.get(host))
                .map(|s| s.leaving)
                .sum()
        };
        names.sort_by(|a, b| leaving(b.1).total_cmp(&leaving(a.1)));
    }
    names.into_iter().map(|n| n.1).collect()
}

fn boxes(
    fabric: &Fabric,
    side: &Seated<'_>,
    bytes: &HashMap<&str, Sent>,
    names: &[&str],
) -> Vec<HostBox> {
    let ranks: BTreeMap<NodeId, Vec<u32>> = placement::by_node(side.placement);
    let text = |place: &NodeId| match ranks.get(place).map(Vec::as_slice) {
        None | Some([]) => String::new(),
        Some([one]) => one.to_string(),
        Some([first, rest @ ..]) => format!("{first}+{}", rest.len()),
    };
    let one = |&name: &&str| {
        let sent = bytes.get(name).copied().unwrap_or_default();
        let places = fabric.places_of_host(name).into_iter();
        let ports = fabric.find_host(name).into_iter();
        HostBox {
            name: name.to_owned(),
            places: places.map(|p| (p, text(&p))).collect(),
            ports: ports
                .filter(|p| p.index() < fabric.network_nodes())
                .collect(),
            inside: sent.share(),
            text: format!(
                "{} inside, {} out",
                bytes_text(sent.inside),
                bytes_text(sent.leaving)
            ),
        }
    };
    names.iter().map(one).collect()
}

fn lead(all: &[HashMap<&str, Sent>]) -> String {
    let sums = all.iter().map(|bytes| {
        bytes.values().fold(Sent::default(), |a, b| Sent {
            inside: a.inside + b.inside,
            leaving: a.leaving + b.leaving,
        })
    });
    let sums: Vec<Sent> = sums.collect();
    let total = bytes_text(sums[0].total());
    match &sums[..] {
        [before, after] => format!(
            "Of {total} between ranks, {} ({}) stay inside (before {}, {}); {} leave by ports (before {}).",
            bytes_text(after.inside),
            after.percent(),
            bytes_text(before.inside),
            before.percent(),
            bytes_text(after.leaving),
            bytes_text(before.leaving)
        ),
        sums => format!(
            "Of {total} between ranks, {} ({}) stay inside; {} leave by ports.",
            bytes_text(sums[0].inside),
            sums[0].percent(),
            bytes_text(sums[0].leaving)
        ),
    }
}

fn note(hosts: usize) -> String {
    let mut text = String::from(
        "A square is a place with its rank, joined above to the links inside (a domain of several hosts included), and the \
         blue mark below it a port with its links out and in; colours are those of the pictures above. The bar is the share \
         of the bytes sent that stays inside.",
    );
    if hosts > DRAWN {
        text.push_str(&format!(
            " Drawn are the {DRAWN} hosts of {} that send most by their ports.",
            count(hosts)
        ));
    }
    text
}
