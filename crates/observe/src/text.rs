//! Files as bounded text: decompression, lines, words, numbers.
//!
//! A [`Text`] is a whole file in memory, decompressed when its content is gzip or zstd, whatever its
//! name. While it is read, its size and the length of every line are held against [`Limits`], so
//! that a hundred megabytes without a line end are refused after the first megabyte. Parsing is on
//! byte slices; only names become strings, with bytes that are not UTF-8 replaced.

use crate::ObserveError;
use flate2::bufread::MultiGzDecoder;
use hopbyte_fabric::InputError;
use memchr::{memchr, memrchr};
use ruzstd::decoding::StreamingDecoder;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// How much of somebody's input is taken before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes, after decompression.
    pub bytes: u64,
    /// Most bytes of one line.
    pub line: usize,
    /// Whether content with zero bytes is taken, without a limit on lines; refused otherwise.
    pub binary: bool,
}

impl Limits {
    /// For text: 1 GiB in all, 1 MiB a line.
    pub const TEXT: Self = Self {
        bytes: 1 << 30,
        line: 1 << 20,
        binary: false,
    };
    /// For matrices written one row a line: 1 GiB in all, 64 MiB a line.
    pub const ROWS: Self = Self {
        line: 1 << 26,
        ..Self::TEXT
    };
    /// For content that may be text or binary: 1 GiB in all, 1 MiB a line of text.
    pub const ANY: Self = Self {
        binary: true,
        ..Self::TEXT
    };
}

/// Bytes that are read at a time.
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
        let file = File::open(path).map_err(|e| ObserveError::io(path, e))?;
        if file.metadata().is_ok_and(|m| m.is_dir()) {
            return Err(InputError::new(path.display().to_string(), "a folder", "a file").into());
        }
        let size = file.metadata().map_or(0, |m| m.len());
        let name = path.display().to_string();
        Self::of_size(name, BufReader::new(file), limits, size)
    }

    /// Reads to the end of a stream; `file` is the name that errors give.
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
        into.bytes
            .reserve(size.min(limits.bytes).min(1 << 28) as usize);
        let magic: [u8; 4] = {
            let start = input.fill_buf().map_err(|e| into.failed(&e))?;
            std::array::from_fn(|i| start.get(i).copied().unwrap_or(0))
        };
        match magic {
            [0x1f, 0x8b, ..] => into.take(MultiGzDecoder::new(input))?,
            [0x28, 0xb5, 0x2f, 0xfd] => into.take_zstd(input)?,
            _ => into.take(input)?,
        }
        Ok(into.finish())
    }

    /// Text that is in memory already, held against the same limits and decompressed alike.
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

    /// An error about the whole file.
    pub fn error(&self, found: impl AsRef<str>, expected: impl Into<String>) -> InputError {
        InputError::new(&self.file, found, expected)
    }

    /// An error at a line that shows the line.
    pub fn error_at(&self, line: Line<'_>, expected: impl Into<String>) -> InputError {
        self.error(line.text(), expected).at(line.number)
    }

    /// An error at a line that shows a part of it.
    pub fn error_in(
        &self,
        line: Line<'_>,
        found: &[u8],
        expected: impl Into<String>,
    ) -> InputError {
        self.error(excerpt(found), expected).at(line.number)
    }
}

/// Collects a stream within limits.
struct Bounded {
    file: String,
    limits: Limits,
    bytes: Vec<u8>,
    line_start: usize,
    binary: bool,
}

