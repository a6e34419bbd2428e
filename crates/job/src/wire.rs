//! Protocol bytes beside the payload, as options of every interface.

use hopbyte_fabric::wire::{Loads, Overhead};
use hopbyte_fabric::{Exchange, Fabric, FabricError, Traffic};
use hopbyte_map::Turn;

/// Protocol bytes beside the payload of messages, as options.
#[derive(Clone, Debug)]
pub struct WireOptions {
    /// `auto` (by the machine), `payload`, or a network of [`hopbyte_fabric::wire::NETWORKS`].
    pub network: String,
    /// In place of a network: bytes on the way back for each byte of payload.
    pub response_fraction: Option<f64>,
}

impl WireOptions {
    /// The default of all interfaces.
    pub const DEFAULT_NETWORK: &'static str = "auto";

    /// Payload only.
    pub fn payload() -> Self {
        Self {
            network: "payload".into(),
            response_fraction: None,
        }
    }

    /// Bytes on the wire of this machine for a job.
    ///
    /// # Errors
    /// An unknown network, a share below zero, or sums beyond any number.
    pub fn loads(&self, fabric: &Fabric, exchange: &Exchange) -> Result<Loads, FabricError> {
        let overhead = match self.response_fraction {
            Some(fraction) => Overhead::response(fraction),
            None => Overhead::named(&self.network, fabric),
        };
        overhead?.loads(fabric, exchange)
    }

    /// Phases that follow one another, each with its bytes on the wire.
    ///
    /// # Errors
    /// Those of [`WireOptions::loads`].
    pub fn turns(&self, fabric: &Fabric, traffic: &Traffic) -> Result<Vec<Turn>, FabricError> {
        Turn::all(traffic, |exchange| {
            Ok(self.loads(fabric, exchange)?.exchange)
        })
    }
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            network: Self::DEFAULT_NETWORK.into(),
            response_fraction: None,
        }
    }
}
