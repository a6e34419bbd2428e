//! State of a node: its sources and their latest values. Shared by the collector and readers of blocks.

use crate::Refusal;
use crate::bytes::Take;
use crate::earlier::{Agent, Earlier};
use crate::packed;
use crate::shape;
use crate::wire::{Header, MOST_SOURCES, Origin, Part};
use hopbyte_observe::counters::delta::{Moment, increase};
use hopbyte_observe::counters::reading::{Layout, Reading};
use hopbyte_observe::counters::values::Values;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of different shapes at a time.
pub const MOST_SHAPES: usize = 4096;

/// Shapes of sources, without duplicates. Numbers of shapes that no node has any more are used again.
#[derive(Clone, Debug)]
pub struct Shapes {
    by_bytes: HashMap<Arc<[u8]>, u32>,
    all: Vec<(Arc<[u8]>, Arc<Layout>)>,
    free: Vec<u32>,
    most: usize,
    bytes: usize,
}

impl Default for Shapes {
    fn default() -> Self {
        Self::limited(MOST_SHAPES)
    }
}

impl Shapes {
    /// At most `most` shapes at a time.
    pub fn limited(most: usize) -> Self {
        Self {
            by_bytes: HashMap::new(),
            all: Vec::new(),
            free: Vec::new(),
            most,
            bytes: 0,
        }
    }

    /// The number of a known shape.
    pub fn find(&self, bytes: &[u8]) -> Option<u32> {
        self.by_bytes.get(bytes).copied()
    }

    /// The number of a shape; a new shape is checked and added.
    pub fn intern(&mut self, bytes: &[u8]) -> Result<u32, Refusal> {
        if let Some(id) = self.find(bytes) {
            return Ok(id);
        }
        if self.is_full() {
            return Err(Refusal::new(format!(
                "one more kind of source, the maximum is {} at a time",
                self.most
            )));
        }
        let mut take = Take(bytes);
        let layout = shape::take(&mut take, "")?;
        take.end()?;
        let bytes = Arc::<[u8]>::from(bytes);
        let shape = (bytes.clone(), Arc::new(layout));
        let id = match self.free.pop() {
            Some(id) => {
                self.all[id as usize] = shape;
                id
            }
            None => {
                self.all.push(shape);
                self.all.len() as u32 - 1
            }
        };
        self.bytes += bytes.len();
        self.by_bytes.insert(bytes, id);
        Ok(id)
    }

    /// Frees the shapes that are not `used`; returns their numbers.
    pub fn retain(&mut self, used: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut freed = Vec::new();
        let (all, bytes) = (&mut self.all, &mut self.bytes);
        self.by_bytes.retain(|shape, &mut id| {
            let keep = used(id);
            if !keep {
                *bytes -= shape.len();
                all[id as usize] = (Arc::default(), Arc::new(Layout::new("", "")));
                freed.push(id);
            }
            keep
        });
        // Numbers are given in an order that does not depend on the hash.
        freed.sort_unstable_by(|a, b| b.cmp(a));
        self.free.extend(&freed);
        freed
    }

    /// The layout of a shape, without a node's name and coordinates.
    pub fn layout(&self, id: u32) -> &Arc<Layout> {
        &self.all[id as usize].1
    }

    /// The bytes of a shape.
    pub fn bytes(&self, id: u32) -> &[u8] {
        &self.all[id as usize].0
    }

    /// Number of shapes.
    pub fn len(&self) -> usize {
        self.by_bytes.len()
    }

    /// Whether there are no shapes.
    pub fn is_empty(&self) -> bool {
        self.by_bytes.is_empty()
    }

    /// Whether no shape can be added.
    pub fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// Bytes in memory: a counter with its names takes about three times its size on the wire.
    pub fn memory(&self) -> usize {
        3 * self.bytes
    }
}

