//! Traffic of an application.

use crate::arrays::column;
use crate::errors::{self, python};
use crate::html::table;
use crate::machine::{Rebuilt, rebuilt};
use hopbyte_fabric::{Exchange, Fabric, FabricError};
use hopbyte_job::Following;
use hopbyte_job::question::WireOptions;
use hopbyte_map::Turn;
use hopbyte_observe::{ByHost, read_traffic_by_host};
use numpy::{AllowTypeChange, PyArray1, PyArrayLike1, PyArrayLike2, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Traffic between the ranks of an application: directed pairs with bytes and messages.
#[pyclass(frozen, module = "hopbyte")]
pub struct Traffic {
    source: String,
    notes: Vec<String>,
    exchange: Arc<Exchange>,
    /// As it was read, phase by phase.
    phases: Option<Arc<hopbyte_fabric::Traffic>>,
    /// The record that it is from, if it depends on the placement.
    by_host: Option<Arc<ByHost>>,
    from: Vec<u32>,
    to: Vec<u32>,
    bytes: Vec<f64>,
    messages: Vec<u64>,
}

/// Reads traffic from a file, a folder of ``.prof`` files, an archive, or a spec such as
/// ``stencil:16x16x16:27``. Bytes are those of all phases; ``map`` adds up the times of phases that follow one another.
#[pyfunction]
pub fn load_traffic(py: Python<'_>, source: PathBuf) -> PyResult<Traffic> {
    py.detach(|| {
        let source = source.to_string_lossy();
        let (traffic, by_host) = read_traffic_by_host(&source).map_err(python)?;
        let mut loaded = Traffic::new(traffic.source.clone(), traffic.total());
        loaded.notes.clone_from(&traffic.notes);
        loaded.phases = Some(Arc::new(traffic));
        loaded.by_host = by_host.map(Arc::new);
        Ok(loaded)
    })
}

/// The traffic of a pickle.
#[pyfunction]
pub fn _traffic(
    source: String,
    tasks: usize,
    from_rank: PyReadonlyArray1<'_, u32>,
    to_rank: PyReadonlyArray1<'_, u32>,
    bytes: PyReadonlyArray1<'_, f64>,
) -> PyResult<Traffic> {
    let pairs = from_rank.as_array().into_iter().zip(to_rank.as_array());
    let entries = pairs.zip(bytes.as_array());
    let entries = entries.map(|((&from, &to), &bytes)| (from, to, bytes, 0));
    let exchange = Exchange::new(tasks, entries).map_err(python)?;
    Ok(Traffic::new(source, exchange))
}

impl Traffic {
    fn new(source: String, exchange: Exchange) -> Self {
        let pairs = exchange.pairs();
        let mut traffic = Self {
            source,
            notes: Vec::new(),
            from: Vec::with_capacity(pairs),
            to: Vec::with_capacity(pairs),
            bytes: Vec::with_capacity(pairs),
            messages: Vec::with_capacity(pairs),
            exchange: Arc::default(),
            phases: None,
            by_host: None,
        };
        for (from, message) in exchange.iter() {
            traffic.from.push(from);
            traffic.to.push(message.to);
            traffic.bytes.push(message.bytes);
            traffic.messages.push(message.messages);
        }
        traffic.exchange = Arc::new(exchange);
        traffic
    }

    /// The exchange, all phases added up.
    pub fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// Phases that follow one another, with the bytes on the wire of a machine.
    ///
    /// # Errors
    /// Those of [`WireOptions::loads`].
    pub fn turns(&self, wire: &WireOptions, fabric: &Fabric) -> Result<Vec<Turn>, FabricError> {
        let phases = self.phases.as_ref();
        phases.map_or(Ok(Vec::new()), |all| wire.turns(fabric, all))
    }

    /// How it follows from the placement, if it does.
    pub fn following(&self, wire: &WireOptions) -> Option<Following> {
        let record = self.by_host.clone()?;
        Some(Following {
            record,
            wire: wire.clone(),
            overlap: false,
        })
    }

    /// Source of the traffic.
    pub fn name(&self) -> &str {
        &self.source
    }

    /// Assumptions and omissions of the reader.
    pub fn assumed(&self) -> &[String] {
        &self.notes
    }
}

#[pymethods]
impl Traffic {
    /// Traffic of pairs: sending rank, receiving rank, bytes. Repeated pairs are added up; messages of a rank
    /// to itself are dropped.
    #[staticmethod]
    #[pyo3(signature = (from_rank, to_rank, bytes, tasks=None))]
    fn of_pairs(
        from_rank: PyArrayLike1<'_, f64, AllowTypeChange>,
        to_rank: PyArrayLike1<'_, f64, AllowTypeChange>,
        bytes: PyArrayLike1<'_, f64, AllowTypeChange>,
        #[pyo3(from_py_with = errors::tasks)] tasks: Option<usize>,
    ) -> PyResult<Self> {
        let (from, to, bytes) = (from_rank.as_array(), to_rank.as_array(), bytes.as_array());
        if from.len() != to.len() || from.len() != bytes.len() {
            return Err(PyValueError::new_err("the three arrays differ in length"));
        }
        let rank = |r: f64| match r >= 0.0 && r < f64::from(u32::MAX) && r.fract() == 0.0 {
            true => Ok(r as u32),
            false => Err(PyValueError::new_err(format!("no rank can be {r}"))),
        };
        let mut entries = Vec::with_capacity(from.len());
        for ((&a, &b), &n) in from.iter().zip(to).zip(bytes) {
            entries.push((rank(a)?, rank(b)?, n, 0));
        }
        let seen = entries.iter().map(|e| e.0.max(e.1) as usize + 1).max();
        let tasks = tasks.unwrap_or(seen.unwrap_or(0));
        let exchange = Exchange::new(tasks, entries).map_err(python)?;
        Ok(Self::new("pairs".into(), exchange))
    }

    /// Traffic of a square matrix of bytes, row = from, column = to.
    #[staticmethod]
    fn of_matrix(matrix: &Bound<'_, PyAny>) -> PyResult<Self> {
        let array = matrix.extract::<PyArrayLike2<'_, f64, AllowTypeChange>>();
        let array = array.map_err(|error| {
            let kind = matrix.get_type();
            let expected =
                "rows of equal length: a list of lists or a dense array of two dimensions";
            PyValueError::new_err(format!("found {kind} ({error}), expected {expected}"))
        })?;
        let matrix = array.as_array();
        let (rows, columns) = matrix.dim();
        if rows != columns {
            let text = format!("found a {rows} × {columns} matrix, expected a square one");
            return Err(PyValueError::new_err(text));
        }
        let entries = matrix
            .indexed_iter()
            .filter(|(_, bytes)| **bytes != 0.0)
            .map(|((from, to), &bytes)| (from as u32, to as u32, bytes, 0));
        let exchange = Exchange::new(rows, entries).map_err(python)?;
        Ok(Self::new("matrix".into(), exchange))
    }

    /// Pickled as its pairs, or what was read from a file or a spec as that, which is read again.
    fn __reduce__<'py>(this: &Bound<'py, Self>) -> Rebuilt<'py, Bound<'py, PyTuple>> {
        let (py, own) = (this.py(), this.get());
        if own.phases.is_some() {
            let path = Path::new(&own.source);
            let source = match path.exists() {
                true => std::path::absolute(path)?,
                false => path.to_owned(),
            };
            return rebuilt(py, "load_traffic", (source,).into_pyobject(py)?);
        }
        let (from, to) = (Self::from_rank(this), Self::to_rank(this));
        let pairs = (
            &own.source,
            own.exchange.tasks(),
            from,
            to,
            Self::bytes(this),
        );
        rebuilt(py, "_traffic", pairs.into_pyobject(py)?)
    }

    /// Source of the traffic.
    #[getter]
    fn source(&self) -> &str {
        &self.source
    }

    /// Assumptions and omissions of the reader, such as the algorithms of collectives.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Number of ranks.
    #[getter]
    fn tasks(&self) -> usize {
        self.exchange.tasks()
    }

    /// Total bytes.
    #[getter]
    fn total_bytes(&self) -> f64 {
        self.exchange.total_bytes()
    }

    /// Sending rank of each pair.
    #[getter]
    fn from_rank<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<u32>> {
        column(this.clone().into_any(), &this.get().from)
    }

    /// Receiving rank of each pair.
    #[getter]
    fn to_rank<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<u32>> {
        column(this.clone().into_any(), &this.get().to)
    }

    /// Bytes of each pair.
    #[getter]
    fn bytes<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        column(this.clone().into_any(), &this.get().bytes)
    }

    /// Messages of each pair, 0 if the source does not state them.
    #[getter]
    fn messages<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<u64>> {
        column(this.clone().into_any(), &this.get().messages)
    }

    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    fn _repr_html_(&self) -> String {
        let mut order: Vec<usize> = (0..self.bytes.len()).collect();
        order.sort_by(|&a, &b| self.bytes[b].total_cmp(&self.bytes[a]).then(a.cmp(&b)));
        let rows = order.into_iter().map(|i| {
            let numbers = [u64::from(self.from[i]), u64::from(self.to[i])];
            let mut row: Vec<String> = numbers.map(|n| n.to_string()).into();
            row.push(format!("{:.0}", self.bytes[i]));
            row.push(self.messages[i].to_string());
            row
        });
        let caption = format!(
            "{}: {} ranks, {} pairs, {}; largest first",
            self.source,
            self.exchange.tasks(),
            self.bytes.len(),
            hopbyte_fabric::units::bytes_text(self.exchange.total_bytes())
        );
        table(
            &caption,
            &["from rank", "to rank", "bytes", "messages"],
            rows,
        )
    }

    fn __repr__(&self) -> String {
        format!(
            "<hopbyte.Traffic {}: {} ranks, {} pairs, {}>",
            self.source,
            self.exchange.tasks(),
            self.bytes.len(),
            hopbyte_fabric::units::bytes_text(self.exchange.total_bytes())
        )
    }
}
