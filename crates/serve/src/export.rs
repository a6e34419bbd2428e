//! Exports of a running collector: OpenMetrics over HTTP, and Influx lines sent to a database.
//!
//! Both are viewers of the collector in their own threads, so that a slow client does not delay the
//! collector.

use crate::http::{Answer, Server};
use hopbyte_collect::export::{lines, openmetrics};
use hopbyte_collect::flows::Flows;
use hopbyte_collect::lines::parse as lines_of;
use hopbyte_collect::server::Inlet;
use hopbyte_collect::store::Status;
use hopbyte_collect::stream::Stream;
use hopbyte_collect::wire::Token;
use hopbyte_observe::http::Client;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Timeout of a scrape that waits for a tick to close.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time after a scrape during which texts are written, and the maximum age of a text.
const INTEREST: Duration = Duration::from_secs(5);
const FRESH: Duration = Duration::from_secs(2);

/// The collector to follow.
#[derive(Clone)]
pub struct Source {
    /// Its address.
    pub address: SocketAddr,
    /// Its secret.
    pub token: Option<Token>,
    /// Counts of its store.
    pub store: Option<Status>,
}

impl Source {
    /// Calls `tick` after every tick without end; reconnects after an error, from the next tick on.
    fn follow(&self, mut tick: impl FnMut(&Stream, &Flows, &hopbyte_collect::block::Closing)) {
        loop {
            let mut flows = Flows::default();
            if let Ok(mut stream) =
                Stream::connect(&self.address.to_string(), self.token.as_ref(), None)
            {
                while let Ok(Some(closing)) =
                    stream.next(|cluster, id, _| flows.report(cluster, id))
                {
                    flows.close(&closing);
                    tick(&stream, &flows, &closing);
                }
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

/// The text of the last tick, written only while clients scrape it.
#[derive(Default)]
struct Board {
    state: Mutex<Said>,
    news: Condvar,
}

#[derive(Default)]
struct Said {
    asked: Option<Instant>,
    written: Option<Instant>,
    text: String,
}

/// Whether something happened within a time.
fn within(moment: Option<Instant>, time: Duration) -> bool {
    moment.is_some_and(|m| m.elapsed() < time)
}

/// Serves `GET /metrics` on an address. Other than on loopback, clients must send the bearer token.
pub fn serve_metrics(
    address: SocketAddr,
    bearer: Option<String>,
    source: Source,
) -> io::Result<SocketAddr> {
    let server = Server::open(address, bearer)?;
    let address = server.address();
    let board = Arc::new(Board::default());
    let writer = board.clone();
    std::thread::spawn(move || {
        source.follow(|stream, flows, closing| {
            let mut said = writer.state.lock().unwrap_or_else(PoisonError::into_inner);
            if within(said.asked, INTEREST) {
                let counts = source.store.as_ref().map(Status::counts);
                said.text = counts.as_ref().map_or_else(String::new, openmetrics::store);
                said.text += &openmetrics::text(stream.cluster(), flows, closing);
                said.written = Some(Instant::now());
                writer.news.notify_all();
            }
        });
    });
    std::thread::spawn(move || {
        server.run(&move |request| match request.name.as_str() {
            "metrics" | "" => board.answer(),
            _ => Answer::words(404, "expected /metrics"),
        });
    });
    Ok(address)
}

impl Board {
    fn answer(&self) -> Answer {
        let mut said = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        said.asked = Some(Instant::now());
        let waited = self
            .news
            .wait_timeout_while(said, PATIENCE, |s| !within(s.written, FRESH));
        let (said, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Answer::words(503, "no tick closed");
        }
        Answer {
            status: 200,
            kind: openmetrics::CONTENT_TYPE,
            body: said.text.clone().into_bytes(),
        }
    }
}

/// Maximum length of a post of lines.
const LONGEST_LINES: usize = 4 << 20;
/// Maximum number of connections for lines.
const POSTING: usize = 64;

/// Accepts `POST /write` of Influx lines on an address, the format of other tools' collectors.
pub fn take_lines(
    address: SocketAddr,
    bearer: Option<String>,
    inlet: Inlet,
) -> io::Result<SocketAddr> {
    let server = Server::open(address, bearer)?.takes(LONGEST_LINES, POSTING);
    let address = server.address();
    // Shared by the connections' threads.
    let inlet = Mutex::new(inlet);
    std::thread::spawn(move || {
        server.run(&move |request| {
            let body = request.body.as_deref().map(std::str::from_utf8);
            let Some(Ok(text)) = body else {
                return Answer::words(400, "expected a POST of lines");
            };
            match lines_of(text) {
                Ok((points, _)) => {
                    let inlet = inlet.lock().unwrap_or_else(PoisonError::into_inner);
                    if inlet.give(points) {
                        return Answer {
                            status: 204,
                            kind: "text/plain",
                            body: Vec::new(),
                        };
                    }
                    Answer::words(503, "the queue of lines is full")
                }
                Err(refusal) => Answer::words(400, &format!("found {refusal}")),
            }
        });
    });
    Ok(address)
}

/// Timeout of the database, and maximum length of its answer.
const POST_PATIENCE: Duration = Duration::from_secs(5);
const LONGEST_REFUSAL: u64 = 64 << 10;

/// Sends Influx lines of every tick to a database's `http://HOST:PORT/PATH`, or `https://…`.
///
/// # Errors
/// The address is invalid.
pub fn push_lines(
    url: &str,
    cluster: &str,
    source: Source,
    say: impl Fn(String) + Send + 'static,
) -> io::Result<()> {
    if !Client::takes(url) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("--lines: found {url}, expected http://HOST:PORT/PATH or https://HOST/PATH"),
        ));
    }
    let (url, cluster) = (url.to_owned(), cluster.to_owned());
    let client = Client::new(POST_PATIENCE, LONGEST_REFUSAL);
    std::thread::spawn(move || {
        let mut well = true;
        source.follow(|stream, flows, closing| {
            let text = lines::text(&cluster, stream.cluster(), flows, closing);
            match post(&client, &url, &text) {
                Ok(()) => well = true,
                Err(error) if std::mem::replace(&mut well, false) => {
                    // The query may contain a secret.
                    let place = url.split('?').next().unwrap_or_default();
                    say(format!("lines to {place}: {error}"));
                }
                Err(_) => {}
            }
        });
    });
    Ok(())
}

fn post(client: &Client, url: &str, body: &str) -> io::Result<()> {
    let answer = client.post(url, "text/plain", body.as_bytes())?;
    if (200..300).contains(&answer.status) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&answer.body);
    let line: String = text
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect();
    Err(io::Error::other(format!(
        "found status {} {line}, expected 2xx",
        answer.status
    )))
}
