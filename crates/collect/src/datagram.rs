//! Reports in single packets: for UDP and for message buses.
//!
//! [`PREAMBLE`], the start of the agent, its node, a proof when a token is required, and frames whose
//! values are whole. A collector that does not know the node answers with a `N` frame, upon which the
//! agent says hello and declares its sources again.

use crate::Refusal;
use crate::bytes::{Take, put_u64, put_word};
use crate::wire::{PREAMBLE, PROOF, Token, stranger};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Longest datagram.
pub const LONGEST: usize = 65_507;
/// How a refusal of an agent that did not introduce itself ends: it is asked to, no more.
pub const STRANGER: &str = "who did not say hello";
/// Datagrams that one call fetches.
const BATCH: usize = 32;

/// A packet around frames that [`wire::frame`](crate::wire::frame) wrote.
pub fn wrap(node: &str, start: u64, token: Option<&Token>, frames: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&PREAMBLE);
    put_u64(out, start);
    put_word(out, node);
    if let Some(token) = token {
        let proof = token.proof(&[&start.to_le_bytes(), node.as_bytes(), frames]);
        out.extend_from_slice(&proof);
    }
    out.extend_from_slice(frames);
}

/// Node, start and frames of a packet.
pub fn unwrap<'a>(
    packet: &'a [u8],
    token: Option<&Token>,
) -> Result<(&'a str, u64, &'a [u8]), Refusal> {
    let mut take = Take(packet);
    if take.bytes(PREAMBLE.len()).ok() != Some(&PREAMBLE) {
        return Err(stranger(packet));
    }
    let start = take.u64()?;
    let node = take.word("node")?;
    if let Some(token) = token {
        let proof = take.bytes(PROOF)?;
        if !token.agrees(&[&start.to_le_bytes(), node.as_bytes(), take.0], proof) {
            return Err(Refusal::new(format!(
                "a packet of {node} without the token"
            )));
        }
    }
    Ok((node, start, take.0))
}

/// Room for the longest datagram and a byte more. Odd in lines, so that not all of a batch begin at the
/// same place of the processor's cache.
const ROOM: usize = 1025 * 64;

/// Room for a batch of datagrams.
pub struct Batch {
    rooms: Vec<u8>,
    addresses: Vec<libc::sockaddr_storage>,
    lengths: [usize; BATCH],
}

impl Default for Batch {
    fn default() -> Self {
        // SAFETY: all bits zero is a valid `sockaddr_storage` (plain integers).
        let address: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        Self {
            rooms: vec![0; BATCH * ROOM],
            addresses: vec![address; BATCH],
            lengths: [0; BATCH],
        }
    }
}

impl Batch {
    /// Fetches datagrams that wait at a socket in non-blocking mode; returns how many.
    pub fn fetch(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let rooms = self.rooms.chunks_exact_mut(ROOM);
        let mut parts: Vec<libc::iovec> = rooms
            .map(|room| libc::iovec {
                iov_base: room.as_mut_ptr().cast(),
                iov_len: LONGEST + 1,
            })
            .collect();
        let heads = parts.iter_mut().zip(&mut self.addresses);
        let mut heads: Vec<libc::mmsghdr> = heads
            .map(|(part, address)| {
                // SAFETY: all bits zero is a valid `mmsghdr` (null pointers and lengths of zero).
                let mut head: libc::mmsghdr = unsafe { std::mem::zeroed() };
                head.msg_hdr.msg_name = std::ptr::from_mut(address).cast();
                head.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
                head.msg_hdr.msg_iov = part;
                head.msg_hdr.msg_iovlen = 1;
                head
            })
            .collect();
        // SAFETY: `heads` holds as many entries as are told; each points to an address and to a part
        // that lies in `rooms`, all of which outlive the call and are not touched during it.
        let n = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                heads.as_mut_ptr(),
                heads.len() as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        for (length, head) in self.lengths.iter_mut().zip(&heads).take(n as usize) {
            *length = (head.msg_len as usize).min(LONGEST + 1);
        }
        Ok(n as usize)
    }

    /// A datagram of the batch and where it came from.
    pub fn get(&self, i: usize) -> (&[u8], Option<SocketAddr>) {
        let packet = &self.rooms[i * ROOM..][..self.lengths[i]];
        (packet, address(&self.addresses[i]))
    }
}

fn address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let at = std::ptr::from_ref(storage);
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel wrote a `sockaddr_in`, as its family says, which is smaller.
            let v4 = unsafe { &*at.cast::<libc::sockaddr_in>() };
            let ip = std::net::Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some((ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the kernel wrote a `sockaddr_in6`, as its family says, which is smaller.
            let v6 = unsafe { &*at.cast::<libc::sockaddr_in6>() };
            let ip = std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some((ip, u16::from_be(v6.sin6_port)).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_back_and_need_the_token() {
        let token = Token::new(b"0123456789abcdef").unwrap();
        let mut packet = Vec::new();
        wrap("n1", 5, Some(&token), b"frames", &mut packet);
        assert_eq!(unwrap(&packet, Some(&token)), Ok(("n1", 5, &b"frames"[..])));
        let last = packet.len() - 1;
        packet[last] ^= 1;
        let error = unwrap(&packet, Some(&token)).unwrap_err().to_string();
        assert_eq!(error, "a packet of n1 without the token");
        for cut in 0..packet.len() {
            assert!(unwrap(&packet[..cut], Some(&token)).is_err());
        }
    }

    #[test]
    fn batches_tell_sizes_and_senders() {
        let (a, b) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        for n in [1usize, 3000, 60_000] {
            a.send_to(&vec![n as u8; n], b.local_addr().unwrap())
                .unwrap();
        }
        let mut batch = Batch::default();
        assert_eq!(batch.fetch(&b).unwrap(), 3);
        let sizes: Vec<usize> = (0..3).map(|i| batch.get(i).0.len()).collect();
        assert_eq!(sizes, [1, 3000, 60_000]);
        assert_eq!(batch.get(1).1, a.local_addr().ok());
        assert_eq!(
            batch.fetch(&b).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }
}
