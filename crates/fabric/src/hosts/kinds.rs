//! Well-known kinds of hosts, with the published capacities of their inner links.

use super::attach::{MAX_ENDS, wrong};
use super::{HostKind, HostsRecord, InnerLink, Local, OwnPlace, PortRule, UnitSpec};
use crate::error::{FabricError, InputError};
use crate::ids::NodeId;
use std::collections::HashMap;

/// How the GPUs of a host, or of an NVLink domain, are joined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Join {
    /// By switches without blocking: kind, GB/s each way of a GPU.
    Switch(&'static str, f64),
    /// Each pair directly: kind, GB/s each way.
    Mesh(&'static str, f64),
    /// By no link of their own.
    Network,
}

/// A row of [`HOST_KINDS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Name in specs.
    pub name: &'static str,
    /// GPUs of a host.
    pub gpus: u16,
    /// Hosts of an NVLink domain.
    pub hosts: u16,
    /// Links between GPUs.
    pub join: Join,
    /// PCIe of a GPU or adapter, GB/s each way.
    pub pcie: f64,
    /// Coherent link of a GPU to its processor, GB/s each way; 0 for none.
    pub c2c: f64,
    /// Adapter of a GPU, GB/s each way, where a topology has no speeds; 0 if unknown.
    pub adapter: f64,
    /// Whether a place takes one task only.
    pub exclusive: bool,
    /// Source of the figures.
    pub source: &'static str,
}

/// PCIe 4.0 and 5.0 x16: transfers × lanes × 128/130 (PCI Express Base Specification).
const PCIE4: f64 = 31.5;
const PCIE5: f64 = 63.0;

/// Rate inside a host of an unknown kind, GB/s each way: the order of a socket's memory.
const PLAIN: f64 = 100.0;

/// Latency of an inner link: 150 ns, the order of magnitude that vendors state for PCIe switches; assumed for all.
const LATENCY: f64 = 150e-9;

/// Kinds of hosts by name.
pub const HOST_KINDS: [Published; 10] = [
    Published {
        name: "dgx-a100",
        gpus: 8,
        hosts: 1,
        join: Join::Switch("NVLink", 300.0),
        pcie: PCIE4,
        c2c: 0.0,
        adapter: 25.0,
        exclusive: true,
        source: "NVIDIA A100 architecture whitepaper: 12 NVLinks of 25 GB/s each way; DGX A100 datasheet: 8 adapters of 200 Gb/s",
    },
    Published {
        name: "dgx-h100",
        gpus: 8,
        hosts: 1,
        join: Join::Switch("NVLink", 450.0),
        pcie: PCIE5,
        c2c: 0.0,
        adapter: 50.0,
        exclusive: true,
        source: "NVIDIA H100 architecture whitepaper: 18 NVLinks of 25 GB/s each way; DGX H100 datasheet: 8 adapters of 400 Gb/s",
    },
    Published {
        name: "dgx-b200",
        gpus: 8,
        hosts: 1,
        join: Join::Switch("NVLink", 900.0),
        pcie: PCIE5,
        c2c: 0.0,
        adapter: 50.0,
        exclusive: true,
        source: "NVIDIA DGX B200 datasheet: 14.4 TB/s for 8 GPUs, both ways: 18 NVLinks of 50 GB/s each way",
    },
    Published {
        name: "gb200-nvl72",
        gpus: 4,
        hosts: 18,
        join: Join::Switch("NVLink", 900.0),
        pcie: PCIE5,
        c2c: 0.0,
        adapter: 50.0,
        exclusive: true,
        source: "NVIDIA GB200 NVL72 datasheet: 130 TB/s for 72 GPUs, both ways: 18 NVLinks of 50 GB/s each way",
    },
    Published {
        name: "mi300x",
        gpus: 8,
        hosts: 1,
        join: Join::Mesh("xGMI", 64.0),
        pcie: PCIE5,
        c2c: 0.0,
        adapter: 50.0,
        exclusive: true,
        source: "AMD Instinct MI300X platform datasheet: seven links of 128 GB/s, both ways",
    },
    Published {
        name: "gh200",
        gpus: 1,
        hosts: 1,
        join: Join::Network,
        pcie: PCIE5,
        c2c: 450.0,
        adapter: 25.0,
        exclusive: true,
        source: "NVIDIA GH200 datasheet: NVLink-C2C of 900 GB/s, both ways",
    },
    Published {
        name: "gh200-quad",
        gpus: 4,
        hosts: 1,
        join: Join::Mesh("NVLink", 150.0),
        pcie: PCIE5,
        c2c: 450.0,
        adapter: 25.0,
        exclusive: true,
        source: "Fusco et al. 2024 (Alps nodes): six NVLinks of 25 GB/s each way between two of four GH200",
    },
    Published {
        name: "tpu-v4",
        gpus: 4,
        hosts: 1,
        join: Join::Network,
        pcie: PCIE4,
        c2c: 0.0,
        adapter: 12.5,
        exclusive: true,
        source: "Jouppi et al., ISCA 2023: four chips a host, joined by the torus alone",
    },
    Published {
        name: "pcie-gpus",
        gpus: 8,
        hosts: 1,
        join: Join::Network,
        pcie: PCIE4,
        c2c: 0.0,
        adapter: 12.5,
        exclusive: true,
        source: "assumed: GPUs and adapters behind PCIe 4.0 switches, without links of their own",
    },
    Published {
        name: "plain",
        gpus: 0,
        hosts: 1,
        join: Join::Switch("memory", PLAIN),
        pcie: PCIE4,
        c2c: 0.0,
        adapter: 0.0,
        exclusive: false,
        source: "assumed: 100 GB/s each way between the adapters of a host",
    },
];

