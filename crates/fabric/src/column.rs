//! One value a link, or the reason why there is none: the one encoding of missing values.

use crate::ids::LinkId;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Why a value is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missing {
    /// No source counts it.
    Uncounted,
    /// The source could not read it.
    Unread,
    /// The device began to count anew: another boot, a fall that is no wrap, or a rise that the link
    /// cannot have carried.
    Reset,
    /// The counter stands at its highest value, where it sticks.
    Stuck,
    /// So much time lies between the readings that the counter may have wrapped unseen.
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

    /// The reason in words, for messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::Uncounted => "no source counts it",
            Self::Unread => "could not be read",
            Self::Reset => "counter began anew",
            Self::Stuck => "counter stuck at its highest value",
            Self::Gap => "too long between readings, it may have wrapped",
            Self::ZeroInterval => "no time passed",
            Self::Down => "link down",
        }
    }

    /// Not-a-number with the reason in its lowest bits.
    fn encoded(self) -> f64 {
        f64::from_bits(f64::NAN.to_bits() & !0xff | self as u64)
    }

    /// The reason inside a not-a-number; [`Missing::Unread`] where it says none of ours.
    fn decoded(value: f64) -> Self {
        let code = (value.to_bits() & 0xff) as usize;
        Self::ALL.get(code).copied().unwrap_or(Self::Unread)
    }
}

/// One value a link: known, or [`Missing`] for a reason.
///
/// In memory a missing value is a not-a-number that carries its reason, so that NumPy and pictures take
/// the array as it is; everything else asks [`Column::read`] or [`Column::get`].
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

    /// The value of a link, or why it is not known.
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

    /// Sets a value, or clears it: then no source counts it.
    pub fn set(&mut self, link: LinkId, value: Option<f64>) {
        self.put(link, value.ok_or(Missing::Uncounted));
    }

    /// Sets a value, or says why it is not known. Not-a-number is [`Missing::Unread`].
    pub fn put(&mut self, link: LinkId, value: Result<f64, Missing>) {
        let value = value.and_then(|v| (!v.is_nan()).then_some(v).ok_or(Missing::Unread));
        self.0[link.index()] = value.unwrap_or_else(Missing::encoded);
    }

    /// Order of links with the largest value first and unknown ones last.
    pub fn largest_first(&self, a: LinkId, b: LinkId) -> Ordering {
        match (self.get(a), self.get(b)) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }

    /// The raw array, unknown as not-a-number (the form NumPy and plots want).
    pub fn as_slice(&self) -> &[f64] {
        &self.0
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
