//! The mapping document (`mapping.json`): the one JSON form of a mapping, written and read here.
//!
//! `hopbyte map --json`, `--out`, Python's `Mapping.document` and the C library write it; `apply`, `verify` and any
//! script read it. Fields may be added, never removed or renamed.

use crate::error::{JobError, Result};
use crate::inside::Arranged;
use crate::machine::MachineSource;
use crate::mapping::Mapping;
use crate::question::{Collected, Oracled, Question};
use hopbyte_apply::SlotCores;
use hopbyte_fabric::wire::Overhead;
use hopbyte_fabric::{Allocation, Fabric, FabricError, LinkId, Placement, Slot};
use hopbyte_map::budget::Migration;
use hopbyte_map::{Baseline, Bound, Evaluation, Verdict};
use hopbyte_observe::CounterOptions;
use hopbyte_observe::kinds::{Content, of_another_kind};
use hopbyte_observe::text::{Limits, Text};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Advice for a file that is no mapping.
const HINT: &str = "save one with: hopbyte map … --out FOLDER, or --json";

/// The schema of the document.
pub const SCHEMA: &str = "hopbyte.map/1";

/// A mapping with its question, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    schema: String,
    #[serde(default)]
    hopbyte: String,
    /// The machine.
    pub machine: MachineSource,
    /// The traffic that was mapped.
    pub traffic: TrafficSummary,
    /// Counters of other jobs' load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<Background>,
    /// The oracle that supplied the load of other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<Oracled>,
    /// The collector that supplied it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collector: Option<Collected>,
    /// Bytes on the way back for each byte sent.
    #[serde(default)]
    response_fraction: f64,
    /// Bytes on the wire; absent in documents of versions that counted only the payload.
    #[serde(default)]
    wire: Option<OnWire>,
    /// The objective.
    #[serde(default)]
    pub objective: String,
    #[serde(default)]
    calibration: String,
    /// Cost of the launcher's default.
    pub baseline: Cost,
    /// The best of the usual placements, by the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_baseline: Option<NamedCost>,
    /// Cost of the current placement, if known.
    #[serde(default)]
    pub current: Option<Cost>,
    /// Cost of the mapping.
    pub result: Cost,
    /// Cost of a better mapping that was not taken because it divides tensor-parallel groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divided: Option<Cost>,
    /// Proven lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Whether the result is better than the best baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    #[serde(default)]
    moved_tasks: usize,
    /// Advice on migration, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    seeds: usize,
    #[serde(default)]
    trials: u64,
    #[serde(default)]
    threads: usize,
    /// `hosts` if only whole hosts were permuted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// Whether every placement was searched.
    #[serde(default)]
    optimal: bool,
    /// Whether the search was interrupted.
    #[serde(default)]
    interrupted: bool,
    #[serde(default)]
    wall_seconds: f64,
    #[serde(default)]
    cpu_seconds: f64,
    allocation: Vec<AllocatedNode>,
    /// Node name by rank.
    placement: Vec<String>,
    /// Slot on its node by rank.
    slots: Vec<u32>,
    /// Parts of the node behind each slot, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inside: Option<Arranged>,
    /// Run time before and after it (`hopbyte.predict/1`), if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_time: Option<serde_json::Value>,
}

/// Origin and size of the traffic.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrafficSummary {
    /// File or spec.
    pub source: String,
    #[serde(default)]
    tasks: usize,
    #[serde(default)]
    pairs: usize,
    #[serde(default)]
    bytes: f64,
    /// Phases that follow one another, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    turns: Vec<String>,
    /// Whether it follows from the placement: this is the traffic of the result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    by_placement: bool,
    /// Assumptions and omissions of the reader.
    #[serde(default)]
    notes: Vec<String>,
}

/// Bytes on the wire for the traffic.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct OnWire {
    /// Network whose protocol is included, `payload`, or `response-fraction`.
    network: String,
    #[serde(default)]
    assumed: String,
    #[serde(default)]
    payload_bytes: f64,
    #[serde(default)]
    wire_bytes: f64,
}

/// Counters of other jobs' load, and their reading options.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Background {
    /// Their files.
    pub files: Vec<PathBuf>,
    /// Length of their window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interval_seconds: Option<f64>,
    /// Code region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    region: Option<i64>,
    /// Node or router of the counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
}

