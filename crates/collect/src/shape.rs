//! The counters of a source on the wire: names, units and behaviour, sent once.
//!
//! A shape is a [`Layout`] without its node and its router's coordinates, so that thousands of equal nodes
//! share one.

use crate::Refusal;
use crate::bytes::{Take, put_number, put_u64, put_word, word_of};
use hopbyte_fabric::{Quantity, Side};
use hopbyte_observe::counters::delta::Behaviour;
use hopbyte_observe::counters::reading::{Combine, Counter, Layout, Port};
use std::sync::Arc;

/// Maximum number of counters per source.
pub const MOST_COUNTERS: usize = 4096;
/// Maximum number of ports per source.
pub const MOST_PORTS: usize = 1024;

/// Maximum factor from a counter's unit to ours: no 64-bit total or rate may overflow a float.
const MOST_FACTOR: f64 = 1e18;
const STICKY: u8 = 1;
const DEPARTURES: u8 = 2;

/// Appends the shape of a layout; names that are no words are written as [`word_of`] does.
pub fn put(layout: &Layout, out: &mut Vec<u8>) -> Result<(), Refusal> {
    if layout.counters.len() > MOST_COUNTERS || layout.ports.len() > MOST_PORTS {
        return Err(Refusal::new(format!(
            "{} counters at {} ports in source {}, the maximum is {MOST_COUNTERS} at {MOST_PORTS}",
            layout.counters.len(),
            layout.ports.len(),
            layout.source
        )));
    }
    put_word(out, &word_of(&layout.source));
    put_number(out, layout.ports.len() as u64);
    layout
        .ports
        .iter()
        .for_each(|p| put_word(out, &word_of(&p.to_string())));
    put_number(out, layout.counters.len() as u64);
    for counter in &layout.counters {
        put_number(out, counter.port.into());
        put_word(out, &word_of(&counter.name));
        put_word(out, &quantity_name(counter.quantity));
        let departures = u8::from(counter.side == Side::Departures) * DEPARTURES;
        out.push(departures | (u8::from(counter.behaviour.sticky) * STICKY));
        out.push(match counter.combine {
            Combine::Sum => 0,
            Combine::Mean => 1,
            Combine::Max => 2,
        });
        out.push(counter.behaviour.bits as u8);
        put_u64(out, counter.factor.to_bits());
        let most = counter.behaviour.most_per_second.unwrap_or(f64::NAN);
        put_u64(out, most.to_bits());
    }
    Ok(())
}

/// Decodes the output of [`put`], for a node.
pub fn take(take: &mut Take<'_>, node: &str) -> Result<Layout, Refusal> {
    let mut layout = Layout::new(node, take.word("source")?);
    for _ in 0..take.count("ports", MOST_PORTS)? {
        layout.ports.push(Port::parse(take.word("port")?));
    }
    for _ in 0..take.count("counters", MOST_COUNTERS)? {
        layout.counters.push(counter(take, layout.ports.len())?);
    }
    Ok(layout)
}

fn counter(take: &mut Take<'_>, ports: usize) -> Result<Counter, Refusal> {
    let port = take.number()?;
    if port >= ports as u64 {
        return Err(Refusal::new(format!("a counter of port {port} of {ports}")));
    }
    let name = take.word("counter")?.to_owned();
    let quantity = quantity_of(take.word("quantity")?)?;
    let flags = take.byte()?;
    let combine = match take.byte()? {
        0 => Combine::Sum,
        1 => Combine::Mean,
        2 => Combine::Max,
        other => return Err(Refusal::new(format!("way {other} to combine counters"))),
    };
    let bits = take.byte()?;
    let factor = f64::from_bits(take.u64()?);
    let most = f64::from_bits(take.u64()?);
    let sound = (1..=64).contains(&bits) && factor > 0.0 && factor <= MOST_FACTOR;
    if !sound || most <= 0.0 {
        return Err(Refusal::new(format!(
            "counter {name} of {bits} bits, factor {factor}, {most} a second at most"
        )));
    }
    Ok(Counter {
        port: port as u16,
        name,
        quantity,
        side: if flags & DEPARTURES != 0 {
            Side::Departures
        } else {
            Side::Arrivals
        },
        factor,
        combine,
        behaviour: Behaviour {
            bits: bits.into(),
            sticky: flags & STICKY != 0,
            most_per_second: (!most.is_nan()).then_some(most),
            nominal_per_second: None,
            rate: false,
        },
    })
}

/// The name of a quantity in JSON.
pub fn quantity_name(quantity: Quantity) -> String {
    match serde_json::to_value(quantity) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// The quantity with a name.
pub fn quantity_of(name: &str) -> Result<Quantity, Refusal> {
    serde_json::from_value(name.into()).map_err(|_| {
        Refusal::new(format!(
            "quantity {name}, which is not known here (is the agent newer than the collector?)"
        ))
    })
}

/// Encoded shape of a layout; equal for equal layouts of different nodes.
pub fn of(layout: &Layout) -> Result<Arc<[u8]>, Refusal> {
    let mut out = Vec::new();
    put(layout, &mut out)?;
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layouts_come_back() {
        let mut layout = Layout::new("n1", "gpcdr");
        let port = Port::parse("X+");
        layout.counter(&port, "X+_traffic (B)", Quantity::ReceivedBytes, 3.0);
        let stall = layout.counter(&Port::Host, "stall", Quantity::CreditStallNs, 1.25);
        stall.behaviour = Behaviour::bits(48).at_most(8e8);
        stall.combine = Combine::Mean;
        let errors = layout.counter(&Port::Named("eth0".into()), "e", Quantity::Errors, 1.0);
        errors.behaviour = Behaviour::sticky(16);
        let shape = of(&layout).unwrap();
        let mut rest = Take(&shape);
        let back = take(&mut rest, "n2").unwrap();
        assert!(rest.end().is_ok());
        layout.node = "n2".to_owned();
        assert_eq!(back, layout);
        // Truncated or modified bytes give a refusal or another layout, never a panic.
        for cut in 0..shape.len() {
            assert!(take(&mut Take(&shape[..cut]), "n").is_err(), "{cut}");
        }
        // A unit that makes every total overflow.
        layout.counters[0].factor = 1e300;
        let shape = of(&layout).unwrap();
        assert!(take(&mut Take(&shape), "n").is_err());
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let _ = take(&mut Take(&bytes), "n");
        }
    }
}
