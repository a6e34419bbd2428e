//! The problems for comparing mappers, always the same. README.md describes them.

use crate::drawn;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::routing::ForwardingTables;
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    Allocation, End, Exchange, Fabric, FabricBuilder, Family, LinkId, LinkSpec, LinkState, NodeId,
    RouterId, Routing, Shape, Slot, declared, spec,
};
use std::collections::HashMap;
use std::error::Error;

/// Input of a mapper.
pub struct Instance {
    pub fabric: Fabric,
    pub routing: Routing,
    pub exchange: Exchange,
    pub allocation: Allocation,
    pub background: Option<LinkState>,
    /// Coordinates of the tasks, for mappers that need them; may be empty.
    pub coords: Vec<[f64; 3]>,
}

/// Names of the problems, in the order of the table.
pub const NAMES: [&str; 10] = [
    "P1", "P1bg", "P2", "P3", "P4", "P5f", "P5d", "SPt", "SPf", "SPd",
];

/// Builds a problem; `None` for SP if its file is missing.
pub fn build(name: &str) -> Result<Option<Instance>, Box<dyn Error>> {
    Ok(Some(match name {
        "P1" | "P1bg" => sparse_matrix(name == "P1bg")?,
        "P2" => {
            let hosts = (0..512).map(|r| 2 * r).collect();
            stencil("gemini:8x8x8", "16x16x16:7:80000", hosts, 8)?
        }
        "P3" => stencil(
            "gemini:16x12x24",
            "32x32x16:27",
            runs(9216, 1024, 32.0, 32.0, 42),
            16,
        )?,
        "P4" => stencil(
            "gemini:16x12x24",
            "64x64x32:27",
            holes(9216, 8192, 32, 43),
            16,
        )?,
        "P5f" => one_each(fat_tree(16)?, mesh()?, (0..1024).collect())?,
        "P5d" => {
            let mut random = Random::new(5);
            let mut gone = std::collections::HashSet::new();
            while gone.len() < 32 {
                gone.insert((random.next_u64() % 1056) as u32);
            }
            let hosts = (0..1056).filter(|h| !gone.contains(h)).collect();
            one_each(dragonfly(4, 8, 4)?, mesh()?, hosts)?
        }
        "SPt" | "SPf" | "SPd" => {
            let Some(file) = hopbyte_testdata::shared("comm/npb-sp-D-1024.topo.zst") else {
                return Ok(None);
            };
            let traffic = (edge_list(&unpacked(&file)?)?, Vec::new());
            match name {
                "SPt" => {
                    let fabric = spec::fabric("gemini:8x8x16")?;
                    let routing = Routing::default_for(&fabric);
                    let hosts = (0..1024).map(|r| 2 * r).collect();
                    instance(fabric, routing, traffic, hosts, 1)?
                }
                "SPf" => one_each(fat_tree(16)?, traffic, (0..1024).collect())?,
                _ => one_each(dragonfly(4, 8, 4)?, traffic, (0..1024).collect())?,
            }
        }
        _ => match drawn::parsed(name) {
            Some((seed, number)) => drawn::build(seed, number)?,
            None => {
                let known = NAMES.join(", ");
                let last = drawn::COUNT - 1;
                return Err(format!(
                    "no problem '{name}': one of {known}, or S<seed>-<0 to {last}>"
                )
                .into());
            }
        },
    }))
}

type Traffic = (Exchange, Vec<[f64; 3]>);

pub fn instance(
    fabric: Fabric,
    routing: Routing,
    (exchange, coords): Traffic,
    hosts: Vec<u32>,
    ranks_per_node: u32,
) -> Result<Instance, Box<dyn Error>> {
    let nodes = hosts
        .into_iter()
        .map(|h| (NodeId(h), ranks_per_node))
        .collect();
    let allocation = Allocation::new(&fabric, nodes)?;
    Ok(Instance {
        fabric,
        routing,
        exchange,
        allocation,
        background: None,
        coords,
    })
}

fn one_each(
    (fabric, routing): (Fabric, Routing),
    traffic: Traffic,
    hosts: Vec<u32>,
) -> Result<Instance, Box<dyn Error>> {
    instance(fabric, routing, traffic, hosts, 1)
}

