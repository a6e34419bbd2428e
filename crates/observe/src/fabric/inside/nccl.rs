//! NCCL topology XML: the output of `NCCL_TOPO_DUMP_FILE`, the input of `NCCL_TOPO_FILE`.
//!
//! ```text
//! <system version="1">
//!   <cpu host_hash="0x1" numaid="0" …>
//!     <pci busid="0000:10:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">
//!       <pci busid="0000:10:1c.0" class="0x030200" …>
//!         <gpu dev="0" sm="90"><nvlink target="0000:20:1c.0" count="2"/><c2c bw="44712" count="10"/></gpu>
//!       <pci busid="0000:10:1b.0" class="0x020000" …> <nic><net name="mlx5_0" speed="200000" guid="0x…"/></nic>
//! ```
//!
//! CPUs with different `host_hash` are in different machines: nothing but NVLink joins these. RCCL's files have `<xgmi>`
//! for AMD's Infinity Fabric in the place of `<nvlink>`, and the chip in `gcn`; their `sm` counts compute units. An
//! adapter that is no PCI device (a bond, an adapter of a virtual machine) is below its CPU.

use super::{BETWEEN_PACKAGES, INSIDE_PACKAGE, Inside, Rate, line, parse, pci_device};
use crate::ObserveError;
use crate::fabric::names::note_of;
use crate::text::{Line, Text};
use hopbyte_fabric::{Fabric, InputError, NodeId, RouterId};
use roxmltree::Node;
use std::collections::{HashMap, HashSet};

/// Whether a line begins a topology.
pub fn recognise(line: Line<'_>) -> bool {
    let line = line.trimmed();
    line == b"<system>" || line.starts_with(b"<system version=")
}

/// What a PCI device is by the elements below it: NCCL attaches `<gpu>` and `<nic>` to the devices that it finds, of
/// whatever class (accelerators of clouds are host bridges or co-processors to their hypervisors).
fn by_content(pci: Node<'_, '_>) -> Option<&'static str> {
    match () {
        () if has(pci, "gpu") => Some("GPU"),
        () if has(pci, "nic") || has(pci, "net") => Some("adapter"),
        () => None,
    }
}

fn has(of: Node<'_, '_>, tag: &str) -> bool {
    of.children().any(|e| e.has_tag_name(tag))
}

/// Starts of the names that Linux, container runtimes and hypervisors give to interfaces without a device of their own.
const VIRTUAL: [&str; 18] = [
    "br-", "cali", "cbr", "cilium", "cni", "docker", "dummy", "flannel", "kube-", "lxc", "ovs-",
    "podman", "tap", "tun", "veth", "virbr", "vnet", "vxlan",
];

/// Whether a network is an interface of software: a bridge, a tunnel, a container's end of a pair.
fn is_virtual(net: Node<'_, '_>) -> bool {
    let name = net.attribute("name").unwrap_or_default();
    let bridge = name.strip_prefix("br").unwrap_or_default();
    let is_number = !bridge.is_empty() && bridge.bytes().all(|b| b.is_ascii_digit());
    name == "lo" || is_number || VIRTUAL.iter().any(|start| name.starts_with(start))
}

/// Rate of one NVLink each way in GB/s by the GPU's architecture; NCCL counts links and takes the rate from the chip
/// (its `src/graph/topo.h` has the usable rates, these are the nominal ones of NVIDIA's architecture whitepapers).
const NVLINKS: [(u32, f64); 6] = [
    (60, 20.0),
    (70, 25.0),
    (80, 25.0),
    (86, 14.0),
    (90, 25.0),
    (100, 50.0),
];
/// The rate without an architecture in the file: third generation.
const NVLINK: f64 = 25.0;

/// Rate of one Infinity Fabric link each way in GB/s by the chip's number (`gcn`), from AMD's data sheets: half of the
/// rate that they give for both ways. The file has the number, or `gfx` and the number in hexadecimal digits.
const XGMI: [(u32, f64); 5] = [
    (0x906, 46.0),
    (0x908, 46.0),
    (0x90a, 50.0),
    (0x940, 64.0),
    (0x950, 76.8),
];
/// The rate without a chip that is known: that of the slowest.
const XGMI_SLOWEST: f64 = 46.0;

/// A kind of link between GPUs.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Between {
    NvLink,
    Xgmi,
}

impl Between {
    const ALL: [Self; 2] = [Self::NvLink, Self::Xgmi];

