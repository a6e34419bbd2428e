//! Flux resource graphs: JGF (`flux ion-resource`, flux-sched), alone or as the `scheduling` of an R version 1.
//!
//! ```text
//! {"graph": {"nodes": [{"id": "1", "metadata": {"type": "node", "name": "node0",
//!                       "paths": {"containment": "/tiny0/rack0/node0"}}}, …], "edges": […]}}
//! ```
//!
//! Containers above nodes (cluster, rack, …) become switches of a tree, vertices of type `node` its hosts. Parts of a
//! node (sockets, cores, GPUs, memories) are not read.

use super::names::{name, note_of};
use super::slurm::{Plan, Switch};
use crate::text::Text;
use hopbyte_fabric::InputError;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Whether a text is such a graph.
pub fn recognise(text: &Text) -> bool {
    let start = &text.bytes()[..text.bytes().len().min(1 << 16)];
    let has = |word: &[u8]| memchr::memmem::find(start, word).is_some();
    start.trim_ascii_start().starts_with(b"{")
        && ((has(b"\"graph\"") && has(b"\"metadata\"") && has(b"\"nodes\"")) || has(b"\"R_lite\""))
}

#[derive(Deserialize)]
struct Resources {
    graph: Option<Graph>,
    /// R version 1.
    scheduling: Option<Scheduling>,
    execution: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Scheduling {
    graph: Option<Graph>,
}

#[derive(Deserialize)]
struct Graph {
    nodes: Vec<Vertex>,
    #[serde(default)]
    edges: Vec<Edge>,
}

#[derive(Deserialize)]
struct Vertex {
    /// A text, and a number in graphs written by hand.
    id: Option<serde_json::Value>,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Edge {
    source: Option<serde_json::Value>,
    target: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    #[serde(default)]
    paths: BTreeMap<String, String>,
}

/// Subsystem of the tree.
const CONTAINMENT: &str = "containment";

/// Reads the tree of containers with its nodes.
pub fn read(text: &Text, notes: &mut Vec<String>) -> Result<Plan, InputError> {
    let read: Resources = text.json("a Flux resource graph")?;
    let graph = read.graph.or_else(|| read.scheduling.and_then(|s| s.graph));
    let Some(graph) = graph else {
        let found = match read.execution {
            Some(_) => {
                "an R without a graph: it lists nodes and cores, not how nodes are connected"
            }
            None => "no graph",
        };
        return Err(text
            .error(found, "a graph of resources")
            .hint("flux ion-resource or the scheduler's R with \"scheduling\" has it"));
    };
    check_edges(text, &graph)?;
    let mut hosts: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut named: BTreeMap<String, String> = BTreeMap::new();
    let mut nameless = Vec::new();
    let mut parts = 0;
    for Vertex { metadata, .. } in graph.nodes {
        if metadata.kind != "node" {
            parts += 1;
            continue;
        }
        let path = metadata.paths.get(CONTAINMENT).map(|p| name(p.as_bytes()));
        let own = metadata.name.map(|n| name(n.as_bytes()));
        // The last part of the path is the name; some writers leave the name out.
        let last = path.as_ref().and_then(|p| p.rsplit('/').next());
        let own = own.filter(|n| !n.is_empty()).or(last.map(str::to_owned));
        match (path, own) {
            (Some(path), Some(host)) if !host.is_empty() => {
                let above = path.rsplit_once('/').map_or("", |(above, _)| above);
                let above = if above.is_empty() { "/" } else { above };
                if let Some(first) = named.insert(host.clone(), path.clone()) {
                    let found = format!("{host} at {first} and at {path}");
                    return Err(text.error(found, "every name of a node once").hint(
                        "hosts are told apart by their names: give each node one of its own",
                    ));
                }
                if hosts
                    .insert(path.clone(), (above.to_owned(), host))
                    .is_some()
                {
                    return Err(text.error(path, "every node once"));
                }
            }
            (path, own) => nameless.push(own.or(path).unwrap_or_default()),
        }
    }
    if hosts.is_empty() {
        return Err(text.error(
            format!("{parts} vertices and no node with a containment path"),
            "vertices of type node",
        ));
    }
    note_of(
        notes,
        &nameless,
        "node has",
        "nodes have",
        "no name or no containment path, and is left out",
    );
    Ok(Plan::Tree(switches(hosts)))
}

/// Refuses edges to vertices that the graph lacks: part of it is missing.
fn check_edges(text: &Text, graph: &Graph) -> Result<(), InputError> {
    let id = |id: &serde_json::Value| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    let ids: HashSet<String> = graph
        .nodes
        .iter()
        .filter_map(|v| Some(id(v.id.as_ref()?)))
        .collect();
    // Without ids there is nothing that edges could name.
    let edges = graph.edges.iter().filter(|_| !ids.is_empty());
    for Edge { source, target } in edges {
        let [source, target] = [source, target].map(|end| end.as_ref().map(id));
        let mut ends = [&source, &target].into_iter().flatten();
        if let Some(missing) = ends.find(|end| !ids.contains(*end)) {
            let from_to = [&source, &target].map(|end| end.as_deref().unwrap_or("?"));
            let found = format!("an edge from {} to {}", from_to[0], from_to[1]);
            let expected = format!("a vertex {missing} among the nodes");
            return Err(text
                .error(found, expected)
                .hint("the graph was cut, or edited in part"));
        }
    }
    Ok(())
}

/// A switch for every container above a node.
fn switches(hosts: BTreeMap<String, (String, String)>) -> Vec<Switch> {
    let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut children: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (above, host) in hosts.into_values() {
        let mut at = above.clone();
        nodes.entry(above).or_default().push(host);
        while let Some((parent, _)) = at.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
            let parent = parent.to_owned();
            if !children.entry(parent.clone()).or_default().insert(at) {
                break;
            }
            at = parent;
        }
    }
    let all: BTreeSet<String> = nodes.keys().chain(children.keys()).cloned().collect();
    all.into_iter()
        .map(|path| Switch {
            nodes: nodes.remove(&path).unwrap_or_default(),
            children: children
                .remove(&path)
                .unwrap_or_default()
                .into_iter()
                .collect(),
            name: path,
            line: 1,
        })
        .collect()
}