fn stencil(
    machine: &str,
    grid: &str,
    hosts: Vec<u32>,
    ranks_per_node: u32,
) -> Result<Instance, Box<dyn Error>> {
    let fabric = spec::fabric(machine)?;
    let routing = Routing::default_for(&fabric);
    let exchange = declared::traffic(&format!("stencil:{grid}"))?.total();
    let dims: Vec<usize> = grid
        .split(':')
        .next()
        .unwrap_or("")
        .split('x')
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let coords = (0..exchange.tasks())
        .map(|t| {
            let (x, y, z) = (t / dims[2] / dims[1], t / dims[2] % dims[1], t % dims[2]);
            [x as f64, y as f64, z as f64]
        })
        .collect();
    instance(fabric, routing, (exchange, coords), hosts, ranks_per_node)
}

/// Paper 003's sparse matrix-vector product: 5x5x100 doubles to six neighbours, 16 of the 64 hosts of
/// a 2x2x8 Gemini; `busy` adds a second job on three Z lines and a Y line, 61 % at the worst.
fn sparse_matrix(busy: bool) -> Result<Instance, Box<dyn Error>> {
    let hosts = runs(64, 16, 6.0, 4.0, 3);
    let mut it = stencil("gemini:2x2x8", "4x4x4:7:20000", hosts, 4)?;
    if busy {
        let mut state = LinkState::unknown(&it.fabric);
        let mut set = |x: u32, y: u32, z: u32, direction: &str, used: f64| {
            let router = it.fabric.router_at(&[x, y, z]).ok_or("no such router")?;
            let direction = hopbyte_fabric::Direction::parse(direction).ok_or("no direction")?;
            let link = it.fabric.link_towards(router, direction).ok_or("no link")?;
            state.used_ratio.set(link, Some(used));
            Ok::<(), Box<dyn Error>>(())
        };
        for z in 0..6 {
            set(0, 0, z, "Z+", 0.61)?;
            set(0, 0, z + 1, "Z-", 0.55)?;
            set(1, 0, z, "Z+", 0.45)?;
            set(1, 0, z + 1, "Z-", 0.40)?;
        }
        for z in 1..4 {
            set(0, 0, z, "Y+", 0.50)?;
            set(0, 1, z, "Y-", 0.50)?;
        }
        it.background = Some(state);
    }
    Ok(it)
}

/// The irregular mesh that `mesh.py` generates into `build/mesh/`.
fn mesh() -> Result<Traffic, Box<dyn Error>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/mesh");
    let read = |name: &str| {
        let file = folder.join(name);
        std::fs::read_to_string(&file).map_err(|error| {
            format!("build/mesh/{name}: {error}\nhint: make build/mesh/p5.graph generates it")
        })
    };
    let mut entries = Vec::new();
    for line in read("p5.graph")?.lines() {
        let words: Vec<u32> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [a, b, bytes] = words[..] else {
            return Err(format!("p5.graph: {line}").into());
        };
        entries.push((a, b, f64::from(bytes), 1));
        entries.push((b, a, f64::from(bytes), 1));
    }
    let mut coords = Vec::new();
    for line in read("p5.coords")?.lines() {
        let words: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        coords.push(<[f64; 3]>::try_from(words).map_err(|_| "p5.coords")?);
    }
    Ok((Exchange::new(coords.len(), entries)?, coords))
}

/// A text edge list: number of tasks, then `from to bytes`; each pair gets the mean of both ways, as
/// in the study whose figures are compared with ours.
fn edge_list(text: &str) -> Result<Exchange, Box<dyn Error>> {
    let mut lines = text.lines();
    let tasks: usize = lines.next().ok_or("empty edge list")?.trim().parse()?;
    let mut sum: HashMap<(u32, u32), f64> = HashMap::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [a, b, bytes] = words[..] {
            let (a, b, bytes): (u32, u32, f64) = (a.parse()?, b.parse()?, bytes.parse()?);
            if a != b {
                *sum.entry((a, b)).or_default() += bytes / 2.0;
                *sum.entry((b, a)).or_default() += bytes / 2.0;
            }
        }
    }
    let entries = sum.into_iter().map(|((a, b), w)| (a, b, w.floor(), 1));
    Ok(Exchange::new(tasks, entries)?)
}

