//! Slurm topologies: `topology.conf` as a tree, `topology.yaml` as a tree, a ring or a 3-D torus.

use super::{FabricFormat, Written, cannot};
use crate::error::ApplyError;
use crate::layout::is_host_name;
use hopbyte_fabric::{End, Fabric, RouterId};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt::Write;

/// A switch of a tree.
pub struct Switch {
    pub name: String,
    pub children: Vec<String>,
    pub hosts: Vec<String>,
}

/// Properties lost in every Slurm topology.
fn lost(switches: &[Switch], routers: usize) -> Vec<String> {
    let mut lost = vec!["speeds, ports, coordinates and routing are left out".to_owned()];
    if switches.len() < routers {
        lost.push(format!(
            "{routers} switches became {}: those with the same switches below are one, because Slurm requires a tree",
            switches.len()
        ));
    }
    lost
}

/// Writes `topology.conf`.
pub fn conf(fabric: &Fabric) -> Result<Written, ApplyError> {
    let switches = tree(fabric, FabricFormat::SlurmConf)?;
    let mut text = String::new();
    for switch in &switches {
        let (key, list) = if switch.hosts.is_empty() {
            ("Switches", &switch.children)
        } else {
            ("Nodes", &switch.hosts)
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "SwitchName={} {key}={}", switch.name, folded(list));
    }
    Ok(Written {
        bytes: text.into_bytes(),
        lost: lost(&switches, fabric.routers().len()),
    })
}

/// Writes `topology.yaml`.
pub fn yaml(fabric: &Fabric) -> Result<Written, ApplyError> {
    let mut text = String::from("- topology: hopbyte\n  cluster_default: true\n");
    if let Some(hosts) = grid(fabric)? {
        let dims = fabric.shape().map_or(&[][..], |s| &s.dims);
        if let [x, y, z] = *dims {
            let _ = write!(
                text,
                "  torus3d:\n    toruses:\n      - name: torus\n        dims:\n          x: {x}\n          y: {y}\n          z: {z}\n        nodes: {}\n",
                folded(&hosts)
            );
        } else {
            if hosts.len() > MOST_IN_RING {
                let why = format!(
                    "a Slurm ring has at most {MOST_IN_RING} nodes, and this one {}",
                    hosts.len()
                );
                return Err(cannot(FabricFormat::SlurmYaml, why, INSTEAD));
            }
            let list = folded(&hosts);
            let _ = write!(
                text,
                "  ring:\n    rings:\n      - ring: ring\n        nodes: {list}\n"
            );
        }
        return Ok(Written {
            bytes: text.into_bytes(),
            lost: lost(&[], 0),
        });
    }
    let switches = tree(fabric, FabricFormat::SlurmYaml)?;
    text.push_str("  tree:\n    switches:\n");
    for switch in &switches {
        let _ = writeln!(text, "      - switch: {}", switch.name);
        for (key, list) in [("children", &switch.children), ("nodes", &switch.hosts)] {
            if !list.is_empty() {
                let _ = writeln!(text, "        {key}: {}", folded(list));
            }
        }
    }
    Ok(Written {
        bytes: text.into_bytes(),
        lost: lost(&switches, fabric.routers().len()),
    })
}

/// Hosts of a ring or a 3-D torus with one host per router, the first dimension fastest; `None` for other machines.
fn grid(fabric: &Fabric) -> Result<Option<Vec<String>>, ApplyError> {
    let Some(shape) = fabric.shape() else {
        return Ok(None);
    };
    let closed =
        shape.wrap.iter().all(|&w| w) && fabric.link_towards(RouterId(0), x_up()).is_some();
    if !(closed && matches!(shape.dims.len(), 1 | 3)) {
        return Ok(None);
    }
    let sizes: Vec<u32> = shape.dims.iter().copied().chain([1, 1]).take(3).collect();
    let mut hosts = Vec::new();
    for z in 0..sizes[2] {
        for y in 0..sizes[1] {
            for x in 0..sizes[0] {
                let router = fabric.router_at(&[x, y, z][..shape.dims.len()]);
                let nodes = router.map_or(&[][..], |r| fabric.nodes_on(r));
                let [node] = nodes else {
                    let why = format!(
                        "a Slurm torus has one node per position, and ({x},{y},{z}) has {}",
                        nodes.len()
                    );
                    return Err(cannot(FabricFormat::SlurmYaml, why, INSTEAD));
                };
                hosts.push(host(&fabric.node(*node).host, &fabric.node(*node).name)?);
            }
        }
    }
    Ok(Some(hosts))
}

fn x_up() -> hopbyte_fabric::Direction {
    hopbyte_fabric::Direction::of(0)
}

/// Nodes of a ring at most (`MAX_RING_SIZE` of Slurm).
const MOST_IN_RING: usize = 16;

