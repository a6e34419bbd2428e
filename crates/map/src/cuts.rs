//! Bounds from parts of a machine that hold for any placement: cuts between parts, and distances around a router.
//!
//! A part holds a known number of tasks and is left over links of known capacity, so the bytes that must cross between
//! parts of such sizes take a time on some of these links. And around any router only so many slots are so near, so a task
//! with more partners sends some of its bytes further.

use crate::evaluate::is_network;
use crate::graph::Graph;
use crate::groups::of_routers;
use crate::problem::Problem;
use hopbyte_fabric::{End, Fabric, RouterId};

/// Maximum links times splits that are counted.
const MOST_WORK: usize = 1 << 25;

/// Slots of the allocated parts of a split of the routers, and the capacity of the links between its parts.
pub(crate) struct Split {
    pub(crate) rooms: Vec<usize>,
    /// Bytes per second over the links out of allocated parts, or into them: the smaller one.
    pub(crate) capacity: f64,
}

/// Splits of a machine into groups, pods and boxes.
pub(crate) fn splits(problem: &Problem<'_>) -> Vec<Split> {
    let fabric = problem.fabric;
    let mut all: Vec<Vec<u32>> = Vec::new();
    all.extend(of_routers(fabric));
    all.extend(pods(fabric));
    let boxes = boxes(fabric);
    if boxes.len() * fabric.links().len() <= MOST_WORK {
        all.extend(boxes);
    }
    all.iter().map(|part| split(problem, part)).collect()
}

fn split(problem: &Problem<'_>, part: &[u32]) -> Split {
    let fabric = problem.fabric;
    let parts = part.iter().filter(|&&p| p != u32::MAX).max();
    let mut rooms = vec![0; parts.map_or(0, |&p| p as usize + 1)];
    for &(node, slots) in problem.allocation.nodes() {
        if let Some(room) = rooms.get_mut(part[fabric.node(node).router.index()] as usize) {
            *room += slots as usize;
        }
    }
    let (mut out, mut into) = (0.0, 0.0);
    for link in fabric.link_ids().filter(|&l| is_network(problem, l)) {
        let (End::Router(from), End::Router(to)) = (fabric.link(link).from, fabric.link(link).to)
        else {
            continue;
        };
        let (from, to) = (part[from.index()], part[to.index()]);
        if from == to {
            continue;
        }
        let taken = |p: u32| rooms.get(p as usize).is_some_and(|&room| room > 0);
        let capacity = problem.live_capacity(link);
        out += if taken(from) { capacity } else { 0.0 };
        into += if taken(to) { capacity } else { 0.0 };
    }
    rooms.retain(|&room| room > 0);
    Split {
        rooms,
        capacity: f64::min(out, into),
    }
}

/// Parts that only the switches farthest from hosts join; those switches have none. `None` if all switches have hosts.
fn pods(fabric: &Fabric) -> Option<Vec<u32>> {
    let routers = fabric.routers().len();
    let mut level = vec![u32::MAX; routers];
    let mut order: Vec<RouterId> = fabric
        .router_ids()
        .filter(|&r| !fabric.nodes_on(r).is_empty())
        .collect();
    for r in &order {
        level[r.index()] = 0;
    }
    let mut at = 0;
    while let Some(&router) = order.get(at) {
        at += 1;
        for to in neighbours(fabric, router) {
            if level[to.index()] == u32::MAX {
                level[to.index()] = level[router.index()] + 1;
                order.push(to);
            }
        }
    }
    let top = level.iter().copied().filter(|&l| l != u32::MAX).max()?;
    if top == 0 {
        return None;
    }
    let mut part = vec![u32::MAX; routers];
    let mut count = 0;
    for first in fabric.router_ids() {
        if level[first.index()] >= top || part[first.index()] != u32::MAX {
            continue;
        }
        part[first.index()] = count;
        let mut found = vec![first];
        while let Some(router) = found.pop() {
            for to in neighbours(fabric, router) {
                if level[to.index()] < top && part[to.index()] == u32::MAX {
                    part[to.index()] = count;
                    found.push(to);
                }
            }
        }
        count += 1;
    }
    Some(part)
}

/// Halves, quarters and so on of a grid along any of its dimensions, from two corners.
fn boxes(fabric: &Fabric) -> Vec<Vec<u32>> {
    let Some(shape) = fabric.shape() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for chosen in 1u32..1 << shape.dims.len() {
        for turn in [0, 1] {
            let part = |router: RouterId| -> Option<u32> {
                let coord = fabric.coord(router)?;
                let sizes = shape.dims.iter().zip(coord).enumerate();
                let halves = sizes.filter(|(d, _)| chosen >> d & 1 == 1);
                Some(halves.fold(0, |at, (_, (&size, &c))| {
                    let turned = (c + turn * size / 4) % size;
                    2 * at + u32::from(2 * turned >= size)
                }))
            };
            all.extend(fabric.router_ids().map(part).collect::<Option<Vec<u32>>>());
        }
    }
    all
}

