//! What does the user see when something fails, and what does a script?

use std::fmt;
use std::io::{self, Write};

/// Done, or the answer is yes.
pub const DONE: u8 = 0;
/// The question was understood and the answer is no.
pub const ANSWER_IS_NO: u8 = 1;
/// The command line or a file could not be understood.
pub const BAD_INPUT: u8 = 2;
/// The environment lacks something: a permission, a device, a program, room on the disk.
pub const ENVIRONMENT: u8 = 3;

/// Something that this machine or this user lacks, with what would help.
#[derive(Debug)]
pub struct Lacking(pub String);

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Lacking {}

/// Writes an error to standard error and returns the exit code that belongs to it.
///
/// A reader that went away (`hopbyte links … | head`) is not an error.
pub fn report(error: &anyhow::Error) -> u8 {
    if is_broken_pipe(error) {
        return DONE;
    }
    let _ = writeln!(io::stderr(), "error: {error:#}");
    code(error)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn code(error: &anyhow::Error) -> u8 {
    let lacking = error.chain().any(|cause| {
        // A bare i/o error comes from writing: readers wrap theirs, with the file's name.
        cause.is::<Lacking>() || cause.is::<io::Error>()
    });
    if lacking { ENVIRONMENT } else { BAD_INPUT }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
