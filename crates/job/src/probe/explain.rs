//! Finds the components that explain slow paths, by likelihood.
//!
//! Paths are measured from node to node; a route gives the components of a path. Without faults a path has the rate that its
//! links leave it beside the transfers of its phase, times the efficiency of its class (kind of link, exclusive or
//! shared). A fault limits the paths that cross it: a link to a share of its capacity, a node to a rate, a router to a rate
//! for each path, for all of them, or to a share of its links or of those of one direction. [`crate::infer`] decides which
//! faults explain all paths, so a component with healthy paths below its limit is not excluded, and one with healthy paths
//! above it is.

use super::component::{Component, routers};
use super::separate::joined;
use crate::infer::{Fault, Hypothesis, Inference, Observation};
use crate::statistics::{median, upper_quartile};
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId};
use hopbyte_model::fluid::{Clock, Sharing, Use};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Default share below its expected rate at which a path is slow.
pub const TOLERANCE: f64 = 0.05;
/// Share of a class's upper quartile above which a path counts among the healthy.
const NEAR: f64 = 0.7;
/// Smallest noise assumed, as a standard deviation of the logarithm.
const LEAST_NOISE: f64 = 0.005;
/// Bytes of requests over bytes of their responses on the wire: 96 and 9 for a PUT of 64 B (paper 000, V.A).
const REQUEST_OVER_RESPONSE: f64 = 96.0 / 9.0;
/// Paths from which a class's own spread is trusted.
const MANY: usize = 20;

/// A measured path.
#[derive(Clone, Debug)]
pub struct Path {
    /// Sender.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// Kind of link, exclusive or shared.
    pub class: (String, String),
    /// Number of its phase; transfers of one phase are concurrent. `None`: measured alone.
    pub phase: Option<u32>,
    /// Links on its route.
    pub route: Vec<LinkId>,
    /// Upper quartile of its trials, in bytes per second.
    pub rate: f64,
}

/// Rates of a class of paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Kind and mode.
    pub name: (String, String),
    /// Number of paths.
    pub paths: usize,
    /// Median of the expected rates in bytes per second.
    pub expected: f64,
    /// Standard deviation of the logarithm of the rates of healthy paths.
    pub noise: f64,
    /// The lowest rate.
    pub least: f64,
}

/// How a fault limits the paths of its component.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// To a share of the capacity of its links.
    Share(f64),
    /// To a share of the capacity of the links that leave it.
    Outgoing(f64),
    /// To a share of the capacity of the links that end at it.
    Incoming(f64),
    /// Each path to a rate in bytes per second.
    PathRate(f64),
    /// All concurrent paths together to a rate in bytes per second.
    TotalRate(f64),
}

/// A component with the fault that it would have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suspect {
    /// The component.
    pub component: Component,
    /// The fault.
    pub limit: Limit,
}

/// A component that explains slow paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The component and its fault.
    pub suspect: Suspect,
    /// Components that explain the same paths as well, and their faults.
    pub or: Vec<Suspect>,
    /// Number of paths that it slows.
    pub paths: usize,
    /// Median of the expected rates of these paths, in bytes per second.
    pub expected: f64,
    /// Median of the measured rates.
    pub measured: f64,
}

/// Smallest faults that would be found, by kind of component.
#[derive(Clone, Debug, PartialEq)]
pub struct Detectable {
    /// Kind of component.
    pub kind: &'static str,
    /// Components on some path.
    pub components: usize,
    /// Median of the highest remaining shares of strength at which they would be found, 0 for those that would not be.
    pub median: f64,
    /// The lowest of them, among those that would be found.
    pub least: f64,
    /// Components that would not be found at any share: other limits hide them.
    pub never: usize,
}

/// Findings.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Classes of paths, by name.
    pub classes: Vec<Class>,
    /// Expected rate of each path.
    pub expected: Vec<f64>,
    /// Slow paths: lowered by a finding, or unexplained.
    pub slow: Vec<usize>,
    /// Components that explain slow paths, the best supported first.
    pub findings: Vec<Finding>,
    /// Slow paths without an explanation: other paths through their components are healthy.
    pub unexplained: Vec<usize>,
    /// Smallest faults that would be found.
    pub detectable: Vec<Detectable>,
    /// Bytes per second that a link carries for each byte per second of its capacity, at best.
    pub efficiency: f64,
    /// Highest expected rate of a path, in bytes per second.
    pub fastest: f64,
}

