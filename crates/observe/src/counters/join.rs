//! Joins counters to links: readings of a node's sources become values of directed links.
//!
//! A port's received counters and input stalls belong to the link that ends there, its sent counters and credit
//! stalls to the link that begins there ([`Quantity::side`]). `counters/speakers.rs` selects the source of each link
//! among a node's sources.

use super::apart;
use super::ends::{Links, Place, is_of_switch, is_unlisted, mapped, shares, without_nvlink};
use super::gemini;
use super::reading::{Combine, Counter, Layout, Port, Reading};
use super::speakers::{Class, Speakers};
use hopbyte_fabric::{
    End, Fabric, Increase, LeftOut, LinkCounts, LinkId, Missing, NodeId, Quantity, Side, Totals,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The record does not fit the fabric: it belongs to another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Value in the record.
    pub found: String,
    /// Value in the fabric.
    pub expected: String,
}

/// Links by host and port name, for ports that no rule matches (interfaces of an emulated machine).
///
/// The value is the link that leaves through the port; arrivals belong to its reverse.
pub type PortMap = HashMap<(String, String), LinkId>;

/// Mapping from the counters of a node's sources to quantities of links.
#[derive(Clone, Debug)]
pub struct Joint {
    sources: Vec<SourceJoint>,
    /// The node behind each network interface.
    pub interfaces: BTreeMap<String, NodeId>,
    /// Ports that are not used.
    pub left_out: LeftOut,
}

/// The counters of one source.
#[derive(Clone, Debug, Default)]
struct SourceJoint {
    slots: Vec<Slot>,
    /// Links at each end that the source covers.
    ends: Vec<(Side, LinkId)>,
    /// Per counter: capacity of its links, and the counter with its port's speed.
    speeds: Vec<(f64, Option<u32>)>,
    matched: usize,
    unmatched: usize,
    /// Counters of bytes at ports of a switch without a link.
    free: Vec<u32>,
}

/// One quantity of one link, and the counters of a source that it is computed from.
#[derive(Clone, Debug)]
struct Slot {
    quantity: Quantity,
    link: LinkId,
    /// The end, of a state that both ends tell.
    end: Option<Side>,
    combine: Combine,
    /// (counter, factor).
    terms: Vec<(u32, f64)>,
    /// The distinct ports of these counters, in order.
    ports: Vec<u16>,
    /// Number of the node's sources that share the quantity: several adapters on one host link.
    sharers: usize,
    /// Whether some of its tiles or their counters are missing.
    partial: bool,
    /// Whether its source counts drops of the link: without the other errors they would pass for all.
    beside_drops: bool,
}

const PARTIAL: &str = "quantity of a link of which not every tile was read";
const BOTH_WAYS: &str =
    "count of lanes is above the fabric's: both directions of the dimension may be counted there";
const UNLISTED: &str = "port of a switch that no table of ports names (columns switch,port,peer; give it beside the counters)";
const BY_ORDER: &str = "place of an interface without a name in the machine: the n-th interface of a host is taken for its n-th port";
const NUMBER: &str = "interface of a host with another number of ports: give each place on its own (--counters-of PLACE, or `PLACE: ` before its lines, as pdsh prints them)";
const AT_LEAST: &str = "error counter without a value, or at its highest; the errors of its link are at least those given";
const STAYS: &str = "counter at its highest, where it stays until it is cleared (`perfquery -R`); its increase is not known";
const RECABLED: &str = "port that counts traffic and has no link in the machine, whose file may be older than its cables";
const DOUBLE: &str = "another source of the node counts the same";

/// A quantity of a link, at one end if each end has its own value of it.
type Key = (Quantity, LinkId, Option<Side>);

/// Per quantity and link: the source that supplies it, and the class of its port.
type Owners = BTreeMap<Key, (usize, Class)>;

/// Whether both ends tell a link's state, so that the ports of an end add up and the ends do not.
fn is_told_by_both_ends(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::Lanes | Quantity::Capacity)
}

