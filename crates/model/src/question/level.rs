//! Levels of detail.

use serde::{Deserialize, Serialize};

/// How exactly a model looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Loads of static routes and the bound that the fullest resource sets.
    Static,
    /// Flows that share links over time.
    #[default]
    Fluid,
    /// Flows, with what back-pressure adds: stalls.
    Stalls,
    /// Every packet.
    Packet,
}
