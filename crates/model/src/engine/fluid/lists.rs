//! Many short lists in one array.

/// Lists of numbers that grow at their end; a full list moves to the end of the array.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    at: Vec<Place>,
    items: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    start: usize,
    len: u32,
    room: u32,
}

impl Lists {
    pub(super) fn new(lists: usize) -> Self {
        Self {
            at: vec![Place::default(); lists],
            items: Vec::new(),
        }
    }

    pub(super) fn get(&self, list: u32) -> &[u32] {
        let place = self.at[list as usize];
        &self.items[place.start..place.start + place.len as usize]
    }

    /// Reserves room in every list for `more(list)` further items at once.
    pub(super) fn reserve(&mut self, more: &[u32]) {
        for (place, &more) in self.at.iter_mut().zip(more) {
            if place.len + more > place.room {
                let start = self.items.len();
                let old = place.start..place.start + place.len as usize;
                place.room = place.len + more;
                place.start = start;
                self.items.extend_from_within(old);
                self.items.resize(start + place.room as usize, 0);
            }
        }
    }

    #[inline]
    pub(super) fn push(&mut self, list: u32, item: u32) {
        let place = &mut self.at[list as usize];
        if place.len == place.room {
            let start = self.items.len();
            let old = place.start..place.start + place.len as usize;
            place.room = (2 * place.room).max(4);
            place.start = start;
            self.items.extend_from_within(old);
            self.items.resize(start + place.room as usize, 0);
        }
        self.items[place.start + place.len as usize] = item;
        place.len += 1;
    }

    /// Keeps the items for which `keep` is true.
    pub(super) fn retain(&mut self, list: u32, keep: impl Fn(u32) -> bool) {
        let place = &mut self.at[list as usize];
        let items = &mut self.items[place.start..place.start + place.len as usize];
        let mut kept = 0;
        for i in 0..items.len() {
            if keep(items[i]) {
                items[kept] = items[i];
                kept += 1;
            }
        }
        place.len = kept as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::Lists;

    #[test]
    fn lists_grow_and_shrink_apart() {
        let mut lists = Lists::new(3);
        lists.reserve(&[2, 0, 1]);
        for i in 0..50 {
            lists.push(i % 3, i);
        }
        lists.reserve(&[5, 5, 5]);
        lists.retain(1, |i| i % 2 == 0);
        assert_eq!(lists.get(0), (0..50).step_by(3).collect::<Vec<_>>());
        assert_eq!(lists.get(1), (4..50).step_by(6).collect::<Vec<_>>());
        assert_eq!(lists.get(2), (2..50).step_by(3).collect::<Vec<_>>());
    }
}
