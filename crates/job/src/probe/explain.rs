//! Finds the components that explain slow paths.
//!
//! Paths are measured from node to node; a route gives the components of a path. The expected rate of a class
//! is the median of the values near the upper quartile of its paths, so most of them may be slow. A
//! component explains slow paths if every path through it is slow. The component that explains
//! most paths is taken first; ties go to the most specific one.

use crate::statistics::{median, upper_quartile};
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId};
use std::collections::{BTreeMap, BTreeSet};

/// Default share below its class at which a path is slow.
pub const TOLERANCE: f64 = 0.15;
/// Deviations of a class's healthy half that count as noise.
const DEVIATIONS: f64 = 4.0;
/// Share of a class's upper quartile above which a path counts among the healthy.
const NEAR: f64 = 0.7;

/// A measured path.
#[derive(Clone, Debug)]
pub struct Path {
    /// Sender.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// Kind of link, exclusive or shared.
    pub class: (String, String),
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
    /// Expected rate in bytes per second.
    pub expected: f64,
    /// Threshold of slow paths.
    pub threshold: f64,
    /// The lowest rate.
    pub least: f64,
}

/// A component that can be slow, from the most specific to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// One direction of a link.
    Link(LinkId),
    /// Both directions of a link, the lower of the two.
    Cable(LinkId),
    /// A link between a node and its router, one direction.
    HostLink(LinkId),
    /// A node, sending and receiving.
    Host(NodeId),
    /// A router with everything that crosses it.
    Router(RouterId),
}

impl Component {
    /// Kind, as printed in reports.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Link(_) => "link",
            Self::Cable(_) => "cable",
            Self::HostLink(_) => "host link",
            Self::Host(_) => "host",
            Self::Router(_) => "router",
        }
    }

    /// Its name in the fabric.
    pub fn name(self, fabric: &Fabric) -> String {
        match self {
            Self::Link(l) | Self::Cable(l) | Self::HostLink(l) => fabric.link_name(l),
            Self::Host(n) => fabric.node(n).name.clone(),
            Self::Router(r) => fabric.router(r).name.clone(),
        }
    }
}

/// A component that explains slow paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The component.
    pub component: Component,
    /// Components with the same paths, which the measurements cannot distinguish.
    pub or: Vec<Component>,
    /// How many slow paths it explains.
    pub paths: usize,
    /// Median of the expected rates, in bytes per second.
    pub expected: f64,
    /// Median of the measured rates.
    pub measured: f64,
}

/// Findings.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Classes of paths, by name.
    pub classes: Vec<Class>,
    /// Components that explain slow paths, most paths first.
    pub findings: Vec<Finding>,
    /// Slow paths without an explanation: other paths through their components are healthy.
    pub unexplained: Vec<usize>,
}

/// Finds slow paths and the components that explain them. A path is slow below `1 - tolerance` of its class, or
/// below the noise of its class if that is wider. `expected` overrides the expected rate of a kind.
pub fn explain(
    fabric: &Fabric,
    paths: &[Path],
    tolerance: f64,
    expected: &BTreeMap<String, f64>,
) -> Findings {
    let classes = classes(paths, tolerance, expected);
    let class = |p: &Path| classes.iter().find(|c| c.name == p.class);
    let is_slow = |p: &Path| class(p).is_some_and(|c| p.rate < c.threshold);
    let mut left: BTreeSet<usize> = (0..paths.len()).filter(|&i| is_slow(&paths[i])).collect();
    let used = users(fabric, paths);
    let guilty: BTreeMap<Component, BTreeSet<usize>> = (used.into_iter())
        .filter(|(_, users)| users.iter().all(|i| left.contains(i)))
        .collect();
    let mut findings = Vec::new();
    loop {
        let gain = |users: &BTreeSet<usize>| users.intersection(&left).count();
        // Ties go to the most specific component: the set is ordered by specificity.
        let best = guilty.iter().rev().max_by_key(|(_, users)| gain(users));
        let Some((&component, users)) = best.filter(|(_, users)| gain(users) > 0) else {
            break;
        };
        let same = guilty
            .iter()
            .filter(|(c, u)| **c != component && *u == users);
        let rates = |f: &dyn Fn(&Path) -> f64| {
            median(&users.iter().map(|&i| f(&paths[i])).collect::<Vec<_>>())
        };
        findings.push(Finding {
            component,
            or: same.map(|(c, _)| *c).collect(),
            paths: users.len(),
            expected: rates(&|p| class(p).map_or(0.0, |c| c.expected)),
            measured: rates(&|p| p.rate),
        });
        left = left.difference(users).copied().collect();
    }
    Findings {
        classes,
        findings,
        unexplained: left.into_iter().collect(),
    }
}

