//! What agents and collectors say to each other.
//!
//! A stream begins with [`PREAMBLE`] on the agent's side. Then either side sends frames: four bytes of
//! length (little endian), one byte of kind, the body. Values go as differences from the report before
//! on the same connection; the first of a connection, and every datagram, carries them whole (`key`).
//!
//! | kind | from | body |
//! |---|---|---|
//! | `C` challenge | collector | 16 random bytes; only where a token is required, first of all |
//! | `H` hello | agent | node, boot, start, period, proof of the token |
//! | `W` welcome | collector | highest sequence number that is kept already |
//! | `S` source | agent | [`Origin`], [`crate::shape`] |
//! | `R` report | agent | [`Header`], then per source its values |
//! | `A` acknowledged | collector | sequence number: all up to it are kept |
//! | `V` viewer | viewer | proof of the token; from now on come blocks |
//! | `B` block | collector | a [block](crate::block) |
//! | `N` no | either | a sentence; the connection ends |

use crate::Refusal;
use crate::bytes::{LONGEST_WORD, Take, put_difference, put_number, put_u64, put_word};
use crate::packed;
use crate::shape;
use hmac::{Hmac, Mac};
use hopbyte_observe::counters::delta::Moment;
use hopbyte_observe::counters::reading::Layout;
use hopbyte_observe::counters::values::Values;
use hopbyte_observe::text::open;
use sha2::Sha256;
use std::io::{self, Read as _};
use std::path::Path;

/// First bytes of a stream and of a packet, with the version of the protocol. Version 3: the boot of a node is
/// the hash that [`hopbyte_observe::sources::boot`] states; before, it depended on the release of the compiler.
pub const PREAMBLE: [u8; 6] = *b"hopb\x003";
/// Longest frame.
pub const LONGEST_FRAME: usize = 256 * 1024;
/// Most sources of one node.
pub const MOST_SOURCES: usize = 64;
/// Longest token.
const LONGEST_TOKEN: u64 = 4096;
/// Bytes of a challenge and of a proof.
pub const PROOF: usize = 16;

/// Why bytes that do not begin with [`PREAMBLE`] are refused.
pub fn stranger(bytes: &[u8]) -> Refusal {
    let (name, version) = PREAMBLE.split_at(5);
    match bytes.strip_prefix(name).and_then(<[u8]>::first) {
        Some(&theirs) => Refusal::new(format!(
            "an agent of version {} of the protocol, expected version {}: \
             nodes and collectors need the same hopbyte",
            char::from(theirs),
            char::from(version[0])
        )),
        None => Refusal::new(format!(
            "bytes that are not of an agent ({:?})",
            String::from_utf8_lossy(&bytes[..bytes.len().min(16)])
        )),
    }
}

/// What a frame is, by the byte that says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Random bytes to prove the token on.
    Challenge = b'C',
    /// An agent says who it is.
    Hello = b'H',
    /// The collector knows the agent.
    Welcome = b'W',
    /// A source and its counters.
    Source = b'S',
    /// The values of a tick.
    Report = b'R',
    /// Everything up to a sequence number is kept.
    Acknowledged = b'A',
    /// Somebody wants to see the blocks.
    Viewer = b'V',
    /// A block.
    Block = b'B',
    /// A refusal.
    No = b'N',
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            b'C' => Self::Challenge,
            b'H' => Self::Hello,
            b'W' => Self::Welcome,
            b'S' => Self::Source,
            b'R' => Self::Report,
            b'A' => Self::Acknowledged,
            b'V' => Self::Viewer,
            b'B' => Self::Block,
            b'N' => Self::No,
            _ => return None,
        })
    }
}

/// Appends a frame whose body `write` appends.
pub fn frame<T>(out: &mut Vec<u8>, kind: Kind, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(kind as u8);
    let result = write(out);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    result
}

/// A frame's kind and body, and the bytes it takes.
pub type Found<'a> = (Kind, &'a [u8], usize);

/// The first whole frame of `bytes`; `None` when more must come.
pub fn next_frame(bytes: &[u8], longest: usize) -> Result<Option<Found<'_>>, Refusal> {
    let Some(head) = bytes.first_chunk::<5>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let (Some(kind), 1..) = (Kind::of(head[4]), length) else {
        return Err(Refusal::new(format!(
            "a frame of kind {:?}",
            char::from(head[4])
        )));
    };
    if length > longest {
        return Err(Refusal::new(format!(
            "a frame of {length} bytes, {longest} are the most"
        )));
    }
    let whole = 4 + length;
    Ok(bytes.get(5..whole).map(|body| (kind, body, whole)))
}

