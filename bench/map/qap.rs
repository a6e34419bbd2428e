//! QAPLIB instances: flows between facilities, distances between places, the least sum of products.

use hopbyte_fabric::{Allocation, Exchange, Routing, spec};
use hopbyte_map::{Objective, Options, Problem, map};
use std::error::Error;

/// Maps one `.dat` file with the pair costs as the objective, on one thread for some seconds, and prints the result
/// beside the best known value of the `.sln` file next to it.
pub fn solve(file: &str, seconds: f64, seed: u64) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(file)?;
    let numbers: Vec<f64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let n = *numbers.first().ok_or("an empty file")? as usize;
    let matrices = numbers.get(1..1 + 2 * n * n).ok_or("too few numbers")?;
    let (first, second) = matrices.split_at(n * n);
    let known = std::fs::read_to_string(file.replace(".dat", ".sln"))?;
    let best: f64 = known
        .split_whitespace()
        .nth(1)
        .ok_or("no best value")?
        .parse()?;
    let fabric = spec::fabric(&format!("torus:{n}"))?;
    let routing = Routing::default_for(&fabric);
    let nodes = fabric.node_ids().map(|node| (node, 1)).collect();
    let allocation = Allocation::new(&fabric, nodes)?;
    // The sum is the same with the matrices exchanged; the sparser one makes the better traffic.
    let zeros = |m: &[f64]| m.iter().filter(|v| **v == 0.0).count();
    let (flows, distances) = if zeros(first) >= zeros(second) {
        (first, second)
    } else {
        (second, first)
    };
    let entries = (0..n * n).map(|i| ((i / n) as u32, (i % n) as u32, flows[i], 1));
    let exchange = Exchange::new(n, entries)?;
    let costs: Vec<f32> = distances.iter().map(|d| *d as f32).collect();
    let problem = Problem {
        objective: Objective::RouteCost(&costs),
        ..Problem::new(&fabric, &routing, &exchange, &allocation)
    };
    let options = Options {
        seconds,
        seed,
        threads: 1,
        runs: 1,
        ..Options::default()
    };
    let (placement, certificate) = map(&problem, &options, &|_| {})?;
    let place: Vec<usize> = (0..n as u32)
        .map(|task| placement.node(task).index())
        .collect();
    let cost = |i: usize| flows[i] * distances[place[i / n] * n + place[i % n]];
    // Computed again: a facility's flow to itself has a cost here, but none on a machine.
    let found: f64 = (0..n * n).map(cost).sum();
    println!(
        "{{\"file\": \"{}\", \"tasks\": {n}, \"found\": {found}, \"best_known\": {best}, \"above_percent\": {:.3}, \"search_cpu_seconds\": {:.4}, \"trials\": {}}}",
        file.rsplit('/').next().unwrap_or(file),
        100.0 * (found / best - 1.0),
        certificate.cpu_seconds,
        certificate.trials,
    );
    Ok(())
}
