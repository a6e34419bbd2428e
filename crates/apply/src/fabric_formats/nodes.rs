//! Positions of nodes in the formats of schedulers: topograph's graph, node labels, Volcano's HyperNodes, blocks of Slurm.

use super::slurm::{Switch, folded, tree};
use super::{FabricFormat, Written, cannot};
use crate::error::ApplyError;
use hopbyte_fabric::Fabric;
use hopbyte_fabric::hash::fnv1a;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

/// Longest value of a label.
const MOST: usize = 63;

/// A host with its switches, nearest first, and its domain of several hosts.
struct Host {
    name: String,
    layers: Vec<String>,
    domain: Option<String>,
}

fn hosts(format: FabricFormat, network: &Fabric, fabric: &Fabric) -> Result<Vec<Host>, ApplyError> {
    let switches = tree(network, format)?;
    let mut above: HashMap<&str, &str> = HashMap::new();
    for Switch { name, children, .. } in &switches {
        for child in children {
            if let Some(other) = above.insert(child, name) {
                let why = format!("switch {child} is below {other} and {name}");
                return Err(cannot(
                    format,
                    why,
                    "write json, binary or graphml, which can",
                ));
            }
        }
    }
    let mut domains: HashMap<&str, &str> = HashMap::new();
    for unit in fabric
        .inside()
        .into_iter()
        .flat_map(hopbyte_fabric::hosts::Inside::units)
    {
        if let [first, _, ..] = &unit.hosts[..] {
            domains.extend(unit.hosts.iter().map(|h| (h.as_str(), first.as_str())));
        }
    }
    let mut all = Vec::new();
    for switch in &switches {
        let mut layers = vec![switch.name.clone()];
        let mut at = switch.name.as_str();
        while let Some(&up) = above.get(at) {
            layers.push(up.to_owned());
            at = up;
        }
        for name in &switch.hosts {
            let domain = domains.get(name.as_str());
            all.push(Host {
                name: name.clone(),
                layers: layers.clone(),
                domain: domain.map(|first| format!("domain-{first}")),
            });
        }
    }
    Ok(all)
}

fn lost(what: &str) -> Vec<String> {
    vec![format!(
        "speeds, ports, coordinates and routing are left out{what}"
    )]
}

/// The document of topograph's `graph` engine.
pub fn topograph(network: &Fabric, fabric: &Fabric) -> Result<Written, ApplyError> {
    let hosts = hosts(FabricFormat::TopographGraph, network, fabric)?;
    let instance = |host: &Host| {
        let mut one = json!({"id": host.name, "network_layers": host.layers});
        if let Some(domain) = &host.domain {
            one["labels"] = json!({"network.topology.nvidia.com/accelerator": domain});
        }
        one
    };
    let instances: Vec<_> = hosts.iter().map(instance).collect();
    Ok(Written {
        bytes: format!("{:#}\n", json!({ "instances": instances })).into_bytes(),
        lost: lost(""),
    })
}

/// A list of nodes with topograph's labels, for `kubectl apply --server-side -f`.
pub fn labels(network: &Fabric, fabric: &Fabric) -> Result<Written, ApplyError> {
    let hosts = hosts(FabricFormat::NodeLabels, network, fabric)?;
    let mut hashed = 0;
    let mut items = Vec::new();
    for host in &hosts {
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        let mut set = |key: String, value: &str| {
            let fits = is_label(value);
            hashed += usize::from(!fits);
            let value = if fits { value.to_owned() } else { hash(value) };
            labels.insert(key, value);
        };
        for (tier, switch) in host.layers.iter().enumerate() {
            set(format!("fabric.topograph.run/tier-{tier}"), switch);
        }
        if let Some(domain) = &host.domain {
            set("accelerator.topograph.run/domain".into(), domain);
        }
        items.push(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": host.name, "labels": labels},
        }));
    }
    let hashed = match hashed {
        0 => String::new(),
        n => format!("; {n} values that are no label are hashes (x and FNV-1a)"),
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    Ok(Written {
        bytes: format!("{list:#}\n").into_bytes(),
        lost: lost(&hashed),
    })
}

