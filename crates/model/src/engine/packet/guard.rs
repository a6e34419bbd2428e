//! Protection at packet level (paper 002, II.G): the controller reads every router's counters once a
//! period; modules without a controller act by themselves.

use super::whole::Engine;
use crate::outcome::throttled::{ThrottleEvent, ThrottleKind};
use hopbyte_fabric::{Fabric, NodeId, RouterId};
use std::collections::{BTreeMap, BTreeSet};

/// Applications by their bytes through each router, and their nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crossing {
    pub(crate) weights: BTreeMap<RouterId, BTreeMap<u32, f64>>,
    pub(crate) nodes: BTreeMap<u32, BTreeSet<NodeId>>,
}

impl Crossing {
    /// The application with most bytes through a router, except those that were accused before.
    pub(crate) fn most(&self, router: RouterId, accused: &BTreeSet<u32>) -> Option<u32> {
        let here = self.weights.get(&router)?.iter();
        here.filter(|&(application, &weight)| weight > 0.0 && !accused.contains(application))
            .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)))
            .map(|(&application, _)| application)
    }
}

/// Threshold of congestion, and the response.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// Ratio of stalled to forwarding time of a period; above it the application with most bytes through
    /// the router is throttled. Without it only modules act.
    pub(crate) stalls_per_forwarded: Option<f64>,
    pub(crate) period_s: f64,
    /// Share of its injection that a throttled node keeps.
    pub(crate) share: f64,
    pub(crate) crossing: Crossing,
    /// Future actions of modules without a controller.
    pub(crate) auto: Option<(ThrottleEvent, Vec<NodeId>)>,
}

/// State of protection during a run.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    guard: Guard,
    period: u64,
    /// Next reading of the counters, and times at which modules act.
    next_look: u64,
    auto_at: u64,
    /// Stalled and forwarding cycles of every router at the last reading.
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

    /// Cycle of the next check.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        self.next_look.min(self.auto_at)
    }

    /// Counts so many cycles fewer; readings of an idle network are left out.
    pub(super) fn recount(&mut self, fewer: u64) {
        if self.next_look < fewer {
            let looks = (fewer - self.next_look).div_ceil(self.period);
            let later = looks.saturating_mul(self.period);
            self.next_look = self.next_look.saturating_add(later);
        }
        for at in [&mut self.next_look, &mut self.auto_at] {
            if *at < u64::MAX {
                *at = at.saturating_sub(fewer);
            }
        }
    }

    /// Makes the checks due before a cycle. Returns nodes that are throttled from now on.
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
            let seconds = engine.seconds(self.next_look);
            // Without traffic there are no stalls.
            let passed = (cycle - self.next_look) / self.period * self.period;
            self.next_look = (self.next_look + passed).saturating_add(self.period);
            nodes.extend(self.accuse(seconds, engine, fabric));
        }
        nodes.retain(|&n| self.throttled.insert(n));
        nodes
    }

    /// The application with most bytes through the most congested router, except those accused before.
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
