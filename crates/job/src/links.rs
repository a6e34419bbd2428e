//! The state of every link, worst first: the lines `hopbyte.link/1` that `links --json` prints and readers accept.

use crate::inputs::LinkReading;
use anyhow::Result;
use hopbyte_fabric::{Column, Fabric, Increase, LinkId, LinkState, Missing};
use hopbyte_observe::Jobs;
use serde::Serialize;
use std::collections::BTreeMap;
use std::str::FromStr;

const SCHEMA: &str = "hopbyte.link/1";

/// Sort key of the worst links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Received bytes over the link's capacity
    Used,
    /// Waiting for credits to leave
    CreditStall,
    /// Waiting in the input queue
    InputStall,
    /// Bytes received
    Bytes,
    /// Packets received
    Packets,
}

impl FromStr for By {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|b| b.1 == word).map(|b| b.0);
        found.ok_or_else(|| format!("found {word:?}, expected a column such as used"))
    }
}

impl By {
    /// All columns to sort by, the default first: name and meaning.
    pub const ALL: [(Self, &'static str, &'static str); 5] = [
        (
            Self::Used,
            "used",
            "Received bytes over the link's capacity",
        ),
        (
            Self::CreditStall,
            "credit-stall",
            "Waiting for credits to leave",
        ),
        (
            Self::InputStall,
            "input-stall",
            "Waiting in the input queue",
        ),
        (Self::Bytes, "bytes", "Bytes received"),
        (Self::Packets, "packets", "Packets received"),
    ];

    /// The columns with known values for this key, the preferred one first.
    fn columns(self, state: &LinkState) -> Vec<&Column> {
        match self {
            Self::Used => vec![&state.used_ratio],
            Self::CreditStall => vec![&state.credit_stall_ratio, &state.credit_stall_seconds],
            Self::InputStall => vec![&state.input_stall_ratio, &state.input_stall_seconds],
            Self::Bytes => vec![&state.received_bytes],
            Self::Packets => vec![&state.packets],
        }
    }

    /// The requested sort column, or the first one with known values.
    fn column(wish: Option<Self>, state: &LinkState) -> &Column {
        let choices = wish.map_or(Self::ALL.map(|b| b.0).to_vec(), |w| vec![w]);
        let mut columns = choices.into_iter().flat_map(|by| by.columns(state));
        columns
            .find(|c| c.known() > 0)
            .unwrap_or(&state.received_bytes)
    }
}

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
    lanes: Option<f64>,
    coverage: f64,
    /// Window of this link, if it differs from the summary's.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_seconds: Option<f64>,
    /// Reasons for missing values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    missing: BTreeMap<&'static str, Missing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<Vec<Share>>,
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
    /// Unused input, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, usize>,
}

/// The window of a link, if it differs from the window of the reading.
pub fn own_window(state: &LinkState, link: LinkId) -> Option<f64> {
    let own = state.window.get(link);
    own.filter(|_| own != state.window_seconds)
}

/// Links that a source names, worst first, those of unknown load last; ties by id.
///
/// # Errors
/// There is no link of this kind.
pub fn worst_first(
    by: Option<By>,
    kind: Option<&str>,
    fabric: &Fabric,
    state: &LinkState,
) -> Result<Vec<LinkId>> {
    if let Some(kind) = kind
        && !fabric.kinds().iter().any(|k| k.name == kind)
    {
        let names: Vec<&str> = fabric.kinds().iter().map(|k| k.name.as_str()).collect();
        anyhow::bail!(
            "no kind of link '{kind}'\nhint: there are {}",
            names.join(", ")
        );
    }
    let column = By::column(by, state);
    let mut links: Vec<LinkId> = fabric
        .link_ids()
        .filter(|&l| state.is_spoken_of(l))
        .filter(|&l| kind.is_none_or(|k| fabric.kind(l).name == k))
        .collect();
    links.sort_by(|&a, &b| column.largest_first(a, b).then(a.cmp(&b)));
    Ok(links)
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
            lanes: state.lanes.get(id),
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
        let read = state.coverage.iter().filter(|&&c| c > 0.0).count();
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
            links_lost: (lost > 0).then_some(lost),
            left_out: counts.map(|(why, n)| (why.to_owned(), n)).collect(),
        }
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
    text.push_str(&serde_json::to_string(&Last::of(&reading, order.len()))?);
    text.push('\n');
    Ok(text)
}
