//! Links and their counters, as columns.

use crate::arrays::column;
use crate::errors::{HopbyteError, python};
use crate::machine::{Machine, Rebuilt, rebuilt};
use hopbyte_fabric::{Column, End, Fabric, LinkState};
use hopbyte_job::document::Background;
use hopbyte_job::{LinkReading, reading};
use hopbyte_observe::CounterOptions;
use hopbyte_serve::access::Access;
use hopbyte_serve::range::Range;
use hopbyte_serve::source::Source;
use hopbyte_view::draw::{DrawOptions, LinkLoads, Unit, fabric_svg};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Arc;

/// All directed links of a machine as columns, with the values of counters if any were read.
///
/// Every column is a read-only NumPy view, by link number. Missing values are not-a-number.
#[pyclass(frozen, module = "hopbyte")]
pub struct Links {
    machine: Arc<hopbyte_job::Machine>,
    still: Still,
    reading: Arc<LinkReading>,
    errors_at_least: Vec<bool>,
    /// Counter files, if any were read.
    files: Option<Background>,
}

/// Columns that do not depend on counters.
struct Still {
    from_router: Vec<i32>,
    to_router: Vec<i32>,
    kind: Vec<u16>,
    direction: Vec<i16>,
    capacity: Vec<f64>,
    latency: Vec<f64>,
    hop: Vec<bool>,
}

impl Still {
    fn of(fabric: &Fabric) -> Self {
        let links = fabric.links();
        let router = |end: End| match end {
            End::Router(r) => r.0 as i32,
            End::Node(_) | End::Hosts(_) => -1,
        };
        Self {
            from_router: links.iter().map(|l| router(l.from)).collect(),
            to_router: links.iter().map(|l| router(l.to)).collect(),
            kind: links.iter().map(|l| l.kind.0).collect(),
            direction: links
                .iter()
                .map(|l| l.direction.map_or(-1, |d| d.index() as i16))
                .collect(),
            capacity: links.iter().map(|l| l.capacity().0).collect(),
            latency: links.iter().map(|l| l.latency.0).collect(),
            hop: fabric.link_ids().map(|l| fabric.is_hop(l)).collect(),
        }
    }
}

/// The links of a machine; with counters, their load.
///
/// ``counters`` is one file, or an earlier and a later one of totals; ``interval`` their window in seconds, if
/// the files do not state it; ``region`` the code region of a Boxfish table; ``node`` the node of the counters,
/// if the files do not name it. In place of a file: a running collector (``HOST:PORT``, with ``token`` and
/// ``tls_ca`` as files where it needs them) or the folder of its store, whose tick at or before ``at`` (seconds
/// since 1970, by default the newest) is read; with ``interval`` the ticks of so many seconds together.
#[pyfunction]
#[pyo3(signature = (machine, *counters, interval=None, region=None, node=None, at=None, token=None, tls_ca=None))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub fn links(
    py: Python<'_>,
    machine: &Machine,
    counters: Vec<PathBuf>,
    interval: Option<f64>,
    region: Option<i64>,
    node: Option<String>,
    at: Option<f64>,
    token: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
) -> PyResult<Links> {
    let machine = machine.0.clone();
    py.detach(|| {
        if !counters.is_empty()
            && let Some(source) = stream(&counters, at, token, tls_ca)?
        {
            let reading = source.latest(&machine.fabric, interval).map_err(python)?;
            return Ok(Links::new(machine, reading, None));
        }
        let options = CounterOptions {
            interval_seconds: interval,
            region,
            node,
            ..CounterOptions::default()
        };
        let files = (!counters.is_empty()).then(|| Background::new(&counters, &options));
        Links::of_files(machine, files)
    })
}

/// The links of a pickle: without counters, or with those of files, as JSON.
#[pyfunction]
pub fn _links(py: Python<'_>, machine: &Machine, files: Option<String>) -> PyResult<Links> {
    let files: Option<Background> = match files {
        Some(text) => Some(serde_json::from_str(&text).map_err(python)?),
        None => None,
    };
    let machine = machine.0.clone();
    py.detach(|| Links::of_files(machine, files))
}

/// A collector or its store, if the only source is one.
fn stream(
    counters: &[PathBuf],
    at: Option<f64>,
    token: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
) -> PyResult<Option<Source>> {
    let given = [
        ("at", at.is_some()),
        ("token", token.is_some()),
        ("tls_ca", tls_ca.is_some()),
    ];
    let range = Range::of_seconds(("", None), ("at", at)).map_err(python)?;
    if let [source] = counters {
        let access = Access::read(token.as_deref(), tls_ca.as_deref()).map_err(python)?;
        if let Some(found) = Source::named(source, access, range) {
            return Ok(Some(found));
        }
    }
    match given.iter().find(|g| g.1) {
        Some((name, _)) => {
            let text = format!(
                "found {name} with counters of a file, expected a running collector or its store"
            );
            Err(HopbyteError::new_err(text))
        }
        None => Ok(None),
    }
}

