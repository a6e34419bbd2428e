//! Which links does a byte between two places cross, as fast as a search needs to know it?
//!
//! A place is a position in the allocation. Every form of route answers two questions: each link with
//! its share (to move load), and the sum of link prices along the way (to judge a move without
//! touching any load). Links have numbers of their own here, so that a form can lay them out as it
//! reads them; [`Paths::link`] translates.

pub(crate) mod grid;
pub(crate) mod stored;
pub(crate) mod summed;
#[cfg(test)]
mod tests;

use hopbyte_fabric::LinkId;

/// Routes between places.
pub(crate) trait Paths: Sync {
    /// Number of links in this form's numbering.
    fn links(&self) -> usize;

    /// The fabric's link behind a number.
    fn link(&self, number: usize) -> LinkId;

    /// Calls `f(link, share)` for every link from `a` to `b`; nothing when they are one place.
    fn each(&self, a: u32, b: u32, f: impl FnMut(usize, f64));

    /// A table of prices for [`Paths::price`], all zero.
    fn prices(&self) -> Prices;

    /// Takes over new prices of links, `value(link)` for each of `changed`.
    fn reprice(&self, prices: &mut Prices, changed: &[u32], value: impl Fn(usize) -> f64);

    /// Sum of share × price along the way from `a` to `b`.
    fn price(&self, prices: &Prices, a: u32, b: u32) -> f64;
}

/// Prices of links in the form that their [`Paths`] sums fastest.
#[derive(Clone, Debug)]
pub(crate) struct Prices(Vec<f64>);
