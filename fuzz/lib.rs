//! What the fuzz targets of machine readers share.

use hopbyte_fabric::Reach;
use hopbyte_observe::fabric::{Companions, Format, read_machine_text};
use hopbyte_observe::text::{Limits, Text};

/// A subnet for targets that bend a companion: tables, names.
pub const SUBNET: &str = include_str!("seeds/ibnetdiscover/two-switches.txt");
/// An Aries machine for targets that bend a map.
pub const ARIES: &str = include_str!("seeds/aries/two-groups.txt");

/// What the bent text is to a fixed dump.
pub enum Role {
    /// Which node is where.
    Map,
    /// Forwarding tables.
    Tables,
    /// Names by GUID.
    Names,
}

/// Text within limits that keep one run short.
fn text(bytes: &[u8]) -> Option<Text> {
    let limits = Limits {
        bytes: 1 << 20,
        ..Limits::ANY
    };
    Text::from_bytes("input", bytes, limits).ok()
}

/// Reads a dump in a given format.
pub fn dump(format: Format, bytes: &[u8]) {
    if let Some(text) = text(bytes) {
        read(&text, Some(format), Companions::default());
    }
}

/// Reads a fixed dump with a bent companion.
pub fn companion(main: &str, role: Role, bytes: &[u8]) {
    let (Some(main), Some(text)) = (text(main.as_bytes()), text(bytes)) else {
        return;
    };
    let mut with = Companions::default();
    match role {
        Role::Map => with.system_map = Some(&text),
        Role::Tables => with.routes = std::slice::from_ref(&text),
        Role::Names => with.names = Some(&text),
    }
    read(&main, None, with);
}

/// Reads, and uses what was read: all pairs of a small machine must route or say why not.
fn read(text: &Text, format: Option<Format>, with: Companions<'_>) {
    match read_machine_text(text, format, with) {
        Ok(machine) if machine.fabric.nodes().len() <= 64 => {
            let reach = Reach::of(&machine.fabric, &machine.routing);
            assert!(reach.routable <= reach.pairs);
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
