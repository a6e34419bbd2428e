//! A mapping question: machine, traffic, nodes, live load, objective and effort, with their defaults.
//!
//! Every face asks through this module: the command line and Python by [`Asked`] or its parts, C by [`Question`], so
//! that a default stands in one place.

use crate::document::Background;
use crate::inputs::{self, LinkReading};
use crate::inside::{NodeInside, Part};
use crate::machine::{Machine, MachineSource};
use crate::{Lacking, shell_word};
use anyhow::{Result, bail};
use hopbyte_fabric::wire::{Loads, Overhead};
use hopbyte_fabric::{Allocation, Exchange, Fabric, FabricError, LinkState, Placement, Routing};
pub use hopbyte_map::Goal;
use hopbyte_map::{Options, Problem};
use hopbyte_observe::oracle::Oracle;
use hopbyte_observe::{CounterOptions, read_placement, read_traffic};
use hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Everything that a user may say about a mapping; [`Asked::read`] reads the files.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Traffic between the ranks: a file or a spec; empty where `grid` says it.
    pub traffic: String,
    /// A grid of ranks in place of `traffic`.
    pub grid: GridOptions,
    /// The machine.
    pub machine: MachineSource,
    /// Nodes of the job, as a list; without one those of `current`.
    pub nodes: Option<String>,
    /// File with the present placement.
    pub current: Option<PathBuf>,
    /// Ranks on a node without slots of its own in the list; default: the fewest that hold all.
    pub ranks_per_node: Option<u32>,
    /// Description of a node's inside (hwloc XML or an NCCL topology), and the part that a rank has to itself.
    pub node_topology: Option<PathBuf>,
    /// See `node_topology`.
    pub rank_per: Part,
    /// Counters of other jobs' load.
    pub background: Vec<PathBuf>,
    /// How to read them.
    pub counters: CounterOptions,
    /// Address of a running oracle that knows the load.
    pub oracle: Option<String>,
    /// What is minimised.
    pub goal: Goal,
    /// For [`Goal::RouteCost`].
    pub metric: Metric,
    /// For [`Goal::RouteCost`]; see [`route_costs`] for the default.
    pub aggregate: Option<Aggregate>,
    /// What links carry beside the payload.
    pub wire: WireOptions,
}

/// What links carry beside the payload of messages, as users say it.
#[derive(Clone, Debug)]
pub struct WireOptions {
    /// `auto` (by the machine), `payload`, or a network of [`hopbyte_fabric::wire::NETWORKS`].
    pub network: String,
    /// In place of a network: bytes on the way back for each byte of payload.
    pub response_fraction: Option<f64>,
}

impl WireOptions {
    /// The default of every face.
    pub const DEFAULT_NETWORK: &'static str = "auto";

    /// Nothing beside the payload.
    pub fn payload() -> Self {
        Self {
            network: "payload".into(),
            response_fraction: None,
        }
    }

    /// Bytes that links of this machine carry for a job.
    ///
    /// # Errors
    /// An unknown network, a share below zero, or sums beyond any number.
    pub fn loads(&self, fabric: &Fabric, exchange: &Exchange) -> Result<Loads, FabricError> {
        let overhead = match self.response_fraction {
            Some(fraction) => Overhead::response(fraction),
            None => Overhead::named(&self.network, fabric),
        };
        overhead?.loads(fabric, exchange)
    }
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            network: Self::DEFAULT_NETWORK.into(),
            response_fraction: None,
        }
    }
}

/// A grid of ranks in the words of Cray's `MPICH_RANK_REORDER_OPTS`.
#[derive(Clone, Debug, Default)]
pub struct GridOptions {
    /// Ranks along each dimension, `16,16,16`, the last fastest.
    pub dims: Option<String>,
    /// Number of dimensions, checked against `dims`.
    pub ndims: Option<u32>,
    /// Ranks talk to their nearest neighbours (the default).
    pub nearest: bool,
    /// The grid closes to a torus.
    pub periodic: bool,
    /// Bytes across a face, an edge, a corner: `80000,800,8`.
    pub halo: Option<String>,
}

impl GridOptions {
    /// The spec that says the same.
    fn spec(&self) -> Option<String> {
        let mut spec = format!("--dims={}", self.dims.as_ref()?);
        if let Some(n) = self.ndims {
            spec = format!("--ndims={n} {spec}");
        }
        for (given, word) in [(self.nearest, "nearest"), (self.periodic, "periodic")] {
            if given {
                spec.push_str(&format!(" --{word}"));
            }
        }
        if let Some(bytes) = &self.halo {
            spec.push_str(&format!(" --halo={bytes}"));
        }
        Some(spec)
    }
}

