//! Impossible sizes and numbers: every spec, option and reader answers or refuses, in bounded time
//! and memory, without a panic. Also Ctrl-C: a search keeps its best, and no output is partial.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Replacements of every number.
const VALUES: [&str; 12] = [
    "0",
    "1",
    "-1",
    "nan",
    "inf",
    "1e300",
    "2147483648",
    "4294967296",
    "4294967295",
    "9223372036854775808",
    "18446744073709551616",
    "1000000000",
];

/// Address space of a process, in KiB: room for threads' stacks, and far below that of a wrong size.
const MEMORY_KIB: u32 = 4 << 20;

/// Longer than any refusal, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Exit code and errors of a command; `None` if it exceeded [`PATIENCE`].
fn ask(words: &[&str], folder: &Path) -> (Option<ExitStatus>, String) {
    let errors = folder.join("errors");
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -v {MEMORY_KIB}; exec \"$@\""), "sh"])
        .arg(env!("CARGO_BIN_EXE_hopbyte"))
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let status = ended(&mut child, PATIENCE);
    (status, fs::read_to_string(&errors).unwrap())
}

/// Waits for a child; one that takes longer is killed.
fn ended(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let begin = Instant::now();
    while begin.elapsed() < patience {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Runs a command, and collects those that neither answered nor ended with exit code 0, 1 or 2.
fn check(words: &[&str], folder: &Path, bad: &mut Vec<String>) -> Option<i32> {
    let (status, errors) = ask(words, folder);
    let code = status.and_then(|s| s.code());
    if !matches!(code, Some(0..=2)) || errors.contains("panicked") {
        bad.push(format!("{words:?}: {status:?} {errors}"));
    }
    code
}

fn none(bad: &[String]) {
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn every_size_of_every_fabric_spec_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut bad = Vec::new();
    for form in [
        "gemini:#x2x8",
        "gemini:#x#x#",
        "torus:#",
        "torus:2x2:nodes=#",
        "torus:2x2:link=#",
        "torus:2x2:latency=#",
        "mesh:#x2",
        "aries:#x6x16",
        "aries:2x#x16",
        "aries:2x6x#",
        "aries:2x6x16:blue=#",
        "aries:2x1x2:columns=#",
        "aries:2x1x2:absent=#",
        "dragonfly:#x8",
        "dragonfly:8x#",
        "dragonfly:#x#",
        "dragonfly:4x4:nodes=#",
        "dragonfly:4x4:global=#",
        "dragonfly:4x4:link=#",
        "slingshot:#x4",
        "slingshot:4x#",
        "slingshot:4x4:nodes=#",
        "slingshot:4x4:global=#",
        "fattree:k=#",
        "fattree:k=16,levels=#",
        "fattree:k=16,over=#",
        "fattree:k=16,rails=#",
        "fattree:k=16,link=#",
        "fattree:down=#x2,up=1x2",
        "fattree:down=2x#,up=1x#",
        "fattree:down=2x2x2,up=1x#x#",
        "hyperx:#",
        "hyperx:#x#",
        "hyperx:2x2:nodes=#",
    ] {
        for value in VALUES {
            check(
                &["fabric", "show", &form.replace('#', value)],
                folder.path(),
                &mut bad,
            );
        }
    }
    // Sizes within the former bounds of routers and nodes, which took all memory for their links.
    for spec in [
        "aries:1000x6x16",
        "dragonfly:65536x8",
        "dragonfly:8x65536",
        "dragonfly:8x100000",
        "slingshot:4x65536",
        "hyperx:65536",
        "fattree:down=2x65536,up=1x65536",
        "torus:4194304",
    ] {
        let code = check(&["fabric", "show", spec], folder.path(), &mut bad);
        assert_eq!(code, Some(2), "{spec}");
    }
    none(&bad);
}

#[test]
fn every_size_of_every_traffic_spec_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut bad = Vec::new();
    for form in [
        "stencil:#:3",
        "stencil:#x#:9",
        "stencil:4x4:#",
        "stencil:4x4:5:#",
        "collective:allreduce:#:1",
        "collective:alltoall:#:1",
        "collective:scan:#:1",
        "collective:allreduce:8:#",
        "collective:broadcast:8:1:root=#",
        "plan:dp=#",
        "plan:tp=#,dp=2",
        "plan:dp=#,ep=#",
        "plan:dp=2,hidden=#",
        "plan:dp=2,pp=2,batches=#",
        "plan:dp=2,dp-bytes=#",
        "--dims=#,#",
        "--dims=4,4|--ndims=#",
        "--dims=4,4|--halo=#",
    ] {
        for value in VALUES {
            let words = form.replace('#', value);
            let mut all = vec![
                "map",
                "--fabric",
                "torus:4x4",
                "--nodes",
                "all",
                "--trials",
                "10",
            ];
            all.extend(words.split('|'));
            check(&all, folder.path(), &mut bad);
        }
    }
    // All pairs of 100,000 ranks, by an algorithm of few messages: bounded work for each of them.
    let words = [
        "map",
        "collective:alltoall:100000:1",
        "--fabric",
        "torus:2",
        "--nodes",
        "x",
    ];
    assert_eq!(check(&words, folder.path(), &mut bad), Some(2));
    none(&bad);
}

#[test]
fn every_number_of_an_option_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut bad = Vec::new();
    let map = "map stencil:4x4:5 --fabric torus:4x4 --nodes all --trials 100";
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/examples/stencil.toml"
    );
    for (command, options) in [
        (
            map,
            "--threads --ranks-per-node --response-fraction --seed --interval",
        ),
        (
            "map stencil:4x4:5 --fabric torus:4x4 --trials 1 --nodes",
            "n0-[0-#] n0-0:# all:#",
        ),
        (
            "collect --listen 127.0.0.1:0 --ticks 1 --token /",
            "--period --deadline --connections --memory --retain --segment",
        ),
        (
            "agent --to 127.0.0.1:1 --ticks 1 --token /",
            "--period --keep",
        ),
        ("fabric pairs torus:4x4", "--top"),
        ("probe analyse none --fabric torus:4", "--tolerance"),
        (
            "verify --mapping none --after none",
            "--repeats --tolerance --interval",
        ),
        ("apply check none", "--deadline"),
        (
            &format!("model run {scenario}"),
            "--link --injection --latency --message-rate --cpu --top",
        ),
        (
            &format!("sweep {scenario}"),
            "--link --latency --trials --noise --jobs",
        ),
    ] {
        for option in options.split(' ') {
            for value in VALUES {
                let word = match option.contains('#') {
                    true => option.replace('#', value),
                    false => format!("{option}={value}"),
                };
                let mut words: Vec<&str> = command.split(' ').collect();
                words.push(&word);
                check(&words, folder.path(), &mut bad);
            }
        }
    }
    for words in [
        &["--threads", "1000000"][..],
        &["--ranks-per-node", "4294967295"],
        &["--response-fraction", "1e300"],
    ] {
        let all: Vec<&str> = map.split(' ').chain(words.iter().copied()).collect();
        assert_eq!(check(&all, folder.path(), &mut bad), Some(2), "{words:?}");
    }
    none(&bad);
}

