//! Events of congestion protection.

use serde::{Deserialize, Serialize};

/// An action of congestion protection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThrottleEvent {
    /// Time.
    pub seconds: f64,
    /// Kind.
    pub kind: ThrottleKind,
    /// The congested router, or the first that throttled itself.
    pub router: String,
    /// Ratio of stalled to forwarding time there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls_per_forwarded: Option<f64>,
    /// The application: 0 is the job, then other jobs in their order; absent if a module acted by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<u32>,
    /// Nodes that are throttled from this time on.
    pub nodes: u32,
}

/// Origin of a throttling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleKind {
    /// The controller.
    Active,
    /// A module by itself.
    Auto,
}
