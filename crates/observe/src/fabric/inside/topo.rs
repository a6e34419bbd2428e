//! The matrix that `nvidia-smi topo -m` prints: the distance of every two GPUs and adapters of a node, in words.
//!
//! ```text
//!       GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity  GPU NUMA ID
//! GPU0   X    NV18  PXB   0-55,112-167  0              N/A
//! GPU1  NV18   X    SYS   56-111        1              N/A
//! NIC0  PXB   SYS    X
//!
//! NIC Legend:
//!   NIC0: mlx5_0
//! ```
//!
//! The heading is underlined on a terminal, and copies have lines that the terminal broke: words are read in their order,
//! wherever a line ends. Words of distance form a tree: what is at most one PCI bridge apart is below one switch, and so on
//! to the CPUs. A pair with NVLinks has no other distance; its CPU affinity and its adapters tell the place.

use super::nccl::Between;
use super::{BETWEEN_PACKAGES, INSIDE_PACKAGE, Inside, Rate};
use crate::ObserveError;
use crate::fabric::names::note_of;
use crate::text::{Line, Text, decimal_u32, excerpt, words};
use hopbyte_fabric::{Fabric, InputError, RouterId};
use std::collections::HashMap;

/// Largest number of GPUs and adapters; the largest servers have 32.
const DEVICES: usize = 256;
/// Largest number of NVLinks of a GPU (Hopper and Blackwell).
const NVLINKS_OF_GPU: u32 = 18;
/// The words of a distance, nearest first: one bridge, several, the host bridge, within a NUMA node, between these. PSB is a
/// bridge on the board of two GPUs, SOC what drivers before 384 print for SYS.
const DISTANCES: [&[&[u8]]; 5] = [
    &[b"PIX", b"PSB"],
    &[b"PXB"],
    &[b"PHB"],
    &[b"NODE"],
    &[b"SYS", b"SOC"],
];
/// Place of NODE among them.
const NODE: usize = 3;

/// Two devices in the matrix.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Itself,
    /// Place in [`DISTANCES`].
    Distance(usize),
    /// Number of NVLinks.
    NvLinks(u32),
    Unknown,
}

fn cell(word: &[u8]) -> Option<Cell> {
    if let Some(level) = DISTANCES.iter().position(|names| names.contains(&word)) {
        return Some(Cell::Distance(level));
    }
    match word {
        b"X" => Some(Cell::Itself),
        b"N/A" => Some(Cell::Unknown),
        _ => {
            let links = decimal_u32(word.strip_prefix(b"NV")?);
            links
                .filter(|n| (1..=NVLINKS_OF_GPU).contains(n))
                .map(Cell::NvLinks)
        }
    }
}

/// Whether a line is the heading: a GPU, and no distance behind it.
pub fn recognise(line: Line<'_>) -> bool {
    let plain = plain(line.bytes);
    let mut words = words(&plain);
    let first = words.next().is_some_and(is_gpu);
    let mut devices = words.take_while(|w| is_gpu(w) || w.starts_with(b"NIC") || w.contains(&b'_'));
    first && (devices.next().is_some() || plain.windows(12).any(|w| w == b"CPU Affinity"))
}

fn is_gpu(word: &[u8]) -> bool {
    word.strip_prefix(b"GPU")
        .is_some_and(|n| decimal_u32(n).is_some())
}

/// A line without the codes of a terminal.
fn plain(line: &[u8]) -> Vec<u8> {
    let mut parts = line.split(|&b| b == 0x1b);
    let mut plain = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let end = part.iter().position(u8::is_ascii_alphabetic);
        plain.extend_from_slice(&part[end.map_or(0, |e| e + 1)..]);
    }
    plain
}

/// Reads a matrix.
pub fn read(text: &Text, notes: &mut Vec<String>) -> Result<Fabric, ObserveError> {
    let matrix = Matrix::read(text)?;
    let mut inside = Inside::new(text);
    let routers = matrix.tree(&mut inside, notes);
    matrix.devices(&mut inside, &routers, notes);
    Ok(inside.finish(text, notes)?)
}

struct Matrix {
    /// As in the heading.
    devices: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// NUMA node, or processors, of each GPU.
    affinity: Vec<Option<String>>,
    /// Names of adapters by those of the heading.
    legend: HashMap<String, String>,
}

