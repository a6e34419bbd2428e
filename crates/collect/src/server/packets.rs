//! Reports in single packets, from UDP or a bus.

use super::Server;
use crate::Refusal;
use crate::bytes::Take;
use crate::datagram::{self, STRANGER};
use crate::gather::Channel;
use crate::wire::{Hello, Kind, LONGEST_FRAME, frame, next_frame};
use std::io;

/// A packet whose envelope was read.
struct Opened<'a> {
    node: &'a str,
    start: u64,
    id: Option<u32>,
    frames: &'a [u8],
}

impl Server {
    pub(super) fn datagrams(&mut self, now: u64) {
        let (Some(udp), Some(mut batch)) = (self.udp.take(), self.batch.take()) else {
            return;
        };
        // A bounded number, so that the clock is looked at.
        for _ in 0..32 {
            let n = match batch.fetch(&udp) {
                Ok(n) => n,
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.note(format!("UDP: {error}"));
                    }
                    break;
                }
            };
            let mut next = (n > 0).then(|| self.open_packet(batch.get(0).0));
            for i in 0..n {
                let (packet, peer) = batch.get(i);
                // The next one's values are fetched while this one is read.
                let following = (i + 1 < n).then(|| self.open_packet(batch.get(i + 1).0));
                let opened = std::mem::replace(&mut next, following);
                let (Some(peer), Some(opened)) = (peer, opened) else {
                    continue;
                };
                let channel = Channel::Datagrams(peer);
                let taken = opened.and_then(|opened| self.take_packet(&opened, channel, now));
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
        (self.udp, self.batch) = (Some(udp), Some(batch));
    }

    /// Whose a packet is; a report's values will be wanted.
    fn open_packet<'a>(&self, packet: &'a [u8]) -> Result<Opened<'a>, Refusal> {
        let (node, start, frames) = datagram::unwrap(packet, self.token.as_ref())?;
        let id = self.gathering.find(node, start);
        id.iter().for_each(|&id| self.gathering.prefetch(id));
        Ok(Opened {
            node,
            start,
            id,
            frames,
        })
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
        let find = || self.gathering.find(node, opened.start);
        let mut id = opened.id.or_else(find);
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
