//! HTTP/1.1 for the live page, the oracle and a collector's exports: hyper for the protocol, tokio for
//! connections that wait, rustls for TLS.
//!
//! Every connection carries one request. Answers are computed by a few worker threads, so that waiting
//! connections cost neither a thread nor a stack. Bounds: [`CONNECTIONS`] connections of each kind, a deadline for
//! every phase of a request, and [`ROOM`] bytes each for large bodies and large answers. A new connection evicts
//! the one that has waited longest for its request; a request that was admitted is never evicted.

pub mod access;
mod seats;
mod service;
mod unix;
mod workers;

use self::access::{Access, is_open_to_all};
use self::seats::Seats;
use self::workers::{Queue, Workers};
use hopbyte_collect::server::descriptors;
use hopbyte_collect::tls::Identity;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::Semaphore;

pub use self::access::{Bearers, token};
pub use self::service::read;

/// Maximum number of connections over TCP, and over a Unix socket; fewer if the process may have fewer than eight times as
/// many descriptors.
pub const CONNECTIONS: usize = 512;
/// Bytes of a body and of an answer that need no reservation.
pub const LARGE: usize = 64 * 1024;
/// Maximum sum of the reservations for large bodies, and for large answers.
pub const ROOM: usize = 256 << 20;
/// Unit of reservations.
const PERMIT: usize = 1024;
/// Timeout of a TLS handshake and of a request's head together.
const HEAD: Duration = Duration::from_secs(5);
/// Timeout of a computation, including the wait for room.
const WORK: Duration = Duration::from_secs(60);
/// Time to wait for room before the request is refused.
const WAIT: Duration = Duration::from_secs(10);
/// Minimum transfer rate of bodies and answers, beyond [`HEAD`].
const SLOWEST_BYTES_PER_S: usize = 256 * 1024;

/// An HTTP answer.
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Content type.
    pub kind: &'static str,
    /// Content.
    pub body: Vec<u8>,
}

impl Answer {
    /// A plain-text answer.
    pub fn words(status: u16, text: &str) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            body: format!("{text}\n").into_bytes(),
        }
    }
}

/// The answer needs this many bytes, more than [`Request::granted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs(pub usize);

/// An admitted request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Last component of the path: proxies may add a prefix.
    pub name: String,
    /// Query, the text after the question mark.
    pub query: String,
    /// Body of a POST; `None` for GET.
    pub body: Option<Vec<u8>>,
    /// Bytes that the answer may take.
    pub granted: usize,
}

impl Request {
    /// The value of a query parameter.
    pub fn value(&self, key: &str) -> Option<&str> {
        access::value(&self.query, key)
    }
}

/// Answers requests, from several threads at once.
pub type Handler<'a> = dyn Fn(&Request) -> Result<Answer, Needs> + Sync + 'a;

/// Parameters of a server.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Clients present one of these as bearer token. Without, every client that reaches the address is answered,
    /// and it must be a loopback address.
    pub tokens: Option<Bearers>,
    /// Names, besides addresses, `localhost` and the host's name, under which clients reach this server.
    pub hosts: Vec<String>,
    /// Certificate for TLS; without one connections are not encrypted.
    pub identity: Option<Identity>,
}

impl Setup {
    /// An address that everybody on this machine may ask.
    pub fn on(address: SocketAddr) -> Self {
        Self {
            address,
            tokens: None,
            hosts: Vec::new(),
            identity: None,
        }
    }
}

/// Events of a server since its start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests that were not admitted: token, host or origin.
    pub refused: AtomicU64,
    /// Waiting connections that were closed for new ones.
    pub evicted: AtomicU64,
    /// Admitted requests refused for lack of room or workers, and connections that found no place.
    pub shed: AtomicU64,
    /// Connections that missed a deadline.
    pub expired: AtomicU64,
}

/// A listener that answers the clients that [`Access`] admits.
pub struct Server {
    listener: TcpListener,
    unix: Option<UnixListener>,
    address: SocketAddr,
    access: Access,
    identity: Option<Identity>,
    longest_body: usize,
    counts: Arc<Counts>,
}

/// State shared by the connections of a server.
struct Hall {
    access: Access,
    longest_body: usize,
    bodies: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    guests: Arc<Seats>,
    locals: Arc<Seats>,
    queue: Queue,
    counts: Arc<Counts>,
}

impl Server {
    /// Listens on an address.
    ///
    /// # Errors
    /// The address cannot be bound, or is reachable from other machines and there is no token.
    pub fn open(setup: Setup) -> io::Result<Self> {
        let address = setup.address;
        if setup.tokens.is_none() && is_open_to_all(&address) {
            let text = format!(
                "answering on {address}, which others can reach, needs a token\nhint: --read-token FILE"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let listener = TcpListener::bind(address)
            .map_err(|e| io::Error::new(e.kind(), format!("listening on {address}: {e}")))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            unix: None,
            address,
            access: Access::new(setup.tokens, setup.hosts, setup.identity.is_some()),
            identity: setup.identity,
            longest_body: 0,
            counts: Arc::default(),
        })
    }

    /// Sets the maximum length of a body; without it only GET is answered.
    #[must_use]
    pub fn takes(mut self, longest_body: usize) -> Self {
        self.longest_body = longest_body;
        self
    }

    /// Answers `POST /ask` requests of a Unix socket too if there is one, one line after the other; access is by the permissions
    /// of its folder.
    #[must_use]
    pub fn also(mut self, listener: Option<UnixListener>) -> Self {
        self.unix = listener;
        self
    }

    /// Admits browsers by a one-time token in the address of the page, which they exchange for a cookie. After
    /// each use, `say` receives the next address.
    ///
    /// # Errors
    /// No randomness from the operating system.
    pub fn sign_in(mut self, say: impl Fn(&str) + Send + Sync + 'static) -> io::Result<Self> {
        self.access.sign_in(self.url(), Box::new(say))?;
        Ok(self)
    }

    /// Address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL without secrets.
    pub fn url(&self) -> String {
        let scheme = if self.identity.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}/", self.address)
    }

    /// URL for a browser, with its one-time token after [`Server::sign_in`].
    pub fn page(&self) -> String {
        self.access.page().unwrap_or_else(|| self.url())
    }

    /// Events since the start.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// The operating system gives no event queue.
    pub fn run(self, answer: &Handler<'_>) -> io::Result<()> {
        hopbyte_collect::restart::if_aborting();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (workers, queue) = Workers::new();
        // Beside a collector, and its other endpoint, within the process's descriptors.
        let most = CONNECTIONS.min(descriptors() / 8).max(8);
        let hall = Arc::new(Hall {
            access: self.access,
            longest_body: self.longest_body,
            bodies: Arc::new(Semaphore::new(ROOM / PERMIT)),
            answers: Arc::new(Semaphore::new(ROOM / PERMIT)),
            guests: Seats::new(most, self.counts.clone()),
            locals: Seats::new(most, self.counts.clone()),
            queue,
            counts: self.counts,
        });
        workers.run(answer, || {
            runtime.block_on(async {
                if let Some(unix) = self.unix {
                    tokio::spawn(unix::serve(unix, hall.clone()));
                }
                service::serve(self.listener, self.identity, hall).await
            })
        })?
    }
}

/// Time in which `bytes` must be transferred.
fn transfer(bytes: usize) -> Duration {
    HEAD + Duration::from_millis((1000 * bytes / SLOWEST_BYTES_PER_S) as u64)
}
