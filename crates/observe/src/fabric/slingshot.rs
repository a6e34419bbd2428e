//! HPE Slingshot's point-to-point file: one cable per line.
//!
//! ```text
//! cable_id,src_conn_a,src_conn_b,dst_conn_a,dst_conn_b,stage,…,link_type,src_group,dst_group,…,route
//! 3000.9000.00.0001,x3000c0r15j1,none,x9000c1r3j3,none,1,…,global,0,1,…,['x3000_BACK-x9000_BACK']
//! l0.x9000c1s0b0.1,x9000c1r3j100,none,x9000c1s0b0n0h0,x9000c1s0b0n1h0,1,…,edge,1,none,…,none
//! ```
//!
//! A connector is a jack of a switch (cabinet, chassis, router, jack) or a network card. A jack has two ports: cables
//! between switches join both, cables to cards (Y cables) lead one to each of two cards. Cables between the same two
//! switches form one link. `#` lines and a line of column names come first.

use crate::fabric::names::{name, note_of};
use crate::text::{Line, Text, cells, decimal_u32, float};
use hopbyte_fabric::dragonfly::{SLINGSHOT_HOP, SLINGSHOT_PORT};
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    End, Fabric, FabricBuilder, FabricError, Family, InputError, LinkId, LinkSpec, NodeId,
    RouterId, Shape,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Columns that are read.
const COLUMNS: [&[u8]; 7] = [
    b"src_conn_a",
    b"dst_conn_a",
    b"dst_conn_b",
    b"link_type",
    b"src_group",
    b"dst_group",
    b"part_length",
];
/// Lanes of a port.
const LANES: u16 = 4;
/// Ports of a jack.
const PORTS: u16 = 2;
/// Group numbers from here on are not plausible as grid coordinates.
const MAX_GROUPS: u32 = 4096;
/// Signal propagation: 5 ns per metre.
const SECONDS_PER_METRE: f64 = 5e-9;

/// Whether a line is the header of such a file, or one of its cables.
pub fn recognise(line: Line<'_>) -> bool {
    let mut cells = cells(line.bytes);
    match cells.next() {
        Some(b"cable_id") => true,
        Some(_) => cells.next().and_then(jack).is_some(),
        None => false,
    }
}

/// Switch and jack number of `x9000c1r3j100` or `x9000.c1.r3.j100`.
fn jack(connector: &[u8]) -> Option<(String, u16)> {
    let plain = xname(connector)?;
    let (switch, jack) = plain.rsplit_once('j')?;
    let jack = jack.parse().ok().filter(|&j: &u16| j < u16::MAX / PORTS)?;
    let (_, router) = switch.rsplit_once('r')?;
    router
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then_some((switch.into(), jack))
}

/// A location without the dots that some files have between its parts.
fn xname(connector: &[u8]) -> Option<String> {
    let plain: Vec<u8> = connector.iter().copied().filter(|&b| b != b'.').collect();
    let is_name = plain.len() > 1
        && plain[0] == b'x'
        && plain[1].is_ascii_digit()
        && plain.iter().all(u8::is_ascii_alphanumeric);
    is_name.then(|| name(&plain))
}

/// Cabinet, chassis, … as numbers, so that x9 sorts before x10.
fn order(switch: &str) -> Vec<u64> {
    let numbers = switch.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|n| n.parse().ok()).collect()
}

/// A cable between switches: ports at both ends and length in metres.
type Cable = (u16, u16, f64);

/// A network card's connection to the network.
struct Card {
    switch: String,
    /// Ports of the switch.
    ports: Vec<u16>,
    metres: f64,
}

