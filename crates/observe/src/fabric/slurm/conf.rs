//! Slurm's `topology.conf`.
//!
//! ```text
//! SwitchName=spine Switches=leaf[1-2]      a tree (or forest, or graph) of switches
//! SwitchName=leaf1 Nodes=node[01-08,10] LinkSpeed=400
//! BlockName=b1 Nodes=node[01-18]           blocks
//! BlockSizes=18,36
//! RingName=r1 Nodes=node[01-08]            rings
//! ```
//!
//! `scontrol show topology` prints the same with a `Level=`, and for every switch of switches all nodes below it; blocks with
//! their number and size, and below them the blocks that these form together (`AggregatedBlock=`); rings with their size;
//! tori by name, size and nodes (`TorusName=t1 Dims=4x4x2 Nodes=…`), with shapes of allocations, which are not used.
//! Keys are case-insensitive, `#` begins a comment, a backslash at the end continues the line. A file that Slurm's plugins
//! refuse is refused, with two exceptions: lists of cables that converters of InfiniBand scans write in this form (the
//! switches have GUIDs for names), and parts of what `scontrol` prints.

use super::{Block, EXPECTED, LIST, Names, Plan, REFUSED, Switch, Torus, not_a_tree};
use crate::fabric::names::note_of;
use crate::text::{Line, Text, decimal_u32, lossy, words};
use hopbyte_fabric::InputError;
use memchr::memchr;
use std::collections::{BTreeSet, HashSet};

const NAMES: [&str; 3] = ["SwitchName", "BlockName", "RingName"];
/// First words of further lines that `scontrol` prints: blocks together, and tori.
const PRINTED: [&str; 2] = ["AggregatedBlock", "TorusName"];

/// Hint to a line that Slurm replaces by another file.
const INCLUDE: &str = "one file is read: write the lines of the included file in place of this one";

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    let first = line.words().next().and_then(setting);
    let mut names = NAMES.iter().chain(&PRINTED).chain(&["BlockSizes"]);
    first.is_some_and(|(key, _)| names.any(|n| is_key(key, n)))
}

fn setting(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = memchr(b'=', word)?;
    let value = &word[equals + 1..];
    let quoted = value
        .strip_prefix(b"\"")
        .and_then(|v| v.strip_suffix(b"\""));
    Some((&word[..equals], quoted.unwrap_or(value)))
}