    fn tag(self) -> &'static str {
        match self {
            Self::NvLink => "nvlink",
            Self::Xgmi => "xgmi",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NvLink => "NVLink",
            Self::Xgmi => "XGMI",
        }
    }

    /// What tells a GPU's generation, and the rate without it.
    pub(super) fn assumed(self) -> (&'static str, f64) {
        match self {
            Self::NvLink => ("sm", NVLINK),
            Self::Xgmi => ("gcn", XGMI_SLOWEST),
        }
    }

    /// Rate of one link of a GPU each way, in GB/s, if its generation is known.
    fn rate(self, gpu: Node<'_, '_>) -> Option<f64> {
        let (number, rates): (Option<u32>, &[(u32, f64)]) = match self {
            Self::NvLink => (gpu.attribute("sm")?.parse().ok(), &NVLINKS),
            Self::Xgmi => {
                let chip = gpu.attribute("gcn")?.trim_start_matches("gfx");
                // RCCL wrote 910 for gfx90a.
                let chip = if chip == "910" { "90a" } else { chip };
                (u32::from_str_radix(chip, 16).ok(), &XGMI)
            }
        };
        let number = number?;
        rates.iter().rev().find(|k| number >= k.0).map(|k| k.1)
    }
}

/// Reads a topology.
pub fn read(text: &Text, notes: &mut Vec<String>) -> Result<Fabric, ObserveError> {
    let document = parse(text)?;
    let root = document.root_element();
    if root.tag_name().name() != "system" {
        let found = root.tag_name().name();
        return Err(text.error(found, "a <system>").at(line(root)).into());
    }
    let mut reader = Reader {
        text,
        inside: Inside::new(text),
        hosts: Vec::new(),
        host: 0,
        gpus: HashMap::new(),
        links: Vec::new(),
        unknown: [0; 2],
        nameless: 0,
        doubled: Vec::new(),
        software: Vec::new(),
        again: Vec::new(),
        nets: HashSet::new(),
    };
    let cpus: Vec<Node<'_, '_>> = root.children().filter(|e| e.has_tag_name("cpu")).collect();
    for cpu in &cpus {
        reader.find_host(*cpu);
    }
    let names: Vec<String> = (0..reader.hosts.len())
        .map(|host| reader.named(host, "system"))
        .collect();
    let tops: Vec<RouterId> = names
        .iter()
        .map(|name| reader.inside.router(name))
        .collect();
    for cpu in cpus {
        reader.host = reader.find_host(cpu);
        reader.cpu(cpu, tops[reader.host])?;
    }
    reader.join_gpus(notes);
    if reader.hosts.len() > 1 {
        notes.push(format!(
            "{} machines by host_hash: only NVLinks join them",
            reader.hosts.len()
        ));
    }
    if reader.nameless > 0 {
        notes.push(format!(
            "{} PCI devices have no class and nothing below them, and are left out",
            reader.nameless
        ));
    }
    note_of(
        notes,
        &reader.doubled,
        "PCI device has",
        "PCI devices have",
        "several <gpu>, of which the first is read",
    );
    note_of(
        notes,
        &reader.software,
        "network is",
        "networks are",
        "an interface of software (a bridge, a tunnel, a container's) and left out",
    );
    note_of(
        notes,
        &reader.again,
        "network is",
        "networks are",
        "listed at a further CPU and left out there",
    );
    Ok(reader.inside.finish(text, notes)?)
}

/// One entry of a GPU: its router, machine, far end by bus id, number of links, rate of a link in GB/s.
struct GpuLink {
    kind: Between,
    from: RouterId,
    host: usize,
    target: String,
    count: f64,
    rate: f64,
}

struct Reader<'a> {
    text: &'a Text,
    inside: Inside,
    /// `host_hash` of the machines, in order.
    hosts: Vec<String>,
    /// The machine of the current element.
    host: usize,
    /// Router of a GPU with links of its own, by machine and bus id.
    gpus: HashMap<(usize, String), RouterId>,
    links: Vec<GpuLink>,
    /// GPUs with links of each kind and without a generation that is known.
    unknown: [usize; 2],
    /// PCI devices without a class or anything below them.
    nameless: usize,
    /// PCI devices with several GPUs, by bus id.
    doubled: Vec<String>,
    /// Networks of software, by name.
    software: Vec<String>,
    /// Networks without a PCI device that a CPU before has, by name.
    again: Vec<String>,
    /// Networks without a PCI device, by machine, name and GUID.
    nets: HashSet<(usize, String, String)>,
}

