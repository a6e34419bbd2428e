//! Evaluation and search of placements.

use crate::arrays::column;
use crate::errors::{self, HopbyteError, python};
use crate::html::table;
use crate::interrupt::interruptible;
use crate::links::Links;
use crate::machine::Machine;
use crate::placement::{self, Nodes, Placement};
use crate::traffic::Traffic;
use hopbyte_apply::write_atomic;
use hopbyte_fabric::Allocation;
use hopbyte_job::costs::costs_for;
use hopbyte_job::mapping::before;
use hopbyte_job::question::Keep;
use hopbyte_job::{Document, Effort, Goal, Question, WireOptions, search};
use hopbyte_map::{Problem, Verdict};
use hopbyte_oracle::{Aggregate, Metric};
use hopbyte_view::report::{About, link_times, mapping_page};
use numpy::PyArray1;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Cost of a placement.
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

/// Columns of costs in notebooks.
const COSTS: [&str; 6] = [
    "placement",
    "worst link s",
    "worst link",
    "hop-bytes",
    "off-node bytes",
    "dilation hops",
];

impl Evaluation {
    fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.into(),
            format!("{:.4e}", self.cost.worst_link_seconds),
            self.worst_link.clone().unwrap_or_else(|| "none".into()),
            format!("{:.4e}", self.cost.hop_bytes),
            format!("{:.4e}", self.cost.off_node_bytes),
            format!("{:.3}", self.cost.average_dilation),
        ]
    }
}

#[pymethods]
impl Evaluation {
    /// Time of the worst link.
    #[getter]
    fn worst_link_seconds(&self) -> f64 {
        self.cost.worst_link_seconds
    }

    /// Times of the phases' worst links, for phases that follow one another; empty if there is one phase.
    #[getter]
    fn turn_seconds(&self) -> Vec<f64> {
        self.cost.turn_seconds.clone()
    }

    /// Name of the worst link.
    #[getter]
    fn worst_link(&self) -> Option<&str> {
        self.worst_link.as_deref()
    }

    /// The same over links between routers only.
    #[getter]
    fn worst_network_link_seconds(&self) -> f64 {
        self.cost.worst_network_link_seconds
    }

    /// Bytes × hops, summed.
    #[getter]
    fn hop_bytes(&self) -> f64 {
        self.cost.hop_bytes
    }

    /// Mean hops of a byte.
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

    /// Time of every link, at the capacity that other jobs leave.
    #[getter]
    fn link_seconds<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        column(this.clone().into_any(), &this.get().link_seconds)
    }

    fn _repr_html_(&self) -> String {
        table("Cost of a placement", &COSTS, [self.row("placement")])
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
    question: Question,
    mapping: hopbyte_job::Mapping,
    machine: Machine,
    before: Py<Placement>,
    after: Py<Placement>,
    cost_before: Py<Evaluation>,
    cost_after: Py<Evaluation>,
}

/// Evaluates the current placement of a job's ranks.
#[pyfunction]
#[pyo3(signature = (
    traffic, placement, machine, *, background=None, response_fraction=None, wire=WireOptions::DEFAULT_NETWORK
))]
#[pyo3(
    text_signature = "(traffic, placement, machine, *, background=None, response_fraction=None, wire='auto')"
)]
pub fn evaluate(
    py: Python<'_>,
    traffic: &Traffic,
    placement: &Placement,
    machine: &Machine,
    background: Option<&Links>,
    response_fraction: Option<f64>,
    wire: &str,
) -> PyResult<Evaluation> {
    check(machine, background, Some(placement))?;
    let wire = WireOptions {
        network: wire.into(),
        response_fraction,
    };
    let allocation = placement.allocation().clone();
    let mut question = asked(traffic, machine, allocation, background, &wire)?;
    py.detach(|| {
        let slots = placement.slots();
        question.settle(slots).map_err(python)?;
        let problem = question.problem();
        let cost = hopbyte_map::evaluate(&problem, slots).map_err(python)?;
        Ok(Evaluation::new(&problem, cost))
    })
}

