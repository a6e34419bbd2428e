//! `hopbyte fabric diff BEFORE AFTER`.

use crate::args::{FabricOptions, fabric_help, read_machine};
use crate::output::{Answer, Output, count};
use anyhow::Result;
use hopbyte_fabric::diff::{Diff, LinkChange, Rename};
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
    // Assumed routes are no change.
    let missing = match (before.routing.is_tables(), after.routing.is_tables()) {
        (false, true) => Some("the first has no forwarding tables: --routes"),
        (true, false) if args.beside.routing.is_none() => {
            Some("the second has no forwarding tables: --after-routes")
        }
        _ => None,
    };
    if let Some(missing) = missing {
        out.warn(format!("routes are not compared, since {missing}"));
    }
    let diff = Diff::between(
        (&before.fabric, &before.routing),
        (&after.fabric, &after.routing),
        missing.is_none(),
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
    if report.routes_compared {
        out.line(format!(
            "# {} of {} common pairs of nodes are routed another way",
            count(report.routes_changed as usize),
            count(report.pairs_compared as usize)
        ))?;
    }
    if report.is_empty() {
        out.line("no difference")?;
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
    let renamed = |r: &Rename| format!("{}: now {}", r.before, r.after);
    let entries = report.entries_changed.iter();
    let entries = entries.map(|(router, n)| format!("{router}: {n} next hops"));
    let routers_renamed = report.routers_renamed.iter().map(renamed);
    let nodes_renamed = report.nodes_renamed.iter().map(renamed);
    let changed = report.links_changed.iter().map(change);
    for (what, names) in [
        ("routers added", report.routers_added.clone()),
        ("routers removed", report.routers_removed.clone()),
        ("routers renamed", routers_renamed.collect()),
        ("nodes added", report.nodes_added.clone()),
        ("nodes removed", report.nodes_removed.clone()),
        ("nodes renamed", nodes_renamed.collect()),
        ("links added", report.links_added.clone()),
        ("links removed", report.links_removed.clone()),
        ("links changed", changed.collect()),
        ("routers that route differently", entries.collect()),
    ] {
        list(what, &names, top, out)?;
    }
    Ok(())
}

fn list(what: &str, names: &[String], top: usize, out: &mut Output) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    out.line(format!("\n{what} ({}):", count(names.len())))?;
    for name in names.iter().take(top) {
        out.line(format!("  {name}"))?;
    }
    if names.len() > top {
        out.line(format!("  and {} more", count(names.len() - top)))?;
    }
    Ok(())
}
