//! A model's scenario with the machine, traffic and traces that it names.

use crate::calibration;
use crate::error::{Result, refuse};
use crate::machine::{Machine, MachineSource};
use hopbyte_fabric::Fabric;
use hopbyte_model::parameters::{PRESETS, merge};
use hopbyte_model::workload::{Input, Workload};
use hopbyte_model::{Inputs, Level, Nodes, Outcome, PlacementRule, Question, Scenario};
use hopbyte_observe::text::{Limits, Text, lossy};
use hopbyte_observe::{read_noted, read_placement, read_traffic};
use std::path::Path;

/// A scenario with its machine and its inputs.
pub struct Asked {
    /// The machine, with notes on left-out parts of a trace, too.
    pub machine: Machine,
    /// Traffic and traces.
    pub inputs: Inputs,
}

impl Asked {
    /// Reads them.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(scenario: &Scenario) -> Result<Self> {
        let mut machine = machine_of(scenario)?;
        let inputs = inputs_of(scenario, &mut machine.notes)?;
        Ok(Self { machine, inputs })
    }
}

/// Places the job's ranks as a file states; `say` is told of one that may have been cut.
///
/// # Errors
/// The file is not a placement on this machine.
pub fn put(
    scenario: &mut Scenario,
    fabric: &Fabric,
    path: &Path,
    say: &mut dyn FnMut(String),
) -> Result<()> {
    let placed = read_placement(path, fabric, None)?;
    placed.notes.iter().cloned().for_each(say);
    let name = |node| fabric.node(node).name.clone();
    let nodes = placed.allocation.nodes();
    scenario.job.ranks_per_node = nodes.iter().map(|n| n.1).max().unwrap_or(1);
    scenario.job.nodes = Nodes::Named(nodes.iter().map(|n| name(n.0)).collect());
    let ranks = placed.placement.slots().iter().map(|s| name(s.node));
    scenario.job.placement = PlacementRule::Nodes(ranks.collect());
    scenario.check()?;
    Ok(())
}

/// Takes rates and delays from a preset or a file as for predictions ([`calibration`]); the scenario's own parameters are
/// changes to these.
///
/// # Errors
/// No such preset or file; parameters outside their range.
pub fn on_network(scenario: &mut Scenario, machine: &Machine, network: &str) -> Result<()> {
    let (fabric, routing) = (&machine.fabric, &machine.routing);
    let (named, mut measured) = calibration::parameters(Some(network), fabric, routing)?;
    if PRESETS.contains(&&*named) {
        scenario.network = named;
        return Ok(scenario.check()?);
    }
    let own = std::mem::take(&mut scenario.parameters);
    if !own.is_empty() && !own.contains_key("calibration") {
        measured.calibration += "; changed in the scenario";
    }
    scenario.network = "plain".into();
    scenario.parameters = measured.table()?;
    for (key, value) in &own {
        merge(&mut scenario.parameters, key, value);
    }
    Ok(scenario.check()?)
}

/// Changes to a scenario: its level, factors of the operating point, and the placement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes<'a> {
    /// Level in place of the scenario's.
    pub level: Option<&'a str>,
    /// Factor on the bandwidth of links between routers.
    pub link: Option<f64>,
    /// Factor on the bandwidth between nodes and network.
    pub injection: Option<f64>,
    /// Factor on latencies.
    pub latency: Option<f64>,
    /// Factor on the message rate of nodes.
    pub message_rate: Option<f64>,
    /// Factor on the speed of processors.
    pub cpu: Option<f64>,
    /// Placement of the ranks: mapping.json or a launcher's file.
    pub placement: Option<&'a Path>,
    /// Rates and delays: a preset, or a file of measurements.
    pub network: Option<&'a str>,
}

impl Changes<'_> {
    /// Changes level and operating point.
    ///
    /// # Errors
    /// No such level, or a factor outside its range.
    pub fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        if let Some(level) = self.level {
            scenario.level = level_of(level)?;
        }
        let point = &mut scenario.point;
        for (factor, given) in [
            (&mut point.link, self.link),
            (&mut point.injection, self.injection),
            (&mut point.latency, self.latency),
            (&mut point.message_rate, self.message_rate),
            (&mut point.cpu, self.cpu),
        ] {
            *factor = given.unwrap_or(*factor);
        }
        Ok(scenario.check()?)
    }
}

/// The model's answer to a scenario in TOML or JSON; `name` is named in errors.
///
/// # Errors
/// The scenario or a file that it names cannot be read, or the model has no result.
pub fn outcome(name: &str, text: &str, changes: &Changes<'_>) -> Result<Outcome> {
    answer(Scenario::read(name, text)?, changes)
}

/// [`outcome`] of a file.
///
/// # Errors
/// As there.
pub fn outcome_of(path: &Path, changes: &Changes<'_>) -> Result<Outcome> {
    answer(read(path)?, changes)
}

fn answer(mut scenario: Scenario, changes: &Changes<'_>) -> Result<Outcome> {
    changes.apply(&mut scenario)?;
    let Asked { machine, inputs } = Asked::of(&scenario)?;
    if let Some(network) = changes.network {
        on_network(&mut scenario, &machine, network)?;
    }
    if let Some(path) = changes.placement {
        put(&mut scenario, &machine.fabric, path, &mut |_| ())?;
    }
    let question = Question::new(&scenario, &machine.fabric, &machine.routing, &inputs)?;
    Ok(question.answer()?)
}

/// A level of the model by name.
///
/// # Errors
/// There is no such level.
pub fn level_of(name: &str) -> Result<Level> {
    Ok(match name {
        "static" => Level::Static,
        "fluid" => Level::Fluid,
        "stalls" => Level::Stalls,
        "packet" => Level::Packet,
        _ => refuse!("no level '{name}': expected static, fluid, stalls or packet"),
    })
}

/// Reads a scenario; checks follow after the options have changed it.
///
/// # Errors
/// The file is not a scenario.
pub fn read(path: &Path) -> Result<Scenario> {
    let text = Text::read(path, Limits::TEXT)?;
    Ok(Scenario::read(
        &path.display().to_string(),
        &lossy(text.bytes()),
    )?)
}

/// Reads a scenario's machine.
///
/// # Errors
/// See [`MachineSource::read`].
pub fn machine_of(scenario: &Scenario) -> Result<Machine> {
    let source = MachineSource {
        fabric: scenario.fabric.clone(),
        down: scenario.down.clone(),
        routing: scenario.routing.clone(),
        ..MachineSource::default()
    };
    source.read()
}

/// Reads the traffic and traces of a scenario's workloads.
///
/// # Errors
/// A file cannot be read.
fn inputs_of(scenario: &Scenario, notes: &mut Vec<String>) -> Result<Inputs> {
    let mut input = |workload: &Workload| -> Result<Option<Input>> {
        Ok(match workload {
            Workload::Recorded(recorded) => Some(Input::Traffic(read_traffic(&recorded.traffic)?)),
            Workload::Trace(trace) => {
                let (calls, missing) = read_noted(&trace.file)?;
                notes.extend(missing.iter().map(|note| format!("{}: {note}", trace.file)));
                Some(Input::Trace(calls))
            }
            _ => None,
        })
    };
    let job = input(&scenario.job.workload)?;
    let background = scenario.background.iter().map(|job| input(&job.workload));
    Ok(Inputs {
        job,
        background: background.collect::<Result<_>>()?,
    })
}
