//! Positions of nodes by labels: switches above a node, domains of accelerators, kinds of hosts by their product names.

use super::machine::KnownHost;
use super::names::{name, note_of};
use super::slurm::Switch;
use hopbyte_fabric::hosts::{HOST_KINDS, Published};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Labels of a node.
pub type Labels = BTreeMap<String, String>;

/// Labels of clouds and schedulers, from the node up.
const FAMILIES: [&[&str]; 9] = [
    &[
        "network.topology.nvidia.com/leaf",
        "network.topology.nvidia.com/spine",
        "network.topology.nvidia.com/core",
    ],
    &[
        "network.topology.nvidia.com/block",
        "network.topology.nvidia.com/spine",
        "network.topology.nvidia.com/datacenter",
    ],
    &[
        "topology.k8s.aws/network-node-layer-3",
        "topology.k8s.aws/network-node-layer-2",
        "topology.k8s.aws/network-node-layer-1",
    ],
    &[
        "cloud.google.com/gce-topology-host",
        "cloud.google.com/gce-topology-subblock",
        "cloud.google.com/gce-topology-block",
    ],
    &[
        "oci.oraclecloud.com/host.rack_id",
        "oci.oraclecloud.com/host.network_block_id",
        "oci.oraclecloud.com/host.hpc_island_id",
    ],
    &[
        "oci.oraclecloud.com/rdma.local_block_id",
        "oci.oraclecloud.com/rdma.network_block_id",
        "oci.oraclecloud.com/rdma.hpc_island_id",
    ],
    &[
        "cloud.provider.com/topology-rack",
        "cloud.provider.com/topology-block",
    ],
    &["topology.kubernetes.io/rack"],
    &["volcano.sh/hypernode"],
];

/// Labels above any family.
const TOP: [[&str; 2]; 2] = [
    [
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/zone",
    ],
    [
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/region",
    ],
];

/// Last words of labels that name a place of the network, in families that are not listed.
const WORDS: [&str; 12] = [
    "rack", "leaf", "spine", "core", "block", "subblock", "pod", "row", "island", "segment", "tor",
    "group",
];

/// A label that ends in the number of a level: the part before it, the level.
fn numbered(key: &str) -> Option<(&str, u32)> {
    let digits = key.trim_end_matches(|c: char| c.is_ascii_digit());
    let level = key[digits.len()..].parse().ok()?;
    let is = ["tier-", "level-", "layer-"]
        .iter()
        .any(|w| digits.ends_with(w));
    (is && !digits.contains("network-node-layer")).then_some((digits, level))
}

fn is_accelerated(key: &str) -> bool {
    key.contains("accelera")
}

/// The labels that give the switches above nodes, nearest first: those that Kueue's `Topology` lists, else the family
/// that most nodes have.
pub fn family(nodes: &[Labels], listed: Option<Vec<String>>) -> Vec<String> {
    let mut families: Vec<Vec<String>> = listed.into_iter().collect();
    let mut by_prefix: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for (prefix, level) in nodes
        .iter()
        .flat_map(|n| n.keys().filter_map(|k| numbered(k)))
    {
        if !is_accelerated(prefix) {
            by_prefix.entry(prefix).or_default().insert(level);
        }
    }
    families.extend(
        by_prefix
            .into_iter()
            .map(|(prefix, levels)| levels.iter().map(|n| format!("{prefix}{n}")).collect()),
    );
    families.extend(FAMILIES.map(|f| f.iter().map(|&k| k.to_owned()).collect()));
    let having = |keys: &Vec<String>| {
        let has = |n: &&Labels| keys.iter().any(|k| n.contains_key(k));
        nodes.iter().filter(has).count()
    };
    let most = families.iter().map(having).max().unwrap_or(0);
    let mut chosen = match families.into_iter().find(|f| most > 0 && having(f) == most) {
        Some(family) => family,
        None => by_words(nodes),
    };
    chosen.extend(TOP.iter().flatten().map(|&k| k.to_owned()));
    chosen
}

