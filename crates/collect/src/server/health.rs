//! Events of a collector since its start, shared with its exports.

use crate::export::openmetrics::Own;
use crate::gather::Events;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module. Counters are written by the collector's thread only.
#[derive(Debug, Default)]
pub struct Health {
    /// Connections, packets and bus messages that were refused.
    pub refused: AtomicU64,
    /// Packets that repeat or precede one that arrived.
    pub stale_packets: AtomicU64,
    /// Challenges sent to unknown agents by UDP.
    pub challenges: AtomicU64,
    /// Names that were dropped before their first report.
    pub forgotten_names: AtomicU64,
    /// Kinds of sources that were reclaimed.
    pub reclaimed_kinds: AtomicU64,
    /// Sources that a node's agent had and its successor has not.
    pub gone_sources: AtomicU64,
    /// Lines of other tools, kept and refused.
    pub lines_kept: AtomicU64,
    /// See `lines_kept`.
    pub lines_refused: AtomicU64,
    /// Reads of connections that were put off to the next tick.
    pub deferred_reads: AtomicU64,
    /// Connections that were closed for their incomplete frames.
    pub incomplete_frames: AtomicU64,
    /// Connections whose reports wait.
    pub deferred_connections: AtomicU64,
    /// Time of the last closing, nanoseconds since 1970.
    pub closed_ns: AtomicU64,
}

impl Health {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// Takes over the events of the gathering.
    pub fn follow(&self, events: &Events) {
        self.stale_packets
            .store(events.stale_packets, Ordering::Relaxed);
        self.forgotten_names
            .store(events.forgotten_names, Ordering::Relaxed);
        self.reclaimed_kinds
            .store(events.reclaimed_shapes, Ordering::Relaxed);
        self.gone_sources
            .store(events.gone_sources, Ordering::Relaxed);
    }

    /// The metrics `hopbyte_collector_…`.
    pub fn metrics(&self) -> [Own; 12] {
        let closed = self.closed_ns.load(Ordering::Relaxed);
        let age = super::now_ns().saturating_sub(closed) as f64 / 1e9;
        let waiting = self.deferred_connections.load(Ordering::Relaxed) as f64;
        [
            Own::gauge("tick_age_seconds", "Time since the last tick closed", age),
            Own::counter(
                "refused",
                "Refused connections, packets and messages",
                &self.refused,
            ),
            Own::counter(
                "stale_packets",
                "Packets that were replayed or overtaken",
                &self.stale_packets,
            ),
            Own::counter(
                "challenges",
                "Challenges to unknown agents by UDP",
                &self.challenges,
            ),
            Own::counter(
                "forgotten_names",
                "Names dropped before their first report",
                &self.forgotten_names,
            ),
            Own::counter(
                "reclaimed_kinds",
                "Kinds of sources no node has any more",
                &self.reclaimed_kinds,
            ),
            Own::counter(
                "gone_sources",
                "Sources that a node's agent had and its successor has not",
                &self.gone_sources,
            ),
            Own::counter("lines_kept", "Lines of other tools", &self.lines_kept),
            Own::counter(
                "lines_refused",
                "Refused lines of other tools",
                &self.lines_refused,
            ),
            Own::counter(
                "deferred_reads",
                "Reads put off to the next tick",
                &self.deferred_reads,
            ),
            Own::counter(
                "incomplete_frames",
                "Connections closed to bound the sum of incomplete frames",
                &self.incomplete_frames,
            ),
            Own::gauge(
                "deferred_connections",
                "Connections whose reports wait",
                waiting,
            ),
        ]
    }
}
