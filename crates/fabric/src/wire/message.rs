//! Packets and bytes of a message, on the route to its receiver and on the route back.

use super::gemini::PHIT_BYTES;
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Mul};

/// Packets and phits one way, by virtual channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OneWay {
    /// Request packets (VC0).
    pub vc0_packets: f64,
    /// Response packets (VC1).
    pub vc1_packets: f64,
    /// Phits of requests.
    pub vc0_phits: f64,
    /// Phits of responses.
    pub vc1_phits: f64,
    /// Bytes outside Gemini's virtual channels (other networks).
    pub plain_bytes: f64,
}

impl OneWay {
    /// All bytes on the wire.
    pub fn bytes(&self) -> f64 {
        (self.vc0_phits + self.vc1_phits) * PHIT_BYTES + self.plain_bytes
    }

    /// All packets.
    pub fn packets(&self) -> f64 {
        self.vc0_packets + self.vc1_packets
    }
}

impl AddAssign for OneWay {
    fn add_assign(&mut self, other: Self) {
        self.vc0_packets += other.vc0_packets;
        self.vc1_packets += other.vc1_packets;
        self.vc0_phits += other.vc0_phits;
        self.vc1_phits += other.vc1_phits;
        self.plain_bytes += other.plain_bytes;
    }
}

impl Mul<f64> for OneWay {
    type Output = Self;

    fn mul(self, by: f64) -> Self {
        Self {
            vc0_packets: self.vc0_packets * by,
            vc1_packets: self.vc1_packets * by,
            vc0_phits: self.vc0_phits * by,
            vc1_phits: self.vc1_phits * by,
            plain_bytes: self.plain_bytes * by,
        }
    }
}

/// Load of a message on the route to its receiver and on the route back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wire {
    /// From sender to receiver.
    pub forward: OneWay,
    /// From receiver to sender.
    pub backward: OneWay,
}

impl Wire {
    /// Without virtual channels: bytes forward and back.
    pub fn plain(there: f64, back: f64) -> Self {
        let way = |plain_bytes| OneWay {
            plain_bytes,
            ..OneWay::default()
        };
        Self {
            forward: way(there),
            backward: way(back),
        }
    }

    /// The same message with the directions exchanged.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            forward: self.backward,
            backward: self.forward,
        }
    }
}

impl Add for Wire {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self.forward += other.forward;
        self.backward += other.backward;
        self
    }
}

impl Mul<f64> for Wire {
    type Output = Self;

    fn mul(self, by: f64) -> Self {
        Self {
            forward: self.forward * by,
            backward: self.backward * by,
        }
    }
}
