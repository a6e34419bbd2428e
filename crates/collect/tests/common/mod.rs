//! A collector on loopback sockets, in a thread of its own.

#![allow(dead_code, reason = "every test uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_collect::block::{Closing, Cluster, split};
use hopbyte_collect::flows::Flows;
use hopbyte_collect::gather::{Gathering, Rules};
use hopbyte_collect::server::{Health, Inlet, Server, Setup, Told};
use hopbyte_collect::store::Store;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Free loopback ports, no secret, and ticks that close half a period after their end.
pub fn setup(period_ns: u64) -> Setup {
    Setup {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        udp: Some("127.0.0.1:0".parse().unwrap()),
        bus: None,
        identity: None,
        token: None,
        readers: None,
        most_connections: 100_000,
        rules: Rules {
            period_ns,
            deadline_ns: period_ns / 2,
            ..Rules::default()
        },
    }
}

/// A collector that runs until it is dropped.
pub struct Collector {
    pub tcp: SocketAddr,
    pub udp: SocketAddr,
    pub health: Arc<Health>,
    pub inlet: Inlet,
    pub closings: Arc<Mutex<Vec<Closing>>>,
    pub notes: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    pub fn start(setup: Setup, store: Option<Store>) -> Self {
        Self::watched(setup, store, |_| {})
    }

    /// A collector whose blocks are handed to `watch`.
    pub fn watched(
        setup: Setup,
        store: Option<Store>,
        mut watch: impl FnMut(&[u8]) + Send + 'static,
    ) -> Self {
        let mut server = Server::new(setup, store).unwrap();
        let addresses = server.addresses().unwrap();
        let (health, inlet) = (server.health(), server.inlet());
        let stop = Arc::new(AtomicBool::new(false));
        let (closings, notes) = <(Arc<Mutex<Vec<Closing>>>, Arc<Mutex<Vec<String>>>)>::default();
        let shared = (stop.clone(), closings.clone(), notes.clone());
        let thread = std::thread::spawn(move || {
            let (stop, closings, notes) = shared;
            let told = |told: Told<'_>| {
                match told {
                    Told::Closed(closing, _, block) => {
                        watch(block);
                        closings.lock().unwrap().push(closing.clone());
                    }
                    Told::Note(text) | Told::Warning(text) => notes.lock().unwrap().push(text),
                }
                !stop.load(Ordering::Relaxed)
            };
            server.run(told).unwrap();
        });
        Self {
            tcp: addresses[0],
            udp: addresses[1],
            health,
            inlet,
            closings,
            notes,
            stop,
            thread: Some(thread),
        }
    }

    /// Waits until something holds for the closings and notes.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&[Closing], &[String]) -> bool) {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(120) {
            if holds(&self.closings.lock().unwrap(), &self.notes.lock().unwrap()) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        let notes = self.notes.lock().unwrap();
        let last = self.closings.lock().unwrap().last().cloned();
        panic!("{what} did not come; notes {notes:?}, last closing {last:?}");
    }

    /// Waits for a note with this text.
    pub fn noted(&self, text: &str) {
        self.until(text, |_, notes| notes.iter().any(|n| n.contains(text)));
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Resident memory of this process.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Closes the open tick and hands its block to a viewer.
pub fn close(gathering: &mut Gathering, viewer: &mut (Cluster, Flows)) {
    let now = gathering.closes_ns();
    let (_, block) = gathering.close(now);
    let (entries, _) = split(block).unwrap().unwrap();
    let (cluster, flows) = viewer;
    let closing = cluster.read(entries, |cluster, id, _| flows.report(cluster, id));
    flows.close(cluster, &closing.unwrap());
    gathering.next(now, true);
}