/// The question of a job on its nodes.
fn asked(
    traffic: &Traffic,
    machine: &Machine,
    allocation: Allocation,
    background: Option<&Links>,
    wire: &WireOptions,
) -> PyResult<Question> {
    let exchange = traffic.exchange().clone();
    let question = Question::new(machine.0.clone(), exchange, allocation, wire);
    Ok(Question {
        traffic: traffic.name().to_owned(),
        traffic_notes: traffic.assumed().to_vec(),
        following: traffic.following(wire),
        turns: traffic.turns(wire, machine.fabric()).map_err(python)?,
        background: background.map(Links::loads).transpose()?,
        background_source: background.and_then(Links::source_files),
        ..question.map_err(python)?
    })
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

/// Searches for a better placement of a job's ranks on its nodes.
///
/// ``objective``: worst-link, worst-network-link, hop-bytes or route-cost (with ``metric`` and ``aggregate``).
/// ``background``: links with counters, for the load of other jobs. ``current``: the current placement; the
/// result is never worse. ``wire``: the network whose headers and responses links carry on top of the payload
/// (``auto``: by the machine; ``payload``: none). ``response_fraction`` instead: a share of the payload on the
/// way back. ``keep``: ``groups`` (tensor-parallel groups of a plan stay in one NVLink domain each, if
/// all have room), ``hosts`` (whole hosts are permuted only, as torchrun needs) or ``nothing``. ``trials`` instead of ``seconds``
/// gives the same result on any machine. Ctrl-C ends the search with ``KeyboardInterrupt``.
#[pyfunction]
#[pyo3(signature = (
    traffic, machine, nodes=Nodes::List("all".into()), *, ranks_per_node=None, objective="worst-link",
    metric="hops", aggregate=None, background=None, current=None, response_fraction=None,
    wire=WireOptions::DEFAULT_NETWORK, seconds=Effort::DEFAULT.seconds, trials=Effort::DEFAULT.trials,
    seed=Effort::DEFAULT.seed, threads=Effort::DEFAULT.threads, keep="groups"
))]
#[pyo3(
    text_signature = "(traffic, machine, nodes='all', *, ranks_per_node=None, objective='worst-link', metric='hops', aggregate=None, background=None, current=None, response_fraction=None, wire='auto', seconds=2.0, trials=None, seed=1, threads=0, keep='groups')"
)]
#[allow(clippy::too_many_arguments)]
pub fn map(
    py: Python<'_>,
    traffic: Py<Traffic>,
    machine: &Machine,
    #[pyo3(from_py_with = placement::nodes)] nodes: Nodes,
    #[pyo3(from_py_with = errors::ranks_per_node)] ranks_per_node: Option<u32>,
    objective: &str,
    metric: &str,
    aggregate: Option<&str>,
    background: Option<Py<Links>>,
    current: Option<Py<Placement>>,
    response_fraction: Option<f64>,
    wire: &str,
    seconds: f64,
    #[pyo3(from_py_with = errors::trials)] trials: Option<u64>,
    #[pyo3(from_py_with = errors::seed)] seed: u64,
    #[pyo3(from_py_with = errors::threads)] threads: usize,
    keep: &str,
) -> PyResult<Mapping> {
    let now = current.as_ref().map(Py::get);
    let links = background.as_ref().map(Py::get);
    check(machine, links, now)?;
    let traffic = traffic.get();
    let tasks = traffic.exchange().tasks();
    let allocation = nodes.allocate(machine, ranks_per_node, tasks)?;
    let wrong = |text: String| PyErr::new::<HopbyteError, _>(text);
    let goal: Goal = objective.parse().map_err(wrong)?;
    let metric: Metric = metric.parse().map_err(wrong)?;
    let aggregate: Option<Aggregate> = aggregate.map(str::parse).transpose().map_err(wrong)?;
    if goal == Goal::RouteCost && metric.needs_state() && links.is_none() {
        return Err(wrong(format!(
            "metric {metric} needs background, links with counters"
        )));
    }
    links.map(Links::loads).transpose()?;
    let costs = costs_for(
        goal,
        (machine.fabric(), machine.routing()),
        links.map(Links::state),
        &allocation,
        (metric, aggregate),
    );
    let costs = costs.map_err(python)?;
    let keep: Keep = keep.parse().map_err(wrong)?;
    let together = keep.groups(traffic.name()).map_err(python)?;
    let wire = WireOptions {
        network: wire.into(),
        response_fraction,
    };
    let mut question = Question {
        current: now.map(|p| p.slots().clone()),
        goal,
        costs,
        keep_hosts: keep == Keep::Hosts,
        together,
        ..asked(traffic, machine, allocation, links, &wire)?
    };
    let (mapping, before, cost) = interruptible(py, |stop| {
        let effort = Effort {
            seconds,
            trials,
            seed,
            threads,
            stop: Some(stop),
        };
        let mapping = search(&question, &effort, &|_| {}).map_err(python)?;
        let (_, before) = before(&question, &mapping).map_err(python)?;
        let cost = question.evaluate(&before).map_err(python)?;
        Ok((mapping, before, cost))
    })?;
    question.settle(&mapping.placement).map_err(python)?;
    let problem = question.problem();
    let cost_before = Py::new(py, Evaluation::new(&problem, cost))?;
    let result = mapping.certificate.result.clone();
    let cost_after = Py::new(py, Evaluation::new(&problem, result))?;
    let placed = |slots| {
        Py::new(
            py,
            Placement::new(machine, question.allocation.clone(), slots),
        )
    };
    Ok(Mapping {
        before: placed(before)?,
        after: placed(mapping.placement.clone())?,
        machine: machine.clone(),
        cost_before,
        cost_after,
        mapping,
        question,
    })
}

