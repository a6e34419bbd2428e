//! Measures a machine with `hopbyte-probe`, for the rates and delays of predictions ([`crate::calibration`]).

use crate::calibration::PROBE;
use crate::error::{Context, Result};
use crate::probe::measure::Probe;
use hopbyte_apply::write_atomic;
use hopbyte_observe::unix;
use serde_json::Value;
use std::path::PathBuf;
use std::time::SystemTime;

/// Measurements under one launcher.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The probe's launch.
    pub probe: Probe,
    /// File for the lines of the probes.
    pub output: PathBuf,
    /// Whether lines in the file are kept.
    pub append: bool,
}

impl Measured {
    /// Runs the probe, writes its lines after one with the time, and returns those with results; `say` takes remarks.
    ///
    /// # Errors
    /// No launcher or probe, or it fails or exceeds its time limit; the file is then as before.
    pub fn run(&self, say: &mut dyn FnMut(String)) -> Result<Vec<Value>> {
        let seconds = unix(SystemTime::now()) as u64;
        let mut lines = match self.append {
            true => std::fs::read(&self.output)
                .with_context(|| format!("reading {}", self.output.display()))?,
            false => Vec::new(),
        };
        if lines.last().is_some_and(|&last| last != b'\n') {
            lines.push(b'\n');
        }
        let time = serde_json::json!({"schema": PROBE, "time_seconds": seconds});
        lines.extend(format!("{time}\n").into_bytes());
        let (mut command, program) = self.probe.command("hopbyte-probe")?;
        command.args(["calibrate", "--json"]);
        say(format!("measuring with {}", program.display()));
        let printed = self.probe.run("calibrate", &mut command, &self.output)?;
        let read = serde_json::Deserializer::from_slice(&printed).into_iter::<Value>();
        let results = read
            .filter_map(|l| l.ok().filter(|l| l["probe"].is_string()))
            .collect();
        lines.extend(printed);
        write_atomic(&self.output, &lines)?;
        Ok(results)
    }
}
