//! Linux interfaces: link statistics and queueing disciplines from the kernel's tables, or, in a captured tree,
//! `/sys/class/net/*/statistics`.
//!
//! The backlog of an interface's root discipline is the queue in front of the link. The time for which it is not empty,
//! sampled at every [`Sample::glance`], is the equivalent of a credit stall; its `overlimits` (packets that had to wait
//! for tokens) and the stalls of byte queue limits, if their threshold is set, are counts of it. Between two looks of which
//! the first found more bytes in the queue than could leave it until the second, it was never empty: the link sent as
//! fast as it can.

use super::files::{Kept, names, once};
use super::netlink::{self, Changes, Netlink, attribute, string, u32_at, u64_at};
use super::places::{Clock, Places};
use super::source::{GLANCE, Sample, Source, Unreadable};
use super::tree::Builder;
use crate::ObserveError;
use crate::counters::names as vocabulary;
use crate::counters::reading::{Layout, Port, Reading};
use crate::counters::speakers::virtual_interface;
use hopbyte_fabric::LeftOut;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Fields of `struct rtnl_link_stats64` in order, with the names of the kernel's files.
const STATISTICS: [&str; 8] = [
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
];
/// Counters of a root queueing discipline.
const QUEUE: [&str; 6] = [
    "qdisc_backlog",
    "qdisc_drops",
    "qdisc_overlimits",
    "qdisc_waited_ns",
    "qdisc_served_bytes",
    "qdisc_served_ns",
];
/// Samples between readings of a link's speed, which query the driver. A new negotiation takes the link down, which
/// the kernel reports; a speed set in the driver is not reported.
const SELDOM: u32 = 60;
/// `ARPHRD_LOOPBACK`.
const LOOPBACK: u16 = 772;
/// `IFF_LOWER_UP`: it has a carrier.
const LOWER_UP: u32 = 1 << 16;
/// `TC_H_ROOT`.
const ROOT: u32 = u32::MAX;

/// Bytes on the wire around a frame of the kernel: preamble, check sequence, gap.
const AROUND: u64 = 24;
/// Bytes of two frames: one on its way at either look.
const FRAMES: f64 = 3028.0;

/// Kinds of disciplines that hold packets back although the link is free.
const PACING: [&str; 5] = ["fq", "etf", "netem", "taprio", "plug"];

/// Kind of a virtual cable, as in an emulated machine; hardware has no kind.
const CABLE: &str = "veth";

/// The kernel's tables, or the files of the tree.
pub(super) fn open(places: &Places) -> Option<Result<Source, ObserveError>> {
    if !places.is_this_machine() {
        return tree(places).map(Ok);
    }
    let opened = Linux::new(places).and_then(|mut linux| {
        let mut reading = Reading::new(linux.list()?, linux.clock.now());
        linux.read(&mut reading)?;
        Ok((linux, reading))
    });
    let place = "rtnetlink";
    match opened {
        Ok((mut linux, reading)) => Some(Ok(Source {
            left_out: std::mem::take(&mut linux.left_out),
            reading,
            way: Box::new(linux),
            place: place.to_owned(),
        })),
        // A kernel before 4.7, or no permission: read the files instead.
        Err(error) => {
            let refused = || Some(Err(ObserveError::io(Path::new(place), error)));
            tree(places).map(Ok).or_else(refused)
        }
    }
}

/// Interfaces of a captured tree.
fn tree(places: &Places) -> Option<Source> {
    let class = places.sys().join("class/net");
    let mut builder = Builder::new(places, "linux");
    for name in names(&class) {
        let folder = class.join(&name);
        let wanted = match &places.interfaces[..] {
            [] => refusal(&folder, &name).is_none_or(|why| {
                builder.left_out.note(why, name.as_str());
                false
            }),
            chosen => chosen.contains(&name),
        };
        let port = Port::Named(name);
        for statistic in STATISTICS.iter().filter(|_| wanted) {
            let file = folder.join("statistics").join(statistic);
            if file.exists() {
                vocabulary::interface(&mut builder.layout, &port, statistic);
                builder.values.push(file);
            }
        }
        if wanted {
            speed(&mut builder, &folder, &port);
        }
    }
    builder.gauges_last();
    builder.build(places, class.display().to_string())
}

