//! Machines.

use crate::border::{self, Failure};
use hopbyte_fabric::NodeId;
use hopbyte_job::{Machine, MachineSource};
use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

/// Content of a machine handle, shared with other objects.
pub struct Known {
    /// Fabric and routing.
    pub machine: Arc<Machine>,
    names: Vec<CString>,
}

impl Known {
    /// A node by number.
    pub fn node(&self, number: u32) -> Result<NodeId, Failure> {
        let count = self.machine.fabric.nodes().len();
        match (number as usize) < count {
            true => Ok(NodeId(number)),
            false => Err(Failure::input(format!(
                "found node {number}, expected one below {count}"
            ))),
        }
    }
}

/// `hopbyte_machine`.
#[allow(non_camel_case_types, reason = "as C calls it")]
pub struct hopbyte_machine(pub(crate) Arc<Known>);

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_machine_open(
    fabric: *const c_char,
    routes: *const c_char,
) -> *mut hopbyte_machine {
    border::object(|| {
        // SAFETY: the caller gives strings or null.
        let fabric = unsafe { border::text(fabric, "fabric") }?.to_owned();
        let mut source = MachineSource {
            fabric,
            ..MachineSource::default()
        };
        if !routes.is_null() {
            // SAFETY: the caller gives strings or null.
            source
                .routes
                .push(unsafe { border::text(routes, "routes") }?.into());
        }
        let machine = source.read()?;
        let names = machine.fabric.nodes().iter();
        let names = names.map(|n| CString::new(n.name.replace('\0', " ")).unwrap_or_default());
        Ok(hopbyte_machine(Arc::new(Known {
            names: names.collect(),
            machine: Arc::new(machine),
        })))
    })
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_machine_close(machine: *mut hopbyte_machine) {
    // SAFETY: the caller gives an open machine or null, and uses it no more.
    unsafe { border::end(machine) }
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_machine_node_count(machine: *const hopbyte_machine) -> usize {
    border::value(0, || {
        // SAFETY: the caller gives an open machine or null.
        let machine = unsafe { border::given(machine, "machine") }?;
        Ok(machine.0.machine.fabric.nodes().len())
    })
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_machine_find_node(
    machine: *const hopbyte_machine,
    name: *const c_char,
    node: *mut u32,
) -> c_int {
    border::status(|| {
        // SAFETY: the caller gives an open machine, a string and a place, or null.
        let (machine, name, node) = unsafe {
            (
                border::given(machine, "machine")?,
                border::text(name, "name")?,
                border::place(node, "the node")?,
            )
        };
        *node = machine.0.machine.fabric.find_node(name)?.0;
        Ok(())
    })
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_machine_node_name(
    machine: *const hopbyte_machine,
    node: u32,
) -> *const c_char {
    border::value(std::ptr::null(), || {
        // SAFETY: the caller gives an open machine or null.
        let machine = unsafe { border::given(machine, "machine") }?;
        let node = machine.0.node(node)?;
        Ok(machine.0.names[node.index()].as_ptr())
    })
}
