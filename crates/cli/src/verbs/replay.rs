//! `hopbyte replay STORE`: ticks of a store.

use super::collect::{found, say};
use crate::args::CollectorArgs;
use crate::output::{Answer, Output};
use anyhow::{Result, bail};
use hopbyte_collect::bus::check_cluster;
use hopbyte_collect::export::lines::Lines;
use hopbyte_collect::store;
use hopbyte_collect::stream::Stream;
use hopbyte_collect::tick::TickLine;
use hopbyte_serve::range::Range;
use std::path::Path;

/// A store, and a range of it.
#[derive(clap::Args, Debug)]
pub struct ReplayArgs {
    /// Folder of `hopbyte collect --store`, or a running collector's HOST:PORT
    #[arg(value_name = "STORE")]
    store: String,
    /// Access to a collector.
    #[command(flatten)]
    entry: CollectorArgs,
    /// Replayed seconds of the store per second; 0: no pacing
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    speed: f64,
    /// First second, since 1970
    #[arg(long, value_name = "SECONDS")]
    from: Option<f64>,
    /// Last second, since 1970
    #[arg(long, value_name = "SECONDS")]
    to: Option<f64>,
    /// Print the rates of every port as Influx lines, with ClusterCockpit's names
    #[arg(long)]
    lines: bool,
    /// Name of the cluster in these lines
    #[arg(long, default_value = "cluster", requires = "lines")]
    cluster: String,
    /// Write the store's logs as Parquet beside them and stop
    #[arg(long, conflicts_with_all = ["lines", "speed", "from", "to"])]
    seal: bool,
}

/// Prints the ticks' status, or the rates of ports.
pub fn run(args: &ReplayArgs, out: &mut Output) -> Result<Answer> {
    if args.seal {
        return seal(Path::new(&args.store), out);
    }
    check_cluster(&args.cluster).map_err(found("--cluster"))?;
    let range = Range::of_seconds(("--from", args.from), ("--to", args.to))?;
    let mut lines = Lines::new(&args.cluster, range.from_ns.unwrap_or(0));
    let mut stream = open(&args.store, &args.entry, args.speed, args.from, args.to)?;
    while let Some(closing) = stream.next(|cluster, id, _| {
        if args.lines {
            lines.report(cluster, id);
        }
    })? {
        let cluster = stream.cluster();
        if args.lines {
            out.text(&lines.close(cluster, &closing))?;
        } else {
            say(&TickLine::of(&closing, |id| cluster.name(id)), out)?;
        }
        out.flush()?;
    }
    let (sound, notes) = stream.is_sound();
    notes.iter().for_each(|text| out.warn(text));
    Ok(Answer::of(sound))
}

/// The blocks of a folder, or of a collector if there is no such folder.
pub fn open(
    store: &str,
    entry: &CollectorArgs,
    speed: f64,
    from: Option<f64>,
    to: Option<f64>,
) -> Result<Stream> {
    if !(speed.is_finite() && speed >= 0.0) {
        bail!("--speed: found {speed}, expected zero or more");
    }
    let Range { from_ns, to_ns } = Range::of_seconds(("--from", from), ("--to", to))?;
    let folder = Path::new(store);
    if !folder.is_dir() && store.contains(':') {
        return Ok(entry.access()?.connect(store)?);
    }
    entry.unused()?;
    let (from, to) = (from_ns.unwrap_or(0), to_ns.unwrap_or(u64::MAX));
    Ok(Stream::replay(folder, speed, from, to)?)
}

fn seal(folder: &Path, out: &mut Output) -> Result<Answer> {
    let (files, warnings, sound) = store::seal_all(folder)?;
    let lines = files.iter().map(|file| format!("{}\n", file.display()));
    out.text(&lines.collect::<String>())?;
    warnings.iter().for_each(|text| out.warn(text));
    Ok(Answer::of(sound))
}
