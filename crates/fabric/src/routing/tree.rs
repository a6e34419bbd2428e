//! Up/down routing of a fat tree in closed form.

use crate::fabric::Fabric;
use crate::fat_tree::FatTree;
use crate::ids::{LinkId, NodeId, RouterId};

/// Up until the destination is below, then down; the parent is chosen as destination modulo number of parents
/// (D-mod-k, as in OpenSM's ftree engine on a pure fat tree). No tables: memory is proportional to the number of
/// switches.
#[derive(Clone, Debug)]
pub struct TreeRouting {
    levels: Vec<Level>,
    /// Level (from 0) and subtree of each router.
    places: Vec<(u8, u32)>,
}

/// Parameters of one level of switches.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Nodes below one switch.
    below: u32,
    /// Nodes below one of its children.
    below_child: u32,
    /// Children of a switch.
    children: u32,
    /// Parents of a switch; 0 at the top.
    parents: u32,
    /// Destinations with the same choice of parents at the levels below.
    width: u32,
}

impl TreeRouting {
    /// Routing of a fabric built by [`FatTree::build`].
    pub fn new(tree: &FatTree) -> Self {
        let mut levels = Vec::new();
        let (mut below, mut width) = (1u32, 1u32);
        for (l, &children) in tree.down.iter().enumerate() {
            width *= tree.up[l];
            let parents = tree.up.get(l + 1).copied().unwrap_or(0);
            let below_child = below;
            below *= children;
            levels.push(Level {
                below,
                below_child,
                children,
                parents,
                width,
            });
        }
        let places = (0..tree.routers() as usize)
            .map(|r| {
                let (level, subtree, _) = tree.place(RouterId::of(r));
                (level as u8 - 1, subtree as u32)
            })
            .collect();
        Self { levels, places }
    }

    /// Children and parents of a switch by level, as [`FatTree::down`] and [`FatTree::up`].
    pub fn levels(&self) -> (Vec<u32>, Vec<u32>) {
        let down = self.levels.iter().map(|l| l.children).collect();
        let parents = self.levels.iter().map(|l| l.parents);
        let up = std::iter::once(1).chain(parents).take(self.levels.len());
        (down, up.collect())
    }

    /// The link from router `at` towards node `to`.
    #[inline]
    pub fn next(&self, fabric: &Fabric, at: RouterId, to: NodeId) -> Option<LinkId> {
        let (level, subtree) = self.places[at.index()];
        let level = &self.levels[level as usize];
        let position = if to.0 / level.below == subtree {
            to.0 / level.below_child % level.children
        } else {
            // Consecutive destinations alternate between parents, after the choices of the levels below.
            level.children + (to.0 / level.width).checked_rem(level.parents)?
        };
        fabric.links_from(at).get(position as usize).copied()
    }
}
