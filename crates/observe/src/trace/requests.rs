//! Numbers of pending requests.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

/// Pending requests by a key of the trace, oldest first; numbers are reused.
#[derive(Default)]
pub(super) struct Requests<K> {
    by_key: HashMap<K, VecDeque<u32>>,
    free: BTreeSet<u32>,
    next: u32,
}

impl<K: Hash + Eq> Requests<K> {
    /// A number for a request that begins.
    pub fn begin(&mut self, key: K) -> u32 {
        let number = self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.by_key.entry(key).or_default().push_back(number);
        number
    }

    /// The number of a request that ends; `None` if none is pending.
    pub fn end(&mut self, key: &K) -> Option<u32> {
        let list = self.by_key.get_mut(key)?;
        let number = list.pop_front()?;
        if list.is_empty() {
            self.by_key.remove(key);
        }
        self.free.insert(number);
        Some(number)
    }

    /// All requests end.
    pub fn end_all(&mut self) {
        self.by_key.clear();
        self.free.clear();
        self.next = 0;
    }
}
