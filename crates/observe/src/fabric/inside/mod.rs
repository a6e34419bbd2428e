//! Topology inside a node: cores, memories, GPUs and adapters as nodes of a small network of packages, caches and PCI
//! bridges.
//!
//! Input is the XML of hwloc and NCCL, and the matrix of `nvidia-smi topo -m`. Each topology is an ordinary machine, so that routes between a core and an
//! adapter, pictures and conversions need no extra code.

pub(super) mod hwloc;
pub(super) mod nccl;
pub(super) mod topo;

use crate::ObserveError;
use crate::text::Text;
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    End, Fabric, FabricBuilder, FabricError, Family, InputError, KindId, LinkSpec, NodeId, RouterId,
};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::HashMap;

/// Maximum number of elements and attributes of a file.
const ELEMENTS: u32 = 1 << 20;
/// Maximum nesting; the deepest real file at hand has 17 levels.
const DEPTH: usize = 64;

/// Latency of a PCI bridge or a hop inside a package: 150 ns, the order of magnitude that vendors state.
const HOP_LATENCY: Seconds = Seconds(150e-9);

/// Default rate inside a package, in GB/s each way.
const INSIDE_PACKAGE: f64 = 100.0;
/// Two Intel UPI links at 10.4 GT/s.
const BETWEEN_PACKAGES: f64 = 41.6;

/// Parses XML within bounds: no external entities, no entity expansion attacks, limited nesting.
fn parse(text: &Text) -> Result<Document<'_>, ObserveError> {
    let xml = std::str::from_utf8(text.bytes()).map_err(|e| {
        text.error(
            format!("a byte that is not UTF-8 at {}", e.valid_up_to()),
            "XML",
        )
    })?;
    check_depth(text, xml)?;
    let options = ParsingOptions {
        // hwloc's files name a DTD, which is not fetched.
        allow_dtd: true,
        nodes_limit: ELEMENTS,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(xml, options).map_err(|error| {
        text.error(error.to_string(), "well-formed XML")
            .at(error.pos().row.into())
    })?;
    Ok(document)
}

/// Checks the nesting before any recursion: opening minus closing tags.
fn check_depth(text: &Text, xml: &str) -> Result<(), InputError> {
    let mut depth = 0usize;
    for (at, _) in xml.match_indices('<') {
        match xml.as_bytes().get(at + 1) {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') | None => {}
            Some(_) => {
                let end = xml[at..].find('>').map_or(xml.len(), |i| at + i);
                let empty = xml.as_bytes()[..end].last() == Some(&b'/');
                depth += usize::from(!empty);
            }
        }
        if depth > DEPTH {
            let found = format!("elements more than {DEPTH} deep");
            return Err(text.error(found, "a node's topology").at_byte(xml, at));
        }
    }
    Ok(())
}

/// Line of an element.
fn line(element: Node<'_, '_>) -> u64 {
    element
        .document()
        .text_pos_at(element.range().start)
        .row
        .into()
}

/// A rate, and whether it was in the file.
#[derive(Clone, Copy)]
struct Rate {
    bytes_per_s: f64,
    known: bool,
}

impl Rate {
    fn assumed(gb_per_s: f64) -> Self {
        Self {
            bytes_per_s: gb_per_s * 1e9,
            known: false,
        }
    }

    /// PCI Express rate from transfers per lane and the number of lanes (8b/10b coding to 5 GT/s, then 128b/130b; PCI
    /// Express Base Specification).
    fn pci(gt_per_s: f64, lanes: f64) -> Option<Self> {
        let coding = if gt_per_s <= 5.0 { 0.8 } else { 128.0 / 130.0 };
        let bytes_per_s = gt_per_s * 1e9 * coding * lanes / 8.0;
        (bytes_per_s.is_finite() && bytes_per_s > 0.0).then_some(Self {
            bytes_per_s,
            known: true,
        })
    }
}

