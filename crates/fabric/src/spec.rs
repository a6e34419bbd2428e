//! Machines described by a spec: `gemini:16x12x24`, `fattree:k=16,levels=3`.

use crate::bounds::{CAPACITY, MAX_LATENCY, MAX_LINKS, MAX_NODES, MAX_ROUTERS, Size, product};
use crate::class::Class;
use crate::direction::Direction;
use crate::error::{FabricError, InputError};
use crate::fabric::{Fabric, Shape};
use crate::fat_tree::FatTree;
use crate::hosts::{self, HostKind, HostSpec};
use crate::ids::NodeId;
use crate::routing::{Routing, TreeRouting};
use crate::torus::Grid;
use crate::units::{BytesPerSecond, Seconds};
use crate::{aries, dragonfly, gemini, hyperx, presets};

/// Forms of fabric specs with their meanings, for help texts.
pub const FABRIC_SPECS: [(&str, &str); 8] = [
    ("gemini:XxYxZ", "Cray XE/XK torus, two nodes per router"),
    (
        "torus:AxBx…[:nodes=1,link=12.5,host=12.5,latency=100]",
        "torus, up to six dimensions",
    ),
    ("mesh:AxBx…[:…]", "the same without wrap-around"),
    (
        "aries:GROUPSxCHASSISxSLOTS[:blue=N,columns=N]",
        "Cray XC dragonfly, four nodes per router",
    ),
    (
        "dragonfly:GROUPSxROUTERS[:nodes=4,global=1,link=12.5]",
        "canonical dragonfly; global = links between two groups",
    ),
    (
        "slingshot:GROUPSxSWITCHES[:nodes=16,global=1]",
        "HPE Slingshot, 25 GB/s per port",
    ),
    (
        "fattree:k=16,levels=3[,over=1,rails=1,link=12.5] or fattree:down=4x8,up=1x4",
        "switch tree",
    ),
    (
        "hyperx:AxBx…[:nodes=1,link=12.5,host=12.5,latency=100]",
        "all-to-all in each dimension",
    ),
];

/// The fabric of a spec with its routing.
#[derive(Clone, Debug)]
pub struct Described {
    /// The fabric.
    pub fabric: Fabric,
    /// Its default routing.
    pub routing: Routing,
}

/// Whether the text is a fabric spec or preset, as opposed to a file name.
pub fn is_fabric_spec(text: &str) -> bool {
    let named = |name: &str| {
        FABRIC_SPECS
            .iter()
            .any(|(form, _)| form.split(':').next() == Some(name))
    };
    text.split_once(':').is_some_and(|(name, _)| named(name)) || presets::spec_of(text).is_some()
}

/// Builds the fabric of a spec or preset (see [`FABRIC_SPECS`] and [`presets`]).
pub fn fabric(text: &str) -> Result<Fabric, FabricError> {
    machine(text).map(|m| m.fabric)
}

/// Builds the fabric of a spec or preset with its routing. The option `hosts=KIND[/RULE]` of every kind of machine
/// describes hosts: consecutive endpoints, or with rails the endpoints of a host, become its ports.
pub fn machine(text: &str) -> Result<Described, FabricError> {
    let spec = presets::spec_of(text).unwrap_or(text);
    let Some((spec, hosts)) = hosts_option(spec) else {
        return network(text, spec, &|_, _| Ok(()));
    };
    let kind = HostSpec::parse(&hosts)?;
    let described = network(text, &spec, &|size, own| fits(kind, size, own, text))?;
    let mut fabric = described.fabric;
    let groups = fabric.grouped(kind.kind.gpus, text)?;
    let record = hosts::describe(kind, &groups, kind.kind.hosts, &|_, _| None)?;
    Ok(Described {
        fabric: fabric.with_hosts(record)?,
        routing: described.routing.within(kind.rule),
    })
}

/// A spec without its option `hosts=`, and the value.
fn hosts_option(spec: &str) -> Option<(String, String)> {
    let at = spec.match_indices("hosts=").find(|(at, _)| {
        let before = spec[..*at].chars().next_back();
        matches!(before, Some(',' | ':'))
    })?;
    let rest = &spec[at.0..];
    let value = rest.split(',').next().unwrap_or(rest);
    let after = rest[value.len()..].trim_start_matches(',');
    let before = spec[..at.0].trim_end_matches(',');
    let before = match after {
        "" => before.trim_end_matches(':').to_owned(),
        _ if before.ends_with(':') => before.to_owned(),
        _ => format!("{before},"),
    };
    Some((before + after, value["hosts=".len()..].to_owned()))
}

