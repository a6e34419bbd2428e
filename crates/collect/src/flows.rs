//! Traffic and state of every port of every node: increases of counters as totals and rates in SI units.

use crate::block::{Closing, Cluster};
use crate::node::{Held, NodeState};
use hopbyte_fabric::{Missing, Quantity, Side};
use hopbyte_observe::counters::delta::Moment;
use hopbyte_observe::counters::reading::{Combine, Layout, is_older};
use hopbyte_observe::counters::values::Values;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// One quantity of one port.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Index of the port in the layout.
    pub port: u16,
    /// The quantity.
    pub quantity: Quantity,
    /// Direction: lanes and capacities of a port are separate for each direction.
    pub side: Side,
    /// Sum of the increases since `since_ns`, starting from the device's first total; for a gauge its value. `None` until
    /// it was read.
    pub total: Option<f64>,
    /// Increase per second in the last interval; for a gauge its value. Missing after a reset or gap.
    pub rate: Result<f64, Missing>,
    /// Start of `total` (nanoseconds since 1970) after a reset.
    pub since_ns: Option<u64>,
    /// Counters at their highest value, at which they stay: there are at least `total`.
    pub full: usize,
    terms: Vec<(u32, f64)>,
    combine: Combine,
    /// The counter of the port's speed, and bytes per second of its unit.
    speed: Option<(u32, f64)>,
}

/// The flows of one source of one node.
#[derive(Debug)]
pub struct SourceFlows {
    /// The source's ports and counters, without its node.
    pub layout: Arc<Layout>,
    /// The source's quantities by port.
    pub flows: Vec<Flow>,
    /// Whether the node's latest report has its latest values: a report that comes late has not.
    pub is_latest: bool,
    values: Values,
    moment: Moment,
    seen: bool,
}

/// The flows of all nodes by name, across streams: numbers of nodes are those of one connection or log.
#[derive(Debug, Default)]
pub struct Flows {
    nodes: HashMap<Box<str>, Vec<Option<SourceFlows>>>,
}

/// Names that left the cluster, above which they are forgotten.
const MOST_GONE: usize = 1 << 16;

impl Flows {
    /// Handles the latest report of a node.
    pub fn report(&mut self, cluster: &Cluster, id: u32) {
        let Some(node) = cluster.node(id) else { return };
        if !self.nodes.contains_key(&node.name) {
            self.nodes.insert(node.name.clone(), Vec::new());
        }
        let Some(sources) = self.nodes.get_mut(&node.name) else {
            return;
        };
        if cluster.is_known(id) {
            arrange(sources, cluster, node);
        }
        sources.resize_with(sources.len().max(node.sources.len()), || None);
        for (slot, held) in sources.iter_mut().zip(&node.sources) {
            let Some(held) = held else { continue };
            let layout = cluster.shapes.layout(held.shape);
            let source = match slot {
                Some(source) if source.is_of(layout) => source,
                _ => slot.insert(SourceFlows::new(layout)),
            };
            // That of another log is equal.
            source.layout.clone_from(layout);
            source.update(node, held);
        }
    }

    /// Handles the closing of a tick: rates of nodes that did not report become missing.
    pub fn close(&mut self, cluster: &Cluster, closing: &Closing) {
        let missing = closing.missing.iter().filter_map(|m| cluster.node(m.0));
        for node in missing {
            let sources = self.nodes.get_mut(&node.name).into_iter().flatten();
            for flow in sources.flatten().flat_map(|source| &mut source.flows) {
                flow.rate = Err(Missing::Unread);
            }
        }
        if self.nodes.len() > cluster.nodes.len() + MOST_GONE {
            let nodes = cluster.nodes.iter().flatten();
            let known: HashSet<&str> = nodes.map(|node| &*node.name).collect();
            self.nodes.retain(|name, _| known.contains(&**name));
        }
    }

    /// The flows of a node of the cluster, by source.
    pub fn of(&self, cluster: &Cluster, id: u32) -> impl Iterator<Item = &SourceFlows> {
        let sources = cluster.node(id).and_then(|n| self.nodes.get(&n.name));
        sources.into_iter().flatten().flatten()
    }

    /// All flows of the cluster's nodes: node, source and its flows.
    pub fn iter(&self, cluster: &Cluster) -> impl Iterator<Item = (u32, &SourceFlows)> {
        let ids = 0..cluster.nodes.len() as u32;
        ids.flat_map(move |id| self.of(cluster, id).map(move |source| (id, source)))
    }
}

