//! The state of every link, worst first: the lines `hopbyte.link/1` that `links --json` prints and readers accept.

use crate::attribution::ByJob;
use crate::error::{Result, refuse};
use crate::inputs::LinkReading;
use hopbyte_fabric::units::{Seconds, count};
use hopbyte_fabric::{Column, End, Fabric, Increase, LinkId, LinkState, Missing, NodeTimes};
use hopbyte_observe::Jobs;
use hopbyte_observe::counters::{CHANGED, PathLine};
use hopbyte_oracle::Metric;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;

const SCHEMA: &str = "hopbyte.link/1";

/// One link, as scripts read it.
#[derive(Serialize)]
pub struct LinkRow {
    schema: &'static str,
    link: String,
    from: String,
    to: String,
    direction: Option<String>,
    kind: String,
    capacity_bytes_per_s: f64,
    received_bytes: Option<f64>,
    /// Bytes that the sender counts: of exchanged cables they are not those of the receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_bytes: Option<f64>,
    packets: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_bytes: Option<f64>,
    used_ratio: Option<f64>,
    input_stall_ratio: Option<f64>,
    credit_stall_ratio: Option<f64>,
    input_stall_seconds: Option<f64>,
    credit_stall_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credit_stall_count: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued_bytes: Option<f64>,
    errors: Option<f64>,
    /// Whether there may be more: a counter of them is at its highest value, or was not read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    errors_at_least: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    drops: Option<f64>,
    /// Times that it went down.
    #[serde(skip_serializing_if = "Option::is_none")]
    downs: Option<f64>,
    lanes: Option<f64>,
    /// Rate on which the ends agreed.
    #[serde(skip_serializing_if = "Option::is_none")]
    agreed_bytes_per_s: Option<f64>,
    /// Rate while the queue was not empty over the capacity, and the seconds over which that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    served_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    served_seconds: Option<f64>,
    /// Share of the window in which the most delayed thread of the sending node had no processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    processor_wait_ratio: Option<f64>,
    coverage: f64,
    /// Window of this link, if it differs from the summary's.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_seconds: Option<f64>,
    /// Reasons for missing values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    missing: BTreeMap<&'static str, Missing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<Vec<Share>>,
    /// Bytes by job.
    #[serde(flatten)]
    by_job: Option<ByJob>,
}

/// A job's share of the nodes at both ends of a link.
#[derive(Serialize)]
struct Share {
    job: String,
    share: f64,
}

/// The last line of a reading.
#[derive(Serialize)]
pub struct Last {
    schema: &'static str,
    summary: LinksSummary,
}

/// Summary of a reading.
#[derive(Serialize)]
pub struct LinksSummary {
    /// Rows of the source.
    pub rows: usize,
    /// Rows that named a link of the fabric.
    pub matched: usize,
    /// Rows that named no link of the fabric.
    pub unmatched: usize,
    /// The source.
    pub source: String,
    /// Length of the window.
    pub window_seconds: Option<f64>,
    /// Links listed.
    pub links: usize,
    /// Links with at least one known value.
    pub links_read: usize,
    /// Links that the source names without a known value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links_lost: Option<usize>,
    /// Links with errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links_with_errors: Option<usize>,
    /// Links that went down in the window, by the source; without a window ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links_flapping: Option<usize>,
    /// Links without a lane in service, by the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links_down: Option<usize>,
    /// Unused input, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, usize>,
}

/// The window of a link, if it differs from the window of the reading.
pub fn own_window(state: &LinkState, link: LinkId) -> Option<f64> {
    let own = state.window.get(link);
    own.filter(|_| own != state.window_seconds)
}

/// Metrics of a link's load, the most telling first: the first known one gives the default order.
const LOADS: [Metric; 5] = [
    Metric::Used,
    Metric::CreditStall,
    Metric::InputStall,
    Metric::Bytes,
    Metric::Packets,
];

