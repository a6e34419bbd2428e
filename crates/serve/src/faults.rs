//! Causes of the last reading as metrics: the answer of `hopbyte blame`, searched for when it is asked for.

use crate::ledger::escaped;
use hopbyte_collect::export::openmetrics::head;
use hopbyte_fabric::LinkState;
use hopbyte_job::Machine;
use hopbyte_job::blame::{Blame, WINDOW, blame};
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Share of the window of [`WINDOW`] that a reading needs: traffic comes in bursts, and a short look accuses healthy links.
const ENOUGH: f64 = 0.9;
/// An answer is kept for as many times the duration of its search.
const REST: u32 = 20;

/// The causes of the last reading that was judged.
#[derive(Default)]
pub struct Faults(Mutex<Option<Kept>>);

struct Kept {
    version: u64,
    until: Instant,
    text: String,
}

impl Faults {
    /// Causes in a reading as OpenMetrics text; only whether there are any that can be told, if its window is too short.
    pub fn text(&self, machine: &Machine, state: Option<&LinkState>, version: u64) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept
            && (kept.version == version || Instant::now() < kept.until)
        {
            return kept.text.clone();
        }
        let start = Instant::now();
        let enough = |s: &&LinkState| s.window_seconds.is_some_and(|w| w >= ENOUGH * WINDOW);
        let found = state.filter(enough).and_then(|state| {
            // What shows none of the faults is not judged.
            blame(&machine.fabric, &machine.routing, state, None).ok()
        });
        let text = text(found.as_ref());
        let rest: Duration = start.elapsed() * REST;
        *kept = Some(Kept {
            version,
            until: Instant::now() + rest,
            text: text.clone(),
        });
        text
    }
}

fn text(found: Option<&Blame>) -> String {
    let mut out = String::new();
    let name = "hopbyte_oracle_faults_judged";
    let help = "Whether the last reading has a window long enough, and counters that are not full, to judge faults";
    // Where waiting is worst its counters are full first: no cause does not mean that there is none.
    let is_judged = found.is_some_and(|f| f.links_full == 0);
    head(&mut out, name, true, help);
    let _ = writeln!(out, "{name} {}", u8::from(is_judged));
    let causes = found.map_or(&[][..], |f| &f.causes);
    if !causes.is_empty() {
        head(
            &mut out,
            "hopbyte_fault",
            true,
            "A cause that hopbyte blame names in the last reading",
        );
    }
    for cause in causes {
        let _ = writeln!(
            out,
            "hopbyte_fault{{fault=\"{}\",kind=\"{}\",name=\"{}\"}} 1",
            cause.fault.words(),
            cause.kind,
            escaped(&cause.name)
        );
    }
    out
}
