//! Parameters of a network: rates and delays beyond its links, and the operating points of a
//! machine.

use hopbyte_fabric::wire::{GeminiMpi, Packets, Protocol};
use hopbyte_fabric::{FabricError, InputError};
use serde::{Deserialize, Serialize};

/// Rates and delays that are not part of the fabric. Presets state their sources; every value can be set
/// in a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Bytes of messages on the wires.
    pub protocol: Protocol,
    /// Share of a link's raw capacity that packets can fill.
    pub link_efficiency: f64,
    /// Payload rate of a node into the network.
    pub injection_bytes_per_s: Option<f64>,
    /// Payload rate of a node out of the network.
    pub ejection_bytes_per_s: Option<f64>,
    /// Joint payload rate of all nodes of a router into the network, and out of it, if they share a path
    /// before the router's tiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router_bytes_per_s: Option<f64>,
    /// Bytes of heads, commands and events between processor and interface for a message, both ends
    /// together: at a lower injection bandwidth they take longer. `latency_s` includes their time at the
    /// full one.
    #[serde(default)]
    pub host_crossing_bytes: f64,
    /// Whether host links between nodes and router limit traffic like other links.
    pub host_links: bool,
    /// Time from send to receive of an empty message, without its hops.
    pub latency_s: f64,
    /// Delay of each link of a route, in place of the fabric's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_latency_s: Option<f64>,
    /// Messages that a node can start per second.
    pub messages_per_s: Option<f64>,
    /// Time that a processor needs to send or receive one message.
    pub overhead_s: f64,
    /// Rate at which the processes of a node can exchange bytes through memory.
    pub memory_bytes_per_s: f64,
    /// Latency of a message within a node.
    pub memory_latency_s: f64,
    /// Messages up to this size leave without waiting for the receiver.
    pub eager_bytes: f64,
    /// Whether larger ones go on while their ranks compute.
    #[serde(default = "yes")]
    pub asynchronous_progress: bool,
    /// Maximum number of outstanding requests of an interface, at packet level; the router's preset when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding_requests: Option<u32>,
    /// Links as queues of frames, for programs; absent: messages are flows that share links fairly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Queues>,
    /// Source of the values.
    pub calibration: String,
}

/// Links that serve frames first come, first served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queues {
    /// Data of a connection (a pair of nodes) that may be under way at first; it grows by what is acknowledged.
    pub first_window_bytes: f64,
    /// The most that may be under way.
    pub window_bytes: f64,
    /// Bytes that an idle link passes at once (a token bucket); 0: none.
    #[serde(default)]
    pub burst_bytes: f64,
}

/// Names of the presets.
pub const PRESETS: [&str; 5] = ["gemini", "seastar", "infiniband", "ethernet", "plain"];

impl Parameters {
    /// Parameters by name.
    pub fn preset(name: &str) -> Result<Self, FabricError> {
        match name {
            "gemini" => Ok(Self::gemini()),
            "seastar" => Ok(Self::seastar()),
            "infiniband" => Ok(Self::infiniband()),
            "ethernet" => Ok(Self::ethernet()),
            "plain" => Ok(Self::plain()),
            _ => Err(InputError::new("network", name, "a network that is known")
                .hint(format!("networks are {}", PRESETS.join(", ")))
                .into()),
        }
    }

    /// Cray Gemini under Cray MPI.
    pub fn gemini() -> Self {
        Self {
            protocol: Protocol::Gemini(GeminiMpi::default()),
            // Paper 002, Table I: 35 % protocol overhead for large messages, of which 1/3 are the
            // heads of PUT requests (64 of 96 bytes): 0.65 / (64 / 96).
            link_efficiency: 0.975,
            // Paper 002, I: single-threaded bandwidths approach 7 GB/s.
            injection_bytes_per_s: Some(7.0e9),
            ejection_bytes_per_s: Some(7.0e9),
            // An interface moves 64 bytes in 5 cycles of 650 MHz (published peak of 8.3 GB/s). Paper 002, III.E
            // shows that both interfaces of a Gemini share one such path (two senders reach a
            // little over 8.2 GB/s, over links of 15).
            router_bytes_per_s: Some(64.0 * 650e6 / 5.0),
            host_crossing_bytes: 0.0,
            // 10.4 GB/s is an estimate (paper 000, Table II), which paper 002, III.E exceeds.
            host_links: false,
            // Hopper: 1.27 us to the nearest node, 105 ns a hop.
            latency_s: 1.165e-6,
            hop_latency_s: None,
            messages_per_s: None,
            overhead_s: 0.3e-6,
            memory_bytes_per_s: 20e9,
            memory_latency_s: 0.5e-6,
            eager_bytes: 4096.0,
            asynchronous_progress: true,
            outstanding_requests: None,
            queues: None,
            calibration:
                "paper 002 Table I and I (efficiency, injection); Hopper's published latencies"
                    .into(),
        }
    }