/// Moves the sources of a node to their places, and drops those that its agent has no more: another agent may have begun.
fn arrange(sources: &mut Vec<Option<SourceFlows>>, cluster: &Cluster, node: &NodeState) {
    let is_of = |source: &SourceFlows, held: &Option<Held>| {
        let held = held.as_ref();
        held.is_some_and(|held| source.is_of(cluster.shapes.layout(held.shape)))
    };
    let nothing = None;
    let held = |at: usize| node.sources.get(at).unwrap_or(&nothing);
    let fits = |(at, slot): (usize, &Option<SourceFlows>)| {
        slot.as_ref().is_none_or(|source| is_of(source, held(at)))
    };
    if sources.iter().enumerate().all(fits) {
        return;
    }
    let mut before: Vec<SourceFlows> = sources.drain(..).flatten().collect();
    for held in &node.sources {
        let found = before.iter().position(|source| is_of(source, held));
        sources.push(found.map(|found| before.swap_remove(found)));
    }
}

impl SourceFlows {
    fn new(layout: &Arc<Layout>) -> Self {
        let mut flows: BTreeMap<(u16, Quantity, Side), Flow> = BTreeMap::new();
        let speeds = layout.speeds();
        for (counter, i) in layout.counters.iter().zip(0..) {
            let quantity = counter.quantity;
            // Errors of both directions are summed; lanes and capacities are not.
            let side = match quantity {
                Quantity::Lanes | Quantity::Capacity => counter.side,
                _ => quantity.side(),
            };
            let flow = flows
                .entry((counter.port, quantity, side))
                .or_insert_with(|| Flow {
                    port: counter.port,
                    quantity,
                    side,
                    total: None,
                    rate: Err(Missing::Unread),
                    since_ns: None,
                    full: 0,
                    terms: Vec::new(),
                    combine: counter.combine,
                    speed: speeds
                        .get(&(counter.port, counter.side))
                        .map(|&i| (i, layout.counters[i as usize].factor)),
                });
            flow.terms.push((i, counter.factor));
        }
        Self {
            layout: layout.clone(),
            flows: flows.into_values().collect(),
            is_latest: true,
            values: Values::new(layout.counters.len()),
            moment: Moment::default(),
            seen: false,
        }
    }

    fn is_of(&self, layout: &Arc<Layout>) -> bool {
        Arc::ptr_eq(&self.layout, layout) || self.layout == *layout
    }

    fn update(&mut self, node: &NodeState, held: &Held) {
        let layout = &self.layout;
        let moment = node.moment(held);
        let last = (self.moment, &self.values);
        self.is_latest = !(self.seen && is_older(layout, (moment, &held.values), last));
        if !self.is_latest {
            return;
        }
        let seconds = self.moment.seconds_to(moment);
        for flow in &mut self.flows {
            flow.update(
                layout,
                &self.values,
                &held.values,
                seconds,
                self.seen,
                moment,
            );
        }
        self.values.clone_from(&held.values);
        self.moment = moment;
        self.seen = true;
    }
}

impl Flow {
    fn update(
        &mut self,
        layout: &Layout,
        old: &Values,
        new: &Values,
        seconds: Result<Option<f64>, Missing>,
        seen: bool,
        moment: Moment,
    ) {
        let now = |i: u32| new.get(i as usize).map(|v| v as f64);
        let is_full = |&&(i, _): &&(u32, f64)| {
            let counter = &layout.counters[i as usize];
            new.get(i as usize).is_some_and(|v| counter.stays_at(v))
        };
        self.full = self.terms.iter().filter(is_full).count();
        let Some(total) = combined(self.combine, &self.terms, now) else {
            self.rate = Err(Missing::Unread);
            if self.quantity.is_gauge() {
                self.total = None;
            }
            return;
        };
        if self.quantity.is_gauge() {
            (self.total, self.rate) = (Some(total), Ok(total));
            return;
        }
        if !seen || self.terms.iter().any(|t| old.get(t.0 as usize).is_none()) {
            // The increase during missing values is unknown; a total never decreases without a new start.
            if self.total.is_some_and(|before| total < before) {
                self.since_ns = moment.time_ns;
            }
            self.total = Some(total);
            self.rate = Err(Missing::Unread);
            return;
        }
        let mut why = None;
        let speed = self.speed.and_then(|(i, factor)| Some(factor * now(i)?));
        let mut at_least = false;
        let grown = combined(self.combine, &self.terms, |i| {
            let counter = &layout.counters[i as usize];
            let (a, b) = old.get(i as usize).zip(new.get(i as usize))?;
            let length = seconds.ok().flatten();
            let grown = match seconds {
                Err(reason) => Err(reason),
                Ok(_) => match counter.increase(speed, a, b, length) {
                    // The other counters of errors go on.
                    Err(Missing::Stuck) if counter.is_errors() => {
                        at_least = true;
                        Ok(0)
                    }
                    grown => grown,
                },
            };
            grown
                .map_err(|reason| why = Some(reason))
                .ok()
                .map(|v| v as f64)
        });
        match (grown, why) {
            (Some(grown), None) => {
                self.total = Some(self.total.unwrap_or_default() + grown);
                let rate = seconds.ok().flatten().map(|s| grown / s);
                self.rate = match at_least && grown == 0.0 {
                    true => Err(Missing::Stuck),
                    false => rate.ok_or(Missing::ZeroInterval),
                };
            }
            (_, Some(Missing::ZeroInterval)) => self.rate = Err(Missing::ZeroInterval),
            (_, why) => {
                let why = why.unwrap_or(Missing::Unread);
                self.rate = Err(why);
                if why == Missing::Reset {
                    self.total = Some(total);
                    self.since_ns = moment.time_ns;
                }
            }
        }
    }
}

