//! Runs a command until it ends, a deadline passes or it shall stop.

use crate::error::{Context, Result, refuse};
use std::fmt;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Grace period between the signal to end a job and its kill.
const GRACE: Duration = Duration::from_secs(10);
/// Time in which a job may end by the signal that hopbyte got: a batch system signals the launcher too, and to Open MPI's
/// a second signal means to leave its ranks behind.
const SHARED: Duration = Duration::from_secs(3);
/// Interval between looks at a running process, and the first one: most answers take milliseconds.
const TICK: Duration = Duration::from_millis(20);
const FIRST_TICK: Duration = Duration::from_millis(1);

/// Longest `--deadline` of a job, s.
pub const LONGEST: f64 = 1e6;

/// The time limit of `--deadline`, at most `longest` seconds.
///
/// # Errors
/// It is not above 0, or longer.
pub fn limit(seconds: f64, longest: f64) -> Result<Duration> {
    if !(seconds > 0.0 && seconds <= longest) {
        refuse!("--deadline: found {seconds}, expected seconds above 0, at most {longest}");
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Exited(ExitStatus),
    /// At the deadline.
    Deadline(Duration),
    /// Because `stop` was set.
    Stopped,
}

impl Ended {
    /// Whether it ended by itself, with success.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Exited(status) if status.success())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "the job ended ({status})"),
            Self::Deadline(after) => {
                let seconds = after.as_secs_f64();
                write!(f, "the job was ended at the deadline of {seconds} s")
            }
            Self::Stopped => f.write_str("the job was ended by a signal to hopbyte"),
        }
    }
}

/// Runs a command. At the deadline it gets a signal to end, then a kill; the status is then absent.
pub fn run_for(command: &mut Command, deadline: Option<Duration>) -> Result<Option<ExitStatus>> {
    Ok(
        match run_until(command, deadline, &AtomicBool::new(false))? {
            Ended::Exited(status) => Some(status),
            Ended::Deadline(_) | Ended::Stopped => None,
        },
    )
}

/// Runs a command. At the deadline, or when `stop` is set, it gets a signal to end, then a kill.
pub fn run_until(
    command: &mut Command,
    deadline: Option<Duration>,
    stop: &AtomicBool,
) -> Result<Ended> {
    let mut child = command
        .spawn()
        .with_context(|| format!("starting {}", command.get_program().display()))?;
    let start = Instant::now();
    let mut tick = FIRST_TICK;
    let why = loop {
        if let Some(status) = child.try_wait().context("waiting for the job")? {
            return Ok(Ended::Exited(status));
        }
        if let Some(deadline) = deadline.filter(|&d| start.elapsed() >= d) {
            break Ended::Deadline(deadline);
        }
        if stop.load(Ordering::Relaxed) {
            break Ended::Stopped;
        }
        std::thread::sleep(tick);
        tick = (2 * tick).min(TICK);
    };
    if matches!(why, Ended::Stopped) && wait(&mut child, SHARED)?.is_some() {
        return Ok(why);
    }
    let pid = child.id().to_string();
    let _ = Command::new("kill").args(["-TERM", &pid]).status();
    if wait(&mut child, GRACE)?.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    Ok(why)
}

/// Waits for a process, with a timeout.
fn wait(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut tick = FIRST_TICK;
    loop {
        if let Some(status) = child.try_wait().context("waiting for the job")? {
            return Ok(Some(status));
        }
        if start.elapsed() >= patience {
            return Ok(None);
        }
        std::thread::sleep(tick);
        tick = (2 * tick).min(TICK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batch systems signal all processes of a job.
    #[test]
    fn a_job_may_end_by_the_signal_that_hopbyte_got() {
        let folder = tempfile::tempdir().unwrap();
        let signalled = |seconds: &str| {
            let script = format!("trap 'touch again; kill $!; exit' TERM; sleep {seconds} & wait");
            let mut command = Command::new("sh");
            command.args(["-c", &script]).current_dir(&folder);
            let ended = run_until(&mut command, None, &AtomicBool::new(true)).unwrap();
            assert!(matches!(ended, Ended::Stopped));
            folder.path().join("again").exists()
        };
        assert!(!signalled("0.3"));
        assert!(signalled("20"));
    }
}
