//! `rtr --phys-routes`: the route of each pair of Geminis, tile by tile.
//!
//! ```text
//! {23,24,33,34,43,44,53,54}c0-0c0s0g0{00,01,10,11,25-27,35} -> {06,07,16-22,32}c0-0c0s1g0{23,…,54}
//! ```
//!
//! Each hop consists of the tiles a packet may enter by, the Gemini, and the tiles it may leave by; the first and the
//! last set are host tiles. Tiles and tile ranges are octal: 16-22 is 16, 17, 20, 21, 22. A line that ends with `->`
//! continues on the next line. The routes are checked against the fabric, tile by tile, and against its own routing;
//! if they differ, the file takes precedence.

use crate::fabric::names::note_of;
use crate::text::{Line, Text};
use hopbyte_fabric::routing::ForwardingTables;
use hopbyte_fabric::{End, Fabric, InputError, LinkId, RouterId, Routing};
use memchr::memchr;
use std::collections::HashMap;

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    line.words().next().and_then(Hop::parse).is_some()
}

/// One hop: sets of tiles as bits, and the router between them.
struct Hop<'a> {
    enter: u64,
    router: &'a [u8],
    leave: u64,
}

impl<'a> Hop<'a> {
    fn parse(word: &'a [u8]) -> Option<Self> {
        let word = word.strip_prefix(b"{")?.strip_suffix(b"}")?;
        let first = memchr(b'}', word)?;
        let rest = &word[first + 1..];
        let second = memchr(b'{', rest)?;
        Some(Self {
            enter: tiles(&word[..first])?,
            router: &rest[..second],
            leave: tiles(&rest[second + 1..])?,
        })
    }
}

/// Reads `00,01,25-27` as a set of tiles.
fn tiles(list: &[u8]) -> Option<u64> {
    let tile = |text: &[u8]| match text {
        [row @ b'0'..=b'7', column @ b'0'..=b'7'] => Some(8 * (row - b'0') + (column - b'0')),
        _ => None,
    };
    let mut set = 0u64;
    for item in list.split(|&b| b == b',') {
        let (first, last) = match memchr(b'-', item) {
            Some(dash) => (tile(&item[..dash])?, tile(&item[dash + 1..])?),
            None => (tile(item)?, tile(item)?),
        };
        for tile in first..=last {
            set |= 1 << tile;
        }
        if last < first {
            return None;
        }
    }
    Some(set)
}

/// Checks the routes of files against a fabric.
pub struct PhysRoutes<'a> {
    fabric: &'a Fabric,
    routing: &'a Routing,
    /// Link by router and sending tile.
    links: HashMap<(RouterId, u16), LinkId>,
    /// Next hop by router and destination router, from routes that differ from the fabric's own.
    other: HashMap<(RouterId, RouterId), LinkId>,
    routes: usize,
    differ: Vec<String>,
}

impl<'a> PhysRoutes<'a> {
    /// No routes yet.
    pub fn new(fabric: &'a Fabric, routing: &'a Routing) -> Self {
        let mut links = HashMap::with_capacity(fabric.port_count());
        for router in fabric.router_ids() {
            for &link in fabric.links_from(router) {
                for pair in fabric.ports(link) {
                    links.insert((router, pair.from), link);
                }
            }
        }
        Self {
            fabric,
            routing,
            links,
            other: HashMap::new(),
            routes: 0,
            differ: Vec::new(),
        }
    }

    /// Reads one file.
    pub fn read(&mut self, text: &Text) -> Result<(), InputError> {
        let mut route: Vec<(RouterId, u64)> = Vec::new();
        let mut goes_on = false;
        let before = self.routes;
        for line in text.lines().filter(|l| !l.trimmed().starts_with(b"#")) {
            for word in line.words() {
                if word == b"->" {
                    if goes_on || route.is_empty() {
                        return Err(text.error_in(line, word, "a hop {TILES}GEMINI{TILES}"));
                    }
                    goes_on = true;
                    continue;
                }
                if !goes_on && !route.is_empty() {
                    return Err(text.error_in(line, word, "-> between hops"));
                }
                self.hop(text, line, word, &mut route)?;
                goes_on = false;
            }
            if !goes_on && !route.is_empty() {
                self.whole(&route);
                route.clear();
            }
        }
        if goes_on {
            return Err(text
                .error("the end of the file", "the rest of a route")
                .hint("is the file cut?"));
        }
        if self.routes == before {
            let found = "an empty file, or comments alone";
            return Err(text
                .error(found, "routes {TILES}GEMINI{TILES} -> …")
                .hint("rtr --phys-routes writes them"));
        }
        Ok(())
    }