impl Background {
    /// Files and how they are read.
    pub fn new(files: &[PathBuf], options: &CounterOptions) -> Self {
        Self {
            files: files.to_vec(),
            interval_seconds: options.interval_seconds,
            region: options.region,
            node: options.node.clone(),
        }
    }

    /// How to read the files again.
    pub fn options(&self) -> CounterOptions {
        CounterOptions {
            interval_seconds: self.interval_seconds,
            region: self.region,
            node: self.node.clone(),
            ..CounterOptions::default()
        }
    }
}

/// A node of the allocation.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct AllocatedNode {
    node: String,
    slots: u32,
}

/// A baseline by name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NamedCost {
    name: Baseline,
    #[serde(flatten)]
    cost: Cost,
}

/// Cost of a placement, links by name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// Time of the worst link.
    pub worst_link_seconds: f64,
    #[serde(default)]
    worst_link: Option<String>,
    #[serde(default)]
    worst_network_link_seconds: f64,
    #[serde(default)]
    worst_network_link: Option<String>,
    #[serde(default)]
    worst_host_link_seconds: f64,
    #[serde(default)]
    p99_link_seconds: f64,
    #[serde(default)]
    mean_link_seconds: f64,
    #[serde(default)]
    loaded_links: usize,
    /// Bytes times hops.
    pub hop_bytes: f64,
    #[serde(default)]
    average_dilation: f64,
    #[serde(default)]
    off_node_bytes: f64,
    #[serde(default)]
    worst_injection_bytes: f64,
    /// Times of the phases' worst links, for phases that follow one another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    turn_seconds: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    route_cost: Option<f64>,
}

impl Cost {
    /// From the mapper's evaluation.
    pub fn of(fabric: &Fabric, e: &Evaluation) -> Self {
        let name = |link: Option<LinkId>| link.map(|l| fabric.link_name(l));
        Self {
            worst_link_seconds: e.worst_link_seconds,
            worst_link: name(e.worst_link),
            worst_network_link_seconds: e.worst_network_link_seconds,
            worst_network_link: name(e.worst_network_link),
            worst_host_link_seconds: e.worst_host_link_seconds,
            p99_link_seconds: e.p99_link_seconds,
            mean_link_seconds: e.mean_link_seconds,
            loaded_links: e.loaded_links,
            hop_bytes: e.hop_bytes,
            average_dilation: e.average_dilation,
            off_node_bytes: e.off_node_bytes,
            worst_injection_bytes: e.worst_injection_bytes,
            turn_seconds: e.turn_seconds.clone(),
            route_cost: e.route_cost,
        }
    }
}

