//! Encoding of numbers and words, and bounds-checked decoding of untrusted bytes.

use crate::Refusal;
use std::borrow::Cow;

/// Maximum length of a word (a name of a node, port or counter) on the wire.
pub const LONGEST_WORD: usize = 128;

/// Appends a number in variable length: seven bits per byte, lowest first.
pub fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed difference in variable length.
pub fn put_difference(out: &mut Vec<u8>, value: i64) {
    put_number(out, zigzag(value));
}

/// Appends eight bytes.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a word, preceded by its length.
pub fn put_word(out: &mut Vec<u8>, word: &str) {
    put_number(out, word.len() as u64);
    out.extend_from_slice(word.as_bytes());
}

/// Maps 0, −1, 1, −2 … to 0, 1, 2, 3 …: the lowest bit is the sign.
#[inline]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes allowed in words: printable ASCII without quotes and characters that shells expand.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut b = b' ';
    while b <= b'~' {
        plain[b as usize] = !matches!(b, b'"' | b'\'' | b'\\' | b'`' | b'$');
        b += 1;
    }
    plain
};

/// A buffer without the bytes before its last `left` ones. If none were used it is not copied: a frame that arrives
/// byte by byte costs no more than its length.
pub fn unused(mut buffer: Vec<u8>, left: usize) -> Vec<u8> {
    let used = buffer.len().saturating_sub(left);
    buffer.drain(..used);
    buffer
}

/// Whether a word may go on the wire: printable ASCII without quotes, at most [`LONGEST_WORD`] long.
pub fn is_word(word: &str) -> bool {
    let plain = |b: u8| PLAIN[usize::from(b)];
    !word.is_empty() && word.len() <= LONGEST_WORD && word.bytes().all(plain)
}

/// A word for a name that this machine's kernel, a driver or a file chose: bytes that words do not have are written as
/// `%XX`, and of a long name the beginning and a checksum remain. One such name must not cost a node its reports.
pub fn word_of(name: &str) -> Cow<'_, str> {
    if is_word(name) {
        return Cow::Borrowed(name);
    }
    let mut word = String::new();
    for b in name.bytes() {
        if PLAIN[usize::from(b)] {
            word.push(char::from(b));
        } else {
            word.push_str(&format!("%{b:02X}"));
        }
    }
    if word.is_empty() {
        word.push('%');
    }
    if word.len() > LONGEST_WORD {
        let sum = crc32fast::hash(name.as_bytes());
        word.truncate(LONGEST_WORD - 9);
        word.push_str(&format!("%{sum:08x}"));
    }
    Cow::Owned(word)
}

/// Decodes bytes from the front with bounds checks.
#[derive(Clone, Debug)]
pub struct Take<'a>(pub &'a [u8]);

impl<'a> Take<'a> {
    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Refusal> {
        if n > self.0.len() {
            return Err(Refusal::new(format!(
                "a frame that ends {} bytes early",
                n - self.0.len()
            )));
        }
        let (taken, rest) = self.0.split_at(n);
        self.0 = rest;
        Ok(taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Refusal> {
        Ok(self.bytes(1)?[0])
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, Refusal> {
        let mut eight = [0; 8];
        eight.copy_from_slice(self.bytes(8)?);
        Ok(u64::from_le_bytes(eight))
    }

    /// Decodes the output of [`put_number`].
    #[inline]
    pub fn number(&mut self) -> Result<u64, Refusal> {
        // Fast path: most numbers take one byte.
        if let Some((&byte @ ..0x80, rest)) = self.0.split_first() {
            self.0 = rest;
            return Ok(byte.into());
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Result<u64, Refusal> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Refusal::new("a number of more than 64 bits"))
    }

    /// Decodes the output of [`put_difference`].
    pub fn difference(&mut self) -> Result<i64, Refusal> {
        Ok(unzigzag(self.number()?))
    }

    /// A count of items that take at least one byte each, at most `most`.
    pub fn count(&mut self, what: &str, most: usize) -> Result<usize, Refusal> {
        let n = self.number()?;
        match usize::try_from(n) {
            Ok(n) if n <= most && n <= self.0.len() => Ok(n),
            Ok(n) if n <= most => Err(Refusal::new(format!("{n} {what} in a shorter frame"))),
            _ => Err(Refusal::new(format!("{n} {what}, the maximum is {most}"))),
        }
    }

    /// A word of printable ASCII without quotes, at most [`LONGEST_WORD`] long.
    pub fn word(&mut self, what: &str) -> Result<&'a str, Refusal> {
        let n = self.count("bytes", LONGEST_WORD);
        let n = n.map_err(|refusal| Refusal::new(format!("{what}: {refusal}")))?;
        let bytes = self.bytes(n)?;
        match std::str::from_utf8(bytes) {
            Ok(word) if is_word(word) => Ok(word),
            _ => Err(Refusal::new(format!(
                "{what} {:?}, expected printable ASCII without quotes",
                String::from_utf8_lossy(bytes)
            ))),
        }
    }

    /// Checks that no bytes are left.
    pub fn end(&self) -> Result<(), Refusal> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Refusal::new(format!("{} bytes too many", self.0.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(a: u64, b: i64) {
            let mut out = Vec::new();
            put_number(&mut out, a);
            put_difference(&mut out, b);
            put_u64(&mut out, a);
            let mut take = Take(&out);
            prop_assert_eq!((take.number()?, take.difference()?, take.u64()?), (a, b, a));
            prop_assert!(take.end().is_ok());
        }

        #[test]
        fn garbage_is_refused_or_read(bytes: Vec<u8>) {
            let mut take = Take(&bytes);
            let _ = take.clone().number();
            let _ = take.word("name");
        }
    }

    #[test]
    fn a_number_has_at_most_64_bits() {
        let mut most = [0xff; 10];
        most[9] = 1;
        assert_eq!(Take(&most).number(), Ok(u64::MAX));
        for last in 2..=255 {
            most[9] = last;
            assert!(Take(&most).number().is_err(), "{last}");
        }
    }

    #[test]
    fn an_incomplete_frame_is_not_copied() {
        let buffer = vec![7; 100];
        let at = buffer.as_ptr();
        let buffer = unused(buffer, 100);
        assert_eq!((buffer.as_ptr(), buffer.len()), (at, 100));
        assert_eq!(unused(vec![1, 2, 3], 1), [3]);
    }

    #[test]
    fn every_name_has_a_word_of_its_own() {
        let long = "x".repeat(300);
        let names = [
            "",
            "eth0",
            "a b",
            "a%b",
            "a$b",
            "a\"b",
            "a\nb",
            "a\0b",
            "é",
            &long,
            &long[1..],
        ];
        let words: Vec<String> = names.iter().map(|n| word_of(n).into_owned()).collect();
        assert!(words.iter().all(|w| is_word(w)), "{words:?}");
        assert_eq!(words[4..7], ["a%24b", "a%22b", "a%0Ab"]);
        let distinct: std::collections::HashSet<_> = words.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn words_are_checked() {
        let word = |text: &str| {
            let mut out = Vec::new();
            put_word(&mut out, text);
            Take(&out)
                .word("node")
                .map(str::to_owned)
                .map_err(|r| r.to_string())
        };
        assert_eq!(word("c0-0c0s0n1").as_deref(), Ok("c0-0c0s0n1"));
        for bad in ["", "a\nb", "a\"b", "é", &"x".repeat(129)] {
            assert!(word(bad).is_err(), "{bad}");
        }
    }
}
