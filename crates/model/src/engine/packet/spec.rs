//! Parameters of routers.

use crate::network::Network;
use crate::parameters::Parameters;
use hopbyte_fabric::units::Seconds;
use hopbyte_fabric::wire::Protocol;
use hopbyte_fabric::{End, LinkId};

/// Longest delay of a link, and longest time of a phit on a wire, in cycles.
pub(super) const MAX_CYCLES: f64 = 1e9;

/// A router with input queues, virtual channels and credits.
///
/// Time is in cycles of the router. A packet is one or more flits; a flit is the unit that competes for
/// the switch, and takes phits of buffer and of time on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterSpec {
    /// One cycle.
    pub cycle: Seconds,
    /// Bytes of a phit.
    pub phit_bytes: f64,
    /// Kinds of packet that must not wait for each other: 1, or 2 for requests and responses.
    pub networks: u8,
    /// Virtual channels of each kind and dateline class. A ring needs two classes, so that packets
    /// across its closing link cannot deadlock.
    pub channels: u8,
    /// Size of a virtual channel's input queue, in phits.
    pub buffer_phits: u32,
    /// Cycles from the arrival of a packet's head until it requests an output's virtual channel; with
    /// output queues, until it may cross.
    pub route_cycles: u32,
    /// Cycles from the switch to the far end of a link, without the link's own latency.
    pub forward_cycles: u32,
    /// Cycles from a node to its router, and from the switch to a node.
    pub inject_cycles: u32,
    /// Cycles from the switch to a node.
    pub eject_cycles: u32,
    /// Cycles from leaving an input queue until the sender has the credit back.
    pub credit_cycles: u32,
    /// Size of each output's queue, in phits for each virtual channel; 0: no output queues.
    pub output_phits: u32,
    /// Cycles that a phit keeps the switch's input busy.
    pub switch_cycles_per_phit: f64,
    /// Maximum number of outstanding requests of an interface.
    pub window: u32,
    /// Data of a packet, for protocols without a packet size.
    pub plain_packet_bytes: f64,
    /// Wires between a node and its router, each way.
    pub host_channels: u8,
    /// Cycles for a phit on such a wire; the host link's capacity when absent.
    pub host_cycles: Option<f64>,
    /// Whether packets at half a ring's distance take either direction (by the parity of their position; BookSim
    /// draws it at random), where the machine's routing has one rule for all.
    pub spread_ties: bool,
}

impl RouterSpec {
    /// The input-queued router that BookSim simulates with its default pipeline: routing, channel and
    /// switch allocation and traversal of one cycle each, links of two; flits of one phit, one byte
    /// and one cycle of 1 ns.
    pub fn input_queued(channels_each_class: u8, buffer_flits: u32) -> Self {
        Self {
            cycle: Seconds(1e-9),
            phit_bytes: 1.0,
            networks: 1,
            channels: channels_each_class,
            buffer_phits: buffer_flits,
            route_cycles: 1,
            forward_cycles: 4,
            inject_cycles: 2,
            eject_cycles: 3,
            credit_cycles: 5,
            output_phits: 0,
            switch_cycles_per_phit: 1.0,
            window: u32::MAX,
            plain_packet_bytes: 4.0,
            host_channels: 1,
            host_cycles: None,
            spread_ties: true,
        }
    }

    /// Gemini: 800 MHz, 3-byte phits (paper 000, Table I), separate networks for requests and responses, four of
    /// the eight host tiles for each node. Queue sizes are not published: an input queue covers the round
    /// trip of its credits on the fastest tile, an output queue holds two full packets.
    pub fn gemini() -> Self {
        Self {
            cycle: Seconds(1.25e-9),
            phit_bytes: 3.0,
            networks: 2,
            channels: 1,
            buffer_phits: 256,
            route_cycles: 3,
            forward_cycles: 2,
            inject_cycles: 4,
            eject_cycles: 4,
            credit_cycles: 44,
            output_phits: 64,
            switch_cycles_per_phit: 0.5,
            // Covers 7 GB/s over a round trip of 4 us.
            window: 512,
            plain_packet_bytes: 64.0,
            host_channels: 4,
            host_cycles: Some(0.75),
            spread_ties: false,
        }
    }

