//! Measures a machine with `hopbyte-probe`, for the rates and delays of predictions ([`crate::calibration`]).

use crate::calibration::PROBE;
use crate::error::{Context, Result};
use crate::follow::unix;
use crate::probe::measure::Probe;
use crate::record::launch::Flavour;
use hopbyte_apply::write_atomic;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::SystemTime;

/// The measurements: between rank 0 and the first of the second half, and by all ranks together.
const PROBES: [(&str, &str); 4] = [
    ("latency", "--bytes 8 --pairs 1"),
    ("rate", "--bytes 8 --pairs 1 --pattern single"),
    ("bandwidth", "--bytes 1MiB --pairs 1 --window 8"),
    ("allreduce", "--bytes 8"),
];

/// Measurements under one launcher.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The launcher with its options, without a program.
    pub launcher: Vec<OsString>,
    /// The launcher's MPI, if it cannot be detected.
    pub flavour: Option<Flavour>,
    /// Folder of the probes; default: installed, or build/probes.
    pub programs: Option<PathBuf>,
    /// File for the lines of the probes.
    pub output: PathBuf,
    /// Whether lines in the file are kept.
    pub append: bool,
    /// Time limit of each probe in seconds.
    pub deadline: f64,
}

impl Measured {
    /// Runs all probes, writes their lines after one with the time, and returns those with results; `say` takes remarks.
    ///
    /// # Errors
    /// No launcher or probe, or one that fails or exceeds its time limit; the file is then as before.
    pub fn run(&self, say: &mut dyn FnMut(String)) -> Result<Vec<Value>> {
        let probe = Probe {
            launcher: &self.launcher,
            flavour: self.flavour,
            programs: self.programs.as_deref(),
            deadline: self.deadline,
        };
        let seconds = unix(SystemTime::now()) as u64;
        let mut lines = match self.append {
            true => std::fs::read(&self.output)
                .with_context(|| format!("reading {}", self.output.display()))?,
            false => Vec::new(),
        };
        let mut results = Vec::new();
        let time = serde_json::json!({"schema": PROBE, "time_seconds": seconds});
        lines.extend(format!("{time}\n").into_bytes());
        for (name, options) in PROBES {
            let (mut command, program) = probe.command("hopbyte-probe")?;
            command.arg(name).args(options.split(' ')).arg("--json");
            say(format!("measuring {name} with {}", program.display()));
            let printed = probe.run(name, &mut command, &self.output)?;
            let read = serde_json::Deserializer::from_slice(&printed).into_iter::<Value>();
            results.extend(read.filter_map(|l| l.ok().filter(|l| l["probe"].is_string())));
            lines.extend(printed);
        }
        write_atomic(&self.output, &lines)?;
        Ok(results)
    }
}
