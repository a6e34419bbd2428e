//! Progress of long operations on standard error.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shorter operations show no bar.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two frames of the spinner.
const TURN: Duration = Duration::from_millis(200);
/// Steps of the bar.
const STEPS: u64 = 1000;

/// A bar that appears after two seconds, and only on a terminal.
pub struct Progress {
    start: Instant,
    quiet: bool,
    bar: Mutex<Option<ProgressBar>>,
}

/// The spinner of a command that shows no bar of its own, or whether there may be none any more.
static SPINNER: Mutex<Spinner> = Mutex::new(Spinner::None);

enum Spinner {
    None,
    Shown(ProgressBar),
    Ended,
}

fn spinner() -> MutexGuard<'static, Spinner> {
    SPINNER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows what runs and for how long, from two seconds on, until [`end_spinner`] or the end of the process; on a terminal
/// only.
pub fn start_spinner(what: String) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    // Without a thread there is no spinner.
    let _ = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(PATIENCE);
        let mut slot = spinner();
        if matches!(*slot, Spinner::None) {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{elapsed} {spinner} {msg}") {
                bar.set_style(style);
            }
            bar.set_message(what);
            bar.set_elapsed(PATIENCE);
            *slot = Spinner::Shown(bar);
        }
        drop(slot);
        // Not the bar's own steady tick: it panics where the system refuses another thread.
        loop {
            match &*spinner() {
                Spinner::Shown(bar) => bar.tick(),
                Spinner::None | Spinner::Ended => return,
            }
            std::thread::sleep(TURN);
        }
    });
}

/// Prints a remark, above the spinner if there is one: the command goes on.
pub fn above_spinner(print: impl FnOnce()) {
    match &*spinner() {
        Spinner::Shown(bar) => bar.suspend(print),
        Spinner::None | Spinner::Ended => print(),
    }
}

/// Ends the spinner, before an answer is printed.
pub fn end_spinner() {
    if let Spinner::Shown(bar) = std::mem::replace(&mut *spinner(), Spinner::Ended) {
        bar.finish_and_clear();
    }
}

impl Progress {
    /// Starts the timer.
    pub fn new(quiet: bool) -> Self {
        end_spinner();
        Self {
            start: Instant::now(),
            quiet,
            bar: Mutex::new(None),
        }
    }

    /// Shows the progress (0..1) and a label; callable from any thread.
    pub fn show(&self, done: f64, at: &str) {
        if self.quiet || self.start.elapsed() < PATIENCE {
            return;
        }
        // A poisoned or busy lock costs one repaint only.
        let Ok(mut slot) = self.bar.try_lock() else {
            return;
        };
        let bar = slot.get_or_insert_with(new_bar);
        bar.set_position((done.clamp(0.0, 1.0) * STEPS as f64) as u64);
        bar.set_message(at.to_owned());
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{elapsed} [{bar:30}] {msg}") {
        bar.set_style(style);
    }
    bar
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Ok(mut slot) = self.bar.lock()
            && let Some(bar) = slot.take()
        {
            bar.finish_and_clear();
        }
    }
}
