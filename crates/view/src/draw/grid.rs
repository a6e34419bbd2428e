//! Tori and meshes as flat slices side by side: every link of the machine in one picture.
//!
//! Values are easier to read from slices than from a 3D picture. X runs to the right, Y upwards;
//! links of the other dimensions are short oblique strokes at their router. As in right-hand traffic, the
//! stroke on the right-hand side of the direction belongs to that direction of a cable.

use super::lattice::Lattice;
use super::svg::{self, Anchor, Layer};
use super::{Geometry, Looks, Picture, glyph};
use hopbyte_fabric::{Direction, End, LinkId, RouterId};
use std::collections::HashMap;
use std::fmt::Write;

/// Minimum distance of routers at which single links are distinguishable.
const LEAST_PITCH: f32 = 6.0;
/// Largest useful distance of routers.
const MOST_PITCH: f32 = 62.0;
/// Room around the routers of a slice, in pitches.
const MARGIN: f32 = 1.25;
/// Room for a slice's caption.
const CAPTION: f32 = 20.0;
/// Distance of slices.
const GAP: f32 = 10.0;
/// Angles of the oblique strokes of the third, fourth, … dimension.
const ANGLES: [f32; 4] = [45.0, 135.0, 20.0, 70.0];

struct Plan<'a> {
    lattice: &'a Lattice,
    pitch: f32,
    columns: usize,
    slices: usize,
    /// Size of a slice's panel.
    panel: [f32; 2],
}

impl<'a> Plan<'a> {
    fn new(lattice: &'a Lattice, width: f32, height: f32) -> Self {
        let n = |d: usize| lattice.dims.get(d).copied().unwrap_or(1) as f32;
        let slices = lattice.dims.iter().skip(2).map(|&d| d as usize).product();
        let fit = |columns: usize| {
            let free = width - GAP * (columns - 1) as f32;
            let pitch = (free / columns as f32 / (n(0) - 1.0 + 2.0 * MARGIN)).min(MOST_PITCH);
            let panel = [
                pitch * (n(0) - 1.0 + 2.0 * MARGIN),
                pitch * (n(1) - 1.0 + 2.0 * MARGIN) + CAPTION,
            ];
            Self {
                lattice,
                pitch,
                columns,
                slices,
                panel,
            }
        };
        // Prefers large routers and few empty panels, within the height if possible.
        let worth = |plan: &Self| {
            let rows = slices.div_ceil(plan.columns);
            plan.pitch * slices as f32 / (rows * plan.columns) as f32
        };
        (1..=slices)
            .map(fit)
            .filter(|plan| plan.size()[1] <= height)
            .max_by(|a, b| {
                worth(a)
                    .total_cmp(&worth(b))
                    .then(b.columns.cmp(&a.columns))
            })
            .unwrap_or_else(|| fit(slices))
    }

    fn size(&self) -> [f32; 2] {
        let rows = self.slices.div_ceil(self.columns) as f32;
        let columns = self.columns.min(self.slices) as f32;
        [
            columns * (self.panel[0] + GAP) - GAP,
            rows * (self.panel[1] + GAP) - GAP,
        ]
    }

    fn corner(&self, slice: usize) -> [f32; 2] {
        [
            (slice % self.columns) as f32 * (self.panel[0] + GAP),
            (slice / self.columns) as f32 * (self.panel[1] + GAP),
        ]
    }

    fn slice(&self, coord: &[u32]) -> usize {
        coord
            .iter()
            .zip(&self.lattice.dims)
            .skip(2)
            .fold(0, |at, (&c, &d)| at * d as usize + c as usize)
    }

    /// Centre of a router.
    fn at(&self, router: RouterId) -> [f32; 2] {
        let coord = self.lattice.coord(router);
        let [x, y] = self.corner(self.slice(coord));
        let rows = self.lattice.dims.get(1).copied().unwrap_or(1);
        let row = coord.get(1).map_or(0, |&c| rows - 1 - c);
        [
            x + (coord[0] as f32 + MARGIN) * self.pitch,
            y + CAPTION + (row as f32 + MARGIN) * self.pitch,
        ]
    }

