//! Files as bounded text: decompression, lines, words, numbers.
//!
//! A [`Text`] is a whole file in memory, decompressed if its content is gzip or zstd, regardless of its name. While
//! it is read, its size and the length of every line are checked against [`Limits`]: a hundred megabytes without a
//! line end are refused after the first megabyte, unless they begin as JSON or XML. Lines end in `\n`, `\r\n`, or all in
//! `\r`. Parsing works on byte slices; only names become strings, with bytes
//! that are not UTF-8 replaced.
//!
//! [`open`] opens all files of a user: regular files, and pipes that are already open. Reading a named pipe without a
//! writer, a device or a socket could block for ever.

mod cells;
mod files;
mod unreadable;

pub use cells::{Cells, cell_texts, cells, without_comment};
pub use files::open;

use crate::ObserveError;
use files::{opened, shortened};
use flate2::bufread::MultiGzDecoder;
use hopbyte_fabric::{Class, InputError};
use memchr::{memchr, memrchr};
use ruzstd::decoding::StreamingDecoder;
use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Limits on untrusted input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes, after decompression.
    pub bytes: u64,
    /// Maximum number of bytes of one line, except in JSON and XML.
    pub line: usize,
    /// Whether content with zero bytes is accepted, without a limit on lines; refused otherwise.
    pub binary: bool,
}

impl Limits {
    /// For text: 1 GiB in total, 1 MiB per line.
    pub const TEXT: Self = Self {
        bytes: 1 << 30,
        line: 1 << 20,
        binary: false,
    };
    /// For settings, tokens and lists written by hand: 1 MiB in total.
    pub const SMALL: Self = Self {
        bytes: 1 << 20,
        ..Self::TEXT
    };
    /// For matrices written one row per line: 1 GiB in total, 64 MiB per line.
    pub const ROWS: Self = Self {
        line: 1 << 26,
        ..Self::TEXT
    };
    /// For content that may be text or binary: 1 GiB in total, 1 MiB per line of text.
    pub const ANY: Self = Self {
        binary: true,
        ..Self::TEXT
    };
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Read size in bytes.
const CHUNK: usize = 1 << 18;

/// A whole file, decompressed, within its limits.
#[derive(Clone, Debug)]
pub struct Text {
    file: String,
    bytes: Vec<u8>,
}

impl Text {
    /// Reads a file; gzip and zstd are recognised by content and decompressed.
    pub fn read(path: &Path, limits: Limits) -> Result<Self, ObserveError> {
        let name = path.display().to_string();
        match opened(path).map_err(|e| ObserveError::io(path, e))? {
            Ok((file, begin)) => {
                let text = Self::of_size(name, BufReader::new(&file), limits, begin.len())?;
                shortened(&file, &begin).map_or(Ok(()), |found| {
                    let error = InputError::new(&text.file, found, "a file that is complete");
                    Err(error.hint("read it again, or a copy: another process writes it"))
                })?;
                Ok(text)
            }
            Err(found) => {
                let error = InputError::new(name, found, "a regular file").of(Class::NotAFile);
                let hint = "give a file, or a pipe that is open already: <(command) or /dev/stdin";
                Err(error.hint(hint).into())
            }
        }
    }

    /// Reads to the end of a stream; `file` is the name in error messages.
    pub fn from_reader(
        file: impl Into<String>,
        input: impl BufRead,
        limits: Limits,
    ) -> Result<Self, ObserveError> {
        Self::of_size(file.into(), input, limits, 0)
    }

    /// Reads a stream of about `size` bytes.
    fn of_size(
        file: String,
        mut input: impl BufRead,
        limits: Limits,
        size: u64,
    ) -> Result<Self, ObserveError> {
        let mut into = Bounded::new(file, limits);
        if size > limits.bytes {
            return Err(into.too_large().into());
        }
        into.bytes
            .reserve(size.min(limits.bytes).min(1 << 28) as usize);
        let start = input.fill_buf().map_err(|e| into.failed(&e))?;
        let start = start[..start.len().min(unreadable::START)].to_vec();
        if let Some((found, hint)) = unreadable::packed(&start).filter(|_| !limits.binary) {
            return Err(InputError::new(&into.file, found, "text").hint(hint).into());
        }
        let magic: [u8; 4] = std::array::from_fn(|i| start.get(i).copied().unwrap_or(0));
        match magic {
            [0x1f, 0x8b, ..] => into.take(MultiGzDecoder::new(input))?,
            [0x28, 0xb5, 0x2f, 0xfd] => into.take_zstd(input)?,
            _ => into.take(input)?,
        }
        Ok(into.finish())
    }

