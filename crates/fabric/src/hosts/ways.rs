//! Routes inside a unit, computed once for every kind.

use super::inside::NO;
use super::{HostKind, Local};
use std::collections::VecDeque;

/// Lists of link numbers, one for every pair of ends; a pair without a route has none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lists {
    columns: usize,
    offsets: Vec<u32>,
    links: Vec<u16>,
    routed: Vec<bool>,
}

impl Lists {
    fn of(columns: usize, lists: impl Iterator<Item = Option<Vec<u16>>>) -> Self {
        let mut all = Self {
            columns,
            offsets: vec![0],
            links: Vec::new(),
            routed: Vec::new(),
        };
        for list in lists {
            all.routed.push(list.is_some());
            all.links.extend(list.into_iter().flatten());
            all.offsets.push(all.links.len() as u32);
        }
        all
    }

    /// The route of a pair.
    #[inline]
    pub(crate) fn get(&self, row: usize, column: usize) -> Option<&[u16]> {
        let at = row * self.columns + column;
        let range = self.offsets[at] as usize..self.offsets[at + 1] as usize;
        self.routed[at].then(|| &self.links[range])
    }
}

/// Routes of a kind of unit.
///
/// A route takes the widest way, of several the shortest, and passes through routers only: a GPU forwards nothing,
/// except to the port of another rail.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ways {
    /// Place to place.
    pub(crate) between: Lists,
    /// Place to port of its host.
    pub(crate) out: Lists,
    /// Port to place of its host.
    pub(crate) into: Lists,
    /// Nearest port of each place; [`NO`] without one.
    near: Vec<u16>,
    /// Ports of every host.
    pub(crate) ports: Vec<Vec<u16>>,
    /// Host of every place.
    pub(crate) host: Vec<u16>,
}

impl Ways {
    /// Nearest port of a place.
    #[inline]
    pub(crate) fn near(&self, place: usize) -> u16 {
        self.near[place]
    }

    /// Computes the routes of a kind that was checked.
    pub(crate) fn of(kind: &HostKind) -> Self {
        let graph = Graph::of(kind);
        let host: Vec<u16> = kind
            .places
            .iter()
            .map(|&p| kind.host_of(p).unwrap_or(0))
            .collect();
        let mut ports = vec![Vec::new(); usize::from(kind.hosts)];
        for (port, &on) in kind.ports.iter().enumerate() {
            ports[usize::from(on)].push(port as u16);
        }
        let sources = kind.places.iter().map(|&p| graph.from(graph.vertex(p)));
        let from_place: Vec<Vec<Option<Vec<u16>>>> = sources.collect();
        let from_port: Vec<Vec<Option<Vec<u16>>>> = (0..kind.ports.len())
            .map(|p| graph.from(graph.vertex(Local::Port(p as u16))))
            .collect();
        let port_at = |p: u16| graph.vertex(Local::Port(p));
        let near = nearest(&host, &ports, |place, port| {
            from_place[place][port_at(port)].as_ref().map(Vec::len)
        });
        let place_at = |q: usize| graph.vertex(kind.places[q]);
        let count = kind.places.len();
        let width = |way: &Option<Vec<u16>>| way.as_ref().map_or(0.0, |w| graph.width(w));
        // By the place of that rail if the way to it is wider than to the port itself.
        let relay = |host_of: u16, port: u16, place: usize| {
            (0..count).find(|&q| q != place && host[q] == host_of && near[q] == port)
        };
        let join = |a: &Option<Vec<u16>>, b: &Option<Vec<u16>>| {
            Some([a.as_ref()?.as_slice(), b.as_ref()?.as_slice()].concat())
        };
        let out = |place: usize, port: u16| {
            let direct = &from_place[place][port_at(port)];
            let on = kind.ports[usize::from(port)];
            if on != host[place] {
                return None;
            }
            let by = relay(on, port, place).filter(|_| near[place] != port);
            match by {
                Some(q) if width(&from_place[place][place_at(q)]) > width(direct) => join(
                    &from_place[place][place_at(q)],
                    &from_place[q][port_at(port)],
                ),
                _ => direct.clone(),
            }
        };
        let into = |port: u16, place: usize| {
            let direct = &from_port[usize::from(port)][place_at(place)];
            let on = kind.ports[usize::from(port)];
            if on != host[place] {
                return None;
            }
            let by = relay(on, port, place).filter(|_| near[place] != port);
            match by {
                Some(q) if width(&from_place[q][place_at(place)]) > width(direct) => join(
                    &from_port[usize::from(port)][place_at(q)],
                    &from_place[q][place_at(place)],
                ),
                _ => direct.clone(),
            }
        };
        let all_ports = 0..kind.ports.len() as u16;
        Self {
            between: Lists::of(
                count,
                (0..count * count).map(|i| from_place[i / count][place_at(i % count)].clone()),
            ),
            out: Lists::of(
                kind.ports.len(),
                (0..count)
                    .flat_map(|q| all_ports.clone().map(move |p| (q, p)))
                    .map(|(q, p)| out(q, p)),
            ),
            into: Lists::of(
                count,
                all_ports
                    .clone()
                    .flat_map(|p| (0..count).map(move |q| (p, q)))
                    .map(|(p, q)| into(p, q)),
            ),
            near,
            ports,
            host,
        }
    }
}

