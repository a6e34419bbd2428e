//! Random machines: grids with faults, graphs, tables with errors, counters with gaps.

use hopbyte_fabric::random::Random;
use hopbyte_fabric::routing::{ForwardingTables, MinimalPaths};
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    Direction, End, Fabric, FabricBuilder, Family, LinkId, LinkSpec, LinkState, NodeId, RouterId,
    Routing, Shape,
};

fn chance(random: &mut Random, one_in: usize) -> bool {
    random.below(one_in) == 0
}

fn add_nodes(b: &mut FabricBuilder, random: &mut Random, router: RouterId, onboard: bool) {
    let kind = b.kind(if onboard { "host" } else { "host cable" }, onboard);
    for _ in 0..random.below(3) {
        let n = b.node_count();
        let (node, at) = (End::Node(NodeId(n as u32)), End::Router(router));
        let rate = BytesPerSecond(1e9 * (1 + random.below(4)) as f64);
        let mut spec = LinkSpec::new(node, at, kind, rate, Seconds(0.0));
        spec.lanes_in_service = u16::from(!chance(random, 12));
        let inject = b.link(spec);
        let eject = b.link(LinkSpec::new(at, node, kind, rate, Seconds(0.0)));
        b.node(
            format!("n{n}"),
            format!("h{n}"),
            None,
            router,
            inject,
            eject,
        );
    }
}

/// A grid with unequal links, some of them down, and some routers missing.
pub fn grid(dims: &[u32], wrap: &[bool], seed: u64) -> Fabric {
    let mut random = Random::new(seed);
    let mut b = FabricBuilder::new(Family::Torus, "test grid");
    let shape = Shape {
        dims: dims.to_vec(),
        wrap: wrap.to_vec(),
    };
    b.shape(shape.clone());
    let mut routers = vec![None; shape.positions()];
    let coord = |mut p: usize| {
        let mut c: Vec<u32> = dims
            .iter()
            .rev()
            .map(|&d| {
                let at = p % d as usize;
                p /= d as usize;
                at as u32
            })
            .collect();
        c.reverse();
        c
    };
    // Ids are not in the order of positions.
    let mut at: Vec<usize> = (0..routers.len()).collect();
    if chance(&mut random, 2) {
        at.reverse();
    }
    for p in at {
        if p == 0 || !chance(&mut random, 20) {
            routers[p] = Some(b.router(format!("r{p}"), &coord(p)));
        }
    }
    let cable = b.kind("cable", false);
    for (p, &from) in routers.iter().enumerate() {
        for index in 0..2 * dims.len() {
            let direction = Direction::of(index);
            let d = direction.dim as usize;
            let mut to = coord(p);
            let n = i64::from(dims[d]);
            let moved = i64::from(to[d]) + if direction.positive { 1 } else { -1 };
            if n == 1 || !(wrap[d] || (0..n).contains(&moved)) {
                continue;
            }
            to[d] = moved.rem_euclid(n) as u32;
            let (Some(from), Some(to)) = (from, routers[shape.position(&to).unwrap()]) else {
                continue;
            };
            let rate = BytesPerSecond(1e9 * (1 + random.below(5)) as f64);
            let ends = (End::Router(from), End::Router(to));
            b.link(LinkSpec {
                direction: Some(direction),
                lanes: 3,
                lanes_in_service: if chance(&mut random, 25) {
                    0
                } else {
                    1 + random.below(3) as u16
                },
                ..LinkSpec::new(ends.0, ends.1, cable, rate, Seconds(0.0))
            });
        }
    }
    let onboard = chance(&mut random, 2);
    for router in routers.into_iter().flatten() {
        add_nodes(&mut b, &mut random, router, onboard);
    }
    b.finish().unwrap()
}

/// A random graph of switches with cabled hosts.
pub fn graph(switches: u32, seed: u64) -> Fabric {
    let mut random = Random::new(seed);
    let mut b = FabricBuilder::new(Family::InfiniBand, "test graph");
    let ids: Vec<RouterId> = (0..switches)
        .map(|s| b.router(format!("s{s}"), &[]))
        .collect();
    let kind = b.kind("cable", false);
    for i in 1..switches as u64 {
        for _ in 0..1 + random.below(3) {
            let (from, to) = (ids[i as usize], ids[random.below(i as usize)]);
            let rate = BytesPerSecond(1e9 * (1 + random.below(5)) as f64);
            for (a, z) in [(from, to), (to, from)] {
                let mut spec =
                    LinkSpec::new(End::Router(a), End::Router(z), kind, rate, Seconds(0.0));
                spec.lanes_in_service = u16::from(!chance(&mut random, 15));
                b.link(spec);
            }
        }
    }
    for id in ids {
        add_nodes(&mut b, &mut random, id, false);
    }
    b.finish().unwrap()
}

/// Shortest paths with some entries missing or wrong.
pub fn tables(fabric: &Fabric, seed: u64) -> Routing {
    let mut random = Random::new(seed ^ 0xdead);
    let paths = MinimalPaths::new(fabric);
    let mut tables = ForwardingTables::new(fabric);
    for at in fabric.router_ids() {
        for to in fabric.node_ids() {
            let target = fabric.node(to);
            let out = fabric.links_from(at);
            let link = if chance(&mut random, 30) {
                out.get(random.below(out.len().max(1))).copied()
            } else if at == target.router {
                Some(target.eject)
            } else {
                let near: Vec<LinkId> = paths
                    .nearer(fabric, at, target.router)
                    .map(|n| n.0)
                    .collect();
                near.get(random.below(near.len().max(1))).copied()
            };
            if let Some(link) = link {
                assert!(tables.set(fabric, at, to, link));
            }
        }
    }
    Routing::Tables(tables)
}

pub fn state(fabric: &Fabric, seed: u64) -> LinkState {
    let mut random = Random::new(seed ^ 0xbeef);
    let mut state = LinkState::unknown(fabric);
    let gaps = [2, 10, 1_000_000][random.below(3)];
    for link in fabric.link_ids() {
        let mut ratio = || match random.below(8) {
            0 => Some(1.0),
            1 => Some(0.0),
            _ if chance(&mut random, gaps) => None,
            _ => Some(random.below(1000) as f64 / 999.0),
        };
        let (used, input, credit) = (ratio(), ratio(), ratio());
        state.used_ratio.set(link, used);
        state.input_stall_ratio.set(link, input);
        state.credit_stall_ratio.set(link, credit);
        state.received_bytes.set(link, used.map(|u| u * 1e12));
    }
    state
}
