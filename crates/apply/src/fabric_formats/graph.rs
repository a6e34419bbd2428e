//! Graphviz and GraphML: routers and nodes as vertices, links as edges.

use super::{Edge, Vertex, Written, edges, xml};
use hopbyte_fabric::{Fabric, LinkId};
use std::fmt::Write;

/// Properties that graphs cannot express.
const LOST: &str = "the routing is left out: a graph has edges only";

fn vertex(v: Vertex) -> String {
    match v {
        Vertex::Router(r) => format!("r{r}"),
        Vertex::Node(n) => format!("n{n}"),
    }
}

/// A Graphviz string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether the reverse link differs only in direction, so that one edge represents both.
fn is_symmetric(fabric: &Fabric, id: LinkId) -> bool {
    fabric.reverse(id).is_some_and(|back| {
        let (a, b) = (fabric.link(id), fabric.link(back));
        fabric.reverse(back) == Some(id)
            && (a.kind, a.nominal, a.latency, a.lanes, a.lanes_in_service)
                == (b.kind, b.nominal, b.latency, b.lanes, b.lanes_in_service)
    })
}

/// Graphviz: an undirected graph with one edge per cable; a directed graph with one edge per direction if the
/// directions of any cable differ.
pub fn dot(fabric: &Fabric) -> Written {
    let undirected = fabric.link_ids().all(|l| is_symmetric(fabric, l));
    let (kind, arrow) = if undirected {
        ("graph", "--")
    } else {
        ("digraph", "->")
    };
    let mut text = format!("{kind} {} {{\n", quoted(fabric.source()));
    for (id, router) in fabric.router_ids().zip(fabric.routers()) {
        let coord = fabric
            .coord(id)
            .map(|c| format!(", coord=\"{}\"", numbers(c)));
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "  r{id} [label={}, shape=box{}];",
            quoted(&router.name),
            coord.unwrap_or_default()
        );
    }
    for (id, node) in fabric.node_ids().zip(fabric.nodes()) {
        let (label, host) = (quoted(&node.name), quoted(&node.host));
        let nid = node.nid.map(|n| format!(", nid={n}")).unwrap_or_default();
        let _ = writeln!(text, "  n{id} [label={label}, host={host}{nid}];");
    }
    for edge in edges(fabric) {
        let first = fabric
            .reverse(edge.link)
            .is_none_or(|back| edge.link < back);
        if !undirected || first {
            dot_edge(&mut text, fabric, &edge, arrow);
        }
    }
    text.push_str("}\n");
    Written {
        bytes: text.into_bytes(),
        lost: vec![LOST.into()],
    }
}

fn dot_edge(text: &mut String, fabric: &Fabric, edge: &Edge, arrow: &str) {
    let link = fabric.link(edge.link);
    let _ = writeln!(
        text,
        "  {} {arrow} {} [kind={}, capacity_bytes_per_s={}, latency_seconds=\"{:e}\", lanes={}, lanes_in_service={}{}];",
        vertex(edge.from),
        vertex(edge.to),
        quoted(&fabric.kind(edge.link).name),
        link.capacity().0,
        link.latency.0,
        link.lanes,
        link.lanes_in_service,
        if link.is_up() { "" } else { ", style=dashed" },
    );
}

fn numbers(list: &[u32]) -> String {
    let words: Vec<String> = list.iter().map(u32::to_string).collect();
    words.join(",")
}

/// Attributes of vertices and edges in GraphML: id, domain, name, type.
const KEYS: [(&str, &str, &str, &str); 12] = [
    ("v0", "node", "type", "string"),
    ("v1", "node", "name", "string"),
    ("v2", "node", "host", "string"),
    ("v3", "node", "nid", "long"),
    ("v4", "node", "coord", "string"),
    ("e0", "edge", "name", "string"),
    ("e1", "edge", "kind", "string"),
    ("e2", "edge", "capacity_bytes_per_s", "double"),
    ("e3", "edge", "latency_seconds", "double"),
    ("e4", "edge", "lanes", "int"),
    ("e5", "edge", "lanes_in_service", "int"),
    ("e6", "edge", "ports", "string"),
];

/// GraphML: one edge per directed link.
pub fn graphml(fabric: &Fabric) -> Written {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
    );
    for (id, about, name, kind) in KEYS {
        let _ = writeln!(
            text,
            "  <key id=\"{id}\" for=\"{about}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>"
        );
    }
    let _ = writeln!(
        text,
        "  <graph id=\"{}\" edgedefault=\"directed\">",
        xml(fabric.source())
    );
    for (id, router) in fabric.router_ids().zip(fabric.routers()) {
        let coord = fabric.coord(id).map(numbers).unwrap_or_default();
        let data = [
            ("v0", "router".to_owned()),
            ("v1", router.name.clone()),
            ("v4", coord),
        ];
        element(&mut text, &format!("node id=\"r{id}\""), "node", &data);
    }
    for (id, node) in fabric.node_ids().zip(fabric.nodes()) {
        let data = [
            ("v0", "node".to_owned()),
            ("v1", node.name.clone()),
            ("v2", node.host.clone()),
            ("v3", node.nid.map(|n| n.to_string()).unwrap_or_default()),
        ];
        element(&mut text, &format!("node id=\"n{id}\""), "node", &data);
    }
    for (i, edge) in edges(fabric).iter().enumerate() {
        let link = fabric.link(edge.link);
        let ports = fabric.ports(edge.link).iter();
        let ports: Vec<String> = ports.map(|p| format!("{}-{}", p.from, p.to)).collect();
        let head = format!(
            "edge id=\"e{i}\" source=\"{}\" target=\"{}\"",
            vertex(edge.from),
            vertex(edge.to)
        );
        let data = [
            ("e0", fabric.link_name(edge.link)),
            ("e1", fabric.kind(edge.link).name.clone()),
            ("e2", link.capacity().0.to_string()),
            ("e3", format!("{:e}", link.latency.0)),
            ("e4", link.lanes.to_string()),
            ("e5", link.lanes_in_service.to_string()),
            ("e6", ports.join(" ")),
        ];
        element(&mut text, &head, "edge", &data);
    }
    text.push_str("  </graph>\n</graphml>\n");
    Written {
        bytes: text.into_bytes(),
        lost: vec![LOST.into()],
    }
}

/// An element with its non-empty data.
fn element(text: &mut String, head: &str, name: &str, data: &[(&str, String)]) {
    let _ = write!(text, "    <{head}>");
    for (key, value) in data.iter().filter(|(_, v)| !v.is_empty()) {
        let _ = write!(text, "<data key=\"{key}\">{}</data>", xml(value));
    }
    let _ = writeln!(text, "</{name}>");
}
