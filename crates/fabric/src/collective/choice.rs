//! Algorithm selection of MPI libraries for collectives, by ranks and bytes.
//!
//! Thresholds are the libraries' defaults. MPICH: Thakur, Rabenseifner, Gropp, "Optimization of Collective
//! Communication Operations in MPICH", IJHPCA 19(1), 2005, sections 4 and 5, which are still the defaults of its
//! `MPIR_CVAR_*_MSG_SIZE` variables. Open MPI: the fixed decisions of component `coll/tuned` from release 4.1 on for
//! commutative operations (documented as `coll_tuned_*_algorithm`, see "Tuning collectives" in its manual).
//! Algorithms of Open MPI that [`Algorithm`] lacks are replaced by the nearest one: trees of another arity by
//! binomial, several chains by linear (up to seven ranks), neighbour exchange by ring, butterfly by recursive
//! halving, reduce followed by scatter by recursive halving. If Open MPI has a fallback for fewer elements than ranks
//! (rings), the fallback is assumed.

use super::{Algorithm, Collective};
use crate::error::{FabricError, InputError};
use std::collections::BTreeMap;

/// An MPI library with known decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Open MPI from 4.1 on, component `coll/tuned`.
    OpenMpi,
    /// MPICH and Cray MPICH without tuning files.
    Mpich,
}

impl Library {
    /// The library for a text of `MPI_Get_library_version`.
    pub fn of_version(version: &str) -> Option<Self> {
        if version.starts_with("Open MPI") {
            Some(Self::OpenMpi)
        } else if version.contains("MPICH") && !version.contains("MVAPICH") {
            Some(Self::Mpich)
        } else {
            None
        }
    }
}

/// A choice of algorithms: a library's rules, with individual overrides.
///
/// ```
/// use hopbyte_fabric::collective::{Algorithm, Algorithms, Collective};
/// let rules = Algorithms::parse("openmpi,allreduce=ring")?;
/// assert_eq!(rules.choose(Collective::Allreduce, 64, 1e6), Algorithm::Ring);
/// assert_eq!(rules.choose(Collective::Scan, 64, 1e6), Algorithm::Linear);
/// # Ok::<(), hopbyte_fabric::FabricError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Algorithms {
    library: Option<Library>,
    fixed: Vec<(Collective, Algorithm)>,
}

impl Algorithms {
    /// Parses `openmpi`, `mpich`, `allreduce=ring`, or a comma-separated list of these.
    ///
    /// # Errors
    /// An unknown library, collective or algorithm; an algorithm that the collective does not support.
    pub fn parse(text: &str) -> Result<Self, FabricError> {
        let mut rules = Self::default();
        for word in text.split(',') {
            let wrong = |found: &str, expected: String| {
                InputError::new(text, found, expected)
                    .hint("write openmpi, mpich, or COLLECTIVE=ALGORITHM, joined by commas")
            };
            match word.split_once('=') {
                Some((name, algorithm)) => {
                    let kind = Collective::named(name);
                    let kind = kind.ok_or_else(|| wrong(name, Collective::names()))?;
                    let known = kind.algorithm(algorithm);
                    let known = known.ok_or_else(|| wrong(algorithm, kind.algorithm_names()))?;
                    rules.fixed.push((kind, known));
                }
                None => {
                    let expected = "openmpi, mpich, or COLLECTIVE=ALGORITHM";
                    let known = library_named(word);
                    rules.library = Some(known.ok_or_else(|| wrong(word, expected.into()))?);
                }
            }
        }
        Ok(rules)
    }

    /// The rules of one library.
    pub fn of(library: Library) -> Self {
        Self {
            library: Some(library),
            fixed: Vec::new(),
        }
    }

    /// The same rules, with those of `library` if none is set.
    #[must_use]
    pub fn or(mut self, library: Option<Library>) -> Self {
        self.library = self.library.or(library);
        self
    }

