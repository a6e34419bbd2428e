//! `hopbyte watch`: live view of the cluster in a terminal.

use super::replay::open;
use crate::args::{CollectorArgs, FabricOptions, LiveJobArgs, NO_JOBS, read_machine};
use crate::output::{Answer, Output};
use anyhow::{Context, Result};
use hopbyte_collect::flows::Flows;
use hopbyte_collect::links::Links;
use hopbyte_fabric::LinkState;
use hopbyte_job::Machine;
use hopbyte_serve::jobs::Attributor;
use hopbyte_view::terminal::{LinksPage, PortsPage, Room, head};
use std::path::PathBuf;

/// Source and display.
#[derive(clap::Args, Debug)]
pub struct WatchArgs {
    /// A running collector, or the folder of its store
    #[arg(value_name = "COLLECTOR|STORE", default_value = "127.0.0.1:7667")]
    source: String,
    /// Access to a collector.
    #[command(flatten)]
    entry: CollectorArgs,
    /// Seconds of a store per second
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    speed: f64,
    /// Show the links of this machine: a file or a spec, as for `hopbyte links`
    #[arg(long, value_name = "FABRIC", help_heading = "Machine")]
    fabric: Option<String>,
    /// Further inputs of the machine.
    #[command(flatten)]
    beside: FabricOptions,
    /// Bytes of each listed link by job, on a line below it
    #[arg(long, requires = "fabric", help_heading = "Counters")]
    by_job: bool,
    #[command(flatten)]
    jobs: LiveJobArgs,
    /// Limit of listed ports or links, the busiest first
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
    /// Stop after so many ticks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ticks: Option<u64>,
}

/// The list of jobs, if bytes by job are asked for.
fn jobs(args: &WatchArgs, machine: Option<&Machine>) -> Result<Option<Attributor>> {
    let Some(machine) = machine.filter(|_| args.by_job) else {
        return args.jobs.none("--by-job").map(|()| None);
    };
    let jobs = args.jobs.open(&[PathBuf::from(&args.source)], machine)?;
    jobs.map(Some).context(format!("--by-job: {NO_JOBS}"))
}

/// Shows tick after tick until the source ends.
pub fn run(args: &WatchArgs, out: &mut Output) -> Result<Answer> {
    let fabric = args.fabric.as_ref().map(|f| args.beside.source(f));
    let machine = fabric.map(|f| read_machine(&f, out)).transpose()?;
    let jobs = jobs(args, machine.as_ref())?;
    let mut links = machine.as_ref().map(|m| LinksPage::new(m.fabric.clone()));
    let mut joined = Links::default();
    let mut stream = open(&args.source, &args.entry, args.speed, None, None)?;
    let mut flows = Flows::default();
    let mut ports = PortsPage::default();
    let mut left = args.ticks.unwrap_or(u64::MAX);
    while let Some(closing) = stream.next(|cluster, id, _| match &links {
        Some(page) => joined.report(page.fabric(), cluster, id),
        None => flows.report(cluster, id),
    })? {
        let cluster = stream.cluster();
        flows.close(cluster, &closing);
        let terminal = Room::of_terminal();
        let room = terminal.unwrap_or(Room::ENDLESS);
        let page = match &mut links {
            Some(page) => {
                if let Some(text) = joined.mismatch() {
                    out.talk(format!("counters of another machine: {text}"));
                }
                let snapshot = joined.close(page.fabric(), &closing, "");
                joined.left_out().sentences().for_each(|t| out.talk(t));
                let state = (snapshot.as_ref()).map(|s| LinkState::of_increase(page.fabric(), s));
                let known = machine.as_ref().zip(snapshot.as_ref()).zip(jobs.as_ref());
                let by_job = known.and_then(|((m, s), jobs)| jobs.now(m, s, |t| out.talk(t)));
                let at = snapshot.and_then(|s| s.time_seconds).unwrap_or(0.0);
                let faults = state.as_ref().map(|s| page.take(s, at, by_job));
                if out.json {
                    faults.iter().flatten().try_for_each(|f| out.object(f))?;
                    String::new()
                } else {
                    head(&closing, cluster) + &page.text(state.as_ref(), args.top, room)
                }
            }
            None => head(&closing, cluster) + &ports.text(cluster, &flows, args.top, room),
        };
        // On a terminal, repaint from the top left corner without flicker; elsewhere print page after page.
        if terminal.is_some() {
            out.text("\x1b[H")?;
            out.text(&room.fit(&page).replace('\n', "\x1b[K\n"))?;
            out.text("\x1b[J")?;
        } else {
            out.text(&page)?;
        }
        out.flush()?;
        left -= 1;
        if left == 0 {
            break;
        }
    }
    if let Some(page) = links.filter(|_| out.json) {
        page.lasting().iter().try_for_each(|f| out.object(f))?;
    }
    Ok(Answer::Yes)
}
