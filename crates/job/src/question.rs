//! A mapping question: machine, traffic, nodes, live load, objective and effort, with their defaults.
//!
//! All interfaces ask through this module: the command line and Python by [`Asked`] or its parts, C by [`Question`], so
//! that each default is defined once.

use crate::by_host::Following;
use crate::costs::costs_for;
use crate::document::Background;
use crate::error::{Result, refuse};
use crate::inputs::{self, LinkReading};
use crate::inside::{NodeInside, Part};
use crate::load::Live;
use crate::machine::{Machine, MachineSource};
use crate::run::unlike_slurm;
pub use crate::wire::WireOptions;
use crate::{Lacking, shell_word};
use hopbyte_fabric::plan;
use hopbyte_fabric::wire::Loads;
use hopbyte_fabric::{Allocation, Exchange, Fabric, InputError, LinkState, Placement};
pub use hopbyte_map::Goal;
use hopbyte_map::{Options, Problem, Turn};
use hopbyte_observe::kinds::{Content, of_another_kind};
use hopbyte_observe::oracle::Oracle;
use hopbyte_observe::{CounterOptions, read_placement, read_traffic_by_host};
use hopbyte_oracle::{Aggregate, Metric};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// All options of a mapping question; [`Asked::read`] reads the files.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Traffic between the ranks: a file or a spec; empty if `grid` is given.
    pub traffic: String,
    /// A grid of ranks in place of `traffic`.
    pub grid: GridOptions,
    /// The machine.
    pub machine: MachineSource,
    /// Nodes of the job, as a list; by default those of `current`.
    pub nodes: Option<String>,
    /// File with the present placement.
    pub current: Option<PathBuf>,
    /// Ranks per node without slots in the list; default: the fewest that hold all.
    pub ranks_per_node: Option<u32>,
    /// Description of a node's inside (hwloc XML, an NCCL topology, nvidia-smi topo -m), and the part that each rank gets exclusively.
    pub node_topology: Option<PathBuf>,
    /// See `node_topology`.
    pub rank_per: Part,
    /// Counters of other jobs' load.
    pub background: Vec<PathBuf>,
    /// How to read them.
    pub counters: CounterOptions,
    /// A running source of the load, in place of `background`.
    pub live: Option<Live>,
    /// The objective.
    pub goal: Goal,
    /// For [`Goal::RouteCost`].
    pub metric: Metric,
    /// For [`Goal::RouteCost`]; the default is [`Metric::default_aggregate`].
    pub aggregate: Option<Aggregate>,
    /// Protocol bytes beside the payload.
    pub wire: WireOptions,
    /// Whether phases of the traffic overlap although its file says that they follow one another.
    pub overlap: bool,
    /// Groups of ranks that stay together.
    pub keep: Keep,
}

/// Groups of ranks that a search keeps together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Tensor-parallel groups of a plan; see [`Problem::together`].
    #[default]
    Groups,
    /// Hosts; see [`Problem::keep_hosts`].
    Hosts,
    /// Nothing.
    Nothing,
}

impl FromStr for Keep {
    type Err = String;

    /// Parses a name; the error lists the valid names.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|k| k.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!(
                "found '{}' to keep, expected {names}",
                text.escape_default()
            )
        })
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Keep {
    /// All values, the default first.
    pub const ALL: [Self; 3] = [Self::Groups, Self::Hosts, Self::Nothing];

    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Groups => "groups",
            Self::Hosts => "hosts",
            Self::Nothing => "nothing",
        }
    }

    /// One line for the help.
    pub fn about(self) -> &'static str {
        match self {
            Self::Groups => {
                "tensor-parallel groups of a plan in one NVLink domain each, where there is room for all"
            }
            Self::Hosts => {
                "hosts, with the same local ranks on each (implied by --emit of a launcher that needs it)"
            }
            Self::Nothing => "single ranks are placed by the objective alone",
        }
    }

    /// Groups of ranks of some traffic for [`Problem::together`].
    ///
    /// # Errors
    /// A plan that cannot be read.
    pub fn groups(self, traffic: &str) -> Result<Vec<Vec<u32>>> {
        let kinds = match self {
            Self::Groups => plan::reducing_groups(traffic).transpose()?,
            Self::Hosts | Self::Nothing => None,
        };
        let tensor = |kind: plan::Groups| (kind.0 == plan::TENSOR_GROUPS).then_some(kind.1);
        Ok(kinds
            .into_iter()
            .flatten()
            .find_map(tensor)
            .unwrap_or_default())
    }
}

