//! Congestion protection of a machine (paper 002, II.G).

use super::level::Level;
use super::limits::positive;
use crate::error::ModelError;
use serde::{Deserialize, Serialize};

/// Rules of congestion protection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protection {
    /// Ratio of stalled to forwarding time at a router's inputs above which it is congested; no active
    /// throttling without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls_per_forwarded: Option<f64>,
    /// Time for which the ratio has to be above the threshold.
    #[serde(default)]
    pub period_s: f64,
    /// Share of its injection that a throttled node keeps.
    pub throttle: f64,
    /// Routers, or nodes for their routers, with a module that has no connection to the controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreachable: Vec<String>,
    /// Delay after which such a module throttles its nodes.
    #[serde(default)]
    pub patience_s: f64,
}

impl Protection {
    pub(crate) fn check(&self, level: Level) -> Result<(), ModelError> {
        let wrong = |what: &str, found: f64, expected: &str| {
            Err(ModelError::out_of_range(what, &found, expected))
        };
        if !(self.throttle > 0.0 && self.throttle <= 1.0) {
            return wrong("protection: throttle", self.throttle, "above 0, up to 1");
        }
        if let Some(threshold) = self.stalls_per_forwarded {
            positive("protection: stalls_per_forwarded", threshold)?;
            if !matches!(level, Level::Stalls | Level::Packet) {
                return Err(ModelError::out_of_range(
                    "level of a scenario with active throttling",
                    &format!("{level:?}").to_lowercase(),
                    "stalls or packet: other levels know no stalls",
                ));
            }
            if level == Level::Packet {
                positive("protection: period_s, packet by packet", self.period_s)?;
            }
        }
        for (what, seconds) in [
            ("protection: period_s", self.period_s),
            ("protection: patience_s", self.patience_s),
        ] {
            if !(seconds.is_finite() && seconds >= 0.0) {
                return wrong(what, seconds, "a time not below zero");
            }
        }
        if !self.unreachable.is_empty() && level == Level::Static {
            return Err(ModelError::out_of_range(
                "level of a scenario with auto-throttling",
                &"static",
                "fluid, stalls or packet",
            ));
        }
        Ok(())
    }
}
