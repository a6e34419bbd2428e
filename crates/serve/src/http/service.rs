//! Connections over TCP: TLS, one request, one answer.

use super::access::Entry;
use super::seats::Seat;
use super::{Answer, HEAD, Hall, LARGE, PERMIT, ROOM, Request, WAIT, WORK, transfer};
use hopbyte_collect::renewed::Renewed;
use hopbyte_collect::tls::Identity;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

/// Maximum length of a request's head.
const LONGEST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;

/// Accepts connections without end.
pub async fn serve(
    listener: TcpListener,
    identity: Option<Identity>,
    hall: Arc<Hall>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let tls = identity.as_ref().map(|one| TlsAcceptor::from(one.config()));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // For example too many open files: make room, and pause instead of a busy loop.
            hall.guests.evict();
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if let Some(text) = identity.as_ref().and_then(Identity::news) {
            eprintln!("hopbyte: {text}");
        }
        let Some(seat) = hall.guests.enter(HEAD) else {
            continue;
        };
        let (hall, tls) = (hall.clone(), tls.clone());
        tokio::spawn(async move {
            let seat = Arc::new(seat);
            let held = seat.clone();
            held.hold(async move {
                match tls {
                    None => converse(stream, &hall, &seat).await,
                    // A client that does not complete the handshake gets no answer.
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            converse(stream, &hall, &seat).await;
                        }
                    }
                }
            })
            .await;
        });
    }
}

async fn converse<S>(stream: S, hall: &Arc<Hall>, seat: &Arc<Seat>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(|request: hyper::Request<Incoming>| async {
        let (head, body) = request.into_parts();
        let response = exchange(hall, seat, &head, body).await;
        Ok::<_, Infallible>(response)
    });
    // Without keep-alive: a connection holds no place between requests.
    let connection = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .half_close(true)
        .header_read_timeout(None)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    // The client disconnected or sent no HTTP: no answer is possible.
    let _ = connection.await;
}

