//! Results of a sweep as a table, as JSON and as a picture.

use crate::output::{Output, TIMES, Table, scale};
use anyhow::Result;
use hopbyte_model::Scenario;
use hopbyte_model::sweep::{Estimate, Sensitivity};
use serde::Serialize;

/// The answer.
pub struct Sweep<'a> {
    pub scenarios: &'a [Scenario],
    pub trials: u32,
    pub found: &'a [Sensitivity],
}

#[derive(Serialize)]
struct SensitivityRow<'a> {
    schema: &'static str,
    name: &'a str,
    #[serde(flatten)]
    sensitivity: &'a Sensitivity,
    trials: u32,
}

impl Sweep<'_> {
    fn name(&self, s: &Sensitivity) -> &str {
        &self.scenarios[s.scenario].name
    }

    /// Text or JSON.
    pub fn write(&self, out: &mut Output) -> Result<()> {
        if out.json {
            for sensitivity in self.found {
                out.object(&SensitivityRow {
                    schema: "hopbyte.sensitivity/1",
                    name: self.name(sensitivity),
                    sensitivity,
                    trials: self.trials,
                })?;
            }
            return Ok(());
        }
        let of = match self.trials {
            1 => "one trial of each point: no intervals".to_owned(),
            n => format!("{n} trials of each point, intervals of 95 %"),
        };
        out.line(format!("# {of}"))?;
        let all = self.found.iter().flat_map(|s| &s.factors);
        let longest = all.map(|f| f.seconds.mean).fold(0.0, f64::max);
        let (unit, second) = scale(longest, &TIMES);
        let mut table = Table::new(&[
            "<scenario",
            "<axis",
            "factor",
            &format!("time {unit}"),
            "slower %",
            "<interval",
            "<held back most by",
        ]);
        for s in self.found {
            for at in &s.factors {
                table.row([
                    self.name(s).to_owned(),
                    s.axis.name().into(),
                    format!("{:.4}", at.factor)
                        .trim_end_matches('0')
                        .trim_end_matches('.')
                        .into(),
                    format!("{:.4}", at.seconds.mean / second),
                    format!("{:.1}", at.slower_percent.mean),
                    interval(&at.slower_percent, 1),
                    at.binds.clone(),
                ]);
            }
        }
        out.table(&table)?;
        out.line("")?;
        out.line("slope: relative growth of the run time over that of the times the axis scales; 0: no effect, 1: proportional")?;
        for s in self.found {
            out.line(format!("{}: {}", self.name(s), sentence(s)))?;
        }
        Ok(())
    }
}

fn interval(e: &Estimate, digits: usize) -> String {
    match (e.low, e.high) {
        (Some(low), Some(high)) => format!("{low:.digits$} to {high:.digits$}"),
        _ => "-".into(),
    }
}

fn sentence(s: &Sensitivity) -> String {
    let between = match (s.slope.low, s.slope.high) {
        (Some(low), Some(high)) => format!(" ({low:.2} to {high:.2})"),
        _ => String::new(),
    };
    let slope = s.slope.mean;
    let name = s.axis.name();
    format!("{slope:.2}{between} on {name}")
}
