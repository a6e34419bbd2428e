//! Time that a node's threads waited for a processor.

use super::apart::grown;
use super::ends::node_of;
use super::reading::{Layout, Port, Reading};
use hopbyte_fabric::{Fabric, Increase, NodeTimes, Quantity};

/// Name of the source.
pub(crate) const SOURCE: &str = "processors";
const NO_NODE: &str = "waiting for processors on a host that is no node of the fabric";

/// The only counter of the source: nanoseconds.
pub(crate) fn layout(node: &str) -> Layout {
    let mut layout = Layout::new(node, SOURCE);
    let port = Port::Named("processors".into());
    layout.counter(&port, "longest_run_delay", Quantity::ProcessorWaitNs, 1.0);
    layout
}

/// Whether all counters of a layout are of nodes.
pub(super) fn is_of_nodes(layout: &Layout) -> bool {
    layout.source == SOURCE && layout.counters.iter().all(|c| c.quantity.is_of_node())
}

/// Files the increase between two readings of a node; nothing after a reset or without a value.
pub(super) fn file(fabric: &Fabric, earlier: &Reading, later: &Reading, into: &mut Increase) {
    let seconds = earlier.moment.seconds_to(later.moment);
    let Some(window) = seconds.ok().flatten().filter(|&s| s > 0.0) else {
        return;
    };
    for i in 0..later.layout.counters.len() {
        let Some(waited) = grown(earlier, later, i, Some(window)) else {
            continue;
        };
        let name = &later.layout.node;
        let Some(node) = node_of(fabric, name) else {
            // Processors of a switch forward nothing.
            if fabric.router_named(name).is_none() {
                into.left_out.note(NO_NODE, name.clone());
            }
            continue;
        };
        let times = NodeTimes {
            waited_seconds: waited / 1e9,
            window_seconds: window,
        };
        into.nodes.entry(node).or_default().add(&times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::apart;
    use crate::counters::delta::Moment;
    use crate::counters::join::{Joint, PortMap};
    use hopbyte_fabric::{LinkState, spec};
    use std::sync::Arc;

    fn reading(node: &str, time: u64, waited: Option<u64>) -> Reading {
        let moment = Moment {
            time_ns: Some(time * 1_000_000_000),
            ..Moment::default()
        };
        Reading::of(Arc::new(layout(node)), moment, &[waited])
    }

    #[test]
    fn waiting_is_of_the_node() {
        let fabric = spec::fabric("torus:4x4").unwrap();
        let node = fabric.nodes()[3].name.clone();
        let of = |name: &str, a, b| {
            let (first, last) = (reading(name, 1, a), reading(name, 5, b));
            let joint = Joint::new(&fabric, &[&first], &PortMap::new()).unwrap();
            let mut increase = Increase::new(&fabric, "test");
            apart::file(&fabric, &[(&joint, &first, &last)], &mut increase);
            joint.file_increase(&[Some((&first, &last))], &mut increase);
            assert_eq!(increase.quantities().count(), 0);
            increase
        };
        let mut increase = of(&node, Some(5), Some(3_000_000_005));
        let next = of(&node, Some(7), Some(1_000_000_007));
        increase.extend_by(&next);
        let state = LinkState::of_increase(&fabric, &increase);
        let times = state.nodes[&fabric.find_node(&node).unwrap()];
        assert_eq!((times.waited_seconds, times.window_seconds), (4.0, 8.0));
        assert_eq!(times.waited_ratio(), Some(0.5));
        // A restart, and a reading without a value.
        assert!(of(&node, Some(9), Some(3)).nodes.is_empty());
        assert!(of(&node, Some(9), None).nodes.is_empty());
        let stranger = of("mgmt9", Some(1), Some(2));
        assert_eq!(stranger.left_out.counts().next(), Some((NO_NODE, 1)));
        let switch = fabric.routers()[0].name.clone();
        assert!(of(&switch, Some(1), Some(2)).left_out.is_empty());
    }
}
