use super::*;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{NodeId, NodeTimes, PathCounts, RouterId, spec};

/// A healthy machine under load: used at random, hardly any waiting, no errors.
fn healthy(fabric: &Fabric, random: &mut Random) -> LinkState {
    let mut state = LinkState::unknown(fabric);
    state.window_seconds = Some(10.0);
    for link in fabric.link_ids() {
        let used = 0.05 + 0.7 * random.unit();
        state.coverage[link.index()] = 1.0;
        state.used_ratio.set(link, Some(used));
        let bytes = used * 10.0 * fabric.link(link).capacity().0;
        state.received_bytes.set(link, Some(bytes));
        state
            .credit_stall_ratio
            .set(link, Some(0.04 * random.unit()));
        state.errors.set(link, Some(random.below(3) as f64));
        state
            .lanes
            .set(link, Some(f64::from(fabric.link(link).lanes)));
    }
    state
}

#[test]
fn healthy_machines_are_not_blamed() {
    let mut random = Random::new(1);
    for machine in ["torus:4x4:nodes=2", "fattree:k=4,levels=2"] {
        let fabric = spec::fabric(machine).unwrap();
        for _ in 0..100 {
            let found = blame(
                &fabric,
                &Routing::default_for(&fabric),
                &healthy(&fabric, &mut random),
                None,
            )
            .unwrap();
            assert!(found.causes.is_empty(), "{machine}: {:?}", found.causes);
            assert!(found.not_judged.is_empty());
        }
    }
}

/// Faults drawn at random: the first cause is the right one.
#[test]
fn the_cause_is_named_first() {
    let mut random = Random::new(2);
    let fabric = spec::fabric("torus:4x4x4:nodes=2").unwrap();
    let hops: Vec<LinkId> = fabric.link_ids().filter(|&l| fabric.is_hop(l)).collect();
    let (mut right, mut total) = (0, 0);
    for round in 0..200 {
        let mut state = healthy(&fabric, &mut random);
        let link = hops[random.below(hops.len())];
        let node = fabric
            .node_ids()
            .nth(random.below(fabric.nodes().len()))
            .unwrap();
        let router = RouterId::of(random.below(fabric.routers().len()));
        // Links out of a router that could carry more than they do.
        let out = |r: RouterId| -> Vec<LinkId> {
            let ejects = fabric.nodes_on(r).iter().map(|&n| fabric.node(n).eject);
            fabric.links_from(r).iter().copied().chain(ejects).collect()
        };
        let End::Router(end) = fabric.link(link).to else {
            unreachable!("a hop ends at a router")
        };
        let idle = match round % 6 {
            3 => out(end),
            4 => out(router),
            _ => Vec::new(),
        };
        for l in idle {
            state.used_ratio.set(l, Some(0.05));
        }
        let mut stall = |l: LinkId, share: f64| state.credit_stall_ratio.set(l, Some(share));
        // Links into a router wait for its departures.
        let before = |end: End| -> Vec<LinkId> {
            fabric
                .link_ids()
                .filter(|&l| fabric.link(l).to == end)
                .collect()
        };
        let (kind, name) = match round % 6 {
            0 => {
                state
                    .errors
                    .set(link, Some(100.0 + random.below(100_000) as f64));
                (Kind::Errors, fabric.link_name(link))
            }
            1 => {
                state.lanes.set(link, Some(0.0));
                (Kind::Down, fabric.link_name(link))
            }
            2 => {
                // A slow host pauses its link, and the links into its router wait too.
                stall(fabric.node(node).eject, 0.3 + 0.6 * random.unit());
                for l in before(End::Router(fabric.node(node).router)) {
                    stall(l, 0.1 + 0.2 * random.unit());
                }
                (Kind::SlowReceiver, fabric.node(node).name.clone())
            }
            3 => {
                stall(link, 0.3 + 0.6 * random.unit());
                (Kind::Slow, fabric.link_name(link))
            }
            4 => {
                for l in before(End::Router(router)) {
                    stall(l, 0.4 + 0.1 * random.unit());
                }
                (Kind::Slow, fabric.router(router).name.clone())
            }
            _ => {
                state.used_ratio.set(link, Some(0.98));
                for l in before(fabric.link(link).from) {
                    if Some(l) != fabric.reverse(link) {
                        state
                            .credit_stall_ratio
                            .set(l, Some(0.1 + 0.3 * random.unit()));
                    }
                }
                (Kind::HotSpot, fabric.link_name(link))
            }
        };
        let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
        total += 1;
        let ok = found
            .causes
            .first()
            .is_some_and(|c| c.fault == kind && c.name == name);
        right += usize::from(ok);
        if !ok {
            println!("{kind:?} {name}: {:?}", found.causes);
        }
    }
    assert!(right * 100 >= total * 95, "{right} of {total}");
}

