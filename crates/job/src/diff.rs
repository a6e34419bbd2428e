//! The differences of two readings of one machine, for scripts.

use hopbyte_fabric::diff::Diff;
use serde::Serialize;
use std::collections::BTreeMap;

/// The differences of two readings: `hopbyte.diff/1`.
#[derive(Serialize)]
pub struct DiffReport {
    schema: &'static str,
    /// Whether there is no difference.
    pub same: bool,
    /// Routers of the second reading alone.
    pub routers_added: Vec<String>,
    /// Routers of the first alone.
    pub routers_removed: Vec<String>,
    /// Nodes likewise.
    pub nodes_added: Vec<String>,
    /// See above.
    pub nodes_removed: Vec<String>,
    /// Links likewise.
    pub links_added: Vec<String>,
    /// See above.
    pub links_removed: Vec<String>,
    /// Links with another capacity or end.
    pub links_changed: Vec<Change>,
    /// Changed next hops by router.
    pub entries_changed: BTreeMap<String, usize>,
    /// Pairs with another route.
    pub routes_changed: u64,
    /// Pairs of nodes in both.
    pub pairs_compared: u64,
}

/// A changed link.
#[derive(Serialize)]
pub struct Change {
    /// Its name.
    pub link: String,
    /// Capacity.
    pub capacity_before_bytes_per_s: f64,
    /// See above.
    pub capacity_after_bytes_per_s: f64,
    /// Far end.
    pub to_before: String,
    /// See above.
    pub to_after: String,
}

impl DiffReport {
    /// From the comparison.
    pub fn of(diff: Diff) -> Self {
        let same = diff.is_empty();
        Self {
            schema: "hopbyte.diff/1",
            same,
            routers_added: diff.routers_added,
            routers_removed: diff.routers_removed,
            nodes_added: diff.nodes_added,
            nodes_removed: diff.nodes_removed,
            links_added: diff.links_added,
            links_removed: diff.links_removed,
            links_changed: diff
                .links_changed
                .into_iter()
                .map(|c| Change {
                    link: c.link,
                    capacity_before_bytes_per_s: c.capacity_before,
                    capacity_after_bytes_per_s: c.capacity_after,
                    to_before: c.to_before,
                    to_after: c.to_after,
                })
                .collect(),
            entries_changed: diff.entries_changed,
            routes_changed: diff.routes_changed,
            pairs_compared: diff.pairs_compared,
        }
    }
}
