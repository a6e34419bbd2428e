//! Reports in single packets, from UDP or a message bus.

use super::Server;
use super::health::Health;
use crate::Refusal;
use crate::bytes::Take;
use crate::datagram::{self, CHALLENGE, Challenges, STRANGER};
use crate::gather::{Channel, Gathering};
use crate::wire::{Hello, Kind, LONGEST_FRAME, Token, frame, next_frame};
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
        let outcome = self.packet(packet, Channel::Datagrams(peer), now);
        match &outcome {
            Ok(None) => return,
            Ok(Some(_)) => Health::add(&self.health.challenges, 1),
            Err(refusal) => {
                Health::add(&self.health.refused, 1);
                self.note(format!("{peer}: refused {refusal}"));
            }
        }
        if let Some(answer) = answer(&outcome, packet.len()) {
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
    let (node, start, mut frames) = datagram::unwrap(packet, token)?;
    let mut id = known(gathering, node, start, channel);
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
fn known(gathering: &Gathering, node: &str, start: u64, channel: Channel) -> Option<u32> {
    let members = gathering.members();
    let id = members
        .find(node)
        .filter(|&id| members.began_at(id, start))?;
    let by_udp = matches!(channel, Channel::Datagrams(_));
    let same_way = matches!(gathering.channel(id), Channel::Datagrams(_) | Channel::None);
    (!by_udp || (same_way && members.has_greeted(id))).then_some(id)
}
