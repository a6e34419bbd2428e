//! A machine from its files: fabric, routing, and the reader's notes.

use crate::error::Result;
use crate::shell_word;
use hopbyte_fabric::{Fabric, Routing, faults};
use hopbyte_observe::kinds::{Content, of_another_kind};
use hopbyte_observe::text::{Limits, Text, lossy};
use hopbyte_observe::{MachineFiles, read_machine};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A machine and its routing.
pub struct Machine {
    /// Source, to read it again.
    pub source: MachineSource,
    /// Routers, nodes and links in service.
    pub fabric: Fabric,
    /// Which way bytes go.
    pub routing: Routing,
    /// Assumptions, completions and remarks of the reader.
    pub notes: Vec<String>,
    /// The same machine without faults, if there are any.
    pub healthy: Option<Box<(Fabric, Routing)>>,
}

/// Everything needed to read the same machine again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineSource {
    /// File or spec.
    pub fabric: String,
    /// Forwarding tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<PathBuf>,
    /// `rtr --system-map`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_map: Option<PathBuf>,
    /// Names for GUIDs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<PathBuf>,
    /// Kinds of hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Capacities of a description without: GB/s each way of a node's link, and of cables from the leaves up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<f64>,
    /// The same: capacity of the nodes below a switch over that of its uplinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_ratio: Option<f64>,
    /// Faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<String>,
    /// Routing, if the user names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<String>,
}

impl MachineSource {
    /// The command-line words that name it, the fabric first.
    pub fn words(&self) -> String {
        let mut words = vec![shell_word(&self.fabric)];
        let mut add = |option: &str, value: &str| {
            words.extend([option.to_owned(), shell_word(value)]);
        };
        let path = |p: &PathBuf| p.display().to_string();
        self.routes.iter().for_each(|r| add("--routes", &path(r)));
        self.system_map
            .iter()
            .for_each(|m| add("--system-map", &path(m)));
        self.names.iter().for_each(|n| add("--names", &path(n)));
        self.hosts.iter().for_each(|h| add("--hosts", h));
        if !self.rates.is_empty() {
            let rates: Vec<String> = self.rates.iter().map(f64::to_string).collect();
            add("--rates", &rates.join(","));
        }
        self.uplink_ratio
            .iter()
            .for_each(|r| add("--uplink-ratio", &r.to_string()));
        self.down.iter().for_each(|d| add("--down", d));
        self.routing.iter().for_each(|r| add("--routing", r));
        words.join(" ")
    }

    /// Reads the machine; assumptions and remarks are in its notes.
    ///
    /// # Errors
    /// Files that cannot be read or parsed, unknown links or routers.
    pub fn read(&self) -> Result<Machine> {
        let read = read_machine(&MachineFiles {
            main: self.fabric.clone(),
            routes: self.routes.clone(),
            system_map: self.system_map.clone(),
            names: self.names.clone(),
            hosts: self.hosts.clone(),
            rates: self.rates.clone(),
            uplink_ratio: self.uplink_ratio,
        })
        .map_err(|e| of_another_kind(Path::new(&self.fabric), Content::Machine, e))?;
        let machine = Machine {
            source: self.clone(),
            fabric: read.fabric,
            routing: read.routing,
            notes: read.notes,
            healthy: None,
        };
        let mut machine = machine.without(&self.down)?;
        if let Some(name) = &self.routing {
            machine.routing = Routing::named(&machine.fabric, name)?;
        }
        Ok(machine)
    }
}

impl Machine {
    /// The machine without failed links and routers. Rule-based routing avoids
    /// them; forwarding tables stay as read, as on a fabric until its manager installs new ones.
    fn without(mut self, down: &[String]) -> Result<Self> {
        let mut list = Vec::new();
        for word in down {
            let (name, text) = match word.strip_prefix('@') {
                Some(path) => {
                    let text = Text::read(Path::new(path), Limits::TEXT)?;
                    self.notes.extend(text.unended());
                    (path, lossy(text.bytes()).into_owned())
                }
                None => ("--down", word.clone()),
            };
            let (found, other) = faults::parse(&self.fabric, name, &text)?;
            if found.is_empty() && other.is_empty() {
                self.notes
                    .push(format!("{name}: empty; no link or router is down by it"));
            }
            if let Some(first) = other.first() {
                let count = other.len();
                self.notes.push(format!(
                    "{name}: {count} lines name no fault, such as: {first}"
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
            ..self
        })
    }
}