    /// Text that is already in memory, with the same limits and decompression.
    pub fn from_bytes(
        file: impl Into<String>,
        bytes: &[u8],
        limits: Limits,
    ) -> Result<Self, ObserveError> {
        Self::from_reader(file, bytes, limits)
    }

    /// Name for errors: the path as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is binary content: a zero byte in the first 256 KiB. Only with [`Limits::binary`].
    pub fn is_binary(&self) -> bool {
        memchr(0, &self.bytes[..self.bytes.len().min(CHUNK)]).is_some()
    }

    /// Lines with their numbers, without line ends (`\n` or `\r\n`).
    pub fn lines(&self) -> Lines<'_> {
        Lines {
            rest: &self.bytes,
            number: 0,
        }
    }

    /// The last line that is not blank, without blanks around it; found from the end.
    pub fn last(&self) -> &[u8] {
        let text = self.bytes.trim_ascii_end();
        let start = memrchr(b'\n', text).map_or(0, |at| at + 1);
        text[start..].trim_ascii_start()
    }

    /// Whether the last line has a line end.
    pub fn is_ended(&self) -> bool {
        self.bytes.last().is_none_or(|&b| b == b'\n')
    }

    /// Note on a text whose last line has no line end: a name or number cut short is one too. JSON and XML end in a bracket,
    /// and binary content in no line.
    pub fn unended(&self) -> Option<String> {
        let closes = matches!(self.last().last(), Some(b'}' | b']' | b'>'));
        let is_whole = is_nested(&self.bytes) && closes;
        let is_cut = !self.is_ended() && !is_whole && !self.is_binary();
        let file = self.file();
        is_cut.then(|| {
            format!("{file}: the last line has no line end: if the file was cut, so is this line")
        })
    }

    /// Refuses a text of more bytes than a format's documents may have.
    pub fn at_most(&self, bytes: usize, expected: impl Into<String>) -> Result<(), InputError> {
        if self.bytes.len() <= bytes {
            return Ok(());
        }
        Err(self.error(format!("{} bytes", self.bytes.len()), expected))
    }

    /// The whole text as JSON.
    ///
    /// # Errors
    /// No JSON, or not of this form, with the line; `expected` says what the file is.
    pub fn json<'a, T: serde::Deserialize<'a>>(
        &'a self,
        expected: impl Into<String>,
    ) -> Result<T, InputError> {
        serde_json::from_slice(&self.bytes).map_err(|e| {
            let line = self.lines().find(|l| !l.trimmed().is_empty());
            let error = match line {
                None => self.error("", expected),
                // Not even its begin is JSON.
                Some(line) if !line.trimmed().starts_with(b"{") && e.is_syntax() => {
                    self.error(line.text(), expected)
                }
                Some(_) => self.error(e.to_string(), expected),
            };
            error.at(e.line().max(1) as u64)
        })
    }

    /// An error about the whole file.
    pub fn error(&self, found: impl AsRef<str>, expected: impl Into<String>) -> InputError {
        InputError::new(&self.file, found, expected)
    }

    /// An error at a line that shows the line.
    pub fn error_at(&self, line: Line<'_>, expected: impl Into<String>) -> InputError {
        self.error(line.text(), expected).at(line.number)
    }

    /// An error at a line that shows part of it.
    pub fn error_in(
        &self,
        line: Line<'_>,
        found: &[u8],
        expected: impl Into<String>,
    ) -> InputError {
        self.error(excerpt(found), expected).at(line.number)
    }
}

/// A short text file in one string, see [`Limits::SMALL`].
///
/// # Errors
/// Those of [`Text::read`].
pub fn small(path: &Path) -> Result<String, ObserveError> {
    Ok(lossy(Text::read(path, Limits::SMALL)?.bytes()).into_owned())
}

/// Collects a stream within limits.
struct Bounded {
    file: String,
    limits: Limits,
    bytes: Vec<u8>,
    line_start: usize,
    binary: bool,
    /// Whether its lines end in carriage returns alone.
    returns: bool,
}

