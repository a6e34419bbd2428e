//! Placements of ranks.

use crate::arrays::column;
use crate::errors::{self, HopbyteError, python};
use crate::html::table;
use crate::machine::{Machine, Rebuilt, rebuilt};
use hopbyte_apply::{Launch, Launcher, Prepared, write_atomic};
use hopbyte_fabric::{Allocation, Placement as Slots, Slot};
use hopbyte_job::inputs::allocate;
use hopbyte_observe::{parse_node_list, read_placement};
use numpy::PyArray1;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use std::path::PathBuf;
use std::sync::Arc;

/// A slot on a node for every rank.
#[pyclass(frozen, module = "hopbyte")]
pub struct Placement {
    machine: Arc<hopbyte_job::Machine>,
    allocation: Allocation,
    slots: Slots,
    node: Vec<u32>,
    slot: Vec<u32>,
}

/// Nodes as given by the user: a list in a string (``miriel[063-065]:24``, ``all``), or names.
#[derive(FromPyObject)]
pub enum Nodes {
    /// One string.
    List(String),
    /// Names, one per node.
    Names(Vec<String>),
}

/// Nodes of an argument.
pub fn nodes(value: &Bound<'_, PyAny>) -> PyResult<Nodes> {
    let expected = "a list of nodes in a string, or a sequence of their names";
    value
        .extract()
        .map_err(|_| errors::of_type("nodes", value, expected))
}

/// The same, or none.
fn maybe_nodes(value: &Bound<'_, PyAny>) -> PyResult<Option<Nodes>> {
    (!value.is_none()).then(|| nodes(value)).transpose()
}

impl Nodes {
    /// The allocation: nodes without slots of their own hold `ranks_per_node`, or by default the fewest that
    /// suffice for all tasks.
    pub fn allocate(
        &self,
        machine: &Machine,
        ranks_per_node: Option<u32>,
        tasks: usize,
    ) -> PyResult<Allocation> {
        let fabric = machine.fabric();
        let nodes = match self {
            Self::List(text) => parse_node_list(text, fabric, &mut |_| ()).map_err(python)?,
            Self::Names(names) => {
                let found = machine.find(names)?;
                found.into_iter().map(|n| (n, None)).collect()
            }
        };
        allocate(nodes, ranks_per_node, tasks, fabric).map_err(python)
    }
}

/// Reads the node of every rank: an Open MPI rankfile or hostfile, netloc's ``resources.txt``, CSV
/// ``rank,node[,slot]``, or a rank order (which needs the nodes of the job).
#[pyfunction]
#[pyo3(signature = (source, machine, *, nodes=None, ranks_per_node=1))]
pub fn load_placement(
    source: PathBuf,
    machine: &Machine,
    #[pyo3(from_py_with = maybe_nodes)] nodes: Option<Nodes>,
    #[pyo3(from_py_with = errors::ranks_per_node)] ranks_per_node: u32,
) -> PyResult<Placement> {
    let allocation = nodes
        .map(|n| n.allocate(machine, Some(ranks_per_node), 0))
        .transpose()?;
    let read = read_placement(&source, machine.fabric(), allocation.as_ref()).map_err(python)?;
    Ok(Placement::new(machine, read.allocation, read.placement))
}

