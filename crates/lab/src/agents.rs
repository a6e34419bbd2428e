//! Agents on every router and node of a lab. Each reads the interfaces of its namespace. Reports use a separate
//! network, like a cluster's management network, so that monitoring adds no load to the links.

use super::counters::{self, Space};
use super::{Lab, plan::Naming};
use crate::error::{Context, LabError, Result, refuse};
use hopbyte_collect::agent::{Agent, Setup as AgentSetup, Target};
use hopbyte_collect::gather::Rules;
use hopbyte_collect::server::{Server, Setup};
use hopbyte_collect::stream::Stream;
use hopbyte_collect::wire::Token;
use hopbyte_fabric::{Fabric, Increase};
use hopbyte_observe::threads::{start, start_in};
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Tick of the agents and the collector of [`watch`]: queues are sampled only at its start.
const PERIOD: Duration = Duration::from_millis(100);
/// Timeout of a tick's reports after its start.
const DEADLINE: Duration = Duration::from_millis(60);
/// Extra time of [`watch`] for the agents beyond its window.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limit of an agent's backlog while the collector does not answer.
const KEEP: usize = 60;

/// Running agents, one thread each; they end on drop.
pub struct Agents {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Agents {
    /// Starts an agent for every router and node, which reports under its fabric name.
    pub fn start(
        lab: &Lab,
        fabric: &Fabric,
        to: &Target,
        token: Option<&Path>,
        period: Duration,
    ) -> Result<Self> {
        let mut agents = Self {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let token = token.map(Token::read).transpose()?;
        let mut ports = lab.ports(fabric);
        for (name, place) in places(&lab.naming(fabric), fabric) {
            let setup = AgentSetup {
                node: name.clone(),
                to: to.clone(),
                token: token.clone(),
                trust: None,
                period_ns: period.as_nanos() as u64,
                keep: KEEP,
            };
            let names = ports.remove(&place).unwrap_or_default();
            let sources = counters::sources(&place, &name, names)?;
            let stop = agents.stop.clone();
            let work = move || {
                let mut agent = Agent::new(setup, sources);
                agent.run(|_| {}, |_, _| !stop.load(Ordering::Relaxed))
            };
            agents.threads.push(start(work)?);
        }
        Ok(agents)
    }

    /// Number of agents.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Whether an agent failed.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The fabric's name of every router and node, of places of a host the host's, and its namespace.
pub(super) fn places(naming: &Naming, fabric: &Fabric) -> Vec<(String, String)> {
    let routers = fabric.router_ids().take(fabric.network_routers());
    let routers = routers.map(|r| (fabric.router(r).name.clone(), naming.router(r)));
    let homes = naming.seats.homes().iter().map(|home| {
        let node = fabric.node(home.ports[0]);
        let several = home.ports.len() > 1 || home.places.len() > 1;
        let name = if several { &node.host } else { &node.name };
        (name.clone(), naming.node(home.ports[0]))
    });
    routers.chain(homes).collect()
}

/// The increase of all links over at least a window, as agents of all routers and nodes reported it to a collector.
pub fn watch(lab: &Lab, fabric: &Fabric, window: Duration) -> Result<Increase> {
    let places: HashMap<String, String> = places(&lab.naming(fabric), fabric).into_iter().collect();
    let setup = Setup {
        listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        udp: None,
        identity: None,
        bus: None,
        token: None,
        readers: None,
        most_connections: places.len() + 8,
        rules: Rules {
            period_ns: PERIOD.as_nanos() as u64,
            deadline_ns: DEADLINE.as_nanos() as u64,
            expected: places.keys().cloned().collect(),
            ..Rules::default()
        },
    };
    let mut server = Server::new(setup, None).context("collector")?;
    let address = server.within().context("collector")?.to_string();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let collector = start_in(scope, || server.run(|_| !stop.load(Ordering::Relaxed)))?;
        let spaces = gather(lab, fabric, &address, &places, window);
        stop.store(true, Ordering::Relaxed);
        let ended = collector.join();
        ended.map_err(|_| LabError::Refused("the collector broke down".into()))??;
        counters::increase(lab, fabric, spaces?.values())
    })
}

/// Follows the collector until it has a complete window of every router and node.
fn gather(
    lab: &Lab,
    fabric: &Fabric,
    address: &str,
    places: &HashMap<String, String>,
    window: Duration,
) -> Result<HashMap<String, Space>> {
    let to = Target::Tcp(address.to_owned());
    let agents = Agents::start(lab, fabric, &to, None, PERIOD)?;
    let mut stream = Stream::connect(address, None, None)?;
    let mut spaces: HashMap<String, Space> = HashMap::new();
    let end = Instant::now() + window + PATIENCE;
    loop {
        stream.next(|cluster, id, _| {
            let Some(node) = cluster.node(id) else { return };
            let place = places.get(&*node.name);
            let Some(place) = place else { return };
            let space = spaces.entry(place.clone()).or_default();
            for reading in node.readings(&cluster.shapes) {
                space.take(&reading);
            }
        })?;
        let all = spaces.len() == places.len();
        if all && spaces.values().all(|s| s.seconds() >= window.as_secs_f64()) {
            return Ok(spaces);
        }
        if Instant::now() > end || agents.has_failed() {
            let (found, expected) = (spaces.len(), places.len());
            refuse!(
                "lab '{}': found reports of {found} agents, expected those of {expected}",
                lab.name
            );
        }
    }
}
