//! Memory that only the start needed.

use std::fs;

/// Gives the pages of code and constants back that lie in memory since the start: what runs every tick
/// comes back from the page cache, a small part of it.
pub fn give_back() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, length) in maps.lines().filter_map(of_file) {
        // SAFETY: a mapping of this process that is of a file and that its protection lets nobody write:
        // its pages are the file's, and are read from there again when they are touched.
        unsafe {
            libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED);
        }
    }
}

/// Start and length of a mapping whose pages are a file's own: code, or the beginning of a program or
/// library. What the linker changed and then protected is neither.
fn of_file(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let path = words.nth(2)?;
    let first = rights == "r--p" && offset.bytes().all(|b| b == b'0');
    if !path.starts_with('/') || !(rights == "r-xp" || first) {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    Some((start, end.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_file_still_has_is_given_back() {
        let maps = "\
            55d0a000-55d1b000 r--p 00000000 fe:00 7 /usr/bin/hopbyte-agent\n\
            55d1b000-55d3b000 r-xp 00010000 fe:00 7 /usr/bin/hopbyte-agent\n\
            55d3b000-55d3f000 r--p 00030000 fe:00 7 /usr/bin/hopbyte-agent\n\
            55d3f000-55d40000 rw-p 00034000 fe:00 7 /usr/bin/hopbyte-agent\n\
            56000000-56021000 rw-p 00000000 00:00 0 [heap]\n\
            7ffd0000-7ffd2000 r-xp 00000000 00:00 0 [vdso]\n";
        let found: Vec<_> = maps.lines().filter_map(of_file).collect();
        assert_eq!(found, [(0x55d0_a000, 0x1_1000), (0x55d1_b000, 0x2_0000)]);
        give_back();
        assert!(
            fs::read_to_string("/proc/self/maps").is_ok(),
            "we still run"
        );
    }
}