impl Joint {
    /// Finds the links of a node's sources from their first readings, which also show the folded directions of a
    /// torus router.
    pub fn new(fabric: &Fabric, firsts: &[&Reading], map: &PortMap) -> Result<Self, Mismatch> {
        let speakers = Speakers::of(fabric, firsts, map);
        let mut left_out = LeftOut::default();
        let mut sources = vec![SourceJoint::default(); firsts.len()];
        // Sorted by name, so that live and stored sources of a node have the same order.
        let mut order: Vec<usize> = (0..firsts.len()).collect();
        order.sort_by_key(|&s| &firsts[s].layout.source);
        let mut owners = Owners::new();
        let mut interfaces = BTreeMap::new();
        for s in order {
            let mut node = Joining {
                interfaces: &mut interfaces,
                fabric,
                map,
                speakers: &speakers,
                owners: &mut owners,
                left_out: &mut left_out,
            };
            sources[s] = SourceJoint::new(s, firsts[s], &mut node)?;
        }
        let mut sharers: BTreeMap<Key, usize> = BTreeMap::new();
        for slot in sources.iter().flat_map(|s| &s.slots) {
            *sharers.entry(slot.key()).or_default() += 1;
        }
        for slot in sources.iter_mut().flat_map(|s| &mut s.slots) {
            slot.sharers = sharers[&slot.key()];
        }
        Ok(Self {
            sources,
            interfaces,
            left_out,
        })
    }

    /// Stores readings of totals, in the order of the first ones.
    pub fn file_totals(&self, readings: &[Option<&Reading>], totals: &mut Totals) {
        let value = |s: usize, i: usize| {
            let reading = readings[s]?;
            let counter = &reading.layout.counters[i];
            reading.get(i).map(|v| match counter.behaviour {
                // A total at the top of a counter that stays there is a lower bound: enough for errors.
                b if b.sticky && v >= b.highest() && counter.quantity != Quantity::Errors => {
                    Err(Missing::Stuck)
                }
                _ => Ok(v as f64),
            })
        };
        self.file(totals, value, |s| readings[s]);
        for reading in readings.iter().flatten() {
            note_highest(reading, &mut totals.left_out);
        }
        for (source, reading) in self.sources.iter().zip(readings) {
            let Some(reading) = reading else { continue };
            totals.time_seconds = latest(totals.time_seconds, reading);
            totals.matched += source.matched;
            totals.unmatched += source.unmatched;
        }
    }

    /// Stores the increases between two readings of each source, in the order of the first ones.
    pub fn file_increase(&self, pairs: &[Option<(&Reading, &Reading)>], into: &mut Increase) {
        let mut seconds = vec![Ok(None); pairs.len()];
        for ((source, pair), seconds) in self.sources.iter().zip(pairs).zip(&mut seconds) {
            let Some((earlier, later)) = pair else {
                continue;
            };
            *seconds = earlier.moment.seconds_to(later.moment);
            if let Ok(Some(length)) = *seconds {
                // The overall window is the longest of the devices' intervals; each link keeps its own.
                let longest = into.window_seconds.unwrap_or(0.0).max(length);
                into.window_seconds = Some(longest);
                for &(side, link) in &source.ends {
                    into.set_window(side, link, length);
                }
            }
            into.time_seconds = latest(into.time_seconds, later);
            into.matched += source.matched;
            into.unmatched += source.unmatched;
        }
        let value = |s: usize, i| {
            let (earlier, later) = pairs[s]?;
            self.sources[s].grown(earlier, later, i, seconds[s])
        };
        for (_, later) in pairs.iter().flatten() {
            note_highest(later, &mut into.left_out);
        }
        self.file(into, value, |s| pairs[s].map(|(_, later)| later));
        for (s, source) in self.sources.iter().enumerate() {
            let Some((_, later)) = pairs[s] else { continue };
            let grows = |&&i: &&u32| value(s, i as usize).is_some_and(|v| v.is_ok_and(|v| v > 0.0));
            let ports = source.free.iter().filter(grows);
            let ports = ports.map(|&i| later.layout.counters[i as usize].port);
            for port in ports.collect::<BTreeSet<_>>() {
                let port = &later.layout.ports[port as usize];
                let name = format!("{} {port}", later.layout.node);
                into.left_out.note(RECABLED, name);
            }
        }
    }

