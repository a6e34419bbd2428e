//! All unsafe code of libhopbyte under Miri: `cargo +nightly miri test -p hopbyte-capi` (scripts/miri.sh). Every function
//! of the interface, with valid, missing and invalid arguments; `tests/capi` has the same from C.

#![allow(
    unsafe_code,
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test of a C interface, on its modules themselves"
)]

#[path = "../src/border.rs"]
mod border;
#[path = "../src/machine.rs"]
mod machine;
#[path = "../src/mapping.rs"]
mod mapping;
#[path = "../src/oracle.rs"]
mod oracle;
#[path = "../src/traffic.rs"]
mod traffic;

use machine::*;
use mapping::*;
use oracle::*;
use std::ffi::{CStr, CString, c_int};
use std::ptr::{null, null_mut};
use traffic::*;

/// `hopbyte_map_options` and `hopbyte_map_worth` as C lays them out.
#[repr(C)]
struct Options {
    objective: c_int,
    seconds: f64,
    trials: u64,
    seed: u64,
    threads: c_int,
    keep: c_int,
}
#[repr(C)]
#[derive(Default)]
struct Worth {
    seconds: [f64; 3],
    hop_bytes: [f64; 2],
    moved: usize,
    version: u64,
}

fn said() -> String {
    // SAFETY: never null, and valid until the next call of this thread.
    unsafe { CStr::from_ptr(border::hopbyte_error_text()) }
        .to_str()
        .unwrap()
        .to_owned()
}

fn open(spec: &str) -> *mut hopbyte_machine {
    let spec = CString::new(spec).unwrap();
    // SAFETY: a string, and no tables.
    unsafe { hopbyte_machine_open(spec.as_ptr(), null()) }
}