/// How long to search, and from which seed.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Seconds of search.
    pub seconds: f64,
    /// Swaps to try instead of a time: the same result on any machine and any number of threads.
    pub trials: Option<u64>,
    /// Seed of everything random.
    pub seed: u64,
    /// Threads; 0: one for every core.
    pub threads: usize,
    /// Set from outside to end the search early with the best placement so far.
    pub stop: Option<&'static AtomicBool>,
}

impl Effort {
    /// Whether the search was ended from outside.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl Effort {
    /// The default of every face.
    pub const DEFAULT: Self = Self {
        seconds: 2.0,
        trials: None,
        seed: 1,
        threads: 0,
        stop: None,
    };
}

impl Default for Effort {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl From<&Effort> for Options {
    fn from(effort: &Effort) -> Self {
        Self {
            seconds: effort.seconds,
            trials: effort.trials,
            seed: effort.seed,
            threads: effort.threads,
            stop: effort.stop,
            ..Self::default()
        }
    }
}

/// A mapping question, read and checked.
pub struct Question {
    /// The machine.
    pub machine: Arc<Machine>,
    /// Where the traffic comes from: a file or a spec.
    pub traffic: String,
    /// What was assumed or left out when the traffic was read.
    pub traffic_notes: Vec<String>,
    /// Bytes between the ranks, all phases added up.
    pub exchange: Arc<Exchange>,
    /// Nodes and slots of the job.
    pub allocation: Allocation,
    /// Load of other jobs.
    pub background: Option<Arc<LinkReading>>,
    /// How to read it again.
    pub background_source: Option<Background>,
    /// The running oracle that said it.
    pub oracle: Option<Oracled>,
    /// The present placement.
    pub current: Option<Placement>,
    /// The inside of every node, where it is described.
    pub node: Option<NodeInside>,
    /// What is minimised.
    pub goal: Goal,
    /// Costs between the allocated nodes, for [`Goal::RouteCost`].
    pub costs: Option<Vec<f32>>,
    /// Bytes that links carry for it.
    pub loads: Loads,
}

/// The snapshot of a running oracle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Oracled {
    /// Where the oracle is.
    pub address: String,
    /// Its snapshot.
    pub version: u64,
    /// When that was read (Unix time).
    pub time_seconds: Option<f64>,
}

impl Asked {
    /// The command that asks this, as far as files and nodes go.
    pub fn command(&self) -> String {
        // The words of a grid are options of the command as they stand.
        let traffic = self
            .grid
            .spec()
            .unwrap_or_else(|| shell_word(&self.traffic));
        let mut text = format!("hopbyte map {traffic} --fabric {}", self.machine.words());
        let mut add = |option: &str, value: &str| {
            text.push_str(&format!(" {option} {}", shell_word(value)));
        };
        self.nodes.iter().for_each(|n| add("--nodes", n));
        self.ranks_per_node
            .iter()
            .for_each(|n| add("--ranks-per-node", &n.to_string()));
        if let Some(file) = &self.node_topology {
            add("--node-topology", &file.display().to_string());
            add("--rank-per", self.rank_per.name());
        }
        self.current
            .iter()
            .for_each(|c| add("--current", &c.display().to_string()));
        self.background
            .iter()
            .for_each(|b| add("--background", &b.display().to_string()));
        self.oracle.iter().for_each(|o| add("--oracle", o));
        self.counters
            .interval_seconds
            .iter()
            .for_each(|i| add("--interval", &i.to_string()));
        if self.wire.network != WireOptions::DEFAULT_NETWORK {
            add("--wire", &self.wire.network);
        }
        text
    }

    /// Reads everything.
    ///
    /// # Errors
    /// Files and names that cannot be read, an unreachable oracle, a metric without counters.
    pub fn read(&self) -> Result<Question> {
        let machine = Arc::new(self.machine.read()?);
        let grid = self.grid.spec();
        let traffic = read_traffic(grid.as_deref().unwrap_or(&self.traffic))?;
        let node = match &self.node_topology {
            Some(file) => Some(NodeInside::read(file, self.rank_per)?),
            None => None,
        };
        let each = match &node {
            Some(node) => Some(node.slots(self.ranks_per_node)?),
            None => self.ranks_per_node,
        };
        let (allocation, current) = self.places(each, traffic.tasks, &machine.fabric)?;
        let (background, oracle) = self.load(&machine.fabric)?;
        let costs = match self.goal {
            Goal::RouteCost => Some(route_costs(
                &machine.fabric,
                &machine.routing,
                background.as_ref().map(|b| &b.state),
                &allocation,
                self.metric,
                self.aggregate,
            )?),
            _ => None,
        };
        let exchange = traffic.total();
        Ok(Question {
            loads: self.wire.loads(&machine.fabric, &exchange)?,
            exchange: Arc::new(exchange),
            traffic: traffic.source,
            traffic_notes: traffic.notes,
            machine,
            allocation,
            background: background.map(Arc::new),
            background_source: (!self.background.is_empty())
                .then(|| Background::new(&self.background, &self.counters)),
            oracle,
            current,
            node,
            goal: self.goal,
            costs,
        })
    }

