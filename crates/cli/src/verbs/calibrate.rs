//! `hopbyte calibrate -o FILE -- LAUNCHER …`: rates and delays for predictions.

use super::probe::ProbeArgs;
use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_job::calibrate::Measured;
use hopbyte_view::terminal::calibration_text;
use std::path::PathBuf;

/// The launcher and the file.
#[derive(clap::Args, Debug)]
pub struct CalibrateArgs {
    /// File for the lines of the probes, for `predict --network` and `map --network`
    #[arg(short, long, value_name = "FILE", default_value = "machine.jsonl")]
    output: PathBuf,
    /// Add to the file, as for two ranks of one node after two nodes
    #[arg(long)]
    append: bool,
    #[command(flatten)]
    probe: ProbeArgs,
}

/// Measures.
pub fn run(args: &CalibrateArgs, out: &mut Output) -> Result<Answer> {
    let measured = Measured {
        probe: args.probe.probe(),
        output: args.output.clone(),
        append: args.append,
    };
    let results = measured.run(&mut |text| out.talk(text))?;
    out.talk(format!("wrote {}", args.output.display()));
    if out.json {
        for result in &results {
            out.object(result)?;
        }
    } else {
        out.text(&calibration_text(&results, out.colour()))?;
    }
    Ok(Answer::Yes)
}
