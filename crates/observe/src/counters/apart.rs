//! Counters that are of no link: those of paths between nodes, and those of nodes.

use super::delta::increase;
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

/// Increase of a counter between two readings; `None` after a reset or without a value.
pub(super) fn grown(
    earlier: &Reading,
    later: &Reading,
    i: usize,
    seconds: Option<f64>,
) -> Option<f64> {
    let (old, new) = earlier.get(i).zip(later.get(i))?;
    let behaviour = later.layout.counters[i].behaviour;
    Some(increase(behaviour, old, new, seconds).ok()? as f64)
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
