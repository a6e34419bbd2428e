//! Where waiting begins, and which component there explains it.
//!
//! On a lossless network a link waits because the buffers at its far end are full. A healthy router sends on every link for
//! which a packet waits; so a link into it can wait only while a link out of it is busy with other links' packets, or waits
//! itself. The bytes of the other links, and the waits of the next ones, bound this from above. (Waits for busy links
//! could add up as well; that they follow each other without a gap is too rare to allow for.) Waiting beyond the bound
//! is a fault of the router, of a link out of it that is slower than its capacity, or of the waiting link itself. Each of
//! these predicts which links wait, from the routes of the jobs; candidates that are nearly as likely are named together.

use super::{LOADED, View, WAITING};
use crate::attribution::Turns;
use crate::infer::{TIE, threshold};
use crate::probe::component::Component;
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId};
use std::collections::{BTreeMap, BTreeSet};

/// Standard deviation of a share of the window: both ends of a link are not read at the same moment.
const NOISE: f64 = 0.03;
/// Waiting beyond the bound, as a share of the window, that is within the noise of both.
const TOLERANCE: f64 = 0.1;
/// Most that one link adds to a likelihood.
const MOST: f64 = 50.0;
/// Probability that a link waits: whose traffic needs the component, needs it to at least [`PART`], may need it, does not.
const NEEDS: f64 = 0.9;
const MOSTLY: f64 = 0.6;
const PARTLY: f64 = 0.2;
const NEEDS_NOT: f64 = 0.02;
const PART: f64 = 0.2;
/// Share of a link's own bytes on the next one, as estimated, that is certain.
const SURE: f64 = 0.9;
/// Estimated share of the capacity up to which a link that nothing counts is not full; the estimate may be half of it.
const CALM: f64 = 0.4;
/// Routers whose nodes are slow receivers, beyond which it is a property of all nodes; and their share of those with traffic.
const FEW_ROUTERS: usize = 4;
const FEW: f64 = 0.05;
/// That a link waits which carries less than half of those that wait, if the router is slow.
const IDLE: f64 = 0.3;

/// Links into the nodes of a router, each with the nodes behind it.
type Receivers = BTreeMap<RouterId, Vec<(LinkId, Vec<NodeId>)>>;

/// A component at which waiting begins.
pub(super) struct Origin {
    pub component: Component,
    /// Components that explain the waiting nearly as well.
    pub or: Vec<Component>,
    /// Links whose waiting it explains.
    pub links: BTreeSet<LinkId>,
    /// Links there that carry traffic and do not wait.
    pub free: usize,
    /// Gain of log-likelihood over chance.
    gain: f64,
}

/// Where waiting begins.
#[derive(Default)]
pub(super) struct Begun {
    pub origins: Vec<Origin>,
    /// Links that wait before others whose waiting is not known.
    pub unread: usize,
    /// Routers with waiting that links to hosts explain as well, which nothing counts and which may be full.
    pub hidden: Vec<RouterId>,
}

impl Origin {
    /// The component and its alternatives.
    fn named(&self) -> impl Iterator<Item = Component> {
        std::iter::once(self.component).chain(self.or.iter().copied())
    }
}

/// Origins at one router: what all of them name, else the router.
fn together(router: RouterId, parts: Vec<Origin>) -> Origin {
    let whole = Component::Router(router);
    let sets = parts.iter().map(|p| p.named().collect::<BTreeSet<_>>());
    let common = sets.reduce(|a, b| &a & &b).unwrap_or_default();
    let first = parts.iter().map(|p| p.component);
    let component = first
        .filter(|c| *c != whole && common.contains(c))
        .min()
        .unwrap_or(whole);
    let mut or: BTreeSet<Component> = match component == whole {
        true => parts.iter().flat_map(Origin::named).collect(),
        false => common,
    };
    or.remove(&component);
    Origin {
        component,
        or: or.into_iter().collect(),
        free: parts.iter().map(|p| p.free).sum(),
        gain: parts.iter().map(|p| p.gain).sum(),
        links: parts.into_iter().flat_map(|p| p.links).collect(),
    }
}

/// A link into a router.
struct Feeder {
    link: LinkId,
    used: f64,
    /// Waiting beyond what a healthy router explains.
    beyond: f64,
    waits: bool,
    /// Whether links to hosts that nothing counts must be full to explain its waiting.
    hidden: bool,
    /// Arrivals wait at the router, if this is counted.
    held: Option<bool>,
}

