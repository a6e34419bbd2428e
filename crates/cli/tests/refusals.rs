//! Options without effect and unknown values are refused, not dropped.

use std::fs::File;
use std::process::{Command, Stdio};

/// Exit code and standard error of a command in the folder of the book's examples.
fn ask(words: &[&str], to: Stdio) -> (Option<i32>, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_hopbyte"))
        .args(words)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .stdout(to)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    (done.status.code(), said)
}

#[test]
fn expected_rates_of_unknown_kinds_are_refused() {
    let words = "probe analyse data/probe/topobw.jsonl --fabric mesh:2x2:nodes=2 --expected";
    let mut words: Vec<&str> = words.split(' ').collect();
    words.push("cabel=9e9");
    let (code, said) = ask(&words, Stdio::null());
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("found cabel=9000000000") && said.contains("cable"),
        "{said}"
    );
}

#[test]
fn answers_that_are_files_have_no_json() {
    for words in [
        "--json fabric draw torus:4x4",
        "--json apply data/mapping.json --emit csv",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (code, said) = ask(&words, Stdio::null());
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("found --json"), "{said}");
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (code, said) = ask(&["--help"], full.into());
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("cannot write standard output"), "{said}");
}

/// An answer that nobody can read is not a success; a command without an answer needs no output.
#[test]
fn a_closed_output_is_an_error_and_open_files_are_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &str| {
        let text = words.replace("hopbyte", "\"$0\"");
        let shell = Command::new("sh")
            .args(["-c", &text, env!("CARGO_BIN_EXE_hopbyte")])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&shell.stderr).into_owned();
        (shell.status.code(), said)
    };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/sysfs/before");
    let agent = format!("--json -q agent --root {root} --name n1 --ticks 1 --to 127.0.0.1:1");
    for output in ["&-", "/dev/full"] {
        let (code, said) = run(&format!("hopbyte {agent} >{output}"));
        assert_eq!(code, Some(3), "{output}: {said}");
        assert!(said.contains("cannot write standard output"), "{said}");
    }
    for words in [
        "fabric show torus:2x2",
        "--json fabric show torus:2x2",
        "--help",
    ] {
        let (code, said) = run(&format!("hopbyte {words} >&-"));
        assert_eq!(code, Some(3), "{words}: {said}");
        assert!(said.contains("cannot write standard output"), "{said}");
        let (code, said) = run(&format!("hopbyte {words} >/dev/null"));
        assert_eq!((code, said.as_str()), (Some(0), ""), "{words}");
    }
    let draw = "hopbyte -q fabric draw torus:2x2 --out";
    assert_eq!(run(&format!("{draw} a.svg >&-")), (Some(0), String::new()));
    // The shell's file stays, with what was written before.
    for name in ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "/dev/fd/3"] {
        let both = format!("(echo before; {draw} {name} 3>&1; echo after) >b.svg");
        assert_eq!(run(&both).0, Some(0));
        let text = std::fs::read_to_string(folder.path().join("b.svg")).unwrap();
        let whole = text.starts_with("before\n<svg") && text.ends_with("</svg>\nafter\n");
        assert!(whole, "{name}: {text}");
    }
}

#[test]
fn a_machine_is_not_written_under_a_name_that_cannot_be_given() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(OsStr::from_bytes(b"f\xe9.json"));
    let done = Command::new(env!("CARGO_BIN_EXE_hopbyte"))
        .args(["fabric", "convert", "torus:4x4", "-o"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(!file.exists());
}

/// As of a full disk: the files of the earlier mapping stay, and no temporary ones.
#[test]
fn a_mapping_that_cannot_be_written_leaves_the_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    for old in ["mapping.json", "rankfile"] {
        std::fs::write(out.join(old), "old").unwrap();
    }
    std::fs::create_dir(out.join("placement.csv")).unwrap();
    let words = "map stencil:4x4:5 --fabric torus:4x4 --nodes all --trials 10 --out";
    let mut words: Vec<&str> = words.split(' ').collect();
    words.push(out.to_str().unwrap());
    let (code, said) = ask(&words, Stdio::null());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("found a folder, expected a file"), "{said}");
    for old in ["mapping.json", "rankfile"] {
        assert_eq!(std::fs::read_to_string(out.join(old)).unwrap(), "old");
    }
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 3);
    // The next mapping removes what runs that were killed left beside its files.
    let left = [".rankfile.4194305.old", ".mapping.json.4194305.tmp"];
    for name in left {
        std::fs::write(out.join(name), "left").unwrap();
    }
    std::fs::remove_dir(out.join("placement.csv")).unwrap();
    let (code, said) = ask(&words, Stdio::null());
    assert_eq!(code, Some(0), "{said}");
    assert!(left.iter().all(|name| !out.join(name).exists()));
}

