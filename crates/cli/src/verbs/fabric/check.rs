//! `hopbyte fabric check FABRIC [--down …]`.

use crate::args::FabricArgs;
use crate::output::{Output, count};
use crate::verbs::Answer;
use anyhow::Result;
use hopbyte_fabric::Fabric;
use hopbyte_fabric::check::{Check, Finding};
use serde::Serialize;

/// The machine to check.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    fabric: FabricArgs,
}

/// The answer.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    sound: bool,
    routable: bool,
    pairs: u64,
    unroutable: u64,
    components: usize,
    order: Option<String>,
    deadlock_free: bool,
    virtual_channels: &'static str,
    findings: Vec<Found>,
}

/// One finding.
#[derive(Serialize)]
struct Found {
    kind: &'static str,
    fatal: bool,
    text: String,
    links: Vec<String>,
}

impl Found {
    fn of(fabric: &Fabric, finding: &Finding) -> Self {
        Self {
            kind: finding.kind,
            fatal: finding.fatal,
            text: finding.text.clone(),
            links: finding.links.iter().map(|&l| fabric.link_name(l)).collect(),
        }
    }
}

/// Checks; exit code 1 when something fatal was found.
pub fn run(args: &Args, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    let healthy = machine.healthy.as_ref().map(|h| (&h.0, &h.1));
    let check = Check::of(&machine.fabric, &machine.routing, healthy);
    let report = Report {
        schema: "hopbyte.check/1",
        sound: check.is_sound(),
        routable: check.reach.unroutable_pairs() == 0,
        pairs: check.reach.pairs,
        unroutable: check.reach.unroutable_pairs(),
        components: check.components,
        order: check.order,
        deadlock_free: check.deadlock_free,
        virtual_channels: check.virtual_channels.describe(),
        findings: check
            .findings
            .iter()
            .map(|f| Found::of(&machine.fabric, f))
            .collect(),
    };
    if out.json {
        out.object(&report)?;
    } else {
        write(&report, machine.fabric.source(), out)?;
    }
    Ok(if report.sound {
        Answer::Yes
    } else {
        Answer::No
    })
}

fn write(report: &Report, source: &str, out: &mut Output) -> Result<()> {
    let verdict = if report.sound { "sound" } else { "not sound" };
    out.line(format!("# {source}: {verdict}"))?;
    let routable = report.pairs - report.unroutable;
    out.line(format!(
        "pairs with a route  {} of {}",
        count(routable as usize),
        count(report.pairs as usize)
    ))?;
    out.line(format!("components          {}", report.components))?;
    if let Some(order) = &report.order {
        out.line(format!("order               {order}"))?;
    }
    let free = if report.deadlock_free {
        "none"
    } else {
        "found"
    };
    out.line(format!(
        "credit loops        {free} (assuming {})",
        report.virtual_channels
    ))?;
    for finding in &report.findings {
        let weight = if finding.fatal { "error" } else { "note" };
        out.line(format!("\n{weight}: {} ({})", finding.text, finding.kind))?;
        for link in finding.links.iter().take(5) {
            out.line(format!("  {link}"))?;
        }
        if finding.links.len() > 5 {
            out.line("  … more with --json")?;
        }
    }
    Ok(())
}
