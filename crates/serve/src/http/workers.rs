//! Threads that compute answers.

use super::{Answer, Handler, Needs, Request};
use hopbyte_observe::threads::start_in;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;

/// Number of answers that are computed at once.
const WORKERS: usize = 4;
/// Admitted requests that may wait for a worker.
const WAITING: usize = 1024;

/// A request that waits for a worker.
struct Job {
    request: Request,
    reply: oneshot::Sender<Done>,
}

/// A request, returned with its answer, so that it can be asked again with more room.
pub type Done = (Request, Result<Answer, Needs>);

/// The sending end of the queue.
pub struct Queue(SyncSender<Job>);

/// The threads' end of the queue.
pub struct Workers(Mutex<Receiver<Job>>);

impl Queue {
    /// The answer of a request; `None` if too many requests wait already.
    pub async fn ask(&self, request: Request) -> Option<Done> {
        let (reply, done) = oneshot::channel();
        self.0.try_send(Job { request, reply }).ok()?;
        done.await.ok()
    }
}

impl Workers {
    pub fn new() -> (Self, Queue) {
        let (send, receive) = sync_channel(WAITING);
        (Self(Mutex::new(receive)), Queue(send))
    }

    /// Answers queued requests while `serve` runs; with fewer threads if the system refuses some.
    ///
    /// # Errors
    /// The system refuses all threads.
    pub fn run<T>(self, answer: &Handler<'_>, serve: impl FnOnce() -> T) -> io::Result<T> {
        std::thread::scope(|scope| {
            start_in(scope, || self.work(answer))?;
            let more = (1..WORKERS).map_while(|_| start_in(scope, || self.work(answer)).ok());
            more.for_each(drop);
            Ok(serve())
        })
    }

    /// Answers one waiting request with nothing, and returns it.
    pub fn answer_one(&mut self) -> Option<Request> {
        let jobs = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let job = jobs.try_recv().ok()?;
        let answer = Ok(Answer::words(204, ""));
        let _ = job.reply.send((job.request.clone(), answer));
        Some(job.request)
    }

    fn work(&self, answer: &Handler<'_>) {
        loop {
            let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Job { request, reply }) = next else {
                return;
            };
            // The client disconnected or was too slow.
            if reply.is_closed() {
                continue;
            }
            // A program that aborts on panics starts again instead.
            let answered = catch_unwind(AssertUnwindSafe(|| answer(&request)));
            let answered = answered
                .unwrap_or_else(|_| Ok(Answer::words(500, "the answer failed; see the log")));
            let _ = reply.send((request, answered));
        }
    }
}
