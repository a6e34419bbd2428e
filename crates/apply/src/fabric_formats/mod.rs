//! Writes a machine in the formats of other tools.
//!
//! [`write_fabric`] writes a machine in one of [`FabricFormat`]. hopbyte's own formats are lossless; the others list
//! the lost properties in [`Written::lost`] and refuse machines that they would misrepresent.

mod coords;
mod graph;
mod infiniband;
mod nodes;
mod own;
mod simgrid;
mod slurm;

pub use slurm::folded_parts;

use crate::error::ApplyError;
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId, Routing};
use serde::Serialize;
use std::borrow::Cow;
use std::path::Path;
use std::str::FromStr;

/// A file format for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FabricFormat {
    /// hopbyte's own format, as JSON.
    Json,
    /// hopbyte's own format, compact.
    Binary,
    /// Graphviz.
    Dot,
    /// GraphML.
    Graphml,
    /// Slurm's `topology.conf`: switches as a tree.
    SlurmConf,
    /// Slurm's `topology.yaml`: a tree, a ring or a 3-D torus.
    SlurmYaml,
    /// SimGrid platform, DTD version 4.1.
    Simgrid,
    /// A subnet as printed by `ibnetdiscover`; also read by `ibsim`.
    Ibnetdiscover,
    /// Forwarding tables as dumped by OpenSM; also read by its file engine.
    Lfts,
    /// Slurm's `topology.yaml` with blocks: NVLink domains, or the hosts of a switch.
    SlurmBlocks,
    /// The document of topograph's `graph` engine.
    TopographGraph,
    /// Kubernetes nodes with topograph's labels.
    NodeLabels,
    /// Volcano's HyperNodes: switches, and NVLink domains below them, as a tree of nodes.
    HyperNodes,
    /// Coordinates of nodes, as read by `topobw --coords` and the preload libraries.
    Coords,
}

impl FabricFormat {
    /// All formats, in the order of help texts.
    pub const ALL: [Self; 14] = [
        Self::Json,
        Self::Binary,
        Self::Dot,
        Self::Graphml,
        Self::SlurmConf,
        Self::SlurmYaml,
        Self::Simgrid,
        Self::Ibnetdiscover,
        Self::Lfts,
        Self::SlurmBlocks,
        Self::TopographGraph,
        Self::NodeLabels,
        Self::HyperNodes,
        Self::Coords,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Binary => "binary",
            Self::Dot => "dot",
            Self::Graphml => "graphml",
            Self::SlurmConf => "slurm-conf",
            Self::SlurmYaml => "slurm-yaml",
            Self::Simgrid => "simgrid",
            Self::Ibnetdiscover => "ibnetdiscover",
            Self::Lfts => "lfts",
            Self::SlurmBlocks => "slurm-blocks",
            Self::TopographGraph => "topograph-graph",
            Self::NodeLabels => "node-labels",
            Self::HyperNodes => "hypernodes",
            Self::Coords => "coords",
        }
    }

    /// The format for a file name.
    pub fn of_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match ending.as_str() {
            "json" => Self::Json,
            "hbm" => Self::Binary,
            "dot" | "gv" => Self::Dot,
            "graphml" => Self::Graphml,
            "conf" => Self::SlurmConf,
            "yaml" | "yml" => Self::SlurmYaml,
            "xml" => Self::Simgrid,
            "ibnetdiscover" | "net" => Self::Ibnetdiscover,
            "lfts" | "dump" => Self::Lfts,
            "coords" => Self::Coords,
            _ => return None,
        })
    }
}

impl FromStr for FabricFormat {
    type Err = ApplyError;

    fn from_str(text: &str) -> Result<Self, ApplyError> {
        Self::ALL
            .into_iter()
            .find(|f| f.name() == text)
            .ok_or_else(|| ApplyError::UnknownFormat {
                found: text.chars().take(80).collect(),
                known: Self::ALL.map(Self::name).join(", "),
            })
    }
}

/// A machine in a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file's content.
    pub bytes: Vec<u8>,
    /// Properties that the format cannot express, one sentence each.
    pub lost: Vec<String>,
}

