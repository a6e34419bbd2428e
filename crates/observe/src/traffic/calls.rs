//! Collective calls of a record, gathered from the files of all ranks and expanded by the fabric's expander.

use super::entries::Phases;
use crate::ObserveError;
use crate::text::decimal;
use hopbyte_fabric::collective::{Algorithm, Algorithms, Arranged, Collective, How, Sizes, Used};
use hopbyte_fabric::{FabricError, InputError};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A member of a group that is a process of another world.
pub(super) const OUTSIDE: u32 = u32::MAX;

/// Calls of all members of a group that are expanded together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alike<'a> {
    pub phase: String,
    pub group: &'a [u8],
    pub collective: Collective,
    /// Position of the root in the group, 0 without one.
    pub root: u32,
    /// The same at all members.
    pub size: Size,
    /// How it is called, as far as the record says; with `vector` each member has a block of its own size.
    pub how: How,
}

/// The size of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Size {
    /// Bytes.
    Exact(u64),
    /// At least so many bytes, a power of two, and less than twice as many (`~N`).
    From(u64),
}

impl Size {
    /// Reads `N` or `~N`.
    pub fn parse(word: &[u8]) -> Option<Self> {
        match word.strip_prefix(b"~") {
            Some(from) => decimal(from)
                .filter(|n| n.is_power_of_two())
                .map(Self::From),
            None => decimal(word).map(Self::Exact),
        }
    }

    fn rounded(self) -> Self {
        match self {
            Self::Exact(bytes) if bytes > 0 => Self::From(1 << bytes.ilog2()),
            other => other,
        }
    }
}

/// One rank's share of such calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    pub bytes: f64,
    pub calls: u64,
}

/// By rank.
type Parts = BTreeMap<u32, Part>;

/// Content of the `K` lines of a record.
#[derive(Default)]
pub(super) struct Calls<'a> {
    alike: BTreeMap<Alike<'a>, Parts>,
    /// Number of calls with a size that the recorder rounded.
    pub rounded: u64,
}

/// The kind of a `K` line as a collective, and whether its blocks differ in size; `None` for kinds that are recorded
/// pair by pair.
pub(crate) fn kind(name: &[u8]) -> Option<(Collective, bool)> {
    let collective = match name {
        b"barrier" => Collective::Barrier,
        b"bcast" => Collective::Broadcast,
        b"reduce" => Collective::Reduce,
        b"allreduce" => Collective::Allreduce,
        b"scan" | b"exscan" => Collective::Scan,
        b"gather" => Collective::Gather,
        b"scatter" => Collective::Scatter,
        b"allgather" | b"allgatherv" => Collective::Allgather,
        b"alltoall" => Collective::Alltoall,
        b"reduce_scatter" | b"reduce_scatter_block" => Collective::ReduceScatter,
        _ => return None,
    };
    let vector = matches!(name, b"allgatherv" | b"reduce_scatter");
    Some((collective, vector))
}

/// World ranks of each group in the group's order, by its name in the files; members may be missing from all files.
pub(super) type Groups<'a> = HashMap<&'a [u8], Vec<u32>>;

const IRREGULAR: &str = "Open MPI 5 uses hierarchical algorithms (han) for small allgatherv";

/// Maximum number of messages (of a pair and kind) that a record's collectives may expand to.
const MAX_MESSAGES: u64 = 1 << 27;

impl<'a> Calls<'a> {
    /// Adds a rank's line.
    pub fn add(&mut self, alike: Alike<'a>, rank: u32, part: Part) {
        add(self.alike.entry(alike).or_default(), [(rank, part)]);
    }

    /// Whether they become other messages if other ranks share a host.
    pub fn depend_on_hosts(&self, groups: &Groups<'_>, rules: &Algorithms) -> bool {
        self.alike.keys().any(|alike| {
            let members = groups.get(alike.group).map_or(0, Vec::len);
            let rules = rules.for_calls(alike.collective, alike.how);
            members > 2 && !alike.how.vector && rules.depends_on_hosts(alike.collective)
        })
    }

