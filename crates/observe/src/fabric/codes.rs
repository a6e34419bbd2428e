//! CODES dragonflies: a model file (`.conf`) that names two binary files of links.
//!
//! ```text
//! num_router_rows="6";   num_router_cols="16";   num_groups="9";   num_cns_per_router="4";
//! local_bandwidth="5.25";   global_bandwidth="4.69";   cn_bandwidth="16.0";        GiB/s
//! intra-group-connections="…/intra-theta";   inter-group-connections="…/inter-theta";
//! ```
//!
//! The files hold little-endian 32-bit numbers: for links inside each group (source, destination, type 0 green or 1
//! black), for links between groups (source, destination) with routers numbered across all groups. Each direction is
//! listed, parallel links repeat. Dragonfly-plus models have `num_router_leaf` and `num_router_spine` instead of rows
//! and columns, and no types; leaves come first and have the nodes. Models of the canonical dragonfly
//! (`dragonfly_dally`) have `num_routers`, the routers of a group, all joined to all.

use crate::text::{Line, Text, decimal_u32, float, lossy};
use hopbyte_fabric::bounds::{MAX_DISTANCES, MAX_LINKS, MAX_NODES};
use hopbyte_fabric::dragonfly::plain_names;
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    End, Fabric, FabricBuilder, FabricError, Family, InputError, LinkSpec, RouterId, Shape,
};
use memchr::memchr;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// CODES counts bandwidth in GiB/s.
const GIB: f64 = (1u64 << 30) as f64;
/// Default traversal time of a router: 100 ns.
const ROUTER: Seconds = Seconds(100e-9);

/// Keys of the files.
const FILES: [&str; 2] = ["intra-group-connections", "inter-group-connections"];

/// Whether a line belongs to a model file.
pub fn recognise(line: Line<'_>) -> bool {
    matches!(line.trimmed(), b"LPGROUPS" | b"LPGROUPS {")
        || setting(line.trimmed()).is_some_and(|(key, _)| FILES.iter().any(|f| f.as_bytes() == key))
}

/// Reads `key="value";`.
fn setting(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = memchr(b'=', line)?;
    let value = line[equals + 1..].trim_ascii().strip_prefix(b"\"")?;
    let end = memchr(b'"', value)?;
    Some((line[..equals].trim_ascii(), &value[..end]))
}

/// Names of the two link files, as the model has them.
pub fn file_names(text: &Text) -> Result<[String; 2], InputError> {
    let model = Model::read(text);
    model.needs_files()?;
    Ok([model.text(FILES[0])?.into(), model.text(FILES[1])?.into()])
}

/// Reads a machine; `files` are the link files named by [`file_names`].
pub fn read(text: &Text, files: &[Text], notes: &mut Vec<String>) -> Result<Fabric, FabricError> {
    let model = Model::read(text);
    model.needs_files()?;
    let file = |key| -> Result<&Text, InputError> {
        let name = model.text(key)?;
        let base = base_name(name);
        let found = files.iter().find(|f| base_name(f.file()).starts_with(base));
        found.ok_or_else(|| {
            text.error(name, "a file of links beside the model")
                .hint(format!("the model's {key} names it"))
        })
    };
    let size = Size::read(&model)?;
    let (intra, inter) = (file(FILES[0])?, file(FILES[1])?);
    let width = if size.is_plus { 2 } else { 3 };
    let mut joints = Joints::default();
    let listed = (intra.bytes().len() / (4 * width)) as u64;
    if listed.saturating_mul(size.groups.into()) > MAX_LINKS {
        let found = format!("{listed} links in each of {} groups", size.groups);
        return Err(intra
            .error(found, format!("at most {MAX_LINKS} links"))
            .into());
    }
    for row in rows(intra, width)? {
        let class = match row.get(2) {
            None => "local",
            Some(0) => "green",
            Some(1) => "black",
            Some(other) => {
                return Err(intra.error(other.to_string(), "link type 0 or 1").into());
            }
        };
        let ends = [row[0], row[1]].map(|r| size.check(intra, r, size.in_group()));
        let [from, to] = [ends[0].clone()?, ends[1].clone()?];
        for group in 0..size.groups {
            let base = group * size.in_group();
            joints.add(base + from, base + to, class);
        }
    }
    for row in rows(inter, 2)? {
        let from = size.check(inter, row[0], size.routers())?;
        let to = size.check(inter, row[1], size.routers())?;
        joints.add(from, to, "global");
    }
    let fabric = size.build(&model, &joints)?;
    let one_way = joints.one_way();
    if one_way > 0 {
        notes.push(format!("{one_way} links are listed in one direction only"));
    }
    Ok(fabric)
}

/// Settings of a model file.
struct Model<'a> {
    text: &'a Text,
    settings: HashMap<&'a [u8], (Line<'a>, &'a [u8])>,
}

impl<'a> Model<'a> {
    fn read(text: &'a Text) -> Self {
        let mut settings = HashMap::new();
        for line in text.lines() {
            let trimmed = line.trimmed();
            if let Some((key, value)) = setting(trimmed).filter(|_| !trimmed.starts_with(b"#")) {
                settings.insert(key, (line, value));
            }
        }
        Self { text, settings }
    }

