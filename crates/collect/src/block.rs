//! All reports of one tick as bytes, for the store, viewers and replay.
//!
//! A block is four bytes of length, four of CRC-32, and entries:
//!
//! | entry | content |
//! |---|---|
//! | `h` | number of a shape, its bytes |
//! | `n` | number of a node, its name, boot, start of its agent |
//! | `s` | node, [`Origin`] of a source, its shape |
//! | `r` | node, [`Arrival`], a report as on the wire |
//! | `c` | the [`Closing`], last entry of every block |
//!
//! The first block of a segment defines all shapes, nodes and sources that it uses; later blocks only new ones.

use crate::Refusal;
use crate::bytes::{Take, put_difference, put_number, put_u64, put_word};
use crate::node::{MOST_SHAPES, NodeState, Shapes};
use crate::wire::{Origin, Sampled, put_report};
use serde::Serialize;
use std::collections::HashSet;

/// Maximum length of a block: 100,000 nodes of 300 counters with absolute values.
pub const LONGEST_BLOCK: usize = 512 << 20;
/// Maximum number of nodes in one stream of blocks.
pub const MOST_NODES: usize = 1 << 20;
/// Maximum number of values in the state of a cluster, twice those of the longest block: a source takes a few bytes in
/// a block and up to 32 kB in memory.
pub const MOST_VALUES: usize = 1 << 26;
/// Bytes before the entries.
pub const HEAD: usize = 8;

/// Arrival of a report relative to its tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// Before the tick closed.
    OnTime,
    /// After the tick closed.
    Late,
    /// Before the tick began: the node's clock is ahead.
    Ahead,
}

/// Why an expected node has no values in a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Absence {
    /// No report since the collector's start.
    Never,
    /// The node has no connection.
    Gone,
    /// The node is connected and sends no reports.
    Silent,
    /// The node reports earlier ticks: its clock is behind or its path is slow.
    Behind,
}

const ABSENCES: [Absence; 4] = [
    Absence::Never,
    Absence::Gone,
    Absence::Silent,
    Absence::Behind,
];
const ARRIVALS: [Arrival; 3] = [Arrival::OnTime, Arrival::Late, Arrival::Ahead];

/// A report that arrived after its tick closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Late {
    /// The node.
    pub node: u32,
    /// The report's tick.
    pub tick: u64,
    /// Delay from reading to arrival, by the node's and the collector's clocks.
    pub delay_ns: i64,
}

/// State of a tick at its closing. Nodes are numbers of this stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// The tick.
    pub tick: u64,
    /// Tick length.
    pub period_ns: u64,
    /// Time of closing, by the collector's clock.
    pub closed_ns: u64,
    /// Number of nodes expected to report.
    pub expected: u64,
    /// Number of nodes that reported in time.
    pub reported: u64,
    /// Time from the first node's reading to the last one's, if at least two reported.
    pub spread_ns: Option<u64>,
    /// Ticks skipped since the previous closing (suspended collector or changed clock).
    pub skipped: u64,
    /// Nodes without values, with the reason.
    pub missing: Vec<(u32, Absence)>,
    /// Late reports since the previous closing.
    pub late: Vec<Late>,
    /// Nodes that rebooted or whose counters were reset.
    pub reset: Vec<u32>,
    /// Nodes whose device clock stopped, or that are connected and silent.
    pub frozen: Vec<u32>,
    /// Nodes whose clock is ahead by more than a tick.
    pub ahead: Vec<u32>,
    /// Nodes with a source that failed to read.
    pub failed: Vec<u32>,
}

impl Closing {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.tick);
        put_number(out, self.period_ns);
        put_u64(out, self.closed_ns);
        put_number(out, self.expected);
        put_number(out, self.reported);
        put_number(out, self.spread_ns.map_or(0, |s| s.saturating_add(1)));
        put_number(out, self.skipped);
        put_number(out, self.missing.len() as u64);
        for &(node, why) in &self.missing {
            put_number(out, node.into());
            out.push(ABSENCES.iter().position(|&a| a == why).unwrap_or(0) as u8);
        }
        put_number(out, self.late.len() as u64);
        for late in &self.late {
            put_number(out, late.node.into());
            put_number(out, late.tick);
            put_difference(out, late.delay_ns);
        }
        for nodes in [&self.reset, &self.frozen, &self.ahead, &self.failed] {
            put_number(out, nodes.len() as u64);
            nodes.iter().for_each(|&n| put_number(out, n.into()));
        }
    }

    fn take(take: &mut Take<'_>) -> Result<Self, Refusal> {
        let mut closing = Self {
            tick: take.number()?,
            period_ns: take.number()?,
            closed_ns: take.u64()?,
            expected: take.number()?,
            reported: take.number()?,
            spread_ns: take.number()?.checked_sub(1),
            skipped: take.number()?,
            ..Self::default()
        };
        for _ in 0..take.count("missing nodes", MOST_NODES)? {
            let node = node_number(take)?;
            let why = choice(take.byte()?, &ABSENCES)?;
            closing.missing.push((node, why));
        }
        for _ in 0..take.count("late reports", MOST_NODES)? {
            closing.late.push(Late {
                node: node_number(take)?,
                tick: take.number()?,
                delay_ns: take.difference()?,
            });
        }
        let lists = [
            &mut closing.reset,
            &mut closing.frozen,
            &mut closing.ahead,
            &mut closing.failed,
        ];
        for list in lists {
            for _ in 0..take.count("nodes", MOST_NODES)? {
                list.push(node_number(take)?);
            }
        }
        Ok(closing)
    }
}

