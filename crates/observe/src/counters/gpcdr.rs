//! Metrics that Cray's gpcdr computes from Gemini and Aries tiles and LDMS forwards.
//!
//! Gemini, per direction: `traffic` = 3 (PC0 + PC1) bytes, `packets` = PC2 + PC3, `inq_stall` = 5/4 PC4 ns,
//! `credit_stall` = 5/4 PC5 ns, `sendlinkstatus` and `recvlinkstatus` lanes, all summed over the direction's tiles.
//! Aries, per tile: `traffic_NNN` (flits × 20/3, bytes), `stalled_NNN` (ns), lanes. gpcdr resolves the wraps of the
//! 48-bit registers; its own sums have 64 bits. Names are `X+_traffic (B)`, `X+_traffic_(B)` or `traffic_X+`,
//! depending on the tool.

use super::delta::{Behaviour, Moment};
use super::gemini::{MOST_BYTES, MOST_STALL, SMALLEST_PACKET};
use super::reading::{Combine, Layout, Port, Reading};
use crate::text::{Text, decimal, lossy};
use hopbyte_fabric::{Direction, InputError, LeftOut, Quantity, Side};
use std::collections::HashMap;
use std::sync::Arc;

/// Quantity and scale of a metric.
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

/// Metrics of an Aries tile. A tile carries at most 5.25 GB/s; eight virtual channels stall independently.
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

/// A metric that does not belong to a link, or has an unknown unit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoMetric {
    /// Not a link metric.
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

/// Reads a metrics file of gpcdr: `timestamp N ms`, then `NAME VALUE UNIT` lines.
pub(super) fn reading(
    text: &Text,
    node: Option<&str>,
    left_out: &mut LeftOut,
) -> Result<Reading, InputError> {
    let Some(node) = node else {
        return Err(text
            .error("metrics of one node", "the node's name beside them")
            .hint("gpcdr does not name the node of its metrics: --counters-of nid00064"));
    };
    let mut layout = Layout::new(node, "gpcdr");
    let mut moment = None;
    let mut values = Vec::new();
    let mut seen = HashMap::new();
    for line in text.lines().filter(|l| !l.trimmed().is_empty()) {
        let words: Vec<&[u8]> = line.words().collect();
        let [name, value, ref unit @ ..] = words[..] else {
            return Err(text.error_at(line, "NAME VALUE UNIT"));
        };
        let number = decimal(value).ok_or_else(|| text.error_in(line, value, "a whole number"))?;
        if let Some(first) = seen.insert(name, line.number) {
            return Err(super::twice(text, line, first));
        }
        if name == b"timestamp" {
            if !matches!(unit, [] | [b"ms"]) {
                return Err(text.error_at(line, "a time in ms"));
            }
            moment = number.checked_mul(1_000_000);
        } else if add(&mut layout, &lossy(name), &lossy(&unit.join(&b' '))).is_ok() {
            values.push(Some(number));
        } else {
            left_out.note("metric that belongs to no link", lossy(name));
        }
    }
    let time =
        moment.ok_or_else(|| text.error("no line 'timestamp N ms'", "the time of the metrics"))?;
    if values.is_empty() {
        return Err(text.error("no metric of a link", "traffic, packets, inq_stall, …"));
    }
    Ok(Reading::of(Arc::new(layout), Moment::at_ns(time), &values))
}

