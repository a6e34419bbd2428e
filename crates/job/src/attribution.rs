//! Bytes of a link by job, from the bytes that the jobs' nodes sent and received and the routes between them.
//!
//! Counters give the bytes that every node sent and received and every link carried, but not the pairs of nodes.
//! Assumption: a job's nodes send to each other only, each receiver in proportion to its received bytes (the gravity
//! model), or as a record of the job has it (`attribution/prior.rs`), changed as little as the links' bytes demand
//! (`attribution/fit.rs`). The interval needs less: a job put no more
//! on a link than those of its nodes sent whose routes cross it, nor more than those received, and no less than the link's
//! bytes beyond the most that all others can have put on it.

mod fit;
mod prior;

pub use self::prior::Recorded;

use self::fit::Fit;
use self::prior::Prior;
use hopbyte_fabric::{Fabric, LinkId, LinkState, Node, NodeId, RouterId, Routing};
use hopbyte_observe::Jobs;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::replace;

/// Bytes of a job on a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobBytes {
    /// The job.
    pub job: String,
    /// Estimate by the gravity model.
    pub bytes: f64,
    /// It put at least this much on the link.
    pub least_bytes: f64,
    /// And at most this much.
    pub most_bytes: f64,
}

/// Bytes of a link by job, most first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ByJob {
    /// Jobs with routes over it.
    #[serde(rename = "by_job")]
    pub jobs: Vec<JobBytes>,
    /// Bytes that the link carried beyond the estimates; `None` if it was not read.
    pub unexplained_bytes: Option<f64>,
}

/// Bytes that continue from a link on the next, by estimate; zero where jobs have a route but no bytes.
pub type Turns = BTreeMap<LinkId, BTreeMap<LinkId, f64>>;

/// Bytes of all links by job.
pub struct Attribution {
    /// Nodes of each job with their bytes.
    flows: Vec<Vec<Flow>>,
    /// By job and pair, in the order of [`Pairs::by_source`]: bytes by those of the gravity model. Empty: the model's.
    factors: Vec<Vec<f64>>,
    /// By link: the jobs with bytes on it.
    loads: Vec<Vec<Load>>,
    ids: Vec<String>,
    recorded: Recorded,
    /// Bytes that nodes without a job sent; infinite if one was not read.
    outside: f64,
    /// Nodes of jobs whose counters were not read.
    pub unread: usize,
    /// Pairs of nodes of a job without a route.
    pub unroutable: usize,
    /// Whether the pairs were too many to fit.
    pub unfitted: bool,
}

/// Bytes of a job on a link: estimate, and at most.
struct Load {
    job: u32,
    estimate: f64,
    most: f64,
}

/// Bytes of a job on every link: estimate, upper bounds by senders and by receivers.
struct JobLoad {
    estimate: Vec<f64>,
    sent: Vec<f64>,
    received: Vec<f64>,
}

/// Bytes that a node sent and received for a job: share of the estimate, and at most.
struct Flow {
    node: NodeId,
    sent: f64,
    received: f64,
    most_sent: f64,
    most_received: f64,
}

fn any_read(flows: &[Flow]) -> bool {
    let is_read = |f: &Flow| f.most_sent.is_finite() || f.most_received.is_finite();
    flows.iter().any(is_read)
}

/// The pairs of a job's nodes; nodes with the same route between routers are treated together.
struct Pairs<'a> {
    fabric: &'a Fabric,
    routing: &'a Routing,
    flows: &'a [Flow],
    sources: Vec<Vec<usize>>,
    targets: Vec<Vec<usize>>,
    /// Whether a route begins and ends with a link of its own nodes, which is not in the lists of links then.
    has_ends: bool,
}

impl<'a> Pairs<'a> {
    fn of(fabric: &'a Fabric, routing: &'a Routing, flows: &'a [Flow]) -> Self {
        let has_ends = !matches!(routing, Routing::Hosts(_));
        let same_to = has_ends && !matches!(routing, Routing::Tables(_) | Routing::Tree(_));
        let grouped = |merge: bool, link: fn(&Node) -> LinkId| {
            let mut groups: BTreeMap<(RouterId, bool, usize), Vec<usize>> = BTreeMap::new();
            for (i, flow) in flows.iter().enumerate() {
                let node = fabric.node(flow.node);
                let up = fabric.link(link(node)).is_up();
                let own = if merge { 0 } else { i };
                groups.entry((node.router, up, own)).or_default().push(i);
            }
            groups.into_values().collect()
        };
        Self {
            fabric,
            routing,
            flows,
            sources: grouped(has_ends, |n| n.inject),
            targets: grouped(same_to, |n| n.eject),
            has_ends,
        }
    }

