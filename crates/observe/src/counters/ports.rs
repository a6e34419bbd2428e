//! A table of switch ports: which link an Ethernet switch means by the name of a port.
//!
//! ```text
//! switch,port,peer
//! leaf1,Ethernet1/7,spine2
//! leaf1,swp3,node17
//! ```
//!
//! Switches number and name their ports in ways that no rule covers (`Ethernet4` may be the second port), so that counters
//! of named ports (SNMP, gNMI) need the neighbours that LLDP knows. Several ports to one peer take the parallel links in the
//! order of their rows.

use super::join::PortMap;
use crate::text::{Text, cells, lossy};
use hopbyte_fabric::{End, Fabric, InputError, LeftOut, LinkId};
use std::collections::{HashMap, hash_map};

/// Reason for rows that are left out.
const OTHER: &str = "row of a table of ports whose switch, peer or link the fabric lacks";

/// Reason for rows that are left out for those of a later table.
const MOVED: &str = "row of a table of ports for which a later table has another peer";

/// Whether a line is the header.
pub(super) fn is_line(line: &[u8]) -> bool {
    let mut header = cells(line);
    let expected = [&b"switch"[..], b"port", b"peer"];
    expected
        .iter()
        .all(|name| header.next().is_some_and(|c| c.eq_ignore_ascii_case(name)))
}

/// A row: switch, port, peer.
pub(super) type Row = [String; 3];

/// All rows below the header; columns behind the third are not used.
pub(super) fn rows(text: &Text, _: &mut LeftOut) -> Result<Vec<Row>, InputError> {
    let mut rows: Vec<Row> = Vec::new();
    let mut seen = HashMap::new();
    let lines = text.lines().filter(|l| !l.trimmed().is_empty());
    for line in lines.skip_while(|l| !is_line(l.trimmed())).skip(1) {
        let cells: Vec<&[u8]> = cells(line.trimmed()).take(3).collect();
        let row: Result<[&[u8]; 3], _> = cells.try_into();
        let row = row.map_err(|_| text.error_at(line, "switch,port,peer"))?;
        match seen.entry((row[0], row[1])) {
            hash_map::Entry::Vacant(port) => port.insert(line.number),
            hash_map::Entry::Occupied(port) => {
                let expected = format!("one row a port, which line {} has too", port.get());
                let error = text.error_at(line, expected);
                return Err(
                    error.hint("a port has one peer: leave the rows of cables that were moved out")
                );
            }
        };
        rows.push(row.map(|cell| lossy(cell).into_owned()));
    }
    Ok(rows)
}

/// Adds the links of the ports to a map.
pub(super) fn add(rows: &[Row], fabric: &Fabric, map: &mut PortMap, left_out: &mut LeftOut) {
    let mut seen: HashMap<(&str, &str), usize> = HashMap::new();
    for [switch, port, peer] in rows {
        let links = links(fabric, switch, peer);
        let before = seen.entry((switch, peer)).or_default();
        // A fabric may list parallel cables as one link.
        let link = links.get(*before % links.len().max(1));
        *before += 1;
        match link {
            Some(&link) => {
                let before = map.insert((switch.clone(), port.clone()), link);
                if before.is_some_and(|before| before != link) {
                    left_out.note(MOVED, format!("{switch} {port}"));
                }
            }
            None => left_out.note(OTHER, format!("{switch} {port}")),
        }
    }
}

/// Links from a switch to a peer.
fn links(fabric: &Fabric, switch: &str, peer: &str) -> Vec<LinkId> {
    let Some(router) = fabric.router_named(switch) else {
        return Vec::new();
    };
    // Switches first: the name of a switch with one node also finds the node.
    if let Some(other) = fabric.router_named(peer) {
        let links = fabric.links_from(router).iter().copied();
        let towards = |l: &LinkId| fabric.link(*l).to == End::Router(other);
        return links.filter(towards).collect();
    }
    let node = fabric.node_named(peer).map(|n| fabric.node(n));
    let here = node.filter(|n| n.router == router);
    here.map(|n| n.eject).into_iter().collect()
}

#[cfg(test)]
mod tests;
