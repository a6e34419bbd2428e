//! The fluid solver on halo phases of a whole machine; `make bench-model` runs it beside SimGrid.
//!
//! `fluid generate CASE FILE` writes transfers between nodes as records (sender, receiver: i32, bytes:
//! f64) in SimGrid's numbering; `fluid solve CASE FILE TIMES [TOLERANCE]` reads them, runs them and writes when
//! each one ended (f64); one JSON line has its cost. `fluid arrivals FLOWS` runs transfers that
//! begin over time.

mod cpu;

use cpu::cpu_seconds;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{End, Fabric, NodeId, Routing, spec};
use hopbyte_model::fluid::{Clock, Done, Sharing, Use};
use hopbyte_model::loads::{Loads, Transfer};
use hopbyte_model::network::{Network, Way};
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use std::collections::BTreeMap;

type Error = Box<dyn std::error::Error>;

/// A 3-D halo: torus, process grid, placement, neighbours of a process (6 or 26). With `uniform` instead of
/// a placement: that number of transfers between random nodes.
struct Case {
    fabric: &'static str,
    grid: [usize; 3],
    placement: &'static str,
    count: usize,
}

const RANKS_PER_NODE: usize = 16;
/// 100x100 cells of 40 variables of 8 bytes; an edge and a corner have 100 and 1 cells.
const BYTES: [f64; 3] = [3.2e6, 3.2e4, 320.0];

fn case(name: &str) -> Option<Case> {
    let words: Vec<&str> = name.split('-').collect();
    let [nodes, placement, count] = words[..] else {
        return None;
    };
    let (fabric, grid) = match nodes {
        "64" => ("gemini:4x4x2", [8, 8, 16]),
        "1024" => ("gemini:8x8x8", [16, 32, 32]),
        "8192" => ("gemini:16x12x24", [32, 64, 64]),
        _ => return None,
    };
    let placement = ["linear", "remap", "random", "uniform"]
        .into_iter()
        .find(|p| *p == placement)?;
    let count = count.parse().ok()?;
    Some(Case {
        fabric,
        grid,
        placement,
        count,
    })
}

/// Raw capacities times the payload share of paper 002 Table I; 6.7 GB/s into and out of each node.
fn parameters() -> Parameters {
    Parameters {
        link_efficiency: 0.65,
        injection_bytes_per_s: Some(6.7e9),
        ejection_bytes_per_s: Some(6.7e9),
        host_links: false,
        calibration: "the platform of the benchmark".into(),
        ..Parameters::plain()
    }
}

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|w| w != "--bench")
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["generate", name, file] => generate(&case(name).ok_or("no such case")?, file),
        ["solve", name, file, times] => solve(&case(name).ok_or("no such case")?, file, times, 0.0),
        ["solve", name, file, times, tolerance] => solve(
            &case(name).ok_or("no such case")?,
            file,
            times,
            tolerance.parse()?,
        ),
        ["arrivals", flows] => arrivals(flows.parse()?),
        _ => {
            println!("run by bench/model/run.py (make bench-model)");
            Ok(())
        }
    }
}

/// Nodes of the first routers of the machine, two on each.
fn nodes(fabric: &Fabric, count: usize) -> Vec<NodeId> {
    let all = fabric
        .router_ids()
        .flat_map(|r| fabric.nodes_on(r).iter().copied());
    all.take(count).collect()
}

/// SimGrid numbers hosts 2 * (x + X * (y + Y * z)) + n.
fn simgrid_number(fabric: &Fabric, node: NodeId) -> Option<i32> {
    let router = fabric.node(node).router;
    let dims = &fabric.shape()?.dims;
    let c = fabric.coord(router)?;
    let position = c[0] + dims[0] * (c[1] + dims[1] * c[2]);
    let second = fabric.nodes_on(router).iter().position(|&n| n == node)? as u32;
    Some((2 * position + second) as i32)
}

type Pairs = BTreeMap<(usize, usize), f64>;

fn generate(case: &Case, file: &str) -> Result<(), Error> {
    let fabric = spec::fabric(case.fabric)?;
    let count = case.grid.iter().product::<usize>() / RANKS_PER_NODE;
    let nodes = nodes(&fabric, count);
    let bytes = if case.placement == "uniform" {
        uniform(case.count, count)
    } else {
        halo(case)
    };
    let mut out = Vec::with_capacity(bytes.len() * 16);
    for ((from, to), bytes) in bytes {
        for node in [from, to] {
            let number = simgrid_number(&fabric, nodes[node]).ok_or("not a grid")?;
            out.extend(number.to_le_bytes());
        }
        out.extend(bytes.to_le_bytes());
    }
    std::fs::write(file, out)?;
    Ok(())
}

