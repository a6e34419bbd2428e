//! All ports of an InfiniBand fabric, read with management packets: by `hopbyte-mads`, which stays and is asked for each
//! reading, or where it is not installed by `ibqueryerrors`, which finds the fabric anew each time.

use super::places::{Clock, Places, Wide};
use super::source::{Sample, Source, Unreadable};
use crate::ObserveError;
use crate::counters::mads::reading_of_all;
use crate::counters::reading::Reading;
use crate::text::{Limits, Text};
use hopbyte_fabric::{InputError, LeftOut};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Program of infiniband-diags.
const PROGRAM: &str = "ibqueryerrors";
/// Data and packets of all ports.
const DATA: [&str; 2] = ["--data", "--counters"];
/// Waits and errors of the ports if above zero: with an empty threshold file all thresholds are zero.
const ABOVE_ZERO: [&str; 2] = ["--threshold-file", "/dev/null"];

/// Program of `probes/`.
const POLLER: &str = "hopbyte-mads";

/// The query program.
#[derive(Debug)]
pub(super) struct Mads {
    clock: Clock,
    wide: Wide,
    /// The poller, if it is installed, and its process, which is started again after a failure.
    program: Option<PathBuf>,
    poller: Option<Poller>,
}

/// The running poller.
#[derive(Debug)]
struct Poller {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The installed poller: on the path, beside this program, or in the folder of programs of the installation.
pub(super) fn poller() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(|exe| exe.parent());
    let beside = own.map(|folder| [folder.to_owned(), folder.join("../libexec/hopbyte")]);
    std::env::split_paths(&path)
        .chain(beside.into_iter().flatten())
        .map(|folder| folder.join(POLLER))
        .find(|program| program.is_file())
}

impl Poller {
    fn start(program: &Path, wide: Wide) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg("--asked")
            .args((wide == Wide::Switches).then_some("--switches"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (ask, answers) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            child,
            ask,
            answers: BufReader::new(answers),
        })
    }

    /// One reading of all ports.
    fn read(&mut self) -> io::Result<Vec<u8>> {
        self.ask.write_all(b"\n")?;
        let mut said = Vec::new();
        loop {
            let begin = said.len();
            if self.answers.read_until(b'\n', &mut said)? == 0 || said.len() > MOST {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if said[begin..].starts_with(END) {
                return Ok(said);
            }
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the first query.
pub(super) fn open(places: &Places, wide: Wide) -> Result<Source, ObserveError> {
    let mut mads = Mads {
        clock: places.clock(),
        wide,
        program: poller(),
        poller: None,
    };
    let reading = mads.read()?;
    let place = if mads.program.is_some() {
        POLLER
    } else {
        PROGRAM
    };
    Ok(Source {
        way: Box::new(mads),
        reading,
        place: place.into(),
        left_out: LeftOut::default(),
    })
}

impl Mads {
    fn polled(&mut self, program: &Path) -> io::Result<Vec<u8>> {
        let mut poller = match self.poller.take() {
            Some(poller) => poller,
            None => Poller::start(program, self.wide)?,
        };
        let said = poller.read()?;
        self.poller = Some(poller);
        Ok(said)
    }

    fn read(&mut self) -> Result<Reading, ObserveError> {
        // Ports are queried in the same order every time, so the time between two readings equals the time between
        // their starts.
        let moment = self.clock.now();
        if let Some(program) = self.program.clone() {
            let said = self.polled(&program).map_err(|source| ObserveError::Io {
                path: POLLER.into(),
                source,
                hint: Some("it needs /dev/infiniband/umad0 (root) and a port that is up".into()),
            })?;
            let text = Text::from_bytes(POLLER, &said, Limits::ROWS)?;
            return Ok(reading_of_all(&text, moment, false)?);
        }
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

/// Start of the last line of a reading of the poller, and its greatest length in bytes.
const END: &[u8] = b"##          ";
const MOST: usize = 1 << 30;
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
