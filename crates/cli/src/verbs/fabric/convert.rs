//! `hopbyte fabric convert FABRIC --out FILE`: the machine in another tool's format.

use crate::args::FabricArgs;
use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_apply::{FabricFormat, readable_name, write_atomic, write_fabric};
use hopbyte_fabric::routing::ForwardingTables;
use hopbyte_fabric::{Fabric, InputError, Routing};
use serde::Serialize;
use std::path::PathBuf;

/// Machine, format and output file.
#[derive(clap::Args, Debug)]
pub struct ConvertArgs {
    #[command(flatten)]
    fabric: FabricArgs,
    /// The file to write (default: standard output); its extension names the format: .json, .hbm, .dot or
    /// .gv, .graphml, .conf, .yaml or .yml, .xml, .ibnetdiscover or .net, .lfts or .dump, .coords
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Format: json, binary (both hopbyte's own), dot, graphml, slurm-conf, slurm-yaml, simgrid,
    /// ibnetdiscover, lfts, slurm-blocks, topograph-graph, node-labels, hypernodes, coords
    #[arg(long, value_name = "FORMAT", required_unless_present = "out")]
    to: Option<FabricFormat>,
    /// Write the routes as forwarding tables, if the machine's routing is a rule
    #[arg(long)]
    tables: bool,
}

/// The JSON answer.
#[derive(Serialize)]
struct Done {
    schema: &'static str,
    format: FabricFormat,
    file: Option<String>,
    bytes: usize,
    lost: Vec<String>,
}

/// Writes it.
pub fn run(args: &ConvertArgs, out: &mut Output) -> Result<Answer> {
    let format = args
        .to
        .or_else(|| FabricFormat::of_path(args.out.as_deref()?));
    let Some(format) = format else {
        let name = args
            .out
            .as_deref()
            .unwrap_or("-".as_ref())
            .display()
            .to_string();
        let expected = "a name that ends in .json, .hbm, .dot, .gv, .graphml, .conf, .yaml, .yml, .xml, .ibnetdiscover, .net, .lfts, .dump or .coords";
        return Err(InputError::new("--out", name, expected)
            .hint("or say it: --to json")
            .into());
    };
    args.out.as_deref().map_or(Ok(()), readable_name)?;
    let mut machine = args.fabric.read(out)?;
    if args.tables {
        machine.routing = Routing::Tables(tables(&machine.fabric, &machine.routing)?);
    }
    let written = write_fabric(format, &machine.fabric, &machine.routing)?;
    for lost in &written.lost {
        out.talk(format!("note: {lost}"));
    }
    match &args.out {
        Some(path) => {
            write_atomic(path, &written.bytes)?;
            out.talk(format!("wrote {}", path.display()));
        }
        None if !out.json => out.bytes(&written.bytes)?,
        None => {}
    }
    if out.json {
        out.object(&Done {
            schema: "hopbyte.convert/1",
            format,
            file: args.out.as_ref().map(|p| p.display().to_string()),
            bytes: written.bytes.len(),
            lost: written.lost,
        })?;
    }
    Ok(Answer::Yes)
}

/// The next hops of a routing rule, router by router.
fn tables(fabric: &Fabric, routing: &Routing) -> Result<ForwardingTables> {
    if !routing.is_destination_based() || !routing.is_single_path() {
        let expected = "a routing with one way from a router to a node, such as --routing updown";
        return Err(InputError::new("--tables", routing.describe(), expected).into());
    }
    let mut tables = ForwardingTables::new(fabric);
    for at in fabric.router_ids() {
        for to in fabric.node_ids() {
            if let Ok(link) = routing.next_link(fabric, at, to) {
                tables.set(fabric, at, to, link);
            }
        }
    }
    Ok(tables)
}
