//! The probe analysis with names: `hopbyte.probe.analyse/1`.

use super::component::Component;
use super::explain::{Class, Finding, Limit, Path, Suspect, explain};
use super::separate::{Separation, separating};
use hopbyte_fabric::units::significant;
use hopbyte_fabric::{Class as ErrorClass, Fabric, InputError, Routing};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The JSON answer.
#[derive(Serialize)]
pub struct Analysis {
    schema: &'static str,
    /// Paths.
    pub paths: usize,
    /// Slow ones.
    pub slow_paths: usize,
    /// Expected and lowest rate by class.
    pub classes: Vec<ClassRow>,
    /// Components that explain slow paths, the best supported first.
    pub components: Vec<ComponentRow>,
    /// Slow paths that no component explains.
    pub unexplained: Vec<PathRow>,
    /// Links between routers that no path used.
    pub links_not_measured: usize,
    /// Smallest faults that these measurements would show, by kind of component.
    pub detectable: Vec<DetectableRow>,
}

/// Smallest faults of a kind of component that would be found.
#[derive(Serialize)]
pub struct DetectableRow {
    /// Kind.
    pub kind: &'static str,
    /// Components on some path.
    pub components: usize,
    /// Share of its strength at or below which the median component is found; 0 if never.
    pub median_share: f64,
    /// The lowest such share.
    pub least_share: f64,
    /// Components that are never found: other limits hide them.
    pub never: usize,
}

/// A transfer that tells components apart; within one node if both ends are the same.
#[derive(Serialize)]
pub struct ProbeRow {
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Its rate if a component is the cause.
    #[serde(rename = "if")]
    pub if_bytes_per_s: Vec<IfRow>,
}

/// Rate of a transfer if a component is the cause.
#[derive(Serialize)]
pub struct IfRow {
    /// Kind and name.
    pub component: String,
    /// Rate, if it is known.
    pub bytes_per_s: Option<f64>,
}

/// A class of paths.
#[derive(Serialize)]
pub struct ClassRow {
    /// Kind.
    pub kind: String,
    /// Exclusive or shared.
    pub mode: String,
    /// Paths.
    pub paths: usize,
    /// Expected rate.
    pub expected_bytes_per_s: f64,
    /// Slowest path.
    pub least_bytes_per_s: f64,
    /// Noise of healthy paths, as a share of the rate.
    pub noise: f64,
}

/// A slow component.
#[derive(Serialize)]
pub struct ComponentRow {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: &'static str,
    /// Expected rate.
    pub expected_bytes_per_s: f64,
    /// Measured rate.
    pub measured_bytes_per_s: f64,
    /// Verdict.
    pub verdict: String,
    /// Paths.
    pub paths: usize,
    /// Components that the measurements cannot distinguish from this one.
    pub or: Vec<String>,
    /// Remaining share of the capacity, if the fault is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_share: Option<f64>,
    /// The rate that it allows, if the fault is such a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<f64>,
    /// A transfer that would tell it from the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_probe: Option<ProbeRow>,
}

/// A slow path.
#[derive(Serialize)]
pub struct PathRow {
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Expected rate.
    pub expected_bytes_per_s: f64,
    /// Measured rate.
    pub measured_bytes_per_s: f64,
}

/// Lanes out of service, from a measured share of a link's rate. Source: paper 002, II.C, where two thirds of
/// a link's rate remain with one of three lanes out of service.
fn verdict(fabric: &Fabric, suspect: &Suspect) -> String {
    let limit = |rate: f64| format!("{}B/s", significant_prefix(rate));
    match (suspect.component, suspect.limit) {
        (Component::Link(l) | Component::Cable(l), Limit::Share(share)) => {
            let lanes = f64::from(fabric.link(l).lanes);
            let left = (share * lanes).round();
            let near = (share - left / lanes).abs() < (0.25 / lanes).min(0.06);
            if lanes > 1.0 && left >= 1.0 && left < lanes && near {
                return format!("slow, as with {left} of {lanes} lanes");
            }
            format!("slow: {:.0} % of its capacity", 100.0 * share)
        }
        (_, Limit::Share(share)) => format!("slow: {:.0} % of its capacity", 100.0 * share),
        (_, Limit::Outgoing(share)) => {
            format!(
                "slow: {:.0} % of the capacity of the links that leave it",
                100.0 * share
            )
        }
        (_, Limit::Incoming(share)) => {
            format!(
                "slow: {:.0} % of the capacity of the links that end at it",
                100.0 * share
            )
        }
        (_, Limit::PathRate(rate)) => format!("slow: no path above {}", limit(rate)),
        (_, Limit::TotalRate(rate)) => format!("slow: {} in all", limit(rate)),
    }
}

/// `4.00 G`.
fn significant_prefix(value: f64) -> String {
    let (factor, prefix) = match value {
        v if v >= 1e9 => (1e-9, "G"),
        v if v >= 1e6 => (1e-6, "M"),
        v if v >= 1e3 => (1e-3, "k"),
        _ => (1.0, ""),
    };
    format!("{} {prefix}", significant(value * factor, 3))
}