/// Why an interface of a tree is not a cable, or `None` if it is one. Without the kernel's kind a virtual cable is
/// recognised by its name; those of an emulated machine are accepted under any name.
fn refusal(folder: &Path, name: &str) -> Option<&'static str> {
    let has = |file: &str| folder.join(file).exists();
    let is_loopback = || once(&folder.join("type")).is_some_and(|t| t == LOOPBACK.to_string());
    match name {
        _ if is_loopback() => Some("loopback"),
        _ if has("bridge") => Some("bridge"),
        _ if has("bonding") => Some("bond (its members are counted)"),
        _ if name.starts_with(CABLE) => None,
        _ => virtual_interface(name),
    }
}

fn speed(builder: &mut Builder, folder: &Path, port: &Port) {
    for name in ["tx_speed", "rx_speed"] {
        vocabulary::interface(&mut builder.layout, port, name);
    }
    builder.slow.push(super::tree::Slow {
        files: vec![Kept::new(folder.join("speed"))],
        counters: 2,
        read: |files| files[0].value().filter(|&speed| speed > 0),
    });
}

/// An interface of this machine.
#[derive(Debug)]
struct Interface {
    index: u32,
    /// Whether it has a root queueing discipline.
    queued: bool,
    /// Whether it has a carrier; without one its rate is 0.
    up: bool,
    /// Index of its first counter.
    first: usize,
    /// Index of its two capacities: outwards a shaper's rate or the speed, inwards the speed.
    capacity: usize,
    speed: Kept,
    /// Its last value.
    bytes_per_s: Option<u64>,
    /// Stall counts of its transmit queues.
    stalls: Vec<Kept>,
}

/// The kernel's tables of interfaces.
#[derive(Debug)]
pub(super) struct Linux {
    netlink: Netlink,
    changes: Changes,
    /// Whether interfaces or disciplines changed since they were listed.
    stale: bool,
    node: String,
    chosen: Vec<String>,
    names: BTreeMap<String, String>,
    class: PathBuf,
    clock: Clock,
    interfaces: Vec<Interface>,
    /// Virtual interfaces at the time of the last listing.
    left_out: LeftOut,
    turn: u32,
    /// What looks at the queue of each interface found, by index.
    seen: HashMap<u32, Seen>,
    /// Time of the last look at the queues.
    glanced: Option<Instant>,
}

/// What looks at a queue found.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Time for which it was not empty.
    waited_ns: u64,
    /// Bytes that left it, and the time, between looks between which it was not empty.
    served: [u64; 2],
    /// Bytes in it, and bytes that had left it, at the last look.
    last: Option<[u64; 2]>,
}

impl Seen {
    /// Adds a look, `since` nanoseconds after the last one, at the queue of a link of a rate in bytes per second.
    fn look(&mut self, queue: &Queue, rate: Option<u64>, since: u64) {
        let backlog = queue.values[0];
        self.waited_ns += if backlog > 0 && since <= LATE {
            since
        } else {
            0
        };
        let before = std::mem::replace(&mut self.last, queue.left.map(|left| [backlog, left]));
        let (Some([first, before]), Some([_, after]), Some(rate)) = (before, self.last, rate)
        else {
            return;
        };
        // At most that much can have left it. What has left it does not choose the times that count.
        let most = rate as f64 * since as f64 * 1e-9 + FRAMES;
        if let Some(bytes) = after.checked_sub(before).filter(|_| first as f64 >= most) {
            self.served[0] += bytes;
            self.served[1] += since;
        }
    }
}

/// Nanoseconds after the last look from which one does not tell how long a queue waited: the reader itself had no processor.
const LATE: u64 = 4 * GLANCE.as_nanos() as u64;