/// Whether a name is that of an `ibnetdiscover` record: `S-` and a GUID.
fn is_guid(name: &str) -> bool {
    name.strip_prefix("S-")
        .is_some_and(|g| (12..=16).contains(&g.len()) && g.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_key(key: &[u8], name: &str) -> bool {
    key.eq_ignore_ascii_case(name.as_bytes())
}

/// Reads a topology.
pub fn read(text: &Text, notes: &mut Vec<String>) -> Result<Plan, InputError> {
    let mut reader = Reader {
        text,
        switches: Vec::new(),
        blocks: Vec::new(),
        rings: Vec::new(),
        toruses: Vec::new(),
        sizes: Vec::new(),
        block: 0,
        together: BTreeSet::new(),
        speeds: 0,
        printed: false,
        above: BTreeSet::new(),
        names: Names::default(),
    };
    let mut joined: Vec<u8> = Vec::new();
    let mut start: Option<Line<'_>> = None;
    for line in text.lines() {
        let first = *start.get_or_insert(line);
        let content = match memchr(b'#', line.bytes) {
            Some(comment) => &line.bytes[..comment],
            None => line.bytes,
        };
        if let Some(more) = content.strip_suffix(b"\\") {
            joined.extend_from_slice(more);
            continue;
        }
        joined.extend_from_slice(content);
        reader.line(first, &joined)?;
        joined.clear();
        start = None;
    }
    if let Some(first) = start {
        reader.line(first, &joined)?;
    }
    reader.finish(notes)
}

struct Reader<'a> {
    text: &'a Text,
    switches: Vec<Switch>,
    blocks: Vec<Block>,
    rings: Vec<Block>,
    toruses: Vec<Torus>,
    sizes: Vec<u32>,
    /// Largest size of a block, and sizes of blocks together, of printed blocks.
    block: u32,
    together: BTreeSet<u32>,
    speeds: usize,
    /// Whether it was printed by `scontrol`, which may leave switches out.
    printed: bool,
    /// Nodes that switches of switches list.
    above: BTreeSet<String>,
    names: Names,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>, content: &[u8]) -> Result<(), InputError> {
        self.once(line, content)?;
        let first = words(content).next().and_then(setting);
        if let Some((key, _)) = first.filter(|(key, _)| PRINTED.iter().any(|n| is_key(key, n))) {
            return match is_key(key, PRINTED[0]) {
                true => self.together(line, content),
                false => self.torus(line, content),
            };
        }
        let (mut name, mut nodes, mut switches) = (None, None, None);
        let mut level = None;
        for word in words(content) {
            let wrong = |expected: &str| self.text.error_in(line, word, expected);
            let (key, value) = setting(word).ok_or_else(|| match is_key(word, "Include") {
                true => wrong("the lines of the included file").hint(INCLUDE),
                false => wrong("KEY=VALUE"),
            })?;
            let mut list = |of: fn(&mut Names, &str) -> Option<Vec<String>>| {
                let names = of(&mut self.names, &lossy(value));
                names.ok_or_else(|| wrong("names such as node[01-16,20],other").hint(LIST))
            };
            if let Some(kind) = NAMES.iter().position(|n| is_key(key, n)) {
                let value = crate::fabric::names::name(value);
                if name.is_some() || value.is_empty() {
                    return Err(wrong("one name per line"));
                }
                name = Some((kind, value));
            } else if is_key(key, "Nodes") {
                nodes = Some(list(Names::nodes)?);
            } else if is_key(key, "Switches") {
                switches = Some(list(Names::of)?);
            } else if is_key(key, "LinkSpeed") {
                self.speeds += 1;
            } else if is_key(key, "Level") {
                let number = decimal_u32(value);
                level = Some(number.ok_or_else(|| wrong("a level (a whole number)"))?);
            } else if is_key(key, "BlockSize") {
                let size = decimal_u32(value).filter(|&s| s > 0);
                let size = size.ok_or_else(|| wrong("a size (a whole number from 1)"))?;
                self.block = self.block.max(size);
            } else if is_key(key, "BlockIndex") || is_key(key, "RingSize") {
                decimal_u32(value).ok_or_else(|| wrong("a whole number"))?;
            } else if is_key(key, "BlockSizes") {
                let sizes = value.split(|&b| b == b',').map(decimal_u32);
                self.sizes = sizes
                    .collect::<Option<_>>()
                    .ok_or_else(|| wrong("sizes such as 4,8,16"))?;
            } else {
                return Err(wrong(
                    "SwitchName, Switches, Nodes, LinkSpeed, Level, BlockName, BlockSizes or RingName",
                ));
            }
        }
        // The nodes that a switch of switches lists are those of the switches below it.
        if level.is_some_and(|l| l > 0) && switches.is_some() {
            self.above.extend(nodes.take().into_iter().flatten());
        }
        self.printed |= level.is_some();
        let line_number = line.number;
        match (name, nodes, switches) {
            (None, None, None) => {}
            (Some((0, _)), Some(_), Some(_)) => {
                let expected = "a switch with either Nodes=… or Switches=…";
                return Err(self.text.error_at(line, expected).hint(REFUSED));
            }
            // Nodes may join a switch later.
            (Some((0, name)), nodes, children) => {
                self.switches.push(Switch {
                    name,
                    nodes: nodes.unwrap_or_default(),
                    children: children.unwrap_or_default(),
                    line: line_number,
                });
            }
            (Some((kind @ 1..=2, name)), nodes, None) => {
                let block = Block {
                    name,
                    nodes: nodes.unwrap_or_default(),
                    line: line_number,
                };
                if kind == 1 {
                    self.blocks.push(block);
                } else {
                    self.rings.push(block);
                }
            }
            _ => {
                return Err(self
                    .text
                    .error_at(line, "SwitchName=… with Nodes=… or Switches=…, or BlockName=… or RingName=… with Nodes=…"));
            }
        }
        Ok(())
    }

    /// Refuses a line that has a key twice, of which one value would be lost.
    fn once(&self, line: Line<'_>, content: &[u8]) -> Result<(), InputError> {
        let mut seen: Vec<&[u8]> = Vec::new();
        for word in words(content) {
            let Some((key, _)) = setting(word) else {
                continue;
            };
            if seen.iter().any(|k| k.eq_ignore_ascii_case(key)) {
                let expected = format!("{} once on a line", lossy(key));
                let error = self.text.error_in(line, word, expected);
                return Err(error.hint("give one list: NAME[1-4],OTHER[1-2]"));
            }
            seen.push(key);
        }
        Ok(())
    }

    /// `AggregatedBlock=b[1-2] BlockIndex=2 Nodes=… BlockSize=36`: a size to which blocks combine.
    fn together(&mut self, line: Line<'_>, content: &[u8]) -> Result<(), InputError> {
        let sizes = words(content)
            .filter_map(setting)
            .filter(|s| is_key(s.0, "BlockSize"));
        let size = sizes.last().and_then(|(_, value)| decimal_u32(value));
        let expected = "AggregatedBlock=… with a BlockSize";
        self.together
            .insert(size.ok_or_else(|| self.text.error_at(line, expected))?);
        Ok(())
    }

    /// `TorusName=t1 Dims=4x4x2 Nodes=…`; the lines below it with `PlacementDims` are not used.
    fn torus(&mut self, line: Line<'_>, content: &[u8]) -> Result<(), InputError> {
        let expected = "TorusName=… Dims=XxYxZ Nodes=…";
        let of = |key: &str| {
            let mut settings = words(content).filter_map(setting);
            settings.find(|s| is_key(s.0, key)).map(|s| s.1)
        };
        if of("PlacementDims").is_some() {
            return Ok(());
        }
        let dims = of("Dims").and_then(|dims| {
            let sizes: Option<Vec<u32>> = dims.split(|&b| b == b'x').map(decimal_u32).collect();
            <[u32; 3]>::try_from(sizes?).ok()
        });
        let nodes = of("Nodes").and_then(|list| self.names.nodes(&lossy(list)));
        let (Some(dims), Some(nodes)) = (dims.filter(|d| !d.contains(&0)), nodes) else {
            return Err(self.text.error_at(line, expected));
        };
        self.toruses.push(Torus {
            name: crate::fabric::names::name(of(PRINTED[1]).unwrap_or_default()),
            dims,
            nodes,
            line: line.number,
        });
        Ok(())
    }

    /// `BlockSizes`, or the sizes of printed blocks. The last blocks together may be fewer.
    fn sizes(&self) -> Vec<u32> {
        let (given, base) = (!self.sizes.is_empty(), self.block);
        if given || base == 0 {
            return self.sizes.clone();
        }
        let fits = |size: &&u32| {
            **size > base && (**size).is_multiple_of(base) && (**size / base).is_power_of_two()
        };
        let together = self.together.iter().filter(fits).copied();
        std::iter::once(base).chain(together).collect()
    }

    /// Tells of nodes that no described leaf has.
    fn note_leafless(&self, notes: &mut Vec<String>) {
        let of_leaves: HashSet<&String> = self.switches.iter().flat_map(|s| &s.nodes).collect();
        let leafless = self.above.iter().filter(|n| !of_leaves.contains(n));
        let leafless: Vec<String> = leafless.cloned().collect();
        let what =
            "listed by a switch of switches alone, without a leaf that is described, and left out";
        note_of(notes, &leafless, "node is", "nodes are", what);
    }

    fn finish(self, notes: &mut Vec<String>) -> Result<Plan, InputError> {
        if self.speeds > 0 {
            notes.push(format!(
                "LinkSpeed of {} lines is not used: Slurm does not define its unit",
                self.speeds
            ));
        }
        let sizes = self.sizes();
        if !self.toruses.is_empty()
            && self.switches.is_empty()
            && self.blocks.is_empty()
            && self.rings.is_empty()
        {
            return Ok(Plan::Toruses(self.toruses));
        }
        match (
            self.switches.is_empty() && self.toruses.is_empty(),
            self.blocks.is_empty(),
            self.rings.is_empty(),
        ) {
            (false, true, true) => {
                if let Some((why, line)) = not_a_tree(&self.switches) {
                    if !self.printed && !self.switches.iter().all(|s| is_guid(&s.name)) {
                        let error = self.text.error(why, EXPECTED).at(line);
                        return Err(error.hint(REFUSED));
                    }
                    let is = match self.printed {
                        true => "this is a part of a topology",
                        false => "Slurm refuses this file",
                    };
                    notes.push(format!(
                        "{is}: line {line} has {why}; its lines are read as cables"
                    ));
                }
                self.note_leafless(notes);
                Ok(Plan::Tree(self.switches))
            }
            (true, false, true) => Ok(Plan::Blocks {
                sizes,
                blocks: self.blocks,
            }),
            (true, true, false) => Ok(Plan::Rings(self.rings)),
            (true, true, true) => Err(self.text.error("no topology", "switches, blocks or rings")),
            _ => Err(self
                .text
                .error("switches, blocks and rings mixed", "a topology of one kind")
                .hint(REFUSED)),
        }
    }
}
