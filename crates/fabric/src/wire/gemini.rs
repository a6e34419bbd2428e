//! Gemini: packets and phits, request and response.
//!
//! All Gemini traffic consists of transactions of up to 64 bytes: one request packet on virtual channel 0, one
//! response packet on virtual channel 1 (paper 000, V.A). MPI chooses among four protocols by message size (paper
//! 000, V.D, Fig. 5).

use super::message::Wire;
use serde::{Deserialize, Serialize};

/// Bytes of a phit (paper 000, Table I).
pub const PHIT_BYTES: f64 = 3.0;
/// Largest number of user bytes in a transaction.
pub const TRANSACTION_BYTES: f64 = 64.0;
/// Phits of a request without data: the header of a PUT request, a GET request.
const REQUEST_PHITS: f64 = 8.0;
/// Phits of a response without data: a PUT acknowledgement, the header of a GET reply.
const RESPONSE_PHITS: f64 = 3.0;
/// Phits of an 8-byte word of data: 24 for the 64 bytes of a full transaction.
const WORD_PHITS: f64 = 3.0;
const WORD_BYTES: f64 = 8.0;
/// Phits of a run of equal bits of any length within a packet: one word. Paper 000 (V.A) states that runs are
/// compressed, without the ratio; its zeroed message shrank to about a third.
const RUN_PHITS: f64 = 3.0;

/// Phits of some bytes of data, a share of them in runs of equal bits.
fn data_phits(bytes: f64, in_runs: f64) -> f64 {
    let phits = (bytes / WORD_BYTES).ceil() * WORD_PHITS;
    (phits * (1.0 - in_runs) + RUN_PHITS * in_runs).min(phits)
}

/// A PUT of up to 64 bytes: 32 + 3 phits when full.
pub fn put(bytes: f64, in_runs: f64) -> Wire {
    let mut wire = Wire::default();
    wire.forward.vc0_packets = 1.0;
    wire.forward.vc0_phits = REQUEST_PHITS + data_phits(bytes, in_runs);
    wire.backward.vc1_packets = 1.0;
    wire.backward.vc1_phits = RESPONSE_PHITS;
    wire
}

/// A GET of up to 64 bytes by the *receiver* of the data: 8 phits of request, 27 of response when full. Forward is
/// the direction of the data.
pub fn get(bytes: f64, in_runs: f64) -> Wire {
    let mut wire = Wire::default();
    wire.backward.vc0_packets = 1.0;
    wire.backward.vc0_phits = REQUEST_PHITS;
    wire.forward.vc1_packets = 1.0;
    wire.forward.vc1_phits = RESPONSE_PHITS + data_phits(bytes, in_runs);
    wire
}

/// Equal transactions of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// The requester.
    pub by: Side,
    /// The operation.
    pub kind: Transaction,
    /// User bytes of each.
    pub bytes: f64,
    /// Number of transactions.
    pub count: f64,
    /// Share of the bytes in runs of equal bits.
    pub in_runs: f64,
    /// Whether they carry the message's data; the message has arrived when they have.
    pub data: bool,
}

/// A side of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The sender of the message.
    Sender,
    /// The receiver of the message.
    Receiver,
}

/// A transaction of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// Request with data, acknowledgement back.
    Put,
    /// Request without data, data back.
    Get,
}

impl Batch {
    fn control(by: Side, kind: Transaction, count: f64) -> Self {
        Self {
            by,
            kind,
            bytes: TRANSACTION_BYTES,
            count,
            in_runs: 0.0,
            data: false,
        }
    }

    /// Phits of one request and of one response.
    pub fn phits(&self) -> (f64, f64) {
        let data = data_phits(self.bytes, self.in_runs);
        match self.kind {
            Transaction::Put => (REQUEST_PHITS + data, RESPONSE_PHITS),
            Transaction::Get => (REQUEST_PHITS, RESPONSE_PHITS + data),
        }
    }

    /// Total load on the wires.
    pub fn wire(&self) -> Wire {
        let one = match (self.kind, self.by) {
            (Transaction::Put, Side::Sender) => put(self.bytes, self.in_runs),
            (Transaction::Put, Side::Receiver) => put(self.bytes, self.in_runs).reversed(),
            (Transaction::Get, Side::Receiver) => get(self.bytes, self.in_runs),
            (Transaction::Get, Side::Sender) => get(self.bytes, self.in_runs).reversed(),
        };
        one * self.count
    }
}

/// MPI's protocol for a message size (paper 000, V.D).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Regime {
    /// One PUT that carries envelope and data.
    SinglePut,
    /// Envelope and data by several PUTs; the receiver returns mailbox credits by PUTs of its own.
    MultiPut,
    /// The receiver fetches the data by GETs.
    Get,
    /// The block transfer engine PUTs the data after a handshake with a few GETs.
    BlockPut,
}

/// MPI's thresholds between protocols, and the overhead of each.
///
/// Paper 000 (V.D) gives the first and last size of every regime it sampled (powers of two); the limits here are the
/// last of each. A single PUT holds 64 bytes and serves messages of up to 16, which leaves 48 for the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeminiMpi {
    /// Largest message sent as one PUT.
    pub single_put_bytes: f64,
    /// Largest message sent by several PUTs.
    pub multi_put_bytes: f64,
    /// Largest message fetched by GETs.
    pub get_bytes: f64,
    /// Envelope of a message.
    pub envelope_bytes: f64,
    /// Bytes of data per mailbox credit that the receiver returns.
    pub credit_bytes: f64,
    /// GETs of the handshake before a block transfer.
    pub block_gets: f64,
    /// Share of the data in runs of equal bits (1 for a zeroed buffer).
    pub in_runs: f64,
}

