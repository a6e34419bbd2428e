//! Algorithm selection of MPI libraries for collectives, by ranks and bytes.
//!
//! Thresholds are the libraries' defaults. MPICH: Thakur, Rabenseifner, Gropp, "Optimization of Collective
//! Communication Operations in MPICH", IJHPCA 19(1), 2005, sections 4 and 5, and from version 4 on the tables that replaced
//! them, as counted in 4.0.2 and 5.0.2 with one rank a node (`tests/mpi/test_collectives.py`). Open MPI: `open_mpi.rs`.

use super::{Algorithm, Collective, How, Operation, Sizes, libnbc, open_mpi};
use crate::error::{FabricError, InputError};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An MPI library with known decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Open MPI from 4.1 on, component `coll/tuned`.
    OpenMpi,
    /// MPICH from version 4 on without tuning files.
    Mpich,
    /// MPICH before version 4, and Cray MPICH.
    OldMpich,
    /// NCCL and RCCL: rings, which they use for large messages; roots and blocks directly.
    Nccl,
}

impl Library {
    /// The library for a text of `MPI_Get_library_version`.
    pub fn of_version(version: &str) -> Option<Self> {
        if version.starts_with("Open MPI") {
            Some(Self::OpenMpi)
        } else if version.contains("MPICH") && !version.contains("MVAPICH") {
            let old = version.contains("CRAY") || major(version).is_some_and(|v| v < 4);
            Some(if old { Self::OldMpich } else { Self::Mpich })
        } else {
            None
        }
    }
}

/// The first number of `MPICH Version: 4.0.2`.
fn major(version: &str) -> Option<u32> {
    let (_, number) = version.split_once(':')?;
    let digits = number.trim_start();
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().ok()
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
    set: Vec<(Collective, Algorithm)>,
    recorded: Vec<(Collective, Algorithm)>,
    doubt: Option<&'static str>,
    /// Whether the library's choices depend on hosts.
    follows_hosts: bool,
    /// Whether the job's variables exclude such choices.
    flat: bool,
    /// How nonblocking and persistent calls are made, if Open MPI's choices are those for them.
    of_requests: Option<How>,
    /// Hosts of the world's ranks.
    hosts: Vec<u32>,
}

/// Hosts of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// One host, or a host for each; or unknown.
    Plain,
    /// Several of so many ranks each.
    Even(u32),
    /// Others.
    Uneven,
}

/// A group in the order in which an algorithm takes it.
pub struct Arranged<'m> {
    /// Its members.
    pub members: Cow<'m, [u32]>,
    /// Position of the root.
    root: u32,
    /// Members on each host, if unequal.
    hosts: Vec<u32>,
}

impl Arranged<'_> {
    /// A collective of the group.
    pub fn operation<'a>(
        &'a self,
        (collective, algorithm): (Collective, Algorithm),
        sizes: Sizes<'a>,
    ) -> Operation<'a> {
        Operation {
            collective,
            algorithm,
            ranks: self.members.len() as u32,
            root: self.root,
            sizes,
            hosts: &self.hosts,
        }
    }
}

/// Variables without which the job uses `coll/han`.
const EXCLUDED: [(&str, &str); 2] = [
    ("OMPI_MCA_coll", "^han"),
    ("OMPI_MCA_coll_han_priority", "0"),
];

/// Collectives of `coll/han`.
const HAN: [Collective; 6] = [
    Collective::Broadcast,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::Gather,
    Collective::Scatter,
    Collective::Allgather,
];

/// Reasons for assumptions.
const OF_REQUESTS: &str = "libraries have other algorithms for nonblocking and persistent calls";
const ORDERED: &str = "libraries have other algorithms for operations that do not commute";

