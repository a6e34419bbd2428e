//! Counters of a lab's links, as the kernel keeps them: the same source that an agent on a host reads, in every
//! namespace.

use super::Lab;
use super::space;
use super::system;
use anyhow::{Result, bail};
use hopbyte_fabric::{Fabric, LinkId};
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::sources::{Places, Source, open};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two looks at all queues, which take a few milliseconds.
const BETWEEN: Duration = Duration::from_millis(20);

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

impl Load {
    /// Share of a rate in bits per second.
    pub fn used(&self, rate: u64) -> f64 {
        self.bytes as f64 * 8.0 / (rate as f64 * self.seconds)
    }
}

/// Counters of one interface: sent bytes and frames, drops at its queue, bytes that wait there.
type Values = [u64; 4];
const NAMES: [&str; 4] = ["tx_bytes", "tx_packets", "qdisc_drops", "qdisc_backlog"];

/// An interface that is watched.
struct Interface {
    name: String,
    /// Positions of the counters.
    counters: [usize; 4],
    first: Values,
    last: Values,
    waiting: u32,
}

/// A namespace that is watched.
struct Space {
    place: String,
    source: Source,
    layout: Arc<Layout>,
    interfaces: Vec<Interface>,
    first: Instant,
    last: Instant,
    samples: u32,
}

/// Watches all links for at least a window.
pub fn watch(lab: &Lab, fabric: &Fabric, window: Duration) -> Result<HashMap<LinkId, Load>> {
    let places = system::places_of(&lab.name)?;
    let mut spaces = places
        .into_iter()
        .map(Space::open)
        .collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    loop {
        let looked = Instant::now();
        spaces.iter_mut().try_for_each(Space::look)?;
        if start.elapsed() >= window {
            break;
        }
        std::thread::sleep(BETWEEN.saturating_sub(looked.elapsed()));
    }
    let naming = lab.naming();
    let mut loads: HashMap<(&str, &str), Load> = HashMap::new();
    for space in &spaces {
        for interface in &space.interfaces {
            let key = (space.place.as_str(), interface.name.as_str());
            loads.insert(key, space.load(interface));
        }
    }
    let of = |link| {
        let (place, interface) = naming.sending_end(fabric, link)?;
        Some((link, *loads.get(&(place.as_str(), interface.as_str()))?))
    };
    Ok(fabric.link_ids().filter_map(of).collect())
}

impl Space {
    fn open(place: String) -> Result<Self> {
        let sources = space::inside(&place, || open(&Places::here(place.as_str())))?;
        let linux = sources
            .into_iter()
            .flatten()
            .find(|s| s.layout().source == "linux");
        let Some(source) = linux else {
            bail!("{place} has no interfaces: was the lab taken down meanwhile?");
        };
        let layout = source.layout().clone();
        let position = |port: &str, name: &str| {
            layout.counters.iter().position(|c| {
                c.name == name && layout.ports[usize::from(c.port)] == Port::Named(port.into())
            })
        };
        let interface = |port: &Port| {
            let Port::Named(name) = port else { return None };
            let found = NAMES.map(|n| position(name, n));
            let [Some(bytes), Some(packets), Some(drops), Some(backlog)] = found else {
                return None;
            };
            Some(Interface {
                name: name.clone(),
                counters: [bytes, packets, drops, backlog],
                first: Values::default(),
                last: Values::default(),
                waiting: 0,
            })
        };
        let now = Instant::now();
        Ok(Self {
            interfaces: layout.ports.iter().filter_map(interface).collect(),
            layout: layout.clone(),
            place,
            source,
            first: now,
            last: now,
            samples: 0,
        })
    }

    fn look(&mut self) -> Result<()> {
        let reading = self.source.sample()?;
        if !Arc::ptr_eq(&reading.layout, &self.layout) {
            bail!("interfaces of {} came or went meanwhile", self.place);
        }
        self.last = Instant::now();
        if self.samples == 0 {
            self.first = self.last;
        }
        for interface in &mut self.interfaces {
            let values = interface.counters.map(|c| reading.get(c).unwrap_or(0));
            if self.samples == 0 {
                interface.first = values;
            }
            interface.last = values;
            interface.waiting += u32::from(values[3] > 0);
        }
        self.samples += 1;
        Ok(())
    }

    fn load(&self, interface: &Interface) -> Load {
        let increase = |i: usize| interface.last[i].saturating_sub(interface.first[i]);
        Load {
            seconds: (self.last - self.first).as_secs_f64(),
            bytes: increase(0),
            packets: increase(1),
            drops: increase(2),
            waiting: f64::from(interface.waiting) / f64::from(self.samples.max(1)),
        }
    }
}
