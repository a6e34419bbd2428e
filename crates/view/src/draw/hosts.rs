//! Hosts with their places and ports: inner links above the places, links into the network below.

use super::names::shorten_all;
use super::svg::{self, Anchor, Layer};
use super::{LinkLoads, Looks, Scale};
use hopbyte_fabric::{End, Fabric, LinkId, NodeId};
use std::collections::HashMap;
use std::fmt::Write as _;

/// A host of a picture.
#[derive(Clone, Debug)]
pub struct HostBox {
    /// Its name.
    pub name: String,
    /// Its places, and a short text in each.
    pub places: Vec<(NodeId, String)>,
    /// Its ports.
    pub ports: Vec<NodeId>,
    /// Share of the bytes sent by its places that stays inside; none if they send nothing.
    pub inside: Option<f64>,
    /// The same in words.
    pub text: String,
}

/// Width of a place with its gap.
const COLUMN: f32 = 40.0;
const WIDEST: f32 = 36.0;
/// Height of a host, and the gap between hosts.
const HEIGHT: f32 = 168.0;
const GAP: f32 = 14.0;
/// From the top of a host: its bar, its inner links, its places and its ports.
const BAR: f32 = 26.0;
const BUS: f32 = 58.0;
const PLACE: f32 = 84.0;
const PORT: f32 = 126.0;

/// Inner links at every place and port: those that begin there and those that end there.
type AtEnds = HashMap<NodeId, [Vec<LinkId>; 2]>;

/// Draws hosts with the loads of their links into a page of a width: height and SVG elements.
pub fn hosts(
    fabric: &Fabric,
    loads: &LinkLoads,
    scale: Scale,
    hosts: &[HostBox],
    width: f32,
) -> (f32, String) {
    let looks = Looks::new(fabric, Some(loads), Some(scale), &[]);
    let inner = inner_links(fabric);
    let columns = |h: &HostBox| h.places.len().max(h.ports.len()).max(3) as f32;
    let widest = hosts.iter().map(columns).fold(3.0, f32::max);
    let each = (widest * COLUMN + 16.0).min(width);
    let across = ((width + GAP) / (each + GAP)).floor().max(1.0) as usize;
    let names: Vec<&str> = hosts.iter().map(|h| h.name.as_str()).collect();
    let names = shorten_all(&names, (each / 12.0) as usize);
    let mut body = String::new();
    for (i, (host, name)) in hosts.iter().zip(&names).enumerate() {
        let x = (i % across) as f32 * (each + GAP);
        let y = (i / across) as f32 * (HEIGHT + GAP);
        one(
            &mut body,
            &looks,
            &inner,
            (host, name),
            [x, y, each, HEIGHT],
        );
    }
    let rows = hosts.len().div_ceil(across);
    let body = format!("<g class=\"{}\">\n{body}</g>\n", looks.colours());
    (rows as f32 * (HEIGHT + GAP), body)
}

fn inner_links(fabric: &Fabric) -> AtEnds {
    let mut at = AtEnds::new();
    for link in fabric.link_ids().skip(fabric.network_links()) {
        let ends = [fabric.link(link).from, fabric.link(link).to];
        for (side, end) in ends.into_iter().enumerate() {
            if let End::Node(node) = end {
                at.entry(node).or_default()[side].push(link);
            }
        }
    }
    at
}

fn one(
    out: &mut String,
    looks: &Looks,
    inner: &AtEnds,
    (host, name): (&HostBox, &str),
    area: [f32; 4],
) {
    let [x, y, width, _] = area;
    let _ = writeln!(out, "<g><title>{}</title>", svg::escape(&words(host)));
    svg::rect(out, "panel", area, 6.0);
    svg::text(out, "tb", x + 8.0, y + 17.0, Anchor::Start, name);
    bar(out, host, [x + 8.0, y + BAR, width - 16.0, 8.0]);
    svg::text(
        out,
        "t4",
        x + 8.0,
        y + BAR + 19.0,
        Anchor::Start,
        &host.text,
    );
    let step = (width - 16.0) / host.places.len().max(1) as f32;
    let side = (step - 4.0).min(WIDEST);
    let centre =
        |i: usize, count: usize| x + 8.0 + (i as f32 + 0.5) * (width - 16.0) / count.max(1) as f32;
    let mut layer = Layer::new(0.8);
    let kind = host.places.iter().find_map(|(place, _)| {
        let link = inner.get(place)?[0].first()?;
        Some(looks.fabric.kind(*link).name.clone())
    });
    if let Some(kind) = kind {
        svg::rect(
            out,
            "router",
            [x + 8.0, y + BUS - 6.0, width - 16.0, 11.0],
            3.0,
        );
        svg::text(
            out,
            "t4",
            x + width / 2.0,
            y + BUS + 2.5,
            Anchor::Middle,
            &kind,
        );
    }
    for (i, (place, text)) in host.places.iter().enumerate() {
        let at = centre(i, host.places.len());
        if let Some([leaving, arriving]) = inner.get(place) {
            let (top, low) = (y + BUS + 5.0, y + PLACE);
            layer.line(
                looks.worst_mark(leaving),
                [at - 4.0, low, at - 4.0, top],
                0.0,
            );
            layer.line(
                looks.worst_mark(arriving),
                [at + 4.0, top, at + 4.0, low],
                0.0,
            );
        }
        svg::rect(out, "router", [at - side / 2.0, y + PLACE, side, 22.0], 3.0);
        svg::text(out, "t4", at, y + PLACE + 14.5, Anchor::Middle, text);
    }
    for (i, port) in host.ports.iter().enumerate() {
        let at = centre(i, host.ports.len());
        let own = host.places.iter().any(|(place, _)| place == port);
        let (top, low) = (y + PLACE + 22.0, y + PORT);
        if let Some([leaving, arriving]) = inner.get(port).filter(|_| !own) {
            layer.line(
                looks.worst_mark(arriving),
                [at - 4.0, top, at - 4.0, low],
                0.0,
            );
            layer.line(
                looks.worst_mark(leaving),
                [at + 4.0, low, at + 4.0, top],
                0.0,
            );
        }
        // An adapter that is one place with its GPU touches it.
        let top = if own { y + PLACE + 22.0 } else { low };
        svg::rect(out, "jobmark", [at - 6.0, top, 12.0, 7.0], 1.5);
        let node = looks.fabric.node(*port);
        let (top, low) = (top + 7.0, y + HEIGHT - 4.0);
        layer.line(looks.mark(node.inject), [at - 4.0, top, at - 4.0, low], 3.0);
        layer.line(looks.mark(node.eject), [at + 4.0, low, at + 4.0, top], 3.0);
    }
    layer.write(out);
    out.push_str("</g>\n");
}

/// The share of bytes that stay inside, as a filled part of a bar.
fn bar(out: &mut String, host: &HostBox, [x, y, width, height]: [f32; 4]) {
    svg::rect(out, "router", [x, y, width, height], 2.0);
    if let Some(share) = host.inside {
        svg::rect(out, "jobmark", [x, y, width * share as f32, height], 2.0);
    }
}

fn words(host: &HostBox) -> String {
    let ports = host.ports.len();
    let places = host.places.len();
    format!(
        "{}: {places} places, {ports} ports; {}",
        host.name, host.text
    )
}
