//! Costs of pairs without routes: every ordered pair of places is a link of its own.

use super::{Paths, Prices};
use hopbyte_fabric::LinkId;

/// A pair's "link" is `from × places + to`; the price of a byte is the link's price.
pub(crate) struct MatrixPaths {
    /// Number of places.
    pub(crate) places: usize,
}

impl Paths for MatrixPaths {
    fn links(&self) -> usize {
        self.places * self.places
    }

    fn link(&self, number: usize) -> LinkId {
        LinkId::of(number)
    }

    #[inline]
    fn each(&self, a: u32, b: u32, mut f: impl FnMut(usize, f64)) {
        if a != b {
            f(a as usize * self.places + b as usize, 1.0);
        }
    }

    fn prices(&self) -> Prices {
        Prices(vec![0.0; self.links()])
    }

    fn reprice(&self, prices: &mut Prices, changed: &[u32], value: impl Fn(usize) -> f64) {
        for &link in changed {
            prices.0[link as usize] = value(link as usize);
        }
    }

    #[inline]
    fn price(&self, prices: &Prices, a: u32, b: u32) -> f64 {
        if a == b {
            return 0.0;
        }
        prices.0[a as usize * self.places + b as usize]
    }
}