#[test]
fn every_number_of_a_traffic_file_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut bad = Vec::new();
    for (name, content) in [
        ("a.csv", "src,dst,bytes\n0,1,#\n1,2,5\n2,0,#\n"),
        ("b.csv", "src,dst,bytes,messages\n0,1,5,#\n0,1,5,#\n"),
        ("c.csv", "src,dst,bytes\n0,#,1\n1,2,5\n"),
        (
            "a.mtx",
            "%%MatrixMarket matrix coordinate real general\n4 4 2\n1 2 #\n2 3 #\n",
        ),
        (
            "b.mtx",
            "%%MatrixMarket matrix coordinate real general\n# # 1\n1 2 1\n",
        ),
        (
            "c.mtx",
            "%%MatrixMarket matrix coordinate real general\n4 4 #\n1 2 1\n",
        ),
        ("dense.txt", "0 # 0\n0 0 1\n# 0 0\n"),
        ("a.graph", "# 1\n2\n1\n"),
        ("b.graph", "3 # 1\n2 #\n1 #\n\n"),
    ] {
        for value in VALUES.iter().chain(&["1e38", "3.5e38", "1e18", "1e19"]) {
            fs::write(folder.path().join(name), content.replace('#', value)).unwrap();
            let words = [
                "map",
                name,
                "--fabric",
                "torus:4x4",
                "--nodes",
                "all",
                "--trials",
                "10",
            ];
            check(&words, folder.path(), &mut bad);
        }
    }
    // A value beyond single precision was a panic; the refusal names the line and the bound.
    fs::write(
        folder.path().join("large.csv"),
        "src,dst,bytes\n0,1,3.5e38\n",
    )
    .unwrap();
    let words = ["map", "large.csv", "--fabric", "torus:4", "--nodes", "all"];
    let (status, errors) = ask(&words, folder.path());
    assert_eq!(status.and_then(|s| s.code()), Some(2));
    assert!(errors.contains("large.csv:2: found 3.5e38"), "{errors}");
    assert!(errors.contains("at most 1e18"), "{errors}");
    none(&bad);
}