/// Labels with a last word such as `rack`, the one with most values first.
fn by_words(nodes: &[Labels]) -> Vec<String> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in nodes.iter().flatten() {
        let last = key.rsplit(['/', '-', '.', '_']).next().unwrap_or(key);
        if WORDS.contains(&last) && !is_accelerated(key) {
            values.entry(key).or_default().insert(value);
        }
    }
    let mut keys: Vec<_> = values.into_iter().map(|(k, v)| (v.len(), k)).collect();
    keys.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    keys.into_iter().map(|(_, k)| k.to_owned()).collect()
}

/// Values of a family's labels.
pub fn layers(labels: &Labels, family: &[String]) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for value in family.iter().filter_map(|k| labels.get(k)) {
        let value = name(value.as_bytes());
        if !value.is_empty() && values.last() != Some(&value) {
            values.push(value);
        }
    }
    values
}

/// The domain of accelerators of a node and the part of it, if labels or annotations have them.
pub fn domain(labels: &Labels) -> (Option<String>, Option<String>) {
    const DOMAINS: [&str; 4] = [
        "nvidia.com/gpu.clique",
        "network.topology.nvidia.com/accelerator",
        "topology.k8s.aws/ultraserver-id",
        "oci.oraclecloud.com/host.gpu_memory_fabric_id",
    ];
    let value = |key: &str| labels.get(key).filter(|v| !v.is_empty()).cloned();
    let ending = |end: &str| {
        let is = |k: &&String| is_accelerated(k) && k.ends_with(end);
        labels.keys().find(is).and_then(|k| value(k))
    };
    let mut levels: Vec<(u32, String)> = labels
        .keys()
        .filter(|k| is_accelerated(k))
        .filter_map(|k| Some((numbered(k)?.1, value(k)?)))
        .collect();
    levels.sort();
    let sub = ending("/sub-domain");
    let (low, high) = (levels.first().cloned(), levels.last().cloned());
    match (ending("/domain"), DOMAINS.iter().find_map(|k| value(k))) {
        (Some(domain), _) => (Some(domain), sub),
        (None, Some(domain)) => (Some(domain), sub),
        (None, None) => {
            let several = levels.len() > 1;
            (high.map(|l| l.1), low.filter(|_| several).map(|l| l.1))
        }
    }
}

/// The kind of hosts with a product, as in `NVIDIA-H100-80GB-HBM3` or `p5.48xlarge`; of unknown products none.
pub fn kind_of(product: &str) -> Option<&'static Published> {
    const PRODUCTS: [(&[&str], &str); 9] = [
        (
            &["a100-pci", "h100-pci", "h100-nvl", "h200-nvl", "l40", "rtx"],
            "pcie-gpus",
        ),
        (&["gb200", "gb300", "p6e-gb"], "gb200-nvl72"),
        (&["b200", "b300", "b100"], "dgx-b200"),
        (&["gh200"], "gh200"),
        (
            &["h100", "h200", "h800", "h20", "p5.", "p5e", "a3-"],
            "dgx-h100",
        ),
        (&["a100", "a800", "p4d", "p4de", "a2-"], "dgx-a100"),
        (&["mi300", "mi325"], "mi300x"),
        (&["tpu-v4"], "tpu-v4"),
        (&["tesla-t4", "a10", "a40", "l4"], "pcie-gpus"),
    ];
    let product = product.to_ascii_lowercase().replace(['_', ' '], "-");
    let found = PRODUCTS
        .iter()
        .find(|(words, _)| words.iter().any(|w| product.contains(w)))?;
    HOST_KINDS.iter().find(|k| k.name == found.1)
}

/// A kind with another number of GPUs.
pub fn with_gpus(kind: &Published, gpus: u16) -> Published {
    let quad = HOST_KINDS.iter().find(|k| k.name == "gh200-quad");
    match (kind.name, quad) {
        ("gh200", Some(quad)) if gpus > 1 => Published { gpus, ..*quad },
        _ => Published { gpus, ..*kind },
    }
}

