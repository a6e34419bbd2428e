//! `hopbyte view --serve`: the page of changing counters.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that ends with the test.
struct Server {
    process: Child,
    address: String,
    /// Target with the one-time token, and the cookie that it was exchanged for.
    sign_in: String,
    cookie: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serve(counters: &Path) -> Server {
    let mut process = Command::new(env!("CARGO_BIN_EXE_hopbyte"))
        .args(["view", counters.to_str().unwrap(), "--fabric", "torus:4x4"])
        .args(["--serve", "--every", "0.05", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(process.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let serving: Value = serde_json::from_str(&line).unwrap();
    let url = serving["url"].as_str().unwrap();
    let (address, token) = url.split_once("/?token=").unwrap();
    let mut server = Server {
        process,
        address: address.strip_prefix("http://").unwrap().into(),
        sign_in: format!("/?token={token}"),
        cookie: String::new(),
    };
    let (status, head, _) = server.exchange(&server.sign_in);
    assert_eq!(status, 303);
    // The address in the browser has no token from here on.
    assert!(head.contains("\r\nlocation: ./\r\n"), "{head}");
    let cookie = head.split("\r\nset-cookie: ").nth(1).unwrap();
    server.cookie = cookie.split(';').next().unwrap().into();
    server
}

impl Server {
    /// Status, head and body of a GET.
    fn exchange(&self, target: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, cookie) = (&self.address, &self.cookie);
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, format!("{head}\r\n"), body.into())
    }

    /// Status and body of a GET.
    fn get(&self, target: &str) -> (u16, String) {
        let (status, _, body) = self.exchange(target);
        (status, body)
    }

    /// Changes since a reading.
    fn news(&self, since: u64) -> Option<Value> {
        let (status, body) = self.get(&format!("/state?since={since}"));
        (status == 200).then(|| serde_json::from_str(&body).unwrap())
    }

    /// The first change after a reading.
    fn next(&self, since: u64) -> Value {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            if let Some(news) = self.news(since) {
                return news;
            }
            assert!(Instant::now() < deadline, "no news after reading {since}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn counters(folder: &Path, gigabytes: f64) -> PathBuf {
    let path = folder.join("links.jsonl");
    let text = format!(
        "{{\"schema\":\"hopbyte.link/1\",\"link\":\"r0-0 X+\",\"received_bytes\":{}}}\n\
         {{\"schema\":\"hopbyte.link/1\",\"summary\":{{\"window_seconds\":1.0}}}}\n",
        gigabytes * 1e9
    );
    // Atomic, as a sampler should: a reader never sees a partial file.
    std::fs::write(folder.join("next"), text).unwrap();
    std::fs::rename(folder.join("next"), &path).unwrap();
    path
}

#[test]
fn the_page_follows_its_counters() {
    let folder = tempfile::tempdir().unwrap();
    let path = counters(folder.path(), 2.5);
    let mut server = serve(&path);

    let cookie = std::mem::take(&mut server.cookie);
    assert_eq!(server.get("/").0, 403);
    assert_eq!(server.get("/?token=guess").0, 403);
    assert_eq!(server.get(&server.sign_in).0, 403, "used");
    // The next address is printed for another browser.
    let mut said = BufReader::new(server.process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("for another browser: http://") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0);
    }
    let next = line.trim().rsplit_once("/?").unwrap().1;
    assert_eq!(server.get(&format!("/?{next}")).0, 303);
    server.cookie = cookie;
    let (status, page) = server.get("/");
    assert!(status == 200 && page.contains("<svg") && page.contains("data-live"));

    let first = server.next(0);
    let at = first["sequence"].as_u64().unwrap();
    assert!(server.news(at).is_none(), "nothing changed");

    std::thread::sleep(Duration::from_millis(20));
    counters(folder.path(), 10.0);
    let second = server.next(at);
    assert_ne!(second["views"][0]["values"], first["views"][0]["values"]);
    assert_eq!(second["history"].as_array().unwrap().len(), 2);
    assert_eq!(
        second["views"][0]["max"], first["views"][0]["max"],
        "an absolute scale"
    );

    std::thread::sleep(Duration::from_millis(20));
    std::fs::write(&path, "no counters at all").unwrap();
    let broken = server.next(second["sequence"].as_u64().unwrap());
    assert!(broken["error"].as_str().unwrap().contains("links.jsonl:1"));
    assert_eq!(broken["views"][0]["values"], second["views"][0]["values"]);

    std::thread::sleep(Duration::from_millis(20));
    counters(folder.path(), 1.0);
    let mut since = broken["sequence"].as_u64().unwrap();
    let mended = loop {
        let news = server.next(since);
        if news["error"].is_null() {
            break news;
        }
        since = news["sequence"].as_u64().unwrap();
    };
    assert_eq!(mended["history"].as_array().unwrap().len(), 3);
}

#[test]
fn garbage_and_idle_connections_stop_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&counters(folder.path(), 1.0));
    let idle: Vec<TcpStream> = (0..8)
        .map(|_| TcpStream::connect(&server.address).unwrap())
        .collect();
    let mut garbage = TcpStream::connect(&server.address).unwrap();
    garbage.write_all(&[0, 255, 13, 10, 13, 10]).unwrap();
    let mut said = String::new();
    garbage.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    let mut long = TcpStream::connect(&server.address).unwrap();
    long.write_all(&[b'x'; 20_000]).unwrap();
    let mut head = [0; 12];
    long.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 431");
    assert_eq!(server.get("/").0, 200);
    drop(idle);
}
