//! The fuzz targets: every row of the tables of formats, and [`OTHERS`].

mod collect;
mod http;

use hopbyte_fabric::{Fabric, Reach, spec};
use hopbyte_observe::counters::{self, CounterOptions, counter_series};
use hopbyte_observe::fabric::{Companions, Format, read_machine_text};
use hopbyte_observe::text::{Limits, Text};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

/// A target: a function of the malformed input.
pub type Target = Box<dyn Fn(&[u8]) + Send + Sync>;

/// Targets that are no row of a table, or need more than its reader: companions of a dump, lists, network input.
const OTHERS: &[(&str, fn(&[u8]))] = &[
    ("guid_names", |b| companion(SUBNET, Role::Names, b)),
    ("lid_matrix", |b| companion(SUBNET, Role::Tables, b)),
    ("ib_tables", |b| companion(SUBNET, Role::Tables, b)),
    ("torus_dump", |b| companion(SUBNET, Role::Map, b)),
    ("phys_routes", |b| companion(&*GEMINI, Role::Tables, b)),
    ("system_map", |b| {
        dump(Format::SystemMap, b);
        companion(ARIES, Role::Map, b);
    }),
    ("codes", |b| {
        let [_, intra, inter] = MODEL;
        codes(b, intra, inter);
    }),
    ("codes_links", |b| {
        let [model, intra, inter] = MODEL;
        codes(model, b, inter);
        codes(model, intra, b);
    }),
    // Appends a valid checksum; otherwise the code behind the check would never be reached.
    ("compact", |b| {
        let mut bytes = b.to_vec();
        hopbyte_fabric::compact::seal(&mut bytes);
        dump(Format::Compact, &bytes);
    }),
    ("mads", subnet_counters),
    ("aries_csv", |b| counters_of(machine(SMALL_ARIES), b)),
    ("aries_tiles", |b| counters_of(machine(SMALL_ARIES), b)),
    ("torus_table", |b| counters_of(machine(SMALL_TORUS), b)),
    ("link_lines", |b| counters_of(machine(SMALL_TORUS), b)),
    ("jobs", jobs),
    ("traffic", traffic),
    ("archive", traffic),
    ("placement", placement),
    ("nodes", nodes),
    ("oracle", oracle),
    ("nats", collect::nats),
    ("lines", collect::lines_of),
    ("feed", collect::feed),
    ("frames", collect::frames),
    ("block", collect::block),
    ("store", collect::store),
    ("gather", collect::gather),
    ("http", http::request),
    ("ask", http::ask),
];

/// Finds a target by the name of its seed folder.
pub fn target(name: &str) -> Option<Target> {
    if let Some((_, run)) = OTHERS.iter().find(|(other, _)| *other == name) {
        return Some(Box::new(run));
    }
    if let Some(format) = Format::ALL.into_iter().find(|f| f.known().fuzz == name) {
        return Some(Box::new(move |b| dump(format, b)));
    }
    let mut known = counters::known_formats();
    known.any(|f| f.fuzz == name).then(|| {
        let fabric = machine(SMALL_GEMINI);
        Box::new(move |b: &[u8]| counters_of(fabric, b)) as Target
    })
}

/// A subnet for targets that mutate a companion: tables, names.
const SUBNET: &str = include_str!("seeds/ibnetdiscover/two-switches.txt");
/// An Aries machine for targets that mutate a map.
const ARIES: &str = include_str!("seeds/aries/two-groups.txt");

/// A Gemini machine for targets that mutate routes, decompressed once.
static GEMINI: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let packed = include_bytes!("../data/cray/gemini-2x2x8.interconnect.txt.zst");
    let text = Text::from_bytes("dump", packed, Limits::ANY);
    text.expect("the dump is a constant").bytes().to_vec()
});

/// A CODES model and its links inside and between groups.
const MODEL: [&[u8]; 3] = [
    include_bytes!("seeds/codes/plus.conf"),
    include_bytes!("seeds/codes_links/intra"),
    include_bytes!("seeds/codes_links/inter"),
];

/// Role of the malformed text as a companion of a fixed dump.
enum Role {
    /// Node locations.
    Map,
    /// Forwarding tables.
    Tables,
    /// Names by GUID.
    Names,
}

/// Text within size limits that keep one run short.
fn text(bytes: &[u8]) -> Option<Text> {
    let limits = Limits {
        bytes: 1 << 20,
        ..Limits::ANY
    };
    Text::from_bytes("input", bytes, limits).ok()
}

/// Reads a dump in a given format.
fn dump(format: Format, bytes: &[u8]) {
    if let Some(text) = text(bytes) {
        read(&text, Some(format), Companions::default());
    }
}

/// Reads a fixed dump with a malformed companion.
fn companion(main: impl AsRef<[u8]>, role: Role, bytes: &[u8]) {
    let (Some(main), Some(text)) = (text(main.as_ref()), text(bytes)) else {
        return;
    };
    let mut with = Companions::default();
    match role {
        Role::Map => with.system_map = Some(&text),
        Role::Tables => with.routes = std::slice::from_ref(&text),
        Role::Names => with.names = Some(&text),
    }
    read(&main, None, with);
}

