//! Names of counters that several tools share: Linux interfaces, InfiniBand ports, Slingshot (CXI).
//!
//! One table each maps a name to its quantity, in our vocabulary and units, and to its width. A name outside the
//! tables is not a counter of a link.

use super::delta::Behaviour;
use super::reading::{Combine, Counter, Layout, Port};
use hopbyte_fabric::{Quantity as Q, Side};

/// Adds a network interface's counter by the kernel's name: `rx_bytes` and the others in
/// `/sys/class/net/*/statistics`, `tx_speed` and `rx_speed` in Mbit/s (from the single file `speed`), counters of its
/// root queueing discipline (`qdisc_…`, 32 bits except a shaper's rate) and stalls of its byte queue limits.
///
/// Drops count as errors: a dropped packet is as lost as a damaged one; [`Counter::of_link`] keeps them apart. Packets that could not be sent belong to the
/// leaving link.
pub(crate) fn interface<'a>(
    layout: &'a mut Layout,
    port: &Port,
    name: &str,
) -> Option<&'a mut Counter> {
    let quantity = match name {
        "rx_bytes" => Q::ReceivedBytes,
        "tx_bytes" => Q::SentBytes,
        "rx_packets" => Q::ReceivedPackets,
        "tx_packets" => Q::SentPackets,
        "rx_errors" | "rx_errs" | "rx_dropped" | "rx_drop" | "tx_errors" | "tx_errs"
        | "tx_dropped" | "tx_drop" | "qdisc_drops" => Q::Errors,
        "qdisc_waited_ns" => Q::CreditStallNs,
        "qdisc_served_bytes" => Q::ServedBytes,
        "qdisc_served_ns" => Q::ServedNs,
        "qdisc_backlog" => Q::QueuedBytes,
        "qdisc_overlimits" | "bql_stalls" => Q::CreditStallCount,
        "tx_speed" | "rx_speed" | "qdisc_rate" => Q::Capacity,
        _ => return downs(layout, port, name),
    };
    let factor = if name.ends_with("_speed") {
        MEGABIT
    } else {
        1.0
    };
    let counter = layout.counter(port, name, quantity, factor);
    if name.starts_with("tx_") || name.starts_with("qdisc_") {
        counter.side = Side::Departures;
    }
    if name == "qdisc_served_ns" {
        counter.combine = Combine::Mean;
    }
    if matches!(name, "qdisc_drops" | "qdisc_overlimits") {
        counter.behaviour = Behaviour::bits(32);
    }
    Some(counter)
}

/// Counters of [`Q::Errors`] that only packets dropped for lack of room raise, as a full queue of Ethernet does. On a network
/// with credits a drop is a fault.
const DROPS: [&str; 9] = [
    "rx_dropped",
    "rx_drop",
    "tx_dropped",
    "tx_drop",
    "qdisc_drops",
    "ifInDiscards",
    "ifOutDiscards",
    "in-discards",
    "out-discards",
];

impl Counter {
    /// The quantity of its link: errors by end, drops apart.
    pub(crate) fn of_link(&self) -> Q {
        let quantity = match self.quantity {
            Q::Errors if DROPS.contains(&self.name.as_str()) => Q::Drops,
            other => other,
        };
        quantity.counted_at(self.side)
    }
}

/// Bytes per second of a Mbit/s.
pub(super) const MEGABIT: f64 = 1e6 / 8.0;

/// Bytes of the words that InfiniBand ports count in.
const WORD: f64 = 4.0;

/// Adds a property that both directions of a link share (rate, lanes).
pub(crate) fn both(layout: &mut Layout, port: &Port, name: &str, quantity: Q, factor: f64) {
    for side in [Side::Departures, Side::Arrivals] {
        layout.counter(port, name, quantity, factor).side = side;
    }
}

/// Counters of the times that a port's link went down: of InfiniBand, of mlx5 and bnxt_en (`ethtool -S`), of the kernel.
pub(super) const DOWNS: [&str; 4] = [
    "link_downed",
    "link_down_events_phy",
    "link_down_events",
    "carrier_down_count",
];

