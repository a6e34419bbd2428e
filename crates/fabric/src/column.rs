//! One value per link, or the reason for its absence: the single encoding of missing values.

use crate::ids::LinkId;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Reason for a missing value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missing {
    /// No source has this counter.
    Uncounted,
    /// The source could not read it.
    Unread,
    /// The device reset its counters: another boot, a decrease that is not a wrap, or an increase above the link's
    /// capacity.
    Reset,
    /// The counter saturated at its highest value.
    Stuck,
    /// The window is so long that the counter may have wrapped unnoticed.
    Gap,
    /// No time passed between the readings.
    ZeroInterval,
    /// The link has no lane in service.
    Down,
}

impl Missing {
    const ALL: [Self; 7] = [
        Self::Uncounted,
        Self::Unread,
        Self::Reset,
        Self::Stuck,
        Self::Gap,
        Self::ZeroInterval,
        Self::Down,
    ];

    /// The reason as text for messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::Uncounted => "no source counts it",
            Self::Unread => "could not be read",
            Self::Reset => "counter was reset",
            Self::Stuck => "counter stuck at its highest value",
            Self::Gap => "too long between readings, it may have wrapped",
            Self::ZeroInterval => "no time passed, or the clock went back",
            Self::Down => "link down",
        }
    }

    /// NaN with the reason in its lowest bits.
    fn encoded(self) -> f64 {
        f64::from_bits(f64::NAN.to_bits() & !0xff | self as u64)
    }

    /// The reason inside a NaN; [`Missing::Unread`] for other bits.
    fn decoded(value: f64) -> Self {
        let code = (value.to_bits() & 0xff) as usize;
        Self::ALL.get(code).copied().unwrap_or(Self::Unread)
    }
}

/// One value per link: known, or [`Missing`] with a reason.
///
/// In memory a missing value is a NaN that carries its reason, so NumPy and plots can use the array directly; other
/// users call [`Column::read`] or [`Column::get`].
#[derive(Clone, Debug)]
pub struct Column(Vec<f64>);

impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        let same = |(&a, &b): (&f64, &f64)| a == b || a.to_bits() == b.to_bits();
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Column {
    /// All [`Missing::Uncounted`].
    pub fn unknown(links: usize) -> Self {
        Self(vec![Missing::Uncounted.encoded(); links])
    }

    /// The value of a link, or the reason for its absence.
    #[inline]
    pub fn read(&self, link: LinkId) -> Result<f64, Missing> {
        let value = self.0[link.index()];
        if value.is_nan() {
            return Err(Missing::decoded(value));
        }
        Ok(value)
    }

    /// The value of a link, if known.
    #[inline]
    pub fn get(&self, link: LinkId) -> Option<f64> {
        let value = self.0[link.index()];
        (!value.is_nan()).then_some(value)
    }

    /// Sets a value, or clears it to [`Missing::Uncounted`].
    pub fn set(&mut self, link: LinkId, value: Option<f64>) {
        self.put(link, value.ok_or(Missing::Uncounted));
    }

    /// Sets a value or the reason for its absence. NaN is [`Missing::Unread`].
    pub fn put(&mut self, link: LinkId, value: Result<f64, Missing>) {
        let value = value.and_then(|v| (!v.is_nan()).then_some(v).ok_or(Missing::Unread));
        self.0[link.index()] = value.unwrap_or_else(Missing::encoded);
    }

    /// Links ordered by descending value, missing values last.
    pub fn largest_first(&self, a: LinkId, b: LinkId) -> Ordering {
        match (self.get(a), self.get(b)) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }

    /// The raw array, missing values as NaN (for NumPy and plots).
    pub fn as_slice(&self) -> &[f64] {
        &self.0
    }

    /// The median of the known values, of two the larger one.
    pub fn median(&self) -> Option<f64> {
        let mut known: Vec<f64> = self.0.iter().copied().filter(|v| v.is_finite()).collect();
        let middle = known.len() / 2;
        (!known.is_empty()).then(|| *known.select_nth_unstable_by(middle, f64::total_cmp).1)
    }

    /// Number of known values.
    pub fn known(&self) -> usize {
        self.0.iter().filter(|v| !v.is_nan()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_comes_back() {
        let mut column = Column::unknown(8);
        for (i, why) in Missing::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, i, "ALL is in the order of the variants");
            column.put(LinkId::of(i), Err(why));
            assert_eq!(column.read(LinkId::of(i)), Err(why));
            assert_eq!(column.get(LinkId::of(i)), None);
        }
        column.put(LinkId::of(7), Ok(f64::NAN));
        assert_eq!(column.read(LinkId::of(7)), Err(Missing::Unread));
        column.put(LinkId::of(7), Ok(-0.0));
        assert_eq!((column.read(LinkId::of(7)), column.known()), (Ok(0.0), 1));
        assert_eq!(column, column.clone());
        let mut other = column.clone();
        other.put(LinkId::of(0), Err(Missing::Down));
        assert_ne!(column, other);
    }
}
