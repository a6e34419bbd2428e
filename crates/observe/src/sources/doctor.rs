//! Report of the sources on this machine: readable or not, and remedies.

use super::files::{names, once};
use super::{Places, Source, open};
use crate::counters::apart::is_apart;
use hopbyte_fabric::Quantity;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// State of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The source can be read.
    Readable,
    /// The source exists but cannot be read.
    Unreadable,
    /// The source does not exist.
    Absent,
}

/// Result for one source.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Name of the source (`linux`, `mlx5_0`, `gpcdr`, …).
    pub source: String,
    /// Its path, or the path where it was expected.
    pub place: String,
    /// Whether it can be read.
    pub state: State,
    /// Number of its counters.
    pub counters: usize,
    /// Number of counters that could be read.
    pub known: usize,
    /// Quantities of the vocabulary that it has.
    pub says: Vec<Quantity>,
    /// Quantities of the vocabulary that it lacks.
    pub silent: Vec<Quantity>,
    /// Remedies, one sentence each.
    pub help: Vec<String>,
}

impl Finding {
    fn new(source: &str, place: impl Into<String>, state: State) -> Self {
        Self {
            source: source.into(),
            place: place.into(),
            state,
            counters: 0,
            known: 0,
            says: Vec::new(),
            silent: Vec::new(),
            help: Vec::new(),
        }
    }

    fn help(mut self, sentence: impl Into<String>) -> Self {
        self.help.push(sentence.into());
        self
    }
}

/// Quantities of links that a network may report.
const VOCABULARY: [Quantity; 9] = [
    Quantity::ReceivedBytes,
    Quantity::SentBytes,
    Quantity::ReceivedPackets,
    Quantity::SentPackets,
    Quantity::InputStallNs,
    Quantity::CreditStallNs,
    Quantity::Errors,
    Quantity::Lanes,
    Quantity::Capacity,
];

/// The quantity of the vocabulary that covers this variant of it.
fn plain(quantity: Quantity) -> Quantity {
    match quantity {
        Quantity::CreditStallCount | Quantity::CreditStallBytes => Quantity::CreditStallNs,
        other => other,
    }
}