    /// The same rules with one algorithm overridden.
    #[must_use]
    pub fn with(mut self, collective: Collective, algorithm: Algorithm) -> Self {
        self.fixed.push((collective, algorithm));
        self
    }

    /// The algorithm for `ranks` ranks and a size of `bytes` (see the module for the meaning of sizes). The default
    /// library is MPICH.
    pub fn choose(&self, collective: Collective, ranks: usize, bytes: f64) -> Algorithm {
        if let Some(algorithm) = self.given(collective) {
            return algorithm;
        }
        match self.library {
            Some(Library::OpenMpi) => open_mpi(collective, ranks, bytes),
            Some(Library::Mpich) | None => mpich(collective, ranks, bytes),
        }
    }

    /// Origin of the choice for `collective`.
    pub fn basis(&self, collective: Collective) -> &'static str {
        match (self.given(collective), self.library) {
            (Some(_), _) => "given",
            (None, Some(Library::OpenMpi)) => "as Open MPI decides",
            (None, Some(Library::Mpich)) => "as MPICH decides",
            (None, None) => "assumed, as MPICH decides",
        }
    }

    fn given(&self, collective: Collective) -> Option<Algorithm> {
        let last = self.fixed.iter().rev().find(|f| f.0 == collective);
        last.map(|f| f.1)
    }
}

/// A library by its command-line name.
fn library_named(name: &str) -> Option<Library> {
    match name {
        "openmpi" => Some(Library::OpenMpi),
        "mpich" => Some(Library::Mpich),
        _ => None,
    }
}

fn mpich(collective: Collective, ranks: usize, bytes: f64) -> Algorithm {
    use Algorithm as A;
    use Collective as C;
    let all = bytes * ranks as f64;
    let power = ranks.is_power_of_two();
    match collective {
        C::Barrier => A::Dissemination,
        C::Broadcast if bytes < 12_288.0 || ranks < 8 => A::Binomial,
        C::Broadcast => A::ScatterAllgather,
        C::Reduce if bytes <= 2048.0 => A::Binomial,
        C::Reduce => A::Rabenseifner,
        C::Allreduce if bytes <= 2048.0 => A::RecursiveDoubling,
        C::Allreduce => A::Rabenseifner,
        C::Gather | C::Scatter => A::Binomial,
        C::Allgather if all < 524_288.0 && power => A::RecursiveDoubling,
        C::Allgather if all < 81_920.0 => A::Bruck,
        C::Allgather => A::Ring,
        C::ReduceScatter if all < 524_288.0 => A::RecursiveHalving,
        C::ReduceScatter => A::Pairwise,
        C::Alltoall if bytes <= 256.0 && ranks >= 8 => A::Bruck,
        C::Alltoall => A::Pairwise,
        C::Scan => A::RecursiveDoubling,
    }
}