/// Counters that show none of the faults are no proof of a healthy network.
#[test]
fn counters_that_show_no_fault_are_refused() {
    let fabric = spec::fabric("torus:3x3").unwrap();
    let mut state = LinkState::unknown(&fabric);
    for link in fabric.link_ids() {
        state.received_bytes.set(link, Some(1e9));
        state.coverage[link.index()] = 1.0;
    }
    let error = blame(&fabric, &Routing::default_for(&fabric), &state, None)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("nothing can be judged"), "{error}");
}

/// A machine with little traffic and no waiting.
fn quiet(machine: &str) -> (Fabric, LinkState) {
    let fabric = spec::fabric(machine).unwrap();
    let mut state = LinkState::unknown(&fabric);
    state.window_seconds = Some(10.0);
    for link in fabric.link_ids() {
        state.coverage[link.index()] = 1.0;
        state.used_ratio.set(link, Some(0.05));
        state.credit_stall_ratio.set(link, Some(0.0));
    }
    (fabric, state)
}

fn faults(fabric: &Fabric, state: &LinkState) -> Vec<(Kind, String)> {
    let found = blame(fabric, &Routing::default_for(fabric), state, None).unwrap();
    let causes = found.causes.into_iter();
    causes.map(|c| (c.fault, c.name)).collect()
}

fn link(fabric: &Fabric, name: &str) -> LinkId {
    let mut links = fabric.link_ids();
    links.find(|&l| fabric.link_name(l) == name).unwrap()
}

#[test]
fn waits_for_two_stopped_links_add_up() {
    let (fabric, mut state) = quiet("torus:4x4");
    let mut set = |name: &str, used: f64, stall: f64| {
        let l = link(&fabric, name);
        state.used_ratio.set(l, Some(used));
        state.credit_stall_ratio.set(l, Some(stall));
    };
    // r0-0 to r1-0, whose two ways on wait for full links.
    set("r0-0 X+", 0.1, 0.8);
    set("r1-0 X+", 0.3, 0.45);
    set("r1-0 Y+", 0.3, 0.45);
    set("r2-0 X+", 0.99, 0.0);
    set("r1-1 Y+", 0.99, 0.0);
    set("r2-3 Y+", 0.95, 0.0);
    set("r0-1 X+", 0.95, 0.0);
    let slow = |found: &(Kind, String)| found.0 != Kind::HotSpot;
    let found = faults(&fabric, &state);
    assert!(!found.iter().any(slow), "{found:?}");
    // One of them is no reason for as much.
    state
        .credit_stall_ratio
        .set(link(&fabric, "r1-0 Y+"), Some(0.0));
    let found = faults(&fabric, &state);
    assert!(found.iter().any(slow), "{found:?}");
}

#[test]
fn a_fast_link_waits_for_itself_before_a_slower_one() {
    let (fabric, mut state) = quiet("gemini:4x4x4");
    let capacity = |l: LinkId| fabric.link(l).capacity().0;
    let hops: Vec<LinkId> = fabric.link_ids().filter(|&l| fabric.is_hop(l)).collect();
    let slower = *hops
        .iter()
        .min_by(|&&a, &&b| capacity(a).total_cmp(&capacity(b)))
        .unwrap();
    let leads = |l: &&LinkId| fabric.link(**l).to == fabric.link(slower).from;
    let fast = *hops
        .iter()
        .filter(leads)
        .max_by(|&&a, &&b| capacity(a).total_cmp(&capacity(b)))
        .unwrap();
    let share = capacity(slower) / capacity(fast);
    state.used_ratio.set(fast, Some(share));
    state.credit_stall_ratio.set(fast, Some(0.95 - share));
    state.used_ratio.set(slower, Some(1.0));
    let found = faults(&fabric, &state);
    assert_eq!(found, [(Kind::HotSpot, fabric.link_name(slower))]);
}

