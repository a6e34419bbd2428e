//! What can be wrong with a question.

use hopbyte_fabric::{Fabric, FabricError, InputError, Unroutable};
use thiserror::Error;

/// Why a model gives no answer.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Something is wrong with the fabric, a placement, or a value of the scenario.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Two nodes that have to talk have no route.
    #[error(
        "{0}\nhint: take the fault out, or place the job elsewhere; `fabric check` names all such pairs"
    )]
    Unroutable(String),
    /// Tasks that wait for each other for ever.
    #[error(
        "the program stops at {seconds} s: {operations} operations never end, the first of rank {rank}\nhint: large messages wait for their receiver; look for sends that face each other, or raise eager_bytes"
    )]
    Deadlock {
        /// Rank of the first operation that never ends.
        rank: u32,
        /// How many do not end.
        operations: usize,
        /// When the last one ended.
        seconds: f64,
    },
    /// Packets that wait for each other's room in a circle.
    #[error(
        "packets wait for each other in a circle after {0} s: the routes need more virtual channels than this level has\nhint: `fabric check` names credit loops; level fluid or stalls knows no queues"
    )]
    CreditLoop(f64),
}

impl From<InputError> for ModelError {
    fn from(error: InputError) -> Self {
        Self::Fabric(error.into())
    }
}

impl ModelError {
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
