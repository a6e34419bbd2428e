//! The connections of a server: which one is evicted for a new one, and their deadlines.

use super::Counts;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until};

/// All connections of one kind.
pub struct Seats {
    most: usize,
    state: Mutex<State>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct State {
    next: u64,
    taken: HashMap<u64, Taken>,
}

struct Taken {
    /// Whether the connection waits for a request and may be evicted.
    waits: bool,
    /// Whether an earlier request of this connection was admitted.
    known: bool,
    since: Instant,
    deadline: Instant,
    leave: Arc<Notify>,
}

/// The place of one connection, until it is dropped.
pub struct Seat {
    id: u64,
    seats: Arc<Seats>,
    leave: Arc<Notify>,
}

impl Seats {
    pub fn new(most: usize, counts: Arc<Counts>) -> Arc<Self> {
        Arc::new(Self {
            most,
            state: Mutex::default(),
            counts,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection whose first request is due within `patience`. If all are taken, the
    /// connection that has waited longest is evicted, first those without an admitted request; `None` if
    /// every connection is being answered.
    pub fn enter(self: &Arc<Self>, patience: Duration) -> Option<Seat> {
        if self.state().taken.len() >= self.most && !self.evict() {
            self.counts.shed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let now = Instant::now();
        let leave = Arc::new(Notify::new());
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        let taken = Taken {
            waits: true,
            known: false,
            since: now,
            deadline: now + patience,
            leave: leave.clone(),
        };
        state.taken.insert(id, taken);
        drop(state);
        Some(Seat {
            id,
            seats: self.clone(),
            leave,
        })
    }

    /// Ends the connection that has waited longest for a request; `false` if none waits.
    pub fn evict(&self) -> bool {
        let mut state = self.state();
        let waiting = state.taken.iter().filter(|(_, t)| t.waits);
        let Some(id) = waiting
            .min_by_key(|(_, t)| (t.known, t.since))
            .map(|(&id, _)| id)
        else {
            return false;
        };
        if let Some(taken) = state.taken.remove(&id) {
            taken.leave.notify_one();
        }
        self.counts.evicted.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl Seat {
    fn change(&self, change: impl FnOnce(&mut Taken)) {
        if let Some(taken) = self.seats.state().taken.get_mut(&self.id) {
            change(taken);
        }
    }

    /// The request was admitted; the next phase must end within `patience`.
    pub fn admitted(&self, patience: Duration) {
        self.change(|t| {
            (t.waits, t.known) = (false, true);
            t.deadline = Instant::now() + patience;
        });
    }

    /// The connection waits for its next request.
    pub fn waits(&self, patience: Duration) {
        self.change(|t| {
            (t.waits, t.since) = (true, Instant::now());
            t.deadline = t.since + patience;
        });
    }

    /// Runs a connection until it ends, is evicted or misses a deadline.
    pub async fn hold(&self, connection: impl Future<Output = ()>) {
        tokio::pin!(connection);
        loop {
            let deadline = self.seats.state().taken.get(&self.id).map(|t| t.deadline);
            // Evicted.
            let Some(deadline) = deadline else { return };
            if deadline <= Instant::now() {
                self.seats.counts.expired.fetch_add(1, Ordering::Relaxed);
                return;
            }
            tokio::select! {
                () = &mut connection => return,
                () = self.leave.notified() => return,
                () = sleep_until(deadline) => {}
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.state().taken.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_before_known_clients_and_admitted_requests_stay() {
        let seats = Seats::new(3, Arc::default());
        let patience = Duration::from_secs(60);
        let enter = || seats.enter(patience);
        let (known, busy, stranger) = (enter().unwrap(), enter().unwrap(), enter().unwrap());
        known.admitted(patience);
        known.waits(patience);
        busy.admitted(patience);
        let here = |seat: &Seat| seats.state().taken.contains_key(&seat.id);
        // The stranger came last and leaves first.
        let second = enter().unwrap();
        assert!(!here(&stranger) && here(&known) && here(&busy));
        second.admitted(patience);
        let third = enter().unwrap();
        assert!(!here(&known) && here(&busy) && here(&second));
        third.admitted(patience);
        assert!(enter().is_none(), "all are being answered");
        drop(busy);
        assert!(enter().is_some());
    }
}
