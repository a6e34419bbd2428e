//! `hopbyte demo --lab`: paper 003 on an emulated cluster.

use crate::output::{Answer, Output, Table};
use anyhow::Result;
use hopbyte_job::statistics::median;
use hopbyte_lab::experiment::{self, LabRecord, Method, Settings};
use std::path::{Path, PathBuf};

/// Settings of the cluster and the measurement.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Emulated cluster")]
pub struct LabArgs {
    /// The emulated machine; the application gets a random half of its nodes
    #[arg(long, default_value = "torus:2x2x8", value_name = "FABRIC")]
    machine: String,
    /// Rate of its links
    #[arg(long, default_value = "10mbit", value_name = "RATE")]
    rate: String,
    /// Blocks of the application's matrix along X, Y, Z: one per rank, equally many on every node
    #[arg(long, default_value = "4,2,2", value_name = "A,B,C")]
    grid: String,
    /// Matrix rows per block, which is the size of the exchange, 8 bytes each
    #[arg(long, default_value_t = 2500, value_name = "N")]
    unknowns: u32,
    /// Continuous streams of datagrams between other nodes
    #[arg(long, default_value_t = 4, value_name = "N")]
    competing: usize,
    /// Share of its sender's link that a stream uses
    #[arg(long, default_value_t = 0.75, value_name = "SHARE")]
    competing_share: f64,
    /// Trials, each with other streams
    #[arg(long = "lab-trials", default_value_t = 10, value_name = "N")]
    trials: usize,
    /// Number of the first trial: to continue an experiment of ten trials, 11
    #[arg(long = "lab-first", default_value_t = 1, value_name = "N")]
    first: u64,
    /// Time after which no trial begins, in seconds
    #[arg(long, default_value_t = 900.0, value_name = "SECONDS")]
    budget: f64,
    /// Folder of the probes, with `ompi` in it (default: installed, or build/probes)
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Folder of the preload libraries (default: installed, or build/mpi)
    #[arg(long, value_name = "FOLDER")]
    libraries: Option<PathBuf>,
}

impl LabArgs {
    fn settings(&self) -> Settings {
        Settings {
            machine: self.machine.clone(),
            rate: self.rate.clone(),
            grid: self.grid.clone(),
            unknowns: self.unknowns,
            competing: self.competing,
            competing_share: self.competing_share,
            trials: self.trials,
            first: self.first,
            budget: self.budget,
            programs: self.programs.clone(),
            libraries: self.libraries.clone(),
        }
    }
}

/// Runs the experiment. Exit code 1 if neither credit stalls nor our objective recovered half of the lost
/// time and more than hops did.
pub fn run(args: &LabArgs, folder: &Path, seed: u64, out: &mut Output) -> Result<Answer> {
    let record = experiment::run(&args.settings(), folder, seed, &mut |text| out.talk(text))?;
    if out.json {
        out.object(&record)?;
    } else {
        write(&record, out)?;
    }
    Ok(Answer::of(record.holds()))
}

/// The result of the experiment in text.
fn write(record: &LabRecord, out: &mut Output) -> Result<()> {
    out.line(format!(
        "# {} ranks on {} nodes of {} at {} Mbit/s; {} trials, {} of them with a loss; medians",
        record.ranks,
        record.nodes.len(),
        record.machine,
        record.rate_bits_per_s / 1e6,
        record.trials.len(),
        record.losses()
    ))?;
    let ms = |s: f64| format!("{:.1}", 1e3 * s);
    let mut table = Table::new(&["<product", "ms", "recovered %", "interval", "confidence %"]);
    table.row(["without congestion".into(), ms(record.alone_seconds)]);
    table.row([
        Method::None.words().into(),
        ms(record.congested_seconds),
        "0".into(),
    ]);
    for f in &record.figures {
        table.row([
            f.method.words().into(),
            ms(f.product_seconds),
            format!("{:.0}", 100.0 * f.recovered_ratio),
            format!("{:.0} to {:.0}", 100.0 * f.low, 100.0 * f.high),
            format!("{:.1}", 100.0 * f.confidence),
        ]);
    }
    out.table(&table)?;
    let remaps = record.trials.iter().flat_map(|t| &t.remaps);
    let (mapping, moving): (Vec<f64>, Vec<f64>) = remaps
        .map(|r| (r.mapping_seconds, r.moving_seconds))
        .unzip();
    out.line(format!(
        "\na map took {} ms to find and {} ms to carry out over the shaped links; results {}",
        ms(median(&mapping)),
        ms(median(&moving)),
        if record.verified { "verified" } else { "WRONG" }
    ))?;
    Ok(())
}