/// A grid of ranks, in the terms of Cray's `MPICH_RANK_REORDER_OPTS`.
#[derive(Clone, Debug, Default)]
pub struct GridOptions {
    /// Ranks along each dimension, `16,16,16`, the last fastest.
    pub dims: Option<String>,
    /// Number of dimensions, checked against `dims`.
    pub ndims: Option<u32>,
    /// Nearest-neighbour messages (the default).
    pub nearest: bool,
    /// Periodic boundaries: the grid is a torus.
    pub periodic: bool,
    /// Bytes across a face, an edge, a corner: `80000,800,8`.
    pub halo: Option<String>,
}

impl GridOptions {
    /// The equivalent spec.
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

/// Duration and seed of the search.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Seconds of search.
    pub seconds: f64,
    /// Number of swaps in place of a time: the same result on any machine and any number of threads.
    pub trials: Option<u64>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Threads; 0: one per core.
    pub threads: usize,
    /// Cancellation flag: ends the search early with the best placement so far.
    pub stop: Option<&'static AtomicBool>,
}

impl Effort {
    /// Whether the search was cancelled.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl Effort {
    /// The default of all interfaces.
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
    /// Source of the traffic: a file or a spec.
    pub traffic: String,
    /// Assumptions and omissions of the traffic's reader.
    pub traffic_notes: Vec<String>,
    /// Bytes between the ranks, all phases added up.
    pub exchange: Arc<Exchange>,
    /// How they follow from the placement, if they do; the others are those of the recorded run.
    pub following: Option<Following>,
    /// Nodes and slots of the job.
    pub allocation: Allocation,
    /// Load of other jobs.
    pub background: Option<Arc<LinkReading>>,
    /// Source of that load, to read it again.
    pub background_source: Option<Background>,
    /// The running oracle that supplied it.
    pub oracle: Option<Oracled>,
    /// The collector that supplied it.
    pub collector: Option<Collected>,
    /// The present placement.
    pub current: Option<Placement>,
    /// The inside of every node, where it is described.
    pub node: Option<NodeInside>,
    /// The objective.
    pub goal: Goal,
    /// Costs between the allocated nodes, for [`Goal::RouteCost`].
    pub costs: Option<Vec<f32>>,
    /// Bytes on the wire for the traffic.
    pub loads: Loads,
    /// Phases of the traffic, if they follow one another.
    pub turns: Vec<Turn>,
    /// Whether only whole hosts are permuted.
    pub keep_hosts: bool,
    /// Groups of ranks that stay in one unit of hosts.
    pub together: Vec<Vec<u32>>,
}

/// The snapshot of a running oracle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Oracled {
    /// Address of the oracle.
    pub address: String,
    /// Its snapshot.
    pub version: u64,
    /// Time of the snapshot (Unix time).
    pub time_seconds: Option<f64>,
}

/// The reading of a running collector.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Collected {
    /// Address of the collector, or the folder of its store.
    pub address: String,
    /// Time of the reading (Unix time).
    pub time_seconds: Option<f64>,
}

impl Asked {
    /// The command for this question, with its files and nodes.
    pub fn command(&self) -> String {
        // A grid's words are command options already.
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
        let files = self.background.iter().filter(|_| self.live.is_none());
        files.for_each(|b| add("--background", &b.display().to_string()));
        match &self.live {
            Some(Live::Oracle { address, .. }) => add("--oracle", address),
            Some(Live::Collector { address, .. }) => add("--background", address),
            None => {}
        }
        self.counters
            .interval_seconds
            .iter()
            .for_each(|i| add("--interval", &i.to_string()));
        if self.wire.network != WireOptions::DEFAULT_NETWORK {
            add("--wire", &self.wire.network);
        }
        if self.keep != Keep::default() {
            add("--keep", self.keep.name());
        }
        if self.overlap {
            text.push_str(" --overlap");
        }
        text
    }

