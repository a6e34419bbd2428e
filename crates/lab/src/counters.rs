//! Counters of a lab's links from the kernel: the same sources that an agent reads on a host, in every
//! namespace.

use super::Lab;
use super::agents::places;
use super::space;
use crate::error::{Result, refuse};
use hopbyte_fabric::{Fabric, Increase, LinkId, Quantity, Side};
use hopbyte_job::links::lines;
use hopbyte_observe::counters::apart;
use hopbyte_observe::counters::join::{Joint, PortMap};
use hopbyte_observe::counters::reading::Reading;
use hopbyte_observe::sources::{Places, Source, next_glance, open};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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
    /// Share of the window in which frames waited for the shaper: the counterpart of a credit stall.
    pub waiting: f64,
}

impl Load {
    /// The load of a link; `None` if it was not read.
    pub fn of(increase: &Increase, link: LinkId) -> Option<Self> {
        let get = |quantity| increase.get(quantity, link);
        let seconds = increase.window(Side::Departures, link)?;
        Some(Self {
            seconds,
            bytes: get(Quantity::SentBytes)? as u64,
            packets: get(Quantity::SentPackets)? as u64,
            drops: get(Quantity::SentDrops).unwrap_or(0.0) as u64,
            waiting: get(Quantity::CreditStallNs)? / 1e9 / seconds,
        })
    }

    /// Share of a rate in bits per second.
    pub fn used(&self, rate: u64) -> f64 {
        self.bytes as f64 * 8.0 / (rate as f64 * self.seconds)
    }
}

/// The first and the last reading of each source of a namespace.
#[derive(Default)]
pub(super) struct Space {
    readings: BTreeMap<String, (Reading, Reading)>,
}

/// The increase of all links over at least a window, in the lab's own bytes.
pub fn watch(lab: &Lab, fabric: &Fabric, window: Duration) -> Result<Increase> {
    let mut ports = lab.ports(fabric);
    let open = |(name, place): (String, String)| {
        let names = ports.remove(&place).unwrap_or_default();
        Ok((sources(&place, &name, names)?, Space::default()))
    };
    let places = places(&lab.naming(fabric), fabric).into_iter();
    let mut watched = places.map(open).collect::<Result<Vec<_>>>()?;
    let mut read = |glance: bool| -> Result<()> {
        for (sources, space) in &mut watched {
            for source in sources {
                if glance {
                    source.glance();
                } else {
                    space.take(source.sample()?);
                }
            }
        }
        Ok(())
    };
    read(false)?;
    let start = Instant::now();
    loop {
        let left = window.saturating_sub(start.elapsed());
        let next = next_glance();
        if left <= next {
            std::thread::sleep(left);
            break;
        }
        std::thread::sleep(next);
        read(true)?;
    }
    read(false)?;
    increase(lab, fabric, watched.iter().map(|(_, space)| space))
}

/// The sources of a namespace as an agent there reads them, under the names of the node and of its ports.
pub(super) fn sources(
    place: &str,
    name: &str,
    ports: BTreeMap<String, String>,
) -> Result<Vec<Source>> {
    let places = Places {
        names: ports,
        own_processes: true,
        ..Places::here(name)
    };
    let sources = space::inside(place, || open(&places))?;
    let sources: Vec<Source> = sources.into_iter().flatten().collect();
    // Readers of files see the host's, whose adapters are not the lab's.
    let of_place = |s: &Source| {
        let source = s.layout().source.as_str();
        source == "linux" || apart::SOURCES.contains(&source)
    };
    let sources = sources.into_iter().filter(of_place);
    let sources: Vec<Source> = sources.collect();
    if !sources.iter().any(|s| !s.layout().counters.is_empty()) {
        refuse!("{place} has no interfaces: was the lab taken down meanwhile?");
    }
    Ok(sources)
}

/// What grew in namespaces, in the lab's own bytes.
pub(super) fn increase<'a>(
    lab: &Lab,
    fabric: &Fabric,
    spaces: impl Iterator<Item = &'a Space>,
) -> Result<Increase> {
    let mut increase = Increase::new(fabric, format!("lab {}", lab.name));
    let mut all = Vec::new();
    for space in spaces {
        let readings: Vec<(Reading, &Reading)> = space.readings.values().map(laid_out).collect();
        let firsts: Vec<&Reading> = readings.iter().map(|(first, _)| first).collect();
        let joint = Joint::new(fabric, &firsts, &PortMap::new());
        let Ok(joint) = joint.map_err(|e| (e.found, e.expected)) else {
            refuse!(
                "lab '{}': its readings are not those of its machine",
                lab.name
            );
        };
        let pairs: Vec<_> = readings.iter().map(|(a, b)| Some((a, *b))).collect();
        joint.file_increase(&pairs, &mut increase);
        all.push((joint, readings));
    }
    let of_no_link = all.iter().flat_map(|(joint, readings)| {
        let apart = readings.iter().filter(|(_, b)| apart::is_apart(&b.layout));
        apart.map(move |(first, last)| (joint, first, *last))
    });
    let of_no_link: Vec<_> = of_no_link.collect();
    apart::file(fabric, &of_no_link, &mut increase);
    Ok(increase)
}

/// Both readings with the counters of the last: peers come and go.
fn laid_out((first, last): &(Reading, Reading)) -> (Reading, &Reading) {
    (first.laid_out(&last.layout), last)
}

impl Space {
    /// Takes a reading.
    pub(super) fn take(&mut self, reading: &Reading) {
        let source = &reading.layout.source;
        match self.readings.get_mut(source) {
            Some((_, last)) => last.clone_from(reading),
            None => {
                let both = (reading.clone(), reading.clone());
                self.readings.insert(source.clone(), both);
            }
        }
    }

    /// Seconds between the first and the last reading.
    pub(super) fn seconds(&self) -> f64 {
        let seconds = (self.readings.values()).map(|(a, b)| a.moment.seconds_to(b.moment));
        let known = seconds.map(|s| s.ok().flatten().unwrap_or(0.0));
        known.fold(0.0, f64::max)
    }
}

/// The lines of `hopbyte links --json`. Bytes are scaled to the machine's real capacity, so that ratios are those of the
/// lab.
pub fn load_lines(lab: &Lab, fabric: &Fabric, increase: &Increase) -> Result<String> {
    let mut scaled = increase.clone();
    let factor = 8.0 / lab.scale_bits_per_byte;
    for link in fabric.link_ids() {
        for quantity in [
            Quantity::ReceivedBytes,
            Quantity::SentBytes,
            Quantity::ServedBytes,
            Quantity::QueuedBytes,
            Quantity::Capacity,
        ] {
            if let Some(value) = increase.get(quantity, link) {
                scaled.set(quantity, link, (value * factor).round());
            }
        }
    }
    Ok(lines(fabric, &scaled)?)
}
