//! Gemini's counters by link direction: units, tiles, and the join of a router's record to its links.
//!
//! What gpcdr publishes and LDMS passes on: six metrics for each of X+ … Z-, already added up over the
//! direction's tiles (`traffic` = 3 (PC0 + PC1) bytes, `packets` = PC2 + PC3, stalls = 5/4 PC4 and
//! 5/4 PC5 ns). Two nodes share a Gemini, so two nodes tell the same; the first of them counts.

use super::delta::{Behaviour, Moment, increase};
use hopbyte_fabric::{Direction, Fabric, LinkId, Missing, Quantity, RouterId, Side, Snapshot};
use std::collections::BTreeMap;

/// Nanoseconds of a router cycle (800 MHz, paper 000, Table I).
pub(super) const STALL_NS: f64 = 1.25;
/// Bytes of the smallest packet: 8 phits of 3 bytes (paper 000, Table I).
const SMALLEST_PACKET: f64 = 24.0;

/// Tiles that count at either end of a link; eight for the host link, which no dump lists.
pub(super) fn tiles(fabric: &Fabric, link: LinkId) -> f64 {
    match fabric.ports(link).len() {
        0 => f64::from(hopbyte_fabric::gemini::HOST_TILES),
        n => n as f64,
    }
}

/// The metrics of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Metric {
    /// Bytes that arrived.
    Traffic,
    /// Packets that arrived.
    Packets,
    /// Nanoseconds that arrivals waited, added up over tiles.
    InqStall,
    /// Nanoseconds that departures lacked credits, added up over tiles.
    CreditStall,
    /// Lanes that send.
    SendLanes,
    /// Lanes that receive.
    RecvLanes,
}

impl Metric {
    /// Number of metrics.
    pub(super) const COUNT: usize = 6;

    /// The names that gpcdr and LDMS give them.
    pub(super) const NAMES: [(&'static str, Self); Self::COUNT] = [
        ("traffic", Self::Traffic),
        ("packets", Self::Packets),
        ("inq_stall", Self::InqStall),
        ("credit_stall", Self::CreditStall),
        ("sendlinkstatus", Self::SendLanes),
        ("recvlinkstatus", Self::RecvLanes),
    ];

    /// The metric of a name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(n, _)| *n == name)
            .map(|&(_, metric)| metric)
    }
}

/// One reading of a direction; what was not read is `None`.
pub(super) type Values = [Option<u64>; Metric::COUNT];

/// Percentages that the source printed itself for a direction, as ratios 0..1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Printed {
    pub(super) used: Option<f64>,
    pub(super) input_stall: Option<f64>,
    pub(super) credit_stall: Option<f64>,
}

/// What a router said at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    /// When, by the source's clock.
    pub(super) moment: Moment,
    /// By [`Direction::index`].
    pub(super) values: [Values; 6],
    /// By [`Direction::index`].
    pub(super) printed: [Printed; 6],
}

impl Record {
    fn get(&self, direction: Direction, metric: Metric) -> Option<u64> {
        self.values[direction.index()][metric as usize]
    }

    /// Whether nothing at all is said of a direction, or only zeros: it has no links.
    fn is_silent(&self, direction: Direction) -> bool {
        self.values[direction.index()]
            .iter()
            .all(|v| v.is_none_or(|v| v == 0))
    }
}

/// Links that a record's direction speaks of; none where the router has no link that way.
struct Lines {
    arrivals: Vec<LinkId>,
    departures: Vec<LinkId>,
}

impl Lines {
    /// In a dimension of two both ways lead to the same router, and the machine files the tiles of
    /// both under one of them (paper 003 prints 48 lanes for X+): then that record speaks of two links
    /// and the other of none.
    fn of(fabric: &Fabric, router: RouterId, direction: Direction, record: &Record) -> Self {
        let directions = if folds(fabric, router, direction.opposite(), record) {
            vec![]
        } else if folds(fabric, router, direction, record) {
            vec![direction, direction.opposite()]
        } else {
            vec![direction]
        };
        let departures: Vec<LinkId> = directions
            .iter()
            .filter_map(|&d| fabric.link_towards(router, d))
            .collect();
        let arrivals = departures
            .iter()
            .filter_map(|&l| fabric.reverse(l))
            .collect();
        Self {
            arrivals,
            departures,
        }
    }
}

/// Whether a direction's record holds the tiles of the opposite direction too.
fn folds(fabric: &Fabric, router: RouterId, direction: Direction, record: &Record) -> bool {
    let length = fabric
        .shape()
        .and_then(|s| s.dims.get(direction.dim as usize));
    let silent_other = record.is_silent(direction.opposite()) && !record.is_silent(direction);
    if length != Some(&2) || !silent_other {
        return false;
    }
    let own = fabric
        .link_towards(router, direction)
        .map_or(0, |l| u64::from(fabric.link(l).lanes));
    [Metric::SendLanes, Metric::RecvLanes]
        .iter()
        .filter_map(|&m| record.get(direction, m))
        .all(|lanes| lanes > own)
}

