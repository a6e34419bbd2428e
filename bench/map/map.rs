//! Quality and speed of the mapper: `make bench-map`, see README.md.

mod drawn;
mod export;
mod problems;
mod qap;

use hopbyte_fabric::Placement;
use hopbyte_map::{Evaluation, Objective, Options, Problem, evaluate, map};
use problems::Instance;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["solve", problem, objective, effort, seed, runs] => {
            solve(problem, objective, effort, (seed.parse()?, runs.parse()?))
        }
        ["in-order", problem] => in_order(problem),
        ["eval", problem, file] => eval(problem, file),
        ["qap", file, seconds, seed] => qap::solve(file, seconds.parse()?, seed.parse()?),
        ["export", problem, folder] => export::export(&instance(problem)?, Path::new(folder)),
        _ => Ok(()),
    }
}

fn instance(name: &str) -> Result<Instance, Box<dyn Error>> {
    problems::build(name)?.ok_or_else(|| "its file is not here".into())
}

fn question<'a>(instance: &'a Instance, objective: &str) -> Result<Problem<'a>, Box<dyn Error>> {
    let mut problem = Problem::new(
        &instance.fabric,
        &instance.routing,
        &instance.exchange,
        &instance.allocation,
    );
    problem.background = instance.background.as_ref();
    problem.objective = match objective {
        "load" => Objective::WorstNetworkLink,
        "link" => Objective::WorstLink,
        "hops" => Objective::HopBytes,
        _ => return Err(format!("no objective '{objective}'").into()),
    };
    Ok(problem)
}

/// One JSON line; the worst link is one between switches, as in the study that supplied the peers.
fn print(e: &Evaluation, more: &str) {
    println!(
        "{{\"worst_link_us\": {:.4}, \"with_host_links_us\": {:.4}, \"hop_bytes_gb\": {:.5}, \"host_link_us\": {:.4}, \"p99_link_us\": {:.4}, \"dilation\": {:.4}, \"off_node_mb\": {:.3}{more}}}",
        e.worst_network_link_seconds * 1e6,
        e.worst_link_seconds * 1e6,
        e.hop_bytes / 1e9,
        e.worst_host_link_seconds * 1e6,
        e.p99_link_seconds * 1e6,
        e.average_dilation,
        e.off_node_bytes / 1e6,
    );
}

/// `effort` is a number of seconds, or of thousand trials of all runs (`2400k`).
fn solve(
    name: &str,
    objective: &str,
    effort: &str,
    (seed, runs): (u64, usize),
) -> Result<(), Box<dyn Error>> {
    let instance = instance(name)?;
    let problem = question(&instance, objective)?;
    let trials = match effort.strip_suffix('k') {
        Some(thousands) => Some(1000 * thousands.parse::<u64>()?),
        None => None,
    };
    let options = Options {
        seconds: if trials.is_some() {
            0.0
        } else {
            effort.parse()?
        },
        trials,
        threads: 0,
        seed,
        runs,
        ..Options::default()
    };
    let (_, c) = map(&problem, &options, &|_| {})?;
    let more = format!(
        ", \"wall_seconds\": {:.3}, \"bound_with_host_links_us\": {:.4}, \"bound_us\": {:.4}, \"bound_gb\": {:.5}, \"search_cpu_seconds\": {:.4}, \"trials\": {}",
        c.wall_seconds,
        c.bound.worst_link_seconds * 1e6,
        c.bound.worst_network_link_seconds * 1e6,
        c.bound.hop_bytes / 1e9,
        c.cpu_seconds,
        c.trials,
    );
    print(&c.result, &more);
    Ok(())
}

fn in_order(name: &str) -> Result<(), Box<dyn Error>> {
    let instance = instance(name)?;
    let placement = Placement::in_order(&instance.allocation, instance.exchange.tasks())?;
    print(&evaluate(&question(&instance, "load")?, &placement)?, "");
    Ok(())
}

/// Evaluates a file with the index of the allocated host of every task, one a line.
fn eval(name: &str, file: &str) -> Result<(), Box<dyn Error>> {
    let instance = instance(name)?;
    let hosts: Vec<u32> = std::fs::read_to_string(file)?
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let slots = problems::slots_of(&instance, &hosts);
    let placement = Placement::new(&instance.fabric, &instance.allocation, slots)?;
    print(&evaluate(&question(&instance, "load")?, &placement)?, "");
    Ok(())
}
