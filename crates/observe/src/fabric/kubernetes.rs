//! Nodes of a Kubernetes cluster: `kubectl get nodes -o json` (or yaml), alone or in a list with Kueue's `Topology` or
//! Volcano's `HyperNode` objects.
//!
//! Labels give the switches above a node, its NVLink domain and the product of its GPUs (see [`super::labels`]); the number
//! of GPUs is that of its allocatable resources. Nodes without GPUs are left out if others have some.

use super::labels::{self, Labels, kind_of, with_gpus};
use super::machine::KnownHost;
use super::names::{name, note_of};
use super::slurm::Plan;
use super::topograph::{Read, strings};
use super::yaml::{self, Yaml};
use crate::text::Text;
use hopbyte_fabric::InputError;
use hopbyte_fabric::hosts::{HOST_KINDS, Published};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Whether a text is a node or a list of them.
pub fn recognise(text: &Text) -> bool {
    let start = &text.bytes()[..text.bytes().len().min(1 << 16)];
    let has = |word: &[u8]| memchr::memmem::find(start, word).is_some();
    let is_node = || {
        ["Node", "NodeList"].iter().any(|k| {
            let forms = [
                format!("\"kind\": \"{k}\""),
                format!("\"kind\":\"{k}\""),
                format!("kind: {k}\n"),
            ];
            forms.iter().any(|f| has(f.as_bytes()))
        })
    };
    has(b"apiVersion") && has(b"metadata") && is_node()
}

/// Resources that count accelerators.
const RESOURCES: [&str; 9] = [
    "nvidia.com/gpu",
    "amd.com/gpu",
    "google.com/tpu",
    "gpu.intel.com/xe",
    "gpu.intel.com/i915",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "nvidia.com/pgpu",
    "alibabacloud.com/gpu-count",
];

/// Labels with the product of a node's accelerators, or of the node.
const PRODUCTS: [&str; 8] = [
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "accelerator",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
];

/// A node as read.
struct Node {
    name: String,
    labels: Labels,
    gpus: u16,
    ready: bool,
}

/// Reads the nodes.
pub fn read(text: &Text, notes: &mut Vec<String>) -> Result<Read, InputError> {
    let documents = yaml::documents(text)?;
    let mut objects: Vec<&Yaml> = Vec::new();
    for document in &documents {
        match document.get("items") {
            Some(list) => objects.extend(list.items()),
            None => objects.push(document),
        }
    }
    let is = |o: &&Yaml, kind: &str| o.word("kind").unwrap_or("Node") == kind;
    let mut nodes = Vec::new();
    let mut seen = HashSet::new();
    for object in objects.iter().copied().filter(|o| is(o, "Node")) {
        let node = node(text, object)?;
        if !seen.insert(node.name.clone()) {
            return Err(text.error(node.name, "every node once"));
        }
        nodes.push(node);
    }
    if nodes.iter().any(|n| n.gpus > 0) {
        let without: Vec<String> = nodes
            .iter()
            .filter(|n| n.gpus == 0)
            .map(|n| n.name.clone())
            .collect();
        note_of(
            notes,
            &without,
            "node has",
            "nodes have",
            "no GPU, and is left out",
        );
        nodes.retain(|n| n.gpus > 0);
    }
    if nodes.is_empty() {
        return Err(text.error("no node", "objects of kind Node"));
    }
    let waiting: Vec<String> = nodes
        .iter()
        .filter(|n| !n.ready)
        .map(|n| n.name.clone())
        .collect();
    note_of(
        notes,
        &waiting,
        "node is",
        "nodes are",
        "not ready or cordoned, and read like the others",
    );
    let hyper = hyper_nodes(
        objects.iter().copied().filter(|o| is(o, "HyperNode")),
        notes,
    );
    let levels = objects
        .iter()
        .copied()
        .find(|o| is(o, "Topology"))
        .map(kueue_levels);
    let all: Vec<Labels> = nodes.iter().map(|n| n.labels.clone()).collect();
    let family = labels::family(&all, levels.filter(|l| !l.is_empty()));
    let mut placed = Vec::new();
    for node in &nodes {
        let mut layers = chain(&hyper, &node.name);
        if hyper.is_empty() {
            layers = labels::layers(&node.labels, &family);
        }
        placed.push((node.name.clone(), layers));
    }
    drop_single(&mut placed, notes);
    let hosts = known(&nodes, notes);
    Ok((Plan::Tree(labels::tree(&placed, notes)), hosts))
}

fn node(text: &Text, object: &Yaml) -> Result<Node, InputError> {
    let wrong = || object.wrong(text, "a node with metadata and a name");
    let metadata = object.get("metadata").ok_or_else(wrong)?;
    let called = metadata
        .word("name")
        .map(|n| name(n.as_bytes()))
        .filter(|n| !n.is_empty());
    let mut labels = strings(metadata.get("labels"));
    for (key, value) in strings(metadata.get("annotations")) {
        // Annotations hold values that are too long for a label.
        if key.contains("topolog") || key.contains("topograph") {
            labels.entry(key).or_insert(value);
        }
    }
    let status = object.get("status");
    let spec = object.get("spec");
    let conditions = status
        .and_then(|s| s.get("conditions"))
        .map_or(&[][..], Yaml::items);
    let ready = conditions.iter().find(|c| c.word("type") == Some("Ready"));
    let cordoned = spec.and_then(|s| s.word("unschedulable")) == Some("true");
    Ok(Node {
        name: called.ok_or_else(wrong)?,
        gpus: gpus(status, &labels),
        ready: !cordoned && ready.is_none_or(|c| c.word("status") == Some("True")),
        labels,
    })
}