#[test]
fn links_of_one_router_that_wait_without_a_reason_are_due_to_it() {
    let (fabric, mut state) = quiet("torus:4x4");
    for name in ["r1-1 X+", "r1-1 X-", "r1-1 Y+"] {
        state.credit_stall_ratio.set(link(&fabric, name), Some(0.6));
    }
    let found = faults(&fabric, &state);
    assert_eq!(found, [(Kind::Slow, "r1-1".to_owned())]);
}

/// A network of queues in bursts: each link sends for some share of the time, and its queue is not empty for hardly more of it
/// than that.
fn queues(random: &mut Random) -> (Fabric, LinkState) {
    let (fabric, mut state) = quiet("torus:4x4:nodes=2");
    for link in fabric.link_ids() {
        let used = random.unit();
        state.used_ratio.set(link, Some(used));
        state
            .credit_stall_ratio
            .set(link, Some(used * (0.3 + 0.72 * random.unit())));
        let queued = (random.unit() < used).then_some(20_000.0);
        state.queued_bytes.set(link, queued.or(Some(0.0)));
    }
    (fabric, state)
}

#[test]
fn queues_of_bursts_are_healthy() {
    let mut random = Random::new(3);
    for _ in 0..100 {
        let (fabric, state) = queues(&mut random);
        assert_eq!(faults(&fabric, &state), []);
    }
}

#[test]
fn what_waits_longer_than_it_sends_is_slow() {
    let mut random = Random::new(4);
    let fabric = spec::fabric("torus:4x4:nodes=2").unwrap();
    let way = |name: &str| link(&fabric, name);
    let back = |name: &str| fabric.reverse(way(name)).unwrap();
    let node = fabric.find_node("n1-2-0").unwrap();
    let router = fabric.router_named("r2-2").unwrap();
    let at = |l: &LinkId| {
        let link = fabric.link(*l);
        [link.from, link.to].contains(&End::Router(router))
    };
    let cases = [
        ("r1-1 X+".to_owned(), vec![way("r1-1 X+")]),
        (
            fabric.link_name(way("r1-1 X+").min(back("r1-1 X+"))),
            vec![way("r1-1 X+"), back("r1-1 X+")],
        ),
        (
            "n1-2-0".to_owned(),
            vec![fabric.node(node).inject, fabric.node(node).eject],
        ),
        ("r2-2".to_owned(), fabric.link_ids().filter(at).collect()),
    ];
    for (name, links) in cases {
        for left in [0.1, 0.3, 0.5, 0.7] {
            let (_, mut state) = queues(&mut random);
            for &l in &links {
                state.used_ratio.set(l, Some(left));
                state.credit_stall_ratio.set(l, Some(0.98));
            }
            assert_eq!(faults(&fabric, &state), [(Kind::Slow, name.clone())]);
        }
    }
}

#[test]
fn packets_that_a_full_queue_drops_are_no_transmission_errors() {
    let (fabric, mut state) = queues(&mut Random::new(5));
    let (full, damaged) = (link(&fabric, "r0-0 X+"), link(&fabric, "r3-1 Y+"));
    for l in [full, damaged] {
        state.errors.set(l, Some(5000.0));
    }
    state.drops.set(full, Some(5000.0));
    let found = faults(&fabric, &state);
    assert_eq!(found, [(Kind::Errors, "r3-1 Y+".to_owned())]);
}

