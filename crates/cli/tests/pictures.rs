//! The pictures of the book equal the output of their commands.
//!
//! `HOPBYTE_PICTURES=write cargo test -p hopbyte-cli --test pictures` redraws them (`make pictures`).

#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Command lines `$ hopbyte … fabric draw … --out NAME.svg` of a page, with the picture's name.
fn commands(page: &str) -> Vec<(String, String)> {
    page.lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .filter(|line| line.contains("fabric draw"))
        .filter_map(|line| Some((line.to_owned(), line.split_once("--out ")?.1.to_owned())))
        .collect()
}

#[test]
fn pictures_are_what_their_commands_draw() {
    let root = hopbyte_testdata::workspace().canonicalize().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    symlink(root.join("data"), scratch.path().join("data")).unwrap();
    std::env::set_current_dir(scratch.path()).unwrap();
    let write = std::env::var_os("HOPBYTE_PICTURES").is_some_and(|v| v == "write");
    let mut drawn = 0;
    for entry in std::fs::read_dir(root.join("docs/src/machines")).unwrap() {
        let page = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let pictures = page.matches("](../pictures/").count();
        let commands = commands(&page);
        assert_eq!(
            commands.len(),
            pictures,
            "a command for every picture: {page}"
        );
        for (command, name) in commands {
            assert!(page.contains(&format!("](../pictures/{name})")), "{name}");
            let words = command.split(' ').map(OsString::from);
            assert_eq!(hopbyte_cli::run(words), 0, "{command}");
            let book = root.join("docs/src/pictures").join(&name);
            if write {
                std::fs::copy(&name, &book).unwrap();
            }
            let same = std::fs::read(Path::new(&name)).unwrap() == std::fs::read(&book).unwrap();
            assert!(
                same,
                "{} differs from the output of `{command}`: make pictures",
                book.display()
            );
            drawn += 1;
        }
    }
    assert_eq!(
        drawn,
        std::fs::read_dir(root.join("docs/src/pictures"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().is_file())
            .count(),
        "folders hold pictures of measurements, drawn by the benchmarks"
    );
}
