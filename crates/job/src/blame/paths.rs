//! Packets that are lost without a counter of it: only the transports of nodes see them.
//!
//! A lossy component is where the paths with losses meet and those without do not pass. Lost packets of a path are
//! Poisson events whose rate is the sum of the losses on the way: those in full queues, which links count, and the
//! hypothesis. As 007 (NSDI 2018) does, this needs nothing of the switches but their routes.

use super::{Cause, Kind, View, percent};
use crate::infer::{TIE, threshold};
use crate::probe::component::Component;
use hopbyte_fabric::units::count;
use hopbyte_fabric::{End, LinkId, NodeId, PathCounts};
use std::collections::{BTreeMap, BTreeSet};

/// Losses come together: as many count as one event.
const BURST: f64 = 4.0;
/// Losses for one packet that a full queue dropped: they are seen later, perhaps in another window.
const LATE: f64 = 3.0;
/// Share of packets that is lost on a healthy path.
const HEALTHY: f64 = 1e-3;
/// Smallest share of lost packets that is reported.
const LEAST: f64 = 2e-3;
/// Maximum number of lossy components.
const MOST: usize = 16;
/// Steps of the search for the most likely share.
const STEPS: usize = 50;
/// A path with its packets.
struct Path {
    ends: (NodeId, NodeId),
    counts: PathCounts,
    packets: f64,
    again: f64,
    /// Packets that full queues explain.
    expected: f64,
    shares: Vec<(LinkId, f64)>,
}

/// A component and the shares of the paths that cross it.
type Crossing = BTreeMap<Component, Vec<(usize, f64)>>;

impl View<'_> {
    /// Components that lose packets of which no counter tells, the most certain first; and those that cannot be told from
    /// full queues, because nothing there counts drops.
    pub(super) fn lossy(&self) -> (Vec<Cause>, usize) {
        let mut paths = self.paths();
        let crossing = self.crossing(&paths);
        let needed = threshold(crossing.len());
        let (mut causes, mut unknown) = (Vec::new(), 0);
        for _ in 0..MOST {
            let fits = crossing.iter().map(|(&component, on)| {
                let (share, gain) = fit(&paths, on);
                (component, share, gain)
            });
            let mut fits: Vec<(Component, f64, f64)> = fits.collect();
            fits.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
            let Some(&(_, _, best)) = fits.first().filter(|f| f.2 >= needed) else {
                break;
            };
            fits.retain(|f| best - f.2 < TIE);
            // The most specific of those that explain as much.
            fits.sort_by_key(|a| a.0);
            let (component, share, _) = fits[0];
            let on = &crossing[&component];
            if share >= LEAST {
                let or = fits[1..].iter().map(|f| f.0);
                // A full queue of which nothing tells may be any of those that explain as much.
                match fits.iter().all(|f| self.counts_drops(f.0)) {
                    true => causes.push(self.lossy_cause(component, or, share, &paths, on)),
                    false => unknown += 1,
                }
            }
            for &(i, part) in on {
                paths[i].expected += paths[i].packets * share * part;
            }
        }
        (causes, unknown)
    }

    fn paths(&self) -> Vec<Path> {
        let of = |(&ends, &counts): (&(NodeId, NodeId), &PathCounts)| {
            let mut shares = Vec::new();
            let routed = self
                .routing
                .shares(self.fabric, ends.0, ends.1, &mut shares);
            routed.ok()?;
            let packets = counts.packets / BURST;
            let full = shares
                .iter()
                .map(|&(l, part)| part * LATE * self.dropped(l));
            let expected = packets * (HEALTHY + full.sum::<f64>());
            Some(Path {
                ends,
                counts,
                packets,
                again: counts.lost / BURST,
                expected,
                shares,
            })
        };
        let known = self.state.paths.iter().filter_map(of);
        known.filter(|p| p.packets > 0.0).collect()
    }

    /// Share of the packets of a link that full queues dropped.
    fn dropped(&self, link: LinkId) -> f64 {
        let drops = self.state.drops.get(link).unwrap_or(0.0);
        let packets = self.state.packets.get(link).unwrap_or(0.0);
        if drops > 0.0 {
            drops / (drops + packets)
        } else {
            0.0
        }
    }

    /// Components on paths with losses, and all paths that cross them.
    fn crossing(&self, paths: &[Path]) -> Crossing {
        let mut crossing = Crossing::new();
        let mut suspects: BTreeSet<Component> = BTreeSet::new();
        for (i, path) in paths.iter().enumerate() {
            let mut parts: BTreeMap<Component, f64> = BTreeMap::new();
            for &(link, part) in &path.shares {
                parts.insert(self.of_link(link), part);
                if let End::Router(r) = self.fabric.link(link).to {
                    *parts.entry(Component::Router(r)).or_default() += part;
                }
            }
            for node in [path.ends.0, path.ends.1] {
                parts.insert(Component::Host(node), 1.0);
            }
            if path.again > path.expected {
                suspects.extend(parts.keys());
            }
            for (component, part) in parts {
                crossing.entry(component).or_default().push((i, part));
            }
        }
        crossing.retain(|component, _| suspects.contains(component));
        crossing
    }

    /// Whether the queues into a component's links count what they drop.
    fn counts_drops(&self, component: Component) -> bool {
        let counts = |l: &LinkId| self.state.drops.get(*l).is_some();
        self.links_of(component).iter().any(counts)
    }

    fn lossy_cause(
        &self,
        component: Component,
        or: impl Iterator<Item = Component>,
        share: f64,
        paths: &[Path],
        on: &[(usize, f64)],
    ) -> Cause {
        let (mut sent, mut again, mut with) = (0.0, 0.0, 0);
        for &(i, _) in on {
            let path = &paths[i];
            sent += path.counts.packets;
            again += path.counts.lost;
            with += usize::from(path.again > path.expected);
        }
        let others = paths.iter().map(|p| p.counts);
        let (mut elsewhere, mut elsewhere_again) = (-sent, -again);
        for counts in others {
            elsewhere += counts.packets;
            elsewhere_again += counts.lost;
        }
        let lost = format!(
            "{} of {} paths over it lose packets, {} of all; it explains {}, and no counter there tells of them.",
            count(with),
            count(on.len()),
            percent(again / sent),
            percent(share)
        );
        let healthy = match elsewhere > 0.0 {
            true => format!(
                "The {} other paths lose {}.",
                count(paths.len() - on.len()),
                percent((elsewhere_again / elsewhere).max(0.0))
            ),
            false => "There are no other paths to compare it with.".into(),
        };
        let mut cause = self.cause(Kind::Loses, component, [lost, healthy]);
        cause.or = self.named(or);
        cause
    }
}

/// The most likely share of lost packets of a component, and its gain of log-likelihood.
fn fit(paths: &[Path], on: &[(usize, f64)]) -> (f64, f64) {
    let slope = |share: f64| {
        let of = |&(i, part): &(usize, f64)| {
            let p = &paths[i];
            let n = p.packets * part;
            n * (p.again / (p.expected + n * share) - 1.0)
        };
        on.iter().map(of).sum::<f64>()
    };
    if slope(0.0) <= 0.0 {
        return (0.0, 0.0);
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..STEPS {
        let middle = 0.5 * (low + high);
        match slope(middle) > 0.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    let gain = |&(i, part): &(usize, f64)| {
        let p = &paths[i];
        let more = p.packets * part * low;
        p.again * ((p.expected + more) / p.expected).ln() - more
    };
    (low, on.iter().map(gain).sum())
}
