//! A store that cannot be written: a full disk, a failed one.
//!
//! The collector goes on receiving and closing ticks; viewers and exports see them. Nothing is acknowledged, so agents keep
//! their last reports. When a block could be written again, agents are asked to connect anew and send them again.

use super::Server;
use super::peer::Role;
use crate::block::Closing;
use crate::store::Store;

/// Ticks without a stored one.
#[derive(Debug)]
pub(super) struct Outage {
    /// First and last tick.
    first: u64,
    ticks: u64,
    /// Time of the last warning.
    said_ns: u64,
}

/// Whether a tick was stored.
pub(super) enum Kept {
    /// It was, or there is no store.
    Stored {
        /// Whether the next block must be self-contained.
        restart: bool,
    },
    /// It was not.
    Failing(Option<String>),
    /// It was not, but the next one can be.
    Recovered(String),
}

/// Time between two warnings of an outage.
const REPEAT_NS: u64 = 60_000_000_000;

/// Stores a block, or finds out whether the next one can be.
pub(super) fn keep(
    store: Option<&mut Store>,
    outage: &mut Option<Outage>,
    closing: &Closing,
    block: &[u8],
) -> Kept {
    let Some(store) = store else {
        return Kept::Stored { restart: false };
    };
    let Some(now) = outage else {
        return match store.append(closing, block) {
            Ok(restart) => Kept::Stored { restart },
            Err(error) => {
                *outage = Some(Outage {
                    first: closing.tick,
                    ticks: 1,
                    said_ns: closing.closed_ns,
                });
                Kept::Failing(Some(format!(
                    "store: tick {} is not stored: {error}; nothing is acknowledged, and agents keep their last reports",
                    closing.tick
                )))
            }
        };
    };
    now.ticks += 1;
    match store.probe(closing, block) {
        Ok(()) => {
            let text = format!(
                "store: writable again after {} ticks ({} to {}) that are not stored; agents send their kept reports again",
                now.ticks, now.first, closing.tick
            );
            *outage = None;
            Kept::Recovered(text)
        }
        Err(error) => {
            let due = closing.closed_ns.abs_diff(now.said_ns) >= REPEAT_NS;
            Kept::Failing(due.then(|| {
                now.said_ns = closing.closed_ns;
                format!(
                    "store: {} ticks since {} are not stored: {error}",
                    now.ticks, now.first
                )
            }))
        }
    }
}

impl Server {
    /// Asks all agents to send unstored reports again. Their reports of this tick are among it: sequence numbers
    /// have no gaps in the store.
    pub(super) fn recover(&mut self, now: u64) {
        self.gathering.begin_segment();
        self.gathering.next(now, false);
        if let Some(bus) = &mut self.bus {
            bus.rewind();
        }
        for slot in 0..self.connections.len() as u32 {
            let connection = self.connections[slot as usize].as_ref();
            if connection.is_some_and(|c| matches!(c.peer.role, Role::Agent(_))) {
                self.drop_connection(slot);
            }
        }
    }
}
