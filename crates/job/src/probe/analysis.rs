//! The probe analysis with names: `hopbyte.probe.analyse/1`.

use super::explain::{Component, Finding, Findings, Path};
use hopbyte_fabric::Fabric;
use serde::Serialize;
use std::collections::BTreeSet;

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
    /// Components that explain slow paths, most paths first.
    pub components: Vec<ComponentRow>,
    /// Slow paths that no component explains.
    pub unexplained: Vec<PathRow>,
    /// Links between routers that no path used.
    pub links_not_measured: usize,
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
fn verdict(fabric: &Fabric, finding: &Finding) -> String {
    let share = finding.measured / finding.expected;
    if let Component::Link(l) | Component::Cable(l) = finding.component {
        let lanes = fabric.link(l).lanes;
        let left = (share * f64::from(lanes)).round();
        if lanes > 1
            && left >= 1.0
            && left < f64::from(lanes)
            && (share - left / f64::from(lanes)).abs() < 0.06
        {
            return format!("slow, as with {left} of {lanes} lanes");
        }
    }
    "slow".into()
}

impl Analysis {
    /// Names the findings of [`super::explain::explain`].
    pub fn of(fabric: &Fabric, paths: &[Path], found: &Findings) -> Self {
        let class = |p: &Path| found.classes.iter().find(|c| c.name == p.class);
        let slow = paths
            .iter()
            .filter(|p| class(p).is_some_and(|c| p.rate < c.threshold))
            .count();
        let seen: BTreeSet<_> = paths.iter().flat_map(|p| p.route.iter().copied()).collect();
        let hops = fabric.link_ids().filter(|&l| fabric.is_hop(l));
        Self {
            schema: "hopbyte.probe.analyse/1",
            paths: paths.len(),
            slow_paths: slow,
            classes: found
                .classes
                .iter()
                .map(|c| ClassRow {
                    kind: c.name.0.clone(),
                    mode: c.name.1.clone(),
                    paths: c.paths,
                    expected_bytes_per_s: c.expected,
                    least_bytes_per_s: c.least,
                })
                .collect(),
            components: found
                .findings
                .iter()
                .map(|f| ComponentRow {
                    name: f.component.name(fabric),
                    kind: f.component.kind(),
                    expected_bytes_per_s: f.expected,
                    measured_bytes_per_s: f.measured,
                    verdict: verdict(fabric, f),
                    paths: f.paths,
                    or: f
                        .or
                        .iter()
                        .map(|c| format!("{} {}", c.kind(), c.name(fabric)))
                        .collect(),
                })
                .collect(),
            unexplained: found
                .unexplained
                .iter()
                .map(|&i| PathRow {
                    from: fabric.node(paths[i].from).name.clone(),
                    to: fabric.node(paths[i].to).name.clone(),
                    expected_bytes_per_s: class(&paths[i]).map_or(0.0, |c| c.expected),
                    measured_bytes_per_s: paths[i].rate,
                })
                .collect(),
            links_not_measured: hops.filter(|l| !seen.contains(l)).count(),
        }
    }
}