/// A source of a node and its latest values.
#[derive(Clone, Debug)]
pub struct Held {
    /// Number of the shape.
    pub shape: u32,
    /// Properties of this source that are not part of its shape.
    pub origin: Origin,
    /// Latest values.
    pub values: Values,
    /// Head of the latest part.
    pub part: Part,
    /// Whether absolute values were received, so that differences have a base.
    based: bool,
    /// Whether the present agent declared it, not only an earlier one.
    pub(crate) declared: bool,
}

impl Held {
    /// Whether the present agent declared it, not only an earlier one.
    pub fn is_declared(&self) -> bool {
        self.declared
    }
}

/// Findings about a node in a report, besides its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// A counter decreased without a possible wrap, or a device restarted.
    pub reset: bool,
    /// A device's own clock stopped.
    pub frozen: bool,
    /// Number of sources that failed to read.
    pub failed: u32,
    /// Whether all values are absolute.
    pub key: bool,
}

/// A node and its sources.
#[derive(Clone, Debug)]
pub struct NodeState {
    /// Node name.
    pub name: Box<str>,
    /// Hash of its boot id.
    pub boot: u64,
    /// Start of its agent.
    pub start: u64,
    /// Agents that reported under this name before.
    pub earlier: Earlier,
    /// Sources by index.
    pub sources: Vec<Option<Held>>,
    /// Header of the latest report.
    pub header: Header,
}

impl NodeState {
    /// A node without reports.
    pub fn new(name: &str, boot: u64, start: u64) -> Self {
        Self {
            name: name.into(),
            boot,
            start,
            earlier: Earlier::default(),
            sources: Vec::new(),
            header: Header::default(),
        }
    }

    /// Changes the agent in a stored stream, where the latest report's number is the highest one.
    pub fn succeed(&mut self, boot: u64, start: u64) {
        let sequence = self.header.sequence;
        let was = Agent {
            boot: self.boot,
            start: self.start,
            sequence,
            kept: sequence,
        };
        if (was.boot, was.start) != (boot, start) {
            self.header.sequence = self.earlier.change(was, boot, start).sequence;
            (self.boot, self.start) = (boot, start);
            self.expect_declarations();
        }
    }

    /// Another agent begins to report. The values of sources that it declares too are its base: counters go on.
    pub fn expect_declarations(&mut self) {
        self.sources
            .iter_mut()
            .flatten()
            .for_each(|s| s.declared = false);
    }

    /// Drops the sources of earlier agents that the present one did not declare before its first report; returns their
    /// shapes.
    pub fn drop_undeclared(&mut self) -> Vec<u32> {
        let mut gone = Vec::new();
        for slot in &mut self.sources {
            if let Some(held) = slot.take_if(|held| !held.declared) {
                gone.push(held.shape);
            }
        }
        gone
    }

    /// Adds this node's agents as an older log has them.
    pub fn add_older(&mut self, older: &Self) {
        let last = Agent {
            boot: older.boot,
            start: older.start,
            sequence: older.header.sequence,
            kept: older.header.sequence,
        };
        for agent in older.earlier.iter().copied().chain([last]) {
            if (agent.boot, agent.start) != (self.boot, self.start) {
                self.earlier.add(agent);
            } else if agent.sequence > self.header.sequence {
                self.header.sequence = agent.sequence;
            }
        }
    }

    /// Drops the base of differences (new connection): the next values must be absolute.
    pub fn forget_base(&mut self) {
        self.sources
            .iter_mut()
            .flatten()
            .for_each(|s| s.based = false);
    }