/// Examines every source that [`open`] would open, and the missing ones.
pub fn doctor(places: &Places) -> Vec<Finding> {
    let mut findings: Vec<Finding> = open(places)
        .into_iter()
        .map(|source| match source {
            Ok(source) => readable(places, source),
            Err(error) => {
                let text = error.to_string();
                let (what, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
                let finding = Finding::new("source", what, State::Unreadable);
                if hint.is_empty() {
                    finding
                } else {
                    finding.help(hint)
                }
            }
        })
        .collect();
    let seen = |name: &str| findings.iter().any(|f| f.place.contains(name));
    let absent: Vec<Finding> = [
        (!seen("gpcdr")).then(|| gemini(places)),
        (!seen("cxi")).then(|| slingshot(places)),
        (!seen("class/infiniband")).then(|| infiniband(places)),
        (!seen("rtnetlink") && !seen("class/net")).then(|| {
            let place = places.sys().join("class/net").display().to_string();
            Finding::new("linux", place, State::Absent)
                .help("no interface with hardware or a virtual cable: name one with --interface")
        }),
        (places.is_this_machine() && !seen("/proc")).then(|| {
            let finding = Finding::new("processors", "/proc/1/schedstat", State::Absent);
            finding.help("other users' processes are hidden (hidepid), or the kernel counts no run delay: waiting for processors is not known")
        }),
        (places.is_this_machine() && places.fabric_wide.is_none()).then(fabric_wide),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.extend(absent);
    findings
}

/// Result for a source that opened: reads it and lists missing quantities.
fn readable(places: &Places, mut source: Source) -> Finding {
    let (layout, place) = (source.layout().clone(), source.place().to_owned());
    let mut finding = Finding::new(&layout.source, place, State::Readable);
    finding.counters = layout.counters.len();
    match source.sample() {
        Ok(reading) => {
            finding.known = reading.values.known();
            // A counter without a value is not available.
            let counters = reading.layout.counters.iter().zip(reading.values.iter());
            let said = counters.filter(|(_, value)| value.is_some());
            let said: BTreeSet<Quantity> = said.map(|(c, _)| plain(c.quantity)).collect();
            if is_apart(&layout) {
                finding.says = said.into_iter().collect();
            } else {
                (finding.says, finding.silent) = VOCABULARY.iter().partition(|q| said.contains(q));
            }
        }
        Err(error) => {
            finding.state = State::Unreadable;
            finding.help.push(error.to_string());
        }
    }
    let agentless = without_agent(Path::new(&finding.place));
    if agentless > 0 {
        finding.help.push(format!(
            "{agentless} files of counters read 'N/A (no PMA)': the port has no performance management agent, so they have no value"
        ));
    }
    if layout.ports.is_empty() {
        finding.state = State::Absent;
        finding.help.push(
            "no interface with hardware or a virtual cable: name one with --interface".into(),
        );
    }
    if layout.counters.iter().any(|c| c.name == "port_xmit_wait") {
        finding.help.push(
            "port_xmit_wait has 32 bits and stays at its highest value: clear it regularly with perfquery -R".into(),
        );
    }
    if layout.source == "linux" {
        finding.help.extend(linux(
            places,
            &layout
                .ports
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            |name| layout.counters.iter().any(|c| c.name == name),
        ));
    }
    finding
}

/// Counter files of an InfiniBand device whose port has no performance management agent.
fn without_agent(device: &Path) -> usize {
    let ports = device.join("ports");
    let counters = |number: &String| {
        let folder = ports.join(number).join("counters");
        let text = names(&folder)
            .into_iter()
            .filter_map(move |c| once(&folder.join(c)));
        text.filter(|t| t == "N/A (no PMA)").count()
    };
    names(&ports).iter().map(counters).sum()
}

/// Remedies that make Linux interfaces report more quantities.
fn linux(places: &Places, ports: &[String], has: impl Fn(&str) -> bool) -> Vec<String> {
    let mut help = Vec::new();
    if ports.is_empty() {
        return help;
    }
    if places.is_this_machine() && !has("qdisc_backlog") {
        help.push("no interface has a queueing discipline, so backlogs are unknown: tc qdisc add dev DEV root fq".into());
    }
    let limits = |port: &str| {
        let queues = places.sys().join("class/net").join(port).join("queues");
        names(&queues)
            .iter()
            .any(|q| queues.join(q).join("byte_queue_limits/stall_thrs").exists())
    };
    if places.is_this_machine() && !has("bql_stalls") && ports.iter().any(|p| limits(p)) {
        help.push("stalls of byte queue limits are not counted: echo MILLISECONDS > /sys/class/net/DEV/queues/tx-*/byte_queue_limits/stall_thrs".into());
    }
    help
}

fn gemini(places: &Places) -> Finding {
    let place = places.sys().join("devices/virtual/gni");
    let finding = Finding::new("gpcdr", place.display().to_string(), State::Absent);
    if place.exists() {
        return finding.help("a Cray NIC without metric sets: load gpcdr and its init script (CLE 4.2 UP02 or later)");
    }
    finding.help("Gemini or Aries only; elsewhere files of its metrics can be named with --file")
}

fn slingshot(places: &Places) -> Finding {
    let class = places.sys().join("class/cxi");
    let finding = Finding::new("cxi", class.display().to_string(), State::Absent);
    if names(&class).is_empty() {
        return finding.help("no Slingshot NIC");
    }
    finding.help("a Slingshot NIC without device/telemetry: update the cxi driver, read as root on the host (virtual functions have none)")
}

fn infiniband(places: &Places) -> Finding {
    let class = places.sys().join("class/infiniband");
    let finding = Finding::new("infiniband", class.display().to_string(), State::Absent);
    if names(&class).is_empty() {
        return finding.help("no InfiniBand or RoCE adapter");
    }
    finding.help("an adapter without ports/*/counters: its driver keeps none")
}

/// Requirements for reading the whole fabric.
fn fabric_wide() -> Finding {
    let own = super::mads::poller().is_some();
    let program = if own { "hopbyte-mads" } else { "ibqueryerrors" };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin".into(), "/sbin".into()];
    let found = own
        || std::env::split_paths(&path)
            .chain(sbin)
            .any(|folder| folder.join(program).is_file());
    let finding = Finding::new("fabric-wide", program, State::Absent);
    let umad = Path::new("/dev/infiniband/umad0");
    match (
        found,
        umad.exists(),
        once(Path::new("/sys/class/infiniband_mad/abi_version")),
    ) {
        (false, ..) => finding.help("install infiniband-diags to ask all switches at once"),
        (true, true, _) => finding.help("ask all ports of the fabric with --fabric-wide (root)"),
        (true, false, Some(_)) => {
            finding.help("no /dev/infiniband/umad0: a port must be up and its device node must exist")
        }
        (true, false, None) => {
            finding.help("the program is installed, but the kernel module ib_umad is not loaded: modprobe ib_umad")
        }
    }
}