/// Combined value of several counters; `None` if one of them is missing.
fn combined(
    combine: Combine,
    terms: &[(u32, f64)],
    mut value: impl FnMut(u32) -> Option<f64>,
) -> Option<f64> {
    let mut whole = 0.0;
    for &(i, factor) in terms {
        let term = value(i)? * factor;
        whole = match combine {
            Combine::Max => f64::max(whole, term),
            // Tiles of one port are not separate here: the mean is over its counters.
            Combine::Sum | Combine::Mean => whole + term,
        };
    }
    Some(match combine {
        Combine::Mean => whole / terms.len() as f64,
        _ => whole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Shapes;
    use crate::shape;
    use crate::wire::{Header, Origin, Sampled, put_report};
    use hopbyte_observe::counters::delta::Behaviour;
    use hopbyte_observe::counters::reading::Port;

    const SECOND: u64 = 1_000_000_000;

    /// A node with two counters: bytes of 64 bits and a stall of 48 bits at 800 MHz.
    struct Site {
        cluster: Cluster,
        flows: Flows,
    }

    impl Site {
        fn new() -> Self {
            let mut layout = Layout::new("", "test");
            let port = Port::Named("eth0".into());
            layout.counter(&port, "bytes", Quantity::ReceivedBytes, 1.0);
            let stall = layout.counter(&port, "stall", Quantity::CreditStallNs, 1.25);
            stall.behaviour = Behaviour::bits(48).at_most(8e8);
            let mut shapes = Shapes::default();
            let id = shapes.intern(&shape::of(&layout).unwrap()).unwrap();
            let mut node = NodeState::new("n1", 1, 1);
            node.declare(Origin::default(), id, &shapes).unwrap();
            let nodes = vec![Some(node)];
            let mut cluster = Cluster::default();
            (cluster.shapes, cluster.nodes) = (shapes, nodes);
            let flows = Flows::default();
            Self { cluster, flows }
        }

        /// Bytes and stall after a report at a time; `None`: the reading failed.
        fn report(&mut self, time_ns: u64, row: Option<[u64; 2]>) -> [Flow; 2] {
            let header = Header {
                time_ns,
                steady_ns: time_ns,
                ..Header::default()
            };
            let mut values = Values::new(2);
            row.iter()
                .for_each(|row| (0..2).for_each(|i| values.set(i, Some(row[i]))));
            let mut sampled = Sampled::new(&values, None);
            sampled.part.read = row.is_some();
            let mut body = Vec::new();
            put_report(&header, [sampled], &mut body);
            let node = self.cluster.nodes[0].as_mut().unwrap();
            node.apply(&body, &self.cluster.shapes).unwrap();
            self.flows.report(&self.cluster, 0);
            let (_, source) = self.flows.iter(&self.cluster).next().unwrap();
            let of = |q| source.flows.iter().find(|f| f.quantity == q).unwrap();
            [Quantity::ReceivedBytes, Quantity::CreditStallNs].map(|q| of(q).clone())
        }
    }

    #[test]
    fn what_either_direction_can_carry_is_not_added_up() {
        let mut layout = Layout::new("", "test");
        let port = Port::Named("eth0".into());
        for (side, name) in [
            (Side::Departures, "qdisc_rate"),
            (Side::Arrivals, "rx_speed"),
        ] {
            layout.counter(&port, name, Quantity::Capacity, 1.0).side = side;
            layout.counter(&port, "errors", Quantity::Errors, 1.0).side = side;
        }
        let source = SourceFlows::new(&Arc::new(layout));
        let found: Vec<_> = source
            .flows
            .iter()
            .map(|f| (f.quantity, f.side, f.terms.len()))
            .collect();
        let expected = [
            (Quantity::Errors, Side::Arrivals, 2),
            (Quantity::Capacity, Side::Arrivals, 1),
            (Quantity::Capacity, Side::Departures, 1),
        ];
        assert_eq!(found.len(), 3);
        assert!(expected.iter().all(|e| found.contains(e)), "{found:?}");
    }

    #[test]
    fn a_wrap_counts_every_byte() {
        let mut site = Site::new();
        let top = (1 << 48) - 1;
        site.report(SECOND, Some([u64::MAX - 99, top - 199_999_999]));
        let [bytes, stall] = site.report(2 * SECOND, Some([900, 200_000_000]));
        assert_eq!(bytes.rate, Ok(1000.0), "100 up to the wrap, 900 after it");
        // 400,000,000 clocks of 1.25 ns are exactly half a second.
        assert_eq!(stall.rate, Ok(500_000_000.0));
    }

    #[test]
    fn a_reset_is_no_rate_and_a_new_beginning() {
        let mut site = Site::new();
        site.report(SECOND, Some([5_443_101_840_963, 7]));
        let [bytes, _] = site.report(2 * SECOND, Some([4_687_500_000, 9]));
        assert_eq!(bytes.rate, Err(Missing::Reset));
        assert_eq!(
            (bytes.total, bytes.since_ns),
            (Some(4_687_500_000.0), Some(2 * SECOND))
        );
        let [bytes, _] = site.report(3 * SECOND, Some([4_687_500_500, 9]));
        assert_eq!(
            (bytes.rate, bytes.total),
            (Ok(500.0), Some(4_687_500_500.0))
        );
        // The device was reset while its readings failed.
        site.report(4 * SECOND, None);
        let [bytes, _] = site.report(5 * SECOND, Some([10, 9]));
        assert_eq!(bytes.rate, Err(Missing::Unread));
        assert_eq!(
            (bytes.total, bytes.since_ns),
            (Some(10.0), Some(5 * SECOND))
        );
    }

    #[test]
    fn errors_at_their_highest_are_at_least_what_was_seen() {
        let mut layout = Layout::new("", "test");
        let port = Port::Named("p1".into());
        for (name, bits) in [("symbol_error", 16), ("rcv_errors", 16)] {
            layout.counter(&port, name, Quantity::Errors, 1.0).behaviour = Behaviour::sticky(bits);
        }
        let mut source = SourceFlows::new(&Arc::new(layout));
        let layout = source.layout.clone();
        let mut at = 0;
        let mut before = Values::new(2);
        let mut update = |row: [u64; 2]| {
            let mut values = Values::new(2);
            (0..2).for_each(|i| values.set(i, Some(row[i])));
            let flow = &mut source.flows[0];
            let seen = at > 0;
            at += 1;
            flow.update(
                &layout,
                &before,
                &values,
                Ok(Some(1.0)),
                seen,
                Moment::default(),
            );
            before = values;
            (flow.total, flow.rate, flow.full)
        };
        let _ = update([0, 0]);
        assert_eq!(update([65_535, 0]), (Some(65_535.0), Ok(65_535.0), 1));
        assert_eq!(
            update([65_535, 0]),
            (Some(65_535.0), Err(Missing::Stuck), 1)
        );
        assert_eq!(update([65_535, 7]), (Some(65_542.0), Ok(7.0), 1));
        assert_eq!(update([0, 7]).2, 0);
    }

    #[test]
    fn no_interval_is_not_idle() {
        let mut site = Site::new();
        site.report(SECOND, Some([100, 0]));
        let [bytes, _] = site.report(SECOND, Some([100, 0]));
        assert_eq!(bytes.rate, Err(Missing::ZeroInterval));
        let [bytes, _] = site.report(SECOND / 2, Some([100, 0]));
        assert_eq!(bytes.rate, Err(Missing::ZeroInterval), "a clock set back");
    }

    #[test]
    fn what_was_not_seen_is_not_known() {
        let mut site = Site::new();
        assert_eq!(
            site.report(SECOND, Some([100, 0]))[0].rate,
            Err(Missing::Unread)
        );
        assert_eq!(site.report(2 * SECOND, Some([300, 0]))[0].rate, Ok(200.0));
        let closing = Closing {
            missing: vec![(0, crate::block::Absence::Silent)],
            ..Closing::default()
        };
        site.flows.close(&site.cluster, &closing);
        let (_, source) = site.flows.iter(&site.cluster).next().unwrap();
        assert!(source.flows.iter().all(|f| f.rate == Err(Missing::Unread)));
        // Two seconds later the rate covers both seconds.
        assert_eq!(site.report(4 * SECOND, Some([700, 0]))[0].rate, Ok(200.0));
        // Longer than the wrap time of a 48-bit counter at 800 MHz: the number of wraps is unknown.
        let [bytes, stall] = site.report(400_000 * SECOND, Some([800, 5]));
        assert!(bytes.rate.is_ok());
        assert_eq!(stall.rate, Err(Missing::Gap));
    }
}
