//! Communicators of a rank's trace, by their members.

use crate::text::Text;
use crate::traffic::record::group_members;
use hopbyte_fabric::InputError;
use std::collections::HashMap;

/// Communicators.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) by_name: HashMap<Vec<u8>, u32>,
    /// Members; the first is the world.
    pub(super) lists: Vec<Vec<u32>>,
    /// Further communicators of the same members, by these and their number.
    numbered: HashMap<(u32, u64), u32>,
}

/// Most members that communicators of equal members list again; beyond, their messages are not told apart.
const MAX_LISTED: usize = 1 << 24;

impl Groups {
    /// The communicator with a number, of those with these members.
    pub(super) fn numbered(&mut self, group: u32, number: u64) -> u32 {
        let members = self.lists[group as usize].len();
        if number == 0 || (self.numbered.len() + 1) * members > MAX_LISTED {
            return group;
        }
        *self.numbered.entry((group, number)).or_insert_with(|| {
            self.lists.push(self.lists[group as usize].clone());
            self.lists.len() as u32 - 1
        })
    }

    pub(super) fn learn(&mut self, text: &Text, size: usize) -> Result<(), InputError> {
        if self.lists.is_empty() {
            self.lists.push((0..size as u32).collect());
        }
        for line in text.lines().take_while(|l| l.bytes != b"program") {
            if let Some((name, members)) = group_members(text, line, size)?
                && !self.by_name.contains_key(name)
            {
                self.by_name.insert(name.to_vec(), self.lists.len() as u32);
                self.lists.push(members);
            }
        }
        Ok(())
    }

    /// Groups of the whole world in order are the world.
    pub(super) fn finish(&mut self, size: usize) {
        let world: Vec<u32> = (0..size as u32).collect();
        let lists = &self.lists;
        for group in self.by_name.values_mut() {
            if lists[*group as usize] == world {
                *group = 0;
            }
        }
    }
}
