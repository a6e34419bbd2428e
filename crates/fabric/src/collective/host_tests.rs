//! Collectives inside hosts and between them.

use super::tests::{moved, steps};
use super::*;
use std::collections::BTreeMap;

/// Bytes from one rank to another.
fn between(operation: Operation<'_>, from: u32, to: u32) -> f64 {
    let steps = steps(operation);
    moved(
        &steps
            .into_iter()
            .filter(|s| (s.from, s.to) == (from, to))
            .collect::<Vec<_>>(),
    )
}

/// Two hosts of four ranks, computed by hand. Rings of an allreduce of 800 B: three quarters of the vector to the next rank
/// inside, twice; half of a quarter across, twice. An all-to-all of 10 B: blocks for two hosts inside, for four ranks across.
#[test]
fn two_levels_have_these_bytes() {
    use Algorithm::{Hierarchical, NvlsTree};
    let of = |collective, algorithm, bytes| Operation {
        collective,
        algorithm,
        ranks: 8,
        root: 0,
        sizes: Sizes::Same(bytes),
        hosts: &[],
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} for {b}");
    let o = of(Collective::Allreduce, Hierarchical(4), 800.0);
    near(between(o, 0, 1), 1200.0);
    near(between(o, 3, 0), 1200.0);
    near(between(o, 7, 4), 1200.0);
    near(between(o, 1, 5), 200.0);
    near(between(o, 5, 1), 200.0);
    near(between(o, 0, 2) + between(o, 3, 4) + between(o, 0, 5), 0.0);
    let o = of(Collective::Alltoall, Hierarchical(4), 10.0);
    near(between(o, 0, 3), 20.0);
    near(between(o, 2, 6), 40.0);
    near(between(o, 2, 7), 0.0);
    // Blocks of 10 B: one across; those of two hosts, from three ranks each, inside.
    let o = of(Collective::Allgather, Hierarchical(4), 10.0);
    near(between(o, 0, 4), 10.0);
    near(between(o, 4, 5), 60.0);
    let o = of(Collective::ReduceScatter, Hierarchical(4), 10.0);
    near(between(o, 4, 0), 10.0);
    near(between(o, 6, 7), 60.0);
    // The links of a rank carry the vector and a quarter each way; of the two trees over two hosts each has one edge,
    // with half of the quarter up and down.
    let o = of(Collective::Allreduce, NvlsTree(4), 800.0);
    let own: f64 = (1..4).map(|to| between(o, 0, to)).sum();
    near(own, 1000.0);
    near(between(o, 1, 0), 1000.0 / 3.0);
    near(between(o, 2, 6), 200.0);
    near(between(o, 6, 2), 200.0);
    // One host, and hosts of one rank.
    let o = of(Collective::Allreduce, Hierarchical(8), 800.0);
    near(between(o, 7, 0), 1400.0);
    let o = of(Collective::Allreduce, Hierarchical(1), 800.0);
    near(between(o, 7, 0), 1400.0);
}

/// Open MPI 5: bytes by pair as counted in 5.0.11 (`tests/mpi/test_han.py`).
#[test]
fn groups_on_several_hosts_go_inside_and_between_them() {
    use Algorithm as A;
    use Collective as C;
    let world: Vec<u32> = (0..10).collect();
    let pairs: Vec<u32> = (0..10).map(|r| r / 2).collect();
    let rules = |hosts: &[u32]| {
        let five = Algorithms::of(Library::OpenMpi).of_release(5);
        five.on_hosts(hosts.to_vec())
    };
    let of_pairs = rules(&pairs);
    let choose = |kind, members: &[u32]| of_pairs.choose_among(kind, false, members, 8000.0);
    assert_eq!(choose(C::Allreduce, &world), A::Han(2));
    // A rank per node, a single node, and a collective without a hierarchical form.
    let flat = of_pairs.choose(C::Allreduce, 5, 8000.0);
    assert_eq!(choose(C::Allreduce, &[0, 2, 4, 6, 8]), flat);
    assert_eq!(
        choose(C::Allreduce, &[0, 1]),
        of_pairs.choose(C::Allreduce, 2, 8000.0)
    );
    assert_eq!(
        choose(C::Alltoall, &world),
        of_pairs.choose(C::Alltoall, 10, 8000.0)
    );
    // A host of two ranks and one of one.
    assert_eq!(choose(C::Allreduce, &[0, 1, 2]), A::Han(0));
    let flat = of_pairs.choose(C::Broadcast, 3, 8000.0);
    assert_eq!(choose(C::Broadcast, &[0, 1, 2]), flat);
    assert_eq!(choose(C::Allreduce, &[0, 2, 1, 3]), A::Han(2));
    assert!(of_pairs.is_assumed(C::Allgather, true, &world));
    assert!(!of_pairs.is_assumed(C::Allgather, false, &world));
    // Variables of the job without it, and earlier releases.
    let without = [("OMPI_MCA_coll", "^han")];
    for rules in [
        rules(&pairs).with_settings(without.into_iter()),
        rules(&pairs).of_release(4),
    ] {
        assert_eq!((rules.follows_hosts(), rules.doubt()), (false, None));
    }

    let of = |collective, root, bytes| Operation {
        collective,
        algorithm: A::Han(2),
        ranks: 10,
        root,
        sizes: Sizes::Same(bytes),
        hosts: &[],
    };
    let sent = |operation: Operation<'_>, from: u32| -> Vec<(u32, f64, u32)> {
        let mut found: Vec<(u32, f64, u32)> = Vec::new();
        let mut of_rank = steps(operation);
        of_rank.retain(|s| s.from == from);
        of_rank.sort_by_key(|s| s.to);
        for group in of_rank.chunk_by(|a, b| a.to == b.to) {
            let bytes = group.iter().map(|s| s.bytes * f64::from(s.times)).sum();
            found.push((group[0].to, bytes, group.iter().map(|s| s.times).sum()));
        }
        found
    };
    // Three segments.
    let v = 160_000.0;
    let allreduce = of(C::Allreduce, 0, v);
    assert_eq!(
        sent(allreduce, 0),
        [
            (1, v, 3),
            (2, 1.5 * v, 6),
            (4, 1.5 * v, 6),
            (6, 0.25 * v, 3),
            (8, v, 3)
        ]
    );
    assert_eq!(
        sent(allreduce, 8),
        [(4, 0.5 * v, 6), (6, 0.5 * v, 3), (9, v, 3)]
    );
    assert_eq!(sent(allreduce, 9), [(8, v, 3)]);
    // The root is the first rank of the second host; the first segment of a broadcast goes another way.
    let bcast = of(C::Broadcast, 2, v);
    assert_eq!(sent(bcast, 0), [(1, v, 3), (6, v - 65_536.0, 2)]);
    let reduce = of(C::Reduce, 2, v);
    assert_eq!(
        sent(reduce, 0),
        [(2, 0.75 * v, 6), (4, 0.5 * v, 3), (6, 0.25 * v, 3)]
    );
    assert_eq!(sent(of(C::Reduce, 2, 8.0), 6), [(4, 8.0, 1)]);
    let b = 8000.0;
    assert_eq!(sent(of(C::Gather, 2, b), 6), [(2, 4.0 * b, 1)]);
    assert_eq!(
        sent(of(C::Allgather, 0, b), 0),
        [
            (1, 10.0 * b, 1),
            (2, 2.0 * b, 1),
            (6, 4.0 * b, 1),
            (8, 2.0 * b, 1)
        ]
    );
}

