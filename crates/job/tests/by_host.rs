//! Records of collectives that depend on which ranks share a host: Open MPI 5.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::LinkState;
use hopbyte_job::spread::{Searched, Spread, best_of};
use hopbyte_job::{Asked, Document, Effort, MachineSource, Mapping, Question, search, verify};
use hopbyte_map::Verdict;
use hopbyte_map::budget::Stakes;
use std::fmt::Write as _;
use std::path::Path;

const FIVE: &str = "Open MPI v5.0.11, package: x";
const FOUR: &str = "Open MPI v4.1.4, package: x";

/// A record of `ranks`, each on a host of its own: a collective of all, and messages to the rank half of them further.
fn record(folder: &Path, library: &str, (kind, bytes): (&str, u64), ranks: u32, halo: u64) {
    for rank in 0..ranks {
        let list = if rank == 0 {
            format!("0-{}", ranks - 1)
        } else {
            "-".into()
        };
        let root = if kind == "bcast" { "0" } else { "-1" };
        let to = (rank + ranks / 2) % ranks;
        let mut text = format!(
            "# hopbyte-record 2\nrank\t{rank}\nsize\t{ranks}\nspawned\t0\nlibrary\t{library}\nhost\th{rank}\n\
             phase\t0\tmain\ngroup\tab\t{ranks}\t{list}\nK\t0\tab\t{kind}\t{root}\t{bytes}\t{bytes}\t1\n"
        );
        if halo > 0 {
            writeln!(text, "P\t0\t{to}\t{halo}\t1").unwrap();
        }
        text.push_str("ended\tfinalize\n");
        let lines = text.lines().count();
        writeln!(text, "end\t{lines}").unwrap();
        std::fs::write(folder.join(format!("rank.{rank}.hbr")), text).unwrap();
    }
}

fn asked(folder: &Path, nodes: &str, each: u32) -> Asked {
    Asked {
        traffic: folder.to_str().unwrap().into(),
        machine: MachineSource {
            fabric: "torus:4x4".into(),
            ..MachineSource::default()
        },
        nodes: Some(nodes.into()),
        ranks_per_node: Some(each),
        wire: hopbyte_job::WireOptions::payload(),
        ..Asked::default()
    }
}

fn effort(trials: u64) -> Effort {
    Effort {
        trials: Some(trials),
        threads: 1,
        ..Effort::default()
    }
}

fn found(asked: &Asked, trials: u64) -> (Question, Mapping) {
    let mut question = asked.read().unwrap();
    let mapping = search(&question, &effort(trials), &|_| {}).unwrap();
    question.settle(&mapping.placement).unwrap();
    (question, mapping)
}

#[test]
fn a_placement_is_judged_by_the_messages_that_it_makes() {
    let folder = tempfile::tempdir().unwrap();
    let off_node = |library: &str| {
        record(folder.path(), library, ("bcast", 8000), 4, 0);
        let (question, mapping) = found(&asked(folder.path(), "n0-0,n0-1", 2), 0);
        assert_eq!(question.following.is_some(), library == FIVE);
        mapping.certificate.baseline.off_node_bytes
    };
    // Ranks 0 and 1 send to 2 and 3; or 0 to 2, and each to the other rank of its node.
    assert_eq!(off_node(FOUR), 16_000.0);
    assert_eq!(off_node(FIVE), 8_000.0);
    // All-to-alls do not depend on hosts.
    record(folder.path(), FIVE, ("alltoall", 8000), 4, 0);
    let asked = asked(folder.path(), "n0-0,n0-1", 2);
    assert!(asked.read().unwrap().following.is_none());
}