impl Reader<'_> {
    /// The machine of a CPU.
    fn find_host(&mut self, cpu: Node<'_, '_>) -> usize {
        let hash = cpu.attribute("host_hash").unwrap_or_default();
        let known = self.hosts.iter().position(|h| h == hash);
        known.unwrap_or_else(|| {
            self.hosts.push(hash.to_owned());
            self.hosts.len() - 1
        })
    }

    /// A name within a machine; with several machines they are numbered in front.
    fn named(&self, host: usize, name: &str) -> String {
        match self.hosts.len() {
            0 | 1 => name.to_owned(),
            _ => format!("host{host} {name}"),
        }
    }

    fn own(&self, name: &str) -> String {
        self.named(self.host, name)
    }

    fn cpu(&mut self, cpu: Node<'_, '_>, top: RouterId) -> Result<(), ObserveError> {
        self.inside.count("CPU");
        let number = cpu.attribute("numaid").unwrap_or("?");
        let below = self.inside.router(&self.own(&format!("cpu {number}")));
        self.inside
            .join(top, below, "CPU", Rate::assumed(BETWEEN_PACKAGES));
        let cores = self.own(&format!("cores {number}"));
        self.inside
            .device(&cores, below, "core", Rate::assumed(INSIDE_PACKAGE));
        for nic in cpu.children().filter(|e| e.has_tag_name("nic")) {
            self.adapter(nic, below);
        }
        self.pci_below(cpu, (below, below))
    }

    /// An adapter without a PCI device, at its CPU. NCCL lists the interfaces of a container or a virtual machine so, at
    /// every CPU, among them those that no cable leaves.
    fn adapter(&mut self, nic: Node<'_, '_>, cpu: RouterId) {
        let of = |net: Node<'_, '_>, key: &str| net.attribute(key).unwrap_or_default().to_owned();
        let mut own = Vec::new();
        for net in nets(nic) {
            let (name, guid) = (of(net, "name"), of(net, "guid"));
            let named = !(name.is_empty() && guid.is_empty());
            if is_virtual(net) {
                if !self.software.contains(&name) {
                    self.software.push(name);
                }
            } else if named && !self.nets.insert((self.host, name.clone(), guid)) {
                self.again.push(name);
            } else {
                own.push(net);
            }
        }
        if own.is_empty() && nets(nic).next().is_some() {
            return;
        }
        let n = self.inside.count("adapter");
        let name = own.first().and_then(|net| net.attribute("name"));
        let name = name.map_or_else(|| format!("nic{n}"), str::to_owned);
        let speeds = own.iter().filter_map(|net| speed(*net));
        let rate = slower(Rate::assumed(INSIDE_PACKAGE), speeds);
        let node = self.inside.device(&self.own(&name), cpu, "network", rate);
        self.further_names(own.into_iter(), &name, node);
    }

    /// The other networks of an adapter (ports), and their GUIDs, as further names of it; GUID 0 is none.
    fn further_names<'x, 'i: 'x>(
        &mut self,
        nets: impl Iterator<Item = Node<'x, 'i>>,
        own: &str,
        node: NodeId,
    ) {
        let is_guid = |g: &&str| g.bytes().any(|b| !matches!(b, b'0' | b'x'));
        for net in nets {
            let port = net.attribute("name").filter(|n| *n != own);
            let port = port.map(|n| self.own(&crate::fabric::names::name(n.as_bytes())));
            let guid = net.attribute("guid").filter(is_guid);
            let guid = guid.map(|g| crate::fabric::names::name(g.as_bytes()));
            for name in port.into_iter().chain(guid) {
                self.inside.b.node_alias(name, node);
            }
        }
    }

    fn pci_below(
        &mut self,
        of: Node<'_, '_>,
        at: (RouterId, RouterId),
    ) -> Result<(), ObserveError> {
        for pci in of.children().filter(|e| e.has_tag_name("pci")) {
            self.pci(pci, at)?;
        }
        Ok(())
    }

    /// A PCI device below router `at` of a CPU.
    fn pci(
        &mut self,
        pci: Node<'_, '_>,
        (at, cpu): (RouterId, RouterId),
    ) -> Result<(), ObserveError> {
        let bus = pci
            .attribute("busid")
            .ok_or_else(|| self.wrong(pci, "a busid"))?;
        let class = pci.attribute("class").map(|class| {
            let class = u32::from_str_radix(class.trim_start_matches("0x"), 16);
            class.map_err(|_| self.wrong(pci, "a class such as 0x030200"))
        });
        let class = class.transpose()?;
        // NCCL fills in attributes that are left out by hand, from the running machine.
        let (content, has_more) = (by_content(pci), has(pci, "pci"));
        if class.is_none() && content.is_none() && !has_more {
            self.nameless += 1;
            return Ok(());
        }
        let rate = rate(pci).unwrap_or(Rate::assumed(INSIDE_PACKAGE));
        // The last two digits are the programming interface.
        let by_class = || pci_device(class? >> 8);
        let what = match content.or_else(by_class) {
            Some(what) if !has_more => what,
            _ => {
                let below = self.inside.router(&self.own(&format!("pci {bus}")));
                self.inside.count("PCI switch");
                self.inside.join(at, below, "PCI", rate);
                if let Some(what) = content.or_else(by_class) {
                    self.device(pci, what, bus, rate, (below, cpu))?;
                }
                return self.pci_below(pci, (below, cpu));
            }
        };
        self.device(pci, what, bus, rate, (at, cpu))
    }

    /// A GPU, an adapter or another device of PCI below a router.
    fn device(
        &mut self,
        pci: Node<'_, '_>,
        what: &'static str,
        bus: &str,
        rate: Rate,
        (at, cpu): (RouterId, RouterId),
    ) -> Result<(), ObserveError> {
        let n = self.inside.count(what);
        let mut gpus = pci.children().filter(|e| e.has_tag_name("gpu"));
        let gpu = gpus.next();
        if gpus.next().is_some() {
            self.doubled.push(bus.to_owned());
        }
        let number = gpu
            .and_then(|g| g.attribute("dev"))
            .map_or(n.to_string(), str::to_owned);
        let kind = if what == "GPU" { "gpu" } else { "nic" };
        let first = own_nets(pci).find_map(|e| e.attribute("name"));
        let first = first.map_or_else(|| format!("{kind}{number}"), str::to_owned);
        let name = self.own(&first);
        let (router, rate, kind) = match gpu.filter(|g| has_own_links(*g)) {
            None => (at, slower(rate, own_nets(pci).filter_map(speed)), "PCI"),
            Some(gpu) => {
                // A GPU with its own links is a junction, so it gets a router.
                let own = self.inside.router(&format!("{name} {bus}"));
                self.inside.join(at, own, "PCI", rate);
                let total = rate.bytes_per_s + self.own_links(gpu, (own, cpu), bus)?;
                // As fast as all its links together: the GPU itself is no limit.
                let rate = Rate {
                    bytes_per_s: total,
                    known: true,
                };
                (own, rate, "GPU")
            }
        };
        let node = self.inside.device(&name, router, kind, rate);
        let alias = self.own(&crate::fabric::names::name(bus.as_bytes()));
        self.inside.b.node_alias(alias, node);
        self.further_names(own_nets(pci), &first, node);
        Ok(())
    }

    /// The links of a GPU to others and to its CPU; returns their rates together, in bytes per second.
    fn own_links(
        &mut self,
        gpu: Node<'_, '_>,
        (own, cpu): (RouterId, RouterId),
        bus: &str,
    ) -> Result<f64, ObserveError> {
        let mut total = 0.0;
        self.gpus.insert((self.host, bus.to_ascii_lowercase()), own);
        for kind in Between::ALL {
            let known = kind.rate(gpu);
            let rate = known.unwrap_or(kind.assumed().1);
            let links = gpu.children().filter(|e| e.has_tag_name(kind.tag()));
            for (i, link) in links.enumerate() {
                let count = link.attribute("count").and_then(|c| c.parse::<u16>().ok());
                let target = link.attribute("target").map(str::to_ascii_lowercase);
                let (Some(count @ 1..), Some(target)) = (count, target) else {
                    return Err(self.wrong(link, "a target and a count from 1").into());
                };
                self.unknown[kind as usize] += usize::from(i == 0 && known.is_none());
                let count = f64::from(count);
                total += rate * count * 1e9;
                self.links.push(GpuLink {
                    kind,
                    from: own,
                    host: self.host,
                    target,
                    count,
                    rate,
                });
            }
        }
        for link in gpu.children().filter(|e| e.has_tag_name("c2c")) {
            let number = |name: &str| link.attribute(name).and_then(|c| c.parse::<u32>().ok());
            let (Some(bw @ 1..), Some(count @ 1..)) = (number("bw"), number("count")) else {
                return Err(self.wrong(link, "bw in MB/s and count, from 1").into());
            };
            let bytes_per_s = f64::from(bw) * f64::from(count) * 1e6;
            total += bytes_per_s;
            let known = true;
            self.inside
                .join(own, cpu, "C2C", Rate { bytes_per_s, known });
        }
        Ok(total)
    }

    /// Joins GPUs that list each other; links to switches end at one router per switch.
    fn join_gpus(&mut self, notes: &mut Vec<String>) {
        let links = std::mem::take(&mut self.links);
        let mut switches: HashMap<(usize, String), RouterId> = HashMap::new();
        let mut joined = [0; 2];
        for link in &links {
            let rate = Rate {
                bytes_per_s: link.rate * link.count * 1e9,
                known: true,
            };
            // NCCL writes one bus id of f for the switches of a domain, whose GPUs may be in several machines.
            let is_domain = link
                .target
                .bytes()
                .all(|b| matches!(b, b'f' | b':' | b'.' | b'0'))
                && link.target.contains("ff");
            let host = if is_domain { usize::MAX } else { link.host };
            let to = match self.gpus.get(&(link.host, link.target.clone())) {
                Some(&to) if link.from < to => to,
                // The far GPU's entry adds this link, or it is the same GPU.
                Some(_) => continue,
                None => match switches.get(&(host, link.target.clone())) {
                    Some(&to) => to,
                    None => {
                        let name = format!("nvswitch {}", link.target);
                        let name = if is_domain {
                            name
                        } else {
                            self.named(link.host, &name)
                        };
                        let to = self.inside.router(&name);
                        switches.insert((host, link.target.clone()), to);
                        to
                    }
                },
            };
            joined[link.kind as usize] += 1;
            self.inside.join(link.from, to, link.kind.name(), rate);
        }
        for kind in Between::ALL {
            let (joined, unknown) = (joined[kind as usize], self.unknown[kind as usize]);
            let (name, (by, assumed)) = (kind.name(), kind.assumed());
            if joined > 0 {
                notes.push(format!(
                    "{joined} {name} joints: the rate of a link is the nominal one of the GPU's architecture ({by})"
                ));
            }
            if unknown > 0 {
                notes.push(format!(
                    "{unknown} GPUs without a known {by}: {assumed} GB/s each way an {name} are assumed"
                ));
            }
        }
    }

    fn wrong(&self, element: Node<'_, '_>, expected: &str) -> InputError {
        let found = format!("<{}>", element.tag_name().name());
        self.text.error(found, expected).at(line(element))
    }
}