impl Document {
    /// The document of an answer.
    pub fn of(question: &Question, mapping: &Mapping) -> Self {
        let (fabric, c) = (&question.machine.fabric, &mapping.certificate);
        let (best, best_cost) = &c.best_baseline;
        let nodes = question.allocation.nodes().iter();
        let places = mapping.placement.slots().iter();
        Self {
            schema: SCHEMA.into(),
            hopbyte: env!("CARGO_PKG_VERSION").into(),
            machine: question.machine.source.clone(),
            traffic: TrafficSummary {
                source: question.traffic.clone(),
                tasks: question.exchange.tasks(),
                pairs: question.exchange.pairs(),
                bytes: question.exchange.total_bytes(),
                turns: question.turns.iter().map(|t| t.name.clone()).collect(),
                by_placement: question.following.is_some(),
                notes: question.traffic_notes.clone(),
            },
            background: question.background_source.clone(),
            oracle: question.oracle.clone(),
            collector: question.collector.clone(),
            response_fraction: match question.loads.overhead {
                Overhead::Response(fraction) => fraction,
                _ => 0.0,
            },
            wire: Some(OnWire {
                network: question.loads.overhead.name().into(),
                assumed: question.loads.assumed.clone(),
                payload_bytes: question.loads.payload_bytes,
                wire_bytes: question.loads.wire_bytes,
            }),
            objective: c.objective.clone(),
            calibration: "uncalibrated: times are bytes over live capacity".into(),
            baseline: Cost::of(fabric, &c.baseline),
            best_baseline: Some(NamedCost {
                name: *best,
                cost: Cost::of(fabric, best_cost),
            }),
            current: c.current.as_ref().map(|e| Cost::of(fabric, e)),
            result: Cost::of(fabric, &c.result),
            divided: c.divided.as_ref().map(|e| Cost::of(fabric, e)),
            bound: Some(c.bound.clone()),
            verdict: Some(c.verdict),
            moved_tasks: c.moved_tasks,
            migration: mapping.migration.clone(),
            seed: c.seed,
            seeds: mapping.seeds,
            trials: c.trials,
            threads: c.threads,
            kept: question.keep_hosts.then(|| "hosts".into()),
            optimal: c.optimal,
            interrupted: c.interrupted,
            wall_seconds: c.wall_seconds,
            cpu_seconds: c.cpu_seconds,
            allocation: nodes
                .map(|&(node, slots)| AllocatedNode {
                    node: fabric.node(node).name.clone(),
                    slots,
                })
                .collect(),
            placement: places
                .clone()
                .map(|s| fabric.node(s.node).name.clone())
                .collect(),
            slots: places.map(|s| s.slot).collect(),
            inside: mapping.inside.clone(),
            run_time: (mapping.run_time.as_ref()).and_then(|p| serde_json::to_value(p).ok()),
        }
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The file cannot be read, is no mapping, is of another schema, or contradicts itself.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parsed(path).map_err(|error| match error {
            JobError::Input(e) => of_another_kind(path, Content::Mapping, e.into()).into(),
            JobError::Observe(e) => of_another_kind(path, Content::Mapping, e).into(),
            other => other,
        })
    }

    fn parsed(path: &Path) -> Result<Self> {
        let text = Text::read(path, Limits::ROWS)?;
        let wrong = |found: String, expected: &str| text.error(found, expected).hint(HINT);
        let document: Self = text
            .json("a mapping as `hopbyte map --json` prints it")
            .map_err(|e| e.hint(HINT))?;
        if document.schema != SCHEMA {
            return Err(wrong(document.schema, "schema hopbyte.map/1").into());
        }
        if document.placement.len() != document.slots.len() {
            let (nodes, slots) = (document.placement.len(), document.slots.len());
            let found = format!("{nodes} nodes and {slots} slots");
            return Err(wrong(found, "as many slots as nodes in `placement`").into());
        }
        Ok(document)
    }

    /// As a file of its own: indented JSON with a line end.
    ///
    /// # Errors
    /// The value has no JSON form.
    pub fn text(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Bytes on the wire beside the payload.
    ///
    /// # Errors
    /// The network is unknown to this version.
    pub fn overhead(&self, fabric: &Fabric) -> Result<Overhead, FabricError> {
        match self.wire.as_ref().map(|w| w.network.as_str()) {
            _ if self.response_fraction > 0.0 => Overhead::response(self.response_fraction),
            None | Some("response-fraction") => Ok(Overhead::Payload),
            Some(network) => Overhead::named(network, fabric),
        }
    }

    /// Cores of the slots of a node, if known for every slot.
    pub fn cores(&self) -> Option<&SlotCores> {
        let cores = self.inside.as_ref()?.cores.as_ref()?;
        let known = cores.cores.len().min(cores.processors.len());
        let most = self.slots.iter().max().map_or(0, |&s| s as usize + 1);
        (known >= most).then_some(cores)
    }

    /// Allocation and placement on a fabric, checked.
    ///
    /// # Errors
    /// A node is not on the fabric, or a slot not in the allocation.
    pub fn placed(&self, fabric: &Fabric) -> Result<(Allocation, Placement), FabricError> {
        let nodes = self.allocation.iter();
        let nodes = nodes.map(|r| Ok((fabric.find_node(&r.node)?, r.slots)));
        let allocation = Allocation::new(fabric, nodes.collect::<Result<_, FabricError>>()?)?;
        let ranks = self.placement.iter().zip(&self.slots);
        let slots = ranks.map(|(node, &slot)| {
            let node = fabric.find_node(node)?;
            Ok(Slot { node, slot })
        });
        let slots = slots.collect::<Result<_, FabricError>>()?;
        let placement = Placement::new(fabric, &allocation, slots)?;
        Ok((allocation, placement))
    }
}
