//! `hopbyte links SOURCE --fabric F`: load of every link.

use crate::args::{self, CounterArgs, FabricOption, one_of};
use crate::output::{Answer, Output, count};
use anyhow::Result;
use clap::builder::TypedValueParser;
use hopbyte_fabric::units::Seconds;
use hopbyte_fabric::{Fabric, LinkId};
use hopbyte_job::links::{Last, LinkRow, LinksSummary, worst_first};
use hopbyte_job::{LinkReading, inputs};
use hopbyte_observe::{Jobs, read_jobs};
use hopbyte_oracle::Metric;
use hopbyte_view::terminal::load_table;
use std::path::PathBuf;

/// The counters to read.
#[derive(clap::Args, Debug)]
pub struct LinksArgs {
    /// Counters: `live` (this machine, read twice --interval apart), `fabric-wide` (all InfiniBand
    /// ports), files of increases, which are added up, or an earlier and a later one of totals
    #[arg(value_name = "SOURCE", required = true, long_help = args::counters_help())]
    source: Vec<PathBuf>,
    /// The machine.
    #[command(flatten)]
    fabric: FabricOption,
    /// Properties of the counters that the file lacks.
    #[command(flatten)]
    about: CounterArgs,
    /// Which job is on which node (DragonView's jobs CSV): names the jobs beside each link
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    jobs: Option<PathBuf>,
    /// Sort key, worst first (default: links with errors, in turn with those of the highest load)
    #[arg(long, value_parser = by())]
    by: Option<Metric>,
    /// Only links of this kind, such as `X cable` or `blue`
    #[arg(long)]
    kind: Option<String>,
    /// Links to list in the text; 0 for all (JSON lists all that were read)
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

fn by() -> impl TypedValueParser<Value = Metric> {
    let names: Vec<_> = Metric::counted().map(|m| (m.name(), m.about())).collect();
    one_of(&names)
}

/// Prints the table.
pub fn run(args: &LinksArgs, out: &mut Output) -> Result<Answer> {
    let fabric = args.fabric.read(out)?.fabric;
    let reading = inputs::reading(&args.source, &fabric, &args.about.options())?;
    reading.notes.iter().for_each(|note| out.talk(note));
    let jobs = args
        .jobs
        .as_ref()
        .map(|file| read_jobs(file, &fabric))
        .transpose()?;
    let order = worst_first(args.by, args.kind.as_deref(), &fabric, &reading.state)?;
    if out.json {
        for &link in &order {
            out.object(&LinkRow::of(&fabric, &reading.state, jobs.as_ref(), link))?;
        }
        out.object(&Last::of(&reading, order.len()))?;
    } else {
        let top = if args.top == 0 { order.len() } else { args.top };
        write(
            &fabric,
            &reading,
            jobs.as_ref(),
            &order[..order.len().min(top)],
            out,
        )?;
        if order.len() > top {
            out.talk(format!(
                "{} more links; --top 0 lists all",
                count(order.len() - top)
            ));
        }
    }
    Ok(Answer::Yes)
}

/// The worst links of a reading.
pub fn write_worst(
    fabric: &Fabric,
    reading: &LinkReading,
    top: usize,
    out: &mut Output,
) -> Result<()> {
    let order = worst_first(None, None, fabric, &reading.state)?;
    let shown = &order[..order.len().min(top)];
    write(fabric, reading, None, shown, out)
}

fn write(
    fabric: &Fabric,
    reading: &LinkReading,
    jobs: Option<&Jobs>,
    order: &[LinkId],
    out: &mut Output,
) -> Result<()> {
    let state = &reading.state;
    let window = state.window_seconds.map_or("window not known".into(), |w| {
        format!("window {}", Seconds(w))
    });
    let summary = LinksSummary::of(reading, order.len());
    let more = [
        (summary.links_lost, "no value known of", " more"),
        (summary.links_with_errors, "errors on", ""),
        (summary.links_down, "no lane in service on", ""),
    ];
    let more: String = (more.into_iter())
        .filter_map(|(n, what, more)| Some((n?, what, more)))
        .map(|(n, what, more)| {
            let s = if n == 1 { "" } else { "s" };
            format!("; {what} {}{more} link{s}", count(n))
        })
        .collect();
    out.line(format!(
        "# {}: {window}; {} of {} links read, {} of {} rows matched{more}",
        reading.source,
        count(summary.links_read),
        count(fabric.links().len()),
        count(summary.matched),
        count(summary.rows),
    ))?;
    let beside = jobs.map(|jobs| move |link| shares_text(jobs, fabric, link));
    let beside = beside.as_ref().map(|text| {
        let header = "<jobs beside it, % of its ends' nodes";
        (header, text as &dyn Fn(LinkId) -> String)
    });
    let table = load_table(fabric, state, order, beside);
    out.table(&table)?;
    Ok(())
}

fn shares_text(jobs: &Jobs, fabric: &Fabric, link: LinkId) -> String {
    let shares = jobs.shares(fabric, link).into_iter();
    let words: Vec<String> = shares
        .map(|(job, share)| format!("{} {:.0}", jobs.ids()[job], 100.0 * share))
        .collect();
    words.join(", ")
}
