//! Quantities of a machine and its routes in expressions.

use super::case::Case;
use super::expression::Value;
use crate::error::ModelError;
use crate::topobw;
use hopbyte_fabric::check::{letters, uniform_load};
use hopbyte_fabric::{Direction, Fabric, LinkId, NodeId, Routing};
use std::collections::BTreeSet;

/// A quantity of a case's machine, if there is one by that name.
pub(super) fn find(
    name: &str,
    case: &Case,
    arguments: &[Value],
) -> Result<Option<Value>, ModelError> {
    let fabric = &case.fabric;
    let text = |i: usize| match arguments.get(i) {
        Some(Value::Text(text)) => text.as_str(),
        _ => "",
    };
    Ok(Some(match name {
        "ports" => Value::Number(fabric.port_count() as f64),
        "count" => Value::Number(of_kind(fabric, text(1)).count() as f64),
        "capacity" => {
            // Not a number if links of the kind differ, so that no check holds.
            let capacity = |l: LinkId| fabric.link(l).capacity().0 / 1e9;
            let mut all = of_kind(fabric, text(1)).map(capacity);
            let first = all.next().unwrap_or(f64::NAN);
            Value::Number(if all.all(|c| c == first) {
                first
            } else {
                f64::NAN
            })
        }
        "gm_links" => Value::Number(gm_links(fabric) as f64),
        "shortest_in_order" => Value::Truth(all_pairs(case, shortest_in_order)),
        "returns_by_static_route" => Value::Truth(all_pairs(case, returns_by_static_route)),
        "there_and_back_differ" => Value::Truth(!all_pairs(case, same_way_back)),
        "routes" => Value::Number(routes(case) as f64),
        "routable" => Value::Truth(all_pairs(case, |c, a, b| links(c, a, b).is_some())),
        "unroutable" => Value::Truth(!all_pairs(case, |c, a, b| links(c, a, b).is_some())),
        "order" => Value::Text(match &case.routing {
            Routing::DimensionOrder(order) => letters(order),
            other => other.describe(),
        }),
        "slowed" => {
            let mut routers = BTreeSet::new();
            for slow in &case.scenario.slow {
                let nodes = crate::place::find_nodes(fabric, &slow.name)?;
                routers.extend(nodes.into_iter().map(|n| fabric.node(n).router));
            }
            let names = routers
                .iter()
                .map(|&r| format!("router {}", fabric.router(r).name));
            let mut names: Vec<String> = names.collect();
            names.sort();
            Value::Text(names.join(", "))
        }
        "most_shift" => Value::Number(shifts(case)?.fold(0.0, f64::max)),
        "least_shift" => Value::Number(shifts(case)?.fold(f64::INFINITY, f64::min)),
        "alternates" => Value::Truth(alternates(fabric)),
        _ => return Ok(None),
    }))
}

/// Logical links of a router with all of its neighbours, nodes counted as one (paper 000, Fig. 4).
fn gm_links(fabric: &Fabric) -> usize {
    let of_router = |r| {
        let ends = fabric.link_ids().filter(move |&l| {
            let ends_here = |end| end == hopbyte_fabric::End::Router(r);
            ends_here(fabric.link(l).to)
        });
        let ways: BTreeSet<Option<Direction>> = ends.map(|l| fabric.link(l).direction).collect();
        ways.len()
    };
    fabric.router_ids().next().map_or(0, of_router)
}

fn of_kind<'a>(fabric: &'a Fabric, kind: &'a str) -> impl Iterator<Item = LinkId> + 'a {
    fabric
        .link_ids()
        .filter(move |&l| fabric.kind(l).name == kind)
}

/// Load of uniform traffic on each link that is up, relative to its load without faults.
fn shifts(case: &Case) -> Result<impl Iterator<Item = f64>, ModelError> {
    let healthy = hopbyte_fabric::spec::machine(&case.scenario.fabric)?;
    let before = uniform_load(&healthy.fabric, &healthy.routing);
    let now = uniform_load(&case.fabric, &case.routing);
    let hops = case.fabric.link_ids();
    let up = hops.filter(|&l| case.fabric.is_hop(l) && case.fabric.link(l).is_up());
    let shifts: Vec<f64> = up.map(|l| now[l.index()] / before[l.index()]).collect();
    Ok(shifts.into_iter())
}

