//! The `hopbyte` command.

use std::process::ExitCode;

/// Called before the standard library opens `/dev/null` in the place of a closed standard output.
// SAFETY: the section holds pointers to functions without arguments; this one needs nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = hopbyte_job::failure::look_for_output;

fn main() -> ExitCode {
    ExitCode::from(hopbyte_cli::run(std::env::args_os()))
}