/// Text of a `.zst` file, through the `zstd` program.
fn unpacked(file: &std::path::Path) -> Result<String, Box<dyn Error>> {
    let done = std::process::Command::new("zstd")
        .arg("-dcq")
        .arg(file)
        .output()?;
    if !done.status.success() {
        return Err(format!("zstd cannot read {}", file.display()).into());
    }
    Ok(String::from_utf8(done.stdout)?)
}

/// The first `want` free hosts of a machine with busy and free runs of geometric length along its hosts,
/// mostly whole routers.
pub fn runs(total: u32, want: usize, busy_mean: f64, free_mean: f64, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let (mut hosts, mut at, mut busy) = (Vec::new(), 0, false);
    while hosts.len() < want {
        let mean = if busy { busy_mean } else { free_mean };
        // Ties to even, like Python's round().
        let pairs = (-(1.0 - random.unit()).ln() * mean / 2.0).round_ties_even() as u32;
        let mut length = 2 * pairs.max(1);
        if random.next_u64().is_multiple_of(4) {
            length += 1;
        }
        for _ in 0..length {
            if !busy && hosts.len() < want {
                hosts.push(at % total);
            }
            at += 1;
        }
        busy = !busy;
    }
    hosts
}

/// All hosts except holes of about `run` hosts each.
fn holes(total: u32, want: u32, run: u64, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut hole = vec![false; total as usize];
    let mut need = total - want;
    while need > 0 {
        let start = (random.next_u64() % u64::from(total)) as u32;
        let length = (run / 2 + random.next_u64() % run) as u32;
        for host in start..(start + length).min(total) {
            if !hole[host as usize] && need > 0 {
                hole[host as usize] = true;
                need -= 1;
            }
        }
    }
    (0..total).filter(|&h| !hole[h as usize]).collect()
}

/// Links of 12.5 GB/s between numbered switches, and hosts on them.
pub struct Network {
    builder: FabricBuilder,
    links: HashMap<(u32, u32), LinkId>,
    switch_of: Vec<u32>,
}

impl Network {
    fn new(source: &str, switches: u32) -> Self {
        let mut builder = FabricBuilder::new(Family::Generic, source);
        for s in 0..switches {
            builder.router(format!("s{s}"), &[]);
        }
        Self::on(builder)
    }

    fn on(builder: FabricBuilder) -> Self {
        Self {
            builder,
            links: HashMap::new(),
            switch_of: Vec::new(),
        }
    }

    fn join(&mut self, a: u32, b: u32) {
        let kind = self.builder.kind("cable", false);
        for (from, to) in [(a, b), (b, a)] {
            let ends = (End::Router(RouterId(from)), End::Router(RouterId(to)));
            let rate = BytesPerSecond::from_gb(12.5);
            let spec = LinkSpec::new(ends.0, ends.1, kind, rate, Seconds(1e-7));
            self.links.insert((from, to), self.builder.link(spec));
        }
    }

    fn host(&mut self, switch: u32) {
        let kind = self.builder.kind("host", true);
        let node = self.builder.node_count() as u32;
        let (near, far) = (End::Node(NodeId(node)), End::Router(RouterId(switch)));
        let rate = BytesPerSecond::from_gb(12.5);
        let spec = |from, to| LinkSpec::new(from, to, kind, rate, Seconds(0.0));
        let inject = self.builder.link(spec(near, far));
        let eject = self.builder.link(spec(far, near));
        let name = format!("h{node}");
        let router = RouterId(switch);
        self.builder
            .node(name.clone(), name, Some(node), router, inject, eject);
        self.switch_of.push(switch);
    }

    /// A tree of switches by their parents, none for the root, with a host on each of the first `hosts`.
    pub fn tree(parents: &[u32], hosts: u32) -> Result<(Fabric, Routing), Box<dyn Error>> {
        let mut net = Self::new("tree", parents.len() as u32);
        for (switch, &parent) in (0..).zip(parents) {
            if parent != u32::MAX {
                net.join(switch, parent);
            }
        }
        (0..hosts).for_each(|host| net.host(host));
        let mut below: HashMap<(u32, u32), u32> = HashMap::new();
        for host in 0..hosts {
            let mut at = host;
            while parents[at as usize] != u32::MAX {
                let parent = parents[at as usize];
                below.insert((parent, host), at);
                at = parent;
            }
        }
        net.finish(|at, host| {
            below
                .get(&(at, host))
                .copied()
                .unwrap_or(parents[at as usize])
        })
    }

