use super::*;
use hopbyte_fabric::spec;
use hopbyte_observe::Then;
use hopbyte_observe::counters::jobs as read;
use hopbyte_observe::text::{Limits, Text};

fn jobs(fabric: &Fabric, csv: &str) -> Jobs {
    let text = Text::from_bytes("jobs.csv", csv.as_bytes(), Limits::TEXT).unwrap();
    read(&text, fabric, Then::Now(0.0)).unwrap()
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
    let all = Attribution::of(f, r, &state, &jobs, Recorded::default());
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
    assert_eq!(all.beyond(link, 12e9), 2e9);
    assert!(all.beyond(link, 9e9) < 0.0);
}

/// Nodes that also talk to others, and a node of two jobs: the jobs together have no more bytes than the link carried.
#[test]
fn jobs_of_a_link_together_have_no_more_than_it_carried() {
    let m = spec::machine("mesh:6").unwrap();
    let (f, r) = (&m.fabric, &m.routing);
    let jobs = jobs(f, "job,node\na,n0\na,n1\nb,n1\nb,n2\n");
    let mut state = state(f, r, &[]);
    for (i, node) in f.node_ids().enumerate() {
        let bytes = Some((i + 1) as f64 * 1e9);
        state.received_bytes.set(f.node(node).inject, bytes);
        state.received_bytes.set(f.node(node).eject, bytes);
    }
    let all = Attribution::of(f, r, &state, &jobs, Recorded::default());
    for link in f.link_ids() {
        let carried = state.received_bytes.get(link).unwrap();
        let of = all.link(link, Some(carried));
        let sum: f64 = of.jobs.iter().map(|j| j.bytes).sum();
        let rest = of.unexplained_bytes.unwrap();
        assert!(
            (sum + rest - carried).abs() <= 1e-6 * carried,
            "{}: {of:?}",
            f.link_name(link)
        );
        assert!(
            of.jobs
                .iter()
                .all(|j| j.least_bytes <= j.bytes && j.bytes <= j.most_bytes)
        );
    }
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
        let all = Attribution::of(f, r, &state, &jobs, Recorded::default());
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

/// Jobs whose nodes lie among each other send rings: gravity spreads what the record places.
#[test]
fn recorded_traffic_attributes_hot_links() {
    let m = spec::machine("torus:6x6:nodes=2").unwrap();
    let (f, r) = (&m.fabric, &m.routing);
    let mut random = hopbyte_fabric::random::Random::new(3);
    let folder = tempfile::tempdir().unwrap();
    let (mut with, mut without, mut all) = (0.0, 0.0, 0.0);
    for round in 0..5 {
        let mut nodes: Vec<NodeId> = f.node_ids().collect();
        random.shuffle(&mut nodes);
        let name = |n: NodeId| f.node(n).name.clone();
        let job_of = |i: usize| i / 9;
        let csv: Vec<String> = (nodes.iter().enumerate())
            .map(|(i, &n)| format!("{},{}\n", job_of(i), name(n)))
            .collect();
        let jobs = jobs(f, &format!("job,node\n{}", csv.concat()));
        let next = |i: usize| i / 9 * 9 + (i + 1) % 9;
        let transfers: Vec<(usize, String, String, f64)> = (0..nodes.len())
            .map(|i| (job_of(i), name(nodes[i]), name(nodes[next(i)]), 1e9))
            .collect();
        let sent: Vec<(&str, &str, f64)> = transfers.iter().map(|t| (&*t.1, &*t.2, t.3)).collect();
        let state = state(f, r, &sent);
        let mut recorded = Recorded::default();
        for job in 0..8 {
            let record = folder.path().join(format!("{round}-{job}"));
            std::fs::create_dir(&record).unwrap();
            let mut placement = "rank,node\n".to_owned();
            for rank in 0..9 {
                placement += &format!("{rank},{}\n", name(nodes[9 * job + rank]));
                let to = (rank + 1) % 9;
                let text = format!(
                    "# hopbyte-record 2\nrank\t{rank}\nsize\t9\nhost\tx\nspawned\t0\nphase\t0\tmain\n\
                     P\t0\t{to}\t5000\t1\nended\tfinalize\nend\t8\n"
                );
                std::fs::write(record.join(format!("rank.{rank}.hbr")), text).unwrap();
            }
            std::fs::write(record.join("placement.csv"), placement).unwrap();
            let given = format!("{job}={}", record.display());
            recorded.add(&given, &jobs, f).unwrap();
        }
        assert!(recorded.notes.is_empty());
        assert!(recorded.clone().add("9=x", &jobs, f).is_err());
        let mut truth = vec![[0.0f64; 8]; f.links().len()];
        for (job, from, to, bytes) in &transfers {
            let mut route = Vec::new();
            let [from, to] = [from, to].map(|n| f.find_node(n).unwrap());
            r.route(f, from, to, &mut route).unwrap();
            route.iter().for_each(|l| truth[l.index()][*job] += bytes);
        }
        let hottest = truth
            .iter()
            .map(|t| t.iter().sum::<f64>())
            .fold(0.0, f64::max);
        let right = |attribution: &Attribution| -> f64 {
            let hot = f
                .link_ids()
                .filter(|l| truth[l.index()].iter().sum::<f64>() > 0.5 * hottest);
            let of = |link: LinkId| -> f64 {
                let found = attribution.link(link, state.received_bytes.get(link));
                let exact = |id: &str| truth[link.index()][id.parse::<usize>().unwrap()];
                found.jobs.iter().map(|j| j.bytes.min(exact(&j.job))).sum()
            };
            hot.map(of).sum()
        };
        with += right(&Attribution::of(f, r, &state, &jobs, recorded));
        without += right(&Attribution::of(f, r, &state, &jobs, Recorded::default()));
        let hot = truth.iter().map(|t| t.iter().sum::<f64>());
        all += hot.filter(|&b| b > 0.5 * hottest).sum::<f64>();
    }
    println!("{:.3} {:.3}", with / all, without / all);
    assert!(
        with > 0.97 * all && without < 0.95 * all,
        "{with} {without} {all}"
    );
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
            factors: Vec::new(),
            loads: Vec::new(),
            ids: Vec::new(),
            recorded: Recorded::default(),
            outside: 0.0,
            unread: 0,
            unroutable: 0,
            unfitted: false,
        };
        let load = all.load(f, r, &flows, 0);
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

/// Gemini's files count no links to nodes: those between routers have the bytes.
#[test]
fn bytes_of_links_decide_where_no_node_was_read() {
    let m = spec::machine("mesh:6").unwrap();
    let (f, r) = (&m.fabric, &m.routing);
    let jobs = jobs(f, "job,node\na,n0\na,n2\nb,n3\nb,n5\n");
    let transfers = [("n0", "n2", 6e9), ("n3", "n5", 1e9), ("n5", "n3", 2e9)];
    let mut state = state(f, r, &transfers);
    for node in f.node_ids() {
        for end in [f.node(node).inject, f.node(node).eject] {
            state.received_bytes.set(end, None);
        }
    }
    let all = Attribution::of(f, r, &state, &jobs, Recorded::default());
    assert_eq!(all.sent().count(), 0, "what nodes sent is not known");
    for (link, bytes) in f.link_ids().map(|l| (l, state.received_bytes.get(l))) {
        let Some(bytes) = bytes.filter(|&b| b > 0.0) else {
            continue;
        };
        let found: f64 = all.link(link, None).jobs.iter().map(|j| j.bytes).sum();
        assert!((found / bytes - 1.0).abs() < 0.02, "{found} {bytes}");
    }
}