/// Multiples of `bytes` that members send each other in one call.
fn by_pair(
    rules: &Algorithms,
    members: &[u32],
    (collective, root): (Collective, u32),
    bytes: f64,
) -> Vec<(u32, u32, f64)> {
    let what = (
        collective,
        rules.choose_among(collective, false, members, bytes),
    );
    let group = rules.arranged(what, members, root);
    let mut found = BTreeMap::new();
    for step in steps(group.operation(what, Sizes::Same(bytes))) {
        let pair = [step.from, step.to].map(|at| group.members[at as usize]);
        *found.entry(pair).or_insert(0.0) += step.bytes / bytes * f64::from(step.times);
    }
    found.into_iter().map(|([a, b], n)| (a, b, n)).collect()
}

/// Open MPI 5 with three ranks on one host and two on the other, as counted in 5.0.11 (`tests/mpi/test_han.py`).
#[test]
fn an_allreduce_goes_inside_unequal_hosts_and_between_their_first_ranks() {
    let rules = Algorithms::of(Library::OpenMpi).of_release(5);
    let rules = rules.on_hosts(vec![0, 0, 0, 1, 1]);
    let sent = by_pair(
        &rules,
        &[0, 1, 2, 3, 4],
        (Collective::Allreduce, 0),
        160_000.0,
    );
    let (inside, between) = ([(0, 1), (0, 2), (3, 4)], (0, 3));
    let mut expected: Vec<(u32, u32, f64)> = (inside.into_iter().chain([between]))
        .flat_map(|(a, b)| [(a, b, 1.0), (b, a, 1.0)])
        .collect();
    expected.sort_by_key(|e| (e.0, e.1));
    assert_eq!(sent, expected);
    let refused = |collective, hosts: &[u32]| {
        let operation = Operation {
            collective,
            algorithm: Algorithm::Han(0),
            ranks: 5,
            root: 0,
            sizes: Sizes::Same(8.0),
            hosts,
        };
        operation.steps(&mut |_| {}).is_err()
    };
    assert!(refused(Collective::Allreduce, &[3, 3]));
    assert!(refused(Collective::Allreduce, &[]));
    assert!(refused(Collective::Broadcast, &[3, 2]));
    assert!(!refused(Collective::Allreduce, &[3, 2]));
}

/// Open MPI 5 where ranks of a host do not follow each other: bytes by pair as counted in 5.0.11 (`tests/mpi/test_han.py`).
#[test]
fn hosts_with_ranks_in_any_order_are_taken_by_the_roots_number() {
    use Collective as C;
    let world: Vec<u32> = (0..6).collect();
    let rules = Algorithms::of(Library::OpenMpi).of_release(5);
    let rules = rules.on_hosts(vec![0, 1, 1, 0, 2, 2]);
    let sent = |collective, root| by_pair(&rules, &world, (collective, root), 8000.0);
    let gather: Vec<(u32, u32, f64)> = sent(C::Gather, 2);
    assert_eq!(
        gather,
        [
            (0, 3, 1.0),
            (1, 2, 1.0),
            (3, 2, 2.0),
            (4, 5, 1.0),
            (5, 2, 2.0)
        ]
    );
    assert_eq!(
        sent(C::Reduce, 2),
        [
            (0, 3, 1.0),
            (1, 2, 1.0),
            (2, 3, 0.5),
            (2, 5, 0.5),
            (3, 2, 1.0),
            (4, 5, 1.0),
            (5, 2, 1.0)
        ]
    );
    assert_eq!(
        sent(C::Allgather, 0),
        [
            (0, 1, 2.0),
            (0, 3, 6.0),
            (0, 4, 2.0),
            (1, 0, 2.0),
            (1, 2, 6.0),
            (1, 4, 2.0),
            (2, 1, 1.0),
            (3, 0, 1.0),
            (4, 0, 2.0),
            (4, 1, 2.0),
            (4, 5, 6.0),
            (5, 4, 1.0)
        ]
    );
}