/// Links that a source names, worst first, ties by id.
///
/// By a metric: largest first, links of unknown value last. Without one: links that are or went down and links with errors,
/// most errors first, in turn with all links by the first of `LOADS` that is known, so that neither
/// a few errors hide the load nor the load the errors.
///
/// # Errors
/// There is no link of this kind.
pub fn worst_first(
    by: Option<Metric>,
    kind: Option<&str>,
    fabric: &Fabric,
    state: &LinkState,
) -> Result<Vec<LinkId>> {
    if let Some(kind) = kind
        && !fabric.kinds().iter().any(|k| k.name == kind)
    {
        let names: Vec<&str> = fabric.kinds().iter().map(|k| k.name.as_str()).collect();
        refuse!(
            "no kind of link '{kind}'\nhint: there are {}",
            names.join(", ")
        );
    }
    let links = fabric
        .link_ids()
        .filter(|&l| state.is_spoken_of(l))
        .filter(|&l| kind.is_none_or(|k| fabric.kind(l).name == k));
    let mut links: Vec<LinkId> = links.collect();
    let known = |m: &Metric| m.column(state).is_some_and(|c| c.known() > 0);
    let load = by.or_else(|| LOADS.into_iter().find(known));
    if let Some(column) = load.and_then(|metric| metric.column(state)) {
        links.sort_by(|&a, &b| column.largest_first(a, b).then(a.cmp(&b)));
    }
    if by.is_some() {
        return Ok(links);
    }
    let down = |l: LinkId| state.lanes.get(l) == Some(0.0);
    let some = |column: &Column, l: LinkId| column.get(l).is_some_and(|n| n > 0.0);
    // Totals since the counters began have every restart of a host.
    let is_now = state.window_seconds.is_some();
    let flaps = |l: LinkId| down(l) || (is_now && some(&state.downs, l));
    let faulty = |l: &&LinkId| flaps(**l) || some(&state.errors, **l);
    let mut faults: Vec<LinkId> = links.iter().filter(faulty).copied().collect();
    faults.sort_by(|&a, &b| {
        let errors = state.errors.largest_first(a, b);
        let order = down(b).cmp(&down(a)).then(flaps(b).cmp(&flaps(a)));
        order.then(errors).then(a.cmp(&b))
    });
    Ok(in_turn(&faults, &links))
}

/// The items of two lists in turn, the first list's first, each item once.
pub fn in_turn<T: Copy + Eq + Hash>(first: &[T], second: &[T]) -> Vec<T> {
    let mut listed = HashSet::new();
    let mut order = Vec::with_capacity(second.len());
    let mut lists = [first.iter(), second.iter()];
    loop {
        let before = order.len();
        for list in &mut lists {
            order.extend(list.find(|&&item| listed.insert(item)));
        }
        if order.len() == before {
            return order;
        }
    }
}

impl LinkRow {
    /// The row of a link.
    pub fn of(fabric: &Fabric, state: &LinkState, jobs: Option<&Jobs>, id: LinkId) -> Self {
        let link = fabric.link(id);
        Self {
            schema: SCHEMA,
            link: fabric.link_name(id),
            from: fabric.end_name(link.from),
            to: fabric.end_name(link.to),
            direction: link.direction.map(|d| d.to_string()),
            kind: fabric.kind(id).name.clone(),
            capacity_bytes_per_s: link.capacity().0,
            received_bytes: state.received_bytes.get(id),
            sent_bytes: state.sent_bytes.get(id),
            packets: state.packets.get(id),
            packet_bytes: state.packet_bytes(id),
            used_ratio: state.used_ratio.get(id),
            input_stall_ratio: state.input_stall_ratio.get(id),
            credit_stall_ratio: state.credit_stall_ratio.get(id),
            input_stall_seconds: state.input_stall_seconds.get(id),
            credit_stall_seconds: state.credit_stall_seconds.get(id),
            credit_stall_count: state.credit_stall_count.get(id),
            queued_bytes: state.queued_bytes.get(id),
            errors: state.errors.get(id),
            errors_at_least: !state.at_least(id).is_empty(),
            drops: state.drops.get(id),
            downs: state.downs.get(id),
            lanes: state.lanes.get(id),
            agreed_bytes_per_s: state.agreed.get(id),
            served_ratio: state.served_ratio.get(id),
            served_seconds: state.served_seconds.get(id).filter(|&s| s > 0.0),
            processor_wait_ratio: match link.from {
                End::Node(node) => state.nodes.get(&node).and_then(NodeTimes::waited_ratio),
                _ => None,
            },
            coverage: state.coverage[id.index()],
            window_seconds: own_window(state, id),
            missing: state.missing(id).collect(),
            jobs: jobs.map(|jobs| {
                let shares = jobs.shares(fabric, id).into_iter();
                shares
                    .map(|(job, share)| Share {
                        job: jobs.ids()[job].clone(),
                        share,
                    })
                    .collect()
            }),
            by_job: None,
        }
    }

    /// The same with the bytes of jobs.
    pub fn with_jobs(self, by_job: ByJob) -> Self {
        Self {
            by_job: Some(by_job),
            ..self
        }
    }
}

impl Last {
    /// The last line for a reading, with the number of listed links.
    pub fn of(reading: &LinkReading, links: usize) -> Self {
        Self {
            schema: SCHEMA,
            summary: LinksSummary::of(reading, links),
        }
    }
}

impl LinksSummary {
    /// Summary of a reading, with the number of listed links.
    pub fn of(reading: &LinkReading, links: usize) -> Self {
        let state = &reading.state;
        let some = |n: usize| (n > 0).then_some(n);
        let counted = |is: fn(f64) -> bool, column: &Column| {
            column.as_slice().iter().filter(|&&v| is(v)).count()
        };
        let read = state.links_read();
        let all = (0..state.coverage.len()).map(LinkId::of);
        let lost = all.filter(|&l| state.is_spoken_of(l)).count() - read;
        let counts = reading.left_out.counts();
        Self {
            rows: reading.matched + reading.unmatched,
            matched: reading.matched,
            unmatched: reading.unmatched,
            source: reading.source.clone(),
            window_seconds: reading.state.window_seconds,
            links,
            links_read: read,
            links_lost: some(lost),
            links_with_errors: some(counted(|e| e > 0.0, &state.errors)),
            links_flapping: some(counted(|n| n > 0.0, &state.downs)),
            links_down: some(counted(|lanes| lanes == 0.0, &state.lanes)),
            left_out: counts.map(|(why, n)| (why.to_owned(), n)).collect(),
        }
    }
}

