//! Load of all messages of a job on their routes.

use super::Network;
use super::message::Wire;
use crate::error::{FabricError, InputError};
use crate::fabric::{Fabric, Family};
use crate::traffic::{Exchange, Message};
use crate::units::bytes_text;

/// Assumed size of a message if the number of messages is unknown: so large that the overhead per byte is at its
/// minimum.
const LARGE: f64 = 1_048_576.0;

/// Assumption for payload only.
const PAYLOAD: &str = "payload only";

/// Overhead included with the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Overhead {
    /// None: payload only.
    #[default]
    Payload,
    /// Bytes on the way back per byte of payload.
    Response(f64),
    /// The complete overhead of a network's protocol.
    Network(&'static Network),
}

/// Loads of a job, with their assumptions.
#[derive(Clone, Debug, PartialEq)]
pub struct Loads {
    /// The overhead included.
    pub overhead: Overhead,
    /// The assumptions, as text.
    pub assumed: String,
    /// Bytes of messages.
    pub payload_bytes: f64,
    /// Bytes of the same messages on the wire, sum of both directions.
    pub wire_bytes: f64,
    /// Bytes on the route from task to task: its own messages, and the responses to messages in the other direction.
    /// `None`: equal to the payload.
    pub exchange: Option<Exchange>,
}

impl Loads {
    /// One line for reports; `None` if payload only is the default of the machine's family.
    pub fn text(&self) -> Option<String> {
        let (payload, wire) = (bytes_text(self.payload_bytes), bytes_text(self.wire_bytes));
        match self.overhead {
            Overhead::Payload if self.assumed == PAYLOAD => None,
            Overhead::Payload => Some(format!("bytes on the wire: {}", self.assumed)),
            _ => Some(format!(
                "bytes on the wire, {}: {wire} for {payload} of payload; {}",
                self.overhead.name(),
                self.assumed
            )),
        }
    }
}

impl Overhead {
    /// Names for [`Overhead::named`], with their meanings.
    pub fn choices() -> impl Iterator<Item = (&'static str, &'static str)> {
        let networks = super::NETWORKS.iter().map(|n| (n.name, n.assumed));
        [
            (
                "auto",
                "the machine's network if its protocol is known, else payload",
            ),
            ("payload", "bytes of messages alone"),
        ]
        .into_iter()
        .chain(networks)
    }

    /// The overhead of the machine's family if it determines the network, otherwise payload only.
    pub fn of(fabric: &Fabric) -> Self {
        Network::of(fabric.family()).map_or(Self::Payload, Self::Network)
    }

    /// By name: `auto` (see [`Overhead::of`]), `payload`, or a network.
    ///
    /// # Errors
    /// An unknown name.
    pub fn named(name: &str, fabric: &Fabric) -> Result<Self, FabricError> {
        match name {
            "auto" => Ok(Self::of(fabric)),
            "payload" => Ok(Self::Payload),
            _ => match Network::named(name) {
                Some(network) => Ok(Self::Network(network)),
                None => {
                    let names: Vec<&str> = Self::choices().map(|c| c.0).collect();
                    let expected = format!("one of {}", names.join(", "));
                    Err(InputError::new("bytes on the wire", name, expected).into())
                }
            },
        }
    }

    /// A fraction of the payload on the way back.
    ///
    /// # Errors
    /// A negative fraction, or one above 1,000.
    pub fn response(fraction: f64) -> Result<Self, FabricError> {
        match (0.0..=1000.0).contains(&fraction) {
            true => Ok(Self::Response(fraction)),
            false => Err(FabricError::OutOfRange {
                what: "response fraction".into(),
                found: fraction.to_string(),
                expected: "a number from 0 to 1000".into(),
            }),
        }
    }

