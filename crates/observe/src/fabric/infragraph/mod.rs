//! InfraGraph documents (Keysight/infragraph, JSON or YAML): devices with parts and inner links, instances of them, and
//! the cables between.
//!
//! ```text
//! devices: [{name: server, components: [{name: xpu, choice: xpu, count: 8}, …], links: […], edges: […]}]
//! instances: [{name: host, device: server, count: 4}]
//! edges: [{ep1: {instance: "host[0]", component: "nic[0]"}, ep2: {…}, scheme: one2one, link: leaf}]
//! ```
//!
//! Instances with accelerators or adapters are hosts: `host.3`, ports are the parts with cables. All others are switches,
//! each one router.

mod devices;

use super::names::name;
use super::yaml::{self, Yaml};
use crate::ObserveError;
use crate::text::Text;
use devices::{Device, Devices, Join, Kind, indices, pairs, path, rates};
use hopbyte_fabric::bounds::{MAX_LINKS, MAX_NODES};
use hopbyte_fabric::hosts::{HostKind, HostsRecord, Local, OwnPlace, PortRule, UnitSpec};
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{End, Fabric, FabricBuilder, Family, InputError, LinkSpec, NodeId, RouterId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Latency of a cable and the switch behind it, where the document has none.
const LATENCY: Seconds = Seconds(150e-9);
/// Rate of a cable without one, GB/s each way: 100 Gbit/s.
const CABLE: f64 = 12.5;
/// Rate of a link inside without one, GB/s each way: PCIe 5.0 with 16 lanes.
const PCIE: f64 = 64.0;
/// Rate of all links between an accelerator and others or their switches: NVLink of the fourth generation.
const ACCELERATOR: f64 = 450.0;

/// Whether a text is such a document.
pub fn recognise(text: &Text) -> bool {
    let keys = ["devices", "instances", "edges"];
    let has = |word: String| memchr::memmem::find(text.bytes(), word.as_bytes()).is_some();
    if yaml::is_json(text) {
        return keys.iter().all(|k| has(format!("\"{k}\"")))
            && yaml::is_json_with(text, &["components"]);
    }
    // Other dumps of machines are large: their lines are not looked at.
    if !keys.iter().all(|k| has(format!("{k}:"))) {
        return false;
    }
    let heads: BTreeSet<&[u8]> = text
        .lines()
        .map(|l| l.bytes.trim_ascii_end())
        .filter_map(|l| l.strip_suffix(b":"))
        .filter(|l| keys.iter().any(|k| k.as_bytes() == *l))
        .collect();
    heads.len() == keys.len()
}

/// An end of a cable: instance and part.
type Plug = (usize, usize);

/// A cable: its two ends and its rate, GB/s each way.
type Cable = ((Plug, Plug), f64);

/// A group of instances of one device.
struct Group {
    name: String,
    device: usize,
    first: usize,
    count: usize,
}

struct Document<'a> {
    text: &'a Text,
    devices: Vec<Device>,
    groups: Vec<Group>,
    /// Index of the group by name.
    named: HashMap<String, usize>,
}

/// Reads a document: the network, and its hosts if they have accelerators.
pub fn read(
    text: &Text,
    notes: &mut Vec<String>,
) -> Result<(Fabric, Option<HostsRecord>), ObserveError> {
    let yaml = yaml::document(text)?;
    let document = Document::of(text, &yaml)?;
    let cables = document.cables(&yaml, notes)?;
    let network = Network::of(&document, &cables, notes)?;
    let hosts = document.hosts(&network, notes)?;
    Ok((network.fabric, hosts))
}