/// Statistics of a queueing discipline.
struct Queue {
    index: u32,
    /// In the order of [`QUEUE`], without what looks find.
    values: [u64; 3],
    /// Bytes on the wire that have left it.
    left: Option<u64>,
    /// Rate of a shaper, bytes per second.
    rate: Option<u64>,
    /// Whether it, or a discipline below it, holds packets back although the link is free.
    paces: bool,
}

impl Linux {
    fn new(places: &Places) -> io::Result<Self> {
        Ok(Self {
            netlink: Netlink::open()?,
            changes: Changes::open()?,
            stale: false,
            node: places.node.clone(),
            chosen: places.interfaces.clone(),
            names: places.names.clone(),
            class: places.sys().join("class/net"),
            clock: places.clock(),
            interfaces: Vec::new(),
            left_out: LeftOut::default(),
            turn: 0,
            seen: HashMap::new(),
            glanced: None,
        })
    }

    /// Lists the interfaces and builds their layout.
    fn list(&mut self) -> io::Result<Arc<Layout>> {
        let mut found = Vec::new();
        self.netlink.dump(netlink::GET_LINK, &[0; 16], |kind, m| {
            if kind == netlink::NEW_LINK {
                found.extend(Listed::parse(m));
            }
        })?;
        let mut left_out = LeftOut::default();
        found.retain(|link| match &self.chosen[..] {
            [] => link.refusal().is_none_or(|why| {
                left_out.note(why, link.name.as_str());
                false
            }),
            names => names.contains(&link.name),
        });
        self.left_out = left_out;
        let queues = self.queues()?;
        let mut layout = Layout::new(&self.node, "linux");
        self.interfaces = found
            .iter()
            .map(|link| {
                let name = self.names.get(&link.name).unwrap_or(&link.name);
                interface(&mut layout, name, link, &queues, &self.class)
            })
            .collect();
        self.turn = 0;
        Ok(Arc::new(layout))
    }

    /// Root disciplines of all interfaces.
    fn queues(&mut self) -> io::Result<Vec<Queue>> {
        let mut queues: Vec<Queue> = Vec::new();
        let mut paced = Vec::new();
        self.netlink.dump(netlink::GET_QDISC, &[0; 20], |kind, m| {
            if kind == netlink::NEW_QDISC {
                queues.extend(Queue::parse(m));
                paced.extend(paces(m));
            }
        })?;
        for queue in &mut queues {
            queue.paces = paced.contains(&queue.index);
        }
        Ok(queues)
    }

    /// Adds a look to what is known of every queue.
    fn look(&mut self, queues: &[Queue]) {
        let now = Instant::now();
        let before = self.glanced.replace(now);
        let since = before.map_or(0, |t| (now - t).as_nanos() as u64);
        for queue in queues {
            let own = self.interfaces.iter().find(|i| i.index == queue.index);
            let rate = queue.rate.or(own.and_then(|i| i.bytes_per_s));
            let seen = self.seen.entry(queue.index).or_default();
            seen.look(queue, rate, since);
        }
    }

    /// Reads the listed interfaces.
    fn read(&mut self, reading: &mut Reading) -> io::Result<()> {
        reading.moment = self.clock.now();
        // Values that are not read now are missing.
        reading.values.unread();
        let (interfaces, mut next) = (&self.interfaces, 0);
        // struct if_stats_msg with the mask of IFLA_STATS_LINK_64.
        let mut body = [0; 12];
        body[8] = 1;
        self.netlink.dump(netlink::GET_STATS, &body, |kind, m| {
            let index = u32_at(m, 4).filter(|_| kind == netlink::NEW_STATS);
            let Some(index) = index else { return };
            // Messages come in the order of the list.
            let ahead = interfaces.get(next).filter(|i| i.index == index);
            let own = ahead.or_else(|| interfaces.iter().find(|i| i.index == index));
            next += usize::from(own.is_some());
            if let (Some(own), Some(values)) = (own, m.get(12..).and_then(|a| attribute(a, 1))) {
                for i in 0..STATISTICS.len() {
                    reading.set(own.first + i, u64_at(values, 8 * i));
                }
            }
        })?;
        let seldom = self.turn == 0;
        self.turn = (self.turn + 1) % SELDOM;
        for own in &mut self.interfaces {
            if seldom {
                own.bytes_per_s = own.speed.value().filter(|&s| s > 0);
            }
            let rate = if own.up { own.bytes_per_s } else { Some(0) };
            (own.capacity..own.capacity + 2).for_each(|i| reading.set(i, rate));
            // Next, if present: the stalls.
            if !own.stalls.is_empty() {
                let counts = own.stalls.iter_mut().map(Kept::value);
                let sum = counts.sum::<Option<u64>>();
                reading.set(own.capacity + 2, sum);
            }
        }
        if self.interfaces.iter().any(|i| i.queued) {
            self.read_queues(reading)?;
        }
        Ok(())
    }