    /// `reading`: that of a source which names it.
    fn file<'a>(
        &self,
        counts: &mut LinkCounts,
        value: impl Fn(usize, usize) -> Option<Result<f64, Missing>>,
        reading: impl Fn(usize) -> Option<&'a Reading>,
    ) {
        let mut shared: BTreeMap<Key, Shared> = BTreeMap::new();
        for (s, source) in self.sources.iter().enumerate() {
            for slot in &source.slots {
                let own = slot.value(&|i| value(s, i));
                // Without errors the value is missing, or no counter is.
                if slot.is_errors()
                    && own.is_some_and(|v| v.is_ok_and(|errors| errors > 0.0))
                    && let Some(reading) = reading(s)
                {
                    for i in slot.terms.iter().map(|&(i, _)| i as usize) {
                        let is_full = reading.is_full(i);
                        let is_open = !is_full && !matches!(value(s, i), Some(Ok(_)));
                        if is_full || is_open {
                            counts.at_least.insert(slot.link);
                        }
                        // Counters at their highest are noted apart.
                        if is_open {
                            counts.left_out.note(AT_LEAST, counter_name(reading, i));
                        }
                    }
                }
                if slot.sharers == 1 {
                    settle(counts, slot.quantity, slot.link, own);
                } else {
                    shared.entry(slot.key()).or_default().take(slot, own);
                }
            }
        }
        for ((quantity, link, _), whole) in shared {
            settle(counts, quantity, link, whole.value());
        }
    }
}

/// Counters at their highest value, at which they stay.
fn note_highest(reading: &Reading, left_out: &mut LeftOut) {
    for (i, counter) in reading.layout.counters.iter().enumerate() {
        if reading.get(i).is_some_and(|v| counter.stays_at(v)) {
            let reason = if counter.is_errors() { AT_LEAST } else { STAYS };
            left_out.note(reason, counter_name(reading, i));
        }
    }
}

fn counter_name(reading: &Reading, i: usize) -> String {
    let (layout, counter) = (&reading.layout, &reading.layout.counters[i]);
    let port = &layout.ports[counter.port as usize];
    format!("{} {port} {}", layout.node, counter.name)
}

/// Stores a value unless another node of the same router already did, or the other end tells a worse state.
fn settle(
    counts: &mut LinkCounts,
    quantity: Quantity,
    link: LinkId,
    value: Option<Result<f64, Missing>>,
) {
    let Some(value) = value else { return };
    match (counts.get(quantity, link), value) {
        (Some(seen), Ok(new)) if is_told_by_both_ends(quantity) => {
            counts.set(quantity, link, seen.min(new));
        }
        // Two nodes of one router report the same value; the first one counts.
        (Some(_), _) => {}
        (None, value) => counts.put(quantity, link, value),
    }
}

/// A quantity that several sources of a node share, while it is summed.
#[derive(Default)]
struct Shared {
    whole: f64,
    seen: usize,
    sharers: usize,
    missing: Option<Missing>,
}

impl Shared {
    fn take(&mut self, slot: &Slot, value: Option<Result<f64, Missing>>) {
        self.sharers = slot.sharers;
        match value {
            Some(Ok(value)) => {
                self.seen += 1;
                self.whole = match slot.combine {
                    Combine::Max => self.whole.max(value),
                    Combine::Sum | Combine::Mean => self.whole + value,
                };
            }
            Some(Err(why)) => self.missing = Some(why),
            None => {}
        }
    }

    fn value(&self) -> Option<Result<f64, Missing>> {
        match (self.missing, self.seen) {
            (Some(why), _) => Some(Err(why)),
            (None, 0) => None,
            (None, n) if n < self.sharers => Some(Err(Missing::Unread)),
            _ => Some(Ok(self.whole)),
        }
    }
}