/// A placement by hand: a node name for every rank, or a baseline over the nodes of a job (``how``: in-order or
/// round-robin, for ``tasks`` ranks).
#[pyfunction]
#[pyo3(signature = (machine, nodes, *, tasks=None, ranks_per_node=None, how="by-rank"))]
pub fn place(
    machine: &Machine,
    #[pyo3(from_py_with = nodes)] nodes: Nodes,
    #[pyo3(from_py_with = errors::tasks)] tasks: Option<usize>,
    #[pyo3(from_py_with = errors::ranks_per_node)] ranks_per_node: Option<u32>,
    how: &str,
) -> PyResult<Placement> {
    let fabric = machine.fabric();
    let wrong = |text: &str| PyErr::new::<HopbyteError, _>(text.to_owned());
    let usual = match how {
        "in-order" => Slots::in_order,
        "round-robin" => Slots::round_robin,
        "by-rank" => {
            let dropped = [
                tasks.map(|n| format!("tasks={n}")),
                ranks_per_node.map(|n| format!("ranks_per_node={n}")),
            ];
            if let Some(found) = dropped.into_iter().flatten().next() {
                let expected = "how=\"in-order\" or \"round-robin\" with it";
                return Err(wrong(&format!(
                    "found {found} with how=\"by-rank\", expected {expected}"
                )));
            }
            let Nodes::Names(names) = nodes else {
                return Err(wrong(
                    "found a list of nodes, expected a node name for every rank",
                ));
            };
            return Placement::by_rank(machine, &names, None);
        }
        _ => {
            let text = format!("found how={how:?}, expected by-rank, in-order or round-robin");
            return Err(wrong(&text));
        }
    };
    let tasks = tasks.ok_or_else(|| wrong("found no number of ranks, expected tasks="))?;
    let allocation = nodes.allocate(machine, ranks_per_node, tasks)?;
    let slots = usual(&allocation, tasks).map_err(python)?;
    debug_assert!(fabric.nodes().len() >= allocation.nodes().len());
    Ok(Placement::new(machine, allocation, slots))
}

/// The placement of a pickle: nodes with their slots, and of each rank the number of its node among them and its slot.
#[pyfunction]
pub fn _placement(
    machine: &Machine,
    nodes: Vec<(String, u32)>,
    ranks: Vec<(usize, u32)>,
) -> PyResult<Placement> {
    let (names, slots): (Vec<String>, Vec<u32>) = nodes.into_iter().unzip();
    let nodes = machine.find(&names)?;
    let place = |(at, slot)| {
        let wrong = || PyIndexError::new_err(format!("no node {at} in the allocation"));
        let node = *nodes.get(at).ok_or_else(wrong)?;
        Ok(Slot { node, slot })
    };
    let ranks = ranks.into_iter().map(place).collect::<PyResult<_>>()?;
    let counted = nodes.iter().copied().zip(slots).collect();
    let allocation = Allocation::new(machine.fabric(), counted).map_err(python)?;
    let slots = Slots::new(machine.fabric(), &allocation, ranks).map_err(python)?;
    Ok(Placement::new(machine, allocation, slots))
}

impl Placement {
    /// Wraps a checked placement.
    pub fn new(machine: &Machine, allocation: Allocation, slots: Slots) -> Self {
        Self {
            node: slots.slots().iter().map(|s| s.node.0).collect(),
            slot: slots.slots().iter().map(|s| s.slot).collect(),
            machine: machine.0.clone(),
            allocation,
            slots,
        }
    }

    /// From a node name for every rank; without an allocation each node has as many slots as ranks.
    pub fn by_rank(
        machine: &Machine,
        names: &[String],
        allocation: Option<Allocation>,
    ) -> PyResult<Self> {
        let fabric = machine.fabric();
        let nodes = machine.find(names)?;
        let allocation = match allocation {
            Some(allocation) => allocation,
            None => {
                let mut counted: Vec<(hopbyte_fabric::NodeId, u32)> = Vec::new();
                let mut seen = std::collections::HashMap::new();
                for &node in &nodes {
                    let at = *seen.entry(node).or_insert_with(|| {
                        counted.push((node, 0));
                        counted.len() - 1
                    });
                    counted[at].1 += 1;
                }
                Allocation::new(fabric, counted).map_err(python)?
            }
        };
        let slots = Slots::on_nodes(fabric, &allocation, nodes).map_err(python)?;
        Ok(Self::new(machine, allocation, slots))
    }

    /// The slots.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The nodes of the job.
    pub fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// Whether it is a placement on that machine.
    pub fn belongs_to(&self, machine: &Machine) -> bool {
        Arc::ptr_eq(&self.machine, &machine.0)
    }

    fn prepare(&self, to: &str) -> PyResult<Prepared> {
        let launch = Launch {
            fabric: &self.machine.fabric,
            allocation: &self.allocation,
            placement: &self.slots,
            mpich: None,
            cores: None,
            job: None,
        };
        let launcher: Launcher = to.parse().map_err(python)?;
        launch.prepare(launcher).map_err(python)
    }
}

