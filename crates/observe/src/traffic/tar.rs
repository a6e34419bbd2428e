//! Archives of rank files: enough of `tar` to find its regular files.

use crate::ObserveError;
use crate::text::{Limits, Text, lossy};
use hopbyte_fabric::InputError;

const BLOCK: usize = 512;

/// Whether content is a tar archive.
pub(super) fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

/// The regular files of an archive, each as a text named `ARCHIVE:MEMBER`.
///
/// Directories, links and extended headers are skipped, including the names in long headers: names are only used in
/// errors.
pub(super) fn members(archive: &Text, limits: Limits) -> Result<Vec<Text>, ObserveError> {
    let bytes = archive.bytes();
    let mut files = Vec::new();
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + BLOCK) {
        if header.iter().all(|&b| b == 0) {
            return Ok(files);
        }
        let broken = |found: &str, expected: &str| -> InputError {
            archive
                .error(format!("{found} at byte {at}"), expected)
                .hint("was the archive truncated when it was copied?")
        };
        if !checksum_holds(header) {
            return Err(broken("a damaged header", "a tar header with its checksum").into());
        }
        let size = octal(&header[124..136])
            .and_then(|s| usize::try_from(s).ok())
            .ok_or_else(|| broken("a size that is not a number", "a member's size"))?;
        let start = at + BLOCK;
        let content = start
            .checked_add(size)
            .and_then(|end| bytes.get(start..end))
            .ok_or_else(|| broken("a member that goes on beyond the end", "a whole member"))?;
        if matches!(header[156], b'0' | 0) {
            let name = header[..100].split(|&b| b == 0).next().unwrap_or_default();
            let name = format!("{}:{}", archive.file(), lossy(name));
            files.push(Text::from_bytes(name, content, limits)?);
        }
        at = start + size.div_ceil(BLOCK) * BLOCK;
    }
    if at < bytes.len() {
        let error = archive.error("a block cut short at the end", "whole blocks of 512 bytes");
        return Err(error.into());
    }
    Ok(files)
}

fn octal(field: &[u8]) -> Option<u64> {
    let digits = field
        .split(|&b| b == 0)
        .next()
        .unwrap_or_default()
        .trim_ascii();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |n, &b| {
        let digit = (b as char).to_digit(8)?;
        n.checked_mul(8)?.checked_add(u64::from(digit))
    })
}

/// The sum of all header bytes, with the checksum field as blanks.
fn checksum_holds(header: &[u8]) -> bool {
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(i, &b)| u64::from(if (148..156).contains(&i) { b' ' } else { b }))
        .sum();
    octal(&header[148..156]) == Some(sum)
}