impl Written {
    fn whole(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            lost: Vec::new(),
        }
    }
}

/// Writes a machine.
///
/// # Errors
/// A machine that the format cannot express, or a host name that would be misread.
pub fn write_fabric(
    format: FabricFormat,
    fabric: &Fabric,
    routing: &Routing,
) -> Result<Written, ApplyError> {
    let network = match format {
        FabricFormat::Json | FabricFormat::Binary => Cow::Borrowed(fabric),
        _ => fabric.network(),
    };
    let machine = fabric;
    let (whole, fabric, routing) = match &network {
        Cow::Borrowed(same) => (true, *same, routing),
        Cow::Owned(network) => (false, network, routing.network()),
    };
    let mut written = write_network(format, fabric, (machine, routing))?;
    if !whole {
        written.lost.push("links inside hosts are left out".into());
    }
    Ok(written)
}

fn write_network(
    format: FabricFormat,
    fabric: &Fabric,
    (machine, routing): (&Fabric, &Routing),
) -> Result<Written, ApplyError> {
    match format {
        FabricFormat::Json => Ok(Written::whole(own::json(fabric, routing))),
        FabricFormat::Binary => {
            let bytes = hopbyte_fabric::compact::to_bytes(fabric, routing);
            Ok(Written::whole(bytes))
        }
        FabricFormat::Dot => Ok(graph::dot(fabric)),
        FabricFormat::Graphml => Ok(graph::graphml(fabric)),
        FabricFormat::SlurmConf => slurm::conf(fabric),
        FabricFormat::SlurmYaml => slurm::yaml(fabric),
        FabricFormat::Simgrid => Ok(simgrid::platform(fabric, routing)),
        FabricFormat::Ibnetdiscover => infiniband::subnet(fabric),
        FabricFormat::Lfts => infiniband::tables(fabric, routing),
        FabricFormat::SlurmBlocks => nodes::blocks(fabric, machine),
        FabricFormat::TopographGraph => nodes::topograph(fabric, machine),
        FabricFormat::NodeLabels => nodes::labels(fabric, machine),
        FabricFormat::HyperNodes => nodes::hypernodes(fabric, machine),
        FabricFormat::Coords => coords::coords(fabric),
    }
}

/// An end of an edge in formats without shared host links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Vertex {
    Router(RouterId),
    Node(NodeId),
}

/// A link as an edge between two vertices; a router's shared host link is one edge per node.
#[derive(Clone, Copy, Debug)]
struct Edge {
    link: LinkId,
    from: Vertex,
    to: Vertex,
}

/// All links as edges, in link order. Links to adapters inside aggregating switches are left out: these are not
/// nodes.
fn edges(fabric: &Fabric) -> Vec<Edge> {
    let mut edges = Vec::with_capacity(fabric.links().len());
    for link in fabric.link_ids() {
        let vertices = |end| match end {
            End::Router(r) => vec![Vertex::Router(r)],
            End::Node(n) => vec![Vertex::Node(n)],
            End::Hosts(r) => {
                let uses =
                    |n: &&NodeId| [fabric.node(**n).inject, fabric.node(**n).eject].contains(&link);
                fabric
                    .nodes_on(r)
                    .iter()
                    .filter(uses)
                    .map(|&n| Vertex::Node(n))
                    .collect()
            }
        };
        let (from, to) = (fabric.link(link).from, fabric.link(link).to);
        let (from, to) = (vertices(from), vertices(to));
        edges.extend(
            from.iter()
                .flat_map(|&from| to.iter().map(move |&to| Edge { link, from, to })),
        );
    }
    edges
}

/// Text for XML: quoted, without characters that are invalid in XML.
fn xml(text: &str) -> Cow<'_, str> {
    let plain = |c: char| !matches!(c, '<' | '>' | '&' | '"' | '\'') && !c.is_control();
    if text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn cannot(format: FabricFormat, why: impl Into<String>, instead: &str) -> ApplyError {
    ApplyError::Inexpressible {
        what: "machine",
        format: format.name(),
        why: why.into(),
        instead: instead.into(),
    }
}