/// Whether no position of a ring or line of `n` sends and receives at once, and every link of it is
/// measured once.
pub(super) fn phases_hold(n: u32) -> bool {
    [true, false].into_iter().all(|wraps| {
        let steps = topobw::steps(n, wraps);
        let apart = steps.iter().all(|s| {
            let from: BTreeSet<u32> = s.pairs.iter().map(|p| p.0).collect();
            s.pairs.iter().all(|p| !from.contains(&p.1))
        });
        let pairs = steps
            .iter()
            .flat_map(|s| s.pairs.iter().map(|p| (p.0, s.positive)));
        let measured: BTreeSet<(u32, bool)> = pairs.clone().collect();
        let joints = if wraps { n } else { n - 1 } as usize;
        apart && measured.len() == pairs.count() && measured.len() == 2 * joints
    })
}

/// Every eighth Z link is a cable, and Y links alternate (paper 000, II).
fn alternates(fabric: &Fabric) -> bool {
    let Some(shape) = fabric.shape() else {
        return false;
    };
    fabric.router_ids().all(|r| {
        let Some(c) = fabric.coord(r) else {
            return false;
        };
        let kind = |dim: u8| {
            let up = Direction {
                dim,
                positive: true,
            };
            let link = fabric.link_towards(r, up)?;
            Some(fabric.kind(link).name.as_str())
        };
        let last = c[2] + 1 == shape.dims[2];
        let z = if c[2] % 8 == 7 || last {
            "Z cable"
        } else {
            "Z backplane"
        };
        let y = if c[1].is_multiple_of(2) {
            "Y mezzanine"
        } else {
            "Y cable"
        };
        kind(0) == Some("X cable") && kind(1) == Some(y) && kind(2) == Some(z)
    })
}

/// One node of each router.
fn sample(fabric: &Fabric) -> Vec<NodeId> {
    let first = |r| fabric.nodes_on(r).first().copied();
    fabric.router_ids().filter_map(first).collect()
}

fn all_pairs(case: &Case, holds: impl Fn(&Case, NodeId, NodeId) -> bool) -> bool {
    let nodes = sample(&case.fabric);
    let pair = |a: NodeId, b: NodeId| a == b || holds(case, a, b);
    nodes.iter().all(|&a| nodes.iter().all(|&b| pair(a, b)))
}

/// Links between routers from one node to another.
fn links(case: &Case, from: NodeId, to: NodeId) -> Option<Vec<LinkId>> {
    let mut links = Vec::new();
    case.routing
        .route(&case.fabric, from, to, &mut links)
        .ok()?;
    links.retain(|&l| case.fabric.is_hop(l));
    Some(links)
}

fn directions(case: &Case, links: &[LinkId]) -> Vec<Direction> {
    let direction = |&l: &LinkId| case.fabric.link(l).direction;
    links.iter().filter_map(direction).collect()
}

/// X, then Y, then Z, in the shorter direction each.
fn shortest_in_order(case: &Case, from: NodeId, to: NodeId) -> bool {
    let Some(links) = links(case, from, to) else {
        return false;
    };
    let way = directions(case, &links);
    let sorted = way.windows(2).all(|w| w[0].dim <= w[1].dim);
    let at = |n: NodeId| case.fabric.coord(case.fabric.node(n).router);
    let (Some(a), Some(b), Some(shape)) = (at(from), at(to), case.fabric.shape()) else {
        return false;
    };
    sorted
        && (0..a.len()).all(|dim| {
            let straight = a[dim].abs_diff(b[dim]);
            let least = straight.min(shape.dims[dim] - straight) as usize;
            way.iter().filter(|d| usize::from(d.dim) == dim).count() == least
        })
}

/// The way back is the static route from the receiver, not the reversed route.
fn returns_by_static_route(case: &Case, from: NodeId, to: NodeId) -> bool {
    let back = links(case, to, from);
    back.is_some_and(|l| {
        let way = directions(case, &l);
        way.windows(2).all(|w| w[0].dim <= w[1].dim)
    })
}

fn same_way_back(case: &Case, from: NodeId, to: NodeId) -> bool {
    let (Some(there), Some(mut back)) = (links(case, from, to), links(case, to, from)) else {
        return false;
    };
    back.reverse();
    let reversed = |l: &LinkId| case.fabric.reverse(*l);
    back.iter().map(reversed).eq(there.iter().map(|&l| Some(l)))
}

/// Ordered pairs of the job's nodes with a route, including a node with itself.
fn routes(case: &Case) -> usize {
    let Ok(allocation) = crate::place::allocate(
        &case.fabric,
        &case.scenario.job.nodes,
        2,
        1,
        case.scenario.seed,
    ) else {
        return 0;
    };
    let nodes: Vec<NodeId> = allocation.nodes().iter().map(|n| n.0).collect();
    let routed = |a: NodeId| {
        nodes
            .iter()
            .filter(move |&&b| links(case, a, b).is_some())
            .count()
    };
    nodes.iter().map(|&a| routed(a)).sum()
}
