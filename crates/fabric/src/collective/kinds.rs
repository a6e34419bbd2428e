//! Collectives and their algorithms, by name.

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collective {
    /// No rank leaves before all have entered.
    Barrier,
    /// The root's vector to all ranks.
    Broadcast,
    /// All vectors reduced at the root.
    Reduce,
    /// All vectors reduced at every rank.
    Allreduce,
    /// Every rank's block to the root.
    Gather,
    /// A block of the root's to every rank.
    Scatter,
    /// Every rank's block to every rank.
    Allgather,
    /// All vectors reduced, a block of the result at each rank.
    ReduceScatter,
    /// A separate block from each rank to each.
    Alltoall,
    /// Vectors of the ranks up to and including each, reduced.
    Scan,
}

/// How a collective is called, as far as libraries have algorithms of their own for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct How {
    /// Nonblocking or persistent.
    pub requested: bool,
    /// With an operation that does not commute.
    pub ordered: bool,
    /// In place; not told for plain calls.
    pub in_place: bool,
    /// With blocks that may differ in size (`allgatherv`, `reduce_scatter`).
    pub vector: bool,
}

impl How {
    /// From the words of a record, joined by commas: `nonblocking`, `persistent`, `ordered`, `in_place`.
    pub fn of(words: &[u8]) -> Self {
        let has = |word: &[u8]| words.split(|&b| b == b',').any(|w| w == word);
        Self {
            requested: has(b"nonblocking") || has(b"persistent"),
            ordered: has(b"ordered"),
            in_place: has(b"in_place"),
            vector: false,
        }
    }

    /// Whether it matters that operations do not commute.
    pub(super) fn is_ordered(self, collective: Collective) -> bool {
        let reductions = [
            Collective::Reduce,
            Collective::Allreduce,
            Collective::ReduceScatter,
        ];
        self.ordered && reductions.contains(&collective)
    }

    /// Whether libraries may have other algorithms than for plain calls.
    pub(super) fn is_unlike_plain(self, collective: Collective) -> bool {
        self.requested || self.is_ordered(collective)
    }
}

/// The algorithm of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Direct messages: the root, or every rank, with each partner; for a scan, a chain.
    Linear,
    /// A binomial tree; for an allreduce, up to the first rank and back down.
    Binomial,
    /// Blocks around a ring of the ranks in order; for rooted operations a chain.
    Ring,
    /// Pairs at distances 1, 2, 4, …
    RecursiveDoubling,
    /// Pairs at halving distances, half of the data each time.
    RecursiveHalving,
    /// Reduce-scatter by halves exchanged from near to far, then gather or allgather from far to near.
    Rabenseifner,
    /// Blocks for several ranks combined, at distances 1, 2, 4, …
    Bruck,
    /// One partner per round, n-1 rounds.
    Pairwise,
    /// Every rank to the rank 1, 2, 4, … ahead.
    Dissemination,
    /// Two binary trees, each with half of the data, up and down (NCCL).
    Tree,
    /// Binomial-tree scatter, then ring allgather.
    ScatterAllgather,
    /// A complete binary tree, filled level by level.
    Binary,
    /// A binary tree over the ranks in order, whose top is the last rank.
    InOrderBinary,
    /// A tree of radix four.
    Knomial,
    /// A binomial tree whose root sends to the ranks 1, 2, 4, … ahead, in this order.
    NearBinomial,
    /// Halves of the vector down the sides of a binary tree, then exchanged.
    SplitBinary,
    /// Binomial-tree scatter, then allgather by recursive doubling.
    ScatterDoubling,
    /// Rabenseifner's, where ranks beyond a power of two add up half of their vectors before.
    NearRabenseifner,
    /// Blocks between neighbours, two at a time.
    NeighborExchange,
    /// Direct messages, each asked for by the root.
    SynchronisedLinear,
    /// Halves exchanged from near to far.
    Butterfly,
    /// As the library reduces, then as it broadcasts.
    ReduceThenBroadcast,
    /// As the library reduces, then as it scatters.
    ReduceThenScatter,
    /// Gathered directly, then as the library broadcasts.
    GatherThenBroadcast,
    /// A binomial tree up to the first rank, then a near-binomial one down.
    UpAndDown,
    /// A binomial tree up to the first rank, which sends each its block.
    UpThenScatter,
    /// Rings inside hosts and across them; with the number of consecutive ranks of a host.
    Hierarchical(u32),
    /// Sums and copies by the switch inside a host, double trees across hosts (NCCL); with the ranks of a host.
    NvlsTree(u32),
    /// Inside hosts and between them (Open MPI's `coll/han`); with the number of consecutive ranks of a host, for others
    /// in the order of [`super::Algorithms::arranged`].
    Han(u32),
}

