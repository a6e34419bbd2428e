//! Table of the traffic formats: recognised by content, never by name.

use super::record::ByHost;
use super::{
    content_lines, dense, edges, fields, is_comment, line_of, matrix_market, metis, prof, profiles,
    qaplib, record, scotch, training,
};
use crate::ObserveError;
use crate::known::{Known, known, names};
use crate::text::{Text, float};
use crate::trace;
use hopbyte_fabric::collective::Algorithms;
use hopbyte_fabric::{InputError, Traffic};

/// One row of the table.
pub(super) struct Format {
    pub(super) known: Known,
    recognise: Recognise,
    read: Read,
}

/// Way to recognise a format; the kinds are tried in this order, and within a kind the first row wins.
enum Recognise {
    /// A whole file, which may be binary.
    Whole(fn(&Text) -> bool),
    /// A zero byte.
    Binary,
    /// A line up to and including the first that is not a comment.
    Line(fn(&[u8]) -> bool),
    /// The first line that is not a comment, together with its text.
    First(fn(&[u8], &Text) -> bool),
    /// Numbers without a name: recognised by the shape of the lines.
    Shape(fn(&Numbers<'_>) -> bool),
}

/// The traffic of calls, and whether it depends on which ranks share a host.
type ReadCalls = fn(&str, &[Text], &Algorithms) -> Result<(Traffic, bool), ObserveError>;

/// Reader of a format.
enum Read {
    /// One file.
    One(fn(&Text) -> Result<Traffic, ObserveError>),
    /// The files of all ranks.
    Ranks(fn(&str, &[Text]) -> Result<Traffic, ObserveError>),
    /// The files of all ranks, with collective calls that are expanded by rules.
    Calls(ReadCalls),
    /// The files of all processes, read one after the other, with collective calls.
    Processes(fn(&str, Texts<'_>, &Algorithms) -> Result<Traffic, ObserveError>),
    /// None: the format has no receivers.
    Refused(fn(&Text) -> ObserveError),
}

use super::training::Texts;

const PAGE: &str = "formats/traffic.md";

const TABLE: &[Format] = &[
    Format {
        known: known(
            "PyTorch profiler (Kineto)",
            "collectives and messages by group, one file per rank",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::Whole(training::is_kineto),
        read: Read::Processes(training::kineto),
    },
    Format {
        known: known(
            "PyTorch flight recorder",
            "the last collectives and messages by group, JSON or pickle, one file per rank",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::Whole(training::is_flight),
        read: Read::Processes(training::flight),
    },
    Format {
        known: known(
            "NCCL Inspector",
            "collectives and messages by communicator, one file per process",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::Whole(training::is_inspector),
        read: Read::Processes(training::inspector),
    },
    Format {
        known: known(
            "mpitrace send_bytes.sparse",
            "bytes and messages, binary",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::Binary,
        read: Read::One(|text| profiles::sparse(text).unwrap_or_else(|| Err(binary(text)))),
    },
    Format {
        known: known(
            "Open MPI monitoring (.prof)",
            "bytes and messages, one file per rank",
            PAGE,
            "archive",
        ),
        recognise: Recognise::Line(|line| line.starts_with(b"# POINT TO POINT")),
        read: Read::Ranks(prof::read),
    },
    Format {
        known: known(
            "hopbyte's recorder (.hbr)",
            "all traffic by phase, one file per rank",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::Line(|line| line.starts_with(b"# hopbyte-record")),
        read: Read::Calls(record::read),
    },
    Format {
        known: known("Matrix Market", "bytes", PAGE, "traffic"),
        recognise: Recognise::Line(|line| line.starts_with(b"%%MatrixMarket")),
        read: Read::One(matrix_market::read),
    },
    Format {
        known: known(
            "mpiP",
            "refused: it aggregates by call site",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::First(|line, _| profiles::is_mpip(line)),
        read: Read::Refused(profiles::refuse_mpip),
    },
    Format {
        known: known(
            "TAU profiles",
            "bytes and messages, one file per rank",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::First(|line, _| profiles::is_tau(line)),
        read: Read::Ranks(profiles::tau),
    },
    Format {
        known: known(
            "mpitrace pattern",
            "bytes and messages, one file per rank",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::First(|line, _| profiles::is_pattern(line)),
        read: Read::Ranks(profiles::patterns),
    },
    Format {
        known: known(
            "IPM XML",
            "bytes of sends, one file or one per rank",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::First(|line, text| line.starts_with(b"<") && profiles::is_ipm(text)),
        read: Read::Ranks(profiles::ipm),
    },
    Format {
        known: known("Scotch graph", "weights of arcs", PAGE, "traffic"),
        recognise: Recognise::First(|line, text| line == b"0" && scotch::is_graph(text)),
        read: Read::One(scotch::read),
    },
    Format {
        known: known(
            "list of pairs src,dst,bytes[,messages[,phase]]",
            "bytes, messages, phases",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::Shape(|n| {
            n.has_header()
                || n.commas
                    && !n.is_labelled()
                    && (!n.numbers || (!n.shape.is_square() && matches!(n.head.len(), 3 | 4)))
        }),
        read: Read::One(edges::csv),
    },
    Format {
        known: known(
            "dense matrix with names (pandas)",
            "bytes of every pair",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::Shape(|n| n.commas && n.is_labelled()),
        read: Read::One(dense::labelled),
    },
    Format {
        known: known(
            "QAPLIB instance (.dat)",
            "flows, the matrix that is no distance",
            PAGE,
            "traffic",
        ),
        recognise: Recognise::Shape(|n| {
            let is_list = n.shape.rest == Rest::Same(3);
            n.numbers && qaplib::is_instance(n.text, n.head.len(), is_list)
        }),
        read: Read::One(qaplib::read),
    },
    Format {
        known: known("dense matrix", "bytes of every pair", PAGE, "traffic"),
        recognise: Recognise::Shape(|n| n.shape.is_square() || (n.numbers && n.head.len() >= 5)),
        read: Read::One(dense::read),
    },
    Format {
        known: known("METIS graph", "weights of edges", PAGE, "traffic"),
        recognise: Recognise::Shape(|n| n.numbers && n.is_metis()),
        read: Read::One(metis::read),
    },
    Format {
        known: known("NPB .topo", "bytes, rank count first", PAGE, "traffic"),
        recognise: Recognise::Shape(|n| n.numbers && n.fits(1, &[Rest::Same(3)])),
        read: Read::One(edges::topo),
    },
    Format {
        known: known("CHOLMOD .tri", "bytes", PAGE, "traffic"),
        recognise: Recognise::Shape(|n| n.numbers && n.is_cholmod()),
        read: Read::One(edges::cholmod),
    },
    Format {
        known: known("triplets", "bytes", PAGE, "traffic"),
        recognise: Recognise::Shape(|n| n.numbers && n.is_triplets()),
        read: Read::One(edges::triplets),
    },
];

/// Formats of traffic other than traces, in the order in which they are tried.
pub fn known_formats() -> impl Iterator<Item = Known> {
    TABLE.iter().map(|f| f.known)
}

/// All formats that traffic is read from, including traces.
pub(crate) fn readable() -> impl Iterator<Item = Known> {
    let read = |f: &&Format| !matches!(f.read, Read::Refused(_));
    let own = TABLE.iter().filter(read).map(|f| f.known);
    own.chain(trace::known_formats())
}

/// The format of a text; it may be a trace.
pub fn format(text: &Text) -> Result<Known, InputError> {
    match trace::Format::of(text) {
        Some(trace) => Ok(trace.known),
        None => Ok(Format::of(text)?.known),
    }
}

/// The format of a text that states it: by a name in its first lines, or the header of a list.
pub(crate) fn distinct(text: &Text) -> Option<Known> {
    let is_list = || {
        let first = content_lines(text).next()?;
        let begins = first
            .trimmed()
            .to_ascii_lowercase()
            .starts_with(b"src,dst,");
        begins.then(|| Format::of(text).ok()).flatten()
    };
    let named = Format::named(text).filter(|f| !matches!(f.recognise, Recognise::Binary));
    Some(named.or_else(is_list)?.known)
}

/// Error for binary content that is not traffic.
fn binary(text: &Text) -> ObserveError {
    if let Some(error) = text.unreadable("traffic") {
        return error.into();
    }
    text.error("binary data (a zero byte)", "traffic")
        .hint("is this the right file?")
        .into()
}

impl Format {
    pub(super) fn of(text: &Text) -> Result<&'static Self, InputError> {
        if let Some(named) = Self::named(text) {
            return Ok(named);
        }
        if let Some(error) = text.unreadable("traffic") {
            return Err(error);
        }
        let numbers = Numbers::of(text);
        let shaped = numbers.as_ref().and_then(|numbers| {
            TABLE
                .iter()
                .find(|f| matches!(f.recognise, Recognise::Shape(is_this) if is_this(numbers)))
        });
        shaped.ok_or_else(|| {
            let hint = qaplib::may_be_cut(text)
                .unwrap_or_else(|| format!("known formats: {}", names(readable())));
            let error = text.error(line_of(text), "traffic").hint(hint);
            match content_lines(text).next() {
                Some(line) => error.at(line.number),
                None => error,
            }
        })
    }

    /// Formats that are recognised by the whole file.
    pub(super) fn of_whole(text: &Text) -> Option<&'static Self> {
        let is = |f: &&Self| matches!(f.recognise, Recognise::Whole(is_this) if is_this(text));
        TABLE.iter().find(is)
    }

    /// Formats that are named in their first lines.
    pub(super) fn named(text: &Text) -> Option<&'static Self> {
        if let Some(whole) = Self::of_whole(text) {
            return Some(whole);
        }
        if text.is_binary() {
            return TABLE
                .iter()
                .find(|f| matches!(f.recognise, Recognise::Binary));
        }
        for line in text.lines().filter(|l| !l.trimmed().is_empty()) {
            let content = line.trimmed();
            let comment = is_comment(content);
            let found = TABLE.iter().find(|f| match f.recognise {
                Recognise::Line(is_this) => is_this(content),
                Recognise::First(is_this) => !comment && is_this(content, text),
                _ => false,
            });
            if found.is_some() || !comment {
                return found;
            }
        }
        None
    }

    /// Whether every rank has a file of its own.
    pub(super) fn of_ranks(&self) -> bool {
        matches!(
            self.read,
            Read::Ranks(_) | Read::Calls(_) | Read::Processes(_)
        )
    }

    /// Reads one file, or the files of all ranks: the first and those that follow it.
    ///
    /// # Errors
    /// Errors of the format's reader; `rules` given for a format without collective calls.
    pub(super) fn read(
        &self,
        source: &str,
        texts: Texts<'_>,
        rules: Option<&Algorithms>,
    ) -> Result<(Traffic, Option<ByHost>), ObserveError> {
        let own = rules.cloned().unwrap_or_default();
        if let Read::Processes(read) = self.read {
            return Ok((read(source, texts, &own)?, None));
        }
        let texts: Vec<Text> = texts.collect::<Result<_, _>>()?;
        let Some(first) = texts.first() else {
            return Err(InputError::new(source, "no files", "files of ranks").into());
        };
        let traffic = match self.read {
            Read::Calls(read) => {
                let (traffic, depends) = read(source, &texts, &own)?;
                return Ok((traffic, depends.then(|| ByHost::new(source, texts, own))));
            }
            Read::Refused(why) => Err(why(first)),
            _ if rules.is_some() => {
                let found = format!("{source} with a choice of collectives");
                let expected = "a record of hopbyte's or a trace, which have collective calls";
                Err(InputError::new(source, found, expected).into())
            }
            Read::Ranks(read) => read(source, &texts),
            Read::One(read) if texts.len() == 1 => read(first),
            _ => Err(first
                .error(
                    line_of(first),
                    "a file of a rank, as one of several files",
                )
                .hint("recorders write a file for every rank (.prof, .hbr, IPM, TAU, mpitrace, traces); give any other file alone")
                .into()),
        };
        let mut traffic = traffic?;
        traffic.notes.extend(texts.iter().filter_map(Text::unended));
        Ok((traffic, None))
    }
}

/// Numbers without a name, told apart by the shape of the lines. A square of numbers is always read as a dense
/// matrix.
struct Numbers<'a> {
    text: &'a Text,
    /// Fields of the first line.
    head: Vec<&'a [u8]>,
    /// Whether it has commas.
    commas: bool,
    /// Whether all its fields are numbers.
    numbers: bool,
    shape: Shape,
}

impl<'a> Numbers<'a> {
    fn of(text: &'a Text) -> Option<Self> {
        let first = content_lines(text).next()?;
        let head: Vec<&[u8]> = fields(first).collect();
        Some(Self {
            text,
            commas: first.bytes.contains(&b','),
            numbers: head.iter().all(|cell| float(cell).is_some()),
            head,
            shape: Shape::of(text),
        })
    }

    /// Whether the first line has this number of fields, and the rest one of these shapes.
    fn fits(&self, head: usize, rest: &[Rest]) -> bool {
        self.head.len() == head && rest.contains(&self.shape.rest)
    }

    /// Whether the first line names the columns of a list, between commas or blanks.
    fn has_header(&self) -> bool {
        let is_name = |cell: &&[u8], name: &str| cell.eq_ignore_ascii_case(name.as_bytes());
        let has = |name: &&str| self.head.iter().any(|cell| is_name(cell, name));
        ["src", "dst", "bytes"].iter().all(has)
    }

    /// Whether the first line has the names of columns as pandas writes a table with its index: behind an empty cell, or
    /// behind the index's name, with the same names in the first column.
    fn is_labelled(&self) -> bool {
        let Some((corner, names)) = self.head.split_first() else {
            return false;
        };
        let rows = content_lines(self.text).skip(1);
        let are_same = || {
            let rows = rows.map(|line| fields(line).next());
            rows.eq(names.iter().copied().map(Some))
        };
        let is_table = self.shape.is_square() && !names.is_empty();
        is_table && (corner.is_empty() || (float(corner).is_none() && are_same()))
    }

    fn is_cholmod(&self) -> bool {
        self.fits(4, &[Rest::Same(2), Rest::Same(3)])
    }

    fn is_triplets(&self) -> bool {
        self.fits(3, &[Rest::Same(3), Rest::None]) || self.fits(4, &[Rest::Same(4), Rest::None])
    }

    fn is_metis(&self) -> bool {
        match self.head.len() {
            2 => true,
            3 | 4 => {
                metis::is_graph(self.text, &self.head) || !(self.is_cholmod() || self.is_triplets())
            }
            _ => false,
        }
    }
}

/// Numbers of fields in the lines.
struct Shape {
    lines: usize,
    first: usize,
    rest: Rest,
}

/// Number of fields in the lines after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    None,
    Same(usize),
    Ragged,
}

impl Shape {
    fn of(text: &Text) -> Self {
        let mut lines = content_lines(text).map(|line| fields(line).count());
        let mut shape = Self {
            lines: 0,
            first: 0,
            rest: Rest::None,
        };
        if let Some(first) = lines.next() {
            (shape.lines, shape.first) = (1, first);
        }
        for n in lines {
            shape.lines += 1;
            shape.rest = match shape.rest {
                Rest::None => Rest::Same(n),
                Rest::Same(m) if m == n => Rest::Same(n),
                _ => Rest::Ragged,
            };
        }
        shape
    }

    fn is_square(&self) -> bool {
        let same = matches!(self.rest, Rest::Same(n) if n == self.lines);
        self.first == self.lines && (same || self.lines == 1)
    }
}