/// Contents of the file.
#[derive(Default)]
struct Cables {
    /// Line by jack.
    jacks: HashMap<(String, u16), u64>,
    /// Group by switch, in the order of locations.
    switches: BTreeMap<(Vec<u64>, String), Option<u32>>,
    /// Cables by kind and switches, both ways.
    between: BTreeMap<(&'static str, String, String), Vec<Cable>>,
    /// Network cards in the order of locations.
    cards: BTreeMap<(Vec<u64>, String), Card>,
}

/// Reads a machine. Switches of a group are all cabled to each other and have nodes; those that are not or have none are
/// noted, as they tell a file that was cut from a whole one.
pub fn read(text: &Text, notes: &mut Vec<String>) -> Result<Fabric, FabricError> {
    let mut lines = text.lines().filter(|l| {
        let start = l.trimmed();
        !start.is_empty() && !start.starts_with(b"#") && !start.starts_with(b"\"#")
    });
    let header = lines
        .next()
        .ok_or_else(|| text.error("", "a line of column names"))?;
    let mut columns = [0; COLUMNS.len()];
    for (column, name) in columns.iter_mut().zip(COLUMNS) {
        *column = cells(header.bytes).position(|c| c == name).ok_or_else(|| {
            let name = crate::text::lossy(name);
            text.error_at(header, format!("column names with {name} among them"))
                .hint("the first line that is not a comment must be cable_id,src_conn_a,…,route")
        })?;
    }
    let mut cables = Cables::default();
    let names = cells(header.bytes).count();
    for line in lines {
        let all: Vec<&[u8]> = cells(line.bytes).collect();
        if all.len() < names {
            let found = format!("{} cells", all.len());
            let error = text.error(found, format!("{names}, as in the header"));
            return Err(error.at(line.number).hint("was the file cut off?").into());
        }
        let row = columns.map(|c| all.get(c).copied().unwrap_or_default());
        cables.add(text, line, row)?;
    }
    cables.note_gaps(notes);
    cables.build(text)
}

impl Cables {
    fn add(
        &mut self,
        text: &Text,
        line: Line<'_>,
        [source, first, second, kind, from_group, to_group, length]: [&[u8]; COLUMNS.len()],
    ) -> Result<(), InputError> {
        let wrong = |found, expected: &str| text.error_in(line, found, expected);
        let (switch, number) = jack(source)
            .ok_or_else(|| wrong(source, "a jack of a switch such as x9000c1r3j100"))?;
        let ports: Vec<u16> = (0..PORTS).map(|p| PORTS * number + p).collect();
        let metres = float(length)
            .filter(|m| (0.0..1e4).contains(m))
            .unwrap_or(0.0);
        self.switch(text, line, &switch, from_group)?;
        self.jack(text, line, source, &switch, number)?;
        let kind = match kind {
            b"edge" => return self.edge(text, line, &switch, &ports, [first, second], metres),
            b"local" => "local",
            b"global" => "global",
            _ => return Err(wrong(kind, "local, global or edge")),
        };
        let (far, far_number) =
            jack(first).ok_or_else(|| wrong(first, "a jack of a switch such as x9000c1r3j100"))?;
        if far == switch {
            return Err(wrong(first, "a jack of another switch"));
        }
        self.switch(text, line, &far, to_group)?;
        self.jack(text, line, first, &far, far_number)?;
        for port in ports {
            let far_port = PORTS * far_number + port % PORTS;
            let mut join = |from: &str, to: &str, cable| {
                let key = (kind, from.to_owned(), to.to_owned());
                self.between.entry(key).or_default().push(cable);
            };
            join(&switch, &far, (port, far_port, metres));
            join(&far, &switch, (far_port, port, metres));
        }
        Ok(())
    }

    /// A jack takes one cable.
    fn jack(
        &mut self,
        text: &Text,
        line: Line<'_>,
        found: &[u8],
        switch: &str,
        number: u16,
    ) -> Result<(), InputError> {
        match self.jacks.insert((switch.to_owned(), number), line.number) {
            None => Ok(()),
            Some(other) => {
                let expected = format!("a free jack; line {other} has a cable in it");
                Err(text.error_in(line, found, expected))
            }
        }
    }

    /// A cable to one or two cards; the two may be one card with both ports.
    fn edge(
        &mut self,
        text: &Text,
        line: Line<'_>,
        switch: &str,
        ports: &[u16],
        cards: [&[u8]; 2],
        metres: f64,
    ) -> Result<(), InputError> {
        let mut cabled = 0;
        for (&card, &port) in cards.iter().zip(ports) {
            if is_absent(card) {
                continue;
            }
            let name = xname(card).filter(|n| n.contains('h')).ok_or_else(|| {
                text.error_in(line, card, "a network card such as x9000c1s0b0n0h0")
            })?;
            let key = (order(&name), name);
            let known = self.cards.entry(key).or_insert_with(|| Card {
                switch: switch.to_owned(),
                ports: Vec::new(),
                metres,
            });
            if known.switch != switch || known.ports.iter().any(|p| !ports.contains(p)) {
                return Err(text.error_in(line, card, "every network card on one cable"));
            }
            known.ports.push(port);
            cabled += 1;
        }
        if cabled == 0 {
            return Err(text.error_at(line, "a network card in dst_conn_a or dst_conn_b"));
        }
        Ok(())
    }

    fn switch(
        &mut self,
        text: &Text,
        line: Line<'_>,
        switch: &str,
        group: &[u8],
    ) -> Result<(), InputError> {
        let number = decimal_u32(group);
        if number.is_none() && !is_absent(group) {
            return Err(text.error_in(line, group, "a group's number, or none"));
        }
        let known = self
            .switches
            .entry((order(switch), switch.to_owned()))
            .or_insert(None);
        match (*known, number) {
            (Some(a), Some(b)) if a != b => Err(text.error_in(
                line,
                group,
                format!("group {a}, in which {switch} is on an earlier line"),
            )),
            _ => {
                *known = number.or(*known);
                Ok(())
            }
        }
    }