fn lanes_of(fabric: &Fabric, links: &[LinkId]) -> u64 {
    links.iter().map(|&l| u64::from(fabric.link(l).lanes)).sum()
}

/// Limits of the counters of a direction that has these links.
fn behaviour(fabric: &Fabric, links: &[LinkId], metric: Metric) -> Behaviour {
    let bytes: f64 = links.iter().map(|&l| fabric.link(l).nominal.0).sum();
    let stall: f64 = links.iter().map(|&l| tiles(fabric, l) * 1e9).sum();
    let most = match metric {
        Metric::Traffic => bytes,
        Metric::Packets => bytes / SMALLEST_PACKET,
        _ => stall,
    };
    Behaviour::PLAIN.at_most(most)
}

/// Records of many routers, in the order of time for each.
#[derive(Default)]
pub(super) struct Routers {
    records: BTreeMap<RouterId, Vec<Record>>,
    /// Which set of the source speaks for a router.
    speaker: BTreeMap<RouterId, String>,
    unmatched: usize,
}

impl Routers {
    /// Adds a record of a set; sets that tell of a router a second time are left out.
    pub(super) fn add(&mut self, router: Option<RouterId>, set: &str, record: Record) {
        let Some(router) = router else {
            self.unmatched += directions().filter(|&d| !record.is_silent(d)).count();
            return;
        };
        let speaker = self.speaker.entry(router).or_insert_with(|| set.to_owned());
        if speaker == set {
            self.records.entry(router).or_default().push(record);
        }
    }

    /// The series: totals where each router has one record, else increases from each to the next.
    pub(super) fn series(
        &self,
        fabric: &Fabric,
        source: &str,
    ) -> Result<Vec<Snapshot>, TooManyLanes> {
        let most = self.records.values().map(Vec::len).max().unwrap_or(0);
        let mut series = Vec::new();
        for i in 0..most.saturating_sub(1).max(1) {
            let mut snapshot = Snapshot::new(fabric, source, most <= 1);
            snapshot.unmatched = self.unmatched;
            for (&router, records) in &self.records {
                match &records[i.min(records.len())..] {
                    [earlier, later, ..] => {
                        file_increase(fabric, router, earlier, later, &mut snapshot)?;
                    }
                    [only] if most == 1 => file_totals(fabric, router, only, &mut snapshot)?,
                    _ => {}
                }
            }
            drop_dead_links(fabric, &mut snapshot);
            series.push(snapshot);
        }
        Ok(series)
    }
}

/// All directions of a 3-D torus.
fn directions() -> impl Iterator<Item = Direction> {
    (0..6).map(Direction::of)
}

/// A record counts more lanes than the links have: it is of another machine.
#[derive(Debug)]
pub(super) struct TooManyLanes {
    pub(super) found: String,
    pub(super) expected: String,
}

/// Files a record of totals.
fn file_totals(
    fabric: &Fabric,
    router: RouterId,
    record: &Record,
    snapshot: &mut Snapshot,
) -> Result<(), TooManyLanes> {
    snapshot.time_seconds = latest(snapshot.time_seconds, record.moment);
    file(fabric, router, record, snapshot, |_, value, _| {
        value.map(Ok)
    })
}

/// Files the increase between two records of a router.
fn file_increase(
    fabric: &Fabric,
    router: RouterId,
    earlier: &Record,
    later: &Record,
    snapshot: &mut Snapshot,
) -> Result<(), TooManyLanes> {
    snapshot.time_seconds = latest(snapshot.time_seconds, later.moment);
    let seconds = earlier.moment.seconds_to(later.moment);
    if let Ok(seconds) = seconds {
        // Of several routers' intervals the longest stands for all; each link keeps its own.
        let longest = snapshot.window_seconds.unwrap_or(0.0).max(seconds);
        snapshot.window_seconds = Some(longest);
        for direction in directions() {
            let lines = Lines::of(fabric, router, direction, later);
            for &link in &lines.arrivals {
                snapshot.set_window(Side::Arrivals, link, seconds);
            }
            for &link in &lines.departures {
                snapshot.set_window(Side::Departures, link, seconds);
            }
        }
    }
    file(fabric, router, later, snapshot, |at, new, behaviour| {
        let old = earlier.get(at.0, at.1);
        match (seconds, old, new) {
            (_, None, None) => None,
            (Err(why), ..) => Some(Err(why)),
            (Ok(seconds), Some(old), Some(new)) => Some(increase(behaviour, old, new, seconds)),
            (Ok(_), ..) => Some(Err(Missing::Unread)),
        }
    })
}

