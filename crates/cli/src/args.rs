//! Options shared by several verbs.

use crate::output::Output;
use anyhow::{Result, ensure};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use hopbyte_apply::Launcher;
use hopbyte_collect::tls::Identity;
use hopbyte_fabric::{Fabric, InputError};
use hopbyte_job::attribution::{Attribution, Recorded};
use hopbyte_job::inputs::{self, LinkReading};
use hopbyte_job::{JobList, Live, Machine, MachineSource, jobs_then};
use hopbyte_observe::sources::{Places, Wide, host_name};
use hopbyte_observe::{CounterOptions, Jobs, kinds};
use hopbyte_oracle::{Aggregate, Metric};
use hopbyte_serve::access::{Access, unused};
use hopbyte_serve::jobs::Attributor;
use hopbyte_serve::range::Range;
use hopbyte_serve::source::{Source, live};
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// The machine as the verb's first argument.
#[derive(Args, Clone, Debug)]
pub struct FabricArgs {
    /// The machine: a file, or a spec (default: the configured one)
    // Not required for help, since the configured machine is inserted before the check.
    #[arg(value_name = "FABRIC", long_help = fabric_help(), required = false, required_unless_present = "help")]
    pub fabric: String,
    /// Further inputs of the machine.
    #[command(flatten)]
    pub beside: FabricOptions,
}

/// The machine as an option, for verbs with another first argument.
#[derive(Args, Clone, Debug, Default)]
pub struct FabricOption {
    /// The machine: a file (`ibnetdiscover`, `rtr --interconnect`) or a spec such as gemini:16x12x24 (default: the configured
    /// one)
    #[arg(
        long,
        value_name = "FABRIC",
        help_heading = "Machine",
        long_help = fabric_help(),
        required = false,
        required_unless_present = "help"
    )]
    pub fabric: String,
    /// Further inputs of the machine.
    #[command(flatten)]
    pub beside: FabricOptions,
}

/// Files that complete a fabric.
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
    /// Inside of hosts: KIND[/RULE][@HOSTS], such as dgx-h100, mi300x/striped, gb200-nvl72@rack1n[01-18]
    ///
    /// May be given several times. Kinds and rules are listed on the page of hosts; without HOSTS it is the kind of
    /// all hosts.
    #[arg(long, value_name = "KIND", help_heading = "Machine")]
    pub hosts: Vec<String>,
    /// Rates of a topology without speeds (Slurm), GB/s: of a node, of a leaf's cable, of the next level's, …
    #[arg(
        long,
        value_name = "GB/S",
        value_delimiter = ',',
        help_heading = "Machine"
    )]
    pub rates: Vec<f64>,
    /// The same: capacity below a switch over that of its uplinks (default 1, full bisection)
    #[arg(long, value_name = "RATIO", help_heading = "Machine")]
    pub uplink_ratio: Option<f64>,
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

/// A machine with its counters and jobs.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Counters: `live` (this machine, read twice --interval apart), `fabric-wide` (all InfiniBand
    /// ports), files of increases, which are added up, or an earlier and a later one of totals
    #[arg(value_name = "SOURCE", required = true, long_help = counters_help())]
    source: Vec<PathBuf>,
    /// The machine.
    #[command(flatten)]
    fabric: FabricOption,
    /// Properties of the counters that the file lacks.
    #[command(flatten)]
    counters: SourceArgs,
    /// Jobs and their nodes: the jobs beside each link, and those affected
    #[command(flatten)]
    jobs: JobArgs,
    /// Traffic of a job as a run of it was recorded, for the bytes by job (may be given several times)
    #[arg(long, value_name = "JOB=RECORD", help_heading = "Counters")]
    recorded: Vec<String>,
}

impl LoadArgs {
    /// Bytes of the links by job.
    pub fn attribution(
        &self,
        machine: &Machine,
        reading: &LinkReading,
        jobs: &Jobs,
    ) -> Result<Attribution> {
        let (fabric, routing) = (&machine.fabric, &machine.routing);
        let recorded = Recorded::of(&self.recorded, jobs, fabric)?;
        let state = &reading.state;
        Ok(Attribution::of(fabric, routing, state, jobs, recorded))
    }

