//! Link tables of a torus: Blue Gene counters in Boxfish's form.
//!
//! Two YAML documents (a key; a list of `[column, type]`), `...`, then rows between blanks: `linkid`, coordinates of
//! the router (`sx sy sz`) and of its neighbour (`tx ty tz`), `code_region`, `packets`. The node counts the packets
//! it *sends* into each of its links. A link may have several rows in one region (the region was entered repeatedly):
//! they are summed. All links have the same number of rows in a region; a link with fewer is missing, as at the end of
//! a file that was cut. If the table does not have all links of the fabric, the router of its last row is missing too,
//! since its further rows may be. A negative region is the whole run, unless the others have more packets of a link together.

use crate::ObserveError;
use crate::text::{Line, Text, lossy, whole};
use hopbyte_fabric::{
    Direction, End, Fabric, Increase, InputError, LinkId, Missing, Quantity, RouterId,
};
use std::collections::{BTreeMap, BTreeSet};

/// Reads one region; see [`super::CounterOptions::region`].
pub(super) fn read(
    text: &Text,
    fabric: &Fabric,
    region: Option<i64>,
) -> Result<Increase, ObserveError> {
    let mut columns: Vec<String> = Vec::new();
    let mut table: Option<Columns> = None;
    let mut regions: BTreeMap<i64, Region> = BTreeMap::new();
    let mut last = None;
    for line in text.lines() {
        let content = line.trimmed();
        if let Some(columns) = &table {
            if !content.is_empty() {
                let row = columns.row(text, line)?;
                row.file(fabric, text, &mut regions);
                last = fabric.router_at(&row.from);
            }
        } else if let Some(column) = content.strip_prefix(b"- [") {
            let name = column.split(|&b| b == b',').next().unwrap_or_default();
            columns.push(lossy(name.trim_ascii()).into_owned());
        } else if content == b"..." {
            table = Some(Columns::of(text, line, &columns)?);
        }
    }
    if table.is_none() {
        return Err(text
            .error("no line '...'", "the end of the column list, then rows")
            .into());
    }
    let hops = fabric.link_ids().filter(|&l| fabric.is_hop(l)).count();
    let listed: BTreeSet<LinkId> = regions
        .values()
        .flat_map(|r| r.rows.keys().copied())
        .collect();
    let last = last.filter(|_| listed.len() < hops);
    let regions = regions
        .into_iter()
        .map(|(number, region)| (number, region.finish(fabric, last)));
    Ok(choose(text, fabric, regions.collect(), region)?)
}

/// A region while it is read.
struct Region {
    increase: Increase,
    /// Rows by link.
    rows: BTreeMap<LinkId, usize>,
}

impl Region {
    /// The region without links whose rows may be incomplete: those with fewer rows than others, and those of `last`.
    fn finish(mut self, fabric: &Fabric, last: Option<RouterId>) -> Increase {
        let most = self.rows.values().copied().max().unwrap_or(0);
        for (link, rows) in self.rows {
            let of_last = last.is_some_and(|r| fabric.link(link).from == End::Router(r));
            if rows < most || of_last {
                self.increase
                    .lose(Quantity::SentPackets, link, Missing::Unread);
                self.increase.left_out.note(FEWER, fabric.link_name(link));
            }
        }
        self.increase
    }
}

const FEWER: &str = "link whose rows may be incomplete";

const NO_WHOLE: &str = "row of a negative code region that is not the whole run: the others, which are added up, have more packets of a link";

/// The requested region; by default the whole run, else the sum of the parts. Rows of the others are counted.
fn choose(
    text: &Text,
    fabric: &Fabric,
    mut regions: BTreeMap<i64, Increase>,
    region: Option<i64>,
) -> Result<Increase, InputError> {
    let lowest = regions.keys().next().copied().filter(|&r| r < 0);
    let whole = lowest.filter(|&lowest| is_whole(fabric, &regions, lowest));
    if let Some(wanted) = region.or(whole) {
        let mut taken = regions.remove(&wanted).ok_or_else(|| {
            let known: Vec<String> = regions.keys().map(i64::to_string).collect();
            text.error(format!("no code region {wanted}"), "a region of the table")
                .hint(format!("there are {}", known.join(", ")))
        })?;
        let what = ["", ", the whole run"][usize::from(region.is_none())];
        let reason = format!("row of another code region than {wanted}{what}");
        leave_out(&mut taken, &reason, &regions);
        return Ok(taken);
    }
    let mut all = Increase::new(fabric, text.file());
    let none = lowest.and_then(|lowest| regions.remove_entry(&lowest));
    leave_out(&mut all, NO_WHOLE, &none.into_iter().collect());
    for part in regions.values() {
        all.matched += part.matched;
        all.unmatched += part.unmatched;
        all.left_out.extend(&part.left_out);
    }
    for link in fabric.link_ids() {
        let parts = regions.values();
        let packets: Vec<f64> = parts
            .filter_map(|part| part.get(Quantity::SentPackets, link))
            .collect();
        if packets.len() == regions.len() {
            all.set(Quantity::SentPackets, link, packets.iter().sum());
        } else if !packets.is_empty() {
            all.lose(Quantity::SentPackets, link, Missing::Unread);
            all.left_out.note(FEWER, fabric.link_name(link));
        }
    }
    Ok(all)
}

