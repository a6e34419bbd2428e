//! Content that is not read as it is, and what to do with it: other compressions and archives, UTF-16, zero bytes at
//! the end.

use super::Text;
use hopbyte_fabric::InputError;
use memchr::memchr;

/// First bytes of compressed files and archives, their names, and the command that unpacks them.
const PACKED: [(&[u8], &str, &str); 7] = [
    (b"\xfd7zXZ\0", "xz compression", "xz -dc FILE > TEXT"),
    (b"BZh", "bzip2 compression", "bzip2 -dc FILE > TEXT"),
    (b"PK\x03\x04", "a zip archive", "unzip FILE"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x FILE"),
    (
        b"\x04\x22\x4d\x18",
        "lz4 compression",
        "lz4 -dc FILE > TEXT",
    ),
    (b"LZIP\x01", "lzip compression", "lzip -dc FILE > TEXT"),
    (
        b"\x1f\x9d",
        "compression of compress",
        "uncompress -c FILE > TEXT",
    ),
];

/// How many first bytes decide.
pub(super) const START: usize = 16;

/// What content is by its first bytes, and what to do.
pub(super) fn packed(start: &[u8]) -> Option<(String, String)> {
    let known = PACKED.iter().find(|(magic, ..)| start.starts_with(magic));
    // The digit of a block size and the digits of pi follow the name of bzip2.
    let is_text = |start: &[u8]| start.starts_with(b"BZh") && start.get(4..6) != Some(&b"1A"[..]);
    if let Some((_, name, command)) = known.filter(|_| !is_text(start)) {
        let hint = format!("unpack it: {command}; gzip and zstd are read as they are");
        return Some(((*name).to_owned(), hint));
    }
    let is_letter = |b: u8| b.is_ascii_graphic() || b.is_ascii_whitespace();
    let is_utf16 = match *start {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [a, 0, b, 0, ..] | [0, a, 0, b, ..] => is_letter(a) && is_letter(b),
        _ => false,
    };
    is_utf16.then(|| {
        let hint = "convert it: iconv -f UTF-16 -t UTF-8 FILE > TEXT, or write it in PowerShell with | Out-File -Encoding utf8";
        ("text in UTF-16".to_owned(), hint.to_owned())
    })
}

/// What text with a zero byte is if only zero bytes follow, and what to do.
pub(super) fn padded(bytes: &[u8]) -> Option<(String, String)> {
    if bytes.last() != Some(&0) {
        return None;
    }
    let first = memchr(0, bytes).filter(|&at| at > 0)?;
    let lines = bytes[..first].iter().filter(|&&b| b == b'\n').count();
    let is_padded = lines > 0 && bytes[first..].iter().all(|&b| b == 0);
    is_padded.then(|| {
        let hint = "the file was not written to its end (a crash, a full disk): check what is missing, and cut them off with tr -d '\\0' < FILE > TEXT";
        (format!("zero bytes to the end behind line {lines}"), hint.to_owned())
    })
}

impl Text {
    /// An error for content that is no text as it is, if it is of a known kind.
    pub(crate) fn unreadable(&self, expected: &str) -> Option<InputError> {
        let start = &self.bytes[..self.bytes.len().min(START)];
        let (found, hint) = packed(start).or_else(|| padded(&self.bytes))?;
        Some(self.error(found, expected).hint(hint))
    }
}
