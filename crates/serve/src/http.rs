//! A minimal HTTP/1.1 server for the live page and the oracle: GET, optional POST with a body, tokens,
//! bounds on all sizes and times.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum length of a request head.
const LONGEST: usize = 8 * 1024;
/// Default maximum number of connections; further ones receive status 503.
const MOST: usize = 16;
/// Size in bytes of a large request, and the maximum number of concurrent large requests.
pub const LARGE: usize = 64 * 1024;
const MOST_LARGE: usize = 8;
/// Timeout for a client's request, and for reading the answer.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// An authorised request.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// Last component of the path: proxies may add a prefix.
    pub name: String,
    /// Query, the text after the question mark.
    pub query: String,
    /// Body of a POST; `None` for GET.
    pub body: Option<Vec<u8>>,
}

/// Bound on concurrent large requests, which limits their memory.
#[derive(Debug, Default)]
pub struct Room(AtomicUsize);

/// A large request's share of the [`Room`], until it is dropped.
pub struct Taken<'a>(&'a Room);

impl Room {
    /// Takes a share; `None` if all are taken.
    pub fn take(&self) -> Option<Taken<'_>> {
        let taken = Taken(self);
        (self.0.fetch_add(1, Ordering::AcqRel) < MOST_LARGE).then_some(taken)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Request {
    /// The value of a query parameter.
    pub fn value(&self, key: &str) -> Option<&str> {
        value(&self.query, key)
    }
}

/// A listener that answers clients with its token.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    token: Option<String>,
    connections: usize,
    longest_body: usize,
    room: Room,
}

impl Server {
    /// Listens on a port of 127.0.0.1; 0 selects a free one.
    pub fn bind(port: u16, token: String) -> io::Result<Self> {
        Self::open((Ipv4Addr::LOCALHOST, port).into(), Some(token))
    }

    /// Listens on an address. Without a token all clients are answered, and the address must be a loopback
    /// address.
    pub fn open(address: SocketAddr, token: Option<String>) -> io::Result<Self> {
        if token.is_none() && !address.ip().is_loopback() {
            let text = format!("answering on {address}, which others can reach, needs a token");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let listener = TcpListener::bind(address)?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            token,
            connections: MOST,
            longest_body: 0,
            room: Room::default(),
        })
    }

    /// Sets the maximum length of a body and the maximum number of connections.
    pub fn takes(mut self, longest_body: usize, connections: usize) -> Self {
        (self.longest_body, self.connections) = (longest_body, connections);
        self
    }

    /// Address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL for a browser.
    pub fn url(&self) -> String {
        match &self.token {
            Some(token) => format!("http://{}/?token={token}", self.address),
            None => format!("http://{}/", self.address),
        }
    }

    /// Serves until the process ends.
    pub fn run(&self, answer: &(dyn Fn(&Request) -> Answer + Sync)) {
        let busy = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for stream in self.listener.incoming() {
                // A connection that failed before `accept` needs no answer.
                let Ok(stream) = stream else { continue };
                if busy.fetch_add(1, Ordering::AcqRel) >= self.connections {
                    refuse(stream);
                    busy.fetch_sub(1, Ordering::AcqRel);
                    continue;
                }
                let busy = &busy;
                scope.spawn(move || {
                    // The client disconnected or timed out: no answer is possible.
                    let _ = self.serve(stream, answer);
                    busy.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
    }

    fn serve(
        &self,
        mut stream: TcpStream,
        answer: &(dyn Fn(&Request) -> Answer + Sync),
    ) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (head, rest) = match read_head(&mut stream)? {
            Some(found) => found,
            None => return write(&mut stream, &Answer::words(431, "request too long"), None),
        };
        match parse(&head, self.token.as_deref(), self.longest_body) {
            Ok((mut request, length)) => {
                let _large = match (length > LARGE).then(|| self.room.take()) {
                    Some(None) => return write(&mut stream, &busy(), None),
                    taken => taken,
                };
                if let Some(body) = &mut request.body {
                    *body = read_body(&mut stream, rest, length)?;
                }
                let cookie = self.token.as_deref();
                let cookie = cookie.filter(|_| request.value("token").is_some());
                write(&mut stream, &answer(&request), cookie)
            }
            Err(refusal) => write(&mut stream, &refusal, None),
        }
    }
}

fn refuse(mut stream: TcpStream) {
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let _ = write(
        &mut stream,
        &Answer::words(503, "too many connections"),
        None,
    );
}

fn busy() -> Answer {
    Answer::words(503, "too many large requests at a time")
}

/// Reads a request with its body from bytes, as from a client; the error is the status of the refusal, or that
/// of the connection.
pub fn read(
    mut client: &[u8],
    token: Option<&str>,
    longest_body: usize,
) -> io::Result<Result<Request, u16>> {
    let Some((head, rest)) = read_head(&mut client)? else {
        return Ok(Err(431));
    };
    let (mut request, length) = match parse(&head, token, longest_body) {
        Ok(parsed) => parsed,
        Err(refusal) => return Ok(Err(refusal.status)),
    };
    if let Some(body) = &mut request.body {
        *body = read_body(&mut client, rest, length)?;
    }
    Ok(Ok(request))
}

/// Reads the body; `body` holds its bytes that were received with the head.
fn read_body(stream: &mut impl Read, mut body: Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + 4 * PATIENCE;
    body.truncate(length);
    let mut part = vec![0; LARGE.min(length)];
    while body.len() < length {
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let most = part.len().min(length - body.len());
        match stream.read(&mut part[..most])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => body.extend_from_slice(&part[..n]),
        }
    }
    Ok(body)
}