/// A secret that agents and collector share.
#[derive(Clone)]
pub struct Token(Hmac<Sha256>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// A token of at least 16 bytes; white space around it does not count.
    pub fn new(secret: &[u8]) -> Result<Self, Refusal> {
        let secret = secret.trim_ascii();
        let mac = (secret.len() >= 16).then(|| Hmac::new_from_slice(secret).ok());
        mac.flatten().map(Self).ok_or_else(|| {
            let n = secret.len();
            Refusal::new(format!("a token of {n} bytes, expected at least 16"))
        })
    }

    /// The token in a file.
    pub fn read(file: &Path) -> io::Result<Self> {
        let named =
            |kind, text: String| io::Error::new(kind, format!("token {}: {text}", file.display()));
        let mut secret = Vec::new();
        open(file)
            .and_then(|f| f.take(LONGEST_TOKEN + 1).read_to_end(&mut secret))
            .map_err(|e| named(e.kind(), e.to_string()))?;
        if secret.len() as u64 > LONGEST_TOKEN {
            let text = format!("found more than {LONGEST_TOKEN} bytes, expected a short secret");
            return Err(named(io::ErrorKind::InvalidData, text));
        }
        Self::new(&secret)
            .map_err(|refusal| named(io::ErrorKind::InvalidData, format!("found {refusal}")))
    }

    /// Proof that we know the token, on parts that an eavesdropper cannot use again.
    pub fn proof(&self, parts: &[&[u8]]) -> [u8; PROOF] {
        let mut proof = [0; PROOF];
        proof.copy_from_slice(&self.mac(parts).finalize().into_bytes()[..PROOF]);
        proof
    }

    /// Whether a proof is right, in the same time whatever it is.
    pub fn agrees(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        proof.len() == PROOF && self.mac(parts).verify_truncated_left(proof).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

/// Whether a word can name a node.
pub fn check_node(name: &str) -> Result<(), Refusal> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b);
    if !name.is_empty() && name.len() <= LONGEST_WORD && name.bytes().all(plain) {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "node name {name:?}, expected letters, digits, '-', '_', '.' and ':'"
    )))
}

/// Who an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Node name.
    pub node: String,
    /// The node's boot ([`hopbyte_observe::sources::boot`]; 0: not known).
    pub boot: u64,
    /// When the agent started, nanoseconds since 1970: tells two agents of one name apart.
    pub start: u64,
    /// Length of its ticks in nanoseconds.
    pub period_ns: u64,
}

impl Hello {
    /// Appends everything but the proof.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_word(out, &self.node);
        put_u64(out, self.boot);
        put_u64(out, self.start);
        put_u64(out, self.period_ns);
    }

    /// Reads what [`Hello::put`] wrote.
    pub fn take(take: &mut Take<'_>) -> Result<Self, Refusal> {
        let node = take.word("node")?;
        check_node(node)?;
        Ok(Self {
            node: node.to_owned(),
            boot: take.u64()?,
            start: take.u64()?,
            period_ns: take.u64()?,
        })
    }
}

/// What a report says before its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Counts the agent's reports from 1.
    pub sequence: u64,
    /// Number of the tick: time over period.
    pub tick: u64,
    /// Clock of the node when reading began, nanoseconds since 1970.
    pub time_ns: u64,
    /// Its clock that nobody sets, at the same moment.
    pub steady_ns: u64,
    /// How long reading took, nanoseconds.
    pub took_ns: u64,
    /// What the agent costs.
    pub cost: Cost,
}

/// What an agent costs and what it lost since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Processor time in microseconds.
    pub cpu_us: u64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Ticks at which it did not read.
    pub missed_ticks: u64,
    /// Readings of sources that failed.
    pub failed_reads: u64,
    /// Reports given up because no collector took them in time.
    pub dropped_reports: u64,
}

impl Header {
    /// Appends the header.
    pub fn put(&self, out: &mut Vec<u8>) {
        let c = &self.cost;
        put_number(out, self.sequence);
        put_number(out, self.tick);
        put_u64(out, self.time_ns);
        put_u64(out, self.steady_ns);
        let rest = [self.took_ns, c.cpu_us, c.resident_bytes, c.missed_ticks];
        let rest = rest.into_iter().chain([c.failed_reads, c.dropped_reports]);
        rest.for_each(|n| put_number(out, n));
    }

    /// Reads what [`Header::put`] wrote.
    pub fn take(take: &mut Take<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            sequence: take.number()?,
            tick: take.number()?,
            time_ns: take.u64()?,
            steady_ns: take.u64()?,
            took_ns: take.number()?,
            cost: Cost {
                cpu_us: take.number()?,
                resident_bytes: take.number()?,
                missed_ticks: take.number()?,
                failed_reads: take.number()?,
                dropped_reports: take.number()?,
            },
        })
    }
}

