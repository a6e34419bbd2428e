//! Errors show identifiers that `hopbyte explain` describes; the example of each class fails with that class.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::Class;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

fn hopbyte(folder: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hopbyte"))
        .args(line.split_whitespace())
        .current_dir(folder)
        .env_remove("HOPBYTE_FABRIC")
        .output()
        .unwrap()
}

fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = hopbyte_testdata::workspace().join("data");
    symlink(data.canonicalize().unwrap(), folder.path().join("data")).unwrap();
    folder
}

#[test]
fn the_example_of_every_class_fails_so() {
    let folder = scratch();
    for class in Class::ALL {
        let about = class.about();
        let Some(line) = about.example.strip_prefix("hopbyte ") else {
            continue;
        };
        let text = hopbyte(folder.path(), line);
        let said = String::from_utf8_lossy(&text.stderr).into_owned();
        let expected = format!("error[{}]: ", about.id);
        assert!(said.contains(&expected), "{}: {said}", about.example);
        assert!(matches!(text.status.code(), Some(2 | 3)), "{said}");
        assert!(text.stdout.is_empty(), "{}", about.example);

        // With --json the same as an object, beside the text.
        let json = hopbyte(folder.path(), &format!("--json {line}"));
        let object: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(object["schema"], "hopbyte.error/1");
        assert_eq!(object["id"], about.id);
        assert_eq!(
            object["exit"],
            json.status.code().unwrap(),
            "{}",
            about.example
        );
        let message = object["message"].as_str().unwrap();
        let said = String::from_utf8_lossy(&json.stderr).into_owned();
        let first = message.lines().next().unwrap();
        assert!(said.contains(first), "{first} is not in {said}");
    }
}

#[test]
fn explain_prints_every_class() {
    let folder = scratch();
    let all = hopbyte(folder.path(), "explain");
    let list = String::from_utf8(all.stdout).unwrap();
    assert_eq!(list.lines().count(), Class::ALL.len());
    for class in Class::ALL {
        let about = class.about();
        assert!(list.contains(&format!("{}  {}\n", about.id, about.title)));
        let one = hopbyte(folder.path(), &format!("explain {}", about.id));
        let text = String::from_utf8(one.stdout).unwrap();
        for part in [about.title, about.cause, about.example, about.remedy] {
            assert!(text.contains(part), "{text}");
        }
    }
}
