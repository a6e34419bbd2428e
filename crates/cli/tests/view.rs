//! `hopbyte view`: a page from real counters, or an error.

#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::path::Path;

fn hopbyte(words: &[&str]) -> u8 {
    let words = std::iter::once("hopbyte").chain(words.iter().copied());
    hopbyte_cli::run(words.map(OsString::from))
}

#[test]
fn counters_of_a_torus_become_a_page() {
    let Some(counters) = hopbyte_testdata::shared("bgp-torus/bgpc_links.yaml.gz") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let (counters, out) = (counters.to_str().unwrap(), page.to_str().unwrap());
    let code = hopbyte(&[
        "view",
        counters,
        "--fabric",
        "torus:8x8x8:link=0.425",
        "-o",
        out,
    ]);
    assert_eq!(code, 0);
    let text = std::fs::read_to_string(&page).unwrap();
    // Every one of the 512 × 6 links was read, and no host link.
    assert!(text.contains("Known for 3,072 of 4,096 links"));
    assert!(text.contains("window not known") && text.contains("not known <small>1,024"));
}

#[test]
fn a_machine_alone_is_shown_too() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let fabric = hopbyte_testdata::own("infiniband/opensm-torus-5x4x3/ibnetdiscover.out.zst");
    let words = ["view", "--fabric", fabric.to_str().unwrap(), "-o"];
    assert_eq!(
        hopbyte(&[&words[..], &[page.to_str().unwrap()]].concat()),
        0
    );
    let text = std::fs::read_to_string(&page).unwrap();
    // The torus is inferred from the names of its switches, and confirmed by every cable.
    assert!(text.contains("60 routers on a 5×4×3 grid"));
}

#[test]
fn bad_counters_leave_no_page() {
    let folder = tempfile::tempdir().unwrap();
    let (bad, page) = (
        folder.path().join("bad.txt"),
        folder.path().join("page.html"),
    );
    std::fs::write(&bad, "no counters\n").unwrap();
    let text = |p: &Path| p.to_str().unwrap().to_owned();
    let (bad, out) = (text(&bad), text(&page));
    let code = hopbyte(&["view", &bad, "--fabric", "torus:4x4", "-o", &out]);
    assert_eq!(code, 2);
    assert!(!page.exists());
}

#[test]
fn a_mapping_is_drawn_before_and_after() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("mapped.svg");
    let words = [
        "--quiet",
        "map",
        "stencil:4x4x4:27:20000,400,8",
        "--fabric",
        "torus:4x4x4",
        "--nodes",
        "n0-0-0,n1-2-0,n3-3-3,n2-0-1",
        "--trials",
        "2000",
        "--report",
    ];
    let code = hopbyte(&[&words[..], &[picture.to_str().unwrap()]].concat());
    assert_eq!(code, 0);
    let text = std::fs::read_to_string(&picture).unwrap();
    assert!(text.starts_with("<svg") && text.contains("Before: in order"));
    assert!(text.contains("$ hopbyte --quiet map stencil:4x4x4:27:20000,400,8"));
}

#[test]
fn a_quantity_that_was_not_read_is_refused() {
    let Some(counters) = hopbyte_testdata::shared("bgp-torus/bgpc_links.yaml.gz") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("machine.svg");
    let draw = |quantity: &str| {
        hopbyte(&[
            "--quiet",
            "fabric",
            "draw",
            "torus:8x8x8",
            "--load",
            counters.to_str().unwrap(),
            "--quantity",
            quantity,
            "-o",
            picture.to_str().unwrap(),
        ])
    };
    assert_eq!(draw("used"), 2);
    assert!(!picture.exists());
    assert_eq!(draw("packets"), 0);
    let text = std::fs::read_to_string(&picture).unwrap();
    assert!(text.contains("Not known for 1024 of 4096 links"));
}
