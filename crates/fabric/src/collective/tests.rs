use super::*;

const RANKS: [u32; 10] = [1, 2, 3, 4, 5, 7, 8, 12, 16, 33];

fn steps(operation: Operation<'_>) -> Vec<Step> {
    let mut list = Vec::new();
    operation.steps(&mut |s| list.push(s)).unwrap();
    list
}

fn moved(steps: &[Step]) -> f64 {
    steps.iter().map(|s| s.bytes * f64::from(s.times)).sum()
}

fn possible(operation: &Operation<'_>) -> bool {
    operation.steps(&mut |_| {}).is_ok()
}

fn every(mut look: impl FnMut(Operation<'_>)) {
    for (_, collective) in COLLECTIVES {
        let by_host = |a: &Algorithm| match a.inner() {
            Some(_) => [1, 2, 4, 8].map(|inner| a.of_hosts(inner)).to_vec(),
            None => vec![*a],
        };
        for algorithm in collective.algorithms().iter().flat_map(by_host) {
            for ranks in RANKS {
                for root in [0, ranks / 2, ranks - 1] {
                    let sizes = Sizes::Same(840.0);
                    let operation = Operation {
                        collective,
                        algorithm,
                        ranks,
                        root,
                        sizes,
                    };
                    if possible(&operation) {
                        look(operation);
                    }
                }
            }
        }
    }
}

/// Transitive flow of data over all rounds: each rank's contribution must reach the ranks that the operation defines,
/// with any algorithm.
#[test]
fn everybody_hears_of_whom_it_must() {
    every(|o| {
        let n = o.ranks as usize;
        let mut steps = steps(o);
        steps.sort_by_key(|s| s.round);
        let mut known: Vec<u64> = (0..n).map(|i| 1 << i).collect();
        let last = steps.iter().map(|s| s.round + s.times).max().unwrap_or(0);
        for round in 0..last {
            let before = known.clone();
            for s in steps
                .iter()
                .filter(|s| s.round <= round && round < s.round + s.times)
            {
                assert_ne!(s.from, s.to, "{o:?}");
                known[s.to as usize] |= before[s.from as usize];
            }
        }
        let all = (1u64 << n) - 1;
        let root = o.root as usize;
        for (i, &k) in known.iter().enumerate() {
            let must = match o.collective {
                Collective::Broadcast | Collective::Scatter => 1 << root,
                Collective::Reduce | Collective::Gather if i == root => all,
                Collective::Reduce | Collective::Gather => 0,
                Collective::Scan => (1 << (i + 1)) - 1,
                _ => all,
            };
            assert_eq!(k & must, must, "{o:?}: rank {i} knows {k:b}");
        }
    });
}

/// Lower bound on bytes moved: algorithms that move each byte once reach it, and none is below it.
#[test]
fn bytes_are_conserved() {
    every(|o| {
        let n = f64::from(o.ranks);
        let b = 840.0;
        let sum = moved(&steps(o));
        let least = match o.collective {
            Collective::Barrier => 0.0,
            Collective::Broadcast | Collective::Reduce | Collective::Scan => (n - 1.0) * b,
            Collective::Gather | Collective::Scatter | Collective::ReduceScatter => {
                // A reduce-scatter combines n vectors of n blocks: each block is sent n-1 times.
                let times = if o.collective == Collective::ReduceScatter {
                    n
                } else {
                    1.0
                };
                (n - 1.0) * b * times
            }
            Collective::Allreduce => 2.0 * (n - 1.0) * b,
            Collective::Allgather | Collective::Alltoall => n * (n - 1.0) * b,
        };
        use Algorithm as A;
        // Switches add up and copy.
        if matches!(o.algorithm, A::NvlsTree(_)) {
            return;
        }
        assert!(sum >= least - 1e-6, "{o:?}: {sum} < {least}");
        let exact = match (o.collective, o.algorithm) {
            (Collective::Scan, A::RecursiveDoubling) => false,
            (Collective::Broadcast, A::ScatterAllgather | A::ScatterDoubling)
            | (Collective::Allgather, A::GatherThenBroadcast)
            | (Collective::ReduceScatter, A::RecursiveDoubling | A::ReduceThenScatter)
            | (Collective::Gather | Collective::Scatter, A::Binomial)
            | (Collective::Alltoall, A::Bruck | A::Hierarchical(_))
            | (Collective::Allreduce, A::RecursiveDoubling)
            | (Collective::Reduce, _)
            | (_, A::Han(_)) => false,
            (Collective::Allreduce, A::Rabenseifner | A::NearRabenseifner)
            | (Collective::ReduceScatter, A::RecursiveHalving | A::Butterfly) => {
                o.ranks.is_power_of_two()
            }
            _ => true,
        };
        if exact {
            assert!((sum - least).abs() < 1e-6, "{o:?}: {sum} is not {least}");
        }
    });
}

#[test]
fn formulas_of_the_papers() {
    let sum = |collective, algorithm, ranks| {
        let sizes = Sizes::Same(840.0);
        moved(&steps(Operation {
            collective,
            algorithm,
            ranks,
            root: 0,
            sizes,
        }))
    };
    use Algorithm as A;
    use Collective as C;
    // n log2 n vectors; each of the r folded ranks sends one and receives one.
    assert_eq!(
        sum(C::Allreduce, A::RecursiveDoubling, 16),
        16.0 * 4.0 * 840.0
    );
    assert_eq!(
        sum(C::Allreduce, A::RecursiveDoubling, 12),
        (8.0 * 3.0 + 8.0) * 840.0
    );
    // Bruck's all-to-all: n/2 blocks of each rank in each of log2 n rounds.
    assert_eq!(sum(C::Alltoall, A::Bruck, 16), 16.0 * 4.0 * 8.0 * 840.0);
    // Every rank of a ring sends 2 (n-1)/n vectors, all to its successor.
    let ring = steps(Operation {
        collective: C::Allreduce,
        algorithm: A::Ring,
        ranks: 7,
        root: 0,
        sizes: Sizes::Same(840.0),
    });
    for i in 0..7 {
        let own: Vec<_> = ring.iter().filter(|s| s.from == i).collect();
        assert!(own.iter().all(|s| s.to == (i + 1) % 7));
        let bytes: f64 = own.iter().map(|s| s.bytes * f64::from(s.times)).sum();
        assert!((bytes - 2.0 * 6.0 / 7.0 * 840.0).abs() < 1e-9);
    }
    // Double trees: no rank sends or receives more than two vectors each way, up and down.
    let tree = steps(Operation {
        collective: C::Allreduce,
        algorithm: A::Tree,
        ranks: 16,
        root: 0,
        sizes: Sizes::Same(840.0),
    });
    for i in 0..16 {
        let sent: f64 = tree.iter().filter(|s| s.from == i).map(|s| s.bytes).sum();
        assert!(sent <= 2.0 * 840.0, "rank {i} sends {sent}");
    }
    // A tree gather forwards a block once for every bit set in its rank.
    assert_eq!(sum(C::Gather, A::Binomial, 8), 12.0 * 840.0);
}

#[test]
fn unequal_blocks_are_all_delivered() {
    let each = [5.0, 0.0, 7.0, 1.0, 11.0];
    let total: f64 = each.iter().sum();
    for (collective, algorithm) in [
        (Collective::Allgather, Algorithm::Ring),
        (Collective::Allgather, Algorithm::Bruck),
        (Collective::Allgather, Algorithm::Pairwise),
        (Collective::ReduceScatter, Algorithm::Pairwise),
        (Collective::ReduceScatter, Algorithm::Ring),
    ] {
        let sizes = Sizes::Each(&each);
        let o = Operation {
            collective,
            algorithm,
            ranks: 5,
            root: 0,
            sizes,
        };
        let sum = moved(&steps(o));
        assert!((sum - 4.0 * total).abs() < 1e-9, "{o:?}: {sum}");
    }
    // To and from a root, without its own block.
    for collective in [Collective::Gather, Collective::Scatter] {
        let sizes = Sizes::Each(&each);
        let algorithm = Algorithm::Linear;
        let o = Operation {
            collective,
            algorithm,
            ranks: 5,
            root: 4,
            sizes,
        };
        assert_eq!(moved(&steps(o)), total - 11.0);
    }
    let rows: Vec<f64> = (0..9).map(f64::from).collect();
    let o = Operation {
        collective: Collective::Alltoall,
        algorithm: Algorithm::Pairwise,
        ranks: 3,
        root: 0,
        sizes: Sizes::Matrix(&rows),
    };
    let list = steps(o);
    assert!(list.iter().all(|s| s.bytes == f64::from(3 * s.from + s.to)));
    assert_eq!(list.len(), 6);
    let rounds = |list: &[Step]| list.iter().map(|s| s.round).max().unwrap() + 1;
    assert_eq!(rounds(&list), 2);
    let together = steps(Operation {
        algorithm: Algorithm::Linear,
        ..o
    });
    assert_eq!(rounds(&together), 1);
    assert_eq!(moved(&together), moved(&list));
}

#[test]
fn the_impossible_is_refused() {
    let o = Operation {
        collective: Collective::Allreduce,
        algorithm: Algorithm::Ring,
        ranks: 6,
        root: 0,
        sizes: Sizes::Same(1.0),
    };
    let refused = |o: Operation<'_>, part: &str| {
        let error = o.steps(&mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(
        Operation {
            algorithm: Algorithm::Bruck,
            ..o
        },
        "rabenseifner",
    );
    refused(
        Operation {
            sizes: Sizes::Same(f64::NAN),
            ..o
        },
        "bad size",
    );
    refused(
        Operation {
            sizes: Sizes::Each(&[1.0]),
            ..o
        },
        "another number",
    );
    refused(Operation { root: 6, ..o }, "a rank from 0 to 5");
    let gather = Operation {
        collective: Collective::Allgather,
        algorithm: Algorithm::RecursiveDoubling,
        ..o
    };
    refused(gather, "power of two");
    for (name, algorithm) in ALGORITHMS {
        match algorithm.inner() {
            Some(_) => assert_eq!(Algorithm::named(name), None),
            None => assert_eq!(Algorithm::named(name), Some(algorithm)),
        }
    }
    let by_host = Algorithm::named("hierarchical/8");
    assert_eq!(by_host, Some(Algorithm::Hierarchical(8)));
    for bad in ["ring/8", "hierarchical/0", "nvls-tree/-1", "nvls-tree/"] {
        assert_eq!(Algorithm::named(bad), None, "{bad}");
    }
    let odd = Operation {
        algorithm: Algorithm::Hierarchical(4),
        ..o
    };
    refused(odd, "a multiple of the ranks of a host");
    assert_eq!(Collective::named("bcast"), Some(Collective::Broadcast));
}

#[test]
fn messages_are_bounded() {
    every(|o| {
        let most = o.algorithm.most_messages(o.collective, o.ranks as usize);
        assert!(steps(o).len() as u64 <= most, "{o:?}: {most}");
    });
}

#[test]
fn every_rule_gives_an_algorithm_that_works() {
    let rules = ["mpich", "openmpi"].map(|name| Algorithms::parse(name).unwrap());
    for (rules, (_, collective)) in rules.iter().flat_map(|r| COLLECTIVES.map(|c| (r, c))) {
        for ranks in RANKS.into_iter().chain([64, 100, 300, 1000]) {
            for bytes in [0.0, 8.0, 300.0, 4096.0, 40_000.0, 1e8] {
                let o = Operation {
                    collective,
                    algorithm: rules.choose(collective, ranks as usize, bytes),
                    ranks,
                    root: 0,
                    sizes: Sizes::Same(bytes),
                };
                assert!(possible(&o), "{o:?}");
            }
        }
    }
}

#[test]
fn rules_are_those_of_the_library_except_where_one_is_given() {
    use Algorithm as A;
    use Collective as C;
    let open_mpi = Algorithms::of(Library::OpenMpi);
    // From the tables of open_mpi.rs.
    for (collective, ranks, bytes, expected) in [
        (C::Allreduce, 64, 1e6, A::NearRabenseifner),
        (C::Allreduce, 40, 200.0, A::Linear),
        (C::Allgather, 33, 2000.0, A::Ring),
        (C::Reduce, 5, 800.0, A::Binary),
        (C::Allreduce, 64, 262_143.0, A::RecursiveDoubling),
        (C::Allreduce, 5, 200.0, A::RecursiveDoubling),
        (C::Scan, 64, 1e6, A::Linear),
        (C::Alltoall, 64, 1023.0, A::Bruck),
        (C::Alltoall, 64, 1024.0, A::Linear),
        (C::Allgather, 12, 24.0, A::Bruck),
        (C::ReduceScatter, 16, 16_384.0, A::RecursiveHalving),
        (C::Broadcast, 16, 1_048_576.0, A::ScatterDoubling),
    ] {
        let chosen = open_mpi.choose(collective, ranks, bytes);
        assert_eq!(chosen, expected, "{collective:?} {ranks} {bytes}");
    }
    for (ranks, expected) in [(3, A::Pairwise), (63, A::Linear), (64, A::Pairwise)] {
        let chosen = open_mpi.choose_for(C::Alltoall, true, ranks, 1e6);
        assert_eq!(chosen, expected, "{ranks}");
    }
    let default = Algorithms::default();
    for (vector, bytes, expected) in [
        (false, 256.0, A::Bruck),
        (false, 32_768.0, A::Linear),
        (false, 32_769.0, A::Pairwise),
        (true, 256.0, A::Linear),
        (true, 1e6, A::Linear),
    ] {
        let chosen = default.choose_for(C::Alltoall, vector, 16, bytes);
        assert_eq!(chosen, expected, "{vector} {bytes}");
    }
    for (collective, ranks, bytes, expected, old) in [
        (
            C::Allreduce,
            8,
            56.0,
            A::RecursiveDoubling,
            A::RecursiveDoubling,
        ),
        (C::Allreduce, 9, 64.0, A::Rabenseifner, A::RecursiveDoubling),
        (C::Allreduce, 16, 4096.0, A::Rabenseifner, A::Rabenseifner),
        (C::Alltoall, 8, 8.0, A::Linear, A::Bruck),
        (C::Alltoall, 9, 256.0, A::Bruck, A::Bruck),
        (C::Broadcast, 8, 12_288.0, A::Binomial, A::Binomial),
        (
            C::Broadcast,
            8,
            12_296.0,
            A::ScatterDoubling,
            A::ScatterDoubling,
        ),
        (
            C::Broadcast,
            8,
            524_296.0,
            A::ScatterAllgather,
            A::ScatterAllgather,
        ),
        (
            C::Broadcast,
            12,
            20_000.0,
            A::ScatterAllgather,
            A::ScatterAllgather,
        ),
    ] {
        let of = |library| Algorithms::of(library).choose(collective, ranks, bytes);
        assert_eq!(
            of(Library::Mpich),
            expected,
            "{collective:?} {ranks} {bytes}"
        );
        assert_eq!(of(Library::OldMpich), old, "{collective:?} {ranks} {bytes}");
    }
    let bruck = Algorithms::parse("alltoall=bruck").unwrap();
    assert_eq!(bruck.choose_for(C::Alltoall, true, 16, 8.0), A::Linear);
    assert_eq!(default.choose(C::Allgather, 12, 7000.0), A::Ring);
    assert_eq!(default.choose(C::Allgather, 12, 6000.0), A::Bruck);
    assert_eq!(default.basis(C::Scan), "assumed, as MPICH decides");
    let mixed = Algorithms::parse("allreduce=ring,openmpi").unwrap();
    assert_eq!(mixed.choose(C::Allreduce, 4, 8.0), A::Ring);
    assert_eq!(mixed.basis(C::Allreduce), "given");
    assert_eq!(mixed.basis(C::Scan), "as Open MPI decides");
    assert_eq!(
        default.or(Library::of_version("Open MPI v4.1.4, package")),
        open_mpi
    );
    for (version, library) in [
        ("MPICH Version:      4.0.2", Some(Library::Mpich)),
        ("MPICH Version:      3.4.3", Some(Library::OldMpich)),
        (
            "MPI VERSION    : CRAY MPICH version 8.1",
            Some(Library::OldMpich),
        ),
        ("MVAPICH2 Version      :\t2.3", None),
        ("Intel(R) MPI Library 2021.6", None),
    ] {
        assert_eq!(Library::of_version(version), library, "{version}");
    }
    for (bad, part) in [
        ("lam", "openmpi, mpich"),
        ("allreduce=bruck", "rabenseifner, ring"),
        ("all=ring", "allreduce"),
        ("", "openmpi, mpich"),
    ] {
        let error = Algorithms::parse(bad).unwrap_err().to_string();
        assert!(error.contains(part), "{bad}: {error}");
    }
}

/// Without a power of two, the two ranks of a folded pair get their blocks at the end.
#[test]
fn recursive_halving_folds_the_rest() {
    let sizes = [1.0, 2.0, 4.0, 8.0, 16.0];
    let steps = steps(Operation {
        collective: Collective::ReduceScatter,
        algorithm: Algorithm::RecursiveHalving,
        ranks: 5,
        root: 0,
        sizes: Sizes::Each(&sizes),
    });
    let into = |to| -> f64 { steps.iter().filter(|s| s.to == to).map(|s| s.bytes).sum() };
    // Rank 1: rank 0's vector, then the blocks of three ranks and of its pair.
    assert_eq!(into(1), 31.0 + 7.0 + 3.0);
    assert_eq!(into(0), 1.0);
    assert_eq!(into(4), 24.0 + 16.0);
}

#[test]
fn the_jobs_variables_are_followed() {
    use Algorithm as A;
    use Collective as C;
    let rules = |settings: &[(&'static str, &'static str)]| {
        Algorithms::of(Library::OpenMpi).with_settings(settings.iter().copied())
    };
    let set = rules(&[
        ("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),
        ("OMPI_MCA_coll_tuned_allreduce_algorithm", "4"),
        ("OMPI_MCA_coll_tuned_bcast_algorithm", "0"),
    ]);
    assert_eq!(set.choose(C::Allreduce, 64, 1e6), A::Ring);
    assert_eq!(set.basis(C::Allreduce), "set by the job's variables");
    assert_eq!(set.basis(C::Broadcast), "as Open MPI decides");
    // Without dynamic rules the library does not look at the other variable.
    let unused = rules(&[("OMPI_MCA_coll_tuned_allreduce_algorithm", "4")]);
    assert_eq!(unused.choose(C::Allreduce, 64, 1e6), A::NearRabenseifner);
    let unknown = rules(&[("OMPI_MCA_coll", "^tuned")]);
    assert!(unknown.doubt().is_some());
    assert_eq!(unknown.basis(C::Scan), "assumed, as Open MPI 4.1 decides");
    let chains = rules(&[
        ("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),
        ("OMPI_MCA_coll_tuned_bcast_algorithm", "2"),
    ]);
    assert!(chains.doubt().is_some());
    // The user's word counts most.
    let given = set.with(C::Allreduce, A::Tree);
    assert_eq!(given.choose(C::Allreduce, 64, 1e6), A::Tree);
}

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

/// Bytes by pair of six ranks as counted in MPICH 4.0.2 (both) and by Open MPI's monitoring (the third).
#[test]
fn halves_are_exchanged_from_near_to_far() {
    use Algorithm as A;
    use Collective as C;
    type Pairs<'a> = &'a [(u32, u32, f64)];
    let reduce: Pairs<'_> = &[
        (0, 2, 8000.0),
        (0, 4, 2000.0),
        (1, 0, 8000.0),
        (2, 0, 4000.0),
        (2, 5, 2000.0),
        (3, 2, 8000.0),
        (4, 0, 4000.0),
        (4, 5, 4000.0),
        (5, 2, 4000.0),
        (5, 4, 4000.0),
    ];
    let allreduce: Pairs<'_> = &[
        (0, 1, 8000.0),
        (1, 0, 8000.0),
        (1, 3, 8000.0),
        (1, 4, 4000.0),
        (2, 3, 8000.0),
        (3, 1, 8000.0),
        (3, 2, 8000.0),
        (3, 5, 4000.0),
        (4, 1, 4000.0),
        (4, 5, 8000.0),
        (5, 3, 4000.0),
        (5, 4, 8000.0),
    ];
    let by_halves: Pairs<'_> = &[
        (0, 1, 4000.0),
        (0, 2, 8000.0),
        (0, 4, 2000.0),
        (1, 0, 8000.0),
        (2, 0, 4000.0),
        (2, 3, 4000.0),
        (2, 5, 2000.0),
        (3, 2, 8000.0),
        (4, 0, 4000.0),
        (4, 5, 4000.0),
        (5, 2, 4000.0),
        (5, 4, 4000.0),
    ];
    for (collective, algorithm, expected) in [
        (C::Reduce, A::Rabenseifner, reduce),
        (C::Allreduce, A::Rabenseifner, allreduce),
        (C::Reduce, A::NearRabenseifner, by_halves),
    ] {
        let operation = Operation {
            collective,
            algorithm,
            ranks: 6,
            root: if collective == C::Reduce { 2 } else { 0 },
            sizes: Sizes::Same(8000.0),
        };
        let mut found = std::collections::BTreeMap::new();
        for step in steps(operation) {
            *found.entry((step.from, step.to)).or_insert(0.0) += step.bytes * f64::from(step.times);
        }
        let found: Vec<_> = found.into_iter().map(|((a, b), c)| (a, b, c)).collect();
        assert_eq!(found, expected, "{collective:?} {algorithm:?}");
    }
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
    // Every rank on a node of its own, a node alone, and what is not hierarchical.
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
    assert!(of_pairs.is_assumed(C::Allreduce, false, &[0, 1, 2]));
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

/// Open MPI 5 where ranks of a host do not follow each other: bytes by pair as counted in 5.0.11 (`tests/mpi/test_han.py`).
#[test]
fn hosts_with_ranks_in_any_order_are_taken_by_the_roots_number() {
    use Collective as C;
    let world: Vec<u32> = (0..6).collect();
    let rules = Algorithms::of(Library::OpenMpi).of_release(5);
    let rules = rules.on_hosts(vec![0, 1, 1, 0, 2, 2]);
    let sent = |collective, root| {
        let algorithm = rules.choose_among(collective, false, &world, 8000.0);
        let (members, root) = rules.arranged((collective, algorithm), &world, root);
        let operation = Operation {
            collective,
            algorithm,
            ranks: 6,
            root,
            sizes: Sizes::Same(8000.0),
        };
        let mut found = std::collections::BTreeMap::new();
        for step in steps(operation) {
            let pair = (members[step.from as usize], members[step.to as usize]);
            *found.entry(pair).or_insert(0.0) += step.bytes / 8000.0 * f64::from(step.times);
        }
        found.into_iter().map(|((a, b), c)| (a, b, c)).collect()
    };
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
