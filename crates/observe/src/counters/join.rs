//! Which link does a counter speak of? Readings of many devices become one snapshot of the machine.
//!
//! A port's received counters and input stalls belong to the link that ends there, its sent counters
//! and credit stalls to the link that begins there ([`Quantity::side`]).

use super::delta::increase;
use super::gemini;
use super::reading::{Combine, Layout, Port, Reading};
use hopbyte_fabric::{Fabric, LinkId, Missing, NodeId, Quantity, RouterId, Side, Snapshot};
use std::collections::{BTreeMap, HashMap};

/// A record does not fit the fabric: it is of another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What the record says.
    pub found: String,
    /// What the fabric has.
    pub expected: String,
}

/// Links by host and port name, for ports that no rule finds (the interfaces of an emulated machine).
///
/// The link is the one that leaves through the port; what arrives comes over its reverse.
pub type PortMap = HashMap<(String, String), LinkId>;

/// How the counters of one layout make the quantities of links.
#[derive(Clone, Debug)]
pub struct Joint {
    slots: Vec<Slot>,
    /// Links at each end that the layout speaks of.
    ends: Vec<(Side, LinkId)>,
    /// Ports that have a link, and ports that have none.
    pub matched: usize,
    /// Ports that have none.
    pub unmatched: usize,
}

/// One quantity of one link, and the counters that make it.
#[derive(Clone, Debug)]
struct Slot {
    quantity: Quantity,
    link: LinkId,
    combine: Combine,
    /// (counter, factor).
    terms: Vec<(u32, f64)>,
    /// Different ports among them, in order.
    ports: Vec<u16>,
}

/// Where a layout's device is.
#[derive(Clone, Copy)]
struct Place {
    router: Option<RouterId>,
    node: Option<NodeId>,
}

impl Joint {
    /// Finds the links of a layout. The first reading tells which directions of a torus router are
    /// folded into one.
    pub fn new(fabric: &Fabric, first: &Reading, map: &PortMap) -> Result<Self, Mismatch> {
        let layout = &*first.layout;
        let place = Place::of(fabric, layout);
        let mut slots: BTreeMap<(Quantity, LinkId), Slot> = BTreeMap::new();
        let mut ends = Vec::new();
        let (mut matched, mut unmatched) = (0, 0);
        for (p, port) in layout.ports.iter().enumerate() {
            let links = Links::of(fabric, place, first, port, map);
            let own = layout.counters.iter().zip(0u32..);
            let own = own.filter(|(c, _)| c.port as usize == p);
            if links.departures.is_empty() && links.arrivals.is_empty() {
                // A port without a link that never counted anything is no row of the source.
                let speaks = own
                    .clone()
                    .any(|(_, i)| first.get(i as usize).unwrap_or(0) != 0);
                unmatched += usize::from(speaks);
                continue;
            }
            matched += usize::from(own.clone().any(|(_, i)| first.get(i as usize).is_some()));
            let both = [
                (Side::Arrivals, &links.arrivals),
                (Side::Departures, &links.departures),
            ];
            ends.extend(both.iter().flat_map(|(s, l)| l.iter().map(|&l| (*s, l))));
            for (counter, i) in own {
                let speaks_of = links.on(counter.side);
                for (&link, share) in
                    speaks_of
                        .iter()
                        .zip(shares(fabric, speaks_of, port, counter.quantity))
                {
                    let slot = slots
                        .entry((counter.quantity, link))
                        .or_insert_with(|| Slot {
                            quantity: counter.quantity,
                            link,
                            combine: counter.combine,
                            terms: Vec::new(),
                            ports: Vec::new(),
                        });
                    slot.terms.push((i, counter.factor * share));
                    if slot.ports.last() != Some(&counter.port) {
                        slot.ports.push(counter.port);
                    }
                }
            }
            links.check_lanes(fabric, first, port, p)?;
        }
        Ok(Self {
            slots: slots.into_values().collect(),
            ends,
            matched,
            unmatched,
        })
    }

    /// Files a reading of totals.
    pub fn file_totals(&self, reading: &Reading, snapshot: &mut Snapshot) {
        self.file(snapshot, |i| reading.get(i).map(|v| Ok(v as f64)));
        snapshot.time_seconds = latest(snapshot.time_seconds, reading);
    }

