//! `hopbyte record -- mpirun …`: who sends how much to whom, and where every rank ran.

use super::Answer;
use crate::args::one_of;
use crate::output::{Output, Table, count};
use anyhow::{Context, Result, bail};
use clap::builder::TypedValueParser;
use hopbyte_apply::write_atomic;
use hopbyte_fabric::units::bytes_text;
use hopbyte_job::record::launch::{Flavour, Job};
use hopbyte_job::record::merge::{self, Ranks};
use hopbyte_observe::read_traffic;
use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The job, and where its record goes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Folder for the record: a file from every rank, traffic.csv and placement.csv. On several nodes one
    /// that all of them see
    #[arg(short, long, value_name = "FOLDER", default_value = "hopbyte-record")]
    out: PathBuf,
    /// End the job after so long
    #[arg(long, value_name = "SECONDS")]
    deadline: Option<f64>,
    /// The program's MPI, where neither it nor the launcher tells
    #[arg(long, value_parser = flavour(), value_name = "MPI")]
    flavour: Option<Flavour>,
    /// Where the preload libraries are (default: installed beside hopbyte, or build/recorder)
    #[arg(long, value_name = "FOLDER")]
    libraries: Option<PathBuf>,
    /// The command, behind `--`
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// What came of it.
#[derive(Serialize)]
struct Record {
    schema: &'static str,
    flavour: &'static str,
    ranks: usize,
    hosts: usize,
    pairs: usize,
    bytes: f64,
    messages: u64,
    phases: Vec<PhaseRow>,
    traffic: PathBuf,
    placement: PathBuf,
}

#[derive(Serialize)]
struct PhaseRow {
    name: String,
    pairs: usize,
    bytes: f64,
    messages: u64,
}

/// Flavours of MPI as values of an option.
pub fn flavour() -> impl TypedValueParser<Value = Flavour> {
    one_of(&Flavour::ALL.map(|f| (f.name(), f.words())))
}

/// Runs the job and merges its record.
pub fn run(args: &Args, out: &mut Output) -> Result<Answer> {
    let deadline = match args.deadline {
        Some(s) if s > 0.0 && s <= 1e8 => Some(Duration::from_secs_f64(s)),
        Some(s) => bail!("--deadline: found {s}, expected seconds above 0"),
        None => None,
    };
    let job = Job::understand(&args.command, args.flavour, args.libraries.as_deref())?;
    let folder = new_folder(&args.out)?;
    out.talk(format!("recording with {}", job.library.display()));
    let status = job.run(&folder, deadline)?;
    let ranks = Ranks::read(&folder)?;
    let Some(status) = status else {
        out.talk(format!(
            "the job was ended at the deadline of {} s; its record is not whole",
            args.deadline.unwrap_or(0.0)
        ));
        return Ok(Answer::No);
    };
    if ranks.is_empty() {
        out.talk(format!(
            "the job ended ({status}) and no rank left a record in {}",
            folder.display()
        ));
        return Ok(Answer::No);
    }
    if let Some(problem) = ranks.problem() {
        out.talk(format!(
            "the job ended ({status}); {problem}; no traffic was written"
        ));
        return Ok(Answer::No);
    }
    let record = merge(&job, &ranks, &args.out)?;
    record.write(out)?;
    if status.success() {
        return Ok(Answer::Yes);
    }
    out.talk(format!("the job itself failed ({status})"));
    Ok(Answer::No)
}

/// The folder, made if it is not there, as ranks need it: absolute, and without another job's record.
fn new_folder(path: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
    let folder = path
        .canonicalize()
        .with_context(|| format!("finding {}", path.display()))?;
    if !merge::files(&folder)?.is_empty() {
        bail!(
            "{} has the record of another job\nhint: remove it, or choose another folder with --out",
            path.display()
        );
    }
    Ok(folder)
}

/// Writes `traffic.csv` and `placement.csv`.
fn merge(job: &Job, ranks: &Ranks, folder: &Path) -> Result<Record> {
    let traffic = read_traffic(&folder.display().to_string())?;
    let paths = (folder.join("traffic.csv"), folder.join("placement.csv"));
    write_atomic(&paths.0, &merge::csv(&traffic))?;
    write_atomic(&paths.1, &ranks.placement_csv())?;
    let total = traffic.total();
    let messages =
        |exchange: &hopbyte_fabric::Exchange| exchange.iter().map(|(_, m)| m.messages).sum();
    Ok(Record {
        schema: "hopbyte.record/1",
        flavour: job.flavour.name(),
        ranks: traffic.tasks,
        hosts: ranks.hosts(),
        pairs: total.pairs(),
        bytes: total.total_bytes(),
        messages: messages(&total),
        phases: traffic
            .phases
            .iter()
            .map(|p| PhaseRow {
                name: p.name.clone(),
                pairs: p.exchange.pairs(),
                bytes: p.exchange.total_bytes(),
                messages: messages(&p.exchange),
            })
            .collect(),
        traffic: paths.0,
        placement: paths.1,
    })
}

impl Record {
    fn write(&self, out: &mut Output) -> Result<()> {
        if out.json {
            return Ok(out.object(self)?);
        }
        out.line(format!(
            "# {} ranks on {} host{}: {} pairs sent {} in {} messages",
            count(self.ranks),
            count(self.hosts),
            if self.hosts == 1 { "" } else { "s" },
            count(self.pairs),
            bytes_text(self.bytes),
            count(self.messages as usize)
        ))?;
        let mut table = Table::new(&["<phase", "pairs", "bytes", "messages"]);
        for phase in &self.phases {
            table.row([
                phase.name.clone(),
                count(phase.pairs),
                count(phase.bytes as usize),
                count(phase.messages as usize),
            ]);
        }
        out.table(&table)?;
        out.line(format!(
            "\nhopbyte map {} --current {} --fabric …",
            self.traffic.display(),
            self.placement.display()
        ))?;
        Ok(())
    }
}