/// Faces between random nodes, `transfers` in number.
fn uniform(transfers: usize, nodes: usize) -> Pairs {
    let mut random = Random::new(1);
    let mut bytes = Pairs::new();
    while bytes.len() < transfers.min(nodes * (nodes - 1)) {
        let [from, to] = [0; 2].map(|_| random.below(nodes));
        if from != to {
            bytes.insert((from, to), BYTES[0]);
        }
    }
    bytes
}

fn halo(case: &Case) -> Pairs {
    let [nx, ny, nz] = case.grid;
    let ranks = nx * ny * nz;
    let order = Random::new(1).permutation(ranks);
    let node_of = |x: usize, y: usize, z: usize| {
        let rank = (x * ny + y) * nz + z;
        match case.placement {
            "linear" => rank / RANKS_PER_NODE,
            "random" => order[rank] as usize / RANKS_PER_NODE,
            _ => ((x / 2) * (ny / 2) + y / 2) * (nz / 4) + z / 4,
        }
    };
    let mut bytes = Pairs::new();
    for rank in 0..ranks {
        let at = [rank / (ny * nz), rank / nz % ny, rank % nz];
        for step in 0..27 {
            let d = [step / 9, step / 3 % 3, step % 3].map(|s: i64| s - 1);
            let order = d.iter().filter(|&&d| d != 0).count();
            let to: Vec<i64> = (0..3).map(|i| at[i] as i64 + d[i]).collect();
            let inside = (0..3).all(|i| (0..case.grid[i] as i64).contains(&to[i]));
            if order == 0 || (case.count == 6 && order > 1) || !inside {
                continue;
            }
            let from = node_of(at[0], at[1], at[2]);
            let to = node_of(to[0] as usize, to[1] as usize, to[2] as usize);
            if from != to {
                *bytes.entry((from, to)).or_default() += BYTES[order - 1];
            }
        }
    }
    bytes
}

fn read(fabric: &Fabric, file: &str) -> Result<Vec<Transfer>, Error> {
    let mut by_number = vec![NodeId(0); fabric.nodes().len()];
    for node in fabric.node_ids() {
        by_number[simgrid_number(fabric, node).ok_or("not a grid")? as usize] = node;
    }
    let data = std::fs::read(file)?;
    data.chunks_exact(16)
        .map(|r| {
            let number = |r: &[u8]| Ok::<_, Error>(i32::from_le_bytes(r.try_into()?) as usize);
            Ok(Transfer {
                from: by_number[number(&r[0..4])?],
                to: by_number[number(&r[4..8])?],
                bytes: f64::from_le_bytes(r[8..16].try_into()?),
                messages: 1.0,
            })
        })
        .collect()
}

fn solve(case: &Case, file: &str, times: &str, tolerance: f64) -> Result<(), Error> {
    let t0 = cpu_seconds();
    let fabric = spec::fabric(case.fabric)?;
    let routing = Routing::default_for(&fabric);
    let parameters = parameters();
    let network = Network::new(&fabric, &routing, &parameters, OperatingPoint::default());
    let transfers = read(&fabric, file)?;
    let t1 = cpu_seconds();
    let loads = Loads::of(&network, &transfers).map_err(|e| e.describe(&fabric))?;
    let bound = loads.worst(&network).map_or(0.0, |w| w.seconds);
    let t2 = cpu_seconds();
    let mut clock = Clock::new(Sharing::new(network.capacities()), tolerance);
    let mut way = Way::default();
    clock.reserve(transfers.len(), 10 * transfers.len());
    for (i, t) in transfers.iter().enumerate() {
        let wire = parameters.protocol.wire(t.bytes);
        network
            .way(t.from, t.to, &wire, t.bytes, &mut way)
            .map_err(|e| e.describe(&fabric))?;
        as_simgrid_breaks_ties(&network, t, &mut way.uses);
        let path = clock.add_path(&way.uses);
        clock.begin(path, t.bytes, f64::INFINITY, i as u32);
    }
    let t3 = cpu_seconds();
    clock.next_end();
    let t4 = cpu_seconds();
    let mut done: Vec<Done> = Vec::with_capacity(transfers.len());
    let mut steps = 0;
    while done.len() < transfers.len() {
        clock.end_next(&mut done);
        steps += 1;
    }
    let t5 = cpu_seconds();
    let mut ends = vec![0.0; transfers.len()];
    done.iter().for_each(|d| ends[d.tag as usize] = d.seconds);
    std::fs::write(
        times,
        ends.iter()
            .flat_map(|t: &f64| t.to_le_bytes())
            .collect::<Vec<u8>>(),
    )?;
    let (fills, filled) = clock.sharing().effort();
    println!(
        "{{\"flows\":{},\"steps\":{steps},\"fills\":{fills},\"flows_filled\":{filled},\"simulated_seconds\":{},\"bound_seconds\":{bound},\
         \"platform_cpu_seconds\":{},\"static_cpu_seconds\":{},\"paths_cpu_seconds\":{},\"first_fill_cpu_seconds\":{},\"events_cpu_seconds\":{},\
         \"run_cpu_seconds\":{},\"total_cpu_seconds\":{},\"peak_bytes\":{}}}",
        transfers.len(),
        clock.now(),
        t1 - t0,
        t2 - t1,
        t3 - t2,
        t4 - t3,
        t5 - t4,
        t5 - t2,
        t5 - (t2 - t1) - t0,
        peak_bytes()
    );
    Ok(())
}

