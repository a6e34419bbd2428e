//! Counts of a node's transport by peer: a port is the interface, its own address and the peer's. The node of an address is
//! the one that reports it as its own.

use super::apart::grown;
use super::join::Joint;
use super::reading::{Layout, Port, Reading};
use hopbyte_fabric::{Increase, NodeId, PathCounts, Quantity};
use std::collections::HashMap;
use std::net::IpAddr;

/// Name of the source.
pub const SOURCE: &str = "tcp";
/// Counters of a peer with their quantities.
pub(crate) const COUNTERS: [(&str, Quantity); 4] = [
    ("bytes_sent", Quantity::PathBytes),
    ("data_segs_out", Quantity::PathPackets),
    ("total_retrans", Quantity::PathResent),
    ("dsack_dups", Quantity::PathDuplicates),
];
const ELSEWHERE: &str = "connection with an address that no node of the fabric reports as its own";

/// Both ends of a node's connections to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// The interface with the own address.
    pub(crate) interface: String,
    /// The own address.
    pub(crate) local: IpAddr,
    /// The peer's.
    pub(crate) remote: IpAddr,
}

impl Ends {
    fn port(&self) -> Port {
        Port::Named(format!("{} {} {}", self.interface, self.local, self.remote))
    }

    fn parse(port: &Port) -> Option<Self> {
        let text = port.to_string();
        let mut words = text.rsplitn(3, ' ');
        let (remote, local) = (words.next()?, words.next()?);
        Some(Self {
            interface: words.next()?.to_owned(),
            local: local.parse().ok()?,
            remote: remote.parse().ok()?,
        })
    }
}

/// Adds a peer's counters.
pub(crate) fn add(layout: &mut Layout, ends: &Ends) {
    let port = ends.port();
    for (name, quantity) in COUNTERS {
        layout.counter(&port, name, quantity, 1.0);
    }
}

/// Whether all counters of a layout are of paths.
pub(super) fn is_of_paths(layout: &Layout) -> bool {
    layout.counters.iter().all(|c| c.quantity.is_of_path()) && layout.source == SOURCE
}

/// Sums transport counters per node pair, between two readings of each node. Connections of which an end is no node of the fabric,
/// such as those of a management network, are left out.
pub(super) fn file<'a>(
    readings: impl Iterator<Item = (&'a Joint, &'a Reading, &'a Reading)>,
    into: &mut Increase,
) {
    let mut own: HashMap<IpAddr, NodeId> = HashMap::new();
    let mut found: Vec<(Ends, PathCounts)> = Vec::new();
    for (joint, earlier, later) in readings {
        let seconds = earlier.moment.seconds_to(later.moment);
        let counts = counts(earlier, later, seconds.ok().flatten());
        for (port, counts) in later.layout.ports.iter().zip(counts) {
            let Some(ends) = Ends::parse(port) else {
                continue;
            };
            if let Some(&node) = joint.interfaces.get(&ends.interface) {
                own.insert(ends.local, node);
                found.extend(counts.map(|counts| (ends, counts)));
            }
        }
    }
    for (ends, counts) in found {
        let Some((&from, &to)) = own.get(&ends.local).zip(own.get(&ends.remote)) else {
            let name = format!("{} to {}", ends.local, ends.remote);
            into.left_out.note(ELSEWHERE, name);
            continue;
        };
        into.paths.entry((from, to)).or_default().add(&counts);
    }
}

/// Counts by port; `None` after a reset or without a value.
fn counts(earlier: &Reading, later: &Reading, seconds: Option<f64>) -> Vec<Option<PathCounts>> {
    let layout = &later.layout;
    let mut counts = vec![Some(PathCounts::default()); layout.ports.len()];
    for (i, counter) in layout.counters.iter().enumerate() {
        let slot = &mut counts[usize::from(counter.port)];
        match (&mut *slot, grown(earlier, later, i, seconds)) {
            (Some(counts), Some(grown)) => match counter.quantity {
                Quantity::PathBytes => counts.sent_bytes += grown,
                Quantity::PathPackets => counts.packets += grown,
                Quantity::PathResent => counts.lost += grown,
                Quantity::PathDuplicates => counts.lost -= grown,
                _ => {}
            },
            _ => *slot = None,
        }
    }
    // A duplicate may be reported in the interval after it was sent again.
    for counts in counts.iter_mut().flatten() {
        counts.lost = counts.lost.max(0.0);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::delta::Moment;
    use crate::counters::join::PortMap;
    use hopbyte_fabric::spec;
    use std::sync::Arc;

    fn reading(node: &str, local: &str, remote: &str, time: u64, values: [u64; 4]) -> Reading {
        let mut layout = Layout::new(node, SOURCE);
        let ends = Ends {
            interface: "eth0".into(),
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
        };
        assert_eq!(Ends::parse(&ends.port()), Some(ends.clone()));
        add(&mut layout, &ends);
        assert!(is_of_paths(&layout));
        let moment = Moment {
            time_ns: Some(time * 1_000_000_000),
            ..Moment::default()
        };
        Reading::of(Arc::new(layout), moment, &values.map(Some))
    }

    #[test]
    fn addresses_are_those_of_the_nodes_that_report_them() {
        let fabric = spec::fabric("fattree:down=2x2,up=1x1,link=1").unwrap();
        let names: Vec<&str> = fabric.nodes().iter().map(|n| n.name.as_str()).collect();
        let (a, b) = (names[0], names[3]);
        let at = |time, n: u64| {
            let sent = [1000 * n, 100 * n, 9 * n, 2 * n];
            [
                reading(a, "10.0.0.1", "10.0.0.4", time, sent),
                reading(b, "10.0.0.4", "10.0.0.1", time, [7, 0, 0, 0]),
                reading(b, "10.0.0.4", "192.168.0.9", time, [n, 0, 0, 0]),
            ]
        };
        let (first, last) = (at(1, 1), at(3, 2));
        let joints = first.each_ref().map(|tcp| {
            let mut linux = Layout::new(tcp.layout.node.clone(), "linux");
            linux.counter(
                &Port::Named("eth0".into()),
                "tx_bytes",
                Quantity::SentBytes,
                1.0,
            );
            let linux = Reading::of(Arc::new(linux), tcp.moment, &[Some(1)]);
            Joint::new(&fabric, &[&linux, tcp], &PortMap::new()).unwrap()
        });
        let mut increase = Increase::new(&fabric, "test");
        let readings = first.iter().zip(&last).zip(&joints);
        file(readings.map(|((a, b), joint)| (joint, a, b)), &mut increase);
        let of = |name: &str| fabric.find_node(name).unwrap();
        let counts = PathCounts {
            sent_bytes: 1000.0,
            packets: 100.0,
            lost: 7.0,
        };
        assert_eq!(increase.paths.len(), 2);
        assert_eq!(increase.paths[&(of(a), of(b))], counts);
        assert_eq!(increase.left_out.counts().next(), Some((ELSEWHERE, 1)));
    }
}