/// Reads `X+_traffic`, `traffic_X+`, `traffic:X+`, `traffic_012`, `X+_SAMPLE_GEMINI_LINK_USED_BW`.
fn parse(name: &str) -> Option<(Port, Metric)> {
    let of = |metrics: &[Metric], name: &str| metrics.iter().copied().find(|m| m.name == name);
    let parts: Vec<&str> = name.split(['_', ':', '.']).collect();
    let directed = parts.iter().enumerate().find_map(|(i, part)| {
        let direction = Direction::parse(part).filter(|d| d.dim < 3)?;
        Some((i, Port::Direction(direction)))
    });
    if let Some((i, port)) = directed {
        let mut rest = parts;
        rest.remove(i);
        let rest = rest.join("_");
        return match rest.strip_prefix("SAMPLE_GEMINI_LINK_") {
            Some(printed) => Some((port, of(&PRINTED, printed)?)),
            None => Some((port, of(&DIRECTION, &rest)?)),
        };
    }
    let (metric, last) = name.rsplit_once('_')?;
    let tile: u16 = last.parse().ok().filter(|&t| t < 48)?;
    let is_tile = last.len() == 3;
    is_tile.then_some((Port::Tile(tile), of(&TILE, metric)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::join::PortMap;
    use crate::counters::series;
    use crate::text::Limits;
    use hopbyte_fabric::{Missing, spec};

    fn read(content: &str) -> Result<Reading, String> {
        let text = Text::from_bytes("metrics", content.as_bytes(), Limits::TEXT).unwrap();
        reading(&text, Some("nid00000"), &mut LeftOut::default()).map_err(|e| e.to_string())
    }

    fn file(ms: u64, traffic: u64) -> String {
        let mut out = format!("timestamp {ms} ms\n");
        for d in ["X+", "X-", "Y+", "Y-", "Z+", "Z-"] {
            out += &format!(
                "traffic_{d} {traffic} bytes\ninq_stall_{d} {traffic} ns\nsendlinkstatus_{d} 12 1\n"
            );
        }
        out
    }

    #[test]
    fn percentages_alone_are_a_reading_where_their_unit_is_known() {
        let of = |unit| {
            read(&format!(
                "timestamp 5 ms\nX+_SAMPLE_GEMINI_LINK_USED_BW 75 {unit}\n"
            ))
        };
        let reading = of("%").unwrap();
        let counter = &reading.layout.counters[0];
        assert_eq!(
            (counter.quantity, counter.factor),
            (Quantity::UsedRatio, 1e-2)
        );
        assert_eq!(reading.get(0), Some(75));
        assert_eq!(of("% x1e6").unwrap().layout.counters[0].factor, 1e-8);
        assert!(of("furlong").unwrap_err().contains("no metric of a link"));
    }

    #[test]
    fn names_in_all_spellings() {
        let x = Port::Direction(Direction::of(0));
        for name in ["X+_traffic", "traffic_X+", "traffic:X+", "traffic.X+"] {
            let (port, metric) = parse(name).unwrap();
            assert_eq!(
                (port, metric.quantity),
                (x.clone(), Quantity::ReceivedBytes),
                "{name}"
            );
        }
        let (port, metric) = parse("credit_stall_Z-").unwrap();
        assert_eq!(
            (port.to_string(), metric.side),
            ("Z-".into(), Side::Departures)
        );
        assert_eq!(parse("stalled_047").unwrap().0, Port::Tile(47));
        for other in [
            "traffic",
            "traffic_48",
            "traffic_048",
            "W+_traffic",
            "X+_SAMPLE_GEMINI_LINK_BW",
            "totalinput",
        ] {
            assert!(parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn intervals_come_from_its_own_clock() {
        let fabric = spec::fabric("gemini:4x4x24").unwrap();
        let readings = [(1000, 0), (1500, 300), (1500, 300), (1400, 900)]
            .map(|(ms, t)| read(&file(ms, t)).unwrap());
        let link = fabric.find_link("c0-0c0s0g0 X+").unwrap();
        let back = fabric.reverse(link).unwrap();
        let mut joined = Vec::new();
        for pair in readings.windows(2) {
            // Two at a time, so that nothing is sorted.
            let joint =
                super::super::join::Joint::new(&fabric, &[&pair[0]], &PortMap::new()).unwrap();
            let mut s = hopbyte_fabric::Increase::new(&fabric, "t");
            joint.file_increase(&[Some((&pair[0], &pair[1]))], &mut s);
            joined.push((
                s.get(Quantity::ReceivedBytes, back),
                s.missing(Quantity::ReceivedBytes, back),
                s.window_seconds,
            ));
        }
        let zero = (None, Some(Missing::ZeroInterval), None);
        assert_eq!(joined, [(Some(300.0), None, Some(0.5)), zero, zero]);
        let one = series(&fabric, "t", vec![readings[1].clone()], &PortMap::new())
            .unwrap()
            .all();
        assert_eq!(one[0].get(Quantity::Lanes, link), Some(12.0));
    }

    #[test]
    fn aries_by_tile() {
        let fabric = spec::fabric("aries:2x6x16").unwrap();
        let link = fabric
            .link_ids()
            .find(|&l| fabric.kind(l).name == "black")
            .unwrap();
        let hopbyte_fabric::End::Router(to) = fabric.link(link).to else {
            panic!()
        };
        let node = fabric.node(fabric.nodes_on(to)[0]).name.clone();
        let mut content = String::from("timestamp 5 ms\n");
        for p in fabric.ports(link) {
            content += &format!(
                "traffic_{0:03} 70 B\nstalled_{0:03} 30 ns\nrecvlinkstatus_{0:03} 3 1\n",
                p.to
            );
        }
        let text = Text::from_bytes("metrics", content.as_bytes(), Limits::TEXT).unwrap();
        let r = reading(&text, Some(&node), &mut LeftOut::default()).unwrap();
        let s = &series(&fabric, "t", vec![r], &PortMap::new())
            .unwrap()
            .all()[0];
        let tiles = fabric.ports(link).len() as f64;
        assert_eq!(s.get(Quantity::ReceivedBytes, link), Some(70.0 * tiles));
        assert_eq!(s.get(Quantity::InputStallNs, link), Some(30.0));
        assert_eq!(
            s.get(Quantity::Lanes, link),
            Some(f64::from(fabric.link(link).lanes))
        );
    }

    #[test]
    fn bad_metrics_are_named() {
        for (content, found) in [
            ("timestamp 5 s\n", "metrics:1: found timestamp 5 s"),
            ("timestamp 5 ms\nx\n", "metrics:2: found x"),
            ("timestamp 5 ms\ntraffic_X+ -1 B\n", "metrics:2: found -1"),
            ("traffic_X+ 1 B\n", "metrics: found no line"),
            ("timestamp 5 ms\nfoo 1 B\n", "metrics: found no metric"),
            (
                "timestamp 5 ms\ntraffic_X+ 1 B\ntraffic_X+ 2 B\n",
                "metrics:3: found traffic_X+ 2 B, expected every counter once, but line 2 has it too",
            ),
        ] {
            let error = read(content).unwrap_err();
            assert!(
                error.starts_with(found) && error.contains("expected"),
                "{error}"
            );
        }
    }
}
