//! Runs a program and reads its standard output, within a time and a size.

use super::child::run_for;
use crate::error::{Context, Result, refuse};
use hopbyte_observe::threads::start;
use std::io::{PipeReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Timeout of a version query.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Time without output after the program's end: a process that outlives it may hold the pipe.
const QUIET: Duration = Duration::from_secs(2);
/// Interval between looks at the reader.
const TICK: Duration = Duration::from_millis(2);
/// Output of a version query that is read.
pub(crate) const SAID: usize = 1 << 20;

/// The output of a program.
#[derive(Debug)]
pub(crate) struct Output {
    /// Its status; `None` if it was ended at the deadline.
    pub status: Option<ExitStatus>,
    /// Its output, up to the limit.
    pub bytes: Vec<u8>,
    /// Whether it printed more than the limit.
    pub truncated: bool,
}

impl Output {
    /// The output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[derive(Default)]
struct Printed {
    bytes: Vec<u8>,
    truncated: bool,
    ended: bool,
}

/// Runs a program without input. At the deadline it gets a signal to end, then a kill. Output above `limit` bytes is read
/// and dropped, so that the program can end.
pub(crate) fn output(command: &mut Command, deadline: Duration, limit: usize) -> Result<Output> {
    printed(command.stdin(Stdio::null()), deadline, limit)
}

/// [`output`] of a program that reads `input`.
pub(crate) fn filtered(
    command: &mut Command,
    input: Vec<u8>,
    deadline: Duration,
    limit: usize,
) -> Result<Output> {
    let (reader, mut writer) = std::io::pipe().context("making a pipe")?;
    // A program that ends without reading all says why by its status.
    start(move || drop(writer.write_all(&input)))?;
    printed(command.stdin(reader), deadline, limit)
}

fn printed(command: &mut Command, deadline: Duration, limit: usize) -> Result<Output> {
    let (reader, writer) = std::io::pipe().context("making a pipe")?;
    command.stdout(writer);
    let printed = Arc::new(Mutex::new(Printed::default()));
    let into = printed.clone();
    start(move || read(reader, limit, &into))?;
    let status = run_for(command, Some(deadline));
    // The command has an end of each pipe too.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = status?;
    let (mut since, mut known) = (Instant::now(), 0);
    loop {
        let mut now = printed.lock().unwrap_or_else(PoisonError::into_inner);
        if now.bytes.len() > known {
            (since, known) = (Instant::now(), now.bytes.len());
        }
        if now.ended || since.elapsed() >= QUIET {
            return Ok(Output {
                status,
                bytes: std::mem::take(&mut now.bytes),
                truncated: now.truncated,
            });
        }
        drop(now);
        std::thread::sleep(TICK);
    }
}

fn read(mut from: PipeReader, limit: usize, into: &Mutex<Printed>) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            // Output before an error counts; the status tells of the error.
            Err(_) => 0,
        };
        let mut printed = into.lock().unwrap_or_else(PoisonError::into_inner);
        if count == 0 {
            printed.ended = true;
            return;
        }
        let kept = count.min(limit - printed.bytes.len());
        printed.bytes.extend_from_slice(&buffer[..kept]);
        printed.truncated |= kept < count;
    }
}

/// The answer of a program to a question such as `--version`, without its errors.
pub(crate) fn said_by(command: &mut Command) -> Result<String> {
    let said = output(command.stderr(Stdio::null()), PATIENCE, SAID)?;
    if said.status.is_none() {
        refuse!("no answer within {} s", PATIENCE.as_secs());
    }
    Ok(said.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, deadline: f64, limit: usize) -> (Output, f64) {
        let start = Instant::now();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let output = output(&mut command, Duration::from_secs_f64(deadline), limit).unwrap();
        (output, start.elapsed().as_secs_f64())
    }

    #[test]
    fn deadlines_hold_for_pipes_that_stay_open_and_for_long_output() {
        let (left, seconds) = run("sleep 9 & echo said", 20.0, 100);
        assert_eq!(left.bytes, b"said\n");
        assert!(left.status.unwrap().success() && seconds < 8.0);
        let (long, seconds) = run("head -c 300000 /dev/zero", 20.0, 1 << 16);
        assert_eq!((long.bytes.len(), long.truncated), (1 << 16, true));
        assert!(long.status.unwrap().success() && seconds < 15.0);
        let (late, seconds) = run("echo early; exec sleep 30", 1.0, 100);
        assert_eq!(late.bytes, b"early\n");
        assert!(late.status.is_none() && !late.truncated && seconds < 15.0);
    }

    #[test]
    fn input_goes_through_and_may_be_left_unread() {
        let through = |script: &str| {
            let mut command = Command::new("sh");
            let input = vec![b'a'; 1 << 20];
            filtered(command.args(["-c", script]), input, PATIENCE, SAID).unwrap()
        };
        assert_eq!(through("tr a b").bytes, vec![b'b'; 1 << 20]);
        assert!(through("exit 3").status.unwrap().code() == Some(3));
    }
}
