//! `torus-2QoS.conf`: size and orientation of a torus for OpenSM.
//!
//! ```text
//! torus 5 4 3                    or: mesh …, and m or t after a size for one dimension
//! xp_link 0x100000 0x10000c      the second switch lies in +x of the first
//! x_dateline 0
//! max_changes 12
//! ```
//!
//! The file does not list most switches; it is only checked against the coordinates of the torus dump.

use super::{Addresses, Target};
use crate::fabric::names::note_of;
use crate::text::{Line, Text, decimal_u32, hexadecimal, lossy};
use hopbyte_fabric::{Fabric, InputError};

/// Keys followed by one number.
const NUMBERS: [&[u8]; 8] = [
    b"x_dateline",
    b"y_dateline",
    b"z_dateline",
    b"max_changes",
    b"portgroup_max_ports",
    b"port_order",
    b"next_seed",
    b"no_fallback",
];

/// Whether a line begins such a file.
pub fn recognise(line: Line<'_>) -> bool {
    size(line).is_some()
}

/// Size, and whether each dimension wraps round.
fn size(line: Line<'_>) -> Option<([u32; 3], [bool; 3])> {
    let mut words = line.words();
    let default = match words.next()? {
        b"torus" => true,
        b"mesh" => false,
        _ => return None,
    };
    let (mut dims, mut wrap) = ([0; 3], [default; 3]);
    for (dim, wrap) in dims.iter_mut().zip(&mut wrap) {
        let word = words.next()?;
        let digits = word.iter().take_while(|b| b.is_ascii_digit()).count();
        *dim = decimal_u32(&word[..digits]).filter(|&d| d > 0)?;
        *wrap = match &word[digits..] {
            b"" => default,
            b"t" | b"T" => true,
            b"m" | b"M" => false,
            _ => return None,
        };
    }
    words.next().is_none().then_some((dims, wrap))
}

/// Dimension and sign of `xp_link`, `zm_link`.
fn direction(key: &[u8]) -> Option<(usize, bool)> {
    let &[letter @ b'x'..=b'z', sign @ (b'p' | b'm')] = key.strip_suffix(b"_link")? else {
        return None;
    };
    Some((usize::from(letter - b'x'), sign == b'p'))
}

/// Checks a configuration against a fabric; differences become notes.
pub fn check(
    text: &Text,
    fabric: &Fabric,
    addresses: &Addresses,
    notes: &mut Vec<String>,
) -> Result<(), InputError> {
    let mut differ = Vec::new();
    for line in text.lines() {
        let trimmed = line.trimmed();
        if trimmed.is_empty() || trimmed.starts_with(b"#") {
            continue;
        }
        let mut words = line.words();
        let key = words.next().unwrap_or_default();
        if let Some((dims, wrap)) = size(line) {
            let agrees = |s: &hopbyte_fabric::Shape| s.dims == dims && s.wrap == wrap;
            if fabric.shape().is_some_and(|s| !agrees(s)) {
                differ.push(lossy(trimmed).into_owned());
            }
        } else if let Some((dim, positive)) = direction(key) {
            let ends = [words.next(), words.next()].map(|w| w.and_then(hexadecimal));
            let [Some(from), Some(to)] = ends else {
                return Err(text.error_at(line, "two GUIDs"));
            };
            if is_step(fabric, addresses, from, to, dim, positive) == Some(false) {
                differ.push(lossy(trimmed).into_owned());
            }
        } else if !NUMBERS.contains(&key) {
            return Err(text.error_in(line, key, "torus, mesh, xp_link, x_dateline, …"));
        }
    }
    note_of(
        notes,
        &differ,
        "line of the torus configuration does",
        "lines of the torus configuration do",
        "not agree with the coordinates",
    );
    Ok(())
}

/// Whether `to` is one step from `from`; `None` if coordinates are unknown.
fn is_step(
    fabric: &Fabric,
    addresses: &Addresses,
    from: u64,
    to: u64,
    dim: usize,
    positive: bool,
) -> Option<bool> {
    let coord = |guid: u64| match addresses.guids.get(&guid) {
        Some(&Target::Switch(router)) => fabric.coord(router),
        _ => None,
    };
    let (from, to) = (coord(from)?, coord(to)?);
    let n = *fabric.shape()?.dims.get(dim)?;
    let mut expected = from.to_vec();
    expected[dim] = (from[dim] + if positive { 1 } else { n - 1 }) % n;
    Some(expected == to)
}