/// Refuses hosts that a machine's endpoints do not make up, or whose inside exceeds the bounds of a fabric, before it is
/// built. `own` is the number of endpoints of each host of the network.
fn fits(kind: HostSpec, size: Size, own: u32, text: &str) -> Result<(), FabricError> {
    let wrong = |what: &str, found: String, expected: String| {
        let what = what.to_owned();
        Err(FabricError::OutOfRange {
            what,
            found,
            expected,
        })
    };
    let (gpus, own) = (u64::from(kind.kind.gpus), u64::from(own));
    if gpus > 0 && own > 1 && own != gpus {
        let found = format!("{own} endpoints a host");
        return wrong(text, found, format!("{gpus}, one for each GPU"));
    }
    if gpus > 0 && own == 1 && !size.nodes.is_multiple_of(gpus) {
        let found = format!("{} endpoints", size.nodes);
        return wrong(text, found, format!("whole hosts of {gpus}"));
    }
    // A unit of hosts stands for all.
    let each = gpus.max(own) as usize;
    let ports = |h: usize| (h * each..(h + 1) * each).map(NodeId::of).collect();
    let hosts = usize::from(kind.kind.hosts);
    let unit: Vec<(String, Vec<NodeId>)> =
        (0..hosts).map(|h| (format!("h{h}"), ports(h))).collect();
    let record = hosts::describe(kind, &unit, kind.kind.hosts, &|_, _| None)?;
    let units = size.nodes / (each * hosts) as u64;
    let inside = |count: fn(&HostKind) -> usize| {
        let kinds = record
            .units
            .iter()
            .map(|u| count(&record.kinds[u.kind as usize]));
        kinds.map(|n| n as u64).sum::<u64>().saturating_mul(units)
    };
    for (what, count, most) in [
        (
            "routers",
            size.routers + inside(|k| k.routers.len()),
            MAX_ROUTERS,
        ),
        ("nodes", size.nodes + inside(|k| k.own.len()), MAX_NODES),
        ("links", size.links + inside(|k| k.links.len()), MAX_LINKS),
    ] {
        if count > most {
            let expected = format!("at most {most}, inside of hosts included");
            return wrong(what, count.to_string(), expected);
        }
    }
    Ok(())
}

/// Accepts or refuses a size, with the endpoints of a host, before the fabric is built.
type Check<'a> = &'a dyn Fn(Size, u32) -> Result<(), FabricError>;

/// The network of a spec.
fn network(text: &str, spec: &str, check: Check<'_>) -> Result<Described, FabricError> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let words = Words {
        spec: text,
        name,
        rest,
    };
    let fabric = match name {
        "gemini" => {
            let dims = words.dims(3..=3)?;
            words.options(|_, _| None)?;
            let dims = [dims[0], dims[1], dims[2]];
            check(gemini::size(dims), 1)?;
            gemini::build(dims, text)?
        }
        "torus" | "mesh" => {
            let grid = words.grid(name == "torus")?;
            check(grid.size(), 1)?;
            grid.build(text)?
        }
        "hyperx" => {
            let g = words.grid(false)?;
            check(hyperx::size(&g.shape.dims, g.nodes_per_router), 1)?;
            hyperx::build(
                &g.shape.dims,
                g.nodes_per_router,
                g.link,
                g.host,
                g.hop_latency,
                text,
            )?
        }
        "aries" => words.aries(text, check)?,
        "dragonfly" | "slingshot" => words.dragonfly(text, check)?,
        "fattree" => {
            let tree = words.fat_tree()?;
            check(tree.size(), tree.rails)?;
            let fabric = tree.build(text)?;
            return Ok(Described {
                fabric,
                routing: Routing::Tree(TreeRouting::new(&tree)),
            });
        }
        _ => return Err(words.wrong(name, "a known kind of machine").into()),
    };
    let routing = Routing::default_for(&fabric);
    Ok(Described { fabric, routing })
}

/// Advice for a spec that begins with no kind and is no preset.
pub fn unknown_kind(name: &str) -> String {
    let forms = FABRIC_SPECS
        .iter()
        .filter_map(|(form, _)| form.split(':').next());
    let named = presets::PRESETS.iter().map(|preset| preset.0);
    match &crate::similar(name, forms.chain(named))[..] {
        [] => format!(
            "fabric specs begin with gemini, torus, mesh, aries, dragonfly, slingshot, fattree or hyperx; presets are {}",
            presets::names()
        ),
        near => format!(
            "there is {}; `hopbyte fabric specs` lists all",
            near.join(", ")
        ),
    }
}

