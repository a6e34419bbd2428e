//! Datagrams, many with one system call.

use crate::datagram::LONGEST;
use nix::sys::socket::{MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage, recvmmsg};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// Maximum number of datagrams of a batch.
pub(super) const BATCH: usize = 64;
/// Bytes for a datagram: more than the longest one, and an odd number of cache lines, so that the datagrams of a batch
/// do not begin at the same place of the processor's cache.
const ROOM: usize = 1025 * 64;
const _: () = assert!(ROOM > LONGEST);

/// A datagram and its sender.
pub(super) type Datagram<'a> = (&'a [u8], SocketAddr);

/// Memory for a batch of datagrams.
pub(super) struct Batch {
    rooms: Box<[u8]>,
    heads: MultiHeaders<SockaddrStorage>,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            rooms: vec![0; BATCH * ROOM].into(),
            heads: MultiHeaders::preallocate(BATCH, None),
        }
    }
}

impl Batch {
    /// Hands the datagrams that wait at a non-blocking socket to `take`, at most [`BATCH`] of them; returns their number.
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        take: impl FnOnce(&[Datagram<'_>]),
    ) -> io::Result<usize> {
        let rooms = self.rooms.chunks_exact_mut(ROOM);
        let mut parts: Vec<_> = rooms.map(|room| [IoSliceMut::new(room)]).collect();
        let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
        let received = recvmmsg(fd, &mut self.heads, parts.iter_mut(), flags, None)?;
        let mut count = 0;
        let all: Vec<Datagram<'_>> = received
            .inspect(|_| count += 1)
            .filter_map(|one| Some((bytes(&one), sender(one.address?)?)))
            .collect();
        take(&all);
        Ok(count)
    }
}

/// The bytes of a datagram, which may have none.
fn bytes<'a>(one: &RecvMsg<'_, 'a, SockaddrStorage>) -> &'a [u8] {
    one.iovs().next().unwrap_or_default()
}

fn sender(address: SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in();
    let v6 = address.as_sockaddr_in6();
    v4.map(|&a| SocketAddrV4::from(a).into())
        .or_else(|| v6.map(|&a| SocketAddrV6::from(a).into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_every_length_arrive_with_their_sender_in_order() {
        for (here, there) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0")] {
            let Ok(socket) = UdpSocket::bind(here) else {
                continue;
            };
            socket.set_nonblocking(true).unwrap();
            let to = socket.local_addr().unwrap();
            let mut batch = Batch::default();
            let error = batch.receive(&socket, |_| {}).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            let peers: Vec<_> = (0..3).map(|_| UdpSocket::bind(there).unwrap()).collect();
            // More than a batch of short ones; then the extremes.
            let short = (0..BATCH + 6).map(|n| n % 5);
            let lengths: Vec<usize> = short.chain([0, 1, 4096, LONGEST]).collect();
            let sent: Vec<(Vec<u8>, SocketAddr)> = (lengths.iter().zip(0u8..))
                .map(|(&length, n)| {
                    let peer = &peers[usize::from(n) % 3];
                    let packet = vec![n; length];
                    peer.send_to(&packet, to).unwrap();
                    (packet, peer.local_addr().unwrap())
                })
                .collect();
            let (mut got, mut batches) = (Vec::new(), Vec::new());
            while let Ok(n) = batch.receive(&socket, |all| {
                got.extend(all.iter().map(|(p, a)| (p.to_vec(), *a)));
            }) {
                batches.push(n);
            }
            assert_eq!(got, sent);
            assert_eq!(batches, [BATCH, sent.len() - BATCH]);
        }
    }
}