/// Finds slow paths and the components that explain them. A path is slow below `1 - tolerance` of its expected rate if
/// chance does not make it so. `expected` overrides the expected rate of a kind.
pub fn explain(
    fabric: &Fabric,
    paths: &[Path],
    tolerance: f64,
    expected: &BTreeMap<String, f64>,
) -> Findings {
    let loads = Loads::of(fabric, paths);
    let alone = loads.rates(fabric, paths);
    let baseline = Baseline::of(paths, &alone, expected);
    let components = components(fabric, paths);
    let (suspects, hypotheses) = hypotheses(fabric, paths, &loads, &baseline, &components);
    let inference = Inference::new(&baseline.observations, &hypotheses, tolerance);
    let faults = inference.faults();
    let unexplained = inference.unexplained(&faults);
    let lowered = faults.iter().flat_map(|f| f.lowered.iter().copied());
    let slow: BTreeSet<usize> = lowered.chain(unexplained.iter().copied()).collect();
    let finding = |fault: &Fault| finding(fabric, &baseline, &suspects, fault);
    let findings: Vec<Finding> = faults.iter().map(finding).collect();
    Findings {
        findings: joined(fabric, &findings),
        fastest: (baseline.observations.iter().map(|o| o.expected)).fold(0.0, f64::max),
        expected: baseline.observations.iter().map(|o| o.expected).collect(),
        slow: slow.into_iter().collect(),
        detectable: detectable(&components, &hypotheses, &inference),
        classes: baseline.classes,
        efficiency: baseline.efficiency,
        unexplained,
    }
}

/// Concurrent transfers on every link and router in every phase.
struct Loads {
    links: HashMap<(Option<u32>, LinkId), f64>,
    routers: HashMap<(Option<u32>, RouterId), f64>,
}

impl Loads {
    fn of(fabric: &Fabric, paths: &[Path]) -> Self {
        let mut loads = Self {
            links: HashMap::new(),
            routers: HashMap::new(),
        };
        for path in paths.iter().filter(|p| p.phase.is_some()) {
            for &link in &path.route {
                *loads.links.entry((path.phase, link)).or_default() += 1.0;
            }
            for router in routers(fabric, &path.route) {
                *loads.routers.entry((path.phase, router)).or_default() += 1.0;
            }
        }
        loads
    }

    fn on_link(&self, path: &Path, link: LinkId) -> f64 {
        self.links.get(&(path.phase, link)).map_or(1.0, |n| *n)
    }

    fn on_router(&self, path: &Path, router: RouterId) -> f64 {
        self.routers.get(&(path.phase, router)).map_or(1.0, |n| *n)
    }

    /// Rate that the links leave each path beside the transfers of its phase, in bytes per second: max-min fair shares of
    /// equal transfers that begin together.
    fn rates(&self, fabric: &Fabric, paths: &[Path]) -> Vec<f64> {
        let capacity = |l: LinkId| fabric.link(l).capacity().0.max(f64::MIN_POSITIVE);
        let narrowest = |path: &Path| {
            let of = |&l: &LinkId| capacity(l) / self.on_link(path, l);
            path.route.iter().map(of).fold(f64::INFINITY, f64::min)
        };
        let mut rates: Vec<f64> = paths.iter().map(narrowest).collect();
        let mut phases: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, path) in paths.iter().enumerate() {
            if let Some(phase) = path.phase {
                phases.entry(phase).or_default().push(i);
            }
        }
        for members in phases.into_values() {
            let mut number: HashMap<LinkId, u32> = HashMap::new();
            let mut capacities = Vec::new();
            let links = members.iter().flat_map(|&i| &paths[i].route);
            for &link in links {
                number.entry(link).or_insert_with(|| {
                    capacities.push(capacity(link));
                    capacities.len() as u32 - 1
                });
            }
            let mut clock = Clock::new(Sharing::new(&capacities), 0.0);
            const BYTES: f64 = 1e6;
            for &i in &members {
                let of = |l: &LinkId| Use {
                    resource: number[l],
                    weight: 1.0,
                };
                let uses: Vec<Use> = paths[i].route.iter().map(of).collect();
                if !uses.is_empty() {
                    let path = clock.add_path(&uses);
                    clock.begin(path, BYTES, f64::INFINITY, i as u32);
                }
            }
            let mut done = Vec::new();
            while clock.next_end().is_some() {
                clock.end_next(&mut done);
            }
            for d in done {
                rates[d.tag as usize] = BYTES / d.seconds;
            }
        }
        rates
    }
}

