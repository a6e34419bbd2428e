//! The question, as one serialisable value: machine, operating point, job, other jobs, level of detail.

use super::computing::{Computing, Interruptions};
use super::level::Level;
use super::limits::positive;
use super::parameters::{OperatingPoint, Parameters, merge};
use super::protection::Protection;
use super::workload::Workload;
use crate::error::ModelError;
use hopbyte_fabric::{Fabric, InputError, Routing, faults, spec};
use serde::{Deserialize, Serialize};

/// Schema string of every scenario.
pub const SCHEMA: &str = "hopbyte.scenario/1";

/// One question to a model, in TOML or JSON; unknown fields are rejected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// `SCHEMA`.
    pub schema: String,
    /// Name for titles.
    pub name: String,
    /// Subject, and source of its values.
    #[serde(default)]
    pub about: String,
    /// Spec, preset or file of the machine.
    pub fabric: String,
    /// Routing by name (default: the machine's).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<String>,
    /// Links or routers that are down, as on the command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<String>,
    /// Preset of rates and delays: `gemini`, `seastar`, `plain`.
    pub network: String,
    /// Values of the preset to change.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub parameters: toml::Table,
    /// Factors on rates and delays.
    #[serde(default)]
    pub point: OperatingPoint,
    /// Level of detail.
    #[serde(default)]
    pub level: Level,
    /// Seed of all random numbers.
    #[serde(default)]
    pub seed: u64,
    /// Share of the time within which ends of transfers count as simultaneous; 0 is exact.
    #[serde(default)]
    pub tolerance: f64,
    /// The job.
    pub job: Job,
    /// Simultaneous jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<Background>,
    /// Nodes with reduced injection and ejection (paper 002, III.F).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<Slow>,
    /// APRUN_BALANCED_INJECTION: 1 to 100 (paper 002, II.G).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balanced_injection: Option<f64>,
    /// Congestion protection (paper 002, II.G).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protection: Option<Protection>,
    /// Variation of computing from rank to rank and from step to step, as its standard deviation
    /// over its mean: operating system noise or load imbalance. Drawn by the seed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub noise: f64,
    /// Share of computing whose time is that of its memory accesses, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory_bound: f64,
    /// Regular interruptions of every processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptions: Option<Interruptions>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

/// A job: workload, nodes and placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Workload.
    pub workload: Workload,
    /// Its nodes.
    #[serde(default)]
    pub nodes: Nodes,
    /// Ranks on each node.
    #[serde(default = "one")]
    pub ranks_per_node: u32,
    /// Placement of the ranks.
    #[serde(default)]
    pub placement: PlacementRule,
}

fn one() -> u32 {
    1
}

/// The nodes of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nodes {
    /// As many as the ranks need, from the first router on.
    #[default]
    AsNeeded,
    /// The whole machine.
    All,
    /// A number of nodes in the order of routers, after skipping some.
    First {
        /// Number of nodes.
        count: u32,
        /// Number of nodes to skip.
        #[serde(default)]
        skip: u32,
        /// Of the first routers, this many give one node only: another job has the other.
        #[serde(default, skip_serializing_if = "is_none")]
        single: u32,
    },
    /// A number of nodes in the order of node numbers (as ALPS allocates them), after skipping some.
    ByNumber {
        /// Number of nodes.
        count: u32,
        /// Number of nodes to skip.
        #[serde(default)]
        skip: u32,
    },
    /// A number of nodes drawn from the whole machine by the scenario's seed, in the order of routers: a
    /// fragmented allocation on a busy machine.
    Scattered {
        /// Number of nodes.
        count: u32,
    },
    /// Named nodes; `(x,y,z)` means all nodes of a router, `(x,y,z):1` its second one.
    Named(Vec<String>),
}

/// Placement of ranks on nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementRule {
    /// Ranks fill node after node.
    #[default]
    Linear,
    /// Round robin over the nodes.
    RoundRobin,
    /// Random order (by the scenario's seed).
    Random,
    /// Each node has a block of the workload's grid of ranks; the product of its extents is the ranks per node.
    Blocks(Vec<u32>),
    /// The same with routers, whose nodes share the block along its first dimension.
    RouterBlocks(Vec<u32>),
    /// The grid of ranks and the coordinates of the nodes are halved together, each along its longest
    /// side, down to single nodes (geometric mapping by recursive bisection).
    Geometric,
    /// The node of every rank.
    Nodes(Vec<String>),
}

/// Another job, as permanent traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Messages of its ranks, repeated without end.
    pub workload: Workload,
    /// Its nodes.
    #[serde(default)]
    pub nodes: Nodes,
    /// Ranks on each node.
    #[serde(default = "one")]
    pub ranks_per_node: u32,
    /// Placement of the ranks.
    #[serde(default)]
    pub placement: PlacementRule,
    /// Limit of each of its transfers; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
}

impl Background {
    /// The job without its limit.
    pub(crate) fn job(&self) -> Job {
        Job {
            workload: self.workload.clone(),
            nodes: self.nodes.clone(),
            ranks_per_node: self.ranks_per_node,
            placement: self.placement.clone(),
        }
    }
}

/// A node with reduced bandwidth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// Node, or router for all its nodes.
    pub name: String,
    /// Limit of its injection and of its ejection.
    pub bytes_per_s: f64,
}

