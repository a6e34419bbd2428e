//! A parameter study: its runs, and the journal that lets a killed one go on.

pub mod journal;
pub mod runs;

use crate::identity::Sum;
use anyhow::Result;
use hopbyte_model::Scenario;
use hopbyte_model::sweep::Plan;

/// A fingerprint of everything that decides the results of a study.
///
/// # Errors
/// JSON cannot say a scenario.
pub fn identity(plan: &Plan, scenarios: &[Scenario]) -> Result<String> {
    let mut sum = Sum::new();
    sum.add(serde_json::to_string(&(plan, scenarios))?.as_bytes());
    Ok(sum.text())
}
