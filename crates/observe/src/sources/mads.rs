//! All ports of an InfiniBand fabric, queried by `ibqueryerrors` with management packets.

use super::places::{Clock, Places, Wide};
use super::source::{Sample, Source, Unreadable};
use crate::ObserveError;
use crate::counters::mads::reading_of_all;
use crate::counters::reading::Reading;
use crate::text::{Limits, Text};
use hopbyte_fabric::{InputError, LeftOut};
use std::io;
use std::process::{Command, Stdio};

/// Program of infiniband-diags.
const PROGRAM: &str = "ibqueryerrors";
/// Data and packets of all ports.
const DATA: [&str; 2] = ["--data", "--counters"];
/// Waits and errors of the ports if above zero: with an empty threshold file all thresholds are zero.
const ABOVE_ZERO: [&str; 2] = ["--threshold-file", "/dev/null"];

/// The query program.
#[derive(Debug)]
pub(super) struct Mads {
    clock: Clock,
    wide: Wide,
}

/// Runs the first query.
pub(super) fn open(places: &Places, wide: Wide) -> Result<Source, ObserveError> {
    let mads = Mads {
        clock: places.clock(),
        wide,
    };
    let reading = mads.read()?;
    Ok(Source {
        way: Box::new(mads),
        reading,
        place: PROGRAM.into(),
        left_out: LeftOut::default(),
    })
}

impl Mads {
    fn read(&self) -> Result<Reading, ObserveError> {
        // Ports are queried in the same order every time, so the time between two readings equals the time between
        // their starts.
        let moment = self.clock.now();
        let mut said = ask(self.wide, &DATA)?;
        let errors = ask(self.wide, &ABOVE_ZERO)?;
        let whole = errors.windows(SUMMARY.len()).any(|w| w == SUMMARY);
        said.extend_from_slice(&errors);
        let text = Text::from_bytes(PROGRAM, &said, Limits::ROWS)?;
        Ok(reading_of_all(&text, moment, whole)?)
    }
}

impl Sample for Mads {
    fn sample(&mut self, reading: &mut Reading) -> Result<(), Unreadable> {
        let mut new = self.read().map_err(Unreadable::Content)?;
        if new.values.known() == 0 {
            return Err(io::Error::from(io::ErrorKind::NotFound).into());
        }
        if new.layout == reading.layout {
            new.layout = reading.layout.clone();
        }
        *reading = new;
        Ok(())
    }
}

/// Last line of a complete answer.
const SUMMARY: &[u8] = b"## Summary: ";

/// Runs the program. Its exit code only reports whether it found errors.
fn ask(wide: Wide, arguments: &[&str]) -> Result<Vec<u8>, ObserveError> {
    let done = Command::new(PROGRAM)
        .args((wide == Wide::Switches).then_some("--switch"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| ObserveError::Io {
            path: PROGRAM.into(),
            source,
            hint: Some("it is part of infiniband-diags".into()),
        })?;
    if done.stdout.is_empty() {
        let said = String::from_utf8_lossy(&done.stderr);
        let found = said.lines().next_back().unwrap_or("nothing").to_owned();
        let error = InputError::new(PROGRAM, found, "all ports of the fabric");
        let hint = "it needs /dev/infiniband/umad* (root), a running subnet manager, and a port that is up";
        return Err(error.hint(hint).into());
    }
    Ok(done.stdout)
}
