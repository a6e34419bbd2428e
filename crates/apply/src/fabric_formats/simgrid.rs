//! SimGrid platform files (DTD 4.1).
//!
//! A small machine with one path per pair becomes a zone with `Full` routing: every route link by link, as in
//! hopbyte. Others become a `Dijkstra` zone, in which SimGrid computes shortest paths.

use super::{Vertex, Written, edges, xml};
use hopbyte_fabric::{Fabric, LinkId, Routing};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

/// Largest number of ordered pairs of nodes with explicit routes.
const PAIRS: usize = 1 << 18;

/// Flop/s of every host: SimGrid requires a value, fabrics have none.
const SPEED: &str = "1Gf";

/// Writes a platform.
pub fn platform(fabric: &Fabric, routing: &Routing) -> Written {
    let nodes = fabric.nodes().len();
    let is_full = routing.is_single_path() && nodes.saturating_mul(nodes) <= PAIRS;
    let names = link_names(fabric);
    let mut text = String::from(
        "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n",
    );
    let kind = if is_full { "Full" } else { "Dijkstra" };
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        text,
        "  <zone id=\"{}\" routing=\"{kind}\">",
        xml(fabric.source())
    );
    for node in fabric.nodes() {
        let _ = writeln!(
            text,
            "    <host id=\"{}\" speed=\"{SPEED}\"/>",
            xml(&node.name)
        );
    }
    let mut lost = vec![format!("host speeds are unknown: each is set to {SPEED}")];
    if is_full {
        links(&mut text, fabric, &names);
        full(&mut text, fabric, routing, &names, &mut lost);
    } else {
        for router in fabric.routers() {
            let _ = writeln!(text, "    <router id=\"router {}\"/>", xml(&router.name));
        }
        links(&mut text, fabric, &names);
        dijkstra(&mut text, fabric, &names, &mut lost);
        lost.push(
            "SimGrid computes shortest paths itself: ties, multiple paths and detours differ from the machine's routes"
                .into(),
        );
    }
    text.push_str("  </zone>\n</platform>\n");
    Written {
        bytes: text.into_bytes(),
        lost,
    }
}

/// A unique name for every link.
fn link_names(fabric: &Fabric) -> Vec<String> {
    let mut seen = HashSet::new();
    fabric
        .link_ids()
        .map(|id| {
            let name = fabric.link_name(id);
            let name = if seen.contains(&name) {
                format!("{name} #{id}")
            } else {
                name
            };
            seen.insert(name.clone());
            xml(&name).into_owned()
        })
        .collect()
}

/// One link per direction, with the capacity of its lanes in service; links that are down are left out.
fn links(text: &mut String, fabric: &Fabric, names: &[String]) {
    for (id, name) in fabric.link_ids().zip(names) {
        let link = fabric.link(id);
        if link.is_up() {
            let _ = writeln!(
                text,
                "    <link id=\"{name}\" bandwidth=\"{}Bps\" latency=\"{:e}s\"/>",
                link.capacity().0,
                link.latency.0
            );
        }
    }
}

/// The route of every pair.
fn full(
    text: &mut String,
    fabric: &Fabric,
    routing: &Routing,
    names: &[String],
    lost: &mut Vec<String>,
) {
    let mut route = Vec::new();
    let mut without = 0;
    for from in fabric.node_ids() {
        for to in fabric.node_ids().filter(|&to| to != from) {
            route.clear();
            if routing.route(fabric, from, to, &mut route).is_err() {
                without += 1;
                continue;
            }
            let (a, b) = (&fabric.node(from).name, &fabric.node(to).name);
            one_route(text, a, b, &route, names);
        }
    }
    if without > 0 {
        lost.push(format!("{without} pairs have no route and are left out"));
    }
}

fn one_route(text: &mut String, from: &str, to: &str, links: &[LinkId], names: &[String]) {
    let _ = write!(
        text,
        "    <route src=\"{}\" dst=\"{}\" symmetrical=\"NO\">",
        xml(from),
        xml(to)
    );
    for link in links {
        let _ = write!(text, "<link_ctn id=\"{}\"/>", names[link.index()]);
    }
    text.push_str("</route>\n");
}

/// Every link as a route of one hop. SimGrid allows one route per pair, so the widest of parallel links is used.
fn dijkstra(text: &mut String, fabric: &Fabric, names: &[String], lost: &mut Vec<String>) {
    let name = |v| match v {
        Vertex::Router(r) => format!("router {}", fabric.router(r).name),
        Vertex::Node(n) => fabric.node(n).name.clone(),
    };
    let mut between: BTreeMap<(String, String), LinkId> = BTreeMap::new();
    let mut parallel = 0;
    for edge in edges(fabric) {
        if !fabric.link(edge.link).is_up() {
            continue;
        }
        let pair = (name(edge.from), name(edge.to));
        let known = between.entry(pair).or_insert(edge.link);
        if *known != edge.link {
            parallel += 1;
            if fabric.link(edge.link).capacity() > fabric.link(*known).capacity() {
                *known = edge.link;
            }
        }
    }
    if parallel > 0 {
        lost.push(format!(
            "{parallel} parallel links are on no route: SimGrid has one route per pair"
        ));
    }
    for ((from, to), link) in between {
        one_route(text, &from, &to, &[link], names);
    }
}
