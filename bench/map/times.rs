//! Time of a map's exchange in the model's engines, and the same exchange for SimGrid.
//!
//! All messages begin together, those between the same two nodes as one; links have their own rates, for packets
//! their latencies too, and nothing else takes time, so that the maps alone differ.

use crate::problems::Instance;
use hopbyte_fabric::{LinkId, NodeId, Placement};
use hopbyte_model::network::Network;
use hopbyte_model::packet::{Packets, RouterSpec};
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use hopbyte_model::program::{Builder, Flows, Program, run_on};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

/// Bytes between nodes.
type Pairs = BTreeMap<(NodeId, NodeId), f64>;

fn pairs(it: &Instance, placement: &Placement) -> Pairs {
    let mut pairs = Pairs::new();
    for (task, message) in it.exchange.iter() {
        let (from, to) = (placement.node(task), placement.node(message.to));
        if from != to {
            *pairs.entry((from, to)).or_default() += message.bytes;
        }
    }
    pairs
}

/// The share of a link that other jobs leave.
fn left(it: &Instance, link: LinkId) -> f64 {
    let used = it.background.as_ref().and_then(|b| b.used_ratio.get(link));
    (1.0 - used.unwrap_or(0.0)).max(0.01)
}

fn network<'a>(it: &'a Instance, parameters: &'a Parameters, latency: f64) -> Network<'a> {
    let point = OperatingPoint {
        latency,
        ..OperatingPoint::default()
    };
    let mut network = Network::new(&it.fabric, &it.routing, parameters, point);
    if it.background.is_some() {
        for link in it.fabric.link_ids() {
            network.degrade(link, left(it, link));
        }
    }
    network
}

/// Every node receives and sends all its messages at once. `share` of their bytes.
fn program(it: &Instance, pairs: &Pairs, share: f64) -> Result<Program, Box<dyn Error>> {
    let mut b = Builder::new(it.fabric.nodes().len());
    for (&(from, to), &bytes) in pairs {
        b.receive(to.0, from.0, 0);
        b.send(from.0, to.0, (bytes * share).max(1.0), 0);
    }
    it.fabric.node_ids().for_each(|node| b.wait_all(node.0));
    Ok(b.finish()?)
}

/// Transfers that end within this share of a transfer's duration count as simultaneous: the time is exact to as much.
const TOLERANCE: f64 = 1e-3;

/// Seconds until the last byte has arrived, links shared max-min fairly and without latency.
pub fn fluid(it: &Instance, placement: &Placement) -> Result<f64, Box<dyn Error>> {
    let parameters = Parameters::plain();
    let network = network(it, &parameters, 0.0);
    let program = program(it, &pairs(it, placement), 1.0)?;
    let nodes: Vec<NodeId> = it.fabric.node_ids().collect();
    let flows = Flows::new(&network, &[], TOLERANCE)?;
    Ok(run_on(flows, &network, &program, &nodes)?.0.seconds)
}

/// The same packet by packet, and the share of the bytes that was simulated: so many that at most `most` packets cross
/// links. The time is scaled to all bytes.
pub fn packets(
    it: &Instance,
    placement: &Placement,
    most: f64,
) -> Result<(f64, f64), Box<dyn Error>> {
    let parameters = Parameters::plain();
    let network = network(it, &parameters, 1.0);
    let spec = RouterSpec::of(&parameters).fitted(&network);
    let pairs = pairs(it, placement);
    let mut hops = 0.0;
    for (&(from, to), bytes) in &pairs {
        let crossed = it.routing.hops(&it.fabric, from, to)?;
        hops += (crossed as f64 + 1.0) * bytes / spec.plain_packet_bytes;
    }
    let share = (most / hops).min(1.0);
    let program = program(it, &pairs, share)?;
    let nodes: Vec<NodeId> = it.fabric.node_ids().collect();
    let engine = Packets::new(&network, &spec, &[])?;
    let (times, _) = run_on(engine, &network, &program, &nodes)?;
    Ok((times.seconds / share, share))
}

/// The exchange for `simgrid.cpp`: numbers of hosts and links, the rate of every link; then every pair with its
/// bytes and the links of its route, and of the way back.
pub fn routes(it: &Instance, placement: &Placement) -> Result<String, Box<dyn Error>> {
    let pairs = pairs(it, placement);
    let mut number = BTreeMap::new();
    for &(from, to) in pairs.keys() {
        for node in [from, to] {
            let next = number.len();
            number.entry(node).or_insert(next);
        }
    }
    let links = it.fabric.links().len();
    let mut text = format!("{} {links}\n", number.len());
    for id in it.fabric.link_ids() {
        let link = it.fabric.link(id);
        writeln!(text, "{}", link.capacity().0 * left(it, id))?;
    }
    let mut route = Vec::new();
    for (&(from, to), bytes) in &pairs {
        write!(text, "{} {} {bytes}", number[&from], number[&to])?;
        for (a, b) in [(from, to), (to, from)] {
            route.clear();
            it.routing.route(&it.fabric, a, b, &mut route)?;
            write!(text, " {}", route.len())?;
            for link in &route {
                write!(text, " {}", link.index())?;
            }
        }
        text.push('\n');
    }
    Ok(text)
}
