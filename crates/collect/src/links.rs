//! Snapshots of links from the reports of nodes: the traffic of every link of the fabric in a tick.

use crate::block::{Closing, Cluster};
use crate::node::{Held, NodeState, Shapes};
use hopbyte_fabric::{Fabric, Increase, LeftOut, LinkId, Missing};
use hopbyte_observe::counters::apart;
use hopbyte_observe::counters::join::{Joint, PortMap, drop_dead_links};
use hopbyte_observe::counters::reading::{Layout, Reading};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Follows the reports of a cluster. It holds the last reading of each source and that of the previous closing, so that
/// increases do not depend on their stream (a collector's, a store's, one log after another) nor on how many reports a
/// tick has: those that come late are part of the increase of the tick in which they come.
#[derive(Debug, Default)]
pub struct Links {
    nodes: HashMap<Box<str>, Node>,
    mismatch: Option<String>,
    left_out: LeftOut,
    /// Items that the last increase left out, and values that it lost.
    last: LeftOut,
}

/// Sources of a node.
#[derive(Debug, Default)]
struct Node {
    devices: Vec<Option<Device>>,
    /// Join of the devices that have a first reading, in their order.
    joint: Option<Joint>,
    /// Whether the set of devices differs from the join's.
    changed: bool,
}

/// A source of a node.
#[derive(Debug)]
struct Device {
    /// Shape from the stream, without the node.
    shape: Arc<Layout>,
    /// The first reading with a value.
    first: Option<Reading>,
    /// The last reading up to the previous closing, or the first one since.
    before: Option<Reading>,
    last: Reading,
    /// Whether the source reported since the last closing.
    fresh: bool,
}

const GONE: &str = "source that the node's agent had before it was started again";

impl Links {
    /// Handles the latest report of a node.
    pub fn report(&mut self, fabric: &Fabric, cluster: &Cluster, id: u32) {
        let Some(node) = cluster.node(id) else { return };
        if !self.nodes.contains_key(&node.name) {
            self.nodes.insert(node.name.clone(), Node::default());
        }
        let Some(known) = self.nodes.get_mut(&node.name) else {
            return;
        };
        if cluster.is_known(id) {
            for gone in known.arrange(cluster, node) {
                let layout = &gone.last.layout;
                let name = format!("{} {}", layout.node, layout.source);
                self.left_out.note(GONE, name);
            }
        }
        let devices = &mut known.devices;
        devices.resize_with(devices.len().max(node.sources.len()), || None);
        for (slot, held) in devices.iter_mut().zip(&node.sources) {
            let Some(held) = held.as_ref().filter(|h| h.part.read) else {
                continue;
            };
            let shape = cluster.shapes.layout(held.shape);
            match slot {
                Some(device) if device.is_of(shape, held) => {
                    // That of another log is equal; the next comparison is one of addresses.
                    device.shape.clone_from(shape);
                    known.changed |= device.take(node, held);
                }
                _ => {
                    *slot = Some(Device::new(&cluster.shapes, node, held));
                    known.changed = true;
                }
            }
        }
        if !std::mem::take(&mut known.changed) {
            return;
        }
        match known.join(fabric) {
            Ok(joint) => {
                self.left_out.extend(&joint.left_out);
                known.joint = Some(joint);
            }
            Err(words) => {
                known.joint = None;
                self.mismatch.get_or_insert(words);
            }
        }
    }

    /// Increase of every link since the last reports up to the previous closing; missing for nodes without a report since.
    /// `None` until a source has two readings.
    pub fn close(&mut self, fabric: &Fabric, closing: &Closing, source: &str) -> Option<Increase> {
        let mut increase = Increase::new(fabric, source);
        let mut compared = false;
        let mut pairs: Vec<Option<(&Reading, &Reading)>> = Vec::new();
        let mut of_no_link: Vec<(&Joint, &Reading, &Reading)> = Vec::new();
        for node in self.nodes.values() {
            let Some(joint) = &node.joint else { continue };
            pairs.clear();
            let devices = node.devices.iter().flatten();
            pairs.extend(devices.filter(|d| d.first.is_some()).map(|device| {
                let before = device.before.as_ref().filter(|_| device.fresh)?;
                Some((before, &device.last))
            }));
            if pairs.iter().any(Option::is_some) {
                joint.file_increase(&pairs, &mut increase);
                compared = true;
            }
            let known = pairs.iter().flatten();
            let apart = known.filter(|(_, later)| apart::is_apart(&later.layout));
            of_no_link.extend(apart.map(|&(before, last)| (joint, before, last)));
        }
        apart::file(fabric, &of_no_link, &mut increase);
        self.pass();
        drop_dead_links(fabric, &mut increase);
        let missed = missed(fabric, &increase);
        self.left_out.extend(&missed.beyond(&self.last));
        self.last = missed;
        increase.time_seconds = Some((closing.tick.saturating_mul(closing.period_ns)) as f64 / 1e9);
        compared.then_some(increase)
    }

