//! `hopbyte predict`: run time of a recorded job by placement.

use crate::args::{CounterArgs, FabricOption};
use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_job::inputs;
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
    /// Rates and delays beyond the links: plain (default), ethernet, gemini, seastar, infiniband, a TOML file of them, or
    /// results of hopbyte calibrate
    #[arg(long, value_name = "NAME|FILE")]
    network: Option<String>,
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
    /// Counters of the links under other jobs' traffic (may be given several times)
    #[arg(long, value_name = "FILE")]
    background: Vec<PathBuf>,
    /// Record of a later run, which is kept beside the trace: its error becomes the interval (may be given several times)
    #[arg(long, value_name = "RECORD")]
    measured: Vec<PathBuf>,
    /// Properties of the counters that their files lack.
    #[command(flatten)]
    about: CounterArgs,
}

/// Predicts; exit code 1 if the trace lacks calls.
pub fn run(args: &PredictArgs, out: &mut Output) -> Result<Answer> {
    let machine = args.machine.read(out)?;
    let background = inputs::background(&args.background, &machine.fabric, &args.about.options())?;
    let prediction = predict(&Ask {
        trace: &args.trace,
        machine: &machine,
        network: args.network.as_deref(),
        placements: &args.placement,
        nodes: args.nodes.as_deref(),
        ranks_per_node: args.ranks_per_node,
        seed: args.seed,
        collectives: args.collectives.as_deref(),
        operations_per_s: args.operations_per_second,
        given: Vec::new(),
        background: background.as_ref(),
        measured: &args.measured,
    })?;
    prediction.notes.iter().for_each(|note| out.talk(note));
    out.answer(&prediction, predict_text)?;
    Ok(Answer::of(prediction.complete))
}
