//! Faults: links, lanes and routers out of service, and the machine without them.

use crate::error::{FabricError, InputError};
use crate::fabric::{End, Fabric};
use crate::ids::{LinkId, RouterId};
use std::collections::HashMap;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A cable: both directions of a link.
    Cable(LinkId),
    /// One direction of a link.
    OneWay(LinkId),
    /// Lanes of a link lost, in both directions.
    Lanes {
        /// The link.
        link: LinkId,
        /// Number of lanes lost.
        lost: u16,
    },
    /// A router with all its links, including those of its nodes.
    Router(RouterId),
}

/// Lanes in service by `netwatch` lane mask of a tile: 7 all three, 3, 5 and 6 two, 1, 2 and 4 one (paper 002, II.F).
/// `None` beyond three bits.
pub fn lanes_of_mask(mask: u32) -> Option<u16> {
    (mask <= 7).then(|| mask.count_ones() as u16)
}

/// Reads faults, one per line; `file` is the name of the text in errors.
///
/// Lines: a link name (`c0-0c0s0g0 X+`, `ibcore01[29]`: the cable, both directions), the same after `one-way`, a
/// router name, a Cray tile (`c0-0c0s0a0l17`, the number octal), or a log line with a tile and a `lanemask`. Empty lines and `#` comments are skipped. Other log
/// lines are returned verbatim.
pub fn parse<'a>(
    fabric: &Fabric,
    file: &str,
    text: &'a str,
) -> Result<(Vec<Fault>, Vec<&'a str>), FabricError> {
    let names: HashMap<String, LinkId> = fabric
        .link_ids()
        .map(|l| (fabric.link_name(l), l))
        .collect();
    let mut faults = Vec::new();
    let mut other = Vec::new();
    for (number, raw) in (1..).zip(text.lines()) {
        let line = raw.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |found: &str, expected: &str| {
            InputError::new(file, found, expected).at(number).hint(
                "one fault per line: a router, a link as `fabric route` prints it, `one-way LINK`, or a log line with a tile and its lanemask",
            )
        };
        if let Some(tile_fault) = log_line(fabric, line, &wrong)? {
            faults.push(tile_fault);
        } else if let Some(&link) = line
            .strip_prefix("one-way ")
            .and_then(|l| names.get(l.trim()))
        {
            faults.push(Fault::OneWay(link));
        } else if let Some(&link) = names.get(line) {
            faults.push(Fault::Cable(link));
        } else if let Some(router) = fabric.router_named(line) {
            faults.push(Fault::Router(router));
        } else if let Some((link, lost)) = tile(fabric, line).and_then(|t| of_tile(fabric, t)) {
            faults.push(Fault::Lanes { link, lost });
        } else if line.split_whitespace().count() > 3 {
            other.push(raw);
        } else {
            return Err(wrong(line, "a link or router of the fabric").into());
        }
    }
    Ok((faults, other))
}

/// A log line with `lanemask N`: the fault of its tile, if any lane is lost.
fn log_line(
    fabric: &Fabric,
    line: &str,
    wrong: &impl Fn(&str, &str) -> InputError,
) -> Result<Option<Fault>, FabricError> {
    let Some((_, after)) = line.split_once("lanemask") else {
        return Ok(None);
    };
    let digits = after.trim_start_matches(|c: char| c == '=' || c == ':' || c.is_whitespace());
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let lanes = digits[..end].parse().ok().and_then(lanes_of_mask);
    let lanes = lanes.ok_or_else(|| wrong(after.trim(), "a lane mask from 0 to 7"))?;
    let named = line
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .find_map(|word| tile(fabric, word));
    let named = named.ok_or_else(|| wrong(line, "a tile of the fabric such as c0-0c1s1g0l17"))?;
    let (link, per_tile) =
        of_tile(fabric, named).ok_or_else(|| wrong(line, "a tile that carries a network link"))?;
    Ok(Some(Fault::Lanes {
        link,
        lost: per_tile.saturating_sub(lanes),
    }))
}

/// Router and number of a tile by its name, as Cray's logs and `rtr` print it: the number is octal.
fn tile(fabric: &Fabric, name: &str) -> Option<(RouterId, u16)> {
    let (router, tile) = name.rsplit_once('l')?;
    Some((
        fabric.router_named(router)?,
        u16::from_str_radix(tile, 8).ok()?,
    ))
}

/// The link that leaves a tile, and its lanes on it.
fn of_tile(fabric: &Fabric, (router, tile): (RouterId, u16)) -> Option<(LinkId, u16)> {
    let mut links = fabric.links_from(router).iter().copied();
    let link = links.find(|&l| fabric.ports(l).iter().any(|p| p.from == tile))?;
    Some((
        link,
        fabric.link(link).lanes / fabric.ports(link).len().max(1) as u16,
    ))
}

impl Fabric {
    /// The machine with faults: links keep their names and ids, their lanes in service decrease.
    #[must_use]
    pub fn with_faults(mut self, faults: &[Fault]) -> Self {
        for &fault in faults {
            match fault {
                Fault::Cable(link) => self.lose_lanes(link, u16::MAX, true),
                Fault::OneWay(link) => self.lose_lanes(link, u16::MAX, false),
                Fault::Lanes { link, lost } => self.lose_lanes(link, lost, true),
                Fault::Router(router) => {
                    for link in 0..self.links.len() {
                        let (from, to) = (self.links[link].from, self.links[link].to);
                        if touches(from, router) || touches(to, router) {
                            self.lose_lanes(LinkId::of(link), u16::MAX, false);
                        }
                    }
                }
            }
        }
        self
    }

    fn lose_lanes(&mut self, link: LinkId, lost: u16, both: bool) {
        let back = self.reverse(link).filter(|_| both);
        for id in [Some(link), back].into_iter().flatten() {
            let lanes = &mut self.links[id.index()].lanes_in_service;
            *lanes = lanes.saturating_sub(lost);
        }
    }
}

fn touches(end: End, router: RouterId) -> bool {
    matches!(end, End::Router(r) | End::Hosts(r) if r == router)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::random::Random;
    use crate::routing::Routing;
    use crate::spec;

    /// A torus, mesh or Gemini with some failed cables, and the routing around them.
    pub(crate) fn some_failed(seed: u64) -> (Fabric, Routing) {
        let mut random = Random::new(seed);
        let kinds = [
            "torus:4x3x5",
            "gemini:3x4x4",
            "mesh:4x4:nodes=2",
            "torus:5x4x2x3",
        ];
        let whole = spec::fabric(kinds[random.below(kinds.len())]).unwrap();
        let between = |&l: &LinkId| whole.link(l).is_between_routers();
        let links: Vec<LinkId> = whole.link_ids().filter(between).collect();
        let faults: Vec<Fault> = (0..random.below(7))
            .map(|i| match (links[random.below(links.len())], i) {
                (link, 6) => Fault::OneWay(link),
                (link, _) => Fault::Cable(link),
            })
            .collect();
        let fabric = whole.with_faults(&faults);
        let routing = Routing::default_for(&fabric);
        (fabric, routing)
    }
}
