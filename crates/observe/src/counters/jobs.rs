//! Placement of jobs on nodes: from the lists of batch systems, and from DragonView's jobs files.

use super::cells;
use crate::ObserveError;
use crate::placement::host_list;
use crate::text::{Limits, Line, Text, decimal_u32, lossy};
use hopbyte_fabric::{End, Fabric, InputError, LeftOut, LinkId, NodeId};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

mod lists;
mod pods;

pub use lists::Listed;

/// File in the folder of a store with the jobs over time.
pub const KEPT_JOBS: &str = "jobs.csv";

/// Jobs by node. A node that jobs share has several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jobs {
    ids: Vec<String>,
    jobs_on: HashMap<NodeId, Vec<usize>>,
    /// Rows and hosts without a node of the fabric.
    elsewhere: LeftOut,
    /// Jobs of the list that did not run at the time.
    pub others: usize,
    /// Whether the times of the list make them others later, though the list stays as it is.
    pub change: bool,
}

/// The jobs that are taken from a list. Times are in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Then {
    /// Those that ran at a past time; there must be some.
    Past(f64),
    /// Those that run: as the batch system says, or by the times of a table at this time. There must be some, unless the
    /// list is empty or all of its jobs wait.
    Now(f64),
    /// The same, of a list that is read again and again: none may run.
    Live(f64),
}

const NO_NODE: &str = "host that is no node of the fabric";
const NO_HOSTS: &str = "job that runs, of which the list has no nodes";

