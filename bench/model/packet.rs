//! The packet model on an 8x8x8 torus under uniform traffic, the case that BookSim 2 was measured on
//! (8 virtual channels of 8 flits, packets of 4 flits, dimension order): latency by load, and flit-hops
//! per CPU second. `packet [LOAD…]`; `make bench-model` runs it.

mod cpu;

use cpu::cpu_seconds;
use hopbyte_fabric::spec;
use hopbyte_model::network::Network;
use hopbyte_model::packet::{OpenLoop, RouterSpec};
use hopbyte_model::parameters::{OperatingPoint, Parameters};

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
    let words = std::env::args().skip(1).filter(|w| w != "--bench");
    let mut loads = words.map(|w| w.parse()).collect::<Result<Vec<f64>, _>>()?;
    if loads.is_empty() {
        loads = BOOKSIM.map(|b| b.0).to_vec();
    }
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
    for load in loads {
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