#[test]
fn pipes_devices_folders_and_sockets_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo")
        .arg(folder.path().join("pipe"))
        .status();
    assert!(made.unwrap().success());
    let _listener = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    let mut bad = Vec::new();
    for input in [
        "pipe",
        "socket",
        "/dev/zero",
        "/dev/urandom",
        "/dev/full",
        "/",
    ] {
        let at = format!("@{input}");
        for words in [
            &["fabric", "show", input][..],
            &["map", input, "--fabric", "torus:4", "--nodes", "all"],
            &["map", "stencil:4:3", "--fabric", "torus:4", "--nodes", &at],
            &[
                "map",
                "stencil:4:3",
                "--fabric",
                "torus:4",
                "--current",
                input,
            ],
            &[
                "map",
                "stencil:4:3",
                "--fabric",
                "torus:4",
                "--nodes",
                "all",
                "--node-topology",
                input,
            ],
            &[
                "map",
                "stencil:4:3",
                "--fabric",
                "torus:4",
                "--nodes",
                "all",
                "--background",
                input,
            ],
            &["fabric", "show", "torus:4", "--down", &at],
            &["links", input, "--fabric", "torus:4"],
            &["model", "run", input],
            &["sweep", input],
            &["probe", "analyse", input, "--fabric", "torus:4"],
            &["verify", "--mapping", input, "--after", input],
            &["oracle", "query", "--pairs", input, "--fabric", "torus:4"],
            &["collect", "--config", input],
            &[
                "collect",
                "--listen",
                "127.0.0.1:0",
                "--ticks",
                "1",
                "--expect",
                &at,
            ],
            &[
                "collect",
                "--listen",
                "127.0.0.1:0",
                "--ticks",
                "1",
                "--token",
                input,
            ],
            &["collect", "--tls-cert", input, "--tls-key", input],
            &["collect", "--nats", "tls://b", "--tls-ca", input],
            &["collect", "--metrics", "127.0.0.1:0", "--read-token", input],
            &["agent", "--to", "127.0.0.1:1", "--tls-ca", input],
            &["agent", "--nats", "tls://b", "--tls-ca", input],
            &["replay", "127.0.0.1:1", "--tls-ca", input],
            &[
                "oracle",
                "serve",
                "--fabric",
                "torus:4",
                "--tls-cert",
                input,
                "--tls-key",
                input,
            ],
        ] {
            if check(words, folder.path(), &mut bad) != Some(2) {
                bad.push(format!("{words:?} was not refused"));
            }
        }
    }
    none(&bad);
}

#[test]
fn a_pipe_that_is_open_already_is_read() {
    let text = "src,dst,bytes\n0,1,5\n1,0,5\n";
    let script = format!(
        "printf '{text}' | \"$0\" --json map /dev/stdin --fabric torus:4 --nodes all --trials 10"
    );
    let out = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_hopbyte")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(answer["traffic"]["bytes"], 10.0);
}

#[test]
fn empty_lists_are_refused_or_said() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty"), "# nothing\n").unwrap();
    let run = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let (status, said) = ask(&words, folder.path());
        (status.unwrap().code(), said)
    };
    let (code, said) = run("oracle query --fabric torus:4 --pairs empty");
    assert_eq!(code, Some(2));
    assert!(said.contains("found no pair"), "{said}");
    let (code, said) = run("fabric check torus:4 --down @empty");
    assert_eq!(code, Some(0));
    assert!(said.contains("empty"), "{said}");
}

