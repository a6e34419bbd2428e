//! `hopbyte model run SCENARIO`.

use crate::output::{Answer, Output, count};
use anyhow::Result;
use hopbyte_apply::write_atomic;
use hopbyte_job::links;
use hopbyte_job::scenario::{Asked, Changes, on_network, put, read};
use hopbyte_model::{Level, Outcome, Question, Scenario};
use hopbyte_view::terminal::{level_name, model_text};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Scenario, changes and outputs.
#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// Scenario: a TOML or JSON file
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Level in place of the scenario's: static, fluid, stalls, packet
    #[arg(long, value_name = "LEVEL")]
    level: Option<String>,
    /// Factor on the bandwidth of links between routers, in place of the scenario's
    #[arg(long, value_name = "FACTOR", help_heading = "Operating point")]
    link: Option<f64>,
    /// Factor on the bandwidth between nodes and network
    #[arg(long, value_name = "FACTOR", help_heading = "Operating point")]
    injection: Option<f64>,
    /// Factor on latencies
    #[arg(long, value_name = "FACTOR", help_heading = "Operating point")]
    latency: Option<f64>,
    /// Factor on the message rate of nodes
    #[arg(long, value_name = "FACTOR", help_heading = "Operating point")]
    message_rate: Option<f64>,
    /// Factor on the speed of processors
    #[arg(long, value_name = "FACTOR", help_heading = "Operating point")]
    cpu: Option<f64>,
    /// Placement of the ranks in place of the scenario's: mapping.json or a launcher's file
    #[arg(long, value_name = "FILE")]
    placement: Option<PathBuf>,
    /// Rates and delays in place of the scenario's: a preset, a TOML file of parameters, or the file of `hopbyte calibrate`
    #[arg(long, value_name = "NAME|FILE")]
    network: Option<String>,
    /// Write the counters of the simulated machine in the form of `hopbyte links --json`
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// Write the counters of every simulated Gemini tile, by GPCD's names (level packet), in a form that
    /// `hopbyte links` reads
    #[arg(long, value_name = "FILE")]
    registers: Option<PathBuf>,
    /// Links to list in the text; 0 for all (JSON lists all with load)
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// The answer with its computing effort.
#[derive(Serialize)]
struct ModelRecord {
    #[serde(flatten)]
    outcome: Outcome,
    solver_seconds: f64,
}

/// Runs the model.
pub fn run(args: &RunArgs, out: &mut Output) -> Result<Answer> {
    let mut scenario = args.scenario()?;
    let Asked { machine, inputs } = Asked::of(&scenario)?;
    machine.notes.iter().for_each(|note| out.talk(note));
    if let Some(network) = &args.network {
        on_network(&mut scenario, &machine, network)?;
    }
    if let Some(path) = &args.placement {
        put(&mut scenario, &machine.fabric, path, &mut |n| out.talk(n))?;
    }
    let question = Question::new(&scenario, &machine.fabric, &machine.routing, &inputs)?;
    let start = Instant::now();
    let outcome = question.answer()?;
    let solver_seconds = start.elapsed().as_secs_f64();
    if let Some(path) = &args.counters {
        let counters = outcome.snapshot(&machine.fabric);
        write_atomic(path, &links::lines(&machine.fabric, &counters)?)?;
        out.talk(format!("counters are in {}", path.display()));
    }
    if let Some(path) = &args.registers {
        write_atomic(path, &outcome.registers(&machine.fabric))?;
        out.talk(format!("registers are in {}", path.display()));
    }
    let record = ModelRecord {
        outcome,
        solver_seconds,
    };
    if out.json {
        out.object(&record)?;
    } else {
        let (text, more) = model_text(&record.outcome, args.top, out.colour());
        out.text(&text)?;
        if more > 0 {
            out.talk(format!("{} more links; --top 0 lists all", count(more)));
        }
    }
    Ok(Answer::Yes)
}

impl RunArgs {
    /// The scenario with the changes of the command line.
    fn scenario(&self) -> Result<Scenario> {
        let mut scenario = read(&self.scenario)?;
        let changes = Changes {
            level: self.level.as_deref(),
            link: self.link,
            injection: self.injection,
            latency: self.latency,
            message_rate: self.message_rate,
            cpu: self.cpu,
            placement: None,
            network: None,
        };
        changes.apply(&mut scenario)?;
        if self.registers.is_some()
            && (scenario.level, scenario.network.as_str()) != (Level::Packet, "gemini")
        {
            anyhow::bail!(
                "--registers: found {} of network {}, expected level packet of network gemini\nhint: --counters \
                 writes the load of links, at every level",
                level_name(scenario.level),
                scenario.network
            );
        }
        Ok(scenario)
    }
}