/// `run` has settings where `record` has options.
#[test]
fn a_launch_names_settings_not_options_of_other_verbs() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    for (name, version, named) in [
        ("mpirun", "mpirun (Open MPI) 5.0.1", "HOPBYTE_LIBRARIES"),
        ("aprun", "", "`hopbyte record --flavour`"),
    ] {
        let launcher = folder.path().join(name);
        std::fs::write(&launcher, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
        std::fs::set_permissions(&launcher, PermissionsExt::from_mode(0o755)).unwrap();
        let done = Command::new(env!("CARGO_BIN_EXE_hopbyte"))
            .args(["run", "--dry-run", "--fabric", "torus:4x4", "--"])
            .arg(&launcher)
            .args(["-H", "n0-0,n0-1", "-n", "2", "sh"])
            .env("HOPBYTE_LIBRARIES", folder.path())
            .env("HOPBYTE_STATE", folder.path().join("state"))
            .output()
            .unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(0), "{said}");
        assert!(
            said.contains("command unchanged") && said.contains(named),
            "{said}"
        );
        assert!(
            !said.contains("give --") && !said.contains("with --libraries"),
            "{said}"
        );
    }
}

#[test]
fn places_of_another_number_of_ranks_are_of_another_job() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let mapping = folder.path().join("mapping.json");
    let words = "map stencil:4x4:5 --fabric torus:4x4x4 --nodes n0-0-[0-3] --trials 10 --out";
    let mut words: Vec<&str> = words.split(' ').collect();
    words.push(out);
    let (code, said) = ask(&words, Stdio::null());
    assert_eq!(code, Some(0), "{said}");
    let words = ["apply", mapping.to_str().unwrap(), "--ran", "data/ran.csv"];
    let (code, said) = ask(&words, Stdio::null());
    assert_eq!(code, Some(2), "{said}");
    let expected = "data/ran.csv: found 64 ranks, expected the 16 ranks of the mapping";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn options_that_nothing_uses_are_refused() {
    for (words, expected) in [
        (
            "map stencil:4x4:5 --fabric torus:4x4 --nodes all --report x.txt",
            "ends in .html, .htm, .svg",
        ),
        (
            "fabric draw torus:4x4 --out x.txt",
            "--out: found x.txt, expected a name that ends in .svg",
        ),
        (
            "map stencil:4x4:5 --fabric torus:4x4 --nodes all --token none",
            "--token: found none",
        ),
        (
            "links data/links.jsonl --fabric torus:4x4 --region 1",
            "counters without regions",
        ),
        ("replay data --token none", "--token: found none"),
        (
            "fabric show fattree:k=4 --hosts gh200 --hosts pcie-gpus",
            "no host that is left for it",
        ),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (code, said) = ask(&words, Stdio::null());
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

#[test]
fn a_speed_of_processors_that_no_trace_counts_is_told() {
    let words = "predict data/trace-ring --fabric torus:4x4 --nodes all --ranks-per-node 1 --operations-per-second 1e9";
    let words: Vec<&str> = words.split(' ').collect();
    let (code, said) = ask(&words, Stdio::null());
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("--operations-per-second has no effect"),
        "{said}"
    );
}

/// A converter that prints nothing left an empty picture.
#[test]
fn an_empty_picture_is_not_written() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let converter = folder.path().join("rsvg-convert");
    std::fs::write(&converter, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&converter, PermissionsExt::from_mode(0o755)).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_hopbyte"))
        .args(["fabric", "draw", "torus:4x4", "--out", "x.pdf"])
        .current_dir(folder.path())
        .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
        .output()
        .unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("it printed nothing"), "{said}");
    assert!(!folder.path().join("x.pdf").exists());
}
