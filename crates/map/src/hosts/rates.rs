//! Rates of places from their routes: what one pair, and one place, can send at most.
//!
//! The bytes of a place cross the links that all its routes share, as that of a GPU to its adapter, whatever its partners.
//! Units of a kind have the same routes, so that two units stand for all; capacities are the highest of the allocation.

use crate::problem::Problem;
use hopbyte_fabric::hosts::Inside;
use hopbyte_fabric::{LinkId, NodeId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of places of the units that stand for all.
const MOST_PLACES: usize = 256;

/// Highest rates by routes, bytes per second; infinite where routes say nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// Between two places of different units.
    pub(super) pair: f64,
    /// Between two places of one unit.
    pub(super) inner_pair: f64,
    /// Out of one place, and into it: to all places of its unit, and to all others.
    pub(super) inner: [f64; 2],
    pub(super) outer: [f64; 2],
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            pair: f64::INFINITY,
            inner_pair: f64::INFINITY,
            inner: [f64::INFINITY; 2],
            outer: [f64::INFINITY; 2],
        }
    }
}

/// The links of one end of a route with the share of its bytes on each.
type Half = Vec<(LinkId, f64)>;

struct Routes<'a> {
    problem: &'a Problem<'a>,
    inside: &'a Inside,
    /// Highest capacity of the endpoints of equal number, out and in, of the units that stand for all.
    ports: HashMap<NodeId, [f64; 2]>,
}

impl Routes<'_> {
    fn capacity(&self, link: LinkId, port: Option<f64>) -> f64 {
        port.unwrap_or_else(|| self.problem.fabric.link(link).nominal.0)
    }

    /// Both halves of a route, the rate of the bytes on it, and whether it stays inside.
    fn route(&self, from: NodeId, to: NodeId) -> ([Half; 2], f64, bool) {
        let fabric = self.problem.fabric;
        let mut halves: [Half; 2] = Default::default();
        let mut known: HashMap<LinkId, f64> = HashMap::new();
        let mut joined = false;
        let add =
            |half: &mut Half, link: LinkId, share: f64| match half.iter_mut().find(|h| h.0 == link)
            {
                Some(own) => own.1 += share,
                None => half.push((link, share)),
            };
        self.inside.legs(from, to, |leg| {
            let [out, into] = &mut halves;
            leg.out.iter().for_each(|l| add(out, l, leg.share));
            leg.into.iter().for_each(|l| add(into, l, leg.share));
            match leg.ports {
                None => {
                    joined = true;
                    leg.out.iter().for_each(|l| add(into, l, leg.share));
                }
                Some((a, b)) => {
                    let (a_out, b_in) = (fabric.node(a).inject, fabric.node(b).eject);
                    let ports = |port: NodeId, i: usize| self.ports.get(&port).map(|p| p[i]);
                    known.insert(a_out, self.capacity(a_out, ports(a, 0)));
                    known.insert(b_in, self.capacity(b_in, ports(b, 1)));
                    add(out, a_out, leg.share);
                    add(into, b_in, leg.share);
                }
            }
        });
        let time = |&(link, share): &(LinkId, f64)| {
            let capacity = known.get(&link).copied();
            share / capacity.unwrap_or_else(|| self.capacity(link, None))
        };
        let slowest = halves.iter().flatten().map(time).fold(0.0, f64::max);
        // As times of a byte, so that they can be compared without capacities.
        for half in &mut halves {
            half.iter_mut().for_each(|h| h.1 = time(&*h));
        }
        (halves, 1.0 / slowest, joined)
    }
}

/// The time of a byte on the links that all routes of a place have, the least of these routes.
#[derive(Default)]
struct Shared {
    routes: usize,
    links: HashMap<LinkId, (usize, f64)>,
}

