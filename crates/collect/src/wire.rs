//! The wire protocol between agents and collectors.
//!
//! The agent opens a stream with [`PREAMBLE`]. Then either side sends frames: four bytes of length (little
//! endian), one byte of kind, the body. Values are differences from the previous report on the same
//! connection. The first report of a connection and every datagram carry absolute values (`key`).
//!
//! | kind | from | body |
//! |---|---|---|
//! | `C` challenge | collector | 16 random bytes; only if a token is required, before all other frames; by UDP, see [`crate::datagram`] |
//! | `H` hello | agent | node, boot, start, period, proof of the token; by UDP the challenge |
//! | `W` welcome | collector | to an agent the highest sequence number already stored, to a viewer the length of a tick in nanoseconds |
//! | `S` source | agent | [`Origin`], [`crate::shape`] |
//! | `R` report | agent | [`Header`], then the values of each source |
//! | `A` acknowledged | collector | sequence number: all reports up to it are stored |
//! | `V` viewer | viewer | proof of the token; blocks follow from now on |
//! | `B` block | collector | a [block](crate::block) |
//! | `N` no | either | the reason for a refusal; the connection ends |

use crate::Refusal;
use crate::bytes::{LONGEST_WORD, Take, put_difference, put_number, put_u64, put_word};
use crate::packed;
use crate::renewed::Renewed;
use crate::shape;
use hmac::{Hmac, Mac};
use hopbyte_observe::counters::delta::Moment;
use hopbyte_observe::counters::reading::Layout;
use hopbyte_observe::counters::values::Values;
use hopbyte_observe::secret;
use sha2::Sha256;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// First bytes of a stream and of a packet, with the protocol version. Version 4: a hello by UDP answers a
/// challenge ([`crate::datagram`]). Version 3: the boot of a node is the hash that
/// [`hopbyte_observe::sources::boot`] defines; before, it depended on the compiler release.
pub const PREAMBLE: [u8; 6] = *b"hopb\x004";
/// Maximum length of a frame.
pub const LONGEST_FRAME: usize = 256 * 1024;
/// Maximum number of sources per node.
pub const MOST_SOURCES: usize = 64;
/// Bytes of a challenge and of a proof.
pub const PROOF: usize = 16;

/// The refusal of bytes that do not begin with [`PREAMBLE`].
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
            "data that is not an agent's ({:?})",
            String::from_utf8_lossy(&bytes[..bytes.len().min(16)])
        )),
    }
}

/// The kind of a frame, as its byte on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Random bytes for the proof of the token.
    Challenge = b'C',
    /// An agent identifies itself.
    Hello = b'H',
    /// The collector accepts the agent or viewer.
    Welcome = b'W',
    /// A source and its counters.
    Source = b'S',
    /// The values of a tick.
    Report = b'R',
    /// All reports up to a sequence number are stored.
    Acknowledged = b'A',
    /// A viewer subscribes to the blocks.
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

/// A frame's kind and body, and its length with the head.
pub type Found<'a> = (Kind, &'a [u8], usize);

/// The first complete frame of `bytes`; `None` if more bytes are needed.
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
            "a frame of {length} bytes, the maximum is {longest}"
        )));
    }
    let whole = 4 + length;
    Ok(bytes.get(5..whole).map(|body| (kind, body, whole)))
}

/// A secret shared by agents and collector. Of one that was read from a file, the file's present content is used.
#[derive(Clone)]
pub struct Token(Arc<Renewed<Hmac<Sha256>>>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// A token of at least 16 bytes; leading and trailing white space is ignored.
    pub fn new(secret: &[u8]) -> Result<Self, Refusal> {
        keyed(secret).map(|mac| Self(Arc::new(Renewed::fixed(mac))))
    }

    /// Reads the token from a file.
    ///
    /// # Errors
    /// Those of [`secret::read`], or a short token.
    pub fn read(file: &Path) -> io::Result<Self> {
        let load = |files: &[PathBuf]| {
            keyed(&secret::read(&files[0])?).map_err(|refusal| {
                let text = format!("token {}: found {refusal}", files[0].display());
                io::Error::new(io::ErrorKind::InvalidData, text)
            })
        };
        Ok(Self(Arc::new(Renewed::read(&[file], load)?)))
    }

    /// A sentence about a changed file, once.
    pub fn news(&self) -> Option<String> {
        self.0.news()
    }

    /// Proof of the token: the MAC over `parts`. Callers choose parts that are useless to an eavesdropper.
    pub fn proof(&self, parts: &[&[u8]]) -> [u8; PROOF] {
        let mut proof = [0; PROOF];
        proof.copy_from_slice(&self.mac(parts).finalize().into_bytes()[..PROOF]);
        proof
    }

    /// Whether a proof is correct, compared in constant time.
    pub fn agrees(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        proof.len() == PROOF && self.mac(parts).verify_truncated_left(proof).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.0.get().as_ref().clone();
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

fn keyed(secret: &[u8]) -> Result<Hmac<Sha256>, Refusal> {
    let secret = secret.trim_ascii();
    let mac = (secret.len() >= 16).then(|| Hmac::new_from_slice(secret).ok());
    mac.flatten().ok_or_else(|| {
        let n = secret.len();
        Refusal::new(format!("a token of {n} bytes, expected at least 16"))
    })
}

/// Secrets of viewers: the present ones in their file.
pub type Readers = Arc<Renewed<Vec<Token>>>;

/// Checks that a word is a valid node name.
pub fn check_node(name: &str) -> Result<(), Refusal> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b);
    if !name.is_empty() && name.len() <= LONGEST_WORD && name.bytes().all(plain) {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "node name {name:?}, expected letters, digits, '-', '_', '.' and ':'"
    )))
}

