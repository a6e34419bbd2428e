//! A three-dimensional grid seen from one corner: location of the load.

use super::lattice::Lattice;
use super::svg::{self, Anchor, Layer, num};
use super::{Geometry, Looks, Picture};
use hopbyte_fabric::{Direction, End, LinkId};
use std::fmt::Write;

/// Number of routers up to which every link is drawn, beyond it only the worst.
const ALL_LINKS: usize = 700;
/// Links drawn beyond it.
const WORST: usize = 300;
/// Vectors of a step along X, Y and Z on paper, y downwards.
const STEPS: [[f32; 2]; 3] = [[1.0, 0.17], [0.56, -0.36], [0.0, -0.95]];
/// Length of the stroke of a wraparound link.
const STUB: f32 = 0.38;
/// Maximum height.
const HEIGHT: f32 = 430.0;

/// The view, or `None` for fabrics that are not three-dimensional grids.
pub fn picture(looks: &Looks, width: f32) -> Option<Picture> {
    let lattice = Lattice::of(looks.fabric)?;
    let &[nx, ny, nz] = &lattice.dims[..] else {
        return None;
    };
    let view = View::new([nx, ny, nz], width);
    let mut body = String::new();
    view.frame(&mut body);
    let all = looks.fabric.routers().len() <= ALL_LINKS;
    if !all && looks.loads.is_none() {
        return None;
    }
    let mut layer = Layer::new((view.scale / 40.0).clamp(0.4, 1.1));
    for link in chosen(looks, &lattice, all) {
        if let Some(stroke) = view.stroke(looks, &lattice, link) {
            layer.line(looks.mark(link), stroke, 0.0);
        }
    }
    let _ = writeln!(body, "<g class=\"{}\">", looks.colours());
    layer.write(&mut body);
    body.push_str("</g>\n");
    if all {
        view.routers(looks, &lattice, &mut body);
    }
    view.corners(&mut body);
    let words = if all {
        "The same machine from one corner; strokes that end in the open go round to the other side."
            .into()
    } else {
        format!("The machine from one corner, the {WORST} most loaded links between routers.")
    };
    Some(Picture {
        width: view.size[0],
        height: view.size[1],
        body,
        geometry: Geometry::empty(looks.fabric),
        words,
    })
}

/// Links between routers, all of them or the most loaded.
fn chosen(looks: &Looks, lattice: &Lattice, all: bool) -> Vec<LinkId> {
    let between = |l: &LinkId| lattice.direction(*l).is_some();
    match looks.loads {
        Some(loads) if !all => loads
            .worst(usize::MAX)
            .into_iter()
            .map(|(l, _)| l)
            .filter(between)
            .take(WORST)
            .collect(),
        _ => looks.fabric.link_ids().filter(between).collect(),
    }
}

struct View {
    dims: [u32; 3],
    scale: f32,
    origin: [f32; 2],
    size: [f32; 2],
}

impl View {
    fn new(dims: [u32; 3], width: f32) -> Self {
        let far = dims.map(|d| d.max(2) as f32 - 1.0 + 2.0 * STUB);
        let along = |axis: usize| -> (f32, f32) {
            let ends = STEPS.iter().zip(&far).map(|(s, n)| s[axis] * n);
            ends.fold((0.0, 0.0), |(low, high), e| {
                (low + e.min(0.0), high + e.max(0.0))
            })
        };
        let ((x0, x1), (y0, y1)) = (along(0), along(1));
        let pad = 22.0;
        let scale = ((width - 2.0 * pad) / (x1 - x0)).min((HEIGHT - 2.0 * pad) / (y1 - y0));
        Self {
            dims,
            scale,
            origin: [0, 1].map(|axis| {
                let low = [x0, y0][axis];
                let stubs: f32 = STEPS.iter().map(|s| s[axis]).sum();
                pad + (stubs * STUB - low) * scale
            }),
            size: [(x1 - x0) * scale + 2.0 * pad, (y1 - y0) * scale + 2.0 * pad],
        }
    }

