//! Slow components of a network of queues without credits, such as Ethernet.
//!
//! A queue that is not empty sends at the rate of its link. Where looks at the queue were close enough, that rate is known.
//! Elsewhere, a healthy link waits at most for the share of the window in which it sends; one that waits longer is slower
//! than its capacity, by the ratio of both. Nothing is passed on to the links before it, whose senders slow down or whose
//! packets are dropped.

use super::{Cause, Kind, LOADED, View, WAITING, percent};
use crate::infer::{Fault, Hypothesis, Inference, Observation};
use crate::probe::component::Component;
use hopbyte_fabric::units::count;
use hopbyte_fabric::{End, LinkId, RouterId};
use hopbyte_observe::sources::GLANCE;
use std::collections::{BTreeMap, BTreeSet};

/// Noise of a link's strength, as a standard deviation of its logarithm: both ends are not read at the same moment, and a
/// busy host sends late.
const NOISE: f64 = 0.03;
/// The same of a rate that was measured while the queue was not empty.
const MEASURED: f64 = 0.015;
/// Smallest loss of strength that is reported, and that shows in the waiting.
const TOLERANCE: f64 = 0.05;
const WAITS: f64 = 0.1;
/// Seconds between the looks of a pair, about.
const LOOK: f64 = 0.01;
/// Noise from which a measured rate tells less than waiting does.
const VAGUE: f64 = 0.1;

/// The strength of a link.
#[derive(Clone, Copy, Debug)]
struct Strength {
    link: LinkId,
    share: f64,
    sigma: f64,
}

