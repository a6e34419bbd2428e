//! hwloc XML, 1.x and 2.x (and 3), the output of `lstopo --of xml`.
//!
//! ```text
//! <topology version="2.0">
//!   <object type="Package" os_index="0">
//!     <object type="NUMANode" os_index="0" local_memory="…"/>          2.x: memory beside the cores
//!     <object type="L3Cache"> … <object type="Core"> <object type="PU" os_index="0"/>
//!     <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[2b-3b]">
//!       <object type="PCIDev" pci_busid="0000:34:00.0" pci_type="0302 [10de:1db8] …" pci_link_speed="15.75">
//!         <object type="OSDev" name="mlx5_0" osdev_type="3"/>
//! ```
//!
//! In 1.x caches are `<object type="Cache" depth="3">`, packages may be named `Socket`, and a NUMA node contains its
//! cores. Cores are numbered in the order of the file, as in hwloc; hardware threads are aliases of their core. Cores
//! without a hardware thread in the machine's `allowed_cpuset` keep their number and are left out.

use super::{BETWEEN_PACKAGES, INSIDE_PACKAGE, Inside, Rate, line, parse, pci_device};
use crate::ObserveError;
use crate::fabric::host_files::is_numbered;
use crate::text::{Line, Text};
use hopbyte_fabric::{Fabric, RouterId};
use roxmltree::Node;

/// Whether a line begins a topology.
pub fn recognise(line: Line<'_>) -> bool {
    let line = line.trimmed();
    line.starts_with(b"<topology>") || line.starts_with(b"<topology version=")
}

/// Reads a topology.
pub fn read(text: &Text, notes: &mut Vec<String>) -> Result<Fabric, ObserveError> {
    let document = parse(text)?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        let found = root.tag_name().name();
        return Err(text.error(found, "a <topology>").at(line(root)).into());
    }
    let mut reader = Reader {
        text,
        inside: Inside::new(text),
        allowed: None,
        outside: 0,
        divided: (0, 0),
    };
    let objects: Vec<Node<'_, '_>> = children(root).collect();
    let [machine] = objects[..] else {
        let found = format!("{} objects at the top", objects.len());
        return Err(text.error(found, "one machine").at(line(root)).into());
    };
    reader.allowed = machine.attribute("allowed_cpuset").and_then(CpuSet::parse);
    let top = reader.inside.router("machine");
    reader.children(machine, top)?;
    if reader.outside > 0 {
        let cores = reader.inside.counted("core");
        let of = match cores {
            0 => format!(
                "{} hardware threads",
                reader.inside.counted("hardware thread")
            ),
            cores => format!("{cores} cores"),
        };
        notes.push(format!(
            "{} of {of} are outside the allowed set of the machine (allowed_cpuset) and left out",
            reader.outside
        ));
    }
    if let (devices @ 1.., logical) = reader.divided {
        notes.push(format!(
            "{logical} logical GPUs are parts of {devices} (CPX, TPX or another partition mode): a whole GPU is one device here, and \
             those are further names of it"
        ));
    }
    let nvlink = root
        .children()
        .any(|e| e.attribute("name") == Some("NVLinkBandwidth"));
    if nvlink {
        notes.push("NVLink rates are in the file as distances, which are not read".into());
    }
    Ok(reader.inside.finish(text, notes)?)
}

fn children<'a, 'i>(of: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    of.children().filter(|e| e.has_tag_name("object"))
}

/// Rate of the link to a package, or to a NUMA node that contains packages (1.x): one of the two is the link between
/// packages.
fn between(object: Node<'_, '_>) -> Rate {
    let outer = object.ancestors().skip(1).map(kind);
    let is_inside = outer
        .into_iter()
        .any(|k| matches!(k, "NUMANode" | "Package" | "Socket"));
    Rate::assumed(if is_inside {
        INSIDE_PACKAGE
    } else {
        BETWEEN_PACKAGES
    })
}

fn kind<'a>(object: Node<'a, '_>) -> &'a str {
    object.attribute("type").unwrap_or_default()
}

/// A set of hardware threads: words of 32 bits in hexadecimal, the highest first; `0xf...f` continues without end.
struct CpuSet {
    words: Vec<u32>,
    endless: bool,
}