    /// Adds the messages of all calls to `phases`; returns assumptions and missing parts.
    pub fn expand(
        self,
        source: &str,
        groups: &Groups<'_>,
        rules: &Algorithms,
        phases: &mut Phases,
    ) -> Result<Vec<String>, ObserveError> {
        let (mut used, mut lost, mut uneven) = (Used::default(), 0u64, 0u64);
        let mut doubts = BTreeSet::new();
        let alike_calls = rounded_alike(self.alike);
        let sets: HashMap<&[u8], HashSet<u32>> = groups
            .iter()
            .map(|(id, members)| (*id, members.iter().copied().collect()))
            .collect();
        let mut merged: BTreeMap<(Alike<'a>, &'static str), (Algorithm, Parts)> = BTreeMap::new();
        for (alike, parts) in alike_calls {
            let most = parts.values().map(|p| p.calls).max().unwrap_or(0);
            let (Some(members), Some(set)) = (groups.get(alike.group), sets.get(alike.group))
            else {
                lost = lost.saturating_add(most);
                continue;
            };
            if let Some((rank, _)) = parts.iter().find(|(r, _)| !set.contains(r)) {
                let group = String::from_utf8_lossy(alike.group);
                let found = format!("a collective call of rank {rank} in group {group}");
                return Err(InputError::new(source, found, "a member of the group").into());
            }
            if members.len() < 2 {
                continue;
            }
            let here = set.len() - usize::from(set.contains(&OUTSIDE));
            let made = parts.values().map(|p| p.calls);
            let made = made.fold(0u64, u64::saturating_add);
            let all = most.saturating_mul(here as u64);
            uneven = uneven.saturating_add(all.saturating_sub(made));
            let mean = mean(&parts);
            let vector = alike.how.vector;
            let rules = rules.for_calls(alike.collective, alike.how);
            let algorithm = rules.choose_among(alike.collective, vector, members, mean);
            doubts.extend(rules.doubt());
            if rules.is_assumed(alike.collective, vector, members) {
                doubts.insert(IRREGULAR);
            }
            let what = (alike.collective, algorithm);
            let of = (members.len() as u32, mean);
            used.add(what, rules.basis(alike.collective), of, most);
            // Other algorithms are linear in the bytes, so their calls can be expanded together.
            let size = if algorithm.is_composed() {
                alike.size
            } else {
                Size::Exact(0)
            };
            let key = (Alike { size, ..alike }, algorithm.name());
            let (_, sum) = merged.entry(key).or_insert((algorithm, Parts::new()));
            add(sum, parts);
        }
        let mut messages = 0u64;
        for ((alike, _), (algorithm, parts)) in &merged {
            let members = groups.get(alike.group).map_or(&[][..], Vec::as_slice);
            messages =
                messages.saturating_add(algorithm.most_messages(alike.collective, members.len()));
            if messages > MAX_MESSAGES {
                let found = format!("collective calls in {} groups and roots", merged.len());
                let expected = format!("at most {MAX_MESSAGES} messages when expanded");
                return Err(InputError::new(source, found, expected)
                    .hint("algorithms with fewer partners have fewer: :collectives=alltoall=bruck")
                    .into());
            }
            let rules = rules.for_calls(alike.collective, alike.how);
            let group = rules.arranged((alike.collective, *algorithm), members, alike.root);
            expand(alike, *algorithm, &group, parts, phases)?;
        }
        let mut notes = used.lines();
        let doubts = doubts.into_iter();
        notes.extend(doubts.map(|d| format!("algorithms of collectives are assumed: {d}")));
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                notes.push(format!("{count} collective calls {what}"));
            }
        };
        say(
            lost,
            "of groups that the record does not list are not in the traffic",
        );
        say(
            uneven,
            "are missing although other members of the group made them in the same phase",
        );
        say(
            self.rounded,
            "are expanded by the mean of their sizes between two powers of two",
        );
        Ok(notes)
    }
}

/// Ranks may have rounded different sizes: if one rank rounded a size class, it is rounded for all.
fn rounded_alike(alike: BTreeMap<Alike<'_>, Parts>) -> BTreeMap<Alike<'_>, Parts> {
    let rounded = |key: &Alike<'_>| matches!(key.size, Size::From(_));
    if !alike.keys().any(rounded) {
        return alike;
    }
    let classes: BTreeSet<Alike<'_>> = alike.keys().filter(|k| rounded(k)).cloned().collect();
    let mut merged: BTreeMap<Alike<'_>, Parts> = BTreeMap::new();
    for (key, parts) in alike {
        let size = key.size.rounded();
        let class = Alike {
            size,
            ..key.clone()
        };
        let key = if classes.contains(&class) { class } else { key };
        add(merged.entry(key).or_default(), parts);
    }
    merged
}

fn add(sum: &mut Parts, parts: impl IntoIterator<Item = (u32, Part)>) {
    for (rank, part) in parts {
        let entry = sum.entry(rank).or_default();
        entry.bytes += part.bytes;
        entry.calls = entry.calls.saturating_add(part.calls);
    }
}

/// Mean bytes of a call.
fn mean(parts: &Parts) -> f64 {
    let calls: f64 = parts.values().map(|p| p.calls as f64).sum();
    parts.values().map(|p| p.bytes).sum::<f64>() / calls.max(1.0)
}

/// One expansion for all calls: a member's messages are multiplied by its number of calls.
fn expand(
    alike: &Alike<'_>,
    algorithm: Algorithm,
    group: &Arranged<'_>,
    parts: &Parts,
    phases: &mut Phases,
) -> Result<(), FabricError> {
    let mean = mean(parts);
    let of = |rank: &u32| parts.get(rank).copied().unwrap_or_default();
    let own = |p: Part| p.bytes / p.calls.max(1) as f64;
    let members = &group.members;
    let blocks: Vec<f64> = members.iter().map(|m| own(of(m))).collect();
    let sizes = match alike.how.vector {
        true => Sizes::Each(&blocks),
        false => Sizes::Same(mean),
    };
    let operation = group.operation((alike.collective, algorithm), sizes);
    operation.steps(&mut |step| {
        let (from, to) = (members[step.from as usize], members[step.to as usize]);
        let part = of(&from);
        if from == OUTSIDE || to == OUTSIDE || part.calls == 0 {
            return;
        }
        let each = if alike.how.vector || mean == 0.0 {
            step.bytes
        } else {
            step.bytes * (own(part) / mean)
        };
        let messages = part.calls.saturating_mul(step.times.into());
        phases.add(&alike.phase, (from, to, each * messages as f64, messages));
    })
}
