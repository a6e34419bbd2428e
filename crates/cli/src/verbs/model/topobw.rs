//! `hopbyte model topobw SCENARIO`: predicted TopoBW results (paper 002, III) on the scenario's machine.

use crate::output::{Answer, Output, Table};
use anyhow::Result;
use hopbyte_apply::write_atomic;
use hopbyte_job::probe::predicted::{TopobwRecord, mode};
use hopbyte_job::scenario::{Asked, read};
use hopbyte_model::Question;
use hopbyte_model::topobw::line;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Scenario and options.
#[derive(clap::Args, Debug)]
pub struct TopobwArgs {
    /// Scenario: a TOML or JSON file; only the nodes of its job are used
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Bytes that every pair sends
    #[arg(long, value_name = "BYTES", default_value_t = 64_000_000)]
    bytes: u64,
    /// One line per pair, in TopoBW's format
    #[arg(long)]
    pairs: bool,
    /// Write every pair in the probe's format, for `hopbyte probe analyse`
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the model.
pub fn run(args: &TopobwArgs, out: &mut Output) -> Result<Answer> {
    let scenario = read(&args.scenario)?;
    scenario.check()?;
    let Asked { machine, inputs } = Asked::of(&scenario)?;
    machine.notes.iter().for_each(|note| out.talk(note));
    let question = Question::new(&scenario, &machine.fabric, &machine.routing, &inputs)?;
    let phases = question.topobw(args.bytes as f64)?;
    let fabric = &machine.fabric;
    let records = || {
        let named = phases.iter().enumerate();
        named.flat_map(|(i, (name, pairs))| {
            let of = move |m| TopobwRecord::of(fabric, (i, name), m, args.bytes);
            pairs.iter().map(of)
        })
    };
    if let Some(path) = &args.out {
        let mut lines = String::new();
        for record in records() {
            lines.push_str(&serde_json::to_string(&record)?);
            lines.push('\n');
        }
        write_atomic(path, &lines)?;
        out.talk(format!("{} holds the measurements", path.display()));
    }
    if out.json {
        for record in records() {
            out.object(&record)?;
        }
        return Ok(Answer::Yes);
    }
    let all = || phases.iter().flat_map(|(_, pairs)| pairs);
    if args.pairs {
        for m in all() {
            out.line(line(fabric, m, args.bytes as f64))?;
        }
        out.line("")?;
    }
    let mut rates: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for m in all() {
        let class = (&*m.pair.kind, mode(&m.pair));
        rates.entry(class).or_default().push(m.bytes_per_s / 1e6);
    }
    let count = all().count();
    out.line(format!(
        "# {}: {count} pairs in {} phases",
        scenario.name,
        phases.len()
    ))?;
    let mut table = Table::new(&[
        "<kind",
        "<mode",
        "pairs",
        "least MB/s",
        "median MB/s",
        "most MB/s",
    ]);
    for ((kind, mode), mut of) in rates {
        of.sort_by(f64::total_cmp);
        let rate = |at: usize| of.get(at).map_or("-".into(), |r| format!("{r:.1}"));
        table.row([
            kind.into(),
            mode.into(),
            of.len().to_string(),
            rate(0),
            rate(of.len() / 2),
            rate(of.len().saturating_sub(1)),
        ]);
    }
    out.table(&table)?;
    Ok(Answer::Yes)
}