/// At half a ring's distance both directions are equally long. We go up, and so does SimGrid's torus, except
/// from the middle of the ring to its first router: such routes are replaced.
fn as_simgrid_breaks_ties(network: &Network<'_>, transfer: &Transfer, uses: &mut Vec<Use>) {
    let (fabric, Routing::DimensionOrder(order)) = (network.fabric, network.routing) else {
        return;
    };
    let router = |node| fabric.node(node).router;
    let (mut at, end) = (router(transfer.from), router(transfer.to));
    let dims = &order.shape().dims;
    let (Some(from), Some(to)) = (fabric.coord(at), fabric.coord(end)) else {
        return;
    };
    let tied = |d: usize| dims[d] > 1 && from[d] == dims[d] / 2 && to[d] == 0 && dims[d] % 2 == 0;
    if !(0..3).any(tied) {
        return;
    }
    let (first, last) = (uses[0], uses[uses.len() - 1]);
    uses.clear();
    uses.push(first);
    for d in 0..3 {
        let Some(mut direction) = order.direction(d, from[d], to[d]) else {
            continue;
        };
        if tied(d) {
            direction = direction.opposite();
        }
        while fabric.coord(at).is_some_and(|c| c[d] != to[d]) {
            let Some(link) = order.link(at, direction) else {
                return;
            };
            let End::Router(next) = fabric.link(link).to else {
                return;
            };
            uses.extend(network.resource_of(link).map(|resource| Use {
                resource,
                weight: 1.0,
            }));
            at = next;
        }
    }
    uses.push(last);
}

/// Transfers between random nodes of a 16x12x24 Gemini that begin over time, at half of the
/// machine's capacity for uniform traffic.
fn arrivals(flows: u32) -> Result<(), Error> {
    let fabric = spec::fabric("gemini:16x12x24")?;
    let routing = Routing::default_for(&fabric);
    let parameters = parameters();
    let network = Network::new(&fabric, &routing, &parameters, OperatingPoint::default());
    let mut clock = Clock::new(Sharing::new(network.capacities()), 0.0);
    let mut random = Random::new(7);
    let nodes = fabric.nodes().len();
    let transfers: Vec<Transfer> = (0..flows)
        .map(|_| Transfer {
            from: NodeId(random.below(nodes) as u32),
            to: NodeId(random.below(nodes) as u32),
            bytes: 65_536.0 * (1 + random.below(64)) as f64,
            messages: 1.0,
        })
        .filter(|t| t.from != t.to)
        .collect();
    let all = Loads::of(&network, &transfers).map_err(|e| e.describe(&fabric))?;
    let busy = all.worst(&network).map_or(1.0, |w| w.seconds);
    let gap = 2.0 * busy / transfers.len() as f64;
    let start = cpu_seconds();
    let (mut way, mut done, mut most) = (Way::default(), Vec::new(), 0);
    for (i, t) in transfers.iter().enumerate() {
        let begins = gap * i as f64;
        while clock.next_end().is_some_and(|end| end <= begins) {
            clock.end_next(&mut done);
        }
        clock.advance_to(begins);
        let wire = parameters.protocol.wire(t.bytes);
        network
            .way(t.from, t.to, &wire, t.bytes, &mut way)
            .map_err(|e| e.describe(&fabric))?;
        let path = clock.add_path(&way.uses);
        clock.begin(path, t.bytes, f64::INFINITY, i as u32);
        most = most.max(i as u64 + 1 - clock.ended());
    }
    while clock.next_end().is_some() {
        clock.end_next(&mut done);
    }
    let cpu = cpu_seconds() - start;
    let (fills, filled) = clock.sharing().effort();
    println!(
        "{{\"flows\":{},\"most_at_once\":{most},\"fills\":{fills},\"flows_filled\":{filled},\"cpu_seconds\":{cpu},\"flows_per_cpu_second\":{:.0},\"peak_bytes\":{}}}",
        done.len(),
        done.len() as f64 / cpu,
        peak_bytes()
    );
    Ok(())
}

fn peak_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}