impl Algorithms {
    /// Parses `openmpi`, `mpich`, `nccl`, `allreduce=ring`, or a comma-separated list of these.
    ///
    /// # Errors
    /// An unknown library, collective or algorithm; an algorithm that the collective does not support.
    pub fn parse(text: &str) -> Result<Self, FabricError> {
        let mut rules = Self::default();
        for word in text.split(',') {
            let wrong = |found: &str, expected: String| {
                InputError::new(text, found, expected)
                    .of(crate::Class::Spec)
                    .hint("write openmpi, mpich, nccl, or COLLECTIVE=ALGORITHM, joined by commas")
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
                    let expected = "openmpi, mpich, nccl, or COLLECTIVE=ALGORITHM";
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
            ..Self::default()
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

    /// The same rules with an algorithm that the job's own logs name.
    #[must_use]
    pub fn recorded(mut self, collective: Collective, algorithm: Algorithm) -> Self {
        self.recorded.push((collective, algorithm));
        self
    }

    /// The algorithm for `ranks` ranks and a size of `bytes` (see the module for the meaning of sizes). The default
    /// library is MPICH.
    pub fn choose(&self, collective: Collective, ranks: usize, bytes: f64) -> Algorithm {
        self.choose_for(collective, false, ranks, bytes)
    }

    /// The same if blocks may differ in size (`vector`: `allgatherv`, `reduce_scatter`, `alltoallv`); `bytes` is their mean.
    pub fn choose_for(
        &self,
        collective: Collective,
        vector: bool,
        ranks: usize,
        bytes: f64,
    ) -> Algorithm {
        if let Some(algorithm) = self.given(collective) {
            // Bruck's algorithm combines blocks of one size.
            return match (collective, vector, algorithm) {
                (Collective::Alltoall, true, Algorithm::Bruck) => Algorithm::Linear,
                _ => algorithm,
            };
        }
        if let Some(set) = self.set.iter().find(|s| s.0 == collective && !vector) {
            return set.1;
        }
        if let Some(logged) = self.recorded.iter().find(|r| r.0 == collective) {
            return logged.1;
        }
        match self.library {
            Some(Library::OpenMpi) => match self.of_requests {
                Some(how) => libnbc::choose(collective, how, ranks, bytes),
                None => open_mpi::choose(collective, vector, ranks, bytes),
            },
            Some(Library::Nccl) => nccl(collective),
            Some(Library::OldMpich) => old_mpich(collective, vector, ranks, bytes),
            Some(Library::Mpich) | None => mpich(collective, vector, ranks, bytes),
        }
    }

    /// The same for a group of ranks of the world, whose hosts may decide ([`Self::on_hosts`]).
    pub fn choose_among(
        &self,
        collective: Collective,
        vector: bool,
        members: &[u32],
        bytes: f64,
    ) -> Algorithm {
        match self.layout(collective, members) {
            Layout::Even(inner) if !vector => Algorithm::Han(inner),
            Layout::Uneven if collective == Collective::Allreduce => Algorithm::Han(0),
            _ => self.choose_for(collective, vector, members.len(), bytes),
        }
    }

    /// The same rules for a world whose ranks are on these hosts.
    #[must_use]
    pub fn on_hosts(mut self, hosts: Vec<u32>) -> Self {
        self.hosts = hosts;
        self
    }

    /// The same rules, which follow hosts if it is Open MPI of this major release.
    #[must_use]
    pub fn of_release(mut self, major: u32) -> Self {
        self.follows_hosts = major >= 5;
        self
    }

    /// The rules for calls like these: Open MPI's for nonblocking and persistent ones, else those of plain calls, as an
    /// assumption where libraries have other algorithms.
    pub fn for_calls(&self, collective: Collective, how: How) -> Cow<'_, Self> {
        let given = self.given(collective).is_some();
        if given || !how.is_unlike_plain(collective) {
            return Cow::Borrowed(self);
        }
        let open_mpi = self.library == Some(Library::OpenMpi);
        let reason = match how.is_ordered(collective) {
            true => Some(ORDERED),
            false => (!open_mpi).then_some(OF_REQUESTS),
        };
        let mut rules = self.clone().doubted(reason);
        // Variables and hosts decide about plain calls.
        rules.set.clear();
        if how.requested {
            rules.flat = true;
            rules.of_requests = open_mpi.then_some(how);
        }
        Cow::Owned(rules)
    }

    /// Whether [`Self::on_hosts`] makes a difference.
    pub fn follows_hosts(&self) -> bool {
        let open_mpi = self.library == Some(Library::OpenMpi);
        open_mpi && self.follows_hosts && !self.flat && self.doubt.is_none()
    }

    /// The same for one collective.
    pub fn depends_on_hosts(&self, collective: Collective) -> bool {
        let set = [&self.fixed, &self.set, &self.recorded];
        let is_set = set
            .iter()
            .any(|list| list.iter().any(|s| s.0 == collective));
        !is_set && HAN.contains(&collective) && self.follows_hosts()
    }

    /// Whether hosts decide in a group, in a way that is not known.
    pub fn is_assumed(&self, collective: Collective, vector: bool, members: &[u32]) -> bool {
        vector && matches!(self.layout(collective, members), Layout::Even(_))
    }

    fn layout(&self, collective: Collective, members: &[u32]) -> Layout {
        if !self.depends_on_hosts(collective) {
            return Layout::Plain;
        }
        let hosts: Option<Vec<u32>> = (members.iter())
            .map(|&m| self.hosts.get(m as usize).copied())
            .collect();
        let Some(hosts) = hosts else {
            return Layout::Plain;
        };
        let mut ranks: BTreeMap<u32, u32> = BTreeMap::new();
        for host in hosts {
            *ranks.entry(host).or_default() += 1;
        }
        let each = ranks.values().next().copied().unwrap_or(0);
        match ranks.len() {
            n if n < 2 || n == members.len() => Layout::Plain,
            _ if ranks.values().all(|&n| n == each) => Layout::Even(each),
            _ => Layout::Uneven,
        }
    }

    /// A group in the order in which [`Algorithm::Han`] takes it, one host after the other: `coll/han` goes between the ranks
    /// whose number on their host is the root's, in their order. With other algorithms the group as it is.
    pub fn arranged<'m>(
        &self,
        (collective, algorithm): (Collective, Algorithm),
        members: &'m [u32],
        root: u32,
    ) -> Arranged<'m> {
        if self.of_requests.is_some()
            && libnbc::swaps((collective, algorithm))
            && !members.is_empty()
        {
            let mut order = members.to_vec();
            order.swap(0, (root as usize).min(members.len() - 1));
            return Arranged {
                members: Cow::Owned(order),
                root: 0,
                hosts: Vec::new(),
            };
        }
        let layout = self.layout(collective, members);
        let by_host = layout != Layout::Plain && matches!(algorithm, Algorithm::Han(_));
        if !by_host || root as usize >= members.len() {
            return Arranged {
                members: Cow::Borrowed(members),
                root,
                hosts: Vec::new(),
            };
        }
        let host = |at: usize| self.hosts[members[at] as usize];
        let mut places: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for at in 0..members.len() {
            places.entry(host(at)).or_default().push(at);
        }
        let root = root as usize;
        let number = places[&host(root)].iter().position(|&at| at == root);
        let mut by_host: Vec<Vec<usize>> = places.into_values().collect();
        by_host.sort_by_key(|of_host| of_host.get(number.unwrap_or(0)).copied());
        let order = by_host.concat();
        let place = order.iter().position(|&at| at == root).unwrap_or(root);
        Arranged {
            members: order.into_iter().map(|at| members[at]).collect(),
            root: place as u32,
            hosts: match layout {
                Layout::Uneven => by_host.iter().map(|of_host| of_host.len() as u32).collect(),
                _ => Vec::new(),
            },
        }
    }

