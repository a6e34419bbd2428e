//! Built-in captures of the demo, and the second job that runs on them.

use crate::error::{Context, Result};
use crate::exchange::{self, Flow, flows};
use crate::inputs;
use crate::links::lines;
use crate::machine::Machine;
use crate::mapping::Mapping;
use crate::question::Question;
use hopbyte_apply::write_atomic;
use hopbyte_fabric::wire::Overhead;
use hopbyte_fabric::{Increase, LinkId, Placement, Quantity};
use hopbyte_map::{Problem, evaluate};
use hopbyte_observe::read_traffic;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A 5×4×3 InfiniBand torus, its forwarding tables and the traffic of two LAMMPS runs (see data/README.md).
const FABRIC: (&str, &[u8]) = (
    "ibnetdiscover.out.zst",
    include_bytes!("../../../data/infiniband/opensm-torus-5x4x3/ibnetdiscover.out.zst"),
);
const TABLES: (&str, &[u8]) = (
    "opensm-lfts.dump.zst",
    include_bytes!("../../../data/infiniband/opensm-torus-5x4x3/opensm-lfts.dump.zst"),
);
const JOB: (&str, &[u8]) = (
    "lammps-lj-64.prof.tar.zst",
    include_bytes!("../../../data/comm/lammps-lj-64.prof.tar.zst"),
);
const SECOND: (&str, &[u8]) = (
    "lammps-peptide-48.prof.tar.zst",
    include_bytes!("../../../data/comm/lammps-peptide-48.prof.tar.zst"),
);

/// The job's hosts: the first host of sixteen switches, in two disjoint planes of the torus.
pub const NODES: &str = "n-0-[0-3]-[0-1]-0,n-2-[0-3]-[0-1]-0";
/// Hosts of the second job: the second host of twelve of the same switches.
const SECOND_NODES: &str = "n-0-[0-2]-[0-1]-1,n-2-[0-2]-[0-1]-1";
/// Use of the second job's fullest link: the highest value shown in paper 003.
const SECOND_USE: f64 = 0.61;

/// Files of the built-in scene.
pub struct Files {
    /// The machine.
    pub fabric: PathBuf,
    /// Its forwarding tables.
    pub tables: PathBuf,
    /// Traffic of the job.
    pub job: PathBuf,
    /// Traffic of the second job.
    pub second: PathBuf,
}

/// Writes the captures into a folder, so that the demo's commands can be repeated.
///
/// # Errors
/// The folder cannot be written.
pub fn unpack(folder: &Path) -> Result<Files> {
    let write = |(name, bytes): (&str, &[u8])| -> Result<PathBuf> {
        let path = folder.join(name);
        write_atomic(&path, bytes)?;
        Ok(path)
    };
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(Files {
        fabric: write(FABRIC)?,
        tables: write(TABLES)?,
        job: write(JOB)?,
        second: write(SECOND)?,
    })
}

/// The second job: node-to-node bytes that repeat every window.
pub struct SecondJob {
    /// Number of its tasks.
    pub tasks: usize,
    /// Number of its nodes.
    pub nodes: usize,
    /// Bytes from node to node in one window.
    pub flows: Vec<Flow>,
    /// Length of the window.
    pub window_seconds: f64,
    /// Its load on every link.
    pub snapshot: Increase,
}

/// Places the second job in order on its nodes, at the rate that keeps its fullest link at
/// `SECOND_USE`.
///
/// # Errors
/// The machine lacks its nodes.
pub fn second_job(file: &Path, machine: &Machine) -> Result<SecondJob> {
    let fabric = &machine.fabric;
    let traffic = read_traffic(&file.display().to_string())?;
    let exchange = traffic.total();
    let loads = Overhead::of(fabric).loads(fabric, &exchange)?;
    let allocation = inputs::nodes(SECOND_NODES, None, traffic.tasks, fabric, &mut |_| ())?;
    let placement = Placement::in_order(&allocation, traffic.tasks)?;
    let problem = Problem {
        loads: loads.exchange.as_ref(),
        ..Problem::new(fabric, &machine.routing, &exchange, &allocation)
    };
    let load = evaluate(&problem, &placement)?;
    let window_seconds = load.worst_link_seconds / SECOND_USE;
    let mut snapshot = Increase::new(fabric, file.display().to_string());
    snapshot.window_seconds = Some(window_seconds);
    for (i, &bytes) in load.link_bytes.iter().enumerate() {
        snapshot.set(Quantity::ReceivedBytes, LinkId::of(i), bytes);
    }
    Ok(SecondJob {
        tasks: traffic.tasks,
        nodes: allocation.nodes().len(),
        flows: flows(loads.exchange.as_ref().unwrap_or(&exchange), &placement),
        window_seconds,
        snapshot,
    })
}

impl SecondJob {
    /// Bytes on the wire between its nodes in one window.
    pub fn bytes(&self) -> f64 {
        self.flows.iter().map(|f| f.bytes).sum()
    }
}

/// Times of the job's exchange in the max-min fair model.
#[derive(Clone, Copy, Serialize)]
pub struct Modelled {
    calibration: &'static str,
    /// As launched, on an otherwise idle machine.
    pub alone_seconds: f64,
    /// As launched, beside the second job; absent if the background is a reading.
    pub beside_seconds: Option<f64>,
    /// Mapped, beside the second job (alone without one).
    pub mapped_seconds: f64,
    /// Share of the time lost to the second job that the mapping recovers.
    pub recovered_ratio: Option<f64>,
}

/// The present placement, or the launcher's default.
fn placement_before(question: &Question) -> Result<Placement> {
    match &question.current {
        Some(current) => Ok(current.clone()),
        None => Ok(Placement::in_order(
            &question.allocation,
            question.exchange.tasks(),
        )?),
    }
}

/// Writes the counters that the machine would show before and after the mapping.
///
/// # Errors
/// A file cannot be written.
pub fn write_readings(
    question: &Question,
    mapping: &Mapping,
    folder: &Path,
) -> Result<[PathBuf; 2]> {
    let (machine, bytes, others) = (&question.machine, question.on_wire(), question.state());
    let before = placement_before(question)?;
    let paths = [folder.join("before.jsonl"), folder.join("after.jsonl")];
    for (path, placement) in paths.iter().zip([&before, &mapping.placement]) {
        let snapshot = exchange::reading(machine, bytes, placement, others)?;
        write_atomic(path, &lines(&machine.fabric, &snapshot)?)?;
    }
    Ok(paths)
}

/// Times of the exchange as launched and mapped.
///
/// # Errors
/// A pair of nodes without a route.
pub fn simulate(
    question: &Question,
    second: Option<&SecondJob>,
    mapping: &Mapping,
) -> Result<Modelled> {
    let before = placement_before(question)?;
    let (others, window): (&[Flow], f64) = match second {
        Some(second) => (&second.flows, second.window_seconds),
        None => (&[], 1.0),
    };
    let before = exchange::flows(question.on_wire(), &before);
    let after = exchange::flows(question.on_wire(), &mapping.placement);
    let machine = &question.machine;
    let alone = exchange::exchange_seconds(machine, &before, &[], window)?;
    let beside = match others {
        [] => None,
        _ => Some(exchange::exchange_seconds(
            machine, &before, others, window,
        )?),
    };
    let mapped = exchange::exchange_seconds(machine, &after, others, window)?;
    Ok(Modelled {
        calibration: "uncalibrated",
        alone_seconds: alone,
        beside_seconds: beside,
        mapped_seconds: mapped,
        recovered_ratio: beside
            .filter(|&b| b > alone)
            .map(|b| (b - mapped) / (b - alone)),
    })
}
