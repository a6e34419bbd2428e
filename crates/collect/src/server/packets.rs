//! Reports in single packets, from UDP or a message bus.

use super::Server;
use crate::Refusal;
use crate::bytes::Take;
use crate::datagram::{self, STRANGER};
use crate::gather::Channel;
use crate::wire::{Hello, Kind, LONGEST_FRAME, frame, next_frame};
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Maximum number of packets read before other work of the collector.
const MOST_AT_ONCE: usize = 1024;

impl Server {
    /// Handles received packets, up to the maximum; returns whether more are waiting.
    pub(super) fn datagrams(&mut self, now: u64) -> bool {
        let Some(udp) = self.udp.take() else {
            return false;
        };
        let mut room = std::mem::take(&mut self.room);
        let more = self.take_waiting(&udp, &mut room, now);
        (self.udp, self.room) = (Some(udp), room);
        more
    }

    fn take_waiting(&mut self, udp: &UdpSocket, room: &mut [u8], now: u64) -> bool {
        for _ in 0..MOST_AT_ONCE {
            match udp.recv_from(room) {
                Ok((n, peer)) => self.take_datagram(udp, &room[..n], peer, now),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) => {
                    self.note(format!("UDP: {error}"));
                    return false;
                }
            }
        }
        true
    }

    fn take_datagram(&mut self, udp: &UdpSocket, packet: &[u8], peer: SocketAddr, now: u64) {
        let Err(refusal) = self.packet(packet, Channel::Datagrams(peer), now) else {
            return;
        };
        self.note(format!("{peer}: refused {refusal}"));
        let mut answer = Vec::new();
        let text = refusal.to_string();
        frame(&mut answer, Kind::No, |b| {
            b.extend_from_slice(text.as_bytes());
        });
        // At most the packet's length: its source address may be forged, and the answer must not amplify.
        answer.truncate(packet.len());
        let _ = udp.send_to(&answer, peer);
    }

    /// Handles a packet.
    pub(super) fn packet(
        &mut self,
        packet: &[u8],
        channel: Channel,
        now: u64,
    ) -> Result<(), Refusal> {
        let (node, start, mut frames) = datagram::unwrap(packet, self.token.as_ref())?;
        let members = self.gathering.members();
        let mut id = members.find(node).filter(|&id| members.began_at(id, start));
        while let Some((kind, body, whole)) = next_frame(frames, LONGEST_FRAME)? {
            frames = &frames[whole..];
            match (kind, id) {
                (Kind::Hello, _) => {
                    let hello = Hello::take(&mut Take(body))?;
                    id = Some(self.gathering.hello(&hello, channel, now)?.0);
                }
                (Kind::Source, Some(id)) => self.gathering.source(id, body)?,
                (Kind::Report, Some(id)) => {
                    self.gathering.heard_on(id, channel);
                    self.gathering.report(id, body, now)?;
                }
                (_, None) => return Err(Refusal::new(format!("{node}, {STRANGER}"))),
                (kind, _) => return Err(Refusal::new(format!("a frame {kind:?} in a packet"))),
            }
        }
        Ok(())
    }
}