#[test]
fn every_call_with_valid_missing_and_invalid_arguments() {
    // SAFETY: as `hopbyte.h` asks: objects of these functions, arrays of the given lengths, or null.
    unsafe {
        assert!(hopbyte_machine_open(null(), null()).is_null() && said().contains("NULL"));
        assert!(open("torus:0").is_null() && !said().is_empty());
        let machine = open("torus:2x2");
        assert_eq!(hopbyte_machine_node_count(machine), 4);
        assert_eq!(hopbyte_machine_node_count(null()), 0);
        let (name, mut node) = (CString::new("n1-0").unwrap(), 77);
        assert_eq!(
            hopbyte_machine_find_node(machine, name.as_ptr(), &raw mut node),
            0
        );
        assert!(node < 4);
        assert_eq!(hopbyte_machine_find_node(machine, null(), &raw mut node), 2);
        assert_eq!(
            hopbyte_machine_find_node(machine, name.as_ptr(), null_mut()),
            2
        );
        let found = hopbyte_machine_node_name(machine, node);
        assert_eq!(CStr::from_ptr(found).to_bytes(), b"n1-0");
        assert!(hopbyte_machine_node_name(machine, 9).is_null());

        let oracle = hopbyte_oracle_connect(machine, null());
        assert!(!oracle.is_null() && hopbyte_oracle_connect(null(), null()).is_null());
        let (mut version, mut time) = (7, 0.0);
        assert_eq!(
            hopbyte_oracle_refresh(oracle, &raw mut version, &raw mut time),
            0
        );
        assert!(version == 0 && time.is_nan());
        assert_eq!(hopbyte_oracle_refresh(oracle, null_mut(), null_mut()), 0);
        assert_eq!(hopbyte_oracle_set_timeout(oracle, 1.0), 0);
        assert_eq!(hopbyte_oracle_set_timeout(oracle, f64::NAN), 2);

        let (from, to, mut costs) = ([0u32, 1], [3u32, 2], [5f32; 4]);
        let ask =
            |count, from, to, costs| hopbyte_oracle_costs(oracle, 0, 0, 0, count, from, to, costs);
        assert_eq!(
            ask(2, from.as_ptr(), to.as_ptr(), costs.as_mut_ptr()),
            0,
            "{}",
            said()
        );
        assert_eq!(ask(0, null(), null(), null_mut()), 0);
        assert_eq!(ask(2, null(), to.as_ptr(), costs.as_mut_ptr()), 2);
        assert_eq!(
            ask(usize::MAX, from.as_ptr(), to.as_ptr(), costs.as_mut_ptr()),
            2
        );
        let matrix =
            |count, nodes, costs| hopbyte_oracle_matrix(oracle, 0, 0, 0, count, nodes, costs);
        assert_eq!(matrix(2, from.as_ptr(), costs.as_mut_ptr()), 0);
        assert_eq!(matrix(usize::MAX, from.as_ptr(), costs.as_mut_ptr()), 2);

        let traffic = hopbyte_traffic_create(4);
        let (senders, receivers, bytes) = ([0u32, 1], [3u32, 2], [1e6, 2e6]);
        let add =
            |n, bytes| hopbyte_traffic_add(traffic, n, senders.as_ptr(), receivers.as_ptr(), bytes);
        assert_eq!(add(2, bytes.as_ptr()), 0);
        assert_eq!(add(2, null()), 2);
        let (nodes, slots, current) = ([0u32, 1, 2, 3], [1u32; 4], [3u32, 2, 1, 0]);
        let options = Options {
            objective: 0,
            seconds: 1.0,
            trials: 20,
            seed: 1,
            threads: 1,
            keep: 0,
        };
        let options = (&raw const options).cast();
        let (n, s, c) = (nodes.as_ptr(), slots.as_ptr(), current.as_ptr());
        let mapping = hopbyte_mapping_create(machine, oracle, traffic, 4, n, s, c, options);
        assert!(!mapping.is_null(), "{}", said());
        let (mut places, mut used) = ([9u32; 4], [9u32; 4]);
        assert_eq!(
            hopbyte_mapping_places(mapping, places.as_mut_ptr(), used.as_mut_ptr()),
            0
        );
        assert_eq!(
            hopbyte_mapping_places(mapping, places.as_mut_ptr(), null_mut()),
            0
        );
        assert_eq!(hopbyte_mapping_places(mapping, null_mut(), null_mut()), 2);
        assert!(places.iter().all(|&p| p < 4) && used == [0; 4]);
        let mut worth = Worth::default();
        assert_eq!(hopbyte_mapping_worth(mapping, (&raw mut worth).cast()), 0);
        assert!(worth.seconds[1] <= worth.seconds[0]);
        assert_eq!(hopbyte_mapping_worth(mapping, null_mut()), 2);
        assert!(
            hopbyte_mapping_create(machine, oracle, traffic, 4, n, null(), c, options).is_null()
        );

        // In any order; null is nothing.
        hopbyte_machine_close(machine);
        hopbyte_mapping_free(mapping);
        hopbyte_traffic_free(traffic);
        hopbyte_oracle_close(oracle);
        hopbyte_mapping_free(null_mut());
        hopbyte_traffic_free(null_mut());
        hopbyte_oracle_close(null_mut());
        hopbyte_machine_close(null_mut());
    }
}

#[test]
fn threads_share_objects() {
    let machine = open("torus:2x2");
    // SAFETY: an open machine.
    let oracle = unsafe { hopbyte_oracle_connect(machine, null()) };
    let (m, o) = (machine as usize, oracle as usize);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                let (mut version, mut node) = (7, 7);
                let name = CString::new("n1-1").unwrap();
                // SAFETY: open objects, which threads may share.
                unsafe {
                    assert_eq!(
                        hopbyte_oracle_refresh(o as *mut _, &raw mut version, null_mut()),
                        0
                    );
                    let found =
                        hopbyte_machine_find_node(m as *const _, name.as_ptr(), &raw mut node);
                    assert_eq!((found, version), (0, 0));
                }
            });
        }
    });
    // SAFETY: no other reference to them exists.
    unsafe {
        hopbyte_oracle_close(oracle);
        hopbyte_machine_close(machine);
    }
}

#[test]
fn a_panic_is_a_status() {
    assert_eq!(border::status(|| panic!("as intended")), 4);
    assert!(said().contains("as intended"));
    assert!(border::object::<u32>(|| panic!("again")).is_null());
    assert_eq!(
        border::value(3, || Err(border::Failure::input("no\0value"))),
        3
    );
    assert_eq!(said(), "no value");
}