/// The paths that use each component.
fn users(fabric: &Fabric, paths: &[Path]) -> BTreeMap<Component, BTreeSet<usize>> {
    let mut used: BTreeMap<Component, BTreeSet<usize>> = BTreeMap::new();
    for (i, path) in paths.iter().enumerate() {
        let mut add = |component| {
            used.entry(component).or_default().insert(i);
        };
        for &link in &path.route {
            let l = fabric.link(link);
            match (l.from, l.to) {
                (End::Router(a), End::Router(b)) => {
                    add(Component::Link(link));
                    if let Some(back) = fabric.reverse(link) {
                        add(Component::Cable(link.min(back)));
                    }
                    add(Component::Router(a));
                    add(Component::Router(b));
                }
                (End::Router(r), _) | (_, End::Router(r)) => {
                    add(Component::HostLink(link));
                    add(Component::Router(r));
                }
                _ => add(Component::HostLink(link)),
            }
        }
        add(Component::Host(path.from));
        add(Component::Host(path.to));
    }
    // A cable with one measured direction is that direction; likewise a host.
    let one = used.clone();
    used.retain(|component, users| match *component {
        Component::Cable(l) => {
            let ways = [Some(l), fabric.reverse(l)].into_iter().flatten();
            ways.filter(|&w| one.contains_key(&Component::Link(w)))
                .count()
                == 2
        }
        Component::Host(n) => {
            let from = users.iter().filter(|&&i| paths[i].from == n).count();
            from > 0 && from < users.len()
        }
        _ => true,
    });
    used
}

