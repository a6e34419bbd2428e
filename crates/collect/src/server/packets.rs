//! Reports in single packets, from UDP or a bus.

use super::Server;
use crate::Refusal;
use crate::bytes::Take;
use crate::datagram::{self, STRANGER};
use crate::gather::Channel;
use crate::wire::{Hello, Kind, LONGEST_FRAME, frame, next_frame};
use std::io;

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
            for i in 0..n {
                let (packet, peer) = batch.get(i);
                let Some(peer) = peer else { continue };
                if let Err(refusal) = self.packet(packet, Channel::Datagrams(peer), now) {
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

    /// Takes a packet that stands for itself.
    pub(super) fn packet(
        &mut self,
        packet: &[u8],
        channel: Channel,
        now: u64,
    ) -> Result<(), Refusal> {
        let (node, start, mut frames) = datagram::unwrap(packet, self.token.as_ref())?;
        let mut id = self.gathering.find(node, start);
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
