//! Where the ranks should go, and what it is worth.

use crate::arrays::column;
use crate::errors::{HopbyteError, python};
use crate::links::Links;
use crate::machine::Machine;
use crate::placement::{Nodes, Placement};
use crate::traffic::Traffic;
use hopbyte_apply::write_atomic;
use hopbyte_cli::draw::{LinkLoads, Unit};
use hopbyte_cli::report::{Job, ReportInput, Side, html, link_times, readings};
use hopbyte_fabric::LinkState;
use hopbyte_map::{Baseline, Certificate, Objective, Options, Problem, Verdict};
use hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts};
use numpy::PyArray1;
use pyo3::prelude::*;
use std::path::PathBuf;

/// What a placement costs.
#[pyclass(frozen, module = "hopbyte")]
pub struct Evaluation {
    cost: hopbyte_map::Evaluation,
    worst_link: Option<String>,
    link_seconds: Vec<f64>,
}

impl Evaluation {
    fn new(problem: &Problem<'_>, cost: hopbyte_map::Evaluation) -> Self {
        Self {
            worst_link: cost.worst_link.map(|l| problem.fabric.link_name(l)),
            link_seconds: link_times(problem, &cost).values().to_vec(),
            cost,
        }
    }
}

#[pymethods]
impl Evaluation {
    /// Time that the worst link needs for its bytes.
    #[getter]
    fn worst_link_seconds(&self) -> f64 {
        self.cost.worst_link_seconds
    }

    /// Name of that link.
    #[getter]
    fn worst_link(&self) -> Option<&str> {
        self.worst_link.as_deref()
    }

    /// The same over links between routers only.
    #[getter]
    fn worst_network_link_seconds(&self) -> f64 {
        self.cost.worst_network_link_seconds
    }

    /// Sum of bytes × hops.
    #[getter]
    fn hop_bytes(&self) -> f64 {
        self.cost.hop_bytes
    }

    /// Hops that a byte travels on average.
    #[getter]
    fn average_dilation(&self) -> f64 {
        self.cost.average_dilation
    }

    /// Bytes that leave their node.
    #[getter]
    fn off_node_bytes(&self) -> f64 {
        self.cost.off_node_bytes
    }

    /// Bytes on every link.
    #[getter]
    fn link_bytes<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        column(this.clone().into_any(), &this.get().cost.link_bytes)
    }

    /// Time that every link needs for its bytes, at the capacity that other jobs leave.
    #[getter]
    fn link_seconds<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        column(this.clone().into_any(), &this.get().link_seconds)
    }

    fn __repr__(&self) -> String {
        format!(
            "<hopbyte.Evaluation worst link {:.4e} s ({}), {:.4e} hop-bytes, dilation {:.3}>",
            self.cost.worst_link_seconds,
            self.worst_link.as_deref().unwrap_or("none"),
            self.cost.hop_bytes,
            self.cost.average_dilation
        )
    }
}

/// A placement with its certificate.
#[pyclass(frozen, module = "hopbyte")]
pub struct Mapping {
    machine: Machine,
    traffic: Py<Traffic>,
    background: Option<Py<Links>>,
    before: Py<Placement>,
    after: Py<Placement>,
    cost_before: Py<Evaluation>,
    cost_after: Py<Evaluation>,
    certificate: Certificate,
    label: &'static str,
}

/// What a job's bytes cost where its ranks are.
#[pyfunction]
#[pyo3(signature = (traffic, placement, machine, *, background=None, response_fraction=0.0))]
pub fn evaluate(
    py: Python<'_>,
    traffic: &Traffic,
    placement: &Placement,
    machine: &Machine,
    background: Option<&Links>,
    response_fraction: f64,
) -> PyResult<Evaluation> {
    check(machine, background, Some(placement))?;
    let state = background.map(Links::state);
    py.detach(|| {
        let problem = Problem {
            background: state,
            response_fraction,
            ..Problem::new(
                machine.fabric(),
                machine.routing(),
                traffic.exchange(),
                placement.allocation(),
            )
        };
        let cost = hopbyte_map::evaluate(&problem, placement.slots()).map_err(python)?;
        Ok(Evaluation::new(&problem, cost))
    })
}