    /// Reads all three and prints the readers' remarks. Without a list, jobs are those that the store kept, if `kept` asks
    /// for these.
    pub fn read(&self, kept: bool, over: Option<f64>, out: &mut Output) -> Result<Load> {
        let machine = self.fabric.read(out)?;
        let reading = self.counters.read(&self.source, &machine.fabric, over)?;
        reading.notes.iter().for_each(|note| out.talk(note));
        let found = JobList::find(self.jobs.jobs.as_ref(), &self.source);
        let list = found.filter(|list| kept || matches!(list, JobList::File(_)));
        let Some(list) = list else {
            let needed = !self.recorded.is_empty() || self.jobs.jobs_at.is_some();
            ensure!(!needed, "--recorded, --jobs-at: {NO_JOBS}");
            return Ok((machine, reading, None));
        };
        let then = jobs_then(self.jobs.jobs_at, reading.time_seconds);
        let jobs = list.read(&machine.fabric, then)?;
        list.notes(&jobs).iter().for_each(|note| out.talk(note));
        Ok((machine, reading, Some(jobs)))
    }
}

/// A machine, the state of its links, and jobs.
type Load = (Machine, LinkReading, Option<Jobs>);

/// Jobs of a live source.
#[derive(Args, Clone, Debug, Default)]
pub struct LiveJobArgs {
    /// Jobs and their nodes, read again when the file changes: bytes of every link by job (default: the jobs that the
    /// store keeps)
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    jobs: Option<PathBuf>,
    /// Traffic of a job as a run of it was recorded, for the bytes by job (may be given several times)
    #[arg(long, value_name = "JOB=RECORD", help_heading = "Counters")]
    recorded: Vec<String>,
}

impl LiveJobArgs {
    /// Refuses the options where they have no effect.
    pub fn none(&self, expected: &str) -> Result<()> {
        let given = self.jobs.is_some() || !self.recorded.is_empty();
        ensure!(!given, "--jobs, --recorded: expected {expected} as well");
        Ok(())
    }

    /// Opens the list.
    pub fn open(&self, sources: &[PathBuf], machine: &Machine) -> Result<Option<Attributor>> {
        let Some(list) = JobList::find(self.jobs.as_ref(), sources) else {
            return self.none("a list of jobs").map(|()| None);
        };
        let recorded = self.recorded.clone();
        Ok(Some(Attributor::open(list, recorded, &machine.fabric)?))
    }
}

/// What bytes by job need.
pub const NO_JOBS: &str = "found no list of jobs, expected --jobs FILE, or the store of a collector that was given --jobs";

/// The launch command of a job.
#[derive(Args, Clone, Debug)]
pub struct JobCommand {
    /// The command, after `--`
    #[arg(required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// Jobs and their nodes.
#[derive(Args, Clone, Debug, Default)]
pub struct JobArgs {
    /// Jobs and their nodes: a list of Slurm, PBS, Flux or Kubernetes pods, or a CSV `job,node[,start,end]`
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    pub jobs: Option<PathBuf>,
    /// Jobs that ran at a time in Unix seconds, in place of those that run
    #[arg(long, value_name = "TIME")]
    pub jobs_at: Option<f64>,
}

/// Properties of counters that their source lacks, and how a collector is reached.
#[derive(Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// Properties of the counters that their files lack.
    #[command(flatten)]
    pub about: CounterArgs,
    /// The tick of a store at or before this time, in seconds since 1970 (default: the newest)
    #[arg(long, value_name = "TIME", help_heading = "Counters")]
    at: Option<f64>,
    /// Access to a collector.
    #[command(flatten)]
    entry: CollectorArgs,
}

/// Access to a collector.
#[derive(Args, Clone, Debug, Default)]
pub struct CollectorArgs {
    /// File with the secret of the collector or oracle, or with one of its read tokens
    #[arg(long, value_name = "FILE", help_heading = "Collector")]
    token: Option<PathBuf>,
    /// File of CA certificates (PEM) for the collector: use TLS
    #[arg(long, value_name = "FILE", help_heading = "Collector")]
    tls_ca: Option<PathBuf>,
}

