//! Bytes on the wire: the overhead of a network's protocol.
//!
//! Counters include packet headers, and acknowledgements on the way back. A prediction to be compared with counters,
//! or one that weighs small messages against large ones, includes the same. Only this module defines the overhead:
//! [`Protocol::wire`] for one message, [`Overhead::loads`] for all messages of a job.

pub mod gemini;
mod message;
mod overhead;

pub use gemini::GeminiMpi;
pub use message::{OneWay, Wire};
pub use overhead::{Loads, Overhead};

use crate::fabric::Family;
use serde::{Deserialize, Serialize};

/// A network's packet format.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Gemini transactions under MPI.
    Gemini(GeminiMpi),
    /// Packets with headers, acknowledged by packets on the way back.
    Packets(Packets),
    /// A fixed number of bytes on the wire per byte of data, and no response: networks with capacities in bytes of
    /// messages.
    Plain {
        /// Bytes on the wire per byte of data.
        wire_bytes_per_byte: f64,
    },
}

impl Protocol {
    /// Packets and bytes of one message of `bytes` bytes of data, both ways.
    pub fn wire(&self, bytes: f64) -> Wire {
        match self {
            Self::Gemini(mpi) => mpi.wire(bytes),
            Self::Packets(packets) => packets.wire(bytes),
            Self::Plain {
                wire_bytes_per_byte,
            } => Wire::plain(bytes * wire_bytes_per_byte, 0.0),
        }
    }
}

/// A packet protocol.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packets {
    /// Largest payload of a packet.
    pub data_bytes: f64,
    /// Headers and checksums of a packet.
    pub header_bytes: f64,
    /// Data is padded to a multiple of this.
    pub padding_bytes: f64,
    /// An acknowledgement.
    pub answer_bytes: f64,
    /// Packets of a message per acknowledgement; absent: one for the whole message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_per_answer: Option<f64>,
}

impl Packets {
    /// InfiniBand, reliable connection (InfiniBand Architecture Specification, volume 1, chapters 5 to 9): LRH 8, BTH
    /// 12 and ICRC 4 bytes around up to 4,096 bytes of data, an acknowledgement (with AETH, 4 bytes) for each
    /// message. The VCRC is excluded, as in `PortXmitData` and `PortRcvData`.
    pub const INFINIBAND: Self = Self {
        data_bytes: 4096.0,
        header_bytes: 24.0,
        padding_bytes: 4.0,
        answer_bytes: 28.0,
        packets_per_answer: None,
    };

    /// RoCE v2: the same transport with Ethernet 14, FCS 4, IPv4 20 and UDP 8 bytes in place of the LRH. Preamble and
    /// interframe gap, 20 bytes, are excluded, as in the byte counters of interfaces.
    pub const ROCE: Self = Self {
        header_bytes: 62.0,
        answer_bytes: 66.0,
        ..Self::INFINIBAND
    };

    /// TCP over IPv4 and Ethernet with an MTU of 1,500 bytes: Ethernet 14, IP 20, TCP with timestamps 32 bytes, an
    /// acknowledgement for every second segment (RFC 1122, 4.2.3.2). Linux counts no FCS, preamble or gap.
    pub const TCP: Self = Self {
        data_bytes: 1448.0,
        header_bytes: 66.0,
        padding_bytes: 1.0,
        answer_bytes: 66.0,
        packets_per_answer: Some(2.0),
    };

    /// Bytes of a message of `bytes` bytes of data, both ways.
    pub fn wire(&self, bytes: f64) -> Wire {
        let data = (bytes / self.padding_bytes).ceil() * self.padding_bytes;
        Wire::plain(
            data + self.packets(bytes) * self.header_bytes,
            self.answers(bytes) * self.answer_bytes,
        )
    }

    fn packets(&self, bytes: f64) -> f64 {
        (bytes / self.data_bytes).ceil().max(1.0)
    }

    /// Number of acknowledgements of a message.
    pub fn answers(&self, bytes: f64) -> f64 {
        self.packets_per_answer
            .map_or(1.0, |n| (self.packets(bytes) / n).ceil())
    }