/// Tier of a group, and its members: type and name.
type Groups<'a> = BTreeMap<&'a str, (usize, BTreeSet<(&'static str, &'a str)>)>;

/// A list of Volcano's HyperNodes, for `kubectl apply -f`: a group for every switch, lower tiers nearer to the nodes, and
/// one below it for every domain of several hosts, if there are more than one on the switch.
pub fn hypernodes(network: &Fabric, fabric: &Fabric) -> Result<Written, ApplyError> {
    let hosts = hosts(FabricFormat::HyperNodes, network, fabric)?;
    let mut switches_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut domains_on: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
    for host in &hosts {
        let (switch, domain) = (host.layers[0].as_str(), host.domain.as_deref());
        domains_on.entry(switch).or_default().insert(domain);
        switches_of
            .entry(domain.unwrap_or_default())
            .or_default()
            .insert(switch);
    }
    let own_group = |host: &Host| -> bool {
        let domain = host.domain.as_deref().unwrap_or_default();
        host.domain.is_some()
            && switches_of[domain].len() == 1
            && domains_on[&*host.layers[0]].len() > 1
    };
    let shift = usize::from(hosts.iter().any(own_group));
    let mut groups = Groups::new();
    for host in &hosts {
        let domain = host.domain.as_deref().filter(|_| own_group(host));
        let switches = (1 + shift..).zip(host.layers.iter().map(String::as_str));
        let mut member = ("Node", host.name.as_str());
        for (tier, name) in domain.map(|d| (1, d)).into_iter().chain(switches) {
            groups
                .entry(name)
                .or_insert((tier, BTreeSet::new()))
                .1
                .insert(member);
            member = ("HyperNode", name);
        }
    }
    let object = |name: &str| {
        if is_object_name(name) {
            name.to_owned()
        } else {
            hash(name)
        }
    };
    let member = |&(kind, name): &(&'static str, &str)| {
        let name = if kind == "Node" {
            name.to_owned()
        } else {
            object(name)
        };
        json!({"type": kind, "selector": {"exactMatch": {"name": name}}})
    };
    let item = |(name, (tier, members)): (&&str, &(usize, BTreeSet<_>))| {
        let members: Vec<_> = members.iter().map(member).collect();
        json!({
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": object(name)},
            "spec": {"tier": tier, "members": members},
        })
    };
    let items: Vec<_> = groups.iter().map(item).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let hashed = groups.keys().filter(|name| !is_object_name(name)).count();
    let split = switches_of
        .iter()
        .filter(|(domain, on)| !domain.is_empty() && on.len() > 1);
    let mut more = String::new();
    if hashed > 0 {
        more += &format!("; {hashed} names that Kubernetes refuses are hashes (x and FNV-1a)");
    }
    match split.count() {
        0 => {}
        n => more += &format!("; domains whose hosts are on several switches too ({n})"),
    }
    Ok(Written {
        bytes: format!("{list:#}\n").into_bytes(),
        lost: lost(&more),
    })
}

/// Whether a text may be the name of an object: a subdomain as in RFC 1123.
fn is_object_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part = |p: &str| {
        let inner = p.chars().all(|c| plain(c) || c == '-');
        inner && p.starts_with(plain) && p.ends_with(plain)
    };
    name.len() <= 253 && name.split('.').all(part)
}

fn is_label(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    value.len() <= MOST
        && value.chars().all(plain)
        && ends(value.chars().next())
        && ends(value.chars().next_back())
}

/// A value that is no label, as topograph writes it.
fn hash(value: &str) -> String {
    format!("x{:x}", fnv1a(value.as_bytes()))
}