/// A node's source while it is joined, with the other sources of the node.
struct Joining<'a> {
    fabric: &'a Fabric,
    map: &'a PortMap,
    speakers: &'a Speakers,
    owners: &'a mut Owners,
    interfaces: &'a mut BTreeMap<String, NodeId>,
    left_out: &'a mut LeftOut,
}

impl SourceJoint {
    /// Joins the source with this index.
    fn new(own: usize, first: &Reading, node: &mut Joining<'_>) -> Result<Self, Mismatch> {
        let (fabric, layout) = (node.fabric, &*first.layout);
        let place = &Place::of(fabric, layout);
        let mut joint = Self {
            speeds: vec![(0.0, None); layout.counters.len()],
            ..Self::default()
        };
        if apart::is_apart(layout) {
            return Ok(joint);
        }
        let mut slots: BTreeMap<Key, Slot> = BTreeMap::new();
        let mut ends: BTreeSet<(Side, LinkId)> = BTreeSet::new();
        let mut doubles = false;
        let speaking = counters_by_port(layout);
        let says = speeds_by_port(layout);
        for (p, (port, counters)) in layout.ports.iter().zip(&speaking).enumerate() {
            if let Some(reason) = node.speakers.refusal(own, p) {
                node.left_out
                    .note(reason, format!("{} {port}", layout.node));
                continue;
            }
            let links = Links::of(fabric, place, first, port, node.map);
            let value = |i: &u32| first.get(*i as usize);
            if links.departures.is_empty() && links.arrivals.is_empty() {
                // A port without a link whose counters are all zero is not reported as left out.
                let is_gpu = matches!(port, Port::Gpu(_));
                let counted = !is_gpu && counters.iter().any(|i| value(i).unwrap_or(0) != 0);
                joint.unmatched += usize::from(counted);
                if let Some(reason) = without_nvlink(fabric, place, port) {
                    for &i in counters {
                        let series = &layout.counters[i as usize].name;
                        let name = format!("{} {port} {series}", layout.node);
                        node.left_out.note(reason, name);
                    }
                }
                if is_of_switch(fabric, first, port) {
                    use Quantity::{ReceivedBytes, SentBytes};
                    let quantity = |i: &u32| layout.counters[*i as usize].quantity;
                    let bytes = |i: &&u32| matches!(quantity(i), ReceivedBytes | SentBytes);
                    joint.free.extend(counters.iter().filter(bytes));
                }
                if counted {
                    let is_unlisted = is_unlisted(fabric, first, port);
                    let ports = place.ports_in_words(fabric);
                    let own = [LeftOut::NO_LINK, NUMBER][usize::from(!ports.is_empty())];
                    let reason = if is_unlisted { UNLISTED } else { own };
                    let name = format!("{} {port}{ports}", layout.node);
                    node.left_out.note(reason, name);
                }
                continue;
            }
            let by_order = place.by_order(fabric, layout, port);
            if by_order.is_some() && mapped(first, port, node.map).is_none() {
                let name = format!("{} {port}", layout.node);
                node.left_out.note(BY_ORDER, name);
            }
            joint.matched += usize::from(counters.iter().any(|i| value(i).is_some()));
            let sender = links.departures.first().map(|&l| fabric.link(l).from);
            if let (Port::Named(name), Some(End::Node(n))) = (port, sender) {
                node.interfaces.insert(name.clone(), n);
            }
            let class = Class::of(port);
            let joins = class.adds_up() && !node.speakers.is_double(own, port);
            for &i in counters {
                let counter = &layout.counters[i as usize];
                let speaks_of = links.on(counter.side);
                let capacity = speaks_of.iter().map(|&l| fabric.link(l).nominal.0).sum();
                let said = says.get(&(counter.port, counter.side)).copied();
                joint.speeds[i as usize] = (capacity, said);
                let shares = shares(fabric, speaks_of, port, counter.quantity);
                for (&link, share) in speaks_of.iter().zip(shares) {
                    let key = key(counter, link);
                    let owner = *node.owners.entry(key).or_insert((own, class));
                    if owner.0 != own && !(joins && owner.1 == class) {
                        doubles = true;
                        continue;
                    }
                    let slot = slots
                        .entry(key)
                        .or_insert_with(|| Slot::new(key, counter.combine));
                    slot.take(counter, i, share);
                    ends.insert((counter.side, link));
                }
            }
            if links.has_both_ways(fabric, first, port, p)? {
                let name = format!("{port} of {}", layout.node);
                node.left_out.note(BOTH_WAYS, name);
                let ours = |l: &LinkId| links.arrivals.contains(l) || links.departures.contains(l);
                slots.retain(|(q, l, _), _| *q != Quantity::Lanes || !ours(l));
            }
        }
        if doubles {
            let name = format!("{} {}", layout.node, layout.source);
            node.left_out.note(DOUBLE, name);
        }
        for slot in slots.values_mut().filter(|s| s.is_partial(fabric, layout)) {
            slot.partial = true;
            let name = format!("{} {}", layout.node, fabric.link_name(slot.link));
            node.left_out.note(PARTIAL, name);
        }
        let drops = |k: &&Key| matches!(k.0, Quantity::Drops | Quantity::SentDrops);
        let dropping: BTreeSet<LinkId> = slots.keys().filter(drops).map(|k| k.1).collect();
        let is_errors =
            |s: &&mut Slot| matches!(s.quantity, Quantity::Errors | Quantity::SentErrors);
        for slot in slots.values_mut().filter(is_errors) {
            slot.beside_drops = dropping.contains(&slot.link);
        }
        joint.slots = slots.into_values().collect();
        joint.ends = ends.into_iter().collect();
        Ok(joint)
    }

