//! Placements of real jobs; output of `apply`, read back; damaged files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::machine;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Allocation, Fabric, Placement, Slot, spec};
use hopbyte_observe::placement::placement;
use hopbyte_observe::text::{Limits, Text};
use hopbyte_observe::{Placed, parse_nodes, read_placement};
use hopbyte_testdata::shared;
use proptest::prelude::*;

fn parse(
    content: &[u8],
    fabric: &Fabric,
    allocation: Option<&Allocation>,
) -> Result<Placed, String> {
    let text = Text::from_bytes("input", content, Limits::TEXT).map_err(|e| e.to_string())?;
    placement(&text, fabric, allocation).map_err(|e| e.to_string())
}

#[test]
fn plafrim_s_job_ran_on_three_hosts() {
    let Some(path) = shared("infiniband/plafrim2/ib-subnet-fe80_0000_0000_0000.txt") else {
        return;
    };
    let m = machine(&path);
    let placed = read_placement(&path.with_file_name("resources.txt"), &m.fabric, None).unwrap();
    let hosts: Vec<(&str, u32)> = placed
        .allocation
        .nodes()
        .iter()
        .map(|&(n, c)| (m.fabric.node(n).host.as_str(), c))
        .collect();
    assert_eq!(
        hosts,
        [("miriel063", 24), ("miriel064", 24), ("miriel065", 16)]
    );
    assert_eq!(placed.placement.tasks(), 64);
    // Ranks fill the hosts one after the other.
    let in_order = Placement::in_order(&placed.allocation, 64).unwrap();
    assert_eq!(placed.placement, in_order);
    let listed = parse_nodes("miriel[063-064]:24,miriel065:16", 1, &m.fabric).unwrap();
    assert_eq!(listed, placed.allocation);
}

/// Forms of a placement: (text, whether it contains slots).
fn printed(fabric: &Fabric, allocation: &Allocation, p: &Placement) -> Vec<(String, bool)> {
    let host = |s: &Slot| fabric.node(s.node).host.clone();
    let lines = |f: &dyn Fn(usize, &Slot) -> String| -> String {
        p.slots()
            .iter()
            .enumerate()
            .map(|(r, s)| f(r, s) + "\n")
            .collect()
    };
    let order: Vec<String> = allocation
        .slots()
        .filter_map(|slot| p.slots().iter().position(|s| *s == slot))
        .map(|rank| rank.to_string())
        .collect();
    let mut forms = vec![
        (
            lines(&|r, s| format!("rank {r}={} slot={}", host(s), s.slot)),
            true,
        ),
        (
            format!(
                "rank,node,slot\n{}",
                lines(&|r, s| format!("{r},{},{}", host(s), s.slot))
            ),
            true,
        ),
        (lines(&|_, s| host(s)), false),
        (
            format!("rank,node\n{}", lines(&|r, s| format!("{r},{}", host(s)))),
            false,
        ),
    ];
    if p.tasks() == allocation.capacity() {
        forms.push((order.join(",") + "\n", true));
    }
    forms
}

proptest! {
    #[test]
    fn printed_placements_are_read_back(seed: u64, ranks in 2usize..40, full: bool) {
        let fabric = spec::fabric("gemini:2x2x8").unwrap();
        let allocation = parse_nodes("nid[00000-00004]:7,nid00009:5", 1, &fabric).unwrap();
        let mut slots: Vec<Slot> = allocation.slots().collect();
        Random::new(seed).shuffle(&mut slots);
        slots.truncate(if full { slots.len() } else { ranks });
        let p = Placement::new(&fabric, &allocation, slots).unwrap();
        for (content, exact) in printed(&fabric, &allocation, &p) {
            let read = parse(content.as_bytes(), &fabric, Some(&allocation)).unwrap();
            prop_assert_eq!(&read.allocation, &allocation);
            if exact {
                prop_assert_eq!(&read.placement, &p, "{}", content);
            } else {
                prop_assert_eq!(read.placement.moved(&p), 0, "{}", content);
            }
        }
    }
}