    fn text(&self, key: &str) -> Result<&'a str, InputError> {
        let value = self.settings.get(key.as_bytes());
        value
            .and_then(|(_, v)| std::str::from_utf8(v).ok())
            .ok_or_else(|| self.text.error("no such setting", format!("{key}=\"…\";")))
    }

    /// Refuses models that name no files of links.
    fn needs_files(&self) -> Result<(), InputError> {
        let names = |file: &str| self.settings.contains_key(file.as_bytes());
        match FILES.into_iter().any(names) {
            true => Ok(()),
            false => Err(self.without_files()),
        }
    }

    /// Refusal of the other networks of CODES, which numbers describe; a torus has a spec with the same numbers.
    fn without_files(&self) -> InputError {
        let order = self.text.lines().find_map(|line| {
            let rest = line.trimmed().strip_prefix(b"modelnet_order")?;
            rest.split(|&b| b == b'"').nth(1).map(lossy)
        });
        let network = order.map_or("network".into(), |name| format!("network ({name})"));
        let found = format!("a {network} without files of links");
        let expected = "a dragonfly whose links are in files (intra- and inter-group-connections)";
        let lengths = self.settings.get(b"dim_length".as_slice()).map(|(_, v)| *v);
        let dims: Option<Vec<u32>> = lengths.and_then(|v| {
            v.split(|&b| b == b',')
                .map(|d| decimal_u32(d.trim_ascii()))
                .collect()
        });
        let spec = dims.map_or_else(
            || "torus:…, fattree:…, dragonfly:… or hyperx:…".into(),
            |dims| {
                format!(
                    "torus:{}",
                    dims.iter()
                        .map(u32::to_string)
                        .collect::<Vec<_>>()
                        .join("x")
                )
            },
        );
        self.text
            .error(found, expected)
            .hint(format!("numbers alone describe it: give a spec, {spec}"))
    }

    fn count(&self, key: &str) -> Result<u32, InputError> {
        self.text(key)?;
        let (line, value) = self.settings[key.as_bytes()];
        decimal_u32(value).filter(|&n| n > 0).ok_or_else(|| {
            self.text
                .error_in(line, value, format!("a number above 0 for {key}"))
        })
    }

    fn bandwidth(&self, key: &str) -> Result<BytesPerSecond, InputError> {
        self.text(key)?;
        let (line, value) = self.settings[key.as_bytes()];
        float(value)
            .filter(|&v| v > 0.0 && v < 1e6)
            .map(|v| BytesPerSecond(v * GIB))
            .ok_or_else(|| {
                self.text
                    .error_in(line, value, format!("GiB/s above 0 for {key}"))
            })
    }
}

/// Counts of a model.
struct Size {
    is_plus: bool,
    groups: u32,
    /// Rows and columns, or leaves and spines.
    parts: [u32; 2],
    nodes: u32,
}

impl Size {
    fn read(model: &Model<'_>) -> Result<Self, InputError> {
        let has = |key: &str| model.settings.contains_key(key.as_bytes());
        let is_plus = has("num_router_leaf");
        let parts = if is_plus {
            [
                model.count("num_router_leaf")?,
                model.count("num_router_spine")?,
            ]
        } else if has("num_routers") && !has("num_router_rows") {
            [1, model.count("num_routers")?]
        } else {
            [
                model.count("num_router_rows")?,
                model.count("num_router_cols")?,
            ]
        };
        for key in ["num_planes", "num_rails"] {
            if has(key) && model.count(key)? > 1 {
                let (line, value) = model.settings[key.as_bytes()];
                return Err(model
                    .text
                    .error_in(line, value, format!("1 for {key}"))
                    .hint("nodes on several planes or rails are not read"));
            }
        }
        let size = Self {
            is_plus,
            groups: model.count("num_groups")?,
            parts,
            nodes: model.count("num_cns_per_router")?,
        };
        let [a, b] = size.parts.map(u64::from);
        let each = if is_plus { a + b } else { a.saturating_mul(b) };
        let routers = each.saturating_mul(size.groups.into());
        if routers > MAX_DISTANCES || routers.saturating_mul(size.nodes.into()) > MAX_NODES {
            let found = format!("{routers} routers with {} nodes each", size.nodes);
            let expected = format!("at most {MAX_DISTANCES} routers and {MAX_NODES} nodes");
            return Err(model.text.error(found, expected));
        }
        Ok(size)
    }

    fn in_group(&self) -> u32 {
        let [a, b] = self.parts;
        if self.is_plus { a + b } else { a * b }
    }

    fn routers(&self) -> u32 {
        self.groups * self.in_group()
    }

    fn check(&self, file: &Text, router: i32, count: u32) -> Result<u32, InputError> {
        u32::try_from(router)
            .ok()
            .filter(|&r| r < count)
            .ok_or_else(|| {
                file.error(
                    format!("router {router}"),
                    format!("one from 0 to {}", count - 1),
                )
            })
    }

