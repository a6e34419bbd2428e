//! Upper bounds on sizes and counts in any input.
//!
//! Sizes are checked before memory is allocated. The bounds cover the largest known machines and jobs: fabrics of
//! 100,000 ports, 65,536 Gemini nodes, a million ranks with 26 neighbours each.

use crate::error::{FabricError, InputError};

/// Largest number of routers in a fabric.
pub const MAX_ROUTERS: u64 = 1 << 20;
/// Largest number of routers if routes are computed from the distances of all pairs of routers (two bytes each):
/// every routing except closed forms and forwarding tables.
pub const MAX_DISTANCES: u64 = 1 << 15;
/// Largest number of entries in forwarding tables, routers times nodes: 2 GiB, or 4 GiB if a router has many links.
pub const MAX_ENTRIES: u64 = 1 << 31;
/// Largest number of nodes in a fabric.
pub const MAX_NODES: u64 = 1 << 20;
/// Largest number of directed links in a fabric, host links included.
pub const MAX_LINKS: u64 = 1 << 22;
/// Largest number of ports on a router: port numbers have 16 bits.
pub const MAX_PORTS: u64 = 1 << 16;
/// Largest number of levels in a switch tree.
pub const MAX_LEVELS: usize = 8;
/// Largest number of tasks in a traffic.
pub const MAX_TASKS: usize = 1 << 24;
/// Largest number of pairs of tasks that a spec may expand to, and of messages that it may count.
pub const MAX_PAIRS: u64 = 1 << 25;
/// Largest number of bytes in one entry of traffic: 1 EB, far below the overflow of sums in single precision.
pub const MAX_BYTES: f64 = 1e18;
/// Largest number of messages in one entry of traffic.
pub const MAX_MESSAGES: u64 = 1_000_000_000_000_000;
/// Largest number of slots on a node.
pub const MAX_SLOTS: u32 = 1 << 22;
/// Largest number of slots in an allocation.
pub const MAX_ALLOCATION: u64 = 1 << 25;
/// Smallest and largest capacity of a link, bytes per second.
pub const CAPACITY: (f64, f64) = (1e-6, 1e18);
/// Largest latency of a link, seconds.
pub const MAX_LATENCY: f64 = 1e6;

/// The size of a fabric before it is built. Counts saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Routers.
    pub routers: u64,
    /// Nodes.
    pub nodes: u64,
    /// Directed links, host links included.
    pub links: u64,
    /// Largest number of ports on a router.
    pub ports: u64,
}

impl Size {
    /// Rejects a fabric that exceeds the bounds of this module; the error names `source`.
    ///
    /// # Errors
    /// The counts with their bounds.
    pub fn check(self, source: &str) -> Result<(), FabricError> {
        self.within(MAX_ROUTERS, source)
    }

    /// [`Size::check`] for machines with routes computed from distances.
    ///
    /// # Errors
    /// The counts with their bounds.
    pub fn check_distances(self, source: &str) -> Result<(), FabricError> {
        self.within(MAX_DISTANCES, source)
    }

    fn within(self, routers: u64, source: &str) -> Result<(), FabricError> {
        let mut exceeded = [
            (self.routers, routers, "routers"),
            (self.nodes, MAX_NODES, "nodes"),
            (self.links, MAX_LINKS, "links"),
            (self.ports, MAX_PORTS, "ports on a router"),
        ]
        .into_iter()
        .filter(|(count, most, _)| count > most);
        let Some((count, most, unit)) = exceeded.next() else {
            return Ok(());
        };
        let error = InputError::new(
            source,
            format!("{count} {unit}"),
            format!("at most {most} {unit}"),
        );
        Err(error
            .of(crate::Class::Limit)
            .hint("a smaller machine of the same kind answers most questions")
            .into())
    }
}

/// The product of counts, saturated.
pub fn product(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(1, u64::saturating_mul)
}

/// The sum of counts, saturated.
pub fn sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}
