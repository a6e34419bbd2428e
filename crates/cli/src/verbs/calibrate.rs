//! `hopbyte calibrate -o FILE -- LAUNCHER …`: rates and delays for predictions.

use super::record::flavour;
use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_job::calibrate::Measured;
use hopbyte_job::record::launch::Flavour;
use hopbyte_view::terminal::calibration_text;
use std::ffi::OsString;
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
    /// Time limit of each probe
    #[arg(long, default_value_t = 600.0, value_name = "SECONDS")]
    deadline: f64,
    /// The launcher's MPI, if it cannot be detected
    #[arg(long, value_parser = flavour(), value_name = "MPI")]
    flavour: Option<Flavour>,
    /// Folder of the probes, with ompi, mpich, abi (default: installed, or build/probes)
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// The launcher with its options, such as mpirun -np 16 --map-by node: a rank on each node, or two on one
    #[arg(last = true, required = true, value_name = "LAUNCHER")]
    launcher: Vec<OsString>,
}

/// Measures.
pub fn run(args: &CalibrateArgs, out: &mut Output) -> Result<Answer> {
    let measured = Measured {
        launcher: args.launcher.clone(),
        flavour: args.flavour,
        programs: args.programs.clone(),
        output: args.output.clone(),
        append: args.append,
        deadline: args.deadline,
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
