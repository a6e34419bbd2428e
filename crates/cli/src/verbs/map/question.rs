//! The mapping question as options of the command line.

use crate::args::{self, CounterArgs, FabricOption, one_of};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use hopbyte_fabric::wire::Overhead;
use hopbyte_job::{Goal, GridOptions, Part, WireOptions};
use hopbyte_oracle::{Aggregate, Metric};
use std::path::PathBuf;

/// What to map and where.
#[derive(clap::Args, Debug)]
pub struct Asked {
    /// What the ranks send each other: a file, or a spec such as stencil:16x16x16:27
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
    /// Where the ranks may go: names, `miriel[063-065]`, `name:slots`, `@FILE`, or `all`
    ///
    /// Without it the nodes and slots are those of --current.
    #[arg(
        long,
        value_name = "LIST",
        help_heading = "Job",
        required_unless_present = "current"
    )]
    pub nodes: Option<String>,
    /// Where the ranks are now: a launcher's file
    #[arg(long, value_name = "FILE", help_heading = "Job", long_help = args::placement_help())]
    pub current: Option<PathBuf>,
    /// Ranks that each node holds (default: the fewest that hold all)
    #[arg(long, value_name = "N", help_heading = "Job")]
    pub ranks_per_node: Option<u32>,
    /// What is inside a node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// What other jobs put on the links: counters, as `hopbyte links` reads them (may be given twice)
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    pub background: Vec<PathBuf>,
    /// What their files do not say.
    #[command(flatten)]
    pub about: CounterArgs,
    /// A running oracle that says what others put on the links: http://HOST:PORT or the path of its socket
    #[arg(
        long,
        value_name = "URL|SOCKET",
        conflicts_with = "background",
        help_heading = "Counters"
    )]
    pub oracle: Option<String>,
    /// Objective, minimised
    #[arg(long, value_parser = goal(), default_value_t = Goal::default(), help_heading = "Search")]
    pub objective: Goal,
    /// For route-cost: what counts on a link
    #[arg(long, value_parser = args::metrics(), default_value_t = Metric::Hops, help_heading = "Search")]
    pub metric: Metric,
    /// For route-cost: how a route's links become one number (default: hops are added up, of the others the
    /// worst link counts)
    #[arg(long, value_parser = args::aggregates(), help_heading = "Search")]
    pub aggregate: Option<Aggregate>,
    /// Network whose headers and responses links carry beside the bytes of messages
    #[arg(
        long,
        value_parser = network(),
        default_value = WireOptions::DEFAULT_NETWORK,
        value_name = "NETWORK",
        help_heading = "Search"
    )]
    pub wire: String,
    /// Instead of --wire: bytes on the way back for each byte sent, and nothing else beside the payload
    #[arg(
        long,
        value_name = "RATIO",
        conflicts_with = "wire",
        allow_negative_numbers = true,
        help_heading = "Search"
    )]
    pub response_fraction: Option<f64>,
}

/// A grid of ranks in the words of Cray's `MPICH_RANK_REORDER_OPTS`.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct GridArgs {
    /// Instead of TRAFFIC: ranks along each dimension, 16,16,16; the last is fastest
    #[arg(
        long,
        value_name = "A,B,…",
        conflicts_with = "traffic",
        help_heading = "Grid"
    )]
    pub dims: Option<String>,
    /// Number of dimensions, checked against --dims
    #[arg(long, value_name = "N", requires = "dims", help_heading = "Grid")]
    pub ndims: Option<u32>,
    /// Ranks talk to their nearest neighbours (which is meant without it too)
    #[arg(long, requires = "dims", help_heading = "Grid")]
    pub nearest: bool,
    /// The grid closes to a torus
    #[arg(long, requires = "dims", help_heading = "Grid")]
    pub periodic: bool,
    /// Bytes to neighbours across a face, an edge, a corner: 80000,800,8 (default: 1 across a face)
    #[arg(long, value_name = "BYTES", requires = "dims", help_heading = "Grid")]
    pub halo: Option<String>,
}

/// What a node has inside.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct NodeArgs {
    /// What is inside a node (hwloc XML or an NCCL topology): it holds a rank for each core, and ranks that send each
    /// other much get cores near each other
    ///
    /// --ranks-per-node may ask for fewer, which are spread evenly, not for more; slots of single nodes in the list
    /// (NAME:SLOTS) count as they stand.
    #[arg(long, value_name = "FILE", help_heading = "Job")]
    pub node_topology: Option<PathBuf>,
    /// For --node-topology: what a rank has to itself
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
    /// The same as a question of the library.
    pub fn asked(&self) -> hopbyte_job::Asked {
        hopbyte_job::Asked {
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
            oracle: self.oracle.clone(),
            goal: self.objective,
            metric: self.metric,
            aggregate: self.aggregate,
            wire: WireOptions {
                network: self.wire.clone(),
                response_fraction: self.response_fraction,
            },
        }
    }
}