const INSTEAD: &str = "write json, binary or graphml, which can";

/// A host's name, checked.
pub(super) fn host(name: &str, node: &str) -> Result<String, ApplyError> {
    if is_host_name(name) {
        return Ok(name.to_owned());
    }
    Err(ApplyError::HostName {
        node: node.to_owned(),
        found: name.chars().take(80).collect(),
    })
}

/// The switches as a tree, leaves first. Switches of one level that share a child are merged: above the leaves of a
/// fat tree, Slurm needs only the grouping of leaves.
pub fn tree(fabric: &Fabric, format: FabricFormat) -> Result<Vec<Switch>, ApplyError> {
    let mut rank = ranks(fabric);
    if let Err(error) = check_tree(fabric, &rank, format) {
        rank = rooted(fabric).or_else(|| layered(fabric)).ok_or(error)?;
    }
    let mut names = Names::default();
    let mut switches = Vec::new();
    let mut top_of: HashMap<RouterId, usize> = HashMap::new();
    let mut seen: HashMap<String, RouterId> = HashMap::new();
    for leaf in fabric.router_ids().filter(|r| rank[r.index()] == Some(0)) {
        let mut hosts = Vec::new();
        for &n in fabric.nodes_on(leaf) {
            let node = fabric.node(n);
            let name = host(&node.host, &node.name)?;
            match seen.insert(name.clone(), leaf) {
                None => hosts.push(name),
                Some(other) if other == leaf => {}
                Some(other) => {
                    let [a, b] = [other, leaf].map(|r| &fabric.router(r).name);
                    let why = format!("host {name} is on both {a} and {b}, and a tree has it once");
                    return Err(cannot(format, why, INSTEAD));
                }
            }
        }
        top_of.insert(leaf, switches.len());
        switches.push(Switch {
            name: names.unique(&fabric.router(leaf).name),
            children: Vec::new(),
            hosts,
        });
    }
    let highest = rank.iter().flatten().copied().max().unwrap_or(0);
    for level in 1..=highest {
        for (routers, children) in merged(fabric, &rank, level, &top_of) {
            let first = &fabric.router(routers[0]).name;
            let name = match routers.len() {
                1 => names.unique(first),
                n => names.unique(&format!("{first}_and_{}_more", n - 1)),
            };
            for router in routers {
                top_of.insert(router, switches.len());
            }
            switches.push(Switch {
                name,
                children: children.iter().map(|&c| switches[c].name.clone()).collect(),
                hosts: Vec::new(),
            });
        }
    }
    Ok(switches)
}

/// Routers of a level that share a switch below, with the switches below them.
fn merged(
    fabric: &Fabric,
    rank: &[Option<u32>],
    level: u32,
    top_of: &HashMap<RouterId, usize>,
) -> Vec<(Vec<RouterId>, BTreeSet<usize>)> {
    let mut groups: Vec<(Vec<RouterId>, BTreeSet<usize>)> = Vec::new();
    let mut group_of: BTreeMap<usize, usize> = BTreeMap::new();
    for router in fabric
        .router_ids()
        .filter(|r| rank[r.index()] == Some(level))
    {
        let below = neighbours(fabric, router).filter(|n| rank[n.index()] < Some(level));
        let below: BTreeSet<usize> = below.filter_map(|n| top_of.get(&n).copied()).collect();
        let joined: BTreeSet<usize> = below
            .iter()
            .filter_map(|c| group_of.get(c).copied())
            .collect();
        let group = joined.first().copied().unwrap_or_else(|| {
            groups.push(Default::default());
            groups.len() - 1
        });
        groups[group].0.push(router);
        groups[group].1.extend(below);
        for other in joined.into_iter().skip(1) {
            let (routers, children) = std::mem::take(&mut groups[other]);
            groups[group].0.extend(routers);
            groups[group].1.extend(children);
        }
        for &child in &groups[group].1 {
            group_of.insert(child, group);
        }
    }
    groups.retain(|(routers, _)| !routers.is_empty());
    groups
}

fn neighbours(fabric: &Fabric, router: RouterId) -> impl Iterator<Item = RouterId> + '_ {
    let up = fabric
        .links_from(router)
        .iter()
        .map(|&l| fabric.link(l))
        .filter(|l| l.is_up());
    up.filter_map(|l| match l.to {
        End::Router(r) => Some(r),
        _ => None,
    })
}

/// Hops from the nearest router with nodes; `None` for unreachable routers.
fn ranks(fabric: &Fabric) -> Vec<Option<u32>> {
    let leaves = fabric.router_ids();
    distances(fabric, leaves.filter(|&r| !fabric.nodes_on(r).is_empty()))
}