impl Bounded {
    fn new(file: String, limits: Limits) -> Self {
        Self {
            file,
            limits,
            bytes: Vec::new(),
            line_start: 0,
            binary: false,
            returns: false,
        }
    }

    fn take(&mut self, mut input: impl Read) -> Result<(), ObserveError> {
        loop {
            let start = self.bytes.len();
            let mut part = input.by_ref().take(CHUNK as u64);
            if let Err(error) = part.read_to_end(&mut self.bytes) {
                return Err(self.failed(&error));
            }
            if self.bytes.len() == start {
                return Ok(());
            }
            self.check(start)?;
        }
    }

    /// All frames of a zstd stream, one after the other.
    fn take_zstd(&mut self, mut input: impl BufRead) -> Result<(), ObserveError> {
        while !input.fill_buf().map_err(|e| self.failed(&e))?.is_empty() {
            let frame = StreamingDecoder::new(&mut input)
                .map_err(|e| self.failed(&io::Error::other(e.to_string())))?;
            self.take(frame)?;
        }
        Ok(())
    }

    fn too_large(&self) -> InputError {
        let found = format!("more than {} bytes", self.limits.bytes);
        let error = InputError::new(&self.file, found, "a smaller file");
        let error = error.of(Class::Limit);
        error.hint("split it (routes: a folder with a file for each switch), or give the part that matters")
    }

    fn check(&mut self, new: usize) -> Result<(), ObserveError> {
        let length = self.bytes.len() as u64;
        if length > self.limits.bytes {
            return Err(self.too_large().into());
        }
        self.binary |= new < CHUNK && memchr(0, &self.bytes[new..]).is_some();
        // Zero bytes pack a thousandfold, and no format begins with as many.
        if new == 0 && self.bytes.len() == CHUNK && self.bytes.iter().all(|&b| b == 0) {
            let found = format!("{CHUNK} zero bytes at its begin");
            let error = InputError::new(&self.file, found, "content");
            let hint = "was the file written to its end? a disk that was full leaves such files";
            return Err(error.hint(hint).into());
        }
        if self.binary && self.limits.binary {
            return Ok(());
        }
        if let Some((found, hint)) = unreadable::padded(&self.bytes).filter(|_| self.binary) {
            return Err(InputError::new(&self.file, found, "text").hint(hint).into());
        }
        if self.binary {
            let error = InputError::new(&self.file, "binary data (a zero byte)", "text");
            return Err(error.hint("is this the right file?").into());
        }
        self.end_lines(new);
        if is_nested(&self.bytes) {
            return Ok(());
        }
        let longest = self.limits.line;
        let mut at = new;
        loop {
            let end = memchr(b'\n', &self.bytes[at..]).map_or(self.bytes.len(), |i| at + i);
            if end - self.line_start > longest {
                let number = self.bytes[..self.line_start]
                    .iter()
                    .filter(|&&b| b == b'\n')
                    .count();
                let found = format!(
                    "a line of more than {longest} bytes beginning '{}'",
                    excerpt(&self.bytes[self.line_start..self.line_start + 24])
                );
                let error = InputError::new(&self.file, found, "lines of text");
                return Err(error
                    .at(number as u64 + 1)
                    .hint("is this the right file? it has no line ends where they belong")
                    .into());
            }
            if end == self.bytes.len() {
                return Ok(());
            }
            self.line_start = end + 1;
            at = self.line_start;
            // No line between the last line end and here can be too long: skip to the last one.
            if let Some(last) = memrchr(b'\n', &self.bytes[at..])
                && last <= longest
            {
                self.line_start = at + last + 1;
                at = self.line_start;
            }
        }
    }

    /// Line ends of classic Mac OS, carriage returns alone, become those of Unix.
    fn end_lines(&mut self, new: usize) {
        if new == 0 {
            let is_text = |&b: &u8| b >= b' ' || b.is_ascii_whitespace() || b == 0x1b;
            let bytes = &self.bytes;
            self.returns = memchr(b'\n', bytes).is_none()
                && memchr(b'\r', bytes).is_some()
                && bytes.iter().all(is_text);
        }
        if self.returns {
            let ends = self.bytes[new..].iter_mut().filter(|b| **b == b'\r');
            ends.for_each(|b| *b = b'\n');
        }
    }

