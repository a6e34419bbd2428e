//! Quality and speed of the mapper: `make bench-map`, see bench/results/map.md.

mod drawn;
mod export;
mod hierarchy;
mod problems;
mod qap;
mod times;

use hierarchy::Hierarchy;
use hopbyte_fabric::Placement;
use hopbyte_map::{Evaluation, Objective, Options, Problem, evaluate, map};
use problems::Instance;
use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["solve", problem, objective, effort, seed, runs, out] => {
            let it = instance(problem)?;
            let options = options(effort, (seed.parse()?, runs.parse()?))?;
            solve(&it, objective, &options, out)
        }
        ["in-order", problem, out] => in_order(&instance(problem)?, out),
        ["eval", problem, file] => eval(problem, file),
        ["qap", file, seconds, seed] => qap::solve(file, seconds.parse()?, seed.parse()?),
        ["fluid", problem, file] => {
            let it = instance(problem)?;
            let seconds = times::fluid(&it, &placed(&it, &hosts(file)?)?)?;
            println!("{{\"us\": {:.4}}}", seconds * 1e6);
            Ok(())
        }
        ["packets", problem, file, most] => {
            let it = instance(problem)?;
            let (seconds, share) =
                times::packets(&it, &placed(&it, &hosts(file)?)?, most.parse()?)?;
            println!("{{\"us\": {:.4}, \"share\": {share}}}", seconds * 1e6);
            Ok(())
        }
        ["routes", problem, file, out] => {
            let it = instance(problem)?;
            let text = times::routes(&it, &placed(&it, &hosts(file)?)?)?;
            Ok(std::fs::write(out, text)?)
        }
        ["hierarchy", problem, sizes, distances, effort, seed, out] => {
            let tree = Hierarchy::parse(sizes, distances)?;
            let it = tree.instance(instance(problem)?)?;
            solve(&it, "hops", &options(effort, (seed.parse()?, 2))?, out)
        }
        ["sum", problem, sizes, distances, file] => {
            let tree = Hierarchy::parse(sizes, distances)?;
            let (it, elements) = (instance(problem)?, hosts(file)?);
            let sum = tree.sum(&it, &elements);
            println!("{{\"sum_gb\": {:.6}}}", sum / 1e9);
            Ok(())
        }
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
fn options(effort: &str, (seed, runs): (u64, usize)) -> Result<Options, Box<dyn Error>> {
    let trials = match effort.strip_suffix('k') {
        Some(thousands) => Some(1000 * thousands.parse::<u64>()?),
        None => None,
    };
    let seconds = match trials {
        Some(_) => 0.0,
        None => effort.parse()?,
    };
    Ok(Options {
        seconds,
        trials,
        threads: 0,
        seed,
        runs,
        ..Options::default()
    })
}

/// Maps, prints the result and writes the index of every task's host.
fn solve(
    it: &Instance,
    objective: &str,
    options: &Options,
    out: &str,
) -> Result<(), Box<dyn Error>> {
    let problem = question(it, objective)?;
    let (placement, c) = map(&problem, options, &|_| {})?;
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
    write_hosts(it, &placement, out)
}

fn in_order(it: &Instance, out: &str) -> Result<(), Box<dyn Error>> {
    let placement = Placement::in_order(&it.allocation, it.exchange.tasks())?;
    print(&evaluate(&question(it, "load")?, &placement)?, "");
    write_hosts(it, &placement, out)
}

/// Evaluates a file with the index of the allocated host of every task, one a line.
fn eval(name: &str, file: &str) -> Result<(), Box<dyn Error>> {
    let it = instance(name)?;
    let placement = placed(&it, &hosts(file)?)?;
    print(&evaluate(&question(&it, "load")?, &placement)?, "");
    Ok(())
}

fn hosts(file: &str) -> Result<Vec<u32>, Box<dyn Error>> {
    let text = std::fs::read_to_string(file)?;
    let hosts = text.split_whitespace().map(str::parse);
    Ok(hosts.collect::<Result<_, _>>()?)
}

fn write_hosts(it: &Instance, placement: &Placement, out: &str) -> Result<(), Box<dyn Error>> {
    let nodes = it.allocation.nodes().iter().map(|n| n.0);
    let index: HashMap<_, _> = nodes.zip(0..).collect::<HashMap<_, u32>>();
    let slots = placement.slots().iter();
    let text: String = slots.map(|s| format!("{}\n", index[&s.node])).collect();
    Ok(std::fs::write(out, text)?)
}

fn placed(it: &Instance, hosts: &[u32]) -> Result<Placement, Box<dyn Error>> {
    let slots = problems::slots_of(it, hosts);
    Ok(Placement::new(&it.fabric, &it.allocation, slots)?)
}
