//! Cost of the all-pairs matrix by machine size: `cargo bench -p hopbyte-oracle`.
//!
//! Each case runs in a process of its own, so that its peak of resident memory is the whole
//! process with fabric, routing and matrix. CPU seconds are of all threads; medians of several runs.
//! The peer is the walk of every route, link by link, measured on some rows and scaled up.

use hopbyte_fabric::routing::{ForwardingTables, MinimalPaths};
use hopbyte_fabric::{Fabric, LinkState, NodeId, Routing, spec};
use hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts};
use std::time::Instant;

const CASES: [(&str, &str, &str); 12] = [
    ("gemini:8x8x8", "order", "max request"),
    ("gemini:16x8x8", "order", "max request"),
    ("gemini:16x8x24", "order", "max request"),
    ("gemini:16x12x24", "order", "max request"),
    ("gemini:24x24x24", "order", "max request"),
    ("gemini:16x12x24", "order", "max both"),
    ("gemini:16x12x24", "order", "mean both"),
    ("gemini:8x8x8", "tables", "max request"),
    ("gemini:16x8x8", "tables", "max request"),
    ("gemini:16x12x24", "tables", "max request"),
    ("gemini:8x8x8", "minimal", "max request"),
    ("gemini:16x12x24", "minimal", "max request"),
];
const RUNS: usize = 5;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [case, routing, what] = &words[..] {
        return one(case, routing, what);
    }
    // `cargo test --benches` starts this without `--bench`: the smallest case shows that it runs.
    let cases = if words.iter().any(|w| w == "--bench") {
        &CASES[..]
    } else {
        &CASES[..1]
    };
    println!(
        "{:<17} {:<8} {:<12} {:>10} {:>9} {:>9} {:>9} {:>10} {:>12}",
        "machine",
        "routing",
        "cost",
        "pairs",
        "wall ms",
        "CPU ms",
        "peak MB",
        "ns a pair",
        "walk/matrix"
    );
    for (case, routing, what) in cases {
        let Ok(me) = std::env::current_exe() else {
            return;
        };
        match std::process::Command::new(me)
            .args([case, routing, what])
            .status()
        {
            Ok(status) if status.success() => {}
            other => eprintln!("{case} {routing} {what}: {other:?}"),
        }
    }
}

fn one(case: &str, routing: &str, what: &str) {
    let fabric = match spec::fabric(case) {
        Ok(fabric) => fabric,
        Err(error) => return eprintln!("{error}"),
    };
    let routing_of = |name: &str| match name {
        "tables" => tables(&fabric),
        "minimal" => Routing::Minimal(MinimalPaths::new(&fabric)),
        _ => Routing::default_for(&fabric),
    };
    let rules = routing_of(routing);
    let state = state(&fabric);
    let (aggregate, over) = what.split_once(' ').unwrap_or(("max", "request"));
    let costs = RouteCosts::new(
        &fabric,
        &rules,
        Some(&state),
        Metric::CreditStall,
        aggregate.parse().unwrap_or(Aggregate::Max),
        over.parse().unwrap_or(Over::Request),
    );
    let mut walls = Vec::new();
    let mut cpus = Vec::new();
    let n = fabric.routers().len();
    let mut sum = 0.0;
    for _ in 0..RUNS {
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        match costs.all_routers() {
            Ok(matrix) => sum += f64::from(matrix.row(n - 1)[0]),
            Err(error) => return eprintln!("{error}"),
        }
        walls.push(wall.elapsed().as_secs_f64());
        cpus.push(cpu_seconds() - cpu);
    }
    std::hint::black_box(sum);
    let peak = status_kb("VmHWM:") / 1e3;
    let (wall, cpu) = (median(&mut walls), median(&mut cpus));
    let pairs = (n * n) as f64;
    println!(
        "{case:<17} {routing:<8} {what:<12} {pairs:>10} {:>9.1} {:>9.1} {peak:>9.0} {:>10.2} {:>12.1}",
        wall * 1e3,
        cpu * 1e3,
        cpu / pairs * 1e9,
        walk_seconds(&fabric, &costs) / cpu
    );
}

/// CPU seconds of walking all pairs, from some rows; repeated until the clock resolves it.
fn walk_seconds(fabric: &Fabric, costs: &RouteCosts<'_>) -> f64 {
    let n = fabric.routers().len();
    let first = |r| fabric.nodes_on(r).first().copied();
    let nodes: Vec<NodeId> = fabric.router_ids().filter_map(first).collect();
    let start = cpu_seconds();
    let (mut known, mut rows) = (0, 0);
    while cpu_seconds() - start < 0.2 {
        let from = nodes[rows * 37 % nodes.len()];
        for &to in &nodes {
            known += usize::from(matches!(costs.pair(from, to), Ok(Some(_))));
        }
        rows += 1;
    }
    std::hint::black_box(known);
    (cpu_seconds() - start) / rows as f64 * n as f64
}

/// Dimension order written into forwarding tables.
fn tables(fabric: &Fabric) -> Routing {
    let order = Routing::default_for(fabric);
    let mut tables = ForwardingTables::new(fabric);
    for at in fabric.router_ids() {
        for to in fabric.node_ids() {
            if let Ok(link) = order.next_link(fabric, at, to) {
                tables.set(fabric, at, to, link);
            }
        }
    }
    Routing::Tables(tables)
}

fn state(fabric: &Fabric) -> LinkState {
    let mut state = LinkState::unknown(fabric);
    for link in fabric.link_ids() {
        let value = f64::from(link.0.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24);
        state.credit_stall_ratio.set(link, Some(value));
    }
    state
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// User and system time of this process so far (Linux).
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let own = text
        .split(' ')
        .next()
        .and_then(|t| t.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1e9;
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let all: f64 = tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next().and_then(|t| t.parse::<f64>().ok()))
        .sum();
    f64::max(own, all / 1e9)
}

fn status_kb(key: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix(key));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok())
        .unwrap_or(f64::NAN)
}