impl CollectorArgs {
    /// The source of a load, if it runs: an oracle, or a background that is a collector or its store.
    pub fn live(&self, oracle: Option<&str>, background: &[PathBuf]) -> Result<Option<Live>> {
        let (token, tls_ca) = (self.token.clone(), self.tls_ca.clone());
        Ok(live(oracle, background, token, tls_ca)?)
    }

    /// Refuses both where nothing takes them.
    pub fn unused(&self) -> Result<()> {
        Ok(unused(self.token.as_deref(), self.tls_ca.as_deref())?)
    }

    /// Reads the files.
    pub fn access(&self) -> Result<Access> {
        Ok(Access::read(self.token.as_deref(), self.tls_ca.as_deref())?)
    }
}

impl SourceArgs {
    /// Reads counters of files, trees, live sources, or of a collector or its store `over` so many seconds by default.
    pub fn read(&self, of: &[PathBuf], fabric: &Fabric, over: Option<f64>) -> Result<LinkReading> {
        match self.stream(of, None)? {
            Some(stream) => Ok(stream.latest(fabric, self.about.interval.or(over))?),
            None => self
                .only_kept()
                .and_then(|()| Ok(inputs::reading(of, fabric, &self.about.options())?)),
        }
    }

    /// The source to follow; files are checked for changes `every` so often. Without sources there are no counters.
    pub fn follow(
        &self,
        sources: &[PathBuf],
        from: Option<f64>,
        every: Duration,
    ) -> Result<Source> {
        if let Some(stream) = self.stream(sources, from)? {
            return Ok(stream);
        }
        self.only_kept()?;
        if sources.is_empty() {
            inputs::unused(&self.about.options())?;
            return Ok(Source::None);
        }
        Ok(Source::files(sources.to_vec(), self.about.options(), every))
    }

    /// Refuses a time and an access for sources that do not keep ticks.
    fn only_kept(&self) -> Result<()> {
        self.entry.unused()?;
        if let Some(at) = self.at {
            let expected = "a collector or the folder of its store, which keep ticks";
            return Err(InputError::new("--at", at.to_string(), expected).into());
        }
        Ok(())
    }

    /// The source, if it is a collector or its store.
    fn stream(&self, sources: &[PathBuf], from: Option<f64>) -> Result<Option<Source>> {
        let [source] = sources else { return Ok(None) };
        let range = Range::of_seconds(("--interval", from), ("--at", self.at))?;
        Ok(Source::named(source, self.entry.access()?, range))
    }
}

/// Properties of counters that their file lacks.
#[derive(Args, Clone, Debug, Default)]
pub struct CounterArgs {
    /// Length of the interval that the counters cover, in seconds, if their file does not state it; of a live source the
    /// time between two readings (default 1), of a collector or store that of the added ticks (default one, `blame` 10)
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
    /// Node or router of the counters, if their file does not name it (default of a live
    /// source: the machine's own name)
    #[arg(long = "counters-of", value_name = "NODE", help_heading = "Counters")]
    pub node: Option<String>,
}

impl FabricArgs {
    /// Reads the machine and prints the reader's assumptions.
    pub fn read(&self, out: &mut Output) -> Result<Machine> {
        read_machine(&self.beside.source(&self.fabric), out)
    }
}

impl FabricOption {
    /// Reads the machine and prints the reader's assumptions.
    pub fn read(&self, out: &mut Output) -> Result<Machine> {
        read_machine(&self.source(), out)
    }

    /// How to read it again.
    pub fn source(&self) -> MachineSource {
        self.beside.source(&self.fabric)
    }
}

impl FabricOptions {
    /// The machine `fabric` with these files.
    pub fn source(&self, fabric: &str) -> MachineSource {
        MachineSource {
            fabric: fabric.to_owned(),
            routes: self.routes.clone(),
            system_map: self.system_map.clone(),
            names: self.names.clone(),
            hosts: self.hosts.clone(),
            rates: self.rates.clone(),
            uplink_ratio: self.uplink_ratio,
            down: self.down.clone(),
            routing: self.routing.clone(),
        }
    }
}

/// Reads a machine and prints the reader's assumptions.
pub fn read_machine(source: &MachineSource, out: &mut Output) -> Result<Machine> {
    let machine = source.read()?;
    machine.notes.iter().for_each(|note| out.talk(note));
    Ok(machine)
}

