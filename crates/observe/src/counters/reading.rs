//! Readings: raw counter values with the layout that describes them.
//!
//! A [`Layout`] names the ports of a node or router and the counters of each, in the source's own terms and in ours
//! ([`Quantity`]); a [`Reading`] holds their values at one time, as integers. All later steps (differences, units,
//! links) use only these two, so that live counters, captured trees and files share one path.

use super::delta::{Behaviour, Moment, increase};
use super::values::Values;
use hopbyte_fabric::{Direction, Missing, Quantity, Side};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A port in the source's terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Port {
    /// A direction of a torus router, all its tiles together.
    Direction(Direction),
    /// The host link of a router.
    Host,
    /// A tile of a Cray router (row × 8 + column).
    Tile(u16),
    /// A port of an InfiniBand device.
    InfiniBand {
        /// GUID of the port or its node.
        guid: u64,
        /// Port number.
        port: u16,
    },
    /// A network interface or device by name (`eth0`, `cxi0`, `mlx5_0/1`).
    Named(String),
    /// The NVLinks of a GPU, by its number on the host.
    Gpu(u16),
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direction(direction) => direction.fmt(f),
            Self::Host => f.write_str("HH"),
            Self::Tile(tile) => write!(f, "l{}{}", tile / 8, tile % 8),
            Self::InfiniBand { guid, port } => write!(f, "0x{guid:016x}[{port}]"),
            Self::Named(name) => f.write_str(name),
            Self::Gpu(number) => write!(f, "nvlink-gpu{number}"),
        }
    }
}

impl Port {
    /// Parses the output of [`Port`]'s `Display`; unrecognised text is a name.
    pub fn parse(text: &str) -> Self {
        if text == "HH" {
            return Self::Host;
        }
        if let Some(direction) = Direction::parse(text) {
            return Self::Direction(direction);
        }
        if let [b'l', row @ b'0'..=b'5', column @ b'0'..=b'7'] = *text.as_bytes() {
            return Self::Tile(u16::from(row - b'0') * 8 + u16::from(column - b'0'));
        }
        let gpu = text.strip_prefix("nvlink-gpu");
        if let Some(number) = gpu.and_then(|n| n.parse().ok()) {
            return Self::Gpu(number);
        }
        let cabled = || {
            let (guid, port) = text
                .strip_prefix("0x")?
                .strip_suffix(']')?
                .split_once('[')?;
            let guid = (guid.len() == 16).then(|| u64::from_str_radix(guid, 16).ok())??;
            let port = port.parse().ok()?;
            Some(Self::InfiniBand { guid, port })
        };
        cabled().unwrap_or_else(|| Self::Named(text.to_owned()))
    }
}

/// Combination of several counters into one quantity of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// Sum (bytes of tiles and of virtual channels).
    #[default]
    Sum,
    /// Mean over ports of each port's sum (stalls of parallel tiles).
    Mean,
    /// Maximum (stalls of priorities that wait independently).
    Max,
}

/// A counter of a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// Position in [`Layout::ports`].
    pub port: u16,
    /// The source's name.
    pub name: String,
    /// The quantity it counts.
    pub quantity: Quantity,
    /// The port's link that it belongs to: arriving or leaving.
    pub side: Side,
    /// Our unit per count (3 for phits of 3 bytes).
    pub factor: f64,
    /// How several counters of one quantity and link combine.
    pub combine: Combine,
    /// Width, stickiness, limit.
    pub behaviour: Behaviour,
}

/// Bytes of the smallest packet of any network, for the most packets at a speed.
const SMALLEST_PACKET: f64 = 20.0;

impl Counter {
    /// Behaviour at a port with a nominal speed in bytes per second. Only bytes and packets depend on it.
    pub fn at_speed(&self, bytes_per_s: Option<f64>) -> Behaviour {
        let unit = match self.quantity {
            Quantity::ReceivedBytes | Quantity::SentBytes => self.factor,
            Quantity::ReceivedPackets | Quantity::SentPackets => self.factor * SMALLEST_PACKET,
            _ => return self.behaviour,
        };
        let speed = bytes_per_s.filter(|&s| s > 0.0);
        speed.map_or(self.behaviour, |s| self.behaviour.nominally(s / unit))
    }

