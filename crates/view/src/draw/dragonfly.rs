//! Dragonflies: traffic between groups, and loads of every router's links by kind.

use super::svg::{self, Anchor, Layer, Mark, num};
use super::{Geometry, Looks, Picture, glyph};
use hopbyte_fabric::{End, Fabric, KindId, LinkId, RouterId};
use std::collections::BTreeMap;
use std::f32::consts::TAU;
use std::fmt::Write;

const GAP: f32 = 14.0;
const CAPTION: f32 = 20.0;
/// Side of the matrix and of the circle.
const SIDE: f32 = 420.0;
/// Pairs of groups up to which the circle includes those without load.
const MOST_IDLE: usize = 600;

/// Groups of a fabric with the group as first coordinate.
struct Groups {
    /// Number of each group in the machine's numbering (Edison has no group 12).
    numbers: Vec<u32>,
    /// Position in `numbers` by router.
    of: Vec<usize>,
    /// Row and column of each router in its group.
    seat: Vec<[u32; 2]>,
    /// Rows and columns of a group.
    size: [u32; 2],
}

impl Groups {
    fn of(fabric: &Fabric) -> Option<Self> {
        let coords: Vec<&[u32]> = fabric
            .router_ids()
            .map(|r| fabric.coord(r))
            .collect::<Option<_>>()?;
        let mut numbers: Vec<u32> = coords
            .iter()
            .map(|c| c.first().copied())
            .collect::<Option<_>>()?;
        let raw = numbers.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let of = raw
            .iter()
            .map(|g| numbers.binary_search(g).unwrap_or(0))
            .collect();
        let seat: Vec<[u32; 2]> = coords
            .iter()
            .map(|c| match c[1..] {
                [] => [0, 0],
                [column] => [0, column],
                [row, column, ..] => [row, column],
            })
            .collect();
        let size = [0, 1].map(|i| seat.iter().map(|s| s[i] + 1).max().unwrap_or(1));
        Some(Self {
            numbers,
            of,
            seat,
            size,
        })
    }

    fn between(&self, fabric: &Fabric, link: LinkId) -> Option<(usize, usize)> {
        match (fabric.link(link).from, fabric.link(link).to) {
            (End::Router(a), End::Router(b)) => Some((self.of[a.index()], self.of[b.index()])),
            _ => None,
        }
    }
}

/// Draws the picture, or `None` for a fabric without group coordinates.
pub fn picture(looks: &Looks, width: f32) -> Option<Picture> {
    let groups = Groups::of(looks.fabric)?;
    let mut body = String::new();
    let mut geometry = Geometry::empty(looks.fabric);
    let mut layer = Layer::new(0.8);
    let mut y = 0.0;
    if groups.numbers.len() > 1 {
        let mut pairs: BTreeMap<(usize, usize), Vec<LinkId>> = BTreeMap::new();
        for link in looks.fabric.link_ids() {
            if let Some(pair) = groups.between(looks.fabric, link) {
                pairs.entry(pair).or_default().push(link);
            }
        }
        let left = (width / 2.0 - SIDE - GAP).max(0.0);
        matrix(
            looks,
            &groups,
            &pairs,
            left,
            &mut layer,
            &mut body,
            &mut geometry,
        );
        circle(
            looks,
            &groups,
            &pairs,
            width / 2.0 + GAP,
            &mut layer,
            &mut body,
        );
        y = SIDE + CAPTION + GAP;
    }
    let height = seats(
        looks,
        &groups,
        [width, y],
        &mut layer,
        &mut body,
        &mut geometry,
    );
    layer.write(&mut body);
    let kinds: Vec<&str> = kinds(looks.fabric)
        .iter()
        .map(|k| looks.fabric.kinds()[k.index()].name.as_str())
        .collect();
    Some(Picture {
        width,
        height,
        body,
        geometry,
        words: format!(
            "{} routers in {} groups. Matrix and circle: the worst link from group to group, on the \
             diagonal the worst inside a group. Below, every router by chassis (down) and slot \
             (right) with one bar a kind of link, the worst that leaves it: {}.",
            looks.fabric.routers().len(),
            groups.numbers.len(),
            kinds.join(", ")
        ),
    })
}

