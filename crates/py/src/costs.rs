//! Matrices of route costs.

use crate::arrays::matrix;
use crate::errors::{HopbyteError, python};
use crate::html::{ROWS, table};
use crate::links::Links;
use crate::machine::Machine;
use hopbyte_oracle::{Aggregate, CostMatrix, Metric, Over, RouteCosts as Oracle};
use numpy::PyArray2;
use pyo3::prelude::*;

/// Costs of routes between nodes or routers.
#[pyclass(frozen, module = "hopbyte")]
pub struct RouteCosts {
    matrix: CostMatrix,
    names: Vec<String>,
    metric: Metric,
    aggregate: Aggregate,
    over: Over,
}

/// Route costs between the given nodes, or between all routers if none are given.
///
/// ``metric``: hops, inverse-bandwidth, used, input-stall, credit-stall, bytes, packets or errors; all but the first two
/// need ``links`` with counters. ``aggregate``: max, sum or mean over the links of a route. ``over``:
/// request, response or both.
#[pyfunction]
#[pyo3(signature = (machine, nodes=None, *, metric="hops", aggregate="sum", over="request", links=None))]
pub fn route_costs(
    py: Python<'_>,
    machine: &Machine,
    nodes: Option<Vec<String>>,
    metric: &str,
    aggregate: &str,
    over: &str,
    links: Option<&Links>,
) -> PyResult<RouteCosts> {
    let wrong = |text: String| PyErr::new::<HopbyteError, _>(text);
    let metric: Metric = metric.parse().map_err(wrong)?;
    let aggregate: Aggregate = aggregate.parse().map_err(wrong)?;
    let over: Over = over.parse().map_err(wrong)?;
    if links.is_some_and(|l| !l.belong_to(machine)) {
        return Err(wrong(
            "the links belong to another machine; load them with the same machine object".into(),
        ));
    }
    if metric.needs_state() && links.is_none() {
        return Err(wrong(format!("metric {metric} needs links with counters")));
    }
    let needed = links.filter(|_| metric.needs_state());
    needed.map(Links::loads).transpose()?;
    let wanted = nodes.map(|n| machine.find(&n)).transpose()?;
    let state = links.map(Links::state);
    py.detach(|| {
        let fabric = machine.fabric();
        let oracle = Oracle::new(fabric, machine.routing(), state, metric, aggregate, over);
        let (matrix, names) = match wanted {
            Some(nodes) => {
                let names = nodes.iter().map(|&n| fabric.node(n).name.clone());
                (oracle.among(&nodes), names.collect())
            }
            None => {
                let names = fabric.routers().iter().map(|r| r.name.clone());
                (oracle.all_routers(), names.collect())
            }
        };
        Ok(RouteCosts {
            matrix: matrix.map_err(python)?,
            names,
            metric,
            aggregate,
            over,
        })
    })
}

#[pymethods]
impl RouteCosts {
    /// Costs, row = from, column = to; not-a-number where unknown or without a route.
    #[getter]
    fn matrix<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let costs = this.get();
        let n = costs.matrix.size();
        matrix(this.clone().into_any(), costs.matrix.as_slice(), [n, n])
    }

    /// Names of rows and columns.
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// The metric of a link.
    #[getter]
    fn metric(&self) -> &'static str {
        self.metric.name()
    }

    /// The aggregate over the links of a route.
    #[getter]
    fn aggregate(&self) -> &'static str {
        self.aggregate.name()
    }

    /// The routes included: request, response or both.
    #[getter]
    fn over(&self) -> &'static str {
        self.over.name()
    }

    /// Unit of the costs.
    #[getter]
    fn unit(&self) -> &'static str {
        self.metric.unit()
    }

    fn __len__(&self) -> usize {
        self.matrix.size()
    }

    fn _repr_html_(&self) -> String {
        let n = self.matrix.size();
        let shown = n.min(ROWS);
        let mut head = vec!["from \\ to"];
        head.extend(self.names.iter().take(shown).map(String::as_str));
        let cost = |from, to| match self.matrix.get(from, to) {
            Some(c) if c.is_finite() => format!("{c:.4}"),
            Some(_) => "no route".into(),
            None => "not known".into(),
        };
        let rows = (0..n).map(|from| {
            let cells = (0..shown).map(|to| cost(from, to));
            std::iter::once(self.names[from].clone())
                .chain(cells)
                .collect()
        });
        let caption = format!(
            "{} of {} over {}, {n} × {n}, the first {shown} columns",
            self.aggregate, self.metric, self.over
        );
        table(&caption, &head, rows)
    }

    fn __repr__(&self) -> String {
        format!(
            "<hopbyte.RouteCosts {} of {} over {}, {n} × {n}>",
            self.aggregate,
            self.metric,
            self.over,
            n = self.matrix.size()
        )
    }
}
