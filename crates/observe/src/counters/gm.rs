//! libgm text: the counters of every Gemini of a job, as paper 000 (IV, Fig. 4) prints them.
//!
//! A block begins with the Gemini's coordinate and has up to seven lines, one per link: direction, the coordinate at
//! the far end, GB/s, and the increase of the six tile counters, summed over the link's tiles. Phits (3 bytes),
//! packets and input stalls count arrivals (V.B), so they belong to the link that ends at the block's Gemini; output
//! stalls belong to the link that leaves it. `HH` is the host link. A repeated coordinate begins the next sample.

use crate::ObserveError;
use crate::counters::gemini::{PHIT_BYTES, STALL_NS, tiles};
use crate::text::{Line, Text, decimal, decimal_u32, float};
use hopbyte_fabric::{Direction, Fabric, Increase, InputError, LinkId, Quantity, RouterId};
use std::collections::HashSet;

/// Whether a line is the header of a block.
pub(super) fn is_header(line: &[u8]) -> bool {
    matches!(coordinate(line), Some((_, rest)) if rest.is_empty())
}

/// Reads a file: one snapshot of increases per sample.
pub(super) fn read(text: &Text, fabric: &Fabric) -> Result<Vec<Increase>, ObserveError> {
    let mut series = Vec::new();
    let mut sample = Increase::new(fabric, text.file());
    let mut seen: HashSet<[u32; 3]> = HashSet::new();
    let mut block = None;
    for line in text.lines() {
        let content = line.trimmed();
        if content.is_empty() || content.starts_with(b"#") {
            continue;
        }
        if let Some((at, rest)) = coordinate(content) {
            if !rest.is_empty() {
                return Err(text
                    .error_in(line, rest, "nothing after the coordinate of a Gemini")
                    .into());
            }
            if !seen.insert(at) {
                seen.clear();
                seen.insert(at);
                let next = Increase::new(fabric, text.file());
                series.push(std::mem::replace(&mut sample, next));
            }
            block = Some(Block::new(fabric, at));
            continue;
        }
        let Some(block) = &mut block else {
            let expected = "the coordinate of a Gemini, such as (0,1,1), before its links";
            return Err(text.error_at(line, expected).into());
        };
        let row = GmRow::parse(text, line)?;
        match block.links_of(fabric, &row) {
            Some(links) => {
                if !block.seen.insert(row.direction) {
                    return Err(text.error_at(line, "each link of a Gemini once").into());
                }
                sample.matched += 1;
                row.file(fabric, links, &mut sample);
            }
            None => sample.note_unmatched(row.name(block.coordinate)),
        }
    }
    series.push(sample);
    Ok(series)
}

/// Links of a row: one for its arrival counters, one for its departure counters.
#[derive(Clone, Copy)]
struct Links {
    arrivals: LinkId,
    departures: LinkId,
}

/// The lines of one Gemini.
struct Block {
    coordinate: [u32; 3],
    router: Option<RouterId>,
    seen: HashSet<Option<Direction>>,
}

impl Block {
    fn new(fabric: &Fabric, coordinate: [u32; 3]) -> Self {
        Self {
            coordinate,
            router: fabric.router_at(&coordinate),
            seen: HashSet::new(),
        }
    }

    /// The links that a row names, if the fabric has them with the same ends.
    fn links_of(&self, fabric: &Fabric, row: &GmRow) -> Option<Links> {
        let router = self.router?;
        let Some(direction) = row.direction else {
            let node = fabric.node(*fabric.nodes_on(router).first()?);
            return (row.far == self.coordinate).then_some(Links {
                arrivals: node.inject,
                departures: node.eject,
            });
        };
        let departures = fabric.link_towards(router, direction)?;
        let far = fabric.router_at(&row.far)?;
        let there = hopbyte_fabric::End::Router(far);
        let arrivals = fabric.reverse(departures)?;
        (fabric.link(departures).to == there).then_some(Links {
            arrivals,
            departures,
        })
    }
}

/// A line: direction (`None` is the host link), far coordinate and six counters.
struct GmRow {
    direction: Option<Direction>,
    far: [u32; 3],
    counts: [u64; 6],
}

impl GmRow {
    /// The row of a Gemini's block, for people.
    fn name(&self, at: [u32; 3]) -> String {
        let [x, y, z] = at;
        let direction = self.direction.map_or("HH".into(), |d| d.to_string());
        format!("({x},{y},{z}) {direction}")
    }

    fn parse(text: &Text, line: Line<'_>) -> Result<Self, InputError> {
        let wrong = || {
            text.error_at(line, "DIR (x,y,z) GB/s and six counters")
                .hint("columns are VC0 and VC1 phits, VC0 and VC1 packets, input and output stalls; DIR is X+ … Z- or HH")
        };
        let content = line.trimmed();
        let (name, rest) = content.split_at_checked(2).ok_or_else(wrong)?;
        let direction = match std::str::from_utf8(name) {
            Ok("HH") => None,
            Ok(name) => Some(
                Direction::parse(name)
                    .filter(|d| d.dim < 3)
                    .ok_or_else(wrong)?,
            ),
            Err(_) => return Err(wrong()),
        };
        let (far, rest) = coordinate(rest.trim_ascii_start()).ok_or_else(wrong)?;
        let mut words = crate::text::words(rest);
        let speed = words.next().and_then(float).filter(|&s| s >= 0.0);
        speed.ok_or_else(wrong)?;
        let mut counts = [0; 6];
        for count in &mut counts {
            let word = words.next().ok_or_else(wrong)?;
            *count = decimal(word)
                .ok_or_else(|| text.error_in(line, word, "a count (a whole number below 2^64)"))?;
        }
        if words.next().is_some() {
            return Err(wrong());
        }
        Ok(Self {
            direction,
            far,
            counts,
        })
    }

    /// Stores the six counters. Stalls are means over the link's tiles.
    fn file(&self, fabric: &Fabric, links: Links, snapshot: &mut Increase) {
        let [
            vc0_phits,
            vc1_phits,
            vc0_packets,
            vc1_packets,
            input,
            output,
        ] = self.counts.map(|c| c as f64);
        let Links {
            arrivals,
            departures,
        } = links;
        let bytes = PHIT_BYTES * (vc0_phits + vc1_phits);
        snapshot.set(Quantity::ReceivedBytes, arrivals, bytes);
        snapshot.set(
            Quantity::ReceivedPackets,
            arrivals,
            vc0_packets + vc1_packets,
        );
        let input = input * STALL_NS / tiles(fabric, arrivals);
        snapshot.set(Quantity::InputStallNs, arrivals, input);
        let output = output * STALL_NS / tiles(fabric, departures);
        snapshot.set(Quantity::CreditStallNs, departures, output);
    }
}

/// Reads `(x,y,z)`, blanks allowed inside; returns the remaining text.
fn coordinate(text: &[u8]) -> Option<([u32; 3], &[u8])> {
    let inner = text.strip_prefix(b"(")?;
    let end = inner.iter().position(|&b| b == b')')?;
    let mut numbers = super::cells(&inner[..end]);
    let mut at = [0; 3];
    for c in &mut at {
        *c = decimal_u32(numbers.next()?)?;
    }
    numbers
        .next()
        .is_none()
        .then_some((at, inner[end + 1..].trim_ascii()))
}

#[cfg(test)]
mod tests;