fn matrix(
    looks: &Looks,
    groups: &Groups,
    pairs: &BTreeMap<(usize, usize), Vec<LinkId>>,
    left: f32,
    layer: &mut Layer,
    body: &mut String,
    geometry: &mut Geometry,
) {
    let n = groups.numbers.len();
    let label = 26.0;
    let cell = (SIDE - label) / n as f32;
    let (x0, y0) = (left + label, CAPTION + label);
    svg::text(
        body,
        "tb",
        left,
        13.0,
        Anchor::Start,
        "From group (row) to group (column)",
    );
    svg::rect(
        body,
        "panel",
        [x0, y0, cell * n as f32, cell * n as f32],
        0.0,
    );
    if cell >= 9.0 {
        for (i, number) in groups.numbers.iter().enumerate() {
            let middle = (i as f32 + 0.5) * cell;
            let text = number.to_string();
            svg::text(body, "t4", x0 + middle, y0 - 5.0, Anchor::Middle, &text);
            svg::text(body, "t4", x0 - 5.0, y0 + middle + 3.0, Anchor::End, &text);
        }
    }
    for (&(from, to), links) in pairs {
        let (x, y) = (x0 + to as f32 * cell, y0 + from as f32 * cell);
        let inset = 0.08 * cell;
        let side = cell - 2.0 * inset;
        layer.meter(looks.worst_mark(links), [x + inset, y + inset, side, side]);
        if from == to {
            let _ = writeln!(
                body,
                "<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                num(x),
                num(y),
                num(cell),
                num(cell)
            );
        } else {
            for link in links {
                geometry.links[link.index()] = [x, y + cell / 2.0, x + cell, y + cell / 2.0];
            }
        }
    }
}

fn circle(
    looks: &Looks,
    groups: &Groups,
    pairs: &BTreeMap<(usize, usize), Vec<LinkId>>,
    left: f32,
    layer: &mut Layer,
    body: &mut String,
) {
    let n = groups.numbers.len();
    let radius = SIDE / 2.0 - 26.0;
    let (cx, cy) = (left + SIDE / 2.0, CAPTION + SIDE / 2.0);
    svg::text(
        body,
        "tb",
        left,
        13.0,
        Anchor::Start,
        "The same round the machine",
    );
    let at = |turn: f32, r: f32| {
        let angle = TAU * turn / n as f32 - TAU / 4.0;
        [cx + r * angle.cos(), cy + r * angle.sin()]
    };
    for (i, number) in groups.numbers.iter().enumerate() {
        let [x, y] = at(i as f32, radius + 14.0);
        if n <= 80 {
            svg::text(body, "t4", x, y + 3.0, Anchor::Middle, &number.to_string());
        }
    }
    for (&(from, to), links) in pairs.iter().filter(|((a, b), _)| a != b) {
        let mark = looks.worst_mark(links);
        if mark <= Mark::Idle && pairs.len() > MOST_IDLE {
            continue;
        }
        // The two directions have separate ends and bend to their right.
        let [x1, y1] = at(from as f32 + 0.12, radius);
        let [x2, y2] = at(to as f32 - 0.12, radius);
        let (mx, my) = ((x1 + x2) / 2.0, (y1 + y2) / 2.0);
        let pull = 0.45;
        let (qx, qy) = (mx + (cx - mx) * pull, my + (cy - my) * pull);
        let data = format!(
            "M{} {}Q{} {} {} {}",
            num(x1),
            num(y1),
            num(qx),
            num(qy),
            num(x2),
            num(y2)
        );
        layer.path(mark, &data);
    }
    let _ = writeln!(
        body,
        "<circle class=\"frame\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>",
        num(cx),
        num(cy),
        num(radius)
    );
}

/// Kinds in the order of the bars.
fn kinds(fabric: &Fabric) -> Vec<KindId> {
    (0..fabric.kinds().len()).map(KindId::of).collect()
}

