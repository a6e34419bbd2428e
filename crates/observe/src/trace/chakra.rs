//! Execution traces of Chakra (`mlcommons/chakra`, `schema/protobuf/et_def.proto`): one file `NAME.RANK.et` a rank.
//!
//! A file is a sequence of protobuf messages, each after its length: `GlobalMetadata`, then the nodes of a graph; or the
//! same nodes as JSON, `NAME.RANK.json` with a list `workload_graph` (`chakra_json.rs`). Groups of ranks are in a JSON file beside them, `{"NAME": [RANK, …]}` (ASTRA-sim's `--comm-group-configuration`); collectives
//! without `pg_name` are of all ranks. Sizes (`comm_size`, bytes) are those of ASTRA-sim (`Ring.cc`, `AllToAll.cc`): the
//! vector of an all-reduce, broadcast or reduce, the input of a rank of all others.
//!
//! Nodes without collectives keep their graph. With collectives the nodes of each rank run one after the other, in the
//! order of dependencies and then of the file; sends and receives are not waited for before a node depends on them.
//! Memory operations take their recorded duration.

use super::{MAX_CALLS, in_order};
use crate::ObserveError;
use crate::text::{Text, lossy};
use hopbyte_fabric::collective::{Collective, How};
use hopbyte_fabric::trace::{Call, Dependency, Order, RankTrace};
use hopbyte_fabric::{InputError, Trace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

#[path = "chakra_json.rs"]
mod json;

/// Highest rank that a file name may have.
const MOST_RANKS: u32 = 1 << 24;

/// Whether a text is such a file: metadata and nothing else in its first message, or groups of ranks.
pub(super) fn is(text: &Text) -> bool {
    let metadata = |message: &[u8]| {
        let fields: Option<Vec<(u64, Value<'_>)>> = Fields(message).collect();
        fields.is_some_and(|all| {
            let own = |f: &(u64, Value<'_>)| matches!(f, (1 | 2, Value::Bytes(_)));
            !all.is_empty() && all.iter().all(own)
        })
    };
    let first = || Messages::of(text).next()?.ok();
    let named = rank_of(text.file()).is_some() && !text.file().contains(".json");
    ((named || text.is_binary()) && first().is_some_and(|m| metadata(m.1)))
        || json::is(text)
        || groups_in(text).is_some()
}

/// The rank in a file's name, `NAME.RANK.et`, compressed or not.
fn rank_of(name: &str) -> Option<u32> {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let name = name.strip_suffix(".zst").unwrap_or(name);
    let stem = name
        .strip_suffix(".et")
        .or_else(|| name.strip_suffix(".json"))?;
    let (_, rank) = stem.rsplit_once('.')?;
    rank.parse().ok().filter(|&r| r < MOST_RANKS)
}

/// Groups of ranks by name, if a text is a file of them.
fn groups_in(text: &Text) -> Option<BTreeMap<String, Vec<u32>>> {
    if !text.file().ends_with(".json") || !text.bytes().trim_ascii().starts_with(b"{") {
        return None;
    }
    let groups: BTreeMap<String, Vec<u32>> = serde_json::from_slice(text.bytes()).ok()?;
    let several = |ranks: &Vec<u32>| !ranks.is_empty() && ranks.iter().all(|&r| r < MOST_RANKS);
    (!groups.is_empty() && groups.values().all(several)).then_some(groups)
}

pub(super) fn read(source: &str, texts: super::Texts<'_>) -> Result<Trace, ObserveError> {
    let mut ranks: BTreeMap<u32, (String, Vec<Node>)> = BTreeMap::new();
    let mut groups: Option<BTreeMap<String, Vec<u32>>> = None;
    let mut count = 0;
    for text in texts {
        let text = text?;
        if let Some(found) = groups_in(&text) {
            if groups.replace(found).is_some() {
                return Err(text.error("groups again", "one file of groups").into());
            }
            continue;
        }
        let nodes = match json::is(&text) {
            true => json::nodes(&text)?,
            false => nodes(&text)?,
        };
        let Some(rank) = rank_of(text.file()) else {
            return Err(text.error("no rank", "a name such as NAME.0.et").into());
        };
        count += nodes.len();
        super::bounded(&text, count)?;
        let file = text.file().to_owned();
        if ranks.insert(rank, (file, nodes)).is_some() {
            let found = format!("rank {rank} again");
            return Err(text.error(found, "one file of each rank").into());
        }
    }
    if ranks.is_empty() {
        let found = "groups of ranks alone";
        return Err(InputError::new(source, found, "files NAME.RANK.et beside them").into());
    }
    let world = ranks.len() as u32;
    let mut all = Groups::new(world, groups);
    let collectives = |nodes: &[Node]| nodes.iter().any(|n| n.kind == COLLECTIVE);
    let in_turn = ranks.values().any(|(_, nodes)| collectives(nodes));
    let mut traces = BTreeMap::new();
    for (rank, (file, nodes)) in ranks {
        let trace = rank_trace(&file, (rank, world), &nodes, (&mut all, in_turn))?;
        traces.insert(rank, trace);
    }
    Ok(Trace {
        source: source.to_owned(),
        ranks: in_order(source, traces)?,
        groups: all.members,
    })
}

/// Groups by name, numbered as they are used; the first one is the world.
struct Groups {
    named: Option<BTreeMap<String, Vec<u32>>>,
    number: HashMap<String, u32>,
    members: Vec<Vec<u32>>,
}

impl Groups {
    fn new(world: u32, named: Option<BTreeMap<String, Vec<u32>>>) -> Self {
        Self {
            named,
            number: HashMap::new(),
            members: vec![(0..world).collect()],
        }
    }

    /// Number of a group; without a file of groups every name means all ranks, as in ASTRA-sim.
    fn of(&mut self, name: &str) -> Option<u32> {
        let Some(named) = self.named.as_ref().filter(|_| !name.is_empty()) else {
            return Some(0);
        };
        if let Some(&number) = self.number.get(name) {
            return Some(number);
        }
        let number = self.members.len() as u32;
        self.members.push(named.get(name)?.clone());
        self.number.insert(name.to_owned(), number);
        Some(number)
    }
}

const SEND: u64 = 5;
const RECEIVE: u64 = 6;
const COLLECTIVE: u64 = 7;

/// A node as read.
#[derive(Default)]
struct Node {
    id: u64,
    kind: u64,
    after: Vec<u64>,
    micros: f64,
    operations: u64,
    comm_type: Option<u64>,
    bytes: Option<u64>,
    from: Option<u64>,
    to: Option<u64>,
    root: Option<u64>,
    tag: u64,
    group: String,
}

/// The nodes of a rank's file.
fn nodes(text: &Text) -> Result<Vec<Node>, InputError> {
    let mut nodes = Vec::new();
    for message in Messages::of(text).skip(1) {
        let (at, message) = message.map_err(|at| {
            let error = text.error(
                format!("byte {at}"),
                "whole messages, each after its length",
            );
            error.hint("was the file cut off?")
        })?;
        let wrong = |found: &str| {
            let found = format!("{found} in the node at byte {at}");
            text.error(found, "a node of et_def.proto")
        };
        let node = Node::of(message).map_err(wrong)?;
        if !(1..=COLLECTIVE).contains(&node.kind) {
            return Err(wrong(&format!("node type {}", node.kind)));
        }
        nodes.push(node);
        if nodes.len() > MAX_CALLS {
            super::bounded(text, nodes.len())?;
        }
    }
    Ok(nodes)
}

impl Node {
    fn of(message: &[u8]) -> Result<Self, &'static str> {
        let mut node = Self::default();
        for field in Fields(message) {
            match field.ok_or("a broken field")? {
                (1, Value::Number(id)) => node.id = id,
                (3, Value::Number(kind)) => node.kind = kind,
                (4 | 5, Value::Number(id)) => node.after.push(id),
                (4 | 5, Value::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        node.after.push(varint(&mut packed).ok_or("a broken list")?);
                    }
                }
                (7, Value::Number(micros)) => node.micros = micros as f64,
                (10, Value::Bytes(attribute)) => node.attribute(attribute)?,
                _ => {}
            }
        }
        node.after.sort_unstable();
        node.after.dedup();
        Ok(node)
    }

    /// An `AttributeProto`; numbers may be in any of its whole-number fields.
    fn attribute(&mut self, message: &[u8]) -> Result<(), &'static str> {
        let (mut name, mut number, mut word) = (&b""[..], None, None);
        for field in Fields(message) {
            match field.ok_or("a broken attribute")? {
                (1, Value::Bytes(bytes)) => name = bytes,
                (7 | 9 | 11 | 13 | 15 | 17 | 19 | 21 | 27, Value::Number(n)) => number = Some(n),
                (29, Value::Bytes(bytes)) => word = Some(bytes),
                _ => {}
            }
        }
        match (name, number, word) {
            (b"comm_type", Some(n), _) => self.comm_type = Some(n),
            (b"comm_size", Some(n), _) => self.bytes = Some(n),
            (b"comm_src", Some(n), _) => self.from = Some(n),
            (b"comm_dst", Some(n), _) => self.to = Some(n),
            (b"comm_tag", Some(n), _) => self.tag = n,
            (b"root" | b"comm_root", Some(n), _) => self.root = Some(n),
            (b"num_ops", Some(n), _) => self.operations = n,
            (b"pg_name", Some(n), _) => self.group = n.to_string(),
            (b"pg_name", None, Some(name)) => self.group = lossy(name).into_owned(),
            _ => {}
        }
        Ok(())
    }

    /// The call of a node; an error names the missing attribute.
    fn call(&self, (rank, world): (u32, u32), groups: &mut Groups) -> Result<Call, String> {
        let number = |value: Option<u64>, name: &str| {
            value.ok_or_else(|| format!("no {name} in node {}", self.id))
        };
        let partner = |value: Option<u64>, name: &str| {
            let found = number(value, name)?;
            let partner = u32::try_from(found).ok().filter(|&r| r < world);
            partner.ok_or_else(|| format!("{name} {found} in node {}", self.id))
        };
        let size = |value: Option<u64>| {
            let bytes = number(value, "comm_size")?;
            let known = i64::try_from(bytes).is_ok();
            known
                .then_some(bytes as f64)
                .ok_or_else(|| format!("comm_size {} in node {}", bytes as i64, self.id))
        };
        // An int32 below zero has 64 bits in a message.
        let narrow = |tag: u64| i32::try_from(tag as i64).ok().map(|tag| tag as u32);
        let tag = u32::try_from(self.tag).ok().or_else(|| narrow(self.tag));
        let tag = || tag.ok_or_else(|| format!("comm_tag {} in node {}", self.tag, self.id));
        Ok(match self.kind {
            SEND => Call::Send {
                to: partner(self.to, "comm_dst")?,
                tag: tag()?,
                group: 0,
                request: None,
                bytes: size(self.bytes)?,
            },
            RECEIVE => Call::Receive {
                from: Some(partner(self.from, "comm_src")?),
                tag: Some(tag()?),
                group: 0,
                request: None,
            },
            COLLECTIVE => {
                let group = groups
                    .of(&self.group)
                    .ok_or_else(|| format!("group '{}' in node {}", self.group, self.id))?;
                let members = &groups.members[group as usize];
                if !members.contains(&rank) {
                    return Err(format!(
                        "group '{}' in node {}, without rank {rank}",
                        self.group, self.id
                    ));
                }
                let kind = number(self.comm_type, "comm_type")?;
                let (kind, share) = collective(kind, members.len())
                    .ok_or_else(|| format!("comm_type {kind} in node {}", self.id))?;
                let root = self.root_in(members, kind)?;
                let bytes = match kind {
                    Collective::Barrier => 0.0,
                    _ => size(self.bytes)?,
                };
                Call::Collective {
                    kind,
                    how: How::default(),
                    group,
                    root,
                    bytes: bytes * share,
                    row: None,
                    request: None,
                    neighbors: false,
                }
            }
            _ if self.micros == 0.0 && self.operations > 0 => Call::Work {
                operations: self.operations as f64,
            },
            _ => Call::Compute {
                seconds: self.micros * 1e-6,
            },
        })
    }

    /// Position of the root in a group; the first member without one, as in ASTRA-sim.
    fn root_in(&self, members: &[u32], kind: Collective) -> Result<u32, String> {
        let root = self.root.unwrap_or(0);
        let at = members.iter().position(|&m| u64::from(m) == root);
        match at {
            Some(at) => Ok(at as u32),
            None if self.root.is_some() && kind.has_root() => {
                Err(format!("root {root} in node {}, not of its group", self.id))
            }
            None => Ok(0),
        }
    }
}