    /// Handles a closing without a snapshot.
    pub fn pass(&mut self) {
        let devices = self.nodes.values_mut().flat_map(|n| &mut n.devices);
        devices.flatten().for_each(|device| device.fresh = false);
    }

    /// Ports without a link, on nodes joined since the last call, and the left-out items and lost values of the increases since
    /// then, without those of the increase before each.
    pub fn left_out(&mut self) -> LeftOut {
        std::mem::take(&mut self.left_out)
    }

    /// The first mismatch of a report with the fabric, as a message.
    pub fn mismatch(&mut self) -> Option<String> {
        self.mismatch.take()
    }
}

/// Items that an increase left out, and values that counters lost.
fn missed(fabric: &Fabric, increase: &Increase) -> LeftOut {
    let mut missed = increase.left_out.clone();
    let lost = increase.lost().filter(|(.., why)| {
        // A node without a report and a link that is down are told by the page.
        !matches!(why, Missing::Unread | Missing::Down)
    });
    let mut by_reason: BTreeMap<&str, Vec<LinkId>> = BTreeMap::new();
    lost.for_each(|(.., link, why)| by_reason.entry(why.words()).or_default().push(link));
    for (why, links) in by_reason {
        let names = links.into_iter().map(|l| fabric.link_name(l));
        missed.note_all(format!("value not known ({why})"), names);
    }
    missed
}

impl Node {
    /// Moves the devices to the places of their sources and drops those that the node's agent has no more: another agent
    /// may have begun. Returns the dropped ones without a successor.
    fn arrange(&mut self, cluster: &Cluster, node: &NodeState) -> Vec<Device> {
        let is_of = |device: &Device, held: &Option<Held>| {
            let shape = |held: &Held| cluster.shapes.layout(held.shape);
            held.as_ref().is_some_and(|h| device.is_of(shape(h), h))
        };
        let nothing = None;
        let held = |at: usize| node.sources.get(at).unwrap_or(&nothing);
        let fits = |(at, slot): (usize, &Option<Device>)| {
            slot.as_ref().is_none_or(|device| is_of(device, held(at)))
        };
        if self.devices.iter().enumerate().all(fits) {
            return Vec::new();
        }
        let mut before: Vec<Device> = self.devices.drain(..).flatten().collect();
        for held in &node.sources {
            let found = before.iter().position(|device| is_of(device, held));
            let device = found.map(|found| before.swap_remove(found));
            self.devices.push(device);
        }
        self.changed = true;
        let sources = node.sources.iter().flatten();
        let names: Vec<&str> = sources
            .map(|h| &*cluster.shapes.layout(h.shape).source)
            .collect();
        before.retain(|gone| !names.contains(&&*gone.last.layout.source));
        before
    }

    fn join(&self, fabric: &Fabric) -> Result<Joint, String> {
        let devices = self.devices.iter().flatten();
        let firsts: Vec<&Reading> = devices.filter_map(|d| d.first.as_ref()).collect();
        let joint = Joint::new(fabric, &firsts, &PortMap::new());
        joint.map_err(|e| format!("found {}, expected {}", e.found, e.expected))
    }
}

impl Device {
    fn new(shapes: &Shapes, node: &NodeState, held: &Held) -> Self {
        let last = Reading {
            layout: node.layout(held, shapes),
            moment: node.moment(held),
            values: held.values.clone(),
        };
        Self {
            shape: shapes.layout(held.shape).clone(),
            first: (last.values.known() > 0).then(|| last.clone()),
            before: None,
            last,
            fresh: true,
        }
    }

    fn is_of(&self, shape: &Arc<Layout>, held: &Held) -> bool {
        (Arc::ptr_eq(&self.shape, shape) || self.shape == *shape)
            && self.last.layout.coordinate.as_deref() == held.origin.coordinate.as_deref()
    }

