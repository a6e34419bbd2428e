//! `opensm-sl2vl.dump`: the virtual lane of each service level, by input and output port of every switch.
//!
//! ```text
//! Switch 0x0000000000100000, base LID 2, "sw-0-0-0"
//! #in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15
//! #--------------------------------------------------------
//! 0   1   : 0  1  0  1  0  1  0  1  4  5  4  5  4  5  4  5
//! ```
//!
//! The service level of a path is not in the file (the subnet manager answers it path by path), so lanes cannot be
//! assigned to routes: the file is checked against the scan, and the number of data lanes is noted.

use super::{Addresses, Target};
use crate::text::{Line, Text, decimal, hexadecimal};
use hopbyte_fabric::{Fabric, InputError, RouterId};
use std::collections::BTreeSet;

/// Service levels of a row.
const LEVELS: usize = 16;
/// The lane of dropped traffic.
const DROPPED: u64 = 15;

/// Whether a line begins a device of this format.
pub fn recognise(line: Line<'_>) -> bool {
    heading(line).is_some()
}

/// GUID of `TYPE 0x…, base LID N, "…"`, and whether it is a switch.
fn heading(line: Line<'_>) -> Option<(u64, bool)> {
    let text = line.trimmed();
    let (is_switch, rest) = [&b"Switch "[..], b"Channel Adapter ", b"Router "]
        .iter()
        .enumerate()
        .find_map(|(i, kind)| Some((i == 0, text.strip_prefix(*kind)?)))?;
    let comma = memchr::memchr(b',', rest)?;
    let guid = rest[..comma]
        .starts_with(b"0x")
        .then(|| hexadecimal(&rest[..comma]))??;
    rest[comma..]
        .starts_with(b", base LID ")
        .then_some((guid, is_switch))
}

/// Checks switches and ports against the fabric and notes the lanes in use.
pub fn check(
    text: &Text,
    fabric: &Fabric,
    addresses: &Addresses,
    notes: &mut Vec<String>,
) -> Result<(), InputError> {
    let (mut switches, mut strangers, mut uncabled) = (0, 0, BTreeSet::new());
    let mut lanes: BTreeSet<u64> = BTreeSet::new();
    // The current device: a switch of the fabric, or another.
    let mut device: Option<Option<RouterId>> = None;
    let is_content = |l: &Line<'_>| !matches!(l.trimmed().first(), None | Some(b'#'));
    for line in text.lines().filter(is_content) {
        if let Some((guid, is_switch)) = heading(line) {
            let router = match addresses.guids.get(&guid) {
                Some(Target::Switch(router)) => Some(*router),
                _ => None,
            };
            switches += usize::from(router.is_some());
            strangers += usize::from(is_switch && router.is_none());
            device = Some(router);
            continue;
        }
        let Some(router) = device else {
            return Err(text.error_at(line, "a heading 'Switch 0x…, base LID N, …' first"));
        };
        let expected = "IN OUT : and the lanes of 16 service levels";
        let (out, row) = row(line).ok_or_else(|| text.error_at(line, expected))?;
        lanes.extend(row.into_iter().filter(|&l| l != DROPPED));
        let Some(router) = router.filter(|_| out != 0) else {
            continue;
        };
        let leaves = |&l: &_| fabric.ports(l).iter().any(|p| u64::from(p.from) == out);
        if !fabric.links_from(router).iter().any(leaves) {
            uncabled.insert(format!("{}[{out}]", fabric.router(router).name));
        }
    }
    notes.push(format!(
        "{}: {switches} switches map service levels to {} virtual lanes; the service level of a path is not in the \
         file, so routes are checked on one lane",
        text.file(),
        lanes.len()
    ));
    let uncabled: Vec<String> = uncabled.into_iter().collect();
    crate::fabric::names::note_of(
        notes,
        &uncabled,
        "port is",
        "ports are",
        "mapped and not cabled",
    );
    if strangers > 0 {
        notes.push(format!("{strangers} of its switches are not in the scan"));
    }
    Ok(())
}

/// Output port and lanes of a row.
fn row(line: Line<'_>) -> Option<(u64, Vec<u64>)> {
    let mut words = line.words();
    let mut port = || decimal(words.next()?).filter(|&p| p <= 254);
    let (_, out) = (port()?, port()?);
    (words.next()? == b":").then_some(())?;
    let lanes: Option<Vec<u64>> = words.map(|w| decimal(w).filter(|&l| l < 16)).collect();
    lanes
        .filter(|l| l.len() == LEVELS)
        .map(|lanes| (out, lanes))
}
