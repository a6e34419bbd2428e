//! The packet model on an 8x8x8 torus under uniform traffic, the case that BookSim 2 was measured on
//! (8 virtual channels of 8 flits, dimension order): latency by load, and flit-hops per CPU second, for
//! packets of 4 flits, of 1 and of 8; the same with routers that move packets whole; then paper 003's
//! competing jobs on a Gemini of 2x2x8 (`scenarios/M3.toml`): the cost of a second of machine time.
//! `packet [LOAD…] [flits=N] [whole] [gemini=ITERATIONS]`; `make bench-model` runs it. With `BOOKSIM`
//! naming a BookSim 2 program, it runs each case in the same minutes, for latency and speed beside ours.

mod cpu;

use cpu::cpu_seconds;
use hopbyte_fabric::spec;
use hopbyte_model::network::Network;
use hopbyte_model::packet::{OpenLoop, RouterSpec};
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use hopbyte_model::reproduce::Row;
use hopbyte_model::{Inputs, Question, Scenario};

type Error = Box<dyn std::error::Error>;

/// Flits of a packet, load, and packet latency of BookSim 2 (commit 28f43299), in cycles.
const BOOKSIM: [(u8, f64, f64); 10] = [
    (4, 0.05, 46.5),
    (4, 0.1, 47.1),
    (4, 0.2, 48.6),
    (4, 0.3, 51.2),
    (4, 0.5, 63.0),
    (4, 0.6, 83.1),
    (1, 0.2, 44.2),
    (1, 0.5, 50.5),
    (8, 0.2, 56.1),
    (8, 0.5, 87.4),
];

fn main() -> Result<(), Error> {
    let (mut loads, mut flits, mut whole, mut iterations) = (Vec::new(), None, false, None);
    for word in std::env::args().skip(1).filter(|w| w != "--bench") {
        if let Some(count) = word.strip_prefix("gemini=") {
            iterations = Some(count.parse()?);
        } else if let Some(count) = word.strip_prefix("flits=") {
            flits = Some(count.parse()?);
        } else if word == "whole" {
            whole = true;
        } else {
            loads.push(word.parse::<f64>()?);
        }
    }
    if loads.is_empty() && iterations.is_none() {
        let all = |(f, load, _): &(u8, f64, f64)| (*f == flits.unwrap_or(4)).then_some(*load);
        loads = BOOKSIM.iter().filter_map(all).collect();
        iterations = (!whole && flits.is_none()).then_some(20);
    }
    if !loads.is_empty() {
        uniform(&loads, flits.unwrap_or(4), whole)?;
    }
    iterations.map_or(Ok(()), competing)
}

/// Routers that move packets whole, as fast as BookSim's and with as much buffer at each input.
fn whole_packets(flits: u8) -> RouterSpec {
    let routers = RouterSpec::input_queued(4, 8);
    RouterSpec {
        // Channel allocation takes a cycle of its own there.
        route_cycles: routers.route_cycles + 1,
        output_phits: 2 * u32::from(flits),
        ..routers
    }
}

/// User and system time of finished child processes (proc(5): hundredths of a second).
fn children_seconds() -> Result<f64, Error> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: Vec<f64> = fields
        .split(' ')
        .skip(13)
        .take(2)
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// Packet latency and flit-hops per CPU second of a BookSim program.
fn peer(program: &str, load: f64, flits: u8) -> Result<(f64, f64), Error> {
    let config = std::env::temp_dir().join(format!("booksim-{}.cfg", std::process::id()));
    std::fs::write(
        &config,
        "topology = torus; k = 8; n = 3; routing_function = dim_order; num_vcs = 8; vc_buf_size = 8;\n\
         wait_for_tail_credit = 0; vc_allocator = separable_input_first; sw_allocator = separable_input_first;\n\
         alloc_iters = 1; credit_delay = 2; traffic = uniform; sim_type = latency; latency_thres = {100000.0};\n\
         sample_period = 1000; warmup_periods = 3; max_samples = 10; print_activity = 0;\n",
    )?;
    let rate = load / f64::from(flits);
    let before = children_seconds()?;
    let run = std::process::Command::new(program)
        .arg(&config)
        .args([
            format!("packet_size={flits}"),
            format!("injection_rate={rate}"),
        ])
        .output()?;
    let seconds = children_seconds()? - before;
    std::fs::remove_file(&config)?;
    let text = String::from_utf8_lossy(&run.stdout);
    let last = |label: &str| -> Result<f64, Error> {
        let line = text.lines().rfind(|l| l.contains(label));
        let value = line.and_then(|l| {
            l.split(label)
                .nth(1)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        });
        value.ok_or_else(|| format!("{program} does not say «{label}»").into())
    };
    let cycles = last("Time taken is ")?;
    let accepted = last("Accepted flit rate average = ")?;
    let flit_hops = accepted * 512.0 * last("Hops average = ")? * cycles;
    Ok((last("Packet latency average = ")?, flit_hops / seconds))
}

/// Paper 003's SpMV beside its competing job, for a number of its iterations.
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

fn uniform(loads: &[f64], flits: u8, whole: bool) -> Result<(), Error> {
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
    let router = if whole {
        whole_packets(flits)
    } else {
        RouterSpec::input_queued(4, 8)
    };
    let program = std::env::var("BOOKSIM").ok();
    let sort = if whole { "whole" } else { "flit by flit" };
    println!(
        "packets of {flits} flits, {sort}\n{:>6} {:>9} {:>8} {:>7} {:>8} {:>9} {:>6} {:>7} {:>12} {:>9} {:>12} {:>6}",
        "load",
        "accepted",
        "latency",
        "BookSim",
        "apart %",
        "hops",
        "cycles",
        "CPU s",
        "flit-hops/s",
        "steady",
        "BookSim's",
        "ratio"
    );
    for &load in loads {
        let question = OpenLoop {
            load,
            flits,
            warm_up_cycles: 3000,
            measured_cycles: 3000,
            most_cycles: 60_000,
            seed: 1,
        };
        let start = cpu_seconds();
        let result = question.run(&network, &router)?;
        let seconds = cpu_seconds() - start;
        let speed = result.flit_hops as f64 / seconds;
        let (latency, ratio) = match &program {
            Some(program) => {
                let (latency, theirs) = peer(program, load, flits)?;
                (
                    Some(latency),
                    format!("{theirs:>12.3e} {:>6.1}", speed / theirs),
                )
            }
            None => {
                let known = BOOKSIM.iter().find(|b| (b.0, b.1) == (flits, load));
                (known.map(|b| b.2), format!("{:>12} {:>6}", "-", "-"))
            }
        };
        let apart = latency.map_or("-".into(), |p| {
            format!("{:.1}", 100.0 * (result.latency_cycles / p - 1.0))
        });
        println!(
            "{load:>6} {:>9.3} {:>8.1} {:>7} {apart:>8} {:>9.2} {:>6} {seconds:>7.2} {speed:>12.3e} {:>9} {ratio}",
            result.accepted,
            result.latency_cycles,
            latency.map_or("-".into(), |p| format!("{p:.1}")),
            result.hops,
            result.cycles,
            result.steady,
        );
    }
    Ok(())
}
