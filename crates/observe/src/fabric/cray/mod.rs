//! Cray machines: `rtr --interconnect` and `rtr --system-map`.

pub(super) mod aries;
pub(super) mod gemini;
pub(super) mod phys_routes;
pub(super) mod system_map;
mod tiles;
