//! Faults that a link's own counters show: no lane or fewer, errors, bytes that arrive at another link's end.

use super::{Cause, Kind, LOADED, View, percent};
use crate::faults::SLOWER;
use crate::infer::threshold;
use crate::probe::component::Component;
use hopbyte_fabric::units::{count, significant};
use hopbyte_fabric::{End, LinkId, Quantity};
use std::collections::BTreeSet;

/// Bit errors per bit of a healthy link (InfiniBand specification, volume 2: at most 1e-12).
const BIT_ERRORS: f64 = 1e-12;
/// Fewest errors that are reported.
const FEWEST: f64 = 5.0;
/// Relative difference of the bytes at both ends of a link from which they are different, and below which equal: the ends
/// are not read at the same moment.
const DIFFERENT: f64 = 0.1;
const EQUAL: f64 = 0.03;
/// Fewest packets whose bytes are compared, of a link that carries hardly anything.
const PACKETS: f64 = 16.0;

/// Relative difference.
fn far(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.max(b).max(f64::MIN_POSITIVE)
}

impl View<'_> {
    /// Links that are down, have lost lanes or count errors, each with its cause.
    pub(super) fn facts(&self) -> Vec<(BTreeSet<LinkId>, Cause)> {
        let mut causes = Vec::new();
        let links = self.fabric.links().len();
        let window = self.state.window_seconds.unwrap_or(0.0);
        let agreed = self.state.agreed_shares(self.fabric);
        let lanes = |id: LinkId| {
            let all = f64::from(self.fabric.link(id).lanes);
            let lanes = self.state.lanes.get(id);
            lanes.filter(|&n| all >= 1.0 && n < all)
        };
        // Lanes out of service lower the rate, and are told themselves.
        let left = |id| lanes(id).map_or(1.0, |n| n / f64::from(self.fabric.link(id).lanes));
        let lowered = |id: LinkId| agreed.get(id).filter(|&s| s < SLOWER * left(id));
        for id in self.fabric.link_ids() {
            let link = self.fabric.link(id);
            if let Some((links, cable)) = self.whole_cable(id, |l| lanes(l).map(|n| n <= 0.0)) {
                let left = links
                    .iter()
                    .filter_map(|&l| lanes(l))
                    .fold(f64::INFINITY, f64::min);
                causes.push((links, self.fewer_lanes(id, cable, left)));
            }
            if let Some((links, cable)) = self.whole_cable(id, |l| lowered(l).map(|s| s <= 0.0)) {
                let share = links.iter().filter_map(|&l| lowered(l)).fold(1.0, f64::min);
                causes.push((links, self.lower_rate(cable, share)));
            }
            let Some(errors) = self.state.damaged(id).filter(|&e| e >= FEWEST) else {
                continue;
            };
            // A link signals at its full rate even when it is idle.
            let allowed = (8.0 * BIT_ERRORS * link.nominal.0 * window).max(1.0);
            if errors * (errors / allowed).ln() - (errors - allowed) < threshold(links) {
                continue;
            }
            let known = self.fabric.link_ids().filter_map(|l| self.state.damaged(l));
            let others = known.filter(|&e| e >= FEWEST).count() - 1;
            let least = ["at least ", ""][usize::from(self.state.at_least(id).is_empty())];
            let evidence = [
                format!(
                    "It counts {least}{} transmission errors.",
                    count(errors as usize)
                ),
                match window > 0.0 {
                    true => format!(
                        "A healthy link has at most {} in {} s; {} other links have {FEWEST} or more.",
                        significant(allowed, 2),
                        significant(window, 3),
                        count(others)
                    ),
                    false => format!("{} other links have {FEWEST} or more.", count(others)),
                },
            ];
            causes.push((
                [id].into(),
                self.cause(Kind::Errors, self.of_link(id), evidence),
            ));
        }
        causes.extend(self.passed());
        let told: BTreeSet<LinkId> = causes
            .iter()
            .filter(|c| c.1.fault == Kind::Down)
            .flat_map(|c| c.0.clone())
            .collect();
        let flapping = self.flapping().into_iter();
        causes.extend(flapping.filter(|(links, _)| links.is_disjoint(&told)));
        causes
    }

    /// Cables that went down within the window and are not down now.
    fn flapping(&self) -> Vec<(BTreeSet<LinkId>, Cause)> {
        let state = self.state;
        // Totals since the counters began say nothing about now.
        let downs = |l| state.downs.get(l).filter(|&n| n > 0.0);
        let known = self
            .fabric
            .link_ids()
            .filter(|&l| state.window_seconds.is_some() && downs(l).is_some());
        let all: Vec<LinkId> = known.collect();
        let of = |&id: &LinkId| {
            let back = self.fabric.reverse(id).filter(|&b| downs(b).is_some());
            let links: BTreeSet<LinkId> = std::iter::once(id).chain(back).collect();
            let (cable, link) = (Component::Cable(id), self.of_link(id));
            let is_cable = back.is_some() && self.fabric.is_hop(id);
            let component = if is_cable { cable } else { link };
            let most = links.iter().filter_map(|&l| downs(l)).fold(0.0, f64::max);
            let times = if most == 1.0 {
                "once".into()
            } else {
                format!("{} times", count(most as usize))
            };
            let ends = [self.fabric.link(id).from, self.fabric.link(id).to];
            let restart = match ends.iter().any(|end| !matches!(end, End::Router(_))) {
                true => ", by its cable, or because its host restarted",
                false => "",
            };
            let last = self.ended(Quantity::Downs, &links);
            let last = last.map_or(String::new(), |at| format!(", the last time {at}"));
            let evidence = [
                format!("It went down {times} in the window{last}{restart}."),
                format!("So did {} other links.", count(all.len() - links.len())),
            ];
            let is_first = links.first() == Some(&id);
            is_first.then(|| (links, self.cause(Kind::Down, component, evidence)))
        };
        all.iter().filter_map(of).collect()
    }

    /// Links that were down, or had fewer lanes or a lower rate, for a part of the window.
    fn passed(&self) -> Vec<(BTreeSet<LinkId>, Cause)> {
        let state = self.state;
        let least = |quantity, l| state.least.get(&(quantity, l)).copied();
        let of = |&(quantity, id): &(Quantity, LinkId)| {
            let (last, fault, of) = match quantity {
                Quantity::Lanes => (state.lanes.get(id)?, Kind::Lanes, "lanes"),
                _ => (state.agreed.get(id)?, Kind::Slow, "rate"),
            };
            let lowest = least(quantity, id)?;
            if quantity == Quantity::Capacity && lowest >= SLOWER * last {
                return None;
            }
            let (links, component) = self.whole_cable(id, |l| least(quantity, l))?;
            let fault = if lowest > 0.0 { fault } else { Kind::Down };
            let until = self.ended(quantity, &links);
            let until = until.map_or(String::new(), |at| format!(", until {at},"));
            let evidence = [
                format!(
                    "For a part of the window{until} it had {} of its {of}.",
                    percent(lowest / last)
                ),
                format!(
                    "It has more at the end; that is so of {} other links.",
                    count(state.least.len() - links.len())
                ),
            ];
            Some((links, self.cause(fault, component, evidence)))
        };
        state.least.keys().filter_map(of).collect()
    }

    /// The last time of a fault of links before the end of the window, where its parts are known.
    fn ended(&self, quantity: Quantity, links: &BTreeSet<LinkId>) -> Option<String> {
        let of = |&l: &LinkId| self.state.ended.get(&(quantity, l)).copied();
        match links.iter().filter_map(of).reduce(f64::min)? {
            0.0 => Some("at its end".into()),
            seconds => Some(format!("{} s before its end", significant(seconds, 3))),
        }
    }

    /// The links of a fault and their component: the cable where both directions have it alike, which is told once.
    fn whole_cable<T: PartialEq>(
        &self,
        id: LinkId,
        fault: impl Fn(LinkId) -> Option<T>,
    ) -> Option<(BTreeSet<LinkId>, Component)> {
        let own = fault(id)?;
        let back = self.fabric.reverse(id).filter(|_| self.fabric.is_hop(id));
        match back.filter(|&b| fault(b) == Some(own)) {
            Some(back) if back < id => None,
            Some(back) => Some(([id, back].into(), Component::Cable(id))),
            None => Some(([id].into(), self.of_link(id))),
        }
    }

    /// The cause of a link that is down, or has lost lanes.
    fn fewer_lanes(&self, id: LinkId, component: Component, lanes: f64) -> Cause {
        let fault = if lanes <= 0.0 {
            Kind::Down
        } else {
            Kind::Lanes
        };
        let all = self.fabric.link(id).lanes;
        let evidence = [
            format!("{lanes} of its {all} lanes are in service."),
            format!("It carried {} of its capacity.", percent(self.used(id))),
        ];
        self.cause(fault, component, evidence)
    }

    /// The cause of a link that is down, or runs at a lower rate than the others.
    fn lower_rate(&self, component: Component, share: f64) -> Cause {
        let fault = if share > 0.0 { Kind::Slow } else { Kind::Down };
        let shown = match fault {
            Kind::Down => "It has no carrier.".into(),
            _ => format!("Its ends agreed on {} of its rate.", percent(share)),
        };
        let all = self.state.agreed.known();
        let others = format!(
            "{} links tell their rate; most of them run at it.",
            count(all)
        );
        self.cause(fault, component, [shown, others])
    }

    /// Whether two links may have exchanged their far ends: the bytes sent on either arrive at the other's end.
    fn is_exchanged(&self, link: LinkId, other: LinkId) -> bool {
        let Some(((sent, received), (sent_there, arrived))) = self
            .state
            .at_both_ends(link)
            .zip(self.state.at_both_ends(other))
        else {
            return false;
        };
        let window = self.state.window_seconds.unwrap_or(0.0);
        let loaded = LOADED * self.fabric.link(link).capacity().0 * window;
        let carries = sent > loaded || self.state.packets.get(other) >= Some(PACKETS);
        let is_little = sent_there.max(received) < DIFFERENT * sent;
        // Of two links in a row each may be read between messages that the other one has.
        let (a, b) = (self.fabric.link(link), self.fabric.link(other));
        let in_a_row = a.to == b.from || b.to == a.from;
        carries
            && !in_a_row
            && far(sent, arrived) < EQUAL
            && (is_little || far(sent_there, received) < EQUAL)
    }

    /// Links whose sender and receiver count different bytes, while those of another link's receiver fit: the cables are
    /// not as the fabric has them. Links that fit each other's ends are one cause.
    pub(super) fn miscabled(&self) -> Vec<(BTreeSet<LinkId>, Cause)> {
        let hops = self.fabric.link_ids().filter(|&l| self.fabric.is_hop(l));
        let ends = hops.filter_map(|l| Some((l, self.state.at_both_ends(l)?)));
        let mut odd: Vec<(f64, LinkId, f64)> = ends
            .filter(|&(_, (sent, received))| far(sent, received) > DIFFERENT)
            .map(|(l, (sent, received))| (received, l, sent))
            .collect();
        odd.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut groups: Vec<BTreeSet<LinkId>> = Vec::new();
        for &(_, l, sent) in odd.iter().filter(|o| o.2 > 0.0) {
            let begin = odd.partition_point(|o| o.0 < sent * (1.0 - EQUAL));
            let near = odd[begin..]
                .iter()
                .take_while(|o| o.0 * (1.0 - EQUAL) <= sent);
            let fits = near.map(|o| o.1).filter(|&o| o != l);
            // Bytes that fit several ends name none.
            let found: Vec<LinkId> = fits.filter(|&o| self.is_exchanged(l, o)).take(2).collect();
            let [other] = found[..] else { continue };
            let both = [
                Some(l),
                Some(other),
                self.fabric.reverse(l),
                self.fabric.reverse(other),
            ];
            let mut group: BTreeSet<LinkId> = both.into_iter().flatten().collect();
            groups.retain(|known| {
                let apart = known.is_disjoint(&group);
                group.extend(known.iter().filter(|_| !apart));
                apart
            });
            groups.push(group);
        }
        let of = |links: BTreeSet<LinkId>| {
            let first = *links.first()?;
            let (sent, received) = self.state.at_both_ends(first)?;
            let names: Vec<String> = links
                .iter()
                .skip(1)
                .map(|&l| self.fabric.link_name(l))
                .collect();
            let evidence = [
                format!(
                    "Its sender counts {} GB, its receiver {}.",
                    significant(sent / 1e9, 3),
                    significant(received / 1e9, 3)
                ),
                format!(
                    "The bytes fit if its ends are exchanged with those of {}.",
                    names.join(", ")
                ),
            ];
            let cable = match self.fabric.reverse(first) {
                Some(back) => Component::Cable(first.min(back)),
                None => self.of_link(first),
            };
            let cause = self.cause(Kind::Miscabled, cable, evidence);
            Some((links, cause))
        };
        groups.into_iter().filter_map(of).collect()
    }
}
