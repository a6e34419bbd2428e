//! An emulated cluster on this machine: network namespaces wired as a fabric, with shaped links.
//!
//! # Example
//!
//! The commands that [`Lab::up`] runs as root:
//!
//! ```
//! use hopbyte_fabric::{Routing, spec};
//! use hopbyte_lab::plan::{Naming, Plan};
//!
//! let fabric = spec::fabric("torus:2x2x2")?;
//! let routing = Routing::default_for(&fabric);
//! // One bit per second for each byte per second of capacity.
//! let naming = Naming::new("demo", 1.0, &fabric);
//! let plan = Plan::of(&fabric, &routing, &naming)?;
//! assert_eq!(plan.places.len(), fabric.routers().len() + fabric.nodes().len());
//! print!("{}", plan.cables);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod agents;
pub mod background;
pub mod counters;
pub mod disturb;
mod error;
pub mod experiment;
pub mod plan;
pub mod seats;
mod space;
pub mod system;

pub use error::{LabError, Result};

use crate::error::{Context, refuse};
use hopbyte_fabric::faults::Fault;
use hopbyte_fabric::{End, Fabric, LinkId, NodeId};
use hopbyte_job::{Machine, MachineSource};
use plan::{Naming, Plan};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A lab, as stored in its state file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lab {
    /// Name, and prefix of its namespaces.
    pub name: String,
    /// The machine that it emulates.
    pub machine: MachineSource,
    /// Bits per second for each byte per second of capacity.
    pub scale_bits_per_byte: f64,
    /// Program that launchers use in place of ssh.
    pub agent: String,
}

