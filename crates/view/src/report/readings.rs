//! Drawable quantities of a link state, and their coverage as text.

use crate::draw::{ERRORS, LinkLoads, Unit};
use hopbyte_fabric::units::Seconds;
use hopbyte_fabric::units::count;
use hopbyte_fabric::{Column, LinkState};

/// All columns with values, the most informative first: shares if the window is known, plain
/// numbers if not. Errors are among them if there are any.
pub fn loads(state: &LinkState) -> Vec<LinkLoads> {
    let erring = state.errors.as_slice().iter().any(|&e| e > 0.0);
    let either = |name: &str, share: &Column, plain_name: &str, unit: Unit, plain: &Column| {
        if share.known() > 0 {
            LinkLoads::of_column(name, Unit::Ratio, share)
        } else {
            LinkLoads::of_column(plain_name, unit, plain)
        }
    };
    let s = state;
    let (bytes, input, credit) = (
        &s.received_bytes,
        &s.input_stall_seconds,
        &s.credit_stall_seconds,
    );
    [
        either(
            "used share of capacity",
            &s.used_ratio,
            "bytes received",
            Unit::Bytes,
            bytes,
        ),
        either(
            "input stall",
            &s.input_stall_ratio,
            "input stall",
            Unit::Seconds,
            input,
        ),
        either(
            "credit stall",
            &s.credit_stall_ratio,
            "credit stall",
            Unit::Seconds,
            credit,
        ),
        LinkLoads::of_column("packets", Unit::Count, &s.packets),
    ]
    .into_iter()
    .chain(erring.then(|| LinkLoads::of_column(ERRORS, Unit::Count, &s.errors)))
    .filter(|l| l.values().iter().any(|v| !v.is_nan()))
    .collect()
}

/// Source, window, coverage and join of readings in a sentence or two; `rows` are the rows that named a
/// link of the fabric, and those that named none.
pub fn words(state: &LinkState, source: &str, rows: (usize, usize)) -> String {
    let window = state.window_seconds.map_or_else(
        || "window not known".to_owned(),
        |w| format!("window {}", Seconds(w)),
    );
    let covered = state.links_read();
    let mut text = format!(
        "Readings: {source}; {window}; {} of {} links read.",
        count(covered),
        count(state.coverage.len())
    );
    let (matched, unmatched) = rows;
    if unmatched > 0 {
        let rest = format!(
            " {} of {} rows name no link of this machine.",
            count(unmatched),
            count(matched + unmatched)
        );
        text.push_str(&rest);
    }
    text
}
