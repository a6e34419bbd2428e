//! Allocation of nodes to a job, and placement of its ranks.

use super::geometric::geometric;
use super::scenario::{Nodes, PlacementRule};
use crate::error::ModelError;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Allocation, Fabric, FabricError, NodeId, Placement};

/// The nodes of a job with `ranks` ranks.
pub fn allocate(
    fabric: &Fabric,
    nodes: &Nodes,
    ranks: usize,
    ranks_per_node: u32,
    seed: u64,
) -> Result<Allocation, ModelError> {
    let by_router = || -> Vec<NodeId> {
        if fabric.inside().is_some() {
            return fabric.places();
        }
        let routers = fabric.router_ids();
        routers
            .flat_map(|r| fabric.nodes_on(r).iter().copied())
            .collect()
    };
    let slice = |all: Vec<NodeId>, skip, count| slice_of(fabric, &all, skip, count);
    let needed = ranks.div_ceil(ranks_per_node as usize);
    let list = match nodes {
        Nodes::AsNeeded => slice(by_router(), 0, needed)?,
        Nodes::All => by_router(),
        Nodes::First {
            count,
            skip,
            single,
        } => {
            let nodes = fabric.router_ids().zip(0u32..).flat_map(|(r, i)| {
                let nodes = fabric.nodes_on(r);
                &nodes[..nodes.len().min(if i < *single { 1 } else { usize::MAX })]
            });
            slice(nodes.copied().collect(), *skip, *count as usize)?
        }
        Nodes::ByNumber { count, skip } => {
            let mut all = by_router();
            all.sort_by_key(|&n| (fabric.node(n).nid.unwrap_or(u32::MAX), n));
            slice(all, *skip, *count as usize)?
        }
        Nodes::Scattered { count } => {
            let all = by_router();
            let order = Random::new(seed ^ SCATTER).permutation(all.len());
            let mut drawn = slice_of(fabric, &order, 0, *count as usize)?;
            drawn.sort_unstable();
            drawn.into_iter().map(|i| all[i as usize]).collect()
        }
        Nodes::Named(names) => {
            let mut list = Vec::new();
            for name in names {
                list.extend(find_nodes(fabric, name)?);
            }
            list
        }
    };
    let slots = list.into_iter().map(|n| (n, ranks_per_node)).collect();
    Ok(Allocation::new(fabric, slots)?)
}

/// Mixed into a seed where it draws nodes, so that placements draw other numbers.
const SCATTER: u64 = 0x6e6f_6465;

/// `count` items of a list after skipping some.
fn slice_of<T: Copy>(
    fabric: &Fabric,
    all: &[T],
    skip: u32,
    count: usize,
) -> Result<Vec<T>, ModelError> {
    let (skip, have) = (skip as usize, all.len());
    if skip + count > have {
        let expected = format!("at most the {have} nodes of {}", fabric.source());
        return Err(ModelError::out_of_range(
            "nodes of the job",
            &(skip + count),
            expected,
        ));
    }
    Ok(all[skip..skip + count].to_vec())
}

/// Nodes of a name: a node, or a router, with `:0`, `:1` appended for one of its nodes.
pub fn find_nodes(fabric: &Fabric, name: &str) -> Result<Vec<NodeId>, FabricError> {
    let places = fabric.places_of_host(name);
    if places.len() > 1 {
        return Ok(places);
    }
    let unknown = match fabric.find_node(name) {
        Ok(node) => return Ok(vec![node]),
        Err(error) => error,
    };
    let (router, which) = match name.rsplit_once(':') {
        Some((router, which)) => (router, which.parse::<usize>().ok()),
        None => (name, None),
    };
    let nodes = match fabric.find_router(router) {
        Ok(router) => fabric.nodes_on(router),
        Err(_) => return Err(unknown),
    };
    match which {
        Some(i) => Ok(vec![*nodes.get(i).ok_or(unknown)?]),
        None if nodes.is_empty() => Err(unknown),
        None => Ok(nodes.to_vec()),
    }
}

