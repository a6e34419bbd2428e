//! Metric families of Prometheus exporters that query the ports of a whole InfiniBand fabric: treydock's
//! infiniband_exporter (`infiniband_switch_port_*`, `infiniband_hca_port_*` with `guid` and `port`) and guilbaults's
//! infiniband-exporter (`infiniband_portxmitdata_total` and the others, named after the MAD's fields, with `local_guid` and
//! `local_port`).

use super::mads;
use super::names;
use super::reading::{Layout, Port};
use crate::text::hexadecimal;
use hopbyte_fabric::Quantity;

/// Families of treydock's exporter behind `infiniband_switch_port_` and `infiniband_hca_port_`, and the kernel's counters.
const FAMILIES: [(&str, &str); 13] = [
    ("receive_data_bytes", "port_rcv_data"),
    ("transmit_data_bytes", "port_xmit_data"),
    ("receive_packets", "port_rcv_packets"),
    ("transmit_packets", "port_xmit_packets"),
    ("transmit_wait", "port_xmit_wait"),
    ("symbol_error", "symbol_error"),
    ("receive_errors", "port_rcv_errors"),
    ("transmit_discards", "port_xmit_discards"),
    (
        "receive_remote_physical_errors",
        "port_rcv_remote_physical_errors",
    ),
    (
        "receive_switch_relay_errors",
        "port_rcv_switch_relay_errors",
    ),
    ("transmit_constraint_errors", "port_xmit_constraint_errors"),
    ("receive_constraint_errors", "port_rcv_constraint_errors"),
    ("link_downed", "link_downed"),
];

/// Start of all their families.
pub(super) const PREFIX: &str = "infiniband_";

/// Last family of guilbaults's exporter, which does not sort them.
pub(super) const LAST: &str = "infiniband_scrape_ok";

/// A sample of a port.
pub(super) struct OfPort {
    guid: u64,
    port: u16,
    measure: Measure,
    /// Bytes that the link carries in a tick of `PortXmitWait`, if the device's description tells.
    tick: Option<f64>,
}

enum Measure {
    /// The kernel's name, and whether data are in words.
    Counter(&'static str, bool),
    /// Bytes per second.
    Rate,
}

impl OfPort {
    /// A sample of one of these families; `label` gives its labels.
    pub(super) fn of<'a>(name: &str, label: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let family = name.strip_prefix(PREFIX)?;
        let stem = family.strip_suffix("_total").unwrap_or(family);
        let of_device = ["switch_port_", "hca_port_"];
        let of_device = of_device.iter().find_map(|p| stem.strip_prefix(p));
        let measure = match of_device {
            Some("rate_bytes_per_second") => Measure::Rate,
            Some(stem) => {
                let &(_, kernel) = FAMILIES.iter().find(|(family, _)| *family == stem)?;
                Measure::Counter(kernel, false)
            }
            None => Measure::Counter(mads::kernel_name(stem)?, true),
        };
        let either = |a, b| label(a).or_else(|| label(b));
        let guid = either("guid", "local_guid")?.strip_prefix("0x")?;
        Some(Self {
            guid: hexadecimal(guid.as_bytes()).filter(|&g| g != 0)?,
            port: either("port", "local_port")?.parse().ok()?,
            measure,
            tick: label("local_name").and_then(mads::tick),
        })
    }

    /// Name of the device, as `ibqueryerrors` gives it.
    pub(super) fn node(&self) -> String {
        format!("0x{:016x}", self.guid)
    }

    /// Adds the counter.
    pub(super) fn add(&self, layout: &mut Layout, name: &str) {
        let (guid, number) = (self.guid, self.port);
        let port = Port::InfiniBand { guid, port: number };
        let (kernel, words) = match self.measure {
            Measure::Rate => {
                names::both(layout, &port, name, Quantity::Capacity, 1.0);
                return;
            }
            Measure::Counter(kernel, words) => (kernel, words),
        };
        let Some(counter) = names::infiniband(layout, &port, kernel, false) else {
            return;
        };
        if !words {
            counter.factor = 1.0;
        }
        if let (Quantity::CreditStallCount, Some(bytes)) = (counter.quantity, self.tick) {
            counter.quantity = Quantity::CreditStallBytes;
            counter.factor = bytes;
        }
    }
}