#[test]
fn waiting_that_fills_its_counter_is_not_judged() {
    let (fabric, mut state) = quiet("torus:4x4");
    let full = [link(&fabric, "r0-0 X+"), link(&fabric, "r1-0 X+")];
    let (shares, ticks) = (&mut state.credit_stall_ratio, &mut state.credit_stall_count);
    shares.put(full[0], Err(Missing::Stuck));
    shares.put(full[1], Err(Missing::Uncounted));
    ticks.put(full[1], Err(Missing::Stuck));
    let answer =
        |state: &LinkState| blame(&fabric, &Routing::default_for(&fabric), state, None).unwrap();
    let found = answer(&state);
    assert_eq!((found.causes.len(), found.links_full), (0, 2));
    let told = "waiting at 2 links, their counters are full: r0-0 X+, r1-0 X+".to_owned();
    assert!(found.not_judged.contains(&told), "{:?}", found.not_judged);
    // If all are full, it is not that nothing counts waiting.
    for l in fabric.link_ids() {
        state.credit_stall_ratio.put(l, Err(Missing::Stuck));
    }
    let all = answer(&state).not_judged;
    assert!(all.iter().any(|s| s.starts_with("waiting at ")), "{all:?}");
    assert!(!all.iter().any(|s| s.contains("credits")), "{all:?}");
}

/// The machine as a whole runs at a tenth of what its description says, as in a lab.
#[test]
fn a_lower_rate_than_the_others_and_a_lost_carrier_are_told() {
    let (fabric, mut state) = queues(&mut Random::new(6));
    for l in fabric.link_ids() {
        let usual = 0.1 * fabric.link(l).capacity().0;
        state.agreed.set(l, Some(usual));
    }
    assert_eq!(faults(&fabric, &state), []);
    let (slow, cut) = (link(&fabric, "r0-0 X+"), link(&fabric, "r3-1 Y+"));
    let fourth = state.agreed.get(slow).unwrap() / 4.0;
    state.agreed.set(slow, Some(fourth));
    state.agreed.set(cut, Some(0.0));
    let mut found = faults(&fabric, &state);
    found.sort();
    let expected = [(Kind::Down, "r3-1 Y+"), (Kind::Slow, "r0-0 X+")];
    assert_eq!(found, expected.map(|(kind, name)| (kind, name.to_owned())));
}

/// Jobs whose nodes exchange packets, of which a healthy path loses hardly any.
fn exchanging(random: &mut Random) -> (Fabric, LinkState) {
    let (fabric, mut state) = quiet("torus:4x4x4:nodes=2");
    for l in fabric.link_ids() {
        state.drops.set(l, Some(0.0));
        state.packets.set(l, Some(20_000.0));
    }
    let nodes = fabric.nodes().len();
    for _ in 0..400 {
        let ends = [random.below(nodes), random.below(nodes)].map(NodeId::of);
        let counts = PathCounts {
            sent_bytes: 0.0,
            packets: 200.0 + random.below(2000) as f64,
            lost: random.below(2) as f64,
        };
        if ends[0] != ends[1] {
            state.paths.insert((ends[0], ends[1]), counts);
        }
    }
    (fabric, state)
}

/// Links between routers that several paths cross: of others nothing is known.
fn crossed(fabric: &Fabric, state: &LinkState) -> Vec<LinkId> {
    let routing = Routing::default_for(fabric);
    let mut route = Vec::new();
    for &(from, to) in state.paths.keys() {
        routing.route(fabric, from, to, &mut route).unwrap();
    }
    let several = |l: &LinkId| route.iter().filter(|&r| r == l).count() >= 5;
    let hops = fabric.link_ids().filter(|&l| fabric.is_hop(l));
    hops.filter(several).collect()
}

/// Loses a share of the packets on every path over a component.
fn lose(fabric: &Fabric, state: &mut LinkState, random: &mut Random, on: &[LinkId], share: f64) {
    let routing = Routing::default_for(fabric);
    for (&(from, to), counts) in &mut state.paths {
        let mut route = Vec::new();
        routing.route(fabric, from, to, &mut route).unwrap();
        let lost = (0..counts.packets as usize).filter(|_| random.unit() < share);
        if route.iter().any(|l| on.contains(l)) {
            counts.lost += lost.count() as f64;
        }
    }
}