/// A parsed spec.
struct Words<'a> {
    spec: &'a str,
    name: &'a str,
    rest: &'a str,
}

impl Words<'_> {
    fn wrong(&self, found: &str, expected: &str) -> InputError {
        let known = FABRIC_SPECS
            .iter()
            .find(|(form, _)| form.split(':').next() == Some(self.name));
        let hint = known.map_or_else(
            || unknown_kind(self.name),
            |(form, meaning)| format!("write {form} ({meaning})"),
        );
        InputError::new(self.spec, found, expected)
            .of(Class::Spec)
            .hint(hint)
    }

    fn dims(&self, count: std::ops::RangeInclusive<usize>) -> Result<Vec<u32>, FabricError> {
        let text = self.rest.split(':').next().unwrap_or("");
        let dims = dims(text)
            .filter(|d| count.contains(&d.len()))
            .ok_or_else(|| {
                let counts = match (count.start(), count.end()) {
                    (least, most) if least == most => most.to_string(),
                    (least, most) => format!("{least} to {most}"),
                };
                let expected = format!("{counts} sizes from 1 joined by x");
                self.wrong(text, &expected)
            })?;
        let routers = product(dims.iter().map(|&d| u64::from(d)));
        let size = Size {
            routers,
            nodes: 0,
            links: 0,
            ports: 0,
        };
        size.check(self.spec)?;
        Ok(dims)
    }

    /// Calls `set` for every `key=value` after the dimensions; `set` returns `None` to reject.
    fn options(&self, mut set: impl FnMut(&str, &str) -> Option<()>) -> Result<(), FabricError> {
        let text = self.rest.split_once(':').map_or("", |(_, options)| options);
        self.each_option(text, &mut set)
    }

    fn each_option(
        &self,
        text: &str,
        set: &mut impl FnMut(&str, &str) -> Option<()>,
    ) -> Result<(), FabricError> {
        for option in text.split(',').filter(|o| !o.is_empty()) {
            option
                .split_once('=')
                .and_then(|(key, value)| set(key, value))
                .ok_or_else(|| {
                    let expected = "a known option with a positive number within its bounds";
                    let mut error = self.wrong(option, expected);
                    if let Some(meant) = self.meant(option) {
                        let form = error.hint.unwrap_or_default();
                        error.hint = Some(format!("did you mean {meant}? {form}"));
                    }
                    error
                })?;
        }
        Ok(())
    }

    /// A misspelt option with the name that it may stand for. A mesh has the options of a torus.
    fn meant(&self, option: &str) -> Option<String> {
        let name = if self.name == "mesh" {
            "torus"
        } else {
            self.name
        };
        let (form, _) = FABRIC_SPECS
            .iter()
            .find(|(form, _)| form.split(':').next() == Some(name))?;
        let known: Vec<&str> = form
            .split([':', ',', '[', ']'])
            .filter_map(|part| Some(part.split_once('=')?.0))
            .collect();
        let (key, value) = option.split_once('=').unwrap_or((option, "…"));
        let near = crate::similar(key, known.iter().copied());
        let near = near.first().filter(|near| *near != key)?;
        Some(format!("{near}={value}"))
    }

    fn grid(&self, wrap: bool) -> Result<Grid, FabricError> {
        let dims = self.dims(1..=Direction::MAX_DIMENSIONS)?;
        let mut grid = Grid {
            shape: Shape {
                wrap: vec![wrap; dims.len()],
                dims,
            },
            nodes_per_router: 1,
            link: BytesPerSecond::from_gb(12.5),
            host: BytesPerSecond::from_gb(12.5),
            hop_latency: Seconds(100e-9),
        };
        self.options(|key, value| {
            match key {
                "nodes" => grid.nodes_per_router = count(value, 1024)?,
                "link" => grid.link = BytesPerSecond::from_gb(rate(value)?),
                "host" => grid.host = BytesPerSecond::from_gb(rate(value)?),
                "latency" => {
                    grid.hop_latency =
                        Seconds(positive(value).filter(|ns| *ns <= MAX_LATENCY * 1e9)? * 1e-9);
                }
                // Letters of the dimensions without wrap-around: `open=XY`.
                "open" if wrap => {
                    for letter in value.chars() {
                        let d = Direction::parse(&format!("{letter}+"))?.dim as usize;
                        *grid.shape.wrap.get_mut(d)? = false;
                    }
                }
                _ => return None,
            }
            Some(())
        })?;
        Ok(grid)
    }

    fn aries(&self, source: &str, check: Check<'_>) -> Result<Fabric, FabricError> {
        let dims = self.dims(3..=3)?;
        let (mut blue, mut columns, mut absent) = (None, None, None);
        self.options(|key, value| {
            match key {
                "blue" => blue = Some(count(value, 960).filter(|b| b.is_multiple_of(2))?),
                "columns" => columns = Some(count(value, 1024)?),
                "absent" => absent = Some(value.parse::<u32>().ok()?),
                _ => return None,
            }
            Some(())
        })?;
        if dims[1] > 6 || dims[2] > 16 {
            return Err(self
                .wrong(self.rest, "at most 6 chassis of 16 slots per group")
                .into());
        }
        let groups: Vec<u32> = (0..)
            .filter(|g| Some(*g) != absent)
            .take(dims[0] as usize)
            .collect();
        // Ten blue tiles per router, in pairs, distributed over the other groups.
        let fitting = dims[1] * dims[2] * 10 / (dims[0] - 1).max(1) / 2 * 2;
        if fitting == 0 {
            let found = format!("{} groups of {} routers", dims[0], dims[1] * dims[2]);
            return Err(self
                .wrong(
                    &found,
                    "groups with two blue tiles for every other group, ten per router",
                )
                .into());
        }
        let machine = aries::machine(groups, dims[1], dims[2], blue.unwrap_or(fitting.min(24)));
        if machine.global_links * 2 > fitting && dims[0] > 1 {
            let found = format!("{} blue tiles per pair of groups", machine.global_links * 2);
            return Err(self
                .wrong(&found, &format!("at most {fitting}, ten per router"))
                .into());
        }
        let floor = aries::Floor {
            columns: columns.unwrap_or(2 * dims[0]),
        };
        check(machine.size(), 1)?;
        aries::build(&machine, floor, source)
    }

    fn dragonfly(&self, source: &str, check: Check<'_>) -> Result<Fabric, FabricError> {
        let dims = self.dims(2..=2)?;
        let slingshot = self.name == "slingshot";
        let (mut nodes, mut global, mut link) = (if slingshot { 16 } else { 4 }, 1, 12.5);
        self.options(|key, value| {
            match key {
                "nodes" => nodes = count(value, 1024)?,
                "global" => global = count(value, 4096)?,
                "link" if !slingshot => link = rate(value)?,
                _ => return None,
            }
            Some(())
        })?;
        let link = BytesPerSecond::from_gb(link);
        let machine = if slingshot {
            dragonfly::slingshot(dims[0], dims[1], nodes, global)
        } else {
            dragonfly::canonical(dims[0], dims[1], nodes, global, link)
        };
        check(machine.size(), 1)?;
        machine.build(source, dragonfly::plain_names)
    }

    fn fat_tree(&self) -> Result<FatTree, FabricError> {
        let (mut k, mut levels, mut over, mut rails, mut link) = (None, 2, 1, 1, 12.5);
        let (mut down, mut up) = (None, None);
        self.each_option(self.rest, &mut |key, value| {
            match key {
                "k" => k = Some(count(value, 4096)?),
                "levels" => levels = count(value, 3)?,
                "over" => over = count(value, 64)?,
                "rails" => rails = count(value, 64)?,
                "link" => link = rate(value)?,
                "down" => down = Some(dims(value)?),
                "up" => up = Some(dims(value)?),
                _ => return None,
            }
            Some(())
        })?;
        let tree = match (k, down, up) {
            (Some(k), None, None) => FatTree::of_radix(k, levels, over),
            (None, Some(down), up) => {
                let up = up.unwrap_or_else(|| vec![1; down.len()]);
                FatTree::of_levels(down, up)
            }
            _ => None,
        };
        let mut tree = tree.ok_or_else(|| {
            self.wrong(
                self.rest,
                "an even radix k that over + 1 divides, or down= and up= of one length of at most 8, up from 1",
            )
        })?;
        tree.link = BytesPerSecond::from_gb(link);
        tree.rails = rails;
        let leaves = tree.switches(1);
        if !leaves.is_multiple_of(u64::from(rails)) {
            return Err(self
                .wrong(
                    &format!("{leaves} leaves, {rails} rails"),
                    "leaves in whole units of rails",
                )
                .into());
        }
        Ok(tree)
    }
}