impl CpuSet {
    fn parse(text: &str) -> Option<Self> {
        let mut endless = false;
        let mut words = Vec::new();
        for (i, word) in text.split(',').enumerate() {
            let digits = word.trim().strip_prefix("0x").unwrap_or(word.trim());
            match digits {
                "f...f" if i == 0 => endless = true,
                "" => words.push(0),
                digits => words.push(u32::from_str_radix(digits, 16).ok()?),
            }
        }
        words.reverse();
        Some(Self { words, endless })
    }

    fn has(&self, thread: usize) -> bool {
        match self.words.get(thread / 32) {
            Some(word) => word >> (thread % 32) & 1 == 1,
            None => self.endless,
        }
    }
}

struct Reader<'a> {
    text: &'a Text,
    inside: Inside,
    /// Hardware threads that may be used, if the file says so.
    allowed: Option<CpuSet>,
    /// Cores without one.
    outside: usize,
    /// Devices that the driver divides, and their logical GPUs.
    divided: (usize, usize),
}

impl Reader<'_> {
    /// Whether a hardware thread below an object may be used; an unnumbered one may.
    fn may_run(&self, object: Node<'_, '_>) -> bool {
        let Some(allowed) = &self.allowed else {
            return true;
        };
        let mut threads = object.descendants().filter(|o| kind(*o) == "PU").peekable();
        let number = |pu: Node<'_, '_>| pu.attribute("os_index").and_then(|i| i.parse().ok());
        threads.peek().is_none() || threads.any(|pu| number(pu).is_none_or(|i| allowed.has(i)))
    }

    fn children(&mut self, of: Node<'_, '_>, at: RouterId) -> Result<(), ObserveError> {
        for object in children(of) {
            self.object(object, at)?;
        }
        Ok(())
    }

    /// Adds an object below router `at`; the recursion depth is that of the file, which was checked.
    fn object(&mut self, object: Node<'_, '_>, at: RouterId) -> Result<(), ObserveError> {
        let inside = Rate::assumed(INSIDE_PACKAGE);
        let os_index = object.attribute("os_index");
        match kind(object) {
            "" => {
                let error = self.text.error("an object without a type", "type=\"…\"");
                return Err(error.at(line(object)).into());
            }
            "Core" => self.core(object, at),
            // A file without cores: each hardware thread is a node.
            "PU" => {
                self.inside.count("hardware thread");
                if !self.may_run(object) {
                    self.outside += 1;
                    return Ok(());
                }
                let name = format!("pu {}", os_index.unwrap_or("?"));
                self.inside.device(&name, at, "core", inside);
            }
            "NUMANode" if children(object).next().is_none() => {
                self.inside.count("NUMA node");
                let name = format!("memory {}", os_index.unwrap_or("?"));
                self.inside.device(&name, at, "memory", inside);
            }
            "NUMANode" => {
                let n = self.inside.count("NUMA node");
                let index = os_index.map_or(n.to_string(), str::to_owned);
                let below = self.inside.router(&format!("numa {index}"));
                self.inside.join(at, below, "numa", between(object));
                let name = format!("memory {index}");
                self.inside.device(&name, below, "memory", inside);
                return self.children(object, below);
            }
            "Package" | "Socket" => {
                let n = self.inside.count("package");
                let index = os_index.map_or(n.to_string(), str::to_owned);
                let below = self.inside.router(&format!("package {index}"));
                self.inside.join(at, below, "package", between(object));
                return self.children(object, below);
            }
            "Bridge" => return self.bridge(object, at),
            "PCIDev" => self.pci(object, at),
            "L3Cache" | "L2Cache" | "L1Cache" | "L1iCache" | "L4Cache" | "L2iCache" | "Cache"
            | "Group" | "Die" | "MemCache" => return self.shared(object, at),
            // Software objects, and objects that are not on a data path.
            "Misc" | "OSDev" => {}
            _ => return self.children(object, at),
        }
        Ok(())
    }

    /// A core with its hardware threads as aliases.
    fn core(&mut self, core: Node<'_, '_>, at: RouterId) {
        let n = self.inside.count("core");
        if !self.may_run(core) {
            self.outside += 1;
            return;
        }
        let name = format!("core {n}");
        let node = self
            .inside
            .device(&name, at, "core", Rate::assumed(INSIDE_PACKAGE));
        for pu in core.descendants().filter(|o| kind(*o) == "PU") {
            self.inside.count("hardware thread");
            if let Some(index) = pu.attribute("os_index") {
                self.inside.b.node_alias(format!("pu {index}"), node);
            }
        }
    }

    /// A cache, die or group: a router if several cores or devices share it, else omitted.
    fn shared(&mut self, object: Node<'_, '_>, at: RouterId) -> Result<(), ObserveError> {
        let parts = object
            .descendants()
            .filter(|o| matches!(kind(*o), "Core" | "PCIDev"));
        if parts.take(2).count() < 2 {
            return self.children(object, at);
        }
        let what = match (kind(object), object.attribute("depth")) {
            ("Cache", Some(depth)) => format!("L{depth}"),
            (other, _) => other
                .trim_end_matches("Cache")
                .to_lowercase()
                .replace('l', "L"),
        };
        let n = self
            .inside
            .names
            .get(&format!("{what} 0"))
            .map_or(0, |_| self.next(&what));
        let below = self.inside.router(&format!("{what} {n}"));
        self.inside
            .join(at, below, &what, Rate::assumed(INSIDE_PACKAGE));
        self.children(object, below)
    }

    /// The next free number of a kind of shared object.
    fn next(&self, what: &str) -> usize {
        let free = |n: &usize| !self.inside.names.contains_key(&format!("{what} {n}"));
        (1..).find(free).unwrap_or(0)
    }

    /// A PCI bridge; bridges without a relevant device below them are left out.
    fn bridge(&mut self, bridge: Node<'_, '_>, at: RouterId) -> Result<(), ObserveError> {
        let devices = bridge.descendants().filter(|o| kind(*o) == "PCIDev");
        if devices
            .filter_map(|d| pci_device(class(d)?))
            .next()
            .is_none()
        {
            return Ok(());
        }
        let id = ["pci_busid", "bridge_pci"]
            .iter()
            .find_map(|a| bridge.attribute(*a));
        let below = self.inside.router(&format!("bridge {}", id.unwrap_or("?")));
        self.inside.count("PCI bridge");
        let (kind, rate) = pci_rate(bridge);
        self.inside.join(at, below, kind, rate);
        self.children(bridge, below)
    }

    /// A device of a relevant class, named as its driver names it.
    fn pci(&mut self, device: Node<'_, '_>, at: RouterId) {
        let Some(what) = class(device).and_then(pci_device) else {
            return;
        };
        self.inside.count(what);
        let bus = device.attribute("pci_busid").unwrap_or("?");
        let of_system = || device.descendants().filter(|o| kind(*o) == "OSDev");
        let system: Vec<&str> = of_system().filter_map(|o| o.attribute("name")).collect();
        // OpenFabrics names precede those of the network interface, drivers' names precede those in files.
        let verbs = of_system().find(|o| o.attribute("osdev_type") == Some(OPEN_FABRICS));
        let verbs = verbs.and_then(|o| o.attribute("name"));
        let driver = || system.iter().copied().find(|n| n.contains('_'));
        let first = verbs.or_else(driver).or(system.first().copied());
        let name = first.map_or_else(|| format!("{what} {bus}"), str::to_owned);
        let logical = system.iter().filter(|n| is_numbered(n, "rsmi")).count();
        if logical > 1 {
            self.divided.0 += 1;
            self.divided.1 += logical;
        }
        let (link, rate) = pci_rate(device);
        let node = self.inside.device(&name, at, link, rate);
        for alias in system.into_iter().chain([bus]) {
            let alias = crate::fabric::names::name(alias.as_bytes());
            self.inside.b.node_alias(alias, node);
        }
    }
}

/// `osdev_type` of the devices of RDMA, whatever their driver calls them.
const OPEN_FABRICS: &str = "3";

/// PCI class of a device: `0302 [10de:1db8] …`.
fn class(device: Node<'_, '_>) -> Option<u32> {
    let words = device.attribute("pci_type")?;
    u32::from_str_radix(words.split(' ').next()?, 16).ok()
}

/// Rate of the link above a PCI object; hwloc uses GB/s, and 0 if it is unknown.
fn pci_rate(object: Node<'_, '_>) -> (&'static str, Rate) {
    let speed = object
        .attribute("pci_link_speed")
        .and_then(|s| s.parse::<f64>().ok());
    match speed.filter(|s| s.is_finite() && *s > 0.0) {
        Some(gb_per_s) => {
            let bytes_per_s = gb_per_s * 1e9;
            (
                "PCI",
                Rate {
                    bytes_per_s,
                    known: true,
                },
            )
        }
        None => ("host bridge", Rate::assumed(INSIDE_PACKAGE)),
    }
}