/// One side of the comparison on a page.
fn side<'a>(label: &str, placement: &'a Placement, cost: &'a Evaluation) -> Side<'a> {
    let times = cost.link_seconds.clone();
    Side {
        label: label.into(),
        placement: placement.slots(),
        evaluation: &cost.cost,
        link_times: LinkLoads::new("link time", Unit::Seconds, times),
    }
}

fn check(machine: &Machine, links: Option<&Links>, placement: Option<&Placement>) -> PyResult<()> {
    let wrong = |what: &str| {
        let text =
            format!("the {what} is not of this machine; load it with the same machine object");
        Err(PyErr::new::<HopbyteError, _>(text))
    };
    if links.is_some_and(|l| !l.belong_to(machine)) {
        return wrong("background");
    }
    if placement.is_some_and(|p| !p.belongs_to(machine)) {
        return wrong("placement");
    }
    Ok(())
}

/// Looks for a better placement of a job's ranks on its nodes.
///
/// ``objective``: worst-link, worst-network-link, hop-bytes or route-cost (with ``metric`` and
/// ``aggregate``). ``background``: links with counters, what other jobs use. ``current``: where the
/// ranks are now; the result is never worse. ``trials`` instead of ``seconds`` gives the same result
/// on any machine.
#[pyfunction]
#[pyo3(signature = (
    traffic, machine, nodes=Nodes::List("all".into()), *, ranks_per_node=None, objective="worst-link",
    metric="hops", aggregate="max", background=None, current=None, response_fraction=0.0, seconds=2.0,
    trials=None, seed=1, threads=0
))]
#[pyo3(
    text_signature = "(traffic, machine, nodes='all', *, ranks_per_node=None, objective='worst-link', metric='hops', aggregate='max', background=None, current=None, response_fraction=0.0, seconds=2.0, trials=None, seed=1, threads=0)"
)]
#[allow(clippy::too_many_arguments)]
pub fn map(
    py: Python<'_>,
    traffic: Py<Traffic>,
    machine: &Machine,
    nodes: Nodes,
    ranks_per_node: Option<u32>,
    objective: &str,
    metric: &str,
    aggregate: &str,
    background: Option<Py<Links>>,
    current: Option<Py<Placement>>,
    response_fraction: f64,
    seconds: f64,
    trials: Option<u64>,
    seed: u64,
    threads: usize,
) -> PyResult<Mapping> {
    let now = current.as_ref().map(Py::get);
    let links = background.as_ref().map(Py::get);
    check(machine, links, now)?;
    let exchange = traffic.get().exchange();
    let allocation = nodes.allocate(machine, ranks_per_node, exchange.tasks())?;
    let state = links.map(Links::state);
    let goal = Goal::new(machine, objective, metric, aggregate, state, &allocation)?;
    let problem = Problem {
        background: state,
        current: now.map(Placement::slots),
        response_fraction,
        objective: goal.objective(),
        ..Problem::new(machine.fabric(), machine.routing(), exchange, &allocation)
    };
    let options = Options {
        seconds,
        trials,
        seed,
        threads,
        ..Options::default()
    };
    let (after, certificate) =
        py.detach(|| hopbyte_map::map(&problem, &options, &|_| {}).map_err(python))?;
    let (label, before) = match problem.current {
        Some(slots) => ("as it was", slots.clone()),
        None => {
            let in_order = hopbyte_map::baseline(&problem, Baseline::InOrder, seed);
            let in_order = in_order.map_err(python)?.unwrap_or_else(|| after.clone());
            ("in order, as launchers do", in_order)
        }
    };
    let cost = hopbyte_map::evaluate(&problem, &before).map_err(python)?;
    let cost_before = Py::new(py, Evaluation::new(&problem, cost))?;
    let cost_after = Py::new(py, Evaluation::new(&problem, certificate.result.clone()))?;
    let placement = |slots| Py::new(py, Placement::new(machine, allocation.clone(), slots));
    Ok(Mapping {
        before: placement(before)?,
        after: placement(after)?,
        machine: machine.clone(),
        traffic,
        background,
        cost_before,
        cost_after,
        certificate,
        label,
    })
}

/// An objective with what it needs.
enum Goal {
    WorstLink,
    WorstNetworkLink,
    HopBytes,
    RouteCost(Vec<f32>),
}

