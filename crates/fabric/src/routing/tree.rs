//! Up/down routing of a fat tree in closed form.

use crate::fabric::Fabric;
use crate::fat_tree::FatTree;
use crate::ids::{LinkId, NodeId, RouterId};

/// Up until the destination is below, then down; which parent is destination modulo the number of
/// parents (D-mod-k, what OpenSM's ftree engine installs on a pure fat tree). No tables: constant memory.
#[derive(Clone, Debug)]
pub struct TreeRouting {
    tree: FatTree,
}

impl TreeRouting {
    /// Routing of a fabric built by [`FatTree::build`].
    pub fn new(tree: FatTree) -> Self {
        Self { tree }
    }

    /// The link from router `at` towards node `to`.
    #[inline]
    pub fn next(&self, fabric: &Fabric, at: RouterId, to: NodeId) -> Option<LinkId> {
        let (level, subtree, _) = self.tree.place(at);
        let node = to.index() as u64;
        let children = u64::from(self.tree.down[level - 1]);
        let position = if self.tree.subtree(node, level) == subtree {
            self.tree.subtree(node, level - 1) % children
        } else if level < self.tree.levels() {
            children + self.tree.parent_for(node, level)
        } else {
            return None;
        };
        fabric.links_from(at).get(position as usize).copied()
    }
}
