//! The program that runs: to start it again, and to find the files that are installed with it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Names the command of a process that is not the command itself, as the interpreter of the Python package. The first
/// call counts.
pub fn name(path: PathBuf) {
    let _ = NAMED.set(path);
}

/// The command's file.
///
/// # Errors
/// The system does not tell it.
pub fn own() -> io::Result<PathBuf> {
    match NAMED.get() {
        Some(path) => Ok(path.clone()),
        None => std::env::current_exe(),
    }
}

/// Folders named relative to an installation: below its prefix (`PREFIX/bin/hopbyte`), below a checkout
/// (`target/release/hopbyte`), and in the working folder.
pub fn places(relative: &[String]) -> Vec<PathBuf> {
    let command = own().ok();
    let roots = command.iter().flat_map(|c| c.ancestors().skip(2).take(2));
    let roots: Vec<&Path> = roots.chain([Path::new("")]).collect();
    let below = |r: &String| {
        roots
            .iter()
            .map(move |root| root.join(r))
            .collect::<Vec<_>>()
    };
    relative.iter().flat_map(below).collect()
}

/// The command `make -C FOLDER` for a part of a checkout, or for the sources that an installation has of it.
pub fn make(command: &str) -> String {
    let sources = places(&["share/hopbyte/src".into()]);
    match sources.iter().find(|folder| folder.is_dir()) {
        Some(sources) => {
            let folder = format!("make -C {}/", sources.display());
            command.replacen("make -C ", &folder, 1) + " OUT=FOLDER"
        }
        None => command.to_owned(),
    }
}
