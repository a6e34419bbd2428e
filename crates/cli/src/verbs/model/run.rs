//! `hopbyte model run SCENARIO`.

use crate::output::{Answer, Output, SIZES, TIMES, Table, count, scale};
use anyhow::Result;
use hopbyte_apply::write_atomic;
use hopbyte_job::links;
use hopbyte_job::scenario::{Asked, level_of, put, read};
use hopbyte_model::{Level, Outcome, Question, Scenario, ThrottleKind};
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
    if let Some(path) = &args.placement {
        put(&mut scenario, &machine.fabric, path)?;
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
        write(args, &record, out)?;
    }
    Ok(Answer::Yes)
}

impl RunArgs {
    /// The scenario with the changes of the command line.
    fn scenario(&self) -> Result<Scenario> {
        let mut scenario = read(&self.scenario)?;
        if let Some(level) = &self.level {
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
        scenario.check()?;
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

fn write(args: &RunArgs, record: &ModelRecord, out: &mut Output) -> Result<()> {
    let o = &record.outcome;
    let time = |seconds: f64| {
        let (unit, factor) = scale(seconds, &TIMES);
        format!("{:.3} {unit}", seconds / factor)
    };
    let (size, bytes) = scale(o.network_bytes, &SIZES);
    out.line(format!("# {} ({})", o.name, level_name(o.level)))?;
    out.line(format!("time   {}", time(o.time_seconds)))?;
    out.line(format!(
        "bound  {} ({} is the most loaded)",
        time(o.bound_seconds),
        o.bound_resource
    ))?;
    out.line(format!(
        "moved  {:.2} {size} between nodes in {} transfers",
        o.network_bytes / bytes,
        count(o.flows as usize)
    ))?;
    let shares: Vec<String> = o
        .held_back
        .iter()
        .map(|h| format!("{} {:.0} %", h.by, 100.0 * h.share))
        .collect();
    if !shares.is_empty() {
        out.line(format!("held back, by bytes: {}", shares.join(", ")))?;
    }
    for event in &o.throttled {
        let who = match event.kind {
            ThrottleKind::Active => "the controller",
            ThrottleKind::Auto => "a module without its controller",
        };
        out.line(format!(
            "throttled at {} by {who}: {} nodes, {}",
            time(event.seconds),
            event.nodes,
            event.router
        ))?;
    }
    out.line(format!("calibrated by: {}", o.calibration))?;
    let stalls = o.links.iter().any(|l| l.credit_stall_ratio.is_some());
    let mut header = vec!["<link", "<kind", "GB/s", "carried GB", "used %"];
    if stalls {
        header.extend(["input stall %", "credit stall %"]);
    }
    let mut table = Table::new(&header);
    let top = if args.top == 0 {
        o.links.len()
    } else {
        args.top
    };
    for link in o.links.iter().take(top) {
        let percent =
            |ratio: Option<f64>| ratio.map_or("-".into(), |r| format!("{:.1}", 100.0 * r));
        let mut cells = vec![
            link.link.clone(),
            link.kind.clone(),
            format!("{:.2}", link.capacity_bytes_per_s / 1e9),
            format!("{:.3}", link.bytes / 1e9),
            percent(Some(link.used_ratio)),
        ];
        if stalls {
            cells.extend([
                percent(link.input_stall_ratio),
                percent(link.credit_stall_ratio),
            ]);
        }
        table.row(cells);
    }
    out.table(&table)?;
    if o.links.len() > top {
        out.talk(format!(
            "{} more links; --top 0 lists all",
            count(o.links.len() - top)
        ));
    }
    Ok(())
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Static => "static bound",
        Level::Fluid => "flows",
        Level::Stalls => "flows with back-pressure",
        Level::Packet => "packets",
    }
}
