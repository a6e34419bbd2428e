//! Bytes between the nodes of a job before the links are looked at: as recorded in a run of it, else the gravity model.

use super::Flow;
use crate::error::{Result, refuse};
use hopbyte_fabric::{Allocation, Fabric, NodeId};
use hopbyte_observe::{Jobs, read_placement, read_traffic};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Share of the gravity model beside recorded traffic, so that what the links show is possible.
const REST: f64 = 0.01;

/// Bytes between nodes.
type Between = HashMap<(NodeId, NodeId), f64>;

/// Traffic of jobs as `hopbyte record` recorded it.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    by_job: BTreeMap<usize, Between>,
    /// Assumptions, one sentence each.
    pub notes: Vec<String>,
}

impl Recorded {
    /// Traffic of jobs, of `JOB=RECORD`.
    ///
    /// # Errors
    /// Another form; an unknown job; no such record; other numbers of nodes.
    pub fn of(given: &[String], jobs: &Jobs, fabric: &Fabric) -> Result<Self> {
        let mut recorded = Self::default();
        for given in given {
            recorded.add(given, jobs, fabric)?;
        }
        Ok(recorded)
    }

    /// Traffic of the jobs that are listed now, of `JOB=RECORD`; a note names the others.
    ///
    /// # Errors
    /// As [`Recorded::of`] for a job that is listed.
    pub fn of_listed(given: &[String], jobs: &Jobs, fabric: &Fabric) -> Result<Self> {
        let mut recorded = Self::default();
        for given in given {
            let id = given.split_once('=').map(|(id, _)| id);
            if let Some(id) = id.filter(|id| !jobs.ids().iter().any(|known| known == id)) {
                let note = format!("job {id}, of which a record was given, does not run then");
                recorded.notes.push(note);
            } else {
                recorded.add(given, jobs, fabric)?;
            }
        }
        Ok(recorded)
    }

    /// Adds `JOB=RECORD`: the folder of a record with its placement. A run on other nodes, but as many, counts for those of
    /// the job in their order.
    ///
    /// # Errors
    /// No such job or record; other numbers of nodes.
    pub(super) fn add(&mut self, given: &str, jobs: &Jobs, fabric: &Fabric) -> Result<()> {
        let Some((id, record)) = given.split_once('=') else {
            refuse!(
                "--recorded: found '{given}', expected JOB=RECORD, the folder of hopbyte record"
            );
        };
        let Some(job) = jobs.ids().iter().position(|known| known == id) else {
            refuse!(
                "--recorded: found job '{id}', expected one of {}",
                jobs.ids().join(", ")
            );
        };
        let traffic = read_traffic(record)?.total();
        let placement = Path::new(record).join("placement.csv");
        let placed = read_placement(&placement, fabric, None::<&Allocation>)?;
        let slots = placed.placement.slots();
        let (nodes, mut was): (Vec<NodeId>, Vec<NodeId>) =
            (jobs.nodes_of(job), slots.iter().map(|s| s.node).collect());
        let ranks = was.clone();
        was.sort_unstable();
        was.dedup();
        if was.len() != nodes.len() {
            let (found, expected) = (was.len(), nodes.len());
            refuse!("{record}: found {found} nodes, expected the {expected} of job {id}");
        }
        if was != nodes {
            let text =
                format!("{record} ran on other nodes than job {id}: taken for them in their order");
            self.notes.push(text);
        }
        let now: HashMap<NodeId, NodeId> = was.into_iter().zip(nodes).collect();
        let between = self.by_job.entry(job).or_default();
        for (from, message) in traffic.iter() {
            let ends = [from, message.to].map(|rank| ranks.get(rank as usize).map(|n| now[n]));
            let [Some(from), Some(to)] = ends else {
                refuse!(
                    "{record}: its traffic has more ranks than {}",
                    placement.display()
                );
            };
            *between.entry((from, to)).or_default() += message.bytes;
        }
        Ok(())
    }
}

/// The model of one job.
pub(super) struct Prior<'a> {
    total: f64,
    others: f64,
    recorded: Option<(&'a Between, HashMap<NodeId, f64>)>,
}

impl<'a> Prior<'a> {
    pub(super) fn of(flows: &[Flow], job: usize, recorded: &'a Recorded) -> Self {
        let between = recorded.by_job.get(&job);
        let sums = |between: &'a Between| {
            let mut sent: HashMap<NodeId, f64> = HashMap::new();
            for (&(from, to), bytes) in between.iter().filter(|((from, to), _)| from != to) {
                *sent.entry(from).or_default() += bytes;
                sent.entry(to).or_default();
            }
            (between, sent)
        };
        Self {
            total: flows.iter().map(|f| f.received).sum(),
            others: flows.len().saturating_sub(1).max(1) as f64,
            recorded: between.map(sums),
        }
    }

    /// Bytes from a node to another: by the record's shares of what the sender sent; without one in proportion to the
    /// receivers' bytes.
    pub(super) fn bytes(&self, from: &Flow, to: &Flow) -> f64 {
        let gravity = match self.total - from.received {
            rest if rest > 0.0 => from.sent * to.received / rest,
            _ => from.sent / self.others,
        };
        let Some((between, sent)) = &self.recorded else {
            return gravity;
        };
        let all = sent.get(&from.node).copied().unwrap_or(0.0);
        if all == 0.0 {
            return gravity;
        }
        let bytes = between.get(&(from.node, to.node)).copied().unwrap_or(0.0);
        (1.0 - REST) * from.sent * bytes / all + REST * gravity
    }
}
