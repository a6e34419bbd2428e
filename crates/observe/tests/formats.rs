//! The tables of formats are complete: every row has a page that names it and a seed that is recognised as its
//! format, and every folder of seeds has a target.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::seeds;
use hopbyte_fabric::InputError;
use hopbyte_observe::kinds::kinds;
use hopbyte_observe::known::Known;
use hopbyte_observe::text::{Limits, Text};
use hopbyte_observe::{counters, fabric, placement, traffic};
use std::collections::BTreeSet;

/// The format that a text is recognised as.
fn recognised(kind: &str, text: &Text) -> Result<Known, InputError> {
    match kind {
        "machines" => fabric::Format::of(text).map(fabric::Format::known),
        "counters" => counters::format(text),
        "traffic" | "traces" => traffic::format(text),
        "placements" => placement::format(text),
        _ => panic!("no such kind: {kind}"),
    }
}

#[test]
fn every_format_has_a_seed_that_is_recognised_as_it() {
    for kind in kinds() {
        for format in &kind.formats {
            let mut found = Vec::new();
            for (_, seed) in seeds(format.fuzz) {
                let text = Text::from_bytes("seed", &seed, Limits::ANY).unwrap();
                found.extend(recognised(kind.name, &text).ok());
            }
            assert!(
                found.contains(format),
                "{}: no file in fuzz/seeds/{} is recognised as {}",
                kind.name,
                format.fuzz,
                format.name
            );
        }
    }
}

#[test]
fn every_folder_of_seeds_has_a_target() {
    let root = hopbyte_testdata::workspace();
    let others = std::fs::read_to_string(root.join("fuzz/lib.rs")).unwrap();
    let rows: BTreeSet<&str> = kinds()
        .iter()
        .flat_map(|k| k.formats.iter().map(|f| f.fuzz))
        .collect();
    for entry in std::fs::read_dir(root.join("fuzz/seeds")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            rows.contains(&*name) || others.contains(&format!("(\"{name}\", ")),
            "fuzz/seeds/{name} is no target"
        );
    }
}

#[test]
fn every_page_names_its_formats() {
    let root = hopbyte_testdata::workspace().join("docs/src");
    let words = |text: &str| {
        text.replace(['`', ',', '(', ')', '[', ']'], " ")
            .to_lowercase()
    };
    for kind in kinds() {
        for format in &kind.formats {
            let page = words(&std::fs::read_to_string(root.join(format.page)).unwrap());
            for word in words(format.name).split_whitespace() {
                assert!(
                    page.contains(word),
                    "docs/src/{} does not name {}: no {word}",
                    format.page,
                    format.name
                );
            }
        }
    }
}
