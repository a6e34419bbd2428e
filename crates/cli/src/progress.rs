//! Progress on standard error, for what takes longer than a moment.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Work that ends sooner shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar that appears once the work has taken two seconds, and only on a terminal.
pub struct Progress {
    start: Instant,
    quiet: bool,
    bar: RefCell<Option<ProgressBar>>,
}

impl Progress {
    /// Starts the clock.
    pub fn new(quiet: bool) -> Self {
        Self {
            start: Instant::now(),
            quiet,
            bar: RefCell::new(None),
        }
    }

    /// Shows how far the work is (0..1) and what it is at.
    pub fn show(&self, done: f64, at: &str) {
        if self.quiet || self.start.elapsed() < PATIENCE {
            return;
        }
        let mut slot = self.bar.borrow_mut();
        let bar = slot.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            let style = "{elapsed} [{bar:30}] {msg}";
            bar.set_style(
                ProgressStyle::with_template(style)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar
        });
        bar.set_position((done.clamp(0.0, 1.0) * 1000.0) as u64);
        bar.set_message(at.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