    /// Reads all inputs.
    ///
    /// # Errors
    /// Unreadable files and names, an unreachable oracle, a metric without counters.
    pub fn read(&self) -> Result<Question> {
        let mut machine = self.machine.read()?;
        let grid = self.grid.spec();
        let source = grid.as_deref().unwrap_or(&self.traffic);
        let read = read_traffic_by_host(source);
        let (mut traffic, by_host) =
            read.map_err(|e| of_another_kind(source.as_ref(), Content::Traffic, e))?;
        traffic.in_turn &= !self.overlap;
        let node = match &self.node_topology {
            Some(_) if machine.fabric.inside().is_some() => {
                let found = "a machine with described hosts";
                let error = InputError::new("--node-topology", found, "one description of hosts");
                let hint = "leave it out: ranks are placed on the places of the described hosts";
                return Err(error.hint(hint).into());
            }
            Some(file) => Some(NodeInside::read(file, self.rank_per)?),
            None => None,
        };
        let each = match &node {
            Some(node) => Some(node.slots(self.ranks_per_node)?),
            None => self.ranks_per_node,
        };
        let (allocation, current) =
            self.places(each, traffic.tasks, &machine.fabric, &mut machine.notes)?;
        let list = self.nodes.as_deref().filter(|_| each.is_none());
        let unlike = list.and_then(|list| unlike_slurm(list, &allocation, &machine.fabric));
        machine.notes.extend(unlike);
        let machine = Arc::new(machine);
        let (background, oracle) = self.load(&machine.fabric)?;
        if let Some(reading) = background.as_ref().filter(|_| self.goal != Goal::RouteCost) {
            reading.of_loads()?;
        }
        let collector = match (&self.live, &background) {
            (Some(Live::Collector { address, .. }), Some(reading)) => Some(Collected {
                address: address.clone(),
                time_seconds: reading.time_seconds,
            }),
            _ => None,
        };
        let costs = costs_for(
            self.goal,
            (&machine.fabric, &machine.routing),
            background.as_ref().map(|b| &b.state),
            &allocation,
            (self.metric, self.aggregate),
        )?;
        let exchange = traffic.total();
        Ok(Question {
            loads: self.wire.loads(&machine.fabric, &exchange)?,
            exchange: Arc::new(exchange),
            following: by_host.map(|record| Following {
                record: Arc::new(record),
                wire: self.wire.clone(),
                overlap: self.overlap,
            }),
            turns: self.wire.turns(&machine.fabric, &traffic)?,
            together: self.keep.groups(&traffic.source)?,
            traffic: traffic.source,
            traffic_notes: traffic.notes,
            machine,
            allocation,
            background: background.map(Arc::new),
            background_source: (!self.background.is_empty() && self.live.is_none())
                .then(|| Background::new(&self.background, &self.counters)),
            oracle,
            collector,
            current,
            node,
            goal: self.goal,
            costs,
            keep_hosts: self.keep == Keep::Hosts,
        })
    }

    /// Nodes of the job, and the current placement of its ranks.
    fn places(
        &self,
        each: Option<u32>,
        tasks: usize,
        fabric: &Fabric,
        notes: &mut Vec<String>,
    ) -> Result<(Allocation, Option<Placement>)> {
        let given = match &self.nodes {
            Some(list) => {
                let say = &mut |note| notes.push(note);
                Some(inputs::nodes(list, each, tasks, fabric, say)?)
            }
            None => None,
        };
        let placed = match &self.current {
            Some(file) => {
                let placed = read_placement(file, fabric, given.as_ref());
                let placed = placed.map_err(|e| of_another_kind(file, Content::Placement, e))?;
                notes.extend(placed.notes.iter().cloned());
                Some(placed)
            }
            None => None,
        };
        match (given, placed) {
            (given, Some(placed)) => {
                Ok((given.unwrap_or(placed.allocation), Some(placed.placement)))
            }
            (Some(given), None) => Ok((given, None)),
            (None, None) => refuse!("no nodes\nhint: give --nodes LIST or --current FILE"),
        }
    }