/// A tree of the switches above nodes: nodes with their switches, nearest first. Equal names below different switches
/// are different switches; a node with fewer switches is joined to the others by its last one.
pub fn tree(nodes: &[(String, Vec<String>)], notes: &mut Vec<String>) -> Vec<Switch> {
    let mut above: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for (_, layers) in nodes {
        for pair in layers.windows(2) {
            above.entry(&pair[0]).or_default().insert(&pair[1]);
        }
    }
    let mut missing = Vec::new();
    let mut paths: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for (node, layers) in nodes {
        let mut path: Vec<&str> = layers.iter().map(String::as_str).collect();
        while let Some(up) = path.last().and_then(|l| above.get(l)) {
            let next = up
                .first()
                .copied()
                .filter(|n| up.len() == 1 && !path.contains(n));
            let Some(next) = next else { break };
            path.push(next);
        }
        if path.is_empty() {
            missing.push(node.clone());
        }
        let path = path.iter().rev().map(|&l| l.to_owned()).collect();
        paths.entry(path).or_default().push(node.clone());
    }
    let what = "no label of the network's topology: below the root on a switch for these alone";
    note_of(notes, &missing, "node has", "nodes have", what);
    let mut known: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
    for path in paths.keys() {
        for at in 1..=path.len() {
            let up = known.entry(path[..at - 1].to_vec()).or_default();
            up.insert(path[..at].to_vec());
            known.entry(path[..at].to_vec()).or_default();
        }
    }
    if !missing.is_empty() {
        let alone = vec!["(no label)".to_owned()];
        let all = paths.remove(&Vec::new()).unwrap_or_default();
        paths.insert(alone.clone(), all);
        known.entry(Vec::new()).or_default().insert(alone.clone());
        known.entry(alone).or_default();
    }
    let mut used: HashMap<&str, usize> = HashMap::new();
    for last in known.keys().filter_map(|p| p.last()) {
        *used.entry(last).or_default() += 1;
    }
    let called = |path: &[String]| match path.last() {
        None => "(root)".to_owned(),
        Some(last) if used.get(last.as_str()) == Some(&1) => last.clone(),
        Some(_) => path.join("/"),
    };
    let tops = known
        .get(&Vec::new() as &Vec<String>)
        .map_or(0, BTreeSet::len);
    if tops > 1 {
        notes.push(format!(
            "{tops} switches at the top: they are assumed to be joined by one more"
        ));
    }
    let (mut switches, mut without_leaf) = (Vec::new(), Vec::new());
    for (path, children) in &known {
        if path.is_empty() && tops < 2 {
            continue;
        }
        let own = paths.get(path).cloned().unwrap_or_default();
        let mut below: Vec<String> = children.iter().map(|c| called(c)).collect();
        let line = 0;
        // A switch with both kinds of ends: its nodes are below one of their own.
        if !own.is_empty() && !below.is_empty() {
            let name = format!("{} (nodes)", called(path));
            below.push(name.clone());
            without_leaf.extend_from_slice(&own);
            let children = Vec::new();
            switches.push(Switch {
                name,
                nodes: own,
                children,
                line,
            });
            switches.push(Switch {
                name: called(path),
                nodes: Vec::new(),
                children: below,
                line,
            });
        } else {
            switches.push(Switch {
                name: called(path),
                nodes: own,
                children: below,
                line,
            });
        }
    }
    let what = "no label of a leaf below a switch that has leaves: on a switch for these alone";
    note_of(notes, &without_leaf, "node has", "nodes have", what);
    switches
}

