//! The mapping question as options of the command line.

use crate::args::{self, CollectorArgs, CounterArgs, FabricOption, one_of};
use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use hopbyte_fabric::wire::Overhead;
use hopbyte_job::question::Keep;
use hopbyte_job::{Goal, GridOptions, Part, WireOptions};
use hopbyte_oracle::{Aggregate, Metric};
use std::path::PathBuf;

/// Traffic, machine, nodes and objective.
#[derive(clap::Args, Debug)]
pub struct Asked {
    /// Traffic between the ranks: a file, or a spec such as stencil:16x16x16:27
    #[arg(
        value_name = "TRAFFIC",
        long_help = args::traffic_help(),
        default_value = "",
        hide_default_value = true,
        required_unless_present = "dims"
    )]
    pub traffic: String,
    /// Ranks on a grid that exchange halos, instead of TRAFFIC.
    #[command(flatten)]
    pub grid: GridArgs,
    /// The machine.
    #[command(flatten)]
    pub fabric: FabricOption,
    /// Nodes for the ranks: names, `miriel[063-065]`, `name:slots`, `@FILE` (a list or a host file), or `all`
    ///
    /// Without it the nodes and slots are those of --current.
    #[arg(
        long,
        value_name = "LIST",
        help_heading = "Job",
        required_unless_present = "current"
    )]
    pub nodes: Option<String>,
    /// Current placement of the ranks: a launcher's file
    #[arg(long, value_name = "FILE", help_heading = "Job", long_help = args::placement_help())]
    pub current: Option<PathBuf>,
    /// Ranks per node (default: the fewest that hold all)
    #[arg(long, value_name = "N", help_heading = "Job")]
    pub ranks_per_node: Option<u32>,
    /// The inside of nodes.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Load of other jobs: counters, a collector or its store, as `hopbyte links` reads them (files may be given twice)
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    pub background: Vec<PathBuf>,
    /// Properties of the counters that their files lack.
    #[command(flatten)]
    pub about: CounterArgs,
    /// Access to a collector or oracle.
    #[command(flatten)]
    pub entry: CollectorArgs,
    /// A running oracle for the load of other jobs: http://HOST:PORT or the path of its socket
    #[arg(
        long,
        value_name = "URL|SOCKET",
        conflicts_with = "background",
        help_heading = "Counters"
    )]
    pub oracle: Option<String>,
    /// What a search does not take apart
    #[arg(long, value_parser = one_of::<Keep>(&Keep::ALL.map(|k| (k.name(), k.about()))), default_value_t = Keep::default(), help_heading = "Search")]
    pub keep: Keep,
    /// Phases of the traffic overlap: add up their bytes, not their times
    #[arg(long, help_heading = "Search")]
    pub overlap: bool,
    /// Objective, minimised
    #[arg(long, value_parser = goal(), default_value_t = Goal::default(), help_heading = "Search")]
    pub objective: Goal,
    /// For route-cost: metric of a link
    #[arg(long, value_parser = args::metrics(), default_value_t = Metric::Hops, help_heading = "Search")]
    pub metric: Metric,
    /// For route-cost: aggregation along a route (default: the sum for hops, the maximum for the
    /// others)
    #[arg(long, value_parser = args::aggregates(), help_heading = "Search")]
    pub aggregate: Option<Aggregate>,
    /// Network whose protocol bytes are added to the payload
    #[arg(
        long,
        value_parser = network(),
        default_value = WireOptions::DEFAULT_NETWORK,
        value_name = "NETWORK",
        help_heading = "Search"
    )]
    pub wire: String,
    /// In place of --wire: bytes on the way back for each byte sent, and no other protocol bytes
    #[arg(
        long,
        value_name = "RATIO",
        conflicts_with = "wire",
        allow_negative_numbers = true,
        help_heading = "Search"
    )]
    pub response_fraction: Option<f64>,
}

/// A grid of ranks, in the terms of Cray's `MPICH_RANK_REORDER_OPTS`.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(multiple = true, conflicts_with = "traffic")]
pub struct GridArgs {
    /// In place of TRAFFIC: ranks along each dimension, 16,16,16; the last is fastest
    #[arg(long, value_name = "A,B,…", help_heading = "Grid")]
    pub dims: Option<String>,
    /// Number of dimensions, checked against --dims
    #[arg(long, value_name = "N", requires = "dims", help_heading = "Grid")]
    pub ndims: Option<u32>,
    /// Nearest-neighbour messages (the default)
    #[arg(long, requires = "dims", help_heading = "Grid")]
    pub nearest: bool,
    /// Periodic boundaries: the grid is a torus
    #[arg(long, requires = "dims", help_heading = "Grid")]
    pub periodic: bool,
    /// Bytes to neighbours across a face, an edge, a corner: 80000,800,8 (default: 1 across a face)
    #[arg(long, value_name = "BYTES", requires = "dims", help_heading = "Grid")]
    pub halo: Option<String>,
}

/// The inside of a node.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct NodeArgs {
    /// Description of a node's inside (hwloc XML, an NCCL topology, nvidia-smi topo -m): one rank per core, and ranks
    /// with much mutual traffic get cores near each other
    ///
    /// --ranks-per-node may ask for fewer, which are spread evenly, not for more; slots of single nodes in the list
    /// (NAME:SLOTS) are kept.
    #[arg(long, value_name = "FILE", help_heading = "Job")]
    pub node_topology: Option<PathBuf>,
    /// For --node-topology: the part that each rank gets exclusively
    #[arg(
        long,
        value_parser = part(),
        default_value = Part::default().name(),
        requires = "node_topology",
        help_heading = "Job"
    )]
    pub rank_per: Part,
}

fn goal() -> impl TypedValueParser<Value = Goal> {
    one_of(&Goal::ALL.map(|g| (g.name(), g.about())))
}

fn network() -> PossibleValuesParser {
    let value = |(name, help)| PossibleValue::new(name).help(help);
    PossibleValuesParser::new(Overhead::choices().map(value))
}

fn part() -> impl TypedValueParser<Value = Part> {
    one_of(&Part::ALL.map(|part| (part.name(), part.help())))
}

impl Asked {
    /// As a question of the library.
    pub fn asked(&self) -> Result<hopbyte_job::Asked> {
        let live = self.entry.live(self.oracle.as_deref(), &self.background)?;
        Ok(hopbyte_job::Asked {
            traffic: self.traffic.clone(),
            grid: GridOptions {
                dims: self.grid.dims.clone(),
                ndims: self.grid.ndims,
                nearest: self.grid.nearest,
                periodic: self.grid.periodic,
                halo: self.grid.halo.clone(),
            },
            machine: self.fabric.source(),
            nodes: self.nodes.clone(),
            current: self.current.clone(),
            ranks_per_node: self.ranks_per_node,
            node_topology: self.node.node_topology.clone(),
            rank_per: self.node.rank_per,
            background: self.background.clone(),
            counters: self.about.options(),
            live,
            goal: self.objective,
            keep: self.keep,
            overlap: self.overlap,
            metric: self.metric,
            aggregate: self.aggregate,
            wire: WireOptions {
                network: self.wire.clone(),
                response_fraction: self.response_fraction,
            },
        })
    }
}
