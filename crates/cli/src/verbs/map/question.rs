//! The mapping question that a command line asks.

use super::node::{NodeArgs, NodeInside};
use crate::args::{CounterArgs, FabricOption};
use crate::failure::Lacking;
use crate::inputs::{self, Reading};
use crate::machine::{Machine, MachineSource};
use crate::output::{Output, shell_word};
use crate::saved::Background;
use anyhow::{Result, bail};
use clap::ValueEnum;
use hopbyte_fabric::{Allocation, Exchange, Fabric, LinkState, Placement, Traffic};
use hopbyte_map::{Objective, Problem};
use hopbyte_observe::oracle::Oracle;
use hopbyte_observe::{read_placement, read_traffic};
use hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// What to map and where.
#[derive(clap::Args, Debug)]
pub struct Asked {
    /// What the ranks send each other: a file, or a spec such as stencil:16x16x16:27
    ///
    /// Files are recognised by content: dense or sparse matrices, Matrix Market, METIS and Scotch graphs,
    /// CSV `src,dst,bytes[,messages]`, Open MPI monitoring (`.prof` files, a folder or tar of them), IPM,
    /// TAU, mpitrace, SimGrid, GOAL and DUMPI traces. Specs: stencil:16x16x16:27,
    /// collective:allreduce:64:1000000, plan:dp=8,tp=4,pp=2. Without it: --dims.
    #[arg(
        value_name = "TRAFFIC",
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
    /// Where the ranks are now: netloc resources, rankfile, hostfile, CSV `rank,node[,slot]`,
    /// MPICH_RANK_ORDER
    #[arg(long, value_name = "FILE", help_heading = "Job")]
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
    /// What to make small
    #[arg(long, value_enum, default_value_t = Goal::WorstLink, help_heading = "Search")]
    pub objective: Goal,
    /// For route-cost: what counts on a link
    #[arg(long, default_value_t = Metric::Hops, help_heading = "Search")]
    pub metric: Metric,
    /// For route-cost: how a route's links become one number (default: hops are added up, of the others the
    /// worst link counts)
    #[arg(long, help_heading = "Search")]
    pub aggregate: Option<Aggregate>,
    /// Bytes on the way back for each byte sent (a Gemini PUT answers 96 with 9: 0.094)
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "RATIO",
        help_heading = "Search"
    )]
    pub response_fraction: f64,
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

impl GridArgs {
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

/// What to make small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// Time of the worst link: bytes over live capacity, host links included
    WorstLink,
    /// Time of the worst link between routers
    WorstNetworkLink,
    /// Bytes times links crossed
    HopBytes,
    /// Bytes times the cost of the route (--metric, --aggregate), the way of paper 003
    RouteCost,
}

/// Everything that a mapping needs, read and checked.
pub struct Question {
    /// How to read the machine again.
    pub source: MachineSource,
    /// The machine.
    pub machine: Machine,
    /// What is sent.
    pub traffic: Traffic,
    /// All its phases added up.
    pub exchange: Exchange,
    /// Where ranks may go.
    pub allocation: Allocation,
    /// What others put on the links.
    pub background: Option<Reading>,
    /// How to read it again.
    pub background_source: Option<Background>,
    /// The running oracle that said it.
    pub oracle: Option<Oracled>,
    /// Where the ranks are now.
    pub current: Option<Placement>,
    /// What is inside every node.
    pub node: Option<NodeInside>,
    /// What to make small.
    pub goal: Goal,
    /// Costs between the allocated nodes, for [`Goal::RouteCost`].
    pub costs: Option<Vec<f32>>,
    /// Bytes on the way back for each byte sent.
    pub response_fraction: f64,
}

/// The snapshot of a running oracle.
#[derive(Clone, Debug, Serialize)]
pub struct Oracled {
    /// Where the oracle is.
    pub address: String,
    /// Its snapshot.
    pub version: u64,
    /// When that was read (Unix time).
    pub time_seconds: Option<f64>,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            traffic: String::new(),
            grid: GridArgs::default(),
            fabric: FabricOption::default(),
            nodes: None,
            current: None,
            ranks_per_node: None,
            node: NodeArgs::default(),
            background: Vec::new(),
            about: CounterArgs::default(),
            oracle: None,
            objective: Goal::WorstLink,
            metric: Metric::Hops,
            aggregate: None,
            response_fraction: 0.0,
        }
    }
}

impl Asked {
    /// The command that asks this, as far as files and nodes go.
    pub fn command(&self) -> String {
        // The words of a grid are options of the command as they stand.
        let traffic = self
            .grid
            .spec()
            .unwrap_or_else(|| shell_word(&self.traffic));
        let mut text = format!(
            "hopbyte map {traffic} --fabric {}",
            self.fabric.source().words()
        );
        let mut add = |option: &str, value: &str| {
            text.push_str(&format!(" {option} {}", shell_word(value)));
        };
        self.nodes.iter().for_each(|n| add("--nodes", n));
        self.ranks_per_node
            .iter()
            .for_each(|n| add("--ranks-per-node", &n.to_string()));
        if let Some(file) = &self.node.node_topology {
            add("--node-topology", &file.display().to_string());
            add("--rank-per", self.node.rank_per.name());
        }
        self.current
            .iter()
            .for_each(|c| add("--current", &c.display().to_string()));
        self.background
            .iter()
            .for_each(|b| add("--background", &b.display().to_string()));
        self.oracle.iter().for_each(|o| add("--oracle", o));
        self.about
            .interval
            .iter()
            .for_each(|i| add("--interval", &i.to_string()));
        text
    }

