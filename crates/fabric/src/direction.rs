//! Directions on a grid.

use std::fmt;

/// A direction on a grid: dimension and sign, written `X+`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Direction {
    /// Dimension from 0.
    pub dim: u8,
    /// Towards higher coordinates.
    pub positive: bool,
}

/// Letters of the dimensions, in order.
const DIMENSIONS: &[u8; 6] = b"XYZWVU";

impl Direction {
    /// Largest number of dimensions of a grid.
    pub const MAX_DIMENSIONS: usize = DIMENSIONS.len();

    /// Index into arrays with two entries per dimension: 2 × dimension, plus 1 for the negative direction.
    #[inline]
    pub fn index(self) -> usize {
        2 * self.dim as usize + usize::from(!self.positive)
    }

    /// The direction at index [`Direction::index`].
    pub fn of(index: usize) -> Self {
        Self {
            dim: (index / 2) as u8,
            positive: index.is_multiple_of(2),
        }
    }

    /// The opposite direction.
    #[must_use]
    pub fn opposite(self) -> Self {
        Self {
            positive: !self.positive,
            ..self
        }
    }

    /// Parses `X+`, `Y-`, …
    pub fn parse(text: &str) -> Option<Self> {
        let [letter, sign] = *text.as_bytes() else {
            return None;
        };
        let dim = DIMENSIONS
            .iter()
            .position(|&d| d == letter.to_ascii_uppercase())? as u8;
        match sign {
            b'+' => Some(Self {
                dim,
                positive: true,
            }),
            b'-' => Some(Self {
                dim,
                positive: false,
            }),
            _ => None,
        }
    }

    /// Letter of a dimension.
    pub fn letter(dim: usize) -> char {
        DIMENSIONS.get(dim).map_or('?', |&b| b as char)
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}",
            Self::letter(self.dim as usize),
            if self.positive { '+' } else { '-' }
        )
    }
}