/// Collects routers and devices under unique names.
struct Inside {
    b: FabricBuilder,
    names: HashMap<String, u32>,
    counts: Vec<(&'static str, usize)>,
    assumed: usize,
}

impl Inside {
    fn new(text: &Text) -> Self {
        Self {
            b: FabricBuilder::new(Family::Generic, text.file()),
            names: HashMap::new(),
            counts: Vec::new(),
            assumed: 0,
        }
    }

    fn unique(&mut self, name: &str) -> String {
        let name = super::names::name(name.as_bytes());
        let n = self.names.entry(name.clone()).or_default();
        *n += 1;
        match *n {
            1 => name,
            n => format!("{name} #{n}"),
        }
    }

    fn count(&mut self, what: &'static str) -> usize {
        match self.counts.iter_mut().find(|(w, _)| *w == what) {
            Some((_, n)) => {
                *n += 1;
                *n - 1
            }
            None => {
                self.counts.push((what, 1));
                0
            }
        }
    }

    /// Number of things counted so far.
    fn counted(&self, what: &str) -> usize {
        let of = |counts: &[(&str, usize)]| counts.iter().find(|c| c.0 == what).map(|c| c.1);
        of(&self.counts).unwrap_or(0)
    }

    fn router(&mut self, name: &str) -> RouterId {
        let name = self.unique(name);
        self.b.router(name, &[])
    }

    fn kind(&mut self, name: &str, rate: Rate) -> KindId {
        self.assumed += usize::from(!rate.known);
        self.b.kind(name, false)
    }

    /// Joins two routers, both ways.
    fn join(&mut self, a: RouterId, b: RouterId, kind: &str, rate: Rate) {
        let kind = self.kind(kind, rate);
        let capacity = BytesPerSecond(rate.bytes_per_s);
        for (from, to) in [(a, b), (b, a)] {
            let (from, to) = (End::Router(from), End::Router(to));
            self.b
                .link(LinkSpec::new(from, to, kind, capacity, HOP_LATENCY));
        }
    }

    /// Adds a device behind a router.
    fn device(&mut self, name: &str, router: RouterId, kind: &str, rate: Rate) -> NodeId {
        let name = self.unique(name);
        let kind = self.kind(kind, rate);
        let capacity = BytesPerSecond(rate.bytes_per_s);
        let (end, at) = (
            End::Node(NodeId::of(self.b.node_count())),
            End::Router(router),
        );
        let inject = self
            .b
            .link(LinkSpec::new(end, at, kind, capacity, HOP_LATENCY));
        let eject = self
            .b
            .link(LinkSpec::new(at, end, kind, capacity, HOP_LATENCY));
        self.b.node(name.clone(), name, None, router, inject, eject)
    }

    /// Checks the result, and notes its contents.
    fn finish(self, text: &Text, notes: &mut Vec<String>) -> Result<Fabric, FabricError> {
        if self.b.node_count() == 0 {
            return Err(text
                .error("no core and no device", "cores or devices of a node")
                .into());
        }
        let plural = |what: &str, n| match what.ends_with("ch") {
            _ if n == 1 => "",
            true => "es",
            false => "s",
        };
        let words: Vec<String> = self
            .counts
            .iter()
            .map(|&(what, n)| format!("{n} {what}{}", plural(what, n)))
            .collect();
        notes.push(format!("inside a node: {}", words.join(", ")));
        if self.assumed > 0 {
            notes.push(format!(
                "{} joints have no rate in the file: {INSIDE_PACKAGE} GB/s are assumed inside a package, {BETWEEN_PACKAGES} between packages",
                self.assumed
            ));
        }
        self.b.finish()
    }
}

/// Kind of a PCI device, by its class.
fn pci_device(class: u32) -> Option<&'static str> {
    match class >> 8 {
        // Network controllers, and InfiniBand among the serial buses.
        0x02 => Some("adapter"),
        0x0c if class == 0x0c06 => Some("adapter"),
        // Display controllers and processing accelerators.
        0x03 | 0x12 => Some("GPU"),
        0x01 => Some("disk controller"),
        _ => None,
    }
}
