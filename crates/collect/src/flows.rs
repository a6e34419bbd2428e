//! What every port of every node carries: increases of its counters as totals and rates in our units.

use crate::block::{Closing, Cluster};
use crate::node::{Held, NodeState};
use crate::values::Values;
use hopbyte_fabric::{Missing, Quantity};
use hopbyte_observe::counters::delta::{Moment, increase};
use hopbyte_observe::counters::reading::{Combine, Layout};
use std::collections::BTreeMap;

/// One quantity of one port.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Position in the layout's ports.
    pub port: u16,
    /// What is counted.
    pub quantity: Quantity,
    /// Sum of the increases since `since_ns`, from the device's total at first sight; a state as it is.
    pub total: f64,
    /// Increase a second in the last interval; for a state the state. Not known after a reset or gap.
    pub rate: Result<f64, Missing>,
    /// Time from which `total` counts (nanoseconds since 1970), where it began anew.
    pub since_ns: Option<u64>,
    terms: Vec<(u32, f64)>,
    combine: Combine,
}

/// The flows of one source of one node.
#[derive(Debug)]
pub struct SourceFlows {
    /// The source's shape.
    pub shape: u32,
    /// Its quantities by port.
    pub flows: Vec<Flow>,
    values: Values,
    moment: Moment,
    seen: bool,
}

/// The flows of all nodes, by node and source.
#[derive(Debug, Default)]
pub struct Flows {
    sources: BTreeMap<(u32, u8), SourceFlows>,
}

impl Flows {
    /// Takes the latest report of a node.
    pub fn report(&mut self, cluster: &Cluster, id: u32) {
        let Some(node) = cluster.node(id) else { return };
        for (index, held) in (0u8..).zip(&node.sources) {
            let Some(held) = held else { continue };
            let layout = cluster.shapes.layout(held.shape);
            let source = self
                .sources
                .entry((id, index))
                .or_insert_with(|| SourceFlows::new(layout, held.shape));
            if source.shape != held.shape {
                *source = SourceFlows::new(layout, held.shape);
            }
            source.update(layout, node, held);
        }
    }

    /// After a tick closed: what nodes that did not report carry is not known.
    pub fn close(&mut self, closing: &Closing) {
        for &(node, _) in &closing.missing {
            for (_, source) in self.sources.range_mut((node, 0)..=(node, u8::MAX)) {
                for flow in &mut source.flows {
                    flow.rate = Err(Missing::Unread);
                }
            }
        }
    }

    /// All flows: node, source and its flows.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &SourceFlows)> {
        self.sources
            .iter()
            .map(|(&(node, _), source)| (node, source))
    }
}

impl SourceFlows {
    fn new(layout: &Layout, shape: u32) -> Self {
        let mut flows: BTreeMap<(u16, Quantity), Flow> = BTreeMap::new();
        for (counter, i) in layout.counters.iter().zip(0..) {
            let flow = flows
                .entry((counter.port, counter.quantity))
                .or_insert_with(|| Flow {
                    port: counter.port,
                    quantity: counter.quantity,
                    total: 0.0,
                    rate: Err(Missing::Unread),
                    since_ns: None,
                    terms: Vec::new(),
                    combine: counter.combine,
                });
            flow.terms.push((i, counter.factor));
        }
        Self {
            shape,
            flows: flows.into_values().collect(),
            values: Values::new(layout.counters.len()),
            moment: Moment::default(),
            seen: false,
        }
    }

    fn update(&mut self, layout: &Layout, node: &NodeState, held: &Held) {
        let moment = node.moment(held);
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
        let Some(total) = combined(self.combine, &self.terms, now) else {
            self.rate = Err(Missing::Unread);
            return;
        };
        if self.quantity.is_gauge() {
            (self.total, self.rate) = (total, Ok(total));
            return;
        }
        if !seen || self.terms.iter().any(|t| old.get(t.0 as usize).is_none()) {
            // Of what was missing in between nobody knows how it got here.
            self.total = total;
            self.rate = Err(Missing::Unread);
            return;
        }
        let mut why = None;
        let grown = combined(self.combine, &self.terms, |i| {
            let counter = &layout.counters[i as usize];
            let (a, b) = old.get(i as usize).zip(new.get(i as usize))?;
            let length = seconds.ok().flatten();
            let grown = match seconds {
                Err(reason) => Err(reason),
                Ok(_) => increase(counter.behaviour, a, b, length),
            };
            grown
                .map_err(|reason| why = Some(reason))
                .ok()
                .map(|v| v as f64)
        });
        match (grown, why) {
            (Some(grown), None) => {
                self.total += grown;
                self.rate = seconds
                    .ok()
                    .flatten()
                    .map(|s| grown / s)
                    .ok_or(Missing::ZeroInterval);
            }
            (_, Some(Missing::ZeroInterval)) => self.rate = Err(Missing::ZeroInterval),
            (_, why) => {
                let why = why.unwrap_or(Missing::Unread);
                self.rate = Err(why);
                if why == Missing::Reset {
                    self.total = total;
                    self.since_ns = moment.time_ns;
                }
            }
        }
    }
}

/// What several counters make; `None` when one of them is not known.
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
            // The tiles of one port are not told apart here: the mean is over its counters.
            Combine::Sum | Combine::Mean => whole + term,
        };
    }
    Some(match combine {
        Combine::Mean => whole / terms.len() as f64,
        _ => whole,
    })
}
