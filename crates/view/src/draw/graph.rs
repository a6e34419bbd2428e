//! Networks without levels or coordinates: switches placed so that distances on paper follow hops.

use super::names::shorten_all;
use super::svg::{self, Anchor, Layer};
use super::{Geometry, Looks, Picture, glyph};
use hopbyte_fabric::{End, Fabric, RouterId};
use std::collections::{BTreeMap, VecDeque};
use std::f32::consts::TAU;
use std::fmt::Write;

/// Rounds of improvement.
const ROUNDS: usize = 120;
/// Distance of unconnected parts, for the layout only, in hops beyond the longest distance.
const APART: f32 = 2.0;

/// Whether single strokes are distinguishable: few switches with few neighbours.
pub fn is_readable(fabric: &Fabric) -> bool {
    let mut pairs: Vec<(RouterId, RouterId)> = fabric
        .links()
        .iter()
        .filter_map(|l| match (l.from, l.to) {
            (End::Router(a), End::Router(b)) => Some((a, b)),
            _ => None,
        })
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    let routers = fabric.routers().len();
    routers <= 24 || (routers <= 300 && pairs.len() <= 8 * routers)
}

/// Draws the graph.
pub fn picture(looks: &Looks, width: f32, height: f32) -> Picture {
    let fabric = looks.fabric;
    let (places, size, hop) = layout(fabric, width, height.min(0.8 * width));
    let half = (0.16 * hop).clamp(2.0, 13.0);
    let mut geometry = Geometry::empty(fabric);
    let mut layer = Layer::new((hop / 45.0).clamp(0.4, 1.2));
    let mut body = String::new();
    strokes(looks, &places, half, hop, &mut layer, &mut geometry);
    layer.write(&mut body);
    let mut layer = Layer::new(1.0);
    let (mut squares, mut job) = (String::new(), String::new());
    for r in fabric.router_ids() {
        let [x, y] = places[r.index()];
        let square = [x - half, y - half, 2.0 * half, 2.0 * half];
        squares.push_str(&glyph::square(square));
        glyph::router(looks, r, square, &mut layer, &mut geometry);
        if glyph::has_job(looks, r) {
            let wide = half + 2.0;
            job.push_str(&glyph::square([x - wide, y - wide, 2.0 * wide, 2.0 * wide]));
        }
    }
    let _ = writeln!(
        body,
        "<path class=\"router\" stroke-width=\"0.7\" d=\"{squares}\"/>"
    );
    layer.write(&mut body);
    if !job.is_empty() {
        let _ = writeln!(
            body,
            "<path class=\"job\" stroke-width=\"1.4\" d=\"{job}\"/>"
        );
    }
    if hop > 38.0 {
        let names: Vec<&str> = fabric.routers().iter().map(|r| r.name.as_str()).collect();
        for (r, name) in fabric.router_ids().zip(shorten_all(&names, 18)) {
            let [x, y] = places[r.index()];
            svg::text(
                &mut body,
                "t4 halo",
                x,
                y + half + 10.0,
                Anchor::Middle,
                &name,
            );
        }
    }
    Picture {
        width: size[0],
        height: size[1],
        body,
        geometry,
        words: format!(
            "{} switches, near where few hops apart. Traffic keeps to the right: each cable is two \
             strokes, one a direction. Bars in a switch: left into, right out of the network.",
            fabric.routers().len()
        ),
    }
}

fn strokes(
    looks: &Looks,
    places: &[[f32; 2]],
    half: f32,
    hop: f32,
    layer: &mut Layer,
    geometry: &mut Geometry,
) {
    let mut lanes: BTreeMap<(RouterId, RouterId), usize> = BTreeMap::new();
    for id in looks.fabric.link_ids() {
        let link = looks.fabric.link(id);
        let (End::Router(a), End::Router(b)) = (link.from, link.to) else {
            continue;
        };
        let lane = lanes.entry((a, b)).or_default();
        *lane += 1;
        let ([x1, y1], [x2, y2]) = (places[a.index()], places[b.index()]);
        let length = (x2 - x1).hypot(y2 - y1).max(0.1);
        let (ux, uy) = ((x2 - x1) / length, (y2 - y1) / length);
        let aside = (0.045 + 0.06 * (*lane as f32 - 1.0)) * hop;
        let inset = (1.25 * half).min(0.3 * length);
        let stroke = [
            x1 + ux * inset - uy * aside,
            y1 + uy * inset + ux * aside,
            x2 - ux * inset - uy * aside,
            y2 - uy * inset + ux * aside,
        ];
        layer.line(looks.mark(id), stroke, if hop > 30.0 { 5.0 } else { 0.0 });
        geometry.links[id.index()] = stroke;
    }
}

/// Places of all switches in a box, its size, and the length of a hop on paper.
fn layout(fabric: &Fabric, width: f32, height: f32) -> (Vec<[f32; 2]>, [f32; 2], f32) {
    let distance = distances(fabric);
    let n = fabric.routers().len();
    let mut at = start(&distance, n);
    for _ in 0..ROUNDS {
        at = improved(&at, &distance, n);
    }
    fit(&at, width, height)
}