/// For groups with fewer ranks than the first number: the algorithm below each limit in bytes, and the one above all
/// limits.
type Row = (usize, &'static [(f64, Algorithm)], Algorithm);

fn open_mpi(collective: Collective, ranks: usize, bytes: f64) -> Algorithm {
    use Algorithm as A;
    let bytes = match collective {
        Collective::ReduceScatter => bytes * ranks as f64,
        _ => bytes,
    };
    let rows = match collective {
        Collective::Barrier => BARRIER,
        Collective::Broadcast => BROADCAST,
        Collective::Reduce => REDUCE,
        Collective::Allreduce => ALLREDUCE,
        Collective::Gather => GATHER,
        Collective::Scatter => SCATTER,
        Collective::Allgather => ALLGATHER,
        Collective::ReduceScatter => REDUCE_SCATTER,
        Collective::Alltoall => ALLTOALL,
        Collective::Scan => SCAN,
    };
    let row = rows.iter().find(|r| ranks < r.0);
    let chosen = row.map_or(A::Linear, |&(_, limits, beyond)| {
        let limit = limits.iter().find(|l| bytes < l.0);
        limit.map_or(beyond, |l| l.1)
    });
    // Its recursive doubling of an allgather is Bruck's algorithm if ranks are not a power of two.
    match (collective, chosen) {
        (Collective::Allgather, A::RecursiveDoubling) if !ranks.is_power_of_two() => A::Bruck,
        _ => chosen,
    }
}

const ANY: usize = usize::MAX;
use Algorithm::{
    Binomial, Bruck, Dissemination, Linear, Pairwise, Rabenseifner, RecursiveDoubling,
    RecursiveHalving, Ring, ScatterAllgather,
};

const BARRIER: &[Row] = &[
    (4, &[], RecursiveDoubling),
    (8, &[], Linear),
    (64, &[], RecursiveDoubling),
    (256, &[], Dissemination),
    (512, &[], Binomial),
    (1024, &[], Dissemination),
    (4096, &[], Binomial),
    (ANY, &[], Dissemination),
];

const BROADCAST: &[Row] = &[
    (4, &[(32.0, Ring), (256.0, Linear), (512.0, Ring)], Linear),
    (8, &[(8192.0, Binomial)], Linear),
    (16, &[(32_768.0, Binomial)], Linear),
    (32, &[(1_048_576.0, Binomial)], ScatterAllgather),
    (128, &[], Binomial),
    (256, &[(16_384.0, Binomial), (32_768.0, Linear)], Binomial),
    (1024, &[], Binomial),
    (2048, &[(524_288.0, Binomial)], ScatterAllgather),
    (ANY, &[(262_144.0, Binomial)], ScatterAllgather),
];

const REDUCE: &[Row] = &[
    (
        4,
        &[
            (16.0, Binomial),
            (32.0, Ring),
            (262_144.0, Linear),
            (524_288.0, Ring),
            (1_048_576.0, Linear),
        ],
        Ring,
    ),
    (
        8,
        &[
            (4096.0, Binomial),
            (65_536.0, Ring),
            (262_144.0, Binomial),
            (524_288.0, Linear),
            (1_048_576.0, Binomial),
        ],
        Linear,
    ),
    (ANY, &[], Binomial),
];

const ALLREDUCE: &[Row] = &[
    (
        4,
        &[
            (4096.0, RecursiveDoubling),
            (8192.0, Ring),
            (16_384.0, RecursiveDoubling),
            (262_144.0, Ring),
        ],
        Rabenseifner,
    ),
    (16, &[(8192.0, RecursiveDoubling)], Rabenseifner),
    (32, &[(4096.0, RecursiveDoubling)], Rabenseifner),
    (64, &[(128.0, RecursiveDoubling)], Rabenseifner),
    (128, &[(262_144.0, RecursiveDoubling)], Rabenseifner),
    (
        256,
        &[(131_072.0, Binomial), (262_144.0, RecursiveDoubling)],
        Rabenseifner,
    ),
    (512, &[(4096.0, Binomial)], Rabenseifner),
    (
        2048,
        &[(2048.0, Binomial), (16_384.0, RecursiveDoubling)],
        Rabenseifner,
    ),
    (
        4096,
        &[(2048.0, Binomial), (16_384.0, RecursiveDoubling)],
        Rabenseifner,
    ),
    (
        ANY,
        &[(2048.0, Binomial), (32_768.0, RecursiveDoubling)],
        Rabenseifner,
    ),
];

const GATHER: &[Row] = &[
    (
        4,
        &[
            (4.0, Linear),
            (32_768.0, Binomial),
            (65_536.0, Linear),
            (131_072.0, Binomial),
        ],
        Linear,
    ),
    (
        8,
        &[(1024.0, Binomial), (8192.0, Linear), (32_768.0, Binomial)],
        Linear,
    ),
    (256, &[], Binomial),
    (512, &[(2048.0, Binomial), (8192.0, Linear)], Binomial),
    (ANY, &[], Binomial),
];

const SCATTER: &[Row] = &[
    (4, &[], Linear),
    (
        8,
        &[(2048.0, Binomial), (4096.0, Linear), (8192.0, Binomial)],
        Linear,
    ),
    (32, &[(16_384.0, Binomial)], Linear),
    (
        64,
        &[(512.0, Binomial), (8192.0, Linear), (16_384.0, Binomial)],
        Linear,
    ),
    (ANY, &[(512.0, Binomial)], Linear),
];

const ALLGATHER: &[Row] = &[
    (3, &[], Linear),
    (32, &[], RecursiveDoubling),
    (64, &[(1024.0, RecursiveDoubling)], Ring),
    (256, &[(512.0, RecursiveDoubling)], Ring),
    (
        512,
        &[
            (32.0, RecursiveDoubling),
            (128.0, Bruck),
            (1024.0, RecursiveDoubling),
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
        Ring,
    ),
    (ANY, &[(512.0, Bruck), (4096.0, RecursiveDoubling)], Ring),
];

const REDUCE_SCATTER: &[Row] = &[
    (4, &[], Ring),
    (32, &[(262_144.0, RecursiveHalving)], Ring),
    (64, &[(524_288.0, RecursiveHalving)], Ring),
    (ANY, &[], RecursiveHalving),
];

const ALLTOALL: &[Row] = &[
    (16, &[], Linear),
    (32, &[(4.0, Linear), (512.0, Bruck)], Linear),
    (64, &[(512.0, Bruck)], Linear),
    (256, &[(1024.0, Bruck), (262_144.0, Linear)], Pairwise),
    (512, &[(1024.0, Bruck), (32_768.0, Linear)], Pairwise),
    (1024, &[(512.0, Bruck), (262_144.0, Linear)], Pairwise),
    (2048, &[(512.0, Bruck)], Linear),
    (4096, &[(1024.0, Bruck)], Linear),
    (ANY, &[(2048.0, Bruck)], Linear),
];

// Not in `tuned`: from component `basic`.
const SCAN: &[Row] = &[(ANY, &[], Linear)];

/// Algorithms used by an expansion, to be reported with the result.
#[derive(Clone, Debug, Default)]
pub struct Used {
    by: BTreeMap<(Collective, &'static str, &'static str), Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    calls: u64,
    ranks: (u32, u32),
    bytes: (f64, f64),
}

impl Used {
    /// Counts `calls` calls of `ranks` ranks, of a (mean) size of `bytes`.
    pub fn add(
        &mut self,
        what: (Collective, Algorithm),
        basis: &'static str,
        of: (u32, f64),
        calls: u64,
    ) {
        let (ranks, bytes) = of;
        let span = self.by.entry((what.0, what.1.name(), basis));
        let span = span.or_insert(Span {
            calls: 0,
            ranks: (ranks, ranks),
            bytes: (bytes, bytes),
        });
        span.calls = span.calls.saturating_add(calls);
        span.ranks = (span.ranks.0.min(ranks), span.ranks.1.max(ranks));
        span.bytes = (span.bytes.0.min(bytes), span.bytes.1.max(bytes));
    }

    /// One line per collective and algorithm: `allreduce by rabenseifner (as MPICH decides): 3 calls, 64 ranks, 4096
    /// to 1000000 B`.
    pub fn lines(&self) -> Vec<String> {
        let line = |(&(collective, algorithm, basis), s): (&(Collective, _, _), &Span)| {
            let Span {
                calls,
                ranks,
                bytes,
            } = s;
            let (name, plural) = (collective.name(), if *calls == 1 { "" } else { "s" });
            let ranks = range(ranks.0, ranks.1);
            let bytes = range(bytes.0.round(), bytes.1.round());
            format!(
                "{name} by {algorithm} ({basis}): {calls} call{plural}, {ranks} ranks, {bytes} B"
            )
        };
        self.by.iter().map(line).collect()
    }
}

fn range<T: Copy + PartialEq + std::fmt::Display>(low: T, high: T) -> String {
    if low == high {
        low.to_string()
    } else {
        format!("{low} to {high}")
    }
}