/// Slurm's `topology.yaml` with blocks: NVLink domains of several hosts, else the hosts of a switch.
pub fn blocks(network: &Fabric, fabric: &Fabric) -> Result<Written, ApplyError> {
    let hosts = hosts(FabricFormat::SlurmBlocks, network, fabric)?;
    let mut blocks: Vec<(&str, Vec<String>)> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for host in &hosts {
        let own = host.layers.first().map_or("block", String::as_str);
        let block = host.domain.as_deref().unwrap_or(own);
        let at = *index.entry(block).or_insert_with(|| {
            blocks.push((block, Vec::new()));
            blocks.len() - 1
        });
        blocks[at].1.push(host.name.clone());
    }
    let least = blocks.iter().map(|b| b.1.len()).min().unwrap_or(1);
    let mut sizes = vec![least];
    while let Some(next) = sizes
        .last()
        .map(|s| s * 2)
        .filter(|s| *s <= least * blocks.len())
    {
        sizes.push(next);
    }
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let mut text = format!(
        "- topology: hopbyte\n  cluster_default: true\n  block:\n    block_sizes: [{}]\n    blocks:\n",
        sizes.join(", ")
    );
    for (name, hosts) in &blocks {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "      - block: {name}\n        nodes: {}\n",
            folded(hosts)
        );
    }
    Ok(Written {
        bytes: text.into_bytes(),
        lost: lost("; switches above blocks too"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;

    /// Names, tiers and members of the HyperNodes of a machine.
    fn groups(machine: &str) -> Vec<(String, u64, Vec<String>)> {
        let machine = spec::machine(machine).unwrap();
        let network = machine.fabric.network();
        let written = hypernodes(&network, &machine.fabric).unwrap();
        let list: serde_json::Value = serde_json::from_slice(&written.bytes).unwrap();
        let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
        let group = |item: &serde_json::Value| {
            let members = item["spec"]["members"].as_array().unwrap().iter();
            let name = |m: &serde_json::Value| text(&m["selector"]["exactMatch"]["name"]);
            (
                text(&item["metadata"]["name"]),
                item["spec"]["tier"].as_u64().unwrap(),
                members.map(name).collect(),
            )
        };
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(group)
            .collect()
    }

    #[test]
    fn every_node_is_once_in_a_tree_of_hypernodes() {
        for (machine, tiers) in [
            ("fattree:k=4,levels=3", 3),
            ("fattree:down=36x2,up=1x1,hosts=gb200-nvl72", 2),
        ] {
            let groups = groups(machine);
            let nodes = spec::machine(machine)
                .unwrap()
                .fabric
                .network()
                .nodes()
                .len();
            let mut seen: Vec<&String> = groups.iter().flat_map(|g| &g.2).collect();
            let all = seen.len();
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), all, "{machine}: a member of two groups");
            let tops = groups.iter().filter(|g| !seen.contains(&&g.0));
            assert_eq!(
                tops.map(|g| g.1).collect::<Vec<_>>(),
                [tiers],
                "{machine}: {groups:?}"
            );
            let inner = groups.iter().filter(|g| seen.contains(&&g.0)).count();
            let hosts = all - inner;
            assert!(
                hosts > 0 && nodes.is_multiple_of(hosts),
                "{machine}: {hosts} of {nodes}"
            );
            // Members of a group are a tier below it, or nodes.
            for (name, tier, members) in &groups {
                let below = groups.iter().filter(|g| members.contains(&g.0));
                assert!(below.clone().all(|g| g.1 < *tier), "{machine}: {name}");
            }
        }
    }

    #[test]
    fn object_names_are_those_of_kubernetes() {
        for (name, fits) in [
            ("leaf0", true),
            ("a.b-c", true),
            ("Leaf", false),
            ("l2_and", false),
            ("-a", false),
            ("", false),
        ] {
            assert_eq!(is_object_name(name), fits, "{name}");
        }
    }
}
