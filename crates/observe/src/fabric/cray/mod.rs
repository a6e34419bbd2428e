//! Cray machines: `rtr --interconnect` and `rtr --system-map`.

pub(super) mod aries;
pub(super) mod gemini;
pub(super) mod phys_routes;
pub(super) mod system_map;
mod tiles;

use super::recognise::Format;
use crate::ObserveError;
use crate::text::Text;
use hopbyte_fabric::Fabric;

/// Reads a machine from its interconnect (with or without system map), or from a Gemini node map alone.
pub fn read(
    text: &Text,
    format: Format,
    map: Option<&Text>,
    notes: &mut Vec<String>,
) -> Result<Fabric, ObserveError> {
    let map = map.map(system_map::read).transpose()?;
    match format {
        Format::Gemini => gemini::read(text, map.as_ref(), notes),
        Format::Aries => aries::read(text, map.as_ref(), notes),
        _ => system_map::read(text)?.whole_gemini(notes),
    }
}
