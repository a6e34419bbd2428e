//! `hopbyte fabric draw FABRIC`: the machine as a picture.

use crate::args::{CounterArgs, FabricArgs};
use crate::output::{Answer, Output};
use crate::verbs::view::written;
use anyhow::Result;
use hopbyte_fabric::InputError;
use hopbyte_job::{check_ending, failure::without_json, inputs, write_picture};
use hopbyte_observe::parse_node_list;
use hopbyte_view::draw::{DrawOptions, Signs, fabric_svg};
use hopbyte_view::report::readings;
use std::path::PathBuf;

/// Machine, overlays and output file.
#[derive(clap::Args, Debug)]
pub struct DrawArgs {
    #[command(flatten)]
    fabric: FabricArgs,
    /// Counters to show on the links, as `hopbyte links` reads them
    #[arg(long, value_name = "SOURCE", num_args = 1.., help_heading = "Counters")]
    load: Vec<PathBuf>,
    #[command(flatten)]
    about: CounterArgs,
    /// Quantity of the counters (default: the first with values): used, bytes, input stall,
    /// credit stall, packets, errors
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Counters",
        requires = "load"
    )]
    quantity: Option<String>,
    /// Nodes to frame, such as those of a job
    #[arg(long, value_name = "LIST")]
    nodes: Option<String>,
    /// Number of the most loaded links to label
    #[arg(long, value_name = "N", default_value_t = 10)]
    worst: usize,
    /// Title of the picture
    #[arg(long, default_value = "", hide_default_value = true)]
    title: String,
    /// The picture to write (default: standard output)
    #[arg(long, short, value_name = "FILE.svg|FILE.pdf")]
    out: Option<PathBuf>,
}

/// Draws.
pub fn run(args: &DrawArgs, out: &mut Output) -> Result<Answer> {
    without_json(out.json && args.out.is_none(), "a picture")?;
    check_ending("--out", args.out.as_deref(), false)?;
    let machine = args.fabric.read(out)?;
    let fabric = &machine.fabric;
    let mut options = DrawOptions {
        title: args.title.clone(),
        command: out.command.clone(),
        worst: args.worst,
        ..DrawOptions::default()
    };
    if let Some(list) = &args.nodes {
        let nodes = parse_node_list(list, fabric, &mut |note| out.talk(note))?;
        options.job = nodes.into_iter().map(|(node, _)| node).collect();
    }
    let mut loads = None;
    if let Some(read) = inputs::background(&args.load, fabric, &args.about.options())? {
        for note in &read.notes {
            out.talk(note);
        }
        let rows = (read.matched, read.unmatched);
        options.subtitle = readings::words(&read.state, &read.source, rows);
        options.signs = Some(Signs::of(fabric, Some(&read.state)));
        let known = readings::loads(&read.state);
        let names: Vec<String> = known.iter().map(|l| l.name.clone()).collect();
        let wanted = args.quantity.as_deref().unwrap_or("");
        loads = known.into_iter().find(|l| l.name.contains(wanted));
        if loads.is_none() {
            let expected = format!("one that was read: {}", names.join(", "));
            return Err(InputError::new("--quantity", wanted, expected).into());
        }
    }
    let svg = fabric_svg(fabric, loads.as_ref(), &options);
    match &args.out {
        None => out.text(&svg)?,
        Some(path) => {
            write_picture(path, &svg)?;
            let quantities = loads.iter().map(|l| l.name.as_str()).collect();
            let bytes = std::fs::metadata(path)?.len() as usize;
            written(path, bytes, quantities, out)?;
        }
    }
    Ok(Answer::Yes)
}