impl Lab {
    /// Builds a lab; after a failure everything is removed.
    pub fn up(
        name: &str,
        source: MachineSource,
        machine: &Machine,
        bits_per_second: f64,
    ) -> Result<Self> {
        check_name(name)?;
        system::check_rights()?;
        if !system::places_of(name)?.is_empty() {
            refuse!("lab '{name}' is up already\nhint: hopbyte lab down {name}");
        }
        let fastest = reference_capacity(&machine.fabric);
        let naming = Naming::new(name, bits_per_second / fastest, &machine.fabric);
        let plan = Plan::of(&machine.fabric, &machine.routing, &naming)?;
        let lab = Self {
            name: name.into(),
            machine: source,
            scale_bits_per_byte: naming.scale,
            agent: system::folder(name).join("agent").display().to_string(),
        };
        // First, so that a lab whose building was killed is listed too.
        let folder = system::folder(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let built = build(&plan).and_then(|()| lab.save(&machine.fabric));
        if let Err(error) = built {
            system::remove(name).context("taking down the built part")?;
            return Err(error);
        }
        Ok(lab)
    }

    /// The lab with this name.
    pub fn open(name: &str) -> Result<Self> {
        check_name(name)?;
        let path = system::folder(name).join("lab.json");
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && system::folder(name).exists() => {
                refuse!("lab '{name}' is half-built: {INTERRUPTED}\nhint: hopbyte lab down {name}")
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                refuse!(
                    "no lab '{name}' is up\nhint: hopbyte lab up torus:2x2x8:nodes=2 --name {name}"
                )
            }
            text => text.with_context(|| format!("reading {}", path.display()))?,
        };
        serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// The machine that it emulates.
    ///
    /// # Errors
    /// Its files no longer exist.
    pub fn machine(&self) -> Result<Machine> {
        Ok(self.machine.read()?)
    }

    /// Names of its namespaces, interfaces and addresses.
    pub fn naming(&self, fabric: &Fabric) -> Naming {
        Naming::new(&self.name, self.scale_bits_per_byte, fabric)
    }

    /// The place that a name stands for: of a host its first, of an adapter the first that is nearest to it.
    ///
    /// # Errors
    /// There is nothing of this name.
    pub fn place(fabric: &Fabric, name: &str) -> Result<NodeId> {
        if let Some(&first) = fabric.places_of_host(name).first() {
            return Ok(first);
        }
        let node = fabric.find_node(name)?;
        Ok(fabric.places_at(node).first().copied().unwrap_or(node))
    }

    /// Whether it is still up.
    pub fn is_up(&self) -> bool {
        system::folder(&self.name).join("lab.json").exists()
    }

    /// Names of the links that begin in each namespace, by interface: under these names [`agents`] report them, so that
    /// readers need no map.
    pub fn ports(&self, fabric: &Fabric) -> HashMap<String, BTreeMap<String, String>> {
        let naming = self.naming(fabric);
        let mut ports: HashMap<String, BTreeMap<String, String>> = HashMap::new();
        for link in fabric.link_ids() {
            if let Some((place, interface)) = naming.sending_end(fabric, link) {
                let of = ports.entry(place).or_default();
                of.insert(interface, fabric.link_name(link));
            }
        }
        ports
    }

    fn save(&self, fabric: &Fabric) -> Result<()> {
        let folder = system::folder(&self.name);
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let naming = self.naming(fabric);
        let (mut hosts, mut places) = ("127.0.0.1 localhost\n".to_owned(), String::new());
        for (home, node) in naming.seats.addressed() {
            let (address, name) = (plan::address(node), plan::node_name(fabric, node));
            let host = plan::host_name(fabric, &naming.seats, node);
            // The name that a host's first address has is that of the host, as `hostname` says it.
            let canonical = (home.places[0] == node && host != name).then(|| format!("{host} "));
            hosts.push_str(&format!(
                "{address} {}{name}\n",
                canonical.unwrap_or_default()
            ));
            let (space, interface) = (naming.node(node), naming.seats.interface(node));
            places.push_str(&format!("{address} {name} {space} {host} {interface}\n"));
        }
        hopbyte_apply::write_atomic(&folder.join("hosts"), hosts.as_bytes())?;
        hopbyte_apply::write_atomic(&folder.join("places"), places.as_bytes())?;
        let agent = folder.join("agent");
        hopbyte_apply::write_atomic(&agent, system::agent_script(&self.name).as_bytes())?;
        std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755))
            .with_context(|| format!("making {} executable", agent.display()))?;
        Ok(hopbyte_apply::write_atomic(
            &folder.join("lab.json"),
            serde_json::to_string_pretty(self)?.as_bytes(),
        )?)
    }

    /// Runs a command on a node, with this process's input and output; its exit code.
    pub fn run(&self, fabric: &Fabric, node: NodeId, command: &[String]) -> Result<i32> {
        let mut entered = self.command(fabric, node);
        let status = entered.args(command).status().context("starting ip")?;
        Ok(status.code().unwrap_or(255))
    }

    /// A command that enters a node and executes its further arguments.
    pub fn command(&self, fabric: &Fabric, node: NodeId) -> Command {
        let naming = self.naming(fabric);
        let host = plan::host_name(fabric, &naming.seats, node);
        let mut command = system::enter(&self.name, &naming.node(node), &host);
        command
            .env("HOPBYTE_LAB", &self.name)
            .env("HOPBYTE_LAB_AGENT", &self.agent)
            .env("HOPBYTE_LAB_ADDRESS", plan::address(node))
            .env("HOPBYTE_LAB_INTERFACE", naming.seats.interface(node));
        command
    }

    /// Changes the rate of a link (one direction) to a share of its capacity.
    pub fn set_rate(&self, fabric: &Fabric, link: LinkId, factor: f64) -> Result<()> {
        let naming = self.naming(fabric);
        let Some((place, interface)) = naming.sending_end(fabric, link) else {
            let why = if fabric.is_inner(link) {
                "is inside a host, where nothing is shaped"
            } else {
                "is shared by several hosts and has no interface of its own"
            };
            refuse!("{} {why}", fabric.link_name(link));
        };
        let rate = (naming.rate(fabric, link) as f64 * factor)
            .round()
            .max(1000.0) as u64;
        system::batch(
            "tc",
            Some(&place),
            &format!("qdisc change {}\n", plan::shaping(&interface, rate)),
        )
    }

    /// Cuts a cable, both directions; with `reroute` the machine's routes then avoid it.
    ///
    /// # Errors
    /// No such link, or no single order of dimensions that serves all pairs without it.
    pub fn cut(&self, machine: &mut Machine, link: &str, reroute: bool) -> Result<()> {
        let links = cable(&machine.fabric, link, false)?;
        if reroute {
            let faults: Vec<Fault> = links.iter().map(|&l| Fault::OneWay(l)).collect();
            let broken = machine.fabric.clone().with_faults(&faults);
            let routing = machine.routing.rerouted(&broken);
            if !(routing.is_destination_based() && routing.is_single_path()) {
                refuse!("no single order of dimensions serves all pairs without {link}");
            }
            machine.routing = routing;
            self.install_routes(machine)?;
        }
        let mut links = links.into_iter();
        links.try_for_each(|link| self.set_up(&machine.fabric, link, false))
    }

    /// Changes the rates of all links between routers, and of all links of nodes, to shares of their capacities.
    ///
    /// # Errors
    /// `tc` refuses.
    pub fn detune(&self, fabric: &Fabric, links: f64, injection: f64) -> Result<()> {
        for link in fabric.link_ids().take(fabric.network_links()) {
            let ends = [fabric.link(link).from, fabric.link(link).to];
            let between = ends.iter().all(|end| matches!(end, End::Router(_)));
            self.set_rate(fabric, link, if between { links } else { injection })?;
        }
        Ok(())
    }

    /// Takes a link's interface down or up (one direction).
    pub fn set_up(&self, fabric: &Fabric, link: LinkId, up: bool) -> Result<()> {
        let Some((place, interface)) = self.naming(fabric).sending_end(fabric, link) else {
            return Ok(());
        };
        let state = if up { "up" } else { "down" };
        system::batch(
            "ip",
            Some(&place),
            &format!("link set dev {interface} {state}\n"),
        )
    }

    /// Replaces the routes by those of a machine.
    pub fn install_routes(&self, machine: &Machine) -> Result<()> {
        let mut by_place = std::collections::BTreeMap::<String, String>::new();
        let naming = self.naming(&machine.fabric);
        for (place, route) in plan::routes(&machine.fabric, &machine.routing, &naming) {
            by_place
                .entry(place)
                .or_default()
                .push_str(&format!("route replace {route}\n"));
        }
        by_place
            .iter()
            .try_for_each(|(place, lines)| system::batch("ip", Some(place), lines))
    }
}

