//! The numbers behind the page, for its script: names, places, loads, ranks and flows as JSON.

use super::flows::Flows;
use super::view::{NUMBERED, View};
use super::{Job, ReportInput};
use crate::draw::{Geometry, LinkLoads, Sign, Signs, coordinates, directions, visible};
use hopbyte_fabric::{End, Fabric, LinkId, Placement};
use serde::Serialize;

/// Limit of links with embedded names and places; beyond it only the listed ones are selectable.
pub const MOST_LINKS: usize = 80_000;
/// Links for which the users are kept.
const WITH_USERS: usize = 400;

/// The embedded document.
#[derive(Serialize)]
pub struct Data {
    schema: &'static str,
    /// Names, kinds and ends of all links: a router by number, node n as −2−n, shared hosts as −1.
    links: Links,
    routers: Vec<String>,
    nodes: Nodes,
    /// Places in the picture, by link, router and node: tenths of a pixel, 65535 if not drawn.
    places: Option<Places>,
    views: Vec<Loads>,
    signs: Symbols,
    grid: Option<Grid>,
    ranks: Option<Ranks>,
    users: Vec<Users>,
}

#[derive(Serialize)]
struct Links {
    name: Vec<String>,
    kind: Vec<u16>,
    kinds: Vec<String>,
    from: Vec<i64>,
    to: Vec<i64>,
}

#[derive(Serialize)]
struct Nodes {
    name: Vec<String>,
    router: Vec<u32>,
}

#[derive(Serialize)]
struct Places {
    width: f32,
    height: f32,
    links: String,
    routers: String,
    nodes: String,
}

/// Links drawn with a symbol, by its class.
#[derive(Serialize)]
pub struct Symbols {
    errors: Vec<u32>,
    lanes: Vec<u32>,
    cross: Vec<u32>,
    /// Links of which there may be more errors than counted.
    least: Vec<u32>,
}

impl Symbols {
    /// The links of every symbol.
    pub fn of(signs: &Signs) -> Self {
        let links = |sign| signs.links(sign).into_iter().map(|l| l.0).collect();
        Self {
            errors: links(Sign::Errors),
            lanes: links(Sign::Lanes),
            cross: links(Sign::Down),
            least: signs.least().map(|l| l.0).collect(),
        }
    }
}

#[derive(Serialize)]
struct Loads {
    name: String,
    unit: &'static str,
    max: f64,
    before: String,
    after: Option<String>,
    /// Numbered links of the pictures, worst first.
    numbered_before: Vec<u32>,
    numbered_after: Vec<u32>,
}

#[derive(Serialize)]
struct Grid {
    dims: Vec<u32>,
    coords: String,
    /// Direction index of each link (two per dimension, plus first), 255 for none.
    directions: String,
}

#[derive(Serialize)]
struct Ranks {
    before: Vec<u32>,
    after: Option<Vec<u32>>,
}

/// Sending node, receiving node, bytes.
type Pair = (u32, u32, f64);

/// Flows under one placement, as flat lists.
#[derive(Serialize)]
struct Users {
    /// Link, then pairs of nodes with their bytes.
    of_link: Vec<(u32, Vec<Pair>)>,
    /// Node, then the links it uses most.
    of_node: Vec<(u32, Vec<u32>)>,
}