impl Bounded {
    fn new(file: String, limits: Limits) -> Self {
        Self {
            file,
            limits,
            bytes: Vec::new(),
            line_start: 0,
            binary: false,
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

    fn check(&mut self, new: usize) -> Result<(), ObserveError> {
        let length = self.bytes.len() as u64;
        if length > self.limits.bytes {
            let error = InputError::new(
                &self.file,
                format!("more than {} bytes", self.limits.bytes),
                "a smaller file",
            );
            return Err(error.hint("split it, or give the part that matters").into());
        }
        self.binary |= new < CHUNK && memchr(0, &self.bytes[new..]).is_some();
        if self.binary && self.limits.binary {
            return Ok(());
        }
        if self.binary {
            let error = InputError::new(&self.file, "binary data (a zero byte)", "text");
            return Err(error.hint("is this the right file?").into());
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
            // Between the last line end and here nothing can be too long: skip to the last one.
            if let Some(last) = memrchr(b'\n', &self.bytes[at..])
                && last <= longest
            {
                self.line_start = at + last + 1;
                at = self.line_start;
            }
        }
    }

    /// A stream that broke: the operating system, or compressed data that does not decompress.
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
        if self.bytes.starts_with(b"\xef\xbb\xbf") {
            self.bytes.drain(..3);
        }
        Text {
            file: self.file,
            bytes: self.bytes,
        }
    }
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
    /// What has not been read yet, without blanks at its ends.
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

/// Bytes as text; what is not UTF-8 becomes U+FFFD.
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
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8], limits: Limits) -> Result<Text, String> {
        Text::from_bytes("f", bytes, limits).map_err(|e| e.to_string())
    }

    /// Yields `left` bytes of the same value without holding them.
    struct Same(u8, u64, [u8; CHUNK]);

    impl Read for Same {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = buffer.len().min(self.1 as usize);
            buffer[..n].fill(self.0);
            self.1 -= n as u64;
            Ok(n)
        }
    }

    impl BufRead for Same {
        fn fill_buf(&mut self) -> io::Result<&[u8]> {
            Ok(&self.2[..self.2.len().min(self.1 as usize)])
        }
        fn consume(&mut self, amount: usize) {
            self.1 -= amount as u64;
        }
    }

    #[test]
    fn lines_and_words() {
        let text = read(b"\xef\xbb\xbfa b\r\n\n  c\td \nlast", Limits::TEXT).unwrap();
        let lines: Vec<(u64, &[u8])> = text.lines().map(|l| (l.number, l.bytes)).collect();
        assert_eq!(
            lines,
            [(1, &b"a b"[..]), (2, b""), (3, b"  c\td "), (4, b"last")]
        );
        let words: Vec<&[u8]> = text.lines().nth(2).unwrap().words().collect();
        assert_eq!(words, [b"c", b"d"]);
        assert_eq!(read(b"", Limits::TEXT).unwrap().lines().count(), 0);
    }

    #[test]
    fn numbers_are_exact_or_refused() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        assert_eq!(decimal(b""), None);
        assert_eq!(decimal(b"-1"), None);
        assert_eq!(hexadecimal(b"0xffffffffffffffff"), Some(u64::MAX));
        assert_eq!(hexadecimal(b"1ffffffffffffffff"), None);
        assert_eq!(hexadecimal(b"0x"), None);
        assert_eq!(float(b"1.5e3"), Some(1500.0));
        assert_eq!(float(b"nan"), None);
        assert_eq!(float(b"inf"), None);
    }

    #[test]
    fn a_huge_line_is_refused_early() {
        let endless = Same(b'x', 100 << 20, [b'x'; CHUNK]);
        let error = Text::from_reader("f", endless, Limits::TEXT).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("f:1: found a line of more than"), "{text}");
        assert!(text.contains("hint:"), "{text}");
        // Lines just within the limit pass, wherever they lie to the chunks that are read.
        for length in [100, CHUNK - 1, CHUNK, CHUNK + 1, 1 << 20] {
            let mut line = vec![b'y'; length];
            line.push(b'\n');
            let all = line.repeat(3);
            assert_eq!(read(&all, Limits::TEXT).unwrap().lines().count(), 3);
            let limits = Limits {
                line: length - 1,
                ..Limits::TEXT
            };
            let error = read(&[b"ok\n", &all[..]].concat(), limits).unwrap_err();
            assert!(error.starts_with("f:2: "), "{error}");
        }
        let limits = Limits {
            bytes: 1000,
            ..Limits::TEXT
        };
        assert!(
            read(&[b'\n'; 1001], limits)
                .unwrap_err()
                .contains("more than 1000 bytes")
        );
        assert!(
            read(b"ELF\0\0", Limits::TEXT)
                .unwrap_err()
                .contains("binary data")
        );
        assert!(read(&[0; 3 << 20], Limits::ANY).unwrap().is_binary());
    }

    #[test]
    fn compressed_content_is_recognised_and_bounded() {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(b"one\ntwo\n").unwrap();
        let gz = gz.finish().unwrap();
        assert_eq!(read(&gz, Limits::TEXT).unwrap().bytes(), b"one\ntwo\n");
        let twice = [gz.clone(), gz.clone()].concat();
        assert_eq!(read(&twice, Limits::TEXT).unwrap().bytes().len(), 16);
        assert!(read(&gz[..gz.len() - 9], Limits::TEXT).is_err());

        let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        bomb.write_all(&vec![b'\n'; 1 << 22]).unwrap();
        let limits = Limits {
            bytes: 1 << 20,
            ..Limits::TEXT
        };
        let error = read(&bomb.finish().unwrap(), limits).unwrap_err();
        assert!(error.contains("more than 1048576 bytes"), "{error}");

        let zst = ruzstd::encoding::compress_to_vec(
            &b"three\nfour\n"[..],
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        assert_eq!(read(&zst, Limits::TEXT).unwrap().bytes(), b"three\nfour\n");
        let twice = [zst.clone(), zst.clone()].concat();
        assert_eq!(read(&twice, Limits::TEXT).unwrap().bytes().len(), 22);
        assert!(read(&zst[..zst.len() - 3], Limits::TEXT).is_err());
    }

    #[test]
    fn a_missing_file_and_a_folder_are_errors() {
        let missing = Text::read(Path::new("/nonexistent/file"), Limits::TEXT);
        assert!(missing.unwrap_err().to_string().contains("hint: check"));
        let folder = Text::read(&std::env::temp_dir(), Limits::TEXT);
        assert!(folder.unwrap_err().to_string().contains("found a folder"));
    }
}
