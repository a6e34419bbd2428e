use super::kinds::{ALGORITHMS, COLLECTIVES};
use super::*;

const RANKS: [u32; 10] = [1, 2, 3, 4, 5, 7, 8, 12, 16, 33];

pub(super) fn steps(operation: Operation<'_>) -> Vec<Step> {
    let mut list = Vec::new();
    operation.steps(&mut |s| list.push(s)).unwrap();
    list
}

pub(super) fn moved(steps: &[Step]) -> f64 {
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
                        hosts: &[],
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
            | (
                Collective::ReduceScatter,
                A::RecursiveDoubling | A::ReduceThenScatter | A::UpThenScatter,
            )
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
            hosts: &[],
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
        hosts: &[],
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
        hosts: &[],
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
            hosts: &[],
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
            hosts: &[],
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
        hosts: &[],
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
        hosts: &[],
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
                    hosts: &[],
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
        hosts: &[],
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
            hosts: &[],
        };
        let mut found = std::collections::BTreeMap::new();
        for step in steps(operation) {
            *found.entry((step.from, step.to)).or_insert(0.0) += step.bytes * f64::from(step.times);
        }
        let found: Vec<_> = found.into_iter().map(|((a, b), c)| (a, b, c)).collect();
        assert_eq!(found, expected, "{collective:?} {algorithm:?}");
    }
}
