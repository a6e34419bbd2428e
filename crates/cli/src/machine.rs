//! The machine that a command line names.

use crate::args::{FabricArgs, FabricOption, FabricOptions};
use crate::output::Output;
use anyhow::Result;
use hopbyte_fabric::{Fabric, InputError, Routing, spec};

/// A machine and the way it routes.
pub struct Machine {
    /// Routers, nodes, links.
    pub fabric: Fabric,
    /// Which way bytes go.
    pub routing: Routing,
}

impl FabricArgs {
    /// Reads the machine.
    pub fn read(&self, out: &mut Output) -> Result<Machine> {
        read(&self.fabric, &self.beside, out)
    }
}

impl FabricOption {
    /// Reads the machine.
    pub fn read(&self, out: &mut Output) -> Result<Machine> {
        read(&self.fabric, &self.beside, out)
    }
}

fn read(main: &str, _beside: &FabricOptions, _out: &mut Output) -> Result<Machine> {
    if !spec::is_fabric_spec(main) {
        return Err(InputError::new(main, main, "a fabric spec").into());
    }
    let fabric = spec::fabric(main)?;
    let routing = Routing::default_for(&fabric);
    Ok(Machine { fabric, routing })
}
