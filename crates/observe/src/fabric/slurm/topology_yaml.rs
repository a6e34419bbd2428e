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

use super::{Block, EXPECTED, LIST, MOST_NAMES, Names, Plan, REFUSED, Switch, Torus, not_a_tree};
use crate::fabric::names::{name, note_of};
use crate::fabric::yaml::{self, Value, Yaml};
use crate::text::{Line, Text};
use hopbyte_fabric::InputError;
use hopbyte_fabric::bounds::product;
use std::cell::RefCell;

/// The kinds of topology.
const KINDS: [&str; 5] = ["tree", "block", "ring", "torus3d", "flat"];

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    // A single topology may lack its dash; keys come in any order. Models of topograph begin with the name of a plugin
    // (`topology: "topology/block"`).
    let (start, is_entry) = match line.bytes.strip_prefix(b"- ") {
        Some(start) => (start, true),
        None => (line.bytes, false),
    };
    let Some(colon) = memchr::memchr(b':', start) else {
        return false;
    };
    let (key, value) = (start[..colon].trim_ascii(), start[colon + 1..].trim_ascii());
    let is_name = !value.is_empty() && memchr::memchr(b'/', value).is_none();
    (is_entry || is_name)
        && matches!(
            key,
            b"topology" | b"cluster_default" | b"\"topology\"" | b"\"cluster_default\""
        )
}

/// Reads the cluster's default topology, or the first if none is marked.
pub fn read(text: &Text, notes: &mut Vec<String>) -> Result<Plan, InputError> {
    let reader = Reader {
        text,
        names: RefCell::default(),
    };
    let yaml = yaml::read(text)?;
    let topologies = reader.list(&yaml, "a list of topologies")?;
    let mut chosen = None;
    for topology in topologies {
        let flag = topology.get("cluster_default").filter(|f| !f.is_empty());
        if flag.map_or(Ok(false), |f| reader.truth(f))? {
            chosen.get_or_insert(topology);
        }
    }
    let Some(chosen) = chosen.or(topologies.first()) else {
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
    // Slurm loads all of them, and none if one is wrong.
    for other in topologies.iter().filter(|t| !std::ptr::eq(*t, chosen)) {
        if reader.kind(other)? != "flat" {
            reader.plan(other, &mut Vec::new())?.check(text)?;
        }
    }
    reader.plan(chosen, notes)
}

struct Reader<'a> {
    text: &'a Text,
    names: RefCell<Names>,
}

