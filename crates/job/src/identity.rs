//! Do two runs of a command ask the same? A sum over everything that decides what comes out.

/// A sum that grows: 64-bit FNV-1a.
pub struct Sum(u64);

impl Default for Sum {
    fn default() -> Self {
        Self::new()
    }
}

impl Sum {
    /// Begins with this program's version, since another may answer otherwise.
    pub fn new() -> Self {
        let mut sum = Self(0xcbf2_9ce4_8422_2325);
        sum.add(env!("CARGO_PKG_VERSION").as_bytes());
        sum
    }

    /// Adds a part; its end counts too.
    pub fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes.iter().chain(&[0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// 16 hexadecimal digits.
    pub fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}
