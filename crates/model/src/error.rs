//! Errors of scenarios and models.

use hopbyte_fabric::{Class, Fabric, FabricError, InputError, Unroutable};
use thiserror::Error;

/// Why a model gives no result.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Something is wrong with the fabric, a placement, or a value of the scenario.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Two nodes that exchange messages have no route.
    #[error(
        "{0}\nhint: remove the fault, or place the job elsewhere; `fabric check` names all such pairs"
    )]
    Unroutable(String),
    /// Deadlock: tasks that wait for each other.
    #[error(
        "the program stops at {seconds} s: {operations} operations never end, the first of rank {rank}\nhint: {}",
        stuck(*.held_bytes)
    )]
    Deadlock {
        /// Rank of the first operation that never ends.
        rank: u32,
        /// Number of operations that never end.
        operations: usize,
        /// Time at which the last operation ended.
        seconds: f64,
        /// Smallest message that waits for its receiver, if there is one.
        held_bytes: Option<f64>,
    },
    /// Deadlock: packets that wait for each other's buffers in a cycle.
    #[error(
        "deadlock of packets after {0} s: the routes need more virtual channels than this level has\nhint: `fabric check` names credit loops; levels fluid and stalls have no queues"
    )]
    CreditLoop(f64),
}

fn stuck(held_bytes: Option<f64>) -> String {
    match held_bytes {
        Some(bytes) => format!(
            "messages of {bytes} B and more wait for their receivers; look for blocking sends of two ranks to each other, or raise eager_bytes"
        ),
        None => "ranks wait for messages that are sent after these waits: look at the order of their calls".into(),
    }
}

impl From<InputError> for ModelError {
    fn from(error: InputError) -> Self {
        Self::Fabric(error.into())
    }
}

impl ModelError {
    /// Class of the error.
    pub fn class(&self) -> Class {
        match self {
            Self::Fabric(error) => error.class(),
            Self::Unroutable(_) => Class::NoRoute,
            Self::Deadlock { .. } => Class::Deadlock,
            Self::CreditLoop(_) => Class::CreditLoop,
        }
    }

    /// A pair without a route, in the machine's names.
    pub fn unroutable(fabric: &Fabric, pair: &Unroutable) -> Self {
        Self::Unroutable(pair.describe(fabric))
    }

    /// A value outside its range.
    pub fn out_of_range(
        what: impl Into<String>,
        found: &dyn ToString,
        expected: impl Into<String>,
    ) -> Self {
        Self::Fabric(FabricError::OutOfRange {
            what: what.into(),
            found: found.to_string(),
            expected: expected.into(),
        })
    }
}
