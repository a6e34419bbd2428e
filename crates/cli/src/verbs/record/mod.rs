//! `hopbyte record -- mpirun …`: traffic between ranks, and their placement.

use crate::args::{JobCommand, one_of};
use crate::interrupt;
use crate::output::{Answer, Output};
use anyhow::Result;
use clap::builder::TypedValueParser;
use hopbyte_fabric::collective::Algorithms;
use hopbyte_job::record::child::limit;
use hopbyte_job::record::launch::{Flavour, Job};
use hopbyte_job::record::merge::{self, Merged, Ranks};
use hopbyte_view::terminal::record_text;
use std::path::PathBuf;

/// The job, and the folder of its record.
#[derive(clap::Args, Debug)]
pub struct RecordArgs {
    /// Folder for the record: a file from every rank, traffic.csv and placement.csv. On several nodes it must be
    /// shared
    #[arg(short, long, value_name = "FOLDER", default_value = "hopbyte-record")]
    out: PathBuf,
    /// Time limit of the job
    #[arg(long, value_name = "SECONDS")]
    deadline: Option<f64>,
    /// The program's MPI, if it cannot be detected
    #[arg(long, value_parser = flavour(), value_name = "MPI")]
    flavour: Option<Flavour>,
    /// Folder of the preload libraries (default: installed beside hopbyte, or build/mpi)
    #[arg(long, value_name = "FOLDER")]
    libraries: Option<PathBuf>,
    /// Algorithms that expand collective calls in traffic.csv: openmpi, mpich, COLLECTIVE=ALGORITHM, or
    /// a comma list of these (default: as the job's MPI decides)
    #[arg(long, value_name = "RULES")]
    collectives: Option<String>,
    /// Record the calls of each rank in order too, loops folded
    #[arg(long)]
    trace: bool,
    /// The job.
    #[command(flatten)]
    job: JobCommand,
}

/// Flavours of MPI as values of an option.
pub fn flavour() -> impl TypedValueParser<Value = Flavour> {
    one_of(&Flavour::ALL.map(|f| (f.name(), f.words())))
}

/// Runs the job and merges its record.
pub fn run(args: &RecordArgs, out: &mut Output) -> Result<Answer> {
    let deadline = args.deadline.map(|s| limit(s, 1e8)).transpose()?;
    let mut job = Job::understand(&args.job.command, args.flavour, args.libraries.as_deref())?;
    job.trace = args.trace;
    let rules = args.collectives.as_deref();
    rules.map(Algorithms::parse).transpose()?;
    let folder = merge::new_folder(&args.out)?;
    out.talk(format!("recording with {}", job.library.display()));
    let ended = job.run(&folder, deadline, interrupt::terminated())?;
    for problem in merge::settle(&folder)? {
        out.talk(problem);
    }
    let ranks = Ranks::read(&folder)?;
    if let Some(reason) = ranks.unusable() {
        out.talk(format!("{ended}; {reason}; no traffic was written"));
        return Ok(Answer::No);
    }
    let record = Merged::write(&job, &ranks, &args.out, rules)?;
    out.answer(&record, record_text)?;
    for problem in &record.trace_notes {
        out.talk(problem);
    }
    if args.trace && !record.traced && record.trace_notes.is_empty() {
        out.talk(
            "no trace was written: a rank writes it when it ends by itself, and at its first MPI call after every two seconds",
        );
    }
    if !(record.complete && record.traced == args.trace && ended.is_success()) {
        out.talk(ended.to_string());
        return Ok(Answer::No);
    }
    Ok(Answer::Yes)
}
