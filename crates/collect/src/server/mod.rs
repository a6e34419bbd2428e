//! The collector: one thread with epoll for the connections of agents and viewers.

mod admission;
mod batch;
mod bus;
mod connection;
mod health;
mod inlet;
mod outage;
pub(crate) mod packets;
pub mod peer;
mod sockets;

use self::batch::Batch;
use self::bus::Bus;
use self::connection::Connection;
use self::inlet::Fed;
use self::outage::{Kept, Outage};
use self::peer::Role;
use self::sockets::{bind_udp, connections, listen};
use crate::Refusal;
use crate::block::Closing;
use crate::datagram::Challenges;
use crate::gather::{Channel, Gathering, Rules};
use crate::store::{Status, Store};
use crate::timespec;
use crate::tls::Identity;
use crate::wire::{Kind, LONGEST_FRAME, Readers, Token, frame};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use self::bus::Setup as BusSetup;
pub use self::health::Health;
pub use self::inlet::{Feed, Inlet};
pub use self::sockets::descriptors;

/// Parameters of a collector.
#[derive(Debug)]
pub struct Setup {
    /// Addresses for agents and viewers.
    pub listen: Vec<SocketAddr>,
    /// Address for datagrams.
    pub udp: Option<SocketAddr>,
    /// The certificate for TLS on these addresses; without one connections are not encrypted.
    pub identity: Option<Identity>,
    /// A message bus with reports of further agents.
    pub bus: Option<bus::Setup>,
    /// The secret shared with agents; required if an address is not a loopback one.
    pub token: Option<Token>,
    /// Secrets of viewers, which may read but not report.
    pub readers: Option<Readers>,
    /// Maximum number of connections.
    pub most_connections: usize,
    /// Rules for closing ticks.
    pub rules: Rules,
}

/// Events for the caller of a collector.
pub enum Told<'a> {
    /// A tick was closed and, with a store, stored.
    Closed(&'a Closing, &'a Gathering, &'a [u8]),
    /// A message for the user.
    Note(String),
    /// A message about lost or endangered data, which is never silenced.
    Warning(String),
}

/// Maximum number of messages per tick.
const MOST_NOTES: usize = 10;
/// Maximum backlog of a viewer in bytes.
const MOST_UNSEEN: usize = 256 << 20;
/// Maximum sum of the incomplete frames of all connections in bytes.
const MOST_PARTIAL: usize = 256 << 20;
/// Pause after an event: all nodes report at the start of a tick, and a wake-up costs more than reading a
/// report.
const NAP: Duration = Duration::from_millis(2);
/// Reads between two looks at the clock: a tick closes at its deadline also if more is to be read than there is time.
const LOOK_EVERY: usize = 64;
/// Agents whose values are fetched at the same time: few enough for the processor's second cache with 200 counters each.
const FETCH_EVERY: usize = 32;
/// First byte of a TLS connection.
const TLS_HELLO: u8 = 0x16;
const LISTENERS: u64 = u64::MAX - 64;
const UDP: u64 = u64::MAX;
const BUS: u64 = u64::MAX - 1;
const INLET: u64 = u64::MAX - 2;

/// A collector.
pub struct Server {
    epoll: OwnedFd,
    listeners: Vec<TcpListener>,
    identity: Option<Identity>,
    udp: Option<UdpSocket>,
    bus: Option<Bus>,
    fed: Fed,
    token: Option<Token>,
    readers: Option<Readers>,
    challenges: Challenges,
    health: Arc<Health>,
    most_connections: usize,
    connections: Vec<Option<Connection>>,
    free: Vec<u32>,
    open: usize,
    /// Sum of the bytes of incomplete frames.
    partial: usize,
    serial: u32,
    strangers: VecDeque<(u32, u32)>,
    /// Connections whose reads were put off, and whether the last tick closed with reads pending.
    deferred: VecDeque<(u32, u32)>,
    pressed: bool,
    gathering: Gathering,
    store: Option<Store>,
    outage: Option<Outage>,
    room: Vec<u8>,
    notes: Vec<String>,
    warnings: Vec<String>,
    unsaid: usize,
    viewers: Vec<u32>,
}

