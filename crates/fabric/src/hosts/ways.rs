//! Routes inside a unit, computed once for every kind.

use super::inside::NO;
use super::{HostKind, InnerLink, Local};
use std::collections::{BTreeMap, HashMap, VecDeque};

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
        let graph = Graph::of(kind, |_| true);
        // To a port over PCIe alone where it leads there: links between GPUs are for bytes between GPUs.
        let aside = Graph::of(kind, |link| !link.joins_gpus());
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
        let place_at = |q: usize| graph.vertex(kind.places[q]);
        let to_ports: Vec<Vec<Option<Vec<u16>>>> = (0..kind.places.len())
            .map(|place| aside.from(place_at(place)))
            .zip(&from_place)
            .map(|(aside, whole)| preferred(aside, whole))
            .collect();
        let to_places: Vec<Vec<Option<Vec<u16>>>> = (0..kind.ports.len() as u16)
            .map(|port| aside.from(port_at(port)))
            .zip(&from_port)
            .map(|(aside, whole)| preferred(aside, whole))
            .collect();
        let near = nearest(&host, &ports, |place, port| {
            to_ports[place][port_at(port)].as_ref().map(Vec::len)
        });
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
            let direct = &to_ports[place][port_at(port)];
            let on = kind.ports[usize::from(port)];
            if on != host[place] {
                return None;
            }
            let by = relay(on, port, place).filter(|_| near[place] != port);
            match by {
                Some(q) if width(&from_place[place][place_at(q)]) > width(direct) => {
                    join(&from_place[place][place_at(q)], &to_ports[q][port_at(port)])
                }
                _ => direct.clone(),
            }
        };
        let into = |port: u16, place: usize| {
            let direct = &to_places[usize::from(port)][place_at(place)];
            let on = kind.ports[usize::from(port)];
            if on != host[place] {
                return None;
            }
            let by = relay(on, port, place).filter(|_| near[place] != port);
            match by {
                Some(q) if width(&from_place[q][place_at(place)]) > width(direct) => join(
                    &to_places[usize::from(port)][place_at(q)],
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

/// Ways of the first list, completed by those of the second.
fn preferred(first: Vec<Option<Vec<u16>>>, second: &[Option<Vec<u16>>]) -> Vec<Option<Vec<u16>>> {
    let both = first.into_iter().zip(second);
    both.map(|(a, b)| a.or_else(|| b.clone())).collect()
}

/// The nearest port of every place by number of links; places at the same distance from several ports share these.
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
    let mut near = vec![NO; host.len()];
    let mut contested = Vec::new();
    for (place, ties) in all.iter().enumerate() {
        let meets = |q: &usize| all[*q] != *ties && all[*q].iter().any(|p| ties.contains(p));
        if (0..host.len()).any(|q| meets(&q)) {
            contested.push(place);
            continue;
        }
        // In blocks, in their order.
        let alike: Vec<usize> = (0..host.len()).filter(|&q| all[q] == *ties).collect();
        let at = alike.iter().position(|&q| q == place).unwrap_or(0);
        if let Some(&port) = ties.get(at * ties.len() / alike.len().max(1)) {
            near[place] = port;
        }
    }
    dealt(&all, &contested, &mut near);
    near
}

/// Deals ports to places whose choices overlap: no port is used twice as long as exchanges can leave it at once.
fn dealt(choices: &[Vec<u16>], places: &[usize], near: &mut [u16]) {
    let mut users: HashMap<u16, Vec<usize>> = HashMap::new();
    let mut open: Vec<usize> = places.to_vec();
    open.sort_by_key(|&p| choices[p].len());
    let mut room = 0;
    while !open.is_empty() {
        room += 1;
        open.retain(|&place| !seat(place, choices, room, &mut users, &mut Vec::new()));
    }
    // Of places with the same choice the first take the first ports.
    let mut alike: BTreeMap<&[u16], (Vec<usize>, Vec<u16>)> = BTreeMap::new();
    let mut seated: Vec<(usize, u16)> = users
        .iter()
        .flat_map(|(&port, of)| of.iter().map(move |&place| (place, port)))
        .collect();
    seated.sort_unstable();
    for (place, port) in seated {
        let group = alike.entry(&choices[place]).or_default();
        group.0.push(place);
        group.1.push(port);
    }
    for (places, mut ports) in alike.into_values() {
        ports.sort_unstable();
        for (place, port) in places.into_iter().zip(ports) {
            near[place] = port;
        }
    }
}

/// Seats a place at one of its ports with at most `room` users each, moving others to further ports if need be.
fn seat(
    place: usize,
    choices: &[Vec<u16>],
    room: usize,
    users: &mut HashMap<u16, Vec<usize>>,
    tried: &mut Vec<u16>,
) -> bool {
    for &port in &choices[place] {
        if users.entry(port).or_default().len() < room {
            users.entry(port).or_default().push(place);
            return true;
        }
    }
    for &port in &choices[place] {
        if tried.contains(&port) {
            continue;
        }
        tried.push(port);
        for at in 0..users[&port].len() {
            let other = users[&port][at];
            if seat(other, choices, room, users, tried) {
                if let Some(own) = users.get_mut(&port) {
                    own[at] = place;
                }
                return true;
            }
        }
    }
    false
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
    /// The graph of those links that `counts` holds for.
    fn of(kind: &'a HostKind, counts: impl Fn(&InnerLink) -> bool) -> Self {
        let ends = kind.ports.len() + kind.own.len();
        let mut graph = Self {
            kind,
            out: vec![Vec::new(); ends + kind.routers.len()],
            widths: kind.links.iter().map(|l| l.capacity_bytes_per_s).collect(),
            routers: ends,
        };
        graph.widths.sort_by(|a, b| b.total_cmp(a));
        graph.widths.dedup();
        let counted = kind.links.iter().enumerate();
        for (i, link) in counted.filter(|l| counts(l.1)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ports_of(near: &[&[u16]]) -> Vec<u16> {
        let ports: Vec<u16> = (0..8).collect();
        let length = |place: usize, port: u16| Some(usize::from(!near[place].contains(&port)));
        nearest(&vec![0; near.len()], &[ports], length)
    }

    #[test]
    fn ports_at_one_distance_are_dealt() {
        // Equal choices in blocks.
        assert_eq!(
            ports_of(&[&[0, 1], &[0, 1], &[0, 1], &[0, 1]]),
            [0, 0, 1, 1]
        );
        assert_eq!(ports_of(&[&[0, 1, 2, 3], &[0, 1, 2, 3]]), [0, 2]);
        // Overlapping ones: every port once before one is used twice.
        assert_eq!(ports_of(&[&[0, 1], &[0], &[2, 3], &[2]]), [1, 0, 3, 2]);
        assert_eq!(
            ports_of(&[&[0, 1], &[0, 2], &[2, 3], &[0, 3]])
                .iter()
                .sum::<u16>(),
            6
        );
        assert_eq!(ports_of(&[&[0, 1], &[0, 1], &[0, 1], &[0]]), [0, 1, 1, 0]);
    }
}