    /// Declares a source. Values are retained if its shape is unchanged.
    pub fn declare(&mut self, origin: Origin, shape: u32, shapes: &Shapes) -> Result<(), Refusal> {
        let at = usize::from(origin.source);
        if at >= MOST_SOURCES {
            return Err(Refusal::new(format!(
                "source {at}, a node has at most {MOST_SOURCES}"
            )));
        }
        if self.sources.len() <= at {
            self.sources.resize(at + 1, None);
        }
        match &mut self.sources[at] {
            Some(held) if held.shape == shape => (held.origin, held.declared) = (origin, true),
            slot => {
                *slot = Some(Held {
                    shape,
                    values: Values::new(shapes.layout(shape).counters.len()),
                    // The number is written even if the source was never read.
                    part: Part {
                        source: origin.source,
                        ..Part::default()
                    },
                    origin,
                    based: false,
                    declared: true,
                });
            }
        }
        Ok(())
    }

    /// Applies the values of a report.
    pub fn apply(&mut self, body: &[u8], shapes: &Shapes) -> Result<Seen, Refusal> {
        let mut take = Take(body);
        let header = Header::take(&mut take)?;
        let mut seen = Seen {
            key: true,
            ..Seen::default()
        };
        for _ in 0..take.count("sources", MOST_SOURCES)? {
            let part = Part::take(&mut take, &header)?;
            let held = self
                .sources
                .get_mut(usize::from(part.source))
                .and_then(Option::as_mut);
            let Some(held) = held else {
                return Err(Refusal::new(format!(
                    "values of source {} before its counters",
                    part.source
                )));
            };
            if !part.read {
                seen.failed += 1;
                // All values missing is a valid base too.
                held.values.unread();
                held.based = true;
                held.part.read = false;
                continue;
            }
            if !part.key && !held.based {
                return Err(Refusal::new("differences before absolute values"));
            }
            let before = held.part.moment(&self.header, held.origin.boot);
            let now = part.moment(&header, held.origin.boot);
            let known = held.based || held.part.read;
            seen.frozen |= known && part.time_ns.is_some() && part.time_ns == held.part.time_ns;
            seen.key &= part.key;
            let layout = shapes.layout(held.shape);
            let seconds = before.seconds_to(now).ok().flatten();
            let mut leaps = Vec::new();
            packed::take(&mut held.values, &mut take, part.key, &mut |i, old, new| {
                if known && !layout.counters[i].quantity.is_gauge() {
                    leaps.push((i, old, new));
                }
            })?;
            if !leaps.is_empty() {
                // The speeds are complete only now: they are counters of the same report.
                let (speeds, value) = (layout.speeds(), |at| held.values.get(at));
                seen.reset |= leaps.into_iter().any(|(i, old, new)| {
                    increase(layout.behaviour(i, &speeds, value), old, new, seconds).is_err()
                });
            }
            held.based = true;
            held.part = part;
        }
        take.end()?;
        self.header = header;
        Ok(seen)
    }

    /// Takes the header of a report whose values cannot be known: they are missing.
    pub fn miss(&mut self, body: &[u8]) -> Result<(), Refusal> {
        self.header = Header::take(&mut Take(body))?;
        for held in self.sources.iter_mut().flatten() {
            held.values.unread();
            held.part.read = false;
            held.based = false;
        }
        Ok(())
    }

    /// The latest readings of all sources whose reading succeeded.
    pub fn readings<'a>(&'a self, shapes: &'a Shapes) -> impl Iterator<Item = Reading> + 'a {
        self.sources
            .iter()
            .flatten()
            .filter(|h| h.part.read)
            .map(|held| Reading {
                layout: self.layout(held, shapes),
                moment: self.moment(held),
                values: held.values.clone(),
            })
    }

    /// The layout of a source with the node's name and its router's coordinates.
    pub fn layout(&self, held: &Held, shapes: &Shapes) -> Arc<Layout> {
        let mut layout = Layout::clone(shapes.layout(held.shape));
        layout.node = self.name.to_string();
        layout.coordinate = held.origin.coordinate.as_deref().map(<[u32]>::to_vec);
        Arc::new(layout)
    }

    /// The moment of a source's values, with the node's boot.
    pub fn moment(&self, held: &Held) -> Moment {
        held.part
            .moment(&self.header, held.origin.boot.or(Some(self.boot)))
    }
}