/// What is known of the links at a router.
struct Around<'a> {
    view: &'a View<'a>,
    waiting: &'a BTreeSet<LinkId>,
    turns: Option<&'a Turns>,
    /// Links with a fault of their own.
    faulty: &'a BTreeSet<LinkId>,
}

impl View<'_> {
    /// Whether a link is a queue without credits, as on Linux: its waiting is its own.
    pub(super) fn is_queue(&self, link: LinkId) -> bool {
        self.state.queued_bytes.get(link).is_some()
    }

    fn counts_waiting(&self, link: LinkId) -> bool {
        self.stall_counted(link).is_some()
    }

    /// Where the waiting of links with credits begins.
    pub(super) fn origins(&self, waiting: &BTreeSet<LinkId>, faulty: &BTreeSet<LinkId>) -> Begun {
        let begins = |l: &&LinkId| !self.is_queue(**l) && !faulty.contains(*l);
        let ends = waiting.iter().filter(begins);
        let routers: BTreeSet<RouterId> = ends
            .filter_map(|&l| self.router(self.fabric.link(l).to))
            .collect();
        let nodes = match self.alike_receivers(waiting, faulty) {
            Some(_) => BTreeMap::new(),
            None => self.receivers(waiting, faulty),
        };
        let into: BTreeSet<LinkId> = routers
            .iter()
            .flat_map(|&r| ending_at(self.fabric, r))
            .collect();
        let turns = self
            .jobs
            .map(|jobs| jobs.turns(self.fabric, self.routing, &into));
        let mut origins: Vec<Origin> = nodes
            .into_iter()
            .flat_map(|(r, list)| hosts(r, list))
            .collect();
        let around = Around {
            view: self,
            waiting,
            turns: turns.as_ref(),
            faulty,
        };
        let mut hidden = Vec::new();
        for router in routers {
            match around.origin(router) {
                Some(Ok(origin)) => origins.push(origin),
                Some(Err(Hidden)) => hidden.push(router),
                None => {}
            }
        }
        let before_unread = |&&l: &&LinkId| !self.is_queue(l) && around.leads_to_unread(l);
        let unread = waiting.iter().filter(before_unread).count();
        let mut origins = self.cables(origins);
        let needed = threshold(self.fabric.links().len());
        origins.retain(|o| o.gain >= needed);
        Begun {
            origins: self.joined(origins),
            unread,
            hidden,
        }
    }

    /// Links into nodes that wait, with the nodes behind them, by router.
    fn receivers(&self, waiting: &BTreeSet<LinkId>, faulty: &BTreeSet<LinkId>) -> Receivers {
        let mut nodes = Receivers::new();
        for &link in waiting {
            let (router, behind) = match self.fabric.link(link).to {
                _ if self.is_queue(link) || faulty.contains(&link) => continue,
                End::Router(_) => continue,
                End::Node(n) => (self.fabric.node(n).router, vec![n]),
                End::Hosts(r) => (r, self.fabric.nodes_on(r).to_vec()),
            };
            nodes.entry(router).or_default().push((link, behind));
        }
        nodes
    }

    /// Routers whose nodes make links wait, if they are so many that it is no fault of single nodes, and all routers with
    /// traffic for their nodes.
    pub(super) fn alike_receivers(
        &self,
        waiting: &BTreeSet<LinkId>,
        faulty: &BTreeSet<LinkId>,
    ) -> Option<(usize, usize)> {
        let slow = self.receivers(waiting, faulty).len();
        let loaded = |n: &NodeId| {
            let eject = self.fabric.node(*n).eject;
            waiting.contains(&eject) || self.used(eject) >= LOADED
        };
        let with_traffic = self.fabric.node_ids().filter(loaded);
        let all: BTreeSet<RouterId> = with_traffic.map(|n| self.fabric.node(n).router).collect();
        let few = FEW_ROUTERS as f64;
        (slow as f64 > few.max(FEW * all.len() as f64)).then_some((slow, all.len()))
    }

    /// A link and its way back that are both slow are one slow cable.
    fn cables(&self, origins: Vec<Origin>) -> Vec<Origin> {
        let cables = |o: &Origin| -> BTreeSet<Component> {
            let links = o.named().filter_map(|c| match c {
                Component::Link(l) => Some((l, self.fabric.reverse(l)?)),
                _ => None,
            });
            links
                .map(|(l, back)| Component::Cable(l.min(back)))
                .collect()
        };
        let mut joined: Vec<Origin> = Vec::new();
        for mut origin in origins {
            let own = cables(&origin);
            let meets = |o: &Origin| !cables(o).is_disjoint(&own);
            let Some(other) = joined.iter().position(meets) else {
                joined.push(origin);
                continue;
            };
            let other = joined.swap_remove(other);
            let mut common = (&cables(&other) & &own).into_iter();
            origin.component = common.next().unwrap_or(origin.component);
            origin.or = common.collect();
            origin.free += other.free;
            origin.gain += other.gain;
            origin.links.extend(other.links);
            joined.push(origin);
        }
        joined
    }

    /// Several links out of one router that wait without a reason behind them are more likely one slow router than as many
    /// slow links.
    fn joined(&self, origins: Vec<Origin>) -> Vec<Origin> {
        let mut joined = Vec::new();
        let mut rest = origins;
        while let Some((router, members)) = self.most_at_one_router(&rest) {
            let all = std::mem::take(&mut rest).into_iter().enumerate();
            let (mut parts, mut others) = (Vec::new(), Vec::new());
            all.for_each(|(i, one)| match members.contains(&i) {
                true => parts.push(one),
                false => others.push(one),
            });
            joined.push(together(router, parts));
            rest = others;
        }
        joined.extend(rest);
        joined
    }

    /// The router to which most of the origins may be due, and these, if there are two or more.
    fn most_at_one_router(&self, origins: &[Origin]) -> Option<(RouterId, Vec<usize>)> {
        let mut by_router: BTreeMap<RouterId, Vec<usize>> = BTreeMap::new();
        for (i, origin) in origins.iter().enumerate() {
            let of = |c: Component| match c {
                Component::Link(l) | Component::HostLink(l) if origin.links.contains(&l) => {
                    self.router(self.fabric.link(l).from)
                }
                Component::Host(n) => Some(self.fabric.node(n).router),
                Component::Router(r) => Some(r),
                _ => None,
            };
            let routers: BTreeSet<RouterId> = origin.named().filter_map(of).collect();
            for router in routers {
                by_router.entry(router).or_default().push(i);
            }
        }
        let most = by_router.values().map(Vec::len).max()?;
        by_router
            .into_iter()
            .find(|(_, members)| most > 1 && members.len() == most)
    }
}

