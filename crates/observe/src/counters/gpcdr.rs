//! The metrics that Cray's gpcdr makes of the tiles of Gemini and Aries, and that LDMS passes on.
//!
//! Gemini, by direction: `traffic` = 3 (PC0 + PC1) bytes, `packets` = PC2 + PC3, `inq_stall` = 5/4 PC4 ns,
//! `credit_stall` = 5/4 PC5 ns, `sendlinkstatus` and `recvlinkstatus` lanes, all added up over the
//! direction's tiles. Aries, by tile: `traffic_NNN` (flits × 20/3, bytes), `stalled_NNN` (ns), lanes. gpcdr
//! resolves the wraps of the 48-bit registers; its own sums have 64 bits. Names are `X+_traffic (B)`,
//! `X+_traffic_(B)` or `traffic_X+`, as the tools print them.

use super::delta::Behaviour;
use super::gemini::{MOST_BYTES, MOST_STALL, SMALLEST_PACKET};
use super::reading::{Combine, Layout, Port};
use hopbyte_fabric::{Direction, Quantity, Side};

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Metric {
    name: &'static str,
    quantity: Quantity,
    side: Side,
    most_per_second: Option<f64>,
}

const fn metric(
    name: &'static str,
    quantity: Quantity,
    side: Side,
    most_per_second: Option<f64>,
) -> Metric {
    Metric {
        name,
        quantity,
        side,
        most_per_second,
    }
}

/// Metrics of a Gemini direction.
const DIRECTION: [Metric; 6] = [
    metric(
        "traffic",
        Quantity::ReceivedBytes,
        Side::Arrivals,
        Some(MOST_BYTES),
    ),
    metric(
        "packets",
        Quantity::ReceivedPackets,
        Side::Arrivals,
        Some(MOST_BYTES / SMALLEST_PACKET),
    ),
    metric(
        "inq_stall",
        Quantity::InputStallNs,
        Side::Arrivals,
        Some(MOST_STALL),
    ),
    metric(
        "credit_stall",
        Quantity::CreditStallNs,
        Side::Departures,
        Some(MOST_STALL),
    ),
    metric("sendlinkstatus", Quantity::Lanes, Side::Departures, None),
    metric("recvlinkstatus", Quantity::Lanes, Side::Arrivals, None),
];

/// Metrics of an Aries tile. A tile carries at most 5.25 GB/s; eight virtual channels stall each for itself.
const TILE: [Metric; 4] = [
    metric(
        "traffic",
        Quantity::ReceivedBytes,
        Side::Arrivals,
        Some(5.25e9),
    ),
    metric("stalled", Quantity::InputStallNs, Side::Arrivals, Some(8e9)),
    metric("sendlinkstatus", Quantity::Lanes, Side::Departures, None),
    metric("recvlinkstatus", Quantity::Lanes, Side::Arrivals, None),
];

/// Percentages that LDMS computes.
const PRINTED: [Metric; 3] = [
    metric("USED_BW", Quantity::UsedRatio, Side::Arrivals, None),
    metric("INQ_STALL", Quantity::InputStallRatio, Side::Arrivals, None),
    metric(
        "CREDIT_STALL",
        Quantity::CreditStallRatio,
        Side::Departures,
        None,
    ),
];

/// Dimensions of the machine's mesh, as LDMS names a router's coordinate.
pub(super) fn coordinate(name: &str) -> Option<usize> {
    let dim = name.strip_prefix("nettopo_mesh_coord_")?;
    ["X", "Y", "Z"].iter().position(|d| *d == dim)
}

/// A metric that is none of a link's, or one whose unit is not known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoMetric {
    /// Something else.
    Other,
    /// A percentage in an unknown unit.
    Unit,
}

/// Adds the counter of a metric's name and unit to a layout.
pub(super) fn add(layout: &mut Layout, name: &str, unit: &str) -> Result<(), NoMetric> {
    let (name, unit) = name.split_once("_(").unwrap_or((name, unit));
    let (port, metric) = parse(name).ok_or(NoMetric::Other)?;
    let factor = if metric.quantity.is_ratio() {
        match unit.trim_matches(['(', ')']).trim() {
            "%" => 1e-2,
            "% x1e6" | "%_x1e6" => 1e-8,
            _ => return Err(NoMetric::Unit),
        }
    } else {
        1.0
    };
    let counter = layout.counter(&port, name, metric.quantity, factor);
    counter.side = metric.side;
    if metric.quantity.is_stall() && matches!(port, Port::Tile(_)) {
        counter.combine = Combine::Mean;
    }
    if let Some(most) = metric.most_per_second {
        counter.behaviour = Behaviour::PLAIN.at_most(most);
    }
    Ok(())
}

/// Reads `X+_traffic`, `traffic_X+`, `traffic_012`, `X+_SAMPLE_GEMINI_LINK_USED_BW`.
fn parse(name: &str) -> Option<(Port, Metric)> {
    let of = |metrics: &[Metric], name: &str| metrics.iter().copied().find(|m| m.name == name);
    let direction = |text: &str| {
        let direction = Direction::parse(text).filter(|d| d.dim < 3)?;
        Some(Port::Direction(direction))
    };
    if let Some((first, rest)) = name.split_once('_')
        && let Some(port) = direction(first)
    {
        return match rest.strip_prefix("SAMPLE_GEMINI_LINK_") {
            Some(printed) => Some((port, of(&PRINTED, printed)?)),
            None => Some((port, of(&DIRECTION, rest)?)),
        };
    }
    let (metric, last) = name.rsplit_once('_')?;
    if let Some(port) = direction(last) {
        return Some((port, of(&DIRECTION, metric)?));
    }
    let tile: u16 = last.parse().ok().filter(|&t| t < 48)?;
    let is_tile = last.len() == 3;
    is_tile.then_some((Port::Tile(tile), of(&TILE, metric)?))
}