/// Words with the numbers of their lines.
type Words = Vec<(u64, Vec<u8>)>;

impl Matrix {
    fn read(text: &Text) -> Result<Self, InputError> {
        let mut lines = text.lines().skip_while(|l| !recognise(*l));
        let mut matrix = Words::new();
        for line in lines.by_ref() {
            let plain = plain(line.bytes);
            if plain.trim_ascii().starts_with(b"Legend") {
                break;
            }
            matrix.extend(words(&plain).map(|w| (line.number, w.to_vec())));
        }
        let legend = lines.filter_map(|line| {
            let plain = plain(line.bytes);
            let (name, device) = plain.split_at(plain.iter().position(|&b| b == b':')?);
            let device = words(&device[1..]).next()?;
            Some((owned(name.trim_ascii()), owned(device)))
        });
        let legend = legend.collect();
        let end = |w: &[u8]| matches!(w, b"CPU" | b"NUMA" | b"GPU" | b"Affinity");
        let devices = matrix.iter().take_while(|(_, w)| !end(w));
        // Without affinities the rows follow: the first device again.
        let again = |(i, (_, w)): &(usize, &(u64, Vec<u8>))| *i == 0 || *w != matrix[0].1;
        let devices: Words = devices
            .enumerate()
            .take_while(again)
            .map(|(_, w)| w.clone())
            .collect();
        if devices.len() > DEVICES {
            let found = format!("{} GPUs and adapters", devices.len());
            let expected = format!("at most {DEVICES} of one node");
            return Err(text.error(found, expected).at(devices[0].0));
        }
        let mut read = Self {
            devices: devices.iter().map(|(_, w)| owned(w)).collect(),
            rows: Vec::new(),
            affinity: Vec::new(),
            legend,
        };
        let mut rest = &matrix[devices.len()..];
        for (i, device) in devices.iter().enumerate() {
            let next = devices.get(i + 1).map(|d| &d.1);
            rest = read.row(text, rest, &device.1, next)?;
        }
        read.check(text, &matrix)?;
        Ok(read)
    }