/// Accelerators of a node; with shared ones the devices and not their shares.
fn gpus(status: Option<&Yaml>, labels: &Labels) -> u16 {
    let number = |text: &str| text.parse::<u16>().ok().filter(|&n| n <= 1024);
    let label = |key: &str| labels.get(key).and_then(|v| number(v));
    let shared = label("nvidia.com/gpu.replicas").is_some_and(|n| n > 1);
    let counted = label("nvidia.com/gpu.count");
    if shared && let Some(count) = counted {
        return count;
    }
    for part in ["allocatable", "capacity"] {
        let part = status.and_then(|s| s.get(part));
        let count = |r: &str| {
            part.and_then(|p| p.word(r))
                .and_then(number)
                .filter(|&n| n > 0)
        };
        if let Some(count) = RESOURCES.iter().find_map(|r| count(r)) {
            return count;
        }
    }
    counted.unwrap_or(0)
}

/// Kinds and domains of the nodes.
fn known(nodes: &[Node], notes: &mut Vec<String>) -> Vec<KnownHost> {
    let mut unknown = Vec::new();
    let mut sizes: HashMap<String, usize> = HashMap::new();
    for domain in nodes.iter().filter_map(|n| labels::domain(&n.labels).0) {
        *sizes.entry(domain).or_default() += 1;
    }
    let mut hosts = Vec::new();
    for node in nodes {
        let (domain, sub_domain) = labels::domain(&node.labels);
        let mut kind: Option<Published> = None;
        if node.gpus > 0 {
            let products = PRODUCTS.iter().filter_map(|k| node.labels.get(*k));
            let found = products.clone().find_map(|p| kind_of(p));
            let several = domain
                .as_ref()
                .and_then(|d| sizes.get(d))
                .is_some_and(|&n| n > 1);
            let assumed = if several { "gb200-nvl72" } else { "pcie-gpus" };
            let base = found.or_else(|| {
                let product = products.clone().next().map_or("no product", String::as_str);
                unknown.push(format!("{} ({product})", node.name));
                HOST_KINDS.iter().find(|k| k.name == assumed)
            });
            kind = base.map(|k| with_gpus(k, node.gpus));
        }
        let name = node.name.clone();
        hosts.push(KnownHost {
            name,
            kind,
            domain,
            sub_domain,
        });
    }
    let what = "GPUs of an unknown product: those of an NVLink domain of several nodes are taken as gb200-nvl72, \
                others as joined by PCIe alone (pcie-gpus); --hosts KIND@NODES says otherwise";
    note_of(notes, &unknown, "node has", "nodes have", what);
    hosts
}

/// Labels of Kueue's levels, from the node up, without the host itself.
fn kueue_levels(topology: &Yaml) -> Vec<String> {
    let levels = topology.get("spec").and_then(|s| s.get("levels"));
    let keys = levels.map_or(&[][..], Yaml::items).iter().rev();
    let keys = keys.filter_map(|l| l.word("nodeLabel").or(l.text()));
    keys.filter(|k| *k != "kubernetes.io/hostname")
        .map(str::to_owned)
        .collect()
}

/// Parents by member of Volcano's hyper-nodes.
fn hyper_nodes<'a>(
    objects: impl Iterator<Item = &'a Yaml>,
    notes: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let mut parents = BTreeMap::new();
    let mut skipped = Vec::new();
    for object in objects {
        let own = object
            .get("metadata")
            .and_then(|m| m.word("name"))
            .unwrap_or_default();
        let members = object.get("spec").and_then(|s| s.get("members"));
        for member in members.map_or(&[][..], Yaml::items) {
            let selector = member.get("selector");
            match selector
                .and_then(|s| s.get("exactMatch"))
                .and_then(|e| e.word("name"))
            {
                Some(name) => _ = parents.insert(name.to_owned(), own.to_owned()),
                None => skipped.push(own.to_owned()),
            }
        }
    }
    let what = "members that are no exactMatch, which are not read";
    note_of(notes, &skipped, "HyperNode has", "HyperNodes have", what);
    parents
}

/// Hyper-nodes above a node, nearest first.
fn chain(parents: &BTreeMap<String, String>, node: &str) -> Vec<String> {
    let mut layers: Vec<String> = Vec::new();
    let mut at = node;
    while let Some(next) = parents.get(at).filter(|n| !layers.contains(n)) {
        layers.push(next.clone());
        at = next;
    }
    layers
}

/// Removes a lowest level with one node to each value, which is another name of the node.
fn drop_single(placed: &mut [(String, Vec<String>)], notes: &mut Vec<String>) {
    let mut users: HashMap<String, usize> = HashMap::new();
    for first in placed.iter().filter_map(|p| p.1.first()) {
        *users.entry(first.clone()).or_default() += 1;
    }
    if users.values().all(|&n| n == 1) && placed.iter().all(|p| p.1.len() > 1) && placed.len() > 1 {
        let firsts = placed.iter_mut().map(|(_, layers)| layers.remove(0));
        let firsts: Vec<String> = firsts.collect();
        let what = "lowest label of one node alone: taken as another name of it, not as a switch";
        note_of(notes, &firsts, "value is the", "values are each the", what);
    }
}