/// A whole number from 1 to `most`.
pub(crate) fn count(text: &str, most: u32) -> Option<u32> {
    text.parse().ok().filter(|n| (1..=most).contains(n))
}

/// A capacity in GB/s within the bounds of a link.
fn rate(text: &str) -> Option<f64> {
    positive(text).filter(|gb| (CAPACITY.0..=CAPACITY.1).contains(&BytesPerSecond::from_gb(*gb).0))
}

/// A finite number above zero.
pub(crate) fn positive(text: &str) -> Option<f64> {
    text.parse()
        .ok()
        .filter(|v: &f64| v.is_finite() && *v > 0.0)
}

/// Parses `4x4x4`: sizes of at least 1, product within bounds.
pub(crate) fn dims(text: &str) -> Option<Vec<u32>> {
    let dims: Vec<u32> = text
        .split('x')
        .map(|d| d.parse().ok().filter(|&d| d > 0))
        .collect::<Option<_>>()?;
    dims.iter()
        .try_fold(1u64, |n, &d| n.checked_mul(u64::from(d)))?;
    Some(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_machines_are_admitted() {
        // 65,536 Gemini nodes, a three-level tree of 101,306 ports, a group of 27,648 GPUs' hosts.
        for (spec, nodes) in [
            ("gemini:32x32x32", 65_536),
            ("fattree:k=74,levels=3", 101_306),
            ("fattree:down=18x32x48,up=1x18x18", 27_648),
            ("frontier-like", 37_888),
        ] {
            let found = fabric(spec).map(|f| f.nodes().len());
            assert_eq!(found, Ok(nodes), "{spec}");
        }
    }

    #[test]
    fn specs_build_or_say_what_is_wrong() {
        let nodes = |spec: &str| fabric(spec).unwrap().nodes().len();
        assert_eq!(nodes("torus:4x4x4:nodes=2"), 128);
        assert_eq!(nodes("aries:3x6x16"), 3 * 96 * 4);
        assert_eq!(nodes("dragonfly:33x8:nodes=4"), 1056);
        assert_eq!(nodes("slingshot:4x32"), 4 * 32 * 16);
        assert_eq!(nodes("fattree:k=16,levels=3"), 1024);
        assert_eq!(nodes("fattree:k=36,levels=2,over=2"), 24 * 36);
        assert_eq!(nodes("fattree:down=4x8x3,up=1x2x2"), 96);
        assert_eq!(nodes("hyperx:4x4:nodes=8"), 128);
        for bad in [
            "torus:",
            "torus:0x4",
            "torus:4x4:nodes=0",
            "gemini:4x4",
            "klein:4",
            "torus:99999x99999",
            "torus:4:link=nan",
            "gemini:2x2x8:nodes=3",
            "aries:2x7x16",
            "aries:40x6x16:blue=100",
            "fattree:k=7",
            "fattree:k=16,over=2",
            "fattree:down=4x4,up=1",
            "fattree:k=16,rails=3",
            "dragonfly:4",
            "hyperx:4294967295x4294967295x4294967295",
            "torus:1x1x1x1x1x1x1",
            "torus:2x2:link=1e300",
            "torus:2x2:latency=1e300",
            "aries:1000x6x16",
            "aries:100x1x1",
            "aries:400x6x16:blue=2",
            "hyperx:256x256",
            "gemini:65536x16x8",
            "torus:1024x1024:nodes=1024",
            "mesh:4294967295x1",
            "dragonfly:65536x8",
            "dragonfly:8x65536",
            "dragonfly:8x100000",
            "dragonfly:4x1:global=4096,nodes=1024,link=1e-300",
            "slingshot:1000000x1",
            "slingshot:4x65536",
            "hyperx:65536",
            "hyperx:1024x1024",
            "fattree:k=4096,levels=3",
            "fattree:down=100000x2,up=1x2",
            "fattree:down=2x65536,up=1x65536",
            "fattree:down=2x2x2,up=1x4294967295x4294967295",
            "fattree:down=1x1x1x1x1x1x1x1x2,up=1x1x1x1x1x1x1x1x1",
        ] {
            let error = fabric(bad).unwrap_err().to_string();
            assert!(
                error.contains("expected") && error.contains("hint"),
                "{bad}: {error}"
            );
        }
    }
}
