//! Targets of the collector: frames, blocks, lines and their feed, the store, and gathering.

use hopbyte_collect::block::{Closing, Cluster, Writer, split};
use hopbyte_collect::bytes::put_u64;
use hopbyte_collect::gather::{Channel, Gathering, Rules};
use hopbyte_collect::lines;
use hopbyte_collect::server::Feed;
use hopbyte_collect::server::peer::Peer;
use hopbyte_collect::store::{Keeping, LogReader, Store, logs};
use hopbyte_collect::tick::TickLine;
use hopbyte_collect::wire::{Header, Hello, PREAMBLE, Sampled, put_report, put_source};
use hopbyte_fabric::Quantity;
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_800_000_000 * SECOND;

/// Reads a NATS server's protocol: every operation consumes bytes of the buffer, for any input.
pub fn nats(bytes: &[u8]) {
    use hopbyte_collect::bus::{Op, Url, acknowledgement, delivered, greet, next};
    let url = Url::parse("nats://bus").expect("the address is a constant");
    let mut rest = bytes;
    while let Ok(Some((op, whole))) = next(rest) {
        assert!((2..=rest.len()).contains(&whole));
        rest = &rest[whole..];
        match op {
            Op::Info(info) => drop(greet(info, &url, "fuzz", &mut Vec::new())),
            Op::Message(message) => {
                let _ = acknowledgement(message.payload);
                let _ = message.reply.map(delivered);
            }
            _ => {}
        }
    }
}

/// Reads lines of other tools: every point has a node and a port.
pub fn lines_of(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (points, verdict) = lines::parse(&text);
    assert!(points.len() + verdict.kept + verdict.refused <= text.lines().count());
    assert!(
        points
            .iter()
            .all(|p| !p.node.is_empty() && !p.port.is_empty())
    );
}

/// Feeds posts of lines to a collector, with a tick after each empty line: every block can be read, and holds a
/// node at most once for each of its moments.
pub fn feed(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (mut now, mut feed) = (NOW, Feed::default());
    let mut gathering = Gathering::new(Rules::default(), now);
    let mut cluster = Cluster::default();
    for post in text.split("\n\n") {
        let parsed = lines::parse(post);
        let all = parsed.0.len() + parsed.1.kept + parsed.1.refused;
        let verdict = feed.take(parsed, &mut gathering, now);
        assert_eq!(verdict.kept + verdict.refused, all);
        now += SECOND;
        let _ = feed.tick(&mut gathering, now);
        let _ = close(&mut gathering, now, true, &mut cluster);
    }
    now += 10 * SECOND;
    let _ = feed.tick(&mut gathering, now);
    let _ = close(&mut gathering, now, true, &mut cluster);
    let (nodes, bytes) = gathering.size();
    assert!(nodes <= text.lines().count() && bytes <= Rules::default().memory_bytes);
}

/// Closes a tick; the block can be read, and its closing is the same. Returns the reports' nodes and numbers.
fn close(
    gathering: &mut Gathering,
    now: u64,
    kept: bool,
    cluster: &mut Cluster,
) -> Vec<(String, u64, u64)> {
    let mut reports = Vec::new();
    let (closing, block) = gathering.close(now);
    let (entries, whole) = split(block).expect("our own block").expect("all of it");
    assert_eq!(whole, block.len());
    let read = cluster.read(entries, |cluster, id, _| {
        let node = cluster.node(id).expect("a report has a node");
        reports.push((node.name.to_string(), node.start, node.header.sequence));
    });
    assert_eq!(read.expect("accepted reports can be read"), closing);
    gathering.next(now, kept);
    reports
}

/// Reads bytes from an agent as a connection and as a packet, in pieces of one length as well: the same is
/// accepted, and a block built from it can be read again.
pub fn frames(bytes: &[u8]) {
    let _ = hopbyte_collect::datagram::unwrap(bytes, None);
    let converse = |pieces: usize| {
        let mut gathering = Gathering::new(Rules::default(), NOW);
        let (mut peer, mut out) = (Peer::default(), Vec::new());
        let preamble = PREAMBLE.chunks(pieces);
        let refused = preamble.chain(bytes.chunks(pieces)).find_map(|piece| {
            peer.received(0, piece, None, &mut gathering, NOW, &mut out)
                .err()
        });
        let mut cluster = Cluster::default();
        (
            refused,
            close(&mut gathering, NOW, true, &mut cluster),
            out,
            gathering.block().len(),
        )
    };
    let whole = converse(bytes.len() + PREAMBLE.len());
    // Bytewise is quadratic in the length of a frame.
    if bytes.len() < 2000 {
        assert_eq!(whole, converse(3));
    }
}

