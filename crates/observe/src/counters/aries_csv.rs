//! Per-link CSV of Aries counters: AriesNCL recordings in DragonView's form.
//!
//! `sg,sr,sc,dg,dr,dc,color,flits,stalls,…,flits_vc_0..7,stalls_vc_0..7,…`: group, chassis and slot of two routers,
//! colour `g` (`green`), `k` (`black`) or `b` (`blue`), one row per tile. Columns are found by their names; in the older form
//! that of the slot is named `sg` too, behind that of the group. A row
//! belongs to the tile *on (sg,sr,sc)* that is wired to (dg,dr,dc). Its counters are `INQ_PRF_INCOMING_FLIT_VC*` and
//! `INQ_PRF_INCOMING_PKT_VC*_FILTER_FLIT*_CNT` (according to the script that wrote the rows), i.e. *arrivals* at that
//! tile, so they belong to the link from (dg,dr,dc) to (sg,sr,sc). Rows with the same router pair and colour are
//! parallel tiles and are summed.

use crate::ObserveError;
use crate::text::{Line, Text, cells, decimal_u32};
use hopbyte_fabric::{End, Fabric, Increase, InputError, LinkId, Missing, Quantity};
use std::collections::BTreeMap;

/// Bytes per flit: gpcdr scales Aries flits by 20/3.
pub(super) const FLIT_BYTES: f64 = 20.0 / 3.0;
/// Nanoseconds per stall count: gpcdr scales Aries stalls by 5/4.
pub(super) const STALL_NS: f64 = 1.25;
/// Virtual channels.
const CHANNELS: usize = 8;

/// Columns of the two routers and the colour.
const PLACE: [&str; 7] = ["sg", "sr", "sc", "dg", "dr", "dc", "color"];

/// Whether a line is the header, be it one that lacks columns.
pub(super) fn is_line(line: &[u8]) -> bool {
    let names: Vec<&[u8]> = cells(line).take(64).collect();
    let has = |name: &&str| names.contains(&name.as_bytes());
    line.starts_with(b"sg,") || ["sg", "sr", "dg", "dr", "color"].iter().all(has)
}

/// Reads a file as increases over an interval of unknown length; the file does not state it.
pub(super) fn read(text: &Text, fabric: &Fabric) -> Result<Increase, ObserveError> {
    let mut lines = text.lines().filter(|l| !l.trimmed().is_empty());
    let header = lines
        .next()
        .ok_or_else(|| text.error("nothing", "a CSV header"))?;
    let columns = Columns::parse(text, header)?;
    let mut links: BTreeMap<LinkId, Sum> = BTreeMap::new();
    let mut snapshot = Increase::new(fabric, text.file());
    for line in lines {
        let row = columns.row(text, line)?;
        match row.link(fabric) {
            Some(link) => {
                snapshot.matched += 1;
                let sum = links.entry(link).or_default();
                sum.add(&row);
                if sum.tiles > fabric.ports(link).len() as f64 {
                    let tiles = fabric.ports(link).len();
                    let expected = format!("{tiles} tiles from these routers, as the machine has");
                    let found = format!("a row for one more tile of {}", fabric.link_name(link));
                    let error = text.error(found, expected).at(line.number);
                    return Err(error
                        .hint("rows of several readings or runs: give a file for each")
                        .into());
                }
            }
            None => {
                let TileRow {
                    here, there, kind, ..
                } = &row;
                snapshot.note_unmatched(format!("{kind} of {here:?} and {there:?}"));
            }
        }
    }
    for (link, sum) in links {
        if sum.tiles < fabric.ports(link).len() as f64 {
            for quantity in [Quantity::ReceivedBytes, Quantity::InputStallNs] {
                snapshot.lose(quantity, link, Missing::Unread);
            }
            let name = fabric.link_name(link);
            snapshot
                .left_out
                .note("link of which not every tile has a row", name);
            continue;
        }
        snapshot.set(Quantity::ReceivedBytes, link, sum.flits * FLIT_BYTES);
        let stall = sum.stalls * STALL_NS / sum.tiles;
        snapshot.set(Quantity::InputStallNs, link, stall);
    }
    Ok(snapshot)
}

/// Sums over the tiles of a link. A tile's stalls are the sum over its virtual channels, which stall independently:
/// the sum may exceed the time.
#[derive(Default)]
struct Sum {
    flits: f64,
    stalls: f64,
    tiles: f64,
}

impl Sum {
    fn add(&mut self, row: &TileRow) {
        self.flits += row.flits as f64;
        self.stalls += row.stalls as f64;
        self.tiles += 1.0;
    }
}

/// A row: the counting router, its neighbour, the colour and the counts.
struct TileRow {
    here: [u32; 3],
    there: [u32; 3],
    kind: &'static str,
    flits: u64,
    stalls: u64,
}