/// Reads a dump and routes all pairs of a small machine: each has a route or a reason. Routes take longer than reading:
/// machines of more than a few nodes are routed for one input in 16.
fn read(text: &Text, format: Option<Format>, with: Companions<'_>) {
    let drawn = crc32fast::hash(text.bytes()) % 16 == 0;
    match read_machine_text(text, format, with) {
        Ok(machine) if machine.fabric.nodes().len() <= if drawn { 64 } else { 8 } => {
            let reach = Reach::of(&machine.fabric, &machine.routing);
            assert!(reach.routable <= reach.pairs);
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Machines of the counters' seeds.
const SMALL_GEMINI: &str = "gemini:2x2x8";
/// The same for Aries.
const SMALL_ARIES: &str = "aries:1x6x16";
/// The same for tables of a torus.
const SMALL_TORUS: &str = "torus:4x4";

fn machine(name: &'static str) -> &'static Fabric {
    static BUILT: LazyLock<Mutex<HashMap<&str, &Fabric>>> = LazyLock::new(Mutex::default);
    let mut built = BUILT.lock().expect("no target panicked");
    built.entry(name).or_insert_with(|| {
        let fabric = spec::fabric(name).expect("the spec is a constant");
        Box::leak(Box::new(fabric))
    })
}

/// Counters of the ports of an InfiniBand fabric.
fn subnet_counters(bytes: &[u8]) {
    static READ: LazyLock<Fabric> = LazyLock::new(|| {
        let text = text(SUBNET.as_bytes()).expect("the dump is short");
        let machine = read_machine_text(&text, None, Companions::default());
        machine.expect("the dump is a constant").fabric
    });
    counters_of(&READ, bytes);
}

/// Reads counters of a machine and derives link states: no ratio is negative or infinite.
fn counters_of(fabric: &Fabric, bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let options = CounterOptions {
        node: Some(fabric.nodes()[0].name.clone()),
        ..CounterOptions::default()
    };
    let Ok(series) = counter_series(&[text], fabric, &options) else {
        return;
    };
    for counted in series.all() {
        let state = counted.state(fabric);
        for column in [
            &state.used_ratio,
            &state.received_bytes,
            &state.credit_stall_ratio,
        ] {
            let bad = |v: &f64| !v.is_nan() && !(v.is_finite() && *v >= 0.0);
            assert!(!column.as_slice().iter().any(bad));
        }
        assert!(state.coverage.iter().all(|c| (0.0..=1.0).contains(c)));
    }
}

/// Reads a jobs file: shares of a link never exceed the whole.
fn jobs(bytes: &[u8]) {
    let fabric = machine(SMALL_ARIES);
    let Some(text) = text(bytes) else { return };
    if let Ok(jobs) = hopbyte_observe::counters::jobs(&text, fabric, hopbyte_observe::Then::Now(0.0)) {
        for link in fabric.link_ids().step_by(31) {
            let sum: f64 = jobs.shares(fabric, link).iter().map(|s| s.1).sum();
            assert!(sum <= 1.0 + 1e-9);
        }
    }
}

/// Reads traffic: bytes are finite, tasks in range.
fn traffic(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Ok(product) = hopbyte_observe::traffic::product(&text, 2) {
        assert!(product.tasks == 2 && product.total().total_bytes().is_finite());
    }
    if let Ok(traffic) = hopbyte_observe::traffic::traffic(&text) {
        assert!(traffic.tasks > 0 && !traffic.phases.is_empty());
        for phase in &traffic.phases {
            assert_eq!(phase.exchange.tasks(), traffic.tasks);
        }
    }
}

/// Reads a placement with and without an allocation.
fn placement(bytes: &[u8]) {
    let fabric = machine(SMALL_GEMINI);
    let Some(text) = text(bytes) else { return };
    let allocation = hopbyte_observe::parse_nodes("nid[00003,00005]:2", 1, fabric).ok();
    for allocation in [None, allocation.as_ref()] {
        if let Ok(placed) = hopbyte_observe::placement::placement(&text, fabric, allocation) {
            assert!(placed.placement.tasks() <= placed.allocation.capacity());
        }
    }
}

/// Reads a list of nodes; files that it names are not fuzzed.
fn nodes(bytes: &[u8]) {
    let list = String::from_utf8_lossy(bytes);
    if !list.trim().starts_with('@') {
        let _ = hopbyte_observe::parse_nodes(&list, 1, machine(SMALL_GEMINI));
    }
}

/// Reads a CODES model with its files of links.
fn codes(model: &[u8], intra: &[u8], inter: &[u8]) {
    let named = |name, bytes| Text::from_bytes(name, bytes, Limits::ANY).ok();
    let (Some(model), Some(intra), Some(inter)) =
        (text(model), named("intra", intra), named("inter", inter))
    else {
        return;
    };
    let with = Companions {
        parts: &[intra, inter],
        ..Companions::default()
    };
    read(&model, Some(Format::Codes), with);
}

/// Reads a query to an oracle and an oracle's answer: a state has as many links as the machine.
fn oracle(bytes: &[u8]) {
    use hopbyte_observe::oracle::{Ask, Reply};
    let _ = Ask::read(bytes);
    let fabric = machine(SMALL_GEMINI);
    let state = Reply::read(bytes).ok().and_then(|reply| reply.state);
    let packed: Vec<f32> = bytes.iter().map(|&b| f32::from(b)).collect();
    if let Some(Ok(state)) = state.map(|state| state.link_state(fabric, &packed)) {
        assert_eq!(state.coverage.len(), fabric.links().len());
    }
}
