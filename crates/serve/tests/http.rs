//! The HTTP server under clients that wait, drip, flood or come from elsewhere.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_collect::renewed::Renewed;
use hopbyte_serve::http::{Answer, Counts, LARGE, Needs, ROOM, Request, Server, Setup, read};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TOKEN: &str = "a-token-of-readers";

fn answer(request: &Request) -> Result<Answer, Needs> {
    if request.name == "ask" {
        let line = br#"{"version":1}"#.to_vec();
        return Ok(Answer {
            status: 200,
            kind: "application/json",
            body: [line, b"\n".to_vec()].concat(),
        });
    }
    let sent = request.body.as_ref().map_or(0, Vec::len);
    Ok(Answer::words(200, &format!("{} {sent}", request.name)))
}

/// A server that runs until the test's process ends.
fn serve(tokens: &[&str], socket: Option<&Path>) -> (SocketAddr, Arc<Counts>) {
    let setup = Setup {
        tokens: (!tokens.is_empty()).then(|| {
            let tokens = tokens.iter().map(|&t| t.into()).collect();
            Arc::new(Renewed::fixed(tokens))
        }),
        ..Setup::on("127.0.0.1:0".parse().unwrap())
    };
    let socket = socket.map(|path| UnixListener::bind(path).unwrap());
    let server = Server::open(setup).unwrap().takes(1 << 20).also(socket);
    let (address, counts) = (server.address(), server.counts());
    std::thread::spawn(move || server.run(&answer).unwrap());
    (address, counts)
}

fn send(to: SocketAddr, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{text:?}"));
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.into(),
    )
}

fn get(to: SocketAddr, headers: &str) -> u16 {
    send(
        to,
        &format!("GET /metrics HTTP/1.1\r\nHost: {to}\r\n{headers}\r\n"),
        b"",
    )
    .0
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn idle_connections_keep_no_scrape_from_its_answer() {
    raise_descriptors();
    let (address, counts) = serve(&[TOKEN], None);
    let mut idle: Vec<TcpStream> = (0..900)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let mut statuses = Vec::new();
    for _ in 0..30 {
        statuses.push(get(address, &bearer(TOKEN)));
        // The attacker opens another one for each that is closed.
        idle.extend((0..20).map(|_| TcpStream::connect(address).unwrap()));
    }
    assert_eq!(statuses, [200; 30]);
    assert!(counts.evicted.load(Ordering::Relaxed) > 300);
    assert_eq!(counts.shed.load(Ordering::Relaxed), 0);
}

#[test]
fn idle_connections_of_the_socket_make_room_for_new_ones() {
    raise_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    serve(&[], Some(&path));
    let ask = |stream: &mut UnixStream| {
        stream.write_all(b"{}\n").unwrap();
        let mut said = [0; 14];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"{\"version\":1}\n");
    };
    let mut known = UnixStream::connect(&path).unwrap();
    ask(&mut known);
    let _idle: Vec<UnixStream> = (0..600)
        .map(|_| UnixStream::connect(&path).unwrap())
        .collect();
    for _ in 0..30 {
        ask(&mut UnixStream::connect(&path).unwrap());
    }
    // A client that was answered before is evicted after those that never asked.
    ask(&mut known);
}

#[test]
fn a_client_that_drips_is_cut_off() {
    let (address, counts) = serve(&[], None);
    let start = Instant::now();
    let drip = |text: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let mut room = [0; 64];
        loop {
            let _ = stream.write_all(b"x");
            match stream.read(&mut room) {
                Err(e)
                    if matches!(
                        e.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) => {}
                Ok(0) | Err(_) => return start.elapsed(),
                Ok(_) => {}
            }
            assert!(start.elapsed() < Duration::from_secs(60));
        }
    };
    let head = format!("GET / HTTP/1.1\r\nHost: {address}\r\nX-Long: ");
    let body = format!("POST /write HTTP/1.1\r\nHost: {address}\r\nContent-Length: 9000\r\n\r\n");
    std::thread::scope(|scope| {
        let both = [scope.spawn(|| drip(&head)), scope.spawn(|| drip(&body))];
        for one in both {
            let took = one.join().unwrap();
            assert!(took < Duration::from_secs(12), "{took:?}");
        }
    });
    assert!(counts.expired.load(Ordering::Relaxed) >= 2);
}

