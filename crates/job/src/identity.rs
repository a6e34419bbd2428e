//! Do two runs of a command ask the same? A sum over everything that decides what comes out.

use hopbyte_fabric::hash::Fnv;

/// A sum that grows.
pub struct Sum(Fnv);

impl Default for Sum {
    fn default() -> Self {
        Self::new()
    }
}

impl Sum {
    /// Begins with this program's version, since another may answer otherwise.
    pub fn new() -> Self {
        let mut sum = Self(Fnv::default());
        sum.add(env!("CARGO_PKG_VERSION").as_bytes());
        sum
    }

    /// Adds a part; its end counts too.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.part(bytes);
    }

    /// 16 hexadecimal digits.
    pub fn text(&self) -> String {
        self.0.hex()
    }
}
