//! The hash in external data: fingerprints, the end of a binary machine, boot identities on the wire and in a store.
//!
//! 64-bit FNV-1a (Fowler, Noll and Vo; RFC 9923): start with `OFFSET_BASIS`; for every byte, exclusive or with the
//! byte, then multiply by `PRIME` modulo 2^64. It detects accidental changes, not forgeries: authentication on the
//! wire is HMAC-SHA-256, check sums of stored blocks are CRC-32.

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// State of a 64-bit FNV-1a hash.
#[derive(Clone, Debug)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(OFFSET_BASIS)
    }
}

impl Fnv {
    /// Adds bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(PRIME)
        });
    }

    /// Adds bytes and a zero byte, so that the boundaries of parts affect the hash.
    pub fn part(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
        self.bytes(&[0]);
    }

    /// The hash of all bytes so far.
    pub fn value(&self) -> u64 {
        self.0
    }

    /// The value in 16 hexadecimal digits.
    pub fn hex(&self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The 64-bit FNV-1a hash of some bytes.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = Fnv::default();
    hash.bytes(bytes);
    hash.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors() {
        // RFC 9923, appendix C.
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv1a(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn borders_between_parts_count() {
        let of = |parts: &[&str]| {
            let mut hash = Fnv::default();
            parts.iter().for_each(|part| hash.part(part.as_bytes()));
            hash.hex()
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_eq!(of(&["a"]), format!("{:016x}", fnv1a(b"a\0")));
    }
}
