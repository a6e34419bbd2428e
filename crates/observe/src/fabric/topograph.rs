//! Topologies of NVIDIA's topograph: models of clusters (YAML), and the answer of its `graph` engine (JSON).
//!
//! ```text
//! switches: {core: {switches: [spine-1]}, spine-1: {switches: [leaf-1]}}
//! blocks: [{switch: leaf-1, nodes: ["n[1-18]"], annotations: {accelerator…/domain: nvl1, …/sub-domain: rack1}}]
//! ```
//!
//! Models before version 0.3 have lists `switches: [{name, switches, capacity_blocks}]` and
//! `capacity_blocks: [{name, type, nvlink, nodes}]`. A model has no speeds.
//!
//! ```text
//! {"instances": [{"id": "n1", "network_layers": ["leaf-1", "spine-1"], "labels": {…}}]}
//! ```

use super::labels::{self, Labels, kind_of};
use super::machine::KnownHost;
use super::names::{name, note_of};
use super::slurm::{Names, Plan, Switch, not_a_tree};
use super::yaml::{self, Value, Yaml};
use crate::text::{Line, Text};
use hopbyte_fabric::InputError;
use std::collections::{HashMap, HashSet};

/// Whether a line begins a part of a model.
pub fn recognise_model(line: Line<'_>) -> bool {
    let begins = ["switches:", "capacity_blocks:", "blocks:", "topology:"];
    let known = |b: &&str| line.bytes.trim_ascii_end().starts_with(b.as_bytes());
    begins.iter().any(known)
}

/// Whether a text is an answer of the `graph` engine.
pub fn recognise_graph(text: &Text) -> bool {
    yaml::is_json_with(text, &["instances", "id"])
        && ["network_layers", "networkLayers"]
            .iter()
            .any(|k| yaml::is_json_with(text, &[k]))
}

/// Whether a text is one that topograph makes its topology of: links of NetQ, or compute nodes of NMX.
pub fn is_source(text: &Text) -> bool {
    let keys = [
        &["compounded_links", "interfaces"],
        &["DomainUUID", "LocationInfo"],
    ];
    keys.iter().any(|keys| yaml::is_json_with(text, *keys))
}

/// A plan with the hosts that the description knows.
pub type Read = (Plan, Vec<KnownHost>);

/// Reads an answer of the `graph` engine.
pub fn read_graph(text: &Text, notes: &mut Vec<String>) -> Result<Read, InputError> {
    let document = yaml::document(text)?;
    let list = document.get("instances").map_or(&[][..], Yaml::items);
    if list.is_empty() {
        return Err(text.error("no instance", "instances with id and network_layers"));
    }
    let (mut nodes, mut hosts, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for instance in list {
        let id = instance.word("id").map(|id| name(id.as_bytes()));
        let id = id.filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| instance.wrong(text, "an instance with an id"))?;
        if !seen.insert(id.clone()) {
            return Err(text.error(id, "every instance once"));
        }
        let layers = instance
            .get("network_layers")
            .or(instance.get("networkLayers"));
        let layers = layers.map(Yaml::words).unwrap_or_default();
        let layers = layers
            .iter()
            .map(|l| name(l.as_bytes()))
            .filter(|l| !l.is_empty());
        let labels = strings(instance.get("labels"));
        let (domain, sub_domain) = labels::domain(&labels);
        let product = instance
            .word("type")
            .or_else(|| labels.get("nvidia.com/gpu.product").map(String::as_str))
            .or_else(|| {
                labels
                    .get("node.kubernetes.io/instance-type")
                    .map(String::as_str)
            });
        let kind = product.and_then(kind_of).copied();
        let domain = domain.or_else(|| instance.word("accelerator").map(str::to_owned));
        nodes.push((id.clone(), layers.collect()));
        hosts.push(KnownHost {
            name: id,
            kind,
            domain,
            sub_domain,
        });
    }
    Ok((Plan::Tree(labels::tree(&nodes, notes)), hosts))
}

/// Texts of a mapping.
pub fn strings(map: Option<&Yaml>) -> Labels {
    let pairs = map.map_or(&[][..], Yaml::pairs);
    let text = |(k, v): &(String, Yaml)| Some((k.clone(), v.text()?.to_owned()));
    pairs.iter().filter_map(text).collect()
}

/// Reads a model.
pub fn read_model(text: &Text, notes: &mut Vec<String>) -> Result<Read, InputError> {
    let yaml = yaml::document(text)?;
    let mut model = Model {
        text,
        names: Names::default(),
        switches: Vec::new(),
        at: HashMap::new(),
        hosts: Vec::new(),
        homeless: Vec::new(),
        bare: Vec::new(),
    };
    let blocks = yaml.get("blocks").or(yaml.get("capacity_blocks"));
    let blocks = blocks.ok_or_else(|| text.error("no blocks", "switches and blocks of nodes"))?;
    model.switches(&yaml)?;
    model.blocks(&yaml, blocks)?;
    note_of(
        notes,
        &model.homeless,
        "block is",
        "blocks are",
        "below no switch: one without cables is assumed for each",
    );
    note_of(
        notes,
        &model.bare,
        "switch has",
        "switches have",
        "no nodes below, left out; was the file cut?",
    );
    let hosts = model.hosts;
    match not_a_tree(&model.switches) {
        None => Ok((Plan::Tree(model.switches), hosts)),
        Some((why, line)) => Err(text.error(why, "a tree of switches").at(line.max(1))),
    }
}

