//! Help texts name every row of the tables that they are made from.

#![allow(clippy::unwrap_used)]

use hopbyte_apply::Launcher;
use hopbyte_job::Goal;
use hopbyte_observe::kinds;
use hopbyte_oracle::Metric;
use std::process::Command;

/// The long help of a verb, on one line.
fn help(verb: &[&str]) -> String {
    let command = env!("CARGO_BIN_EXE_hopbyte");
    let out = Command::new(command)
        .args(verb)
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(out.stdout).unwrap();
    help.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Fails for a row of a table that a help text does not name.
#[test]
fn help_names_every_row_of_the_tables() {
    let rows = |verb: &[&str], names: Vec<&str>| {
        let help = help(verb);
        for name in names {
            assert!(help.contains(name), "{verb:?} does not say {name}: {help}");
        }
    };
    let [machines, counters, traffic, traces, placements] = kinds::kinds().map(|k| {
        let names = k.formats.into_iter().map(|f| f.name);
        names.collect::<Vec<&str>>()
    });
    // Parts of a machine are other options; mpiP is refused.
    let parts = [
        "phys-routes",
        "ibroute",
        "guid2lid",
        "opensm-sl2vl.dump",
        "opensm-torus.dump",
    ];
    let whole = machines.into_iter();
    let whole: Vec<&str> = whole
        .filter(|n| !parts.iter().any(|p| n.contains(p)))
        .collect();
    rows(&["fabric", "show"], whole.clone());
    rows(&["map"], whole);
    rows(&["links"], counters);
    rows(
        &["map"],
        traffic.into_iter().filter(|n| *n != "mpiP").collect(),
    );
    rows(&["map"], traces);
    rows(&["map"], placements);
    rows(&["map"], Goal::ALL.map(Goal::about).into());
    rows(&["map"], Metric::ALL.map(Metric::name).into());
    rows(&["oracle", "query"], Metric::ALL.map(Metric::about).into());
    for verb in [&["map"][..], &["apply"]] {
        rows(verb, Launcher::ALL.map(Launcher::name).into());
        rows(verb, Launcher::ALL.map(Launcher::about).into());
    }
}
