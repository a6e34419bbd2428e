//! Counters of Aries tiles as AriesNCL records them: a row a tile, a column a counter.
//!
//! Two forms. CSV by router: `group,row,col,port,` and the counters' names; `row` is the chassis, `col` the slot, `port`
//! 8 × tile row + tile column. AriesNCL's own table (version 1 before its binary files) by rank:
//!
//! ```text
//! ---
//! key: ARIESCOUNTER_NETWORK
//! ---
//! - [mpirank, int32]
//! - [tilex, int32]
//! - [tiley, int32]
//! - [\"INQ_PRF_INCOMING_FLIT_VC0\", int128]
//! ...
//! 0 0 0 5136
//! ```
//!
//! where `tilex` is the tile's row. The nodes of ranks are not in the file: it needs the nodes of its ranks, in the order of
//! the ranks (AriesNCL records one rank of a node). The nodes of an Aries count the same tiles: the first one's are used. Names are those of Cray's registers, with `AR_RTR_x_y_` before them or not. A tile counts *arrivals*;
//! its own stall (`INQ_PRF_ROWBUS_STALL_CNT`) is used where it is recorded, else the sum over its virtual channels.
//! AriesNCL writes line ends before rows, so that the last row has none: it may be cut and is left out.

use super::aries_csv::{FLIT_BYTES, STALL_NS};
use super::end::is_unended;
use crate::ObserveError;
use crate::placement::host_list;
use crate::text::{Line, Text, cells, lossy, whole};
use hopbyte_fabric::{Fabric, Increase, InputError, LeftOut, LinkId, Missing, Quantity, RouterId};
use std::collections::BTreeMap;

/// Whether a line is the first of such a file.
pub(super) fn is_line(line: &[u8]) -> bool {
    let by_rank = line.strip_prefix(b"key:").map(<[u8]>::trim_ascii);
    by_rank.is_some_and(|key| key.starts_with(b"ARIESCOUNTER_"))
        || cells(line)
            .take(PLACE.len())
            .eq(PLACE.iter().map(|p| p.as_bytes()))
}

/// First columns of the form by router, and of the form by rank.
const PLACE: [&str; 4] = ["group", "row", "col", "port"];
const OF_RANK: [&str; 3] = ["mpirank", "tilex", "tiley"];

/// Use of a column.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    Flits,
    Stall,
    ChannelStall,
    None,
}

/// Use of a counter by its register name.
fn use_of(name: &str) -> Use {
    let name = name.rsplit_once("INQ_PRF_").map_or("", |(_, rest)| rest);
    let channel = |rest: &str| rest.parse::<u8>().is_ok_and(|c| c < 8);
    let of_channel = || {
        let rest = name.strip_prefix("INCOMING_PKT_VC")?.strip_suffix("_CNT")?;
        rest.split_once("_FILTER_FLIT")
            .filter(|(a, b)| a == b && channel(a))
    };
    if name == "ROWBUS_STALL_CNT" {
        Use::Stall
    } else if name.strip_prefix("INCOMING_FLIT_VC").is_some_and(channel) {
        Use::Flits
    } else if of_channel().is_some() {
        Use::ChannelStall
    } else {
        Use::None
    }
}

/// Remark on a link that is left out, since a sum over some of its tiles would be taken for the link's.
const PARTIAL: &str = "link of which not every tile has a row";

/// Remark on rows of a rank whose router another rank has reported.
const SAME_ROUTER: &str = "row of a tile that a rank on another node of the router has";

/// Remark on a last row without a line end.
const UNENDED: &str = "last row without a line end, which may be cut";

/// Routers of the ranks of a file.
struct Ranks {
    /// Routers of the nodes given, in order.
    given: Vec<RouterId>,
    /// Position of each rank found, in the order of the file.
    found: BTreeMap<u64, usize>,
}

impl Ranks {
    fn of(text: &Text, fabric: &Fabric, nodes: &str) -> Result<Self, ObserveError> {
        let names = match fabric.find_node(nodes) {
            Ok(_) => vec![nodes.to_owned()],
            Err(_) => host_list(nodes).ok_or_else(|| {
                text.error(nodes, "the nodes of the ranks, such as nid000[12-15]")
            })?,
        };
        let router = |name: &String| Ok(fabric.node(fabric.find_node(name)?).router);
        let given: Result<_, ObserveError> = names.iter().map(router).collect();
        Ok(Self {
            given: given?,
            found: BTreeMap::new(),
        })
    }