const INTERRUPTED: &str = "its building, or its removal, was interrupted";

/// Names of labs, with a remark about half-built ones.
pub fn labs() -> Vec<(String, Option<String>)> {
    let Ok(entries) = std::fs::read_dir(system::folder("")) else {
        return Vec::new();
    };
    let mut labs: Vec<(String, Option<String>)> = entries
        .flatten()
        .map(|e| {
            let name = e.file_name().to_string_lossy().into_owned();
            let whole = e.path().join("lab.json").exists();
            let remark = (!whole)
                .then(|| format!("lab '{name}' is half-built; hopbyte lab down {name} removes it"));
            (name, remark)
        })
        .collect();
    labs.sort();
    labs
}

/// Reference capacity of `--rate`: the fastest link between routers, and without one the fastest of a node.
fn reference_capacity(fabric: &Fabric) -> f64 {
    let fastest = |hops: bool| {
        let links = fabric.link_ids().take(fabric.network_links());
        let wanted = links.filter(|&l| fabric.is_hop(l) || !hops);
        wanted.map(|l| fabric.link(l).nominal.0).fold(0.0, f64::max)
    };
    let between = fastest(true);
    if between > 0.0 {
        between
    } else {
        fastest(false).max(1.0)
    }
}

/// The link and, unless one-way, its reverse.
fn cable(fabric: &Fabric, name: &str, one_way: bool) -> Result<Vec<LinkId>> {
    let link = fabric.find_link(name)?;
    let back = fabric.reverse(link).filter(|_| !one_way);
    Ok([Some(link), back].into_iter().flatten().collect())
}

/// The links that the name of a link, node, host or router stands for; of nodes and hosts those outside.
///
/// # Errors
/// There is nothing of this name.
pub fn links_of(fabric: &Fabric, name: &str, one_way: bool) -> Result<Vec<LinkId>> {
    let refusal = match cable(fabric, name, one_way) {
        Ok(links) => return Ok(links),
        Err(error) => error,
    };
    // A router's name also finds its only node.
    let ends = match (fabric.router_named(name), fabric.node_named(name)) {
        (Some(router), _) => vec![End::Router(router)],
        (_, Some(node)) => vec![End::Node(fabric.inside().map_or(node, |i| i.port_of(node)))],
        _ => fabric.find_host(name).into_iter().map(End::Node).collect(),
    };
    if ends.is_empty() {
        return Err(refusal);
    }
    let at = |&l: &LinkId| {
        let link = fabric.link(l);
        ends.contains(&link.from) || (!one_way && ends.contains(&link.to))
    };
    let outside = fabric.link_ids().take(fabric.network_links());
    Ok(outside.filter(at).collect())
}

/// Checks an option's share.
///
/// # Errors
/// It is not above 0 and at most 1.
pub fn share(what: &str, factor: f64) -> Result<f64> {
    if factor > 0.0 && factor <= 1.0 {
        return Ok(factor);
    }
    refuse!("{what}: found {factor}, expected a share above 0 and at most 1");
}

fn check_name(name: &str) -> Result<()> {
    let valid = (1..=12).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if !valid {
        refuse!(
            "lab name: found '{}', expected 1 to 12 lower-case letters and digits",
            name.escape_debug()
        );
    }
    Ok(())
}

/// Settings of every namespace: forwarding, no automatic packets, and connections without slow start after
/// idle times.
const SETTINGS: [&str; 8] = [
    "sysctl",
    "-qw",
    "net.ipv4.ip_forward=1",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    "net.ipv6.conf.all.disable_ipv6=1",
    "net.ipv6.conf.default.disable_ipv6=1",
    "net.ipv4.tcp_slow_start_after_idle=0",
];

fn build(plan: &Plan) -> Result<()> {
    let namespaces: String = plan
        .places
        .iter()
        .map(|p| format!("netns add {p}\n"))
        .collect();
    system::batch("ip", None, &namespaces)?;
    for place in &plan.places {
        system::inside(place, &SETTINGS)?;
    }
    system::batch("ip", None, &plan.cables)?;
    for place in &plan.places {
        let ip = plan.ip.get(place).map_or("", String::as_str);
        system::batch("ip", Some(place), &format!("link set lo up\n{ip}"))?;
        if let Some(tc) = plan.tc.get(place) {
            system::batch("tc", Some(place), tc)?;
        }
    }
    Ok(())
}
