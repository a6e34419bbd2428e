//! The parts of a route between two nodes: inside, through the network, inside.

use super::PortRule;
use super::inside::{Inside, NO, NONE, Unit};
use super::ways::Ways;
use crate::ids::{LinkId, NodeId};

/// Links inside one unit, in order.
#[derive(Clone, Copy, Debug)]
pub struct InnerLinks<'a> {
    unit: Option<&'a Unit>,
    numbers: &'a [u16],
}

impl InnerLinks<'_> {
    const NONE: InnerLinks<'static> = InnerLinks {
        unit: None,
        numbers: &[],
    };

    /// The links.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = LinkId> + '_ {
        let unit = self.unit;
        self.numbers
            .iter()
            .filter_map(move |&n| unit.map(|u| u.link(n)))
    }
}

/// A route, or a part of the bytes on it.
#[derive(Clone, Copy, Debug)]
pub struct Leg<'a> {
    /// Share of the bytes.
    pub share: f64,
    /// Links inside the source's unit.
    pub out: InnerLinks<'a>,
    /// Endpoints of the network at which bytes leave and arrive; `None` for a route inside a unit.
    pub ports: Option<(NodeId, NodeId)>,
    /// Links inside the target's unit.
    pub into: InnerLinks<'a>,
}

/// One end of a route: the way between a place and each port of its host.
struct Stop<'a> {
    unit: &'a Unit,
    ways: &'a Ways,
    place: usize,
}

impl<'a> Stop<'a> {
    /// Ports of the place's host.
    fn ports(&self) -> &'a [u16] {
        &self.ways.ports[usize::from(self.ways.host[self.place])]
    }

    fn near(&self) -> u16 {
        self.ways.near(self.place)
    }

    fn rail(&self) -> Option<u16> {
        self.unit.rails.get(usize::from(self.near())).copied()
    }

    /// The port of a rail.
    fn port_of(&self, rail: u16) -> Option<u16> {
        let mut ports = self.ports().iter().copied();
        ports.find(|&p| self.unit.rails[usize::from(p)] == rail)
    }

    /// Whether the place has a way to a port.
    fn leads(&self, port: u16) -> bool {
        self.ways.out.get(self.place, usize::from(port)).is_some()
    }

    /// The port by which the `number`-th part of striped bytes arrives.
    fn arrival(&self, number: usize) -> u16 {
        let port = self.ports()[number % self.ports().len()];
        match self.ways.into.get(usize::from(port), self.place) {
            Some(_) => port,
            None => self.near(),
        }
    }

    fn out(&self, port: u16) -> (NodeId, InnerLinks<'a>) {
        let way = self.ways.out.get(self.place, usize::from(port));
        (self.unit.spec.ports[usize::from(port)], self.links(way))
    }

    fn into(&self, port: u16) -> (NodeId, InnerLinks<'a>) {
        let way = self.ways.into.get(usize::from(port), self.place);
        (self.unit.spec.ports[usize::from(port)], self.links(way))
    }

    fn links(&self, way: Option<&'a [u16]>) -> InnerLinks<'a> {
        InnerLinks {
            unit: Some(self.unit),
            numbers: way.unwrap_or_default(),
        }
    }
}

impl Inside {
    /// Calls `each` for every part of the route between two different nodes. Shares sum to 1.
    #[inline]
    pub fn legs<'a>(&'a self, from: NodeId, to: NodeId, mut each: impl FnMut(Leg<'a>)) {
        let (source, target) = (self.seats[from.index()], self.seats[to.index()]);
        if source.unit == target.unit
            && source.unit != NONE
            && source.place != NO
            && target.place != NO
        {
            let unit = &self.units[source.unit as usize];
            let ways = &self.kinds[unit.spec.kind as usize].1;
            let way = ways
                .between
                .get(usize::from(source.place), usize::from(target.place));
            if let Some(numbers) = way {
                let unit = Some(unit);
                let out = InnerLinks { unit, numbers };
                return each(Leg {
                    share: 1.0,
                    out,
                    ports: None,
                    into: InnerLinks::NONE,
                });
            }
        }
        let (source, target) = (self.stop(from), self.stop(to));
        let mut leg = |share: f64, out: Option<u16>, into: Option<u16>| {
            let (first, out) = match (&source, out) {
                (Some(stop), Some(port)) => stop.out(port),
                _ => (from, InnerLinks::NONE),
            };
            let (last, into) = match (&target, into) {
                (Some(stop), Some(port)) => stop.into(port),
                _ => (to, InnerLinks::NONE),
            };
            each(Leg {
                share,
                out,
                ports: Some((first, last)),
                into,
            });
        };
        let arrives = target.as_ref().map(Stop::near);
        let Some(own) = &source else {
            return leg(1.0, None, arrives);
        };
        match (self.rule, &target) {
            (PortRule::Striped, _) => {
                let leaves = |p: &&u16| own.leads(**p);
                let count = own.ports().iter().filter(leaves).count();
                for (j, &port) in own.ports().iter().filter(leaves).enumerate() {
                    let into = target.as_ref().map(|far| far.arrival(j));
                    leg(1.0 / count as f64, Some(port), into);
                }
            }
            (PortRule::Rail, Some(far)) => {
                let same = far.rail().and_then(|r| own.port_of(r));
                let port = same.filter(|&p| own.leads(p)).unwrap_or(own.near());
                leg(1.0, Some(port), arrives);
            }
            _ => leg(1.0, Some(own.near()), arrives),
        }
    }

    /// A node as an end of a route; `None` if it is an endpoint of the network itself.
    fn stop(&self, node: NodeId) -> Option<Stop<'_>> {
        let seat = self.seats[node.index()];
        if seat.unit == NONE || seat.place == NO {
            return None;
        }
        let unit = &self.units[seat.unit as usize];
        let ways = &self.kinds[unit.spec.kind as usize].1;
        let place = usize::from(seat.place);
        (ways.near(place) != NO).then_some(Stop { unit, ways, place })
    }
}
