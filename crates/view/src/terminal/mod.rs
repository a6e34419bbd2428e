//! Pages for a terminal: the ports of every node, or the links of a machine, tick by tick.

mod abilities;
mod blame;
mod calibrate;
mod costs;
mod faults;
mod jobs;
mod links;
mod load;
mod mapping;
mod model;
mod predict;
mod probe;
mod progress;
mod record;
mod room;
mod table;
mod verify;

pub use abilities::abilities_text;
pub use blame::blame_text;
pub use calibrate::calibration_text;
pub use costs::{matrix_text, pairs_text};
pub use faults::{fault_text, fault_words};
pub use jobs::beside_links;
pub use links::LinksPage;
pub use load::load_table;
pub use mapping::{costs_text, mapping_text};
pub use model::{level_name, model_text};
pub use predict::predict_text;
pub use probe::probe_text;
pub use progress::{Progress, above_spinner, end_spinner, start_spinner};
pub use record::record_text;
pub use room::Room;
pub use table::{Table, ranges};
pub use verify::verify_text;

use hopbyte_collect::block::{Absence, Closing, Cluster};
use hopbyte_collect::flows::Flows;
use hopbyte_fabric::{Quantity, Side};
use hopbyte_job::links::in_turn;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;

/// Number of ticks of a sparkline.
pub(crate) const HISTORY: usize = 24;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One port at one tick; rates per second, `None` if unknown.
#[derive(Default)]
struct Port {
    received: Option<f64>,
    sent: Option<f64>,
    stall: Option<f64>,
    errors: Option<f64>,
    /// Capacity in bytes per second of arrivals and of departures.
    capacity: [Option<f64>; 2],
}

impl Port {
    fn busiest(&self) -> Option<f64> {
        match (self.received, self.sent) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        }
    }

    /// The larger known capacity of the two directions.
    fn full(&self) -> Option<f64> {
        self.capacity.into_iter().flatten().reduce(f64::max)
    }

    /// Share of the capacity in the busier direction; an unknown capacity is taken from the other direction.
    fn used(&self) -> Option<f64> {
        let [inwards, outwards] = self.capacity;
        let share = |rate: Option<f64>, capacity: Option<f64>| {
            let capacity = capacity.filter(|&c| c > 0.0)?;
            Some(rate? / capacity)
        };
        let received = share(self.received, inwards.or(outwards));
        let sent = share(self.sent, outwards.or(inwards));
        received.into_iter().chain(sent).reduce(f64::max)
    }
}

type PortName = (String, String);

fn ports(cluster: &Cluster, flows: &Flows) -> BTreeMap<PortName, Port> {
    let mut ports: BTreeMap<PortName, Port> = BTreeMap::new();
    for (id, source) in flows.iter(cluster) {
        let layout = &source.layout;
        for flow in &source.flows {
            let name = (
                cluster.name(id),
                layout.ports[usize::from(flow.port)].to_string(),
            );
            let port = ports.entry(name).or_default();
            let rate = flow.rate.ok();
            let (slot, rate) = match flow.quantity {
                Quantity::ReceivedBytes => (&mut port.received, rate),
                Quantity::SentBytes => (&mut port.sent, rate),
                Quantity::CreditStallNs | Quantity::InputStallNs => {
                    (&mut port.stall, rate.map(|ns| ns * 1e-9))
                }
                Quantity::Errors => (&mut port.errors, rate),
                Quantity::Capacity => {
                    let outwards = flow.side == Side::Departures;
                    (&mut port.capacity[usize::from(outwards)], rate)
                }
                _ => continue,
            };
            *slot = match (*slot, rate) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (a, b) => a.or(b),
            };
        }
    }
    ports
}

/// The ports of every node over the last ticks.
#[derive(Default)]
pub struct PortsPage {
    past: HashMap<PortName, VecDeque<f64>>,
}

