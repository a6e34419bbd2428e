//! Tile counters of Gemini and Aries by their register names.
//!
//! Gemini (paper 000, Table I): `GM_r_c_TILE_PERFORMANCE_COUNTERS_k` in the GPCD library,
//! `GM_TILE_PERF_VC0_PHIT_CNT:r:c` and so on in Cray's documentation. Aries: `AR_RTR_r_c_INQ_PRF_*`. Registers have
//! 48 bits. Aries has two kinds of input stall: a tile's `ROWBUS_STALL_CNT` is used if it was read, else the sum over
//! the virtual channels.

use super::delta::{Behaviour, Moment};
use super::gemini::{PHIT_BYTES, STALL_NS};
use super::reading::{Combine, Layout, Port, Reading};
use crate::text::{Line, Text, decimal, lossy};
use hopbyte_fabric::{InputError, LeftOut, Quantity};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Width of a register.
const BITS: u32 = 48;
/// Cycles of the router in a second.
const CYCLES: f64 = 800e6;
/// Phits per second that a tile can receive: a mezzanine tile's 2.34375 GB/s.
const PHITS: f64 = 2.343_75e9 / PHIT_BYTES;
/// Bytes of an Aries flit (gpcdr scales by 20/3).
const FLIT_BYTES: f64 = 20.0 / 3.0;
/// Flits per second that an Aries tile can receive: 5.25 GB/s.
const FLITS: f64 = 5.25e9 / FLIT_BYTES;

/// Documented names of Gemini's six, in the order of their GPCD numbers.
const DOCUMENTED: [&str; 6] = [
    "VC0_PHIT_CNT",
    "VC1_PHIT_CNT",
    "VC0_PKT_CNT",
    "VC1_PKT_CNT",
    "INQ_STALL",
    "CREDIT_STALL",
];

/// Tile and quantity of a register.
struct Register {
    tile: u16,
    quantity: Quantity,
    factor: f64,
    most_per_second: f64,
    /// A stall of one virtual channel, redundant if the tile's own stall counter is read.
    of_channel: bool,
}

impl Register {
    fn parse(name: &str) -> Option<Self> {
        if let Some(documented) = name.strip_prefix("GM_TILE_PERF_") {
            let mut parts = documented.split(':');
            let what = parts.next()?;
            let k = DOCUMENTED.iter().position(|d| *d == what)?;
            return Self::gemini(tile(parts.next()?, parts.next()?, parts.next())?, k);
        }
        if let Some(gpcd) = name.strip_prefix("GM_") {
            let mut parts = gpcd.splitn(3, '_');
            let at = tile(parts.next()?, parts.next()?, None)?;
            let k = parts.next()?.strip_prefix("TILE_PERFORMANCE_COUNTERS_")?;
            return Self::gemini(at, k.parse().ok()?);
        }
        let mut parts = name.strip_prefix("AR_RTR_")?.splitn(3, '_');
        let at = tile(parts.next()?, parts.next()?, None)?;
        Self::aries(at, parts.next()?.strip_prefix("INQ_PRF_")?)
    }

    fn gemini(tile: u16, k: usize) -> Option<Self> {
        let (quantity, factor, most_per_second) = match k {
            0 | 1 => (Quantity::ReceivedBytes, PHIT_BYTES, PHITS),
            2 | 3 => (Quantity::ReceivedPackets, 1.0, PHITS / 8.0),
            4 => (Quantity::InputStallNs, STALL_NS, CYCLES),
            5 => (Quantity::CreditStallNs, STALL_NS, CYCLES),
            _ => return None,
        };
        Some(Self {
            tile,
            quantity,
            factor,
            most_per_second,
            of_channel: false,
        })
    }

    fn aries(tile: u16, what: &str) -> Option<Self> {
        let (quantity, factor, most_per_second, of_channel) = if what == "ROWBUS_STALL_CNT" {
            (Quantity::InputStallNs, STALL_NS, CYCLES, false)
        } else if let Some(channel) = what.strip_prefix("INCOMING_FLIT_VC") {
            channel.parse::<u8>().ok().filter(|&c| c < 8)?;
            (Quantity::ReceivedBytes, FLIT_BYTES, FLITS, false)
        } else {
            let (channel, again) = what
                .strip_prefix("INCOMING_PKT_VC")?
                .strip_suffix("_CNT")?
                .split_once("_FILTER_FLIT")?;
            (channel == again).then_some(())?;
            (Quantity::InputStallNs, STALL_NS, CYCLES, true)
        };
        Some(Self {
            tile,
            quantity,
            factor,
            most_per_second,
            of_channel,
        })
    }
}

