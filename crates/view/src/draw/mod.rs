//! Pictures of machines and their loads.
//!
//! [`fabric_svg`] draws a whole page: the fabric, a legend with units, the worst links by name.
//! [`picture`] draws the fabric alone, with the place of every link, for pages that add their own
//! words (the report). Grids become slices, dragonflies a matrix of groups, all other fabrics strips
//! of switches by their distance from the hosts. Load is never shown by colour alone: strokes grow
//! wider and meters fuller; unknown loads are dotted.

pub mod badges;
mod compare;
mod curves;
mod dragonfly;
mod glyph;
mod graph;
mod grid;
mod hosts;
mod isometric;
mod lattice;
mod loads;
mod matrix;
mod mesh;
mod names;
mod page;
mod rings;
mod signs;
mod strips;
mod style;
mod svg;

pub use compare::compare_svg;
pub use curves::{Curve, CurvePoint, Panel, curves_svg};
pub use hosts::{HostBox, hosts};
pub use loads::{CLASSES, LinkLoads, Scale, Unit};
pub use page::{DrawOptions, fabric_svg, legend};
pub use signs::{ERRORS, Sign, Signs, sign_sample};
pub use style::sheet;
pub use svg::{Mark, escape, visible};

use hopbyte_fabric::{Direction, Fabric, Family, LinkId, NodeId};
use std::collections::HashSet;

/// A drawing of a fabric without title and legend.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Width in pixels.
    pub width: f32,
    /// Height in pixels.
    pub height: f32,
    /// SVG elements; wrap them in an `svg` element of class `hb` with the size above.
    pub body: String,
    /// Places of all links, routers and nodes.
    pub geometry: Geometry,
    /// Explanation of the picture, in a sentence or two.
    pub words: String,
}

/// Places in a [`Picture`]; not-a-number if something is not drawn.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// Ends of each link's stroke: x1, y1, x2, y2.
    pub links: Vec<[f32; 4]>,
    /// Box of each router: x, y, width, height.
    pub routers: Vec<[f32; 4]>,
    /// Box of each node; nodes that share a router's square have the same one.
    pub nodes: Vec<[f32; 4]>,
}

impl Geometry {
    fn empty(fabric: &Fabric) -> Self {
        let none = [f32::NAN; 4];
        Self {
            links: vec![none; fabric.links().len()],
            routers: vec![none; fabric.routers().len()],
            nodes: vec![none; fabric.nodes().len()],
        }
    }
}

/// All inputs that determine the look of links.
pub struct Looks<'a> {
    fabric: &'a Fabric,
    loads: Option<&'a LinkLoads>,
    scale: Scale,
    signs: Signs,
    job: HashSet<NodeId>,
    kind_looks: Vec<u8>,
}

impl<'a> Looks<'a> {
    /// Looks of a fabric; `scale` overrides the scale of the loads, `job` are nodes to frame.
    pub fn new(
        fabric: &'a Fabric,
        loads: Option<&'a LinkLoads>,
        scale: Option<Scale>,
        job: &[NodeId],
    ) -> Self {
        let none = Scale {
            max: 0.0,
            unit: Unit::Count,
        };
        Self {
            fabric,
            loads,
            scale: scale.or_else(|| Scale::of(loads)).unwrap_or(none),
            signs: Signs::of(fabric, None),
            job: job.iter().copied().collect(),
            kind_looks: kind_looks(fabric),
        }
    }

    fn mark(&self, link: LinkId) -> Mark {
        if self.signs.is_down(link) {
            return Mark::Down;
        }
        match self.loads {
            None => Mark::Kind(self.kind_looks[self.fabric.link(link).kind.index()]),
            Some(loads) => match loads.get(link).map(|v| self.scale.class(v)) {
                None => Mark::Unknown,
                Some(0) => Mark::Idle,
                Some(class) => Mark::Load(class as u8),
            },
        }
    }

    /// CSS class of the loads' colours.
    fn colours(&self) -> &'static str {
        self.loads.map_or("", |_| self.scale.colours())
    }

    /// The most prominent mark of several links.
    fn worst_mark(&self, links: &[LinkId]) -> Mark {
        links
            .iter()
            .map(|&l| self.mark(l))
            .max()
            .unwrap_or(Mark::Unknown)
    }
}