fn named(fabric: &Fabric, component: Component) -> String {
    format!("{} {}", component.kind(), component.name(fabric))
}

/// The analysis of measured paths: the answer of `hopbyte probe analyse`.
///
/// # Errors
/// An expected rate of a kind that no path has.
pub fn analyse(
    fabric: &Fabric,
    routing: &Routing,
    paths: &[Path],
    tolerance: f64,
    expected: &BTreeMap<String, f64>,
) -> Result<Analysis, InputError> {
    let kinds: BTreeSet<&str> = paths.iter().map(|p| p.class.0.as_str()).collect();
    if let Some((kind, rate)) = (expected.iter()).find(|e| !kinds.contains(e.0.as_str())) {
        let known = kinds.into_iter().collect::<Vec<_>>().join(", ");
        let found = format!("{kind}={rate}");
        let error = InputError::new("expected", found, format!("a kind of the paths: {known}"));
        return Err(error.of(ErrorClass::OptionValue));
    }
    let found = explain(fabric, paths, tolerance, expected);
    let seen: BTreeSet<_> = paths.iter().flat_map(|p| p.route.iter().copied()).collect();
    let hops = fabric.link_ids().filter(|&l| fabric.is_hop(l));
    let noise = found.classes.iter().map(|c| c.noise).fold(0.0, f64::max);
    let component = |f: &Finding| {
        let separation = separating(
            fabric,
            routing,
            (found.efficiency, found.fastest),
            4.0 * noise,
            f,
        );
        ComponentRow::of(fabric, f, separation.as_ref())
    };
    Ok(Analysis {
        schema: "hopbyte.probe.analyse/1",
        paths: paths.len(),
        slow_paths: found.slow.len(),
        classes: found.classes.iter().map(ClassRow::of).collect(),
        components: found.findings.iter().map(component).collect(),
        unexplained: found
            .unexplained
            .iter()
            .map(|&i| PathRow {
                from: fabric.node(paths[i].from).name.clone(),
                to: fabric.node(paths[i].to).name.clone(),
                expected_bytes_per_s: found.expected[i],
                measured_bytes_per_s: paths[i].rate,
            })
            .collect(),
        links_not_measured: hops.filter(|l| !seen.contains(l)).count(),
        detectable: found
            .detectable
            .iter()
            .map(|d| DetectableRow {
                kind: d.kind,
                components: d.components,
                median_share: d.median,
                least_share: d.least,
                never: d.never,
            })
            .collect(),
    })
}

impl ClassRow {
    fn of(class: &Class) -> Self {
        Self {
            kind: class.name.0.clone(),
            mode: class.name.1.clone(),
            paths: class.paths,
            expected_bytes_per_s: class.expected,
            least_bytes_per_s: class.least,
            noise: class.noise,
        }
    }
}

impl ComponentRow {
    fn of(fabric: &Fabric, finding: &Finding, separation: Option<&Separation>) -> Self {
        let mut or: Vec<String> = (finding.or.iter())
            .map(|s| named(fabric, s.component))
            .collect();
        let mut probe = separation.map(|s| ProbeRow {
            from: fabric.node(s.from).name.clone(),
            to: fabric.node(s.to).name.clone(),
            if_bytes_per_s: std::iter::once(&finding.suspect)
                .chain(&finding.or)
                .zip(std::iter::once(&s.rate).chain(&s.others))
                .map(|(suspect, &bytes_per_s)| IfRow {
                    component: named(fabric, suspect.component),
                    bytes_per_s: Some(bytes_per_s),
                })
                .collect(),
        });
        // Both directions of a node's link cannot be told from the node itself by transfers through the network.
        if let Component::Host(n) = finding.suspect.component {
            let name = &fabric.node(n).name;
            or.push(format!("adapter of {name}"));
            probe = probe.or_else(|| {
                let inside = |component: String| IfRow {
                    component,
                    bytes_per_s: None,
                };
                Some(ProbeRow {
                    from: name.clone(),
                    to: name.clone(),
                    if_bytes_per_s: vec![inside(format!("host {name}"))],
                })
            });
        }
        let share = match finding.suspect.limit {
            Limit::Share(share) | Limit::Outgoing(share) | Limit::Incoming(share) => Some(share),
            Limit::PathRate(_) | Limit::TotalRate(_) => None,
        };
        let limit = match finding.suspect.limit {
            Limit::PathRate(rate) | Limit::TotalRate(rate) => Some(rate),
            Limit::Share(_) | Limit::Outgoing(_) | Limit::Incoming(_) => None,
        };
        Self {
            name: finding.suspect.component.name(fabric),
            kind: finding.suspect.component.kind(),
            expected_bytes_per_s: finding.expected,
            measured_bytes_per_s: finding.measured,
            verdict: verdict(fabric, &finding.suspect),
            paths: finding.paths,
            or,
            capacity_share: share,
            limit_bytes_per_s: limit,
            next_probe: probe,
        }
    }
}
