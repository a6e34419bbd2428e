//! The client's side of the NATS protocol: lines of text, with payloads counted in bytes.
//!
//! Reference: "NATS Client Protocol" in the NATS documentation. Pure: no sockets here.

use super::url::Url;
use crate::Refusal;
use serde_json::json;

/// Maximum length of a line from a server (its INFO lists every server of a cluster).
const LONGEST_LINE: usize = 64 * 1024;
/// Maximum length of a payload.
const LONGEST_PAYLOAD: usize = 8 << 20;

/// A published message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its subject.
    pub subject: &'a str,
    /// Number of the subscription.
    pub id: u64,
    /// Subject for answers.
    pub reply: Option<&'a str>,
    /// Status of a message from the server itself (100: heartbeat, 503: no subscribers).
    pub status: Option<u16>,
    /// Content.
    pub payload: &'a [u8],
}

/// An operation from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Server information, JSON.
    Info(&'a str),
    /// A message.
    Message(Message<'a>),
    /// Liveness check of the client.
    Ping,
    /// Answer to a ping.
    Pong,
    /// Success of an operation.
    Ok,
    /// Failure of an operation, with the reason.
    Error(&'a str),
}

/// The first complete operation of `bytes` and its length; `None` if more bytes are needed.
pub fn next(bytes: &[u8]) -> Result<Option<(Op<'_>, usize)>, Refusal> {
    let Some(end) = memchr(bytes) else {
        if bytes.len() > LONGEST_LINE {
            return Err(Refusal::new("a line that does not end"));
        }
        return Ok(None);
    };
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| unknown(&bytes[..end]))?;
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let whole = end + 2;
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    let op = if is("MSG") || is("HMSG") {
        return message(bytes, rest, whole, is("HMSG"));
    } else if is("INFO") {
        Op::Info(rest.trim())
    } else if is("PING") {
        Op::Ping
    } else if is("PONG") {
        Op::Pong
    } else if is("+OK") {
        Op::Ok
    } else if is("-ERR") {
        Op::Error(rest.trim().trim_matches('\''))
    } else {
        return Err(unknown(&bytes[..end]));
    };
    Ok(Some((op, whole)))
}

/// `SUBJECT ID [REPLY] [HEADER BYTES] BYTES`, then the payload.
fn message<'a>(
    bytes: &'a [u8],
    rest: &'a str,
    start: usize,
    has_header: bool,
) -> Result<Option<(Op<'a>, usize)>, Refusal> {
    let wrong = || unknown(rest.as_bytes());
    let mut words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let mut number = || words.pop().and_then(|w| w.parse::<usize>().ok());
    let length = number().ok_or_else(wrong)?;
    let header = if has_header {
        number().ok_or_else(wrong)?
    } else {
        0
    };
    let (&[subject, id] | &[subject, id, _]) = &words[..] else {
        return Err(wrong());
    };
    let id = id.parse().map_err(|_| wrong())?;
    if length > LONGEST_PAYLOAD || header > length {
        return Err(Refusal::new(format!(
            "a message of {length} bytes, the maximum is {LONGEST_PAYLOAD}"
        )));
    }
    let Some(content) = bytes.get(start..start + length + 2) else {
        return Ok(None);
    };
    let (head, payload) = content[..length].split_at(header);
    // "NATS/1.0 503", then header fields that are not used here.
    let status = head
        .strip_prefix(b"NATS/1.0 ")
        .and_then(|s| std::str::from_utf8(s.get(..3)?).ok()?.parse().ok());
    let message = Message {
        subject,
        id,
        reply: words.get(2).copied(),
        status,
        payload,
    };
    Ok(Some((Op::Message(message), start + length + 2)))
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n")
}

fn unknown(line: &[u8]) -> Refusal {
    let line = String::from_utf8_lossy(&line[..line.len().min(40)]);
    Refusal::new(format!("{line:?}, expected a NATS server"))
}

/// Appends the answer to the server's INFO: CONNECT and a ping, whose pong confirms the connection.
pub fn greet(info: &str, url: &Url, name: &str, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let info: serde_json::Value =
        serde_json::from_str(info).map_err(|_| unknown(info.as_bytes()))?;
    let says = |word: &str| info.get(word).and_then(serde_json::Value::as_bool) == Some(true);
    if says("tls_required") && !url.tls {
        return Err(Refusal::new(
            "a NATS server that requires TLS, expected tls://HOST and --tls-ca FILE",
        ));
    }
    if url.tls && !says("tls_required") && !says("tls_available") {
        return Err(Refusal::new(format!(
            "a NATS server without TLS, which {url:?} requires"
        )));
    }
    connect(url, name, out);
    Ok(())
}