/// Number of a tile from its row and column; trailing text is refused.
fn tile(row: &str, column: &str, more: Option<&str>) -> Option<u16> {
    let row: u16 = row.parse().ok().filter(|&r| r < 6)?;
    let column: u16 = column.parse().ok().filter(|&c| c < 8)?;
    more.is_none().then_some(8 * row + column)
}

/// Whether a name is a register's.
pub(super) fn is_name(name: &str) -> bool {
    Register::parse(name).is_some()
}

/// Adds the counters of register names to a layout; returns the positions of the names that were accepted.
pub(super) fn add(layout: &mut Layout, names: &[&str]) -> Vec<usize> {
    let registers: Vec<(usize, Register)> = names
        .iter()
        .enumerate()
        .filter_map(|(i, name)| Some((i, Register::parse(name)?)))
        .collect();
    let own_stall: Vec<u16> = registers
        .iter()
        .filter(|(_, r)| r.quantity == Quantity::InputStallNs && !r.of_channel)
        .map(|(_, r)| r.tile)
        .collect();
    let mut taken = Vec::new();
    for (i, register) in registers {
        if register.of_channel && own_stall.contains(&register.tile) {
            continue;
        }
        let port = Port::Tile(register.tile);
        let counter = layout.counter(&port, names[i], register.quantity, register.factor);
        counter.behaviour = Behaviour::bits(BITS).at_most(register.most_per_second);
        if register.quantity.is_stall() {
            counter.combine = Combine::Mean;
        }
        taken.push(i);
    }
    taken
}

/// Whether [`readings`] accepts the line as a register.
pub(super) fn is_line(line: &[u8]) -> bool {
    Entry::parse(&lossy(line)).is_some_and(|e| Register::parse(e.name).is_some())
}

/// A line `[Counter] [ROUTER] NAME[:] [Value]=N`.
struct Entry<'a> {
    router: &'a str,
    name: &'a str,
    value: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words: Vec<&str> = line
            .split(|c: char| c.is_whitespace() || c == '=')
            .filter(|w| !w.is_empty() && !matches!(*w, "Counter" | "Value"))
            .collect();
        let value = words.pop()?;
        let name = words.pop()?.trim_end_matches(':');
        let router = words.pop().unwrap_or("");
        words.is_empty().then_some(Self {
            router,
            name,
            value,
        })
    }
}

/// Reads the output of a program such as paper 000, Fig. 1: `Counter NAME: Value=N`, one register per line, or
/// `ROUTER NAME N` for many routers. Lines without a router belong to `router`.
pub(super) fn readings(
    text: &Text,
    router: Option<&str>,
    left_out: &mut LeftOut,
) -> Result<Vec<Reading>, InputError> {
    let mut routers: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    let mut lines: HashMap<(String, String), u64> = HashMap::new();
    for line in text.lines() {
        let content = lossy(line.bytes);
        let content = content.split('#').next().unwrap_or_default();
        if content.trim().is_empty() {
            continue;
        }
        let (name, register) = entry(text, line, content, router)?;
        let key = (name.clone(), register.0.clone());
        if let Some(first) = lines.insert(key, line.number) {
            return Err(super::twice(text, line, first));
        }
        routers.entry(name).or_default().push(register);
    }
    let mut readings = Vec::new();
    for (name, registers) in routers {
        let mut layout = Layout::new(name, "registers");
        let names: Vec<&str> = registers.iter().map(|(n, _)| n.as_str()).collect();
        let taken = add(&mut layout, &names);
        for (i, (register, _)) in registers.iter().enumerate() {
            if !taken.contains(&i) {
                left_out.note("register that belongs to no link", register.as_str());
            }
        }
        let values: Vec<Option<u64>> = taken.iter().map(|&i| Some(registers[i].1)).collect();
        readings.push(Reading::of(Arc::new(layout), Moment::default(), &values));
    }
    Ok(readings)
}

