//! Bytes of a link by job, from the bytes that the jobs' nodes sent and received and the routes between them.
//!
//! Counters give the bytes that every node sent and received and every link carried, but not the pairs of nodes.
//! Assumption: a job's nodes send to each other only, each receiver in proportion to its received bytes (the gravity
//! model). The interval needs less: a job put no more on a link than those of its nodes sent whose routes cross it, nor
//! more than those received, and no less than the link's bytes beyond the most that all others can have put on it.

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

/// Bytes that continue from a link on the next, by estimate.
pub type Turns = BTreeMap<LinkId, BTreeMap<LinkId, f64>>;

/// Bytes of all links by job.
pub struct Attribution {
    /// Nodes of each job with their bytes.
    flows: Vec<Vec<Flow>>,
    /// By link: the jobs with bytes on it.
    loads: Vec<Vec<Load>>,
    ids: Vec<String>,
    /// Bytes that nodes without a job sent; infinite if one was not read.
    outside: f64,
    /// Nodes of jobs whose counters were not read.
    pub unread: usize,
    /// Pairs of nodes of a job without a route.
    pub unroutable: usize,
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

/// Bytes from a node to another: in proportion to the receivers' bytes.
fn gravity(flows: &[Flow]) -> impl Fn(&Flow, &Flow) -> f64 {
    let total: f64 = flows.iter().map(|f| f.received).sum();
    let others = flows.len().saturating_sub(1).max(1) as f64;
    move |from, to| match total - from.received {
        rest if rest > 0.0 => from.sent * to.received / rest,
        _ => from.sent / others,
    }
}

impl Attribution {
    /// Attributes the bytes of a reading.
    pub fn of(fabric: &Fabric, routing: &Routing, state: &LinkState, jobs: &Jobs) -> Self {
        let mut all = Self {
            flows: Vec::new(),
            loads: (0..fabric.links().len()).map(|_| Vec::new()).collect(),
            ids: jobs.ids().to_vec(),
            outside: 0.0,
            unread: 0,
            unroutable: 0,
        };
        for node in fabric.node_ids().filter(|&n| jobs.jobs_on(n).is_empty()) {
            let sent = state.received_bytes.get(fabric.node(node).inject);
            all.outside += sent.unwrap_or(f64::INFINITY);
        }
        for job in 0..jobs.ids().len() {
            let flows = all.flows(fabric, state, jobs, job);
            let load = all.load(fabric, routing, &flows);
            all.keep(job as u32, &load);
            all.flows.push(flows);
        }
        all
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
        // A node that was not read counts as the mean of the others in the estimate, and has no upper limit.
        let mean = |of: &dyn Fn(NodeId) -> Option<f64>| {
            let known: Vec<f64> = nodes.iter().filter_map(|&n| of(n)).collect();
            known.iter().sum::<f64>() / known.len().max(1) as f64
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

    fn load(&mut self, fabric: &Fabric, routing: &Routing, flows: &[Flow]) -> JobLoad {
        let links = fabric.links().len();
        let mut load = JobLoad {
            estimate: vec![0.0; links],
            sent: vec![0.0; links],
            received: vec![0.0; links],
        };
        let pairs = Pairs::of(fabric, routing, flows);
        let part = gravity(flows);
        let mut last = vec![usize::MAX; links];
        let mut talks = vec![false; flows.len()];
        let end = |link: fn(&Node) -> LinkId, flow: &Flow| link(fabric.node(flow.node)).index();
        self.unroutable += pairs.by_source(|from, to, network| {
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

    /// Bytes that continue from some links on the next ones, by the gravity model. Of several paths of a pair, what enters
    /// a router leaves it in the proportion of the links' shares.
    pub fn turns(&self, fabric: &Fabric, routing: &Routing, of: &BTreeSet<LinkId>) -> Turns {
        let mut turns = Turns::new();
        for flows in &self.flows {
            let part = gravity(flows);
            let pairs = Pairs::of(fabric, routing, flows);
            let mut add = |from: LinkId, to: LinkId, bytes: f64| {
                if bytes > 0.0 && of.contains(&from) && fabric.link(from).to == fabric.link(to).from
                {
                    *turns.entry(from).or_default().entry(to).or_default() += bytes;
                }
            };
            pairs.by_source(|from, to, network| {
                let each = |f: usize| to.iter().map(|&t| part(&flows[f], &flows[t])).sum::<f64>();
                let all: f64 = from.iter().map(|&f| each(f)).sum();
                let concerned = network.iter().any(|(l, _)| of.contains(l))
                    || from
                        .iter()
                        .any(|&f| of.contains(&fabric.node(flows[f].node).inject));
                if !concerned {
                    return;
                }
                for &(l, share) in network {
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
        jobs.sort_by(|a, b| b.bytes.total_cmp(&a.bytes).then(a.job.cmp(&b.job)));
        let explained: f64 = jobs.iter().map(|j| j.bytes).sum();
        ByJob {
            jobs,
            unexplained_bytes: carried.map(|c| (c - explained).max(0.0)),
        }
    }

    /// Assumptions and missing input.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "assumed: a job's nodes send to each other, in proportion to each one's received bytes"
                .into(),
        ];
        if self.unread > 0 {
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

    /// Jobs with a route over a link, most bytes first.
    pub fn crossing(&self, link: LinkId) -> Vec<String> {
        let jobs = self.link(link, None).jobs.into_iter();
        jobs.map(|j| j.job).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;
    use hopbyte_observe::counters::jobs as read;
    use hopbyte_observe::text::{Limits, Text};

    fn jobs(fabric: &Fabric, csv: &str) -> Jobs {
        let text = Text::from_bytes("jobs.csv", csv.as_bytes(), Limits::TEXT).unwrap();
        read(&text, fabric, None).unwrap()
    }

    /// Counters of given transfers.
    fn state(fabric: &Fabric, routing: &Routing, transfers: &[(&str, &str, f64)]) -> LinkState {
        let mut state = LinkState::unknown(fabric);
        for link in fabric.link_ids() {
            state.received_bytes.set(link, Some(0.0));
            state.coverage[link.index()] = 1.0;
        }
        for (from, to, bytes) in transfers {
            let node = |name| fabric.find_node(name).unwrap();
            let mut route = Vec::new();
            routing
                .route(fabric, node(from), node(to), &mut route)
                .unwrap();
            for link in route {
                let before = state.received_bytes.get(link).unwrap();
                state.received_bytes.set(link, Some(before + bytes));
            }
        }
        state
    }

    #[test]
    fn a_link_belongs_to_the_jobs_whose_routes_cross_it() {
        let m = spec::machine("mesh:6").unwrap();
        let (f, r) = (&m.fabric, &m.routing);
        // Job a sends from one end to the other, through the routers of job b.
        let jobs = jobs(f, "job,node\na,n0\na,n5\nb,n2\nb,n3\n");
        let transfers = [("n0", "n5", 9e9), ("n2", "n3", 1e9), ("n3", "n2", 2e9)];
        let state = state(f, r, &transfers);
        let all = Attribution::of(f, r, &state, &jobs);
        let link = f.find_link("r2 X+").unwrap();
        let of = all.link(link, state.received_bytes.get(link));
        let rows: Vec<_> = of
            .jobs
            .iter()
            .map(|j| (j.job.as_str(), j.bytes, j.least_bytes, j.most_bytes))
            .collect();
        assert_eq!(rows, [("a", 9e9, 9e9, 9e9), ("b", 1e9, 1e9, 1e9)]);
        assert_eq!(of.unexplained_bytes, Some(0.0));
        let first = f.find_link("r0 X+").unwrap();
        assert_eq!(all.crossing(first), ["a"]);
        // Bytes that no listed job sent are named as the rest.
        let more = all.link(link, Some(12e9));
        assert_eq!(more.unexplained_bytes, Some(2e9));
        assert_eq!((all.unread, all.unroutable), (0, 0));
    }

    /// The interval holds the truth for random traffic, and the estimates name at least nine tenths of hot links' bytes.
    #[test]
    fn intervals_hold_and_hot_links_are_attributed() {
        let m = spec::machine("torus:4x4:nodes=2").unwrap();
        let (f, r) = (&m.fabric, &m.routing);
        let mut random = hopbyte_fabric::random::Random::new(5);
        for _ in 0..20 {
            let mut nodes: Vec<NodeId> = f.node_ids().collect();
            random.shuffle(&mut nodes);
            let name = |n: NodeId| f.node(n).name.clone();
            let mut csv = String::from("job,node\n");
            for (i, &node) in nodes.iter().enumerate() {
                csv.push_str(&format!("{},{}{}", i / 8, name(node), char::from(10)));
            }
            let jobs = jobs(f, &csv);
            let mut transfers: Vec<(usize, NodeId, NodeId, f64)> = Vec::new();
            for (i, &from) in nodes.iter().enumerate() {
                let members = &nodes[i / 8 * 8..i / 8 * 8 + 8];
                for &to in members.iter().filter(|&&to| to != from) {
                    transfers.push((
                        i / 8,
                        from,
                        to,
                        (1.0 + random.unit()) * [1e9, 1e8, 1e6, 1e9][i / 8],
                    ));
                }
            }
            let names: Vec<(String, String, f64)> = transfers
                .iter()
                .map(|t| (name(t.1), name(t.2), t.3))
                .collect();
            let named: Vec<(&str, &str, f64)> = names
                .iter()
                .map(|(a, b, c)| (a.as_str(), b.as_str(), *c))
                .collect();
            let state = state(f, r, &named);
            let all = Attribution::of(f, r, &state, &jobs);
            let mut truth = vec![[0.0f64; 4]; f.links().len()];
            for &(job, from, to, bytes) in &transfers {
                let mut route = Vec::new();
                r.route(f, from, to, &mut route).unwrap();
                route.iter().for_each(|l| truth[l.index()][job] += bytes);
            }
            let hottest = truth
                .iter()
                .map(|t| t.iter().sum::<f64>())
                .fold(0.0, f64::max);
            let (mut right, mut total) = (0.0, 0.0);
            for link in f.link_ids() {
                let carried = state.received_bytes.get(link).unwrap();
                let of = all.link(link, Some(carried));
                for row in &of.jobs {
                    let position = jobs.ids().iter().position(|id| *id == row.job).unwrap();
                    let number: usize = jobs.ids()[position].parse().unwrap();
                    let exact = truth[link.index()][number];
                    let slack = 1e-6 * carried + 1.0;
                    assert!(
                        row.least_bytes <= exact + slack && exact <= row.most_bytes + slack,
                        "{row:?} {exact}"
                    );
                    if carried > 0.5 * hottest {
                        right += row.bytes.min(exact);
                    }
                }
                if carried > 0.5 * hottest {
                    total += carried;
                }
            }
            assert!(right > 0.9 * total, "{right} of {total}");
        }
    }

    /// Nodes of a router treated together give what the pairs give one by one, on every kind of routing.
    #[test]
    fn nodes_of_a_router_together_equal_single_pairs() {
        let specs = [
            "gemini:3x2x2",
            "aries:2x1x4",
            "dragonfly:4x3:nodes=3",
            "fattree:down=4x4,up=1x2",
            "torus:4x3:nodes=3",
        ];
        for spec in specs {
            let m = spec::machine(spec).unwrap();
            let (f, r) = (&m.fabric, &m.routing);
            let mut random = hopbyte_fabric::random::Random::new(7);
            let flows: Vec<Flow> = f
                .node_ids()
                .filter(|n| n.0 % 5 != 1)
                .map(|node| {
                    let [sent, received] = [random.unit(), random.unit()];
                    Flow {
                        node,
                        sent,
                        received,
                        most_sent: 2.0 * sent,
                        most_received: 2.0 * received,
                    }
                })
                .collect();
            let mut all = Attribution {
                flows: Vec::new(),
                loads: Vec::new(),
                ids: Vec::new(),
                outside: 0.0,
                unread: 0,
                unroutable: 0,
            };
            let load = all.load(f, r, &flows);
            let total: f64 = flows.iter().map(|f| f.received).sum();
            let count = f.links().len();
            let mut expected = [vec![0.0; count], vec![0.0; count], vec![0.0; count]];
            let mut seen = BTreeSet::new();
            for from in &flows {
                for to in flows.iter().filter(|to| to.node != from.node) {
                    let mut shares = Vec::new();
                    r.shares(f, from.node, to.node, &mut shares).unwrap();
                    for (link, share) in shares {
                        let at = link.index();
                        let part = from.sent * to.received / (total - from.received);
                        expected[0][at] += part * share;
                        if seen.insert((at, from.node, true)) {
                            expected[1][at] += from.most_sent;
                        }
                        if seen.insert((at, to.node, false)) {
                            expected[2][at] += to.most_received;
                        }
                    }
                }
            }
            let found = [load.estimate, load.sent, load.received];
            for (found, expected) in found.iter().zip(&expected) {
                for (a, b) in found.iter().zip(expected) {
                    assert!((a - b).abs() < 1e-9 * (1.0 + b), "{spec}: {a} {b}");
                }
            }
        }
    }
}
