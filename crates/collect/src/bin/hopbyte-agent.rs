//! The agent in a small process of its own, which `hopbyte agent` executes.

use hopbyte_collect::agent::{HANDED_ON, Options, work};
use hopbyte_fabric::printable;
use hopbyte_observe::system_class;
use std::io::ErrorKind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = std::env::var(HANDED_ON).ok();
    let Some(options) = options.and_then(|text| serde_json::from_str::<Options>(&text).ok()) else {
        eprintln!(
            "error: found no options of this version, expected to be started by `hopbyte agent`"
        );
        return ExitCode::from(2);
    };
    match work(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let class = system_class(error.kind());
            eprintln!("error[{}]: {}", class.id(), printable(&error.to_string()));
            let mistyped = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData);
            ExitCode::from(if mistyped { 2 } else { 3 })
        }
    }
}
