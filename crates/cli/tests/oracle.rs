//! A running oracle: each answer comes from one snapshot, also during updates.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::cluster::{Cluster, Served, level, until};
use hopbyte_fabric::spec;
use hopbyte_observe::oracle::{Ask, Oracle, Place, Reply};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hopbyte");
const FABRIC: &str = "torus:4x4x4";

fn used() -> Ask {
    Ask {
        metric: Some("used".into()),
        aggregate: Some("max".into()),
        ..Ask::default()
    }
}

fn pair(from: u32, to: u32) -> Ask {
    Ask {
        from: Some(Place::Number(from)),
        to: Some(Place::Number(to)),
        ..used()
    }
}

fn version(oracle: &mut Oracle) -> u64 {
    oracle.ask(&Ask::default(), &[]).unwrap().0.version
}

fn close(cost: f64, version: u64) -> bool {
    (cost - level(version)).abs() < 1e-6
}

#[test]
fn sixty_four_clients_get_answers_of_one_version_each_and_a_kill_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (store, socket) = (folder.path().join("store"), folder.path().join("socket"));
    let fabric = spec::fabric(FABRIC).unwrap();
    let mut cluster = Cluster::new(&store, &fabric, |_| false);
    cluster.tick(1000);
    cluster.tick(1001);
    let (store, path) = (store.to_str().unwrap(), socket.to_str().unwrap());
    let words = ["--fabric", FABRIC, store, "--socket", path];
    let served = Served::start(PROGRAM, &words);
    let mut oracle = Oracle::connect(path).unwrap();
    // The store's contents are served from the first answer on.
    assert_eq!(version(&mut oracle), 1001);
    let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..64u32)
            .map(|client| {
                let (stop, seen, url) = (&stop, &seen, &served.url);
                scope.spawn(move || {
                    // Most over the socket, some over HTTP.
                    let address = if client % 8 == 0 { url } else { path };
                    let mut oracle = Oracle::connect(address).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        let reply = converse(&mut oracle, client);
                        seen.fetch_max(reply, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for tick in 1002..1042 {
            cluster.tick(tick);
            std::thread::sleep(Duration::from_millis(30));
        }
        until("the last tick is served", || {
            seen.load(Ordering::Relaxed) == 1041
        });
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|c| c.join().unwrap());
    });
    // SIGKILL: the socket stays behind and is taken over.
    drop(served);
    cluster.tick(1042);
    let _served = Served::start(PROGRAM, &words);
    let mut oracle = Oracle::connect(path).unwrap();
    let (reply, _) = oracle.ask(&pair(0, 9), &[]).unwrap();
    assert_eq!(reply.version, 1042);
    assert!(close(reply.cost.unwrap(), 1042));
}

/// Highest resident memory of a process so far, in bytes.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .unwrap();
    line.split_whitespace()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

#[test]
fn sixty_clients_with_large_questions_share_a_bounded_room() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let path = socket.to_str().unwrap();
    let served = Served::start(PROGRAM, &["--fabric", "torus:16x16x8", "--socket", path]);
    let nodes: Vec<String> = (0..2048).map(|n| n.to_string()).collect();
    let question = format!("{{\"among\":[{}]}}\n", nodes.join(","));
    assert!(question.len() < 11_000);
    let host = served
        .url
        .trim_start_matches("http://")
        .trim_end_matches('/');
    // Half over HTTP, half over the socket; all read their answers late.
    let ask = |client: usize| -> Box<dyn Read + Send> {
        if client.is_multiple_of(2) {
            let mut stream = TcpStream::connect(host).unwrap();
            let length = question.len();
            write!(
                stream,
                "POST /ask HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{question}"
            )
            .unwrap();
            Box::new(stream)
        } else {
            let mut stream = UnixStream::connect(path).unwrap();
            stream.write_all(question.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            Box::new(stream)
        }
    };
    let streams: Vec<_> = (0..60).map(ask).collect();
    std::thread::sleep(Duration::from_secs(3));
    let readers = streams.into_iter().map(|mut stream| {
        std::thread::spawn(move || {
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            let text = String::from_utf8_lossy(&answer[..answer.len().min(4000)]);
            match (
                answer.len() > 4_000_000,
                text.contains("too many large requests"),
            ) {
                (true, _) => (1, 0),
                (false, true) => (0, 1),
                (false, false) => panic!("{text}"),
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    let outcomes = readers.into_iter().map(|r| r.join().unwrap());
    let (answered, refused) = outcomes.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let peak = peak(served.pid());
    println!(
        "{answered} answered, {refused} refused, {} MB",
        peak / 1_000_000
    );
    assert!(answered > 0 && answered + refused == 60);
    assert!(peak < 700_000_000, "{peak} bytes");
    // It still answers.
    let mut oracle = Oracle::connect(path).unwrap();
    assert!(oracle.ask(&Ask::default(), &[]).is_ok());
}

/// One list of each kind; returns the last version.
fn converse(oracle: &mut Oracle, client: u32) -> u64 {
    let nodes = 64;
    let pairs: Vec<(u32, u32)> = (0..2000)
        .map(|i| ((i + client) % nodes, (i * 7 + client + 1) % nodes))
        .filter(|(a, b)| a != b)
        .collect();
    let packed = Ask {
        packed: Some(pairs.len()),
        ..used()
    };
    let (reply, costs) = oracle.ask(&packed, &pairs).unwrap();
    assert_eq!(costs.len(), pairs.len());
    assert!(costs.iter().all(|&c| close(c.into(), reply.version)));
    let among = Ask {
        among: Some((0..8).map(Place::Number).collect()),
        ..used()
    };
    let (reply, _) = oracle.ask(&among, &[]).unwrap();
    let costs = reply.costs.unwrap();
    for (i, cost) in costs.iter().enumerate() {
        let cost = cost.unwrap();
        assert!(if i % 9 == 0 {
            cost == 0.0
        } else {
            close(cost, reply.version)
        });
    }
    let (reply, _) = oracle
        .ask(&pair(client % nodes, (client + 5) % nodes), &[])
        .unwrap();
    assert!(close(reply.cost.unwrap(), reply.version));
    reply.version
}

#[test]
fn what_was_not_measured_is_null_and_what_is_asked_wrongly_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, socket) = (folder.path().join("store"), folder.path().join("socket"));
    let fabric = spec::fabric(FABRIC).unwrap();
    // Half of the routers do not report.
    let mut cluster = Cluster::new(&store, &fabric, |r| r % 2 == 1);
    cluster.tick(5);
    cluster.tick(6);
    let path = socket.to_str().unwrap();
    let words = [
        "--fabric",
        FABRIC,
        store.to_str().unwrap(),
        "--socket",
        path,
    ];
    let served = Served::start(PROGRAM, &words);
    let mut oracle = Oracle::connect(path).unwrap();
    let (reply, _) = oracle.ask(&pair(0, 1), &[]).unwrap();
    assert_eq!((reply.cost, reply.lower), (None, Some(0.0)));
    let list = Ask {
        pairs: Some(vec![
            (Place::Name("n0-0-0".into()), Place::Number(1)),
            (Place::Number(1), Place::Number(0)),
        ]),
        ..used()
    };
    let (reply, _) = oracle.ask(&list, &[]).unwrap();
    assert_eq!(reply.costs.unwrap(), [None, Some(0.006)]);
    // Static metrics need no counters.
    let hops = Ask {
        metric: None,
        aggregate: None,
        ..pair(0, 1)
    };
    assert_eq!(oracle.ask(&hops, &[]).unwrap().0.cost, Some(1.0));
    let (at, time, state) = oracle.links(&fabric).unwrap();
    let state = state.unwrap();
    assert_eq!((at, time, state.used_ratio.known()), (6, Some(6.0), 192));
    let other = spec::fabric("torus:4x4x5").unwrap();
    assert!(
        oracle
            .links(&other)
            .unwrap_err()
            .to_string()
            .contains("another machine")
    );

    // The connection stays open after a refusal.
    let stream = UnixStream::connect(path).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    for (question, said) in [
        ("{", "EOF"),
        ("{\"metric\":\"speed\"}", "credit-stall"),
        ("{\"from\":0}", "expected both"),
        ("{\"from\":64,\"to\":0}", "node 64 of 64"),
        ("{\"from\":\"x\",\"to\":0}", "node"),
        ("{\"colour\":1}", "colour"),
        ("{}", "\"fingerprint\""),
    ] {
        (&stream)
            .write_all(format!("{question}\n").as_bytes())
            .unwrap();
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains(said), "{question}: {line}");
        let reply: Reply = serde_json::from_str(&line).unwrap();
        assert_eq!(reply.version, 6, "{line}");
    }
    // A request beyond the limit closes it.
    (&stream).write_all(b"{\"packed\":9999999999}\n").unwrap();
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("the maximum is"), "{line}");
    assert_eq!(lines.read_line(&mut line).unwrap(), 0);

    let get = |what: &str| {
        let host = served
            .url
            .trim_start_matches("http://")
            .trim_end_matches('/');
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "{what} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = get("GET /pair?from=n0%2D0-1&to=n0-0-0&metric=used&aggregate=max");
    assert!(
        answer.contains("200 OK") && answer.contains("\"cost\":0.006"),
        "{answer}"
    );
    assert!(get("GET /pair?from=n9&to=n0-0-0").starts_with("HTTP/1.1 400"));
    assert!(get("GET /elsewhere").starts_with("HTTP/1.1 404"));
    assert!(get("DELETE /ask").starts_with("HTTP/1.1 405"));
}

#[test]
fn files_of_counters_are_followed_and_others_need_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (
        folder.path().join("links.jsonl"),
        folder.path().join("socket"),
    );
    let write = |used: f64| {
        let line = format!(
            "{{\"schema\":\"hopbyte.link/1\",\"link\":\"r0-0 X+\",\"from\":\"r0-0\",\"to\":\"r1-0\",\"used_ratio\":{used},\"received_bytes\":10}}\n\
             {{\"schema\":\"hopbyte.link/1\",\"summary\":{{}}}}\n"
        );
        std::fs::write(folder.path().join("new"), line).unwrap();
        std::fs::rename(folder.path().join("new"), &file).unwrap();
    };
    write(0.25);
    let (counters, path) = (file.to_str().unwrap(), socket.to_str().unwrap());
    let words = ["--fabric", "torus:4x4", counters, "--socket", path];
    let _served = Served::start(PROGRAM, &words);
    let mut oracle = Oracle::connect(path).unwrap();
    let ask = |oracle: &mut Oracle| {
        let ask = Ask {
            from: Some(Place::Name("n0-0".into())),
            to: Some(Place::Name("n1-0".into())),
            ..used()
        };
        oracle.ask(&ask, &[]).unwrap().0
    };
    let first = ask(&mut oracle);
    assert_eq!(first.cost, Some(0.25));
    write(0.5);
    until("the new file is served", || {
        ask(&mut oracle).cost == Some(0.5)
    });
    assert!(ask(&mut oracle).version > first.version);

    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(PROGRAM);
        let out = command
            .args(["oracle", "serve", "--fabric", "torus:4x4"])
            .args(words)
            .output();
        let out = out.unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    let (code, said) = run(&["--listen", "0.0.0.0:0"]);
    assert!(code == Some(2) && said.contains("token"), "{said}");
    // A socket with a live server is not taken over, nor is a file.
    let (code, said) = run(&["--socket", path]);
    assert!(
        code == Some(3) && said.contains("another process"),
        "{said}"
    );
    let (code, said) = run(&["--socket", counters]);
    assert!(
        code == Some(2) && said.contains("expected a socket"),
        "{said}"
    );
    let (code, said) = run(&["/nonexistent"]);
    assert!(code == Some(2) && said.contains("check the path"), "{said}");
}

#[test]
fn map_takes_the_links_of_a_running_oracle_and_says_which_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let (store, socket) = (folder.path().join("store"), folder.path().join("socket"));
    let fabric = spec::fabric(FABRIC).unwrap();
    let mut cluster = Cluster::new(&store, &fabric, |r| r == 0);
    cluster.tick(1500);
    let (store, path) = (store.to_str().unwrap(), socket.to_str().unwrap());
    let words = ["--fabric", FABRIC, store, "--socket", path];
    let served = Served::start(PROGRAM, &words);
    let map = |address: &str, fabric: &str| mapped(fabric, &["--oracle", address]);
    // One reading is not an increase yet.
    let (code, _, said) = map(path, FABRIC);
    assert!(
        code == Some(3) && said.contains("no snapshot yet"),
        "{said}"
    );
    cluster.tick(1501);
    let mut oracle = Oracle::connect(path).unwrap();
    until("the tick is served", || version(&mut oracle) == 1501);
    for address in [path, &served.url] {
        let (code, answer, said) = map(address, FABRIC);
        assert_eq!((code, said.as_str()), (Some(0), ""));
        assert_eq!(answer["oracle"]["version"], 1501);
        assert_eq!(answer["oracle"]["time_seconds"], 1501.0);
        // The live capacity is the remainder.
        let worst = |answer: &serde_json::Value| {
            let cost = &answer["result"]["worst_network_link_seconds"];
            cost.as_f64().unwrap()
        };
        let ratio = worst(&answer) / worst(&mapped(FABRIC, &[]).1);
        assert!((ratio - 1.0 / (1.0 - level(1501))).abs() < 1e-3, "{ratio}");
    }
    let (code, _, said) = map(path, "torus:4x4x5");
    assert!(
        code == Some(2) && said.contains("another machine"),
        "{said}"
    );
    let (code, _, said) = map("/nonexistent", FABRIC);
    assert!(
        code == Some(2) && said.contains("hopbyte oracle serve"),
        "{said}"
    );
}

/// Maps a small job; exit code, answer, standard error.
fn mapped(fabric: &str, more: &[&str]) -> (Option<i32>, serde_json::Value, String) {
    let out = std::process::Command::new(PROGRAM)
        .args(["--quiet", "--json", "map", "stencil:2x2x2:7"])
        .args(["--fabric", fabric, "--trials", "100"])
        .args(["--nodes", "n[0-1]-[0-1]-[0-1]"])
        .args(more)
        .output()
        .unwrap();
    let answer = serde_json::from_slice(&out.stdout).unwrap_or_default();
    let said = String::from_utf8(out.stderr).unwrap();
    (out.status.code(), answer, said)
}

#[test]
fn several_oracles_and_a_replay_of_one_store_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (store, fabric) = (at("store"), spec::fabric(FABRIC).unwrap());
    let mut cluster = Cluster::new(folder.path().join("store").as_path(), &fabric, |_| false);
    (700..704).for_each(|tick| cluster.tick(tick));
    let (sockets, replayed) = ([at("a"), at("b")], at("c"));
    let _served: Vec<Served> = sockets
        .iter()
        .map(|s| {
            let words = ["--fabric", FABRIC, &store, "--socket", s];
            Served::start(PROGRAM, &words)
        })
        .collect();
    let mut oracles = sockets.map(|s| Oracle::connect(&s).unwrap());
    for last in [703, 704] {
        for oracle in &mut oracles {
            until("the tick is served", || version(oracle) == last);
            let reply = oracle.ask(&pair(3, 17), &[]).unwrap().0;
            assert_eq!(
                (reply.version, close(reply.cost.unwrap(), last)),
                (last, true)
            );
        }
        cluster.tick(last + 1);
    }
    // The same from its start at a thousandfold speed; its end remains.
    let mut words = vec![
        "--fabric", FABRIC, &store, "--replay", "--socket", &replayed,
    ];
    words.extend(["--speed", "1000"]);
    let _replay = Served::start(PROGRAM, &words);
    let mut oracle = Oracle::connect(&replayed).unwrap();
    let mut before = 0;
    until("the replay is at its end", || {
        let reply = oracle.ask(&pair(3, 17), &[]).unwrap().0;
        assert!(reply.version >= before, "{} after {before}", reply.version);
        before = reply.version;
        assert!(reply.version == 0 || close(reply.cost.unwrap(), reply.version));
        reply.version == 705
    });
}