/// Machine, nodes and ranks of a pickle.
type Parts = (Machine, Vec<(String, u32)>, Vec<(usize, u32)>);

#[pymethods]
impl Placement {
    /// Pickled with its machine.
    fn __reduce__<'py>(&self, py: Python<'py>) -> Rebuilt<'py, Parts> {
        let name = |n: hopbyte_fabric::NodeId| self.machine.fabric.node(n).name.clone();
        let nodes = self
            .allocation
            .nodes()
            .iter()
            .map(|&(n, slots)| (name(n), slots));
        let at = |slot: &Slot| Some((self.allocation.position(slot.node)?, slot.slot));
        let ranks = self.slots.slots().iter().filter_map(at);
        let machine = Machine(self.machine.clone());
        rebuilt(
            py,
            "_placement",
            (machine, nodes.collect(), ranks.collect()),
        )
    }

    /// Node number of every rank.
    #[getter]
    fn node<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<u32>> {
        column(this.clone().into_any(), &this.get().node)
    }

    /// Slot of every rank on its node.
    #[getter]
    fn slot<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<u32>> {
        column(this.clone().into_any(), &this.get().slot)
    }

    /// Node name of every rank.
    #[getter]
    fn node_names(&self) -> Vec<&str> {
        let nodes = self.machine.fabric.nodes();
        self.node
            .iter()
            .map(|&n| &nodes[n as usize].name[..])
            .collect()
    }

    /// Number of ranks on another node than in a placement of the same size.
    fn moved(&self, other: &Self) -> PyResult<usize> {
        let (own, others) = (self.node.len(), other.node.len());
        if own != others {
            let text = format!("found a placement of {others} ranks, expected {own}");
            return Err(HopbyteError::new_err(text));
        }
        Ok(self.slots.moved(&other.slots))
    }

    /// The launcher's input as text; names are those of `hopbyte apply --emit`.
    fn render(&self, to: &str) -> PyResult<String> {
        Ok(self.prepare(to)?.text)
    }

    /// Writes the launcher's input file atomically. Raises an error if the launcher would degrade the run
    /// (shared memory lost, nodes in another order), unless `force`.
    #[pyo3(signature = (to, path, *, force = false))]
    fn write(&self, to: &str, path: PathBuf, force: bool) -> PyResult<()> {
        let Prepared { text, advice } = self.prepare(to)?;
        match advice.refused {
            Some(no) if !force => {
                let text = format!("refused: {to}: {}\nhint: {}", no.why, no.instead);
                Err(HopbyteError::new_err(text))
            }
            _ => write_atomic(&path, &text).map_err(python),
        }
    }

    fn __len__(&self) -> usize {
        self.node.len()
    }

    /// Node name and slot of a rank.
    fn __getitem__(&self, rank: isize) -> PyResult<(&str, u32)> {
        let count = self.node.len() as isize;
        let at = if rank < 0 { rank + count } else { rank };
        if !(0..count).contains(&at) {
            return Err(PyIndexError::new_err(format!(
                "no rank {rank} among {count}"
            )));
        }
        let at = at as usize;
        let name = &self.machine.fabric.nodes()[self.node[at] as usize].name;
        Ok((name, self.slot[at]))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let ranks = self.node_names().into_iter().zip(&self.slot);
        PyList::new(py, ranks.collect::<Vec<_>>())?.try_iter()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.node == other.node && self.slot == other.slot
    }

    fn _repr_html_(&self) -> String {
        let rows = self.node_names().into_iter().zip(&self.slot).enumerate();
        let rows =
            rows.map(|(rank, (node, slot))| vec![rank.to_string(), node.into(), slot.to_string()]);
        let caption = format!(
            "{} ranks on {} nodes",
            self.node.len(),
            self.allocation.nodes().len()
        );
        table(&caption, &["rank", "node", "slot"], rows)
    }

    fn __repr__(&self) -> String {
        format!(
            "<hopbyte.Placement of {} ranks on {} nodes>",
            self.node.len(),
            self.allocation.nodes().len()
        )
    }
}
