//! The oracle's Unix socket: one request per line, answered in order.

use super::seats::Seat;
use super::service::{answer, parsed, reserve};
use super::{Answer, HEAD, Hall, LARGE, ROOM, Request, transfer};
use hopbyte_observe::oracle::{Ask, LONGEST_LINE, MOST_PAIRS};
use std::io;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// Idle timeout of a connection.
const IDLE: Duration = Duration::from_secs(3600);
/// Time to read a question, beyond that of [`transfer`].
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers all connections without end.
pub async fn serve(listener: UnixListener, hall: Arc<Hall>) {
    let ready = listener.set_nonblocking(true);
    let Ok(listener) = ready.and_then(|()| tokio::net::UnixListener::from_std(listener)) else {
        return;
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            hall.locals.evict();
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Some(seat) = hall.locals.enter(IDLE) else {
            continue;
        };
        let hall = hall.clone();
        tokio::spawn(async move {
            seat.hold(async {
                // The client disconnected: no answer is possible.
                let _ = converse(stream, &hall, &seat).await;
            })
            .await;
        });
    }
}

/// Answers the requests of a connection in order.
async fn converse(stream: UnixStream, hall: &Hall, seat: &Seat) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(LARGE, stream);
    loop {
        seat.waits(IDLE);
        if stream.fill_buf().await?.is_empty() {
            return Ok(());
        }
        seat.admitted(PATIENCE);
        let mut line = Vec::new();
        let mut part = (&mut stream).take(LARGE as u64);
        part.read_until(b'\n', &mut line).await?;
        let mut rooms = Vec::new();
        if line.last() != Some(&b'\n') {
            if line.len() < LARGE {
                return Ok(());
            }
            match reserve(hall, &hall.bodies, ROOM).await {
                Ok(room) => rooms.push(room),
                Err(refusal) => return refuse(&mut stream, refusal).await,
            }
            seat.admitted(transfer(LONGEST_LINE));
            let mut part = (&mut stream).take((LONGEST_LINE - LARGE) as u64);
            part.read_until(b'\n', &mut line).await?;
            if line.last() != Some(&b'\n') {
                let refusal = Answer::words(413, "a line that is too long or incomplete");
                return refuse(&mut stream, refusal).await;
            }
        }
        // A request that cannot be read is answered as such, and no pairs follow it.
        let pairs = Ask::read(&line)
            .ok()
            .and_then(|ask| ask.packed)
            .unwrap_or(0);
        if pairs > MOST_PAIRS {
            let text = format!("{pairs} pairs, the maximum is {MOST_PAIRS}");
            return refuse(&mut stream, Answer::words(413, &text)).await;
        }
        if rooms.is_empty() && 8 * pairs > LARGE {
            match reserve(hall, &hall.bodies, parsed(8 * pairs)).await {
                Ok(room) => rooms.push(room),
                Err(refusal) => return refuse(&mut stream, refusal).await,
            }
        }
        seat.admitted(PATIENCE + transfer(8 * pairs));
        let start = line.len();
        line.resize(start + 8 * pairs, 0);
        stream.read_exact(&mut line[start..]).await?;
        let request = Request {
            name: "ask".into(),
            body: Some(line),
            granted: LARGE,
            ..Request::default()
        };
        let (answer, _room) = answer(hall, seat, request).await;
        drop(rooms);
        if answer.kind.starts_with("text/plain") {
            return refuse(&mut stream, answer).await;
        }
        seat.admitted(PATIENCE + transfer(answer.body.len()));
        stream.write_all(&answer.body).await?;
    }
}

/// A refusal in the form of answers, after which the connection ends.
async fn refuse(stream: &mut BufReader<UnixStream>, refusal: Answer) -> io::Result<()> {
    let text = String::from_utf8_lossy(&refusal.body);
    let line = serde_json::json!({
        "schema": hopbyte_observe::oracle::SCHEMA,
        "version": 0,
        "time_seconds": null,
        "error": text.trim_end(),
    });
    let line = format!("{line}\n");
    let written = tokio::time::timeout(HEAD, stream.write_all(line.as_bytes())).await;
    written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