/// Looks of the kinds that vendors name by a colour (Aries: green, black and blue cables).
const COLOURED: [(&str, u8); 3] = [("blue", 0), ("green", 2), ("black", svg::BLACK)];

/// Looks that other kinds have, in their order; later kinds repeat them.
const PLAIN: [u8; 6] = [0, 1, 2, 3, 4, 5];

/// Look of every kind: that of its colour, otherwise fastest first, host links inside boards last.
fn kind_looks(fabric: &Fabric) -> Vec<u8> {
    let mut fastest = vec![0.0f64; fabric.kinds().len()];
    for link in fabric.links() {
        let f = &mut fastest[link.kind.index()];
        *f = f.max(link.nominal.0);
    }
    let mut order: Vec<usize> = (0..fabric.kinds().len()).collect();
    order.sort_by(|&a, &b| {
        let onboard = |k: usize| fabric.kinds()[k].onboard;
        onboard(a)
            .cmp(&onboard(b))
            .then(fastest[b].total_cmp(&fastest[a]))
            .then(a.cmp(&b))
    });
    let coloured = |kind: usize| {
        let name = &fabric.kinds()[kind].name;
        COLOURED.iter().find(|c| c.0 == name).map(|c| c.1)
    };
    let taken: Vec<u8> = order.iter().filter_map(|&k| coloured(k)).collect();
    let mut plain = PLAIN.iter().filter(|l| !taken.contains(l)).cycle();
    let mut looks = vec![0; order.len()];
    for kind in order {
        let other = || plain.next().copied().unwrap_or_default();
        looks[kind] = coloured(kind).unwrap_or_else(other);
    }
    looks
}

/// A small SVG sample of a mark, for legends in HTML, in the colours of a scale.
pub fn sample(mark: Mark, scale: Option<&Scale>) -> String {
    let mut layer = svg::Layer::new(1.1);
    layer.line(mark, [1.0, 8.0, 25.0, 8.0], 0.0);
    layer.meter(mark, [28.0, 2.0, 6.0, 12.0]);
    let colours = scale.map_or("", Scale::colours);
    let mut out = format!(
        "<svg class=\"hb sample {colours}\" viewBox=\"0 0 36 16\" width=\"36\" height=\"16\" aria-hidden=\"true\">",
    );
    layer.write(&mut out);
    out.push_str("</svg>");
    out
}

/// Direction of every link between routers by link id, if the fabric is a grid (declared, or
/// inferred from router names that all cables confirm); `None` for other fabrics.
pub fn directions(fabric: &Fabric) -> Option<Vec<Option<Direction>>> {
    let lattice = lattice::Lattice::of(fabric)?;
    Some(fabric.link_ids().map(|l| lattice.direction(l)).collect())
}

/// Size of the grid and the coordinates of all routers, if the fabric is one (see [`directions`]).
pub fn coordinates(fabric: &Fabric) -> Option<(Vec<u32>, Vec<u32>)> {
    let lattice = lattice::Lattice::of(fabric)?;
    let coords = fabric
        .router_ids()
        .flat_map(|r| lattice.coord(r).to_vec())
        .collect();
    Some((lattice.dims, coords))
}

/// Draws the fabric into at most `width` pixels, about `height` high if possible, with symbols on links that have errors or
/// are down. The same fabric and size give the same places for any loads, so that pictures can be compared.
pub fn picture(looks: &Looks, width: f32, height: f32) -> Picture {
    let mut picture = drawn(looks, width, height);
    let colours = looks.colours();
    if !colours.is_empty() {
        picture.body = format!("<g class=\"{colours}\">\n{}</g>\n", picture.body);
    }
    looks.signs.add(&mut picture);
    picture
}

fn drawn(looks: &Looks, width: f32, height: f32) -> Picture {
    if matches!(
        looks.fabric.family(),
        Family::Aries | Family::Dragonfly | Family::Slingshot
    ) && let Some(picture) = dragonfly::picture(looks, width)
    {
        return picture;
    }
    if let Some(lattice) = lattice::Lattice::of(looks.fabric) {
        return grid::slices(looks, &lattice, width, height)
            .unwrap_or_else(|| rings::picture(looks, &lattice, width));
    }
    match strips::Plan::new(looks.fabric, width) {
        plan if plan.is_tree(looks.fabric) => strips::picture(looks, plan),
        _ if graph::is_readable(looks.fabric) => graph::picture(looks, width, height),
        _ => matrix::picture(looks, width),
    }
}
