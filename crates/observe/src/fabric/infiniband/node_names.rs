//! Names of switches and nodes, and which nodes are ports of one host.

use super::super::host_files::is_adapter_name;
use super::{PortKey, Scan, guid_text};
use hopbyte_fabric::RouterId;
use std::collections::{HashMap, HashSet};

/// Two adapter ports belong to one adapter when their GUIDs are this close.
const ONE_ADAPTER: u64 = 8;

/// Most ports of an adapter.
const PORTS: usize = 2;

impl Scan {
    /// Names and host names of nodes. A description that several adapters share (the factory default) does not
    /// identify the host, so it does not become a host name.
    pub(super) fn node_names(&self, nodes: &[(PortKey, RouterId)]) -> Vec<(String, String)> {
        let mut by_description: HashMap<&str, Vec<PortKey>> = HashMap::new();
        for (key, _) in nodes {
            let description = &self.devices[key.0 as usize].description;
            by_description.entry(description).or_default().push(*key);
        }
        let mut starts: HashMap<&str, HashSet<&str>> = HashMap::new();
        for (first, whole) in by_description.keys().filter_map(|d| host_in(d)) {
            starts.entry(first).or_default().insert(whole);
        }
        let ports_of = count(nodes.iter().map(|((device, _), _)| *device));
        nodes
            .iter()
            .map(|&(key, _)| {
                let device = &self.devices[key.0 as usize];
                let named = &by_description[device.description.as_str()];
                let of_port = self.port_of(key).guid;
                let identity = match of_port.or(device.guid) {
                    // The adapter's GUID does not tell its ports apart.
                    Some(guid) if of_port.is_none() && ports_of[&key.0] > 1 => {
                        format!("{} port {}", guid_text(guid), key.1)
                    }
                    Some(guid) => guid_text(guid),
                    None => format!("{}[{}]", device.id, key.1),
                };
                let name = unique_name(&device.description, named.len() == 1, &identity);
                let host = match host_in(&device.description) {
                    Some((first, whole)) if self.is_one_adapter(named) => {
                        let is_alone = starts.get(first).is_none_or(|others| others.len() < 2);
                        if is_alone { first } else { whole }.to_owned()
                    }
                    _ => name.clone(),
                };
                (name, host)
            })
            .collect()
    }

    /// Whether ports with one description can be those of one adapter.
    fn is_one_adapter(&self, ports: &[PortKey]) -> bool {
        let guid = |key: &PortKey| {
            let of_device = self.devices[key.0 as usize].guid;
            self.port_of(*key).guid.or(of_device)
        };
        let guids: Vec<u64> = ports.iter().filter_map(guid).collect();
        match (guids.iter().min(), guids.iter().max()) {
            (Some(first), Some(last)) => guids.len() == ports.len() && last - first < ONE_ADAPTER,
            _ => ports.len() <= PORTS,
        }
    }
}

/// The first word of a description, and all words before the adapter's name at its end (`node 1` of `node 1 HCA-1`): the
/// host of names with spaces, whose first word several hosts share.
fn host_in(description: &str) -> Option<(&str, &str)> {
    let description = description.trim();
    let first = description.split_whitespace().next()?;
    let whole = description.rsplit_once(' ').filter(|(_, last)| {
        let of_descriptions = ["HCA-", "qib"];
        last.ends_with(|c: char| c.is_ascii_digit())
            && (is_adapter_name(last) || of_descriptions.iter().any(|a| last.starts_with(a)))
    });
    Some((first, whole.map_or(first, |(whole, _)| whole.trim_end())))
}

/// How often each item occurs.
pub(super) fn count<T: std::hash::Hash + Eq>(items: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut counts = HashMap::new();
    for item in items {
        *counts.entry(item).or_default() += 1;
    }
    counts
}

/// The description if it is unique, else with the identity appended.
pub(super) fn unique_name(description: &str, unique: bool, identity: &str) -> String {
    match (description.is_empty(), unique) {
        (true, _) => identity.to_owned(),
        (false, true) => description.to_owned(),
        (false, false) => format!("{description} [{identity}]"),
    }
}