struct Model<'a> {
    text: &'a Text,
    names: Names,
    switches: Vec<Switch>,
    at: HashMap<String, usize>,
    hosts: Vec<KnownHost>,
    homeless: Vec<String>,
    /// Switches without nodes.
    bare: Vec<String>,
}

impl Model<'_> {
    /// The switch of a name; one that is only named is a leaf.
    fn switch(&mut self, called: &str, line: u64) -> usize {
        let called = name(called.as_bytes());
        *self.at.entry(called.clone()).or_insert_with(|| {
            self.switches.push(Switch {
                name: called,
                nodes: Vec::new(),
                children: Vec::new(),
                line,
            });
            self.switches.len() - 1
        })
    }

    /// Switches by name, or in a list with names.
    fn switches(&mut self, yaml: &Yaml) -> Result<(), InputError> {
        let none = Vec::new();
        let mut parents: HashMap<String, String> = HashMap::new();
        let all: Vec<(&str, &Yaml)> = match yaml.get("switches").map(|s| &s.value) {
            Some(Value::Map(pairs)) => pairs.iter().map(|(k, v)| (k.as_str(), v)).collect(),
            Some(Value::List(list)) => {
                let named = |s| Some((Yaml::word(s, "name")?, s));
                let named = list
                    .iter()
                    .map(|s| named(s).ok_or_else(|| s.wrong(self.text, "a switch with a name")));
                named.collect::<Result<_, _>>()?
            }
            _ => none,
        };
        for (called, switch) in all {
            let at = self.switch(called, switch.line);
            for child in switch.get("switches").map(Yaml::words).unwrap_or_default() {
                let below = name(child.as_bytes());
                if let Some(other) = parents.insert(below.clone(), called.to_owned()) {
                    let found = format!("{below} below {other} and {called}");
                    return Err(self
                        .text
                        .error(found, "one switch above every switch")
                        .at(switch.line.max(1)));
                }
                self.switch(&below, switch.line);
                self.switches[at].children.push(below);
            }
        }
        Ok(())
    }

    fn blocks(&mut self, yaml: &Yaml, blocks: &Yaml) -> Result<(), InputError> {
        let mut below: HashMap<String, String> = HashMap::new();
        for switch in yaml.get("switches").map_or(&[][..], Yaml::items) {
            for block in switch
                .get("capacity_blocks")
                .map(Yaml::words)
                .unwrap_or_default()
            {
                below.insert(
                    block.to_owned(),
                    switch.word("name").unwrap_or_default().to_owned(),
                );
            }
        }
        let mut seen = HashSet::new();
        for block in blocks.items() {
            let own = block.word("name").unwrap_or_default();
            let switch = block.word("switch").or(below.get(own).map(String::as_str));
            let nodes = block.get("nodes").map(Yaml::words).unwrap_or_default();
            let nodes = self.names.of(&nodes.join(","));
            let nodes = nodes
                .ok_or_else(|| block.wrong(self.text, "a block with nodes such as node[01-16]"))?;
            let first = nodes.first().cloned().unwrap_or_default();
            let switch = switch.map(str::to_owned).unwrap_or_else(|| {
                let alone = format!("(switch of {})", if own.is_empty() { &first } else { own });
                self.homeless.push(if own.is_empty() {
                    first
                } else {
                    own.to_owned()
                });
                alone
            });
            let at = self.switch(&switch, block.line);
            if !self.switches[at].children.is_empty() {
                let expected = "nodes below a switch without switches below it";
                return Err(self.text.error(switch, expected).at(block.line.max(1)));
            }
            let mut all = strings(block.get("labels"));
            all.extend(strings(block.get("annotations")));
            let (domain, sub_domain) = labels::domain(&all);
            let domain = domain.or_else(|| block.word("nvlink").map(str::to_owned));
            let product = block
                .word("type")
                .or_else(|| all.get("nvidia.com/gpu.product").map(String::as_str))
                .or_else(|| {
                    all.get("node.kubernetes.io/instance-type")
                        .map(String::as_str)
                });
            let kind = product.and_then(kind_of).copied();
            for node in nodes {
                if !seen.insert(node.clone()) {
                    return Err(self
                        .text
                        .error(node, "every node once")
                        .at(block.line.max(1)));
                }
                self.switches[at].nodes.push(node.clone());
                let (domain, sub_domain) = (domain.clone(), sub_domain.clone());
                self.hosts.push(KnownHost {
                    name: node,
                    kind,
                    domain,
                    sub_domain,
                });
            }
        }
        if self.hosts.is_empty() {
            return Err(blocks.wrong(self.text, "blocks of nodes"));
        }
        // A switch whose last switch was left out has nothing below it either.
        loop {
            let is_bare = |s: &Switch| s.nodes.is_empty() && s.children.is_empty();
            let bare: Vec<Switch> = self.switches.extract_if(.., |s| is_bare(s)).collect();
            if bare.is_empty() {
                break;
            }
            let names: HashSet<&str> = bare.iter().map(|s| s.name.as_str()).collect();
            for switch in &mut self.switches {
                switch.children.retain(|c| !names.contains(c.as_str()));
            }
            self.bare.extend(bare.into_iter().map(|s| s.name));
        }
        Ok(())
    }
}
