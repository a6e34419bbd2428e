//! Groups of blocks with much mutual traffic, packed into areas of hosts.

use super::NONE;
use crate::graph::Graph;

/// A tree of groups: the heaviest edges join first.
pub(super) struct Tree {
    blocks: usize,
    /// Number of blocks of every node; blocks first.
    size: Vec<u32>,
    /// The two parts of every other node.
    parts: Vec<[u32; 2]>,
    /// Nodes that are no part of another.
    roots: Vec<u32>,
}

impl Tree {
    /// The tree of a graph of blocks.
    pub(super) fn of(graph: &Graph) -> Self {
        let blocks = graph.units();
        let mut edges: Vec<(f32, u32, u32)> = Vec::new();
        for block in 0..blocks as u32 {
            let later = graph.edges(block).iter().filter(|e| e.to > block);
            edges.extend(later.map(|e| (e.out + e.back, block, e.to)));
        }
        edges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let mut tree = Self {
            blocks,
            size: vec![1; blocks],
            parts: Vec::new(),
            roots: Vec::new(),
        };
        let mut above: Vec<u32> = (0..blocks as u32).collect();
        for (_, a, b) in edges {
            let (a, b) = (root(&mut above, a), root(&mut above, b));
            if a != b {
                let new = above.len() as u32;
                above.push(new);
                above[a as usize] = new;
                above[b as usize] = new;
                tree.size
                    .push(tree.size[a as usize] + tree.size[b as usize]);
                tree.parts.push([a, b]);
            }
        }
        tree.roots = (0..above.len() as u32)
            .filter(|&n| above[n as usize] == n)
            .collect();
        tree
    }

    /// Blocks of a node, in order.
    fn members(&self, node: u32) -> Vec<u32> {
        let (mut open, mut found) = (vec![node], Vec::new());
        while let Some(node) = open.pop() {
            match (node as usize).checked_sub(self.blocks) {
                None => found.push(node),
                Some(inner) => open.extend(self.parts[inner]),
            }
        }
        found
    }

    /// The host of every block: a group goes to the smallest area that has room for all of it, and is divided if none
    /// has. Blocks of an area take its hosts in order.
    pub(super) fn packed(&self, areas: &[Vec<u32>]) -> Vec<u32> {
        let mut room: Vec<usize> = areas.iter().map(Vec::len).collect();
        let mut area_of = vec![NONE; self.blocks];
        let mut open = self.roots.clone();
        open.sort_by_key(|&n| self.size[n as usize]);
        while let Some(node) = open.pop() {
            let size = self.size[node as usize] as usize;
            let fits = (0..areas.len()).filter(|&a| room[a] >= size);
            if let Some(area) = fits.min_by_key(|&a| (room[a], a)) {
                room[area] -= size;
                for block in self.members(node) {
                    area_of[block as usize] = area as u32;
                }
            } else if let Some(inner) = (node as usize).checked_sub(self.blocks) {
                let mut parts = self.parts[inner];
                parts.sort_by_key(|&p| self.size[p as usize]);
                open.extend(parts);
            }
        }
        let mut next: Vec<_> = areas.iter().map(|a| a.iter()).collect();
        let host = |&area: &u32| {
            let host = next.get_mut(area as usize).and_then(Iterator::next);
            host.copied().unwrap_or(NONE)
        };
        area_of.iter().map(host).collect()
    }
}

fn root(above: &mut [u32], mut node: u32) -> u32 {
    while above[node as usize] != node {
        let next = above[node as usize];
        above[node as usize] = above[next as usize];
        node = next;
    }
    node
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use crate::graph::Graph;
    use hopbyte_fabric::Exchange;

    /// Groups of three blocks in areas of four, three and five hosts; the last group does not fit whole.
    #[test]
    fn groups_stay_whole_where_they_fit() {
        let mut entries = Vec::new();
        for group in 0..4u32 {
            for (a, b) in [(0, 1), (1, 2), (2, 0)] {
                entries.push((3 * group + a, 3 * group + b, 100.0, 1));
            }
            entries.push((3 * group, (3 * group + 3) % 12, 1.0, 1));
        }
        let graph = Graph::of_tasks(&Exchange::new(12, entries).unwrap());
        let areas = [vec![0, 1, 2, 3], vec![4, 5, 6], vec![7, 8, 9, 10, 11]];
        let order = Tree::of(&graph).packed(&areas);
        let area = |block: usize| {
            areas
                .iter()
                .position(|a| a.contains(&order[block]))
                .unwrap()
        };
        let whole = |g: &usize| (0..3).all(|i| area(3 * g + i) == area(3 * g));
        assert_eq!((0..4).filter(whole).count(), 3);
        let mut hosts = order.clone();
        hosts.sort_unstable();
        assert_eq!(hosts, (0..12).collect::<Vec<u32>>());
    }
}