    /// Cray XT4 SeaStar; link and host capacities of the fabric are payload rates.
    pub fn seastar() -> Self {
        Self {
            protocol: Protocol::Plain {
                wire_bytes_per_byte: 1.0,
            },
            link_efficiency: 1.0,
            injection_bytes_per_s: None,
            ejection_bytes_per_s: None,
            router_bytes_per_s: None,
            // The sender's command, the fetch of its header, the header at the receiver and its event:
            // four packets of HyperTransport with 64 bytes each.
            host_crossing_bytes: 4.0 * 64.0,
            host_links: true,
            // Red Storm under Catamount: about 5 us (generic portals), 2 us required of hardware.
            latency_s: 5.0e-6,
            hop_latency_s: None,
            messages_per_s: None,
            overhead_s: 1.0e-6,
            memory_bytes_per_s: 4e9,
            memory_latency_s: 1.0e-6,
            eager_bytes: 131_072.0,
            asynchronous_progress: true,
            outstanding_requests: None,
            queues: None,
            calibration: "paper 001, III (link 3092 MB/s, injection 62.5 % of 3.2 GB/s)".into(),
        }
    }

    /// InfiniBand: headers and acknowledgements as its port counters include them, no delays.
    pub fn infiniband() -> Self {
        Self {
            protocol: Protocol::Packets(Packets::INFINIBAND),
            ..Self::plain()
        }
    }

    /// TCP over Ethernet: frames in the queues of links, no delays.
    pub fn ethernet() -> Self {
        Self {
            protocol: Protocol::Packets(Packets::TCP),
            queues: Some(Queues {
                // Ten segments (RFC 6928); Linux's largest send buffer.
                first_window_bytes: 14_480.0,
                window_bytes: 4_194_304.0,
                burst_bytes: 0.0,
            }),
            // Open MPI over TCP (btl_tcp_eager_limit).
            eager_bytes: 65_536.0,
            // Its kernel moves bytes, not requests.
            asynchronous_progress: false,
            ..Self::plain()
        }
    }

    /// A network with its links' capacities as payload rates, without delays.
    pub fn plain() -> Self {
        Self {
            protocol: Protocol::Plain {
                wire_bytes_per_byte: 1.0,
            },
            link_efficiency: 1.0,
            injection_bytes_per_s: None,
            ejection_bytes_per_s: None,
            router_bytes_per_s: None,
            host_crossing_bytes: 0.0,
            host_links: true,
            latency_s: 0.0,
            hop_latency_s: None,
            messages_per_s: None,
            overhead_s: 0.0,
            memory_bytes_per_s: f64::MAX,
            memory_latency_s: 0.0,
            eager_bytes: f64::MAX,
            asynchronous_progress: true,
            outstanding_requests: None,
            queues: None,
            calibration: "uncalibrated".into(),
        }
    }

    /// As a table, for changes.
    ///
    /// # Errors
    /// A value that TOML cannot hold.
    pub fn table(&self) -> Result<toml::Table, FabricError> {
        toml::Table::try_from(self).map_err(|e| wrong(e.to_string()))
    }

    /// From a table, checked.
    ///
    /// # Errors
    /// A field that is unknown or missing; a value outside its range.
    pub fn from_table(table: toml::Table) -> Result<Self, FabricError> {
        let read: Result<Self, toml::de::Error> = table.try_into();
        let parameters = read.map_err(|e| wrong(e.message().into()))?;
        parameters.check()?;
        Ok(parameters)
    }

