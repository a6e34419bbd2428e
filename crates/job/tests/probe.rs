//! The probe analysis on modelled machines: faults drawn at random at all severities, and clean runs.
//!
//! `HOPBYTE_TEST_PLACES=20` runs twenty rounds on every machine.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Fabric, LinkId, NodeId, RouterId, Routing, spec};
use hopbyte_job::probe::component::Component;
use hopbyte_job::probe::explain::{Findings, Path, TOLERANCE, explain};
use hopbyte_model::network::Network;
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use hopbyte_model::topobw::{self, Phase};
use std::collections::BTreeMap;

/// Deviations of the logarithm of a measured rate.
const NOISE: f64 = 0.02;

struct Bench {
    fabric: Fabric,
    routing: Routing,
    parameters: Parameters,
    phases: Vec<Phase>,
}

/// A fault and the share that it leaves.
#[derive(Clone, Copy, Debug)]
struct Injected {
    component: Component,
    share: f64,
}

impl Bench {
    fn new(machine: &str) -> Self {
        let m = spec::machine(machine).unwrap();
        Self {
            phases: topobw::phases(&m.fabric, &|_| true),
            fabric: m.fabric,
            routing: m.routing,
            parameters: Parameters::gemini(),
        }
    }

    /// Rates of all pairs without noise.
    fn rates(&self, faults: &[Injected]) -> Vec<f64> {
        let point = OperatingPoint::default();
        let mut network = Network::new(&self.fabric, &self.routing, &self.parameters, point);
        let own = self.parameters.injection_bytes_per_s.unwrap();
        for fault in faults {
            match fault.component {
                Component::Link(l) | Component::HostLink(l) => network.degrade(l, fault.share),
                Component::Cable(l) => {
                    network.degrade(l, fault.share);
                    network.degrade(self.fabric.reverse(l).unwrap(), fault.share);
                }
                Component::Host(n) => network.slow_down(n, fault.share * own),
                // As in paper 002: no node of the router above a rate.
                Component::Router(r) => {
                    for &n in self.fabric.nodes_on(r) {
                        network.slow_down(n, fault.share * own);
                    }
                }
            }
        }
        let measured = |p: &Phase| topobw::measure(&network, p, 64e6).unwrap();
        let rates = self.phases.iter().flat_map(measured);
        rates.map(|m| m.bytes_per_s).collect()
    }

    /// The paths with these rates and noise.
    fn paths(&self, rates: &[f64], random: &mut Random) -> Vec<Path> {
        let numbered = self.phases.iter().enumerate();
        let pairs = numbered.flat_map(|(i, p)| p.pairs.iter().map(move |pair| (i, pair)));
        let path = |((phase, pair), rate): ((usize, &topobw::Pair), &f64)| {
            let mut route = Vec::new();
            self.routing
                .route(&self.fabric, pair.from, pair.to, &mut route)
                .unwrap();
            let mode = if pair.shared { "shared" } else { "exclusive" };
            Path {
                from: pair.from,
                to: pair.to,
                class: (pair.kind.clone().into_owned(), mode.into()),
                phase: Some(phase as u32),
                route,
                rate: rate * (NOISE * random.normal()).exp(),
            }
        };
        pairs.zip(rates).map(path).collect()
    }

    fn explain(&self, rates: &[f64], random: &mut Random) -> Findings {
        let paths = self.paths(rates, random);
        explain(&self.fabric, &paths, TOLERANCE, &BTreeMap::new())
    }

    fn draw(&self, kind: usize, share: f64, random: &mut Random) -> Injected {
        let hops: Vec<LinkId> = self
            .fabric
            .link_ids()
            .filter(|&l| self.fabric.is_hop(l))
            .collect();
        let link = hops[random.below(hops.len())];
        let (component, share) = match kind {
            0 => (
                Component::Router(RouterId::of(random.below(self.fabric.routers().len()))),
                share,
            ),
            1 => {
                let back = self.fabric.reverse(link).unwrap();
                (Component::Cable(link.min(back)), share)
            }
            2 => {
                // Lanes out of service: the nearest number of them.
                let lanes = f64::from(self.fabric.link(link).lanes);
                (
                    Component::Link(link),
                    (share * lanes).round().clamp(1.0, lanes) / lanes,
                )
            }
            _ => (
                Component::Host(NodeId::of(random.below(self.fabric.nodes().len()))),
                share,
            ),
        };
        Injected { component, share }
    }
}

