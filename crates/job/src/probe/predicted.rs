//! Predicted results of TopoBW in the probe's format, as [`super::results`] reads them.

use hopbyte_fabric::Fabric;
use hopbyte_model::topobw::Measured;
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
pub fn mode(m: &Measured) -> &'static str {
    if m.pair.shared { "shared" } else { "exclusive" }
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
        let link = m
            .pair
            .direction
            .and_then(|d| fabric.link_towards(from.router, d));
        Self {
            schema: "hopbyte-topobw-1",
            phase,
            phase_name: name,
            link: link.map_or_else(
                || fabric.router(from.router).name.clone(),
                |l| fabric.link_name(l),
            ),
            from: &from.name,
            to: &to.name,
            kind: &m.pair.kind,
            mode: mode(m),
            bytes,
            messages: 1,
            seconds: bytes as f64 / m.bytes_per_s,
            bytes_per_second: m.bytes_per_s,
            trial: 0,
        }
    }
}