#[test]
fn packets_lost_without_a_counter_are_those_of_the_link_where_lossy_paths_meet() {
    let mut random = Random::new(7);
    let (mut right, mut total) = (0, 0);
    for share in [0.02, 0.04, 0.09, 0.2] {
        for _ in 0..10 {
            let (fabric, mut state) = exchanging(&mut random);
            assert_eq!(faults(&fabric, &state), []);
            let bad = crossed(&fabric, &state);
            let bad = bad[random.below(bad.len())];
            lose(&fabric, &mut state, &mut random, &[bad], share);
            let named = (Kind::Loses, fabric.link_name(bad));
            let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
            let ways = format!("link {}", fabric.link_name(bad));
            let ok = |c: &Cause| (c.fault, c.name.clone()) == named || c.or.contains(&ways);
            let is_right = found.causes.len() == 1 && ok(&found.causes[0]);
            if !is_right {
                println!("{share} at {ways}: {:?}", found.causes);
            }
            right += usize::from(is_right);
            total += 1;
        }
    }
    assert!(right * 100 >= total * 95, "{right} of {total}");
}

#[test]
fn packets_that_full_queues_drop_are_no_fault_and_without_counters_cannot_be_told_from_one() {
    let mut random = Random::new(8);
    let (fabric, mut state) = exchanging(&mut random);
    let full = link(&fabric, "r1-1-1 X+");
    lose(&fabric, &mut state, &mut random, &[full], 0.05);
    let accused = [(Kind::Loses, "r1-1-1 X+".to_owned())];
    assert_eq!(faults(&fabric, &state), accused);
    state.drops.set(full, Some(20_000.0 * 0.05 / 0.95));
    assert_eq!(faults(&fabric, &state), []);
    for l in fabric.link_ids() {
        state.drops.set(l, None);
    }
    let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
    assert_eq!(found.causes, []);
    let last = found.not_judged.last().unwrap();
    assert!(last.starts_with("lost packets at 1 component"), "{last}");
}

#[test]
fn a_link_whose_full_queue_sends_at_less_than_its_rate_is_slow() {
    let (fabric, mut state) = queues(&mut Random::new(10));
    for l in fabric.link_ids() {
        state.packets.set(l, Some(10_000.0));
        state.served_ratio.set(l, Some(0.98));
        state.served_seconds.set(l, Some(2.0));
    }
    assert_eq!(faults(&fabric, &state), []);
    // It hardly waits, and carries little.
    let slow = link(&fabric, "r0-0 X+");
    state.used_ratio.set(slow, Some(0.3));
    state.credit_stall_ratio.set(slow, Some(0.2));
    state.served_ratio.set(slow, Some(0.8));
    let expected = [(Kind::Slow, "r0-0 X+".to_owned())];
    assert_eq!(faults(&fabric, &state), expected);
    // Too short to tell.
    state.packets.set(slow, Some(100.0));
    assert_eq!(faults(&fabric, &state), []);
}

/// A node among others that wait a little; not where all wait, and not one without a job.
#[test]
fn nodes_without_processors_are_named() {
    let fabric = spec::fabric("torus:4x4x4:nodes=2").unwrap();
    let mut random = Random::new(11);
    let mut state = healthy(&fabric, &mut random);
    let waits = |share: f64| NodeTimes {
        waited_seconds: 10.0 * share,
        window_seconds: 10.0,
    };
    for node in fabric.node_ids() {
        state.nodes.insert(node, waits(0.05 * random.unit()));
    }
    assert_eq!(faults(&fabric, &state), []);
    let node = NodeId::of(17);
    state.nodes.insert(node, waits(0.4));
    let name = fabric.node(node).name.clone();
    assert_eq!(faults(&fabric, &state), [(Kind::Starved, name.clone())]);
    // It takes no bytes either: one cause.
    let eject = fabric.node(node).eject;
    state.credit_stall_ratio.set(eject, Some(0.8));
    assert_eq!(faults(&fabric, &state), [(Kind::Starved, name)]);
    state.credit_stall_ratio.set(eject, Some(0.0));
    for node in fabric.node_ids() {
        state.nodes.insert(node, waits(0.3 + 0.3 * random.unit()));
    }
    assert_eq!(faults(&fabric, &state), []);
    state.nodes.retain(|&n, _| n == node);
    assert_eq!(faults(&fabric, &state).len(), 1);
}

