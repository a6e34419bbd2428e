//! A parameter study: its runs, and the journal from which a killed study resumes.

pub mod journal;
pub mod runs;

use crate::error::Result;
use crate::identity::Sum;
use hopbyte_model::Scenario;
use hopbyte_model::sweep::Plan;

/// A fingerprint of all inputs that determine the results of a study.
///
/// # Errors
/// A scenario has no JSON form.
pub fn identity(plan: &Plan, scenarios: &[Scenario]) -> Result<String> {
    let mut sum = Sum::new();
    sum.add(serde_json::to_string(&(plan, scenarios))?.as_bytes());
    Ok(sum.text())
}
