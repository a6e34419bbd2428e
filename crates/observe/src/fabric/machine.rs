//! Input files of a machine, and the result of reading them.

use crate::text::Text;
use hopbyte_fabric::hosts::Published;
use hopbyte_fabric::{Fabric, Routing};
use std::path::PathBuf;

/// The files that describe a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineFiles {
    /// A dump, or a spec such as `gemini:16x12x24`.
    pub main: String,
    /// Forwarding tables: files, or folders of them. If empty, files beside the dump are used.
    pub routes: Vec<PathBuf>,
    /// `rtr --system-map` (or an sst-macro node map). `None`: a file beside the dump is used.
    pub system_map: Option<PathBuf>,
    /// Names by GUID.
    pub names: Option<PathBuf>,
    /// Kinds of hosts, `KIND[/RULE][@HOSTS]` (see [`hopbyte_fabric::hosts`]).
    pub hosts: Vec<String>,
    /// Capacities for descriptions without: GB/s each way of a node's link, and of the cables above leaves, …
    pub rates: Vec<f64>,
    /// The same: capacity of the nodes below a switch over that of its uplinks.
    pub uplink_ratio: Option<f64>,
}

impl MachineFiles {
    /// Only a dump or spec; companions are searched for.
    pub fn new(main: impl Into<String>) -> Self {
        Self {
            main: main.into(),
            ..Self::default()
        }
    }
}

/// A machine that was read.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Routers, nodes and links.
    pub fabric: Fabric,
    /// Its routing.
    pub routing: Routing,
    /// Parts that were completed, left out, assumed or found beside the dump; one sentence each.
    pub notes: Vec<String>,
    /// Hosts as far as a description of nodes knows their inside.
    pub hosts: Vec<KnownHost>,
}

/// A host in a description of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownHost {
    /// Name.
    pub name: String,
    /// Its kind, with the number of its GPUs.
    pub kind: Option<Published>,
    /// Hosts whose accelerators are joined.
    pub domain: Option<String>,
    /// Part of the domain.
    pub sub_domain: Option<String>,
}

impl Machine {
    /// The same with descriptions of its hosts.
    #[must_use]
    pub fn with_known(self, hosts: Vec<KnownHost>) -> Self {
        Self { hosts, ..self }
    }
}

/// Companion texts of a dump.
#[derive(Clone, Copy, Debug, Default)]
pub struct Companions<'a> {
    /// Forwarding tables.
    pub routes: &'a [Text],
    /// Positions of nodes.
    pub system_map: Option<&'a Text>,
    /// Names by GUID.
    pub names: Option<&'a Text>,
    /// Files named in the dump: links of a CODES model.
    pub parts: &'a [Text],
}
