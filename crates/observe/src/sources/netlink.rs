//! Network interfaces from the kernel: rtnetlink messages, the interface of `ip` and `tc`.
//!
//! Only the parts needed for counters: dumps of links, of their statistics and of queueing disciplines, and
//! notifications of changed links or disciplines (`linux/rtnetlink.h`, `linux/if_link.h`, `linux/pkt_sched.h`).

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Request for all interfaces.
pub(super) const GET_LINK: u16 = 18;
/// An interface.
pub(super) const NEW_LINK: u16 = 16;
/// Request for all queueing disciplines.
pub(super) const GET_QDISC: u16 = 38;
/// A queueing discipline.
pub(super) const NEW_QDISC: u16 = 36;
/// Request for the statistics of all interfaces.
pub(super) const GET_STATS: u16 = 94;
/// Statistics of an interface.
pub(super) const NEW_STATS: u16 = 92;
/// Request for the addresses of all interfaces, and an address.
pub(super) const GET_ADDRESS: u16 = 22;
pub(super) const NEW_ADDRESS: u16 = 20;
/// Request for sockets of a family, and a socket (`linux/sock_diag.h`).
pub(super) const SOCKETS: u16 = 20;

/// An interface, or a queueing discipline, was removed.
const DEL_LINK: u16 = 17;
const DEL_QDISC: u16 = 37;
/// Messages that change the list of counters.
const CHANGED: [u16; 4] = [NEW_LINK, DEL_LINK, NEW_QDISC, DEL_QDISC];

const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `RTMGRP_LINK | RTMGRP_TC`: interfaces and queueing disciplines.
const CHANGES: u32 = 0x1 | 0x8;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// The kernel fills its messages up to the reader's buffer. Including the kernel's overhead this is an allocation of
/// 16 kB, and holds sixty interfaces.
const BUFFER: usize = 15 * 1024;
/// Maximum number of messages in an answer.
const MOST_PARTS: usize = 100_000;

/// A socket to the kernel's tables, in the caller's network namespace.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// `None` for a protocol is `NETLINK_ROUTE`, number 0.
fn socket(more: SocketFlags, protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | more;
    let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    Ok(socket)
}

/// The kernel's notifications of added, removed or changed interfaces and queueing disciplines.
#[derive(Debug)]
pub(super) struct Changes {
    socket: OwnedFd,
}

impl Changes {
    /// Subscribes; needs no privileges.
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket(SocketFlags::NONBLOCK, None)?;
        net::bind(&socket, &SocketAddrNetlink::new(0, CHANGES))?;
        Ok(Self { socket })
    }

    /// Whether there was one since the last call.
    pub(super) fn any(&self) -> io::Result<bool> {
        let (mut any, mut head) = (false, [0; HEADER]);
        loop {
            match net::recv(&self.socket, &mut head, RecvFlags::empty()) {
                Ok(_) => {
                    // Filters and classes are in the same group.
                    let kind = u16_at(&head, 4);
                    any |= kind.is_some_and(|k| CHANGED.contains(&k));
                }
                // The socket buffer overflowed.
                Err(Errno::NOBUFS) => any = true,
                Err(Errno::AGAIN) => return Ok(any),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Netlink {
    /// Opens it; needs no privileges.
    pub(super) fn open() -> io::Result<Self> {
        Self::of(None)
    }

    /// Opens the table of sockets; needs no privileges.
    pub(super) fn of_sockets() -> io::Result<Self> {
        Self::of(Some(netlink::SOCK_DIAG))
    }

    fn of(protocol: Option<Protocol>) -> io::Result<Self> {
        let socket = socket(SocketFlags::empty(), protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1)))?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; BUFFER],
        })
    }

    /// Sends a request and passes every message of the answer (kind and payload) to `each`.
    pub(super) fn dump(
        &mut self,
        ask: u16,
        body: &[u8],
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Vec::with_capacity(HEADER + body.len());
        request.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
        request.extend_from_slice(&ask.to_ne_bytes());
        request.extend_from_slice(&DUMP.to_ne_bytes());
        request.extend_from_slice(&self.sequence.to_ne_bytes());
        request.extend_from_slice(&[0; 4]);
        request.extend_from_slice(body);
        net::send(&self.socket, &request, SendFlags::empty())?;
        for _ in 0..MOST_PARTS {
            let (_, length) = net::recv(&self.socket, &mut self.buffer, RecvFlags::empty())?;
            let part = self.buffer.get(..length).unwrap_or(&self.buffer);
            if Self::messages(part, self.sequence, &mut each)? {
                return Ok(());
            }
        }
        Err(io::Error::other("the kernel's answer does not end"))
    }

    /// Messages of one part; true if it was the last.
    fn messages(
        mut rest: &[u8],
        sequence: u32,
        each: &mut impl FnMut(u16, &[u8]),
    ) -> io::Result<bool> {
        while let Some(length) = u32_at(rest, 0) {
            let length = length as usize;
            let (Some(message), Some(kind)) = (rest.get(HEADER..length), u16_at(rest, 4)) else {
                return Err(io::Error::other("a message of the kernel was cut off"));
            };
            // Skips remaining messages of an abandoned answer.
            let ours = u32_at(rest, 8) == Some(sequence);
            match kind {
                DONE if ours => return Ok(true),
                ERROR if ours => {
                    let code = u32_at(message, 0).unwrap_or(0) as i32;
                    return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
                }
                _ if ours => each(kind, message),
                _ => {}
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(false)
    }
}

/// Attributes of a message from `bytes` on: kind and content.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        // The upper two bits mark nested attributes and network byte order.
        let kind = u16_at(rest, 2)? & 0x3fff;
        let content = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, content))
    })
}

/// The content of the first attribute of a kind.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|a| a.0 == kind).map(|a| a.1)
}

/// A string attribute without its final zero.
pub(super) fn string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*bytes))
}

/// A number of 32 bits at an offset.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

/// A number of 64 bits at an offset.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernel_lists_the_loopback() {
        let mut names = Vec::new();
        let mut netlink = Netlink::open().unwrap();
        for _ in 0..2 {
            netlink
                .dump(GET_LINK, &[0; 16], |kind, message| {
                    assert_eq!(kind, NEW_LINK);
                    names.extend(attribute(&message[16..], 3).map(string));
                })
                .unwrap();
        }
        assert_eq!(names.iter().filter(|n| *n == "lo").count(), 2, "{names:?}");
        assert!(netlink.dump(9999, &[], |_, _| ()).is_err());
    }

    proptest! {
        #[test]
        fn bent_messages_end(bytes: Vec<u8>) {
            let _ = Netlink::messages(&bytes, 1, &mut |_, m| {
                assert!(attributes(m).count() <= m.len() / 4 + 1);
            });
            prop_assert!(attributes(&bytes).count() <= bytes.len() / 4 + 1);
        }
    }
}