impl Links {
    fn new(
        machine: Arc<hopbyte_job::Machine>,
        reading: LinkReading,
        files: Option<Background>,
    ) -> Self {
        let least = |link| !reading.state.at_least(link).is_empty();
        Self {
            still: Still::of(&machine.fabric),
            errors_at_least: machine.fabric.link_ids().map(least).collect(),
            reading: Arc::new(reading),
            files,
            machine,
        }
    }

    /// Links without counters, or with those of files.
    fn of_files(machine: Arc<hopbyte_job::Machine>, files: Option<Background>) -> PyResult<Self> {
        let fabric = &machine.fabric;
        let reading = match &files {
            None => LinkReading::of_state("", LinkState::unknown(fabric)),
            Some(files) => reading(&files.files, fabric, &files.options()).map_err(python)?,
        };
        Ok(Self::new(machine, reading, files))
    }

    /// State of the links by the counters.
    pub fn state(&self) -> &LinkState {
        &self.reading.state
    }

    /// Counter files and how they were read, if any.
    pub fn source_files(&self) -> Option<Background> {
        self.files.clone()
    }

    /// The reading, for route costs and mappings.
    pub fn reading(&self) -> Arc<LinkReading> {
        self.reading.clone()
    }

    /// The reading, for answers about loads.
    ///
    /// # Errors
    /// No link was read.
    pub fn loads(&self) -> PyResult<Arc<LinkReading>> {
        self.reading
            .of_links(&self.machine.fabric)
            .map_err(python)?;
        Ok(self.reading())
    }

    /// Whether these are the links of that machine.
    pub fn belong_to(&self, machine: &Machine) -> bool {
        Arc::ptr_eq(&self.machine, &machine.0)
    }
}

/// A column as a view of the object's memory.
fn of<'py, T: numpy::Element>(
    this: &Bound<'py, Links>,
    values: impl FnOnce(&Links) -> &[T],
) -> Bound<'py, PyArray1<T>> {
    column(this.clone().into_any(), values(this.get()))
}

fn read<'py>(
    this: &Bound<'py, Links>,
    values: impl FnOnce(&LinkState) -> &Column,
) -> Bound<'py, PyArray1<f64>> {
    of(this, |l| values(&l.reading.state).as_slice())
}

