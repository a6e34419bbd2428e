//! Protection while packets go (paper 002, II.G): the controller looks at every router's counters once a
//! period; modules without a controller act by themselves.

use super::whole::Engine;
use crate::outcome::throttled::{ThrottleEvent, ThrottleKind};
use hopbyte_fabric::{Fabric, NodeId, RouterId};
use std::collections::{BTreeMap, BTreeSet};

/// Applications by what they send through each router, and their nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crossing {
    pub(crate) weights: BTreeMap<RouterId, BTreeMap<u32, f64>>,
    pub(crate) nodes: BTreeMap<u32, BTreeSet<NodeId>>,
}

impl Crossing {
    /// The application that sends most through a router, of those that were not accused before.
    pub(crate) fn most(&self, router: RouterId, accused: &BTreeSet<u32>) -> Option<u32> {
        let here = self.weights.get(&router)?.iter();
        here.filter(|&(application, &weight)| weight > 0.0 && !accused.contains(application))
            .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)))
            .map(|(&application, _)| application)
    }
}

/// When a router is congested, and what is done.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// Stalled over forwarding time of a period above which the application that sends most through the
    /// router is throttled; without it only modules act.
    pub(crate) stalls_per_forwarded: Option<f64>,
    pub(crate) period_s: f64,
    /// Share of its injection that a throttled node keeps.
    pub(crate) share: f64,
    pub(crate) crossing: Crossing,
    /// What modules without a controller will do.
    pub(crate) auto: Option<(ThrottleEvent, Vec<NodeId>)>,
}

/// A guard at work.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    guard: Guard,
    period: u64,
    /// Next look at the counters, and when modules act.
    next_look: u64,
    auto_at: u64,
    /// Stalled and forwarding cycles of every router at the last look.
    last: Vec<(f64, f64)>,
    accused: BTreeSet<u32>,
    throttled: BTreeSet<NodeId>,
    pub(super) events: Vec<ThrottleEvent>,
}

impl Watch {
    pub(super) fn new(guard: Guard, engine: &Engine) -> Self {
        let period = engine.spec.whole_cycles(guard.period_s).max(1);
        let looks = guard.stalls_per_forwarded.is_some();
        let auto = guard.auto.as_ref();
        Self {
            period,
            next_look: if looks { period } else { u64::MAX },
            auto_at: auto.map_or(u64::MAX, |(e, _)| engine.spec.whole_cycles(e.seconds)),
            last: vec![(0.0, 0.0); engine.layout.routers()],
            accused: BTreeSet::new(),
            throttled: BTreeSet::new(),
            events: Vec::new(),
            guard,
        }
    }

    pub(super) fn share(&self) -> f64 {
        self.guard.share
    }

    /// Before which cycle something has to be looked at.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        self.next_look.min(self.auto_at)
    }

    /// Looks at what is due before a cycle. Returns nodes that are throttled from now on.
    pub(super) fn look(&mut self, cycle: u64, engine: &Engine, fabric: &Fabric) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        if self.auto_at <= cycle {
            self.auto_at = u64::MAX;
            if let Some((event, own)) = self.guard.auto.take() {
                self.events.push(event);
                nodes.extend(own);
            }
        }
        if self.next_look <= cycle {
            let seconds = self.next_look as f64 * engine.spec.cycle.0;
            // Nothing stalls while nothing happens.
            self.next_look += (cycle - self.next_look) / self.period * self.period + self.period;
            nodes.extend(self.accuse(seconds, engine, fabric));
        }
        nodes.retain(|&n| self.throttled.insert(n));
        nodes
    }

    /// The most congested router's worst application that was not accused before.
    fn accuse(&mut self, seconds: f64, engine: &Engine, fabric: &Fabric) -> Vec<NodeId> {
        let threshold = self.guard.stalls_per_forwarded.unwrap_or(f64::INFINITY);
        let (mut worst, mut worst_ratio) = (None, threshold);
        for (r, (last, now)) in self.last.iter_mut().zip(sums(engine)).enumerate() {
            let (stalled, forwarding) = (now.0 - last.0, now.1 - last.1);
            *last = now;
            let ratio = stalled / forwarding.max(1e-12);
            if stalled > 0.0 && ratio > worst_ratio {
                (worst, worst_ratio) = (Some(RouterId(r as u32)), ratio);
            }
        }
        let Some(router) = worst else {
            return Vec::new();
        };
        let Some(application) = self.guard.crossing.most(router, &self.accused) else {
            return Vec::new();
        };
        self.accused.insert(application);
        let nodes = self.guard.crossing.nodes.get(&application);
        let nodes: Vec<NodeId> = nodes.into_iter().flatten().copied().collect();
        let own = nodes.iter().filter(|n| !self.throttled.contains(n)).count();
        self.events.push(ThrottleEvent {
            seconds,
            kind: ThrottleKind::Active,
            router: fabric.router(router).name.clone(),
            stalls_per_forwarded: Some(worst_ratio),
            application: Some(application),
            nodes: own as u32,
        });
        nodes
    }
}

/// Stalled and forwarding cycles of every router's inputs so far.
fn sums(engine: &Engine) -> Vec<(f64, f64)> {
    let mut sums = vec![(0.0, 0.0); engine.layout.routers()];
    for (i, input) in engine.layout.ins.iter().enumerate() {
        let count = engine.count(i);
        let phits = (count.phits[0] + count.phits[1]) as f64;
        let sum = &mut sums[input.router as usize];
        sum.0 += engine.input_stall(i) as f64;
        sum.1 += phits * engine.layout.outs[input.from as usize].cycles_per_phit;
    }
    sums
}
