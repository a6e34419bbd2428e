//! Time of a job's exchange with all messages at once, sharing links max-min fairly with a second job.

use crate::error::{JobError, Result};
use crate::machine::Machine;
use hopbyte_fabric::wire::Wire;
use hopbyte_fabric::{Exchange, Increase, LinkState, NodeId, Placement, Quantity};
use hopbyte_model::fluid::{Clock, Sharing};
use hopbyte_model::loads::{Loads, Transfer, transfers_of};
use hopbyte_model::network::{Network, Way};
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use std::collections::BTreeMap;

/// Bytes from one node to another.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    from: NodeId,
    to: NodeId,
    /// Bytes.
    pub bytes: f64,
}

/// Node-to-node flows of placed tasks, one per pair.
pub fn flows(exchange: &Exchange, placement: &Placement) -> Vec<Flow> {
    let mut sums: BTreeMap<(NodeId, NodeId), f64> = BTreeMap::new();
    for (task, message) in exchange.iter() {
        let pair = (placement.node(task), placement.node(message.to));
        if pair.0 != pair.1 && message.bytes > 0.0 {
            *sums.entry(pair).or_default() += message.bytes;
        }
    }
    let flow = |((from, to), bytes)| Flow { from, to, bytes };
    sums.into_iter().map(flow).collect()
}

/// Time until the last flow of the job has arrived. The second job sends without end, each of its flows
/// limited to the rate of its own window.
pub fn exchange_seconds(
    machine: &Machine,
    job: &[Flow],
    others: &[Flow],
    window: f64,
) -> Result<f64> {
    let parameters = Parameters::plain();
    let point = OperatingPoint::default();
    let network = Network::new(&machine.fabric, &machine.routing, &parameters, point);
    let mut clock = Clock::new(Sharing::new(network.capacities()), 0.0);
    let mut way = Way::default();
    let mut begin = |flow: &Flow, bytes: f64, limit: f64, tag: u32| -> Result<()> {
        let wire: Wire = parameters.protocol.wire(flow.bytes);
        let found = network.way(flow.from, flow.to, &wire, flow.bytes, &mut way);
        found.map_err(|dead| JobError::refused(&dead.describe(&machine.fabric)))?;
        let path = clock.add_path(&way.uses);
        clock.begin(path, bytes, limit, tag);
        Ok(())
    };
    for flow in others {
        begin(flow, FOREVER, flow.bytes / window, OTHERS)?;
    }
    for flow in job {
        begin(flow, flow.bytes, f64::INFINITY, JOB)?;
    }
    let (mut ended, mut done) = (0, Vec::new());
    while ended < job.len() && clock.next_end().is_some() {
        done.clear();
        clock.end_next(&mut done);
        ended += done.iter().filter(|d| d.tag == JOB).count();
    }
    Ok(clock.now())
}

/// The counters that the machine would show if the job's exchange ran once in the window of the
/// background.
pub fn reading(
    machine: &Machine,
    exchange: &Exchange,
    placement: &Placement,
    background: Option<&LinkState>,
) -> Result<Increase> {
    let fabric = &machine.fabric;
    let parameters = Parameters::plain();
    let network = Network::new(
        fabric,
        &machine.routing,
        &parameters,
        OperatingPoint::default(),
    );
    let transfers: Vec<Transfer> = transfers_of(exchange, placement).collect();
    let loads = Loads::of(&network, &transfers);
    let loads = loads.map_err(|dead| JobError::refused(&dead.describe(fabric)))?;
    let window = background.and_then(|b| b.window_seconds);
    let mut snapshot = Increase::new(fabric, "model: static loads");
    snapshot.window_seconds = window;
    for link in fabric.link_ids() {
        let own = loads.links[link.index()].bytes();
        let others = background
            .and_then(|b| b.received_bytes.get(link))
            .unwrap_or(0.0);
        snapshot.set(Quantity::ReceivedBytes, link, own + others);
    }
    Ok(snapshot)
}

/// Tags of transfers.
const JOB: u32 = 0;
const OTHERS: u32 = 1;
/// Bytes of the endless background flows.
const FOREVER: f64 = 1e18;
