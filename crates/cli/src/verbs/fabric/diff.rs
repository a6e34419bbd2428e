//! `hopbyte fabric diff BEFORE AFTER`.

use crate::args::{FabricOptions, fabric_help, read_machine};
use crate::output::{Answer, Output, count};
use anyhow::Result;
use hopbyte_fabric::diff::{Diff, LinkChange};
use hopbyte_fabric::units::BytesPerSecond;
use serde::Serialize;
use std::path::PathBuf;

/// Two readings of one machine.
#[derive(clap::Args, Debug)]
#[command(override_usage = "hopbyte fabric diff [OPTIONS] [FABRIC] <AFTER>")]
pub struct DiffArgs {
    /// The first reading (default: the configured machine)
    #[arg(value_name = "FABRIC", long_help = fabric_help())]
    fabric: String,
    /// Its further files.
    #[command(flatten)]
    beside: FabricOptions,
    /// The second reading
    #[arg(value_name = "AFTER")]
    after: String,
    /// Forwarding tables of the second reading, as --routes for the first
    #[arg(long, value_name = "FILE|FOLDER", help_heading = "Machine")]
    after_routes: Vec<PathBuf>,
    /// Limit of listed names per kind
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// The differences, for scripts.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    same: bool,
    #[serde(flatten)]
    diff: &'a Diff,
}

/// Compares them, with --down and --routing applied to the second; exit code 1 if they differ.
pub fn run(args: &DiffArgs, out: &mut Output) -> Result<Answer> {
    let options = FabricOptions {
        down: Vec::new(),
        routing: None,
        ..args.beside.clone()
    };
    let before = read_machine(&options.source(&args.fabric), out)?;
    let options = FabricOptions {
        routes: args.after_routes.clone(),
        ..args.beside.clone()
    };
    let after = read_machine(&options.source(&args.after), out)?;
    let diff = Diff::between(
        (&before.fabric, &before.routing),
        (&after.fabric, &after.routing),
    );
    let same = diff.is_empty();
    if out.json {
        out.object(&Report {
            schema: "hopbyte.diff/1",
            same,
            diff: &diff,
        })?;
    } else {
        write(&diff, args.top, out)?;
    }
    Ok(Answer::of(same))
}

fn write(report: &Diff, top: usize, out: &mut Output) -> Result<()> {
    out.line(format!(
        "# {} of {} common pairs of nodes are routed another way",
        count(report.routes_changed as usize),
        count(report.pairs_compared as usize)
    ))?;
    if report.is_empty() {
        out.line("no difference")?;
    }
    for (what, names) in [
        ("routers added", &report.routers_added),
        ("routers removed", &report.routers_removed),
        ("nodes added", &report.nodes_added),
        ("nodes removed", &report.nodes_removed),
        ("links added", &report.links_added),
        ("links removed", &report.links_removed),
    ] {
        list(what, names.iter().cloned(), names.len(), top, out)?;
    }
    let change = |c: &LinkChange| {
        if c.to_before == c.to_after {
            let both = [c.capacity_before_bytes_per_s, c.capacity_after_bytes_per_s];
            let [was, is] = both.map(|b| BytesPerSecond(b).gb_text(2));
            format!("{}: {was} GB/s, now {is}", c.link)
        } else {
            format!("{}: led to {}, now to {}", c.link, c.to_before, c.to_after)
        }
    };
    let changed = &report.links_changed;
    let names = changed.iter().map(change);
    list("links changed", names, changed.len(), top, out)?;
    let entries = report
        .entries_changed
        .iter()
        .map(|(router, n)| format!("{router}: {n} next hops"));
    list(
        "routers that route differently",
        entries,
        report.entries_changed.len(),
        top,
        out,
    )
}

fn list(
    what: &str,
    names: impl Iterator<Item = String>,
    total: usize,
    top: usize,
    out: &mut Output,
) -> Result<()> {
    if total == 0 {
        return Ok(());
    }
    out.line(format!("\n{what} ({}):", count(total)))?;
    for name in names.take(top) {
        out.line(format!("  {name}"))?;
    }
    if total > top {
        out.line(format!("  and {} more", count(total - top)))?;
    }
    Ok(())
}