    /// Reads the row of a device up to that of the next one; returns the words from there.
    fn row<'a>(
        &mut self,
        text: &Text,
        rest: &'a [(u64, Vec<u8>)],
        device: &[u8],
        next: Option<&Vec<u8>>,
    ) -> Result<&'a [(u64, Vec<u8>)], InputError> {
        let size = self.devices.len();
        let last = rest.last().map_or(1, |w| w.0);
        let short = |line| {
            let expected = format!("the row of {} with {size} distances", owned(device));
            let hint = "give the whole output of nvidia-smi topo -m";
            text.error("another word or the end", expected)
                .at(line)
                .hint(hint)
        };
        let start = rest.iter().position(|(_, w)| w == device);
        let row = &rest[start.ok_or_else(|| short(last))? + 1..];
        let cells = row.get(..size).ok_or_else(|| short(last))?;
        let cells = cells.iter().map(|(line, word)| {
            let expected = "X, PIX, PXB, PHB, NODE, SYS, N/A, or NV1 to NV18";
            cell(word).ok_or_else(|| text.error(excerpt(word), expected).at(*line))
        });
        self.rows.push(cells.collect::<Result<_, _>>()?);
        let end = |w: &Vec<u8>| Some(w) == next;
        let behind = &row[size..];
        let until = behind
            .iter()
            .position(|(_, w)| end(w))
            .unwrap_or(behind.len());
        // Processors, NUMA node, NUMA node of the GPU's memory; adapters have none.
        let of = &behind[..until.min(2)];
        let known = of.iter().rev().find(|(_, w)| w != b"N/A");
        self.affinity
            .push(known.filter(|_| is_gpu(device)).map(|(_, w)| owned(w)));
        Ok(behind)
    }

    /// Refuses cells that differ from those of the other direction.
    fn check(&self, text: &Text, matrix: &[(u64, Vec<u8>)]) -> Result<(), InputError> {
        for (i, row) in self.rows.iter().enumerate() {
            for (j, cell) in row.iter().enumerate() {
                let is_right = self.rows[j][i] == *cell && (i == j) == (*cell == Cell::Itself);
                if !is_right {
                    let found = format!(
                        "the distance of {} and {}",
                        self.devices[i], self.devices[j]
                    );
                    let error = text.error(found, "the same in both rows, and X on the diagonal");
                    let line = matrix
                        .iter()
                        .rfind(|(_, w)| owned(w) == self.devices[i.max(j)]);
                    return Err(error.at(line.map_or(1, |w| w.0)));
                }
            }
        }
        Ok(())
    }

    /// For every distance up to NODE the first device of the part that each device is in.
    fn parts(&self) -> Vec<Vec<usize>> {
        let mut part: Vec<usize> = (0..self.devices.len()).collect();
        let join = |part: &mut Vec<usize>, a: usize, b: usize| {
            let (a, b) = (part[a].min(part[b]), part[a].max(part[b]));
            part.iter_mut().filter(|p| **p == b).for_each(|p| *p = a);
        };
        let level = |level: usize| -> Vec<usize> {
            for (i, row) in self.rows.iter().enumerate() {
                for (j, cell) in row[..i].iter().enumerate() {
                    let affinity = &self.affinity[i];
                    let alike = affinity.is_some() && *affinity == self.affinity[j];
                    if *cell == Cell::Distance(level) || (level == NODE && alike) {
                        join(&mut part, i, j);
                    }
                }
            }
            part.clone()
        };
        (0..=NODE).map(level).collect()
    }

    /// Adds CPUs, host bridges and PCI switches; returns the router and the CPU of each device.
    fn tree(&self, inside: &mut Inside, notes: &mut Vec<String>) -> Vec<RouterId> {
        let parts = self.parts();
        self.remark(&parts, notes);
        let size = |level: usize, i: usize| {
            parts[level]
                .iter()
                .filter(|&&p| p == parts[level][i])
                .count()
        };
        let top = inside.router("system");
        let mut known: HashMap<(usize, usize), RouterId> = HashMap::new();
        let mut at = Vec::new();
        for i in 0..self.devices.len() {
            let mut router = top;
            for level in (0..=NODE).rev() {
                // A part of one device, or the same devices as the next smaller or larger part, is no router of its own.
                let count = size(level, i);
                let is_own = match level {
                    NODE => true,
                    2 => count > size(1, i) && count < size(NODE, i),
                    1 => count > 1,
                    _ => count > 1 && count < size(1, i),
                };
                if is_own {
                    let above = router;
                    let key = (level, parts[level][i]);
                    let add = || self.router(inside, (&parts[NODE], key), above);
                    router = *known.entry(key).or_insert_with(add);
                }
            }
            at.push(router);
        }
        at
    }

    /// The router of a part below another one.
    fn router(
        &self,
        inside: &mut Inside,
        (cpus, (level, first)): (&[usize], (usize, usize)),
        above: RouterId,
    ) -> RouterId {
        if level < NODE {
            let (what, kind) = if level == 2 {
                ("host bridge", "CPU")
            } else {
                ("PCI switch", "PCI")
            };
            let n = inside.count(what);
            let router = inside.router(&format!("{what} {n}"));
            inside.join(above, router, kind, Rate::assumed(INSIDE_PACKAGE));
            return router;
        }
        let mut below = cpus.iter().zip(&self.affinity);
        let name = below.find_map(|(cpu, own)| own.clone().filter(|_| *cpu == first));
        let name = name.unwrap_or_else(|| format!("of {}", self.name(first)));
        inside.count("CPU");
        let router = inside.router(&format!("cpu {name}"));
        inside.join(above, router, "CPU", Rate::assumed(BETWEEN_PACKAGES));
        inside.device(
            &format!("cores {name}"),
            router,
            "core",
            Rate::assumed(INSIDE_PACKAGE),
        );
        router
    }

    /// Tells of pairs whose distance is not that of the tree, and of GPUs whose affinity is not.
    fn remark(&self, parts: &[Vec<usize>], notes: &mut Vec<String>) {
        let mut other = Vec::new();
        for (i, row) in self.rows.iter().enumerate() {
            for (j, cell) in row[..i].iter().enumerate() {
                let joined = parts.iter().position(|part| part[i] == part[j]);
                let level = joined.unwrap_or(NODE + 1);
                if matches!(cell, Cell::Distance(d) if *d != level) {
                    other.push(format!("{} and {}", self.devices[j], self.devices[i]));
                }
            }
        }
        let what =
            "nearer by other rows or by affinity than by the words between them, and taken as near";
        note_of(notes, &other, "pair is", "pairs are", what);
        let differs = |i: &usize| {
            let own = self.affinity[*i].as_ref();
            let mut beside = (0..*i).filter(|&j| parts[NODE][j] == parts[NODE][*i]);
            let first = beside.find_map(|j| self.affinity[j].as_ref());
            own.is_some() && first.is_some() && own != first
        };
        let apart = (0..self.devices.len()).filter(differs);
        let apart: Vec<String> = apart.map(|i| self.devices[i].clone()).collect();
        let what =
            "another affinity than the GPUs that the words put at the same CPU, and taken as there";
        note_of(notes, &apart, "GPU has", "GPUs have", what);
    }

    /// The name of a device: `gpu0`, `mlx5_0`.
    fn name(&self, i: usize) -> String {
        let name = &self.devices[i];
        let known = self.legend.get(name).cloned();
        known.unwrap_or_else(|| name.to_ascii_lowercase())
    }

    /// Number of NVLinks of a device to each other one.
    fn nvlinks(&self, i: usize) -> impl Iterator<Item = u32> {
        self.rows[i].iter().map(|cell| match cell {
            Cell::NvLinks(n) => *n,
            _ => 0,
        })
    }

    /// Adds GPUs and adapters, and the NVLinks between GPUs.
    fn devices(&self, inside: &mut Inside, routers: &[RouterId], notes: &mut Vec<String>) {
        // Links to switches are counted for every pair; more than a GPU has are such.
        let sum = |i: usize| self.nvlinks(i).sum::<u32>();
        let switched = (0..routers.len()).any(|i| sum(i) > NVLINKS_OF_GPU);
        let switch = switched.then(|| inside.router("nvswitch 0"));
        let mut own: Vec<RouterId> = Vec::new();
        let mut joints = 0;
        for (i, &at) in routers.iter().enumerate() {
            let most = self.nvlinks(i).max().unwrap_or(0);
            let all = if switched { most } else { sum(i) };
            let router = self.device(inside, i, at, all);
            let before = self.nvlinks(i).take(i).enumerate();
            let ends: Vec<(RouterId, u32)> = match switch {
                Some(switch) => vec![(switch, most)],
                None => before.map(|(j, n)| (own[j], n)).collect(),
            };
            for (end, count) in ends.into_iter().filter(|end| end.1 > 0) {
                inside.join(router, end, Between::NvLink.name(), nvlinks(count));
                joints += 1;
            }
            own.push(router);
        }
        if joints > 0 {
            let ends = ["join pairs of GPUs", "end at switches"][usize::from(switched)];
            let each = Between::NvLink.assumed().1;
            notes.push(format!(
                "{joints} NVLink joints, which {ends}: the file has no architecture, {each} GB/s each way an NVLink are assumed"
            ));
        }
    }

    /// Adds a device with so many NVLinks; returns the router where these end.
    fn device(&self, inside: &mut Inside, i: usize, at: RouterId, links: u32) -> RouterId {
        let name = self.name(i);
        let is_gpu = is_gpu(self.devices[i].as_bytes());
        inside.count(if is_gpu { "GPU" } else { "adapter" });
        let pci = Rate::assumed(INSIDE_PACKAGE);
        let (router, rate, kind) = match links {
            0 => (at, pci, "PCI"),
            _ => {
                // As in NCCL's files, a GPU with its own links is a junction, as fast as all of them.
                let own = inside.router(&format!("{name} links"));
                inside.join(at, own, "PCI", pci);
                let mut whole = nvlinks(links);
                whole.bytes_per_s += pci.bytes_per_s;
                (own, whole, "GPU")
            }
        };
        let node = inside.device(&name, router, kind, rate);
        if self.devices[i] != name {
            inside.b.node_alias(self.devices[i].clone(), node);
        }
        router
    }
}

/// Rate of NVLinks each way, at the generation that is assumed without one.
fn nvlinks(count: u32) -> Rate {
    Rate {
        bytes_per_s: f64::from(count) * Between::NvLink.assumed().1 * 1e9,
        known: true,
    }
}

fn owned(word: &[u8]) -> String {
    crate::fabric::names::name(word)
}