impl Shared {
    fn add(&mut self, half: &Half) {
        self.routes += 1;
        for &(link, time) in half {
            let own = self.links.entry(link).or_insert((0, f64::INFINITY));
            *own = (own.0 + 1, own.1.min(time));
        }
    }

    /// Rate of the place; infinite without a link that all routes have.
    fn rate(&self) -> f64 {
        let common = self.links.values().filter(|l| l.0 == self.routes);
        1.0 / common.map(|l| l.1).fold(0.0, f64::max)
    }
}

/// The rates of a problem's places.
pub(super) fn reach(problem: &Problem<'_>) -> Reach {
    let Some(inside) = problem.fabric.inside() else {
        return Reach::default();
    };
    let units: Vec<_> = inside.units().collect();
    let mut of_kind: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for &(node, _) in problem.allocation.nodes() {
        match inside.unit_of(node) {
            Some(unit) => of_kind
                .entry(units[unit as usize].kind)
                .or_default()
                .insert(unit),
            None => return Reach::default(),
        };
    }
    let mut routes = Routes {
        problem,
        inside,
        ports: HashMap::new(),
    };
    let places = |unit: u32| -> Vec<NodeId> { inside.places_of(unit).map(|p| p.0).collect() };
    // Places of two units of every kind.
    let mut sides: Vec<[Vec<NodeId>; 2]> = Vec::new();
    for all in of_kind.values() {
        let two: Vec<u32> = all.iter().copied().take(2).collect();
        for &unit in &two {
            for (number, &port) in inside.ports_of(unit).iter().enumerate() {
                let rates = all.iter().map(|&other| {
                    let ends = problem.fabric.node(inside.ports_of(other)[number]);
                    [ends.inject, ends.eject].map(|l| problem.live_capacity(l))
                });
                let most = |a: [f64; 2], b: [f64; 2]| [a[0].max(b[0]), a[1].max(b[1])];
                routes.ports.insert(port, rates.fold([0.0; 2], most));
            }
        }
        sides.push([
            places(two[0]),
            two.get(1).map(|&u| places(u)).unwrap_or_default(),
        ]);
    }
    if sides.iter().map(|s| s[0].len()).sum::<usize>() > MOST_PLACES {
        return Reach::default();
    }
    let mut found = Reach {
        pair: 0.0,
        inner_pair: 0.0,
        inner: [0.0; 2],
        outer: [0.0; 2],
    };
    for (kind, own) in sides.iter().enumerate() {
        for &place in &own[0] {
            // By direction: inside, and beyond.
            let mut shared: [[Shared; 2]; 2] = Default::default();
            for (other, others) in sides.iter().enumerate() {
                let beyond = &others[usize::from(other == kind)];
                let near = if other == kind { &own[0][..] } else { &[] };
                let near = near.iter().filter(|&&q| q != place);
                for (&partner, apart) in near
                    .map(|q| (q, false))
                    .chain(beyond.iter().map(|q| (q, true)))
                {
                    let (halves, rate, joined) = routes.route(place, partner);
                    if !apart && !joined {
                        continue;
                    }
                    let most = if apart {
                        &mut found.pair
                    } else {
                        &mut found.inner_pair
                    };
                    *most = most.max(rate);
                    shared[0][usize::from(apart)].add(&halves[0]);
                    let (halves, ..) = routes.route(partner, place);
                    shared[1][usize::from(apart)].add(&halves[1]);
                }
            }
            for (direction, [inner, outer]) in shared.iter().enumerate() {
                let raise = |most: &mut f64, of: &Shared| {
                    *most = most.max(if of.routes > 0 { of.rate() } else { 0.0 });
                };
                raise(&mut found.inner[direction], inner);
                raise(&mut found.outer[direction], outer);
            }
        }
    }
    // One unit: nothing is known of bytes beyond it.
    for rate in [&mut found.pair].into_iter().chain(&mut found.outer) {
        *rate = if *rate > 0.0 { *rate } else { f64::INFINITY };
    }
    found
}
