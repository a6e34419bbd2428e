//! New connections, and those that have not said hello.

use super::Server;
use super::connection::Connection;
use super::peer::Role;
use crate::Refusal;
use crate::wire::{Kind, PROOF};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io;

/// Connections without a hello: their maximum number, and their timeout.
const MOST_STRANGERS: usize = 4096;
const STRANGERS_NS: u64 = 5_000_000_000;

impl Server {
    /// Accepts the connections that wait.
    pub(super) fn accept(&mut self, listener: usize, now: u64) {
        // Bounded, so that established connections are served too.
        for _ in 0..256 {
            let (stream, peer) = match self.listeners[listener].accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.note(format!("cannot accept connections: {error}")),
            };
            self.make_room();
            if self.open >= self.most_connections {
                let most = self.most_connections;
                self.note(format!("{peer} refused: the maximum is {most} connections"));
                continue;
            }
            self.serial = self.serial.wrapping_add(1);
            let slot = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() as u32 - 1
            });
            let data =
                EventData::new_u64(u64::from(self.serial & 0x7fff_ffff) << 32 | u64::from(slot));
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            let outside = listener + 1 < self.listeners.len();
            let identity = self.identity.as_ref().filter(|_| outside);
            let serial = self.serial & 0x7fff_ffff;
            let connection = Connection::new(stream, identity, peer, serial, now);
            let ready = connection.and_then(|mut c| {
                c.peer.readers = self.readers.clone();
                if self.token.is_some() {
                    let mut nonce = [0; PROOF];
                    rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
                    c.peer.challenge = nonce;
                    c.send_frame(Kind::Challenge, &nonce);
                }
                epoll::add(&self.epoll, c.stream.socket(), data, flags)?;
                Ok(c)
            });
            match ready {
                Ok(connection) => {
                    self.strangers.push_back((slot, connection.serial));
                    self.connections[slot as usize] = Some(connection);
                    self.open += 1;
                }
                Err(error) => {
                    self.free.push(slot);
                    self.note(format!("{peer}: {error}"));
                }
            }
        }
    }

    /// Closes the oldest connection without a hello, if there are too many of them, or of all.
    fn make_room(&mut self) {
        while self.strangers.len() >= MOST_STRANGERS || self.open >= self.most_connections {
            let Some((slot, serial)) = self.strangers.pop_front() else {
                return;
            };
            if self.is_stranger(slot, serial) {
                self.refuse(slot, &Refusal::new("too many connections without a hello"));
            }
        }
    }

    fn is_stranger(&self, slot: u32, serial: u32) -> bool {
        let connection = self.connections[slot as usize].as_ref();
        connection
            .is_some_and(|c| c.serial == serial && matches!(c.peer.role, Role::Stranger { .. }))
    }

    /// Closes connections without a hello in time.
    pub(super) fn drop_strangers(&mut self, now: u64) {
        while let Some(&(slot, serial)) = self.strangers.front() {
            if self.is_stranger(slot, serial) {
                let born = self.connections[slot as usize]
                    .as_ref()
                    .map_or(0, |c| c.born_ns);
                // A clock that was set back must not extend the time.
                if now.abs_diff(born) < STRANGERS_NS {
                    return;
                }
                self.refuse(slot, &Refusal::new("no hello within 5 s"));
            }
            self.strangers.pop_front();
        }
    }
}
