//! Reports in single packets, from UDP or a bus.

use super::Server;
use crate::Refusal;
use crate::bytes::Take;
use crate::datagram::{self, Batch, STRANGER};
use crate::gather::{Channel, Step};
use crate::wire::{Hello, Kind, LONGEST_FRAME, frame, next_frame};
use std::io;
use std::net::UdpSocket;

/// A packet whose envelope was read.
struct Opened<'a> {
    node: &'a str,
    hash: u64,
    start: u64,
    id: Option<u32>,
    frames: &'a [u8],
}

impl Server {
    /// Takes the packets that wait, or as many as may be taken before the clock is looked at; says whether
    /// more wait.
    pub(super) fn datagrams(&mut self, now: u64) -> bool {
        let mut more = true;
        let (Some(udp), Some(mut batch)) = (self.udp.take(), self.batch.take()) else {
            return false;
        };
        // A bounded number, so that the clock is looked at.
        for _ in 0..32 {
            let n = match batch.fetch(&udp) {
                Ok(n) => n,
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.note(format!("UDP: {error}"));
                    }
                    more = false;
                    break;
                }
            };
            self.take_batch(&batch, n, &udp, now);
        }
        (self.udp, self.batch) = (Some(udp), Some(batch));
        more
    }

    /// Takes the first `n` packets of a batch. What is known of their nodes lies far away: every step asks
    /// for what the next one needs, of all of them before the first is waited for.
    fn take_batch(&mut self, batch: &Batch, n: usize, udp: &UdpSocket, now: u64) {
        let mut all: Vec<_> = (0..n).map(|i| self.open_packet(batch.get(i).0)).collect();
        for opened in all.iter_mut().flatten() {
            opened.id = self
                .gathering
                .members()
                .find_hashed(opened.hash, opened.node);
            self.approach(opened, Step::Member);
        }
        for opened in all.iter().flatten() {
            self.approach(opened, Step::Sources);
        }
        for (i, opened) in all.iter().enumerate() {
            if let Some(Ok(next)) = all.get(i + 1) {
                self.approach(next, Step::Values);
            }
            let (packet, Some(peer)) = batch.get(i) else {
                continue;
            };
            let channel = Channel::Datagrams(peer);
            let taken = match opened {
                Ok(opened) => self.take_packet(opened, channel, now),
                Err(refusal) => Err(refusal.clone()),
            };
            if let Err(refusal) = taken {
                self.note(format!("{peer}: refused {refusal}"));
                let mut answer = Vec::new();
                let text = refusal.to_string();
                frame(&mut answer, Kind::No, |b| {
                    b.extend_from_slice(text.as_bytes());
                });
                // As little as was sent: nobody is to be flooded in another one's name.
                answer.truncate(packet.len());
                let _ = udp.send_to(&answer, peer);
            }
        }
    }

    /// Reads the envelope of a packet.
    fn open_packet<'a>(&self, packet: &'a [u8]) -> Result<Opened<'a>, Refusal> {
        let (node, start, frames) = datagram::unwrap(packet, self.token.as_ref())?;
        Ok(Opened {
            node,
            hash: self.gathering.members().hash(node),
            start,
            id: None,
            frames,
        })
    }

    fn approach(&self, opened: &Opened<'_>, step: Step) {
        if let Some(id) = opened.id {
            self.gathering.members().approach(id, step);
        }
    }

    /// Takes a packet that stands for itself.
    pub(super) fn packet(
        &mut self,
        packet: &[u8],
        channel: Channel,
        now: u64,
    ) -> Result<(), Refusal> {
        let opened = self.open_packet(packet)?;
        self.take_packet(&opened, channel, now)
    }

    fn take_packet(
        &mut self,
        opened: &Opened<'_>,
        channel: Channel,
        now: u64,
    ) -> Result<(), Refusal> {
        let (node, mut frames) = (opened.node, opened.frames);
        // The packet before it may have introduced the node.
        let find = || self.gathering.members().find_hashed(opened.hash, node);
        let id = opened.id.or_else(find);
        let mut id = id.filter(|&id| self.gathering.members().began_at(id, opened.start));
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