#[test]
fn oracles_of_one_running_collector_follow_its_agents() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().to_string();
    drop(port);
    let machine = "gemini:4x2x2";
    let fabric = spec::fabric(machine).unwrap();
    let hosts = [0, 1].map(|x| format!("n{x}-0-0-0"));
    let hosts = hosts.map(|h| fabric.find_node(&h).map(|_| h).unwrap());
    let begin = Instant::now();
    // Bytes that two nodes received from either side of X, a gigabyte a second.
    let metrics = |host: &str| {
        let set = folder
            .path()
            .join(host)
            .join("sys/devices/virtual/gni/gpcdr0/metricsets/links");
        std::fs::create_dir_all(&set).unwrap();
        let ms = begin.elapsed().as_millis() as u64 + 1000;
        let text = format!(
            "timestamp {ms} ms\ntraffic_X+ {} B\ntraffic_X- {} B\n",
            ms * 1_000_000,
            ms * 1_000_000
        );
        std::fs::write(set.join("next"), text).unwrap();
        std::fs::rename(set.join("next"), set.join("metrics")).unwrap();
    };
    hosts.iter().for_each(|h| metrics(h));
    let start = |words: &[&str]| {
        let mut command = std::process::Command::new(PROGRAM);
        let null = std::process::Stdio::null;
        Running(
            command
                .arg("--quiet")
                .args(words)
                .stdout(null())
                .spawn()
                .unwrap(),
        )
    };
    let _collector = start(&[
        "collect",
        "--listen",
        &address,
        "--period",
        "0.1",
        "--deadline",
        "80",
    ]);
    let _agents = hosts.clone().map(|host| {
        let root = folder.path().join(&host);
        start(&[
            "agent",
            "--to",
            &address,
            "--name",
            &host,
            "--period",
            "0.1",
            "--root",
            root.to_str().unwrap(),
        ])
    });
    let sockets = ["a", "b"].map(|s| folder.path().join(s).to_str().unwrap().to_owned());
    let _served = sockets
        .clone()
        .map(|s| Served::start(PROGRAM, &["--fabric", machine, &address, "--socket", &s]));
    let mut oracles = sockets.map(|s| Oracle::connect(&s).unwrap());
    let [from, to] = hosts.clone().map(|h| Some(Place::Name(h)));
    let ask = Ask {
        from: to,
        to: from,
        ..used()
    };
    let mut seen = [(0u64, 0.0); 2];
    until("both oracles follow", || {
        hosts.iter().for_each(|h| metrics(h));
        for (oracle, seen) in oracles.iter_mut().zip(&mut seen) {
            let reply = oracle.ask(&ask, &[]).unwrap().0;
            assert!(reply.version >= seen.0);
            *seen = (reply.version, reply.cost.unwrap_or(seen.1));
        }
        seen.iter().all(|s| s.1 > 0.0)
    });
    // 1 GB/s of the 9.375 GB/s that a link of X has.
    for (version, used) in seen {
        assert!(
            version > 0 && (0.02..0.5).contains(&used),
            "{version}: {used}"
        );
    }
}

/// A process that ends with the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
