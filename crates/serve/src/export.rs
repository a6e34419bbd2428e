//! Exports of a running collector: OpenMetrics over HTTP, and Influx lines sent to a database.
//!
//! Both are viewers of the collector in their own threads, so that a slow client does not delay the
//! collector.

use crate::http::{Answer, Counts, Needs, Request, Server, Setup};
use hopbyte_collect::block::{Closing, Cluster};
use hopbyte_collect::export::lines::Lines;
use hopbyte_collect::export::openmetrics::{self, Own};
use hopbyte_collect::flows::Flows;
use hopbyte_collect::lines::parse;
use hopbyte_collect::server::{Health, Inlet};
use hopbyte_collect::store::Status;
use hopbyte_collect::stream::Stream;
use hopbyte_collect::wire::Token;
use hopbyte_observe::http::Client;
use hopbyte_observe::secret::{exposed, without_secrets};
use hopbyte_observe::text::excerpt;
use hopbyte_observe::threads;
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
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
    /// The folder of its store.
    pub folder: Option<PathBuf>,
}

impl Source {
    /// Calls `report` after every report and `tick` after every tick without end; reconnects after an error, from the next
    /// tick on, with the same state: increases go on.
    fn follow<T>(
        &self,
        mut state: T,
        report: impl Fn(&mut T, &Cluster, u32),
        tick: impl Fn(&mut T, &Cluster, &Closing),
    ) {
        loop {
            if let Ok(mut stream) =
                Stream::connect(&self.address.to_string(), self.token.as_ref(), None)
            {
                while let Ok(Some(closing)) =
                    stream.next(|cluster, id, _| report(&mut state, cluster, id))
                {
                    tick(&mut state, stream.cluster(), &closing);
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

/// Serves `GET /metrics`, with the collector's own events also while no tick closes.
pub fn serve_metrics(setup: Setup, source: Source, health: Arc<Health>) -> io::Result<String> {
    let server = Server::open(setup)?;
    let url = server.url();
    let counts = server.counts();
    let board = Arc::new(Board::default());
    let writer = board.clone();
    threads::start(move || {
        let tick = |flows: &mut Flows, cluster: &Cluster, closing: &Closing| {
            flows.close(cluster, closing);
            let mut said = writer.state.lock().unwrap_or_else(PoisonError::into_inner);
            if within(said.asked, INTEREST) {
                let counts = source.store.as_ref().map(Status::counts);
                said.text = counts.as_ref().map_or_else(String::new, openmetrics::store);
                said.text += &openmetrics::text(cluster, flows, closing);
                said.written = Some(Instant::now());
                writer.news.notify_all();
            }
        };
        source.follow(Flows::default(), Flows::report, tick);
    })?;
    beside("--metrics", server, move |request| {
        Ok(match request.name.as_str() {
            "metrics" | "" => board.answer(&health, &counts),
            _ => Answer::words(404, "expected /metrics"),
        })
    })?;
    Ok(url)
}

/// Serves in a thread; an end by an error is said.
fn beside(
    option: &'static str,
    server: Server,
    answer: impl Fn(&Request) -> Result<Answer, Needs> + Sync + Send + 'static,
) -> io::Result<()> {
    let serve = move || {
        if let Err(error) = server.run(&answer) {
            eprintln!("hopbyte: {option}: {error}");
        }
    };
    threads::start(serve).map(drop)
}

impl Board {
    fn answer(&self, health: &Health, counts: &Counts) -> Answer {
        let mut said = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        said.asked = Some(Instant::now());
        let waited = self
            .news
            .wait_timeout_while(said, PATIENCE, |s| !within(s.written, FRESH));
        let (said, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut text = if waited.timed_out() {
            String::new()
        } else {
            said.text.clone()
        };
        drop(said);
        let http = [
            (
                "http_refused",
                "HTTP requests without admission",
                &counts.refused,
            ),
            (
                "http_evicted",
                "Waiting HTTP connections closed for new ones",
                &counts.evicted,
            ),
            (
                "http_shed",
                "HTTP requests refused for lack of room",
                &counts.shed,
            ),
            (
                "http_expired",
                "HTTP connections that missed a deadline",
                &counts.expired,
            ),
        ];
        openmetrics::own(health.metrics().iter().copied(), &mut text);
        let http = http.map(|(name, help, count)| Own::counter(name, help, count));
        openmetrics::own(http, &mut text);
        text.push_str(openmetrics::END);
        Answer {
            status: 200,
            kind: openmetrics::CONTENT_TYPE,
            body: text.into_bytes(),
        }
    }
}

/// Maximum length of a post of lines.
const LONGEST_LINES: usize = 4 << 20;

/// Accepts `POST /write` of Influx lines, the format of other tools' collectors. As with InfluxDB, the good lines
/// of a post are kept: status 400 says how many, and why the others were not.
pub fn take_lines(setup: Setup, inlet: Inlet) -> io::Result<String> {
    let server = Server::open(setup)?.takes(LONGEST_LINES);
    let url = server.url();
    beside("--listen-lines", server, move |request| {
        Ok(match &request.body {
            Some(body) => write(&String::from_utf8_lossy(body), &inlet),
            None => Answer::words(400, "expected a POST of lines"),
        })
    })?;
    Ok(url)
}

/// The answer to a post of lines.
#[derive(Serialize)]
struct Written {
    error: String,
    kept: usize,
    refused: usize,
    lines: Vec<String>,
}

fn write(text: &str, inlet: &Inlet) -> Answer {
    let Some(verdict) = inlet.give(parse(text)) else {
        return Answer::words(503, "the collector does not take lines at the moment");
    };
    if verdict.refused == 0 {
        return Answer {
            status: 204,
            ..Answer::words(204, "")
        };
    }
    let written = Written {
        error: format!(
            "partial write: kept {} lines, refused {}: {}",
            verdict.kept,
            verdict.refused,
            verdict.first()
        ),
        kept: verdict.kept,
        refused: verdict.refused,
        lines: verdict.refusals,
    };
    Answer {
        status: 400,
        kind: "application/json",
        body: serde_json::to_vec(&written).unwrap_or_default(),
    }
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
            format!(
                "--lines: found {}, expected http://HOST:PORT/PATH or https://HOST/PATH",
                without_secrets(url)
            ),
        ));
    }
    exposed("--lines", url).into_iter().for_each(&say);
    let (url, cluster) = (url.to_owned(), cluster.to_owned());
    let client = Client::new(POST_PATIENCE, LONGEST_REFUSAL);
    threads::start(move || {
        type State = (Delivery, Lines);
        let report = |(_, lines): &mut State, cluster: &Cluster, id| lines.report(cluster, id);
        let tick = |(delivery, lines): &mut State, cluster: &Cluster, closing: &Closing| {
            let text = lines.close(cluster, closing);
            let posted = post(&client, &url, &text);
            if let Some(said) = delivery.after(posted, text.lines().count() as u64) {
                say(format!("lines to {}: {said}", without_secrets(&url)));
            }
        };
        let mut lines = Lines::new(&cluster, 0);
        if let Some(Err(error)) = source.folder.as_ref().map(|folder| lines.go_on(folder)) {
            say(format!("lines begin without the store: {error}"));
        }
        source.follow((Delivery::default(), lines), report, tick);
    })?;
    Ok(())
}

/// Lines that a database did not take since its last answer of success.
#[derive(Default)]
struct Delivery {
    lost: u64,
    failed: bool,
}

impl Delivery {
    /// What to say after a post of `lines`: the first error, and the number of lost lines once posts succeed again.
    fn after(&mut self, posted: io::Result<()>, lines: u64) -> Option<String> {
        match posted {
            Ok(()) if std::mem::take(&mut self.failed) => {
                let lost = std::mem::take(&mut self.lost);
                Some(format!("taken again; {lost} lines were lost"))
            }
            Ok(()) => None,
            Err(error) => {
                self.lost = self.lost.saturating_add(lines);
                let first = !std::mem::replace(&mut self.failed, true);
                first.then(|| error.to_string())
            }
        }
    }
}

fn post(client: &Client, url: &str, body: &str) -> io::Result<()> {
    let answer = client.post(url, "text/plain", body.as_bytes())?;
    if (200..300).contains(&answer.status) {
        return Ok(());
    }
    let line = answer.body.split(|&b| b == b'\n').next();
    Err(io::Error::other(format!(
        "found status {} {}, expected 2xx",
        answer.status,
        excerpt(line.unwrap_or_default()).escape_debug()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_lines_are_counted_until_posts_succeed_again() {
        let mut delivery = Delivery::default();
        let failed = || Err(io::Error::other("found status 503"));
        assert_eq!(delivery.after(Ok(()), 5), None);
        let said = delivery.after(failed(), 7);
        assert_eq!(said.as_deref(), Some("found status 503"));
        assert_eq!(delivery.after(failed(), 3), None);
        let said = delivery.after(Ok(()), 5);
        assert_eq!(said.as_deref(), Some("taken again; 10 lines were lost"));
        assert_eq!(delivery.after(Ok(()), 5), None);
    }
}