/// Routers at the far ends of a router's links in service.
fn neighbours(fabric: &Fabric, router: RouterId) -> impl Iterator<Item = RouterId> + '_ {
    let links = fabric.links_from(router).iter().map(|&l| fabric.link(l));
    links.filter(|l| l.is_up()).filter_map(|l| match l.to {
        End::Router(to) => Some(to),
        End::Node(_) | End::Hosts(_) => None,
    })
}

/// Slots that are at most 0, 1, 2, … links between routers away from a router, at most, up to `most` slots.
pub(crate) fn spheres(problem: &Problem<'_>, most: usize) -> Vec<usize> {
    let fabric = problem.fabric;
    let mut room = vec![0; fabric.routers().len()];
    for &(node, slots) in problem.allocation.nodes() {
        room[fabric.node(node).router.index()] += slots as usize;
    }
    let mut spheres: Vec<usize> = Vec::new();
    let mut seen = vec![u32::MAX; room.len()];
    for first in fabric.router_ids().filter(|r| room[r.index()] > 0) {
        seen[first.index()] = first.0;
        let mut ring = vec![first];
        let (mut slots, mut distance) = (0, 0);
        while !ring.is_empty() && slots < most {
            slots += ring.iter().map(|r| room[r.index()]).sum::<usize>();
            if distance == spheres.len() {
                spheres.push(0);
            }
            spheres[distance] = spheres[distance].max(slots);
            distance += 1;
            let mut outer = Vec::new();
            for to in ring.iter().flat_map(|&r| neighbours(fabric, r)) {
                if seen[to.index()] != first.0 {
                    seen[to.index()] = first.0;
                    outer.push(to);
                }
            }
            ring = outer;
        }
        // Beyond the distances that were needed here there are at least as many slots.
        for sphere in spheres.iter_mut().skip(distance) {
            *sphere = slots.max(*sphere);
        }
    }
    for at in 1..spheres.len() {
        spheres[at] = spheres[at].max(spheres[at - 1]);
    }
    spheres
}

/// Least bytes × links between routers of all traffic.
pub(crate) fn network_hops(problem: &Problem<'_>, graph: &Graph) -> f64 {
    let partners = (0..graph.units() as u32).map(|u| graph.edges(u).len());
    let spheres = spheres(problem, partners.max().unwrap_or(0) + 1);
    let mut bytes: Vec<f64> = Vec::new();
    let mut sum = 0.0;
    for task in 0..graph.units() as u32 {
        bytes.clear();
        bytes.extend(
            graph
                .edges(task)
                .iter()
                .map(|e| f64::from(e.out))
                .filter(|b| *b > 0.0),
        );
        bytes.sort_unstable_by(|a, b| b.total_cmp(a));
        // The heaviest partners are nearest; a slot of the first sphere is the task's own.
        let mut rank = 0;
        for (distance, &slots) in spheres.iter().enumerate() {
            let end = (slots - 1).min(bytes.len());
            sum += distance as f64 * bytes[rank..end.max(rank)].iter().sum::<f64>();
            rank = end.max(rank);
        }
        sum += spheres.len() as f64 * bytes[rank..].iter().sum::<f64>();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::{Allocation, Exchange, Routing, spec};

    #[test]
    fn splits_and_spheres_are_those_counted_by_hand() {
        let exchange = Exchange::new(2, [(0, 1, 1.0, 1)]).unwrap();
        // Rooms by part and links that leave a part.
        for (text, rooms, links) in [
            ("dragonfly:4x3:nodes=2,global=1", vec![6; 4], 12.0),
            ("fattree:down=2x3x2,up=1x2x2", vec![6; 2], 8.0),
            ("torus:4", vec![2; 2], 4.0),
        ] {
            let fabric = spec::fabric(text).unwrap();
            let routing = Routing::default_for(&fabric);
            let nodes = fabric.node_ids().map(|n| (n, 1)).collect();
            let allocation = Allocation::new(&fabric, nodes).unwrap();
            let problem = Problem::new(&fabric, &routing, &exchange, &allocation);
            let found = &splits(&problem)[0];
            assert_eq!(found.rooms, rooms, "{text}");
            assert!(
                (found.capacity / 12.5e9 - links).abs() < 1e-9,
                "{text}: {}",
                found.capacity
            );
        }
        let fabric = spec::fabric("torus:4x4").unwrap();
        let routing = Routing::default_for(&fabric);
        let nodes = fabric.node_ids().map(|n| (n, 2)).collect();
        let allocation = Allocation::new(&fabric, nodes).unwrap();
        let problem = Problem::new(&fabric, &routing, &exchange, &allocation);
        assert_eq!(spheres(&problem, 100), [2, 10, 22, 30, 32]);
    }
}
