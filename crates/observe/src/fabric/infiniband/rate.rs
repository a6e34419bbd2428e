//! Width and speed of an InfiniBand link.

use hopbyte_fabric::infiniband::{SPEEDS, WIDTHS, capacity};
use hopbyte_fabric::units::BytesPerSecond;
use std::fmt;

/// Trained width and speed of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Lanes: 1, 2, 4, 8 or 12.
    pub width: u8,
    /// Position in the table of speeds; `None` if the dump has `???` or an unknown name.
    speed: Option<u8>,
}

impl Rate {
    /// An unknown rate: four lanes, unknown speed.
    pub const UNKNOWN: Self = Self {
        width: 4,
        speed: None,
    };

    /// Reads `4x` and `QDR`; `None` if the first word is not a width.
    pub fn parse(width: &[u8], speed: &[u8]) -> Option<Self> {
        let lanes = width.strip_suffix(b"x").or(width.strip_suffix(b"X"))?;
        let width = WIDTHS
            .into_iter()
            .find(|w| w.to_string().as_bytes() == lanes)?;
        let speed = SPEEDS
            .iter()
            .position(|(name, _)| name.as_bytes().eq_ignore_ascii_case(speed));
        Some(Self {
            width,
            speed: speed.map(|s| s as u8),
        })
    }

    /// From a width such as `4x` and the signalling rate of a lane in Gbit/s, rounded or not, as in the output of
    /// OpenSM and iblinkinfo.
    pub fn of_lane(width: &[u8], gbit_per_s: Option<f64>) -> Option<Self> {
        let name: &[u8] = match gbit_per_s {
            Some(g) if g < 4.0 => b"SDR",
            Some(g) if g < 8.0 => b"DDR",
            Some(g) if g <= 10.1 => b"QDR",
            Some(g) if g < 12.0 => b"FDR10",
            Some(g) if g < 20.0 => b"FDR",
            Some(g) if g < 40.0 => b"EDR",
            Some(g) if g < 80.0 => b"HDR",
            Some(g) if g < 150.0 => b"NDR",
            Some(g) if g < 300.0 => b"XDR",
            _ => b"???",
        };
        Self::parse(width, name)
    }

    /// From the codes of a port's `PortInfo`: active width, speed and extended speed; `None` if one is unknown.
    pub fn of_codes(width: u64, speed: u64, extended: u64) -> Option<Self> {
        let width = match width {
            1 => b"1x".as_slice(),
            2 => b"4x",
            4 => b"8x",
            8 => b"12x",
            16 => b"2x",
            _ => return None,
        };
        let speed = match (extended, speed) {
            (1, _) => b"FDR",
            (2, _) => b"EDR",
            (4, _) => b"HDR",
            (8, _) => b"NDR",
            (0, 1) => b"SDR",
            (0, 2) => b"DDR",
            (0, 4) => b"QDR",
            _ => return None,
        };
        Self::parse(width, speed)
    }

    /// Reads `4xQDR`.
    pub fn parse_joined(word: &[u8]) -> Option<Self> {
        let end = word.iter().position(|b| b.eq_ignore_ascii_case(&b'x'))?;
        Self::parse(&word[..=end], &word[end + 1..])
    }

    /// Whether the speed is known.
    pub fn is_known(self) -> bool {
        self.speed.is_some()
    }

    /// Data rate of one direction. An unknown speed counts as SDR, which every port supports.
    pub fn capacity(self) -> BytesPerSecond {
        capacity(self.width, usize::from(self.speed.unwrap_or(0)))
    }

    /// Common rate of the two ends of a cable: the known one, else the slower one.
    #[must_use]
    pub fn agreed(self, other: Self) -> Self {
        match (self.speed, other.speed) {
            (None, Some(_)) => other,
            (Some(_), Some(_)) if other.capacity() < self.capacity() => other,
            _ => self,
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let speed = self.speed.map_or("???", |s| SPEEDS[usize::from(s)].0);
        write!(f, "{}x{speed}", self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_rates_are_those_of_the_standard() {
        for (text, gb) in [
            ("4xSDR", 1.0),
            ("1xQDR", 1.0),
            ("4xFDR", 6.818),
            ("12xEDR", 37.5),
            ("2xNDR", 25.0),
        ] {
            let rate = Rate::parse_joined(text.as_bytes()).unwrap();
            assert!((rate.capacity().gb() - gb).abs() < 1e-3, "{text}");
            assert_eq!(rate.to_string(), text);
        }
        let unknown = Rate::parse(b"4x", b"???").unwrap();
        let known = Rate::parse(b"4x", b"QDR").unwrap();
        assert_eq!(unknown.to_string(), "4x???");
        assert_eq!(
            (unknown.agreed(known), known.agreed(unknown)),
            (known, known)
        );
        assert_eq!(Rate::parse(b"5x", b"QDR"), None);
        for (lane, name) in [
            (2.5, "4xSDR"),
            (5.0, "4xDDR"),
            (10.0, "4xQDR"),
            (10.3125, "4xFDR10"),
            (14.0625, "4xFDR"),
            (25.78125, "4xEDR"),
            (53.125, "4xHDR"),
            (106.25, "4xNDR"),
            (212.5, "4xXDR"),
        ] {
            let rate = Rate::of_lane(b"4X", Some(lane)).unwrap();
            assert_eq!(rate.to_string(), name);
        }
    }
}