    /// Adds a hop; its tiles must match the wiring from the previous hop.
    fn hop(
        &self,
        text: &Text,
        line: Line<'_>,
        word: &[u8],
        route: &mut Vec<(RouterId, u64)>,
    ) -> Result<(), InputError> {
        let wrong = |expected: String| text.error_in(line, word, expected);
        let hop = Hop::parse(word).ok_or_else(|| wrong("a hop {TILES}GEMINI{TILES}".into()))?;
        let router = std::str::from_utf8(hop.router)
            .ok()
            .and_then(|name| self.fabric.router_named(name))
            .ok_or_else(|| wrong("a Gemini of this machine".into()))?;
        if let Some(&(before, leave)) = route.last() {
            let mut arrive = 0u64;
            for tile in (0..64).filter(|t| leave >> t & 1 == 1) {
                let link = self.links.get(&(before, tile));
                let pair = link.and_then(|&l| self.fabric.ports(l).iter().find(|p| p.from == tile));
                match (link, pair) {
                    (Some(&link), Some(pair))
                        if self.fabric.link(link).to == End::Router(router) =>
                    {
                        arrive |= 1 << (pair.to & 63);
                    }
                    _ => {
                        let name = &self.fabric.router(before).name;
                        let expected = format!("a Gemini that {name}l{tile:02o} is wired to");
                        return Err(wrong(expected));
                    }
                }
            }
            if arrive != hop.enter {
                return Err(wrong("the tiles that the hop before is wired to".into()));
            }
        }
        route.push((router, hop.leave));
        Ok(())
    }

    /// Compares a complete route with the fabric's own.
    fn whole(&mut self, route: &[(RouterId, u64)]) {
        self.routes += 1;
        let Some(&(to, _)) = route.last() else { return };
        let hops: Vec<(RouterId, LinkId)> = route[..route.len() - 1]
            .iter()
            .filter_map(|&(router, leave)| {
                let tile = leave.trailing_zeros() as u16;
                Some((router, *self.links.get(&(router, tile))?))
            })
            .collect();
        let Some(&target) = self.fabric.nodes_on(to).first() else {
            return;
        };
        let agrees = hops
            .iter()
            .all(|&(at, link)| self.routing.next_link(self.fabric, at, target) == Ok(link));
        if !agrees {
            let name = |r: RouterId| &self.fabric.router(r).name;
            self.differ
                .push(format!("{} to {}", name(route[0].0), name(to)));
            self.other
                .extend(hops.iter().map(|&(at, link)| ((at, to), link)));
        }
    }

    /// The routing with the routes from the files, if it differs from the fabric's own.
    pub fn finish(self, notes: &mut Vec<String>) -> Option<Routing> {
        if self.differ.is_empty() {
            let own = self.routing.describe();
            notes.push(format!(
                "{} routes of the machine agree with {own}",
                self.routes
            ));
            return None;
        }
        note_of(
            notes,
            &self.differ,
            "route of the machine is",
            "routes of the machine are",
            "different from the computed one; next hops are taken from them, the others computed",
        );
        let mut tables = ForwardingTables::new(self.fabric);
        for at in self.fabric.router_ids() {
            for to in self.fabric.node_ids() {
                let target = self.fabric.node(to).router;
                let known = self.other.get(&(at, target)).copied();
                let link = known.or_else(|| self.routing.next_link(self.fabric, at, to).ok());
                if let Some(link) = link {
                    tables.set(self.fabric, at, to, link);
                }
            }
        }
        Some(Routing::Tables(tables))
    }
}
