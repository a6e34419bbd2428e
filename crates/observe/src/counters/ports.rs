//! A table of switch ports: which link an Ethernet switch means by the name of a port.
//!
//! ```text
//! switch,port,peer
//! leaf1,Ethernet1/7,spine2
//! leaf1,swp3,node17
//! ```
//!
//! Switches number and name their ports in ways that no rule covers (`Ethernet4` may be the second port), so that counters
//! of named ports (SNMP, gNMI) need the neighbours that LLDP knows: a table, or what `lldpctl -f keyvalue` prints. Several ports to one peer take the parallel links in the
//! order of their rows.

use super::join::PortMap;
use crate::text::{Text, cells, lossy};
use hopbyte_fabric::{End, Fabric, InputError, LeftOut, LinkId};
use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map};

/// Reason for rows that are left out.
const OTHER: &str = "row of a table of ports whose switch, peer or link the fabric lacks";

/// Reason for rows that are left out for those of a later table.
const MOVED: &str = "row of a table of ports for which a later table has another peer";

/// Whether a line is the header, or one of LLDP's neighbours.
pub(super) fn is_line(line: &[u8]) -> bool {
    is_header(line) || behind_host(line).is_some()
}

fn is_header(line: &[u8]) -> bool {
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
    if lines.clone().any(|l| behind_host(l.trimmed()).is_some()) {
        return Ok(neighbours(text));
    }
    for line in lines.skip_while(|l| !is_header(l.trimmed())).skip(1) {
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

/// Host and object of a line of `lldpctl -f keyvalue` behind a host's name, as pdsh writes it:
/// `node17: lldp.eth0.port.ifname=swp3`.
fn behind_host(line: &[u8]) -> Option<(&str, &str)> {
    let (host, object) = std::str::from_utf8(line).ok()?.split_once(": lldp.")?;
    let is_host = !host.is_empty() && !host.contains(char::is_whitespace);
    (is_host && object.contains('=')).then_some((host, object))
}

/// Objects with the name of a neighbour's port, the best first: the identifier may be an address.
const FAR: [&str; 3] = [".port.ifname", ".port.local", ".port.descr"];

/// Rows of both ends of the cables that LLDP knows. Those of the ends at hosts find no switch.
fn neighbours(text: &Text) -> Vec<Row> {
    // By host and own port: the neighbour, and the names of its port.
    let mut sides: BTreeMap<(&str, &str), (&str, [&str; FAR.len()])> = BTreeMap::new();
    for line in text.lines() {
        let Some((host, object)) = behind_host(line.trimmed()) else {
            continue;
        };
        let Some((key, value)) = object.split_once('=') else {
            continue;
        };
        if let Some(own) = key.strip_suffix(".chassis.name") {
            sides.entry((host, own)).or_default().0 = value;
        }
        for (i, end) in FAR.iter().enumerate() {
            if let Some(own) = key.strip_suffix(end) {
                sides.entry((host, own)).or_default().1[i] = value;
            }
        }
    }
    let known = sides.into_iter().filter(|(_, (name, _))| !name.is_empty());
    let rows = known.flat_map(|((host, own), (name, far))| {
        let far = far.into_iter().find(|far| !far.is_empty());
        let there = far.map(|far| [name, far, host]);
        [Some([host, own, name]), there].into_iter().flatten()
    });
    // Both ends tell each cable.
    let rows: BTreeSet<[&str; 3]> = rows.collect();
    rows.into_iter().map(|row| row.map(str::to_owned)).collect()
}

/// Adds the links of the ports to a map.
pub(super) fn add(rows: &[Row], fabric: &Fabric, map: &mut PortMap, left_out: &mut LeftOut) {
    let mut seen: HashMap<(&str, &str), usize> = HashMap::new();
    for [switch, port, peer] in rows {
        if fabric.router_named(switch).is_none() && fabric.node_named(switch).is_some() {
            // A host's own counters name its ports.
            continue;
        }
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