impl<'a> Document<'a> {
    fn of(text: &'a Text, yaml: &Yaml) -> Result<Self, InputError> {
        let listed = Devices::of(text, yaml);
        let mut document = Self {
            text,
            devices: Vec::new(),
            groups: Vec::new(),
            named: HashMap::new(),
        };
        let mut known: HashMap<&str, usize> = HashMap::new();
        let mut first = 0;
        for instance in yaml.get("instances").map_or(&[][..], Yaml::items) {
            let (Some(own), Some(device)) = (instance.word("name"), instance.word("device")) else {
                return Err(instance.wrong(text, "an instance with name and device"));
            };
            let count = instance.word("count").unwrap_or("1").parse::<usize>().ok();
            let count = count.filter(|&c| c <= MAX_NODES as usize - first);
            let expected = format!("a count, and at most {MAX_NODES} instances");
            let count = count.ok_or_else(|| instance.wrong(text, expected))?;
            let at = match known.get(device) {
                Some(&at) => at,
                None => {
                    document.devices.push(listed.device(device)?);
                    known.insert(device, document.devices.len() - 1);
                    document.devices.len() - 1
                }
            };
            let group = document.groups.len();
            if document.named.insert(own.to_owned(), group).is_some() {
                return Err(instance.wrong(text, "every instance once"));
            }
            document.groups.push(Group {
                name: name(own.as_bytes()),
                device: at,
                first,
                count,
            });
            first += count;
        }
        Ok(document)
    }

    fn group(&self, instance: usize) -> &Group {
        let at = self.groups.partition_point(|g| g.first <= instance);
        &self.groups[at.saturating_sub(1)]
    }

    fn device(&self, instance: usize) -> &Device {
        &self.devices[self.group(instance).device]
    }

    /// `host.3`.
    fn name(&self, instance: usize) -> String {
        let group = self.group(instance);
        format!("{}.{}", group.name, instance - group.first)
    }

    fn is_host(&self, instance: usize) -> bool {
        let parts = &self.device(instance).parts;
        parts.iter().any(|p| p.kind != Kind::Other)
    }

    /// All cables with their rates in GB/s.
    fn cables(&self, yaml: &Yaml, notes: &mut Vec<String>) -> Result<Vec<Cable>, InputError> {
        let (text, known) = (self.text, rates(self.text, yaml)?);
        let mut assumed = BTreeSet::new();
        let mut cables = Vec::new();
        for edge in yaml.get("edges").map_or(&[][..], Yaml::items) {
            let link = edge.word("link").unwrap_or_default();
            let rate = known.get(link).copied().unwrap_or_else(|| {
                assumed.insert(link.to_owned());
                CABLE
            });
            for pair in pairs(text, edge, |end| self.plugs(end))? {
                cables.push((pair, rate));
            }
            if cables.len() as u64 > MAX_LINKS / 2 {
                return Err(edge.wrong(text, format!("at most {} cables", MAX_LINKS / 2)));
            }
        }
        if !assumed.is_empty() {
            let names: Vec<String> = assumed.into_iter().collect();
            notes.push(format!(
                "links without a bandwidth are taken as {CABLE} GB/s: {}",
                names.join(", ")
            ));
        }
        Ok(cables)
    }

    /// The plugs of an end: instances and parts, both with slices.
    fn plugs(&self, end: &Yaml) -> Result<Vec<Plug>, String> {
        let instance = end.word("instance").ok_or("an end with an instance")?;
        let (own, slice) = instance.split_once('[').unwrap_or((instance, ":]"));
        let group = self.named.get(own);
        let group = group.ok_or_else(|| format!("an instance of the list, not '{own}'"))?;
        let group = &self.groups[*group];
        let numbers = slice
            .strip_suffix(']')
            .and_then(|s| indices(s, group.count));
        let expected = || format!("a slice of {} instances, not '{instance}'", group.count);
        let numbers = numbers.ok_or_else(expected)?;
        let parts = self.devices[group.device].find(&path(end))?;
        if numbers.len().saturating_mul(parts.len()) as u64 > MAX_LINKS {
            return Err(format!("at most {MAX_LINKS} ends"));
        }
        let of = |n: &usize| {
            let instance = group.first + n;
            parts.iter().map(move |&p| (instance, p))
        };
        Ok(numbers.iter().flat_map(of).collect())
    }

