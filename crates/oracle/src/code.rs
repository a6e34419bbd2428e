//! Encoding of link values in matrix kernels: unknown is a number, so that loops have no branches and rows hold
//! 4-byte floats.

use crate::metric::{Aggregate, Metric};

/// The largest 4-byte float below 1.
const BELOW_ONE: f64 = 1.0 - f32::EPSILON as f64 / 2.0;
/// The next smaller one.
const NEXT_BELOW_ONE: f64 = 1.0 - f32::EPSILON as f64;

/// Sums: unknown is so large that it outweighs every known value. Maxima of ratios: unknown is the largest number
/// below 1, so that a known 1 still determines the maximum. No route is infinite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    max: bool,
    pub(crate) unknown: f64,
    /// Results in `unknown_from..unknown_below` are unknown.
    unknown_from: f32,
    unknown_below: f32,
}

impl Code {
    pub(crate) fn new(metric: Metric, aggregate: Aggregate) -> Self {
        let max = aggregate == Aggregate::Max;
        let (unknown, from, below) = if max && metric.ceiling() == 1.0 {
            (BELOW_ONE, BELOW_ONE as f32, 1.0)
        } else {
            (1e32, 1e25, f32::INFINITY)
        };
        Self {
            max,
            unknown,
            unknown_from: from,
            unknown_below: below,
        }
    }

    /// The code of a link's value.
    pub(crate) fn encode(self, value: f64) -> f64 {
        if value.is_nan() {
            self.unknown
        } else if (BELOW_ONE..1.0).contains(&value) {
            // These are the same number in a matrix, and the former may mean unknown.
            NEXT_BELOW_ONE
        } else {
            value
        }
    }

    /// Whether parts of a route are combined by maximum.
    pub(crate) fn is_max(self) -> bool {
        self.max
    }

    /// The matrix entry for a code.
    #[inline(always)]
    pub(crate) fn decode(self, code: f32) -> f32 {
        if code >= self.unknown_from && code < self.unknown_below {
            f32::NAN
        } else {
            code
        }
    }

    /// The code of two parts of a route combined.
    #[inline(always)]
    pub(crate) fn join(self, a: f64, b: f64) -> f64 {
        if !self.max {
            a + b
        } else if a > b {
            a
        } else {
            b
        }
    }
}

/// A sum divided by a number of links; codes of unknown and of no route are unchanged.
#[inline(always)]
pub(crate) fn mean_of(sum: f64, links: f64) -> f64 {
    if links > 0.0 { sum / links } else { sum }
}