/// The identity of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Node name.
    pub node: String,
    /// The node's boot ([`hopbyte_observe::sources::boot`]; 0: unknown).
    pub boot: u64,
    /// Start of the agent, nanoseconds since 1970: distinguishes two agents with one node name.
    pub start: u64,
    /// Tick length in nanoseconds.
    pub period_ns: u64,
}

impl Hello {
    /// Appends all fields except the proof.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_word(out, &self.node);
        put_u64(out, self.boot);
        put_u64(out, self.start);
        put_u64(out, self.period_ns);
    }

    /// Decodes the output of [`Hello::put`].
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

/// The header of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The agent's report number, from 1.
    pub sequence: u64,
    /// Tick number: time divided by period.
    pub tick: u64,
    /// The node's clock at the start of the reading, nanoseconds since 1970.
    pub time_ns: u64,
    /// The node's monotonic clock at the same moment.
    pub steady_ns: u64,
    /// Duration of the reading, nanoseconds.
    pub took_ns: u64,
    /// The agent's resource use and losses.
    pub cost: Cost,
}

/// Resource use and losses of an agent since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Processor time in microseconds.
    pub cpu_us: u64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Ticks without a reading.
    pub missed_ticks: u64,
    /// Failed readings of sources.
    pub failed_reads: u64,
    /// Reports discarded because no collector accepted them in time.
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

    /// The sequence number alone, which comes first.
    pub fn sequence(report: &[u8]) -> Result<u64, Refusal> {
        Take(report).number()
    }

    /// Decodes the output of [`Header::put`].
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

/// Maximum number of coordinates of a router.
const MOST_COORDINATES: usize = 16;
const HAS_BOOT: u8 = 1;
const HAS_COORDINATE: u8 = 2;

/// Properties of one source of one node that are not part of its shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Index of the source on its node.
    pub source: u8,
    /// The device's boot, if it is not the node's.
    pub boot: Option<u64>,
    /// Coordinates of the router, if the source reports them.
    pub coordinate: Option<Box<[u32]>>,
}

impl Origin {
    /// The origin of a source with this layout.
    pub fn new(source: u8, boot: Option<u64>, layout: &Layout) -> Self {
        let coordinate = layout.coordinate.as_deref().map(Box::from);
        Self {
            source,
            boot,
            coordinate,
        }
    }

    /// Appends the encoded origin.
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

    /// Decodes the output of [`Origin::put`].
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

/// The head of a source's part of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Index of the source on its node.
    pub source: u8,
    /// Whether the reading succeeded; if not, no values follow.
    pub read: bool,
    /// Whether values are absolute, not differences.
    pub key: bool,
    /// The device's own clocks, if it has any.
    pub time_ns: Option<u64>,
    /// See [`Moment::steady_ns`].
    pub steady_ns: Option<u64>,
}

impl Part {
    /// Appends the encoded part.
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

    /// Decodes the output of [`Part::put`].
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

    /// The moment of the values: the device's clock if it has one, else the node's.
    pub fn moment(&self, header: &Header, boot: Option<u64>) -> Moment {
        let own = self.time_ns.is_some() || self.steady_ns.is_some();
        Moment {
            time_ns: self.time_ns.or((!own).then_some(header.time_ns)),
            steady_ns: self.steady_ns.or((!own).then_some(header.steady_ns)),
            boot,
        }
    }
}

/// A source's values in a report that is being written.
pub struct Sampled<'a> {
    /// Head of the part.
    pub part: Part,
    /// The source's values.
    pub values: &'a Values,
    /// Values of the previous report, the base of differences.
    pub base: Option<&'a Values>,
}

impl<'a> Sampled<'a> {
    /// Values read from a node's first source: absolute, or as differences from `base`.
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
            "an agent of version 2 of the protocol, expected version 4: \
             nodes and collectors need the same hopbyte"
        );
        let other = stranger(b"GET / HTTP/1.1").to_string();
        assert!(other.starts_with("data that is not an agent's"), "{other}");
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
            "a frame of 2130706432 bytes, the maximum is 100"
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