/// That links to hosts which nothing counts explain the waiting too.
struct Hidden;

/// Links that end at a router.
pub(super) fn ending_at(fabric: &Fabric, router: RouterId) -> BTreeSet<LinkId> {
    let end = End::Router(router);
    let out = fabric.links_from(router).iter();
    let hops = out.filter_map(|&l| fabric.reverse(l));
    let nodes = fabric.nodes_on(router).iter();
    let nodes = nodes.map(|&n| fabric.node(n).inject);
    hops.chain(nodes)
        .filter(|&l| fabric.link(l).to == end)
        .collect()
}

/// Nodes of a router whose links wait. Several at once are more likely one slow router than several slow hosts.
fn hosts(router: RouterId, list: Vec<(LinkId, Vec<NodeId>)>) -> Vec<Origin> {
    let links: BTreeSet<LinkId> = list.iter().map(|(l, _)| *l).collect();
    if list.len() > 1 {
        let or = list
            .into_iter()
            .flat_map(|(_, nodes)| nodes)
            .map(Component::Host);
        return vec![Origin {
            component: Component::Router(router),
            or: or.collect(),
            links,
            free: 0,
            gain: f64::INFINITY,
        }];
    }
    let one = |(link, mut nodes): (LinkId, Vec<NodeId>)| {
        // Of several nodes behind one link, the link is named.
        let own = Component::HostLink(link);
        let (component, or) = match (nodes.pop(), nodes.is_empty()) {
            (Some(node), true) => (Component::Host(node), vec![own]),
            (last, _) => (
                own,
                nodes.into_iter().chain(last).map(Component::Host).collect(),
            ),
        };
        Origin {
            component,
            or,
            links: [link].into(),
            free: 0,
            gain: f64::INFINITY,
        }
    };
    list.into_iter().map(one).collect()
}

