//! Slurm's `topology.yaml`: several topologies; the cluster's default is read.
//!
//! ```text
//! - topology: topo1
//!   cluster_default: true
//!   tree:
//!     switches:
//!       - switch: spine
//!         children: leaf[1-2]
//!       - switch: leaf1
//!         nodes: node[01-08]
//! ```
//!
//! Instead of `tree`: `block` (block_sizes, blocks), `ring` (rings), `torus3d` (toruses with dims and nodes),
//! `flat`.

use super::yaml::{self, Value, Yaml};
use super::{Block, Names, Plan, Switch, Torus};
use crate::fabric::names::name;
use crate::text::{Line, Text};
use hopbyte_fabric::InputError;
use std::cell::RefCell;

/// The kinds of topology.
const KINDS: [&str; 5] = ["tree", "block", "ring", "torus3d", "flat"];

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    line.trimmed().starts_with(b"- topology:")
}

/// Reads the cluster's default topology, or the first if none is marked.
pub fn read(text: &Text, notes: &mut Vec<String>) -> Result<Plan, InputError> {
    let reader = Reader {
        text,
        names: RefCell::default(),
    };
    let yaml = yaml::read(text)?;
    let topologies = reader.list(&yaml, "a list of topologies")?;
    let is_default = |t: &&Yaml| {
        let flag = t.get("cluster_default").and_then(Yaml::text);
        flag.is_some_and(|f| f.eq_ignore_ascii_case("true"))
    };
    let chosen = topologies.iter().find(is_default).or(topologies.first());
    let Some(chosen) = chosen else {
        return Err(text.error("no topology", "a list of topologies"));
    };
    let name = |t: &Yaml| {
        t.get("topology")
            .and_then(Yaml::text)
            .unwrap_or("?")
            .to_owned()
    };
    if topologies.len() > 1 {
        let others: Vec<String> = topologies
            .iter()
            .map(name)
            .filter(|n| *n != name(chosen))
            .collect();
        notes.push(format!(
            "topology {} is read; the file has {} too",
            name(chosen),
            others.join(", ")
        ));
    }
    reader.plan(chosen)
}

struct Reader<'a> {
    text: &'a Text,
    names: RefCell<Names>,
}

impl Reader<'_> {
    fn wrong(&self, at: &Yaml, expected: impl Into<String>) -> InputError {
        let found = match &at.value {
            Value::Scalar(text) => text.clone(),
            Value::List(list) => format!("a list of {}", list.len()),
            Value::Map(pairs) => pairs
                .iter()
                .map(|(k, _)| k.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        };
        self.text.error(found, expected).at(at.line)
    }

    fn list<'y>(&self, yaml: &'y Yaml, expected: &str) -> Result<&'y [Yaml], InputError> {
        match &yaml.value {
            Value::List(list) => Ok(list),
            // A single entry may lack its dash.
            Value::Map(_) => Ok(std::slice::from_ref(yaml)),
            Value::Scalar(_) => Err(self.wrong(yaml, expected)),
        }
    }

    fn field<'y>(&self, yaml: &'y Yaml, key: &str) -> Result<&'y Yaml, InputError> {
        yaml.get(key)
            .ok_or_else(|| self.wrong(yaml, format!("a mapping with {key}")))
    }

    fn text(&self, yaml: &Yaml, key: &str) -> Result<String, InputError> {
        let value = self.field(yaml, key)?;
        let text = value.text().map(|t| name(t.as_bytes()));
        text.filter(|t| !t.is_empty())
            .ok_or_else(|| self.wrong(value, format!("a name for {key}")))
    }

    fn names(&self, yaml: &Yaml, key: &str) -> Result<Vec<String>, InputError> {
        let value = self.field(yaml, key)?;
        let names = value.text().and_then(|t| self.names.borrow_mut().of(t));
        names.ok_or_else(|| self.wrong(value, "names such as node[01-16,20],other"))
    }

    fn plan(&self, topology: &Yaml) -> Result<Plan, InputError> {
        let given: Vec<&str> = KINDS
            .into_iter()
            .filter(|k| topology.get(k).is_some_and(|v| !v.is_empty()))
            .collect();
        let [kind] = given[..] else {
            return Err(self.wrong(topology, format!("exactly one of {}", KINDS.join(", "))));
        };
        let content = self.field(topology, kind)?;
        match kind {
            "tree" => self.tree(content),
            "block" => {
                let sizes = self.list(self.field(content, "block_sizes")?, "a list of sizes")?;
                let sizes = sizes.iter().map(|s| {
                    let size = s.text().and_then(|t| t.parse().ok());
                    size.ok_or_else(|| self.wrong(s, "a size"))
                });
                Ok(Plan::Blocks {
                    sizes: sizes.collect::<Result<_, _>>()?,
                    blocks: self.blocks(content, "blocks", "block")?,
                })
            }
            "ring" => Ok(Plan::Rings(self.blocks(content, "rings", "ring")?)),
            "torus3d" => self.toruses(content),
            _ => Err(self
                .wrong(topology, "a topology that names its nodes")
                .hint("a flat topology does not describe the network")),
        }
    }

    fn tree(&self, tree: &Yaml) -> Result<Plan, InputError> {
        let list = self.list(self.field(tree, "switches")?, "a list of switches")?;
        let optional = |switch: &Yaml, key| match switch.get(key) {
            Some(_) => self.names(switch, key),
            None => Ok(Vec::new()),
        };
        let switches = list.iter().map(|switch| {
            let (nodes, children) = (optional(switch, "nodes")?, optional(switch, "children")?);
            if nodes.is_empty() && children.is_empty() {
                return Err(self.wrong(switch, "a switch with nodes or children"));
            }
            Ok(Switch {
                name: self.text(switch, "switch")?,
                nodes,
                children,
                line: switch.line,
            })
        });
        Ok(Plan::Tree(switches.collect::<Result<_, _>>()?))
    }

    fn blocks(&self, yaml: &Yaml, list: &str, key: &str) -> Result<Vec<Block>, InputError> {
        let list = self.list(self.field(yaml, list)?, "a list")?;
        list.iter()
            .map(|block| {
                Ok(Block {
                    name: self.text(block, key)?,
                    nodes: self.names(block, "nodes")?,
                    line: block.line,
                })
            })
            .collect()
    }

    fn toruses(&self, yaml: &Yaml) -> Result<Plan, InputError> {
        let list = self.list(self.field(yaml, "toruses")?, "a list of toruses")?;
        let toruses = list.iter().map(|torus| {
            let dims = self.field(torus, "dims")?;
            let size = |key| {
                let value = self.field(dims, key)?;
                let size = value.text().and_then(|t| t.parse().ok());
                size.filter(|&n: &u32| n > 0)
                    .ok_or_else(|| self.wrong(value, "a size from 1"))
            };
            Ok(Torus {
                name: self.text(torus, "name")?,
                dims: [size("x")?, size("y")?, size("z")?],
                nodes: self.names(torus, "nodes")?,
                line: torus.line,
            })
        });
        Ok(Plan::Toruses(toruses.collect::<Result<_, _>>()?))
    }
}