/// Expected rates and noise.
struct Baseline {
    classes: Vec<Class>,
    observations: Vec<Observation>,
    efficiency: f64,
}

impl Baseline {
    fn of(paths: &[Path], alone: &[f64], expected: &BTreeMap<String, f64>) -> Self {
        let mut members: BTreeMap<&(String, String), Vec<usize>> = BTreeMap::new();
        for (i, path) in paths.iter().enumerate() {
            members.entry(&path.class).or_default().push(i);
        }
        let mut all = Vec::new();
        let fits: Vec<_> = (members.iter())
            .map(|(name, members)| {
                let ratio = |&i: &usize| paths[i].rate / alone[i];
                let mut ratios: Vec<f64> = members.iter().map(ratio).collect();
                // The upper quartile holds with up to three quarters of the paths slow. The median near it is robust
                // against the few that are faster because the partner on their shared link is slow.
                let quartile = upper_quartile(&mut ratios);
                ratios.retain(|&r| r >= NEAR * quartile);
                let middle = median(&ratios).max(f64::MIN_POSITIVE);
                let off = |r: &f64| (r / middle).ln().abs();
                let off: Vec<f64> = ratios.iter().map(off).collect();
                let spread = 1.4826 * median(&off);
                all.extend(off);
                let given = expected.get(&name.0).map(|rate| {
                    let rates: Vec<f64> = members.iter().map(|&i| alone[i]).collect();
                    (*rate, rate / median(&rates))
                });
                (given, middle, spread)
            })
            .collect();
        let common = 1.4826 * median(&all);
        let mut observations = vec![
            Observation {
                expected: 0.0,
                measured: 0.0,
                sigma: LEAST_NOISE
            };
            paths.len()
        ];
        let mut classes = Vec::new();
        let mut efficiency: f64 = 0.0;
        for ((name, members), (given, middle, spread)) in members.into_iter().zip(fits) {
            let few = if members.len() < MANY { common } else { 0.0 };
            let noise = spread.max(few).max(LEAST_NOISE);
            for &i in &members {
                observations[i] = Observation {
                    expected: given.map_or(middle * alone[i], |(rate, _)| rate),
                    measured: paths[i].rate,
                    sigma: noise,
                };
            }
            efficiency = efficiency.max(given.map_or(middle, |(_, of_links)| of_links));
            let of = |f: &dyn Fn(usize) -> f64| members.iter().map(|&i| f(i)).collect::<Vec<_>>();
            classes.push(Class {
                name: name.clone(),
                paths: members.len(),
                expected: median(&of(&|i| observations[i].expected)),
                noise,
                least: of(&|i| paths[i].rate)
                    .into_iter()
                    .fold(f64::INFINITY, f64::min),
            });
        }
        Self {
            classes,
            observations,
            efficiency,
        }
    }
}

/// The paths that use each component.
pub(super) fn components(fabric: &Fabric, paths: &[Path]) -> BTreeMap<Component, Vec<usize>> {
    let mut used: BTreeMap<Component, Vec<usize>> = BTreeMap::new();
    for (i, path) in paths.iter().enumerate() {
        let mut add = |component| {
            let users = used.entry(component).or_default();
            if users.last() != Some(&i) {
                users.push(i);
            }
        };
        for &link in &path.route {
            let l = fabric.link(link);
            match (l.from, l.to) {
                (End::Router(_), End::Router(_)) => {
                    add(Component::Link(link));
                    if let Some(back) = fabric.reverse(link) {
                        add(Component::Cable(link.min(back)));
                    }
                }
                _ => add(Component::HostLink(link)),
            }
        }
        for router in routers(fabric, &path.route) {
            add(Component::Router(router));
        }
        add(Component::Host(path.from));
        add(Component::Host(path.to));
    }
    // A cable with one measured direction is that direction; likewise a host.
    let one: BTreeSet<Component> = used.keys().copied().collect();
    used.retain(|component, users| match *component {
        Component::Cable(l) => {
            let ways = [Some(l), fabric.reverse(l)].into_iter().flatten();
            ways.filter(|&w| one.contains(&Component::Link(w))).count() == 2
        }
        Component::Host(n) => {
            let from = users.iter().filter(|&&i| paths[i].from == n).count();
            from > 0 && from < users.len()
        }
        _ => true,
    });
    used
}