/// A collective by its number, and our size as a share of `comm_size` in a group of `n`.
fn collective(kind: u64, n: usize) -> Option<(Collective, f64)> {
    let part = 1.0 / n as f64;
    Some(match kind {
        0 => (Collective::Allreduce, 1.0),
        1 => (Collective::Reduce, 1.0),
        2 => (Collective::Allgather, 1.0),
        3 => (Collective::Gather, 1.0),
        4 => (Collective::Scatter, part),
        5 => (Collective::Broadcast, 1.0),
        6 => (Collective::Alltoall, part),
        7 | 8 => (Collective::ReduceScatter, part),
        9 => (Collective::Barrier, 0.0),
        _ => return None,
    })
}

/// The calls of a rank: as a graph, or one after the other.
fn rank_trace(
    file: &str,
    (rank, world): (u32, u32),
    nodes: &[Node],
    (groups, in_turn): (&mut Groups, bool),
) -> Result<RankTrace, InputError> {
    let wrong = |found: String, expected: &str| InputError::new(file, found, expected);
    let mut number: HashMap<u64, u32> = HashMap::new();
    for (at, node) in (0u32..).zip(nodes) {
        if number.insert(node.id, at).is_some() {
            let found = format!("node {} again", node.id);
            return Err(wrong(found, "one node for each id"));
        }
    }
    let mut calls = Vec::with_capacity(nodes.len());
    let mut order = Vec::new();
    for (later, node) in (0u32..).zip(nodes) {
        let call = node.call((rank, world), groups);
        let expected = "known groups, ranks and operations with their attributes";
        calls.push(call.map_err(|found| wrong(found, expected))?);
        for id in &node.after {
            let Some(&earlier) = number.get(id).filter(|&&e| e != later) else {
                let found = format!("node {} after node {id}", node.id);
                return Err(wrong(found, "dependencies on other nodes of the file"));
            };
            order.push(Dependency {
                later,
                earlier,
                begun: false,
            });
        }
    }
    let Some(sorted) = sorted(nodes.len(), &order) else {
        let found = "nodes that wait for each other";
        return Err(InputError::new(file, found, "a graph without circles"));
    };
    if !in_turn {
        return Ok(RankTrace {
            calls,
            rows: Vec::new(),
            order: Order::Graph(order),
        });
    }
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    for dependency in &order {
        before[dependency.later as usize].push(dependency.earlier);
    }
    let mut pending = vec![false; nodes.len()];
    let mut turn = Vec::with_capacity(calls.len() + 1);
    for at in sorted {
        for &earlier in &before[at as usize] {
            if std::mem::take(&mut pending[earlier as usize]) {
                turn.push(Call::Wait { request: earlier });
            }
        }
        let mut call = calls[at as usize];
        if let Call::Send { request, .. } | Call::Receive { request, .. } = &mut call {
            *request = Some(at);
            pending[at as usize] = true;
        }
        turn.push(call);
    }
    if pending.contains(&true) {
        turn.push(Call::WaitAll);
    }
    Ok(RankTrace {
        calls: turn,
        rows: Vec::new(),
        order: Order::InTurn,
    })
}