/// Reads the head up to its empty line, and the bytes received after it; `None` if it is too long.
fn read_head(stream: &mut impl Read) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        if let Some(end) = head.windows(4).position(|w| w == b"\r\n\r\n") {
            let rest = head.split_off(end + 4);
            return Ok(Some((head, rest)));
        }
        if head.len() >= LONGEST {
            return Ok(None);
        }
        // One deadline for the whole head: a slow client must not hold the connection.
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => head.extend_from_slice(&part[..n]),
        }
    }
}

/// Parses the request and the length of its body; the error is the answer to an invalid or unauthorised one.
fn parse(
    head: &[u8],
    token: Option<&str>,
    longest_body: usize,
) -> Result<(Request, usize), Answer> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let whole = parsed.parse(head).is_ok_and(|status| status.is_complete());
    let (Some(method), Some(target), true) = (parsed.method, parsed.path, whole) else {
        return Err(Answer::words(400, "not an HTTP request"));
    };
    let posted = method == "POST" && longest_body > 0;
    if method != "GET" && !posted {
        return Err(Answer::words(405, "GET only"));
    }
    let mut lengths = parsed
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("content-length"))
        .map(|header| {
            std::str::from_utf8(header.value)
                .ok()?
                .parse::<usize>()
                .ok()
        });
    let length = match (lengths.next().filter(|_| posted), lengths.next()) {
        (None, _) if posted => return Err(Answer::words(411, "missing Content-Length")),
        (None, _) => 0,
        (Some(Some(length)), None) if length <= longest_body => length,
        (Some(Some(_)), None) => return Err(Answer::words(413, "the body is too long")),
        _ => return Err(Answer::words(400, "not an HTTP request")),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let shown = |shown: &str| token.is_none_or(|token| same(shown, token));
    let cookie = parsed
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("cookie"))
        .filter_map(|header| std::str::from_utf8(header.value).ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().strip_prefix("hopbyte="))
        .any(shown);
    let bearer = parsed
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("authorization"))
        .filter_map(|header| std::str::from_utf8(header.value).ok())
        .any(|value| value.strip_prefix("Bearer ").is_some_and(shown));
    let known = token.is_none() || cookie || bearer || value(query, "token").is_some_and(shown);
    if !known {
        let text = "missing or wrong token: open the address that hopbyte printed";
        return Err(Answer::words(403, text));
    }
    let request = Request {
        name: path.rsplit('/').next().unwrap_or_default().into(),
        query: query.into(),
        body: posted.then(Vec::new),
    };
    Ok((request, length))
}