/// Hops between all switches, links taken in both directions, row by row.
fn distances(fabric: &Fabric) -> Vec<f32> {
    let n = fabric.routers().len();
    let mut near: Vec<Vec<usize>> = vec![Vec::new(); n];
    for link in fabric.links() {
        if let (End::Router(a), End::Router(b)) = (link.from, link.to) {
            near[a.index()].push(b.index());
            near[b.index()].push(a.index());
        }
    }
    let mut all = vec![f32::NAN; n * n];
    for (from, row) in all.chunks_exact_mut(n).enumerate() {
        row[from] = 0.0;
        let mut queue = VecDeque::from([from]);
        while let Some(here) = queue.pop_front() {
            for &next in &near[here] {
                if row[next].is_nan() {
                    row[next] = row[here] + 1.0;
                    queue.push_back(next);
                }
            }
        }
    }
    let far = all.iter().copied().fold(0.0, f32::max) + APART;
    all.iter_mut().filter(|d| d.is_nan()).for_each(|d| *d = far);
    all
}

/// Initial places: the two directions in which distances vary most (classical scaling, by power
/// iteration from a fixed start), or a circle if all distances are equal.
fn start(distance: &[f32], n: usize) -> Vec<[f32; 2]> {
    let square = |i: usize, j: usize| distance[i * n + j].powi(2);
    let mean: Vec<f32> = (0..n)
        .map(|i| (0..n).map(|j| square(i, j)).sum::<f32>() / n as f32)
        .collect();
    let all = mean.iter().sum::<f32>() / n as f32;
    let product = |v: &[f32]| -> Vec<f32> {
        (0..n)
            .map(|i| {
                (0..n)
                    .map(|j| -0.5 * (square(i, j) - mean[i] - mean[j] + all) * v[j])
                    .sum()
            })
            .collect()
    };
    let mut axes: Vec<(Vec<f32>, f32)> = Vec::new();
    for axis in 0..2 {
        let mut v: Vec<f32> = (0..n)
            .map(|i| (TAU * 0.618_034 * (i + 1) as f32 * (axis + 1) as f32).sin())
            .collect();
        let mut strength = 0.0;
        for _ in 0..60 {
            for (other, _) in &axes {
                let along: f32 = v.iter().zip(other).map(|(a, b)| a * b).sum();
                v.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
            let next = product(&v);
            strength = next.iter().map(|x| x * x).sum::<f32>().sqrt();
            if strength <= 1e-6 {
                break;
            }
            v = next.iter().map(|x| x / strength).collect();
        }
        axes.push((v, strength.max(0.0).sqrt()));
    }
    (0..n)
        .map(|i| {
            // A small circle component separates switches with equal places on the two axes.
            let angle = TAU * i as f32 / n as f32;
            [
                axes[0].0[i] * axes[0].1 + 0.15 * angle.cos(),
                axes[1].0[i] * axes[1].1 + 0.15 * angle.sin(),
            ]
        })
        .collect()
}

/// One round of stress majorisation with weights of one over the squared distance (Gansner, Koren
/// and North, Graph Drawing by Stress Majorization, 2004), place by place.
fn improved(at: &[[f32; 2]], distance: &[f32], n: usize) -> Vec<[f32; 2]> {
    (0..n)
        .map(|i| {
            let (mut sum, mut weights) = ([0.0f32; 2], 0.0f32);
            for j in (0..n).filter(|&j| j != i) {
                let d = distance[i * n + j];
                let w = 1.0 / (d * d);
                let (dx, dy) = (at[i][0] - at[j][0], at[i][1] - at[j][1]);
                let length = dx.hypot(dy).max(1e-4);
                sum[0] += w * (at[j][0] + d * dx / length);
                sum[1] += w * (at[j][1] + d * dy / length);
                weights += w;
            }
            if weights > 0.0 {
                sum.map(|s| s / weights)
            } else {
                at[i]
            }
        })
        .collect()
}

/// Rotates, scales and moves the places into the box.
fn fit(at: &[[f32; 2]], width: f32, height: f32) -> (Vec<[f32; 2]>, [f32; 2], f32) {
    let pad = 34.0;
    let range = |axis: usize| {
        at.iter().fold((f32::MAX, f32::MIN), |(low, high), p| {
            (low.min(p[axis]), high.max(p[axis]))
        })
    };
    let ((x0, x1), (y0, y1)) = (range(0), range(1));
    let hop = ((width - 2.0 * pad) / (x1 - x0).max(0.5))
        .min((height - 2.0 * pad) / (y1 - y0).max(0.5))
        .min(110.0);
    let places = at
        .iter()
        .map(|p| [(p[0] - x0) * hop + pad, (p[1] - y0) * hop + pad])
        .collect();
    let size = [(x1 - x0) * hop + 2.0 * pad, (y1 - y0) * hop + 2.0 * pad];
    (places, size, hop)
}