impl Scenario {
    /// Reads and checks TOML, or JSON when the text begins with a brace; `file` is named in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, ModelError> {
        let scenario = Self::read(file, text)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The same without [`Self::check`], for callers that change values first.
    pub fn read(file: &str, text: &str) -> Result<Self, ModelError> {
        let hint =
            "the book's page on scenarios has all fields, scenarios/examples a few scenarios";
        let scenario: Self = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|e| {
                let error = InputError::new(file, e.to_string(), "a scenario in JSON");
                ModelError::from(error.at(e.line() as u64).hint(hint))
            })?
        } else {
            toml::from_str(text).map_err(|e| {
                let error = InputError::parsed(file, e.message(), "a scenario in TOML");
                let begin = e.span().map_or(0, |span| span.start);
                ModelError::from(error.at_byte(text, begin).hint(hint))
            })?
        };
        if scenario.schema != SCHEMA {
            let error = InputError::new(file, &scenario.schema, format!("schema = \"{SCHEMA}\""));
            return Err(error
                .hint("this hopbyte reads that version of scenarios")
                .into());
        }
        Ok(scenario)
    }

    /// Whether the result depends on the seed.
    pub fn is_random(&self) -> bool {
        let random = |placement: &PlacementRule, nodes: &Nodes| {
            *placement == PlacementRule::Random || matches!(nodes, Nodes::Scattered { .. })
        };
        self.noise > 0.0
            || self.interruptions.is_some()
            || random(&self.job.placement, &self.job.nodes)
            || (self.background.iter()).any(|b| random(&b.placement, &b.nodes))
    }

    /// The machine, if `fabric` is a spec or preset and not a file.
    pub fn machine(&self) -> Result<(Fabric, Routing), ModelError> {
        let described = spec::machine(&self.fabric)?;
        let (mut fabric, mut routing) = (described.fabric, described.routing);
        let mut faults = Vec::new();
        for line in &self.down {
            faults.extend(faults::parse(&fabric, "down", line)?.0);
        }
        if !faults.is_empty() {
            fabric = fabric.with_faults(&faults);
            routing = routing.rerouted(&fabric);
        }
        if let Some(name) = &self.routing {
            routing = Routing::named(&fabric, name)?;
        }
        Ok((fabric, routing))
    }

    /// The scenario as TOML.
    pub fn to_toml(&self) -> Result<String, ModelError> {
        toml::to_string(self).map_err(|e| {
            InputError::new(&self.name, e.to_string(), "values that TOML can hold").into()
        })
    }

    /// The preset with the scenario's changes, checked.
    pub fn parameters(&self) -> Result<Parameters, ModelError> {
        let preset = Parameters::preset(&self.network)?;
        let mut table = preset.table()?;
        for (key, value) in &self.parameters {
            merge(&mut table, key, value);
        }
        if !self.parameters.is_empty() && !self.parameters.contains_key("calibration") {
            let text = format!("{}; changed in the scenario", preset.calibration);
            table.insert("calibration".into(), text.into());
        }
        Ok(Parameters::from_table(table)?)
    }

    /// Computing at the operating point.
    pub(crate) fn computing(&self) -> Computing {
        Computing::of(
            &self.point,
            self.memory_bound,
            self.interruptions,
            self.seed,
        )
    }

    /// Rejects values outside their range, before memory is allocated for them.
    pub fn check(&self) -> Result<(), ModelError> {
        self.parameters()?;
        self.point.check()?;
        if !(0.0..=0.1).contains(&self.tolerance) {
            return Err(ModelError::out_of_range(
                "tolerance",
                &self.tolerance,
                "0 to 0.1",
            ));
        }
        if let Some(value) = self.balanced_injection
            && !(1.0..=100.0).contains(&value)
        {
            return Err(ModelError::out_of_range(
                "balanced_injection",
                &value,
                "1 to 100",
            ));
        }
        if !(0.0..=1.0).contains(&self.noise) {
            return Err(ModelError::out_of_range("noise", &self.noise, "0 to 1"));
        }
        if !(0.0..=1.0).contains(&self.memory_bound) {
            let found = &self.memory_bound;
            return Err(ModelError::out_of_range("memory_bound", found, "0 to 1"));
        }
        if let Some(interruptions) = &self.interruptions {
            interruptions.check(self.point.interruptions)?;
        }
        if let Some(protection) = &self.protection {
            protection.check(self.level)?;
        }
        for slow in &self.slow {
            positive(
                &format!("bytes_per_s of slow node {}", slow.name),
                slow.bytes_per_s,
            )?;
        }
        check_job(
            &self.job.workload,
            self.job.ranks_per_node,
            &self.job.placement,
        )?;
        for job in &self.background {
            check_job(&job.workload, job.ranks_per_node, &job.placement)?;
            if let Some(rate) = job.bytes_per_s {
                positive("bytes_per_s of a background job", rate)?;
            }
        }
        Ok(())
    }
}

fn check_job(
    workload: &Workload,
    ranks_per_node: u32,
    placement: &PlacementRule,
) -> Result<(), ModelError> {
    if ranks_per_node == 0 {
        return Err(ModelError::out_of_range("ranks_per_node", &0, "at least 1"));
    }
    let ranks = workload.check()?;
    if let (PlacementRule::Nodes(nodes), Some(ranks)) = (placement, ranks)
        && nodes.len() as u64 != ranks
    {
        let expected = format!("a node for each of the {ranks} ranks");
        return Err(ModelError::out_of_range(
            "placement",
            &nodes.len(),
            expected,
        ));
    }
    if let PlacementRule::Blocks(block) | PlacementRule::RouterBlocks(block) = placement {
        let Some(grid) = workload.grid() else {
            return Err(ModelError::out_of_range(
                "placement",
                &"blocks",
                "a workload on a grid of ranks",
            ));
        };
        let fits = block.len() == grid.len()
            && block
                .iter()
                .zip(&grid)
                .all(|(&b, &g)| b > 0 && g.is_multiple_of(b));
        if !fits {
            let expected = format!("extents that divide the grid {grid:?}");
            return Err(ModelError::out_of_range(
                "placement blocks",
                &format!("{block:?}"),
                expected,
            ));
        }
    }
    Ok(())
}
