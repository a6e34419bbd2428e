//! Options that several verbs share.

use crate::output::Output;
use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use hopbyte_job::{Machine, MachineSource};
use hopbyte_observe::CounterOptions;
use hopbyte_observe::sources::{Places, host_name};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The machine as the first word after the verb.
#[derive(Args, Clone, Debug)]
pub struct FabricArgs {
    /// The machine: a file, or a spec
    ///
    /// Files are recognised by content: InfiniBand (`ibnetdiscover`, `iblinkinfo`, OpenSM's subnet list,
    /// ibdm, netloc), Cray `rtr --interconnect` (Gemini and Aries), Slingshot point-to-point CSV, CODES
    /// dragonflies, Slurm topologies and hopbyte's own; `.gz` and `.zst` too. Specs are words such as
    /// `gemini:16x12x24` or `torus:8x8x8:nodes=2,link=12.5`, or the name of a known machine;
    /// `hopbyte fabric specs` lists them.
    #[arg(value_name = "FABRIC")]
    pub fabric: String,
    /// What else is known of the machine.
    #[command(flatten)]
    pub beside: FabricOptions,
}

/// The machine as an option, for verbs whose first word is something else.
#[derive(Args, Clone, Debug, Default)]
pub struct FabricOption {
    /// The machine: a file (`ibnetdiscover`, `rtr --interconnect`) or a spec such as gemini:16x12x24
    #[arg(long, value_name = "FABRIC", help_heading = "Machine")]
    pub fabric: String,
    /// What else is known of the machine.
    #[command(flatten)]
    pub beside: FabricOptions,
}

/// Files that stand beside a fabric.
#[derive(Args, Clone, Debug, Default)]
pub struct FabricOptions {
    /// Forwarding tables or routes: files, or folders of them (`ibroute`, `dump_fts`, OpenSM dumps)
    ///
    /// May be given several times. Without it tables are looked for beside the fabric file; without any,
    /// routes are assumed (see `fabric show`).
    #[arg(long, value_name = "FILE|FOLDER", help_heading = "Machine")]
    pub routes: Vec<PathBuf>,
    /// Node numbers and names of a Cray machine (`rtr --system-map`)
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub system_map: Option<PathBuf>,
    /// Names for GUIDs: a node-name-map, or lines `GUID NAME`
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub names: Option<PathBuf>,
    /// A link (`c0-0c0s0g0 X+`, `ibcore01[29]`) or router that is down, or @FILE with one a line
    ///
    /// May be given several times. A link is taken as its cable, both directions, unless `one-way ` stands
    /// before its name. Lines of a log with a Cray tile and its `lanemask` count as lost lanes.
    #[arg(long, value_name = "NAME|@FILE", help_heading = "Machine")]
    pub down: Vec<String>,
    /// Route another way than the machine does: dimension-order[:ZYX], minimal, valiant, adaptive[:0.75],
    /// shortest, updown
    #[arg(long, value_name = "NAME", help_heading = "Machine")]
    pub routing: Option<String>,
}

/// What a file of counters does not say itself.
#[derive(Args, Clone, Debug, Default)]
pub struct CounterArgs {
    /// Length of the interval that the counters cover, in seconds, where their file does not say it; of
    /// a live source the time between two readings (default 1)
    #[arg(long, value_name = "SECONDS", help_heading = "Counters")]
    pub interval: Option<f64>,
    /// Code region of a Boxfish link table (default: the whole run)
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        help_heading = "Counters"
    )]
    pub region: Option<i64>,
    /// Node or router that the counters are of, where their file does not name it (default of a live
    /// source: what the machine calls itself)
    #[arg(long = "counters-of", value_name = "NODE", help_heading = "Counters")]
    pub node: Option<String>,
}

impl FabricArgs {
    /// Reads the machine and says what was assumed.
    pub fn read(&self, out: &mut Output) -> Result<Machine> {
        read_machine(&self.beside.source(&self.fabric), out)
    }
}

impl FabricOption {
    /// Reads the machine and says what was assumed.
    pub fn read(&self, out: &mut Output) -> Result<Machine> {
        read_machine(&self.source(), out)
    }

    /// How to read it again.
    pub fn source(&self) -> MachineSource {
        self.beside.source(&self.fabric)
    }
}

impl FabricOptions {
    /// The machine `fabric` with these files beside it.
    pub fn source(&self, fabric: &str) -> MachineSource {
        MachineSource {
            fabric: fabric.to_owned(),
            routes: self.routes.clone(),
            system_map: self.system_map.clone(),
            names: self.names.clone(),
            down: self.down.clone(),
            routing: self.routing.clone(),
        }
    }
}

/// Reads a machine and says what was assumed.
pub fn read_machine(source: &MachineSource, out: &mut Output) -> Result<Machine> {
    let machine = source.read()?;
    machine.notes.iter().for_each(|note| out.talk(note));
    Ok(machine)
}

impl CounterArgs {
    /// The same for readers.
    pub fn options(&self) -> CounterOptions {
        CounterOptions {
            interval_seconds: self.interval,
            region: self.region,
            node: self.node.clone(),
            ..CounterOptions::default()
        }
    }
}

/// Values of an option from a table of names and meanings, listed in its help.
pub fn one_of<T>(
    values: &[(&'static str, &'static str)],
) -> impl TypedValueParser<Value = T> + use<T>
where
    T: FromStr<Err = String> + Clone + Send + Sync + 'static,
{
    let values = values
        .iter()
        .map(|&(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<T>())
}

/// Where counters are read live.
#[derive(Args, Clone, Debug)]
pub struct LiveArgs {
    /// Root of the file system to read: this machine's, or a folder with a copy of its `sys`
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "/",
        help_heading = "Sources"
    )]
    pub root: PathBuf,
    /// Network interface to read (default: those with hardware, and virtual cables)
    ///
    /// May be given several times.
    #[arg(long = "interface", value_name = "NAME", help_heading = "Sources")]
    pub interfaces: Vec<String>,
    /// A file of counters to read as well: gpcdr's metrics, registers, LDMS, OpenMetrics
    ///
    /// May be given several times.
    #[arg(long = "file", value_name = "FILE", help_heading = "Sources")]
    pub files: Vec<PathBuf>,
    /// Ask all ports of the InfiniBand fabric too, by `ibqueryerrors`
    #[arg(long, help_heading = "Sources")]
    pub fabric_wide: bool,
}

impl LiveArgs {
    /// The places, for a node of this name (default: what the machine calls itself).
    pub fn places(&self, node: Option<&str>) -> Places {
        let own = || host_name(&self.root).unwrap_or_else(|| "localhost".into());
        Places {
            live: self.root == Path::new("/"),
            interfaces: self.interfaces.clone(),
            files: self.files.clone(),
            fabric_wide: self.fabric_wide,
            ..Places::captured(&self.root, node.map_or_else(own, str::to_owned))
        }
    }
}

/// Part I of N of a command's work, from 1: `3/16`.
pub fn part(text: &str) -> Result<(u64, u64), String> {
    let parts = text
        .split_once('/')
        .and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    parts
        .filter(|&(i, n)| 1 <= i && i <= n)
        .ok_or_else(|| format!("found '{text}', expected I/N with I from 1 to N, such as 3/16"))
}