    /// Takes the library's variables of the job into account: `OMPI_MCA_coll_tuned_NAME_algorithm` selects an algorithm
    /// where `coll_tuned_use_dynamic_rules` is set. Other variables of collectives make every choice an assumption.
    #[must_use]
    pub fn with_settings<'a>(mut self, settings: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let settings: Vec<_> = settings.collect();
        let dynamic = settings.iter().any(|&(name, value)| {
            name == "OMPI_MCA_coll_tuned_use_dynamic_rules"
                && matches!(value, "1" | "true" | "yes" | "enabled")
        });
        for (name, value) in settings {
            let number = name
                .strip_prefix("OMPI_MCA_coll_tuned_")
                .and_then(|rest| rest.strip_suffix("_algorithm"));
            let known = number.zip(value.parse().ok());
            match known.and_then(|(kind, number)| open_mpi::numbered(kind, number)) {
                Some(set) if dynamic => self.set.push(set),
                Some(_) => {}
                None if name == "OMPI_MCA_coll_tuned_use_dynamic_rules" => {}
                None if number.is_some() && value == "0" => {}
                None if EXCLUDED.contains(&(name, value)) => self.flat = true,
                None => self.doubt = Some("the job's variables for collectives are not followed"),
            }
        }
        self
    }

    /// The same rules, as an assumption for this reason.
    #[must_use]
    pub fn doubted(mut self, reason: Option<&'static str>) -> Self {
        self.doubt = self.doubt.or(reason);
        self
    }

    /// Why the library's choices are an assumption, if they are.
    pub fn doubt(&self) -> Option<&'static str> {
        self.doubt.filter(|_| self.library.is_some())
    }

    /// Origin of the choice for `collective`.
    pub fn basis(&self, collective: Collective) -> &'static str {
        let set = self.set.iter().any(|s| s.0 == collective);
        match (self.given(collective), self.library) {
            (Some(_), _) => "given",
            (None, Some(_)) if set => "set by the job's variables",
            (None, _) if self.recorded.iter().any(|r| r.0 == collective) => "as the log says",
            (None, Some(Library::Nccl)) => "assumed, NCCL's for large messages",
            (None, Some(Library::OpenMpi)) if self.doubt.is_some() => {
                "assumed, as Open MPI 4.1 decides"
            }
            (None, Some(Library::Mpich)) if self.doubt.is_some() => "assumed, as MPICH decides",
            (None, Some(Library::OpenMpi)) => "as Open MPI decides",
            (None, Some(Library::OldMpich)) if self.doubt.is_some() => {
                "assumed, as MPICH 3 decides"
            }
            (None, Some(Library::Mpich)) => "as MPICH decides",
            (None, Some(Library::OldMpich)) => "as MPICH 3 decides",
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
        "nccl" => Some(Library::Nccl),
        _ => None,
    }
}