fn has_own_links(gpu: Node<'_, '_>) -> bool {
    let own = |e: Node<'_, '_>| {
        e.has_tag_name("c2c") || Between::ALL.iter().any(|k| e.has_tag_name(k.tag()))
    };
    gpu.children().any(own)
}

/// The networks of an adapter.
fn nets<'a, 'i>(of: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    of.descendants().filter(|e| e.has_tag_name("net"))
}

/// The networks of a PCI device, without those of the devices below it.
fn own_nets<'a, 'i>(pci: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    let is_own = move |net: &Node<'a, 'i>| {
        let above = net.ancestors().find(|e| e.has_tag_name("pci"));
        above.is_none_or(|above| above == pci)
    };
    nets(pci).filter(is_own)
}

/// Speed of a network interface, bytes per second; the file has Mbit/s.
fn speed(net: Node<'_, '_>) -> Option<f64> {
    let speed: f64 = net.attribute("speed")?.parse().ok()?;
    (speed.is_finite() && speed > 0.0).then_some(speed * 1e6 / 8.0)
}

/// The slower of a device's PCI link and its network interfaces together.
fn slower(pci: Rate, nets: impl Iterator<Item = f64>) -> Rate {
    let sum: f64 = nets.sum();
    if sum > 0.0 && (sum < pci.bytes_per_s || !pci.known) {
        return Rate {
            bytes_per_s: sum,
            known: true,
        };
    }
    pci
}

/// `8 GT/s` or `16.0 GT/s PCIe` times the number of lanes.
fn rate(pci: Node<'_, '_>) -> Option<Rate> {
    let speed = pci
        .attribute("link_speed")?
        .split(' ')
        .next()?
        .parse()
        .ok()?;
    Rate::pci(speed, pci.attribute("link_width")?.parse().ok()?)
}
