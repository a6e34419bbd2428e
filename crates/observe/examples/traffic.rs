//! Prints any traffic that hopbyte reads as CSV, with its assumptions on standard error: `cargo run -p
//! hopbyte-observe --example traffic -- collective:allreduce:8:1000000:openmpi`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(source) = std::env::args().nth(1) else {
        eprintln!("usage: traffic TRAFFIC (a file, a folder of records, or a spec)");
        return ExitCode::from(2);
    };
    let traffic = match hopbyte_observe::read_traffic(&source) {
        Ok(traffic) => traffic,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    for note in &traffic.notes {
        eprintln!("{note}");
    }
    println!("src,dst,bytes,messages,phase");
    for phase in &traffic.phases {
        for (from, m) in phase.exchange.iter() {
            println!("{from},{},{},{},{}", m.to, m.bytes, m.messages, phase.name);
        }
    }
    ExitCode::SUCCESS
}