/// Most coordinates of a router.
const MOST_COORDINATES: usize = 16;
const HAS_BOOT: u8 = 1;
const HAS_COORDINATE: u8 = 2;

/// What one source of a node has of its own, besides the shape that many share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Which source of the node.
    pub source: u8,
    /// The device's boot, where it has one of its own.
    pub boot: Option<u64>,
    /// Coordinates of the router, where the source says them.
    pub coordinate: Option<Box<[u32]>>,
}

impl Origin {
    /// Of a source with this layout.
    pub fn new(source: u8, boot: Option<u64>, layout: &Layout) -> Self {
        let coordinate = layout.coordinate.as_deref().map(Box::from);
        Self {
            source,
            boot,
            coordinate,
        }
    }

    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let boot = u8::from(self.boot.is_some()) * HAS_BOOT;
        let coordinate = u8::from(self.coordinate.is_some()) * HAS_COORDINATE;
        out.extend_from_slice(&[self.source, boot | coordinate]);
        self.boot.iter().for_each(|&boot| put_u64(out, boot));
        if let Some(coordinate) = &self.coordinate {
            put_number(out, coordinate.len() as u64);
            coordinate.iter().for_each(|&c| put_number(out, c.into()));
        }
    }

    /// Reads what [`Origin::put`] wrote.
    pub fn take(take: &mut Take<'_>) -> Result<Self, Refusal> {
        let source = take.byte()?;
        let flags = take.byte()?;
        let boot = (flags & HAS_BOOT != 0).then(|| take.u64()).transpose()?;
        if flags & HAS_COORDINATE == 0 {
            return Ok(Self {
                source,
                boot,
                coordinate: None,
            });
        }
        let n = take.count("coordinates", MOST_COORDINATES)?;
        let mut coordinate = Vec::with_capacity(n);
        for _ in 0..n {
            let at = take.number()?;
            let at = u32::try_from(at).map_err(|_| Refusal::new(format!("coordinate {at}")))?;
            coordinate.push(at);
        }
        Ok(Self {
            source,
            boot,
            coordinate: Some(coordinate.into()),
        })
    }
}

/// Appends the body of a source's frame.
pub fn put_source(
    source: u8,
    boot: Option<u64>,
    layout: &Layout,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    Origin::new(source, boot, layout).put(out);
    shape::put(layout, out)
}

const READ: u8 = 1;
const KEY: u8 = 2;
const OWN_TIME: u8 = 4;
const OWN_STEADY: u8 = 8;

/// How a source's part of a report begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Which source of the node.
    pub source: u8,
    /// Whether it could be read; if not, nothing follows.
    pub read: bool,
    /// Whether values are whole.
    pub key: bool,
    /// The device's own clocks, where it has some.
    pub time_ns: Option<u64>,
    /// See [`Moment::steady_ns`].
    pub steady_ns: Option<u64>,
}

impl Part {
    /// Appends it.
    pub fn put(&self, header: &Header, out: &mut Vec<u8>) {
        let flag = |on, flag| if on { flag } else { 0 };
        out.push(self.source);
        out.push(
            flag(self.read, READ)
                | flag(self.key, KEY)
                | flag(self.time_ns.is_some(), OWN_TIME)
                | flag(self.steady_ns.is_some(), OWN_STEADY),
        );
        let clocks = [
            (self.time_ns, header.time_ns),
            (self.steady_ns, header.steady_ns),
        ];
        for (own, base) in clocks {
            if let Some(own) = own {
                put_difference(out, own.wrapping_sub(base) as i64);
            }
        }
    }

    /// Reads what [`Part::put`] wrote.
    pub fn take(take: &mut Take<'_>, header: &Header) -> Result<Self, Refusal> {
        let source = take.byte()?;
        let flags = take.byte()?;
        let mut clock = |flag, base: u64| -> Result<Option<u64>, Refusal> {
            if flags & flag == 0 {
                return Ok(None);
            }
            Ok(Some(base.wrapping_add(take.difference()? as u64)))
        };
        Ok(Self {
            source,
            read: flags & READ != 0,
            key: flags & KEY != 0,
            time_ns: clock(OWN_TIME, header.time_ns)?,
            steady_ns: clock(OWN_STEADY, header.steady_ns)?,
        })
    }

    /// The moment of its values: by the device's clock where it has one, else the node's.
    pub fn moment(&self, header: &Header, boot: Option<u64>) -> Moment {
        let own = self.time_ns.is_some() || self.steady_ns.is_some();
        Moment {
            time_ns: self.time_ns.or((!own).then_some(header.time_ns)),
            steady_ns: self.steady_ns.or((!own).then_some(header.steady_ns)),
            boot,
        }
    }
}

