//! The cause of a slow network, from counters, jobs and routes alone: `hopbyte.blame/1`.
//!
//! Facts first: links that are down, that run with fewer lanes, that count more errors than a healthy link may, whose bytes
//! arrive at another link's end, nodes without processors for their processes (`blame/starved.rs`). What only the transports
//! of nodes see (`blame/paths.rs`). Then waiting: on a lossless network (`blame/begin.rs`) a full receiver stops its senders, and what
//! the routers there could have sent tells whether a fault or only traffic is the reason; on a network of queues without
//! credits (`blame/queues.rs`) a link that waits longer than it sends is slow. A full link for which others wait is a hot spot
//! of the jobs that fill it.

use crate::attribution::Attribution;
use crate::error::{Result, refuse};
use crate::probe::component::Component;
use crate::probe::explain::{Finding, Limit, Suspect};
use crate::probe::separate::separating;
use begin::{Begun, Origin};
use hopbyte_fabric::units::{count, percent};
use hopbyte_fabric::{End, Fabric, Family, LinkId, LinkState, Missing, Routing};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Seconds of a collector's ticks that are judged together: traffic comes in bursts.
pub const WINDOW: f64 = 10.0;
/// Share of the window from which waiting counts.
const WAITING: f64 = 0.05;
/// Share of the capacity from which a link is full.
const FULL: f64 = 0.9;
/// Share of the capacity from which a link carries traffic.
const LOADED: f64 = 0.01;
/// Smallest loss of strength that is reported.
const TOLERANCE: f64 = 0.2;
/// Share of a link's bytes that is no noise of its counters.
const STRAY: f64 = 0.1;
/// Jobs named of a cause.
const JOBS: usize = 8;
/// Links named of several.
const NAMED: usize = 3;
/// Kinds of evidence.
const FAULTS: usize = 4;

/// A component's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No lane is in service.
    Down,
    /// Some lanes are out of service.
    Lanes,
    /// More transmission errors than a healthy link has.
    Errors,
    /// Packets are lost there, of which no counter tells.
    Loses,
    /// Its bytes arrive at another link's end.
    Miscabled,
    /// Processes of a node wait for a processor.
    Starved,
    /// A node or its adapter does not drain its arrivals.
    SlowReceiver,
    /// It carries less than it could while traffic waits for it.
    Slow,
    /// A job fills it.
    HotSpot,
}

impl Kind {
    /// In words, for tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Lanes => "lanes lost",
            Self::Errors => "errors",
            Self::Loses => "loses packets",
            Self::Miscabled => "miscabled",
            Self::Starved => "starved of processors",
            Self::SlowReceiver => "slow receiver",
            Self::Slow => "slow",
            Self::HotSpot => "hot spot",
        }
    }
}

/// A cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// The fault.
    pub fault: Kind,
    /// Kind of component: link, cable, host link, host, router.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Components that the counters cannot tell from it.
    pub or: Vec<String>,
    /// The transfer between two nodes that would tell most of them apart: sender and receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<[String; 2]>,
    /// Two sentences: its own counters, and those of comparable components.
    pub evidence: [String; 2],
    /// Links that wait behind it.
    pub waiting_links: usize,
    /// Jobs with routes over it, most bytes first.
    pub victims: Vec<String>,
    /// Bytes of the jobs that fill it, for a hot spot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filled_by: Vec<crate::attribution::JobBytes>,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Blame {
    schema: &'static str,
    /// Links of the fabric, those read, those that carry traffic, and those that wait.
    pub links: usize,
    /// Links with a known value.
    pub links_read: usize,
    /// Links that carry traffic; `None` if the use of no link is known.
    pub links_loaded: Option<usize>,
    /// Links that wait for credits; `None` if this is not known of any.
    pub links_waiting: Option<usize>,
    /// Links whose waiting is unknown because its counter is at its highest value.
    pub links_full: usize,
    /// Causes, the most severe first.
    pub causes: Vec<Cause>,
    /// Faults that these counters cannot show.
    pub not_judged: Vec<String>,
    /// Whether waiting is among them, so that a cause may be hidden.
    #[serde(skip)]
    pub waiting_is_open: bool,
}

