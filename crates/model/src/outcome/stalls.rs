//! Stalls: the back-pressure that flows alone do not show.
//!
//! Max-min shares give the resource that limits a transfer, but not the state of the links before it.
//! With credits a blocked packet keeps its buffer, so that queues fill from that resource back to
//! the sender: every link before it on the route is full while the transfer lasts and idles although
//! packets wait. A link's time of back-pressure is the time in which any such transfer crossed it; the
//! part of it without sending is stalled. The most stalled link need not be the most loaded (paper 000, VI).

use super::result::Outcome;
use crate::engine::network::{Network, Resource, Way};
use hopbyte_fabric::{LinkId, NodeId};

/// Share of the idle time under back-pressure in which a head of line really waits for credits or for
/// the switch; in the rest, packets overtake on other tiles and channels. Fitted on the packet
/// model (`tests/stalls.rs`).
const CREDIT_SHARE: f64 = 0.33;
const INPUT_SHARE: f64 = 0.8;

/// A finished transfer: from, to, begin, end, and its bottleneck.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) begin: f64,
    pub(crate) end: f64,
    pub(crate) by: Option<u32>,
}

/// Time during which any of several transfers crossed a link; added in order of their begin.
#[derive(Clone, Copy, Debug, Default)]
struct Covered {
    until: f64,
    seconds: f64,
}

impl Covered {
    fn add(&mut self, begin: f64, end: f64) {
        let new = end - begin.max(self.until);
        if new > 0.0 {
            self.seconds += new;
            self.until = end;
        }
    }
}

/// Writes stalls into an outcome's links: over the same window as its other ratios.
pub(crate) fn add(outcome: &mut Outcome, network: &Network<'_>, held: &mut [Held], times: f64) {
    held.sort_by(|a, b| a.begin.total_cmp(&b.begin));
    // Before its bottleneck link a transfer lacks credits; at the end of that link, and at every input
    // before it, it waits.
    let mut credits = vec![Covered::default(); network.fabric.links().len()];
    let mut inputs = credits.clone();
    let mut way = Way::default();
    for h in held.iter() {
        let Some(Resource::Link(link)) = h.by.map(|r| network.resource(r)) else {
            continue;
        };
        if h.from == h.to || network.find(h.from, h.to, &mut way).is_err() {
            continue;
        }
        let path = way.shares();
        let Some(at) = path.iter().position(|&(l, _)| l == link) else {
            continue;
        };
        for (i, &(before, _)) in path[..at].iter().enumerate() {
            inputs[before.index()].add(h.begin, h.end);
            if i + 1 < at {
                credits[before.index()].add(h.begin, h.end);
            }
        }
    }
    let total = outcome.time_seconds;
    for link in &mut outcome.links {
        let id = LinkId(link.id);
        let rate = network.link_rate(id) * total;
        let used = link.bytes / rate.max(f64::MIN_POSITIVE);
        let idle = |covered: &Covered, share: f64| {
            let ratio = covered.seconds * times / total.max(f64::MIN_POSITIVE);
            Some(share * (ratio - used).clamp(0.0, 1.0))
        };
        link.input_stall_ratio = idle(&inputs[id.index()], INPUT_SHARE);
        link.credit_stall_ratio = idle(&credits[id.index()], CREDIT_SHARE);
    }
}
