//! Collectives that some members of a group have begun.

use super::OpId;
use std::collections::{HashMap, VecDeque};

/// A rank's call of a collective, with its begin and end if the rank goes on meanwhile.
pub(super) struct Arrival {
    pub(super) rank: u32,
    pub(super) at: usize,
    pub(super) later: Option<(OpId, OpId)>,
}

/// Collectives of a group that not all members have begun, in order.
#[derive(Default)]
pub(super) struct Open {
    /// Number of the first of these.
    first: usize,
    /// Collectives that each member has begun.
    begun: HashMap<u32, usize>,
    pub(super) list: VecDeque<Vec<Arrival>>,
}

impl Open {
    /// Adds a member's next call; all calls of the collective if it was the last one.
    pub(super) fn add(&mut self, arrival: Arrival, members: usize) -> Option<Vec<Arrival>> {
        let number = self.begun.entry(arrival.rank).or_default();
        let place = *number - self.first;
        *number += 1;
        while self.list.len() <= place {
            self.list.push_back(Vec::new());
        }
        self.list[place].push(arrival);
        if self.list[place].len() < members {
            return None;
        }
        // Every member begins them in order, so that the first is complete first.
        self.first += 1;
        self.list.pop_front()
    }
}
