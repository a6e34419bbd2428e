//! Names, numbers and coordinates of real machines, every node, both ways.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::{aries, gemini};
use hopbyte_observe::text::{Limits, Text, lossy};

/// Rows of words of a shared file, or `None` (with a message on stderr) if it is absent.
fn rows(file: &str) -> Option<Vec<Vec<String>>> {
    let path = hopbyte_testdata::shared(file)?;
    let text = Text::read(&path, Limits::TEXT).unwrap();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    Some(lossy(text.bytes()).lines().map(words).collect())
}

fn numbers(words: &[String]) -> Vec<u32> {
    words.iter().map(|w| w.parse().unwrap()).collect()
}

#[test]
fn every_node_of_cielo() {
    let Some(rows) = rows("cray/cielo.system-map.txt") else {
        return;
    };
    let machine = gemini::Machine::new([16, 12, 24]).unwrap();
    let mut nodes = 0;
    for row in &rows[2..] {
        let at: [u32; 3] = numbers(&row[4..7]).try_into().unwrap();
        let nid: u32 = row[0].parse().unwrap();
        assert_eq!(machine.cname(at), row[3]);
        assert_eq!(machine.coordinate(&row[3]), Some(at));
        assert_eq!(machine.coordinate(&row[2]), Some(at), "{}", row[2]);
        assert_eq!(machine.of_nid(nid), Some(at));
        assert_eq!(machine.nid(at), nid & !1);
        nodes += 1;
    }
    assert_eq!(nodes, 9216);
}

#[test]
fn every_node_of_hopper() {
    let Some(rows) = rows("cray/hopper_nodemap.txt") else {
        return;
    };
    let machine = gemini::Machine::new([17, 8, 24]).unwrap();
    let mut nodes = 0;
    for row in &rows[1..] {
        let nid: u32 = row[0].trim_start_matches("nid").parse().unwrap();
        let at: [u32; 3] = numbers(&row[1..4]).try_into().unwrap();
        assert_eq!((machine.of_nid(nid), machine.nid(at)), (Some(at), nid & !1));
        nodes += 1;
    }
    assert_eq!(nodes, 6528);
}

#[test]
fn every_node_of_edison() {
    let Some(rows) = rows("cray/edison.system-map.txt.zst") else {
        return;
    };
    let floor = aries::Floor { columns: 8 };
    let mut nodes = 0;
    for row in &rows[2..] {
        // Columns Blue, Black, Green are group, chassis, slot.
        let at: [u32; 3] = numbers(&row[4..7]).try_into().unwrap();
        let nid: u32 = row[0].parse().unwrap();
        assert_eq!(floor.cname(at), row[3]);
        assert_eq!(floor.coordinate(&row[3]), Some(at));
        assert_eq!(floor.coordinate(&row[2]), Some(at));
        assert_eq!(aries::of_nid(nid).0, at);
        assert_eq!(aries::nid(at, nid % 4), nid);
        nodes += 1;
    }
    assert_eq!(nodes, 5760);
}