    /// Load of other jobs, from a running oracle or from files.
    fn load(&self, fabric: &Fabric) -> Result<(Option<LinkReading>, Option<Oracled>)> {
        match (&self.background[..], &self.live) {
            (_, Some(Live::Oracle { address, token })) => {
                inputs::unused(&self.counters)?;
                let (reading, oracled) = ask(address, token.as_deref(), fabric)?;
                Ok((Some(reading), Some(oracled)))
            }
            (
                _,
                Some(Live::Collector {
                    address,
                    token,
                    tls_ca,
                    read,
                }),
            ) => {
                let over = self.counters.interval_seconds;
                let others = CounterOptions {
                    interval_seconds: None,
                    ..self.counters.clone()
                };
                inputs::unused(&others)?;
                let reading = read(address, token.as_deref(), tls_ca.as_deref(), over, fabric)?;
                Ok((Some(reading), None))
            }
            (files, None) => Ok((inputs::background(files, fabric, &self.counters)?, None)),
        }
    }
}

/// State of every link from a running oracle, from one snapshot.
fn ask(address: &str, token: Option<&Path>, fabric: &Fabric) -> Result<(LinkReading, Oracled)> {
    let mut oracle = Oracle::connect_with(address, token)?;
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
    /// By the default objective; without phases, other jobs or a current placement.
    ///
    /// # Errors
    /// Those of [`WireOptions::loads`].
    pub fn new(
        machine: Arc<Machine>,
        exchange: Arc<Exchange>,
        allocation: Allocation,
        wire: &WireOptions,
    ) -> Result<Self> {
        Ok(Self {
            loads: wire.loads(&machine.fabric, &exchange)?,
            machine,
            traffic: String::new(),
            traffic_notes: Vec::new(),
            exchange,
            following: None,
            allocation,
            background: None,
            background_source: None,
            oracle: None,
            collector: None,
            current: None,
            node: None,
            goal: Goal::ALL[0],
            costs: None,
            turns: Vec::new(),
            keep_hosts: false,
            together: Vec::new(),
        })
    }

    /// Load of other jobs.
    pub fn state(&self) -> Option<&LinkState> {
        self.background.as_ref().map(|b| &b.state)
    }

    /// Bytes on the routes between tasks.
    pub fn on_wire(&self) -> &Exchange {
        self.loads.exchange.as_ref().unwrap_or(&self.exchange)
    }

    /// Remarks on the allocation: domains of which it has a part of the hosts, and hosts with different places.
    pub fn allocation_notes(&self) -> Vec<String> {
        let fabric = &self.machine.fabric;
        let Some(inside) = fabric.inside() else {
            return Vec::new();
        };
        let mut hosts: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
        let mut rooms: BTreeMap<&str, u32> = BTreeMap::new();
        for &(node, slots) in self.allocation.nodes() {
            let host = fabric.node(node).host.as_str();
            *rooms.entry(host).or_default() += slots;
            if let Some(unit) = inside.unit_of(node) {
                hosts.entry(unit).or_default().insert(host);
            }
        }
        let units: Vec<_> = inside.units().collect();
        let cut: Vec<(usize, usize)> = hosts
            .iter()
            .map(|(&unit, own)| (own.len(), units[unit as usize].hosts.len()))
            .filter(|(own, all)| own < all)
            .collect();
        let mut notes = Vec::new();
        if let Some(&(own, all)) = cut.first() {
            let others = match cut.len() {
                1 => String::new(),
                n => format!(", and of {} more", n - 1),
            };
            notes.push(format!(
                "the allocation has {own} of the {all} hosts of a domain that inner links join{others}: only ranks on these are joined"
            ));
        }
        let range = (rooms.values().min(), rooms.values().max());
        if let (Some(least), Some(most)) = range
            && least < most
        {
            notes.push(format!(
                "hosts have from {least} to {most} slots: an order of hosts keeps every block of ranks on a host that takes it, and launchers that need the same number on each refuse it"
            ));
        }
        notes
    }

    /// The question for the mapper.
    pub fn problem(&self) -> Problem<'_> {
        Problem {
            background: self.state(),
            current: self.current.as_ref(),
            objective: self.goal.with(self.costs.as_deref().unwrap_or_default()),
            loads: self.loads.exchange.as_ref(),
            turns: &self.turns,
            keep_hosts: self.keep_hosts,
            together: &self.together,
            ..Problem::new(
                &self.machine.fabric,
                &self.machine.routing,
                &self.exchange,
                &self.allocation,
            )
        }
    }
}