    /// SeaStar of the XT4: 500 MHz, 64-byte packets of 4-byte phits, four virtual channels (two for each
    /// side of the dateline); no separate network for responses. Latency of a hop is the fabric's.
    pub fn seastar() -> Self {
        Self {
            cycle: Seconds(2e-9),
            phit_bytes: 4.0,
            networks: 1,
            channels: 2,
            buffer_phits: 256,
            route_cycles: 3,
            forward_cycles: 2,
            inject_cycles: 4,
            eject_cycles: 4,
            credit_cycles: 16,
            output_phits: 32,
            switch_cycles_per_phit: 0.5,
            window: u32::MAX,
            plain_packet_bytes: 64.0,
            host_channels: 1,
            host_cycles: None,
            spread_ties: false,
        }
    }

    /// The routers of a network: Gemini's for its protocol, otherwise SeaStar's.
    pub fn of(parameters: &Parameters) -> Self {
        let mut spec = match parameters.protocol {
            Protocol::Gemini(_) => Self::gemini(),
            Protocol::Packets(_) | Protocol::Plain { .. } => Self::seastar(),
        };
        spec.window = parameters.outstanding_requests.unwrap_or(spec.window);
        spec
    }

    /// With a clock and queues that fit the machine: an input has 1.25 times the rate of its wire, as SeaStar's
    /// has, and covers the round trip of its credits. Routers that are already fast and large enough stay
    /// unchanged.
    pub fn fitted(mut self, network: &Network<'_>) -> Self {
        let fabric = network.fabric;
        let rate = |id: LinkId| match (fabric.link(id).from, fabric.link(id).to) {
            (End::Router(_), End::Router(_)) => {
                network.link_rate(id) / fabric.ports(id).len().max(1) as f64
            }
            _ if self.host_cycles.is_some() => 0.0,
            _ => self.phit_bytes / self.cycle.0 / self.host_cycles_per_phit(network, id),
        };
        let fastest = fabric.link_ids().map(rate).fold(0.0, f64::max);
        let passes = self.phit_bytes / (self.switch_cycles_per_phit * self.cycle.0);
        if passes < 1.25 * fastest && fastest.is_finite() {
            self.cycle.0 *= passes / (1.25 * fastest);
        }
        if fastest > 0.0 && fastest.is_finite() {
            let longest = (fabric.link_ids()).map(|id| network.hop_latency(id));
            let there = self.forward_cycles + self.cycles(longest.fold(0.0, f64::max));
            let back = self.credit_cycles + self.route_cycles + 64;
            let room = f64::from(there + back) / self.cycles_per_phit(fastest);
            self.buffer_phits = self.buffer_phits.max(room as u32);
        }
        self
    }

    /// Total number of virtual channels of an input.
    pub(super) fn lanes(&self) -> usize {
        usize::from(self.networks) * 2 * usize::from(self.channels)
    }

    /// A time in cycles.
    pub(super) fn cycles(&self, seconds: f64) -> u32 {
        (seconds / self.cycle.0).round().min(MAX_CYCLES) as u32
    }

    /// A time in cycles, without an upper limit.
    pub(super) fn whole_cycles(&self, seconds: f64) -> u64 {
        (seconds / self.cycle.0).round() as u64
    }

    /// Cycles for a phit at a rate.
    pub(super) fn cycles_per_phit(&self, bytes_per_s: f64) -> f64 {
        self.phit_bytes / (bytes_per_s * self.cycle.0)
    }

    pub(super) fn host_cycles_per_phit(&self, network: &Network<'_>, link: LinkId) -> f64 {
        let point = network.point.injection;
        match self.host_cycles {
            Some(cycles) => cycles / point,
            None => {
                let spec = network.fabric.link(link);
                let shared = match (spec.from, spec.to) {
                    (End::Hosts(r), _) | (_, End::Hosts(r)) => network.fabric.nodes_on(r).len(),
                    _ => 1,
                };
                let wires = f64::from(self.host_channels) * shared as f64;
                self.cycles_per_phit(spec.capacity().0 * point / wires)
            }
        }
    }
}