/// Hops from the nearest of some routers; `None` for unreachable routers.
fn distances(fabric: &Fabric, from: impl IntoIterator<Item = RouterId>) -> Vec<Option<u32>> {
    let mut hops = vec![None; fabric.routers().len()];
    let mut queue: VecDeque<RouterId> = from.into_iter().collect();
    for start in &queue {
        hops[start.index()] = Some(0);
    }
    while let Some(at) = queue.pop_front() {
        let next = hops[at.index()].map(|h: u32| h + 1);
        for neighbour in neighbours(fabric, at) {
            if hops[neighbour.index()].is_none() {
                hops[neighbour.index()] = next;
                queue.push_back(neighbour);
            }
        }
    }
    hops
}

/// A tree has no links within a level.
fn check_tree(
    fabric: &Fabric,
    rank: &[Option<u32>],
    format: FabricFormat,
) -> Result<(), ApplyError> {
    for router in fabric.router_ids() {
        let same = |n: &RouterId| rank[n.index()] == rank[router.index()];
        if let Some(other) = neighbours(fabric, router).find(same) {
            let (a, b) = (&fabric.router(router).name, &fabric.router(other).name);
            let why =
                format!("it is not a tree: {a} and {b} are joined and equally far from the nodes");
            return Err(cannot(format, why, INSTEAD));
        }
    }
    Ok(())
}

/// Levels of an unbalanced tree, in which leaves hang at several heights: one above the highest switch below; 0 where
/// nodes are. `None` if the switches are no trees, or nodes hang on a switch of switches.
///
/// The file does not say which switch is the root. It is the one that leaves fewest switches with a single child, then
/// the lowest tree, then the first switch.
fn rooted(fabric: &Fabric) -> Option<Vec<Option<u32>>> {
    let mut rank = vec![None; fabric.routers().len()];
    let peers: Vec<BTreeSet<RouterId>> = fabric
        .router_ids()
        .map(|r| neighbours(fabric, r).collect())
        .collect();
    for start in fabric.router_ids() {
        if rank[start.index()].is_some() {
            continue;
        }
        let component = below(&peers, start)?;
        let is_leaf = |r: RouterId| !fabric.nodes_on(r).is_empty();
        // Slurm's switches have nodes or switches, never both and never neither.
        let fits = |&r: &RouterId| is_leaf(r) == (peers[r.index()].len() <= 1);
        if !component.iter().all(fits) {
            return None;
        }
        let inner = component.iter().copied().filter(|&r| !is_leaf(r));
        let best = inner
            .map(|root| {
                let single = component
                    .iter()
                    .filter(|&&r| r != root && !is_leaf(r) && peers[r.index()].len() == 2);
                (single.count(), root)
            })
            .min_by_key(|&(single, root)| (single, height(&peers, root), root));
        let root = best.map_or(start, |(_, root)| root);
        let order = below(&peers, root)?;
        for &r in order.iter().rev() {
            let of_children = peers[r.index()].iter().filter_map(|c| rank[c.index()]);
            rank[r.index()] = Some(of_children.max().map_or(0, |h: u32| h + 1));
        }
    }
    Some(rank)
}

/// Levels of a tree with several switches at its top and leaves at several heights, as [`rooted`] counts them. The top are the
/// switches that are nearest to their farthest leaf. `None` if cables join switches equally far from the top, or a
/// switch has nodes and switches below.
fn layered(fabric: &Fabric) -> Option<Vec<Option<u32>>> {
    let is_leaf = |r: RouterId| !fabric.nodes_on(r).is_empty();
    let leaves: Vec<RouterId> = fabric.router_ids().filter(|&r| is_leaf(r)).collect();
    if leaves.iter().any(|&l| neighbours(fabric, l).any(is_leaf)) {
        return None;
    }
    let mut farthest = vec![None; fabric.routers().len()];
    for &leaf in &leaves {
        let hops = distances(fabric, [leaf]);
        for (most, hops) in farthest.iter_mut().zip(hops) {
            *most = (*most).max(hops);
        }
    }
    // The least of a switch's part of the fabric, in which all switches have the same leaves.
    let mut top = Vec::new();
    for part in parts(fabric) {
        let inner = || part.iter().copied().filter(|&r| !is_leaf(r));
        let least = inner().map(|r| farthest[r.index()]).min();
        let highest = |r: &RouterId| least.is_none_or(|l| farthest[r.index()] == l);
        top.extend(
            part.iter()
                .copied()
                .filter(|r| least.is_none() || !is_leaf(*r))
                .filter(highest),
        );
    }
    let depth = distances(fabric, top);
    let mut order: Vec<RouterId> = fabric.router_ids().collect();
    order.sort_by_key(|r| std::cmp::Reverse(depth[r.index()]));
    let mut rank = vec![None; fabric.routers().len()];
    for router in order {
        let own = depth[router.index()]?;
        let mut highest = None;
        for peer in neighbours(fabric, router) {
            match depth[peer.index()]? {
                other if other == own => return None,
                other if other > own => highest = highest.max(rank[peer.index()]),
                _ => {}
            }
        }
        if is_leaf(router) != highest.is_none() {
            return None;
        }
        rank[router.index()] = Some(highest.map_or(0, |h: u32| h + 1));
    }
    // Switches above one become one switch, so they are on one level.
    let above = |r: RouterId| {
        let up = neighbours(fabric, r).filter(|n| rank[n.index()] > rank[r.index()]);
        up.map(|n| rank[n.index()]).collect::<BTreeSet<_>>()
    };
    let is_tree = fabric.router_ids().all(|r| above(r).len() <= 1);
    is_tree.then_some(rank)
}