    /// Stores a reading, unless it came late; returns whether it is the first one with a value.
    fn take(&mut self, node: &NodeState, held: &Held) -> bool {
        let next = Reading {
            layout: self.last.layout.clone(),
            moment: node.moment(held),
            values: held.values.clone(),
        };
        if next.is_older(&self.last) {
            return false;
        }
        let last = std::mem::replace(&mut self.last, next);
        if !self.fresh || self.before.is_none() {
            self.before = Some(last);
        }
        self.fresh = true;
        let begins = self.first.is_none() && self.last.values.known() > 0;
        if begins {
            self.first = Some(self.last.clone());
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::lines::Lines;
    use crate::flows::Flows;
    use crate::shape;
    use crate::wire::{Header, Origin, Sampled, put_report};
    use hopbyte_fabric::{Quantity, spec};
    use hopbyte_observe::counters::reading::Port;
    use hopbyte_observe::counters::values::Values;

    const SECOND: u64 = 1_000_000_000;

    /// A stream in which the node has a number.
    fn stream(id: usize) -> Cluster {
        let mut layout = Layout::new("", "test");
        let port = Port::parse("r1-0 X-");
        layout.counter(&port, "bytes", Quantity::ReceivedBytes, 1.0);
        let mut cluster = Cluster::default();
        let shape = shape::of(&layout).unwrap();
        let shape = cluster.shapes.intern(&shape).unwrap();
        let mut node = NodeState::new("r1-0", 1, 1);
        node.declare(Origin::default(), shape, &cluster.shapes)
            .unwrap();
        cluster.nodes.resize(id, None);
        cluster.nodes.push(Some(node));
        cluster
    }

    /// A collector is away from the third tick on; the reports of the time follow in one tick, some of them twice.
    #[test]
    fn what_comes_late_counts_once() {
        let fabric = spec::fabric("torus:4x2").unwrap();
        let link = fabric.find_link("r0-0 X+").unwrap();
        let (mut links, mut flows) = (Links::default(), Flows::default());
        let mut lines = Lines::new("c", 0);
        let mut counted = Vec::new();
        let mut tick = |cluster: &mut Cluster, id: u32, reports: &[(u64, u64)], closes: u64| {
            for &(tick, bytes) in reports {
                let time_ns = tick * SECOND;
                let header = Header {
                    tick,
                    time_ns,
                    steady_ns: time_ns,
                    ..Header::default()
                };
                let mut values = Values::new(1);
                values.set(0, Some(bytes));
                let mut body = Vec::new();
                put_report(&header, [Sampled::new(&values, None)], &mut body);
                let node = cluster.nodes[id as usize].as_mut().unwrap();
                node.apply(&body, &cluster.shapes).unwrap();
                links.report(&fabric, cluster, id);
                flows.report(cluster, id);
                lines.report(cluster, id);
            }
            let closing = Closing {
                tick: closes,
                period_ns: SECOND,
                ..Closing::default()
            };
            let increase = links.close(&fabric, &closing, "");
            let get = |i: Increase| (i.get(Quantity::ReceivedBytes, link), i.window_seconds);
            counted.push(increase.map(get));
            lines.close(cluster, &closing)
        };
        let mut text = String::new();
        let mut first = stream(0);
        text += &tick(&mut first, 0, &[(1, 100)], 1);
        text += &tick(&mut first, 0, &[(2, 250)], 2);
        let mut next = stream(3);
        let late = [(3, 450), (4, 700), (3, 450), (5, 701)];
        text += &tick(&mut next, 3, &late, 6);
        text += &tick(&mut next, 3, &[(6, 900), (4, 700)], 7);
        text += &tick(&mut next, 3, &[(7, 1000)], 8);
        let of = |bytes: f64, seconds| Some((Some(bytes), Some(seconds)));
        let expected = [
            None,
            of(150.0, 1.0),
            of(451.0, 3.0),
            of(199.0, 1.0),
            of(100.0, 1.0),
        ];
        assert_eq!(counted, expected);
        let rates: Vec<&str> = text
            .lines()
            .map(|l| &l[l.find("value").unwrap()..])
            .collect();
        let expected = [
            "value=150 2",
            "value=200 3",
            "value=250 4",
            "value=1 5",
            "value=199 6",
            "value=100 7",
        ];
        assert_eq!(rates, expected, "{text}");
        let held = next.nodes[3].as_ref().unwrap().sources[0].as_ref().unwrap();
        let device = links.nodes["r1-0"].devices[0].as_ref().unwrap();
        assert!(Arc::ptr_eq(&device.shape, next.shapes.layout(held.shape)));
        let (_, source) = flows.iter(&next).next().unwrap();
        assert_eq!(source.flows[0].total, Some(1000.0));
    }
}