impl Goal {
    fn new(
        machine: &Machine,
        objective: &str,
        metric: &str,
        aggregate: &str,
        state: Option<&LinkState>,
        allocation: &hopbyte_fabric::Allocation,
    ) -> PyResult<Self> {
        let wrong = |text: String| PyErr::new::<HopbyteError, _>(text);
        Ok(match objective {
            "worst-link" => Self::WorstLink,
            "worst-network-link" => Self::WorstNetworkLink,
            "hop-bytes" => Self::HopBytes,
            "route-cost" => {
                let metric: Metric = metric.parse().map_err(wrong)?;
                let aggregate: Aggregate = aggregate.parse().map_err(wrong)?;
                if metric.needs_state() && state.is_none() {
                    return Err(wrong(format!("metric {metric} needs a background")));
                }
                let nodes: Vec<_> = allocation.nodes().iter().map(|&(n, _)| n).collect();
                let (fabric, routing) = (machine.fabric(), machine.routing());
                let costs =
                    RouteCosts::new(fabric, routing, state, metric, aggregate, Over::Request);
                Self::RouteCost(costs.among(&nodes).map_err(python)?.into_vec())
            }
            _ => {
                return Err(wrong(format!(
                    "found objective {objective:?}, expected worst-link, worst-network-link, hop-bytes or route-cost"
                )));
            }
        })
    }

    fn objective(&self) -> Objective<'_> {
        match self {
            Self::WorstLink => Objective::WorstLink,
            Self::WorstNetworkLink => Objective::WorstNetworkLink,
            Self::HopBytes => Objective::HopBytes,
            Self::RouteCost(costs) => Objective::RouteCost(costs),
        }
    }
}

#[pymethods]
impl Mapping {
    /// The placement found.
    #[getter]
    fn placement(&self, py: Python<'_>) -> Py<Placement> {
        self.after.clone_ref(py)
    }

    /// The placement it is compared with: the current one, or ranks in order.
    #[getter]
    fn before(&self, py: Python<'_>) -> Py<Placement> {
        self.before.clone_ref(py)
    }

    /// What the placement found costs.
    #[getter]
    fn result(&self, py: Python<'_>) -> Py<Evaluation> {
        self.cost_after.clone_ref(py)
    }

    /// What the other one costs.
    #[getter]
    fn baseline(&self, py: Python<'_>) -> Py<Evaluation> {
        self.cost_before.clone_ref(py)
    }

    /// Whether the result is better than the best of the usual placements.
    #[getter]
    fn improved(&self) -> bool {
        self.certificate.verdict == Verdict::Improved
    }

    /// The machine.
    #[getter]
    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    /// The certificate as JSON: what was made small, every baseline, the bound, seed, times.
    fn certificate_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.certificate).map_err(python)
    }

    /// One HTML page that compares both placements; written to ``path`` if given, and returned.
    #[pyo3(signature = (path=None, *, title=""))]
    fn report(&self, path: Option<PathBuf>, title: &str) -> PyResult<String> {
        let (traffic, links) = (self.traffic.get(), self.background.as_ref().map(Py::get));
        let page = html(&ReportInput {
            title: title.into(),
            fabric: self.machine.fabric(),
            routing: self.machine.routing(),
            job: Some(Job {
                traffic: traffic.name().into(),
                exchange: traffic.exchange(),
                before: side(self.label, self.before.get(), self.cost_before.get()),
                after: Some(side("mapped", self.after.get(), self.cost_after.get())),
                certificate: Some(&self.certificate),
            }),
            readings: links.map_or(Vec::new(), |l| readings::loads(l.state())),
            readings_source: String::new(),
            notes: self.machine.0.notes.clone(),
            command: String::new(),
        });
        if let Some(path) = path {
            write_atomic(&path, &page).map_err(python)?;
        }
        Ok(page)
    }

    fn __repr__(&self) -> String {
        let (b, a) = (&self.cost_before.get().cost, &self.certificate.result);
        format!(
            "<hopbyte.Mapping worst link {:.4e} s -> {:.4e} s, hop-bytes {:.4e} -> {:.4e}>",
            b.worst_link_seconds, a.worst_link_seconds, b.hop_bytes, a.hop_bytes
        )
    }
}
