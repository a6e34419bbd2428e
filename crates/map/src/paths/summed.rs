//! Routes between few places, with a stored price per pair.

use super::{Paths, Prices};
use hopbyte_fabric::LinkId;

/// Routes with stored prices: between few places, updating the sums that contain a changed link costs less than
/// adding up the prices along a route at every query.
pub(crate) struct Summed<P> {
    paths: P,
    places: usize,
    /// For every link the pairs of places (source × places + target) that use it, with their shares.
    uses: Vec<Vec<(u32, f64)>>,
}

impl<P: Paths> Summed<P> {
    /// The same routes between `places` places.
    pub(crate) fn new(paths: P, places: usize) -> Self {
        let mut uses = vec![Vec::new(); paths.links()];
        for a in 0..places as u32 {
            for b in 0..places as u32 {
                let pair = a * places as u32 + b;
                paths.each(a, b, |link, share| uses[link].push((pair, share)));
            }
        }
        Self {
            paths,
            places,
            uses,
        }
    }
}

impl<P: Paths> Paths for Summed<P> {
    fn links(&self) -> usize {
        self.paths.links()
    }

    fn link(&self, number: usize) -> LinkId {
        self.paths.link(number)
    }

    #[inline]
    fn each(&self, a: u32, b: u32, f: impl FnMut(usize, f64)) {
        self.paths.each(a, b, f);
    }

    fn prices(&self) -> Prices {
        Prices(vec![0.0; self.links() + self.places * self.places])
    }

    fn reprice(&self, prices: &mut Prices, changed: &[u32], value: impl Fn(usize) -> f64) {
        let (of_link, of_pair) = prices.0.split_at_mut(self.links());
        if changed.len() == of_link.len() {
            // A full update also resets accumulated rounding errors.
            of_link.fill(0.0);
            of_pair.fill(0.0);
        }
        for &link in changed {
            let new = value(link as usize);
            let more = new - std::mem::replace(&mut of_link[link as usize], new);
            for &(pair, share) in &self.uses[link as usize] {
                of_pair[pair as usize] += more * share;
            }
        }
    }

    #[inline]
    fn price(&self, prices: &Prices, a: u32, b: u32) -> f64 {
        prices.0[self.links() + a as usize * self.places + b as usize]
    }
}