    /// Rows of a fit, one for the nodes of each group: what they send, or receive, together. By flow; none where a route
    /// includes the links of its nodes.
    fn sums(
        &self,
        groups: &[Vec<usize>],
        of: impl Fn(&Flow) -> (f64, f64),
        fit: &mut Fit,
    ) -> Vec<Option<usize>> {
        let mut rows = vec![None; self.flows.len()];
        for group in groups.iter().filter(|_| self.has_ends) {
            let each = || group.iter().map(|&i| of(&self.flows[i]));
            let known = each().all(|(_, most)| most.is_finite());
            let row = fit.row(known.then(|| each().map(|(bytes, _)| bytes).sum()));
            group.iter().for_each(|&i| rows[i] = Some(row));
        }
        rows
    }

    /// Calls `visit` with senders, receivers, and the links of each pair's route with shares, all receivers of a sender
    /// one after the other; the number of pairs without a route.
    fn by_source(&self, mut visit: impl FnMut(&[usize], &[usize], &[(LinkId, f64)])) -> usize {
        let mut dead = 0;
        for from in &self.sources {
            for to in &self.targets {
                dead += self.pair(from, to, &mut visit);
            }
        }
        dead
    }

    /// The same, all senders of a receiver one after the other.
    fn by_target(&self, mut visit: impl FnMut(&[usize], &[usize], &[(LinkId, f64)])) {
        for to in &self.targets {
            for from in &self.sources {
                self.pair(from, to, &mut visit);
            }
        }
    }

    fn pair(
        &self,
        from: &[usize],
        to: &[usize],
        visit: &mut impl FnMut(&[usize], &[usize], &[(LinkId, f64)]),
    ) -> usize {
        let (a, b) = (self.flows[from[0]].node, self.flows[to[0]].node);
        let (source, target) = (self.fabric.node(a), self.fabric.node(b));
        let pairs = from.len() * to.len();
        // A node of both groups sends nothing to itself.
        if pairs > 1 && source.router == target.router {
            let each = from.iter().flat_map(|&f| to.iter().map(move |&t| (f, t)));
            return each.map(|(f, t)| self.pair(&[f], &[t], visit)).sum();
        }
        if a == b {
            return 0;
        }
        let mut shares = Vec::new();
        if self.routing.shares(self.fabric, a, b, &mut shares).is_err() {
            return pairs;
        }
        if self.has_ends {
            shares.retain(|&(link, _)| link != source.inject && link != target.eject);
        }
        visit(from, to, &shares);
        0
    }
}

impl Attribution {
    /// Attributes the bytes of a reading; `recorded`: traffic of some of the jobs.
    pub fn of(
        fabric: &Fabric,
        routing: &Routing,
        state: &LinkState,
        jobs: &Jobs,
        recorded: Recorded,
    ) -> Self {
        let mut all = Self {
            flows: Vec::new(),
            factors: Vec::new(),
            loads: (0..fabric.links().len()).map(|_| Vec::new()).collect(),
            ids: jobs.ids().to_vec(),
            recorded,
            outside: 0.0,
            unread: 0,
            unroutable: 0,
            unfitted: false,
        };
        for node in fabric.node_ids().filter(|&n| jobs.jobs_on(n).is_empty()) {
            let sent = state.received_bytes.get(fabric.node(node).inject);
            all.outside += sent.unwrap_or(f64::INFINITY);
        }
        let count = jobs.ids().len();
        let mut flows: Vec<Vec<Flow>> = (0..count)
            .map(|job| all.flows(fabric, state, jobs, job))
            .collect();
        match all.fitted(fabric, routing, state, &flows) {
            Some(factors) => all.factors = factors,
            None => {
                all.unfitted = true;
                // Only a fit gives bytes to jobs of which no node was read.
                for flow in flows.iter_mut().filter(|f| !any_read(f)).flatten() {
                    (flow.sent, flow.received) = (0.0, 0.0);
                }
            }
        }
        for (job, flows) in flows.iter().enumerate() {
            let load = all.load(fabric, routing, flows, job);
            all.keep(job as u32, &load);
        }
        all.flows = flows;
        all
    }