impl LinksSummary {
    /// Whether the figures cover what the source counts: false if no link has a value, if half of the rows or more name no
    /// link of the machine, or if counters are left out
    /// because not all readings have them.
    pub fn is_complete(&self) -> bool {
        self.links_read > 0 && self.is_of_machine() && !self.left_out.contains_key(CHANGED)
    }

    /// Whether most rows name a link of the machine; otherwise the file may be of another one.
    fn is_of_machine(&self) -> bool {
        self.unmatched == 0 || self.matched > self.unmatched
    }

    /// The summary as the first line of a table, for a fabric of so many links.
    pub fn headline(&self, links: usize) -> String {
        let window = self.window_seconds.map_or("window not known".into(), |w| {
            format!("window {}", Seconds(w))
        });
        let more = [
            (self.links_lost, "no value known of", " more"),
            (self.links_with_errors, "errors on", ""),
            (self.links_flapping, "went down:", ""),
            (self.links_down, "no lane in service on", ""),
        ];
        let more: String = (more.into_iter())
            .filter_map(|(n, what, more)| Some((n?, what, more)))
            .map(|(n, what, more)| {
                let s = if n == 1 { "" } else { "s" };
                format!("; {what} {}{more} link{s}", count(n))
            })
            .collect();
        format!(
            "# {}: {window}; {} of {} links read, {} of {} rows matched{more}",
            self.source,
            count(self.links_read),
            count(links),
            count(self.matched),
            count(self.rows),
        )
    }
}

/// An increase as the lines that `hopbyte links --json` prints.
///
/// # Errors
/// A value has no JSON form.
pub fn lines(fabric: &Fabric, increase: &Increase) -> Result<String> {
    let reading = LinkReading {
        state: LinkState::of_increase(fabric, increase),
        source: increase.source.clone(),
        time_seconds: increase.time_seconds,
        matched: increase.matched,
        unmatched: increase.unmatched,
        left_out: increase.left_out.clone(),
        notes: Vec::new(),
    };
    let order = worst_first(None, None, fabric, &reading.state)?;
    let mut text = String::new();
    for &link in &order {
        text.push_str(&serde_json::to_string(&LinkRow::of(
            fabric,
            &reading.state,
            None,
            link,
        ))?);
        text.push('\n');
    }
    for line in PathLine::all(fabric, &reading.state) {
        text.push_str(&serde_json::to_string(&line)?);
        text.push('\n');
    }
    text.push_str(&serde_json::to_string(&Last::of(&reading, order.len()))?);
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;

    /// A link with errors and no traffic is among the first, at any load of others.
    #[test]
    fn links_with_errors_are_listed_in_turn_with_loaded_ones() {
        let fabric = spec::fabric("torus:4x4").unwrap();
        let mut state = LinkState::unknown(&fabric);
        for link in fabric.link_ids() {
            let i = link.index();
            state.coverage[i] = 1.0;
            state.used_ratio.set(link, Some(i as f64 / 100.0));
            state.errors.set(link, Some(0.0));
        }
        let (bad, worse) = (LinkId(3), LinkId(0));
        let order = |state: &LinkState, by| worst_first(by, None, &fabric, state).unwrap();
        let loaded = order(&state, None);
        let last = fabric.links().len() as u32 - 1;
        assert_eq!(loaded[..2], [LinkId(last), LinkId(last - 1)]);
        state.errors.set(bad, Some(3.0));
        state.errors.set(worse, Some(123_456.0));
        state.at_least.insert(worse);
        let row = |link| serde_json::to_value(LinkRow::of(&fabric, &state, None, link)).unwrap();
        let told = [worse, bad].map(|link| row(link)["errors_at_least"].as_bool());
        assert_eq!(told, [Some(true), None]);
        let first = [worse, LinkId(last), bad, LinkId(last - 1), LinkId(last - 2)];
        assert_eq!(order(&state, None)[..5], first);
        assert_eq!(order(&state, None).len(), fabric.links().len());
        assert_eq!(order(&state, Some(Metric::Errors))[..2], [worse, bad]);
        assert_eq!(order(&state, Some(Metric::Used)), loaded);
        state.lanes.set(LinkId(7), Some(0.0));
        assert_eq!(order(&state, None)[..3], [LinkId(7), LinkId(last), worse]);
        // A link that ever went down is no worse than one with errors, unless it did in the window.
        state.downs.set(LinkId(5), Some(9.0));
        assert_eq!(order(&state, None)[2], worse);
        state.window_seconds = Some(1.0);
        assert_eq!(order(&state, None)[2], LinkId(5));
    }
}
