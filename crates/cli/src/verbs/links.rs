//! `hopbyte links SOURCE --fabric F`: load of every link.

use crate::args::{LoadArgs, NO_JOBS, one_of};
use crate::output::{Answer, Output, count};
use anyhow::{Result, ensure};
use clap::builder::TypedValueParser;
use hopbyte_fabric::{Fabric, LinkId};
use hopbyte_job::LinkReading;
use hopbyte_job::attribution::Attribution;
use hopbyte_job::links::{Last, LinkRow, LinksSummary, worst_first};
use hopbyte_observe::counters::PathLine;
use hopbyte_oracle::Metric;
use hopbyte_view::terminal::{beside_links, load_table};

/// The counters to read.
#[derive(clap::Args, Debug)]
pub struct LinksArgs {
    /// Machine, counters and jobs.
    #[command(flatten)]
    load: LoadArgs,
    /// Bytes of each link by job, from the bytes that the jobs' nodes sent and received and the routes between them
    #[arg(long, help_heading = "Counters")]
    by_job: bool,
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
    let (machine, reading, jobs) = args.load.read(args.by_job, None, out)?;
    ensure!(!args.by_job || jobs.is_some(), "--by-job: {NO_JOBS}");
    let by_job = jobs.as_ref().filter(|_| args.by_job);
    let by_job = by_job.map(|jobs| args.load.attribution(&machine, &reading, jobs));
    let by_job = by_job.transpose()?;
    let (fabric, state) = (machine.fabric, &reading.state);
    by_job
        .iter()
        .flat_map(Attribution::notes)
        .for_each(|note| out.talk(note));
    let order = worst_first(args.by, args.kind.as_deref(), &fabric, &reading.state)?;
    if out.json {
        for &link in &order {
            let mut row = LinkRow::of(&fabric, &reading.state, jobs.as_ref(), link);
            if let Some(by_job) = &by_job {
                row = row.with_jobs(by_job.link(link, reading.state.received_bytes.get(link)));
            }
            out.object(&row)?;
        }
        for line in PathLine::all(&fabric, &reading.state) {
            out.object(&line)?;
        }
        out.object(&Last::of(&reading, order.len()))?;
    } else {
        let top = if args.top == 0 { order.len() } else { args.top };
        let beside = beside_links(by_job.as_ref(), jobs.as_ref(), &fabric, state);
        let beside = beside.as_ref().map(|(header, text)| (*header, &**text));
        write(
            &fabric,
            &reading,
            beside,
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
    let complete = LinksSummary::of(&reading, order.len()).is_complete();
    Ok(Answer::of(complete))
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
    beside: Option<(&str, &dyn Fn(LinkId) -> String)>,
    order: &[LinkId],
    out: &mut Output,
) -> Result<()> {
    let state = &reading.state;
    out.line(LinksSummary::of(reading, order.len()).headline(fabric.links().len()))?;
    let table = load_table(fabric, state, order, beside);
    out.table(&table)?;
    Ok(())
}