/// A kind of hosts and the choice of ports, as in `dgx-h100` and `dgx-h100/nearest`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostSpec {
    /// The kind.
    pub kind: Published,
    /// The choice of ports.
    pub rule: PortRule,
}

impl HostSpec {
    /// Parses `NAME` or `NAME/RULE`.
    ///
    /// # Errors
    /// An unknown name or rule.
    pub fn parse(text: &str) -> Result<Self, InputError> {
        let (name, rule) = text.split_once('/').unwrap_or((text, ""));
        let unknown = |found: &str, expected: &str| {
            let names: Vec<&str> = HOST_KINDS.iter().map(|k| k.name).collect();
            let rules: Vec<&str> = PortRule::ALL.iter().map(|r| r.1).collect();
            InputError::new("hosts", found, expected).hint(format!(
                "kinds are {}; after a slash one of {}, as in dgx-h100/nearest",
                names.join(", "),
                rules.join(", ")
            ))
        };
        let kind = HOST_KINDS
            .iter()
            .find(|k| k.name == name)
            .ok_or_else(|| unknown(name, "a kind of hosts"))?;
        let rule = match rule {
            "" => kind.default_rule(),
            rule => rule
                .parse()
                .map_err(|()| unknown(rule, "a choice of ports"))?,
        };
        Ok(Self { kind: *kind, rule })
    }
}

impl From<Published> for HostSpec {
    fn from(kind: Published) -> Self {
        let rule = kind.default_rule();
        Self { kind, rule }
    }
}

impl Published {
    /// Rail if GPUs reach each other without PCIe, else nearest.
    pub fn default_rule(&self) -> PortRule {
        match self.join {
            Join::Switch(..) | Join::Mesh(..) if self.exclusive => PortRule::Rail,
            _ => PortRule::Nearest,
        }
    }