    /// Files the increase between two readings of the layout.
    pub fn file_increase(&self, earlier: &Reading, later: &Reading, snapshot: &mut Snapshot) {
        let seconds = earlier.moment.seconds_to(later.moment);
        if let Ok(Some(seconds)) = seconds {
            // Of several devices' intervals the longest stands for all; each link keeps its own.
            let longest = snapshot.window_seconds.unwrap_or(0.0).max(seconds);
            snapshot.window_seconds = Some(longest);
            for &(side, link) in &self.ends {
                snapshot.set_window(side, link, seconds);
            }
        }
        self.file(snapshot, |i| {
            let counter = &later.layout.counters[i];
            let (old, new) = (earlier.get(i), later.get(i));
            if counter.quantity.is_gauge() {
                return new.map(|v| Ok(v as f64));
            }
            match (seconds, old, new) {
                (_, None, None) => None,
                (Err(why), ..) => Some(Err(why)),
                (Ok(s), Some(old), Some(new)) => {
                    Some(increase(counter.behaviour, old, new, s).map(|v| v as f64))
                }
                (Ok(_), ..) => Some(Err(Missing::Unread)),
            }
        });
        snapshot.time_seconds = latest(snapshot.time_seconds, later);
    }

    fn file(&self, snapshot: &mut Snapshot, value: impl Fn(usize) -> Option<Result<f64, Missing>>) {
        for slot in &self.slots {
            let known = snapshot.get(slot.quantity, slot.link);
            match slot.value(&value) {
                None => {}
                Some(Ok(lanes)) if slot.quantity == Quantity::Lanes => {
                    let fewest = known.map_or(lanes, |seen| seen.min(lanes));
                    snapshot.set(slot.quantity, slot.link, fewest);
                }
                // Two nodes of one router tell the same; the first that knows it counts.
                Some(_) if known.is_some() => {}
                Some(Ok(value)) => snapshot.set(slot.quantity, slot.link, value),
                Some(Err(why)) => snapshot.lose(slot.quantity, slot.link, why),
            }
        }
    }
}

impl Slot {
    /// What its counters make; not known as soon as one of them is not.
    fn value(
        &self,
        value: &impl Fn(usize) -> Option<Result<f64, Missing>>,
    ) -> Option<Result<f64, Missing>> {
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
            (Some(why), _) => Some(Err(why)),
            (None, 0) => None,
            (None, n) if n < self.terms.len() => Some(Err(Missing::Unread)),
            (None, _) if self.combine == Combine::Mean => Some(Ok(whole / self.ports.len() as f64)),
            _ => Some(Ok(whole)),
        }
    }
}