    /// Hosts with accelerators: a kind for each device and set of ports.
    fn hosts(
        &self,
        network: &Network,
        notes: &mut Vec<String>,
    ) -> Result<Option<HostsRecord>, InputError> {
        let mut kinds: Vec<HostKind> = Vec::new();
        let mut known: HashMap<(usize, Vec<usize>), u32> = HashMap::new();
        let (mut units, mut assumed) = (Vec::new(), BTreeSet::new());
        for (&instance, ports) in &network.ports {
            let group = self.group(instance);
            let device = &self.devices[group.device];
            if device.parts.iter().all(|p| p.kind != Kind::Accelerator) {
                continue;
            }
            let parts: Vec<usize> = ports.keys().copied().collect();
            let key = (group.device, parts.clone());
            let kind = match known.get(&key) {
                Some(&kind) => kind,
                None => {
                    kinds.push(self.kind(&group.name, device, &parts, &mut assumed)?);
                    known.insert(key, kinds.len() as u32 - 1);
                    kinds.len() as u32 - 1
                }
            };
            units.push(UnitSpec {
                kind,
                hosts: vec![self.name(instance)],
                ports: ports.values().copied().collect(),
            });
        }
        if !assumed.is_empty() {
            let names: Vec<String> = assumed.into_iter().collect();
            notes.push(format!(
                "links inside without a bandwidth: PCIe is taken as {PCIE} GB/s, all others of an accelerator together as {ACCELERATOR} GB/s ({})",
                names.join(", ")
            ));
        }
        let rail = kinds
            .iter()
            .any(|k| k.links.iter().any(|l| l.kind == "NVLink"));
        Ok((!units.is_empty()).then_some(HostsRecord {
            rule: if rail {
                PortRule::Rail
            } else {
                PortRule::Nearest
            },
            kinds,
            units,
            down: Vec::new(),
        }))
    }

    /// The structure of a host: accelerators are places, parts with cables are ports, and those that join several
    /// others are routers.
    fn kind(
        &self,
        name: &str,
        device: &Device,
        ports: &[usize],
        assumed: &mut BTreeSet<String>,
    ) -> Result<HostKind, InputError> {
        let mut kind = HostKind {
            name: name.to_owned(),
            hosts: 1,
            ports: vec![0; ports.len()],
            own: Vec::new(),
            places: Vec::new(),
            exclusive: true,
            routers: Vec::new(),
            links: Vec::new(),
        };
        let (same, joined) = alike(device, ports);
        let kept = kept(device, &joined, ports);
        let mut local: Vec<Option<Local>> = vec![None; device.parts.len()];
        for (at, part) in device.parts.iter().enumerate() {
            if let Ok(port) = ports.binary_search(&at) {
                local[at] = Some(Local::Port(port as u16));
            } else if part.kind == Kind::Accelerator {
                let place = Local::Place(kind.own.len() as u16);
                let name = part.name.replace('.', "");
                kind.own.push(OwnPlace { name, host: 0 });
                local[at] = Some(place);
            } else if let Some(first) = same[at] {
                local[at] = local[first];
            } else if kept[at] {
                local[at] = Some(kind.router(part.name.clone()));
            }
            if part.kind == Kind::Accelerator {
                kind.places.extend(local[at]);
            }
        }
        let is_gpu = |at: usize| device.parts[at].kind == Kind::Accelerator;
        let mut own = vec![0u32; device.parts.len()];
        let fast = |link: &str| is_fast(link) && !is_coherent(link);
        for join in joined.iter().filter(|j| fast(&j.link)) {
            own[join.ends.0] += 1;
            own[join.ends.1] += 1;
        }
        let mut seen = BTreeSet::new();
        let mut joins: BTreeMap<(Local, Local), (&str, f64)> = BTreeMap::new();
        for join in joined {
            let (a, b) = join.ends;
            let (Some(one), Some(other)) = (local[a], local[b]) else {
                continue;
            };
            if !seen.insert((a.min(b), a.max(b), &join.link)) {
                continue; // written from both ends
            }
            let (one, other) = (one.min(other), one.max(other));
            let gpu = is_gpu(a) || is_gpu(b);
            let (word, default) = match is_fast(&join.link) {
                true if is_coherent(&join.link) => ("C2C", ACCELERATOR),
                true if gpu => {
                    let links = if is_gpu(a) { own[a] } else { own[b] };
                    ("NVLink", ACCELERATOR / f64::from(links.max(1)))
                }
                true => ("inside", ACCELERATOR),
                false => ("PCIe", PCIE),
            };
            let rate = join.rate.unwrap_or_else(|| {
                assumed.insert(join.link.clone());
                default
            });
            let sum = joins.entry((one, other)).or_insert((word, 0.0));
            sum.1 += rate;
        }
        for ((one, other), (word, rate)) in joins {
            kind.join(one, other, word, rate);
        }
        for (at, part) in device.parts.iter().enumerate() {
            let joined = |l: &hopbyte_fabric::hosts::InnerLink| Some(l.from) == local[at];
            if part.kind == Kind::Accelerator && !kind.links.iter().any(joined) {
                let found = format!("{} of {name}, which nothing joins", part.name);
                return Err(self.text.error(found, "edges of every accelerator"));
            }
        }
        Ok(kind)
    }
}

