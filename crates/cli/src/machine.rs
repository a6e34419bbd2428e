//! The machine that a command line names.

use crate::args::{FabricArgs, FabricOption, FabricOptions};
use crate::output::Output;
use anyhow::Result;
use hopbyte_fabric::{Fabric, InputError, Routing, faults, spec};
use hopbyte_observe::text::{Limits, Text, lossy};
use std::path::Path;

/// A machine and the way it routes.
pub struct Machine {
    /// Routers, nodes, links; without what is down.
    pub fabric: Fabric,
    /// Which way bytes go.
    pub routing: Routing,
    /// The same machine before anything was down, where something is.
    pub healthy: Option<Box<(Fabric, Routing)>>,
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

fn read(main: &str, beside: &FabricOptions, out: &mut Output) -> Result<Machine> {
    if !spec::is_fabric_spec(main) {
        return Err(InputError::new(main, main, "a fabric spec").into());
    }
    let described = spec::machine(main)?;
    let machine = Machine {
        fabric: described.fabric,
        routing: described.routing,
        healthy: None,
    };
    let mut machine = machine.without(&beside.down, out)?;
    if let Some(name) = &beside.routing {
        machine.routing = Routing::named(&machine.fabric, name)?;
    }
    Ok(machine)
}

impl Machine {
    /// The machine without links and routers that are down. Networks that route by a rule route round
    /// them; tables stay as they were read, as a fabric's do until its manager installs new ones.
    fn without(self, down: &[String], out: &mut Output) -> Result<Self> {
        let mut list = Vec::new();
        for word in down {
            let (name, text) = match word.strip_prefix('@') {
                Some(path) => {
                    let text = Text::read(Path::new(path), Limits::TEXT)?;
                    (path, lossy(text.bytes()).into_owned())
                }
                None => ("--down", word.clone()),
            };
            let (found, other) = faults::parse(&self.fabric, name, &text)?;
            if let Some(first) = other.first() {
                out.talk(format!(
                    "{name}: {} lines name no fault, such as: {first}",
                    other.len()
                ));
            }
            list.extend(found);
        }
        if list.is_empty() {
            return Ok(self);
        }
        let fabric = self.fabric.clone().with_faults(&list);
        let routing = self.routing.rerouted(&fabric);
        Ok(Self {
            fabric,
            routing,
            healthy: Some(Box::new((self.fabric, self.routing))),
        })
    }
}