/// Sends the signal of a Ctrl-C.
fn interrupt(child: &Child) {
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// A search for long, with its answer in `answer` and its messages in `errors`: an answer of thousands of ranks does not
/// fit into a pipe without a reader.
fn long_search(folder: &Path) -> Child {
    let file = |name: &str| fs::File::create(folder.join(name)).unwrap();
    Command::new(env!("CARGO_BIN_EXE_hopbyte"))
        .args("--json map stencil:8x16x32:27 --fabric torus:16x16x16 --nodes all".split(' '))
        .args(["--out", "files", "--seconds", "1000"])
        .current_dir(folder)
        .stdout(file("answer"))
        .stderr(file("errors"))
        .spawn()
        .unwrap()
}

#[test]
fn the_first_interrupt_keeps_the_best_placement() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = long_search(folder.path());
    sleep(Duration::from_secs(4));
    interrupt(&child);
    let status = ended(&mut child, PATIENCE).expect("the search went on");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let said = read("errors");
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    let answer: Value = serde_json::from_str(&read("answer")).unwrap();
    assert_eq!(answer["interrupted"], true);
    assert_eq!(answer["placement"].as_array().unwrap().len(), 4096);
    let saved: Value = serde_json::from_str(&read("files/mapping.json")).unwrap();
    assert_eq!(saved["interrupted"], true);
}

#[test]
fn the_second_interrupt_ends_at_once_and_leaves_whole_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = long_search(folder.path());
    sleep(Duration::from_secs(4));
    let to = |signal: &str| {
        Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status()
    };
    to("-INT").unwrap();
    sleep(Duration::from_millis(1));
    to("-INT").unwrap();
    let status = ended(&mut child, PATIENCE).expect("the search went on");
    // A search that ended before the second signal is right as well.
    match status.code() {
        Some(130) => {
            let files = fs::read_dir(folder.path().join("files"));
            for file in files.into_iter().flatten().map(Result::unwrap) {
                let name = file.file_name().into_string().unwrap();
                let whole = fs::read_to_string(file.path()).unwrap().ends_with('\n');
                assert!(whole || name.starts_with('.'), "{name}");
            }
        }
        code => assert_eq!(code, Some(0)),
    }
}

#[test]
fn an_interrupted_command_ends_and_leaves_no_half_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("env")
        // A background shell, as in CI, makes its children ignore the signal.
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_hopbyte")])
        // Pairs of a complete grid are counted at once.
        .args(["fabric", "pairs", "gemini:32x32x32"])
        .args(["--down", "g0-0-0 X+"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    sleep(Duration::from_millis(300));
    interrupt(&child);
    let status = ended(&mut child, PATIENCE).expect("it went on");
    assert_ne!(status.code(), Some(0));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// As the test of pipes and devices above, for sources that are followed and for inputs beside others.
#[test]
fn sources_that_cannot_be_followed_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo")
        .arg(folder.path().join("pipe"))
        .status();
    assert!(made.unwrap().success());
    let mut bad = Vec::new();
    for input in ["pipe", "/dev/zero", "/dev/urandom", "/", "absent"] {
        // # stands for the input.
        for form in [
            "fabric show torus:4 --routes #",
            "fabric show torus:4 --system-map #",
            "fabric show torus:4 --names #",
            "links 127.0.0.1:1 --fabric torus:4 --token #",
            "blame # --fabric torus:4",
            "view # --fabric torus:4 --out page.html",
            "view # --fabric torus:4 --serve",
            "apply # --emit csv",
            "oracle serve # --fabric torus:4",
            "oracle serve # --fabric torus:4 --replay",
            "oracle serve # --fabric torus:4 --lab absent",
            "replay #",
        ] {
            let form = form.replace('#', input);
            let words: Vec<&str> = form.split(' ').collect();
            if check(&words, folder.path(), &mut bad) != Some(2) {
                bad.push(format!("{words:?} was not refused"));
            }
        }
    }
    none(&bad);
}