impl View<'_> {
    /// Slow components, the most certain first.
    pub(super) fn slow(&self, waiting: &BTreeSet<LinkId>) -> Vec<Cause> {
        let strengths: Vec<Strength> = self
            .fabric
            .link_ids()
            .filter(|&l| self.is_queue(l))
            .filter_map(|l| self.strength(l))
            .collect();
        let observations: Vec<Observation> = strengths
            .iter()
            .map(|s| Observation {
                expected: 1.0,
                measured: s.share,
                sigma: s.sigma,
            })
            .collect();
        let components = self.components(&strengths);
        let list: Vec<Component> = components.keys().copied().collect();
        let hypothesis = |(component, links): (usize, &Vec<usize>)| Hypothesis {
            component,
            limits: links.iter().map(|&i| (i, 1.0)).collect(),
        };
        let hypotheses: Vec<Hypothesis> = components.values().enumerate().map(hypothesis).collect();
        let faults = Inference::new(&observations, &hypotheses, TOLERANCE).faults();
        let faults = self.at_routers(faults, &list, &strengths);
        let of = |fault: &Fault| self.slow_cause(fault, &list, &strengths, waiting);
        faults.iter().map(of).collect()
    }

    /// What a link sends while its queue is not empty, as a share of its capacity, if looks at its queue tell.
    fn served(&self, link: LinkId) -> Option<Strength> {
        let share = self.state.served_ratio.get(link)?;
        let seconds = self.state.served_seconds.get(link)?;
        let window = self.state.window.get(link).or(self.state.window_seconds)?;
        // Up to a packet at either end of each time between two looks.
        let sent = self.used(link) * window;
        let packets = self.state.packets.get(link)? * share * seconds / sent.max(1e-9);
        let looks = (seconds / LOOK).max(1.0);
        let sigma = MEASURED.hypot(looks.sqrt() / packets.max(1e-9));
        (sigma <= VAGUE).then_some(Strength {
            link,
            share: share.clamp(1e-3, 1.0),
            sigma,
        })
    }

    /// What a link sends while its queue is not empty, as a share of its capacity. `None` if it hardly waits: that says
    /// little about its rate.
    fn strength(&self, link: LinkId) -> Option<Strength> {
        let served = self.served(link);
        if served.is_some() {
            return served;
        }
        let (used, waits) = (self.used(link), self.stall(link));
        if waits < WAITING {
            // Traffic that leaves no queue behind proves at least its own rate.
            return (used >= LOADED).then_some(Strength {
                link,
                share: 1.0,
                sigma: NOISE.max((1.0 - used).max(0.0)),
            });
        }
        let window = self.state.window.get(link).or(self.state.window_seconds)?;
        let samples = (window / GLANCE.as_secs_f64()).max(1.0);
        let spread = ((1.0 - waits.min(1.0)) / (waits * samples)).sqrt();
        Some(Strength {
            link,
            share: Some(used / waits)
                .filter(|&s| s < 1.0 - WAITS)
                .unwrap_or(1.0)
                .max(1e-3),
            sigma: NOISE.hypot(spread),
        })
    }

    /// Components and the links whose strength they limit.
    fn components(&self, strengths: &[Strength]) -> BTreeMap<Component, Vec<usize>> {
        let mut components: BTreeMap<Component, Vec<usize>> = BTreeMap::new();
        for (i, strength) in strengths.iter().enumerate() {
            let id = strength.link;
            let link = self.fabric.link(id);
            let mut add = |component| components.entry(component).or_default().push(i);
            add(self.of_link(id));
            if let Some(back) = self.fabric.reverse(id).filter(|_| self.fabric.is_hop(id)) {
                add(Component::Cable(id.min(back)));
            }
            for end in [link.from, link.to] {
                match end {
                    End::Node(n) => add(Component::Host(n)),
                    End::Router(r) => add(Component::Router(r)),
                    End::Hosts(_) => {}
                }
            }
        }
        components.retain(|component, links| match component {
            Component::Cable(_) | Component::Host(_) => links.len() == 2,
            _ => true,
        });
        components
    }

    /// Several slow links of one router, none of which is known to be at full strength, are more likely one slow router
    /// than as many slow links, whether they are equally slow or not.
    fn at_routers(
        &self,
        faults: Vec<Fault>,
        list: &[Component],
        strengths: &[Strength],
    ) -> Vec<Fault> {
        let is_strong = |s: &Strength| s.sigma <= VAGUE && s.share >= 1.0 - WAITS;
        let strong = strengths.iter().filter(|s| is_strong(s));
        let healthy: BTreeSet<RouterId> = strong.flat_map(|s| self.routers_at(s.link)).collect();
        let mut rest = faults;
        let mut joined = Vec::new();
        loop {
            // The cables of a router that are accused: both directions of one are not two faults.
            let mut accused: BTreeMap<RouterId, BTreeSet<LinkId>> = BTreeMap::new();
            let links = rest.iter().filter_map(|f| own_link(list[f.hypothesis]));
            for link in links {
                let cable = (self.fabric.reverse(link)).map_or(link, |back| back.min(link));
                for router in self.routers_at(link) {
                    accused.entry(router).or_default().insert(cable);
                }
            }
            accused.retain(|router, cables| cables.len() > 1 && !healthy.contains(router));
            let most = accused.iter().max_by_key(|(_, cables)| cables.len());
            let Some((&router, _)) = most else {
                joined.extend(rest);
                return joined;
            };
            let whole = list.iter().position(|&c| c == Component::Router(router));
            let at = |f: &Fault| {
                let link = own_link(list[f.hypothesis]);
                link.is_some_and(|l| self.routers_at(l).contains(&router))
            };
            let (parts, others): (Vec<Fault>, Vec<Fault>) = rest.into_iter().partition(at);
            joined.extend(whole.map(|whole| together(whole, &parts)));
            rest = others;
        }
    }

    /// Routers at the ends of a link.
    fn routers_at(&self, link: LinkId) -> Vec<RouterId> {
        let link = self.fabric.link(link);
        let ends = [link.from, link.to];
        ends.into_iter().filter_map(|e| self.router(e)).collect()
    }

    fn slow_cause(
        &self,
        fault: &Fault,
        list: &[Component],
        strengths: &[Strength],
        waiting: &BTreeSet<LinkId>,
    ) -> Cause {
        let component = list[fault.hypothesis];
        let lowered: Vec<&Strength> = fault.lowered.iter().map(|&i| &strengths[i]).collect();
        let first = lowered.iter().min_by(|a, b| a.share.total_cmp(&b.share));
        let shown = first.map_or(String::new(), |s| match self.served(s.link) {
            Some(_) => format!(
                "{} sends {} of its capacity while its queue is not empty.",
                self.fabric.link_name(s.link),
                percent(s.share)
            ),
            None => format!(
                "{} has packets waiting {} of the time, but sends only {} of what it can.",
                self.fabric.link_name(s.link),
                percent(self.stall(s.link)),
                percent(self.used(s.link))
            ),
        });
        let others = format!(
            "A healthy link sends at its full rate while packets wait; {} others of {} that wait do.",
            count(waiting.len().saturating_sub(lowered.len())),
            count(waiting.len())
        );
        let mut cause = self.cause(Kind::Slow, component, [shown, others]);
        cause.waiting_links = lowered.len();
        cause.or = self.named(fault.or.iter().map(|&(h, _)| list[h]));
        cause
    }
}

/// The link of a component that is one, or a cable.
fn own_link(component: Component) -> Option<LinkId> {
    match component {
        Component::Link(l) | Component::HostLink(l) | Component::Cable(l) => Some(l),
        Component::Host(_) | Component::Router(_) => None,
    }
}

/// One fault in place of several, which become its alternatives.
fn together(hypothesis: usize, parts: &[Fault]) -> Fault {
    let shares = parts.iter().map(|f| f.share);
    let lowered: BTreeSet<usize> = parts.iter().flat_map(|f| f.lowered.clone()).collect();
    Fault {
        hypothesis,
        share: shares.fold(1.0, f64::min),
        gain: parts.iter().map(|f| f.gain).sum(),
        lowered: lowered.into_iter().collect(),
        or: parts.iter().map(|f| (f.hypothesis, f.share)).collect(),
    }
}