/// A cable that lost lanes has lost them in both directions.
#[test]
fn a_fault_of_both_directions_is_told_once() {
    let fabric = spec::fabric("gemini:4x4x4").unwrap();
    let mut state = healthy(&fabric, &mut Random::new(12));
    let first = fabric.link_ids().find(|&l| fabric.is_hop(l)).unwrap();
    let ends = [first, fabric.reverse(first).unwrap()];
    let all = f64::from(fabric.link(ends[0]).lanes);
    for l in ends {
        state.lanes.set(l, Some(all - 1.0));
    }
    let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
    let [cause] = &found.causes[..] else {
        panic!("{:?}", found.causes);
    };
    assert_eq!((cause.fault, cause.kind), (Kind::Lanes, "cable"));
    state.lanes.set(ends[1], Some(0.0));
    let mut found = faults(&fabric, &state);
    found.sort();
    let names = ends.map(|l| fabric.link_name(l));
    let [one, other] = names;
    assert_eq!(found, [(Kind::Down, other), (Kind::Lanes, one)]);
}

/// Slow links of one router are a slow router, unless one of its links is known to be at full strength.
#[test]
fn slow_queues_of_one_router_are_due_to_it() {
    let (fabric, mut state) = queues(&mut Random::new(13));
    for l in fabric.link_ids() {
        state.credit_stall_ratio.set(l, Some(0.0));
        state.used_ratio.set(l, Some(0.02));
    }
    let serves = |state: &mut LinkState, name: &str, share: f64| {
        let link = link(&fabric, name);
        state.used_ratio.set(link, Some(0.3));
        state.credit_stall_ratio.set(link, Some(0.3 / share));
    };
    serves(&mut state, "r1-1 X+", 0.4);
    serves(&mut state, "r1-1 Y+", 0.6);
    assert_eq!(faults(&fabric, &state), [(Kind::Slow, "r1-1".to_owned())]);
    state.used_ratio.set(link(&fabric, "r1-1 X-"), Some(0.8));
    state
        .credit_stall_ratio
        .set(link(&fabric, "r1-1 X-"), Some(0.82));
    let mut found = faults(&fabric, &state);
    found.sort();
    let links = ["r1-1 X+", "r1-1 Y+"].map(|l| (Kind::Slow, l.to_owned()));
    assert_eq!(found, links);
    // Both directions of one cable are no router.
    state
        .credit_stall_ratio
        .set(link(&fabric, "r1-1 Y+"), Some(0.0));
    state.used_ratio.set(link(&fabric, "r2-1 X-"), Some(0.3));
    state
        .credit_stall_ratio
        .set(link(&fabric, "r2-1 X-"), Some(0.5));
    assert!(
        faults(&fabric, &state)
            .iter()
            .all(|(_, name)| name != "r1-1")
    );
}

/// Adapters that all take less than their links carry are no faults of single nodes.
#[test]
fn nodes_that_are_all_alike_are_not_named() {
    let (fabric, mut state) = quiet("torus:4x4x4:nodes=2");
    let ejects: Vec<LinkId> = fabric.node_ids().map(|n| fabric.node(n).eject).collect();
    for l in fabric.link_ids() {
        state.used_ratio.set(l, Some(0.3));
    }
    for (i, &eject) in ejects.iter().step_by(16).enumerate() {
        assert_eq!(faults(&fabric, &state).len(), if i > 4 { 0 } else { i });
        state.credit_stall_ratio.set(eject, Some(0.3));
    }
    let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
    assert_eq!(found.causes, []);
    let told = found
        .not_judged
        .iter()
        .any(|n| n.contains("8 of 64 routers"));
    assert!(told, "{:?}", found.not_judged);
}

mod cabling;
mod unread;