impl Jobs {
    /// Job ids in the order of their first node in the file.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// Positions in [`Jobs::ids`] of the jobs on a node.
    pub fn jobs_on(&self, node: NodeId) -> &[usize] {
        self.jobs_on.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Nodes of a job, in order.
    pub fn nodes_of(&self, job: usize) -> Vec<NodeId> {
        let of = |(node, jobs): (&NodeId, &Vec<usize>)| jobs.contains(&job).then_some(*node);
        let mut nodes: Vec<NodeId> = self.jobs_on.iter().filter_map(of).collect();
        nodes.sort();
        nodes
    }

    /// Unused parts of a file.
    pub fn notes(&self, file: &Path) -> Vec<String> {
        let name = file.display();
        let elsewhere = self.elsewhere.sentences();
        let mut notes: Vec<String> = elsewhere.map(|s| format!("{name}: {s}")).collect();
        if self.others > 0 {
            notes.push(format!("{name}: {} jobs do not run then", self.others));
        }
        notes
    }

    /// Number of rows and hosts without a node of the fabric.
    pub fn unmatched(&self) -> usize {
        self.counted(NO_NODE)
    }

    fn counted(&self, reason: &str) -> usize {
        let counts = self.elsewhere.counts().filter(|(of, _)| *of == reason);
        counts.map(|(_, count)| count).sum()
    }

    fn note_unmatched(&mut self, host: impl Into<String>) {
        self.elsewhere.note(NO_NODE, host);
    }

    /// Adds a job to a node.
    fn put(&mut self, node: NodeId, id: &str) {
        let job = self.ids.iter().rposition(|known| known == id);
        let job = job.unwrap_or_else(|| {
            self.ids.push(id.to_owned());
            self.ids.len() - 1
        });
        let on = self.jobs_on.entry(node).or_default();
        if !on.contains(&job) {
            on.push(job);
        }
    }

    /// Number of nodes that have a job.
    pub fn nodes(&self) -> usize {
        self.jobs_on.len()
    }

    /// Shares of the jobs next to a link, largest first: the fraction of the nodes on the link's two routers that
    /// belong to the job (for a node's own link, of that node). Idle nodes count in the total, so shares add up to at
    /// most 1.
    ///
    /// The shares describe the link's ends, not its traffic: routes of other jobs may cross it.
    pub fn shares(&self, fabric: &Fabric, link: LinkId) -> Vec<(usize, f64)> {
        let link = fabric.link(link);
        let nodes_at = |end| match end {
            End::Router(r) | End::Hosts(r) => fabric.nodes_on(r).to_vec(),
            End::Node(n) => vec![n],
        };
        let nodes = match (link.from, link.to) {
            (End::Node(n), _) | (_, End::Node(n)) => vec![n],
            (End::Hosts(r), _) | (_, End::Hosts(r)) => nodes_at(End::Router(r)),
            (from, to) => [nodes_at(from), nodes_at(to)].concat(),
        };
        let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
        for &node in &nodes {
            let on = self.jobs_on(node);
            for &job in on {
                *counts.entry(job).or_default() += 1.0 / on.len() as f64;
            }
        }
        let mut shares: Vec<(usize, f64)> = counts
            .into_iter()
            .map(|(job, n)| (job, n / nodes.len() as f64))
            .collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

/// Jobs of a time of which a list has no nodes.
pub fn without_nodes(listed: &[Listed], then: Then) -> LeftOut {
    let mut left_out = LeftOut::default();
    for job in listed.iter().filter(|job| job.is_of(then)) {
        if host_list(&job.hosts).is_some_and(|hosts| hosts.is_empty()) {
            left_out.note(NO_HOSTS, job.id.clone());
        }
    }
    left_out
}

/// Reads a list of jobs: JSON of `squeue`, `sacct`, `scontrol show job`, `qstat -f -F json`, `flux jobs` or `kubectl get pods`, text of
/// `scontrol show job` or `qstat -f`, a CSV `job,node[,start,end]`, or DragonView's `g,r,c,n,jobid` (group, chassis,
/// slot, node on the router, job).
pub fn read_jobs(path: &Path, fabric: &Fabric, then: Then) -> Result<Jobs, ObserveError> {
    jobs(&Text::read(path, Limits::TEXT)?, fabric, then)
}

/// [`read_jobs`] on text in memory.
pub fn jobs(text: &Text, fabric: &Fabric, then: Then) -> Result<Jobs, ObserveError> {
    if let Some(list) = lists::read(text, fabric, then) {
        return list;
    }
    let mut lines = text.lines().filter(|l| !l.trimmed().is_empty());
    let header = lines.next();
    let names: Vec<&[u8]> = header.map_or_else(Vec::new, |l| cells(l.bytes).collect());
    let column = |name: &str| names.iter().position(|n| *n == name.as_bytes());
    let job = column("jobid").or_else(|| column("job"));
    let columns = [column("g"), column("r"), column("c"), column("n"), job];
    let [Some(g), Some(r), Some(c), Some(n), Some(job)] = columns else {
        let error = text.error(
            header.map_or_else(String::new, Line::text),
            "g,r,c,n,jobid, or a list of jobs",
        );
        let error = error.hint(
            "a list is the output of squeue --json, sacct --json, scontrol show job, qstat -f, flux jobs --json or \
             kubectl get pods -o json, or a CSV job,node",
        );
        return Err(header.map_or(error.clone(), |l| error.at(l.number)).into());
    };
    let columns = (names.len(), [g, r, c, n, job]);
    let mut jobs = Jobs::default();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for line in lines {
        let row = JobRow::parse(text, line, columns)?;
        let Some(node) = row.node(fabric) else {
            let [g, r, c] = row.router;
            jobs.note_unmatched(format!("{g},{r},{c},{}", row.node));
            continue;
        };
        let job = *numbers.entry(row.job.clone()).or_insert_with(|| {
            jobs.ids.push(row.job.clone());
            jobs.ids.len() - 1
        });
        let before = jobs.jobs_on.insert(node, vec![job]);
        let other = before.and_then(|on| on.first().copied());
        if let Some(other) = other.filter(|&other| other != job) {
            let expected = format!("the node only once; it belongs to job {}", jobs.ids[other]);
            return Err(text.error_at(line, expected).into());
        }
    }
    super::end::End::Line.check(text)?;
    if jobs.nodes() == 0 {
        let found = format!(
            "{} rows, none of which names a node of the fabric",
            jobs.unmatched()
        );
        return Err(text
            .error(found, format!("jobs on {}", fabric.source()))
            .of(hopbyte_fabric::Class::OtherMachine)
            .hint("do the jobs belong to this fabric?")
            .into());
    }
    Ok(jobs)
}

/// The jobs of a list without their nodes in a fabric (all of [`read_jobs`] except DragonView's).
pub fn list_jobs(path: &Path) -> Result<Vec<Listed>, ObserveError> {
    let text = Text::read(path, Limits::TEXT)?;
    lists::of(&text).unwrap_or_else(|| {
        let first = text.lines().next().map_or_else(String::new, Line::text);
        Err(text.error(first, "a list of jobs with their hosts").into())
    })
}

/// The jobs that ran at a time, of the folder of a store that keeps them. A time without a job is no error, and a last line
/// that is being written is left out.
pub fn kept_jobs(folder: &Path, fabric: &Fabric, at: f64) -> Result<Jobs, ObserveError> {
    let path = folder.join(KEPT_JOBS);
    let text = Text::read(&path, Limits::TEXT)?;
    let bytes = text.bytes();
    let end = bytes
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |at| at + 1);
    let text = Text::from_bytes(path.display().to_string(), &bytes[..end], Limits::TEXT)?;
    let listed = lists::of(&text).transpose()?.unwrap_or_default();
    let others = listed.iter().filter(|j| !j.ran(at)).count();
    if others == listed.len() {
        return Ok(Jobs {
            others,
            ..Jobs::default()
        });
    }
    lists::place(&text, fabric, &listed, Then::Past(at))
}

struct JobRow {
    router: [u32; 3],
    node: u32,
    job: String,
}

impl JobRow {
    /// A line of so many cells, with the columns of group, chassis, slot, node and job.
    fn parse(
        text: &Text,
        line: Line<'_>,
        (count, columns): (usize, [usize; 5]),
    ) -> Result<Self, InputError> {
        let row: Vec<&[u8]> = cells(line.bytes).collect();
        if row.len() != count {
            let expected = format!("{count} cells, as in the header");
            return Err(text.error_at(line, expected));
        }
        let [g, r, c, n, job] = columns.map(|at| row[at]);
        let number = |cell| decimal_u32(cell).ok_or_else(|| text.error_in(line, cell, "a number"));
        let job = lossy(job);
        let printable = !job.is_empty() && job.len() <= 64 && !job.contains(char::is_control);
        if !printable {
            return Err(text.error_in(line, job.as_bytes(), "a job id of at most 64 characters"));
        }
        Ok(Self {
            router: [number(g)?, number(r)?, number(c)?],
            node: number(n)?,
            job: job.into_owned(),
        })
    }

    /// The node of that number on the router: by name (`…nN`), else by position.
    fn node(&self, fabric: &Fabric) -> Option<NodeId> {
        let router = fabric.router_at(&self.router)?;
        let nodes = fabric.nodes_on(router);
        let ending = format!("n{}", self.node);
        let blade = fabric.router(router).name.strip_suffix("a0");
        let named = blade.and_then(|blade| {
            nodes
                .iter()
                .find(|&&n| fabric.node(n).name.strip_prefix(blade) == Some(ending.as_str()))
        });
        named.or_else(|| nodes.get(self.node as usize)).copied()
    }
}

#[cfg(test)]
mod tests;
