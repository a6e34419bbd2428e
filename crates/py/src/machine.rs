//! Machines: a fabric and its routing.

use crate::errors::{self, python};
use hopbyte_fabric::{Direction, Fabric, NodeId, Routing};
use hopbyte_job::MachineSource;
use hopbyte_view::draw::{DrawOptions, LinkLoads, Unit, fabric_svg};
use numpy::{AllowTypeChange, PyArrayLike1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf, absolute};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Size, coordinates by router, direction by link.
type Grid = (Vec<u32>, Vec<Vec<u32>>, Vec<i16>);

/// A machine: routers, nodes, directed links, and the routing.
#[pyclass(frozen, module = "hopbyte")]
#[derive(Clone)]
pub struct Machine(pub Arc<hopbyte_job::Machine>);

/// Reads a machine from a file or a spec such as ``gemini:16x12x24``.
///
/// Formats are recognised by content; ``hopbyte fabric show --help`` lists them. If no forwarding tables
/// (``routes``) are given, they are searched beside the file. ``hosts`` are kinds of hosts such as
/// ``dgx-h100`` (see ``hopbyte fabric show --help``). ``down`` names links or routers that are out of
/// service.
#[pyfunction]
#[pyo3(signature = (source, *, routes=Vec::new(), system_map=None, names=None, hosts=Vec::new(), down=Vec::new(), routing=None))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub fn load_fabric(
    py: Python<'_>,
    source: PathBuf,
    routes: Vec<PathBuf>,
    system_map: Option<PathBuf>,
    names: Option<PathBuf>,
    hosts: Vec<String>,
    down: Vec<String>,
    routing: Option<String>,
) -> PyResult<Machine> {
    py.detach(|| {
        let source = MachineSource {
            fabric: source.to_string_lossy().into_owned(),
            routes,
            system_map,
            names,
            hosts,
            down,
            routing,
            ..MachineSource::default()
        };
        Ok(Machine(Arc::new(source.read().map_err(python)?)))
    })
}

/// Machines that were pickled or unpickled here, by their source: objects of one machine stay those of one.
static PICKLED: Mutex<BTreeMap<String, Weak<hopbyte_job::Machine>>> = Mutex::new(BTreeMap::new());

fn known() -> MutexGuard<'static, BTreeMap<String, Weak<hopbyte_job::Machine>>> {
    PICKLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machine of a pickle, which is read again unless it is here already.
#[pyfunction]
pub fn _machine(py: Python<'_>, source: String) -> PyResult<Machine> {
    if let Some(machine) = known().get(&source).and_then(Weak::upgrade) {
        return Ok(Machine(machine));
    }
    let read: MachineSource = serde_json::from_str(&source).map_err(python)?;
    let machine = py.detach(|| read.read().map(Arc::new).map_err(python))?;
    known().insert(source, Arc::downgrade(&machine));
    Ok(Machine(machine))
}

/// A function with its arguments, as `__reduce__` returns them.
pub type Rebuilt<'py, A> = PyResult<(Bound<'py, PyAny>, A)>;

/// A function of this module with arguments.
pub fn rebuilt<'py, A>(py: Python<'py>, name: &str, arguments: A) -> Rebuilt<'py, A> {
    Ok((py.import("hopbyte._core")?.getattr(name)?, arguments))
}

impl Machine {
    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.0.fabric
    }

    /// The routing.
    pub fn routing(&self) -> &Routing {
        &self.0.routing
    }

    /// Nodes by name.
    pub fn find(&self, names: &[String]) -> PyResult<Vec<NodeId>> {
        let find = |name: &String| self.fabric().find_node(name).map_err(python);
        names.iter().map(find).collect()
    }
}