    /// Factors of all pairs by job; `None` if there are too many pairs.
    fn fitted(
        &self,
        fabric: &Fabric,
        routing: &Routing,
        state: &LinkState,
        flows: &[Vec<Flow>],
    ) -> Option<Vec<Vec<f64>>> {
        let read = |l: LinkId| state.received_bytes.get(l);
        let mut fit = Fit::new(fabric.link_ids().map(read).collect(), self.outside > 0.0);
        let mut ends = vec![0];
        for (job, flows) in flows.iter().enumerate() {
            let pairs = Pairs::of(fabric, routing, flows);
            let prior = Prior::of(flows, job, &self.recorded);
            let senders = pairs.sums(&pairs.sources, |f| (f.sent, f.most_sent), &mut fit);
            let receivers = pairs.sums(&pairs.targets, |f| (f.received, f.most_received), &mut fit);
            pairs.by_source(|from, to, network| {
                let each = |f: usize| to.iter().map(move |&t| (f, t));
                let pairs_ = from.iter().flat_map(|&f| each(f));
                let bytes = pairs_.map(|(f, t)| prior.bytes(&flows[f], &flows[t])).sum();
                let links = network.iter().map(|&(l, share)| (l.index(), share));
                let sums = [senders[from[0]], receivers[to[0]]];
                fit.pair(
                    bytes,
                    links.chain(sums.into_iter().flatten().map(|r| (r, 1.0))),
                );
            });
            ends.push(fit.pairs());
            if fit.is_full() {
                return None;
            }
        }
        let all = fit.factors();
        Some(ends.windows(2).map(|w| all[w[0]..w[1]].to_vec()).collect())
    }

    /// Keeps the links on which a job has bytes: most jobs use a small part of a machine.
    fn keep(&mut self, job: u32, load: &JobLoad) {
        let bounds = load.sent.iter().zip(&load.received).map(|(s, r)| s.min(*r));
        for ((link, &estimate), most) in self.loads.iter_mut().zip(&load.estimate).zip(bounds) {
            if most > 0.0 {
                link.push(Load {
                    job,
                    estimate,
                    most,
                });
            }
        }
    }

    fn flows(&mut self, fabric: &Fabric, state: &LinkState, jobs: &Jobs, job: usize) -> Vec<Flow> {
        let nodes = jobs.nodes_of(job);
        let read = |link: LinkId| state.received_bytes.get(link);
        let ends = |n: NodeId| (fabric.node(n).inject, fabric.node(n).eject);
        // A node that was not read counts as the mean of the others in the estimate, and has no upper limit. If none was
        // read, all are equal, and the bytes of the links reduce them.
        let most = || {
            let links = state.received_bytes.as_slice().iter().copied();
            links.filter(|b| b.is_finite()).fold(0.0, f64::max)
        };
        let mean = |of: &dyn Fn(NodeId) -> Option<f64>| {
            let known: Vec<f64> = nodes.iter().filter_map(|&n| of(n)).collect();
            match known.len() {
                0 => most(),
                n => known.iter().sum::<f64>() / n as f64,
            }
        };
        let sent = |n: NodeId| read(ends(n).0);
        let received = |n: NodeId| read(ends(n).1);
        let (usual_sent, usual_received) = (mean(&sent), mean(&received));
        let unread = |n: &&NodeId| sent(**n).is_none() || received(**n).is_none();
        self.unread += nodes.iter().filter(unread).count();
        let flow = |&node: &NodeId| {
            // Jobs that share a node: equal parts in the estimate, all of it at most.
            let part = 1.0 / jobs.jobs_on(node).len().max(1) as f64;
            Flow {
                node,
                sent: part * sent(node).unwrap_or(usual_sent),
                received: part * received(node).unwrap_or(usual_received),
                most_sent: sent(node).unwrap_or(f64::INFINITY),
                most_received: received(node).unwrap_or(f64::INFINITY),
            }
        };
        nodes.iter().map(flow).collect()
    }

    /// Jobs with the bytes that their nodes sent; without those of which no node was read.
    pub fn sent(&self) -> impl Iterator<Item = (&str, f64)> {
        let sent = |flows: &Vec<Flow>| flows.iter().map(|f| f.sent).sum::<f64>();
        let all = self.ids.iter().zip(&self.flows);
        let read = all.filter(|(_, flows)| any_read(flows));
        read.map(move |(id, flows)| (id.as_str(), sent(flows)))
    }