    /// Increase of a counter between two readings; the later value for a state.
    fn grown(
        &self,
        earlier: &Reading,
        later: &Reading,
        i: usize,
        seconds: Result<Option<f64>, Missing>,
    ) -> Option<Result<f64, Missing>> {
        let counter = &later.layout.counters[i];
        let (old, new) = (earlier.get(i), later.get(i));
        if counter.quantity.is_gauge() {
            return new.map(|v| Ok(v as f64));
        }
        match (seconds, old, new) {
            (_, None, None) => None,
            (Err(why), ..) => Some(Err(why)),
            (Ok(s), Some(old), Some(new)) => {
                let speed = self.speed(later, i);
                Some(counter.increase(speed, old, new, s).map(|v| v as f64))
            }
            (Ok(_), ..) => Some(Err(Missing::Unread)),
        }
    }

    /// Nominal speed of a counter's port: the larger of the fabric's and the device's own.
    fn speed(&self, reading: &Reading, i: usize) -> Option<f64> {
        let (capacity, says) = self.speeds[i];
        let own = says.and_then(|c| {
            let value = reading.get(c as usize)? as f64;
            Some(value * reading.layout.counters[c as usize].factor)
        });
        Some(own.unwrap_or(0.0).max(capacity)).filter(|&s| s > 0.0)
    }
}

/// Where the value of a counter belongs on a link.
fn key(counter: &Counter, link: LinkId) -> Key {
    let quantity = counter.of_link();
    let end = is_told_by_both_ends(quantity).then_some(counter.side);
    (quantity, link, end)
}

/// Numbers of the counters of each port.
fn counters_by_port(layout: &Layout) -> Vec<Vec<u32>> {
    let mut by_port = vec![Vec::new(); layout.ports.len()];
    for (counter, i) in layout.counters.iter().zip(0u32..) {
        by_port[counter.port as usize].push(i);
    }
    by_port
}

/// The counter with the speed of a port in a direction, if there is one.
fn speeds_by_port(layout: &Layout) -> HashMap<(u16, Side), u32> {
    let counters = layout.counters.iter().zip(0u32..);
    let says = counters.filter(|(c, _)| c.quantity == Quantity::Capacity);
    says.map(|(c, i)| ((c.port, c.side), i)).collect()
}