pub(super) const COLLECTIVES: [(&str, Collective); 10] = [
    ("barrier", Collective::Barrier),
    ("broadcast", Collective::Broadcast),
    ("reduce", Collective::Reduce),
    ("allreduce", Collective::Allreduce),
    ("gather", Collective::Gather),
    ("scatter", Collective::Scatter),
    ("allgather", Collective::Allgather),
    ("reduce-scatter", Collective::ReduceScatter),
    ("alltoall", Collective::Alltoall),
    ("scan", Collective::Scan),
];

pub(super) const ALGORITHMS: [(&str, Algorithm); 29] = [
    ("linear", Algorithm::Linear),
    ("binomial", Algorithm::Binomial),
    ("ring", Algorithm::Ring),
    ("recursive-doubling", Algorithm::RecursiveDoubling),
    ("recursive-halving", Algorithm::RecursiveHalving),
    ("rabenseifner", Algorithm::Rabenseifner),
    ("bruck", Algorithm::Bruck),
    ("pairwise", Algorithm::Pairwise),
    ("dissemination", Algorithm::Dissemination),
    ("tree", Algorithm::Tree),
    ("scatter-allgather", Algorithm::ScatterAllgather),
    ("binary", Algorithm::Binary),
    ("in-order-binary", Algorithm::InOrderBinary),
    ("knomial", Algorithm::Knomial),
    ("near-binomial", Algorithm::NearBinomial),
    ("split-binary", Algorithm::SplitBinary),
    ("scatter-doubling", Algorithm::ScatterDoubling),
    ("near-rabenseifner", Algorithm::NearRabenseifner),
    ("neighbor-exchange", Algorithm::NeighborExchange),
    ("synchronised-linear", Algorithm::SynchronisedLinear),
    ("butterfly", Algorithm::Butterfly),
    ("reduce-broadcast", Algorithm::ReduceThenBroadcast),
    ("reduce-scatter", Algorithm::ReduceThenScatter),
    ("gather-broadcast", Algorithm::GatherThenBroadcast),
    ("binomial-near-binomial", Algorithm::UpAndDown),
    ("binomial-linear", Algorithm::UpThenScatter),
    ("hierarchical", Algorithm::Hierarchical(0)),
    ("nvls-tree", Algorithm::NvlsTree(0)),
    ("han", Algorithm::Han(0)),
];

impl Collective {
    /// By name, `allreduce`; MPI's `bcast` and `reduce_scatter` are accepted too.
    pub fn named(name: &str) -> Option<Self> {
        let name = match name {
            "bcast" => "broadcast",
            "reducescatter" | "reduce_scatter" => "reduce-scatter",
            other => other,
        };
        COLLECTIVES.iter().find(|c| c.0 == name).map(|c| c.1)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        COLLECTIVES
            .iter()
            .find(|c| c.1 == self)
            .map_or("collective", |c| c.0)
    }

    /// Whether one rank gives or takes the data of the others.
    pub fn has_root(self) -> bool {
        matches!(
            self,
            Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter
        )
    }

    /// The name that a misspelt one may stand for.
    pub fn near(name: &str) -> Option<String> {
        let near = crate::similar(name, COLLECTIVES.map(|c| c.0));
        near.into_iter().next()
    }

    /// All names, for messages.
    pub fn names() -> String {
        COLLECTIVES.map(|c| c.0).join(", ")
    }

    /// One of its algorithms by name.
    pub fn algorithm(self, name: &str) -> Option<Algorithm> {
        Algorithm::named(name).filter(|a| self.has(*a))
    }

    /// Whether an algorithm is one of its own, whatever the ranks of a host.
    pub(super) fn has(self, algorithm: Algorithm) -> bool {
        self.algorithms().contains(&algorithm.of_hosts(0))
    }

    /// Names of its algorithms, for messages.
    pub fn algorithm_names(self) -> String {
        let name = |a: &Algorithm| match a.inner() {
            Some(_) => format!("{}/8", a.name()),
            None => a.name().to_owned(),
        };
        let names: Vec<String> = self.algorithms().iter().map(name).collect();
        names.join(", ")
    }

