//! Counters that are of no link: those of paths between nodes, and those of nodes.

use super::join::Joint;
use super::reading::{Layout, Reading};
use super::{peers, processors};
use hopbyte_fabric::{Fabric, Increase};

/// Names of these sources.
pub const SOURCES: [&str; 2] = [peers::SOURCE, processors::SOURCE];

/// Whether none of a layout's counters is of a link.
pub fn is_apart(layout: &Layout) -> bool {
    peers::is_of_paths(layout) || processors::is_of_nodes(layout)
}

/// Files what grew between two readings each, of layouts that are apart.
pub fn file(fabric: &Fabric, readings: &[(&Joint, &Reading, &Reading)], into: &mut Increase) {
    let of = |is: fn(&Layout) -> bool| {
        let readings = readings.iter().copied();
        readings.filter(move |(_, _, later)| is(&later.layout))
    };
    peers::file(of(peers::is_of_paths), into);
    for (_, earlier, later) in of(processors::is_of_nodes) {
        processors::file(fabric, earlier, later, into);
    }
}
