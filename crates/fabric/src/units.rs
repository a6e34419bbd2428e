//! Units. Base units are bytes, seconds and bytes per second; GB is 10^9 bytes throughout.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A rate in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BytesPerSecond(pub f64);

impl BytesPerSecond {
    /// From GB/s (10^9 bytes per second), the unit of the papers.
    pub const fn from_gb(gb_per_s: f64) -> Self {
        Self(gb_per_s * 1e9)
    }

    /// The rate in GB/s.
    pub fn gb(self) -> f64 {
        self.0 / 1e9
    }

    /// The rate in GB/s as text, with `decimals` digits after the point or as many as three significant digits need.
    pub fn gb_text(self, decimals: usize) -> String {
        let gb = self.gb();
        let digits = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
        let short = significant(gb, 3);
        match digits(&short) > decimals {
            true => short,
            false => format!("{gb:.decimals$}"),
        }
    }
}

impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GB/s", self.gb_text(2))
    }
}

/// A time span in seconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub f64);

impl fmt::Display for Seconds {
    /// Three significant digits in s, ms, us or ns, by magnitude.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0.abs() {
            x if x == 0.0 || x >= 1.0 => (self.0, "s"),
            x if x >= 1e-3 => (self.0 * 1e3, "ms"),
            x if x >= 1e-6 => (self.0 * 1e6, "us"),
            _ => (self.0 * 1e9, "ns"),
        };
        write!(f, "{} {unit}", significant(value, 3))
    }
}

/// Bytes as text: `12.3 MB`, decimal units, three significant digits.
pub fn bytes_text(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes;
    let mut unit = 0;
    while value.abs() >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    format!("{} {}", significant(value, 3), UNITS[unit])
}

/// A number with `digits` significant digits, without an exponent.
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // Round first: 999.6 has four digits before the point after rounding to three.
    let rounded: f64 = format!("{value:.*e}", (digits - 1).max(0) as usize)
        .parse()
        .unwrap_or(value);
    let decimals = (digits - 1 - rounded.abs().log10().floor() as i32).clamp(0, 12);
    format!("{rounded:.*}", decimals as usize)
}

/// The unit and its factor that give the largest of some values up to three digits before the point.
pub fn scale(largest: f64, units: &[(&'static str, f64)]) -> (&'static str, f64) {
    let fits = units
        .iter()
        .find(|(_, factor)| largest.abs() < 999.95 * factor);
    fits.or(units.last()).copied().unwrap_or(("", 1.0))
}

/// Units of time for [`scale`], smallest first.
pub const TIMES: [(&str, f64); 3] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
/// Units of size for [`scale`], smallest first.
pub const SIZES: [(&str, f64); 5] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
];

/// A share in per cent, with three significant digits.
pub fn percent(share: f64) -> String {
    format!("{} %", significant(100.0 * share, 3))
}

/// A whole number with thousands separators: `184,320`.
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_short_and_scaled() {
        assert_eq!(Seconds(2.56e-5).to_string(), "25.6 us");
        assert_eq!(Seconds(1.5).to_string(), "1.50 s");
        assert_eq!(Seconds(0.0).to_string(), "0 s");
        assert_eq!(bytes_text(12_345_678.0), "12.3 MB");
        assert_eq!(bytes_text(999.6), "1.00 kB");
        assert_eq!(BytesPerSecond::from_gb(9.375).to_string(), "9.38 GB/s");
    }

    #[test]
    fn low_rates_have_three_digits_too() {
        let texts = |gb: f64| [2, 3].map(|decimals| BytesPerSecond::from_gb(gb).gb_text(decimals));
        assert_eq!(texts(9.375), ["9.38", "9.375"]);
        assert_eq!(texts(100.0), ["100.00", "100.000"]);
        assert_eq!(texts(0.00625), ["0.00625", "0.00625"]);
        assert_eq!(texts(0.0001), ["0.000100", "0.000100"]);
        assert_eq!(texts(0.0), ["0.00", "0.000"]);
    }

    #[test]
    fn units_fit_the_largest_value() {
        assert_eq!(scale(2.5e-4, &TIMES), ("us", 1e-6));
        assert_eq!(scale(0.0, &SIZES), ("B", 1.0));
        assert_eq!(scale(15.36e6, &SIZES), ("MB", 1e6));
        assert_eq!(scale(1e20, &SIZES), ("TB", 1e12));
    }

    #[test]
    fn counts_have_thousands_separators() {
        assert_eq!(
            [0, 999, 1000, 184_320].map(count),
            ["0", "999", "1,000", "184,320"]
        );
    }
}
