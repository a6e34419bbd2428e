//! Speed of reading a machine: `cargo bench -p hopbyte-observe --bench parse`.
//!
//! Each machine is written as text in the form of `rtr --interconnect` and read from the file with
//! everything that `read_machine` does: recognition, parsing, checks, names, indices, routing. CPU
//! seconds of one thread, medians. The peer is the obvious reader: `str::lines`, `split_whitespace`, and a
//! hash map from names to numbers, which checks and builds nothing.

use hopbyte_fabric::{End, Fabric, spec};
use hopbyte_observe::{MachineFiles, read_machine};
use std::collections::HashMap;
use std::fmt::Write;
use std::time::Instant;

const CASES: [&str; 5] = [
    "gemini:8x8x8",
    "gemini:16x8x8",
    "gemini:16x8x24",
    "gemini:16x12x24",
    "gemini:24x24x24",
];
const RUNS: usize = 7;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` starts this without `--bench`: the smallest case shows that it runs.
    let is_bench = words.iter().any(|w| w == "--bench");
    let cases = if is_bench { &CASES[..] } else { &CASES[..1] };
    println!(
        "{:<16} {:>8} {:>8} {:>8} {:>9} {:>9} {:>10} {:>9} {:>8}",
        "machine", "routers", "lines", "MB", "wall ms", "CPU ms", "ns a line", "peer ms", "ratio"
    );
    for case in cases {
        if let Err(error) = one(case) {
            eprintln!("{case}: {error}");
        }
    }
}

fn one(case: &str) -> Result<(), Box<dyn std::error::Error>> {
    let text = interconnect(&spec::fabric(case)?);
    let path = std::env::temp_dir().join(format!("hopbyte-parse-{}", std::process::id()));
    std::fs::write(&path, &text)?;
    let files = MachineFiles::new(path.display().to_string());
    let routers = read_machine(&files)?.fabric.routers().len();
    let (mut walls, mut cpus, mut peers) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (wall, cpu) = measure(|| {
            std::hint::black_box(read_machine(&files).is_ok());
        });
        walls.push(wall);
        cpus.push(cpu);
        let (_, cpu) = measure(|| {
            std::hint::black_box(std::fs::read_to_string(&path).map(|t| peer(&t)).is_ok());
        });
        peers.push(cpu);
    }
    std::fs::remove_file(&path)?;
    let lines = text.lines().count();
    let [wall, cpu, peer] = [walls, cpus, peers].map(|mut v| median(&mut v));
    println!(
        "{case:<16} {routers:>8} {lines:>8} {:>8.2} {:>9.1} {:>9.1} {:>10.0} {:>9.1} {:>8.2}",
        text.len() as f64 / 1e6,
        wall * 1e3,
        cpu * 1e3,
        cpu / lines as f64 * 1e9,
        peer * 1e3,
        peer / cpu
    );
    Ok(())
}

/// The fabric as `rtr --interconnect` prints it, tiles in order.
fn interconnect(fabric: &Fabric) -> String {
    let mut text = String::new();
    for router in fabric.router_ids() {
        let mut lines: Vec<(u16, String)> = Vec::new();
        for &link in fabric.links_from(router) {
            let End::Router(to) = fabric.link(link).to else {
                continue;
            };
            let Some(direction) = fabric.link(link).direction else {
                continue;
            };
            let carrier = fabric.kind(link).name.split(' ').nth(1).unwrap_or_default();
            let ending = if carrier == "cable" { "11x" } else { "" };
            let at = |r| {
                fabric
                    .coord(r)
                    .unwrap_or_default()
                    .iter()
                    .map(u32::to_string)
            };
            let join = |r| at(r).collect::<Vec<_>>().join(",");
            for pair in fabric.ports(link) {
                let line = format!(
                    "{}l{:02o}[({})] {direction} -> {}l{:02o}[({})] LinkType: {carrier}{ending}",
                    fabric.router(router).name,
                    pair.from,
                    join(router),
                    fabric.router(to).name,
                    pair.to,
                    join(to),
                );
                lines.push((pair.from, line));
            }
        }
        lines.sort();
        for (_, line) in lines {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Reads names and tiles the obvious way; returns the number of ends.
fn peer(text: &str) -> usize {
    let mut routers: HashMap<String, usize> = HashMap::new();
    let mut ends = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut end = |word: &str| {
            let name = word.split("l").next().unwrap_or_default().to_string();
            let next = routers.len();
            *routers.entry(name).or_insert(next)
        };
        if let [from, direction, _, to, _, kind] = words[..] {
            ends.push((end(from), direction, end(to), kind));
        }
    }
    ends.len() + routers.len()
}

/// Wall and CPU seconds of one call, over as many as the kernel's clock needs to see it (4 ms ticks).
fn measure(mut work: impl FnMut()) -> (f64, f64) {
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let mut calls = 0;
    while calls == 0 || cpu_seconds() - cpu < 0.2 {
        work();
        calls += 1;
    }
    let calls = f64::from(calls);
    (
        wall.elapsed().as_secs_f64() / calls,
        (cpu_seconds() - cpu) / calls,
    )
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU time of this process's first thread (Linux), in which everything here runs.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|t| t.parse::<f64>().ok());
    nanoseconds.map_or(f64::NAN, |n| n / 1e9)
}