fn latest(time: Option<f64>, moment: Moment) -> Option<f64> {
    let new = moment.time_ns.map(|ns| ns as f64 / 1e9);
    match (time, new) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

/// Files what `value` makes of every counter of a router, with lanes and printed percentages.
fn file(
    fabric: &Fabric,
    router: RouterId,
    record: &Record,
    snapshot: &mut Snapshot,
    value: impl Fn((Direction, Metric), Option<u64>, Behaviour) -> Option<Result<u64, Missing>>,
) -> Result<(), TooManyLanes> {
    for direction in directions() {
        let lines = Lines::of(fabric, router, direction, record);
        if lines.departures.is_empty() {
            snapshot.unmatched += usize::from(!record.is_silent(direction));
            continue;
        }
        let mut is_said = false;
        let sides = [
            (Metric::Traffic, Quantity::ReceivedBytes, &lines.arrivals),
            (Metric::Packets, Quantity::ReceivedPackets, &lines.arrivals),
            (Metric::InqStall, Quantity::InputStallNs, &lines.arrivals),
            (
                Metric::CreditStall,
                Quantity::CreditStallNs,
                &lines.departures,
            ),
        ];
        for (metric, quantity, links) in sides {
            let behaviour = behaviour(fabric, links, metric);
            if let Some(v) = value(
                (direction, metric),
                record.get(direction, metric),
                behaviour,
            ) {
                is_said = true;
                share_out(fabric, links, quantity, v, snapshot);
            }
        }
        for (metric, links) in [
            (Metric::RecvLanes, &lines.arrivals),
            (Metric::SendLanes, &lines.departures),
        ] {
            if let Some(lanes) = record.get(direction, metric) {
                file_lanes(fabric, router, direction, links, lanes, snapshot)?;
            }
        }
        snapshot.matched += usize::from(is_said);
        let printed = record.printed[direction.index()];
        for (quantity, links, ratio) in [
            (Quantity::UsedRatio, &lines.arrivals, printed.used),
            (
                Quantity::InputStallRatio,
                &lines.arrivals,
                printed.input_stall,
            ),
            (
                Quantity::CreditStallRatio,
                &lines.departures,
                printed.credit_stall,
            ),
        ] {
            for &link in links {
                if let Some(ratio) = ratio {
                    snapshot.set(quantity, link, ratio);
                }
            }
        }
    }
    Ok(())
}

/// Files one value under the links it speaks of: counts in proportion to capacity, stalls as the mean
/// over all tiles.
fn share_out(
    fabric: &Fabric,
    links: &[LinkId],
    quantity: Quantity,
    value: Result<u64, Missing>,
    snapshot: &mut Snapshot,
) {
    let is_stall = matches!(quantity, Quantity::InputStallNs | Quantity::CreditStallNs);
    let capacity: f64 = links.iter().map(|&l| fabric.link(l).nominal.0).sum();
    let all_tiles: f64 = links.iter().map(|&l| tiles(fabric, l)).sum();
    for &link in links {
        match value {
            Ok(v) if is_stall => snapshot.set(quantity, link, v as f64 / all_tiles),
            Ok(v) if links.len() == 1 => snapshot.set(quantity, link, v as f64),
            Ok(v) => snapshot.set(
                quantity,
                link,
                v as f64 * fabric.link(link).nominal.0 / capacity,
            ),
            Err(why) => snapshot.lose(quantity, link, why),
        }
    }
}

/// Files lanes in service, the fewest that either end sees.
fn file_lanes(
    fabric: &Fabric,
    router: RouterId,
    direction: Direction,
    links: &[LinkId],
    lanes: u64,
    snapshot: &mut Snapshot,
) -> Result<(), TooManyLanes> {
    let all = lanes_of(fabric, links);
    if lanes > all {
        return Err(TooManyLanes {
            found: format!(
                "{lanes} lanes in direction {direction} of {}",
                fabric.router(router).name
            ),
            expected: format!("at most the {all} that the fabric has there"),
        });
    }
    for &link in links {
        let own = lanes as f64 * f64::from(fabric.link(link).lanes) / all as f64;
        let fewest = snapshot
            .get(Quantity::Lanes, link)
            .map_or(own, |seen| seen.min(own));
        snapshot.set(Quantity::Lanes, link, fewest);
    }
    Ok(())
}

/// Of a link that no lane serves nothing is known, whatever its ends counted.
fn drop_dead_links(fabric: &Fabric, snapshot: &mut Snapshot) {
    let counts: Vec<Quantity> = snapshot.quantities().filter(|q| !q.is_gauge()).collect();
    for link in fabric.link_ids() {
        if snapshot.get(Quantity::Lanes, link) != Some(0.0) {
            continue;
        }
        for &quantity in &counts {
            snapshot.lose(quantity, link, Missing::Down);
        }
    }
}

/// The router that a record's coordinates name, or the one of its host.
pub(super) fn router_of(
    fabric: &Fabric,
    coordinate: [Option<u64>; 3],
    host: &str,
) -> Option<RouterId> {
    let [Some(x), Some(y), Some(z)] = coordinate else {
        return fabric.find_node(host).ok().map(|n| fabric.node(n).router);
    };
    let at: Option<Vec<u32>> = [x, y, z].iter().map(|&c| u32::try_from(c).ok()).collect();
    fabric.router_at(&at?)
}