    /// The increase between two values at a port with a nominal speed. Of errors at least that: a counter that reached its
    /// highest value in between may have seen more.
    pub fn increase(
        &self,
        bytes_per_s: Option<f64>,
        earlier: u64,
        later: u64,
        seconds: Option<f64>,
    ) -> Result<u64, Missing> {
        match increase(self.at_speed(bytes_per_s), earlier, later, seconds) {
            Err(Missing::Stuck) if self.is_errors() && earlier < later => Ok(later - earlier),
            known => known,
        }
    }

    /// Whether it counts errors or drops.
    pub fn is_errors(&self) -> bool {
        self.quantity.is_errors()
    }

    /// Whether it counts errors, and a value is its highest: there may have been more.
    pub fn is_full(&self, value: u64) -> bool {
        self.is_errors() && self.stays_at(value)
    }

    /// Whether a value is its highest, at which it stays until it is cleared.
    pub fn stays_at(&self, value: u64) -> bool {
        self.behaviour.sticky && value >= self.behaviour.highest()
    }
}

/// Counters of one node or router.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Host name, node name or router name.
    pub node: String,
    /// Name of the source within the node (`gpcdr`, `cxi0`, the name of an LDMS set).
    pub source: String,
    /// Coordinates of the router, if the source has them.
    pub coordinate: Option<Vec<u32>>,
    /// Ports.
    pub ports: Vec<Port>,
    /// Counters, in the order of their values.
    pub counters: Vec<Counter>,
}

impl Layout {
    /// A source of a node, without counters yet.
    pub fn new(node: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            source: source.into(),
            coordinate: None,
            ports: Vec::new(),
            counters: Vec::new(),
        }
    }

    /// The position of a port, added at first use.
    pub fn port(&mut self, port: &Port) -> u16 {
        let at = self.ports.iter().position(|p| p == port);
        at.unwrap_or_else(|| {
            self.ports.push(port.clone());
            self.ports.len() - 1
        }) as u16
    }

    /// The counters with the speeds of ports, by port and direction, where the device reports them. A map, because a
    /// peer may declare thousands of counters.
    pub fn speeds(&self) -> HashMap<(u16, Side), u32> {
        let mut speeds = HashMap::new();
        for (counter, at) in self.counters.iter().zip(0..) {
            if counter.quantity == Quantity::Capacity {
                speeds.entry((counter.port, counter.side)).or_insert(at);
            }
        }
        speeds
    }

    /// Behaviour of a counter at its port's speed, as far as the device reports one ([`Layout::speeds`]); `value` gives a
    /// counter's value.
    pub fn behaviour(
        &self,
        counter: usize,
        speeds: &HashMap<(u16, Side), u32>,
        value: impl Fn(usize) -> Option<u64>,
    ) -> Behaviour {
        let counter = &self.counters[counter];
        let speed = speeds.get(&(counter.port, counter.side)).and_then(|&at| {
            let at = at as usize;
            Some(value(at)? as f64 * self.counters[at].factor)
        });
        counter.at_speed(speed)
    }

    /// Adds a 64-bit counter that combines as a sum; returns its position.
    pub fn counter(
        &mut self,
        port: &Port,
        name: impl Into<String>,
        quantity: Quantity,
        factor: f64,
    ) -> &mut Counter {
        let port = self.port(port);
        self.counters.push(Counter {
            port,
            name: name.into(),
            quantity,
            side: quantity.side(),
            factor,
            combine: Combine::Sum,
            behaviour: Behaviour::PLAIN,
        });
        let last = self.counters.len() - 1;
        &mut self.counters[last]
    }
}

/// Values of a layout's counters at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Description of the values.
    pub layout: Arc<Layout>,
    /// Time by the source's clock, and the boot of the device.
    pub moment: Moment,
    /// The values, in the order of the layout's counters.
    pub values: Values,
}

