//! What nodes count of themselves beside their links.

use crate::ids::NodeId;
use std::collections::BTreeMap;

/// Times of one node over an interval, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeTimes {
    /// Time in which the most delayed thread was ready to run and had no processor.
    pub waited_seconds: f64,
    /// The interval.
    pub window_seconds: f64,
}

/// By node.
pub type TimesOfNodes = BTreeMap<NodeId, NodeTimes>;

impl NodeTimes {
    /// Adds the times of the next interval.
    pub fn add(&mut self, next: &Self) {
        self.waited_seconds += next.waited_seconds;
        self.window_seconds += next.window_seconds;
    }

    /// Share of the interval in which the most delayed thread had no processor (0..1); `None` of an empty interval.
    pub fn waited_ratio(&self) -> Option<f64> {
        let known = self.window_seconds > 0.0;
        known.then(|| (self.waited_seconds / self.window_seconds).min(1.0))
    }
}