impl PortsPage {
    /// Renders the page after a tick, with the worst `top` ports.
    pub fn text(&mut self, cluster: &Cluster, flows: &Flows, top: usize, room: Room) -> String {
        let ports = ports(cluster, flows);
        for (name, port) in &ports {
            let history = self.past.entry(name.clone()).or_default();
            history.push_back(port.busiest().unwrap_or(f64::NAN));
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
        self.past.retain(|name, _| ports.contains_key(name));
        page(&ports, &self.past, top, room)
    }
}

fn page<'a>(
    ports: &'a BTreeMap<PortName, Port>,
    past: &HashMap<PortName, VecDeque<f64>>,
    top: usize,
    room: Room,
) -> String {
    let mut text = String::new();
    let mut order: Vec<(&PortName, &Port)> = ports.iter().collect();
    // Worst first: by share of the capacity if it is known, else by bytes; ports with errors in turn with them.
    let weight = |p: &Port| (p.used().unwrap_or(-1.0), p.busiest().unwrap_or(-1.0));
    order.sort_by(|a, b| {
        let (x, y) = (weight(a.1), weight(b.1));
        y.0.total_cmp(&x.0)
            .then(y.1.total_cmp(&x.1))
            .then(a.0.cmp(b.0))
    });
    let errors = |p: &Port| p.errors.filter(|&e| e > 0.0);
    let mut erring: Vec<_> = order
        .iter()
        .copied()
        .filter(|o| errors(o.1).is_some())
        .collect();
    erring.sort_by(|a, b| {
        b.1.errors
            .partial_cmp(&a.1.errors)
            .unwrap_or(Ordering::Equal)
    });
    let names = |ports: &[(&'a PortName, &'a Port)]| ports.iter().map(|o| o.0).collect::<Vec<_>>();
    let order = in_turn(&names(&erring), &names(&order)).into_iter();
    let order: Vec<_> = order
        .filter_map(|name| Some((name, ports.get(name)?)))
        .collect();
    let node = widest(order.iter().map(|(name, _)| &*name.0), 20);
    let port = widest(order.iter().map(|(name, _)| &*name.1), 12);
    let columns = format!(
        "{:<node$} {:<port$} {:>11} {:>11} {:>7} {:>7} {:>8}",
        "node", "port", "in MB/s", "out MB/s", "used %", "stall %", "errors/s"
    );
    let ticks = room.ticks(&columns);
    let _ = writeln!(text, "{columns}  last {ticks} ticks");
    let number = |value: Option<f64>, factor: f64, decimals: usize| {
        value.map_or("-".to_owned(), |v| format!("{:.decimals$}", v * factor))
    };
    for (name, of) in order.iter().take(top) {
        let history = past.get(*name);
        let history = history.map(|history| spark(history, ticks, of.full()));
        let _ = writeln!(
            text,
            "{:<node$} {:<port$} {:>11} {:>11} {:>7} {:>7} {:>8}  {}",
            shortened(&name.0, node),
            shortened(&name.1, port),
            number(of.received, 1e-6, 3),
            number(of.sent, 1e-6, 3),
            number(of.used(), 100.0, 1),
            number(of.stall, 100.0, 1),
            number(of.errors, 1.0, 1),
            history.unwrap_or_default(),
        );
    }
    if order.len() > top {
        let _ = writeln!(text, "and {} more ports", order.len() - top);
    }
    text
}

/// The tick, and nodes that did not report, by reason.
pub fn head(closing: &Closing, cluster: &Cluster) -> String {
    let spread = closing.spread_ns.map_or(String::new(), |ns| {
        format!(", spread {:.1} ms", ns as f64 / 1e6)
    });
    let mut text = format!(
        "tick {}: {} of {} nodes{spread}\n",
        closing.tick, closing.reported, closing.expected
    );
    let gone = |why: Absence| {
        let ids = closing.missing.iter().filter(move |m| m.1 == why);
        ids.map(|m| m.0).collect::<Vec<u32>>()
    };
    let lists = [
        ("never seen", gone(Absence::Never)),
        ("gone", gone(Absence::Gone)),
        ("silent", gone(Absence::Silent)),
        ("behind", gone(Absence::Behind)),
        ("frozen", closing.frozen.clone()),
        ("reset", closing.reset.clone()),
        ("source failed", closing.failed.clone()),
    ];
    for (what, ids) in lists.iter().filter(|(_, ids)| !ids.is_empty()) {
        let names: Vec<String> = ids.iter().take(8).map(|&id| cluster.name(id)).collect();
        let more = if ids.len() > 8 {
            format!(" and {} more", ids.len() - 8)
        } else {
            String::new()
        };
        let _ = writeln!(text, "{what}: {}{more}", names.join(" "));
    }
    text
}

/// Column width of names, at most `most`.
fn widest<'a>(names: impl Iterator<Item = &'a str>, most: usize) -> usize {
    let widths = names.map(|name| name.chars().count());
    widths.max().unwrap_or(0).clamp(4, most)
}

fn shortened(word: &str, most: usize) -> String {
    if word.chars().count() <= most {
        return word.to_owned();
    }
    word.chars().take(most - 1).chain(['…']).collect()
}

/// Rates of the last `ticks` as bars, full at a capacity, relative to their maximum if that is unknown; a tick without a rate is blank.
fn spark(history: &VecDeque<f64>, ticks: usize, full: Option<f64>) -> String {
    let shown = || history.range(history.len().saturating_sub(ticks)..);
    let largest = full.unwrap_or_else(|| shown().copied().fold(0.0, f64::max));
    let bar = |&rate: &f64| {
        if rate.is_nan() {
            return ' ';
        }
        let at = if largest > 0.0 {
            rate / largest * 7.0
        } else {
            0.0
        };
        BARS[(at.round() as usize).min(7)]
    };
    shown().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparks_show_what_is_known() {
        let history = VecDeque::from([0.0, f64::NAN, 50.0, 100.0]);
        assert_eq!(spark(&history, 4, None), "▁ ▅█");
        assert_eq!(spark(&history, 2, None), "▅█");
        // A port at a tenth of its capacity does not look busy.
        assert_eq!(spark(&history, 2, Some(1000.0)), "▁▂");
        assert_eq!(spark(&VecDeque::from([0.0, 0.0]), 9, None), "▁▁");
        assert_eq!(shortened("a-very-long-node-name", 8), "a-very-…");
    }

    #[test]
    fn the_share_is_of_the_busier_direction() {
        let port = Port {
            received: Some(10.0),
            sent: Some(50.0),
            capacity: [Some(200.0), None],
            ..Port::default()
        };
        assert_eq!(port.used(), Some(0.25));
        // A shaper's outgoing rate is below the incoming one.
        let shaped = Port {
            capacity: [Some(1000.0), Some(50.0)],
            ..port
        };
        assert_eq!(shaped.used(), Some(1.0));
        assert_eq!(Port::default().used(), None);
    }
}
