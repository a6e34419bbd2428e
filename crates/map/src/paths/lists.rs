//! Lists of links with their shares, by number.

use std::ops::Range;

/// A share as searches use it, in single precision: the memory of stored routes is that of their shares.
#[inline]
pub(crate) fn rounded(share: f64) -> f64 {
    f64::from(share as f32)
}

/// See the module documentation.
pub(crate) struct Lists {
    /// Start of every list, and the end of the last one.
    offsets: Vec<u32>,
    links: Vec<u32>,
    /// Empty if all are 1, and never made for single paths: on a large machine they would take as much memory as their
    /// links. In single precision, see [`rounded`].
    shares: Vec<f32>,
}

impl Lists {
    pub(crate) fn new() -> Self {
        Self {
            offsets: vec![0],
            links: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// Number of links of all lists.
    pub(crate) fn entries(&self) -> usize {
        self.links.len()
    }

    /// A number above those of all links.
    pub(crate) fn links(&self) -> usize {
        self.links.iter().max().map_or(0, |&l| l as usize + 1)
    }

    /// Number of lists.
    pub(crate) fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Adds a list.
    pub(crate) fn push(&mut self, steps: impl IntoIterator<Item = (u32, f64)>) {
        for (link, share) in steps {
            let share = share as f32;
            if share != 1.0 && self.shares.is_empty() {
                self.shares.resize(self.links.len(), 1.0);
            }
            self.links.push(link);
            if share != 1.0 || !self.shares.is_empty() {
                self.shares.push(share);
            }
        }
        self.offsets.push(self.links.len() as u32);
    }

    /// Adds the lists of another.
    pub(crate) fn append(&mut self, other: &Self) {
        self.add(&other.links, &other.shares);
        let begin = self.links.len() as u32 - other.links.len() as u32;
        self.offsets
            .extend(other.offsets[1..].iter().map(|end| begin + end));
    }

    /// Adds one list of another.
    pub(crate) fn copy(&mut self, other: &Self, at: usize) {
        let range = other.range(at);
        let shares = other.shares.get(range.clone()).unwrap_or_default();
        self.add(&other.links[range], shares);
        self.offsets.push(self.links.len() as u32);
    }

    fn add(&mut self, links: &[u32], shares: &[f32]) {
        if !shares.is_empty() || !self.shares.is_empty() {
            self.shares.resize(self.links.len(), 1.0);
            self.shares.extend(shares);
            self.shares.resize(self.links.len() + links.len(), 1.0);
        }
        self.links.extend(links);
    }

    /// Whether a list has no links.
    pub(crate) fn is_empty(&self, at: usize) -> bool {
        self.range(at).is_empty()
    }

    /// Whether two lists are the same.
    pub(crate) fn is_same(&self, a: usize, b: usize) -> bool {
        let list = |at: usize| {
            let range = self.range(at);
            (&self.links[range.clone()], self.shares.get(range))
        };
        list(a) == list(b)
    }

    #[inline]
    fn range(&self, at: usize) -> Range<usize> {
        self.offsets[at] as usize..self.offsets[at + 1] as usize
    }

    /// Calls `f(link, share)` for every link of a list.
    #[inline]
    pub(crate) fn each(&self, at: usize, mut f: impl FnMut(usize, f64)) {
        let range = self.range(at);
        if self.shares.is_empty() {
            for &link in &self.links[range] {
                f(link as usize, 1.0);
            }
        } else {
            let shares = &self.shares[range.clone()];
            for (&link, &share) in self.links[range].iter().zip(shares) {
                f(link as usize, f64::from(share));
            }
        }
    }

    /// `first` plus the sum of price × share over a list.
    #[inline]
    pub(crate) fn price(&self, at: usize, prices: &[f64], first: f64) -> f64 {
        let range = self.range(at);
        if self.shares.is_empty() {
            let links = self.links[range].iter();
            return links.fold(first, |sum, &l| sum + prices[l as usize]);
        }
        let shares = &self.shares[range.clone()];
        let steps = self.links[range].iter().zip(shares);
        steps.fold(first, |sum, (&l, &s)| {
            sum + prices[l as usize] * f64::from(s)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_paths_take_no_room_for_shares() {
        let mut lists = Lists::new();
        lists.push([(3, 1.0), (4, 1.0)]);
        assert_eq!(lists.shares.capacity(), 0);
        let mut more = Lists::new();
        more.push([(5, 0.5), (6, 0.5)]);
        lists.append(&more);
        lists.copy(&more, 0);
        let mut found = Vec::new();
        (0..3).for_each(|at| lists.each(at, |link, share| found.push((link, share))));
        let expected = [(3, 1.0), (4, 1.0), (5, 0.5), (6, 0.5), (5, 0.5), (6, 0.5)];
        assert_eq!(found, expected);
        assert!(lists.is_same(1, 2) && !lists.is_same(0, 1));
        let prices: Vec<f64> = (0..7).map(f64::from).collect();
        assert_eq!([0, 1].map(|at| lists.price(at, &prices, 1.0)), [8.0, 6.5]);
    }
}
