//! A closing with node names: a line of text, or `hopbyte.tick/1` for scripts.

use crate::block::{Absence, Closing};
use serde::Serialize;

/// A closing with node names.
#[derive(Serialize)]
pub struct TickLine {
    schema: &'static str,
    tick: u64,
    time_seconds: f64,
    closed_after_seconds: f64,
    expected: u64,
    reported: u64,
    spread_seconds: Option<f64>,
    skipped_ticks: u64,
    missing: Vec<Missing>,
    late: Vec<Late>,
    reset: Vec<String>,
    frozen: Vec<String>,
    ahead: Vec<String>,
    failed: Vec<String>,
}

#[derive(PartialEq, Eq, Serialize)]
struct Missing {
    node: String,
    why: Absence,
}

#[derive(Serialize)]
struct Late {
    node: String,
    tick: u64,
    delay_seconds: f64,
}

impl TickLine {
    /// `name` returns a node's name by its number.
    pub fn of(closing: &Closing, name: impl Fn(u32) -> String) -> Self {
        let names = |list: &[u32]| list.iter().map(|&id| name(id)).collect();
        let time_ns = closing.tick.saturating_mul(closing.period_ns);
        Self {
            schema: "hopbyte.tick/1",
            tick: closing.tick,
            time_seconds: time_ns as f64 / 1e9,
            closed_after_seconds: closing.closed_ns.saturating_sub(time_ns) as f64 / 1e9,
            expected: closing.expected,
            reported: closing.reported,
            spread_seconds: closing.spread_ns.map(|ns| ns as f64 / 1e9),
            skipped_ticks: closing.skipped,
            missing: closing
                .missing
                .iter()
                .map(|(id, why)| Missing {
                    node: name(*id),
                    why: *why,
                })
                .collect(),
            late: closing
                .late
                .iter()
                .map(|late| Late {
                    node: name(late.node),
                    tick: late.tick,
                    delay_seconds: late.delay_ns as f64 / 1e9,
                })
                .collect(),
            reset: names(&closing.reset),
            frozen: names(&closing.frozen),
            ahead: names(&closing.ahead),
            failed: names(&closing.failed),
        }
    }

    /// Whether nodes are in another state than in the tick before, or something happened that is no state.
    pub fn is_news(&self, before: &Self) -> bool {
        self.expected != before.expected
            || self.missing != before.missing
            || (&self.frozen, &self.ahead, &self.failed)
                != (&before.frozen, &before.ahead, &before.failed)
            || self.skipped_ticks > 0
            || !(self.reset.is_empty() && self.late.is_empty())
    }

    /// One line of text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {} of {} nodes, closed after {:.0} ms",
            clock(self.time_seconds),
            self.reported,
            self.expected,
            self.closed_after_seconds * 1e3
        );
        if let Some(spread) = self.spread_seconds {
            text.push_str(&format!(", spread {:.1} ms", spread * 1e3));
        }
        if self.skipped_ticks > 0 {
            text.push_str(&format!(", {} ticks skipped", self.skipped_ticks));
        }
        let why = |why| match why {
            Absence::Never => "never seen",
            Absence::Gone => "gone",
            Absence::Silent => "silent",
            Absence::Behind => "behind",
        };
        let missing: Vec<String> = self
            .missing
            .iter()
            .map(|m| format!("{} ({})", m.node, why(m.why)))
            .collect();
        let late: Vec<String> = self
            .late
            .iter()
            .map(|l| format!("{} ({:.1} s)", l.node, l.delay_seconds))
            .collect();
        let lists: [(&str, Vec<String>); 6] = [
            ("missing", missing),
            ("late", late),
            ("reset", self.reset.clone()),
            ("frozen", self.frozen.clone()),
            ("clock ahead", self.ahead.clone()),
            ("source failed", self.failed.clone()),
        ];
        for (what, names) in lists.iter().filter(|(_, names)| !names.is_empty()) {
            let shown = names.len().min(SHOWN);
            text.push_str(&format!("; {what}: {}", names[..shown].join(" ")));
            if names.len() > shown {
                text.push_str(&format!(" and {} more", names.len() - shown));
            }
        }
        text
    }
}

/// Names listed in a line of text; JSON has all.
const SHOWN: usize = 8;

/// Time of day in UTC.
fn clock(seconds: f64) -> String {
    let s = seconds.rem_euclid(86_400.0);
    let whole = s as u64;
    let text = format!(
        "{:02}:{:02}:{:02}",
        whole / 3600,
        whole / 60 % 60,
        whole % 60
    );
    if s.fract() == 0.0 {
        text
    } else {
        format!("{text}.{:03.0}", s.fract() * 1e3)
    }
}
