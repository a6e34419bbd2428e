//! Geometric placement: bisection of the grid of ranks and of the nodes' coordinates together.

use crate::error::ModelError;
use hopbyte_fabric::{Allocation, Fabric, NodeId};

/// A rank or a slot with its coordinates.
#[derive(Clone, Debug)]
struct Place {
    index: u32,
    at: Vec<u32>,
}

/// The node of every rank: recursive bisection of the grid of ranks and of the nodes' coordinates, each
/// along its longest side (Deveci and others, IPDPS 2014, with halves instead of more cuts).
pub(crate) fn geometric(
    fabric: &Fabric,
    allocation: &Allocation,
    grid: &[u32],
    ranks: usize,
) -> Result<Vec<NodeId>, ModelError> {
    let mut nodes = Vec::new();
    let mut slots: Vec<Place> = Vec::new();
    for &(node, count) in allocation.nodes() {
        let Some(coordinates) = fabric.coord(fabric.node(node).router) else {
            return Err(ModelError::out_of_range(
                "placement",
                &"geometric",
                "a machine whose routers have coordinates",
            ));
        };
        // The nodes of a router differ in an additional dimension, the slots of a node in another;
        // these are cut after all others.
        for slot in 0..count {
            let mut at = coordinates.to_vec();
            let beside = fabric.nodes_on(fabric.node(node).router);
            at.push(beside.iter().position(|&n| n == node).unwrap_or(0) as u32);
            at.push(slot);
            slots.push(Place {
                index: nodes.len() as u32,
                at,
            });
            nodes.push(node);
        }
    }
    if slots.len() < ranks {
        return Err(ModelError::out_of_range(
            "ranks of the job",
            &ranks,
            format!("at most {} slots", slots.len()),
        ));
    }
    slots.truncate(ranks);
    let mut tasks: Vec<Place> = (0..ranks as u32)
        .map(|index| Place {
            index,
            at: coordinates_of(index, grid),
        })
        .collect();
    let mut of_task = vec![NodeId(0); ranks];
    halve(&mut tasks, &mut slots, &nodes, &mut of_task);
    Ok(of_task)
}

/// Coordinates of a rank on its grid; the last dimension is fastest.
fn coordinates_of(rank: u32, grid: &[u32]) -> Vec<u32> {
    let mut rest = rank;
    let mut at = vec![0; grid.len()];
    for (a, &n) in at.iter_mut().zip(grid).rev() {
        *a = rest % n;
        rest /= n;
    }
    at
}

fn halve(tasks: &mut [Place], slots: &mut [Place], nodes: &[NodeId], of_task: &mut [NodeId]) {
    let first = nodes[slots[0].index as usize];
    if slots.iter().all(|s| nodes[s.index as usize] == first) {
        for task in tasks {
            of_task[task.index as usize] = first;
        }
        return;
    }
    sort_by_longest(tasks, 0);
    sort_by_longest(slots, 2);
    let middle = slots.len() / 2;
    let (t0, t1) = tasks.split_at_mut(middle);
    let (s0, s1) = slots.split_at_mut(middle);
    halve(t0, s0, nodes, of_task);
    halve(t1, s1, nodes, of_task);
}

/// Sorts along the dimension of largest extent, with the others as tie-breakers;
/// along the last `late` dimensions only if all others have no extent.
fn sort_by_longest(places: &mut [Place], late: usize) {
    let dims = places[0].at.len();
    let extent = |d: usize| {
        let values = places.iter().map(|p| p.at[d]);
        let (low, high) = values.fold((u32::MAX, 0), |(l, h), v| (l.min(v), h.max(v)));
        high - low
    };
    // Of equal extents the first; `max_by_key` would return the last.
    let early = dims - late;
    let key = |d: usize| {
        (
            d < early && extent(d) > 0,
            extent(d) > 0 && d == early,
            extent(d),
        )
    };
    let longest = (0..dims).rev().max_by_key(|&d| key(d)).unwrap_or(0);
    places.sort_by(|a, b| {
        let along = a.at[longest].cmp(&b.at[longest]);
        along
            .then_with(|| a.at.cmp(&b.at))
            .then(a.index.cmp(&b.index))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;

    #[test]
    fn a_grid_of_the_machines_shape_lies_on_it_as_it_is() {
        let machine = spec::machine("torus:4x4x4").unwrap();
        let slots = machine.fabric.node_ids().map(|n| (n, 1)).collect();
        let allocation = Allocation::new(&machine.fabric, slots).unwrap();
        let nodes = geometric(&machine.fabric, &allocation, &[4, 4, 4], 64).unwrap();
        let neighbours = (0..64u32).filter(|rank| rank % 4 < 3).all(|rank| {
            let at = |r: u32| {
                let router = machine.fabric.node(nodes[r as usize]).router;
                machine.fabric.coord(router).unwrap().to_vec()
            };
            let (a, b) = (at(rank), at(rank + 1));
            a.iter().zip(&b).map(|(a, b)| a.abs_diff(*b)).sum::<u32>() == 1
        });
        assert!(neighbours);
        let few = Allocation::new(&machine.fabric, vec![(NodeId(0), 2)]).unwrap();
        assert!(geometric(&machine.fabric, &few, &[4], 4).is_err());
    }
}