/// Symptoms of a link.
struct View<'a> {
    fabric: &'a Fabric,
    routing: &'a Routing,
    state: &'a LinkState,
    jobs: Option<&'a Attribution>,
}

/// Finds the causes.
///
/// # Errors
/// The counters show none of the faults.
pub fn blame(
    fabric: &Fabric,
    routing: &Routing,
    state: &LinkState,
    jobs: Option<&Attribution>,
) -> Result<Blame> {
    let (read, frozen) = frozen::without_frozen(fabric, state);
    let read = ticks::with_adapters(fabric, read);
    let state = read.as_ref();
    let view = View {
        fabric,
        routing,
        state,
        jobs,
    };
    let waiting = view.waiting();
    let mut facts = view.facts();
    facts.extend(view.miscabled());
    facts.extend(view.starved());
    let faulty: BTreeSet<LinkId> = facts.iter().flat_map(|(links, _)| links.clone()).collect();
    let mut causes: Vec<Cause> = Vec::new();
    for (links, mut cause) in facts {
        cause.waiting_links = view.behind(&links, &waiting);
        causes.push(cause);
    }
    let named: BTreeSet<String> = causes.iter().map(|c| c.name.clone()).collect();
    let is_miscabled = causes.iter().any(|c| c.fault == Kind::Miscabled);
    let (mut unexplained, mut begun) = (0, Begun::default());
    // Routes over exchanged cables are not those of the fabric, and say nothing about waiting.
    if !is_miscabled {
        let mut slow = view.slow(&waiting);
        begun = view.origins(&waiting, &faulty);
        let origins = std::mem::take(&mut begun.origins);
        slow.extend(origins.iter().filter_map(|o| view.begins(o, &waiting)));
        let (lossy, unknown) = view.lossy();
        unexplained = unknown;
        slow.extend(lossy);
        slow.retain(|c| !named.contains(&c.name));
        causes.extend(slow);
    }
    causes.extend(view.hot_spots(&waiting));
    causes.sort_by(|a, b| {
        // A hot spot is what traffic does to a healthy network; faults come first.
        let rank = |c: &Cause| (c.fault == Kind::HotSpot, c.waiting_links == 0, c.fault);
        let (x, y) = (rank(a), rank(b));
        (x.0, x.1)
            .cmp(&(y.0, y.1))
            .then(b.waiting_links.cmp(&a.waiting_links))
            .then(x.2.cmp(&y.2))
            .then(a.name.cmp(&b.name))
    });
    let known = |c: &hopbyte_fabric::Column| c.known() > 0;
    let full = view.full();
    let lacks: [_; FAULTS] = [
        (known(&state.errors), "errors: no link counts them"),
        (known(&state.lanes), "lanes: no link counts them"),
        (
            known(&state.credit_stall_ratio) || !full.is_empty(),
            "waiting for credits: no link counts it over a known window",
        ),
        (known(&state.used_ratio), "use: no window or no bytes"),
    ];
    let lacks = lacks.into_iter().filter(|(known, _)| !known);
    let mut not_judged: Vec<String> = lacks.map(|(_, words)| words.to_owned()).collect();
    if not_judged.len() == FAULTS && state.paths.is_empty() && state.nodes.is_empty() {
        refuse!(
            "nothing can be judged: {}\nhint: {}",
            not_judged.join("; "),
            match state.window_seconds {
                Some(_) => "are these counters of the machine's links, and do they move?",
                None => "give --interval SECONDS if the counters are those of a known window",
            }
        );
    }
    if !full.is_empty() {
        let whose = if full.len() == 1 {
            "link, its counter is full"
        } else {
            "links, their counters are full"
        };
        not_judged.push(format!(
            "waiting at {} {whose}: {}",
            count(full.len()),
            view.first_names(&full)
        ));
    }
    if !frozen.is_empty() {
        not_judged.push(frozen::words(fabric, &frozen));
    }
    if begun.unread > 0 {
        not_judged.push(format!(
            "waiting at {}: that of links behind is not known",
            links(begun.unread)
        ));
    }
    if !begun.hidden.is_empty() {
        not_judged.push(format!(
            "waiting at {}: links to nodes there, which nothing counts, may be full",
            frozen::names(fabric, &begun.hidden)
        ));
    }
    let without_jobs = jobs.is_none() && causes.is_empty() && waiting.len() > begun.unread;
    if without_jobs {
        not_judged.push(format!(
            "waiting at {}: without --jobs it is not known which links their packets need",
            links(waiting.len())
        ));
    }
    let (not_read, between) = view.not_read(true);
    let (of_nodes, all) = view.not_read(false);
    if not_read > 0 && (not_read < between || of_nodes < all) {
        not_judged.push(format!(
            "links: {} of {} between routers are not read",
            count(not_read),
            count(between)
        ));
    }
    if all > 0 && of_nodes == all && not_read < between {
        let advice = match fabric.family() {
            Family::Gemini => "; registers count them, metrics of gpcdr and LDMS do not",
            _ => "",
        };
        not_judged.push(format!(
            "slow nodes: no link of a node is read ({} in all{advice})",
            count(all)
        ));
    }
    if unexplained > 0 {
        not_judged.push(format!(
            "lost packets at {} components: nothing there counts what full queues drop",
            count(unexplained)
        ));
    }
    if let Some((slow, all)) = view.alike_receivers(&waiting, &faulty) {
        not_judged.push(format!(
            "nodes that take arrivals slowly: links into nodes wait at {} of {} routers, so that adapters or programs are like that",
            count(slow),
            count(all)
        ));
    }
    not_judged.extend(view.elsewhere());
    if is_miscabled {
        not_judged.push("slow links and nodes: cables are not as the fabric has them".into());
    }
    Ok(Blame {
        schema: "hopbyte.blame/1",
        links: fabric.links().len(),
        links_read: state.links_read(),
        links_loaded: known(&state.used_ratio).then(|| {
            let loaded = |&l: &LinkId| view.used(l) >= LOADED;
            fabric.link_ids().filter(loaded).count()
        }),
        links_waiting: known(&state.credit_stall_ratio).then_some(waiting.len()),
        links_full: full.len(),
        causes,
        not_judged,
        waiting_is_open: !full.is_empty()
            || begun.unread > 0
            || !begun.hidden.is_empty()
            || without_jobs,
    })
}