    /// Fills the tables: `next(switch, host)` is the next neighbour on the way to a host elsewhere.
    fn finish(self, next: impl Fn(u32, u32) -> u32) -> Result<(Fabric, Routing), Box<dyn Error>> {
        let switches = self.builder.router_count() as u32;
        let fabric = self.builder.finish()?;
        let mut tables = ForwardingTables::new(&fabric);
        for host in fabric.node_ids() {
            for at in 0..switches {
                let link = if at == self.switch_of[host.index()] {
                    fabric.node(host).eject
                } else {
                    self.links[&(at, next(at, host.0))]
                };
                if !tables.set(&fabric, RouterId(at), host, link) {
                    return Err("a table entry names a link of another switch".into());
                }
            }
        }
        Ok((fabric, Routing::Tables(tables)))
    }
}

/// Three-level fat tree of radix-k switches, D-mod-k: the host's number picks the way up.
fn fat_tree(k: u32) -> Result<(Fabric, Routing), Box<dyn Error>> {
    let q = k / 2;
    let edge = |pod: u32, i: u32| pod * q + i;
    let middle = move |pod: u32, i: u32| k * q + pod * q + i;
    let core = move |i: u32, j: u32| 2 * k * q + i * q + j;
    let mut net = Network::new("fat tree", 2 * k * q + q * q);
    for pod in 0..k {
        for i in 0..q {
            for j in 0..q {
                net.join(edge(pod, i), middle(pod, j));
                net.join(middle(pod, i), core(i, j));
            }
        }
    }
    for host in 0..k * q * q {
        net.host(host / q);
    }
    net.finish(move |at, host| {
        let (leaf, pod) = (host / q, host / q / q);
        let (up, over) = (host % q, host / q % q);
        if at < k * q {
            middle(at / q, up)
        } else if at < 2 * k * q {
            let here = (at - k * q) / q;
            if here == pod {
                leaf
            } else {
                core((at - k * q) % q, over)
            }
        } else {
            middle(pod, (at - 2 * k * q) / q)
        }
    })
}

/// Canonical dragonfly with one cable between any two groups, minimal routes: `p` hosts a router, `a`
/// routers a group, `h` global cables a router.
fn dragonfly(p: u32, a: u32, h: u32) -> Result<(Fabric, Routing), Box<dyn Error>> {
    let g = a * h + 1;
    // The router of group `from` whose cable leads to group `to`.
    let gate = move |from: u32, to: u32| from * a + (to + 2 * g - from - 1) % g / h;
    let mut builder = FabricBuilder::new(Family::Dragonfly, "dragonfly");
    builder.shape(Shape {
        dims: vec![g, a],
        wrap: vec![false, false],
    });
    for switch in 0..g * a {
        builder.router(format!("s{switch}"), &[switch / a, switch % a]);
    }
    let mut net = Network::on(builder);
    for group in 0..g {
        for i in 0..a {
            for j in i + 1..a {
                net.join(group * a + i, group * a + j);
            }
        }
        for other in group + 1..g {
            net.join(gate(group, other), gate(other, group));
        }
    }
    for host in 0..g * a * p {
        net.host(host / p);
    }
    let fabric = net.builder.finish()?;
    let routing = Routing::default_for(&fabric);
    Ok((fabric, routing))
}

/// Slots in a placement's order, for tools that give a host index for every task.
pub fn slots_of(instance: &Instance, hosts: &[u32]) -> Vec<Slot> {
    let mut next = vec![0; instance.allocation.nodes().len()];
    hosts
        .iter()
        .map(|&h| {
            let slot = next[h as usize];
            next[h as usize] += 1;
            Slot {
                node: instance.allocation.nodes()[h as usize].0,
                slot,
            }
        })
        .collect()
}
