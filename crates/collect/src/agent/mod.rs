//! The agent: reads this node's counters at the start of every tick and pushes them.
//!
//! The agent is one thread that sleeps between ticks. Reports stay in a ring until the collector
//! acknowledges them. After a reconnection, unacknowledged reports are sent again. A failed source is
//! marked as missing and read again at the next tick.

mod bus;
mod link;
mod pieces;
pub(crate) mod ring;
pub(crate) mod sending;
pub(crate) mod session;
pub(crate) mod udp;
mod work;

pub use bus::Subject;
pub use link::Target;
pub(crate) use sending::connect;
pub use work::{HANDED_ON, Options, work};

use self::link::Link;
use self::ring::{Reader, Ring};
use crate::tls::Trust;
use crate::wire::{Cost, Header, Hello, Token};
use hopbyte_observe::sources::{self, Source};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Parameters of an agent.
#[derive(Debug)]
pub struct Setup {
    /// Name of the node.
    pub node: String,
    /// Destination of reports.
    pub to: Target,
    /// The collector's secret.
    pub token: Option<Token>,
    /// Trusted certificates; without them connections are not encrypted.
    pub trust: Option<Trust>,
    /// Tick length.
    pub period_ns: u64,
    /// Capacity of the ring in reports, for times without a collector.
    pub keep: usize,
}

/// An agent.
pub struct Agent {
    period_ns: u64,
    reader: Reader,
    ring: Ring,
    link: Link,
    sequence: u64,
    last_tick: Option<u64>,
    cost: Cost,
    statm: Option<File>,
}

/// Nanoseconds of a clock.
fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.max(0) as u64 * 1_000_000_000 + time.tv_nsec.max(0) as u64
}

/// Time for a first delivery after the last tick, and between two looks at it.
const LAST_CHANCE: Duration = Duration::from_secs(1);
const GLANCE_NS: u64 = 20_000_000;

/// Ticks between measurements of the agent's own resource use.
const LOOK_EVERY: u64 = 16;

impl Agent {
    /// Start of the agent, by which collectors distinguish agents with the same node name.
    pub fn start(&self) -> u64 {
        self.link.start()
    }

    /// Destination of the reports, for messages.
    pub fn address(&self) -> &str {
        self.link.address()
    }

    /// An agent that reads these sources.
    pub fn new(setup: Setup, sources: Vec<Source>) -> Self {
        let reader = Reader::new(sources);
        let hello = Hello {
            node: setup.node,
            boot: sources::boot(Path::new("/")).unwrap_or_default(),
            start: clock_ns(ClockId::Realtime),
            period_ns: setup.period_ns,
        };
        Self {
            period_ns: setup.period_ns,
            reader,
            ring: Ring::new(setup.keep),
            link: Link::new(setup.to, hello, setup.token, setup.trust),
            sequence: 0,
            last_tick: None,
            cost: Cost::default(),
            statm: File::open("/proc/self/statm").ok(),
        }
    }

    /// Reads and pushes until `go_on` returns false. After every tick it receives the newest report's header
    /// and the highest acknowledged sequence number. `say` receives messages for the user.
    pub fn run(
        &mut self,
        mut say: impl FnMut(&str),
        mut go_on: impl FnMut(&Header, u64) -> bool,
    ) -> io::Result<()> {
        loop {
            self.wait(&mut say)?;
            self.tick(&mut say);
            let header = self.ring.last_header();
            self.link.push(&mut self.ring, &mut say);
            let acknowledged = self.ring.acknowledged();
            if header.is_some_and(|h| !go_on(&h, acknowledged)) {
                return Ok(());
            }
        }
    }

    /// The reason of a failed delivery, as far as it shows: a collector that requires TLS waits for it in silence.
    pub fn why(&self) -> &'static str {
        match self.link.is_unanswered() {
            true => ": the collector said nothing; does it require TLS (--tls-ca FILE)?",
            false => "",
        }
    }

    /// Whether a report was sent to a collector that accepted this agent; a connection that was just begun has a second for
    /// it. Over UDP the collector does not confirm it.
    pub fn has_delivered(&mut self, mut say: impl FnMut(&str)) -> io::Result<bool> {
        let until = Instant::now() + LAST_CHANCE;
        while !self.link.has_delivered() && Instant::now() < until {
            if self.link.is_busy() {
                self.link.attend(GLANCE_NS, &mut self.ring, &mut say)?;
            } else {
                std::thread::sleep(Duration::from_nanos(GLANCE_NS));
            }
            self.link.push(&mut self.ring, &mut say);
        }
        Ok(self.link.has_delivered())
    }

    /// Sleeps until the next tick; handles the connection's events and looks at queues meanwhile.
    fn wait(&mut self, say: &mut impl FnMut(&str)) -> io::Result<()> {
        let mut has_queues = true;
        loop {
            let now = clock_ns(ClockId::Realtime);
            // At most one tick: a clock that is set back must not extend the sleep.
            let left = self.period_ns - now % self.period_ns;
            let glance = sources::next_glance().as_nanos() as u64;
            let glances = has_queues && left > 2 * glance;
            let sleep = if glances { glance } else { left };
            if self.link.is_busy() {
                if !self.link.attend(sleep, &mut self.ring, say)? {
                    continue;
                }
            } else {
                std::thread::sleep(Duration::from_nanos(sleep));
            }
            if !glances {
                return Ok(());
            }
            has_queues = self.reader.glance();
        }
    }

    fn tick(&mut self, say: &mut impl FnMut(&str)) {
        let time_ns = clock_ns(ClockId::Realtime);
        let steady_ns = clock_ns(ClockId::Boottime);
        let tick = (time_ns + self.period_ns / 2) / self.period_ns;
        if let Some(last) = self.last_tick {
            if tick == last {
                // Woken slightly early, in a tick that is already read.
                return;
            }
            let missed = tick.checked_sub(last + 1).filter(|&n| n < 1 << 16);
            self.cost.missed_ticks += missed.unwrap_or(0);
        }
        self.last_tick = Some(tick);
        let sample = self.ring.begin();
        self.cost.failed_reads += self.reader.read(sample, say);
        if self.sequence.is_multiple_of(LOOK_EVERY) {
            self.cost.cpu_us = clock_ns(ClockId::ProcessCPUTime) / 1000;
            self.cost.resident_bytes = self.resident().unwrap_or(0);
        }
        self.sequence += 1;
        self.cost.dropped_reports = self.ring.dropped();
        let took_ns = clock_ns(ClockId::Boottime).saturating_sub(steady_ns);
        self.ring.end(Header {
            sequence: self.sequence,
            tick,
            time_ns,
            steady_ns,
            took_ns,
            cost: self.cost,
        });
    }

    fn resident(&self) -> Option<u64> {
        let mut room = [0; 128];
        let n = self.statm.as_ref()?.read_at(&mut room, 0).ok()?;
        let text = std::str::from_utf8(&room[..n]).ok()?;
        let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }
}
