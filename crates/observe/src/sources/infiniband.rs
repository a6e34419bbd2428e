//! `/sys/class/infiniband/*/ports/*/{counters,hw_counters}`, and the trained rate of each port.

use super::files::{Kept, names, once};
use super::places::Places;
use super::source::Source;
use super::tree::{Builder, Slow};
use crate::counters::names as vocabulary;
use crate::counters::reading::Port;
use crate::counters::speakers::rdma_of;
use crate::fabric::infiniband::rate::Rate;
use hopbyte_fabric::Quantity;
use std::path::Path;

/// One source per device.
pub(super) fn open(places: &Places) -> Vec<Source> {
    let class = places.sys().join("class/infiniband");
    let devices = names(&class).into_iter();
    devices
        .filter_map(|device| self::device(places, &class.join(&device), &device))
        .collect()
}

fn device(places: &Places, folder: &Path, name: &str) -> Option<Source> {
    let mut builder = Builder::new(places, name);
    let guid = once(&folder.join("node_guid")).and_then(|text| guid(&text));
    for number in names(&folder.join("ports")) {
        let own = folder.join("ports").join(&number);
        let ethernet = once(&own.join("link_layer")).is_some_and(|l| l == "Ethernet");
        let interface = ethernet.then(|| only_interface(folder)).flatten();
        let port = match (&interface, guid, number.parse()) {
            (Some(interface), _, Ok(_)) => rdma_of(interface),
            (None, Some(guid), Ok(port)) => Port::InfiniBand { guid, port },
            (None, None, Ok(_)) => Port::Named(format!("{name}/{number}")),
            (.., Err(_)) => continue,
        };
        for group in ["counters", "hw_counters"] {
            for counter in names(&own.join(group)) {
                let layout = &mut builder.layout;
                let added = vocabulary::infiniband(layout, &port, &counter, ethernet);
                if added.is_some() {
                    builder.values.push(own.join(group).join(&counter));
                }
            }
        }
        if interface.is_none() {
            // The interface reports its own speed.
            slow(&mut builder, &own, &port);
        }
    }
    builder.gauges_last();
    builder.build(places, folder.display().to_string())
}

/// The interface of an Ethernet adapter; its counters cover the non-RDMA traffic.
fn only_interface(folder: &Path) -> Option<String> {
    match &names(&folder.join("device/net"))[..] {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// Rate and state of a port, for both directions.
fn slow(builder: &mut Builder, folder: &Path, port: &Port) {
    let kept = |file: &str| Kept::new(folder.join(file));
    let layout = &mut builder.layout;
    vocabulary::both(layout, port, "rate", Quantity::Capacity, 1.0);
    vocabulary::both(layout, port, "width", Quantity::Lanes, 1.0);
    builder.slow.push(Slow {
        files: vec![kept("rate")],
        counters: 2,
        read: |files| Some(rate(&files[0].text()?)?.capacity().0 as u64),
    });
    builder.slow.push(Slow {
        files: vec![kept("rate"), kept("state")],
        counters: 2,
        read: |files| {
            let rate = rate(&files[0].text()?)?;
            // A port that is not active has no capacity.
            let active = files[1].text()?.ends_with("ACTIVE");
            Some(if active { u64::from(rate.width) } else { 0 })
        },
    });
}

/// `40 Gb/sec (4X QDR)`.
fn rate(text: &str) -> Option<Rate> {
    let (_, trained) = text.strip_suffix(')')?.split_once('(')?;
    let (width, speed) = trained.split_once(' ')?;
    Rate::parse(width.as_bytes(), speed.as_bytes())
}

/// `0a7f:bc12:45ef:d23b`.
fn guid(text: &str) -> Option<u64> {
    let digits = text.trim().replace(':', "");
    let guid = (digits.len() == 16).then(|| u64::from_str_radix(&digits, 16).ok())??;
    (guid != 0).then_some(guid)
}
