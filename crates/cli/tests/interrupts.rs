//! Ctrl-C at any moment of `hopbyte map`: the command ends soon, its answer is complete or absent, and so is each file.
//!
//! `HOPBYTE_INTERRUPTS=all` tries the large problems at [`MOMENTS`] moments each and expects two seconds; `HOPBYTE` names
//! the command to test, which should be an optimised build. Otherwise a sample of smaller problems is tried.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use hopbyte_fabric::random::Random;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Questions, and the number of their ranks.
const SMALL: [(&str, usize); 3] = [
    ("stencil:16x16x16:27 --fabric torus:16x16x16", 4_096),
    (
        "plan:dp=16,tp=8,pp=8 --fabric fattree:down=8x16,up=1x8 --ranks-per-node 8",
        1_024,
    ),
    ("stencil:24x24:5 --fabric dragonfly:9x8:nodes=8", 576),
];

const LARGE: [(&str, usize); 5] = [
    (
        "stencil:32x32x32:7 --fabric dragonfly:65x32:nodes=16",
        32_768,
    ),
    ("stencil:64x64x32:27 --fabric torus:64x64x32", 131_072),
    (
        "stencil:64x64x32:27 --fabric gemini:16x12x24 --ranks-per-node 16",
        131_072,
    ),
    (
        "plan:dp=128,tp=8,pp=16 --fabric fattree:down=16x16x8,up=1x8x8 --ranks-per-node 8",
        16_384,
    ),
    ("plan:dp=8,tp=8,pp=16 --fabric gpu-rails", 1_024),
];

/// Moments at which each question is interrupted: of the sample, and of all.
const MOMENTS: (usize, usize) = (3, 20);

/// Longest time from the signal to the end: on a busy machine without optimisation, and as documented.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(2));

/// Exit code and signal of an end, and the time it took.
type End = (Option<i32>, Option<i32>, Duration);

fn all() -> bool {
    std::env::var("HOPBYTE_INTERRUPTS").is_ok_and(|which| which == "all")
}

/// The command, with SIGINT as in a terminal: a background shell, as in CI, makes its children ignore it.
fn command(folder: &Path, words: &str) -> Command {
    let program = std::env::var("HOPBYTE").unwrap_or_else(|_| env!("CARGO_BIN_EXE_hopbyte").into());
    let file = |name: &str| fs::File::create(folder.join(name)).unwrap();
    let mut command = Command::new("env");
    command
        .args(["--default-signal=INT", &program, "--json", "map"])
        .args(words.split(' '))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(file("answer"))
        .stderr(file("errors"));
    command
}

/// Waits until a child ends, or sends it a signal at that moment and waits for its end.
fn ended(child: &mut Child, moment: Option<Duration>) -> (End, bool) {
    let mut since = Instant::now();
    let mut sent = false;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return ((status.code(), status.signal(), since.elapsed()), sent);
        }
        if !sent && moment.is_some_and(|moment| since.elapsed() >= moment) {
            let kill = Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .status();
            assert!(kill.unwrap().success());
            (since, sent) = (Instant::now(), true);
        }
        if since.elapsed() > Duration::from_secs(300) {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The answer of a file, if it is whole and has all ranks; `None` if the file is empty or absent.
fn answer(file: &Path, ranks: usize) -> Option<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    if text.is_empty() {
        return None;
    }
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["placement"].as_array().unwrap().len(), ranks);
    Some(answer)
}

/// Ranks of the largest job whose launcher files and page are written after an interrupt.
const FEW_RANKS: usize = 10_000;

/// Whether the page and all launcher files that need no list of blocks are there; each of them is whole.
fn has_all(folder: &Path, ranks: usize) -> bool {
    let lines = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "{name}");
        text.lines().count()
    };
    let page = fs::read_to_string(folder.join("page.html")).unwrap_or_default();
    assert!(page.is_empty() || page.trim_end().ends_with("</html>"));
    let hosts = lines("files/slurm.hosts");
    assert!(hosts == 0 || hosts == ranks, "{hosts} of {ranks} lines");
    hosts == ranks && !page.is_empty()
}