/// The entries of a stored block: no exported rate is negative or infinite.
pub fn block(entries: &[u8]) {
    use hopbyte_collect::export::{lines, openmetrics};
    use hopbyte_collect::flows::Flows;
    let (mut cluster, mut flows) = (Cluster::default(), Flows::default());
    let read = cluster.read(entries, |cluster, id, _| flows.report(cluster, id));
    let Ok(closing) = read else { return };
    flows.close(&closing);
    for flow in flows.iter().flat_map(|(_, source)| &source.flows) {
        assert!(flow.rate.is_err() || flow.rate.is_ok_and(|r| r.is_finite() && r >= 0.0));
    }
    assert!(openmetrics::text(&cluster, &flows, &closing).ends_with('\n'));
    let _ = TickLine::of(&closing, |id| cluster.name(id)).text();
    let _ = lines::text("fuzz", &cluster, &flows, &closing);
}

/// A program of bytes; zeroes follow its end.
struct Program<'a>(&'a [u8]);

impl<'a> Program<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn part(&mut self, length: usize) -> &'a [u8] {
        let (part, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        part
    }

    /// A part that its length in two bytes precedes.
    fn counted(&mut self) -> &'a [u8] {
        let length = u16::from_le_bytes([self.byte(), self.byte()]);
        self.part(length.into())
    }
}

/// A folder of this process in memory, emptied for every input.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let shared = Path::new("/dev/shm");
    let place = if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    };
    place.join(format!("hopbyte-fuzz-{}", std::process::id()))
});

/// First lines of a log of version 2 and of version 3.
const TITLES: [&[u8]; 2] = [b"hopbyte log 2\n", b"hopbyte log 3\n"];

/// Bytes before the entries of a block of version 3.
fn head(kind: u8, number: u32, entries: &[u8]) -> Vec<u8> {
    let mut head = b"\xb7hopblk\n".to_vec();
    head.extend_from_slice(&[kind, 0, 0, 0]);
    head.extend_from_slice(&number.to_le_bytes());
    head.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    head.extend_from_slice(&crc32fast::hash(entries).to_le_bytes());
    head.extend_from_slice(&(u64::from(number) * SECOND).to_le_bytes());
    head.extend_from_slice(&1u32.to_le_bytes());
    head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
    head
}

fn append(store: &mut Store, tick: u64) -> std::io::Result<bool> {
    let closing = Closing {
        tick,
        period_ns: SECOND,
        closed_ns: tick * SECOND,
        ..Closing::default()
    };
    store.append(&closing, Writer::default().close(&closing))
}

/// Names of a store's files.
const NAMES: [&str; 9] = [
    "00000000100-00.log",
    "00000000100-01.log",
    "00000000110-00.log",
    "00000000120-00.log",
    "99999999999-00.log",
    "x.log",
    "00000000100-00.ticks.parquet",
    "00000000110-00.ticks.parquet.part",
    "jetstream",
];

/// Opens a store of damaged logs, appends to it and opens it again: every block that could be read before can be
/// read afterwards, unless it was old enough to be deleted.
///
/// A byte of options; then files: a byte for the name, two bytes of length, the content. A log is a title and
/// blocks (two bytes of length, entries), to which heads with checksums are added; then a number of single
/// bits is changed.
pub fn store(bytes: &[u8]) {
    let mut program = Program(bytes);
    let options = program.byte();
    let _ = fs::remove_dir_all(&*FOLDER);
    fs::create_dir_all(&*FOLDER).expect("a folder in memory");
    for _ in 0..8 {
        if program.0.is_empty() {
            break;
        }
        let kind = program.byte();
        let name = NAMES[usize::from(kind & 0x3f) % NAMES.len()];
        let content = Program(program.counted());
        let content = if kind & 0x40 == 0 {
            log(content)
        } else {
            content.0.to_vec()
        };
        fs::write(FOLDER.join(name), content).expect("a file in memory");
    }
    let keeping = Keeping {
        seal: options & 1 != 0,
        sync: options & 2 != 0,
        retain_seconds: (options & 4 != 0).then(|| 1 + u64::from(options >> 3)),
        segment_bytes: if options & 8 == 0 { 1 } else { 1 << 20 },
        ..Keeping::default()
    };
    let before = readable();
    for tick in [130, 131] {
        if let Ok(mut store) = Store::open(&FOLDER, keeping.clone()) {
            let _ = store.remembered().count();
            append(&mut store, tick).expect("room in memory");
            drop(store);
            if keeping.retain_seconds.is_none() {
                assert!(readable() > before, "blocks that could be read are lost");
            }
        }
    }
}

