//! Algorithms of Open MPI's `coll/libnbc`, which makes nonblocking and persistent calls and parts of `coll/han`'s: by ranks and
//! bytes alone, wherever the ranks are. Counted in 4.1.4 and 5.0.11 with the library's own monitoring; sizes as in [`super`].

use super::open_mpi::ELEMENT;
use super::{Algorithm, Collective, How};

/// Bytes from which algorithms for long vectors are taken.
const LARGE: f64 = 65_536.0;

/// The algorithm, for operations that commute.
pub(super) fn choose(collective: Collective, how: How, ranks: usize, bytes: f64) -> Algorithm {
    use Algorithm as A;
    use Collective as C;
    let power = 1usize << ranks.max(1).ilog2();
    let halves = bytes / ELEMENT >= power as f64;
    match collective {
        C::Barrier => A::Dissemination,
        C::Broadcast if ranks <= 4 => A::Linear,
        C::Broadcast => A::NearBinomial,
        C::Reduce if ranks > 2 && halves => A::NearRabenseifner,
        C::Reduce if ranks > 4 || bytes < LARGE => A::Binomial,
        C::Reduce => A::Ring,
        C::Allreduce if how.in_place || ranks < 4 || bytes < LARGE => A::UpAndDown,
        C::Allreduce if halves => A::NearRabenseifner,
        C::Allreduce => A::Ring,
        C::ReduceScatter => A::UpThenScatter,
        C::Gather | C::Scatter | C::Allgather | C::Alltoall | C::Scan => A::Linear,
    }
}

/// Whether the first rank and the root change places, and the tree is that of the first.
pub(super) fn swaps(what: (Collective, Algorithm)) -> bool {
    matches!(
        what,
        (Collective::Broadcast, Algorithm::NearBinomial)
            | (Collective::Reduce, Algorithm::Binomial)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::collective::{Algorithms, Collective as C, How, Library, Sizes};
    use std::collections::BTreeMap;

    const REQUESTED: How = How {
        requested: true,
        ordered: false,
        in_place: false,
        vector: false,
    };

    fn sent(kind: C, ranks: u32, root: u32, sizes: Sizes<'_>) -> BTreeMap<(u32, u32), f64> {
        sent_as(REQUESTED, kind, ranks, root, sizes)
    }

    /// Bytes by pair of a call.
    fn sent_as(
        how: How,
        kind: C,
        ranks: u32,
        root: u32,
        sizes: Sizes<'_>,
    ) -> BTreeMap<(u32, u32), f64> {
        let members: Vec<u32> = (0..ranks).collect();
        let rules = Algorithms::of(Library::OpenMpi);
        let rules = rules.for_calls(kind, how);
        let vector = matches!(sizes, Sizes::Each(_));
        let chosen = rules.choose_among(kind, vector, &members, sizes.mean());
        let group = rules.arranged((kind, chosen), &members, root);
        let mut sent = BTreeMap::new();
        let operation = group.operation((kind, chosen), sizes);
        operation
            .steps(&mut |s| {
                let pair = (group.members[s.from as usize], group.members[s.to as usize]);
                *sent.entry(pair).or_default() += s.bytes * f64::from(s.times);
            })
            .unwrap();
        sent
    }

    fn pairs(list: &[(u32, u32, f64)]) -> BTreeMap<(u32, u32), f64> {
        list.iter().map(|&(a, b, bytes)| ((a, b), bytes)).collect()
    }

    /// As Open MPI 4.1.4's monitoring has them, six ranks.
    #[test]
    fn bytes_by_pair_are_those_of_open_mpi() {
        let (a, b) = (4000.0, 400_000.0);
        assert_eq!(
            sent(C::Broadcast, 6, 4, Sizes::Same(a)),
            pairs(&[(1, 3, a), (1, 5, a), (4, 0, a), (4, 1, a), (4, 2, a)])
        );
        let reduced = [
            (0, 1, b),
            (0, 2, 2.0 * b),
            (0, 4, b / 2.0),
            (1, 0, 2.0 * b),
            (2, 0, b),
            (2, 3, b),
            (2, 5, b / 2.0),
            (3, 2, 2.0 * b),
            (4, 0, b),
            (4, 5, b),
            (5, 2, b),
            (5, 4, b),
        ];
        assert_eq!(sent(C::Reduce, 6, 2, Sizes::Same(2.0 * b)), pairs(&reduced));
        let all = [
            (0, 1, 3.0 * b),
            (0, 2, 2.0 * b),
            (0, 4, b),
            (1, 0, 2.0 * b),
            (2, 0, 2.0 * b),
            (2, 3, 3.0 * b),
            (2, 5, b),
            (3, 2, 2.0 * b),
            (4, 0, b),
            (4, 5, 2.0 * b),
            (5, 2, b),
            (5, 4, 2.0 * b),
        ];
        assert_eq!(sent(C::Allreduce, 6, 0, Sizes::Same(2.0 * b)), pairs(&all));
        let ways = [
            (0, 1),
            (0, 2),
            (0, 4),
            (1, 0),
            (1, 3),
            (1, 5),
            (2, 0),
            (3, 2),
            (4, 0),
            (5, 4),
        ];
        let up_and_down = |bytes| pairs(&ways.map(|(from, to)| (from, to, bytes)));
        assert_eq!(sent(C::Allreduce, 6, 0, Sizes::Same(a)), up_and_down(a));
        let in_place = How {
            in_place: true,
            ..REQUESTED
        };
        let large = sent_as(in_place, C::Allreduce, 6, 0, Sizes::Same(b));
        assert_eq!(large, up_and_down(b));
        // Up to the first rank, then a block to each.
        let blocks = [1.0, 2.0, 3.0, 4.0].map(|n| n * a);
        let up = [(1, 0), (2, 0), (3, 2)].map(|(from, to)| (from, to, 10.0 * a));
        let down = [(0, 1, 2.0 * a), (0, 2, 3.0 * a), (0, 3, 4.0 * a)];
        assert_eq!(
            sent(C::ReduceScatter, 4, 0, Sizes::Each(&blocks)),
            pairs(&[&up[..], &down[..]].concat())
        );
    }

    /// Other libraries' algorithms, and those of operations that do not commute, are assumed.
    #[test]
    fn choices_that_are_not_known_are_assumed() {
        let basis = |rules: &Algorithms, kind, how: How| rules.for_calls(kind, how).basis(kind);
        let open_mpi = Algorithms::of(Library::OpenMpi);
        assert_eq!(
            basis(&open_mpi, C::Reduce, REQUESTED),
            "as Open MPI decides"
        );
        let ordered = How {
            ordered: true,
            ..REQUESTED
        };
        let assumed = "assumed, as Open MPI 4.1 decides";
        assert_eq!(basis(&open_mpi, C::Reduce, ordered), assumed);
        assert_eq!(
            basis(&open_mpi, C::Broadcast, ordered),
            "as Open MPI decides"
        );
        let mpich = Algorithms::of(Library::Mpich);
        assert_eq!(
            basis(&mpich, C::Broadcast, REQUESTED),
            "assumed, as MPICH decides"
        );
        let old = Algorithms::of(Library::OldMpich);
        assert_eq!(
            basis(&old, C::Broadcast, REQUESTED),
            "assumed, as MPICH 3 decides"
        );
    }
}