/// Adds a counter of [`DOWNS`], which both directions of the link have ([`hopbyte_fabric::LinkState::downs`]).
pub(super) fn downs<'a>(
    layout: &'a mut Layout,
    port: &Port,
    name: &str,
) -> Option<&'a mut Counter> {
    let is_one = DOWNS.contains(&name);
    is_one.then(|| layout.counter(port, name, Q::Downs, 1.0))
}

/// Adds an InfiniBand port's counter by the kernel's name (`/sys/class/infiniband/*/ports/*/counters`).
///
/// Data are counted in words of four bytes. `port_xmit_wait` counts ticks of an unknown length that differs by
/// device, so it is a count, not a time; it saturates at 2^32-1. Error counters saturate too. Ethernet (RoCE) has no
/// credits: there congestion notifications to the sender count instead, and out-of-sequence packets as errors.
pub(crate) fn infiniband<'a>(
    layout: &'a mut Layout,
    port: &Port,
    name: &str,
    ethernet: bool,
) -> Option<&'a mut Counter> {
    let (quantity, factor, behaviour) = match name {
        "port_xmit_wait" if ethernet => return None,
        "rp_cnp_handled" if ethernet => (Q::CreditStallCount, 1.0, Behaviour::PLAIN),
        "out_of_sequence" | "packet_seq_err" if ethernet => (Q::Errors, 1.0, Behaviour::PLAIN),
        "port_rcv_data" => (Q::ReceivedBytes, WORD, Behaviour::PLAIN),
        "port_xmit_data" => (Q::SentBytes, WORD, Behaviour::PLAIN),
        "port_rcv_packets" => (Q::ReceivedPackets, 1.0, Behaviour::PLAIN),
        "port_xmit_packets" => (Q::SentPackets, 1.0, Behaviour::PLAIN),
        "port_xmit_wait" => (Q::CreditStallCount, 1.0, Behaviour::sticky(32)),
        "symbol_error"
        | "port_rcv_errors"
        | "port_xmit_discards"
        | "port_rcv_remote_physical_errors"
        | "port_rcv_switch_relay_errors" => (Q::Errors, 1.0, Behaviour::sticky(16)),
        "port_rcv_constraint_errors" | "port_xmit_constraint_errors" => {
            (Q::Errors, 1.0, Behaviour::sticky(8))
        }
        _ => {
            let counter = downs(layout, port, name)?;
            counter.behaviour = Behaviour::sticky(8);
            return Some(counter);
        }
    };
    let counter = layout.counter(port, name, quantity, factor);
    counter.behaviour = behaviour;
    if name.starts_with("port_xmit_") || name == "packet_seq_err" {
        counter.side = Side::Departures;
    }
    Some(counter)
}

/// Telemetry items of a Cassini NIC's link, for the agent's choice of files.
pub(crate) fn cxi_items() -> impl Iterator<Item = String> {
    let classes = |stem: &'static str| (0..8).map(move |n| format!("{stem}_{n}"));
    let single = [
        "hni_sts_rx_ok_octets",
        "hni_sts_tx_ok_octets",
        "hni_tx_stall_llr",
        "hni_pcs_uncorrected_cw",
        "hni_llr_rx_replay_event",
    ];
    single
        .into_iter()
        .map(str::to_owned)
        .chain(classes("hni_tx_paused"))
        .chain(classes("hni_rx_paused"))
        .chain(classes("hni_pkts_recv_by_tc"))
        .chain(classes("hni_pkts_sent_by_tc"))
        .chain(classes("hni_discard_cntr"))
}

/// Clock of a Cassini NIC: the unit of its pause counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cassini {
    /// Nanoseconds per cycle: 1 for Cassini 1 (1.0 GHz), 1/1.1 for Cassini 2.
    pub(crate) cycle_ns: f64,
}

impl Cassini {
    pub(crate) const ONE: Self = Self { cycle_ns: 1.0 };
    pub(crate) const TWO: Self = Self {
        cycle_ns: 1.0 / 1.1,
    };
}