/// A log of the program's blocks, with changed bits.
fn log(mut program: Program<'_>) -> Vec<u8> {
    let options = program.byte();
    let version_3 = options & 0x80 != 0;
    let mut log = TITLES[usize::from(version_3)].to_vec();
    let flips = options % 4;
    let flips: Vec<[u8; 3]> = (0..flips)
        .map(|_| [program.byte(), program.byte(), program.byte()])
        .collect();
    let mut number = 0;
    while !program.0.is_empty() {
        let entries = program.counted();
        if version_3 {
            // The payload may be taken for parity too.
            let kind = if options & 4 == 0 { b'B' } else { b"BP"[entries.len() % 2] };
            log.extend_from_slice(&head(kind, number, entries));
            number += 1;
        } else {
            log.extend_from_slice(&(entries.len() as u32).to_le_bytes());
            log.extend_from_slice(&crc32fast::hash(entries).to_le_bytes());
        }
        log.extend_from_slice(entries);
    }
    for [low, high, bit] in flips {
        let at = usize::from(u16::from_le_bytes([low, high])) % log.len();
        log[at] ^= 1 << (bit % 8);
    }
    log
}

/// Number of blocks of a store that can be read.
fn readable() -> usize {
    let mut blocks = 0;
    for log in logs(&FOLDER).expect("the folder exists") {
        if let Ok(mut reader) = LogReader::open(&log) {
            while let Ok(Some(_)) = reader.next_block(|_, _, _| {}) {
                blocks += 1;
            }
        }
    }
    blocks
}

/// An agent as the collector sees it.
struct Agent {
    hello: Hello,
    layout: usize,
    id: Option<u32>,
    channel: Channel,
    sequence: u64,
    base: Option<Values>,
    last: Vec<u8>,
}

/// Layouts of different sizes.
static LAYOUTS: LazyLock<Vec<Layout>> = LazyLock::new(|| {
    let layout = |counters: usize| {
        let mut layout = Layout::new("", "fuzz");
        for n in 0..counters {
            let quantity = [Quantity::ReceivedBytes, Quantity::QueuedBytes][n % 2];
            let port = Port::Named(format!("p{}", n / 2));
            layout.counter(&port, &format!("c{n}"), quantity, 1.0);
        }
        layout
    };
    vec![layout(1), layout(2), layout(70)]
});

impl Agent {
    fn report(&mut self, tick: u64, program: &mut Program<'_>) -> Vec<u8> {
        self.sequence += 1;
        let header = Header {
            sequence: self.sequence,
            tick,
            time_ns: tick.wrapping_mul(SECOND),
            ..Header::default()
        };
        let counters = LAYOUTS[self.layout].counters.len();
        let mut values = Values::new(counters);
        for at in 0..counters {
            let byte = program.byte();
            let value = u64::from(byte).pow(u32::from(byte % 9));
            values.set(at, (byte != 255).then_some(value));
        }
        let base = self.base.as_ref().filter(|_| program.byte() % 4 != 0);
        let mut body = Vec::new();
        put_report(&header, [Sampled::new(&values, base)], &mut body);
        self.base = Some(values);
        body
    }
}