    /// The structure of a unit of hosts.
    ///
    /// With as many ports as GPUs a GPU and its adapter are one node: the adapter's rate is below that of the PCIe
    /// between them. Otherwise GPUs have nodes of their own and share adapters behind PCIe switches.
    ///
    /// # Errors
    /// More GPUs and ports than a unit may have ends.
    pub fn structure(&self, hosts: &[HostShape]) -> Result<HostKind, FabricError> {
        let ends = |h: &HostShape| h.rails.len().max(usize::from(h.gpus));
        let all: usize = hosts.iter().map(ends).sum();
        if all > MAX_ENDS {
            let what = format!("hosts of {} joined to one unit", self.name);
            let found = format!("{} hosts with {all} GPUs or ports", hosts.len());
            return Err(wrong(what, found, format!("at most {MAX_ENDS} in all")));
        }
        let mut kind = HostKind {
            name: self.name.into(),
            hosts: hosts.len() as u16,
            ports: Vec::new(),
            own: Vec::new(),
            places: Vec::new(),
            exclusive: self.exclusive,
            routers: Vec::new(),
            links: Vec::new(),
        };
        // Hosts with GPUs apart from their ports, with the first of each.
        let mut apart = Vec::new();
        for (host, shape) in (0..).zip(hosts) {
            let (port, own) = (kind.ports.len() as u16, kind.own.len() as u16);
            let ports = shape.rails.len() as u16;
            kind.ports.extend(shape.rails.iter().map(|_| host));
            if shape.gpus == ports {
                kind.places.extend((port..port + ports).map(Local::Port));
                continue;
            }
            let named = |g: u16| OwnPlace {
                name: format!("gpu{g}"),
                host,
            };
            kind.own.extend((0..shape.gpus).map(named));
            kind.places
                .extend((own..own + shape.gpus).map(Local::Place));
            apart.push((host, shape, own, port));
        }
        self.join_places(&mut kind);
        for (host, shape, own, port) in apart {
            self.join_ports(&mut kind, (host, shape), (own, port));
        }
        if self.c2c > 0.0 {
            for place in kind.places.clone() {
                let cpu = kind.router(format!("cpu{}", kind.routers.len()));
                kind.join(place, cpu, "C2C", self.c2c);
            }
        }
        Ok(kind)
    }

    fn join_places(&self, kind: &mut HostKind) {
        let places = kind.places.clone();
        match self.join {
            Join::Switch(..) | Join::Mesh(..) if places.len() < 2 => {}
            Join::Switch(name, rate) => {
                let word = if name == "NVLink" { "nvswitch" } else { name };
                let switch = kind.router(word.to_owned());
                for place in places {
                    kind.join(place, switch, name, rate);
                }
            }
            Join::Mesh(name, rate) => {
                for (i, &a) in places.iter().enumerate() {
                    for &b in &places[i + 1..] {
                        if kind.host_of(a) == kind.host_of(b) {
                            kind.join(a, b, name, rate);
                        }
                    }
                }
            }
            Join::Network => {}
        }
    }

    /// PCIe switches between the places and ports of a host: each joins the GPUs and ports of its share. GPUs whose
    /// adapter is missing are with those before them.
    fn join_ports(
        &self,
        kind: &mut HostKind,
        (host, shape): (u16, &HostShape),
        (own, first_port): (u16, u16),
    ) {
        let (gpus, ports) = (shape.gpus, shape.rails.len() as u16);
        let groups = gpus.min(ports);
        let first = kind.routers.len() as u16;
        let before = kind.routers.iter().filter(|r| r.starts_with("pcie"));
        let before = before.count() as u16;
        for group in 0..groups {
            kind.router(format!("pcie{}", before + group));
        }
        let router = |at: u16| Local::Router(first + at);
        for gpu in 0..gpus {
            let group = match shape.port_before(gpu) {
                Some(port) => port * groups / ports,
                None => gpu * groups / gpus,
            };
            kind.join(Local::Place(own + gpu), router(group), "PCIe", self.pcie);
        }
        // A single port stands for all adapters of the host.
        let shared = if ports == 1 { f64::from(gpus) } else { 1.0 };
        for port in 0..ports {
            kind.join(
                Local::Port(first_port + port),
                router(port * groups / ports),
                "PCIe",
                self.pcie * shared,
            );
        }
        // Without links of their own the GPUs of a host reach each other over the processor.
        if groups > 1 && self.join == Join::Network {
            let root = kind.router(format!("root{host}"));
            for group in 0..groups {
                kind.join(router(group), root, "PCIe", self.pcie);
            }
        }
    }
}

