//! Numbers on the worst links, as references for a list.

use super::svg::{self, BADGE, num};
use super::{Geometry, Picture};
use hopbyte_fabric::LinkId;
use std::f32::consts::PI;
use std::fmt::Write;

/// Puts `1`, `2`, … beside the given links, apart from each other, inside the picture.
pub fn add(picture: &mut Picture, worst: &[LinkId]) {
    let mut taken: Vec<[f32; 2]> = Vec::new();
    for (rank, link) in worst.iter().enumerate() {
        let stroke = picture.geometry.links[link.index()];
        if stroke[0].is_nan() {
            continue;
        }
        let from = [(stroke[0] + stroke[2]) / 2.0, (stroke[1] + stroke[3]) / 2.0];
        let at = place(from, stroke, &taken, picture);
        taken.push(at);
        let _ = writeln!(
            picture.body,
            "<path class=\"leader\" d=\"M{} {}L{} {}\"/>",
            num(from[0]),
            num(from[1]),
            num(at[0]),
            num(at[1])
        );
        svg::badge(&mut picture.body, at, rank + 1);
    }
}

/// A free place near the middle of a stroke, on its right-hand side if there is room.
fn place(from: [f32; 2], stroke: [f32; 4], taken: &[[f32; 2]], picture: &Picture) -> [f32; 2] {
    let (dx, dy) = (stroke[2] - stroke[0], stroke[3] - stroke[1]);
    let right = dx.atan2(-dy);
    let mut best = (f32::MAX, from);
    for ring in 0..4u8 {
        for turn in [0.0f32, 0.6, -0.6, 1.2, -1.2, 2.0, -2.0, PI] {
            let distance = BADGE + 4.0 + 9.0 * f32::from(ring);
            let angle = right + turn;
            let at = [
                from[0] + distance * angle.cos(),
                from[1] + distance * angle.sin(),
            ];
            let inside = at[0] >= BADGE
                && at[1] >= BADGE
                && at[0] <= picture.width - BADGE
                && at[1] <= picture.height - BADGE;
            let crowd: f32 = taken
                .iter()
                .map(|t| (2.2 * BADGE - (t[0] - at[0]).hypot(t[1] - at[1])).max(0.0))
                .sum();
            let cost = crowd * 10.0
                + distance
                + turn.abs()
                + if inside { 0.0 } else { 1000.0 }
                + covered(at, &picture.geometry);
            if cost < best.0 {
                best = (cost, at);
            }
        }
    }
    best.1
}

/// Penalty of a position on a router.
fn covered(at: [f32; 2], geometry: &Geometry) -> f32 {
    let on = geometry.routers.iter().any(|&[x, y, w, h]| {
        at[0] > x - 3.0 && at[0] < x + w + 3.0 && at[1] > y - 3.0 && at[1] < y + h + 3.0
    });
    if on { 6.0 } else { 0.0 }
}
