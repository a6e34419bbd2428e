//! `hopbyte links SOURCE --fabric F`: load of every link.

use crate::args::{self, CounterArgs, FabricOption, one_of};
use crate::output::{Answer, Output, SIZES, TIMES, Table, count, scale};
use anyhow::Result;
use clap::builder::TypedValueParser;
use hopbyte_fabric::units::Seconds;
use hopbyte_fabric::{Column, Fabric, LinkId, LinkState};
use hopbyte_job::links::{By, Last, LinkRow, LinksSummary, own_window, worst_first};
use hopbyte_job::{LinkReading, inputs};
use hopbyte_observe::{Jobs, read_jobs};
use std::borrow::Cow;
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
    /// Sort key, worst first (default: the first with known values)
    #[arg(long, value_parser = by())]
    by: Option<By>,
    /// Only links of this kind, such as `X cable` or `blue`
    #[arg(long)]
    kind: Option<String>,
    /// Links to list in the text; 0 for all (JSON lists all that were read)
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

fn by() -> impl TypedValueParser<Value = By> {
    one_of(&By::ALL.map(|(_, name, help)| (name, help)))
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

/// A column of the text; omitted if no link has a value.
struct Field<'a> {
    header: String,
    column: Cow<'a, Column>,
    factor: f64,
    decimals: usize,
}

impl<'a> Field<'a> {
    fn all(state: &'a LinkState) -> Vec<Self> {
        let field = |header: &str, column, factor, decimals| Self {
            header: header.to_owned(),
            column: Cow::Borrowed(column),
            factor,
            decimals,
        };
        let largest = |c: &Column| c.as_slice().iter().copied().fold(0.0, f64::max);
        let (size, bytes) = scale(largest(&state.received_bytes), &SIZES);
        let (queue, waiting) = scale(largest(&state.queued_bytes), &SIZES);
        let stall = |name: &str, ratio: &'a Column, seconds: &'a Column| {
            if ratio.known() > 0 {
                return field(&format!("{name} %"), ratio, 1e-2, 1);
            }
            let (time, unit) = scale(largest(seconds), &TIMES);
            field(&format!("{name} {time}"), seconds, unit, 2)
        };
        let mut sizes = Column::unknown(state.coverage.len());
        for id in (0..state.coverage.len()).map(LinkId::of) {
            sizes.set(id, state.packet_bytes(id));
        }
        let fields = [
            field(&format!("received {size}"), &state.received_bytes, bytes, 2),
            field("packets", &state.packets, 1.0, 0),
            Self {
                column: Cow::Owned(sizes),
                ..field("B/packet", &state.packets, 1.0, 1)
            },
            field("used %", &state.used_ratio, 1e-2, 1),
            stall(
                "input stall",
                &state.input_stall_ratio,
                &state.input_stall_seconds,
            ),
            stall(
                "credit stall",
                &state.credit_stall_ratio,
                &state.credit_stall_seconds,
            ),
            field("held back", &state.credit_stall_count, 1.0, 0),
            field(&format!("queued {queue}"), &state.queued_bytes, waiting, 2),
            field("errors", &state.errors, 1.0, 0),
        ];
        fields
            .into_iter()
            .filter(|f| f.column.known() > 0)
            .collect()
    }

    fn text(&self, link: LinkId) -> String {
        let value = self.column.get(link);
        value.map_or("-".into(), |v| {
            format!("{:.*}", self.decimals, v / self.factor)
        })
    }
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
    let lost = match summary.links_lost {
        None => String::new(),
        Some(n) => format!("; of {} more no value is known", count(n)),
    };
    out.line(format!(
        "# {}: {window}; {} of {} links read, {} of {} rows matched{lost}",
        reading.source,
        count(summary.links_read),
        count(fabric.links().len()),
        count(summary.matched),
        count(summary.rows),
    ))?;
    let fields = Field::all(state);
    let mut header = vec![
        "<link".to_owned(),
        "<to".into(),
        "<kind".into(),
        "GB/s".into(),
    ];
    header.extend(fields.iter().map(|f| f.header.clone()));
    let windows = order.iter().any(|&id| own_window(state, id).is_some());
    if windows {
        header.push("window s".into());
    }
    header.push("read %".into());
    if jobs.is_some() {
        header.push("<jobs beside it, % of its ends' nodes".into());
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new(&header);
    for &id in order {
        let link = fabric.link(id);
        let mut cells = vec![
            fabric.link_name(id),
            fabric.end_name(link.to),
            fabric.kind(id).name.clone(),
            format!("{:.2}", link.capacity().gb()),
        ];
        cells.extend(fields.iter().map(|f| f.text(id)));
        if windows {
            let own = state.window.get(id);
            cells.push(own.map_or("-".into(), |w| format!("{w:.3}")));
        }
        cells.push(format!("{:.0}", 100.0 * state.coverage[id.index()]));
        cells.extend(jobs.map(|jobs| shares_text(jobs, fabric, id)));
        table.row(cells);
    }
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
