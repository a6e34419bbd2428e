//! Counters of a lab's links, as the kernel keeps them.

use super::Lab;
use super::system;
use anyhow::{Context, Result};
use hopbyte_fabric::{Fabric, LinkId};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What one direction of a link carried in its window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Length of the window: namespaces are read one after the other, so each link has its own.
    pub seconds: f64,
    /// Bytes sent, frames with their Ethernet header.
    pub bytes: u64,
    /// Frames sent.
    pub packets: u64,
    /// Frames dropped at the shaped queue.
    pub drops: u64,
    /// Share of the samples in which frames waited for the shaper: the counterpart of a credit stall.
    pub waiting: f64,
}

/// Queue counters of one interface.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// When it was read, from the start of the watch.
    at: Duration,
    bytes: u64,
    packets: u64,
    drops: u64,
    backlog: u64,
}

/// Watches all links for at least a window.
pub fn watch(lab: &Lab, fabric: &Fabric, window: Duration) -> Result<HashMap<LinkId, Load>> {
    let start = Instant::now();
    let first = read(lab, start)?;
    let mut waiting: HashMap<(String, String), u32> = HashMap::new();
    let mut samples = 0u32;
    let last = loop {
        let now = read(lab, start)?;
        samples += 1;
        for (interface, queue) in &now {
            *waiting.entry(interface.clone()).or_default() += u32::from(queue.backlog > 0);
        }
        if start.elapsed() >= window {
            break now;
        }
    };
    let naming = lab.naming();
    let mut loads = HashMap::new();
    for link in fabric.link_ids() {
        let Some(interface) = naming.sending_end(fabric, link) else {
            continue;
        };
        let (Some(before), Some(after)) = (first.get(&interface), last.get(&interface)) else {
            continue;
        };
        let load = Load {
            seconds: (after.at - before.at).as_secs_f64(),
            bytes: after.bytes.saturating_sub(before.bytes),
            packets: after.packets.saturating_sub(before.packets),
            drops: after.drops.saturating_sub(before.drops),
            waiting: f64::from(waiting.get(&interface).copied().unwrap_or(0)) / f64::from(samples),
        };
        loads.insert(link, load);
    }
    Ok(loads)
}

/// Counters of every shaped interface of a lab, by namespace and interface. Lines are timed as they
/// come: the outer program enters one namespace after the other.
fn read(lab: &Lab, start: Instant) -> Result<HashMap<(String, String), Queue>> {
    let places: HashSet<String> = system::places_of(&lab.name)?.into_iter().collect();
    let mut child = Command::new("ip")
        .args(["-all", "netns", "exec", "tc", "-s", "-j", "qdisc", "show"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting ip")?;
    let mut place = None;
    let mut all = HashMap::new();
    for line in child
        .stdout
        .take()
        .map(BufReader::new)
        .into_iter()
        .flat_map(BufRead::lines)
    {
        let line = line.context("reading from ip")?;
        if let Some(name) = line.strip_prefix("netns: ") {
            place = places.get(name.trim()).cloned();
        } else if let (Some(place), true) = (&place, line.starts_with('[')) {
            let at = start.elapsed();
            let queues: Vec<Value> = serde_json::from_str(&line).unwrap_or_default();
            for queue in queues.iter().filter(|q| q["kind"] == "tbf") {
                let number = |name: &str| queue[name].as_u64().unwrap_or(0);
                let interface = queue["dev"].as_str().unwrap_or("").to_owned();
                let queue = Queue {
                    at,
                    bytes: number("bytes"),
                    packets: number("packets"),
                    drops: number("drops"),
                    backlog: number("backlog"),
                };
                all.insert((place.clone(), interface), queue);
            }
        }
    }
    child.wait().context("waiting for ip")?;
    Ok(all)
}