impl Around<'_> {
    /// Share of a link's bytes that continue on another, by estimate; `None` if its traffic is not known.
    fn part(&self, from: LinkId, to: LinkId) -> Option<f64> {
        let next = self.turns?.get(&from)?;
        let all: f64 = next.values().sum();
        (all > 0.0).then(|| next.get(&to).copied().unwrap_or(0.0) / all)
    }

    /// Whether packets may continue from a link on another.
    fn may_turn(&self, from: LinkId, to: LinkId) -> bool {
        let next = self.turns.and_then(|turns| turns.get(&from));
        next.is_none_or(|next| next.contains_key(&to))
    }

    /// Largest share of the window in which a link out of a healthy router sends packets that those of `from` wait for.
    fn busy_for_others(&self, into: &BTreeSet<LinkId>, from: LinkId, out: LinkId) -> f64 {
        let view = self.view;
        if self.faulty.contains(&out) {
            return f64::INFINITY;
        }
        let capacity = |l: LinkId| view.fabric.link(l).capacity().0;
        let ratio = |l: LinkId| capacity(l) / capacity(out).max(f64::MIN_POSITIVE);
        let of = |&link: &LinkId| match view.state.used_ratio.get(link) {
            Some(used) => used * ratio(link),
            // Traffic between nodes of one router is assumed to be small where no host link is counted.
            None if !view.fabric.is_hop(out) => 0.0,
            None => ratio(link),
        };
        let others = into.iter().filter(|&&l| l != from && self.may_turn(l, out));
        // Packets of a fast link wait for each other before a slower one.
        let (mine, ratio) = (view.used(from), ratio(from));
        let arrived: f64 = others.map(of).sum::<f64>() + mine * (ratio - 1.0).max(0.0);
        let own = SURE * self.part(from, out).unwrap_or(0.0) * mine * ratio.min(1.0);
        let used = view.state.used_ratio.get(out).unwrap_or(1.0);
        (used - own).min(arrived).max(0.0)
    }

    /// Estimated use of a link that nothing counts, from what arrives at its router; all of it where traffic is not known.
    fn estimated_use(&self, into: &BTreeSet<LinkId>, out: LinkId) -> f64 {
        let view = self.view;
        let bytes = |l: LinkId| view.used(l) * view.fabric.link(l).capacity().0;
        let to_out = |&l: &LinkId| bytes(l) * self.part(l, out).unwrap_or(1.0);
        let arriving: f64 = into.iter().map(to_out).sum();
        arriving / view.fabric.link(out).capacity().0.max(f64::MIN_POSITIVE)
    }

    /// Whether packets of a link may continue on a link to a router whose waiting nothing counts, or nothing that can be read:
    /// it may be what they wait for.
    fn leads_to_unread(&self, link: LinkId) -> bool {
        let view = self.view;
        let next = view.next(link).into_iter();
        next.filter(|&out| self.may_turn(link, out)).any(|out| {
            view.fabric.is_hop(out)
                && view.fabric.link(out).is_up()
                && !view.counts_waiting(out)
                && !view.is_queue(out)
        })
    }

    fn feeder(&self, into: &BTreeSet<LinkId>, link: LinkId) -> Feeder {
        let view = self.view;
        let next = view
            .next(link)
            .into_iter()
            .filter(|&out| self.may_turn(link, out));
        // Without a way on there is nothing to compare with.
        let (mut busy, mut stalls, mut counted) = (f64::NEG_INFINITY, 0.0, 0.0);
        for out in next {
            let others = self.busy_for_others(into, link, out);
            busy = f64::max(busy, others);
            if view.fabric.is_hop(out) || view.state.used_ratio.get(out).is_some() {
                counted = f64::max(counted, others);
            }
            // Long waits for one link after the other add up.
            stalls += view.stall(out);
        }
        let bound = if busy < 0.0 || self.leads_to_unread(link) {
            f64::INFINITY
        } else {
            busy + stalls
        };
        let beyond = view.stall(link) - bound;
        let is_odd = |beyond: f64| beyond > TOLERANCE && !self.faulty.contains(&link);
        let unexplained = view.stall(link) - (counted + stalls);
        Feeder {
            link,
            used: view.used(link),
            beyond: beyond.max(0.0),
            waits: is_odd(beyond),
            hidden: bound.is_finite() && !is_odd(beyond) && is_odd(unexplained),
            held: view.state.input_stall_ratio.get(link).map(|s| s >= WAITING),
        }
    }

    fn origin(&self, router: RouterId) -> Option<Result<Origin, Hidden>> {
        let view = self.view;
        let into = ending_at(view.fabric, router);
        let mut feeders: Vec<Feeder> = into
            .iter()
            .copied()
            .filter(|&l| view.counts_waiting(l) && !view.is_queue(l))
            .filter(|&l| view.used(l) >= LOADED || self.waiting.contains(&l))
            .map(|l| self.feeder(&into, l))
            .collect();
        let hidden = feeders.iter().any(|f| f.hidden);
        // Those that a healthy router explains say nothing about a fault.
        feeders.retain(|f| f.waits || !self.waiting.contains(&f.link));
        if !feeders.iter().any(|f| f.waits) {
            return hidden.then_some(Err(Hidden));
        }
        let by_chance = |f: &Feeder| match f.waits {
            true => -(0.5 * (f.beyond / NOISE).powi(2)).min(MOST),
            false => 0.0,
        };
        let none: f64 = feeders.iter().map(by_chance).sum();
        let (mut candidates, unseen, uncounted) = self.candidates(router, &into, &feeders);
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let &(best, component) = candidates.first()?;
        if best - none < TIE {
            return None;
        }
        // A link to hosts that nothing counts may be full, which is no fault.
        if unseen > best - TIE {
            return Some(Err(Hidden));
        }
        // Nothing shows that a link which nothing counts is healthy.
        let is_near = |c: &&(f64, Component)| c.0 > best - TIE || uncounted.contains(&c.1);
        let near = candidates[1..].iter().filter(is_near);
        Some(Ok(Origin {
            component,
            or: near.map(|c| c.1).collect(),
            links: feeders.iter().filter(|f| f.waits).map(|f| f.link).collect(),
            free: feeders.iter().filter(|f| !f.waits).count(),
            gain: best - none,
        }))
    }

    /// Log-likelihoods of the components at a router, the highest of links to hosts that nothing counts and that may be full,
    /// and all links to hosts that nothing counts.
    fn candidates(
        &self,
        router: RouterId,
        into: &BTreeSet<LinkId>,
        feeders: &[Feeder],
    ) -> (Vec<(f64, Component)>, f64, BTreeSet<Component>) {
        let view = self.view;
        let seen = |f: &Feeder, p: f64, behind: bool| {
            let waits = if f.waits { p.ln() } else { (1.0 - p).ln() };
            waits + held(f, behind)
        };
        let mut candidates: Vec<(f64, Component)> = Vec::new();
        let mut unseen = f64::NEG_INFINITY;
        let mut uncounted = BTreeSet::new();
        let outs: BTreeSet<LinkId> = feeders.iter().flat_map(|f| view.next(f.link)).collect();
        for out in outs {
            let is_counted = view.fabric.is_hop(out) || view.counts_waiting(out);
            if is_counted && !view.fabric.is_hop(out) && view.used(out) < LOADED {
                continue;
            }
            let need = |f: &Feeder| match self.part(f.link, out) {
                Some(part) if part <= 0.0 => NEEDS_NOT,
                Some(part) if part < PART => PARTLY,
                _ => MOSTLY,
            };
            let score: f64 = feeders.iter().map(|f| seen(f, need(f), true)).sum();
            if is_counted || self.estimated_use(into, out) <= CALM {
                candidates.push((score, view.of_link(out)));
            } else {
                unseen = unseen.max(score);
            }
            if !is_counted {
                uncounted.insert(view.of_link(out));
            }
        }
        let rate = feeders
            .iter()
            .filter(|f| f.waits)
            .map(|f| f.used)
            .fold(0.0, f64::max);
        // A slow router holds back its busy inputs; one that carries more than those that wait disproves it.
        let slow = |f: &Feeder| match f.used {
            used if used > 1.1 * rate => 1.0 - NEEDS_NOT,
            used if f.waits || used >= 0.5 * rate => NEEDS,
            _ => IDLE,
        };
        let score = feeders.iter().map(|f| seen(f, slow(f), true)).sum();
        candidates.push((score, Component::Router(router)));
        for own in feeders.iter().filter(|f| f.waits) {
            let score = feeders.iter().map(|f| {
                let p = if f.link == own.link { NEEDS } else { NEEDS_NOT };
                seen(f, p, f.link != own.link)
            });
            candidates.push((score.sum(), view.of_link(own.link)));
        }
        (candidates, unseen, uncounted)
    }
}

/// Log-likelihood of whether arrivals of a waiting link wait at the router, if the cause is behind it or not.
fn held(f: &Feeder, behind: bool) -> f64 {
    match (f.waits, f.held) {
        (true, Some(held)) if held == behind => NEEDS.ln(),
        (true, Some(_)) => NEEDS_NOT.ln(),
        _ => 0.0,
    }
}