/// Adds a Cassini NIC's telemetry item. Its link counters have 56 bits; counters of its list engine's load
/// (`lpe_sts_load_stats_*`, not of a link) have 48 and 52. Transmission pauses by priority are the credit stall,
/// pauses that the NIC requests the input stall. Priorities pause independently, so the longest pause counts.
pub(crate) fn cxi<'a>(
    layout: &'a mut Layout,
    port: &Port,
    name: &str,
    nic: Cassini,
) -> Option<&'a mut Counter> {
    const BITS: u32 = 56;
    let class = name
        .rsplit_once('_')
        .filter(|(_, n)| matches!(n.as_bytes(), [b'0'..=b'7']));
    let stem = class.map_or(name, |(stem, _)| stem);
    let (quantity, factor, combine, most) = match (stem, class.is_some()) {
        ("hni_sts_rx_ok_octets", false) => (Q::ReceivedBytes, 1.0, Combine::Sum, None),
        ("hni_sts_tx_ok_octets", false) => (Q::SentBytes, 1.0, Combine::Sum, None),
        ("hni_pkts_recv_by_tc", true) => (Q::ReceivedPackets, 1.0, Combine::Sum, None),
        ("hni_pkts_sent_by_tc", true) => (Q::SentPackets, 1.0, Combine::Sum, None),
        ("hni_tx_paused", true) | ("hni_tx_stall_llr", false) => {
            let cycles = 1e9 / nic.cycle_ns;
            (Q::CreditStallNs, nic.cycle_ns, Combine::Max, Some(cycles))
        }
        ("hni_rx_paused", true) => {
            let cycles = 1e9 / nic.cycle_ns;
            (Q::InputStallNs, nic.cycle_ns, Combine::Max, Some(cycles))
        }
        ("hni_pcs_uncorrected_cw" | "hni_llr_rx_replay_event", false)
        | ("hni_discard_cntr", true) => (Q::Errors, 1.0, Combine::Sum, None),
        _ => return None,
    };
    let counter = layout.counter(port, name, quantity, factor);
    counter.combine = combine;
    counter.behaviour = Behaviour {
        most_per_second: most,
        ..Behaviour::bits(BITS)
    };
    Some(counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_that_is_read_has_a_meaning() {
        let mut layout = Layout::new("n", "cxi0");
        let port = Port::Named("cxi0".into());
        for name in cxi_items() {
            let counter = cxi(&mut layout, &port, &name, Cassini::ONE);
            assert_eq!(counter.map(|c| c.behaviour.bits), Some(56), "{name}");
        }
        for name in [
            "hni_tx_paused_8",
            "hni_tx_paused",
            "hni_sts_rx_ok_octets_0",
            "reset_counters",
            "",
        ] {
            assert!(
                cxi(&mut layout, &port, name, Cassini::ONE).is_none(),
                "{name}"
            );
        }
        let two = cxi(&mut layout, &port, "hni_tx_paused_3", Cassini::TWO).unwrap();
        assert!(
            (two.factor * 1.1e9 - 1e9).abs() < 1.0,
            "a second of cycles is a second"
        );
    }

    #[test]
    fn words_and_sticky_counters_of_infiniband() {
        let mut layout = Layout::new("n", "mlx5_0");
        let port = Port::Named("mlx5_0/1".into());
        let data = infiniband(&mut layout, &port, "port_rcv_data", false).unwrap();
        assert_eq!((data.factor, data.quantity), (4.0, Q::ReceivedBytes));
        let wait = infiniband(&mut layout, &port, "port_xmit_wait", false).unwrap();
        assert!(wait.behaviour.sticky && wait.behaviour.highest() == 0xffff_ffff);
        let downed = infiniband(&mut layout, &port, "link_downed", false).unwrap();
        assert!(downed.quantity == Q::Downs && downed.behaviour == Behaviour::sticky(8));
        assert!(infiniband(&mut layout, &port, "link_error_recovery", false).is_none());
    }
}