/// Runs a question to its end, or to a signal at a moment; how long that took.
fn run(question: &str, ranks: usize, moment: Option<Duration>) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let words = format!("{question} --nodes all --seconds 2 --out files --report page.html");
    let begin = Instant::now();
    let mut child = command(folder.path(), &words).spawn().unwrap();
    let ((code, signal, took), sent) = ended(&mut child, moment);
    let said = fs::read_to_string(folder.path().join("errors")).unwrap();
    let about = format!("{question} at {moment:?}: {code:?} {signal:?} after {took:?}: {said}");
    let printed = answer(&folder.path().join("answer"), ranks);
    let saved = answer(&folder.path().join("files/mapping.json"), ranks);
    match (code, signal) {
        (Some(0), None) => {
            assert!(printed.is_some() && saved.is_some(), "{about}");
            assert!(has_all(folder.path(), ranks), "{about}");
        }
        // During the search of a large job: the files of launchers and the page are skipped.
        (Some(1), None) => {
            assert!(sent && printed.is_some() && saved.is_some(), "{about}");
            assert!(ranks > FEW_RANKS && said.contains("not written"), "{about}");
            assert!(!has_all(folder.path(), ranks), "{about}");
        }
        // After the answer: any number of the files.
        (Some(130), None) => {
            assert!(sent && printed.is_some() && saved.is_some(), "{about}");
            has_all(folder.path(), ranks);
        }
        // Before the search: nothing is written.
        (None, Some(2)) => assert!(sent && printed.is_none() && saved.is_none(), "{about}"),
        _ => panic!("{about}"),
    }
    if sent {
        let limit = if all() { PATIENCE.1 } else { PATIENCE.0 };
        println!(
            "{question} at {:.2?}: {took:.2?}",
            moment.unwrap_or_default()
        );
        assert!(took < limit, "{about}");
    }
    begin.elapsed()
}

#[test]
fn a_search_ends_soon_at_any_moment_with_a_whole_answer_or_none() {
    let (questions, moments) = if all() {
        (&LARGE[..], MOMENTS.1)
    } else {
        (&SMALL[..], MOMENTS.0)
    };
    let mut random = Random::new(16);
    for &(question, ranks) in questions {
        let whole = run(question, ranks, None);
        for part in 0..moments {
            // One moment in every part of the run.
            let share = (part as f64 + random.unit()) / moments as f64;
            run(question, ranks, Some(whole.mul_f64(share)));
        }
    }
}

/// The reader of an input that goes on for ever is ended at the first signal, and nothing is printed.
#[test]
fn an_input_that_is_still_read_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let words = "/dev/stdin --fabric torus:8x8x8 --nodes all";
    let mut child = command(folder.path(), words)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"src,dst,bytes\n0,1,1\n").unwrap();
    let ((code, signal, took), sent) = ended(&mut child, Some(Duration::from_secs(1)));
    assert_eq!((code, signal, sent), (None, Some(2), true));
    assert!(took < PATIENCE.0, "{took:?}");
    assert_eq!(answer(&folder.path().join("answer"), 0), None);
}

/// Launcher files and the page of a large job take seconds: an interrupt of the search skips them, says so, and exits
/// with 1; an earlier mapping's files do not stay beside the new one.
#[test]
fn what_a_large_job_skips_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    fs::create_dir(&files).unwrap();
    for old in ["mapping.json", "rankfile", "slurm.hosts"] {
        fs::write(files.join(old), "of another mapping\n").unwrap();
    }
    let words = "stencil:24x24x24:7 --fabric torus:24x24x24 --nodes all --seconds 100 --out files --report page.html";
    let mut child = command(folder.path(), words).spawn().unwrap();
    let moment = Duration::from_secs(8);
    let ((code, signal, took), _) = ended(&mut child, Some(moment));
    let said = fs::read_to_string(folder.path().join("errors")).unwrap();
    assert_eq!((code, signal), (Some(1), None), "{said}");
    assert!(took < PATIENCE.0, "{took:?}");
    assert!(
        said.contains("not written for more than 10,000 ranks: "),
        "{said}"
    );
    assert!(said.contains("page.html"), "{said}");
    assert!(answer(&files.join("mapping.json"), 13_824).is_some());
    let left: Vec<_> = fs::read_dir(&files).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