/// Whether a link is fast: NVLink, xGMI and the like, not PCIe.
fn is_fast(link: &str) -> bool {
    !link.to_ascii_lowercase().contains("pci")
}

/// Whether a fast link joins an accelerator to its processor.
fn is_coherent(link: &str) -> bool {
    link.to_ascii_lowercase().contains("c2c")
}

/// The partners of every part.
fn partners<'d>(device: &Device, joins: impl Iterator<Item = &'d Join>) -> Vec<BTreeSet<usize>> {
    let mut partners = vec![BTreeSet::new(); device.parts.len()];
    for join in joins {
        partners[join.ends.0].insert(join.ends.1);
        partners[join.ends.1].insert(join.ends.0);
    }
    partners
}

/// For each part the first one that joins the same accelerators by fast links and nothing else: NVSwitches, over which
/// a GPU spreads its bytes. They are one switch. Also all joins but those of such switches by PCIe, which manage them.
fn alike<'d>(device: &'d Device, ports: &[usize]) -> (Vec<Option<usize>>, Vec<&'d Join>) {
    let partners = partners(device, device.joins.iter().filter(|j| is_fast(&j.link)));
    let is_gpu = |&at: &usize| device.parts[at].kind == Kind::Accelerator;
    let is_switch = |at: usize| {
        let fixed = is_gpu(&at) || ports.binary_search(&at).is_ok();
        !fixed && partners[at].len() > 1 && partners[at].iter().all(is_gpu)
    };
    let mut first: HashMap<&BTreeSet<usize>, usize> = HashMap::new();
    let mut same = vec![None; partners.len()];
    for (at, own) in partners.iter().enumerate().filter(|p| is_switch(p.0)) {
        let earlier = *first.entry(own).or_insert(at);
        same[at] = Some(earlier).filter(|&e| e != at);
    }
    let carries = |j: &&Join| is_fast(&j.link) || !(is_switch(j.ends.0) || is_switch(j.ends.1));
    (same, device.joins.iter().filter(carries).collect())
}

/// Parts that are on a way between accelerators and ports: dead ends are removed until none is left.
fn kept(device: &Device, joins: &[&Join], ports: &[usize]) -> Vec<bool> {
    let fixed =
        |at: usize| device.parts[at].kind == Kind::Accelerator || ports.binary_search(&at).is_ok();
    let mut partners = partners(device, joins.iter().copied());
    let mut kept = vec![true; device.parts.len()];
    let mut ends: Vec<usize> = (0..kept.len()).collect();
    while let Some(at) = ends.pop() {
        if fixed(at) || !kept[at] || partners[at].len() > 1 {
            continue;
        }
        kept[at] = false;
        for partner in std::mem::take(&mut partners[at]) {
            partners[partner].remove(&at);
            ends.push(partner);
        }
    }
    kept
}

