//! A case of a row: a scenario on its machine.

use crate::error::ModelError;
use crate::question::scenario::Scenario;
use crate::question::{Inputs, Question};
use hopbyte_fabric::{Fabric, Routing};

/// A case's scenario on its machine.
pub(super) struct Case {
    pub(super) scenario: Scenario,
    pub(super) fabric: Fabric,
    pub(super) routing: Routing,
}

impl Case {
    pub(super) fn question(&self) -> Result<Question<'_>, ModelError> {
        Question::new(
            &self.scenario,
            &self.fabric,
            &self.routing,
            &Inputs::default(),
        )
    }
}