    /// The router of a rank; `None` if an earlier rank has it.
    fn router(
        &mut self,
        text: &Text,
        line: Line<'_>,
        rank: u64,
    ) -> Result<Option<RouterId>, InputError> {
        let next = self.found.len();
        let position = *self.found.entry(rank).or_insert(next);
        let Some(&router) = self.given.get(position) else {
            let expected = match self.given.len() {
                1 => format!("one rank, as one node was given, not rank {rank} too"),
                nodes => format!("{nodes} ranks, as many as nodes were given, not rank {rank} too"),
            };
            return Err(text
                .error_at(line, expected)
                .hint("--counters-of NODE,NODE,… in the order of the ranks, one node a rank"));
        };
        Ok((!self.given[..position].contains(&router)).then_some(router))
    }

    /// Refuses nodes without a rank.
    fn end(self, text: &Text) -> Result<(), InputError> {
        if self.found.len() == self.given.len() {
            return Ok(());
        }
        let found = format!("{} ranks", self.found.len());
        Err(text.error(
            found,
            format!("{}, one for each node given", self.given.len()),
        ))
    }
}

/// Sums over the tiles of a link.
#[derive(Default)]
struct Sum {
    flits: f64,
    stalls: f64,
    tiles: f64,
}

/// Reads a file as increases over an interval of unknown length; `node` is the node of the rank in the form by rank.
pub(super) fn read(
    text: &Text,
    fabric: &Fabric,
    node: Option<&str>,
) -> Result<Increase, ObserveError> {
    let mut table = Table::of(text)?;
    let router = |place: &[u64]| -> Option<(RouterId, u64)> {
        let &[group, chassis, slot, port] = place else {
            return None;
        };
        let at = [group, chassis, slot].map(u32::try_from);
        let at: Vec<u32> = at.into_iter().collect::<Result<_, _>>().ok()?;
        Some((fabric.router_at(&at)?, port))
    };
    let mut ranks = match (table.by_rank, node) {
        (false, _) => None,
        (true, Some(nodes)) => Some(Ranks::of(text, fabric, nodes)?),
        (true, None) => {
            return Err(text
                .error("counters by rank", "the nodes of the ranks beside them")
                .hint("--counters-of NODE,NODE,… in the order of the ranks, such as nid000[12-15]")
                .into());
        }
    };
    let mut sums: BTreeMap<LinkId, Sum> = BTreeMap::new();
    let mut increase = Increase::new(fabric, text.file());
    while let Some((line, place, flits, stalls)) = table.row(&mut increase.left_out)? {
        let at = match &mut ranks {
            None => router(&place),
            Some(ranks) => {
                let Some(router) = ranks.router(text, line, place[0])? else {
                    let of = format!("rank {}", place[0]);
                    increase.left_out.note(SAME_ROUTER, of);
                    continue;
                };
                Some((router, place[1].saturating_mul(8).saturating_add(place[2])))
            }
        };
        let link = at.and_then(|(router, port)| arriving(fabric, router, port));
        let Some(link) = link else {
            increase.note_unmatched(format!("{place:?}"));
            continue;
        };
        increase.matched += 1;
        let sum = sums.entry(link).or_default();
        sum.flits += flits;
        sum.stalls += stalls;
        sum.tiles += 1.0;
    }
    if let Some(ranks) = ranks {
        ranks.end(text)?;
    }
    let stalls = table.has(Use::Stall) || table.has(Use::ChannelStall);
    for (link, sum) in sums {
        let is_whole = sum.tiles >= fabric.ports(link).len() as f64;
        let of_link = [
            (
                table.has(Use::Flits),
                Quantity::ReceivedBytes,
                sum.flits * FLIT_BYTES,
            ),
            (
                stalls,
                Quantity::InputStallNs,
                sum.stalls * STALL_NS / sum.tiles,
            ),
        ];
        for (_, quantity, value) in of_link.into_iter().filter(|(recorded, ..)| *recorded) {
            match is_whole {
                true => increase.set(quantity, link, value),
                false => increase.lose(quantity, link, Missing::Unread),
            }
        }
        if !is_whole {
            increase.left_out.note(PARTIAL, fabric.link_name(link));
        }
    }
    Ok(increase)
}

