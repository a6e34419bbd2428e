//! Paths of the test captures.
//!
//! `data/` holds captures made for this repository and is always present. Dumps of real machines that may not be
//! copied are in a folder beside the checkout (`../shared/data`, or `$HOPBYTE_SHARED/data`); tests on them are
//! skipped with a message if it is absent.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// Root of the workspace (the folder with the top `Cargo.toml`).
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file or folder below the repository's own `data/`.
pub fn own(relative: &str) -> PathBuf {
    workspace().join("data").join(relative)
}

/// A file or folder of the shared captures, or `None` with a message on stderr if absent.
///
/// Set `HOPBYTE_SHARED` to the folder that holds `data/`; the default is `../shared` beside the checkout.
/// With `HOPBYTE_REQUIRE_SHARED=1` an absent file fails the test.
pub fn shared(relative: &str) -> Option<PathBuf> {
    let root = std::env::var_os("HOPBYTE_SHARED")
        .map_or_else(|| workspace().join("../shared"), PathBuf::from);
    let path = root.join("data").join(relative);
    if path.exists() {
        return Some(path);
    }
    assert!(
        std::env::var_os("HOPBYTE_REQUIRE_SHARED").is_none(),
        "{} is required and absent",
        path.display()
    );
    eprintln!("skipped: {} is not on this machine", path.display());
    None
}