    /// Nodes of all jobs; a node that jobs share is named several times.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.flows.iter().flatten().map(|f| f.node)
    }

    /// Factor of a job's pair.
    fn factor(&self, job: usize, pair: usize) -> f64 {
        let of_job = self.factors.get(job);
        of_job.and_then(|f| f.get(pair)).copied().unwrap_or(1.0)
    }

    fn load(&mut self, fabric: &Fabric, routing: &Routing, flows: &[Flow], job: usize) -> JobLoad {
        let links = fabric.links().len();
        let mut load = JobLoad {
            estimate: vec![0.0; links],
            sent: vec![0.0; links],
            received: vec![0.0; links],
        };
        let pairs = Pairs::of(fabric, routing, flows);
        let prior = Prior::of(flows, job, &self.recorded);
        let mut last = vec![usize::MAX; links];
        let mut talks = vec![false; flows.len()];
        let mut pair = 0..;
        let end = |link: fn(&Node) -> LinkId, flow: &Flow| link(fabric.node(flow.node)).index();
        let unroutable = pairs.by_source(|from, to, network| {
            let factor = self.factor(job, pair.next().unwrap_or_default());
            let part = |from: &Flow, to: &Flow| factor * prior.bytes(from, to);
            let (from_flows, to_flows) = (
                from.iter().map(|&f| &flows[f]),
                to.iter().map(|&t| &flows[t]),
            );
            let bytes = |from: &Flow| to_flows.clone().map(|to| part(from, to)).sum::<f64>();
            let all: f64 = from_flows.clone().map(bytes).sum();
            let most: f64 = from_flows.clone().map(|f| f.most_sent).sum();
            let mut add = |at: usize, bytes: f64| {
                load.estimate[at] += bytes;
                if replace(&mut last[at], from[0]) != from[0] {
                    load.sent[at] += most;
                }
            };
            for &(link, share) in network {
                add(link.index(), all * share);
            }
            if !pairs.has_ends {
                return;
            }
            for t in to_flows.clone() {
                let bytes = from_flows.clone().map(|f| part(f, t)).sum();
                add(end(|n| n.eject, t), bytes);
            }
            for &f in from {
                load.estimate[end(|n| n.inject, &flows[f])] += bytes(&flows[f]);
                talks[f] = true;
            }
        });
        self.unroutable += unroutable;
        for (flow, _) in flows.iter().zip(&talks).filter(|(_, talks)| **talks) {
            load.sent[end(|n| n.inject, flow)] += flow.most_sent;
        }
        last.fill(usize::MAX);
        talks.fill(false);
        pairs.by_target(|from, to, network| {
            let most: f64 = to.iter().map(|&t| flows[t].most_received).sum();
            let ends = if pairs.has_ends { from } else { &[] };
            let ends = ends.iter().map(|&f| end(|n| n.inject, &flows[f]));
            for at in network.iter().map(|(link, _)| link.index()).chain(ends) {
                if replace(&mut last[at], to[0]) != to[0] {
                    load.received[at] += most;
                }
            }
            to.iter().for_each(|&t| talks[t] = pairs.has_ends);
        });
        for (flow, _) in flows.iter().zip(&talks).filter(|(_, talks)| **talks) {
            load.received[end(|n| n.eject, flow)] += flow.most_received;
        }
        load
    }

    /// Bytes that continue from some links on the next ones, by the estimate. Of several paths of a pair, what enters
    /// a router leaves it in the proportion of the links' shares.
    pub fn turns(&self, fabric: &Fabric, routing: &Routing, of: &BTreeSet<LinkId>) -> Turns {
        let mut turns = Turns::new();
        let mut is_of = vec![false; fabric.links().len()];
        of.iter().for_each(|l| is_of[l.index()] = true);
        for (job, flows) in self.flows.iter().enumerate() {
            let prior = Prior::of(flows, job, &self.recorded);
            let pairs = Pairs::of(fabric, routing, flows);
            let mut pair = 0..;
            let mut add = |from: LinkId, to: LinkId, bytes: f64| {
                if is_of[from.index()] && fabric.link(from).to == fabric.link(to).from {
                    *turns.entry(from).or_default().entry(to).or_default() += bytes;
                }
            };
            pairs.by_source(|from, to, network| {
                let factor = self.factor(job, pair.next().unwrap_or_default());
                let part = |from: &Flow, to: &Flow| factor * prior.bytes(from, to);
                let each = |f: usize| to.iter().map(|&t| part(&flows[f], &flows[t])).sum::<f64>();
                let all: f64 = from.iter().map(|&f| each(f)).sum();
                let concerned = network.iter().any(|(l, _)| is_of[l.index()])
                    || from
                        .iter()
                        .any(|&f| is_of[fabric.node(flows[f].node).inject.index()]);
                if !concerned {
                    return;
                }
                for &(l, share) in network.iter().filter(|(l, _)| is_of[l.index()]) {
                    for &(next, other) in network {
                        add(l, next, all * share.min(other));
                    }
                }
                if !pairs.has_ends {
                    return;
                }
                for &t in to {
                    let eject = fabric.node(flows[t].node).eject;
                    let bytes = from
                        .iter()
                        .map(|&f| part(&flows[f], &flows[t]))
                        .sum::<f64>();
                    network
                        .iter()
                        .for_each(|&(l, share)| add(l, eject, bytes * share));
                    for &f in from {
                        add(
                            fabric.node(flows[f].node).inject,
                            eject,
                            part(&flows[f], &flows[t]),
                        );
                    }
                }
                for &f in from {
                    let inject = fabric.node(flows[f].node).inject;
                    network
                        .iter()
                        .for_each(|&(l, share)| add(inject, l, each(f) * share));
                }
            });
        }
        turns
    }

    /// The jobs of a link that carried so many bytes.
    pub fn link(&self, link: LinkId, carried: Option<f64>) -> ByJob {
        let loads = &self.loads[link.index()];
        let most = |load: &Load| carried.map_or(load.most, |c| load.most.min(c));
        let all: f64 = loads.iter().map(most).sum();
        let mut jobs: Vec<JobBytes> = Vec::new();
        for load in loads {
            let most = most(load);
            if most <= 0.0 {
                continue;
            }
            let others = all - most + self.outside;
            let least = carried.map_or(0.0, |c| (c - others).max(0.0)).min(most);
            jobs.push(JobBytes {
                job: self.ids[load.job as usize].clone(),
                bytes: load.estimate.clamp(least, most),
                least_bytes: least,
                most_bytes: most,
            });
        }
        let mut explained: f64 = jobs.iter().map(|j| j.bytes).sum();
        if let Some(carried) = carried.filter(|&c| c < explained) {
            // Counters of several links never agree exactly, and nodes of jobs talk to others too. The lower bounds
            // together are no more than the link carried.
            let least: f64 = jobs.iter().map(|j| j.least_bytes).sum();
            let part = (carried - least).max(0.0) / (explained - least).max(f64::MIN_POSITIVE);
            for job in &mut jobs {
                job.bytes = job.least_bytes + part * (job.bytes - job.least_bytes);
            }
            explained = carried;
        }
        jobs.sort_by(|a, b| b.bytes.total_cmp(&a.bytes).then(a.job.cmp(&b.job)));
        ByJob {
            jobs,
            unexplained_bytes: carried.map(|c| (c - explained).max(0.0)),
        }
    }

    /// Assumptions and missing input.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "assumed: a job's nodes send to each other, in proportion to each one's received bytes unless the links' bytes say otherwise"
                .into(),
        ];
        notes.extend(self.recorded.notes.iter().cloned());
        if self.unfitted {
            notes.push("too many pairs of nodes to compare with the bytes of each link".into());
        }
        if self.unread > 0 && self.unread == self.nodes().count() {
            notes.push("no link of the jobs' nodes was read: only the routes and the bytes of links between routers tell the jobs apart".into());
        } else if self.unread > 0 {
            notes.push(format!(
                "the links of {} of the jobs' nodes were not read: their bytes are taken as the mean of the others",
                self.unread
            ));
        }
        if self.unroutable > 0 {
            notes.push(format!("{} pairs of nodes have no route", self.unroutable));
        }
        notes
    }

    /// Bytes of a link beyond the most that all jobs and all nodes without one can have put on it by the routes.
    pub fn beyond(&self, link: LinkId, carried: f64) -> f64 {
        let most: f64 = self.loads[link.index()].iter().map(|l| l.most).sum();
        carried - most - self.outside
    }

    /// Jobs with a route over a link, most bytes first.
    pub fn crossing(&self, link: LinkId) -> Vec<String> {
        let jobs = self.link(link, None).jobs.into_iter();
        jobs.map(|j| j.job).collect()
    }
}

#[cfg(test)]
mod tests;