impl Reading {
    /// A reading in which all values are missing.
    pub fn new(layout: Arc<Layout>, moment: Moment) -> Self {
        let values = Values::new(layout.counters.len());
        Self {
            layout,
            moment,
            values,
        }
    }

    /// From all values at once.
    pub fn of(layout: Arc<Layout>, moment: Moment, values: &[Option<u64>]) -> Self {
        let mut reading = Self::new(layout, moment);
        for (i, &value) in values.iter().enumerate() {
            reading.set(i, value);
        }
        reading
    }

    /// The values of the counters that another layout of the same device has too, in its order.
    pub fn laid_out(&self, layout: &Arc<Layout>) -> Self {
        let own = &self.layout;
        let at: HashMap<(&Port, &str), usize> = (own.counters.iter().enumerate())
            .map(|(i, c)| ((&own.ports[c.port as usize], c.name.as_str()), i))
            .collect();
        let mut other = Self::new(layout.clone(), self.moment);
        for (i, counter) in layout.counters.iter().enumerate() {
            let key = (&layout.ports[counter.port as usize], counter.name.as_str());
            let same = |&&i: &&usize| {
                let own = &own.counters[i];
                (own.quantity, own.behaviour) == (counter.quantity, counter.behaviour)
            };
            let value = at.get(&key).filter(same).and_then(|&i| self.get(i));
            other.set(i, value);
        }
        other
    }

    /// Whether a counter counts errors and is at its highest value: there may have been more.
    pub fn is_full(&self, counter: usize) -> bool {
        let value = self.get(counter);
        value.is_some_and(|value| self.layout.counters[counter].is_full(value))
    }

    /// Whether it came late: it is older than another reading of the device.
    pub fn is_older(&self, other: &Self) -> bool {
        let of_other = (other.moment, &other.values);
        is_older(&self.layout, (self.moment, &self.values), of_other)
    }

    /// The value of a counter; `None` if it was not read.
    #[inline]
    pub fn get(&self, counter: usize) -> Option<u64> {
        self.values.get(counter)
    }

    /// Sets or clears a value.
    #[inline]
    pub fn set(&mut self, counter: usize, value: Option<u64>) {
        self.values.set(counter, value);
    }
}

/// Whether values of a device are older than others: of an earlier time, and no total is higher. A clock that was set back
/// has the earlier time alone.
pub fn is_older(
    layout: &Layout,
    (moment, values): (Moment, &Values),
    (later, others): (Moment, &Values),
) -> bool {
    if !matches!(moment.seconds_to(later), Ok(Some(_))) {
        return false;
    }
    let totals = layout.counters.iter().enumerate();
    let totals = totals.filter(|(_, counter)| !counter.quantity.is_gauge());
    let mut lower = false;
    for (value, other) in totals.filter_map(|(i, _)| values.get(i).zip(others.get(i))) {
        if value > other {
            return false;
        }
        lower |= value < other;
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_print_and_parse() {
        for port in [
            Port::Direction(Direction::of(3)),
            Port::Host,
            Port::Tile(0o57),
            Port::InfiniBand {
                guid: 0x0008_f105_0010_8c9e,
                port: 36,
            },
            Port::Named("eth0".into()),
            Port::Gpu(11),
            Port::Named("nvlink-gpu".into()),
            Port::Named("l0".into()),
            Port::Named("0x12[3]".into()),
        ] {
            assert_eq!(Port::parse(&port.to_string()), port);
        }
        assert_eq!(Port::Tile(12).to_string(), "l14");
    }

    #[test]
    fn what_was_not_read_is_nothing() {
        let mut layout = Layout::new("n", "s");
        for i in 0..70 {
            layout.counter(&Port::Host, i.to_string(), Quantity::SentBytes, 1.0);
        }
        let mut reading = Reading::new(Arc::new(layout), Moment::default());
        reading.set(0, Some(0));
        reading.set(69, Some(7));
        assert_eq!(
            (reading.get(0), reading.get(1), reading.get(69)),
            (Some(0), None, Some(7))
        );
        assert_eq!(reading.values.known(), 2);
        reading.set(69, None);
        assert_eq!(reading.values.iter().flatten().count(), 1);
    }
}
