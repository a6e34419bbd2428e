//! Readings of the lab's counters while the application runs beside others, and the others' share.

use super::application::Place;
use super::rivals::HEADROOM;
use crate::agents;
use crate::counters::{Load, load_lines};
use crate::error::{LabError, Result};
use hopbyte_apply::write_atomic;
use hopbyte_fabric::{Exchange, LinkId, Placement, Quantity};
use hopbyte_job::Machine;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// Wire bytes per payload byte: 1,448 in a frame of 1,514.
pub const FRAMES: f64 = 1514.0 / 1448.0;

/// Bytes on the wire that one product puts on each link.
pub fn own_bytes(
    machine: &Machine,
    exchange: &Exchange,
    placement: &Placement,
) -> Result<HashMap<LinkId, f64>> {
    let mut bytes = HashMap::new();
    let mut route = Vec::new();
    for (from, message) in exchange.iter() {
        route.clear();
        let (a, b) = (placement.node(from), placement.node(message.to));
        let walked = machine.routing.route(&machine.fabric, a, b, &mut route);
        walked.map_err(|e| LabError::Refused(e.describe(&machine.fabric)))?;
        for &link in &route {
            *bytes.entry(link).or_insert(0.0) += message.bytes * FRAMES;
        }
    }
    Ok(bytes)
}

/// A link's reading.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Total load.
    pub load: Load,
    /// Its rate in bits per second.
    pub rate: u64,
    /// Bytes per second of others.
    pub others: f64,
}

/// Reads the lab's counters for a while, by agents that report to a collector, and writes two files: the total load of
/// all links, and the capacity unavailable to the application: the others' load and some headroom.
/// The number of products in the window is the bytes that the application's nodes injected, over their bytes per
/// product; these nodes are used exclusively.
pub fn read(
    place: &Place,
    own: &HashMap<LinkId, f64>,
    window: Duration,
    all: &Path,
    others: &Path,
) -> Result<HashMap<LinkId, Read>> {
    let (fabric, lab, naming) = (place.fabric, place.lab, place.lab.naming(place.fabric));
    let increase = agents::watch(lab, fabric, window)?;
    let load = |link| Some((link, Load::of(&increase, link)?));
    let loads: HashMap<LinkId, Load> = fabric.link_ids().filter_map(load).collect();
    let of = |link: &LinkId| own.get(link).copied().unwrap_or(0.0);
    let (mut injected, mut once) = (0.0, 0.0);
    for &node in &place.nodes {
        let link = fabric.node(node).inject;
        if let Some(load) = loads.get(&link) {
            injected += load.bytes as f64 / load.seconds;
            once += of(&link);
        }
    }
    let products_per_second = if once > 0.0 { injected / once } else { 0.0 };
    let reads: HashMap<LinkId, Read> = (loads.iter())
        .map(|(&link, &load)| {
            let others = load.bytes as f64 / load.seconds - of(&link) * products_per_second;
            let read = Read {
                load,
                rate: naming.rate(fabric, link),
                others: others.max(0.0),
            };
            (link, read)
        })
        .collect();
    let mut not_mine = increase.clone();
    for (&link, read) in &reads {
        let bytes = (read.others + HEADROOM * read.rate as f64 / 8.0) * read.load.seconds;
        for quantity in [Quantity::ReceivedBytes, Quantity::SentBytes] {
            not_mine.set(quantity, link, bytes.round());
        }
    }
    write_atomic(all, &load_lines(lab, fabric, &increase)?)?;
    write_atomic(others, &load_lines(lab, fabric, &not_mine)?)?;
    Ok(reads)
}