    /// Half the side of a router's square.
    fn half(&self) -> f32 {
        0.2 * self.pitch
    }

    /// The stroke of a link, `lane` of several side by side.
    fn stroke(&self, from: RouterId, direction: Direction, wraps: bool, lane: usize) -> [f32; 4] {
        let [x, y] = self.at(from);
        let (r, p) = (self.half(), self.pitch);
        let sign = if direction.positive { 1.0 } else { -1.0 };
        let aside = (0.075 + 0.1 * lane as f32) * p;
        let (unit, from, length) = match direction.dim {
            0 | 1 => {
                let unit = [[sign, 0.0], [0.0, -sign]][direction.dim as usize];
                let length = if wraps { 0.62 * p } else { p - 2.0 * r };
                (unit, r, length)
            }
            dim => {
                let angle = ANGLES[(dim as usize - 2) % ANGLES.len()].to_radians();
                let unit = [sign * angle.cos(), -sign * angle.sin()];
                (unit, 1.25 * r, 0.36 * p)
            }
        };
        let aside = if direction.dim < 2 {
            aside
        } else {
            0.08 * p * lane as f32
        };
        // The right-hand side of the direction, with y pointing down.
        let (ax, ay) = (-unit[1] * aside, unit[0] * aside);
        let (x1, y1) = (x + unit[0] * from + ax, y + unit[1] * from + ay);
        [x1, y1, x1 + unit[0] * length, y1 + unit[1] * length]
    }
}

/// Draws the slices, or `None` if the machine is too large for single links.
pub fn slices(looks: &Looks, lattice: &Lattice, width: f32, height: f32) -> Option<Picture> {
    let plan = Plan::new(lattice, width, height);
    if plan.pitch < LEAST_PITCH {
        return None;
    }
    let mut geometry = Geometry::empty(looks.fabric);
    let mut layer = Layer::new((plan.pitch / 30.0).clamp(0.38, 1.3));
    let mut body = String::new();
    panels(&mut body, &plan);
    let barb = if plan.pitch >= 26.0 {
        0.1 * plan.pitch
    } else {
        0.0
    };
    for (link, stroke) in strokes(looks, &plan) {
        layer.line(looks.mark(link), stroke, barb);
        geometry.links[link.index()] = stroke;
    }
    routers(looks, &plan, &mut layer, &mut body, &mut geometry);
    layer.write(&mut body);
    let job = job_frames(looks, &plan);
    if !job.is_empty() {
        let _ = writeln!(
            body,
            "<path class=\"job\" stroke-width=\"{}\" d=\"{job}\"/>",
            svg::num2((plan.pitch / 18.0).clamp(0.7, 1.8))
        );
    }
    let [width, height] = plan.size();
    Some(Picture {
        width,
        height,
        body,
        geometry,
        words: words(looks, lattice),
    })
}

/// Explanation of the picture, in a sentence or two.
fn words(looks: &Looks, lattice: &Lattice) -> String {
    let mut words = format!(
        "{} routers on a {} grid",
        looks.fabric.routers().len(),
        lattice.size_text()
    );
    if lattice.dims.len() > 1 {
        words.push_str(", X to the right, Y upwards");
    }
    let oblique: Vec<String> = (2..lattice.dims.len())
        .map(|d| Direction::letter(d).to_string())
        .collect();
    if !oblique.is_empty() {
        let letters = oblique.join(", ");
        let _ = write!(
            words,
            ", one slice a {letters}; oblique strokes are {letters} links"
        );
    }
    words.push_str(
        ". Traffic keeps to the right: each cable is two strokes, one a direction; strokes that leave \
         a slice go round to its other side. Bars in a router: left into, right out of the network.",
    );
    words
}