fn rounds(usual: usize) -> usize {
    let given = std::env::var("HOPBYTE_TEST_PLACES").ok();
    given.and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Evidence in the rates: the most that a likelihood with the known noise can detect.
fn evidence(healthy: &[f64], now: &[f64]) -> f64 {
    let of = |(h, n): (&f64, &f64)| 0.5 * ((n / h).ln().min(0.0) / NOISE).powi(2);
    healthy.iter().zip(now).map(of).sum()
}

/// One fault at a time: the right component is named first or cannot be told from the one that is, and nothing else is named.
#[test]
fn the_faulty_component_is_named_at_all_severities() {
    let mut random = Random::new(20);
    let (mut visible, mut named, mut first, mut hidden) = (0, 0, 0, 0);
    for machine in ["gemini:4x4x8", "gemini:5x4x6"] {
        let bench = Bench::new(machine);
        let healthy = bench.rates(&[]);
        for round in 0..rounds(2) {
            for tenth in 1..=9 {
                for kind in 0..4 {
                    let fault = bench.draw(kind, f64::from(tenth) / 10.0, &mut random);
                    let rates = bench.rates(&[fault]);
                    let found = bench.explain(&rates, &mut random);
                    let right = |f: &hopbyte_job::probe::explain::Finding| {
                        f.suspect.component == fault.component
                            || f.or.iter().any(|s| s.component == fault.component)
                    };
                    let wrong = found.findings.iter().filter(|f| !right(f)).count();
                    // Twice the gain that is required for a fault: found with near certainty.
                    let clear = evidence(&healthy, &rates) > 40.0 && fault.share <= 0.9;
                    if !clear {
                        hidden += 1;
                        assert!(
                            wrong == 0,
                            "{machine} {round} {fault:?}: {:?}",
                            found.findings
                        );
                        continue;
                    }
                    visible += 1;
                    let at = found.findings.first();
                    named += usize::from(at.is_some_and(right) && wrong == 0);
                    first +=
                        usize::from(at.is_some_and(|f| f.suspect.component == fault.component));
                    if !at.is_some_and(right) || wrong > 0 {
                        println!(
                            "{machine} {fault:?}: {:?} {:?}",
                            found.findings, found.unexplained
                        );
                    }
                }
            }
        }
    }
    println!(
        "{named} of {visible} visible faults named, {first} first; {hidden} hidden by other limits or noise"
    );
    assert!(named * 100 >= visible * 95, "{named} of {visible}");
    assert!(visible > hidden, "{visible} {hidden}");
}

/// Many faults at once on a machine of 4,608 routers.
#[test]
fn faults_of_a_large_machine_are_told_from_each_other() {
    let bench = Bench::new("gemini:16x12x24");
    assert_eq!(bench.fabric.routers().len(), 4608);
    let mut random = Random::new(21);
    let healthy = bench.rates(&[]);
    for round in 0..rounds(1) {
        let mut faults = Vec::new();
        for tenth in 1..=9 {
            for kind in 0..4 {
                faults.push(bench.draw(kind, f64::from(tenth) / 10.0, &mut random));
            }
        }
        let started = std::time::Instant::now();
        let rates = bench.rates(&faults);
        let simulated = started.elapsed();
        let found = bench.explain(&rates, &mut random);
        println!(
            "{round}: {simulated:?} of simulation, {:?} in all",
            started.elapsed()
        );
        println!("{:?}", found.detectable);
        let names = |f: &hopbyte_job::probe::explain::Finding, c: Component| {
            f.suspect.component == c || f.or.iter().any(|s| s.component == c)
        };
        let accused: Vec<_> = found
            .findings
            .iter()
            .filter(|f| !faults.iter().any(|i| names(f, i.component)))
            .collect();
        assert!(accused.is_empty(), "{accused:?}");
        let (mut visible, mut named, mut first) = (0, 0, 0);
        for fault in &faults {
            let alone = bench.rates(std::slice::from_ref(fault));
            if evidence(&healthy, &alone) < 50.0 || fault.share > 0.9 {
                continue;
            }
            visible += 1;
            let hit = found.findings.iter().find(|f| names(f, fault.component));
            named += usize::from(hit.is_some());
            let is_first =
                |f: &&hopbyte_job::probe::explain::Finding| f.suspect.component == fault.component;
            first += usize::from(hit.filter(is_first).is_some());
            if hit.is_none() {
                println!("missed {fault:?}");
            }
        }
        println!(
            "{named} of {visible} visible of {} faults named, {first} first",
            faults.len()
        );
        assert!(named * 100 >= visible * 95, "{named} of {visible}");
    }
}

/// No component is accused, and no path is slow, in a hundred runs with noise alone.
#[test]
fn clean_runs_accuse_nothing() {
    let mut random = Random::new(22);
    for (machine, runs) in [("gemini:4x4x8", 100), ("gemini:16x12x24", rounds(1))] {
        let bench = Bench::new(machine);
        let rates = bench.rates(&[]);
        for run in 0..runs {
            let found = bench.explain(&rates, &mut random);
            assert!(
                found.slow.is_empty(),
                "{machine} {run}: {:?}",
                found.findings
            );
        }
    }
}

/// The published case: two routers that no node exceeds at the rates of the paper and around it.
#[test]
fn two_slow_routers_are_found_at_every_rate() {
    let bench = Bench::new("gemini:4x4x8");
    let at = |coord: [u32; 3]| bench.fabric.router_at(&coord).unwrap();
    let (a, b) = (at([1, 2, 3]), at([3, 0, 6]));
    let mut random = Random::new(23);
    for rate in [1e9, 2e9, 2.9e9, 3.5e9, 4e9, 5e9, 6e9] {
        let share = rate / bench.parameters.injection_bytes_per_s.unwrap();
        let fault = |r| Injected {
            component: Component::Router(r),
            share,
        };
        let rates = bench.rates(&[fault(a), fault(b)]);
        let found = bench.explain(&rates, &mut random);
        let mut named: Vec<Component> =
            found.findings.iter().map(|f| f.suspect.component).collect();
        named.sort();
        assert_eq!(
            named,
            [Component::Router(a), Component::Router(b)],
            "{rate}: {:?}",
            found.findings
        );
        assert!(found.unexplained.is_empty());
        // Above the share that links leave, a single pair shows the fault: the answer lists the alternatives that it cannot separate.
        let told = found.findings.iter().all(|f| f.or.is_empty());
        assert_eq!(told, rate < 4.16e9, "{rate}: {:?}", found.findings);
    }
}
