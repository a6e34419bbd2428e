//! Reports in single packets, from UDP or a message bus.

use super::Server;
use super::batch::{BATCH, Batch, Datagram};
use super::health::Health;
use crate::Refusal;
use crate::bytes::Take;
use crate::datagram::{CHALLENGE, Challenges, Envelope, STRANGER};
use crate::gather::{Channel, Gathering};
use crate::wire::{Hello, Kind, LONGEST_FRAME, Token, frame, next_frame};
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Maximum number of batches received before other work of the collector.
const MOST_AT_ONCE: usize = 1024 / BATCH;

impl Server {
    /// Handles received packets, up to the maximum; returns whether more are waiting.
    pub(super) fn datagrams(&mut self, batch: &mut Batch, now: u64) -> bool {
        let Some(udp) = self.udp.take() else {
            return false;
        };
        let more = self.take_waiting(&udp, batch, now);
        self.udp = Some(udp);
        more
    }

    fn take_waiting(&mut self, udp: &UdpSocket, batch: &mut Batch, now: u64) -> bool {
        for _ in 0..MOST_AT_ONCE {
            let received = batch.receive(udp, |all| self.take_batch(udp, all, now));
            match received {
                Ok(BATCH) => {}
                // Fewer than there is room for: no more were waiting.
                Ok(_) => return false,
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

    fn take_batch(&mut self, udp: &UdpSocket, all: &[Datagram<'_>], now: u64) {
        let members = self.gathering.members();
        let opened = all.iter().map(|(packet, peer)| {
            let envelope = Envelope::open(packet);
            let id = envelope.as_ref().ok().and_then(|e| members.find(e.node));
            (envelope, id, packet.len(), *peer)
        });
        let opened: Vec<_> = opened.collect();
        members.fetch(opened.iter().filter_map(|(_, id, ..)| *id));
        let changes = members.changes();
        for (envelope, id, length, peer) in opened {
            let channel = Channel::Datagrams(peer);
            // A packet before this one may have dropped the name.
            let id = id.filter(|_| self.gathering.members().changes() == changes);
            let (token, challenges) = (self.token.as_ref(), &self.challenges);
            let all = &mut self.gathering;
            let outcome = envelope
                .and_then(|packet| take_opened(packet, id, channel, now, token, challenges, all));
            self.answer_datagram(udp, &outcome, length, peer);
        }
    }

    fn answer_datagram(
        &mut self,
        udp: &UdpSocket,
        outcome: &Outcome,
        length: usize,
        peer: SocketAddr,
    ) {
        match outcome {
            Ok(None) => return,
            Ok(Some(_)) => Health::add(&self.health.challenges, 1),
            Err(refusal) => {
                Health::add(&self.health.refused, 1);
                self.note(format!("{peer}: refused {refusal}"));
            }
        }
        if let Some(answer) = answer(outcome, length) {
            let _ = udp.send_to(&answer, peer);
        }
    }

    /// Handles a packet. Returns the challenge to answer it with.
    pub(super) fn packet(&mut self, packet: &[u8], channel: Channel, now: u64) -> Outcome {
        let (token, challenges) = (self.token.as_ref(), &self.challenges);
        take(packet, channel, now, token, challenges, &mut self.gathering)
    }
}

/// Outcome of a packet: the challenge to answer it with, if any.
pub(crate) type Outcome = Result<Option<[u8; CHALLENGE]>, Refusal>;

/// The answer by UDP to a packet of so many bytes. It is not longer: the source address may be forged, and an answer
/// must not amplify.
pub(crate) fn answer(outcome: &Outcome, longest: usize) -> Option<Vec<u8>> {
    let mut answer = Vec::new();
    match outcome {
        Ok(None) => return None,
        Ok(Some(challenge)) => frame(&mut answer, Kind::Challenge, |b| {
            b.extend_from_slice(challenge);
        }),
        Err(refusal) => refuse(refusal, &mut answer),
    }
    answer.truncate(longest);
    Some(answer)
}

/// Appends the frame of a refusal.
pub(super) fn refuse(refusal: &Refusal, out: &mut Vec<u8>) {
    let text = refusal.to_string();
    frame(out, Kind::No, |b| b.extend_from_slice(text.as_bytes()));
}

/// Handles a packet of any channel without its socket.
pub(crate) fn take(
    packet: &[u8],
    channel: Channel,
    now: u64,
    token: Option<&Token>,
    challenges: &Challenges,
    gathering: &mut Gathering,
) -> Outcome {
    let packet = Envelope::open(packet)?;
    take_opened(packet, None, channel, now, token, challenges, gathering)
}

/// The same; `found` is the number of its node, if it was looked up.
fn take_opened(
    packet: Envelope<'_>,
    found: Option<u32>,
    channel: Channel,
    now: u64,
    token: Option<&Token>,
    challenges: &Challenges,
    gathering: &mut Gathering,
) -> Outcome {
    let (node, start) = (packet.node, packet.start);
    let mut frames = packet.frames(token)?;
    let mut id = known(gathering, &packet, found, channel);
    while let Some((kind, body, whole)) = next_frame(frames, LONGEST_FRAME)? {
        frames = &frames[whole..];
        match (kind, id) {
            (Kind::Hello, _) => {
                let mut take = Take(body);
                let hello = Hello::take(&mut take)?;
                if hello.node != node || hello.start != start {
                    return Err(Refusal::new(format!("a hello of {} by {node}", hello.node)));
                }
                if let Channel::Datagrams(peer) = channel {
                    let issued = challenges.issued(&hello, peer, take.0, now);
                    match issued {
                        None => return Ok(Some(challenges.issue(&hello, peer, now))),
                        Some(issued) if !gathering.members().is_news(node, issued) => {
                            gathering.events.stale_packets += 1;
                            return Ok(None);
                        }
                        Some(_) => {}
                    }
                }
                id = Some(gathering.hello(&hello, channel, now)?.0);
            }
            (Kind::Source, Some(id)) => gathering.source(id, body)?,
            (Kind::Report, Some(id)) => {
                gathering.heard_on(id, channel);
                gathering.report(id, body, now)?;
            }
            (_, None) => return Err(Refusal::new(format!("{node}, {STRANGER}"))),
            (kind, _) => return Err(Refusal::new(format!("a frame {kind:?} in a packet"))),
        }
    }
    Ok(None)
}

/// The node of a packet, if its agent said hello. By UDP, to this collector: an earlier hello may be recorded.
fn known(
    gathering: &Gathering,
    packet: &Envelope<'_>,
    found: Option<u32>,
    channel: Channel,
) -> Option<u32> {
    let members = gathering.members();
    let id = found
        .or_else(|| members.find(packet.node))
        .filter(|&id| members.began_at(id, packet.start))?;
    let by_udp = matches!(channel, Channel::Datagrams(_));
    let same_way = matches!(gathering.channel(id), Channel::Datagrams(_) | Channel::None);
    (!by_udp || (same_way && members.has_greeted(id))).then_some(id)
}
