//! Algorithms that Open MPI selects: the fixed decisions of component `coll/tuned` from release 4.1 on (the same in
//! 5.0) for commutative operations, "Tuning collectives" in its manual. Sizes as in [`super`].
//!
//! Its algorithms fall back where there are fewer elements than ranks; elements are assumed to have eight bytes. A
//! segment size is not set by the decisions, so chains and pipelines are the same, and segmented rings are rings.

use super::Algorithm::{
    Binary, Binomial, Bruck, Butterfly, Dissemination, GatherThenBroadcast, InOrderBinary, Knomial,
    Linear, NearBinomial, NearRabenseifner, NeighborExchange, Pairwise, RecursiveDoubling,
    RecursiveHalving, ReduceThenBroadcast, ReduceThenScatter, Ring, ScatterDoubling, SplitBinary,
    SynchronisedLinear,
};
use super::{Algorithm, Collective};

/// For groups with fewer ranks than the first number: the algorithm below each limit in bytes, and the one above all
/// limits.
type Decision = (usize, &'static [(f64, Algorithm)], Algorithm);

/// Bytes of an element.
pub(super) const ELEMENT: f64 = 8.0;

/// The algorithm; `vector` for `allgatherv`, `reduce_scatter` and `alltoallv`, whose `bytes` are the mean of all blocks.
pub(super) fn choose(collective: Collective, vector: bool, ranks: usize, bytes: f64) -> Algorithm {
    let (rows, bytes) = match (collective, vector) {
        (Collective::Barrier, _) => (BARRIER, bytes),
        (Collective::Broadcast, _) => (BROADCAST, bytes),
        (Collective::Reduce, _) => (REDUCE, bytes),
        (Collective::Allreduce, _) => (ALLREDUCE, bytes),
        (Collective::Gather, _) => (GATHER, bytes),
        (Collective::Scatter, _) => (SCATTER, bytes),
        (Collective::Allgather, false) => (ALLGATHER, bytes),
        (Collective::Allgather, true) => (ALLGATHERV, bytes.floor()),
        (Collective::ReduceScatter, false) => (REDUCE_SCATTER_BLOCK, bytes),
        (Collective::ReduceScatter, true) => (REDUCE_SCATTER, bytes * ranks as f64),
        (Collective::Alltoall, false) => (ALLTOALL, bytes),
        (Collective::Alltoall, true) => (ALLTOALLV, bytes),
        (Collective::Scan, _) => (SCAN, bytes),
    };
    let row = rows.iter().find(|r| ranks < r.0);
    let chosen = row.map_or(Linear, |&(_, limits, beyond)| {
        let limit = limits.iter().find(|l| bytes < l.0);
        limit.map_or(beyond, |l| l.1)
    });
    fallback(collective, chosen, ranks, bytes / ELEMENT)
}

/// The algorithm used in place of one for which ranks or elements do not fit.
fn fallback(collective: Collective, chosen: Algorithm, ranks: usize, elements: f64) -> Algorithm {
    let power = 1 << ranks.max(1).ilog2();
    let fewer = |than: usize| elements < than as f64;
    match (collective, chosen) {
        (Collective::Allreduce, Ring) if fewer(ranks) => RecursiveDoubling,
        (Collective::Allreduce, NearRabenseifner) if fewer(power) => Linear,
        (Collective::Reduce, NearRabenseifner) if fewer(power) => Linear,
        (Collective::Broadcast, ScatterDoubling) if fewer(ranks) => Linear,
        (Collective::Broadcast, SplitBinary) if fewer(2) => Ring,
        (Collective::Allgather, RecursiveDoubling) if power != ranks => Bruck,
        (Collective::Allgather, NeighborExchange) if !ranks.is_multiple_of(2) => Ring,
        _ => chosen,
    }
}

/// The algorithm with a number of variable `coll_tuned_NAME_algorithm`, of the release at hand; `None` for 0 (the
/// decisions), and for numbers without a counterpart.
pub(super) fn numbered(name: &str, number: u32) -> Option<(Collective, Algorithm)> {
    let (collective, list): (_, &[Algorithm]) = match name {
        "allreduce" => (
            Collective::Allreduce,
            &[
                Linear,
                ReduceThenBroadcast,
                RecursiveDoubling,
                Ring,
                Ring,
                NearRabenseifner,
            ],
        ),
        "alltoall" => (
            Collective::Alltoall,
            &[Linear, Pairwise, Bruck, Linear, Linear],
        ),
        "barrier" => (
            Collective::Barrier,
            &[
                Linear,
                Linear,
                RecursiveDoubling,
                Dissemination,
                RecursiveDoubling,
                Binomial,
            ],
        ),
        "bcast" => (
            Collective::Broadcast,
            &[
                Linear,
                Ring,
                Ring,
                SplitBinary,
                Binary,
                NearBinomial,
                Knomial,
                ScatterDoubling,
                Algorithm::ScatterAllgather,
            ],
        ),
        "reduce" => (
            Collective::Reduce,
            &[
                Linear,
                Ring,
                Ring,
                Binary,
                Binomial,
                InOrderBinary,
                NearRabenseifner,
            ],
        ),
        "reduce_scatter_block" => (
            Collective::ReduceScatter,
            &[
                ReduceThenScatter,
                RecursiveDoubling,
                RecursiveHalving,
                Butterfly,
            ],
        ),
        "allgather" => (
            Collective::Allgather,
            &[
                Linear,
                Bruck,
                RecursiveDoubling,
                Ring,
                NeighborExchange,
                Linear,
            ],
        ),
        "gather" => (Collective::Gather, &[Linear, Binomial, SynchronisedLinear]),
        "scatter" => (Collective::Scatter, &[Linear, Binomial, Linear]),
        _ => return None,
    };
    let at = number.checked_sub(1)? as usize;
    let known = *list.get(at)?;
    // A double ring for barriers, and several chains (four by default where the algorithm is set), have no counterpart.
    (!matches!((name, number), ("barrier" | "bcast" | "reduce", 2))).then_some((collective, known))
}

const ANY: usize = usize::MAX;

const ALLREDUCE: &[Decision] = &[
    (
        4,
        &[
            (8.0, Ring),
            (4096.0, RecursiveDoubling),
            (8192.0, Ring),
            (16_384.0, RecursiveDoubling),
            (262_144.0, Ring),
        ],
        NearRabenseifner,
    ),
    (
        8,
        &[(16.0, Ring), (8192.0, RecursiveDoubling)],
        NearRabenseifner,
    ),
    (16, &[(8192.0, RecursiveDoubling)], NearRabenseifner),
    (
        32,
        &[(64.0, Ring), (4096.0, RecursiveDoubling)],
        NearRabenseifner,
    ),
    (64, &[(128.0, Ring)], NearRabenseifner),
    (128, &[(262_144.0, RecursiveDoubling)], NearRabenseifner),
    (
        256,
        &[
            (131_072.0, ReduceThenBroadcast),
            (262_144.0, RecursiveDoubling),
        ],
        NearRabenseifner,
    ),
    (512, &[(4096.0, ReduceThenBroadcast)], NearRabenseifner),
    (
        2048,
        &[(2048.0, ReduceThenBroadcast), (16_384.0, RecursiveDoubling)],
        NearRabenseifner,
    ),
    (
        4096,
        &[
            (2048.0, ReduceThenBroadcast),
            (4096.0, Ring),
            (16_384.0, RecursiveDoubling),
        ],
        NearRabenseifner,
    ),
    (
        ANY,
        &[
            (2048.0, ReduceThenBroadcast),
            (16_384.0, Ring),
            (32_768.0, RecursiveDoubling),
        ],
        NearRabenseifner,
    ),
];

const ALLTOALLV: &[Decision] = &[
    (4, &[], Pairwise),
    (64, &[], Linear),
    (128, &[], Pairwise),
    (256, &[], Linear),
    (1024, &[], Pairwise),
    (ANY, &[], Linear),
];

const ALLTOALL: &[Decision] = &[
    (
        3,
        &[
            (2.0, Pairwise),
            (4.0, Linear),
            (16.0, Pairwise),
            (64.0, Linear),
            (256.0, Pairwise),
            (4096.0, Linear),
            (32_768.0, Pairwise),
            (1_048_576.0, Linear),
        ],
        Pairwise,
    ),
    (8, &[(524_288.0, Linear), (1_048_576.0, Pairwise)], Linear),
    (16, &[], Linear),
    (32, &[(4.0, Linear), (512.0, Bruck)], Linear),
    (64, &[(512.0, Bruck)], Linear),
    (128, &[(1024.0, Bruck), (262_144.0, Linear)], Pairwise),
    (256, &[(1024.0, Bruck), (262_144.0, Linear)], Pairwise),
    (512, &[(1024.0, Bruck), (32_768.0, Linear)], Pairwise),
    (1024, &[(512.0, Bruck), (262_144.0, Linear)], Pairwise),
    (2048, &[(512.0, Bruck)], Linear),
    (4096, &[(1024.0, Bruck)], Linear),
    (ANY, &[(2048.0, Bruck)], Linear),
];

const BARRIER: &[Decision] = &[
    (4, &[], RecursiveDoubling),
    (8, &[], Linear),
    (64, &[], RecursiveDoubling),
    (256, &[], Dissemination),
    (512, &[], Binomial),
    (1024, &[], Dissemination),
    (4096, &[], Binomial),
    (ANY, &[], Dissemination),
];

const BROADCAST: &[Decision] = &[
    (
        4,
        &[
            (32.0, Ring),
            (256.0, Binary),
            (512.0, Ring),
            (1024.0, Knomial),
            (32_768.0, Linear),
            (131_072.0, Binary),
            (262_144.0, Ring),
            (524_288.0, Linear),
            (1_048_576.0, NearBinomial),
        ],
        Binary,
    ),
    (
        8,
        &[
            (64.0, Binary),
            (128.0, NearBinomial),
            (2048.0, Binary),
            (8192.0, NearBinomial),
            (1_048_576.0, Linear),
        ],
        Ring,
    ),
    (
        16,
        &[
            (8.0, Knomial),
            (64.0, Binary),
            (4096.0, Knomial),
            (16_384.0, Binary),
            (32_768.0, NearBinomial),
        ],
        Linear,
    ),
    (
        32,
        &[(4096.0, Knomial), (1_048_576.0, NearBinomial)],
        ScatterDoubling,
    ),
    (64, &[(2048.0, NearBinomial)], Knomial),
    (128, &[], Knomial),
    (
        256,
        &[
            (2.0, NearBinomial),
            (16_384.0, Binary),
            (32_768.0, Linear),
            (65_536.0, Binary),
        ],
        Knomial,
    ),
    (
        1024,
        &[(16_384.0, Knomial), (32_768.0, SplitBinary)],
        Knomial,
    ),
    (2048, &[(524_288.0, Knomial)], ScatterDoubling),
    (4096, &[(262_144.0, Knomial)], ScatterDoubling),
    (
        ANY,
        &[(8192.0, Knomial), (16_384.0, Binary), (262_144.0, Knomial)],
        ScatterDoubling,
    ),
];

const REDUCE: &[Decision] = &[
    (
        4,
        &[
            (8.0, NearRabenseifner),
            (16.0, Binary),
            (32.0, Ring),
            (262_144.0, Linear),
        ],
        Ring,
    ),
    (
        8,
        &[
            (4096.0, Binary),
            (65_536.0, Ring),
            (262_144.0, Binomial),
            (524_288.0, Linear),
            (1_048_576.0, Binomial),
        ],
        Linear,
    ),
    (16, &[(8192.0, Binary)], Binomial),
    (32, &[(4096.0, Binary)], Binomial),
    (256, &[], Binomial),
    (
        512,
        &[(8192.0, Binomial), (16_384.0, InOrderBinary)],
        Binomial,
    ),
    (2048, &[], Binomial),
    (
        4096,
        &[
            (512.0, Binomial),
            (1024.0, InOrderBinary),
            (8192.0, Binomial),
            (16_384.0, InOrderBinary),
        ],
        Binomial,
    ),
    (
        ANY,
        &[
            (16.0, Binomial),
            (32.0, InOrderBinary),
            (1024.0, Binomial),
            (2048.0, InOrderBinary),
            (8192.0, Binomial),
            (16_384.0, InOrderBinary),
        ],
        Binomial,
    ),
];

const REDUCE_SCATTER: &[Decision] = &[
    (4, &[(65_536.0, Ring), (131_072.0, Butterfly)], Ring),
    (
        8,
        &[(8.0, ReduceThenScatter), (262_144.0, RecursiveHalving)],
        Ring,
    ),
    (32, &[(262_144.0, RecursiveHalving)], Ring),
    (
        64,
        &[
            (64.0, ReduceThenScatter),
            (2048.0, RecursiveHalving),
            (524_288.0, Butterfly),
        ],
        Ring,
    ),
    (
        128,
        &[
            (256.0, ReduceThenScatter),
            (512.0, RecursiveHalving),
            (2048.0, Butterfly),
            (4096.0, RecursiveHalving),
        ],
        Butterfly,
    ),
    (
        256,
        &[(256.0, ReduceThenScatter), (512.0, RecursiveHalving)],
        Butterfly,
    ),
    (
        512,
        &[(256.0, ReduceThenScatter), (1024.0, RecursiveHalving)],
        Butterfly,
    ),
    (
        1024,
        &[
            (512.0, ReduceThenScatter),
            (2048.0, RecursiveHalving),
            (8192.0, Butterfly),
            (16_384.0, RecursiveHalving),
        ],
        Butterfly,
    ),
    (
        2048,
        &[
            (512.0, ReduceThenScatter),
            (4096.0, RecursiveHalving),
            (16_384.0, Butterfly),
            (32_768.0, RecursiveHalving),
        ],
        Butterfly,
    ),
    (
        4096,
        &[(512.0, ReduceThenScatter), (4096.0, RecursiveHalving)],
        Butterfly,
    ),
    (
        ANY,
        &[(1024.0, ReduceThenScatter), (8192.0, RecursiveHalving)],
        Butterfly,
    ),
];

const REDUCE_SCATTER_BLOCK: &[Decision] = &[
    (
        4,
        &[
            (4.0, RecursiveDoubling),
            (8.0, Butterfly),
            (16.0, RecursiveHalving),
            (128.0, Butterfly),
            (256.0, RecursiveHalving),
            (4096.0, Butterfly),
            (8192.0, RecursiveHalving),
            (131_072.0, Butterfly),
        ],
        ReduceThenScatter,
    ),
    (
        8,
        &[
            (8.0, RecursiveHalving),
            (32.0, RecursiveDoubling),
            (256.0, Butterfly),
            (8192.0, RecursiveHalving),
            (16_384.0, Butterfly),
            (1_048_576.0, RecursiveHalving),
        ],
        ReduceThenScatter,
    ),
    (
        16,
        &[
            (4.0, ReduceThenScatter),
            (32.0, RecursiveHalving),
            (128.0, Butterfly),
            (524_288.0, RecursiveHalving),
            (4_194_304.0, ReduceThenScatter),
        ],
        Butterfly,
    ),
    (
        32,
        &[
            (32.0, ReduceThenScatter),
            (524_288.0, RecursiveHalving),
            (2_097_152.0, ReduceThenScatter),
            (4_194_304.0, RecursiveHalving),
        ],
        Butterfly,
    ),
    (
        ANY,
        &[
            (4.0, RecursiveHalving),
            (16.0, ReduceThenScatter),
            (65_536.0, Butterfly),
            (262_144.0, ReduceThenScatter),
        ],
        Butterfly,
    ),
];

const ALLGATHER: &[Decision] = &[
    (3, &[], Linear),
    (32, &[], RecursiveDoubling),
    (
        64,
        &[(1024.0, RecursiveDoubling), (65_536.0, NeighborExchange)],
        Ring,
    ),
    (
        128,
        &[(512.0, RecursiveDoubling), (65_536.0, NeighborExchange)],
        Ring,
    ),
    (
        256,
        &[
            (512.0, RecursiveDoubling),
            (131_072.0, NeighborExchange),
            (524_288.0, Ring),
            (1_048_576.0, NeighborExchange),
        ],
        Ring,
    ),
    (
        512,
        &[
            (32.0, RecursiveDoubling),
            (128.0, Bruck),
            (1024.0, RecursiveDoubling),
            (131_072.0, NeighborExchange),
            (524_288.0, Ring),
            (1_048_576.0, NeighborExchange),
        ],
        Ring,
    ),
    (
        1024,
        &[
            (64.0, RecursiveDoubling),
            (256.0, Bruck),
            (2048.0, RecursiveDoubling),
        ],
        NeighborExchange,
    ),
    (
        2048,
        &[
            (4.0, RecursiveDoubling),
            (8.0, Bruck),
            (16.0, RecursiveDoubling),
            (32.0, Bruck),
            (256.0, RecursiveDoubling),
            (512.0, Bruck),
            (4096.0, RecursiveDoubling),
        ],
        NeighborExchange,
    ),
    (
        4096,
        &[
            (32.0, Bruck),
            (128.0, RecursiveDoubling),
            (512.0, Bruck),
            (4096.0, RecursiveDoubling),
        ],
        NeighborExchange,
    ),
    (
        ANY,
        &[
            (2.0, RecursiveDoubling),
            (8.0, Bruck),
            (16.0, RecursiveDoubling),
            (512.0, Bruck),
            (4096.0, RecursiveDoubling),
        ],
        NeighborExchange,
    ),
];

const ALLGATHERV: &[Decision] = &[
    (
        3,
        &[(2048.0, Ring), (4096.0, Linear), (8192.0, Ring)],
        Linear,
    ),
    (
        8,
        &[
            (256.0, GatherThenBroadcast),
            (4096.0, NeighborExchange),
            (8192.0, Ring),
            (16_384.0, NeighborExchange),
            (262_144.0, Bruck),
        ],
        NeighborExchange,
    ),
    (16, &[(1024.0, GatherThenBroadcast)], Bruck),
    (
        32,
        &[(128.0, GatherThenBroadcast), (262_144.0, Bruck)],
        Ring,
    ),
    (64, &[(256.0, GatherThenBroadcast), (8192.0, Bruck)], Ring),
    (128, &[(256.0, GatherThenBroadcast), (4096.0, Bruck)], Ring),
    (256, &[(1024.0, Bruck), (65_536.0, NeighborExchange)], Ring),
    (512, &[(1024.0, Bruck)], Ring),
    (
        1024,
        &[
            (512.0, Bruck),
            (1024.0, GatherThenBroadcast),
            (4096.0, Bruck),
            (1_048_576.0, NeighborExchange),
        ],
        Ring,
    ),
    (ANY, &[(4096.0, Bruck)], NeighborExchange),
];

const GATHER: &[Decision] = &[
    (
        4,
        &[
            (2.0, SynchronisedLinear),
            (4.0, Linear),
            (32_768.0, Binomial),
            (65_536.0, Linear),
            (131_072.0, Binomial),
        ],
        SynchronisedLinear,
    ),
    (
        8,
        &[
            (1024.0, Binomial),
            (8192.0, Linear),
            (32_768.0, Binomial),
            (262_144.0, Linear),
        ],
        SynchronisedLinear,
    ),
    (256, &[], Binomial),
    (512, &[(2048.0, Binomial), (8192.0, Linear)], Binomial),
    (ANY, &[], Binomial),
];

const SCATTER: &[Decision] = &[
    (4, &[], Linear),
    (
        8,
        &[(2048.0, Binomial), (4096.0, Linear), (8192.0, Binomial)],
        Linear,
    ),
    (16, &[(16_384.0, Binomial)], Linear),
    (32, &[(16_384.0, Binomial)], Linear),
    (
        64,
        &[(512.0, Binomial), (8192.0, Linear), (16_384.0, Binomial)],
        Linear,
    ),
    (ANY, &[(512.0, Binomial)], Linear),
];

// Not in `tuned`: from component `basic`.
const SCAN: &[Decision] = &[(ANY, &[], Linear)];
