//! `hopbyte run -- mpirun …`: launches a job with the rank order that its earlier runs have shown to pay.

use crate::args::{FabricOptions, JobCommand};
use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_job::record::child::limit;
use hopbyte_job::run::{Preparation, launch_on_panic, not_started, prepare};
use hopbyte_serve::source::read_collector;

/// The job, and the machine that it runs on.
#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// The machine: a file or a spec (default: that of hopbyte.toml or HOPBYTE_FABRIC, or Slurm's topology)
    #[arg(long, value_name = "FABRIC", help_heading = "Machine")]
    fabric: Option<String>,
    /// Further inputs of the machine.
    #[command(flatten)]
    beside: FabricOptions,
    /// Time limit of the preparation; then the command is launched unchanged
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    deadline: f64,
    /// Print the command that would be launched
    #[arg(long)]
    dry_run: bool,
    /// The job.
    #[command(flatten)]
    job: JobCommand,
}

/// Becomes the job.
pub fn run(args: &RunArgs, out: &mut Output) -> Result<Answer> {
    let deadline = limit(args.deadline, 3600.0)?;
    if !args.dry_run {
        launch_on_panic(&args.job.command, |reason| eprintln!("hopbyte: {reason}"));
    }
    let fabric = args.fabric.as_ref();
    let preparation = Preparation {
        machine: fabric.map(|fabric| args.beside.source(fabric)),
        deadline,
        is_dry: args.dry_run,
        read_collector,
    };
    let launch = prepare(&args.job.command, &preparation);
    launch.remarks.iter().for_each(|remark| out.talk(remark));
    if args.dry_run {
        out.answer(&launch.described(), |_, _| format!("{}\n", launch.line()))?;
        return Ok(Answer::Yes);
    }
    out.flush()?;
    let error = launch.replace();
    out.warn(not_started(&args.job.command[0], &error));
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    std::process::exit(if missing { 127 } else { 126 })
}
