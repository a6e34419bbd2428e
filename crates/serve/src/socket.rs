//! The oracle's Unix socket: one request per line, answered in order.

use crate::desk::Desk;
use crate::http::LARGE;
use anyhow::{Result, bail};
use hopbyte_job::Lacking;
use hopbyte_observe::oracle::{Ask, LONGEST_LINE, MOST_PAIRS};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Maximum number of connections, on the socket and over HTTP each.
pub const CONNECTIONS: usize = 256;
/// Idle timeout of a connection, and timeout for reading an answer.
const IDLE: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(30);

const BUSY: &str = "too many large requests at a time";

/// Listens on a socket. A stale socket of a killed oracle is replaced, a live one is not.
///
/// # Errors
/// Another process listens on the socket, or the path cannot be bound.
pub fn bind(path: &Path) -> Result<UnixListener> {
    let name = path.display();
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            bail!("--socket: found a file {name}, expected a socket or nothing");
        }
        if UnixStream::connect(path).is_ok() {
            return Err(Lacking(format!("{name}: another process listens on it")).into());
        }
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path).map_err(|e| Lacking(format!("{name}: {e}")).into())
}

/// Answers all connections without end.
pub fn serve(listener: &UnixListener, desk: &Desk) {
    let busy = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else {
                // For example too many open files: pause instead of a busy loop.
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            if busy.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS {
                busy.fetch_sub(1, Ordering::AcqRel);
                let _ = stream.write_all(&desk.refuse("too many connections").bytes());
                continue;
            }
            let busy = &busy;
            scope.spawn(move || {
                // The client disconnected or timed out: no answer is possible.
                let _ = converse(stream, desk);
                busy.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
}

/// Answers the requests of a connection in order.
fn converse(stream: UnixStream, desk: &Desk) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut out = stream.try_clone()?;
    let mut stream = BufReader::with_capacity(LARGE, stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        line.shrink_to(LARGE);
        (&mut stream)
            .take(LARGE as u64)
            .read_until(b'\n', &mut line)?;
        let mut large = None;
        if line.last() != Some(&b'\n') {
            if line.len() < LARGE {
                return Ok(());
            }
            large = desk.room.take();
            if large.is_none() {
                return out.write_all(&desk.refuse(BUSY).bytes());
            }
            let more = (LONGEST_LINE - LARGE) as u64;
            (&mut stream).take(more).read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                return out
                    .write_all(&desk.refuse("a line that is too long or incomplete").bytes());
            }
        }
        let answered = match Ask::read(&line) {
            Ok(ask) => match ask.packed {
                Some(n) => {
                    if n > MOST_PAIRS {
                        let text = format!("{n} pairs, the maximum is {MOST_PAIRS}");
                        return out.write_all(&desk.refuse(&text).bytes());
                    }
                    if large.is_none() && 8 * n > LARGE {
                        large = desk.room.take();
                        if large.is_none() {
                            return out.write_all(&desk.refuse(BUSY).bytes());
                        }
                    }
                    let mut packed = vec![0; 8 * n];
                    stream.read_exact(&mut packed)?;
                    desk.ask(&ask, &packed)
                }
                None => desk.ask(&ask, &[]),
            },
            Err(error) => desk.refuse(&error),
        };
        out.write_all(&answered.bytes())?;
        drop(large);
    }
}