fn nccl(collective: Collective) -> Algorithm {
    use Algorithm as A;
    use Collective as C;
    match collective {
        C::Broadcast | C::Reduce | C::Allreduce | C::Allgather | C::ReduceScatter => A::Ring,
        C::Gather | C::Scatter | C::Scan => A::Linear,
        C::Alltoall => A::Pairwise,
        C::Barrier => A::Dissemination,
    }
}

/// Where version 3 decides otherwise.
fn old_mpich(collective: Collective, vector: bool, ranks: usize, bytes: f64) -> Algorithm {
    use Algorithm as A;
    use Collective as C;
    match collective {
        C::Allreduce if bytes <= 2048.0 => A::RecursiveDoubling,
        C::Alltoall if !vector && bytes <= 256.0 && ranks == 8 => A::Bruck,
        _ => mpich(collective, vector, ranks, bytes),
    }
}

fn mpich(collective: Collective, vector: bool, ranks: usize, bytes: f64) -> Algorithm {
    use Algorithm as A;
    use Collective as C;
    let all = bytes * ranks as f64;
    let power = ranks.is_power_of_two();
    match collective {
        C::Barrier => A::Dissemination,
        C::Broadcast if bytes <= 12_288.0 || ranks < 8 => A::Binomial,
        C::Broadcast if bytes <= 524_288.0 && power => A::ScatterDoubling,
        C::Broadcast => A::ScatterAllgather,
        C::Reduce if bytes <= 2048.0 => A::Binomial,
        C::Reduce => A::Rabenseifner,
        // An element for each rank of the power of two, elements of eight bytes.
        C::Allreduce if bytes < 8.0 * (1usize << ranks.max(1).ilog2()) as f64 => {
            A::RecursiveDoubling
        }
        C::Allreduce => A::Rabenseifner,
        C::Gather | C::Scatter => A::Binomial,
        C::Allgather if all < 524_288.0 && power => A::RecursiveDoubling,
        C::Allgather if all < 81_920.0 => A::Bruck,
        C::Allgather => A::Ring,
        C::ReduceScatter if all < 524_288.0 => A::RecursiveHalving,
        C::ReduceScatter => A::Pairwise,
        C::Alltoall if vector => A::Linear,
        C::Alltoall if bytes <= 256.0 && ranks > 8 => A::Bruck,
        C::Alltoall if bytes <= 32_768.0 => A::Linear,
        C::Alltoall => A::Pairwise,
        C::Scan => A::RecursiveDoubling,
    }
}

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