impl TileRow {
    /// The link from the neighbour to the counting router.
    fn link(&self, fabric: &Fabric) -> Option<LinkId> {
        let (here, there) = (
            fabric.router_at(&self.here)?,
            fabric.router_at(&self.there)?,
        );
        fabric
            .links_from(there)
            .iter()
            .copied()
            .find(|&l| fabric.link(l).to == End::Router(here) && fabric.kind(l).name == self.kind)
    }
}

/// Column positions.
struct Columns {
    count: usize,
    /// Of [`PLACE`].
    place: [usize; 7],
    flits: Option<usize>,
    stalls: Option<usize>,
    /// First of eight consecutive columns, one per virtual channel.
    channel_flits: Option<usize>,
    channel_stalls: Option<usize>,
}

impl Columns {
    fn parse(text: &Text, line: Line<'_>) -> Result<Self, InputError> {
        let names: Vec<&[u8]> = cells(line.bytes).collect();
        let column = |name: &str| names.iter().position(|n| *n == name.as_bytes());
        let channels = |stem: &str| {
            let first = column(&format!("{stem}_0"))?;
            (0..CHANNELS)
                .all(|c| column(&format!("{stem}_{c}")) == Some(first + c))
                .then_some(first)
        };
        // Older files name the column of the slot `sg` too.
        let slot = || {
            names
                .iter()
                .rposition(|n| *n == b"sg")
                .filter(|&at| Some(at) != column("sg"))
        };
        let place = PLACE.map(|name| column(name).or_else(|| slot().filter(|_| name == "sc")));
        if let Some(missing) = place.iter().position(Option::is_none) {
            let expected = format!("a column '{}'", PLACE[missing]);
            return Err(text.error_at(line, expected).hint(
                "the header is sg,sr,sc,dg,dr,dc,color,flits,stalls,stalls/flit,flits_vc_0,…",
            ));
        }
        let columns = Self {
            count: names.len(),
            place: place.map(Option::unwrap_or_default),
            flits: column("flits"),
            stalls: column("stalls"),
            channel_flits: channels("flits_vc"),
            channel_stalls: channels("stalls_vc"),
        };
        if columns.flits.or(columns.channel_flits).is_none() {
            let expected = "a column 'flits', or 'flits_vc_0' to 'flits_vc_7' side by side";
            return Err(text.error_at(line, expected));
        }
        if columns.stalls.or(columns.channel_stalls).is_none() {
            let expected = "a column 'stalls', or 'stalls_vc_0' to 'stalls_vc_7' side by side";
            return Err(text.error_at(line, expected));
        }
        Ok(columns)
    }

    fn row(&self, text: &Text, line: Line<'_>) -> Result<TileRow, InputError> {
        let row: Vec<&[u8]> = cells(line.bytes).collect();
        if row.len() != self.count {
            let expected = format!("{} cells, as in the header", self.count);
            return Err(text
                .error(format!("{} cells", row.len()), expected)
                .at(line.number));
        }
        let place = self.place.map(|at| row[at]);
        let coordinate = |i: usize| {
            decimal_u32(place[i])
                .ok_or_else(|| text.error_in(line, place[i], "a group, chassis or slot number"))
        };
        let kind = match place[6] {
            b"g" | b"green" => "green",
            b"k" | b"black" => "black",
            b"b" | b"blue" => "blue",
            other => {
                let expected = "a colour: g or green, k or black, b or blue";
                return Err(text.error_in(line, other, expected));
            }
        };
        Ok(TileRow {
            here: [coordinate(0)?, coordinate(1)?, coordinate(2)?],
            there: [coordinate(3)?, coordinate(4)?, coordinate(5)?],
            kind,
            flits: total(text, line, &row, self.flits, self.channel_flits)?,
            stalls: total(text, line, &row, self.stalls, self.channel_stalls)?,
        })
    }
}

/// A total, from its own column or from the virtual channels; if a row has both, they must agree.
fn total(
    text: &Text,
    line: Line<'_>,
    row: &[&[u8]],
    whole: Option<usize>,
    channels: Option<usize>,
) -> Result<u64, InputError> {
    let count = |i: usize| {
        crate::text::whole(row[i])
            .ok_or_else(|| text.error_in(line, row[i], "a count (a whole number)"))
    };
    let whole = whole.map(count).transpose()?;
    let Some(first) = channels else {
        return Ok(whole.unwrap_or(0));
    };
    let mut sum = 0u64;
    for channel in 0..CHANNELS {
        sum = sum
            .checked_add(count(first + channel)?)
            .ok_or_else(|| text.error_at(line, "counts that add up below 2^64"))?;
    }
    match whole {
        Some(whole) if whole != sum => Err(text
            .error(
                format!("a total of {whole}"),
                format!("{sum}, the sum of the virtual channels"),
            )
            .at(line.number)
            .hint("the row is damaged, or its columns have shifted")),
        _ => Ok(sum),
    }
}

#[cfg(test)]
mod tests;
