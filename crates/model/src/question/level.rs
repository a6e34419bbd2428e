//! Levels of detail.

use serde::{Deserialize, Serialize};

/// Level of detail of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Loads of static routes and the bound given by the most loaded resource.
    Static,
    /// Flows that share links over time.
    #[default]
    Fluid,
    /// Flows, with stalls from back-pressure.
    Stalls,
    /// Single packets.
    Packet,
}