/// Notes about the domains of hosts of unknown kind.
pub fn remarks(hosts: &[KnownHost], notes: &mut Vec<String>) {
    let mut domains: BTreeMap<&str, usize> = BTreeMap::new();
    for domain in hosts.iter().filter_map(|h| h.domain.as_deref()) {
        *domains.entry(domain).or_default() += 1;
    }
    let several = domains.values().filter(|&&n| n > 1).count();
    if several > 0 {
        notes.push(format!(
            "{several} domains of accelerators with several nodes, and no kind of nodes: \
             --hosts gb200-nvl72 makes them NVLink domains"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn families_are_found_by_their_labels() {
        let aws = labels(&[
            ("topology.k8s.aws/network-node-layer-1", "nn-top"),
            ("topology.k8s.aws/network-node-layer-3", "nn-low"),
            ("topology.kubernetes.io/zone", "use1-az1"),
        ]);
        let family = super::family(std::slice::from_ref(&aws), None);
        assert_eq!(layers(&aws, &family), ["nn-low", "nn-top", "use1-az1"]);
        for prefix in [
            "fabric.topograph.run/tier-",
            "fabric.topology.nvidia.com/level-",
        ] {
            let (low, high) = (format!("{prefix}0"), format!("{prefix}1"));
            let node = labels(&[(&low, "leaf"), (&high, "spine")]);
            let family = super::family(std::slice::from_ref(&node), None);
            assert_eq!(layers(&node, &family), ["leaf", "spine"]);
        }
        let own = labels(&[
            ("example.com/rack", "r1"),
            ("example.com/row", "a"),
            ("app", "x"),
        ]);
        let other = labels(&[("example.com/rack", "r2"), ("example.com/row", "a")]);
        let family = super::family(&[own.clone(), other], None);
        assert_eq!(layers(&own, &family), ["r1", "a"]);
    }

    #[test]
    fn domains_have_many_names() {
        for (pairs, domain, sub) in [
            (&[("nvidia.com/gpu.clique", "u.3")][..], "u.3", None),
            (
                &[
                    ("accelerator.topology.test/domain", "d"),
                    ("accelerator.topology.test/sub-domain", "s"),
                ],
                "d",
                Some("s"),
            ),
            (
                &[("accelerated.topology.nvidia.com/level-0", "a")],
                "a",
                None,
            ),
            (
                &[
                    ("accelerated.topology.nvidia.com/level-1", "b"),
                    ("accelerated.topology.nvidia.com/level-0", "a"),
                ],
                "b",
                Some("a"),
            ),
        ] {
            let found = super::domain(&labels(pairs));
            assert_eq!(found, (Some(domain.to_owned()), sub.map(str::to_owned)));
        }
    }

    #[test]
    fn products_have_kinds() {
        let kind = |product: &str| kind_of(product).map(|k| k.name);
        assert_eq!(kind("NVIDIA-H100-80GB-HBM3"), Some("dgx-h100"));
        assert_eq!(kind("NVIDIA-H100-PCIe"), Some("pcie-gpus"));
        assert_eq!(kind("NVIDIA-GB200"), Some("gb200-nvl72"));
        assert_eq!(kind("AMD_Instinct_MI300X_OAM"), Some("mi300x"));
        assert_eq!(kind("NVIDIA-A100-SXM4-80GB"), Some("dgx-a100"));
        assert_eq!(kind("abacus"), None);
    }

    #[test]
    fn trees_of_partial_paths() {
        let node = |name: &str, layers: &[&str]| {
            (
                name.to_owned(),
                layers.iter().map(|&l| l.to_owned()).collect::<Vec<_>>(),
            )
        };
        let mut notes = Vec::new();
        let switches = tree(
            &[
                node("a", &["r1", "x"]),
                node("b", &["r1", "y"]),
                node("c", &["r2", "y", "top"]),
                node("d", &[]),
                node("e", &["y", "top"]),
            ],
            &mut notes,
        );
        let names: BTreeSet<&str> = switches.iter().map(|s| s.name.as_str()).collect();
        let expected = [
            "(no label)",
            "(root)",
            "r2",
            "top",
            "top/y/r1",
            "x",
            "x/r1",
            "y",
            "y (nodes)",
        ];
        assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(notes.len(), 3);
        assert!(notes[2].starts_with("1 node has no label of a leaf") && notes[2].ends_with(": e"));
    }

    #[test]
    fn the_sources_of_topograph_are_named() {
        for content in [
            r#"[{"links": [{"compounded_links": [{"id": "a", "interfaces": []}]}]}]"#,
            r#"[{"DomainUUID": "u", "LocationInfo": {"SlotID": 5}, "Name": "node1"}]"#,
        ] {
            let limits = crate::text::Limits::TEXT;
            let text = crate::text::Text::from_bytes("f", content.as_bytes(), limits).unwrap();
            let error = super::super::formats::Format::of(&text)
                .unwrap_err()
                .to_string();
            assert!(error.contains("an answer of NetQ or NMX"), "{error}");
            assert!(error.contains("graph engine"), "{error}");
        }
    }
}