    fn note_gaps(&self, notes: &mut Vec<String>) {
        let mut groups: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for ((_, switch), group) in &self.switches {
            if let Some(group) = group {
                groups.entry(*group).or_default().push(switch);
            }
        }
        let cabled: HashSet<(&str, &str)> = self
            .between
            .keys()
            .map(|(_, from, to)| (from.as_str(), to.as_str()))
            .collect();
        let (mut pairs, mut gaps) = (0, Vec::new());
        for switches in groups.values() {
            for (i, a) in switches.iter().enumerate() {
                pairs += i;
                let missing = switches[..i].iter().filter(|b| !cabled.contains(&(a, **b)));
                gaps.extend(missing.map(|b| format!("{b} and {a}")));
            }
        }
        let are = format!("of {pairs} pairs of switches of one group are");
        note_of(
            notes,
            &gaps,
            &are,
            &are,
            "not cabled to each other; was the file cut?",
        );
        let cards: HashSet<&str> = self.cards.values().map(|c| c.switch.as_str()).collect();
        let names = self.switches.keys().map(|(_, name)| name);
        let bare: Vec<String> = names
            .filter(|s| !cards.contains(s.as_str()))
            .cloned()
            .collect();
        let have = format!("of {} switches have", self.switches.len());
        note_of(
            notes,
            &bare,
            &have,
            &have,
            "no network card; was the file cut?",
        );
    }

    fn build(self, text: &Text) -> Result<Fabric, FabricError> {
        let mut b = FabricBuilder::new(Family::Slingshot, text.file());
        let routers = self.routers(&mut b);
        for ((kind, from, to), cables) in &self.between {
            let (from, to) = (routers[from], routers[to]);
            add_link(&mut b, kind, End::Router(from), End::Router(to), cables);
        }
        for (i, ((_, name), card)) in self.cards.iter().enumerate() {
            let (router, node) = (routers[&card.switch], NodeId::of(i));
            let ports = (0..).zip(&card.ports);
            let out: Vec<Cable> = ports.map(|(n, &p)| (n, p, card.metres)).collect();
            let back: Vec<Cable> = out.iter().map(|&(n, p, m)| (p, n, m)).collect();
            let inject = add_link(&mut b, "edge", End::Node(node), End::Router(router), &out);
            let eject = add_link(&mut b, "edge", End::Router(router), End::Node(node), &back);
            let host = name.rsplit_once('h').map_or(name.as_str(), |(h, _)| h);
            b.node(name.clone(), host, None, router, inject, eject);
        }
        b.finish()
    }

    /// Adds switches; coordinates are the group and the number in the group, if all groups are known.
    fn routers(&self, b: &mut FabricBuilder) -> BTreeMap<String, RouterId> {
        let groups: BTreeSet<u32> = self.switches.values().filter_map(|g| *g).collect();
        let known = self.switches.values().all(Option::is_some);
        let is_grid = known && groups.last().is_some_and(|&g| g < MAX_GROUPS);
        let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
        let mut routers = BTreeMap::new();
        for ((_, switch), group) in &self.switches {
            let group = group.unwrap_or_default();
            let size = sizes.entry(group).or_default();
            let coord = [group, *size];
            *size += 1;
            let coord = if is_grid { &coord[..] } else { &[] };
            routers.insert(switch.clone(), b.router(switch.clone(), coord));
        }
        if is_grid {
            let most = |list: &mut dyn Iterator<Item = u32>| list.max().unwrap_or_default();
            b.shape(Shape {
                dims: vec![
                    most(&mut groups.iter().copied()) + 1,
                    most(&mut sizes.values().copied()),
                ],
                wrap: vec![false; 2],
            });
        }
        routers
    }
}

fn is_absent(cell: &[u8]) -> bool {
    matches!(cell, b"" | b"none" | b"n/a")
}

fn add_link(b: &mut FabricBuilder, kind: &str, from: End, to: End, cables: &[Cable]) -> LinkId {
    let kind = b.kind(kind, false);
    let ports = cables.len().min(usize::from(u16::MAX / LANES)) as u16;
    let metres = cables.iter().map(|c| c.2).fold(0.0, f64::max);
    let switch = match to {
        End::Router(_) => SLINGSHOT_HOP.0,
        _ => 0.0,
    };
    let latency = Seconds(switch + metres * SECONDS_PER_METRE);
    let capacity = BytesPerSecond(SLINGSHOT_PORT.0 * f64::from(ports));
    let link = b.link(LinkSpec {
        lanes: LANES * ports,
        lanes_in_service: LANES * ports,
        ..LinkSpec::new(from, to, kind, capacity, latency)
    });
    for &(from, to, _) in cables {
        b.port(link, from, to);
    }
    link
}