fn latest(time: Option<f64>, reading: &Reading) -> Option<f64> {
    let new = reading.moment.time_ns.map(|ns| ns as f64 / 1e9);
    match (time, new) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

impl Place {
    fn of(fabric: &Fabric, layout: &Layout) -> Self {
        let node = fabric.find_node(&layout.node).ok();
        let router = match &layout.coordinate {
            Some(at) => fabric.router_at(at),
            None => node
                .map(|n| fabric.node(n).router)
                .or_else(|| fabric.find_router(&layout.node).ok()),
        };
        Self { router, node }
    }
}

/// Links that a port speaks of: usually one each way.
pub(super) struct Links {
    pub(super) arrivals: Vec<LinkId>,
    pub(super) departures: Vec<LinkId>,
}

impl Links {
    const NONE: Self = Self {
        arrivals: Vec::new(),
        departures: Vec::new(),
    };

    /// The links that leave, with their reverses.
    pub(super) fn leaving(fabric: &Fabric, departures: Vec<LinkId>) -> Self {
        let arrivals = departures.iter().filter_map(|&l| fabric.reverse(l));
        Self {
            arrivals: arrivals.collect(),
            departures,
        }
    }

    /// The link that leaves a router through a port, and its reverse.
    fn by_port(fabric: &Fabric, router: RouterId, port: u16) -> Self {
        let leaves = |&l: &LinkId| fabric.ports(l).iter().any(|p| p.from == port);
        let links = fabric.links_from(router).iter().copied();
        Self::leaving(fabric, links.filter(leaves).take(1).collect())
    }

    fn of(fabric: &Fabric, place: Place, first: &Reading, port: &Port, map: &PortMap) -> Self {
        let mapped = || map.get(&(first.layout.node.clone(), port.to_string()));
        if let Some(&link) = (!map.is_empty()).then(mapped).flatten() {
            return Self::leaving(fabric, vec![link]);
        }
        let at_host = |node: NodeId| Self {
            arrivals: vec![fabric.node(node).eject],
            departures: vec![fabric.node(node).inject],
        };
        let on_router = |router: RouterId| fabric.nodes_on(router).first();
        match (port, place.router) {
            (Port::Direction(d), Some(router)) => gemini::links(fabric, router, *d, first),
            (Port::Tile(tile), Some(router)) => {
                let links = Self::by_port(fabric, router, *tile);
                let is_host = links.departures.is_empty() && gemini::is_host_tile(fabric, *tile);
                match on_router(router) {
                    Some(&node) if is_host => Self::router_side(at_host(node)),
                    _ => links,
                }
            }
            (Port::Host, Some(router)) => {
                on_router(router).map_or(Self::NONE, |&n| Self::router_side(at_host(n)))
            }
            (Port::InfiniBand { guid, port }, _) => {
                let by_guid = cabled(fabric, *guid, *port);
                if !by_guid.departures.is_empty() {
                    return by_guid;
                }
                // A fabric that knows no GUIDs may know the switch or the host.
                match fabric.find_router(&first.layout.node) {
                    Ok(router) => Self::by_port(fabric, router, *port),
                    Err(_) => place.node.map_or(Self::NONE, at_host),
                }
            }
            (Port::Named(_), _) => place.node.map_or(Self::NONE, at_host),
            _ => Self::NONE,
        }
    }

    /// The same links seen from the router: what hosts inject arrives there.
    fn router_side(host: Self) -> Self {
        Self {
            arrivals: host.departures,
            departures: host.arrivals,
        }
    }

    fn on(&self, side: Side) -> &[LinkId] {
        match side {
            Side::Arrivals => &self.arrivals,
            Side::Departures => &self.departures,
        }
    }

    /// Refuses a record with more lanes than the links have.
    fn check_lanes(
        &self,
        fabric: &Fabric,
        first: &Reading,
        port: &Port,
        p: usize,
    ) -> Result<(), Mismatch> {
        if matches!(port, Port::InfiniBand { .. } | Port::Named(_)) {
            // A fabric in words may know fewer lanes than a cable has.
            return Ok(());
        }
        let all: u64 = self
            .departures
            .iter()
            .map(|&l| u64::from(fabric.link(l).lanes))
            .sum();
        let counters = first.layout.counters.iter().enumerate();
        for (i, _) in
            counters.filter(|(_, c)| c.port as usize == p && c.quantity == Quantity::Lanes)
        {
            if let Some(lanes) = first.get(i).filter(|&lanes| lanes > all) {
                return Err(Mismatch {
                    found: format!("{lanes} lanes at {port} of {}", first.layout.node),
                    expected: format!("at most the {all} that the fabric has there"),
                });
            }
        }
        Ok(())
    }
}

/// The links of an InfiniBand port: of a switch, or of a node's adapter.
fn cabled(fabric: &Fabric, guid: u64, port: u16) -> Links {
    let name = format!("0x{guid:016x}");
    // Switches first: a switch with one node stands for the node as well.
    if let Ok(router) = fabric.find_router(&name) {
        return Links::by_port(fabric, router, port);
    }
    let node = fabric.find_node(&name).map(|n| fabric.node(n));
    node.map_or(Links::NONE, |node| Links {
        arrivals: vec![node.eject],
        departures: vec![node.inject],
    })
}

/// The part of a port's value that each of its links gets: of bytes, packets and lanes in proportion to
/// capacity or lanes; of stalls that are sums over a direction's tiles the mean of a tile.
fn shares(fabric: &Fabric, links: &[LinkId], port: &Port, quantity: Quantity) -> Vec<f64> {
    if quantity.is_stall() {
        let tiles: f64 = links.iter().map(|&l| gemini::tiles(fabric, l)).sum();
        let summed = matches!(port, Port::Direction(_) | Port::Host);
        return vec![if summed { 1.0 / tiles } else { 1.0 }; links.len()];
    }
    let weight = |&l: &LinkId| match quantity {
        Quantity::Lanes => f64::from(fabric.link(l).lanes),
        _ => fabric.link(l).nominal.0,
    };
    let is_whole = links.len() == 1 || quantity.is_ratio();
    let all: f64 = links.iter().map(weight).sum();
    links
        .iter()
        .map(|l| if is_whole { 1.0 } else { weight(l) / all })
        .collect()
}

/// Of a link that no lane serves nothing is known, whatever its ends counted.
pub fn drop_dead_links(fabric: &Fabric, snapshot: &mut Snapshot) {
    if snapshot.column(Quantity::Lanes).is_none() {
        return;
    }
    let counts: Vec<Quantity> = snapshot.quantities().filter(|q| !q.is_gauge()).collect();
    for link in fabric.link_ids() {
        if snapshot.get(Quantity::Lanes, link) == Some(0.0) {
            for &quantity in &counts {
                snapshot.lose(quantity, link, Missing::Down);
            }
        }
    }
}

/// Readings of many devices in the order of their times, as a series of snapshots: totals where every
/// device has one reading, else increases from each reading to the device's next. A device that comes
/// again begins the next snapshot.
pub fn series(
    fabric: &Fabric,
    source: &str,
    mut readings: Vec<Reading>,
    map: &PortMap,
) -> Result<Vec<Snapshot>, Mismatch> {
    // A clock that somebody set back turns nothing round where there is one that nobody sets.
    if readings.iter().all(|r| r.moment.steady_ns.is_some()) {
        readings.sort_by_key(|r| r.moment.steady_ns);
    } else {
        readings.sort_by_key(|r| r.moment.time_ns);
    }
    let mut devices: HashMap<(String, String), Device> = HashMap::new();
    let mut snapshots = Vec::new();
    let mut increases = Snapshot::new(fabric, source, false);
    for reading in readings {
        let layout = &reading.layout;
        let key = (layout.node.clone(), layout.source.clone());
        let device = devices.entry(key).or_default();
        if device.joint.is_none() && reading.values.known() > 0 {
            device.joint = Some(Joint::new(fabric, &reading, map)?);
        }
        let Some(joint) = &device.joint else {
            continue;
        };
        let before = device.last.replace(reading);
        let (Some(before), Some(now)) = (before, &device.last) else {
            continue;
        };
        if before.layout != now.layout {
            // Other counters than before: a new start.
            device.joint = Some(Joint::new(fabric, now, map)?);
            continue;
        }
        if device.said_in == Some(snapshots.len()) {
            let next = Snapshot::new(fabric, source, false);
            snapshots.push(std::mem::replace(&mut increases, next));
        }
        device.said_in = Some(snapshots.len());
        joint.file_increase(&before, now, &mut increases);
        increases.matched += joint.matched;
        increases.unmatched += joint.unmatched;
    }
    let again = devices.values().any(|d| d.said_in.is_some());
    if again {
        snapshots.push(increases);
    } else {
        snapshots.push(totals(fabric, source, &devices));
    }
    for snapshot in &mut snapshots {
        drop_dead_links(fabric, snapshot);
    }
    Ok(snapshots)
}

/// A device whose readings follow each other.
#[derive(Default)]
struct Device {
    joint: Option<Joint>,
    last: Option<Reading>,
    /// Snapshot that has its latest increase.
    said_in: Option<usize>,
}

/// One reading of every device as it stands.
fn totals(fabric: &Fabric, source: &str, devices: &HashMap<(String, String), Device>) -> Snapshot {
    let mut snapshot = Snapshot::new(fabric, source, true);
    let mut order: Vec<_> = devices.iter().collect();
    order.sort_by(|a, b| a.0.cmp(b.0));
    for (_, device) in order {
        if let (Some(joint), Some(reading)) = (&device.joint, &device.last) {
            joint.file_totals(reading, &mut snapshot);
            snapshot.matched += joint.matched;
            snapshot.unmatched += joint.unmatched;
        }
    }
    snapshot
}
