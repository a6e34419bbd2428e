//! Events of congestion protection.

use serde::{Deserialize, Serialize};

/// Something that protection did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThrottleEvent {
    /// When.
    pub seconds: f64,
    /// What.
    pub kind: ThrottleKind,
    /// The congested router, or the first that throttled itself.
    pub router: String,
    /// Stalled time over forwarding time there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls_per_forwarded: Option<f64>,
    /// Which application: 0 is the job, then other jobs in their order; absent where nobody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<u32>,
    /// Nodes that are throttled from then on.
    pub nodes: u32,
}

/// Who throttles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleKind {
    /// The controller.
    Active,
    /// A module by itself.
    Auto,
}
