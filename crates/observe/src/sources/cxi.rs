//! Telemetry of Slingshot's NICs: `/sys/class/cxi/*/device/telemetry/*`, each `VALUE@SECONDS.NANOSECONDS`.

use super::files::{Kept, names, once};
use super::places::Places;
use super::source::Source;
use super::tree::{Builder, Slow};
use crate::counters::names::{self as vocabulary, Cassini};
use crate::counters::reading::Port;
use hopbyte_fabric::Quantity;
use std::path::Path;

/// A source for every NIC.
pub(super) fn open(places: &Places) -> Vec<Source> {
    let class = places.sys().join("class/cxi");
    let devices = names(&class).into_iter();
    devices
        .filter_map(|name| device(places, &class.join(&name).join("device"), &name))
        .collect()
}

fn device(places: &Places, folder: &Path, name: &str) -> Option<Source> {
    let mut builder = Builder::new(places, name);
    let port = Port::Named(name.to_owned());
    let version = once(&folder.join("properties/cassini_version"));
    let nic = match version {
        Some(version) if version.starts_with('2') => Cassini::TWO,
        _ => Cassini::ONE,
    };
    for item in vocabulary::cxi_items() {
        let file = folder.join("telemetry").join(&item);
        if file.exists() && vocabulary::cxi(&mut builder.layout, &port, &item, nic).is_some() {
            builder.values.push(file);
        }
    }
    if builder.values.is_empty() {
        return None;
    }
    let megabits = 1e6 / 8.0;
    let layout = &mut builder.layout;
    vocabulary::both(layout, &port, "speed", Quantity::Capacity, megabits);
    let property = |file: &str| Kept::new(folder.join("properties").join(file));
    builder.slow.push(Slow {
        files: vec![property("speed")],
        counters: 2,
        read: |files| files[0].value().filter(|&speed| speed > 0),
    });
    builder.build(places, folder.join("telemetry").display().to_string())
}