impl Mapping {
    /// The mapping's document.
    pub fn saved(&self) -> Document {
        Document::of(&self.question, &self.mapping)
    }
}

#[pymethods]
impl Mapping {
    /// The best placement found.
    #[getter]
    fn placement(&self, py: Python<'_>) -> Py<Placement> {
        self.after.clone_ref(py)
    }

    /// The baseline: the current placement, or ranks in order.
    #[getter]
    fn before(&self, py: Python<'_>) -> Py<Placement> {
        self.before.clone_ref(py)
    }

    /// Cost of the best placement found.
    #[getter]
    fn result(&self, py: Python<'_>) -> Py<Evaluation> {
        self.cost_after.clone_ref(py)
    }

    /// Cost of the baseline.
    #[getter]
    fn baseline(&self, py: Python<'_>) -> Py<Evaluation> {
        self.cost_before.clone_ref(py)
    }

    /// Whether the result is better than every baseline.
    #[getter]
    fn improved(&self) -> bool {
        self.mapping.certificate.verdict == Verdict::Improved
    }

    /// The machine.
    #[getter]
    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    /// The certificate as JSON: objective, every baseline, the bound, seed, times.
    fn certificate_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.mapping.certificate).map_err(python)
    }

    /// The mapping document as JSON, the output of `hopbyte map --json` and input of `apply` and `verify`;
    /// written to ``path`` if given, and returned.
    #[pyo3(signature = (path=None))]
    fn document(&self, path: Option<PathBuf>) -> PyResult<String> {
        let text = self.saved().text().map_err(python)?;
        if let Some(path) = path {
            write_atomic(&path, &text).map_err(python)?;
        }
        Ok(text)
    }

    /// An HTML page that compares both placements; written to ``path`` if given, and returned.
    #[pyo3(signature = (path=None, *, title=""))]
    fn report(&self, path: Option<PathBuf>, title: &str) -> PyResult<String> {
        let about = About {
            title,
            ..About::default()
        };
        let page = mapping_page(&self.question, &self.mapping, &about).map_err(python)?;
        if let Some(path) = path {
            write_atomic(&path, &page).map_err(python)?;
        }
        Ok(page)
    }

    fn _repr_html_(&self) -> String {
        let rows = [
            self.cost_before.get().row("before"),
            self.cost_after.get().row("after"),
        ];
        table(&self.mapping.verdict_text(), &COSTS, rows)
    }

    fn __repr__(&self) -> String {
        let (b, a) = (
            &self.cost_before.get().cost,
            &self.mapping.certificate.result,
        );
        format!(
            "<hopbyte.Mapping worst link {:.4e} s -> {:.4e} s, hop-bytes {:.4e} -> {:.4e}>",
            b.worst_link_seconds, a.worst_link_seconds, b.hop_bytes, a.hop_bytes
        )
    }
}