    fn read_queues(&mut self, reading: &mut Reading) -> io::Result<()> {
        let queues = self.queues()?;
        self.look(&queues);
        for own in self.interfaces.iter().filter(|i| i.queued) {
            let Some(queue) = queues.iter().find(|q| q.index == own.index) else {
                continue;
            };
            let seen = self.seen.get(&own.index).filter(|_| !queue.paces);
            let seen = seen.map(|s| [s.waited_ns, s.served[0], s.served[1]]);
            let looks = (0..3).map(|i| seen.map(|s| s[i]));
            let values = queue.values.into_iter().map(Some).chain(looks);
            for (i, value) in values.enumerate() {
                reading.set(own.first + STATISTICS.len() + i, value);
            }
            if own.up && queue.rate.is_some() {
                reading.set(own.capacity, queue.rate);
            }
        }
        Ok(())
    }
}

impl Sample for Linux {
    fn sample(&mut self, reading: &mut Reading) -> Result<(), Unreadable> {
        self.stale |= self.changes.any()?;
        if self.stale {
            let layout = self.list()?;
            self.stale = false;
            if layout != reading.layout {
                *reading = Reading::new(layout, reading.moment);
            }
        }
        Ok(self.read(reading)?)
    }

    fn glance(&mut self) -> bool {
        let queued = self.interfaces.iter().any(|i| i.queued);
        if queued && let Ok(queues) = self.queues() {
            self.look(&queues);
        }
        queued
    }
}

/// Adds the counters of an interface to a layout, in the order of the samples.
fn interface(
    layout: &mut Layout,
    name: &str,
    link: &Listed,
    queues: &[Queue],
    class: &Path,
) -> Interface {
    let port = Port::Named(name.to_owned());
    let folder = class.join(&link.name);
    let first = layout.counters.len();
    let queue = queues.iter().find(|q| q.index == link.index);
    let of_queue = QUEUE.iter().filter(|_| queue.is_some());
    for name in STATISTICS.iter().chain(of_queue) {
        vocabulary::interface(layout, &port, name);
    }
    let capacity = layout.counters.len();
    let shaped = queue.is_some_and(|q| q.rate.is_some());
    for name in [if shaped { "qdisc_rate" } else { "tx_speed" }, "rx_speed"] {
        vocabulary::interface(layout, &port, name);
    }
    let stalls = stalls(&folder);
    if !stalls.is_empty() {
        vocabulary::interface(layout, &port, "bql_stalls");
    }
    Interface {
        index: link.index,
        queued: queue.is_some(),
        up: link.up,
        first,
        capacity,
        speed: Kept::new(folder.join("speed")),
        bytes_per_s: None,
        stalls,
    }
}

/// Stall counts of transmit queues with a threshold; without one the kernel does not count.
fn stalls(folder: &Path) -> Vec<Kept> {
    let queues = folder.join("queues");
    let limits = names(&queues)
        .into_iter()
        .filter(|n| n.starts_with("tx-"))
        .map(|n| queues.join(n).join("byte_queue_limits"));
    let set = |limits: &PathBuf| {
        once(&limits.join("stall_thrs")).is_some_and(|threshold| threshold != "0")
    };
    limits
        .filter(set)
        .map(|limits| Kept::new(limits.join("stall_cnt")))
        .collect()
}