/// The GPUs and ports of one host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostShape {
    /// GPUs.
    pub gpus: u16,
    /// The rail of every port.
    pub rails: Vec<u16>,
    /// Rails of a host without a missing adapter.
    pub all_rails: u16,
}

impl HostShape {
    /// A host of a kind with its ports in the order of rails.
    pub fn whole(kind: &Published, ports: usize) -> Self {
        // More than a unit may have.
        let ports = u16::try_from(ports).unwrap_or(u16::MAX);
        Self {
            gpus: if kind.gpus == 0 { ports } else { kind.gpus },
            rails: (0..ports).collect(),
            all_rails: ports,
        }
    }

    /// Of a host with missing adapters the port of a GPU's rail, or of the last rail before it.
    fn port_before(&self, gpu: u16) -> Option<u16> {
        if self.rails.is_empty() || self.rails.len() == usize::from(self.all_rails) {
            return None;
        }
        let rail = gpu * self.all_rails / self.gpus;
        let before = self.rails.iter().filter(|&&r| r <= rail).count() as u16;
        Some(before.saturating_sub(1))
    }
}

impl HostKind {
    /// Adds a router.
    pub fn router(&mut self, name: String) -> Local {
        self.routers.push(name);
        Local::Router(self.routers.len() as u16 - 1)
    }

    /// Joins two ends, both ways.
    pub fn join(&mut self, a: Local, b: Local, kind: &str, gb_per_s: f64) {
        for (from, to) in [(a, b), (b, a)] {
            self.links.push(InnerLink {
                from,
                to,
                kind: kind.into(),
                capacity_bytes_per_s: gb_per_s * 1e9,
                latency_seconds: LATENCY,
            });
        }
    }
}

/// Hosts that follow each other and have the same key may form NVLink domains.
pub type DomainOf<'a> = dyn Fn(&str, &[NodeId]) -> Option<u64> + 'a;

/// Hosts of a kind: names with their endpoints of the network, in order. Hosts that follow each other form NVLink
/// domains of at most `most` hosts; only those with the same key of `domain`.
///
/// # Errors
/// A domain, or a host, with too many GPUs or ports.
pub fn describe(
    spec: HostSpec,
    hosts: &[(String, Vec<NodeId>)],
    most: u16,
    domain: &DomainOf<'_>,
) -> Result<HostsRecord, FabricError> {
    let whole = |h: &(String, Vec<NodeId>)| HostShape::whole(&spec.kind, h.1.len());
    let shapes: Vec<HostShape> = hosts.iter().map(whole).collect();
    describe_shaped(spec, hosts, &shapes, (most, domain))
}

/// The same with the GPUs and rails of every host.
pub fn describe_shaped(
    spec: HostSpec,
    hosts: &[(String, Vec<NodeId>)],
    shapes: &[HostShape],
    (most, domain): (u16, &DomainOf<'_>),
) -> Result<HostsRecord, FabricError> {
    let mut record = HostsRecord {
        rule: spec.rule,
        kinds: Vec::new(),
        units: Vec::new(),
        down: Vec::new(),
    };
    let mut known: HashMap<&[HostShape], u32> = HashMap::new();
    let mut rest = shapes;
    let key = |h: &(String, Vec<NodeId>)| domain(&h.0, &h.1);
    for run in hosts.chunk_by(|a, b| key(a) == key(b)) {
        for unit in run.chunks(usize::from(most.max(1))) {
            let (shape, others) = rest.split_at(unit.len());
            rest = others;
            let kind = match known.get(shape) {
                Some(&kind) => kind,
                None => {
                    record.kinds.push(spec.kind.structure(shape)?);
                    known.insert(shape, record.kinds.len() as u32 - 1);
                    record.kinds.len() as u32 - 1
                }
            };
            record.units.push(UnitSpec {
                kind,
                hosts: unit.iter().map(|h| h.0.clone()).collect(),
                ports: unit.iter().flat_map(|h| h.1.iter().copied()).collect(),
            });
        }
    }
    Ok(record)
}
