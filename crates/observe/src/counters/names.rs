//! Names of counters that several tools share: Linux interfaces, InfiniBand ports.
//!
//! One table each says what a name counts, in our vocabulary and units, and how wide it is. What the
//! tables do not name is no counter of a link.

use super::delta::Behaviour;
use super::reading::{Counter, Layout, Port};
use hopbyte_fabric::Quantity as Q;

/// Adds a network interface's counter by the kernel's name (`rx_bytes`; `/sys/class/net/*/statistics`).
///
/// Drops count as errors: a packet that was dropped is lost to the link as one that was damaged.
pub(super) fn interface<'a>(
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
        | "tx_dropped" | "tx_drop" => Q::Errors,
        _ => return None,
    };
    Some(layout.counter(port, name, quantity, 1.0))
}

/// Bytes of the words that InfiniBand ports count.
const WORD: f64 = 4.0;

/// Adds an InfiniBand port's counter by the kernel's name (`/sys/class/infiniband/*/ports/*/counters`).
///
/// Data are counted in words of four bytes. `port_xmit_wait` counts ticks whose length differs by device
/// and is not told, so it is a count and no time; it sticks at 2^32-1. Error counters stick too.
pub(super) fn infiniband<'a>(
    layout: &'a mut Layout,
    port: &Port,
    name: &str,
) -> Option<&'a mut Counter> {
    let (quantity, factor, behaviour) = match name {
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
        _ => return None,
    };
    let counter = layout.counter(port, name, quantity, factor);
    counter.behaviour = behaviour;
    Some(counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_sticky_counters_of_infiniband() {
        let mut layout = Layout::new("n", "mlx5_0");
        let port = Port::Named("mlx5_0/1".into());
        let data = infiniband(&mut layout, &port, "port_rcv_data").unwrap();
        assert_eq!((data.factor, data.quantity), (4.0, Q::ReceivedBytes));
        let wait = infiniband(&mut layout, &port, "port_xmit_wait").unwrap();
        assert!(wait.behaviour.sticky && wait.behaviour.highest() == 0xffff_ffff);
        assert!(infiniband(&mut layout, &port, "link_downed").is_none());
    }
}