/// Nodes in the order of dependencies, and then of the file; `None` with a circle.
fn sorted(count: usize, order: &[Dependency]) -> Option<Vec<u32>> {
    let mut waits = vec![0u32; count];
    let mut next: Vec<Vec<u32>> = vec![Vec::new(); count];
    for dependency in order {
        waits[dependency.later as usize] += 1;
        next[dependency.earlier as usize].push(dependency.later);
    }
    let free = (0..count as u32).filter(|&n| waits[n as usize] == 0);
    let mut free: BinaryHeap<Reverse<u32>> = free.map(Reverse).collect();
    let mut sorted = Vec::with_capacity(count);
    while let Some(Reverse(at)) = free.pop() {
        sorted.push(at);
        for &later in &next[at as usize] {
            waits[later as usize] -= 1;
            if waits[later as usize] == 0 {
                free.push(Reverse(later));
            }
        }
    }
    (sorted.len() == count).then_some(sorted)
}

/// Takes a number of seven bits a byte, the lowest first.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Takes a number of bytes.
fn taken<'a>(bytes: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let (own, rest) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = rest;
    Some(own)
}

/// A field's value; those of fixed size carry nothing that is read here.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// Fields of a message with their numbers; `None` ends a broken one.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut self.0)?),
            1 => taken(&mut self.0, 8).map(|_| Value::Fixed)?,
            2 => {
                let length = varint(&mut self.0)?;
                Value::Bytes(taken(&mut self.0, length)?)
            }
            5 => taken(&mut self.0, 4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        (key >> 3 != 0).then_some((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Messages of a file with their first bytes; an error is the first byte of a broken one.
struct Messages<'a> {
    all: usize,
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    fn of(text: &'a Text) -> Self {
        Self {
            all: text.bytes().len(),
            rest: text.bytes(),
        }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<(usize, &'a [u8]), usize>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let at = self.all - self.rest.len();
        let message = varint(&mut self.rest).and_then(|length| taken(&mut self.rest, length));
        if message.is_none() {
            self.rest = &[];
        }
        Some(message.map(|m| (at, m)).ok_or(at))
    }
}

#[cfg(test)]
#[path = "chakra_tests.rs"]
mod tests;
