//! Commands in the README, the book and tests/transcripts print exactly the output shown there.
//!
//! Commands run in an empty folder with the repository's `data` and `scenarios`, so that their output files stay
//! there. `TRYCMD=overwrite cargo test -p hopbyte-cli --test transcripts` rewrites them.

use std::os::unix::fs::symlink;

#[test]
fn commands_print_what_the_documents_show() {
    let root = hopbyte_testdata::workspace().canonicalize().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    for folder in ["data", "scenarios"] {
        symlink(root.join(folder), scratch.path().join(folder)).unwrap();
    }
    std::env::set_current_dir(scratch.path()).unwrap();
    trycmd::TestCases::new()
        .case(root.join("README.md"))
        .case(root.join("docs/src/**/*.md"))
        .case(root.join("tests/transcripts/*.md"));
}
