//! How good and how fast is the mapper? `cargo bench -p hopbyte-map`, see README.md.

mod problems;

use hopbyte_fabric::Placement;
use hopbyte_map::{Evaluation, Objective, Options, Problem, evaluate, map};
use problems::Instance;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["solve", problem, objective, effort, threads, seed] => {
            solve(problem, objective, effort, threads.parse()?, seed.parse()?)
        }
        ["eval", problem, file] => eval(problem, file),
        _ => Ok(()),
    }
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

fn line(name: &str, e: &Evaluation) {
    println!(
        "{name:<12} worst {:>9.2} us  p99 {:>9.2}  mean {:>8.2}  host {:>9.2}  hop-bytes {:>9.4} GB  dilation {:>6.3}  off-node {:>9.2} MB  inject {:>7.3} MB",
        e.worst_network_link_seconds * 1e6,
        e.p99_link_seconds * 1e6,
        e.mean_link_seconds * 1e6,
        e.worst_host_link_seconds * 1e6,
        e.hop_bytes / 1e9,
        e.average_dilation,
        e.off_node_bytes / 1e6,
        e.worst_injection_bytes / 1e6,
    );
}

fn solve(
    name: &str,
    objective: &str,
    effort: &str,
    threads: usize,
    seed: u64,
) -> Result<(), Box<dyn Error>> {
    let begin = std::time::Instant::now();
    let instance = problems::build(name)?.ok_or("its file is not here")?;
    let built = begin.elapsed().as_secs_f64();
    let problem = question(&instance, objective)?;
    let options = Options {
        seconds: effort.parse().unwrap_or(0.0),
        trials: match effort.strip_suffix('k') {
            Some(thousands) => Some(1000 * thousands.parse::<u64>()?),
            None => None,
        },
        threads,
        seed,
        runs: threads,
    };
    let (_, certificate) = map(&problem, &options, &|_| {})?;
    line("in order", &certificate.baseline);
    line("result", &certificate.result);
    println!(
        "bound {:.2} us {:.4} GB; built {built:.3} s, wall {:.3} s, cpu {:.3} s, trials {}",
        certificate.bound.worst_network_link_seconds * 1e6,
        certificate.bound.hop_bytes / 1e9,
        certificate.wall_seconds,
        certificate.cpu_seconds,
        certificate.trials
    );
    Ok(())
}

/// Evaluates a file with the index of the allocated host of every task, one a line.
fn eval(name: &str, file: &str) -> Result<(), Box<dyn Error>> {
    let instance = problems::build(name)?.ok_or("its file is not here")?;
    let hosts: Vec<u32> = std::fs::read_to_string(file)?
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let slots = problems::slots_of(&instance, &hosts);
    let placement = Placement::new(&instance.fabric, &instance.allocation, slots)?;
    line(file, &evaluate(&question(&instance, "load")?, &placement)?);
    Ok(())
}
