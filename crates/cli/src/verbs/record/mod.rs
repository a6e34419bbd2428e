//! `hopbyte record -- mpirun …`: traffic between ranks, and their placement.

use crate::args::{JobCommand, one_of};
use crate::interrupt;
use crate::output::{Answer, Output, Table, count};
use anyhow::{Result, bail};
use clap::builder::TypedValueParser;
use hopbyte_fabric::collective::Algorithms;
use hopbyte_fabric::units::bytes_text;
use hopbyte_job::record::launch::{Flavour, Job};
use hopbyte_job::record::merge::{self, Merged, Ranks};
use std::path::PathBuf;
use std::time::Duration;

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
    let deadline = match args.deadline {
        Some(s) if s > 0.0 && s <= 1e8 => Some(Duration::from_secs_f64(s)),
        Some(s) => bail!("--deadline: found {s}, expected seconds above 0"),
        None => None,
    };
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
    if let Some(absent) = ranks.absent() {
        out.talk(format!("{ended}; {absent}; no traffic was written"));
        return Ok(Answer::No);
    }
    let record = Merged::write(&job, &ranks, &args.out, rules)?;
    write(&record, out)?;
    for problem in &record.trace_notes {
        out.talk(problem);
    }
    let traced = !args.trace || (record.traced && record.trace_notes.is_empty());
    if !traced && !record.traced {
        out.talk("no trace was written".to_owned());
    }
    if !(record.complete && traced && ended.is_success()) {
        out.talk(ended.to_string());
        return Ok(Answer::No);
    }
    Ok(Answer::Yes)
}

fn write(record: &Merged, out: &mut Output) -> Result<()> {
    if out.json {
        return Ok(out.object(record)?);
    }
    out.line(format!(
        "# {} ranks on {} host{}: {} pairs sent {} in {} messages",
        count(record.ranks),
        count(record.hosts),
        if record.hosts == 1 { "" } else { "s" },
        count(record.pairs),
        bytes_text(record.bytes),
        count(record.messages as usize)
    ))?;
    let mut table = Table::new(&["<phase", "pairs", "bytes", "messages"]);
    for phase in &record.phases {
        table.row([
            phase.name.clone(),
            count(phase.pairs),
            count(phase.bytes as usize),
            count(phase.messages as usize),
        ]);
    }
    out.table(&table)?;
    write_times(record, out)?;
    for note in &record.notes {
        out.line(format!("# {note}"))?;
    }
    out.line(format!(
        "\nhopbyte map {} --current {} --fabric …",
        record.traffic.display(),
        record.placement.display()
    ))?;
    if record.traced {
        let folder = record.traffic.parent().unwrap_or(&record.traffic);
        out.line(format!(
            "hopbyte predict {} --fabric … --placement …",
            folder.display()
        ))?;
    }
    Ok(())
}

/// Functions listed by their time.
const LISTED: usize = 6;

fn write_times(record: &Merged, out: &mut Output) -> Result<()> {
    let Some(times) = &record.times else {
        return Ok(());
    };
    out.line(format!(
        "# {:.3} s; a rank computes {:.3} s and spends {:.3} s in MPI (mean; {:.3} to {:.3})",
        times.seconds,
        times.seconds - times.mpi_seconds,
        times.mpi_seconds,
        times.least_mpi_seconds,
        times.most_mpi_seconds
    ))?;
    let mut table = Table::new(&["<call", "calls", "s a rank", "% of MPI"]);
    for call in times.calls.iter().take(LISTED) {
        table.row([
            call.name.clone(),
            count(call.calls as usize),
            format!("{:.3}", call.seconds),
            format!("{:.0}", 100.0 * call.seconds / times.mpi_seconds.max(1e-12)),
        ]);
    }
    out.table(&table)?;
    Ok(())
}