    /// The overhead's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Response(_) => "response-fraction",
            Self::Network(network) => network.name,
        }
    }

    /// Bytes of an entry of traffic on the way to the receiver, and on the way back.
    fn both_ways(&self, message: &Message) -> (f64, f64) {
        match self {
            Self::Payload => (message.bytes, 0.0),
            Self::Response(fraction) => (message.bytes, fraction * message.bytes),
            Self::Network(network) => {
                let count = match message.messages {
                    0 => message.bytes / LARGE,
                    n => n as f64,
                };
                if count <= 0.0 {
                    return (0.0, 0.0);
                }
                let Wire { forward, backward } =
                    network.protocol.wire(message.bytes / count) * count;
                (forward.bytes(), backward.bytes())
            }
        }
    }

    /// The loads of a job; the size of a message is the mean of its pair of tasks.
    ///
    /// # Errors
    /// Sums outside the range of numbers.
    pub fn loads(&self, fabric: &Fabric, exchange: &Exchange) -> Result<Loads, FabricError> {
        let payload_bytes = exchange.total_bytes();
        let uncounted = exchange.iter().filter(|(_, m)| m.messages == 0).count();
        let assumed = self.assumed(fabric, uncounted, exchange.pairs());
        if *self == Self::Payload {
            return Ok(Loads {
                overhead: *self,
                assumed,
                payload_bytes,
                wire_bytes: payload_bytes,
                exchange: None,
            });
        }
        // Most entries are like the one before.
        let mut last = (Message::default(), self.both_ways(&Message::default()));
        let entries = exchange.iter().flat_map(|(from, message)| {
            if (message.bytes, message.messages) != (last.0.bytes, last.0.messages) {
                last = (*message, self.both_ways(message));
            }
            let (there, back) = last.1;
            [(from, message.to, there, 0), (message.to, from, back, 0)]
        });
        let exchange = Exchange::new(exchange.tasks(), entries)?;
        Ok(Loads {
            overhead: *self,
            assumed,
            payload_bytes,
            wire_bytes: exchange.total_bytes(),
            exchange: Some(exchange),
        })
    }

    fn assumed(&self, fabric: &Fabric, uncounted: usize, pairs: usize) -> String {
        match self {
            Self::Payload => match fabric.family() {
                Family::Aries => {
                    "payload only: sizes of Aries's packet headers are not known".into()
                }
                Family::Slingshot => {
                    "payload only: sizes of Slingshot's packet headers are not known".into()
                }
                _ => PAYLOAD.into(),
            },
            Self::Response(fraction) => {
                format!("{fraction} bytes on the way back for each byte of payload")
            }
            Self::Network(network) if uncounted > 0 => format!(
                "{}; {uncounted} of {pairs} pairs of tasks without a count of messages, taken as large messages",
                network.assumed
            ),
            Self::Network(network) => network.assumed.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    fn loads(fabric: &str, name: &str, entries: &[(u32, u32, f64, u64)]) -> Loads {
        let fabric = spec::fabric(fabric).unwrap();
        let exchange = Exchange::new(3, entries.iter().copied()).unwrap();
        let overhead = Overhead::named(name, &fabric).unwrap();
        overhead.loads(&fabric, &exchange).unwrap()
    }

    #[test]
    fn responses_are_loads_of_the_way_back() {
        let found = loads(
            "gemini:2x2x2",
            "auto",
            &[(0, 1, 16.0, 1), (1, 0, 16.0, 1), (2, 0, 16.0, 2)],
        );
        // One PUT of 48 + 16 bytes is 96 bytes forward and 9 back; two of 48 + 8 bytes are 87 each.
        let exchange = found.exchange.unwrap();
        assert_eq!(exchange.sends(0)[0].bytes, 96.0 + 9.0);
        assert_eq!(exchange.sends(0)[1].bytes, 2.0 * 9.0);
        assert_eq!(exchange.sends(2)[0].bytes, 2.0 * 87.0);
        assert_eq!(
            (found.overhead.name(), found.payload_bytes),
            ("gemini", 48.0)
        );
        assert_eq!(found.wire_bytes, 2.0 * 105.0 + 2.0 * 96.0);
    }

    #[test]
    fn traffic_without_counts_is_large_messages_and_says_so() {
        let found = loads("gemini:2x2x2", "auto", &[(0, 1, 64.0, 0), (1, 2, 1.0, 0)]);
        let exchange = found.exchange.unwrap();
        let (a, b) = (exchange.sends(0)[0].bytes, exchange.sends(1)[1].bytes);
        assert!(
            (a - 96.0).abs() < 0.1 && (a / b - 64.0).abs() < 1e-9,
            "{a} {b}"
        );
        assert!(found.assumed.contains("2 of 2 pairs"), "{}", found.assumed);
    }

    #[test]
    fn machines_without_a_known_protocol_carry_payload() {
        for (fabric, said) in [
            ("torus:4x4", "payload only"),
            ("aries:2x1x4", "Aries's"),
            ("slingshot:2x4", "Slingshot's"),
        ] {
            let found = loads(fabric, "auto", &[(0, 1, 64.0, 1)]);
            assert_eq!((found.overhead.name(), found.exchange), ("payload", None));
            assert_eq!((found.payload_bytes, found.wire_bytes), (64.0, 64.0));
            assert!(found.assumed.contains(said), "{}", found.assumed);
        }
        let fabric = spec::fabric("torus:4x4").unwrap();
        let error = Overhead::named("token-ring", &fabric)
            .unwrap_err()
            .to_string();
        assert!(error.contains("infiniband"), "{error}");
    }
}