impl Slot {
    fn new((quantity, link, end): Key, combine: Combine) -> Self {
        Self {
            quantity,
            link,
            end,
            combine,
            terms: Vec::new(),
            ports: Vec::new(),
            sharers: 1,
            partial: false,
            beside_drops: false,
        }
    }

    fn key(&self) -> Key {
        (self.quantity, self.link, self.end)
    }

    /// Whether tiles of the link, or counters of a tile that other tiles have, are missing: the sum over the rest would
    /// be taken for the link's.
    fn is_partial(&self, fabric: &Fabric, layout: &Layout) -> bool {
        let is_tile = |p: &u16| matches!(layout.ports[*p as usize], Port::Tile(_));
        if !self.ports.iter().all(is_tile) {
            return false;
        }
        let mut terms: HashMap<u16, usize> = HashMap::new();
        let counted = layout
            .counters
            .iter()
            .filter(|c| c.of_link() == self.quantity);
        for counter in counted.filter(|c| is_tile(&c.port)) {
            *terms.entry(counter.port).or_default() += 1;
        }
        let most = terms.values().copied().max().unwrap_or(0);
        let host = |p: &u16| matches!(layout.ports[*p as usize], Port::Tile(t) if gemini::is_host_tile(fabric, t));
        let tiles = match self.ports.iter().all(host) {
            true => gemini::HOST_TILES,
            false => fabric.ports(self.link).len(),
        };
        self.ports.len() < tiles || self.ports.iter().any(|p| terms.get(p) != Some(&most))
    }

    fn take(&mut self, counter: &Counter, i: u32, share: f64) {
        self.terms.push((i, counter.factor * share));
        if self.ports.last() != Some(&counter.port) {
            self.ports.push(counter.port);
        }
    }

    fn is_errors(&self) -> bool {
        self.quantity.is_errors()
    }

    /// The value computed from its counters; missing if one of them is missing, unless the others count errors.
    fn value(
        &self,
        value: &impl Fn(usize) -> Option<Result<f64, Missing>>,
    ) -> Option<Result<f64, Missing>> {
        if self.partial {
            return Some(Err(Missing::Unread));
        }
        let mut whole = 0.0;
        let mut seen = 0;
        let mut missing = None;
        for &(i, factor) in &self.terms {
            match value(i as usize) {
                Some(Ok(v)) => {
                    seen += 1;
                    whole = match self.combine {
                        Combine::Max => f64::max(whole, v * factor),
                        Combine::Sum | Combine::Mean => whole + v * factor,
                    };
                }
                Some(Err(why)) => missing = Some(why),
                None => {}
            }
        }
        match (missing, seen) {
            _ if self.is_errors() && whole > 0.0 => Some(Ok(whole)),
            (Some(why), _) => Some(Err(why)),
            (None, 0) if !self.beside_drops => None,
            (None, n) if n < self.terms.len() => Some(Err(Missing::Unread)),
            (None, _) if self.combine == Combine::Mean => Some(Ok(whole / self.ports.len() as f64)),
            _ => Some(Ok(whole)),
        }
    }
}

fn latest(time: Option<f64>, reading: &Reading) -> Option<f64> {
    let new = reading.moment.time_ns.map(|ns| ns as f64 / 1e9);
    time.into_iter().chain(new).reduce(f64::max)
}

/// A link with no lane in service has no known values, even if its ends counted something.
pub fn drop_dead_links(fabric: &Fabric, counts: &mut LinkCounts) {
    if counts.column(Quantity::Lanes).is_none() {
        return;
    }
    let counted: Vec<Quantity> = counts.quantities().filter(|q| !q.is_gauge()).collect();
    for link in fabric.link_ids() {
        if counts.get(Quantity::Lanes, link) == Some(0.0) {
            for &quantity in &counted {
                counts.lose(quantity, link, Missing::Down);
            }
        }
    }
}
