//! The `hopbyte` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(hopbyte_cli::run(std::env::args_os()))
}
