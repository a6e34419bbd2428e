//! The largest sizes and numbers that any input may ask for.
//!
//! A size is held against its bound before memory is allocated for it. The bounds leave room for the
//! largest machines and jobs that are known: fabrics of 100,000 ports, 65,536 Gemini nodes, a million
//! ranks with 26 neighbours each.

use crate::error::{FabricError, InputError};

/// Most routers of a fabric.
pub const MAX_ROUTERS: u64 = 1 << 20;
/// Most routers where routes are computed from the distances of all pairs of routers (two bytes each):
/// everything but closed forms and forwarding tables.
pub const MAX_DISTANCES: u64 = 1 << 15;
/// Most entries of forwarding tables, routers times nodes: 2 GiB of them, or 4 GiB where a router has many
/// links.
pub const MAX_ENTRIES: u64 = 1 << 31;
/// Most nodes of a fabric.
pub const MAX_NODES: u64 = 1 << 20;
/// Most directed links of a fabric, host links included.
pub const MAX_LINKS: u64 = 1 << 22;
/// Most ports of a router: port numbers have 16 bits.
pub const MAX_PORTS: u64 = 1 << 16;
/// Most levels of a switch tree.
pub const MAX_LEVELS: usize = 8;
/// Most tasks of a traffic.
pub const MAX_TASKS: usize = 1 << 24;
/// Most pairs of tasks that a spec may expand to, and most messages that it may count up.
pub const MAX_PAIRS: u64 = 1 << 25;
/// Most bytes of one entry of traffic: 1 EB, far from the overflow of sums in single precision.
pub const MAX_BYTES: f64 = 1e18;
/// Most messages of one entry of traffic.
pub const MAX_MESSAGES: u64 = 1_000_000_000_000_000;
/// Most slots of a node.
pub const MAX_SLOTS: u32 = 1 << 22;
/// Most slots of an allocation.
pub const MAX_ALLOCATION: u64 = 1 << 25;
/// Least and largest capacity of a link, bytes per second.
pub const CAPACITY: (f64, f64) = (1e-6, 1e18);
/// Largest latency of a link, seconds.
pub const MAX_LATENCY: f64 = 1e6;

/// What a fabric that is about to be built will have. Counts are saturated, never wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Routers.
    pub routers: u64,
    /// Nodes.
    pub nodes: u64,
    /// Directed links, host links included.
    pub links: u64,
    /// Ports of the router that has most.
    pub ports: u64,
}

impl Size {
    /// Refuses a fabric that is larger than the bounds of this module; `source` is named in the error.
    ///
    /// # Errors
    /// The counts found and those accepted.
    pub fn check(self, source: &str) -> Result<(), FabricError> {
        self.within(MAX_ROUTERS, source)
    }

    /// [`Size::check`] for machines whose routes are computed from distances.
    ///
    /// # Errors
    /// The counts found and those accepted.
    pub fn check_distances(self, source: &str) -> Result<(), FabricError> {
        self.within(MAX_DISTANCES, source)
    }

    fn within(self, routers: u64, source: &str) -> Result<(), FabricError> {
        let pairs = [
            (self.routers, routers),
            (self.nodes, MAX_NODES),
            (self.links, MAX_LINKS),
            (self.ports, MAX_PORTS),
        ];
        if pairs.iter().all(|(count, most)| count <= most) {
            return Ok(());
        }
        let found = format!(
            "{} routers of up to {} ports, {} nodes, {} links",
            self.routers, self.ports, self.nodes, self.links
        );
        let expected = format!(
            "at most {routers} routers of {MAX_PORTS} ports, {MAX_NODES} nodes, {MAX_LINKS} links"
        );
        let error = InputError::new(source, found, expected);
        Err(error
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
