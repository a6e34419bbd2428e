//! Possible contents of a disk after a power cut: everything that was synced, and any part of the rest.

use super::disk::Change;
use hopbyte_fabric::random::Random;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that a disk writes at once. Files of the test are small, so that several pages are in one.
const PAGE: usize = 256;

/// Choice of the changes that were not synced and survive.
#[derive(Clone, Copy, Debug)]
pub enum Loss {
    /// None survives.
    All,
    /// All survive: a killed process.
    Nothing,
    /// Names and lengths survive, and no data: pages are zeroes.
    Data,
    /// Data survive in files whose names do not.
    Names,
    /// Each page and each name survives by chance.
    Random(u64),
}

#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    synced: Vec<u8>,
}

/// Writes the state after the first `count` changes and a power cut into a folder.
pub fn cut(log: &[Change], count: usize, loss: Loss, from: &Path, to: &Path) {
    let mut files: BTreeMap<u64, File> = BTreeMap::new();
    let (mut names, mut synced_names) = (BTreeMap::new(), BTreeMap::new());
    for change in &log[..count] {
        match change {
            Change::Create(path, id) => {
                files.insert(*id, File::default());
                names.insert(path.clone(), *id);
            }
            Change::Write(id, at, bytes) => {
                let file = files.get_mut(id).unwrap();
                file.bytes.truncate(*at as usize);
                file.bytes.extend_from_slice(bytes);
            }
            Change::Cut(id, length) => files.get_mut(id).unwrap().bytes.truncate(*length as usize),
            Change::Rename(a, b) => {
                if let Some(id) = names.remove(a) {
                    names.insert(b.clone(), id);
                }
            }
            Change::Link(a, b) => {
                if let Some(&id) = names.get(a) {
                    names.insert(b.clone(), id);
                }
            }
            Change::Remove(path) => {
                names.remove(path);
            }
            Change::Sync(id) => {
                let file = files.get_mut(id).unwrap();
                file.synced = file.bytes.clone();
            }
            Change::SyncFolder => synced_names = names.clone(),
            Change::Acknowledged(_) => {}
        }
    }
    let mut random = Random::new(match loss {
        Loss::Random(seed) => seed,
        _ => 0,
    });
    let mut chance = || match loss {
        Loss::All => (false, false),
        Loss::Nothing => (true, true),
        Loss::Data => (true, false),
        Loss::Names => (false, true),
        Loss::Random(_) => (random.below(2) == 0, random.below(2) == 0),
    };
    let mut left: BTreeMap<PathBuf, u64> = synced_names.clone();
    for (path, id) in &names {
        if synced_names.get(path) != Some(id) && chance().0 {
            // A rename that survives takes the old name with it.
            left.retain(|old, other| other != id || names.contains_key(old));
            left.insert(path.clone(), *id);
        }
    }
    for path in synced_names.keys().filter(|p| !names.contains_key(*p)) {
        if chance().0 {
            left.remove(path);
        }
    }
    for (path, id) in left {
        let file = &files[&id];
        let bytes = survivors(file, &mut chance, loss);
        fs::write(to.join(path.strip_prefix(from).unwrap()), bytes).unwrap();
    }
}

fn survivors(file: &File, chance: &mut impl FnMut() -> (bool, bool), loss: Loss) -> Vec<u8> {
    let mut bytes = file.synced.clone();
    if file.bytes == file.synced || matches!(loss, Loss::All) {
        return bytes;
    }
    // The length is that of the last write, or the data up to it are lost with it.
    if !matches!(loss, Loss::Random(_)) || chance().0 {
        bytes.resize(file.bytes.len(), 0);
    }
    for (at, page) in file.bytes.chunks(PAGE).enumerate() {
        let at = at * PAGE;
        let end = (at + page.len()).min(bytes.len());
        if at < end && chance().1 {
            bytes[at..end].copy_from_slice(&page[..end - at]);
        }
    }
    bytes
}
