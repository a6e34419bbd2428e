//! Repair of damaged logs. The original is kept beside the repaired log.

use super::disk::{Disk, write_all};
use super::log::Log;
use super::reader::{Damage, LogReader};
use crate::block;
use std::io;
use std::path::{Path, PathBuf};

/// A repaired log.
#[derive(Clone, Debug)]
pub struct Repair {
    /// The damage.
    pub damage: Damage,
    /// Path of the original, if it was moved aside. An unfinished last block is cut without that.
    pub original: Option<PathBuf>,
}

/// Repairs a log: rebuilds damaged blocks from their parity, skips the others, keeps all that follow, and moves the
/// original aside as `NAME.log.damaged`. An unfinished last block, which was not acknowledged, is cut. `None` if the log
/// is sound.
///
/// # Errors
/// The log cannot be read, or the repaired one not be written; the original is then unchanged. `WouldBlock`: another
/// process seals it, under the temporary names that are used for the repaired log.
pub fn repair(disk: &dyn Disk, path: &Path) -> io::Result<Option<Repair>> {
    let mut reader = LogReader::open_on(disk, path)?;
    if !reader.claim()? {
        let text = "another process writes or seals this log";
        return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
    }
    while reader.next_entries().is_some() {
        if let Err(refusal) = block::closing(reader.entries()) {
            reader.refuse(refusal.to_string());
        }
    }
    let damage = reader.damage().clone();
    // Blocks that an earlier repair could not rebuild are missing for good.
    let torn = damage.tail > 0 && !damage.bad_tail && reader.is_current();
    let bad = damage.bytes > 0 || damage.rebuilt > 0 || damage.refused.is_some() || damage.bad_tail;
    if !bad && damage.tail == 0 {
        return Ok(None);
    }
    if !bad && torn && reader.is_titled() {
        let mut file = disk.open(path, true)?;
        file.cut(reader.position())?;
        file.sync()?;
        return Ok(Some(Repair {
            damage,
            original: None,
        }));
    }
    let part = with_suffix(path, ".part");
    let copied = copy_sound(disk, path, &part).and_then(|again| {
        // An error that is not permanent must not cost a block.
        if again == damage {
            return Ok(());
        }
        let text = "it reads differently every time";
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    });
    let original = copied.and_then(|()| aside(disk, path));
    let renamed = original.and_then(|original| disk.rename(&part, path).map(|()| original));
    let original = renamed.inspect_err(|_| {
        let _ = disk.remove(&part);
    })?;
    disk.sync_folder(path.parent().unwrap_or(Path::new(".")))?;
    Ok(Some(Repair {
        damage,
        original: Some(original),
    }))
}

/// Writes the sound and the rebuilt blocks of a log, with their numbers. Returns its damage.
fn copy_sound(disk: &dyn Disk, path: &Path, part: &Path) -> io::Result<Damage> {
    if part.exists() {
        disk.remove(part)?;
    }
    let mut reader = LogReader::open_on(disk, path)?;
    let mut log: Option<Log> = None;
    let mut file = Some(disk.create(part)?);
    // Before blocks of another log, whose values build on none of this one's, a number is left out.
    let (mut serial, mut left_out) = (None, 0);
    while let Some(number) = reader.next_entries() {
        left_out += u32::from(serial.is_some_and(|serial| serial != reader.serial()));
        serial = Some(reader.serial());
        let closing = match block::closing(reader.entries()) {
            Ok(closing) => closing,
            Err(refusal) => {
                reader.refuse(refusal.to_string());
                continue;
            }
        };
        let tick_ns = closing.tick.saturating_mul(closing.period_ns);
        if let Some(file) = file.take() {
            let mut begun = Log::begin(file, path, reader.serial(), tick_ns);
            begun.title()?;
            log = Some(begun);
        }
        if let Some(log) = &mut log {
            log.append_as(number.saturating_add(left_out), reader.entries(), tick_ns)?;
        }
    }
    if let Some(log) = &mut log {
        log.finish()?;
        log.sync()?;
    } else if let Some(mut file) = file {
        write_all(&mut *file, &[super::record::TITLE])?;
        file.sync()?;
    }
    Ok(reader.damage().clone())
}

/// Gives a log a second name, which says that it is damaged, and returns it.
fn aside(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let names = (1..100).map(|n| match n {
        1 => with_suffix(path, ".damaged"),
        n => with_suffix(path, &format!(".damaged-{n}")),
    });
    for name in names {
        match disk.link(path, &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Ok(()) => return Ok(name),
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