/// Switches, cables and the ports of hosts.
struct Network {
    fabric: Fabric,
    /// By host and part.
    ports: BTreeMap<usize, BTreeMap<usize, NodeId>>,
}

impl Network {
    fn of(
        document: &Document<'_>,
        cables: &[Cable],
        notes: &mut Vec<String>,
    ) -> Result<Self, ObserveError> {
        let text = document.text;
        let mut b = FabricBuilder::new(Family::Generic, text.file());
        let mut routers: BTreeMap<usize, RouterId> = BTreeMap::new();
        for group in document
            .groups
            .iter()
            .filter(|g| !document.is_host(g.first))
        {
            for instance in group.first..group.first + group.count {
                routers.insert(instance, b.router(document.name(instance), &[]));
            }
        }
        let kind = b.kind("cable", false);
        let mut plugged: BTreeMap<Plug, (RouterId, f64)> = BTreeMap::new();
        let mut trunks: BTreeMap<(RouterId, RouterId), (u16, f64)> = BTreeMap::new();
        let (mut again, mut loops) = (0, 0);
        let mut seen = BTreeSet::new();
        for &((one, other), rate) in cables {
            // A cable may be listed from both ends.
            if !seen.insert((one.min(other), one.max(other))) {
                continue;
            }
            match (routers.get(&one.0), routers.get(&other.0)) {
                (Some(a), Some(b)) if a == b => loops += 1,
                (Some(&a), Some(&b)) => {
                    let trunk = trunks.entry((a.min(b), a.max(b))).or_default();
                    *trunk = (trunk.0.saturating_add(1), trunk.1 + rate);
                }
                (Some(&router), None) => again += plug(&mut plugged, other, (router, rate)),
                (None, Some(&router)) => again += plug(&mut plugged, one, (router, rate)),
                (None, None) => {
                    let (a, b) = (document.name(one.0), document.name(other.0));
                    let found = format!("a cable from {a} to {b}, two hosts");
                    let error = text.error(found, "cables to switches");
                    let hint = "hosts without switches between them are not supported";
                    return Err(error.hint(hint).into());
                }
            }
        }
        if plugged.is_empty() {
            let found = "no cable of a host";
            let error = text.error(found, "instances with accelerators or adapters, and cables");
            return Err(error.into());
        }
        for (&(from, to), &(lanes, rate)) in &trunks {
            for (from, to) in [(from, to), (to, from)] {
                let (from, to) = (End::Router(from), End::Router(to));
                let capacity = BytesPerSecond(rate * 1e9);
                b.link(LinkSpec {
                    lanes,
                    lanes_in_service: lanes,
                    ..LinkSpec::new(from, to, kind, capacity, LATENCY)
                });
            }
        }
        let mut ports: BTreeMap<usize, BTreeMap<usize, NodeId>> = BTreeMap::new();
        let host_cable = b.kind("host cable", false);
        for (&(instance, part), &(router, rate)) in &plugged {
            let host = document.name(instance);
            let node = format!("{host}.{}", document.device(instance).parts[part].name);
            let rate = BytesPerSecond(rate * 1e9);
            let node = b.node_with_link(node, host, router, host_cable, rate);
            ports.entry(instance).or_default().insert(part, node);
        }
        for (count, text) in [
            (again, "further cables of ports that have one are left out"),
            (loops, "cables of a switch to itself are left out"),
        ] {
            if count > 0 {
                notes.push(format!("{count} {text}"));
            }
        }
        let fabric = b.finish()?;
        Ok(Self { fabric, ports })
    }
}

/// Plugs a port in; returns 1 if it has a cable already.
fn plug(plugged: &mut BTreeMap<Plug, (RouterId, f64)>, port: Plug, to: (RouterId, f64)) -> u32 {
    match plugged.contains_key(&port) {
        true => 1,
        false => {
            plugged.insert(port, to);
            0
        }
    }
}

#[cfg(test)]
mod tests;
