//! Mappings.

use crate::border::{self, Failure};
use crate::machine::hopbyte_machine;
use crate::oracle::{choice, hopbyte_oracle};
use crate::traffic::hopbyte_traffic;
use hopbyte_fabric::{Allocation, NodeId, Placement};
use hopbyte_job::question::Keep;
use hopbyte_job::{Effort, Goal, MAX_THREADS, Question, WireOptions, search};
use std::ffi::c_int;
use std::sync::Arc;

/// `hopbyte_map_options`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "as C calls it")]
pub struct hopbyte_map_options {
    objective: c_int,
    seconds: f64,
    trials: u64,
    seed: u64,
    threads: c_int,
    keep: c_int,
}

/// `hopbyte_map_worth`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "as C calls it")]
pub struct hopbyte_map_worth {
    before_seconds: f64,
    after_seconds: f64,
    bound_seconds: f64,
    before_hop_bytes: f64,
    after_hop_bytes: f64,
    moved: usize,
    version: u64,
}

/// `hopbyte_mapping`.
#[allow(non_camel_case_types, reason = "as C calls it")]
pub struct hopbyte_mapping {
    placement: Placement,
    worth: hopbyte_map_worth,
}

/// The defaults of all interfaces, used without options.
const DEFAULT: hopbyte_map_options = hopbyte_map_options {
    objective: 0,
    seconds: Effort::DEFAULT.seconds,
    trials: 0,
    seed: Effort::DEFAULT.seed,
    threads: Effort::DEFAULT.threads as c_int,
    keep: 0,
};

/// Choices by their number in C; traffic has no groups there.
const KEEPS: [Keep; 2] = [Keep::Nothing, Keep::Hosts];

impl hopbyte_map_options {
    fn effort(&self) -> Result<Effort, Failure> {
        let threads = usize::try_from(self.threads)
            .ok()
            .filter(|&n| n <= MAX_THREADS);
        let threads = threads.ok_or_else(|| {
            Failure::input(format!(
                "found {} threads, expected 0 to {MAX_THREADS}",
                self.threads
            ))
        })?;
        Ok(Effort {
            seconds: self.seconds,
            trials: (self.trials > 0).then_some(self.trials),
            seed: self.seed,
            threads,
            ..Effort::DEFAULT
        })
    }
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "as C calls it")]
pub unsafe extern "C" fn hopbyte_mapping_create(
    machine: *const hopbyte_machine,
    oracle: *const hopbyte_oracle,
    traffic: *const hopbyte_traffic,
    node_count: usize,
    nodes: *const u32,
    slots: *const u32,
    current: *const u32,
    options: *const hopbyte_map_options,
) -> *mut hopbyte_mapping {
    border::object(|| {
        // SAFETY: the caller gives open objects and arrays of this length, or null.
        let (machine, oracle, traffic, nodes, slots, options) = unsafe {
            (
                &border::given(machine, "machine")?.0,
                oracle.as_ref(),
                border::given(traffic, "traffic")?,
                border::array(nodes, node_count, "nodes")?,
                border::array(slots, node_count, "slots")?,
                options.as_ref().unwrap_or(&DEFAULT),
            )
        };
        if oracle.is_some_and(|o| !o.serves(machine)) {
            return Err(Failure::input("found an oracle of another machine object"));
        }
        let fabric = &machine.machine.fabric;
        let rooms = nodes.iter().zip(slots);
        let rooms = rooms.map(|(&node, &slots)| Ok((machine.node(node)?, slots)));
        let allocation = Allocation::new(fabric, rooms.collect::<Result<_, Failure>>()?)?;
        let exchange = traffic.exchange()?;
        let current = if current.is_null() {
            None
        } else {
            // SAFETY: not null, and the caller gives a node for every task.
            let on = unsafe { border::array(current, traffic.tasks(), "tasks' nodes") }?;
            let on: Result<Vec<NodeId>, Failure> = on.iter().map(|&n| machine.node(n)).collect();
            Some(Placement::on_nodes(fabric, &allocation, on?)?)
        };
        let (background, version) = oracle.map_or((None, 0), hopbyte_oracle::reading);
        // C enumerators are indices in the table, without the objectives that need costs.
        let goals: Vec<Goal> = Goal::ALL.into_iter().filter(|g| !g.needs_costs()).collect();
        let (machine, exchange) = (machine.machine.clone(), Arc::new(exchange));
        let wire = WireOptions::default();
        let question = Question {
            traffic: "libhopbyte".into(),
            background,
            current,
            goal: choice("objective", options.objective, &goals)?,
            keep_hosts: choice("keep", options.keep, &KEEPS)? == Keep::Hosts,
            ..Question::new(machine, exchange, allocation, &wire)?
        };
        let found = search(&question, &options.effort()?, &|_| {})?;
        let (placement, certificate) = (found.placement, found.certificate);
        let before = certificate
            .current
            .as_ref()
            .unwrap_or(&certificate.baseline);
        Ok(hopbyte_mapping {
            worth: hopbyte_map_worth {
                before_seconds: before.worst_link_seconds,
                after_seconds: certificate.result.worst_link_seconds,
                bound_seconds: certificate.bound.worst_link_seconds,
                before_hop_bytes: before.hop_bytes,
                after_hop_bytes: certificate.result.hop_bytes,
                moved: certificate.moved_tasks,
                version,
            },
            placement,
        })
    })
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_mapping_free(mapping: *mut hopbyte_mapping) {
    // SAFETY: the caller gives a mapping or null, and uses it no more.
    unsafe { border::end(mapping) }
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_mapping_places(
    mapping: *const hopbyte_mapping,
    nodes: *mut u32,
    slots: *mut u32,
) -> c_int {
    border::status(|| {
        // SAFETY: the caller gives a mapping and room for all tasks, or null.
        let mapping = unsafe { border::given(mapping, "mapping") }?;
        let places = mapping.placement.slots();
        // SAFETY: as above.
        let nodes = unsafe { border::output(nodes, places.len(), "nodes") }?;
        for (node, place) in nodes.iter_mut().zip(places) {
            *node = place.node.0;
        }
        if !slots.is_null() {
            // SAFETY: as above, and not null.
            let slots = unsafe { border::output(slots, places.len(), "slots") }?;
            for (slot, place) in slots.iter_mut().zip(places) {
                *slot = place.slot;
            }
        }
        Ok(())
    })
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_mapping_worth(
    mapping: *const hopbyte_mapping,
    worth: *mut hopbyte_map_worth,
) -> c_int {
    border::status(|| {
        // SAFETY: the caller gives a mapping and a place, or null.
        let (mapping, worth) = unsafe {
            (
                border::given(mapping, "mapping")?,
                border::place(worth, "the worth")?,
            )
        };
        *worth = mapping.worth;
        Ok(())
    })
}