fn connect(url: &Url, name: &str, out: &mut Vec<u8>) {
    let mut options = json!({
        "verbose": false, "pedantic": false, "headers": true, "no_responders": true, "protocol": 1,
        "lang": "hopbyte", "version": env!("CARGO_PKG_VERSION"), "name": name, "echo": false,
    });
    match (&url.user, &url.password) {
        (Some(user), Some(password)) => {
            options["user"] = user.as_str().into();
            options["pass"] = password.as_str().into();
        }
        (Some(token), None) => options["auth_token"] = token.as_str().into(),
        (None, _) => {}
    }
    out.extend_from_slice(format!("CONNECT {options}\r\n").as_bytes());
    ping(out);
}

/// Appends a ping.
pub fn ping(out: &mut Vec<u8>) {
    out.extend_from_slice(b"PING\r\n");
}

/// Appends the answer to a ping.
pub fn pong(out: &mut Vec<u8>) {
    out.extend_from_slice(b"PONG\r\n");
}

/// Appends a subscription.
pub fn subscribe(subject: &str, id: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("SUB {subject} {id}\r\n").as_bytes());
}

/// Appends a message.
pub fn publish(subject: &str, reply: Option<&str>, payload: &[u8], out: &mut Vec<u8>) {
    let n = payload.len();
    let line = match reply {
        Some(reply) => format!("PUB {subject} {reply} {n}\r\n"),
        None => format!("PUB {subject} {n}\r\n"),
    };
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn operations_are_found_whole() {
        let text = b"INFO {\"a\":1} \r\nPING\r\n+OK\r\n-ERR 'Authorization Violation'\r\n\
            MSG hopbyte.c.1 7 3\r\na\r\n\r\nMSG x 8 reply.to 0\r\n\r\n\
            HMSG in 9 16 18\r\nNATS/1.0 503\r\n\r\nab\r\n";
        let mut rest = &text[..];
        let mut ops = Vec::new();
        while let Some((op, whole)) = next(rest).unwrap() {
            ops.push(op);
            rest = &rest[whole..];
        }
        let message = |subject, id, reply, status, payload| {
            Op::Message(Message {
                subject,
                id,
                reply,
                status,
                payload,
            })
        };
        let expected = [
            Op::Info("{\"a\":1}"),
            Op::Ping,
            Op::Ok,
            Op::Error("Authorization Violation"),
            message("hopbyte.c.1", 7, None, None, b"a\r\n"),
            message("x", 8, Some("reply.to"), None, b""),
            message("in", 9, None, Some(503), b"ab"),
        ];
        assert_eq!(ops, expected);
        assert!(rest.is_empty());
    }

    #[test]
    fn what_is_no_server_is_said() {
        let no = |text: &[u8]| next(text).unwrap_err().to_string();
        assert_eq!(
            no(b"HTTP/1.1 400 Bad\r\n"),
            "\"HTTP/1.1 400 Bad\", expected a NATS server"
        );
        assert!(no(b"MSG a 1 99999999999\r\n").contains("bytes"));
        assert!(no(&[b'x'; LONGEST_LINE + 1]).contains("does not end"));
        assert!(next(b"MSG a 1 5\r\nab").unwrap().is_none());
    }

    #[test]
    fn secrets_go_where_they_belong() {
        let said = |url: &str| {
            let mut out = Vec::new();
            connect(&Url::parse(url).unwrap(), "n1", &mut out);
            String::from_utf8(out).unwrap()
        };
        let text = said("nats://a:b@h");
        assert!(text.contains("\"user\":\"a\"") && text.contains("\"pass\":\"b\""));
        assert!(said("nats://t@h").contains("\"auth_token\":\"t\""));
        assert!(!said("nats://h").contains("auth_token"));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes: Vec<u8>, cut in 0usize..60) {
            let _ = next(&bytes);
            let mut framed = b"HMSG a 1 x 12 40\r\n".to_vec();
            framed.splice(cut.min(framed.len()).., bytes);
            let _ = next(&framed);
        }
    }
}