#[test]
fn the_search_goes_on_with_the_messages_of_its_result() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), FIVE, ("allreduce", 160_000), 16, 40_000);
    let asked = asked(folder.path(), "n0-1,n0-2,n0-3,n1-0", 4);
    let (question, mapping) = found(&asked, 40_000);
    let c = &mapping.certificate;
    // Partners that are eight ranks apart come together, without more bytes of the allreduce.
    assert_eq!(c.verdict, Verdict::Improved);
    assert_eq!(
        c.result.off_node_bytes,
        c.baseline.off_node_bytes - 640_000.0
    );
    assert_eq!(question.evaluate(&mapping.placement).unwrap(), c.result);
    let halo = c.bound.hop_bytes;
    assert!(halo <= c.result.hop_bytes && c.bound.turns_seconds.is_none());
    assert!(
        question
            .traffic_notes
            .iter()
            .any(|n| n.contains("allreduce by han"))
    );
    assert!(question.following_note().unwrap().contains("4 searches"));

    // The document has the traffic of the result, from which `verify` starts again.
    let document = Document::of(&question, &mapping);
    let text = document.text().unwrap();
    assert!(text.contains("\"by_placement\": true"), "{text}");
    let file = folder.path().join("mapping.json");
    std::fs::write(&file, text).unwrap();
    let saved = Document::read(&file).unwrap();
    let fabric = &question.machine.fabric;
    let mut observed = LinkState::unknown(fabric);
    for (link, &bytes) in fabric.link_ids().zip(&c.result.link_bytes) {
        observed.received_bytes.set(link, Some(bytes));
    }
    let predicted = verify::predict(&saved, &question.machine, &observed, 1.0).unwrap();
    assert_eq!(predicted.bytes_apart, 0.0);

    // Several seeds, and a migration within a budget.
    let spread = Spread {
        seeds: 2,
        ..Spread::default()
    };
    let of_seeds = best_of(&spread, &question, &effort(40_000), &mut |_| {}, &|_| {});
    let Searched::Whole(of_seeds) = of_seeds.unwrap() else {
        panic!("a part");
    };
    assert!(of_seeds.certificate.result.hop_bytes <= c.result.hop_bytes);
}

/// Rows and columns of 256 ranks: a search with the messages of ranks in order alone ends with a placement that is worse.
#[test]
fn orders_of_hosts_are_searched_too() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..256u32 {
        let (row, column) = (rank / 16, rank % 16);
        let list = |is_first: bool, list: String| if is_first { list } else { "-".into() };
        let rows = list(column == 0, format!("{}-{}", row * 16, row * 16 + 15));
        let columns = list(row == 0, format!("{column}-{}:16", 240 + column));
        let mut text = format!(
            "# hopbyte-record 2\nrank\t{rank}\nsize\t256\nspawned\t0\nlibrary\t{FIVE}\nhost\th{rank}\nphase\t0\tmain\n\
             group\tr{row}\t16\t{rows}\ngroup\tc{column}\t16\t{columns}\n\
             K\t0\tr{row}\tbcast\t3\t100000\t10000000\t100\nK\t0\tc{column}\tallreduce\t-1\t200000\t2000000\t10\n\
             ended\tfinalize\n"
        );
        let lines = text.lines().count();
        writeln!(text, "end\t{lines}").unwrap();
        std::fs::write(folder.path().join(format!("rank.{rank}.hbr")), text).unwrap();
    }
    let (_, mapping) = found(&asked(folder.path(), "all", 16), 40_000);
    let c = &mapping.certificate;
    assert_eq!(c.verdict, Verdict::Improved);
    assert!(c.result.hop_bytes < 0.8 * c.baseline.hop_bytes);
}

#[test]
fn a_migration_is_weighed_by_the_messages_that_it_makes() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), FIVE, ("allreduce", 8_000), 16, 400_000);
    let current = folder.path().join("placement.csv");
    let lines = (0..16).map(|r| format!("{r},n0-{}\n", r / 4));
    std::fs::write(
        &current,
        format!("rank,node\n{}", lines.collect::<String>()),
    )
    .unwrap();
    let asked = Asked {
        current: Some(current),
        ..asked(folder.path(), "n0-0,n0-1,n0-2,n0-3", 4)
    };
    let question = asked.read().unwrap();
    let effort = effort(40_000);
    for budget in [None, Some(4), Some(0)] {
        let mapping = search(&question, &effort, &|_| {}).unwrap();
        let stakes = Stakes {
            budget,
            remaining_seconds: None,
            communication_ratio: 1.0,
            bytes_per_task: 0.0,
        };
        let weighed = mapping.weighed(&question, &stakes, &effort).unwrap();
        let migration = weighed.migration.as_ref().unwrap();
        assert!(migration.moving_tasks <= budget.unwrap_or(16) && migration.wanted_tasks > 4);
        assert_eq!(migration.budget, budget);
        let cost = question.evaluate(&weighed.placement).unwrap();
        assert_eq!(cost, weighed.certificate.result);
        let was = weighed.certificate.current.as_ref().unwrap();
        assert_eq!(
            cost.better_than(was, &question.problem().objective),
            budget != Some(0)
        );
    }
}