fn classes(paths: &[Path], tolerance: f64, expected: &BTreeMap<String, f64>) -> Vec<Class> {
    let mut rates: BTreeMap<&(String, String), Vec<f64>> = BTreeMap::new();
    for path in paths {
        rates.entry(&path.class).or_default().push(path.rate);
    }
    let of = |(name, mut rates): (&(String, String), Vec<f64>)| {
        // The upper quartile holds with up to three quarters of the paths slow. The median near it is robust against
        // the few that are faster because the partner on their shared link is slow.
        let quartile = upper_quartile(&mut rates);
        let healthy: Vec<f64> = (rates.iter().copied())
            .filter(|&r| r >= NEAR * quartile)
            .collect();
        let middle = median(&healthy);
        let expected = expected.get(&name.0).copied().unwrap_or(middle);
        let spread = 1.4826
            * median(
                &healthy
                    .iter()
                    .map(|r| (r - middle).abs())
                    .collect::<Vec<_>>(),
            );
        let margin =
            (tolerance * expected).max((DEVIATIONS * spread).min(2.0 * tolerance * expected));
        Class {
            name: name.clone(),
            paths: rates.len(),
            expected,
            threshold: expected - margin,
            least: rates[0],
        }
    };
    rates.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::random::Random;
    use hopbyte_fabric::{Routing, spec};

    /// Emulated topobw results: neighbours, nodes of a router together; 5 % of noise.
    fn measure(
        fabric: &Fabric,
        routing: &Routing,
        slow: &dyn Fn(LinkId) -> f64,
        random: &mut Random,
    ) -> Vec<Path> {
        let mut paths = Vec::new();
        for from in fabric.node_ids() {
            for to in fabric.node_ids().filter(|&to| to != from) {
                let mut route = Vec::new();
                routing.route(fabric, from, to, &mut route).unwrap();
                if route.len() > 3 {
                    continue;
                }
                let alone = route.len() == 2;
                let share = if alone {
                    1.0
                } else {
                    fabric.nodes_on(fabric.node(from).router).len() as f64
                };
                let narrowest = route
                    .iter()
                    .map(|&l| slow(l) / if fabric.is_hop(l) { share } else { 1.0 })
                    .fold(f64::MAX, f64::min);
                let kind = if alone { "same router" } else { "cable" };
                paths.push(Path {
                    from,
                    to,
                    class: (kind.into(), "shared".into()),
                    route,
                    rate: 6e6 * narrowest * (0.97 + 0.05 * random.unit()),
                });
            }
        }
        paths
    }

    /// Links that a faulty component slows.
    fn slowed(fabric: &Fabric, component: Component) -> Vec<LinkId> {
        let at = |end: End| match component {
            Component::Host(n) => end == End::Node(n),
            Component::Router(r) => end == End::Router(r),
            _ => false,
        };
        let hit = |&l: &LinkId| match component {
            Component::Link(one) | Component::HostLink(one) => l == one,
            Component::Cable(one) => l == one || Some(l) == fabric.reverse(one),
            _ => at(fabric.link(l).from) || at(fabric.link(l).to),
        };
        fabric.link_ids().filter(hit).collect()
    }

    #[test]
    fn exactly_the_broken_component_is_found() {
        let mut random = Random::new(7);
        let (mut tried, mut kinds) = (0, BTreeMap::new());
        for machine in [
            "torus:4x3:nodes=2",
            "torus:3x3x3:nodes=2",
            "mesh:3x4:nodes=2",
        ] {
            let m = spec::machine(machine).unwrap();
            let (f, r) = (&m.fabric, &m.routing);
            let healthy = measure(f, r, &|_| 1.0, &mut random);
            let none = explain(f, &healthy, 0.15, &BTreeMap::new());
            assert!(
                none.findings.is_empty() && none.unexplained.is_empty(),
                "{machine}"
            );
            let all: Vec<Component> = users(f, &healthy).into_keys().collect();
            for round in 0..60 {
                let broken = all[random.below(all.len())];
                let factor = [0.2, 1.0 / 3.0, 0.5][round % 3];
                let hit = slowed(f, broken);
                let paths = measure(
                    f,
                    r,
                    &|l| if hit.contains(&l) { factor } else { 1.0 },
                    &mut random,
                );
                let found = explain(f, &paths, 0.15, &BTreeMap::new());
                // A host link at half the rate of a link that two nodes share is no bottleneck there;
                // only paths to or from the partner show the fault.
                let named: Vec<Component> = found.findings.iter().map(|x| x.component).collect();
                if factor >= 0.5 && matches!(broken, Component::HostLink(_) | Component::Host(_)) {
                    assert!(
                        named
                            .iter()
                            .all(|c| matches!(c, Component::HostLink(_) | Component::Host(_)))
                    );
                    continue;
                }
                assert_eq!(
                    named,
                    [broken],
                    "{machine} {factor} {:?}",
                    found.unexplained
                );
                assert!(found.unexplained.is_empty());
                assert!((found.findings[0].measured / found.findings[0].expected) < 0.8);
                *kinds.entry(broken.kind()).or_insert(0) += 1;
                tried += 1;
            }
        }
        assert!(tried >= 100 && kinds.len() == 5, "{tried} {kinds:?}");
    }

    #[test]
    fn two_faults_are_two_findings() {
        let m = spec::machine("torus:4x4:nodes=2").unwrap();
        let (f, r) = (&m.fabric, &m.routing);
        let mut random = Random::new(3);
        let (a, b) = (Component::Router(RouterId(5)), Component::Host(NodeId(0)));
        let hit = [slowed(f, a), slowed(f, b)].concat();
        let paths = measure(
            f,
            r,
            &|l| if hit.contains(&l) { 0.2 } else { 1.0 },
            &mut random,
        );
        let found = explain(f, &paths, 0.15, &BTreeMap::new());
        let named: Vec<Component> = found.findings.iter().map(|x| x.component).collect();
        assert_eq!(named, [a, b]);
    }

    #[test]
    fn what_cannot_be_told_apart_is_said() {
        let m = spec::machine("torus:4x4").unwrap();
        let mut random = Random::new(5);
        let hit = slowed(&m.fabric, Component::Router(RouterId(3)));
        let slow = |l: LinkId| if hit.contains(&l) { 0.2 } else { 1.0 };
        let paths = measure(&m.fabric, &m.routing, &slow, &mut random);
        let found = explain(&m.fabric, &paths, 0.15, &BTreeMap::new());
        assert_eq!(found.findings.len(), 1);
        assert_eq!(found.findings[0].component, Component::Host(NodeId(3)));
        assert_eq!(found.findings[0].or, [Component::Router(RouterId(3))]);
    }
}
