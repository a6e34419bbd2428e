//! Limits of values, checked before memory is allocated for them.

use crate::error::ModelError;
use hopbyte_fabric::bounds::MAX_BYTES;

/// Maximum number of ranks of a job.
pub const MAX_RANKS: u64 = 1 << 24;

/// Maximum number of messages of a job that is simulated message by message, and of a phase.
const MAX_MESSAGES: u64 = 1 << 27;

pub(crate) fn positive(what: &str, value: f64) -> Result<(), ModelError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(ModelError::out_of_range(
        what,
        &value,
        "a number above zero",
    ))
}

/// Rejects invalid message sizes.
pub(crate) fn size(what: &str, bytes: f64) -> Result<(), ModelError> {
    if (0.0..=MAX_BYTES).contains(&bytes) {
        return Ok(());
    }
    let expected = format!("a number not below zero, up to {MAX_BYTES:e}");
    Err(ModelError::out_of_range(what, &bytes, expected))
}

/// Messages of a step with global reductions, each by recursive doubling.
pub(crate) fn step_messages(messages: u64, ranks: u64, reductions: u32) -> u64 {
    let each = ranks.saturating_mul(u64::from(ranks.max(1).ilog2()) + 2);
    messages.saturating_add(each.saturating_mul(reductions.into()))
}

/// Rejects more messages than can be simulated one by one.
pub(crate) fn countable(messages: u64) -> Result<(), ModelError> {
    if messages <= MAX_MESSAGES {
        return Ok(());
    }
    let expected =
        format!("at most {MAX_MESSAGES} (fewer ranks, iterations or reductions, or phases = true)");
    Err(ModelError::out_of_range("messages", &messages, expected))
}

pub(crate) fn not_negative(what: &str, value: f64) -> Result<(), ModelError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(ModelError::out_of_range(
        what,
        &value,
        "a number not below zero",
    ))
}

/// Product of extents, each at least 1.
pub(crate) fn product(grid: &[u32]) -> Result<u64, ModelError> {
    let total = grid.iter().try_fold(1u64, |n, &g| n.checked_mul(g.into()));
    match total {
        Some(n) if (1..=MAX_RANKS).contains(&n) => Ok(n),
        _ => {
            let expected = format!("extents from 1, at most {MAX_RANKS} ranks in all");
            Err(ModelError::out_of_range(
                "grid",
                &format!("{grid:?}"),
                expected,
            ))
        }
    }
}