/// The link that arrives at a tile of a router.
fn arriving(fabric: &Fabric, router: RouterId, port: u64) -> Option<LinkId> {
    let leaves = |&&l: &&LinkId| fabric.ports(l).iter().any(|p| u64::from(p.from) == port);
    let leaving = fabric.links_from(router).iter().find(leaves)?;
    fabric.reverse(*leaving)
}

/// Rows of a file with their columns.
struct Table<'a> {
    text: &'a Text,
    lines: Box<dyn Iterator<Item = Line<'a>> + 'a>,
    by_rank: bool,
    /// Columns that name the tile.
    place: usize,
    uses: Vec<Use>,
}

impl<'a> Table<'a> {
    fn of(text: &'a Text) -> Result<Self, InputError> {
        let mut lines = text.lines().filter(|l| !l.trimmed().is_empty());
        let mut names: Vec<String> = Vec::new();
        let mut by_rank = true;
        let mut last = None;
        for line in lines.by_ref() {
            last = Some(line);
            let content = line.trimmed();
            if content == b"..." {
                break;
            }
            if let Some(column) = content.strip_prefix(b"- [") {
                names.extend(cells(column).take(1).map(|n| lossy(n).into_owned()));
            } else if is_line(content) && !content.starts_with(b"key:") {
                names = cells(content).map(|n| lossy(n).into_owned()).collect();
                by_rank = false;
                break;
            }
        }
        let expected: &[&str] = if by_rank { &OF_RANK } else { &PLACE };
        let uses: Vec<Use> = names.iter().map(|n| use_of(n)).collect();
        let wrong = |expected: String| {
            let error = text.error(names.join(","), expected);
            last.map_or(error.clone(), |line| error.at(line.number))
        };
        if !names
            .iter()
            .map(String::as_str)
            .take(expected.len())
            .eq(expected.iter().copied())
        {
            return Err(wrong(format!(
                "the columns {}, then counters",
                expected.join(", ")
            )));
        }
        if uses.iter().all(|u| *u == Use::None) {
            return Err(wrong("a counter such as INQ_PRF_INCOMING_FLIT_VC0".into()));
        }
        Ok(Self {
            text,
            lines: Box::new(lines),
            by_rank,
            place: expected.len(),
            uses,
        })
    }

    fn has(&self, wanted: Use) -> bool {
        self.uses.contains(&wanted)
    }