/// Nanoseconds since 1970.
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_nanos() as u64
}

impl Server {
    /// Opens the sockets. With a store, only stored reports are acknowledged.
    pub fn new(setup: Setup, store: Option<Store>) -> io::Result<Self> {
        let addresses = setup.listen.iter().chain(&setup.udp);
        if let Some(open) = addresses.clone().find(|a| !a.ip().is_loopback())
            && setup.token.is_none()
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "listening on {open}, which others can reach, needs a token\n\
                     hint: --token FILE with at least 16 random bytes"
                ),
            ));
        }
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut listeners = Vec::new();
        // Local viewers (metrics, lines) connect without TLS.
        let within = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let within = setup.identity.is_some().then_some(&within);
        for (address, i) in setup.listen.iter().chain(within).zip(0..) {
            let listener = listen(*address)?;
            listener.set_nonblocking(true)?;
            epoll::add(
                &epoll,
                &listener,
                EventData::new_u64(LISTENERS + i),
                EventFlags::IN,
            )?;
            listeners.push(listener);
        }
        let udp = setup.udp.map(bind_udp).transpose()?;
        if let Some(udp) = &udp {
            epoll::add(&epoll, udp, EventData::new_u64(UDP), EventFlags::IN)?;
        }
        let bus = setup
            .bus
            .map(|bus| Bus::new(bus, store.as_ref(), setup.token.is_some()))
            .transpose()?;
        let mut gathering = Gathering::new(setup.rules, now_ns());
        if let Some(store) = &store {
            store.remembered().for_each(|node| gathering.remember(node));
        }
        let fed = Fed::new(&epoll)?;
        let untimely = setup
            .identity
            .iter()
            .filter_map(Identity::untimely)
            .collect();
        Ok(Self {
            epoll,
            fed,
            listeners,
            identity: setup.identity,
            udp,
            bus,
            token: setup.token,
            readers: setup.readers,
            challenges: Challenges::new()?,
            health: Arc::default(),
            most_connections: setup.most_connections.min(connections()),
            connections: Vec::new(),
            free: Vec::new(),
            open: 0,
            partial: 0,
            serial: 0,
            strangers: VecDeque::new(),
            deferred: VecDeque::new(),
            pressed: false,
            gathering,
            store,
            outage: None,
            room: vec![0; LONGEST_FRAME],
            notes: Vec::new(),
            warnings: untimely,
            unsaid: 0,
            viewers: Vec::new(),
        })
    }

    /// Addresses of the sockets, with the ports that the kernel assigned.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let tcp = self.listeners.iter().map(TcpListener::local_addr);
        tcp.chain(self.udp.iter().map(UdpSocket::local_addr))
            .collect()
    }

    /// Address for connections from this machine without TLS.
    pub fn within(&self) -> io::Result<SocketAddr> {
        let of = match self.identity {
            Some(_) => self.listeners.last(),
            None => self.listeners.first(),
        };
        let mut address = of.ok_or(io::ErrorKind::NotFound)?.local_addr()?;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        Ok(address)
    }

    /// Counts of the store, for exports.
    pub fn store_status(&self) -> Option<Status> {
        self.store.as_ref().map(|store| store.status().clone())
    }

    /// Runs until `told` returns false.
    pub fn run(&mut self, mut told: impl FnMut(Told<'_>) -> bool) -> io::Result<()> {
        crate::restart::if_aborting();
        let mut events: Vec<Event> = Vec::with_capacity(4096);
        let mut batch = Batch::default();
        loop {
            let now = now_ns();
            if self.gathering.due(now) && !self.close_tick(now, 0, &mut told)? {
                return Ok(());
            }
            self.attend_bus(now);
            let busy = self.bus.as_ref().is_some_and(Bus::has_more) || self.has_deferred();
            let wait = self.gathering.closes_ns().saturating_sub(now_ns());
            let wait = if busy { 0 } else { wait };
            let wait = timespec(wait.min(1_000_000_000));
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&wait),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mut now = now_ns();
            let mut more = false;
            for (done, event) in events.iter().enumerate() {
                if done % LOOK_EVERY == LOOK_EVERY - 1 {
                    now = now_ns();
                    let left = events.len() - done;
                    if self.gathering.due(now) && !self.close_tick(now, left, &mut told)? {
                        return Ok(());
                    }
                }
                if done % FETCH_EVERY == 0 {
                    self.fetch(&events[done..events.len().min(done + FETCH_EVERY)]);
                }
                let (data, flags) = (event.data.u64(), event.flags);
                match data {
                    UDP => more = self.datagrams(&mut batch, now),
                    BUS => self.bus_news(now),
                    INLET => self.inlet_news(now),
                    LISTENERS.. => self.accept((data - LISTENERS) as usize, now),
                    _ => self.serve(data as u32, (data >> 32) as u32, flags, now),
                }
            }
            self.serve_deferred(now);
            let until_closed = self.gathering.closes_ns().saturating_sub(now);
            let has_time = until_closed > 4 * NAP.as_nanos() as u64;
            if has_time && !busy && !more && !events.is_empty() {
                std::thread::sleep(NAP);
            }
        }
    }

    /// Fetches the values of the agents of these events.
    fn fetch(&self, events: &[Event]) {
        let ids = events.iter().filter_map(|event| {
            let slot = event.data.u64() as u32 as usize;
            match self.connections.get(slot)?.as_ref()?.peer.role {
                Role::Agent(id) => Some(id),
                _ => None,
            }
        });
        self.gathering.members().fetch(ids);
    }

    /// Whether reads that were put off may continue.
    fn has_deferred(&self) -> bool {
        !self.deferred.is_empty() && !self.gathering.is_full()
    }

    /// Reads some of the connections that were put off, after those on time.
    fn serve_deferred(&mut self, now: u64) {
        for _ in 0..LOOK_EVERY {
            if !self.has_deferred() {
                return;
            }
            if let Some((slot, serial)) = self.deferred.pop_front() {
                let waited = self.connections[slot as usize]
                    .as_mut()
                    .filter(|c| c.serial == serial);
                if let Some(connection) = waited {
                    connection.deferred = false;
                    self.read(slot, true, now);
                }
            }
        }
    }

    /// Whether a connection's read waits: the tick is full, or there is more to read than time, and this agent is
    /// not among those on time.
    fn defers(&self, connection: &Connection) -> bool {
        let behind = match connection.peer.role {
            Role::Agent(id) => self.pressed && self.gathering.is_behind(id),
            _ => return false,
        };
        behind || self.gathering.is_full()
    }

    /// Events since the start.
    pub fn health(&self) -> Arc<Health> {
        self.health.clone()
    }

    fn note(&mut self, text: String) {
        if self.notes.len() < MOST_NOTES {
            self.notes.push(text);
        } else {
            self.unsaid += 1;
        }
    }

    /// Closes the tick; `pending` connections have data that was not read.
    fn close_tick(
        &mut self,
        now: u64,
        pending: usize,
        told: &mut impl FnMut(Told<'_>) -> bool,
    ) -> io::Result<bool> {
        let (closing, block) = self.gathering.close(now);
        let kept = outage::keep(self.store.as_mut(), &mut self.outage, &closing, block);
        let viewers: Vec<u32> = self.viewers.clone();
        let mut shown = Vec::new();
        if !viewers.is_empty() {
            frame(&mut shown, Kind::Block, |out| out.extend_from_slice(block));
        }
        let shown: Arc<[u8]> = shown.into();
        let lagging: Vec<u32> = viewers
            .into_iter()
            .filter(|&slot| {
                let viewer = self.connections[slot as usize].as_mut();
                viewer.is_some_and(|v| v.peer.role == Role::Viewer && !v.show(&shown, MOST_UNSEEN))
            })
            .collect();
        self.pressed = pending > 0;
        let waiting = self.deferred.len() as u64;
        self.health
            .deferred_connections
            .store(waiting, Ordering::Relaxed);
        self.health.closed_ns.store(now, Ordering::Relaxed);
        self.health.follow(&self.gathering.events);
        let go_on = told(Told::Closed(
            &closing,
            &self.gathering,
            self.gathering.block(),
        ));
        for slot in lagging {
            self.refuse(slot, &Refusal::new("a viewer whose backlog is full"));
        }
        match kept {
            Kept::Stored { restart } => {
                if restart {
                    self.gathering.begin_segment();
                }
                self.gathering.next(now, true);
                if let (Some(bus), Some(store)) = (&mut self.bus, &self.store) {
                    let kept = bus.keep_places(store);
                    let error = kept.err().map(|e| format!("store: {e}"));
                    self.warnings.extend(error);
                }
                let connections = &mut self.connections;
                self.gathering.acknowledge(false, |channel, sequence| {
                    if let Channel::Stream(slot) = channel
                        && let Some(agent) = &mut connections[slot as usize]
                    {
                        agent.send_frame(Kind::Acknowledged, &sequence.to_le_bytes());
                    }
                });
            }
            // Ticks go on for viewers; agents keep unacknowledged reports.
            Kept::Failing(warning) => {
                self.warnings.extend(warning);
                self.gathering.next(now, false);
            }
            Kept::Recovered(warning) => {
                self.warnings.push(warning);
                self.recover(now);
            }
        }
        self.warnings
            .extend(self.store.iter_mut().flat_map(Store::notes));
        self.warnings.extend(self.gathering.gone_sources());
        let token = self.token.as_ref().and_then(Token::news);
        let certificate = self.identity.as_ref().and_then(Identity::news);
        let readers = self.readers.as_ref().and_then(|readers| readers.news());
        let news = token.into_iter().chain(certificate).chain(readers);
        self.warnings.extend(news);
        self.bus_tick(now);
        self.inlet_tick(now);
        self.drop_strangers(now);
        for connection in self.connections.iter_mut().flatten() {
            connection.peer.refill();
            if connection.peer.role == Role::Newcomer {
                connection.peer.role = Role::Viewer;
            }
        }
        for warning in self.warnings.drain(..) {
            told(Told::Warning(warning));
        }
        for note in self.notes.drain(..) {
            told(Told::Note(note));
        }
        if self.unsaid > 0 {
            told(Told::Note(format!(
                "and {} more messages",
                std::mem::take(&mut self.unsaid)
            )));
        }
        Ok(go_on)
    }

    fn serve(&mut self, slot: u32, serial: u32, flags: EventFlags, now: u64) {
        let Some(connection) = self
            .connections
            .get_mut(slot as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        if connection.serial != serial {
            return;
        }
        // Every event of a socket with room says so.
        if flags.contains(EventFlags::OUT)
            && connection.has_pending()
            && let Err(error) = connection.flush()
        {
            return self.broke(slot, &error);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
        {
            return;
        }
        if let Some(connection) = &self.connections[slot as usize]
            && self.defers(connection)
        {
            return self.defer(slot, serial);
        }
        self.read(slot, flags.contains(EventFlags::RDHUP), now);
    }

    /// Puts off a connection's read.
    fn defer(&mut self, slot: u32, serial: u32) {
        Health::add(&self.health.deferred_reads, 1);
        if let Some(connection) = &mut self.connections[slot as usize]
            && !std::mem::replace(&mut connection.deferred, true)
        {
            self.deferred.push_back((slot, serial));
        }
    }

    /// Reads the available bytes of a connection; with `to_end`, until there are no more.
    fn read(&mut self, slot: u32, to_end: bool, now: u64) {
        let mut room = std::mem::take(&mut self.room);
        while let Some(connection) = &mut self.connections[slot as usize] {
            let is_plain = connection.stream.is_plain();
            match connection.stream.read(&mut room) {
                Ok(0) => {
                    self.drop_connection(slot);
                    break;
                }
                Ok(n) => {
                    if let Err(refusal) = self.received(slot, &room[..n], now) {
                        self.refuse(slot, &refusal);
                        break;
                    }
                    let drained = n < room.len() && is_plain;
                    if drained && !to_end {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Progress of a TLS handshake may allow pending writes.
                    if !is_plain && let Err(error) = connection.flush() {
                        self.broke(slot, &error);
                    }
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.broke(slot, &error);
                    break;
                }
            }
        }
        self.room = room;
    }

    /// Handles bytes of a connection.
    fn received(&mut self, slot: u32, bytes: &[u8], now: u64) -> Result<(), Refusal> {
        let Some(connection) = &mut self.connections[slot as usize] else {
            return Ok(());
        };
        let (before, partial) = (connection.peer.role, connection.peer.partial());
        let token = self.token.as_ref();
        let received = connection.received(slot, bytes, token, &mut self.gathering, now);
        let left = connection.peer.partial();
        let joined = connection.peer.role == Role::Newcomer && before != Role::Newcomer;
        self.partial = self.partial + left - partial;
        received?;
        if joined {
            self.viewers.push(slot);
        }
        self.shed_partial(slot, now)
    }

    /// Bounds the sum of incomplete frames: the connection whose bytes have waited most, by their number times their
    /// time, is closed. A report that arrives in several pieces is complete within milliseconds.
    fn shed_partial(&mut self, receiving: u32, now: u64) -> Result<(), Refusal> {
        while self.partial > MOST_PARTIAL {
            let open = self.connections.iter().zip(0u32..);
            let burdens = open.filter_map(|(c, slot)| Some((c.as_ref()?.peer.burden(now), slot)));
            let Some((_, heaviest)) = burdens.max() else {
                return Ok(());
            };
            Health::add(&self.health.incomplete_frames, 1);
            let refusal = Refusal::new(format!(
                "an incomplete frame, of which all connections hold {MOST_PARTIAL} bytes"
            ));
            if heaviest == receiving {
                return Err(refusal);
            }
            self.refuse(heaviest, &refusal);
        }
        Ok(())
    }

    /// Closes a connection with a refusal.
    fn refuse(&mut self, slot: u32, refusal: &Refusal) {
        if let Some(connection) = &mut self.connections[slot as usize] {
            connection.send_frame(Kind::No, refusal.to_string().as_bytes());
            let peer = connection.address;
            Health::add(&self.health.refused, 1);
            self.note(format!("{peer}: refused {refusal}"));
        }
        self.drop_connection(slot);
    }

    /// Closes a failed connection; prints the error of a TLS handshake.
    fn broke(&mut self, slot: u32, error: &io::Error) {
        if let Some(connection) = &self.connections[slot as usize]
            && !connection.stream.is_plain()
            && error.kind() == io::ErrorKind::InvalidData
        {
            let peer = connection.address;
            self.note(format!("{peer}: refused, TLS expected: {error}"));
        }
        self.drop_connection(slot);
    }

    fn drop_connection(&mut self, slot: u32) {
        let Some(connection) = self.connections[slot as usize].take() else {
            return;
        };
        self.partial -= connection.peer.partial();
        match connection.peer.role {
            Role::Agent(id) => self.gathering.gone(id, Channel::Stream(slot)),
            Role::Viewer | Role::Newcomer => self.viewers.retain(|&v| v != slot),
            Role::Stranger { .. } => {}
        }
        // Dropping the stream also removes it from epoll.
        self.free.push(slot);
        self.open -= 1;
    }
}