fn value<'a>(query: &'a str, key: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(name, value)| (name == key).then_some(value))
}

/// Constant-time comparison.
fn same(shown: &str, token: &str) -> bool {
    let (shown, token) = (shown.as_bytes(), token.as_bytes());
    let differing = shown.iter().zip(token).fold(0, |d, (a, b)| d | (a ^ b));
    shown.len() == token.len() && differing == 0
}

fn write(stream: &mut TcpStream, answer: &Answer, cookie: Option<&str>) -> io::Result<()> {
    let reason = match answer.status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        411 => "Length Required",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Error",
    };
    let cookie = cookie.map_or(String::new(), |token| {
        format!("Set-Cookie: hopbyte={token}; HttpOnly; SameSite=Strict\r\n")
    });
    let head = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{cookie}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n",
        answer.status,
        answer.kind,
        answer.body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&answer.body)?;
    stream.flush()
}

/// A random token: 128 bits from the operating system.
pub fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(head: &str) -> Result<Request, u16> {
        let parsed = parse(head.as_bytes(), Some("secret"), 0);
        parsed.map(|(r, _)| r).map_err(|answer| answer.status)
    }

    #[test]
    fn posts_say_their_length_and_keep_to_the_limit() {
        let length = |head: &str| {
            let parsed = parse(head.as_bytes(), None, 100);
            parsed.map(|(_, n)| n).map_err(|answer| answer.status)
        };
        assert_eq!(
            length("POST /ask HTTP/1.1\r\nContent-Length: 100\r\n\r\n"),
            Ok(100)
        );
        for (head, status) in [
            ("POST /ask HTTP/1.1\r\n\r\n", 411),
            ("POST /ask HTTP/1.1\r\nContent-Length: 101\r\n\r\n", 413),
            ("POST /ask HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                400,
            ),
            ("PUT /ask HTTP/1.1\r\nContent-Length: 1\r\n\r\n", 405),
        ] {
            assert_eq!(length(head), Err(status), "{head}");
        }
    }

    #[test]
    fn room_for_large_requests_is_bounded_and_given_back() {
        let room = Room::default();
        let taken: Vec<_> = (0..MOST_LARGE).filter_map(|_| room.take()).collect();
        assert_eq!(taken.len(), MOST_LARGE);
        assert!(room.take().is_none());
        drop(taken);
        assert!(room.take().is_some());
    }

    #[test]
    fn only_those_who_know_the_token_are_let_in() {
        let ok = parsed("GET /a/proxy/state?since=3&token=secret HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!((ok.name.as_str(), ok.value("since")), ("state", Some("3")));
        let cookie = "GET / HTTP/1.1\r\nHost: x\r\ncookie: a=b; hopbyte=secret\r\n\r\n";
        assert_eq!(parsed(cookie).unwrap().name, "");
        for head in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET /?token= HTTP/1.1\r\n\r\n",
            "GET /?token=secre HTTP/1.1\r\n\r\n",
            "GET /?token=secrets HTTP/1.1\r\n\r\n",
            "GET /?token=Secret HTTP/1.1\r\nCookie: hopbyte=\r\n\r\n",
        ] {
            assert_eq!(parsed(head), Err(403), "{head}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        assert_eq!(parsed("POST /?token=secret HTTP/1.1\r\n\r\n"), Err(405));
        assert_eq!(parsed("GET /?token=secret SPDY/3\r\n\r\n"), Err(400));
        assert_eq!(parsed("\r\n\r\n"), Err(400));
        assert_eq!(parsed("GET  / HTTP/1.1\r\n\r\n"), Err(400));
    }

    #[test]
    fn tokens_differ_and_are_long() {
        let (a, b) = (token().unwrap(), token().unwrap());
        assert_eq!(a.len(), 32);
        assert_ne!(a, b);
    }
}