    /// The next row: its line, tile, flits and stalls.
    #[allow(clippy::type_complexity, reason = "one row, used once")]
    fn row(
        &mut self,
        left_out: &mut LeftOut,
    ) -> Result<Option<(Line<'a>, Vec<u64>, f64, f64)>, InputError> {
        let Some(line) = self.lines.next() else {
            return Ok(None);
        };
        if is_unended(self.text, line) {
            left_out.note(UNENDED, format!("line {}", line.number));
            return Ok(None);
        }
        let row: Vec<&[u8]> = if self.by_rank {
            line.words().collect()
        } else {
            cells(line.trimmed()).collect()
        };
        if row.len() != self.uses.len() {
            let found = format!("{} cells", row.len());
            let expected = format!("{}, one per column", self.uses.len());
            return Err(self.text.error(found, expected).at(line.number));
        }
        let count = |word: &[u8]| {
            whole(word).ok_or_else(|| self.text.error_in(line, word, "a count (a whole number)"))
        };
        let place: Vec<u64> = row[..self.place]
            .iter()
            .map(|w| count(w))
            .collect::<Result<_, _>>()?;
        let stall = if self.has(Use::Stall) {
            Use::Stall
        } else {
            Use::ChannelStall
        };
        let (mut flits, mut stalls) = (0.0, 0.0);
        for (word, of) in row.iter().zip(&self.uses) {
            match *of {
                Use::Flits => flits += count(word)? as f64,
                of if of == stall => stalls += count(word)? as f64,
                _ => {}
            }
        }
        Ok(Some((line, place, flits, stalls)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::CounterOptions;
    use crate::text::Limits;
    use hopbyte_fabric::spec;

    fn read(content: &str, node: Option<&str>) -> Result<Increase, String> {
        let fabric = spec::fabric("aries:2x6x16").unwrap();
        let text = Text::from_bytes("tiles", content.as_bytes(), Limits::TEXT).unwrap();
        let options = CounterOptions {
            node: node.map(str::to_owned),
            ..CounterOptions::default()
        };
        let series = crate::counters::counter_series(&[text], &fabric, &options);
        let series = series.map_err(|e| e.to_string())?;
        match series {
            crate::counters::Series::Increases(mut all) => Ok(all.remove(0)),
            crate::counters::Series::Totals(_) => Err("totals".into()),
        }
    }

    /// The first tile of a router with a green link, and that link's arrival.
    fn green() -> (u16, LinkId) {
        let fabric = spec::fabric("aries:2x6x16").unwrap();
        let router = fabric.router_at(&[1, 2, 3]).unwrap();
        let link = fabric.links_from(router).iter().copied();
        let link = link
            .clone()
            .find(|&l| fabric.kind(l).name == "green")
            .unwrap();
        (fabric.ports(link)[0].from, fabric.reverse(link).unwrap())
    }

    #[test]
    fn tiles_by_router_and_by_rank_say_the_same() {
        let (port, link) = green();
        let by_router = format!(
            "group,row,col,port,AR_RTR_x_y_INQ_PRF_INCOMING_FLIT_VC0,INQ_PRF_INCOMING_FLIT_VC7,\
             INQ_PRF_ROWBUS_STALL_CNT,INQ_PRF_INCOMING_PKT_VC1_FILTER_FLIT1_CNT\n1,2,3,{port},30,15.0,8,99\n1,2,3,63,1,1,1,1\n"
        );
        let one = read(&by_router, None).unwrap();
        assert_eq!((one.matched, one.unmatched), (1, 1));
        let said: Vec<String> = one.left_out.sentences().collect();
        assert!(
            said.iter()
                .any(|s| s.starts_with("1 left out, row that names no link of the machine: [")),
            "{said:?}"
        );
        assert_eq!(one.get(Quantity::ReceivedBytes, link), Some(300.0));
        assert_eq!(one.get(Quantity::InputStallNs, link), Some(10.0));
        let head = "---\nkey: ARIESCOUNTER_NETWORK\n---\n- [mpirank, int32]\n- [tilex, int32]\n- [tiley, int32]\n\
                    - [\"COLBUF_PERF_STALL_RQ:VC_PTR\", int128]\n- [\"INQ_PRF_INCOMING_FLIT_VC0\", int128]\n...\n";
        let rank = format!("{head}\n7 {} {} 5 45\n", port / 8, port % 8);
        let two = read(&rank, Some("c2-0c2s3n1")).unwrap();
        assert_eq!(two.get(Quantity::ReceivedBytes, link), Some(300.0));
        assert_eq!(two.get(Quantity::InputStallNs, link), None, "not recorded");
        // Two ranks: one on the same router, then one on another.
        // AriesNCL ends no row: the last one may be cut.
        let unended = format!("{rank}7 {} {} 5 4", port / 8, port % 8);
        let left_out = read(&unended, Some("c2-0c2s3n1")).unwrap();
        assert_eq!(left_out.get(Quantity::ReceivedBytes, link), Some(300.0));
        assert_eq!(left_out.left_out.counts().count(), 1);
        let other = format!("{rank}16 {} {} 5 15\n", port / 8, port % 8);
        let same = read(&other, Some("c2-0c2s3n1,c2-0c2s3n0")).unwrap();
        assert_eq!(same.get(Quantity::ReceivedBytes, link), Some(300.0));
        let two = read(&other, Some("c0-0c0s0n0,c2-0c2s3n[1]")).unwrap();
        assert_eq!(two.get(Quantity::ReceivedBytes, link), Some(100.0));
        for (bad, node, why) in [
            (rank.clone(), None, "the nodes of the ranks"),
            (rank.clone(), Some("nid00000,nid00005"), "one for each node"),
            (format!("{rank}8 0 0 1 1\n"), Some("c2-0c2s3n1"), "one rank"),
            (
                by_router.replace("INQ_PRF", "NIC"),
                None,
                "a counter such as",
            ),
            (by_router.replace("15.0", "15.5"), None, "a whole number"),
            (by_router.replace(",99", ""), None, "cells"),
        ] {
            let error = read(&bad, node).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