/// The hypotheses, and the suspect of each at full strength. Components are numbered in order.
fn hypotheses(
    fabric: &Fabric,
    paths: &[Path],
    loads: &Loads,
    baseline: &Baseline,
    components: &BTreeMap<Component, Vec<usize>>,
) -> (Vec<Suspect>, Vec<Hypothesis>) {
    let (mut suspects, mut list) = (Vec::new(), Vec::new());
    // Bytes of a link for a path at full strength.
    let carried = |i: usize, l: LinkId| {
        baseline.efficiency * fabric.link(l).capacity().0 / loads.on_link(&paths[i], l)
    };
    let over = |i: usize, belongs: &dyn Fn(LinkId) -> bool| {
        let links = paths[i].route.iter().filter(|&&l| belongs(l));
        links.map(|&l| carried(i, l)).fold(f64::INFINITY, f64::min)
    };
    for (number, (&component, users)) in components.iter().enumerate() {
        let fastest = users.iter().map(|&i| baseline.observations[i].expected);
        let fastest = fastest.fold(0.0, f64::max);
        let mut add = |limit: Limit, of: &dyn Fn(usize) -> f64| {
            suspects.push(Suspect { component, limit });
            list.push(Hypothesis {
                component: number,
                limits: users.iter().map(|&i| (i, of(i))).collect(),
            });
        };
        let share = Limit::Share(1.0);
        match component {
            Component::HostLink(c) => add(share, &|i| carried(i, c)),
            Component::Link(c) => {
                add(share, &|i| carried(i, c));
                // A slow link also delays the responses to the transfers of the other direction.
                let back = fabric.reverse(c);
                let others = back.and_then(|back| components.get(&Component::Link(back)));
                if let (Some(back), Some(others)) = (back, others) {
                    let answered = |&i: &usize| {
                        let ways = fabric.link(c).capacity().0 / fabric.link(back).capacity().0;
                        (i, REQUEST_OVER_RESPONSE * ways * carried(i, back))
                    };
                    let both = users.iter().map(|&i| (i, carried(i, c)));
                    let limits = both.chain(others.iter().map(answered)).collect();
                    suspects.push(Suspect {
                        component,
                        limit: share,
                    });
                    list.push(Hypothesis {
                        component: number,
                        limits,
                    });
                }
            }
            Component::Cable(c) => {
                add(share, &|i| {
                    over(i, &|l| l == c || fabric.reverse(l) == Some(c))
                });
            }
            Component::Host(_) => add(Limit::PathRate(fastest), &|_| fastest),
            Component::Router(r) => {
                let end = End::Router(r);
                let (leaves, ends) = (
                    |l: LinkId| fabric.link(l).from == end,
                    |l: LinkId| fabric.link(l).to == end,
                );
                let together = |i: usize| loads.on_router(&paths[i], r);
                add(share, &|i| over(i, &|l| leaves(l) || ends(l)));
                add(Limit::Outgoing(1.0), &|i| over(i, &leaves));
                add(Limit::Incoming(1.0), &|i| over(i, &ends));
                add(Limit::PathRate(fastest), &|_| fastest);
                if users.iter().any(|&i| together(i) > 1.0) {
                    let expected = |&i: &usize| baseline.observations[i].expected * together(i);
                    let total = users.iter().map(expected).fold(0.0, f64::max);
                    add(Limit::TotalRate(total), &|i| total / together(i));
                }
            }
        }
    }
    (suspects, list)
}

