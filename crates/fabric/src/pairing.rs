//! Which routers and nodes are the same in two readings of one machine.

use crate::fabric::Fabric;
use crate::ids::{NodeId, RouterId};
use crate::numbers::Numbers;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A part with the same GUID and another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rename {
    /// Name in the first reading.
    pub before: String,
    /// Name in the second.
    pub after: String,
}

/// Renamed routers and nodes.
#[derive(Debug, Default)]
pub(crate) struct Renames {
    pub routers: Vec<Rename>,
    pub nodes: Vec<Rename>,
}

impl Fabric {
    /// The machine with the names of `before` for parts that have the same GUID there, and the names that differed.
    ///
    /// Parts without a GUID in both keep their names; one that has the name of another part of `before` gets its GUID
    /// as a further word.
    pub(crate) fn named_as(&self, before: &Self) -> (Self, Renames) {
        let mut renames = Renames::default();
        let mut named = self.clone();
        let routers = |f: &Self| {
            let names = f.routers.iter().map(|r| r.name.clone());
            parts(names, &f.router_index, |r: RouterId| r.index())
        };
        let new = paired(&routers(before), &routers(self), &mut renames.routers);
        let names = named.routers.iter_mut().map(|r| &mut r.name);
        rename(names, &mut named.router_index, new, RouterId::of);
        let nodes = |f: &Self| {
            let names = f.nodes.iter().map(|n| n.name.clone());
            parts(names, &f.node_index, |n: NodeId| n.index())
        };
        let new = paired(&nodes(before), &nodes(self), &mut renames.nodes);
        let names = named.nodes.iter_mut().map(|n| &mut n.name);
        rename(names, &mut named.node_index, new, NodeId::of);
        named.numbers = Numbers::default();
        (named, renames)
    }
}

/// Names by position, and positions by name and alias.
type Named = (Vec<String>, HashMap<String, usize>);

fn parts<I: Copy>(
    names: impl Iterator<Item = String>,
    index: &HashMap<String, I>,
    position: fn(I) -> usize,
) -> Named {
    let index = index.iter().map(|(name, &i)| (name.clone(), position(i)));
    (names.collect(), index.collect())
}

/// Gives parts new names, also in their index; aliases stay.
fn rename<'f, I>(
    names: impl Iterator<Item = &'f mut String>,
    index: &mut HashMap<String, I>,
    new: Vec<String>,
    id: fn(usize) -> I,
) {
    for (name, new) in names.zip(&new) {
        index.remove(name);
        name.clone_from(new);
    }
    index.extend(new.into_iter().enumerate().map(|(i, name)| (name, id(i))));
}

/// New names of the second's parts.
fn paired(before: &Named, after: &Named, renames: &mut Vec<Rename>) -> Vec<String> {
    let guids = |(names, index): &Named| {
        let mut guids: Vec<BTreeSet<String>> = vec![BTreeSet::new(); names.len()];
        for (alias, &part) in index.iter().filter(|(a, _)| is_guid(a)) {
            guids[part].insert(alias.clone());
        }
        guids
    };
    let (guids_before, guids_after) = (guids(before), guids(after));
    // An adapter's GUID is an alias of one of its ports: ports are told by the parts with fewest GUIDs first.
    let mut candidates = BTreeSet::new();
    for (b, of_b) in guids_after.iter().enumerate() {
        for a in of_b.iter().filter_map(|g| before.1.get(g)) {
            candidates.insert((guids_before[*a].len() + of_b.len(), *a, b));
        }
    }
    let (mut of_before, mut of_after) = (BTreeMap::new(), BTreeMap::new());
    for (_, a, b) in candidates {
        if !of_before.contains_key(&a) && !of_after.contains_key(&b) {
            of_before.insert(a, b);
            of_after.insert(b, a);
        }
    }
    let at: HashMap<&str, usize> = (before.0.iter().enumerate())
        .map(|(i, name)| (name.as_str(), i))
        .collect();
    let mut names = Vec::with_capacity(after.0.len());
    for (b, name) in after.0.iter().enumerate() {
        let other = at.get(name.as_str()).copied();
        names.push(match (of_after.get(&b), other) {
            (Some(&a), _) => {
                if before.0[a] != *name {
                    let (before, after) = (before.0[a].clone(), name.clone());
                    renames.push(Rename { before, after });
                }
                before.0[a].clone()
            }
            // Its name is that of a part with another GUID that was renamed.
            (None, Some(a)) if of_before.contains_key(&a) => {
                let guid = guids_after[b].first().map_or("new", String::as_str);
                format!("{name} [{guid}]")
            }
            (None, _) => name.clone(),
        });
    }
    renames.sort_by(|x, y| x.before.cmp(&y.before));
    names
}

fn is_guid(alias: &str) -> bool {
    alias.len() == 18 && alias.starts_with("0x")
}