    /// Rejects values outside their range.
    pub fn check(&self) -> Result<(), FabricError> {
        let positive = |v: f64| v > 0.0 && !v.is_nan();
        let not_negative = |v: f64| v >= 0.0 && v.is_finite();
        let optional = |v: Option<f64>| v.is_none_or(positive);
        let wire = match self.protocol {
            Protocol::Plain {
                wire_bytes_per_byte,
            } => wire_bytes_per_byte,
            Protocol::Gemini(mpi) => 1.0 + mpi.in_runs.clamp(0.0, 1.0) - mpi.in_runs,
            Protocol::Packets(packets) if packets.is_valid() => packets.bytes_per_byte(),
            Protocol::Packets(_) => f64::NAN,
        };
        for (name, value, good) in [
            (
                "link_efficiency",
                self.link_efficiency,
                positive(self.link_efficiency) && self.link_efficiency <= 1.0,
            ),
            (
                "injection_bytes_per_s",
                self.injection_bytes_per_s.unwrap_or(0.0),
                optional(self.injection_bytes_per_s),
            ),
            (
                "ejection_bytes_per_s",
                self.ejection_bytes_per_s.unwrap_or(0.0),
                optional(self.ejection_bytes_per_s),
            ),
            (
                "router_bytes_per_s",
                self.router_bytes_per_s.unwrap_or(0.0),
                optional(self.router_bytes_per_s),
            ),
            (
                "host_crossing_bytes",
                self.host_crossing_bytes,
                not_negative(self.host_crossing_bytes),
            ),
            (
                "messages_per_s",
                self.messages_per_s.unwrap_or(0.0),
                optional(self.messages_per_s),
            ),
            (
                "memory_bytes_per_s",
                self.memory_bytes_per_s,
                positive(self.memory_bytes_per_s),
            ),
            ("latency_s", self.latency_s, not_negative(self.latency_s)),
            (
                "hop_latency_s",
                self.hop_latency_s.unwrap_or(0.0),
                self.hop_latency_s.is_none_or(not_negative),
            ),
            ("overhead_s", self.overhead_s, not_negative(self.overhead_s)),
            (
                "memory_latency_s",
                self.memory_latency_s,
                not_negative(self.memory_latency_s),
            ),
            ("eager_bytes", self.eager_bytes, self.eager_bytes >= 0.0),
            (
                "queues",
                self.queues.map_or(1.0, |q| q.first_window_bytes),
                self.queues.is_none_or(|q| {
                    q.first_window_bytes >= 1.0
                        && q.window_bytes >= q.first_window_bytes
                        && not_negative(q.burst_bytes)
                }),
            ),
            ("protocol", wire, positive(wire) && wire.is_finite()),
        ] {
            if !good {
                return Err(FabricError::OutOfRange {
                    what: format!("parameter {name}"),
                    found: value.to_string(),
                    expected: "a rate above zero, a time not below zero, a share up to 1".into(),
                });
            }
        }
        Ok(())
    }
}

fn yes() -> bool {
    true
}

fn wrong(found: String) -> FabricError {
    let error = InputError::new("parameters", found, "fields of the network's parameters");
    error.hint("the book's page on scenarios has them").into()
}

/// Sets a value; tables are merged.
pub fn merge(table: &mut toml::Table, key: &str, value: &toml::Value) {
    match (table.get_mut(key), value) {
        (Some(toml::Value::Table(old)), toml::Value::Table(new)) if old.keys().eq(new.keys()) => {
            for (k, v) in new {
                merge(old, k, v);
            }
        }
        (Some(toml::Value::Table(old)), toml::Value::Table(new)) if !is_choice(old, new) => {
            for (k, v) in new {
                merge(old, k, v);
            }
        }
        _ => {
            table.insert(key.into(), value.clone());
        }
    }
}

/// Whether two tables name different cases of a choice (`{gemini = …}` and `{plain = …}`).
fn is_choice(old: &toml::Table, new: &toml::Table) -> bool {
    old.len() == 1 && new.len() == 1 && !old.keys().eq(new.keys())
}

/// Range of factors that keep every rate and delay finite and above zero.
const FACTORS: std::ops::RangeInclusive<f64> = 1e-9..=1e9;

/// Operating point of a machine, as factors on its normal rates and delays: those tuned in paper 001
/// (link and injection bandwidth), and those that its section 5 proposes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperatingPoint {
    /// Bandwidth of links between routers.
    pub link: f64,
    /// Bandwidth between nodes and the network, both ways.
    pub injection: f64,
    /// Latency, of messages and of hops.
    pub latency: f64,
    /// Messages that a node can start.
    pub message_rate: f64,
    /// Speed of processors.
    pub cpu: f64,
    /// Bandwidth of nodes' memories.
    pub memory: f64,
    /// Length of the scenario's interruptions.
    pub interruptions: f64,
}

impl Default for OperatingPoint {
    fn default() -> Self {
        Self {
            link: 1.0,
            injection: 1.0,
            latency: 1.0,
            message_rate: 1.0,
            cpu: 1.0,
            memory: 1.0,
            interruptions: 1.0,
        }
    }
}

impl OperatingPoint {
    /// Rejects factors outside their range.
    pub fn check(&self) -> Result<(), FabricError> {
        for (name, factor, may_be_zero) in [
            ("link", self.link, false),
            ("injection", self.injection, false),
            ("latency", self.latency, true),
            ("message_rate", self.message_rate, false),
            ("cpu", self.cpu, false),
            ("memory", self.memory, false),
            ("interruptions", self.interruptions, true),
        ] {
            let is_none = may_be_zero && factor == 0.0;
            if !(is_none || FACTORS.contains(&factor)) {
                return Err(FabricError::OutOfRange {
                    what: format!("operating point: {name}"),
                    found: factor.to_string(),
                    expected: "a factor above zero, 1e-9 to 1e9 (1 is the machine as it is)".into(),
                });
            }
        }
        Ok(())
    }
}