/// The nearest port of every place by number of links; places at the same distance from several ports take them in
/// blocks, in their order.
fn nearest(
    host: &[u16],
    ports: &[Vec<u16>],
    length: impl Fn(usize, u16) -> Option<usize>,
) -> Vec<u16> {
    let ties = |place: usize| -> Vec<u16> {
        let own = &ports[usize::from(host[place])];
        let least = own.iter().filter_map(|&p| length(place, p)).min();
        let is_near = |p: &u16| least.is_some() && length(place, *p) == least;
        own.iter().copied().filter(is_near).collect()
    };
    let all: Vec<Vec<u16>> = (0..host.len()).map(ties).collect();
    let same = |a: usize, b: usize| host[a] == host[b] && all[a] == all[b];
    (0..host.len())
        .map(|place| {
            let ties = &all[place];
            let alike: Vec<usize> = (0..host.len()).filter(|&q| same(q, place)).collect();
            let at = alike.iter().position(|&q| q == place).unwrap_or(0);
            ties.get(at * ties.len() / alike.len().max(1))
                .copied()
                .unwrap_or(NO)
        })
        .collect()
}

/// The inner links by sending end.
struct Graph<'a> {
    kind: &'a HostKind,
    out: Vec<Vec<(u16, usize)>>,
    /// Distinct capacities, the highest first.
    widths: Vec<f64>,
    /// First vertex of a router.
    routers: usize,
}

impl<'a> Graph<'a> {
    fn of(kind: &'a HostKind) -> Self {
        let ends = kind.ports.len() + kind.own.len();
        let mut graph = Self {
            kind,
            out: vec![Vec::new(); ends + kind.routers.len()],
            widths: kind.links.iter().map(|l| l.capacity_bytes_per_s).collect(),
            routers: ends,
        };
        graph.widths.sort_by(|a, b| b.total_cmp(a));
        graph.widths.dedup();
        for (i, link) in kind.links.iter().enumerate() {
            let (from, to) = (graph.vertex(link.from), graph.vertex(link.to));
            graph.out[from].push((i as u16, to));
        }
        graph
    }

    fn vertex(&self, end: Local) -> usize {
        match end {
            Local::Port(p) => usize::from(p),
            Local::Place(p) => self.kind.ports.len() + usize::from(p),
            Local::Router(r) => self.kind.ports.len() + self.kind.own.len() + usize::from(r),
        }
    }

    fn width(&self, way: &[u16]) -> f64 {
        let capacity = |&l: &u16| self.kind.links[usize::from(l)].capacity_bytes_per_s;
        way.iter().map(capacity).fold(f64::INFINITY, f64::min)
    }

    /// Routes from a vertex to every vertex: breadth first over ever narrower links.
    fn from(&self, source: usize) -> Vec<Option<Vec<u16>>> {
        let mut ways: Vec<Option<Vec<u16>>> = vec![None; self.out.len()];
        ways[source] = Some(Vec::new());
        for &width in &self.widths {
            let mut before: Vec<Option<(u16, usize)>> = vec![None; self.out.len()];
            let mut queue = VecDeque::from([source]);
            while let Some(at) = queue.pop_front() {
                for &(link, to) in &self.out[at] {
                    let capacity = self.kind.links[usize::from(link)].capacity_bytes_per_s;
                    if capacity < width || to == source || before[to].is_some() {
                        continue;
                    }
                    before[to] = Some((link, at));
                    if to >= self.routers {
                        queue.push_back(to);
                    }
                }
            }
            for target in 0..self.out.len() {
                if ways[target].is_some() || before[target].is_none() {
                    continue;
                }
                let mut way = Vec::new();
                let mut at = target;
                while let Some((link, previous)) = before[at] {
                    way.push(link);
                    at = previous;
                }
                way.reverse();
                ways[target] = Some(way);
            }
        }
        ways
    }
}
