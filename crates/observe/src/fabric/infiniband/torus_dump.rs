//! `opensm-torus.dump`: positions of the switches from OpenSM's torus-2QoS engine.
//!
//! ```text
//! switch 3,0,2 GUID 0x10002c (sw-3-0-2)
//! ```

use crate::text::{Line, Text, decimal_u32, hexadecimal};
use hopbyte_fabric::InputError;
use std::collections::HashMap;

/// Coordinates of switches by node GUID.
pub type Coordinates = HashMap<u64, [u32; 3]>;

/// Maximum extent: torus-2QoS itself allows 32 per dimension.
const RADIX: u32 = 1024;

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    switch(line).is_some()
}

fn switch(line: Line<'_>) -> Option<(u64, [u32; 3])> {
    let mut words = line.words();
    if words.next() != Some(b"switch") {
        return None;
    }
    let mut numbers = words.next()?.split(|&b| b == b',').map(decimal_u32);
    let mut coord = [0; 3];
    for c in &mut coord {
        *c = numbers.next()??;
    }
    let tag = words.next() == Some(b"GUID") && numbers.next().is_none();
    let guid = words.next().and_then(hexadecimal)?;
    (tag && coord.iter().all(|&c| c < RADIX)).then_some((guid, coord))
}

/// Reads the coordinates.
pub fn read(text: &Text) -> Result<Coordinates, InputError> {
    let mut coordinates = Coordinates::new();
    for line in text.lines().filter(|l| !l.trimmed().is_empty()) {
        let (guid, coord) = switch(line)
            .ok_or_else(|| text.error_at(line, "switch X,Y,Z GUID 0x… (DESCRIPTION)"))?;
        if coordinates.insert(guid, coord).is_some() {
            return Err(text.error_at(line, "every switch once"));
        }
    }
    if coordinates.is_empty() {
        return Err(text.error("", "switch X,Y,Z GUID 0x… (DESCRIPTION)"));
    }
    Ok(coordinates)
}