/// Bytes of an answer and their share of the room, released when the socket has taken them.
struct Held {
    bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

async fn exchange(
    hall: &Arc<Hall>,
    seat: &Seat,
    head: &Parts,
    body: Incoming,
) -> Response<Full<Bytes>> {
    match hall.access.admit(head) {
        Err(refusal) => {
            hall.counts.refused.fetch_add(1, Ordering::Relaxed);
            response(refusal, None)
        }
        Ok(Entry::SignIn(cookie)) => redirect(head, &cookie),
        Ok(Entry::Answer) => {
            seat.admitted(HEAD);
            match request(hall, seat, head, body).await {
                Ok((request, _body_room)) => {
                    let (answer, room) = answer(hall, seat, request).await;
                    seat.admitted(transfer(answer.body.len()));
                    response(answer, room)
                }
                Err(refusal) => response(refusal, None),
            }
        }
    }
}

/// Reads an admitted request; its body's share of the room is held until the answer is computed.
async fn request(
    hall: &Hall,
    seat: &Seat,
    head: &Parts,
    body: Incoming,
) -> Result<(Request, Option<OwnedSemaphorePermit>), Answer> {
    let path = head.uri.path();
    let mut request = Request {
        name: path.rsplit('/').next().unwrap_or_default().into(),
        query: head.uri.query().unwrap_or_default().into(),
        body: None,
        granted: LARGE,
    };
    if head.method == Method::GET {
        return Ok((request, None));
    }
    if head.method != Method::POST || hall.longest_body == 0 {
        return Err(Answer::words(405, "GET only"));
    }
    let Some(length) = body.size_hint().exact() else {
        return Err(Answer::words(411, "missing Content-Length"));
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > hall.longest_body {
        return Err(Answer::words(413, "the body is too long"));
    }
    let room = match length > LARGE {
        true => reserve(hall, &hall.bodies, parsed(length)).await?,
        false => None,
    };
    seat.admitted(transfer(length));
    let read = Limited::new(body, length).collect().await;
    let read = read.map_err(|_| Answer::words(400, "the body is not as long as stated"))?;
    request.body = Some(read.to_bytes().into());
    Ok((request, room))
}

/// Bytes in memory for a body of JSON with its parsed form: a pair `[1,2],` takes 48.
pub fn parsed(length: usize) -> usize {
    length.saturating_mul(9)
}

/// Computes an answer, with a share of the room if it is large.
pub async fn answer(
    hall: &Hall,
    seat: &Seat,
    request: Request,
) -> (Answer, Option<OwnedSemaphorePermit>) {
    seat.admitted(WORK);
    let busy = |hall: &Hall| {
        hall.counts.shed.fetch_add(1, Ordering::Relaxed);
        (
            Answer::words(503, "too many requests wait for an answer"),
            None,
        )
    };
    let Some((mut request, first)) = hall.queue.ask(request).await else {
        return busy(hall);
    };
    let needs = match first {
        Ok(answer) => return (answer, None),
        Err(needs) => needs,
    };
    let room = match reserve(hall, &hall.answers, needs.0).await {
        Ok(room) => room,
        Err(refusal) => return (refusal, None),
    };
    request.granted = needs.0;
    match hall.queue.ask(request).await {
        Some((_, Ok(answer))) => (answer, room),
        Some((_, Err(_))) => (Answer::words(503, "the answer needs more room"), None),
        None => busy(hall),
    }
}

/// A share of the room for `bytes`; none is needed up to [`LARGE`], and all of it for more than it holds.
///
/// # Errors
/// The answer that refuses the request: no room within [`WAIT`].
pub async fn reserve(
    hall: &Hall,
    room: &Arc<Semaphore>,
    bytes: usize,
) -> Result<Option<OwnedSemaphorePermit>, Answer> {
    if bytes <= LARGE {
        return Ok(None);
    }
    let permits = bytes.min(ROOM).div_ceil(PERMIT) as u32;
    match tokio::time::timeout(WAIT, room.clone().acquire_many_owned(permits)).await {
        Ok(Ok(permit)) => Ok(Some(permit)),
        _ => {
            hall.counts.shed.fetch_add(1, Ordering::Relaxed);
            Err(Answer::words(503, "too many large requests at a time"))
        }
    }
}

fn response(answer: Answer, room: Option<OwnedSemaphorePermit>) -> Response<Full<Bytes>> {
    let bytes = Bytes::from_owner(Held {
        bytes: answer.body,
        _room: room,
    });
    let mut response = Response::new(Full::new(bytes));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if answer.status == 503 {
        headers.insert("retry-after", HeaderValue::from_static("1"));
    }
    if answer.status == 401 {
        headers.insert("www-authenticate", HeaderValue::from_static("Bearer"));
    }
    response
}

/// To the same path without the token, so that no history or log keeps it.
fn redirect(head: &Parts, cookie: &str) -> Response<Full<Bytes>> {
    let mut response = response(Answer::words(303, "signed in"), None);
    // Relative to the last component: proxies may add a prefix.
    let name = head.uri.path().rsplit('/').next().unwrap_or_default();
    let place = HeaderValue::from_str(&format!("./{name}"));
    let cookie = HeaderValue::from_str(cookie);
    if let (Ok(place), Ok(cookie)) = (place, cookie) {
        response.headers_mut().insert(LOCATION, place);
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Reads a request from bytes, as from a client that then waits for its answer: the request if it was admitted, or
/// the status of the refusal.
///
/// # Errors
/// The bytes are no complete request, and the connection ended without an answer.
pub fn read(
    client: &[u8],
    token: Option<&str>,
    longest_body: usize,
) -> io::Result<Result<Request, u16>> {
    let counts = Arc::default();
    let (mut workers, queue) = super::workers::Workers::new();
    let hall = Hall {
        access: super::access::Access::new(
            token.map(|token| Arc::new(Renewed::fixed(vec![token.into()]))),
            Vec::new(),
            false,
        ),
        longest_body,
        bodies: Arc::new(Semaphore::new(ROOM / PERMIT)),
        answers: Arc::new(Semaphore::new(ROOM / PERMIT)),
        guests: super::Seats::new(1, Arc::clone(&counts)),
        locals: super::Seats::new(1, Arc::clone(&counts)),
        queue,
        counts,
    };
    let hall = Arc::new(hall);
    let seat = hall.guests.enter(HEAD).map(Arc::new);
    let seat = seat.ok_or(io::ErrorKind::WouldBlock)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let (near, far) = tokio::io::duplex(client.len().max(1024));
    let (mut answers, mut asks) = tokio::io::split(near);
    let mut seen = None;
    let mut said = Vec::new();
    runtime.block_on(async {
        let connection = converse(far, &hall, &seat);
        let client = async {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            asks.write_all(client).await?;
            asks.shutdown().await?;
            answers.read_to_end(&mut said).await
        };
        let work = async {
            loop {
                seen = seen.take().or(workers.answer_one());
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = async { tokio::join!(connection, client) } => {}
            () = work => {}
        }
    });
    let status = || std::str::from_utf8(said.get(9..12)?).ok()?.parse().ok();
    match (seen, status()) {
        (Some(request), _) => Ok(Ok(request)),
        (None, Some(status)) => Ok(Err(status)),
        (None, None) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