    fn coord(&self, router: u32) -> Vec<u32> {
        let (group, local) = (router / self.in_group(), router % self.in_group());
        if self.is_plus {
            vec![group, local]
        } else {
            vec![group, local / self.parts[1], local % self.parts[1]]
        }
    }

    fn build(&self, model: &Model<'_>, joints: &Joints) -> Result<Fabric, FabricError> {
        let mut b = FabricBuilder::new(Family::Dragonfly, model.text.file());
        let dims = if self.is_plus {
            vec![self.groups, self.in_group()]
        } else {
            vec![self.groups, self.parts[0], self.parts[1]]
        };
        b.shape(Shape {
            wrap: vec![false; dims.len()],
            dims,
        });
        for r in 0..self.routers() {
            let coord = self.coord(r);
            b.router(plain_names(&coord, None).0, &coord);
        }
        let (local, global) = (
            model.bandwidth("local_bandwidth")?,
            model.bandwidth("global_bandwidth")?,
        );
        joints.links(&mut b, self.routers(), |class| {
            if class == "global" { global } else { local }
        })?;
        let host = b.kind("host", true);
        let capacity = model.bandwidth("cn_bandwidth")?;
        for r in 0..self.routers() {
            let coord = self.coord(r);
            let has_nodes = !self.is_plus || coord[1] < self.parts[0];
            for n in 0..if has_nodes { self.nodes } else { 0 } {
                let name = plain_names(&coord, Some(n)).0;
                b.node_with_link(name.clone(), name, RouterId(r), host, capacity);
            }
        }
        b.finish()
    }
}

/// Rows of little-endian 32-bit numbers.
fn rows(file: &Text, width: usize) -> Result<impl Iterator<Item = Vec<i32>>, InputError> {
    let bytes = file.bytes();
    if bytes.is_empty() || !bytes.len().is_multiple_of(4 * width) {
        let found = format!("{} bytes", bytes.len());
        return Err(file
            .error(found, format!("rows of {width} 32-bit numbers"))
            .hint("is the file cut, or that of another kind of dragonfly?"));
    }
    let number = |b: &[u8]| i32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    Ok(bytes
        .chunks_exact(4 * width)
        .map(move |row| row.chunks_exact(4).map(number).collect()))
}

/// Number of parallel links of each class from one router to another.
#[derive(Default)]
struct Joints(BTreeMap<(u32, u32, &'static str), u16>);

impl Joints {
    fn add(&mut self, from: u32, to: u32, class: &'static str) {
        let count = self.0.entry((from, to, class)).or_default();
        *count = count.saturating_add(1);
    }

    fn back(&self, &(from, to, class): &(u32, u32, &'static str)) -> u16 {
        self.0.get(&(to, from, class)).copied().unwrap_or(0)
    }

    fn one_way(&self) -> usize {
        let extra = |(key, &n): (&_, &u16)| usize::from(n.saturating_sub(self.back(key)));
        self.0.iter().map(extra).sum()
    }

    /// Adds a link for every pair and class. The files have no ports: each router's ports are numbered in the order
    /// of its neighbours, and the k-th link in one direction pairs with the k-th link back.
    fn links(
        &self,
        b: &mut FabricBuilder,
        routers: u32,
        capacity: impl Fn(&str) -> BytesPerSecond,
    ) -> Result<(), FabricError> {
        let mut next = vec![0u16; routers as usize];
        let mut first: HashMap<(u32, u32, &str), (u16, u16)> = HashMap::new();
        for (key @ &(from, to, class), &count) in &self.0 {
            let (near, far) = match first.get(&(to, from, class)) {
                Some(&(near, far)) => (far, near),
                None => {
                    let ports = count.max(self.back(key));
                    let mut take = |r: u32| {
                        let port = next[r as usize];
                        let end = port.checked_add(ports)?;
                        next[r as usize] = end;
                        Some(port)
                    };
                    let (Some(near), Some(far)) = (take(from), take(to)) else {
                        return Err(FabricError::OutOfRange {
                            what: format!("links of router {from} or {to}"),
                            found: "more than 65535".into(),
                            expected: "a router that can be built".into(),
                        });
                    };
                    (near, far)
                }
            };
            first.insert((from, to, class), (near, far));
            let kind = b.kind(class, false);
            let ends = [from, to].map(|r| End::Router(RouterId(r)));
            let total = BytesPerSecond(capacity(class).0 * f64::from(count));
            let link = b.link(LinkSpec {
                lanes: count,
                lanes_in_service: count,
                ..LinkSpec::new(ends[0], ends[1], kind, total, ROUTER)
            });
            for i in 0..count {
                b.port(link, near + i, far + i);
            }
        }
        Ok(())
    }
}

/// Possible locations of a file that a model names: that path relative to the model, or the model's folder.
pub fn candidates(model: &Path, name: &str) -> [PathBuf; 2] {
    let folder = model.parent().unwrap_or(Path::new(""));
    [folder.join(name), folder.join(base_name(name))]
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