/// Places ranks on the nodes of an allocation.
pub fn place(
    fabric: &Fabric,
    allocation: &Allocation,
    rule: &PlacementRule,
    ranks: usize,
    grid: Option<&[u32]>,
    seed: u64,
) -> Result<Placement, ModelError> {
    let placement = match (rule, grid) {
        (PlacementRule::Linear, _) => Placement::in_order(allocation, ranks)?,
        (PlacementRule::RoundRobin, _) => Placement::round_robin(allocation, ranks)?,
        (PlacementRule::Random, _) => {
            let in_order = Placement::in_order(allocation, ranks)?;
            let order = Random::new(seed).permutation(ranks);
            let nodes = order.into_iter().map(|task| in_order.node(task));
            Placement::on_nodes(fabric, allocation, nodes)?
        }
        (PlacementRule::Nodes(names), _) => {
            let nodes: Result<Vec<NodeId>, FabricError> = names
                .iter()
                .map(|n| Ok(find_nodes(fabric, n)?[0]))
                .collect();
            Placement::on_nodes(fabric, allocation, nodes?)?
        }
        (PlacementRule::Blocks(block), Some(grid)) => {
            let hosts: Vec<NodeId> = allocation.nodes().iter().map(|n| n.0).collect();
            let (blocks, _) = blocks_of(grid, block);
            check_room(blocks.iter().max(), hosts.len(), "nodes")?;
            let nodes = blocks.into_iter().map(|b| hosts[b]);
            Placement::on_nodes(fabric, allocation, nodes)?
        }
        (PlacementRule::RouterBlocks(block), Some(grid)) => {
            let routers = nodes_by_router(fabric, allocation);
            let (blocks, within) = blocks_of(grid, block);
            let size: u32 = block.iter().product();
            check_room(blocks.iter().max(), routers.len(), "routers")?;
            let node = |(b, at): (usize, u32)| {
                let nodes = &routers[b];
                nodes[(at as usize * nodes.len()) / size.max(1) as usize]
            };
            Placement::on_nodes(fabric, allocation, blocks.into_iter().zip(within).map(node))?
        }
        (PlacementRule::Geometric, Some(grid)) => {
            let nodes = geometric(fabric, allocation, grid, ranks)?;
            Placement::on_nodes(fabric, allocation, nodes)?
        }
        (rule, None) => {
            let found = format!("{rule:?}");
            return Err(ModelError::out_of_range(
                "placement",
                &found,
                "a workload on a grid of ranks",
            ));
        }
    };
    Ok(placement)
}

fn check_room(last: Option<&usize>, have: usize, what: &str) -> Result<(), ModelError> {
    match last {
        Some(&last) if last >= have => {
            let what = format!("{what} for the blocks of ranks");
            Err(ModelError::out_of_range(
                what,
                &have,
                format!("at least {}", last + 1),
            ))
        }
        _ => Ok(()),
    }
}

/// Allocated nodes by router, in the allocation's order.
fn nodes_by_router(fabric: &Fabric, allocation: &Allocation) -> Vec<Vec<NodeId>> {
    let mut routers: Vec<Vec<NodeId>> = Vec::new();
    for &(node, _) in allocation.nodes() {
        match routers.last_mut() {
            Some(same) if fabric.node(same[0]).router == fabric.node(node).router => {
                same.push(node);
            }
            _ => routers.push(vec![node]),
        }
    }
    routers
}

/// For every rank of a grid: its block, and its number within the block. In both the last
/// dimension is fastest.
fn blocks_of(grid: &[u32], block: &[u32]) -> (Vec<usize>, Vec<u32>) {
    let ranks: u32 = grid.iter().product();
    (0..ranks)
        .map(|rank| {
            let (mut rest, mut index, mut within) = (rank, 0usize, 0u32);
            let (mut blocks, mut inner) = (1usize, 1u32);
            for (&g, &b) in grid.iter().zip(block).rev() {
                let at = rest % g;
                rest /= g;
                index += (at / b) as usize * blocks;
                within += at % b * inner;
                blocks *= (g / b) as usize;
                inner *= b;
            }
            (index, within)
        })
        .unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;

    #[test]
    fn blocks_are_compact_and_complete() {
        let (blocks, within) = blocks_of(&[4, 4, 8], &[2, 2, 4]);
        assert_eq!(blocks.iter().max(), Some(&7));
        for b in 0..8 {
            let mut inner: Vec<u32> = (0..128)
                .filter(|&r| blocks[r] == b)
                .map(|r| within[r])
                .collect();
            inner.sort_unstable();
            assert_eq!(inner, (0..16).collect::<Vec<_>>());
        }
        // Rank (1, 1, 3) is in the first block, (0, 0, 4) in the next.
        assert_eq!((blocks[(4 + 1) * 8 + 3], blocks[4]), (0, 1));
    }

    #[test]
    fn words_name_nodes_and_routers() {
        let fabric = spec::fabric("gemini:2x2x8").unwrap();
        assert_eq!(find_nodes(&fabric, "(1,0,3)").unwrap().len(), 2);
        let one = find_nodes(&fabric, "(1,0,3):1").unwrap();
        assert_eq!(
            one,
            [fabric.nodes_on(fabric.router_at(&[1, 0, 3]).unwrap())[1]]
        );
        assert!(find_nodes(&fabric, "(1,0,3):2").is_err());
        assert!(find_nodes(&fabric, "(9,0,3)").is_err());
        let all = allocate(&fabric, &Nodes::All, 1, 1, 0).unwrap();
        assert_eq!(all.nodes().len(), 64);
        let error = allocate(&fabric, &Nodes::AsNeeded, 1000, 4, 0)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("250") && error.contains("64 nodes"),
            "{error}"
        );
    }

    #[test]
    fn router_blocks_split_between_the_nodes_of_a_router() {
        let fabric = spec::fabric("gemini:2x2x8").unwrap();
        let allocation = allocate(&fabric, &Nodes::All, 0, 4, 0).unwrap();
        let rule = PlacementRule::RouterBlocks(vec![2, 2, 2]);
        let placement = place(&fabric, &allocation, &rule, 256, Some(&[4, 8, 8]), 0).unwrap();
        let router = |rank| fabric.node(placement.node(rank)).router;
        assert_eq!(router(0), router(64 + 8 + 1));
        assert_ne!(placement.node(0), placement.node(64));
        assert_eq!(placement.node(0), placement.node(8 + 1));
    }
}
