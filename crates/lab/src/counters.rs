//! Counters of a lab's links from the kernel: the same source that an agent reads on a host, in every
//! namespace.

use super::Lab;
use super::space;
use super::system;
use crate::error::{Result, refuse};
use hopbyte_fabric::{Fabric, Increase, LinkId, Quantity};
use hopbyte_job::links::lines;
use hopbyte_observe::counters::delta::{Behaviour, Moment, increase};
use hopbyte_observe::counters::reading::{Counter, Layout, Port, Reading};
use hopbyte_observe::sources::{Places, Source, next_glance, open};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Samples of all queues per [`GLANCE`]; a sample takes a few milliseconds.
const OFTEN: u32 = 2;

/// Load of one direction of a link in its window.
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
    /// Bytes in the queue at the end.
    pub queued: u64,
    /// Share of the samples in which frames waited for the shaper: the counterpart of a credit stall.
    pub waiting: f64,
}

impl Load {
    /// Share of a rate in bits per second.
    pub fn used(&self, rate: u64) -> f64 {
        self.bytes as f64 * 8.0 / (rate as f64 * self.seconds)
    }
}

/// Counters of one interface: sent bytes and frames, drops at its queue, bytes queued.
type Values = [u64; 4];
const NAMES: [&str; 4] = ["tx_bytes", "tx_packets", "qdisc_drops", "qdisc_backlog"];
/// The agent's name for the source that reads interfaces.
pub(super) const LINUX: &str = "linux";

/// A monitored interface.
struct Interface {
    name: String,
    /// Column indices of the counters.
    counters: [usize; 4],
    first: Values,
    last: Values,
    waiting: u32,
}

/// The interfaces of a namespace with their readings.
pub(super) struct Space {
    place: String,
    layout: Arc<Layout>,
    interfaces: Vec<Interface>,
    first: Moment,
    last: Moment,
    samples: u32,
}

/// Samples all links for at least a window.
pub fn watch(lab: &Lab, fabric: &Fabric, window: Duration) -> Result<HashMap<LinkId, Load>> {
    let places = system::places_of(&lab.name)?;
    let ports = lab.ports(fabric);
    let open = |place: String| {
        let names = ports.get(&place).cloned().unwrap_or_default();
        let source = source(&place, &place, names)?;
        let space = Space::new(place, source.layout());
        Ok((source, space))
    };
    let mut watched = places
        .into_iter()
        .map(open)
        .collect::<Result<Vec<(Source, Space)>>>()?;
    let start = Instant::now();
    loop {
        let looked = Instant::now();
        for (source, space) in &mut watched {
            space.take(source.sample()?)?;
        }
        if start.elapsed() >= window {
            break;
        }
        std::thread::sleep((next_glance() / OFTEN).saturating_sub(looked.elapsed()));
    }
    Ok(by_link(lab, fabric, watched.iter().map(|(_, space)| space)))
}

/// The interfaces of a namespace as an agent there reads them, under the names of the node and of its ports.
pub(super) fn source(place: &str, name: &str, ports: BTreeMap<String, String>) -> Result<Source> {
    let places = Places {
        names: ports,
        ..Places::here(name)
    };
    let sources = space::inside(place, || open(&places))?;
    let linux = sources
        .into_iter()
        .flatten()
        .find(|s| s.layout().source == LINUX);
    let Some(source) = linux else {
        refuse!("{place} has no interfaces: was the lab taken down meanwhile?");
    };
    Ok(source)
}

/// Readings of namespaces as loads of the links that begin there.
pub(super) fn by_link<'a>(
    lab: &Lab,
    fabric: &Fabric,
    spaces: impl Iterator<Item = &'a Space>,
) -> HashMap<LinkId, Load> {
    let naming = lab.naming(fabric);
    let mut loads: HashMap<(&str, &str), Load> = HashMap::new();
    for space in spaces {
        for interface in &space.interfaces {
            let key = (space.place.as_str(), interface.name.as_str());
            loads.extend(space.load(interface).map(|load| (key, load)));
        }
    }
    let of = |link| {
        let (place, _) = naming.sending_end(fabric, link)?;
        let port = fabric.link_name(link);
        Some((link, *loads.get(&(place.as_str(), port.as_str()))?))
    };
    fabric.link_ids().filter_map(of).collect()
}

impl Space {
    /// A namespace without a reading.
    pub(super) fn new(place: String, layout: &Arc<Layout>) -> Self {
        let position = |port: &Port, name: &str| {
            let is = |c: &Counter| c.name == name && layout.ports[usize::from(c.port)] == *port;
            layout.counters.iter().position(is)
        };
        let interface = |port: &Port| {
            let found = NAMES.map(|n| position(port, n));
            let [Some(bytes), Some(packets), Some(drops), Some(backlog)] = found else {
                return None;
            };
            Some(Interface {
                name: port.to_string(),
                counters: [bytes, packets, drops, backlog],
                first: Values::default(),
                last: Values::default(),
                waiting: 0,
            })
        };
        Self {
            interfaces: layout.ports.iter().filter_map(interface).collect(),
            layout: layout.clone(),
            place,
            first: Moment::default(),
            last: Moment::default(),
            samples: 0,
        }
    }

    /// Takes a reading; an incomplete one is left out.
    pub(super) fn take(&mut self, reading: &Reading) -> Result<()> {
        if !Arc::ptr_eq(&reading.layout, &self.layout) && reading.layout != self.layout {
            refuse!(
                "interfaces of {} changed during the measurement",
                self.place
            );
        }
        let mut counters = self.interfaces.iter().flat_map(|i| i.counters);
        if counters.any(|c| reading.get(c).is_none()) {
            return Ok(());
        }
        self.last = reading.moment;
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

    /// Seconds between the first and the last reading.
    pub(super) fn seconds(&self) -> f64 {
        let seconds = self.first.seconds_to(self.last);
        seconds.ok().flatten().unwrap_or(0.0)
    }

    /// `None` if a counter was reset meanwhile.
    fn load(&self, interface: &Interface) -> Option<Load> {
        let seconds = self.seconds();
        let counted = |i: usize| {
            let (first, last) = (interface.first[i], interface.last[i]);
            increase(Behaviour::PLAIN, first, last, Some(seconds)).ok()
        };
        Some(Load {
            seconds,
            bytes: counted(0)?,
            packets: counted(1)?,
            drops: counted(2)?,
            queued: interface.last[3],
            waiting: f64::from(interface.waiting) / f64::from(self.samples.max(1)),
        })
    }
}

/// The lines of `hopbyte links --json`, for a window of `seconds`. Bytes are scaled to the machine's
/// real capacity, so that ratios are those of the lab.
pub fn load_lines(
    lab: &Lab,
    fabric: &Fabric,
    seconds: f64,
    loads: &HashMap<LinkId, Load>,
) -> Result<String> {
    let mut increase = Increase::new(fabric, format!("lab {}", lab.name));
    increase.window_seconds = Some(seconds);
    increase.matched = loads.len();
    for (&link, load) in loads {
        let part = seconds / load.seconds;
        let bytes = load.bytes as f64 * 8.0 / lab.scale_bits_per_byte * part;
        increase.set(Quantity::ReceivedBytes, link, bytes.round());
        increase.set(Quantity::ReceivedPackets, link, load.packets as f64);
        let waited = load.waiting * seconds * 1e9;
        increase.set(Quantity::CreditStallNs, link, waited);
        increase.set(Quantity::QueuedBytes, link, load.queued as f64);
        increase.set(Quantity::SentDrops, link, load.drops as f64);
    }
    Ok(lines(fabric, &increase)?)
}
