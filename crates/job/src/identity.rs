//! A fingerprint of all inputs that determine a command's result, to recognise equal runs.

use hopbyte_fabric::hash::Fnv;

/// An incremental checksum.
pub struct Sum(Fnv);

impl Default for Sum {
    fn default() -> Self {
        Self::new()
    }
}

impl Sum {
    /// Starts with this program's version, since other versions may give other results.
    pub fn new() -> Self {
        let mut sum = Self(Fnv::default());
        sum.add(env!("CARGO_PKG_VERSION").as_bytes());
        sum
    }

    /// Adds a part, including its length.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.part(bytes);
    }

    /// 16 hexadecimal digits.
    pub fn text(&self) -> String {
        self.0.hex()
    }
}