    /// Error of a broken stream: the operating system's, or invalid compressed data.
    fn failed(&self, error: &io::Error) -> ObserveError {
        InputError::new(
            &self.file,
            error.to_string(),
            "readable content, whole if compressed",
        )
        .hint("was the file truncated when it was copied?")
        .into()
    }

    fn finish(mut self) -> Text {
        if self.bytes.starts_with(BYTE_ORDER_MARK) {
            self.bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Text {
            file: self.file,
            bytes: self.bytes,
        }
    }
}

/// Whether content begins as JSON or XML does, which programs write without line ends.
fn is_nested(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(4096)];
    let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start);
    matches!(start.trim_ascii_start().first(), Some(b'{' | b'[' | b'<'))
}

/// A line of a [`Text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Number, from 1.
    pub number: u64,
    /// Content without the line end.
    pub bytes: &'a [u8],
}

impl<'a> Line<'a> {
    /// Words between blanks and tabs.
    pub fn words(self) -> Words<'a> {
        words(self.bytes)
    }

    /// The line without blanks at both ends.
    pub fn trimmed(self) -> &'a [u8] {
        self.bytes.trim_ascii()
    }

    /// The beginning of the line as text, for errors.
    pub fn text(self) -> String {
        excerpt(self.bytes)
    }
}

/// Iterator over lines, see [`Text::lines`].
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
    number: u64,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = match memchr(b'\n', self.rest) {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &self.rest[..0]),
        };
        self.rest = rest;
        self.number += 1;
        Some(Line {
            number: self.number,
            bytes: line.strip_suffix(b"\r").unwrap_or(line),
        })
    }
}

/// Iterator over words, see [`words`].
#[derive(Clone, Debug)]
pub struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// The remaining text, without blanks at its ends.
    pub fn rest(&self) -> &'a [u8] {
        self.rest.trim_ascii()
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|&b| !is_blank(b))?;
        let word = &self.rest[start..];
        let end = word.iter().position(|&b| is_blank(b)).unwrap_or(word.len());
        self.rest = &word[end..];
        Some(&word[..end])
    }
}

#[inline]
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte.wrapping_sub(b'\t') < 5
}

/// Words of a byte string, between white space.
pub fn words(bytes: &[u8]) -> Words<'_> {
    Words { rest: bytes }
}

/// Bytes as text; bytes that are not UTF-8 become U+FFFD.
pub fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The beginning of untrusted bytes as text, for errors (which shorten it further).
pub fn excerpt(bytes: &[u8]) -> String {
    lossy(&bytes[..bytes.len().min(200)]).into_owned()
}

/// A decimal number of digits only; `None` on anything else and on overflow.
#[inline]
pub fn decimal(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |n, &b| {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A decimal number that fits 32 bits.
#[inline]
pub fn decimal_u32(word: &[u8]) -> Option<u32> {
    decimal(word).and_then(|n| u32::try_from(n).ok())
}

/// A whole number of a JSON document, also as a text or a float without a fraction.
pub fn whole_value(value: &serde_json::Value) -> Option<u64> {
    match value {
        serde_json::Value::String(text) => text.parse().ok(),
        serde_json::Value::Number(n) => n.as_u64().or_else(|| {
            let float = n.as_f64().filter(|f| is_whole(*f))?;
            Some(float as u64)
        }),
        _ => None,
    }
}

/// A whole number, also as spreadsheets and NumPy write it: `40000.0`, `4e4`.
pub fn whole(word: &[u8]) -> Option<u64> {
    decimal(word).or_else(|| {
        let value = float(word).filter(|v| is_whole(*v))?;
        Some(value as u64)
    })
}

/// Whether a float is a whole number that it holds exactly: up to 2^53.
fn is_whole(value: f64) -> bool {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (0.0..=EXACT).contains(&value) && value.fract() == 0.0
}

/// A hexadecimal number with or without `0x`.
#[inline]
pub fn hexadecimal(word: &[u8]) -> Option<u64> {
    let digits = word
        .strip_prefix(b"0x")
        .or_else(|| word.strip_prefix(b"0X"))
        .unwrap_or(word);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |n, &b| {
        let digit = (b as char).to_digit(16)?;
        (n >> 60 == 0).then_some(n << 4 | u64::from(digit))
    })
}

/// A floating-point number, finite; `None` on anything else.
pub fn float(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word)
        .ok()?
        .parse()
        .ok()
        .filter(|v: &f64| v.is_finite())
}

#[cfg(test)]
mod tests;