#[test]
fn requests_of_foreign_pages_and_without_tokens_are_refused() {
    let (open, counts) = serve(&[], None);
    assert_eq!(get(open, ""), 200);
    let post = |headers: &str| {
        let head =
            format!("POST /write HTTP/1.1\r\nHost: {open}\r\nContent-Length: 3\r\n{headers}\r\n");
        send(open, &head, b"a b").0
    };
    assert_eq!(post(""), 200);
    assert_eq!(post(&format!("Origin: http://{open}\r\n")), 200);
    for foreign in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        assert_eq!(post(foreign), 403, "{foreign}");
        assert_eq!(get(open, foreign), 403, "{foreign}");
    }
    let rebound = "GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n";
    assert_eq!(send(open, rebound, b"").0, 421);
    assert_eq!(counts.refused.load(Ordering::Relaxed), 9);

    let (closed, _) = serve(&[TOKEN, "another-reader-token"], None);
    for (headers, status) in [
        (String::new(), 401),
        (bearer("guess"), 401),
        (bearer(TOKEN), 200),
        (bearer(TOKEN).replace("Bearer", "bearer"), 200),
        (bearer(TOKEN).replace("Bearer", "Basic"), 401),
        (bearer("another-reader-token"), 200),
    ] {
        assert_eq!(get(closed, &headers), status, "{headers}");
    }
    let outside = Setup::on("0.0.0.0:0".parse().unwrap());
    let error = Server::open(outside).err().unwrap().to_string();
    assert!(error.contains("needs a token"), "{error}");
}

#[test]
fn bodies_are_bounded_before_they_are_read() {
    let (address, _) = serve(&[], None);
    let head = |method: &str, length: &str| {
        format!("{method} /write HTTP/1.1\r\nHost: {address}\r\n{length}\r\n")
    };
    let large = vec![b'x'; 1 << 20];
    let length = |n: usize| format!("Content-Length: {n}\r\n");
    assert_eq!(
        send(address, &head("POST", &length(1 << 20)), &large),
        (200, "write 1048576\n".into())
    );
    assert_eq!(
        send(address, &head("POST", &length((1 << 20) + 1)), b"").0,
        413
    );
    assert_eq!(
        send(
            address,
            &head("POST", "Transfer-Encoding: chunked\r\n"),
            b"0\r\n\r\n"
        )
        .0,
        411
    );
    assert_eq!(send(address, &head("PUT", &length(1)), b"x").0, 405);
    assert_eq!(
        send(address, &head("POST", "Content-Length: -1\r\n"), b"").0,
        400
    );
    let twice = "Content-Length: 1\r\nContent-Length: 2\r\n";
    assert_eq!(send(address, &head("POST", twice), b"xx").0, 400);
    assert_eq!(send(address, "\0\r\n\r\n", b"").0, 400);
    let long = format!("X-Long: {}\r\n", "x".repeat(40_000));
    assert_eq!(send(address, &head("GET", &long), b"").0, 431);
}

#[test]
fn answers_share_a_bounded_room() {
    // Each answer is a third of the room, and all clients read late.
    static HELD: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let size = ROOM / 3 - 4096;
    let server = Server::open(Setup::on("127.0.0.1:0".parse().unwrap())).unwrap();
    let (address, counts) = (server.address(), server.counts());
    let large = move |request: &Request| {
        if request.granted < size {
            assert_eq!(request.granted, LARGE);
            return Err(Needs(size));
        }
        let now = HELD.fetch_add(1, Ordering::Relaxed) + 1;
        MOST.fetch_max(now, Ordering::Relaxed);
        Ok(Answer::words(200, &"x".repeat(1 << 20)))
    };
    std::thread::spawn(move || server.run(&large).unwrap());
    let ask = || {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        stream
    };
    let mut first: Vec<TcpStream> = (0..8).map(|_| ask()).collect();
    std::thread::sleep(Duration::from_secs(1));
    // The kernel takes a part of each answer; the rest of three holds the whole room.
    let held = MOST.load(Ordering::Relaxed);
    assert!(held <= 8, "{held}");
    let mut statuses = Vec::new();
    for stream in &mut first {
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        statuses.push(String::from_utf8_lossy(&text[9..12]).into_owned());
    }
    assert!(
        statuses.iter().all(|s| s == "200" || s == "503"),
        "{statuses:?}"
    );
    let shed = counts.shed.load(Ordering::Relaxed) as usize;
    assert_eq!(statuses.iter().filter(|s| *s == "503").count(), shed);
    assert!(statuses.iter().any(|s| s == "200"));
}

#[test]
fn bytes_of_a_client_become_a_request_or_a_status() {
    let head = "POST /a/write?x=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n";
    let token = bearer(TOKEN);
    let whole = format!("{head}{token}\r\nabc");
    let request = read(whole.as_bytes(), Some(TOKEN), 10).unwrap().unwrap();
    assert_eq!(
        (request.name.as_str(), request.value("x")),
        ("write", Some("1"))
    );
    assert_eq!(request.body.as_deref(), Some(&b"abc"[..]));
    assert_eq!(read(whole.as_bytes(), Some("other"), 10).unwrap(), Err(401));
    assert_eq!(read(whole.as_bytes(), Some(TOKEN), 2).unwrap(), Err(413));
    // Every prefix and every flipped byte ends with a request, a status or an error.
    for end in 0..whole.len() {
        let _ = read(&whole.as_bytes()[..end], Some(TOKEN), 10);
        let mut bent = whole.clone().into_bytes();
        bent[end] ^= 1;
        let _ = read(&bent, Some(TOKEN), 10);
    }
}

fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}