impl Data {
    /// Gathers all data; `listed` are the links in tables.
    pub fn new(
        input: &ReportInput<'_>,
        views: &[View<'_>],
        geometry: &Geometry,
        size: [f32; 2],
        listed: &[LinkId],
    ) -> Self {
        let fabric = input.fabric;
        let full = fabric.links().len() <= MOST_LINKS;
        Self {
            schema: "hopbyte-report-1",
            links: Links::new(fabric, full, listed),
            routers: fabric.routers().iter().map(|r| r.name.clone()).collect(),
            nodes: Nodes {
                name: fabric.nodes().iter().map(|n| n.name.clone()).collect(),
                router: fabric.nodes().iter().map(|n| n.router.0).collect(),
            },
            places: full.then(|| Places {
                width: size[0],
                height: size[1],
                links: tenths(&geometry.links),
                routers: tenths(&geometry.routers),
                nodes: tenths(&geometry.nodes),
            }),
            views: views.iter().map(Loads::new).collect(),
            signs: Symbols::of(&input.signs),
            grid: if full { Grid::new(fabric) } else { None },
            ranks: input.job.as_ref().map(Ranks::new),
            users: input.job.as_ref().map_or(Vec::new(), |job| {
                let wanted = &listed[..listed.len().min(WITH_USERS)];
                std::iter::once(&job.before)
                    .chain(&job.after)
                    .map(|side| Flows::of(fabric, input.routing, job, side, wanted))
                    .map(Users::new)
                    .collect()
            }),
        }
    }

    /// The document as text that is safe inside a `script` element.
    pub fn json(&self) -> String {
        // Plain numbers and strings cannot fail to serialise.
        let text = serde_json::to_string(self).unwrap_or_default();
        visible(&text).replace('<', "\\u003c")
    }
}

impl Links {
    fn new(fabric: &Fabric, full: bool, listed: &[LinkId]) -> Self {
        let number = |end: End| match end {
            End::Router(r) => i64::from(r.0),
            End::Node(n) => -2 - i64::from(n.0),
            End::Hosts(_) => -1,
        };
        let mut name = vec![String::new(); fabric.links().len()];
        let wanted: Vec<LinkId> = if full {
            fabric.link_ids().collect()
        } else {
            listed.to_vec()
        };
        for l in wanted {
            name[l.index()] = fabric.link_name(l);
        }
        let ends = |end: fn(&hopbyte_fabric::Link) -> End| {
            fabric.links().iter().map(|l| number(end(l))).collect()
        };
        Self {
            name,
            kind: fabric.links().iter().map(|l| l.kind.0).collect(),
            kinds: fabric.kinds().iter().map(|k| k.name.clone()).collect(),
            from: ends(|l| l.from),
            to: ends(|l| l.to),
        }
    }
}

impl Loads {
    fn new(view: &View<'_>) -> Self {
        Self {
            name: view.name.into(),
            unit: view.before.unit_name(),
            max: view.scale.max,
            before: floats(view.before),
            after: view.after.map(floats),
            numbered_before: numbered(view.before),
            numbered_after: view.after.map_or(Vec::new(), numbered),
        }
    }
}

impl Grid {
    fn new(fabric: &Fabric) -> Option<Self> {
        let (dims, coords) = coordinates(fabric)?;
        if dims.len() != 3 {
            return None;
        }
        let coords: Vec<u8> = coords
            .iter()
            .flat_map(|&c| (c as u16).to_le_bytes())
            .collect();
        let directions: Vec<u8> = directions(fabric)?
            .into_iter()
            .map(|d| d.map_or(255, |d| d.index() as u8))
            .collect();
        Some(Self {
            dims,
            coords: base64(&coords),
            directions: base64(&directions),
        })
    }
}

impl Ranks {
    fn new(job: &Job<'_>) -> Self {
        let nodes = |p: &Placement| p.slots().iter().map(|s| s.node.0).collect();
        Self {
            before: nodes(job.before.placement),
            after: job.after.as_ref().map(|a| nodes(a.placement)),
        }
    }
}

impl Users {
    fn new(flows: Flows) -> Self {
        let mut of_link: Vec<_> = flows
            .of_link
            .into_iter()
            .map(|(l, users)| {
                let users = users.into_iter().map(|(a, b, n)| (a.0, b.0, n.round()));
                (l.0, users.collect())
            })
            .collect();
        of_link.sort_by_key(|&(l, _)| l);
        let mut of_node: Vec<(u32, Vec<u32>)> = flows
            .of_node
            .into_iter()
            .map(|(n, links)| (n.0, links.into_iter().map(|l| l.0).collect()))
            .collect();
        of_node.sort_by_key(|&(n, _)| n);
        Self { of_link, of_node }
    }
}

/// Numbered links of a picture, worst first.
pub fn numbered(loads: &LinkLoads) -> Vec<u32> {
    loads.worst(NUMBERED).iter().map(|(l, _)| l.0).collect()
}

/// Values as 32-bit floats, little end first, in base 64; unknown as not-a-number.
pub fn floats(loads: &LinkLoads) -> String {
    let bytes: Vec<u8> = loads
        .values()
        .iter()
        .flat_map(|&v| (v as f32).to_le_bytes())
        .collect();
    base64(&bytes)
}

/// Places in tenths of a pixel as 16-bit numbers, 65535 if not drawn, in base 64.
fn tenths(places: &[[f32; 4]]) -> String {
    let bytes: Vec<u8> = places
        .iter()
        .flatten()
        .flat_map(|&v| {
            let tenths = if v.is_nan() {
                u16::MAX
            } else {
                (v * 10.0).round().clamp(0.0, 65534.0) as u16
            };
            tenths.to_le_bytes()
        })
        .collect();
    base64(&bytes)
}

/// Base 64 (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .enumerate()
            .fold(0u32, |w, (i, &b)| w | u32::from(b) << (16 - 8 * i));
        for i in 0..4 {
            out.push(if i <= chunk.len() {
                LETTERS[(word >> (18 - 6 * i) & 63) as usize] as char
            } else {
                '='
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_follows_the_vectors_of_rfc_4648() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
