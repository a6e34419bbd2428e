//! The packet model on an 8x8x8 torus under uniform traffic, the case that BookSim 2 was measured on
//! (8 virtual channels of 8 flits, packets of 4 flits, dimension order): latency by load, and flit-hops
//! per CPU second; then paper 003's competing jobs on a Gemini of 2x2x8 (`scenarios/M3.toml`): what a
//! second of machine time takes. `packet [LOAD…] [gemini=ITERATIONS]`; `make bench-model` runs it.

mod cpu;

use cpu::cpu_seconds;
use hopbyte_fabric::spec;
use hopbyte_model::network::Network;
use hopbyte_model::packet::{OpenLoop, RouterSpec};
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use hopbyte_model::reproduce::Row;
use hopbyte_model::{Inputs, Question, Scenario};

type Error = Box<dyn std::error::Error>;

/// Load and packet latency of BookSim 2 (commit 28f43299), in cycles.
const BOOKSIM: [(f64, f64); 6] = [
    (0.05, 46.5),
    (0.1, 47.1),
    (0.2, 48.6),
    (0.3, 51.2),
    (0.5, 63.0),
    (0.6, 83.1),
];

fn main() -> Result<(), Error> {
    let (mut loads, mut iterations) = (Vec::new(), None);
    for word in std::env::args().skip(1).filter(|w| w != "--bench") {
        match word.strip_prefix("gemini=") {
            Some(count) => iterations = Some(count.parse()?),
            None => loads.push(word.parse::<f64>()?),
        }
    }
    if loads.is_empty() && iterations.is_none() {
        (loads, iterations) = (BOOKSIM.map(|b| b.0).to_vec(), Some(20));
    }
    if !loads.is_empty() {
        uniform(&loads)?;
    }
    iterations.map_or(Ok(()), competing)
}

/// Paper 003's SpMV beside its competing job, for so many of its iterations.
fn competing(iterations: i64) -> Result<(), Error> {
    let row = Row::parse("M3.toml", include_str!("../../scenarios/M3.toml"))?;
    let mut table = row.base.clone();
    table.extend(row.case.get("busy").cloned().ok_or("no case busy")?);
    table.insert("schema".into(), "hopbyte.scenario/1".into());
    table.insert("name".into(), "competing jobs".into());
    let mut halo = &mut table;
    for key in ["job", "workload", "halo"] {
        halo = halo
            .get_mut(key)
            .and_then(|t| t.as_table_mut())
            .ok_or(key)?;
    }
    halo.insert("iterations".into(), iterations.into());
    let scenario = Scenario::parse("M3.toml", &toml::to_string(&table)?)?;
    let (fabric, routing) = scenario.machine()?;
    let inputs = Inputs::default();
    let start = cpu_seconds();
    let outcome = Question::new(&scenario, &fabric, &routing, &inputs)?.answer()?;
    let seconds = cpu_seconds() - start;
    println!(
        "\n2x2x8 Gemini, competing jobs: {:.2} ms of machine time, {} packet-hops in {seconds:.2} CPU s: {:.3e} packet-hops/s, a second takes {:.1} min",
        outcome.time_seconds * 1e3,
        outcome.packet_hops,
        outcome.packet_hops as f64 / seconds,
        seconds / outcome.time_seconds / 60.0,
    );
    Ok(())
}

fn uniform(loads: &[f64]) -> Result<(), Error> {
    let fabric = spec::machine("torus:8x8x8:link=1,host=1")?;
    let parameters = Parameters {
        host_links: false,
        ..Parameters::plain()
    };
    let network = Network::new(
        &fabric.fabric,
        &fabric.routing,
        &parameters,
        OperatingPoint {
            latency: 0.0,
            ..OperatingPoint::default()
        },
    );
    let router = RouterSpec::input_queued(4, 8);
    println!(
        "{:>6} {:>9} {:>8} {:>7} {:>8} {:>9} {:>6} {:>7} {:>12} {:>9}",
        "load",
        "accepted",
        "latency",
        "BookSim",
        "apart %",
        "hops",
        "cycles",
        "CPU s",
        "flit-hops/s",
        "steady"
    );
    for &load in loads {
        let question = OpenLoop {
            load,
            flits: 4,
            warm_up_cycles: 3000,
            measured_cycles: 3000,
            most_cycles: 60_000,
            seed: 1,
        };
        let start = cpu_seconds();
        let result = question.run(&network, &router)?;
        let seconds = cpu_seconds() - start;
        let peer = BOOKSIM.iter().find(|b| b.0 == load).map(|b| b.1);
        let apart = peer.map_or("-".into(), |p| {
            format!("{:.1}", 100.0 * (result.latency_cycles / p - 1.0))
        });
        println!(
            "{load:>6} {:>9.3} {:>8.1} {:>7} {apart:>8} {:>9.2} {:>6} {seconds:>7.2} {:>12.3e} {:>9}",
            result.accepted,
            result.latency_cycles,
            peer.map_or("-".into(), |p| p.to_string()),
            result.hops,
            result.cycles,
            result.flit_hops as f64 / seconds,
            result.steady,
        );
    }
    Ok(())
}
