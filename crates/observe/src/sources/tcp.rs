//! TCP connections of this machine, by peer, from the kernel's table of sockets (`ss -ti`): bytes and packets sent, packets
//! sent again, and those of them that the peer had already (it says so, RFC 2883).
//!
//! They tell of the paths between nodes what no counter of a link does: frames that are lost without being counted. Counts of
//! closed connections are kept as long as the peer is listed.

use super::netlink::{self, Netlink, attribute, string, u32_at, u64_at};
use super::places::{Clock, Places};
use super::source::{Sample, Source, Unreadable};
use crate::counters::peers::{self, Ends};
use crate::counters::reading::{Layout, Reading};
use hopbyte_fabric::LeftOut;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes sent to a peer or received from it from which it is listed: not every login is a job.
const WORTH: u64 = 1 << 18;
/// Maximum number of listed peers: enough to tell where lossy paths meet, and few to store.
const MOST: usize = 32;
/// Time between counts. Between them the values stay, which costs a store next to nothing.
const COUNTS: Duration = Duration::from_secs(5);
/// `AF_INET`, `AF_INET6`.
const FAMILIES: [u8; 2] = [2, 10];
const TCP: u8 = 6;
/// `INET_DIAG_INFO`, and its bit in a request.
const INFO: u16 = 2;
/// `TCP_ESTABLISHED`, `TCP_FIN_WAIT1`, `TCP_CLOSE_WAIT`, `TCP_LAST_ACK`, as bits.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 8 | 1 << 9;
/// Bytes of `struct inet_diag_msg`.
const SOCKET: usize = 72;
/// Offsets of the bytes sent and received in `struct tcp_info`, and of numbers of 32 bits, in the order of [`peers::COUNTERS`].
const BYTES: usize = 200;
const BYTES_RECEIVED: usize = 128;
const NUMBERS: [usize; 3] = [156, 100, 216];

/// Counts in the order of [`peers::COUNTERS`], and bytes received.
type Counts = [u64; 5];
const RECEIVED: usize = 4;

/// A connection at a count.
#[derive(Debug)]
struct Connection {
    cookie: u64,
    ends: (IpAddr, IpAddr),
    counts: Counts,
}

/// The table of sockets.
#[derive(Debug)]
pub(super) struct Tcp {
    sockets: Netlink,
    routes: Netlink,
    node: String,
    names: BTreeMap<String, String>,
    chosen: Vec<String>,
    clock: Clock,
    /// The interface of each own address.
    interfaces: HashMap<IpAddr, String>,
    /// Each open connection at the last count.
    open: HashMap<u64, Connection>,
    /// Sums by local and remote address.
    sums: BTreeMap<(IpAddr, IpAddr), Counts>,
    listed: Vec<(IpAddr, IpAddr)>,
    counted: Option<Instant>,
}

/// The kernel's table; nothing in a captured tree.
pub(super) fn open(places: &Places) -> Option<Source> {
    if !places.is_this_machine() {
        return None;
    }
    let mut tcp = Tcp {
        sockets: Netlink::of_sockets().ok()?,
        routes: Netlink::open().ok()?,
        node: places.node.clone(),
        names: places.names.clone(),
        chosen: places.interfaces.clone(),
        clock: places.clock(),
        interfaces: HashMap::new(),
        open: HashMap::new(),
        sums: BTreeMap::new(),
        listed: Vec::new(),
        counted: None,
    };
    // A kernel without the table of sockets.
    tcp.count().ok()?;
    let layout = tcp.list().ok()?;
    let mut reading = Reading::new(layout, tcp.clock.now());
    tcp.fill(&mut reading);
    Some(Source {
        reading,
        left_out: LeftOut::default(),
        way: Box::new(tcp),
        place: "sockets of TCP".to_owned(),
    })
}

impl Tcp {
    /// Adds what connections counted since the last count. A connection that is new counts from its beginning.
    fn count(&mut self) -> io::Result<()> {
        let mut found: Vec<Connection> = Vec::with_capacity(self.open.len());
        for family in FAMILIES {
            let asked = request(family);
            self.sockets.dump(netlink::SOCKETS, &asked, |kind, m| {
                let one = (kind == netlink::SOCKETS).then(|| connection(m));
                found.extend(one.flatten());
            })?;
        }
        let mut open = HashMap::with_capacity(found.len());
        for one in found {
            let before = self.open.get(&one.cookie).map(|o| o.counts);
            let old = before.unwrap_or_default();
            let sum = self.sums.entry(one.ends).or_default();
            for (i, sum) in sum.iter_mut().enumerate() {
                // Counts of 32 bits start again at 0.
                let grown = one.counts[i].checked_sub(old[i]);
                *sum += grown.unwrap_or(one.counts[i]);
            }
            open.insert(one.cookie, one);
        }
        self.open = open;
        self.counted = Some(Instant::now());
        Ok(())
    }