/// Whether a region has at least the packets of all others on each link.
fn is_whole(fabric: &Fabric, regions: &BTreeMap<i64, Increase>, whole: i64) -> bool {
    let packets = |region: &Increase, link| region.get(Quantity::SentPackets, link);
    fabric.link_ids().all(|link| {
        let parts = regions.iter().filter(|(number, _)| **number != whole);
        let parts: f64 = parts.filter_map(|(_, part)| packets(part, link)).sum();
        packets(&regions[&whole], link).is_none_or(|whole| whole >= parts)
    })
}

/// Counts the rows of regions that are not taken.
fn leave_out(taken: &mut Increase, reason: &str, regions: &BTreeMap<i64, Increase>) {
    for (number, region) in regions {
        let rows = region.matched + region.unmatched;
        let names = std::iter::repeat_n(format!("region {number}"), rows);
        taken.left_out.note_all(reason, names);
    }
}

/// Column positions.
struct Columns {
    count: usize,
    from: Vec<usize>,
    to: Vec<usize>,
    packets: usize,
    link: Option<usize>,
    region: Option<usize>,
}

impl Columns {
    fn of(text: &Text, line: Line<'_>, names: &[String]) -> Result<Self, InputError> {
        let column = |name: &str| names.iter().position(|n| n == name);
        let need = |name: String| {
            column(&name).ok_or_else(|| {
                text.error(names.join(" "), format!("a column '{name}'"))
                    .at(line.number)
                    .hint("columns are linkid, sx, sy, sz, tx, ty, tz, code_region and packets")
            })
        };
        // Coordinates are `s` and `t` with one letter, one per dimension of the torus.
        let dims: Vec<&str> = names
            .iter()
            .filter_map(|n| n.strip_prefix('s'))
            .filter(|d| d.len() == 1)
            .collect();
        if dims.is_empty() {
            need("sx".into())?;
        }
        Ok(Self {
            count: names.len(),
            from: dims
                .iter()
                .map(|d| need(format!("s{d}")))
                .collect::<Result<_, _>>()?,
            to: dims
                .iter()
                .map(|d| need(format!("t{d}")))
                .collect::<Result<_, _>>()?,
            packets: need("packets".into())?,
            link: column("linkid"),
            region: column("code_region"),
        })
    }

    fn row(&self, text: &Text, line: Line<'_>) -> Result<RegionRow, InputError> {
        let words: Vec<&[u8]> = line.words().collect();
        if words.len() != self.count {
            let expected = format!("{} numbers, one per column", self.count);
            return Err(text
                .error(format!("{} words", words.len()), expected)
                .at(line.number));
        }
        let coordinate = |i: &usize| {
            whole(words[*i])
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(|| text.error_in(line, words[*i], "a coordinate (a whole number)"))
        };
        let count = |i: usize| {
            whole(words[i]).ok_or_else(|| text.error_in(line, words[i], "a count (a whole number)"))
        };
        let region = |i: usize| {
            // Negative regions exist.
            let (sign, digits) = match words[i].strip_prefix(b"-") {
                Some(digits) => (-1, digits),
                None => (1, words[i]),
            };
            whole(digits)
                .and_then(|n| i64::try_from(n).ok())
                .map(|n| sign * n)
                .ok_or_else(|| text.error_in(line, words[i], "a region (a whole number)"))
        };
        Ok(RegionRow {
            from: self.from.iter().map(coordinate).collect::<Result<_, _>>()?,
            to: self.to.iter().map(coordinate).collect::<Result<_, _>>()?,
            link: self.link.map(count).transpose()?,
            region: self.region.map(region).transpose()?.unwrap_or(0),
            packets: count(self.packets)?,
        })
    }
}

struct RegionRow {
    from: Vec<u32>,
    to: Vec<u32>,
    link: Option<u64>,
    region: i64,
    packets: u64,
}

impl RegionRow {
    fn file(&self, fabric: &Fabric, text: &Text, regions: &mut BTreeMap<i64, Region>) {
        let region = regions.entry(self.region).or_insert_with(|| Region {
            increase: Increase::new(fabric, text.file()),
            rows: BTreeMap::new(),
        });
        let snapshot = &mut region.increase;
        match self.link(fabric) {
            Some(link) => {
                *region.rows.entry(link).or_default() += 1;
                snapshot.matched += 1;
                snapshot.add(Quantity::SentPackets, link, self.packets as f64);
            }
            None => snapshot.note_unmatched(format!("{:?} to {:?}", self.from, self.to)),
        }
    }

    /// The link between the two routers; in a dimension of size two the link's number selects one of the two.
    fn link(&self, fabric: &Fabric) -> Option<LinkId> {
        let from = fabric.router_at(&self.from)?;
        let to = End::Router(fabric.router_at(&self.to)?);
        let leads_there = |&l: &LinkId| fabric.link(l).to == to;
        let numbered = self.link.and_then(|number| {
            let direction = Direction::of((number % (2 * self.from.len() as u64)) as usize);
            fabric.link_towards(from, direction).filter(leads_there)
        });
        numbered.or_else(|| first(fabric, from, leads_there))
    }
}

fn first(fabric: &Fabric, from: RouterId, which: impl Fn(&LinkId) -> bool) -> Option<LinkId> {
    fabric.links_from(from).iter().copied().find(which)
}

#[cfg(test)]
mod tests;
