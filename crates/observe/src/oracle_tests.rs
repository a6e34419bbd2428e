//! The client of an oracle.

#![allow(clippy::unwrap_used)]

use super::*;
use std::os::unix::net::UnixListener;

#[test]
fn every_metric_of_a_state_is_transmitted() {
    let fabric = hopbyte_fabric::spec::fabric("torus:2x2").unwrap();
    let mut state = LinkState::unknown(&fabric);
    let links: Vec<_> = fabric.link_ids().collect();
    let columns = [
        &mut state.received_bytes,
        &mut state.used_ratio,
        &mut state.input_stall_ratio,
        &mut state.credit_stall_ratio,
        &mut state.input_stall_seconds,
        &mut state.credit_stall_seconds,
        &mut state.packets,
        &mut state.errors,
    ];
    for (number, column) in columns.into_iter().enumerate() {
        column.set(links[number % 3], Some(number as f64 + 0.5));
    }
    state.coverage[links[1].index()] = 0.75;
    let packed = State::columns_of(&state);
    let sent = State {
        links: links.len(),
        ..State::default()
    };
    let got = sent.link_state(&fabric, &packed).unwrap();
    assert_eq!(format!("{got:?}"), format!("{state:?}"));
}

#[test]
fn an_oracle_that_does_not_answer_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("oracle");
    let _silent = UnixListener::bind(&path).unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    for address in [path.to_str().unwrap(), &address] {
        let mut oracle = Oracle::connect(address).unwrap();
        oracle.set_timeout(Duration::from_millis(50));
        let error = oracle.ask(&Ask::default(), &[]).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("no answer within 0.05 s"), "{said}");
        assert!(
            said.contains("hint: is the program there an oracle"),
            "{said}"
        );
        assert_eq!(error.class(), hopbyte_fabric::Class::Unreachable);
    }
}