/// Router, and name and value of the register.
fn entry(
    text: &Text,
    line: Line<'_>,
    content: &str,
    router: Option<&str>,
) -> Result<(String, (String, u64)), InputError> {
    let wrong = || {
        text.error_at(line, "a register: Counter NAME: Value=N, or ROUTER NAME N")
            .hint("names are GM_0_0_TILE_PERFORMANCE_COUNTERS_0, GM_TILE_PERF_VC0_PHIT_CNT:0:0 or AR_RTR_0_0_INQ_PRF_…")
    };
    let entry = Entry::parse(content).ok_or_else(wrong)?;
    let value = decimal(entry.value.as_bytes())
        .filter(|&v| v <= Behaviour::bits(BITS).highest())
        .ok_or_else(|| text.error_in(line, entry.value.as_bytes(), "a count of 48 bits"))?;
    let known = Register::parse(entry.name).is_some();
    if !known && !entry.name.starts_with("GM_") && !entry.name.starts_with("AR_") {
        return Err(wrong());
    }
    let name = match (entry.router, router) {
        ("", Some(given)) => given,
        ("", None) => {
            return Err(text
                .error_at(line, "the router before the name")
                .hint("name the router of these registers: --counters-of c0-0c0s0g0"));
        }
        (own, _) => own,
    };
    Ok((name.to_owned(), (entry.name.to_owned(), value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::join::PortMap;
    use crate::counters::series;
    use crate::text::Limits;
    use hopbyte_fabric::spec;

    fn text(content: &str) -> Text {
        Text::from_bytes("gpcd", content.as_bytes(), Limits::TEXT).unwrap()
    }

    /// All 288 registers of a router, `value(row, column, k)` each, in the form of Fig. 1.
    fn print(value: impl Fn(u64, u64, u64) -> u64) -> String {
        let mut out = String::new();
        for (r, c, k) in (0..288).map(|n| (n / 48, n / 6 % 8, n % 6)) {
            out += &format!(
                "Counter GM_{r}_{c}_TILE_PERFORMANCE_COUNTERS_{k}: Value={}\n",
                value(r, c, k)
            );
        }
        out
    }

    #[test]
    fn tiles_become_links_under_both_names() {
        let fabric = spec::fabric("gemini:16x12x24").unwrap();
        let content = print(|r, c, k| 1000 * k + 8 * r + c);
        let readings =
            readings(&text(&content), Some("c0-0c0s0g0"), &mut LeftOut::default()).unwrap();
        assert_eq!(readings[0].values.known(), 288);
        let s = &series(&fabric, "t", readings, &PortMap::new())
            .unwrap()
            .all()[0];
        assert!(matches!(s, crate::counters::Counted::Totals(_)));
        let router = fabric.find_router("c0-0c0s0g0").unwrap();
        for &leaves in fabric.links_from(router) {
            let tiles: Vec<f64> = match fabric.ports(leaves) {
                // Rows 2 to 5, columns 3 and 4.
                [] => (2..6)
                    .flat_map(|r| [8 * r + 3, 8 * r + 4])
                    .map(f64::from)
                    .collect(),
                ports => ports.iter().map(|p| f64::from(p.from)).collect(),
            };
            let n = tiles.len() as f64;
            let sum: f64 = tiles.iter().sum();
            let arrives = match fabric.ports(leaves) {
                [] => fabric.node(fabric.nodes_on(router)[0]).inject,
                _ => fabric.reverse(leaves).unwrap(),
            };
            let get = |q, l| s.get(q, l).unwrap();
            assert_eq!(
                get(Quantity::ReceivedBytes, arrives),
                3.0 * (2.0 * sum + 1000.0 * n)
            );
            assert_eq!(
                get(Quantity::ReceivedPackets, arrives),
                2.0 * sum + 5000.0 * n
            );
            assert_eq!(
                get(Quantity::InputStallNs, arrives),
                1.25 * (sum / n + 4000.0)
            );
            assert_eq!(
                get(Quantity::CreditStallNs, leaves),
                1.25 * (sum / n + 5000.0)
            );
        }
        assert_eq!((s.matched, s.unmatched), (48, 0));
        // Cray's own names, several routers, blanks instead of signs.
        let documented: String = content
            .lines()
            .map(|l| {
                let (name, value) = l
                    .strip_prefix("Counter ")
                    .unwrap()
                    .split_once(": Value=")
                    .unwrap();
                let p: Vec<&str> = name.split('_').collect();
                let k: usize = p[6].parse().unwrap();
                format!(
                    "c0-0c0s0g0 GM_TILE_PERF_{}:{}:{} {value}\n",
                    DOCUMENTED[k], p[1], p[2]
                )
            })
            .collect();
        let again = super::readings(&text(&documented), None, &mut LeftOut::default()).unwrap();
        let again = &series(&fabric, "t", again, &PortMap::new()).unwrap().all()[0];
        assert!(again.column(Quantity::ReceivedBytes) == s.column(Quantity::ReceivedBytes));
    }

    /// A tile with more counters than the others would make all links incomplete.
    #[test]
    fn a_register_given_twice_is_refused_with_both_lines() {
        let content = print(|_, _, _| 1) + "Counter GM_0_0_TILE_PERFORMANCE_COUNTERS_3: Value=1\n";
        let mut left_out = LeftOut::default();
        let error = readings(&text(&content), Some("c0-0c0s0g0"), &mut left_out).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("gpcd:289: found Counter GM_0_0"),
            "{error}"
        );
        assert!(error.contains("but line 4 has it too"), "{error}");
    }

    #[test]
    fn registers_wrap_at_48_bits() {
        let fabric = spec::fabric("gemini:4x4x24").unwrap();
        let top = (1u64 << 48) - 1;
        let mut all = Vec::new();
        for (ns, value) in [(1_000_000_000, top - 9), (2_000_000_000, 90)] {
            let mut r = readings(
                &text(&print(|_, _, _| value)),
                Some("c0-0c0s0g0"),
                &mut LeftOut::default(),
            )
            .unwrap();
            r[0].moment = Moment::at_ns(ns);
            all.extend(r);
        }
        let s = &series(&fabric, "t", all, &PortMap::new()).unwrap().all()[0];
        let link = fabric.find_link("c0-0c0s0g0 Z+").unwrap();
        assert_eq!(s.get(Quantity::CreditStallNs, link), Some(125.0));
        assert_eq!(s.window_seconds(), Some(1.0));
    }

    #[test]
    fn aries_tiles_add_up_their_channels() {
        let fabric = spec::fabric("aries:2x6x16").unwrap();
        let link = fabric
            .link_ids()
            .find(|&l| fabric.kind(l).name == "black")
            .unwrap();
        let hopbyte_fabric::End::Router(to) = fabric.link(link).to else {
            panic!()
        };
        let name = fabric.router(to).name.clone();
        let print = |rowbus: bool| {
            let mut out = String::new();
            for p in fabric.ports(link) {
                let (r, c) = (p.to / 8, p.to % 8);
                for v in 0..8 {
                    out += &format!(
                        "{name} AR_RTR_{r}_{c}_INQ_PRF_INCOMING_FLIT_VC{v} {}\n",
                        3 * v
                    );
                    out += &format!(
                        "{name} AR_RTR_{r}_{c}_INQ_PRF_INCOMING_PKT_VC{v}_FILTER_FLIT{v}_CNT 8\n"
                    );
                }
                if rowbus {
                    out += &format!("{name} AR_RTR_{r}_{c}_INQ_PRF_ROWBUS_STALL_CNT 20\n");
                }
            }
            out
        };
        for (rowbus, stall) in [(false, 80.0), (true, 25.0)] {
            let readings = readings(&text(&print(rowbus)), None, &mut LeftOut::default()).unwrap();
            let s = &series(&fabric, "t", readings, &PortMap::new())
                .unwrap()
                .all()[0];
            let tiles = fabric.ports(link).len() as f64;
            let bytes = s.get(Quantity::ReceivedBytes, link).unwrap();
            assert!((bytes - tiles * 84.0 * 20.0 / 3.0).abs() < 1e-6);
            assert_eq!(s.get(Quantity::InputStallNs, link), Some(stall));
        }
    }

    #[test]
    fn bad_registers_are_named() {
        for (content, router, found) in [
            (
                "Counter GM_0_0_TILE_PERFORMANCE_COUNTERS_0: Value=-1",
                Some("r"),
                "-1",
            ),
            (
                "Counter GM_0_0_TILE_PERFORMANCE_COUNTERS_0: Value=281474976710656",
                Some("r"),
                "281474976710656",
            ),
            (
                "Counter GM_0_0_TILE_PERFORMANCE_COUNTERS_0: Value=1",
                None,
                "Counter",
            ),
            ("a b c d 1", Some("r"), "a b"),
            ("x 1", Some("r"), "x 1"),
        ] {
            let error = readings(&text(content), router, &mut LeftOut::default())
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("gpcd:1: ") && error.contains(found),
                "{error}"
            );
        }
        for name in [
            "GM_6_0_TILE_PERFORMANCE_COUNTERS_0",
            "GM_0_8_TILE_PERFORMANCE_COUNTERS_0",
            "GM_0_0_TILE_PERFORMANCE_COUNTERS_6",
            "GM_TILE_PERF_VC0_PHIT_CNT:0:0:0",
            "GM_TILE_PERF_VC2_PHIT_CNT:0:0",
            "AR_RTR_0_0_INQ_PRF_INCOMING_FLIT_VC8",
            "AR_RTR_0_0_INQ_PRF_INCOMING_PKT_VC1_FILTER_FLIT2_CNT",
        ] {
            assert!(Register::parse(name).is_none(), "{name}");
        }
    }
}