    /// Nodes of the job, and where its ranks are now.
    fn places(
        &self,
        each: Option<u32>,
        tasks: usize,
        fabric: &Fabric,
    ) -> Result<(Allocation, Option<Placement>)> {
        let given = match &self.nodes {
            Some(list) => Some(inputs::nodes(list, each, tasks, fabric)?),
            None => None,
        };
        let placed = match &self.current {
            Some(file) => Some(read_placement(file, fabric, given.as_ref())?),
            None => None,
        };
        match (given, placed) {
            (given, Some(placed)) => {
                Ok((given.unwrap_or(placed.allocation), Some(placed.placement)))
            }
            (Some(given), None) => Ok((given, None)),
            (None, None) => bail!("no nodes\nhint: give --nodes LIST or --current FILE"),
        }
    }

    /// Load of other jobs, from a running oracle or from files.
    fn load(&self, fabric: &Fabric) -> Result<(Option<LinkReading>, Option<Oracled>)> {
        match (&self.background[..], &self.oracle) {
            (_, Some(address)) => {
                let (reading, oracled) = ask(address, fabric)?;
                Ok((Some(reading), Some(oracled)))
            }
            ([], None) => Ok((None, None)),
            (files, None) => Ok((Some(inputs::reading(files, fabric, &self.counters)?), None)),
        }
    }
}

/// Costs of the routes between allocated nodes, row by row, for [`Goal::RouteCost`].
///
/// Without an aggregate that of [`Metric::default_aggregate`] counts.
///
/// # Errors
/// The metric needs counters and there are none, or the matrix does not fit in memory.
pub fn route_costs(
    fabric: &Fabric,
    routing: &Routing,
    state: Option<&LinkState>,
    allocation: &Allocation,
    metric: Metric,
    aggregate: Option<Aggregate>,
) -> Result<Vec<f32>> {
    if metric.needs_state() && state.is_none() {
        bail!("metric {metric} needs a reading of counters\nhint: give --background or --oracle");
    }
    let nodes: Vec<_> = allocation.nodes().iter().map(|&(n, _)| n).collect();
    let aggregate = aggregate.unwrap_or_else(|| metric.default_aggregate());
    let costs = RouteCosts::new(fabric, routing, state, metric, aggregate, Over::Request);
    Ok(costs.among(&nodes)?.into_vec())
}

/// What a running oracle says of every link, all of one snapshot.
fn ask(address: &str, fabric: &Fabric) -> Result<(LinkReading, Oracled)> {
    let mut oracle = Oracle::connect(address)?;
    let (version, time_seconds, state) = oracle.links(fabric)?;
    let Some(state) = state else {
        let text = format!("oracle {} has no snapshot yet", oracle.address());
        return Err(Lacking(text).into());
    };
    let oracled = Oracled {
        address: oracle.address().to_owned(),
        version,
        time_seconds,
    };
    let reading = LinkReading::of_state(oracled.to_string(), state);
    Ok((reading, oracled))
}

impl fmt::Display for Oracled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oracle {}, snapshot {}", self.address, self.version)
    }
}

impl Question {
    /// What others put on the links.
    pub fn state(&self) -> Option<&LinkState> {
        self.background.as_ref().map(|b| &b.state)
    }

    /// Bytes that load the routes between tasks.
    pub fn on_wire(&self) -> &Exchange {
        self.loads.exchange.as_ref().unwrap_or(&self.exchange)
    }

    /// The question for the mapper.
    pub fn problem(&self) -> Problem<'_> {
        Problem {
            background: self.state(),
            current: self.current.as_ref(),
            objective: self.goal.with(self.costs.as_deref().unwrap_or_default()),
            loads: self.loads.exchange.as_ref(),
            ..Problem::new(
                &self.machine.fabric,
                &self.machine.routing,
                &self.exchange,
                &self.allocation,
            )
        }
    }
}