    fn at(&self, coord: [f32; 3]) -> [f32; 2] {
        let mut at = self.origin;
        for (step, c) in STEPS.iter().zip(coord) {
            at[0] += step[0] * c * self.scale;
            at[1] += step[1] * c * self.scale;
        }
        at
    }

    fn stroke(&self, looks: &Looks, lattice: &Lattice, link: LinkId) -> Option<[f32; 4]> {
        let direction = lattice.direction(link)?;
        let End::Router(from) = looks.fabric.link(link).from else {
            return None;
        };
        let coord = lattice.coord(from);
        let at = [coord[0] as f32, coord[1] as f32, coord[2] as f32];
        let mut far = at;
        let length = if lattice.wraps(looks.fabric, link) {
            STUB
        } else {
            1.0
        };
        far[direction.dim as usize] += if direction.positive { length } else { -length };
        let ([x1, y1], [x2, y2]) = (self.at(at), self.at(far));
        let n = (x2 - x1).hypot(y2 - y1).max(0.01);
        let aside = 0.05 * self.scale;
        let (ax, ay) = (-(y2 - y1) / n * aside, (x2 - x1) / n * aside);
        Some([x1 + ax, y1 + ay, x2 + ax, y2 + ay])
    }

    fn routers(&self, looks: &Looks, lattice: &Lattice, body: &mut String) {
        let r = (0.07 * self.scale).clamp(0.8, 4.0);
        let mut d = String::new();
        for router in looks.fabric.router_ids() {
            let c = lattice.coord(router);
            let [x, y] = self.at([c[0] as f32, c[1] as f32, c[2] as f32]);
            let side = num(2.0 * r);
            let _ = write!(d, "M{} {}h{side}v{side}h-{side}z", num(x - r), num(y - r));
        }
        let _ = writeln!(
            body,
            "<path class=\"router\" stroke-width=\"0.6\" d=\"{d}\"/>"
        );
    }

    /// The edges of the box.
    fn frame(&self, body: &mut String) {
        let far = self.dims.map(|d| d as f32 - 1.0);
        let mut d = String::new();
        for corner in 0..8u8 {
            let at = |c: u8| {
                let pick = |i: usize| if c >> i & 1 == 1 { far[i] } else { 0.0 };
                self.at([pick(0), pick(1), pick(2)])
            };
            for axis in 0..3 {
                if corner >> axis & 1 == 0 {
                    let ([x1, y1], [x2, y2]) = (at(corner), at(corner | 1 << axis));
                    let _ = write!(d, "M{} {}L{} {}", num(x1), num(y1), num(x2), num(y2));
                }
            }
        }
        let _ = writeln!(body, "<path class=\"frame\" d=\"{d}\"/>");
    }

    /// Names of the axes at their far ends.
    fn corners(&self, body: &mut String) {
        for dim in 0..3 {
            let mut end = [0.0; 3];
            end[dim] = self.dims[dim] as f32 - 1.0;
            let [x, y] = self.at(end);
            let [dx, dy] = [[20.0, 12.0], [16.0, -12.0], [-16.0, -8.0]][dim];
            let text = format!("{} {}", Direction::letter(dim), self.dims[dim] - 1);
            svg::text(body, "t3", x + dx, y + dy, Anchor::Middle, &text);
        }
        let [x, y] = self.at([0.0; 3]);
        svg::text(body, "t3", x - 8.0, y + 14.0, Anchor::Middle, "0");
    }
}

#[cfg(test)]
mod tests {
    use super::super::svg::Mark;
    use super::*;
    use hopbyte_fabric::spec;

    #[test]
    fn only_boxes_are_seen_from_a_corner() {
        let draw = |text: &str| {
            let fabric = spec::fabric(text).unwrap();
            picture(&Looks::new(&fabric, None, None, &[]), 500.0).map(|p| p.body)
        };
        assert!(draw("torus:4x4").is_none());
        let body = draw("torus:4x3x2").unwrap();
        assert!(body.contains(&Mark::Kind(0).class()), "{body}");
    }
}
