//! What a running collector passes on: OpenMetrics to who asks, Influx lines to a database.
//!
//! Both look at the collector as any viewer does, in a thread of their own, so that a slow reader is no
//! burden to it.

use crate::http::{Answer, Server};
use hopbyte_collect::export::{lines, openmetrics};
use hopbyte_collect::flows::Flows;
use hopbyte_collect::lines::parse as lines_of;
use hopbyte_collect::server::Inlet;
use hopbyte_collect::stream::Stream;
use hopbyte_collect::wire::Token;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long who asks waits for a tick to close.
const PATIENCE: Duration = Duration::from_secs(3);
/// For how long after a question texts are written, and how old a text may be.
const INTEREST: Duration = Duration::from_secs(5);
const FRESH: Duration = Duration::from_secs(2);

/// The collector to look at.
#[derive(Clone)]
pub struct Source {
    /// Its address.
    pub address: SocketAddr,
    /// Its secret.
    pub token: Option<Token>,
}

impl Source {
    /// Calls `tick` after every tick, for ever; after a break from the next tick on.
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

/// The text of the last tick, as long as somebody asks for it.
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

/// Answers `GET /metrics` on an address. Beyond this machine, who asks shows the bearer token.
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
                said.text = openmetrics::text(stream.cluster(), flows, closing);
                said.written = Some(Instant::now());
                writer.news.notify_all();
            }
        });
    });
    std::thread::spawn(move || {
        server.run(&move |request| match request.name.as_str() {
            "metrics" | "" => board.answer(),
            _ => Answer::words(404, "there is /metrics"),
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

/// Longest post of lines.
const LONGEST_LINES: usize = 4 << 20;
/// Connections of who posts lines, at a time.
const POSTING: usize = 64;

/// Takes `POST /write` of Influx lines on an address, as other tools' collectors send them.
pub fn take_lines(
    address: SocketAddr,
    bearer: Option<String>,
    inlet: Inlet,
) -> io::Result<SocketAddr> {
    let server = Server::open(address, bearer)?.takes(LONGEST_LINES, POSTING);
    let address = server.address();
    // Shared by the threads of the connections.
    let inlet = Mutex::new(inlet);
    std::thread::spawn(move || {
        server.run(&move |request| {
            let body = request.body.as_deref().map(std::str::from_utf8);
            let Some(Ok(text)) = body else {
                return Answer::words(400, "POST lines of text here");
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
                    Answer::words(503, "more lines than can be taken")
                }
                Err(refusal) => Answer::words(400, &format!("found {refusal}")),
            }
        });
    });
    Ok(address)
}

/// Sends Influx lines of every tick to a database's `http://HOST:PORT/PATH`.
pub fn push_lines(
    url: &str,
    cluster: &str,
    source: Source,
    say: impl Fn(String) + Send + 'static,
) -> io::Result<()> {
    let wrong = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("--lines: found {url}, expected http://HOST:PORT/PATH"),
        )
    };
    let (host, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .ok_or_else(wrong)?;
    let (host, path, cluster) = (host.to_owned(), path.to_owned(), cluster.to_owned());
    std::thread::spawn(move || {
        let mut well = true;
        source.follow(|stream, flows, closing| {
            let result = post(
                &host,
                &path,
                &lines::text(&cluster, stream.cluster(), flows, closing),
            );
            match result {
                Ok(()) => well = true,
                Err(error) if std::mem::replace(&mut well, false) => {
                    say(format!("lines to {host}: {error}"));
                }
                Err(_) => {}
            }
        });
    });
    Ok(())
}

fn post(host: &str, path: &str, body: &str) -> io::Result<()> {
    let no = || io::Error::new(io::ErrorKind::NotFound, "no address");
    let address = host.to_socket_addrs()?.next().ok_or_else(no)?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    write!(
        stream,
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = [0; 64];
    let n = stream.read(&mut answer)?;
    let line = String::from_utf8_lossy(&answer[..n]).into_owned();
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(io::Error::other(format!(
            "found {:?}, expected status 2xx",
            line.lines().next().unwrap_or_default()
        ))),
    }
}