/// All groups as arrays of routers; returns the bottom.
fn seats(
    looks: &Looks,
    groups: &Groups,
    [width, top]: [f32; 2],
    layer: &mut Layer,
    body: &mut String,
    geometry: &mut Geometry,
) -> f32 {
    let kinds = kinds(looks.fabric);
    let [rows, columns] = groups.size;
    let count = groups.numbers.len() as f32;
    let per_row = (1..=groups.numbers.len())
        .find(|&c| {
            let cell = cell_width(width, c, columns);
            (count / c as f32).ceil() * (rows as f32 * cell + CAPTION + GAP) < 900.0
        })
        .unwrap_or(groups.numbers.len());
    let cell = cell_width(width, per_row, columns).max(3.0);
    let panel = [columns as f32 * cell, rows as f32 * cell + CAPTION];
    let corner = |g: usize| {
        [
            (g % per_row) as f32 * (panel[0] + GAP),
            top + (g / per_row) as f32 * (panel[1] + GAP),
        ]
    };
    for (g, number) in groups.numbers.iter().enumerate() {
        let [x, y] = corner(g);
        svg::rect(
            body,
            "panel",
            [x, y + CAPTION, panel[0], panel[1] - CAPTION],
            2.0,
        );
        svg::text(
            body,
            "tb",
            x,
            y + 14.0,
            Anchor::Start,
            &format!("Group {number}"),
        );
    }
    let mut job = String::new();
    for router in looks.fabric.router_ids() {
        let [x, y] = corner(groups.of[router.index()]);
        let [row, column] = groups.seat[router.index()];
        let seat = [
            x + column as f32 * cell,
            y + CAPTION + row as f32 * cell,
            cell,
            cell,
        ];
        geometry.routers[router.index()] = seat;
        bars(looks, &kinds, router, seat, layer, geometry);
        if glyph::has_job(looks, router) {
            let side = cell - 1.0;
            job.push_str(&glyph::square([seat[0] + 0.5, seat[1] + 0.5, side, side]));
        }
    }
    if !job.is_empty() {
        let _ = writeln!(
            body,
            "<path class=\"job\" stroke-width=\"1.2\" d=\"{job}\"/>"
        );
    }
    corner(groups.numbers.len() - 1)[1] + panel[1]
}

fn cell_width(width: f32, per_row: usize, columns: u32) -> f32 {
    ((width - GAP * (per_row as f32 - 1.0)) / per_row as f32 / columns as f32).min(34.0)
}

/// One bar per kind: the worst link of that kind that leaves the router (or its hosts).
fn bars(
    looks: &Looks,
    kinds: &[KindId],
    router: RouterId,
    [x, y, w, h]: [f32; 4],
    layer: &mut Layer,
    geometry: &mut Geometry,
) {
    let inset = 0.1 * w;
    let pitch = (w - 2.0 * inset) / kinds.len() as f32;
    let nodes = looks.fabric.nodes_on(router);
    let mut links: Vec<LinkId> = looks.fabric.links_from(router).to_vec();
    links.extend(nodes.iter().map(|&n| looks.fabric.node(n).inject));
    links.extend(nodes.iter().map(|&n| looks.fabric.node(n).eject));
    for (i, kind) in kinds.iter().enumerate() {
        let of_kind: Vec<LinkId> = links
            .iter()
            .copied()
            .filter(|&l| looks.fabric.link(l).kind == *kind)
            .collect();
        if of_kind.is_empty() {
            continue;
        }
        let left = x + inset + i as f32 * pitch;
        let bar = [left, y + inset, 0.8 * pitch, h - 2.0 * inset];
        layer.meter(looks.worst_mark(&of_kind), bar);
        for link in of_kind {
            let place = &mut geometry.links[link.index()];
            if place[0].is_nan() {
                *place = [
                    left + 0.4 * pitch,
                    bar[1],
                    left + 0.4 * pitch,
                    bar[1] + bar[3],
                ];
            }
        }
    }
    for &n in nodes {
        geometry.nodes[n.index()] = [x, y, w, h];
    }
}