    /// Reads everything.
    pub fn read(&self, out: &mut Output) -> Result<Question> {
        let source = self.fabric.source();
        let machine = source.read(out)?;
        let grid = self.grid.spec();
        let traffic = read_traffic(grid.as_deref().unwrap_or(&self.traffic))?;
        let node = self.node.read()?;
        let each = match &node {
            Some(node) => Some(node.slots(self.ranks_per_node)?),
            None => self.ranks_per_node,
        };
        let given = match &self.nodes {
            Some(list) => Some(inputs::nodes(list, each, traffic.tasks, &machine.fabric)?),
            None => None,
        };
        let placed = match &self.current {
            Some(file) => Some(read_placement(file, &machine.fabric, given.as_ref())?),
            None => None,
        };
        let (allocation, current) = match (given, placed) {
            (given, Some(placed)) => (given.unwrap_or(placed.allocation), Some(placed.placement)),
            (Some(given), None) => (given, None),
            // The definition of the command line asks for one of them.
            (None, None) => bail!(
                "no nodes
hint: give --nodes LIST or --current FILE"
            ),
        };
        let (background, oracle) = match (&self.background[..], &self.oracle) {
            (_, Some(address)) => {
                let (reading, oracled) = ask(address, &machine.fabric)?;
                (Some(reading), Some(oracled))
            }
            ([], None) => (None, None),
            (files, None) => {
                let reading = inputs::reading(files, &machine.fabric, &self.about)?;
                (Some(reading), None)
            }
        };
        for note in background.iter().flat_map(|b| &b.notes) {
            out.talk(note);
        }
        let mut question = Question {
            source,
            exchange: traffic.total(),
            machine,
            traffic,
            allocation,
            background,
            background_source: (!self.background.is_empty()).then(|| Background {
                files: self.background.clone(),
                interval_seconds: self.about.interval,
                region: self.about.region,
                node: self.about.node.clone(),
            }),
            oracle,
            current,
            node,
            goal: self.objective,
            costs: None,
            response_fraction: self.response_fraction,
        };
        if self.objective == Goal::RouteCost {
            question.costs = Some(self.costs(&question)?);
        }
        Ok(question)
    }

    fn costs(&self, question: &Question) -> Result<Vec<f32>> {
        if self.metric.needs_state() && question.background.is_none() {
            bail!(
                "metric {} needs a reading of counters\nhint: give --background or --oracle",
                self.metric
            );
        }
        let nodes: Vec<_> = question
            .allocation
            .nodes()
            .iter()
            .map(|&(n, _)| n)
            .collect();
        let (fabric, routing) = (&question.machine.fabric, &question.machine.routing);
        let state = question.state();
        // The longest hop of a route is one hop, whatever the route.
        let aggregate = self.aggregate.unwrap_or(match self.metric {
            Metric::Hops => Aggregate::Sum,
            _ => Aggregate::Max,
        });
        let costs = RouteCosts::new(
            fabric,
            routing,
            state,
            self.metric,
            aggregate,
            Over::Request,
        );
        Ok(costs.among(&nodes)?.into_vec())
    }
}

/// What a running oracle says of every link, all of one snapshot.
fn ask(address: &str, fabric: &Fabric) -> Result<(Reading, Oracled)> {
    let mut oracle = Oracle::connect(address)?;
    let (version, time_seconds, state) = oracle.links(fabric)?;
    let Some(state) = state else {
        let text = format!("oracle {} has no snapshot yet", oracle.address());
        return Err(Lacking(text).into());
    };
    let known = state.coverage.iter().filter(|&&c| c > 0.0).count();
    let oracled = Oracled {
        address: oracle.address().to_owned(),
        version,
        time_seconds,
    };
    let reading = Reading {
        source: oracled.to_string(),
        matched: known,
        unmatched: 0,
        state,
        notes: Vec::new(),
    };
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

    /// The question for the mapper.
    pub fn problem(&self) -> Problem<'_> {
        let objective = match (self.goal, &self.costs) {
            (Goal::RouteCost, Some(costs)) => Objective::RouteCost(costs),
            (Goal::HopBytes, _) => Objective::HopBytes,
            (Goal::WorstNetworkLink, _) => Objective::WorstNetworkLink,
            _ => Objective::WorstLink,
        };
        Problem {
            background: self.state(),
            current: self.current.as_ref(),
            objective,
            response_fraction: self.response_fraction,
            ..Problem::new(
                &self.machine.fabric,
                &self.machine.routing,
                &self.exchange,
                &self.allocation,
            )
        }
    }
}