impl CounterArgs {
    /// As options of the readers.
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
    T: FromStr<Err: Display> + Clone + Send + Sync + 'static,
{
    let values = values
        .iter()
        .map(|&(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<T>().map_err(|e| e.to_string()))
}

/// Places of live counters.
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
    /// Ask all ports of the InfiniBand fabric too, by `hopbyte-mads` or `ibqueryerrors`
    #[arg(long, help_heading = "Sources")]
    pub fabric_wide: bool,
}

impl LiveArgs {
    /// The places, for a node of this name (default: the machine's own name).
    pub fn places(&self, node: Option<&str>) -> Places {
        let own = || host_name(&self.root).unwrap_or_else(|| "localhost".into());
        Places {
            live: self.root == Path::new("/"),
            interfaces: self.interfaces.clone(),
            files: self.files.clone(),
            fabric_wide: self.fabric_wide.then_some(Wide::All),
            ..Places::captured(&self.root, node.map_or_else(own, str::to_owned))
        }
    }
}

/// The table of launchers.
pub fn launchers() -> impl TypedValueParser<Value = Launcher> {
    one_of(&Launcher::ALL.map(|l| (l.name(), l.about())))
}

/// The table of metrics.
pub fn metrics() -> impl TypedValueParser<Value = Metric> {
    one_of(&Metric::ALL.map(|m| (m.name(), m.about())))
}

/// The table of aggregates.
pub fn aggregates() -> impl TypedValueParser<Value = Aggregate> {
    one_of(&Aggregate::ALL.map(|a| (a.name(), a.about())))
}

/// Help of a FABRIC, with the table of formats.
pub fn fabric_help() -> String {
    format!(
        "The machine: a file, or a spec\n\nFiles are recognised by content: {}; `.gz` and `.zst` too. Specs are \
         words such as `gemini:16x12x24` or `torus:8x8x8:nodes=2,link=12.5`, or the name of a known machine; \
         `hopbyte fabric specs` lists them. Without it: `fabric` of hopbyte.toml or HOPBYTE_FABRIC.",
        kinds::machines()
    )
}

/// Help of a TRAFFIC, with the tables of formats.
pub fn traffic_help() -> String {
    format!(
        "Traffic between the ranks: a file, or a spec such as stencil:16x16x16:27\n\nFiles, folders, \
         patterns and archives of files are recognised by content: {}. Specs: stencil:16x16x16:27, \
         collective:allreduce:64:1000000, plan:dp=8,tp=4,pp=2. Behind a record or trace, :collectives=RULES says by which algorithms collective \
         calls become messages: openmpi, mpich, allreduce=ring, … Without it: --dims.",
        kinds::traffic()
    )
}

/// Help of counters, with the table of formats.
pub fn counters_help() -> String {
    format!(
        "Counters: `live` (this machine, read twice --interval apart), `fabric-wide` (all InfiniBand ports), \
         a collector (HOST:PORT) or the folder of its store, \
         files of increases, which are added up, or an earlier and a later one of totals\n\nFiles are \
         recognised by content: {}. A folder is a copy of a machine's `/sys`.",
        kinds::counters()
    )
}

/// Help of a placement, with the table of formats.
pub fn placement_help() -> String {
    format!(
        "Current placement of the ranks: a launcher's file\n\nRecognised by content: {}.",
        kinds::placements()
    )
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

/// Certificate of a server.
#[derive(Args, Debug)]
pub struct TlsFiles {
    /// Certificate (PEM) of this server: connections are TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, not readable by others
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsFiles {
    /// Whether there is a certificate.
    pub fn is_given(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// The certificate with its key.
    pub fn identity(&self) -> Result<Option<Identity>> {
        let files = self.tls_cert.as_ref().zip(self.tls_key.as_ref());
        Ok(files
            .map(|(cert, key)| Identity::read(cert, key))
            .transpose()?)
    }
}

/// Clients of an HTTP server that read.
#[derive(Args, Debug)]
pub struct HttpClients {
    /// File of bearer tokens, one per line, that admit to reading, but not to reporting
    #[arg(long, value_name = "FILE")]
    pub read_token: Option<PathBuf>,
    /// Further name under which clients reach this server over HTTP; may be given several times
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
}