    /// Its algorithms, the usual one for large data first.
    pub fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm as A;
        match self {
            Self::Barrier => &[
                A::Dissemination,
                A::RecursiveDoubling,
                A::Binomial,
                A::Linear,
            ],
            Self::Broadcast => &[
                A::ScatterAllgather,
                A::Binomial,
                A::Ring,
                A::Linear,
                A::ScatterDoubling,
                A::NearBinomial,
                A::Knomial,
                A::Binary,
                A::SplitBinary,
                A::Han(0),
            ],
            Self::Reduce => &[
                A::Rabenseifner,
                A::Binomial,
                A::Ring,
                A::Linear,
                A::Binary,
                A::InOrderBinary,
                A::NearRabenseifner,
                A::Han(0),
            ],
            Self::Allreduce => &[
                A::Rabenseifner,
                A::Ring,
                A::RecursiveDoubling,
                A::Tree,
                A::Binomial,
                A::NearRabenseifner,
                A::ReduceThenBroadcast,
                A::Linear,
                A::UpAndDown,
                A::Hierarchical(0),
                A::NvlsTree(0),
                A::Han(0),
            ],
            Self::Gather => &[A::Binomial, A::Linear, A::SynchronisedLinear, A::Han(0)],
            Self::Scatter => &[A::Binomial, A::Linear, A::Han(0)],
            Self::Allgather => &[
                A::Ring,
                A::Bruck,
                A::RecursiveDoubling,
                A::Pairwise,
                A::Linear,
                A::NeighborExchange,
                A::GatherThenBroadcast,
                A::Hierarchical(0),
                A::Han(0),
            ],
            Self::ReduceScatter => &[
                A::Pairwise,
                A::Ring,
                A::RecursiveHalving,
                A::RecursiveDoubling,
                A::Butterfly,
                A::ReduceThenScatter,
                A::UpThenScatter,
                A::Hierarchical(0),
            ],
            Self::Alltoall => &[A::Pairwise, A::Bruck, A::Linear, A::Hierarchical(0)],
            Self::Scan => &[A::RecursiveDoubling, A::Linear],
        }
    }
}

impl Algorithm {
    /// By name, `recursive-doubling`; with the ranks of a host, `hierarchical/8`.
    pub fn named(name: &str) -> Option<Self> {
        let (name, inner) = match name.split_once('/') {
            Some((name, inner)) => (name, inner.parse().ok().filter(|&n| n > 0)?),
            None => (name, 0),
        };
        let found = ALGORITHMS.iter().find(|a| a.0 == name).map(|a| a.1)?;
        (found.inner().is_some() == (inner > 0)).then(|| found.of_hosts(inner))
    }

    /// Ranks of a host, of the algorithms that know hosts.
    pub fn inner(self) -> Option<u32> {
        match self {
            Self::Hierarchical(inner) | Self::NvlsTree(inner) | Self::Han(inner) => Some(inner),
            _ => None,
        }
    }

    /// The same with this number of ranks of a host, if it knows hosts.
    #[must_use]
    pub fn of_hosts(self, inner: u32) -> Self {
        match self {
            Self::Hierarchical(_) => Self::Hierarchical(inner),
            Self::NvlsTree(_) => Self::NvlsTree(inner),
            Self::Han(_) => Self::Han(inner),
            other => other,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        ALGORITHMS
            .iter()
            .find(|a| a.1 == self.of_hosts(0))
            .map_or("algorithm", |a| a.0)
    }
}

impl Algorithm {
    /// Whether parts of it are selected by size, so that its messages are not proportional to the size.
    pub fn is_composed(self) -> bool {
        matches!(
            self,
            Self::ReduceThenBroadcast
                | Self::ReduceThenScatter
                | Self::GatherThenBroadcast
                | Self::Han(_)
        )
    }

    /// An upper bound on the messages; a ring's repeated messages count once.
    pub fn most_messages(self, collective: Collective, ranks: usize) -> u64 {
        let n = ranks as u64;
        let rounds = u64::from(ranks.max(1).ilog2()) + 1;
        match self {
            Self::Pairwise => n.saturating_mul(n),
            Self::Linear if matches!(collective, Collective::Alltoall | Collective::Allgather) => {
                n.saturating_mul(n)
            }
            Self::Linear | Self::Binomial | Self::Ring => 2 * n,
            Self::Tree | Self::SynchronisedLinear => 4 * n,
            Self::NeighborExchange => n.saturating_mul(n),
            Self::Hierarchical(_) if collective == Collective::Alltoall => n.saturating_mul(n),
            Self::Hierarchical(_) => 4 * n,
            Self::NvlsTree(inner) => n.saturating_mul(2 * u64::from(inner) + 4),
            Self::Han(inner) => {
                let hosts = n / u64::from(inner.max(1));
                hosts.saturating_mul(hosts) + n.saturating_mul(2 * rounds + 6)
            }
            _ => n.saturating_mul(2 * rounds + 2),
        }
    }
}