/// A source's values in a report, as it is being written.
pub struct Sampled<'a> {
    /// How it begins.
    pub part: Part,
    /// Its values.
    pub values: &'a Values,
    /// Values of the report before, the base of differences.
    pub base: Option<&'a Values>,
}

impl<'a> Sampled<'a> {
    /// Values that were read, of a node's first source: whole, or their differences from `base`.
    pub fn new(values: &'a Values, base: Option<&'a Values>) -> Self {
        let part = Part {
            read: true,
            key: base.is_none(),
            ..Part::default()
        };
        Self { part, values, base }
    }
}

/// Appends the body of a report.
pub fn put_report<'a>(
    header: &Header,
    sources: impl IntoIterator<Item = Sampled<'a>, IntoIter: ExactSizeIterator>,
    out: &mut Vec<u8>,
) {
    let sources = sources.into_iter();
    header.put(out);
    put_number(out, sources.len() as u64);
    for source in sources {
        source.part.put(header, out);
        if source.part.read {
            let base = source.base.filter(|_| !source.part.key);
            packed::put(source.values, base, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn peers_of_another_version_are_refused_by_name() {
        assert_eq!(
            stranger(b"hopb\x002rest").to_string(),
            "an agent of version 2 of the protocol, expected version 3: \
             nodes and collectors need the same hopbyte"
        );
        let other = stranger(b"GET / HTTP/1.1").to_string();
        assert!(
            other.starts_with("bytes that are not of an agent"),
            "{other}"
        );
    }

    #[test]
    fn frames_are_found_and_bounded() {
        let mut out = Vec::new();
        frame(&mut out, Kind::Hello, |b| b.extend_from_slice(b"abc"));
        let whole = out.len();
        out.push(9);
        assert_eq!(
            next_frame(&out, 100),
            Ok(Some((Kind::Hello, &b"abc"[..], whole)))
        );
        for cut in 0..whole {
            assert_eq!(next_frame(&out[..cut], 100), Ok(None));
        }
        let no = |bytes: &[u8]| next_frame(bytes, 100).unwrap_err().to_string();
        assert_eq!(no(b"GET / HTTP/1.1\r\n"), "a frame of kind '/'");
        assert_eq!(
            no(b"\0\0\0\x7fH"),
            "a frame of 2130706432 bytes, 100 are the most"
        );
        assert_eq!(no(b"\0\0\0\0H"), "a frame of kind 'H'");
    }

    #[test]
    fn tokens_prove_themselves() {
        assert!(Token::new(b"short").is_err());
        let token = Token::new(b"0123456789abcdef\n").unwrap();
        let other = Token::new(b"0123456789abcdeF").unwrap();
        let proof = token.proof(&[b"nonce", b"n1"]);
        assert!(token.agrees(&[b"nonce", b"n1"], &proof));
        assert!(!token.agrees(&[b"noncen", b"1"], &proof));
        assert!(!token.agrees(&[b"nonce", b"n1"], &proof[..8]));
        assert!(!other.agrees(&[b"nonce", b"n1"], &proof));
    }

    proptest! {
        #[test]
        fn origins_come_back(source: u8, boot: Option<u64>, coordinate: Option<[u32; 5]>, n in 0usize..6) {
            let coordinate = coordinate.map(|c| c[..n.min(5)].into());
            let origin = Origin { source, boot, coordinate };
            let mut out = Vec::new();
            origin.put(&mut out);
            let mut take = Take(&out);
            prop_assert_eq!(Origin::take(&mut take)?, origin);
            prop_assert!(take.end().is_ok());
        }

        #[test]
        fn headers_and_parts_come_back(n: [u64; 10], own: Option<u64>, steady: Option<u64>, source: u8, read: bool, key: bool) {
            let cost = Cost { cpu_us: n[5], resident_bytes: n[6], missed_ticks: n[7], failed_reads: n[8], dropped_reports: n[9] };
            let header = Header { sequence: n[0], tick: n[1], time_ns: n[2], steady_ns: n[3], took_ns: n[4], cost };
            let part = Part { source, read, key, time_ns: own, steady_ns: steady };
            let mut out = Vec::new();
            header.put(&mut out);
            part.put(&header, &mut out);
            let mut take = Take(&out);
            prop_assert_eq!(Header::take(&mut take)?, header);
            prop_assert_eq!(Part::take(&mut take, &header)?, part);
            prop_assert!(take.end().is_ok());
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let _ = next_frame(&bytes, 64);
            let _ = Hello::take(&mut Take(&bytes));
            let _ = Header::take(&mut Take(&bytes));
            let _ = Origin::take(&mut Take(&bytes));
        }
    }
}
