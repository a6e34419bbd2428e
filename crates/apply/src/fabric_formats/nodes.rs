//! Positions of nodes in the formats of schedulers: topograph's graph, node labels, blocks of Slurm.

use super::slurm::{Switch, folded, tree};
use super::{FabricFormat, Written, cannot};
use crate::error::ApplyError;
use hopbyte_fabric::Fabric;
use hopbyte_fabric::hash::fnv1a;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
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