    /// Chooses the peers, and forgets those that have neither a connection nor a place in the list.
    fn list(&mut self) -> io::Result<Arc<Layout>> {
        self.interfaces = self.addresses()?;
        let interfaces = &self.interfaces;
        let mut worth: Vec<(&(IpAddr, IpAddr), &Counts)> = (self.sums.iter())
            .filter(|((local, remote), counts)| {
                moved(counts) >= WORTH
                    && !interfaces.contains_key(remote)
                    && interfaces.contains_key(local)
            })
            .collect();
        // Those with connections first, of them those that are listed already, then by bytes; listed in an order that does
        // not depend on it. A list that changes begins anew.
        let open: HashSet<(IpAddr, IpAddr)> = self.open.values().map(|o| o.ends).collect();
        let is_listed = |ends| self.listed.binary_search(ends).is_ok();
        worth.sort_by_key(|(ends, counts)| {
            std::cmp::Reverse((open.contains(ends), is_listed(ends), moved(counts)))
        });
        worth.truncate(MOST);
        let mut listed: Vec<(IpAddr, IpAddr)> = worth.iter().map(|&(&ends, _)| ends).collect();
        listed.sort_unstable();
        self.sums
            .retain(|ends, _| open.contains(ends) || listed.binary_search(ends).is_ok());
        self.listed = listed;
        let mut layout = Layout::new(&self.node, peers::SOURCE);
        for &(local, remote) in &self.listed {
            let interface = &self.interfaces[&local];
            let ends = Ends {
                interface: self.names.get(interface).unwrap_or(interface).clone(),
                local,
                remote,
            };
            peers::add(&mut layout, &ends);
        }
        Ok(Arc::new(layout))
    }

    /// Own addresses of the interfaces that are read, except those of the loopback.
    fn addresses(&mut self) -> io::Result<HashMap<IpAddr, String>> {
        let mut names: HashMap<u32, String> = HashMap::new();
        self.routes.dump(netlink::GET_LINK, &[0; 16], |_, m| {
            let name = m.get(16..).and_then(|a| attribute(a, 3));
            names.extend(u32_at(m, 4).zip(name.map(string)));
        })?;
        let mut found = HashMap::new();
        self.routes.dump(netlink::GET_ADDRESS, &[0; 8], |kind, m| {
            // IFA_LOCAL, else IFA_ADDRESS.
            let bytes = m.get(8..).and_then(|a| attribute(a, 2).or(attribute(a, 1)));
            let address = bytes.filter(|_| kind == netlink::NEW_ADDRESS).and_then(ip);
            let name = u32_at(m, 4).and_then(|index| names.get(&index));
            if let (Some(address), Some(name)) = (address, name) {
                found.insert(address, name.clone());
            }
        })?;
        let chosen = &self.chosen;
        found.retain(|address, name| {
            !address.is_loopback() && (chosen.is_empty() || chosen.contains(name))
        });
        Ok(found)
    }

    fn fill(&self, reading: &mut Reading) {
        for (at, ends) in self.listed.iter().enumerate() {
            let counts = self.sums.get(ends).copied().unwrap_or_default();
            let all = peers::COUNTERS.len();
            for (i, &count) in counts.iter().enumerate().take(all) {
                reading.set(at * all + i, Some(count));
            }
        }
    }
}

impl Sample for Tcp {
    fn sample(&mut self, reading: &mut Reading) -> Result<(), Unreadable> {
        reading.moment = self.clock.now();
        if self.counted.is_some_and(|t| t.elapsed() < COUNTS) {
            return Ok(());
        }
        self.count()?;
        let layout = self.list()?;
        if *layout != *reading.layout {
            *reading = Reading::new(layout, reading.moment);
        }
        self.fill(reading);
        Ok(())
    }
}

/// `struct inet_diag_req_v2` for connections of a family with their counts.
fn request(family: u8) -> [u8; 56] {
    let mut request = [0; 56];
    request[0] = family;
    request[1] = TCP;
    request[2] = 1 << (INFO - 1);
    request[4..8].copy_from_slice(&STATES.to_ne_bytes());
    request
}

/// The own and the remote address in `struct inet_diag_msg`.
fn ends(message: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let head = message.get(..SOCKET)?;
    let length = if head[0] == FAMILIES[0] { 4 } else { 16 };
    Some((
        ip(head.get(8..8 + length)?)?,
        ip(head.get(24..24 + length)?)?,
    ))
}

/// `struct inet_diag_msg` and its attributes. A kernel that does not count bytes sent (before 4.19) has a shorter
/// `struct tcp_info`.
fn connection(message: &[u8]) -> Option<Connection> {
    let info = attribute(message.get(SOCKET..)?, INFO)?;
    let mut counts = Counts::default();
    counts[0] = u64_at(info, BYTES)?;
    counts[RECEIVED] = u64_at(info, BYTES_RECEIVED)?;
    for (count, at) in counts[1..RECEIVED].iter_mut().zip(NUMBERS) {
        *count = u64::from(u32_at(info, at)?);
    }
    Some(Connection {
        ends: ends(message)?,
        cookie: u64_at(message, 44)?,
        counts,
    })
}

fn moved(counts: &Counts) -> u64 {
    counts[0].saturating_add(counts[RECEIVED])
}

/// An address; of an IPv4 address in IPv6 the former.
fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// The kernel's own count of a connection on the loopback, whose other end does not read.
    #[test]
    fn connections_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[7; 10_000]).unwrap();
        receiver.read_exact(&mut [0; 10_000]).unwrap();
        let mut sockets = Netlink::of_sockets().unwrap();
        let port = sender.local_addr().unwrap().port().to_be_bytes();
        let mut found = Vec::new();
        sockets
            .dump(netlink::SOCKETS, &request(FAMILIES[0]), |_, m| {
                found.extend(connection(m).filter(|_| m[4..6] == port));
            })
            .unwrap();
        let [one] = &found[..] else {
            panic!("{} sockets", found.len());
        };
        assert_eq!(
            (one.counts[0], one.counts[2], one.counts[3]),
            (10_000, 0, 0)
        );
        assert!(one.counts[1] > 0 && one.ends.0.is_loopback() && one.ends.1.is_loopback());
    }

    proptest! {
        #[test]
        fn bent_answers_are_passed_over(bytes: Vec<u8>, cut in 0usize..400) {
            let _ = connection(&bytes);
            let mut long = vec![2; 400];
            long.truncate(cut);
            long.extend(bytes);
            let _ = connection(&long);
        }
    }
}