fn choice<T: Copy>(byte: u8, all: &[T]) -> Result<T, Refusal> {
    let found = all.get(usize::from(byte)).copied();
    found.ok_or_else(|| Refusal::new(format!("choice {byte} of {}", all.len())))
}

fn node_number(take: &mut Take<'_>) -> Result<u32, Refusal> {
    let n = take.number()?;
    if n >= MOST_NODES as u64 {
        return Err(Refusal::new(format!(
            "node {n}, the maximum is {MOST_NODES}"
        )));
    }
    Ok(n as u32)
}

/// A block under construction.
#[derive(Clone, Debug)]
pub struct Writer {
    out: Vec<u8>,
    /// Checksum of the entries up to a position.
    crc: crc32fast::Hasher,
    summed: usize,
}

/// Interval in bytes at which the checksum is updated, while the bytes are in the processor's cache.
const SUM_EVERY: usize = 64 << 10;

impl Default for Writer {
    fn default() -> Self {
        Self {
            out: vec![0; HEAD],
            crc: crc32fast::Hasher::new(),
            summed: HEAD,
        }
    }
}

impl Writer {
    /// Adds a shape.
    pub fn shape(&mut self, id: u32, bytes: &[u8]) {
        self.out.push(b'h');
        put_number(&mut self.out, id.into());
        put_number(&mut self.out, bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    /// Adds a node.
    pub fn node(&mut self, id: u32, state: &NodeState) {
        self.out.push(b'n');
        put_number(&mut self.out, id.into());
        put_word(&mut self.out, &state.name);
        put_u64(&mut self.out, state.boot);
        put_u64(&mut self.out, state.start);
    }

    /// Adds a source of a node.
    pub fn source(&mut self, node: u32, origin: &Origin, shape: u32) {
        self.out.push(b's');
        put_number(&mut self.out, node.into());
        origin.put(&mut self.out);
        put_number(&mut self.out, shape.into());
    }

    /// Adds a report as received.
    pub fn report(&mut self, node: u32, arrival: Arrival, body: &[u8]) {
        self.report_head(node, arrival);
        put_number(&mut self.out, body.len() as u64);
        self.out.extend_from_slice(body);
        if self.out.len() > self.summed + SUM_EVERY {
            self.sum();
        }
    }

    fn sum(&mut self) {
        self.crc.update(&self.out[self.summed..]);
        self.summed = self.out.len();
    }

    /// Adds the latest report of a node with absolute values.
    pub fn whole_report(&mut self, node: u32, arrival: Arrival, state: &NodeState) {
        self.report_head(node, arrival);
        let sources: Vec<Sampled<'_>> = state
            .sources
            .iter()
            .flatten()
            .map(|held| {
                let mut part = held.part;
                part.key = true;
                Sampled {
                    part,
                    values: &held.values,
                    base: None,
                }
            })
            .collect();
        let mut body = Vec::new();
        put_report(&state.header, sources, &mut body);
        put_number(&mut self.out, body.len() as u64);
        self.out.extend_from_slice(&body);
    }

    fn report_head(&mut self, node: u32, arrival: Arrival) {
        self.out.push(b'r');
        put_number(&mut self.out, node.into());
        self.out.push(arrival as u8);
    }

    /// The block so far.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Closes the block; its bytes are valid until [`Writer::clear`].
    pub fn close(&mut self, closing: &Closing) -> &[u8] {
        self.out.push(b'c');
        closing.put(&mut self.out);
        self.sum();
        let crc = self.crc.clone().finalize();
        let length = (self.out.len() - HEAD) as u32;
        self.out[..4].copy_from_slice(&length.to_le_bytes());
        self.out[4..HEAD].copy_from_slice(&crc.to_le_bytes());
        &self.out
    }

    /// Begins the next block. Memory far beyond the need of the last block is released.
    pub fn clear(&mut self) {
        let used = self.out.len();
        self.out.truncate(HEAD);
        self.crc.reset();
        self.summed = HEAD;
        if self.out.capacity() > 4 * used + (1 << 16) {
            self.out.shrink_to(2 * used);
        }
    }
}

/// The entries of the first block of `bytes` and the block's length; `None` if it is incomplete.
pub fn split(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Refusal> {
    let Some(head) = bytes.first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let crc = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    if length > LONGEST_BLOCK {
        return Err(Refusal::new(format!("a block of {length} bytes")));
    }
    let Some(entries) = bytes.get(HEAD..HEAD + length) else {
        return Ok(None);
    };
    if crc32fast::hash(entries) != crc {
        return Err(Refusal::new("a block with a wrong checksum"));
    }
    Ok(Some((entries, HEAD + length)))
}

/// The state of the cluster after the blocks read so far.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Shapes of sources.
    pub shapes: Shapes,
    /// Nodes by number; `None` for a number without a definition.
    pub nodes: Vec<Option<NodeState>>,
    shape_ids: Vec<Option<u32>>,
    /// Number of losses of blocks, and by node the number of losses before its last introduction.
    losses: u32,
    introduced: Vec<u32>,
    without_values: u64,
    /// Number of values of all nodes.
    values: usize,
}

/// Shapes that a reader holds: those of the stream, and older ones of nodes that left it.
const MOST_HELD: usize = 4 * MOST_SHAPES;

impl Default for Cluster {
    fn default() -> Self {
        Self {
            shapes: Shapes::limited(MOST_HELD),
            nodes: Vec::new(),
            shape_ids: Vec::new(),
            introduced: Default::default(),
            losses: Default::default(),
            without_values: Default::default(),
            values: Default::default(),
        }
    }
}

impl Cluster {
    /// A block is lost. Differences and definitions of later blocks may build on it: values are missing until their
    /// node and shape are introduced again.
    pub fn lose(&mut self) {
        self.losses += 1;
        self.shape_ids.clear();
    }

    /// Number of reports whose values are missing because of a lost block.
    pub fn without_values(&self) -> u64 {
        self.without_values
    }

    /// Whether a node was introduced since the last loss.
    pub(crate) fn is_known(&self, id: u32) -> bool {
        self.losses == 0 || self.introduced.get(id as usize) == Some(&self.losses)
    }

    /// Decodes a block's entries, calls `report` after each report with node number and arrival, and
    /// returns the closing.
    pub fn read(
        &mut self,
        entries: &[u8],
        mut report: impl FnMut(&Self, u32, Arrival),
    ) -> Result<Closing, Refusal> {
        let mut take = Take(entries);
        loop {
            match take.byte()? {
                b'h' => self.take_shape(&mut take)?,
                b'n' => self.take_node(&mut take)?,
                b's' => self.take_source(&mut take)?,
                b'r' => {
                    let id = node_number(&mut take)?;
                    let arrival = choice(take.byte()?, &ARRIVALS)?;
                    let length = take.count("bytes of a report", LONGEST_BLOCK)?;
                    let body = take.bytes(length)?;
                    let known = self.is_known(id);
                    self.drop_undeclared(id as usize);
                    let node = self.nodes.get_mut(id as usize).and_then(Option::as_mut);
                    match node {
                        Some(node) if known => drop(node.apply(body, &self.shapes)?),
                        Some(node) => {
                            node.miss(body)?;
                            self.without_values += 1;
                        }
                        None if self.losses > 0 => {
                            self.without_values += 1;
                            continue;
                        }
                        None => return Err(unknown(id)),
                    }
                    report(self, id, arrival);
                }
                b'c' => {
                    let closing = Closing::take(&mut take)?;
                    take.end()?;
                    return Ok(closing);
                }
                other => return Err(Refusal::new(format!("an entry of kind {other}"))),
            }
        }
    }

    /// The node with a number, if it is defined.
    pub fn node(&self, id: u32) -> Option<&NodeState> {
        self.nodes.get(id as usize)?.as_ref()
    }

    /// The name of a node, or its number if it is not defined.
    pub fn name(&self, id: u32) -> String {
        let node = self.node(id);
        node.map_or_else(|| format!("#{id}"), |n| n.name.to_string())
    }

    fn take_shape(&mut self, take: &mut Take<'_>) -> Result<(), Refusal> {
        let id = take.number()? as usize;
        let length = take.count("bytes of a shape", LONGEST_BLOCK)?;
        let bytes = take.bytes(length)?;
        if id >= MOST_SHAPES {
            return Err(Refusal::new(format!("shape {id}")));
        }
        if self.shape_ids.len() <= id {
            self.shape_ids.resize(id + 1, None);
        }
        // The number may have belonged to a shape that no node has any more.
        self.shape_ids[id] = None;
        if self.shapes.is_full() && self.shapes.find(bytes).is_none() {
            self.reclaim();
        }
        self.shape_ids[id] = Some(self.shapes.intern(bytes)?);
        Ok(())
    }

    /// Frees shapes that neither the stream nor a node refers to.
    fn reclaim(&mut self) {
        let held = self.nodes.iter().flatten().flat_map(|n| &n.sources);
        let held = held.flatten().map(|h| h.shape);
        let used: HashSet<u32> = held
            .chain(self.shape_ids.iter().copied().flatten())
            .collect();
        self.shapes.retain(|id| used.contains(&id));
    }

    fn take_node(&mut self, take: &mut Take<'_>) -> Result<(), Refusal> {
        let id = node_number(take)? as usize;
        let name = take.word("node")?;
        let (boot, start) = (take.u64()?, take.u64()?);
        if self.nodes.len() <= id {
            self.nodes.resize(id + 1, None);
        }
        let before = self.values_of(id);
        match &mut self.nodes[id] {
            Some(node) if *node.name == *name => node.succeed(boot, start),
            slot => *slot = Some(NodeState::new(name, boot, start)),
        }
        if self.losses > 0 {
            if self.introduced.len() <= id {
                self.introduced.resize(id + 1, 0);
            }
            let before = std::mem::replace(&mut self.introduced[id], self.losses);
            if let (Some(node), true) = (&mut self.nodes[id], before != self.losses) {
                node.sources.clear();
            }
        }
        self.values = self.values - before + self.values_of(id);
        Ok(())
    }

    /// Drops the sources of a node that its present agent did not declare.
    fn drop_undeclared(&mut self, id: usize) {
        let Some(Some(node)) = self.nodes.get_mut(id) else {
            return;
        };
        for shape in node.drop_undeclared() {
            self.values -= self.shapes.layout(shape).counters.len();
        }
    }

    /// Number of values of a node.
    fn values_of(&self, id: usize) -> usize {
        let sources = self.nodes[id]
            .iter()
            .flat_map(|n| n.sources.iter().flatten());
        sources.map(|held| held.values.len()).sum()
    }

    fn take_source(&mut self, take: &mut Take<'_>) -> Result<(), Refusal> {
        let id = node_number(take)?;
        let origin = Origin::take(take)?;
        let shape = take.number()? as usize;
        let shape = self.shape_ids.get(shape).copied().flatten();
        let node = self.nodes.get_mut(id as usize).and_then(Option::as_mut);
        match (node, shape) {
            (Some(node), Some(shape)) => {
                let held = node.sources.get(usize::from(origin.source));
                let before = held.and_then(Option::as_ref).map_or(0, |h| h.values.len());
                let values = self.values - before + self.shapes.layout(shape).counters.len();
                if values > MOST_VALUES {
                    return Err(Refusal::new(format!(
                        "{values} values of all nodes, the maximum is {MOST_VALUES}"
                    )));
                }
                node.declare(origin, shape, &self.shapes)?;
                self.values = values;
                Ok(())
            }
            // Defined in a lost block.
            (_, _) if self.losses > 0 => {
                if let Some(introduced) = self.introduced.get_mut(id as usize) {
                    *introduced = 0;
                }
                Ok(())
            }
            (None, _) => Err(unknown(id)),
            (_, None) => Err(Refusal::new("a source of an unknown shape")),
        }
    }
}

/// The closing of a block's entries, which are skipped.
pub fn closing(entries: &[u8]) -> Result<Closing, Refusal> {
    let mut take = Take(entries);
    loop {
        match take.byte()? {
            b'h' => {
                take.number()?;
                let length = take.count("bytes of a shape", LONGEST_BLOCK)?;
                take.bytes(length)?;
            }
            b'n' => {
                node_number(&mut take)?;
                take.word("node")?;
                take.bytes(16)?;
            }
            b's' => {
                node_number(&mut take)?;
                Origin::take(&mut take)?;
                take.number()?;
            }
            b'r' => {
                node_number(&mut take)?;
                take.byte()?;
                let length = take.count("bytes of a report", LONGEST_BLOCK)?;
                take.bytes(length)?;
            }
            b'c' => {
                let closing = Closing::take(&mut take)?;
                take.end()?;
                return Ok(closing);
            }
            other => return Err(Refusal::new(format!("an entry of kind {other}"))),
        }
    }
}

fn unknown(id: u32) -> Refusal {
    Refusal::new(format!("node {id}, which is not defined"))
}