    /// Bytes on the wire per byte of a long message, on the way to the receiver.
    pub fn bytes_per_byte(&self) -> f64 {
        1.0 + self.header_bytes / self.data_bytes
    }

    /// Whether the parameters are consistent.
    pub fn is_valid(&self) -> bool {
        let size = |v: f64| v.is_finite() && v > 0.0;
        let answers = self.packets_per_answer.is_none_or(size);
        size(self.data_bytes)
            && size(self.padding_bytes)
            && [self.header_bytes, self.answer_bytes]
                .iter()
                .all(|v| v.is_finite() && *v >= 0.0)
            && answers
    }
}

/// A network with a known protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Name in command lines and documents.
    pub name: &'static str,
    /// The assumptions, as text.
    pub assumed: &'static str,
    /// The protocol.
    pub protocol: Protocol,
}

/// All networks with a known protocol.
pub static NETWORKS: [Network; 4] = [
    Network {
        name: "gemini",
        assumed: "Cray MPI's PUTs, GETs and block transfers by message size, requests and responses \
                  (paper 000, V.D), data not compressed",
        protocol: Protocol::Gemini(GeminiMpi::CRAY),
    },
    Network {
        name: "infiniband",
        assumed: "24 B of headers for each packet of up to 4,096 B, data padded to 4 B, a 28 B acknowledgement for \
                  each message; MPI's own headers are not counted",
        protocol: Protocol::Packets(Packets::INFINIBAND),
    },
    Network {
        name: "roce",
        assumed: "62 B of headers for each packet of up to 4,096 B, data padded to 4 B, a 66 B acknowledgement for \
                  each message; MPI's own headers are not counted",
        protocol: Protocol::Packets(Packets::ROCE),
    },
    Network {
        name: "ethernet",
        assumed: "TCP with an MTU of 1,500 B: 66 B of headers for each segment of up to 1,448 B, a 66 B \
                  acknowledgement for every second one; MPI's own headers are not counted",
        protocol: Protocol::Packets(Packets::TCP),
    },
];

impl Network {
    /// The network of a family of machines; `None` if the protocol is unknown or not determined by the family.
    pub fn of(family: Family) -> Option<&'static Self> {
        match family {
            Family::Gemini => Self::named("gemini"),
            Family::InfiniBand => Self::named("infiniband"),
            // No published description of Aries or of Slingshot's own adapters known to us gives header sizes.
            Family::Aries | Family::Slingshot => None,
            Family::Torus
            | Family::Mesh
            | Family::Dragonfly
            | Family::FatTree
            | Family::HyperX
            | Family::Generic => None,
        }
    }

    /// The network by name.
    pub fn named(name: &str) -> Option<&'static Self> {
        NETWORKS.iter().find(|n| n.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_headers_and_are_acknowledged() {
        let both = |p: Packets, bytes| {
            let wire = p.wire(bytes);
            (wire.forward.bytes(), wire.backward.bytes())
        };
        assert_eq!(both(Packets::INFINIBAND, 0.0), (24.0, 28.0));
        assert_eq!(both(Packets::INFINIBAND, 63.0), (64.0 + 24.0, 28.0));
        assert_eq!(both(Packets::INFINIBAND, 4097.0), (4100.0 + 48.0, 28.0));
        assert_eq!(both(Packets::ROCE, 4096.0), (4096.0 + 62.0, 66.0));
        assert_eq!(both(Packets::TCP, 1448.0 * 5.0), (1514.0 * 5.0, 3.0 * 66.0));
    }

    #[test]
    fn every_network_has_its_name() {
        for network in &NETWORKS {
            assert_eq!(Network::named(network.name), Some(network));
            if let Protocol::Packets(packets) = network.protocol {
                assert!(packets.is_valid());
            }
        }
        assert_eq!(Network::of(Family::Gemini).map(|n| n.name), Some("gemini"));
        assert_eq!(Network::of(Family::Torus), None);
    }
}