/// The connected parts of the switches.
fn parts(fabric: &Fabric) -> Vec<Vec<RouterId>> {
    let mut seen = vec![false; fabric.routers().len()];
    let mut parts = Vec::new();
    for start in fabric.router_ids() {
        if seen[start.index()] {
            continue;
        }
        let hops = distances(fabric, [start]);
        let part: Vec<RouterId> = (fabric.router_ids())
            .filter(|r| hops[r.index()].is_some())
            .collect();
        part.iter().for_each(|r| seen[r.index()] = true);
        parts.push(part);
    }
    parts
}

/// The switches of a tree from its root down, parents before children; `None` if they are no tree.
fn below(peers: &[BTreeSet<RouterId>], root: RouterId) -> Option<Vec<RouterId>> {
    let mut order = vec![root];
    let mut seen = HashSet::from([root]);
    let mut next = 0;
    let mut cables = 0;
    while let Some(&at) = order.get(next) {
        next += 1;
        for &peer in &peers[at.index()] {
            cables += 1;
            if seen.insert(peer) {
                order.push(peer);
            }
        }
    }
    (cables == 2 * (order.len() - 1)).then_some(order)
}

/// Levels below a root.
fn height(peers: &[BTreeSet<RouterId>], root: RouterId) -> usize {
    let mut level = vec![(root, root)];
    let mut height = 0;
    while !level.is_empty() {
        height += 1;
        let children = |&(at, from): &(RouterId, RouterId)| {
            let down = peers[at.index()]
                .iter()
                .filter(move |&&p| p != from || at == from);
            down.map(move |&p| (p, at)).collect::<Vec<_>>()
        };
        level = level.iter().flat_map(children).collect();
    }
    height
}

/// Unique switch names valid in Slurm: no blanks, commas or brackets.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        };
        let base: String = name.chars().map(plain).collect();
        let mut name = base.clone();
        let mut n = 2;
        while !self.0.insert(name.clone()) {
            name = format!("{base}_{n}");
            n += 1;
        }
        name
    }
}

/// Splits a name into prefix and trailing digits.
fn numbered(name: &str) -> Option<(&str, &str, u64)> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (prefix, digits) = name.split_at(name.len() - digits);
    Some((prefix, digits, digits.parse().ok()?))
}

/// A host list: `n[01-04,07],login`.
pub fn folded(names: &[String]) -> String {
    folded_parts(names).join(",")
}

/// The parts of a host list: `n[01-04,07]` and `login`.
pub fn folded_parts(names: &[String]) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut i = 0;
    while i < names.len() {
        let Some((prefix, digits, first)) = numbered(&names[i]) else {
            parts.push(names[i].clone());
            i += 1;
            continue;
        };
        let mut ranges = vec![(first, first)];
        i += 1;
        while let Some((p, d, n)) = names.get(i).and_then(|name| numbered(name)) {
            if p != prefix || d.len() != digits.len() {
                break;
            }
            match ranges.last_mut() {
                Some((_, last)) if n == *last + 1 => *last = n,
                _ => ranges.push((n, n)),
            }
            i += 1;
        }
        let width = digits.len();
        let range = |&(a, b): &(u64, u64)| match a == b {
            true => format!("{a:0width$}"),
            false => format!("{a:0width$}-{b:0width$}"),
        };
        let list: Vec<String> = ranges.iter().map(range).collect();
        parts.push(match (&ranges[..], prefix) {
            ([(a, b)], _) if a == b => format!("{prefix}{}", list[0]),
            _ => format!("{prefix}[{}]", list.join(",")),
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn host_lists_are_short() {
        let list = |names: &str| folded(&names.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(list("n01 n02 n03 n07 login"), "n[01-03,07],login");
        assert_eq!(list("n9 n10 n11 m1"), "n9,n[10-11],m1");
        assert_eq!(list("a-1-5 a-1-6 7 8"), "a-1-[5-6],[7-8]");
        assert_eq!(list("x99999999999999999999"), "x99999999999999999999");
    }
}
