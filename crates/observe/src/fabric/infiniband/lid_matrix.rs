//! `opensm-lid-matrix.dump`: hops from every switch to every switch, by first port.
//!
//! ```text
//! Switch: guid 0x0008f1050010851e
//! 0x0007: 01 03 03 ff … 01 # portguid 0x0008f10500108bba
//! ```
//!
//! LID, the minimum number of hops, then the hops via port 1, 2, …; `ff` means no route. The dump adds nothing to the
//! scan, so it is a check: OpenSM's hop counts and the cables must agree.

use super::{Addresses, Target};
use crate::text::{Line, Text, hexadecimal};
use hopbyte_fabric::{End, Fabric, InputError, RouterId};
use std::collections::VecDeque;

/// Whether a line begins a switch of this format.
pub fn recognise(line: Line<'_>) -> bool {
    line.trimmed().starts_with(b"Switch: guid 0x")
}

/// Compares the hops with those of the fabric and notes the result.
pub fn check(
    text: &Text,
    fabric: &Fabric,
    addresses: &Addresses,
    notes: &mut Vec<String>,
) -> Result<(), InputError> {
    let (mut same, mut differ, mut strangers) = (0, Vec::new(), 0);
    let mut from: Option<(RouterId, Vec<u32>)> = None;
    let mut begun = false;
    for line in text
        .lines()
        .filter(|l| !matches!(l.trimmed().first(), None | Some(b'#')))
    {
        if recognise(line) {
            let guid = line.words().nth(2).and_then(hexadecimal);
            let guid = guid.ok_or_else(|| text.error_at(line, "Switch: guid 0x…"))?;
            begun = true;
            from = match addresses.guids.get(&guid) {
                Some(Target::Switch(router)) => Some((*router, distances(fabric, *router))),
                _ => None,
            };
            continue;
        }
        let expected = "0xLID: HOPS and the hops by port, in hex";
        let (lid, hops) = entry(line).ok_or_else(|| text.error_at(line, expected))?;
        if !begun {
            return Err(text.error_at(line, "a heading 'Switch: guid 0x…' first"));
        }
        let to = addresses.lids.get(&lid);
        match (&from, to) {
            (Some((router, distance)), Some(Target::Switch(to))) => {
                let known = distance[to.index()];
                if known == hops || (known == u32::MAX && hops == 0xff) {
                    same += 1;
                } else {
                    let [a, b] = [router, to].map(|r| &fabric.router(*r).name);
                    differ.push(format!("{a} to {b} {hops}, by the cables {known}"));
                }
            }
            // sssp, dfsssp and nue list adapters, too.
            (Some(_), Some(Target::Node(_) | Target::Other)) => {}
            _ => strangers += 1,
        }
    }
    notes.push(format!(
        "{}: {same} distances between switches agree with the cables",
        text.file()
    ));
    crate::fabric::names::note_of(
        notes,
        &differ,
        "distance",
        "distances",
        "different from the cables",
    );
    let all = fabric.routers().len().pow(2);
    if same + differ.len() < all && strangers == 0 {
        notes.push(format!(
            "it has {} of {all} distances: updn lists none of switches that it joins by no path; else the file was cut",
            same + differ.len()
        ));
    }
    if strangers > 0 {
        notes.push(format!(
            "{strangers} of its entries are of switches that the scan does not list"
        ));
    }
    Ok(())
}

/// LID and minimum hops of `0x0007: 01 03 03 … # …`.
fn entry(line: Line<'_>) -> Option<(u32, u32)> {
    let mut words = line.words();
    let lid = hexadecimal(words.next()?.strip_suffix(b":")?)?;
    let mut hops = words
        .take_while(|w| *w != b"#")
        .map(|w| hexadecimal(w).filter(|&h| h <= 0xff));
    let least = hops.next()??;
    hops.all(|h| h.is_some())
        .then_some((u32::try_from(lid).ok()?, least as u32))
}

/// Hops from a switch to all others.
fn distances(fabric: &Fabric, from: RouterId) -> Vec<u32> {
    let mut distance = vec![u32::MAX; fabric.routers().len()];
    distance[from.index()] = 0;
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for &link in fabric.links_from(at) {
            if let End::Router(next) = fabric.link(link).to
                && distance[next.index()] == u32::MAX
            {
                distance[next.index()] = distance[at.index()] + 1;
                queue.push_back(next);
            }
        }
    }
    distance
}