fn panels(body: &mut String, plan: &Plan) {
    let extra: Vec<(usize, u32)> = plan
        .lattice
        .dims
        .iter()
        .copied()
        .enumerate()
        .skip(2)
        .collect();
    for slice in 0..plan.slices {
        let [x, y] = plan.corner(slice);
        svg::rect(body, "panel", [x, y, plan.panel[0], plan.panel[1]], 4.0);
        let mut rest = slice;
        let mut names: Vec<String> = extra
            .iter()
            .rev()
            .map(|&(dim, n)| {
                let c = rest % n as usize;
                rest /= n as usize;
                format!("{} = {c}", Direction::letter(dim))
            })
            .collect();
        names.reverse();
        let small = plan.pitch < 20.0;
        svg::text(
            body,
            if small { "t3" } else { "tb" },
            x + 8.0,
            y + 14.0,
            Anchor::Start,
            &names.join(", "),
        );
    }
    axes(body, plan);
}

/// Coordinates on the first slice: all of them if they fit, else the last of each dimension.
fn axes(body: &mut String, plan: &Plan) {
    let [x, y] = plan.corner(0);
    let p = plan.pitch;
    let n = |d: usize| plan.lattice.dims.get(d).copied().unwrap_or(1);
    let roomy = p >= 22.0;
    let shown = |dim: usize| (0..n(dim)).filter(move |&c| roomy || c + 1 == n(dim));
    let name = |letter: char, c: u32| {
        if c == 0 || !roomy {
            format!("{letter} {c}")
        } else {
            c.to_string()
        }
    };
    for c in shown(0) {
        let at = x + (c as f32 + MARGIN) * p;
        let under = y + plan.panel[1] - 3.0;
        svg::text(body, "t4", at, under, Anchor::Middle, &name('X', c));
    }
    if n(1) > 1 {
        for c in shown(1) {
            let at = y + CAPTION + ((n(1) - 1 - c) as f32 + MARGIN) * p + 3.0;
            let (left, at) = if roomy {
                (x + 4.0, at)
            } else {
                (x + 3.0, at - 0.7 * p)
            };
            svg::text(body, "t4", left, at, Anchor::Start, &name('Y', c));
        }
    }
}

/// Every link between routers with its stroke; parallel cables of one direction lie side by side.
fn strokes<'a>(looks: &'a Looks, plan: &'a Plan) -> impl Iterator<Item = (LinkId, [f32; 4])> + 'a {
    let mut lanes: HashMap<(RouterId, Direction), usize> = HashMap::new();
    looks.fabric.link_ids().filter_map(move |id| {
        let direction = plan.lattice.direction(id)?;
        let End::Router(from) = looks.fabric.link(id).from else {
            return None;
        };
        let lane = lanes.entry((from, direction)).or_default();
        *lane += 1;
        let wraps = plan.lattice.wraps(looks.fabric, id);
        Some((id, plan.stroke(from, direction, wraps, *lane - 1)))
    })
}

fn routers(
    looks: &Looks,
    plan: &Plan,
    layer: &mut Layer,
    body: &mut String,
    geometry: &mut Geometry,
) {
    let r = plan.half();
    let mut squares = String::new();
    for router in looks.fabric.router_ids() {
        let [x, y] = plan.at(router);
        let square = [x - r, y - r, 2.0 * r, 2.0 * r];
        squares.push_str(&glyph::square(square));
        glyph::router(looks, router, square, layer, geometry);
    }
    let width = svg::num2((plan.pitch / 40.0).clamp(0.3, 0.9));
    let _ = writeln!(
        body,
        "<path class=\"router\" stroke-width=\"{width}\" d=\"{squares}\"/>"
    );
}

/// Frames around the routers of the job.
fn job_frames(looks: &Looks, plan: &Plan) -> String {
    let r = plan.half() + (0.05 * plan.pitch).max(0.8);
    let mut frames = String::new();
    for router in looks.fabric.router_ids() {
        if glyph::has_job(looks, router) {
            let [x, y] = plan.at(router);
            frames.push_str(&glyph::square([x - r, y - r, 2.0 * r, 2.0 * r]));
        }
    }
    frames
}