impl Default for GeminiMpi {
    fn default() -> Self {
        Self::CRAY
    }
}

impl GeminiMpi {
    /// Cray's MPI as paper 000 observed it.
    pub const CRAY: Self = Self {
        single_put_bytes: 16.0,
        multi_put_bytes: 4096.0,
        get_bytes: 262_144.0,
        envelope_bytes: 48.0,
        credit_bytes: 256.0,
        block_gets: 4.0,
        in_runs: 0.0,
    };

    /// The protocol for a message size.
    pub fn regime(&self, bytes: f64) -> Regime {
        match bytes {
            b if b <= self.single_put_bytes => Regime::SinglePut,
            b if b <= self.multi_put_bytes => Regime::MultiPut,
            b if b <= self.get_bytes => Regime::Get,
            _ => Regime::BlockPut,
        }
    }

    /// The transactions of one message.
    pub fn batches(&self, bytes: f64) -> Vec<Batch> {
        let mut batches = Vec::new();
        self.each_batch(bytes, |batch| batches.push(batch));
        batches
    }

    /// Calls `each` with the transactions of one message.
    fn each_batch(&self, bytes: f64, mut each: impl FnMut(Batch)) {
        use Side::{Receiver, Sender};
        use Transaction::{Get, Put};
        let small = |by, bytes, count| Batch {
            bytes,
            ..Batch::control(by, Put, count)
        };
        let regime = self.regime(bytes);
        match regime {
            Regime::SinglePut => {
                let mut one = small(Sender, self.envelope_bytes + bytes, 1.0);
                one.data = true;
                return each(one);
            }
            Regime::MultiPut => {
                each(small(Sender, self.envelope_bytes, 1.0));
                let credits = (bytes / self.credit_bytes).ceil();
                each(small(Receiver, WORD_BYTES, credits));
            }
            // Ready to send, then finished back.
            Regime::Get => {
                each(Batch::control(Sender, Put, 1.0));
                each(Batch::control(Receiver, Put, 1.0));
            }
            // Ready to send, registration fetched by GETs, clear to send back, finished.
            Regime::BlockPut => {
                each(Batch::control(Sender, Put, 2.0));
                each(Batch::control(Receiver, Get, self.block_gets));
                each(Batch::control(Receiver, Put, 1.0));
            }
        }
        let (by, kind) = match regime {
            Regime::Get => (Receiver, Get),
            _ => (Sender, Put),
        };
        let full = (bytes / TRANSACTION_BYTES).floor();
        let rest = bytes - full * TRANSACTION_BYTES;
        for (bytes, count) in [(TRANSACTION_BYTES, full), (rest, 1.0)] {
            if bytes > 0.0 && count > 0.0 {
                each(Batch {
                    by,
                    kind,
                    bytes,
                    count,
                    in_runs: self.in_runs,
                    data: true,
                });
            }
        }
    }

    /// Packets and phits of one message.
    pub fn wire(&self, bytes: f64) -> Wire {
        let mut sum = Wire::default();
        self.each_batch(bytes, |batch| sum = sum + batch.wire());
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_have_the_phits_of_the_paper() {
        let put = put(64.0, 0.0);
        assert_eq!((put.forward.vc0_phits, put.backward.vc1_phits), (32.0, 3.0));
        assert_eq!((put.forward.bytes(), put.backward.bytes()), (96.0, 9.0));
        assert_eq!(
            put.forward.vc1_phits + put.backward.vc0_phits,
            0.0,
            "requests on VC0, responses on VC1"
        );
        let get = get(64.0, 0.0);
        assert_eq!((get.backward.vc0_phits, get.forward.vc1_phits), (8.0, 27.0));
        assert_eq!((get.backward.bytes(), get.forward.bytes()), (24.0, 81.0));
    }

    #[test]
    fn regimes_change_where_the_paper_says() {
        let mpi = GeminiMpi::default();
        let of = |b| mpi.regime(b);
        assert_eq!([1.0, 16.0].map(of), [Regime::SinglePut; 2]);
        assert_eq!([32.0, 4096.0].map(of), [Regime::MultiPut; 2]);
        assert_eq!([8192.0, 262_144.0].map(of), [Regime::Get; 2]);
        assert_eq!([524_288.0, 4e6].map(of), [Regime::BlockPut; 2]);
        // Data is on VC1 between 8 KB and 256 KB, otherwise on VC0.
        let on_vc1 = |b| {
            let wire = mpi.wire(b).forward;
            wire.vc1_phits > wire.vc0_phits
        };
        assert_eq!(
            [16.0, 4096.0, 8192.0, 262_144.0, 524_288.0].map(on_vc1),
            [false, false, true, true, false]
        );
    }

    #[test]
    fn large_messages_use_105_bytes_for_64() {
        let mpi = GeminiMpi::default();
        for bytes in [1024.0 * 1024.0, 65_536.0] {
            let wire = mpi.wire(bytes);
            let efficiency = bytes / (wire.forward.bytes() + wire.backward.bytes());
            assert!((efficiency - 64.0 / 105.0).abs() < 2e-3, "{efficiency}");
        }
    }

    #[test]
    fn zeroed_messages_keep_their_packets_and_lose_two_thirds_of_their_phits() {
        let random = GeminiMpi::default();
        let zeroed = GeminiMpi {
            in_runs: 1.0,
            ..random
        };
        let (a, b) = (random.wire(1e6).forward, zeroed.wire(1e6).forward);
        assert_eq!(a.packets(), b.packets());
        let factor = a.vc0_phits / b.vc0_phits;
        assert!((2.5..=3.5).contains(&factor), "{factor}");
    }
}
