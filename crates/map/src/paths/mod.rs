//! Routes between places, in forms that are fast to search with.
//!
//! A place is a position in the allocation. Every form of route supports two queries: each link with its share
//! (to update loads), and the sum of link prices along the route (to bound the cost of a move without reading
//! loads). Each form has its own link numbers, in its order of access; [`Paths::link`] translates.

pub(crate) mod computed;
pub(crate) mod grid;
pub(crate) mod hosts;
mod lists;
pub(crate) mod routers;
pub(crate) mod summed;
pub(crate) mod table;
#[cfg(test)]
pub(crate) mod tests;

use hopbyte_fabric::LinkId;

/// Routes between places.
pub(crate) trait Paths: Sync {
    /// Number of links in this form's numbering.
    fn links(&self) -> usize;

    /// The fabric's link for a number.
    fn link(&self, number: usize) -> LinkId;

    /// Calls `f(link, share)` for every link from `a` to `b`; no call if they are the same place.
    fn each(&self, a: u32, b: u32, f: impl FnMut(usize, f64));

    /// Adds many flows, (from, to, bytes), to the loads of links.
    fn load(&self, flows: impl Iterator<Item = (u32, u32, f64)>, load: &mut [f64]) {
        for (a, b, bytes) in flows {
            self.each(a, b, |link, share| load[link] += bytes * share);
        }
    }

    /// A table of prices for [`Paths::price`], all zero.
    fn prices(&self) -> Prices;

    /// Applies new link prices, `value(link)` for each of `changed`.
    fn reprice(&self, prices: &mut Prices, changed: &[u32], value: impl Fn(usize) -> f64);

    /// Sum of share × price along the route from `a` to `b`.
    fn price(&self, prices: &Prices, a: u32, b: u32) -> f64;
}

/// Link prices in the form that their [`Paths`] sums fastest.
#[derive(Clone, Debug)]
pub(crate) struct Prices(Vec<f64>);