impl Suspect {
    /// The fault at a remaining share of its strength.
    fn at(self, share: f64) -> Self {
        let limit = match self.limit {
            Limit::Share(full) => Limit::Share(share * full),
            Limit::Outgoing(full) => Limit::Outgoing(share * full),
            Limit::Incoming(full) => Limit::Incoming(share * full),
            Limit::PathRate(full) => Limit::PathRate(share * full),
            Limit::TotalRate(full) => Limit::TotalRate(share * full),
        };
        Self { limit, ..self }
    }

    /// Rate of a transfer between two nodes over these links, alone, in bytes per second. `efficiency` and `fastest` are
    /// those of [`Findings`].
    pub fn rate(
        self,
        fabric: &Fabric,
        (efficiency, fastest): (f64, f64),
        ends: [NodeId; 2],
        route: &[LinkId],
    ) -> f64 {
        let limited = |l: LinkId| match self.component {
            Component::Router(r) => routers(fabric, &[l]).contains(&r),
            component => component.is_on(fabric, ends, &[l]),
        };
        let carried = |&l: &LinkId| {
            let (from, to) = (fabric.link(l).from, fabric.link(l).to);
            let at =
                |end: End| matches!(self.component, Component::Router(r) if end == End::Router(r));
            let share = match self.limit {
                Limit::Share(share) if limited(l) => share,
                Limit::Outgoing(share) if at(from) => share,
                Limit::Incoming(share) if at(to) => share,
                _ => 1.0,
            };
            share * efficiency * fabric.link(l).capacity().0
        };
        let rate = route.iter().map(carried).fold(fastest, f64::min);
        match self.limit {
            Limit::PathRate(most) | Limit::TotalRate(most)
                if self.component.is_on(fabric, ends, route) =>
            {
                rate.min(most)
            }
            _ => rate,
        }
    }
}

fn finding(fabric: &Fabric, baseline: &Baseline, suspects: &[Suspect], fault: &Fault) -> Finding {
    let mut tied = vec![suspects[fault.hypothesis].at(fault.share)];
    tied.extend(fault.or.iter().map(|&(h, share)| suspects[h].at(share)));
    tied.sort_by_key(|s| s.component);
    let rates = |f: &dyn Fn(&Observation) -> f64| {
        let of = fault.lowered.iter().map(|&i| f(&baseline.observations[i]));
        median(&of.collect::<Vec<_>>())
    };
    let suspect = tied.remove(first_named(fabric, &tied));
    Finding {
        suspect,
        or: tied,
        paths: fault.lowered.len(),
        expected: rates(&|o| o.expected),
        measured: rates(&|o| o.measured),
    }
}

/// Which of several components to name first: the smallest that contains, or is contained in, every other, so that the
/// fault is at it wherever it is; without such a component the most specific one.
fn first_named(fabric: &Fabric, tied: &[Suspect]) -> usize {
    let related = |a: Component, b: Component| a.contains(fabric, b) || b.contains(fabric, a);
    let common = |s: &Suspect| {
        tied.iter()
            .all(|other| related(s.component, other.component))
    };
    tied.iter().position(common).unwrap_or(0)
}

fn detectable(
    components: &BTreeMap<Component, Vec<usize>>,
    hypotheses: &[Hypothesis],
    inference: &Inference<'_>,
) -> Vec<Detectable> {
    let mut best = vec![0.0f64; components.len()];
    for (h, hypothesis) in hypotheses.iter().enumerate() {
        let at = &mut best[hypothesis.component];
        *at = at.max(inference.detectable(h).unwrap_or(0.0));
    }
    let of = |kind: &'static str| {
        let members = components.keys().zip(&best);
        let shares: Vec<f64> = members
            .filter(|(component, _)| component.kind() == kind)
            .map(|(_, &share)| share)
            .collect();
        let found = shares.iter().copied().filter(|&s| s > 0.0);
        (!shares.is_empty()).then(|| Detectable {
            kind,
            components: shares.len(),
            median: median(&shares),
            least: found.clone().fold(1.0, f64::min),
            never: shares.len() - found.count(),
        })
    };
    Component::KINDS.into_iter().filter_map(of).collect()
}
