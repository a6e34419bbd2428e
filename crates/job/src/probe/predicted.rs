//! Predicted results of TopoBW in the probe's format, as [`super::results`] reads them.

use hopbyte_fabric::Fabric;
use hopbyte_model::topobw::{BETWEEN_ROUTERS, Measured, Pair};
use serde::Serialize;

/// One pair in the probe's format.
#[derive(Serialize)]
pub struct TopobwRecord<'a> {
    schema: &'static str,
    phase: usize,
    phase_name: &'a str,
    link: String,
    from: &'a str,
    to: &'a str,
    kind: &'a str,
    mode: &'a str,
    bytes: u64,
    messages: u32,
    seconds: f64,
    bytes_per_second: f64,
    trial: u32,
}

/// Whether the pair shares its link with another.
pub fn mode(pair: &Pair) -> &'static str {
    if pair.shared { "shared" } else { "exclusive" }
}

/// The link of neighbours, the router of its own nodes, else the nodes.
pub(super) fn link_name(fabric: &Fabric, pair: &Pair) -> String {
    let (from, to) = (fabric.node(pair.from), fabric.node(pair.to));
    match pair.link {
        Some(link) => fabric.link_name(link),
        None if pair.kind == BETWEEN_ROUTERS => format!("{}->{}", from.name, to.name),
        None => fabric.router(from.router).name.clone(),
    }
}

impl<'a> TopobwRecord<'a> {
    /// The record of a pair in a phase (its number and name), after one transfer of `bytes`.
    pub fn of(
        fabric: &'a Fabric,
        (phase, name): (usize, &'a str),
        m: &'a Measured,
        bytes: u64,
    ) -> Self {
        let (from, to) = (fabric.node(m.pair.from), fabric.node(m.pair.to));
        Self {
            schema: "hopbyte-topobw-1",
            phase,
            phase_name: name,
            link: link_name(fabric, &m.pair),
            from: &from.name,
            to: &to.name,
            kind: &m.pair.kind,
            mode: mode(&m.pair),
            bytes,
            messages: 1,
            seconds: bytes as f64 / m.bytes_per_s,
            bytes_per_second: m.bytes_per_s,
            trial: 0,
        }
    }
}