impl Reader<'_> {
    fn wrong(&self, at: &Yaml, expected: impl Into<String>) -> InputError {
        at.wrong(self.text, expected)
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

    /// A truth value in any of the words that Slurm takes for one.
    fn truth(&self, yaml: &Yaml) -> Result<bool, InputError> {
        let word = yaml.text().map(str::to_ascii_lowercase);
        match word.as_deref() {
            Some("true" | "t" | "yes" | "y" | "on" | "1") => Ok(true),
            Some("false" | "f" | "no" | "n" | "off" | "0") => Ok(false),
            _ => Err(self.wrong(yaml, "true or false (yes or no, on or off)")),
        }
    }

    fn names(&self, yaml: &Yaml, key: &str) -> Result<Vec<String>, InputError> {
        let value = self.field(yaml, key)?;
        let of: fn(&mut Names, &str) -> Option<Vec<String>> = match key {
            "children" => Names::of,
            _ => Names::nodes,
        };
        let names = value.text();
        let names = names.and_then(|t| of(&mut self.names.borrow_mut(), t));
        names.ok_or_else(|| {
            self.wrong(value, "names such as node[01-16,20],other")
                .hint(LIST)
        })
    }

    /// The list of names of a key, which may be left out: nodes may join later.
    fn optional(&self, yaml: &Yaml, key: &str) -> Result<Vec<String>, InputError> {
        match yaml.get(key).filter(|v| !v.is_empty()) {
            Some(_) => self.names(yaml, key),
            None => Ok(Vec::new()),
        }
    }

    /// The kind of a topology.
    fn kind(&self, topology: &Yaml) -> Result<&'static str, InputError> {
        let is_no = |v: &Yaml| matches!(self.truth(v), Ok(false));
        let given: Vec<&'static str> = KINDS
            .into_iter()
            .filter(|k| topology.get(k).is_some_and(|v| !v.is_empty() && !is_no(v)))
            .collect();
        match given[..] {
            [kind] => Ok(kind),
            _ => Err(self.wrong(topology, format!("exactly one of {}", KINDS.join(", ")))),
        }
    }

    fn plan(&self, topology: &Yaml, notes: &mut Vec<String>) -> Result<Plan, InputError> {
        let kind = self.kind(topology)?;
        let content = self.field(topology, kind)?;
        match kind {
            "tree" => self.tree(content, notes),
            "block" => {
                let sizes = match content.get("block_sizes") {
                    Some(sizes) => self.list(sizes, "a list of sizes")?,
                    None => &[],
                };
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

    fn tree(&self, tree: &Yaml, notes: &mut Vec<String>) -> Result<Plan, InputError> {
        let list = self.list(self.field(tree, "switches")?, "a list of switches")?;
        let mut ignored = Vec::new();
        let switches = list.iter().map(|switch| {
            let nodes = self.optional(switch, "nodes")?;
            let mut children = self.optional(switch, "children")?;
            if !nodes.is_empty() && !children.is_empty() {
                ignored.push(self.text(switch, "switch")?);
                children.clear();
            }
            Ok(Switch {
                name: self.text(switch, "switch")?,
                nodes,
                children,
                line: switch.line,
            })
        });
        let switches = switches.collect::<Result<Vec<_>, _>>()?;
        note_of(
            notes,
            &ignored,
            "switch has",
            "switches have",
            "nodes and children: the children are ignored, as Slurm does",
        );
        match not_a_tree(&switches) {
            None => Ok(Plan::Tree(switches)),
            Some((why, line)) => Err(self.text.error(why, EXPECTED).hint(REFUSED).at(line)),
        }
    }

    fn blocks(&self, yaml: &Yaml, list: &str, key: &str) -> Result<Vec<Block>, InputError> {
        let list = self.list(self.field(yaml, list)?, "a list")?;
        list.iter()
            .map(|block| {
                Ok(Block {
                    name: self.text(block, key)?,
                    nodes: self.optional(block, "nodes")?,
                    line: block.line,
                })
            })
            .collect()
    }

    fn toruses(&self, yaml: &Yaml) -> Result<Plan, InputError> {
        let list = self.list(self.field(yaml, "toruses")?, "a list of toruses")?;
        let toruses = list.iter().map(|torus| {
            let dims = self.sizes(torus, "dims", 1)?;
            self.placements(torus, dims)?;
            Ok(Torus {
                name: self.text(torus, "name")?,
                dims,
                nodes: self.positions(torus, dims)?,
                line: torus.line,
            })
        });
        Ok(Plan::Toruses(toruses.collect::<Result<_, _>>()?))
    }

    /// `x`, `y` and `z` of a mapping.
    fn sizes(&self, yaml: &Yaml, key: &str, least: u32) -> Result<[u32; 3], InputError> {
        let map = self.field(yaml, key)?;
        let mut sizes = [0; 3];
        for (size, key) in sizes.iter_mut().zip(["x", "y", "z"]) {
            // A coordinate that may be 0 is 0 if it is left out.
            if least == 0 && map.get(key).is_none() {
                continue;
            }
            let value = self.field(map, key)?;
            let found = value.text().and_then(|t| t.parse().ok());
            let found = found.filter(|&n: &u32| n >= least);
            *size = found.ok_or_else(|| self.wrong(value, format!("a size from {least}")))?;
        }
        Ok(sizes)
    }

    /// Shapes of allocations: not used, and refused where Slurm refuses them.
    fn placements(&self, torus: &Yaml, dims: [u32; 3]) -> Result<(), InputError> {
        let Some(placements) = torus.get("placements").filter(|p| !p.is_empty()) else {
            return Ok(());
        };
        for placement in self.list(placements, "a list of placements")? {
            for (key, least, needed) in [
                ("dims", 1, true),
                ("anchor_seed", 0, false),
                ("anchor_spacing", 0, false),
            ] {
                if needed || placement.get(key).is_some() {
                    let sizes = self.sizes(placement, key, least)?;
                    let is_place = key == "anchor_seed";
                    if sizes
                        .iter()
                        .zip(dims)
                        .any(|(&s, d)| s > d || (is_place && s == d))
                    {
                        let expected = format!("{key} within the torus of {dims:?}");
                        return Err(self
                            .text
                            .error(format!("{sizes:?}"), expected)
                            .at(placement.line));
                    }
                }
            }
        }
        Ok(())
    }

    /// The nodes of a torus by position: a list that fills it, or regions that fill parts of it.
    fn positions(&self, torus: &Yaml, dims: [u32; 3]) -> Result<Vec<String>, InputError> {
        let regions = torus.get("regions").filter(|r| !r.is_empty());
        let Some(regions) = regions else {
            return self.names(torus, "nodes");
        };
        if torus.get("nodes").is_some() {
            return Err(self.wrong(torus, "either nodes or regions"));
        }
        let all = product(dims.map(u64::from));
        if all > MOST_NAMES as u64 {
            return Err(self.wrong(torus, format!("at most {MOST_NAMES} positions")));
        }
        let mut positions = vec![String::new(); all as usize];
        for region in self.list(regions, "a list of regions")? {
            let (anchor, size) = (
                self.sizes(region, "anchor", 0)?,
                self.sizes(region, "dims", 1)?,
            );
            let fits =
                (0..3).all(|d| u64::from(anchor[d]) + u64::from(size[d]) <= u64::from(dims[d]));
            if !fits {
                return Err(self.wrong(region, format!("a region within the torus of {dims:?}")));
            }
            let names = self.names(region, "nodes")?;
            let places = size.iter().product::<u32>();
            if names.len() != places as usize {
                let found = format!("{} nodes in a region of {places}", names.len());
                return Err(self
                    .text
                    .error(found, "one node a position")
                    .at(region.line));
            }
            for (i, name) in (0..places).zip(names) {
                let [x, y, z] = [i % size[0], i / size[0] % size[1], i / size[0] / size[1]];
                let at = (anchor[0] + x) + dims[0] * ((anchor[1] + y) + dims[1] * (anchor[2] + z));
                let position = &mut positions[at as usize];
                if !position.is_empty() {
                    return Err(self.wrong(region, "regions that do not overlap"));
                }
                *position = name;
            }
        }
        Ok(positions)
    }
}
