//! `hopbyte predict`: run time of a recorded job by placement.

use crate::args::{FabricOption, read_machine};
use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_job::predict::{Ask, predict};
use hopbyte_view::terminal::predict_text;
use std::path::PathBuf;

/// The job, the machine and the placements.
#[derive(clap::Args, Debug)]
pub struct PredictArgs {
    /// The job: a folder of `hopbyte record --trace`, or a trace
    #[arg(value_name = "TRACE")]
    trace: String,
    /// The machine.
    #[command(flatten)]
    machine: FabricOption,
    /// A placement: a mapping (mapping.json) or a launcher's file (may be given several times)
    #[arg(long, value_name = "FILE")]
    placement: Vec<PathBuf>,
    /// Rates and delays beyond the links: plain, gemini, seastar, infiniband, or a TOML file of them
    #[arg(long, value_name = "NAME|FILE", default_value = "plain")]
    network: String,
    /// Nodes of the placements in order and at random (default: those of the recorded run, or of the first file)
    #[arg(long, value_name = "LIST")]
    nodes: Option<String>,
    /// Ranks on each of these nodes
    #[arg(long, value_name = "N")]
    ranks_per_node: Option<u32>,
    /// Seed of the random placement
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Algorithms of collective calls (default: as the recorded MPI decides)
    #[arg(long, value_name = "RULES")]
    collectives: Option<String>,
    /// Speed of a processor, for traces that count computation in operations (SimGrid)
    #[arg(long, value_name = "N")]
    operations_per_second: Option<f64>,
}

/// Predicts; exit code 1 if the trace lacks calls.
pub fn run(args: &PredictArgs, out: &mut Output) -> Result<Answer> {
    let machine = read_machine(&args.machine.beside.source(&args.machine.fabric), out)?;
    let prediction = predict(&Ask {
        trace: &args.trace,
        machine: &machine,
        network: &args.network,
        placements: &args.placement,
        nodes: args.nodes.as_deref(),
        ranks_per_node: args.ranks_per_node,
        seed: args.seed,
        collectives: args.collectives.as_deref(),
        operations_per_s: args.operations_per_second,
    })?;
    prediction.notes.iter().for_each(|note| out.talk(note));
    match out.json {
        true => out.object(&prediction)?,
        false => out.text(&predict_text(&prediction, out.colour()))?,
    }
    Ok(match prediction.complete {
        true => Answer::Yes,
        false => Answer::No,
    })
}