#[pymethods]
impl Machine {
    /// Pickled as its source, which is read again: files must be where they were.
    fn __reduce__<'py>(&self, py: Python<'py>) -> Rebuilt<'py, (String,)> {
        let mut source = self.0.source.clone();
        if Path::new(&source.fabric).exists() {
            source.fabric = absolute(Path::new(&source.fabric))?.display().to_string();
        }
        let files = source.routes.iter_mut().chain(&mut source.system_map);
        for file in files.chain(&mut source.names) {
            *file = absolute(&*file)?;
        }
        let source = serde_json::to_string(&source).map_err(python)?;
        known().insert(source.clone(), Arc::downgrade(&self.0));
        rebuilt(py, "_machine", (source,))
    }

    /// File or spec of the machine.
    #[getter]
    fn source(&self) -> &str {
        self.fabric().source()
    }

    /// Kind of network: ``gemini``, ``aries``, ``torus``, ``infiniband``, …
    #[getter]
    fn family(&self) -> String {
        format!("{:?}", self.fabric().family()).to_lowercase()
    }

    /// The routing, as text.
    #[getter]
    fn routing_text(&self) -> String {
        self.routing().describe()
    }

    /// Assumptions and completed values of the reader.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.0.notes.clone()
    }

    /// Size of the grid, if the machine is one.
    #[getter]
    fn shape(&self) -> Option<Vec<u32>> {
        self.fabric().shape().map(|s| s.dims.clone())
    }

    /// Names of the routers, by number.
    #[getter]
    fn routers(&self) -> Vec<&str> {
        self.fabric()
            .routers()
            .iter()
            .map(|r| &r.name[..])
            .collect()
    }

    /// Names of the nodes, by number.
    #[getter]
    fn nodes(&self) -> Vec<&str> {
        self.fabric().nodes().iter().map(|n| &n.name[..]).collect()
    }

    /// Number of directed links, host links included.
    #[getter]
    fn link_count(&self) -> usize {
        self.fabric().links().len()
    }

    /// Names of the kinds of link, by number.
    #[getter]
    fn kinds(&self) -> Vec<&str> {
        self.fabric().kinds().iter().map(|k| &k.name[..]).collect()
    }

    /// Number of the node with a name, alias, nid or host name.
    fn find_node(&self, name: &str) -> PyResult<u32> {
        self.fabric().find_node(name).map(|n| n.0).map_err(python)
    }

    /// Router of a node, by numbers.
    fn router_of(&self, #[pyo3(from_py_with = errors::node)] node: u32) -> PyResult<u32> {
        let known = self.fabric().nodes().get(node as usize);
        known
            .map(|n| n.router.0)
            .ok_or_else(|| PyValueError::new_err(format!("no node {node}")))
    }

    /// Coordinates of a router, if the machine is a grid or a dragonfly.
    fn coordinates(
        &self,
        #[pyo3(from_py_with = errors::router)] router: u32,
    ) -> PyResult<Option<Vec<u32>>> {
        if router as usize >= self.fabric().routers().len() {
            return Err(PyValueError::new_err(format!("no router {router}")));
        }
        let id = hopbyte_fabric::RouterId(router);
        Ok(self.fabric().coord(id).map(<[u32]>::to_vec))
    }

    /// Numbers of the links from one node to another, by node names; empty for a node to itself. Of several paths that
    /// traffic takes it is one.
    fn route(&self, from_node: &str, to_node: &str) -> PyResult<Vec<u32>> {
        let from = self.fabric().find_node(from_node).map_err(python)?;
        let to = self.fabric().find_node(to_node).map_err(python)?;
        let mut links = Vec::new();
        self.routing()
            .path(self.fabric(), from, to, &mut links)
            .map_err(|e| PyErr::new::<crate::errors::HopbyteError, _>(e.describe(self.fabric())))?;
        Ok(links.into_iter().map(|l| l.0).collect())
    }

    /// Coordinates and directions for pictures: size of the grid, coordinates of all routers row by row, and
    /// for every link its direction (dimension × 2, plus 1 for the negative one; -1 for links that are not
    /// between routers). ``None`` if the machine is no grid. Torus and mesh networks of switches count if their
    /// names contain coordinates that agree with every cable.
    fn grid(&self) -> Option<Grid> {
        let (dims, coords) = hopbyte_view::draw::coordinates(self.fabric())?;
        let directions = hopbyte_view::draw::directions(self.fabric())?;
        let rows = coords.chunks(dims.len()).map(<[u32]>::to_vec).collect();
        let index = |d: Option<Direction>| d.map_or(-1, |d| d.index() as i16);
        Some((dims, rows, directions.into_iter().map(index).collect()))
    }

    /// Draws the machine as SVG, with one value per link as its load if given (not-a-number is shown as not
    /// known). ``unit`` is one of ``s``, ``B``, ``ratio`` and ``count``.
    #[pyo3(signature = (loads=None, *, name="load", unit="ratio", title="", worst=10))]
    fn svg(
        &self,
        loads: Option<PyArrayLike1<'_, f64, AllowTypeChange>>,
        name: &str,
        unit: &str,
        title: &str,
        #[pyo3(from_py_with = errors::worst)] worst: usize,
    ) -> PyResult<String> {
        let unit = match unit {
            "s" => Unit::Seconds,
            "B" => Unit::Bytes,
            "ratio" => Unit::Ratio,
            "count" => Unit::Count,
            _ => {
                let text = format!("found unit {unit:?}, expected s, B, ratio or count");
                return Err(PyValueError::new_err(text));
            }
        };
        let loads = match loads {
            None => None,
            Some(array) => {
                let values: Vec<f64> = array.as_array().to_vec();
                let links = self.fabric().links().len();
                if values.len() != links {
                    let text = format!(
                        "found {} loads, expected {links}, one per link",
                        values.len()
                    );
                    return Err(PyValueError::new_err(text));
                }
                Some(LinkLoads::new(name, unit, values))
            }
        };
        let options = DrawOptions {
            title: title.into(),
            worst,
            ..DrawOptions::default()
        };
        Ok(fabric_svg(self.fabric(), loads.as_ref(), &options))
    }

    /// The picture that notebooks show.
    fn _repr_svg_(&self) -> String {
        fabric_svg(self.fabric(), None, &DrawOptions::default())
    }

    fn __repr__(&self) -> String {
        let f = self.fabric();
        format!(
            "<hopbyte.Machine {}: {} routers, {} nodes, {} links>",
            f.source(),
            f.routers().len(),
            f.nodes().len(),
            f.links().len()
        )
    }
}