/// A number of links in words.
fn links(n: usize) -> String {
    match n {
        1 => "1 link".into(),
        n => format!("{} links", count(n)),
    }
}

impl View<'_> {
    fn used(&self, link: LinkId) -> f64 {
        self.state.used_ratio.get(link).unwrap_or(0.0)
    }

    fn stall(&self, link: LinkId) -> f64 {
        self.stall_counted(link).unwrap_or(0.0)
    }

    /// Share of the window in which departures of a link waited, if this is counted. Where the router does not count it, the
    /// pauses that a node sends are the waiting of the link into the node.
    fn stall_counted(&self, link: LinkId) -> Option<f64> {
        let sent_by_node = || match self.fabric.link(link).to {
            End::Node(_) => self.state.input_stall_ratio.get(link),
            End::Router(_) | End::Hosts(_) => None,
        };
        let counted = self.state.credit_stall_ratio.get(link);
        counted.or_else(sent_by_node)
    }

    fn router(&self, end: End) -> Option<hopbyte_fabric::RouterId> {
        match end {
            End::Router(r) => Some(r),
            End::Node(_) | End::Hosts(_) => None,
        }
    }

    /// Says that traffic is on links where the routes do not lead it: after a failure others are in force, and what waits
    /// for what is not known.
    fn elsewhere(&self) -> Option<String> {
        let jobs = self.jobs?;
        let strays = |&l: &LinkId| {
            let carried = self.state.received_bytes.get(l).unwrap_or(0.0);
            self.fabric.is_hop(l)
                && self.used(l) >= LOADED
                && jobs.beyond(l, carried) > STRAY * carried
        };
        let strays: Vec<LinkId> = self.fabric.link_ids().filter(strays).collect();
        let &first = strays.first()?;
        Some(format!(
            "routes: {} links carry more than the routes of jobs lead over them, such as {}",
            count(strays.len()),
            self.fabric.link_name(first)
        ))
    }

    /// Links that wait for credits.
    fn waiting(&self) -> BTreeSet<LinkId> {
        let waits = |&l: &LinkId| self.stall(l) >= WAITING;
        self.fabric.link_ids().filter(waits).collect()
    }

    /// The first names of links, and the number of the others.
    fn first_names(&self, links: &[LinkId]) -> String {
        let first = links.iter().take(NAMED);
        let mut names: Vec<String> = first.map(|&l| self.fabric.link_name(l)).collect();
        if links.len() > NAMED {
            names.push(format!("{} more", count(links.len() - NAMED)));
        }
        names.join(", ")
    }

    /// Links with a full counter of waiting: their time is not known.
    fn full(&self) -> Vec<LinkId> {
        let counts = [
            &self.state.credit_stall_ratio,
            &self.state.credit_stall_count,
        ];
        let full = |&l: &LinkId| counts.iter().any(|c| c.read(l) == Err(Missing::Stuck));
        self.fabric.link_ids().filter(full).collect()
    }

    /// Links that leave the router at which a link ends, except its way back.
    fn next(&self, link: LinkId) -> Vec<LinkId> {
        let Some(router) = self.router(self.fabric.link(link).to) else {
            return Vec::new();
        };
        let out = self.fabric.links_from(router).iter().copied();
        let ejects = self
            .fabric
            .nodes_on(router)
            .iter()
            .map(|&n| self.fabric.node(n).eject);
        let back = self.fabric.reverse(link);
        let all: BTreeSet<LinkId> = out.chain(ejects).collect();
        all.into_iter().filter(|l| Some(*l) != back).collect()
    }

    /// Waiting links whose waiting a cause behind this link explains: those that lead to it through waiting links.
    fn behind(&self, cause: &BTreeSet<LinkId>, waiting: &BTreeSet<LinkId>) -> usize {
        let mut into: BTreeMap<End, Vec<LinkId>> = BTreeMap::new();
        for &link in waiting {
            let end = self.fabric.link(link).to;
            if self.router(end).is_some() {
                into.entry(end).or_default().push(link);
            }
        }
        let mut reached: BTreeSet<LinkId> = BTreeSet::new();
        let mut front: Vec<LinkId> = cause.iter().copied().collect();
        while let Some(link) = front.pop() {
            let before = into.get(&self.fabric.link(link).from).into_iter().flatten();
            for &before in before.filter(|&&b| Some(link) != self.fabric.reverse(b)) {
                if !cause.contains(&before) && reached.insert(before) {
                    front.push(before);
                }
            }
        }
        reached.len()
    }

    /// Components with their kinds, in order.
    fn named(&self, components: impl Iterator<Item = Component>) -> Vec<String> {
        let components: BTreeSet<Component> = components.collect();
        let named = |c: Component| format!("{} {}", c.kind(), c.name(self.fabric));
        components.into_iter().map(named).collect()
    }

    fn cause(&self, fault: Kind, component: Component, evidence: [String; 2]) -> Cause {
        let links = self.links_of(component);
        let mut victims: Vec<String> = Vec::new();
        for &link in &links {
            let jobs = self.jobs.map_or(Vec::new(), |jobs| jobs.crossing(link));
            for job in jobs {
                if !victims.contains(&job) && victims.len() < JOBS {
                    victims.push(job);
                }
            }
        }
        Cause {
            fault,
            kind: component.kind(),
            name: component.name(self.fabric),
            or: Vec::new(),
            probe: None,
            evidence,
            waiting_links: 0,
            victims,
            filled_by: Vec::new(),
        }
    }

    /// The links of a component.
    fn links_of(&self, component: Component) -> BTreeSet<LinkId> {
        let at = |l: LinkId, end: End| {
            let link = self.fabric.link(l);
            link.from == end || link.to == end
        };
        let belongs = |&l: &LinkId| match component {
            Component::Link(c) | Component::HostLink(c) => l == c,
            Component::Cable(c) => l == c || self.fabric.reverse(l) == Some(c),
            Component::Host(n) => at(l, End::Node(n)),
            Component::Router(r) => at(l, End::Router(r)),
        };
        self.fabric.link_ids().filter(belongs).collect()
    }

    fn of_link(&self, link: LinkId) -> Component {
        match self.fabric.is_hop(link) {
            true => Component::Link(link),
            false => Component::HostLink(link),
        }
    }

    /// The component at which the waiting of links with credits begins.
    fn begins(&self, origin: &Origin, waiting: &BTreeSet<LinkId>) -> Option<Cause> {
        let most = origin
            .links
            .iter()
            .max_by(|a, b| self.stall(**a).total_cmp(&self.stall(**b)));
        let &most = most?;
        let (name, waits) = (self.fabric.link_name(most), percent(self.stall(most)));
        let carries = percent(self.used(most));
        let fault = match origin.component {
            Component::Host(_) => Kind::SlowReceiver,
            _ => Kind::Slow,
        };
        let shown = match origin.component {
            Component::Link(l) | Component::HostLink(l) if l != most => format!(
                "It carries {} of its capacity, and {name}, which leads to it, waits {waits} of the time.",
                percent(self.used(l))
            ),
            _ => format!(
                "{name} waits {waits} of the time and carries {carries} of its capacity, though nothing behind it waits or is full."
            ),
        };
        let behind = self.behind(&origin.links, waiting);
        let others = format!(
            "Links that wait for it: {}, behind them: {}; others at the same place that do not wait: {}.",
            count(origin.links.len()),
            count(behind),
            count(origin.free)
        );
        let mut cause = self.cause(fault, origin.component, [shown, others]);
        cause.waiting_links = behind + origin.links.len();
        cause.or = self.named(origin.or.iter().copied());
        cause.probe = self.telling(origin.component, &origin.or);
        Some(cause)
    }

    /// Number of unread links between routers, or of nodes, and of all of these. A node's cable may be a hop.
    fn not_read(&self, between: bool) -> (usize, usize) {
        let links = self.fabric.link_ids();
        let (mut not_read, mut all) = (0, 0);
        for link in links.filter(|&l| self.fabric.link(l).is_between_routers() == between) {
            all += 1;
            not_read += usize::from(self.state.coverage[link.index()] <= 0.0);
        }
        (not_read, all)
    }

    /// The transfer whose rate tells a component from its alternatives.
    fn telling(&self, component: Component, or: &[Component]) -> Option<[String; 2]> {
        let half = |component| Suspect {
            component,
            limit: Limit::Share(0.5),
        };
        let finding = Finding {
            suspect: half(component),
            or: or.iter().copied().map(half).collect(),
            paths: 0,
            expected: 1.0,
            measured: 0.5,
        };
        let most = self
            .fabric
            .links()
            .iter()
            .map(|l| l.capacity().0)
            .fold(0.0, f64::max);
        let found = separating(self.fabric, self.routing, (1.0, most), TOLERANCE, &finding)?;
        Some([found.from, found.to].map(|n| self.fabric.node(n).name.clone()))
    }

    /// Full links for which others wait.
    fn hot_spots(&self, waiting: &BTreeSet<LinkId>) -> Vec<Cause> {
        let full = |&l: &LinkId| self.used(l) >= FULL && !waiting.contains(&l);
        let mut causes = Vec::new();
        for link in self.fabric.link_ids().filter(full) {
            let behind = self.behind(&BTreeSet::from([link]), waiting);
            if behind == 0 {
                continue;
            }
            let carried = self.state.received_bytes.get(link);
            let by = self.jobs.map(|jobs| jobs.link(link, carried));
            let most = by.as_ref().and_then(|by| by.jobs.first());
            let filled = match (most, carried) {
                (Some(job), Some(carried)) => format!(
                    "It carries {} of its capacity, {} of it by job {}.",
                    percent(self.used(link)),
                    percent(job.bytes / carried.max(1.0)),
                    job.job
                ),
                _ => format!("It carries {} of its capacity.", percent(self.used(link))),
            };
            let others = format!("{} links wait behind it.", count(behind));
            let mut cause = self.cause(Kind::HotSpot, self.of_link(link), [filled, others]);
            cause.waiting_links = behind;
            cause.filled_by = by.map_or(Vec::new(), |by| by.jobs);
            causes.push(cause);
        }
        causes
    }
}

mod begin;
mod facts;
mod frozen;
mod paths;
mod queues;
mod starved;
#[cfg(test)]
mod tests;
mod ticks;