#[pymethods]
impl Links {
    /// Pickled with its machine, and as the files of its counters, which are read again. Other sources go on.
    fn __reduce__<'py>(&self, py: Python<'py>) -> Rebuilt<'py, (Machine, Option<String>)> {
        let mut files = self.files.clone();
        let are_files = |files: &Background| files.files.iter().all(|file| file.is_file());
        if !files
            .as_ref()
            .map_or(self.reading.source.is_empty(), are_files)
        {
            let text = format!(
                "links of {} cannot be pickled: its counters go on",
                self.reading.source
            );
            return Err(PyTypeError::new_err(text));
        }
        for file in files.iter_mut().flat_map(|files| &mut files.files) {
            *file = std::path::absolute(&*file)?;
        }
        let files = files.map(|files| serde_json::to_string(&files)).transpose();
        rebuilt(
            py,
            "_links",
            (Machine(self.machine.clone()), files.map_err(python)?),
        )
    }

    /// Names, unique in the machine.
    #[getter]
    fn names(&self) -> Vec<String> {
        let fabric = &self.machine.fabric;
        fabric.link_ids().map(|l| fabric.link_name(l)).collect()
    }

    /// Names of the receiving ends.
    #[getter]
    fn ends(&self) -> Vec<String> {
        let fabric = &self.machine.fabric;
        let end = |l: &hopbyte_fabric::Link| fabric.end_name(l.to);
        fabric.links().iter().map(end).collect()
    }

    /// Source of the counters, if any were read.
    #[getter]
    fn source(&self) -> Option<&str> {
        Some(self.reading.source.as_str()).filter(|s| !s.is_empty())
    }

    /// Notes on the counters.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.reading.notes.clone()
    }

    /// Window of the counters in seconds, if known.
    #[getter]
    fn window_seconds(&self) -> Option<f64> {
        self.reading.state.window_seconds
    }

    /// Router that a link leaves, -1 for a host.
    #[getter]
    fn from_router<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<i32>> {
        of(this, |l| &l.still.from_router)
    }

    /// Router that a link reaches, -1 for a host.
    #[getter]
    fn to_router<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<i32>> {
        of(this, |l| &l.still.to_router)
    }

    /// Number of the kind in ``Machine.kinds``.
    #[getter]
    fn kind<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<u16>> {
        of(this, |l| &l.still.kind)
    }

    /// Direction on the grid: dimension × 2, plus 1 for the negative one; -1 without.
    #[getter]
    fn direction<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<i16>> {
        of(this, |l| &l.still.direction)
    }

    /// Capacity with the lanes in service, bytes per second.
    #[getter]
    fn capacity_bytes_per_s<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        of(this, |l| &l.still.capacity)
    }

    /// Latency without load, seconds.
    #[getter]
    fn latency_seconds<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        of(this, |l| &l.still.latency)
    }

    /// Whether the link counts as a hop.
    #[getter]
    fn hop<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<bool>> {
        of(this, |l| &l.still.hop)
    }

    /// Bytes that arrived.
    #[getter]
    fn received_bytes<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        read(this, |s| &s.received_bytes)
    }

    /// Packets that arrived.
    #[getter]
    fn packets<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        read(this, |s| &s.packets)
    }

    /// Share of the capacity in use, 0 to 1.
    #[getter]
    fn used_ratio<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        read(this, |s| &s.used_ratio)
    }

    /// Share of the window in which arrivals waited, 0 to 1.
    #[getter]
    fn input_stall_ratio<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        read(this, |s| &s.input_stall_ratio)
    }

    /// Share of the window in which departures lacked credits, 0 to 1.
    #[getter]
    fn credit_stall_ratio<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        read(this, |s| &s.credit_stall_ratio)
    }

    /// Seconds that arrivals waited.
    #[getter]
    fn input_stall_seconds<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        read(this, |s| &s.input_stall_seconds)
    }

    /// Seconds that departures lacked credits.
    #[getter]
    fn credit_stall_seconds<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        read(this, |s| &s.credit_stall_seconds)
    }

    /// Transmission errors.
    #[getter]
    fn errors<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        read(this, |s| &s.errors)
    }

    /// Whether there may be more errors: a counter of them is at its highest value, or was not read.
    #[getter]
    fn errors_at_least<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<bool>> {
        of(this, |l| &l.errors_at_least)
    }

    /// Lanes in service.
    #[getter]
    fn lanes<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        read(this, |s| &s.lanes)
    }

    /// Coverage: the share of the source's quantities that were read for the link, 0 to 1.
    #[getter]
    fn coverage<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<f64>> {
        of(this, |l| &l.reading.state.coverage)
    }

    /// All columns by name, for data frames: ``pandas.DataFrame(links.columns())``. Columns of counters that
    /// were not read at all are left out.
    fn columns<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let py = this.py();
        let columns = PyDict::new(py);
        columns.set_item("link", Self::names(this.get()))?;
        columns.set_item("to", Self::ends(this.get()))?;
        for name in [
            "from_router",
            "to_router",
            "kind",
            "direction",
            "capacity_bytes_per_s",
            "latency_seconds",
            "hop",
        ] {
            columns.set_item(name, this.getattr(name)?)?;
        }
        for name in [
            "received_bytes",
            "packets",
            "used_ratio",
            "input_stall_ratio",
            "credit_stall_ratio",
            "input_stall_seconds",
            "credit_stall_seconds",
            "errors",
            "lanes",
        ] {
            let values = this.getattr(name)?.cast_into::<PyArray1<f64>>()?;
            let known = values.readonly().as_array().iter().any(|v| !v.is_nan());
            if known {
                columns.set_item(name, values)?;
            }
        }
        if this.get().errors_at_least.contains(&true) {
            columns.set_item("errors_at_least", this.getattr("errors_at_least")?)?;
        }
        if !this.get().reading.source.is_empty() {
            columns.set_item("coverage", this.getattr("coverage")?)?;
        }
        Ok(columns)
    }

    fn __len__(&self) -> usize {
        self.still.kind.len()
    }

    /// The picture that notebooks show: the machine, with the used share of its links if it was read.
    fn _repr_svg_(&self) -> String {
        let used = &self.reading.state.used_ratio;
        let loads = LinkLoads::of_column("used", Unit::Ratio, used);
        let known = used.known() > 0;
        let options = DrawOptions::default();
        fabric_svg(&self.machine.fabric, known.then_some(&loads), &options)
    }

    fn __repr__(&self) -> String {
        let known = self
            .reading
            .state
            .coverage
            .iter()
            .filter(|&&c| c > 0.0)
            .count();
        format!(
            "<hopbyte.Links {} of {}, {known} read>",
            self.still.kind.len(),
            self.machine.fabric.source()
        )
    }
}