/// An interface in the kernel's list.
struct Listed {
    index: u32,
    name: String,
    kind: String,
    loopback: bool,
    up: bool,
}

impl Listed {
    /// Why it is not a cable, or `None` if it is one.
    fn refusal(&self) -> Option<&'static str> {
        match &self.kind[..] {
            _ if self.loopback => Some("loopback"),
            "" | CABLE => None,
            _ => virtual_interface(&self.name).or(Some("virtual interface")),
        }
    }

    /// `struct ifinfomsg` and its attributes.
    fn parse(message: &[u8]) -> Option<Self> {
        let attributes = message.get(16..)?;
        let kind = attribute(attributes, 18).and_then(|info| attribute(info, 1));
        let hardware = u32_at(message, 0)? >> 16;
        Some(Self {
            index: u32_at(message, 4)?,
            name: string(attribute(attributes, 3)?),
            kind: kind.map(string).unwrap_or_default(),
            loopback: hardware == u32::from(LOOPBACK),
            up: u32_at(message, 8)? & LOWER_UP > 0,
        })
    }
}

impl Queue {
    /// `struct tcmsg` and its attributes, if it is an interface's root discipline.
    fn parse(message: &[u8]) -> Option<Self> {
        if u32_at(message, 12)? != ROOT {
            return None;
        }
        let attributes = message.get(20..)?;
        let kind = string(attribute(attributes, 1)?);
        // struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits.
        let all = attribute(attributes, 7)?;
        let stats = attribute(all, 3)?;
        // struct gnet_stats_basic: bytes, packets.
        let left = attribute(all, 1).and_then(|basic| {
            let packets = u64::from(u32_at(basic, 8)?);
            // A shaper counts frames as the kernel does.
            let around = if kind == "tbf" { 0 } else { AROUND };
            Some(u64_at(basic, 0)? + packets * around)
        });
        let number = |i: usize| u32_at(stats, 4 * i).map(u64::from);
        let options = attribute(attributes, 2).filter(|_| kind == "tbf");
        let rate = options.and_then(|options| {
            let wide = attribute(options, 4).and_then(|rate| u64_at(rate, 0));
            // struct tc_ratespec: the rate is its last word.
            let narrow = || u32_at(attribute(options, 1)?, 8).map(u64::from);
            wide.or_else(narrow)
        });
        (kind != "noqueue").then_some(Self {
            index: u32_at(message, 4)?,
            values: [number(1)?, number(2)?, number(4)?],
            left,
            rate,
            paces: false,
        })
    }
}

/// The interface of a discipline that holds packets back although the link is free.
fn paces(message: &[u8]) -> Option<u32> {
    let kind = string(attribute(message.get(20..)?, 1)?);
    let index = u32_at(message, 4)?;
    PACING.contains(&kind.as_str()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A reader that comes late has seen one moment of a long time.
    #[test]
    fn late_looks_tell_nothing_about_waiting() {
        let queue = Queue {
            index: 1,
            values: [1500, 0, 0],
            left: None,
            rate: None,
            paces: false,
        };
        let mut seen = Seen::default();
        for since in [GLANCE.as_nanos() as u64, LATE, LATE + 1, 10 * LATE] {
            seen.look(&queue, None, since);
        }
        assert_eq!(seen.waited_ns, GLANCE.as_nanos() as u64 + LATE);
    }

    proptest! {
        #[test]
        fn bent_answers_are_passed_over(bytes: Vec<u8>, root: bool) {
            let mut bytes = bytes;
            if root && bytes.len() >= 16 {
                bytes[12..16].fill(0xff);
            }
            let _ = Queue::parse(&bytes);
            if let Some(link) = Listed::parse(&bytes) {
                prop_assert!(bytes.len() >= link.name.len());
            }
        }
    }
}