/// A program of agents, of the network, the store and the clock against the collector's logic: nothing is stored
/// twice, and every block can be read, from any beginning of a segment on.
pub fn gather(bytes: &[u8]) {
    let mut program = Program(bytes);
    let mut now = NOW;
    let rules = Rules {
        memory_bytes: 64 << 10,
        forget_ticks: 4,
        ..Rules::default()
    };
    let mut gathering = Gathering::new(rules, now);
    let mut agents: Vec<Agent> = (0..3u64).map(|n| agent(n, NOW + n)).collect();
    let mut stored = HashSet::new();
    let (mut cluster, mut ends) = (Cluster::default(), false);
    while !program.0.is_empty() {
        let op = program.byte();
        let n = usize::from(op >> 6) % agents.len();
        let agent_of = &mut agents[n];
        match op & 15 {
            0 | 1 => {
                agent_of.channel = match op >> 4 & 3 {
                    0 | 1 => Channel::Stream(program.byte().into()),
                    2 => Channel::Datagrams(([127, 0, 0, 1], 1).into()),
                    _ => Channel::Log,
                };
                agent_of.base = None;
                let said = gathering.hello(&agent_of.hello, agent_of.channel, now);
                agent_of.id = said.ok().map(|(id, _)| id);
            }
            2 => {
                agent_of.layout = usize::from(op >> 4 & 3) % LAYOUTS.len();
                agent_of.base = None;
                if let Some(id) = agent_of.id {
                    let mut body = Vec::new();
                    put_source(0, None, &LAYOUTS[agent_of.layout], &mut body)
                        .expect("few counters");
                    let _ = gathering.source(id, &body);
                }
            }
            3..=6 => {
                let tick = (now / SECOND)
                    .wrapping_add(u64::from(op >> 4 & 3))
                    .wrapping_sub(1);
                let body = agent_of.report(tick, &mut program);
                if let Some(id) = agent_of
                    .id
                    .filter(|&id| gathering.channel(id) == agent_of.channel)
                    && gathering.report(id, &body, now).is_err()
                {
                    agent_of.base = None;
                }
                agent_of.last = body;
            }
            7 => {
                // A repeated or malformed report.
                let mut body = agent_of.last.clone();
                let change = program.byte();
                if let Some(byte) = body.get_mut(usize::from(change)) {
                    *byte ^= program.byte();
                }
                if let Some(id) = agent_of.id
                    && gathering.report(id, &body, now).is_err()
                {
                    agent_of.base = None;
                }
            }
            8 => {
                let body = program.counted();
                if let Some(id) = agent_of.id {
                    let _ = gathering.source(id, body);
                }
            }
            9 => {
                gathering.begin_segment();
                ends = true;
            }
            10 => {
                if let Some(id) = agent_of.id.take() {
                    gathering.gone(id, agent_of.channel);
                }
            }
            11 => {
                let ticks = u64::from(program.byte()).pow(u32::from(op >> 4 & 3));
                now = match op & 0x80 {
                    0 => (now + ticks * SECOND).min(2 * NOW),
                    _ => now.saturating_sub(ticks * SECOND).max(SECOND),
                };
            }
            12 => {
                let start = agent_of.hello.start + 1;
                *agent_of = agent(n as u64, start);
            }
            _ => {
                let kept = op >> 4 & 3 != 0;
                now += SECOND / 2;
                if !kept {
                    gathering.begin_segment();
                }
                let reports = close(&mut gathering, now, kept, &mut cluster);
                if kept {
                    for report in reports {
                        assert!(!stored.contains(&report), "{report:?} is stored twice");
                        stored.insert(report);
                    }
                } else {
                    agents.iter_mut().for_each(|a| {
                        a.id.take()
                            .into_iter()
                            .for_each(|id| gathering.gone(id, a.channel));
                    });
                }
                if std::mem::take(&mut ends) || !kept {
                    cluster = Cluster::default();
                }
                gathering.acknowledge(op >> 7 == 0, |_, sequence| assert!(sequence > 0));
            }
        }
        let (nodes, bytes) = gathering.size();
        assert!(nodes <= agents.len() && bytes <= 64 << 10);
    }
}

/// An agent that has not said hello.
fn agent(n: u64, start: u64) -> Agent {
    let mut boot = Vec::new();
    put_u64(&mut boot, n);
    Agent {
        hello: Hello {
            node: format!("n{n}"),
            boot: n + 1,
            start,
            period_ns: SECOND,
        },
        layout: 0,
        id: None,
        channel: Channel::None,
        sequence: 0,
        base: None,
        last: Vec::new(),
    }
}
