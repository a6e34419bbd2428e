//! Errors as messages for users and exit codes for scripts.

use hopbyte_job::{causes, is_lacking, told};
use std::io::{self, Write};

/// Success, or the answer is yes.
pub const DONE: u8 = 0;
/// The question is valid and the answer is no.
pub const ANSWER_IS_NO: u8 = 1;
/// The command line or a file is invalid.
pub const BAD_INPUT: u8 = 2;
/// The environment lacks a permission, a device, a program or disk space.
pub const ENVIRONMENT: u8 = 3;

/// Writes an error to standard error and returns its exit code.
///
/// A closed pipe (`hopbyte links … | head`) is not an error.
pub fn report(error: &anyhow::Error) -> u8 {
    if is_broken_pipe(error) {
        return DONE;
    }
    let _ = writeln!(io::stderr(), "error: {}", told(error.as_ref()));
    code(error)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    causes(error.as_ref())
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn code(error: &anyhow::Error) -> u8 {
    if is_lacking(error.as_ref()) {
        ENVIRONMENT
    } else {
        BAD_INPUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_job::Lacking;

    #[test]
    fn codes_tell_input_from_environment() {
        assert_eq!(code(&anyhow::anyhow!("no such link")), BAD_INPUT);
        assert_eq!(
            code(&anyhow::Error::new(Lacking("no MPI".into()))),
            ENVIRONMENT
        );
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(
            code(&anyhow::Error::new(full).context("writing out")),
            ENVIRONMENT
        );
        let gone = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(report(&gone), DONE);
    }

    #[test]
    fn causes_are_told_once() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let said = full.to_string();
        let error = anyhow::Error::new(full).context("writing out");
        assert_eq!(told(error.as_ref()), format!("writing out: {said}"));
        let error = error.context(format!("out: {said}"));
        assert_eq!(told(error.as_ref()), format!("out: {said}: writing out"));
    }
}
