//! What did every link of the fabric carry in this tick? Reports of nodes become snapshots of links.

use crate::block::{Closing, Cluster};
use crate::node::{Held, NodeState, Shapes};
use hopbyte_fabric::{Fabric, Snapshot};
use hopbyte_observe::counters::join::{Joint, PortMap, drop_dead_links};
use hopbyte_observe::counters::reading::{Layout, Reading};
use std::collections::HashMap;
use std::sync::Arc;

/// Follows the reports of a cluster. Of each source the last two readings are kept, so that a tick of
/// any stream (a collector's, a store's, one log after another) costs the same.
#[derive(Debug, Default)]
pub struct Links {
    nodes: HashMap<Box<str>, Vec<Option<Device>>>,
    ports: PortMap,
    mismatch: Option<String>,
}

/// A source of a node.
#[derive(Debug)]
struct Device {
    /// As the stream has it, without the node.
    shape: Arc<Layout>,
    joint: Option<Joint>,
    before: Option<Reading>,
    last: Reading,
    /// Whether it reported since the last tick closed.
    fresh: bool,
}

impl Links {
    /// With links for ports that no rule finds.
    pub fn new(ports: PortMap) -> Self {
        Self {
            ports,
            ..Self::default()
        }
    }

    /// Takes the latest report of a node.
    pub fn report(&mut self, fabric: &Fabric, cluster: &Cluster, id: u32) {
        let Some(node) = cluster.node(id) else { return };
        if !self.nodes.contains_key(&node.name) {
            self.nodes.insert(node.name.clone(), Vec::new());
        }
        let Some(devices) = self.nodes.get_mut(&node.name) else {
            return;
        };
        devices.resize_with(devices.len().max(node.sources.len()), || None);
        for (slot, held) in devices.iter_mut().zip(&node.sources) {
            let Some(held) = held.as_ref().filter(|h| h.part.read) else {
                continue;
            };
            let shape = cluster.shapes.layout(held.shape);
            let device = match slot.take() {
                Some(mut device) if device.is_of(shape, held) => {
                    device.take(node, held);
                    device
                }
                _ => Device::new(&cluster.shapes, node, held),
            };
            if let Err(words) = slot.insert(device).join(fabric, &self.ports) {
                self.mismatch.get_or_insert(words);
            }
        }
    }

    /// What the links carried since the reports before: nothing of a node that did not report in this
    /// tick. `None` while no source has two readings.
    pub fn close(&mut self, fabric: &Fabric, closing: &Closing, source: &str) -> Option<Snapshot> {
        let mut snapshot = Snapshot::new(fabric, source, false);
        let mut compared = false;
        for device in self.nodes.values().flatten().flatten() {
            let (Some(joint), Some(before), true) = (&device.joint, &device.before, device.fresh)
            else {
                continue;
            };
            joint.file_increase(before, &device.last, &mut snapshot);
            snapshot.matched += joint.matched;
            snapshot.unmatched += joint.unmatched;
            compared = true;
        }
        self.pass();
        drop_dead_links(fabric, &mut snapshot);
        snapshot.time_seconds = Some((closing.tick.saturating_mul(closing.period_ns)) as f64 / 1e9);
        compared.then_some(snapshot)
    }

    /// A tick of which nobody wants the snapshot.
    pub fn pass(&mut self) {
        let devices = self.nodes.values_mut().flatten().flatten();
        devices.for_each(|device| device.fresh = false);
    }

    /// The first report that does not fit the fabric, in a sentence.
    pub fn mismatch(&mut self) -> Option<String> {
        self.mismatch.take()
    }
}

impl Device {
    fn new(shapes: &Shapes, node: &NodeState, held: &Held) -> Self {
        Self {
            shape: shapes.layout(held.shape).clone(),
            joint: None,
            before: None,
            last: Reading {
                layout: node.layout(held, shapes),
                moment: node.moment(held),
                values: held.values.clone(),
            },
            fresh: true,
        }
    }

    fn is_of(&self, shape: &Arc<Layout>, held: &Held) -> bool {
        (Arc::ptr_eq(&self.shape, shape) || self.shape == *shape)
            && self.last.layout.coordinate.as_deref() == held.origin.coordinate.as_deref()
    }

    fn take(&mut self, node: &NodeState, held: &Held) {
        let next = Reading {
            layout: self.last.layout.clone(),
            moment: node.moment(held),
            values: held.values.clone(),
        };
        self.before = Some(std::mem::replace(&mut self.last, next));
        self.fresh = true;
    }

    fn join(&mut self, fabric: &Fabric, ports: &PortMap) -> Result<(), String> {
        if self.joint.is_some() || self.last.values.known() == 0 {
            return Ok(());
        }
        let joint = Joint::new(fabric, &self.last, ports);
        let wrong = |e: hopbyte_observe::counters::join::Mismatch| {
            format!("found {}, expected {}", e.found, e.expected)
        };
        self.joint = Some(joint.map_err(wrong)?);
        Ok(())
    }
}
