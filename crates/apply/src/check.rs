//! Compares the hosts and cores of running ranks with the placement.

use crate::error::ApplyError;
use crate::layout::{Launch, Layout};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Upper limit on the processors of a host; larger lists are rejected.
const MOST_PROCESSORS: u32 = 1 << 16;

/// The report of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its host.
    pub host: String,
    /// Its GPU, by the name of the machine's place; `None` if unknown.
    pub gpu: Option<String>,
    /// Number of ranks that share memory with it, including itself; `None` if unknown.
    pub shared: Option<u32>,
    /// Processors in its affinity mask, as `0-3,8`; `None` if unknown.
    pub cpus: Option<String>,
    /// Cores of these processors, numbered as in rankfiles; `None` if unknown.
    pub cores: Option<String>,
}

/// A rank on another host than the placement's, or on another GPU of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The rank.
    pub rank: usize,
    /// Host, or GPU of the same host, in the placement; `None` for a rank beyond the placement.
    pub expected: Option<String>,
    /// Host, or GPU of the same host, that the rank started on; `None` if it did not start.
    pub found: Option<String>,
}

/// A host with ranks that do not all share memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Split {
    /// The host.
    pub host: String,
    /// Its ranks.
    pub ranks: u32,
    /// The largest number of them that share memory.
    pub most_shared: u32,
}

/// A rank that is not bound to exactly the core of its slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OffCore {
    /// The rank.
    pub rank: usize,
    /// Its host.
    pub host: String,
    /// The core of its slot.
    pub expected: u32,
    /// The cores in its affinity mask.
    pub found: String,
}

/// The result of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Ranks of the placement.
    pub ranks: usize,
    /// Ranks on another host or GPU, in rank order.
    pub elsewhere: Vec<Difference>,
    /// Hosts that the launcher treats as several nodes.
    pub split: Vec<Split>,
    /// Ranks not bound to the core of their slot, if the launcher received cores.
    pub off_core: Vec<OffCore>,
    /// Whether the ranks reported the number of ranks they share memory with.
    pub memory_known: bool,
    /// Whether the ranks reported their cores.
    pub cores_known: bool,
    /// Further findings.
    pub notes: Vec<String>,
}

impl Checked {
    /// Whether the job runs as placed.
    pub fn holds(&self) -> bool {
        self.elsewhere.is_empty() && self.split.is_empty() && self.off_core.is_empty()
    }
}

impl Launch<'_> {
    /// Compares the placement with the reports of the ranks, `seen[rank]`; `None` for a rank without a report.
    /// `cores` states that the launcher received a core for every rank: the core of its slot, or the slot's number.
    ///
    /// # Errors
    /// An invalid host name, or two allocated endpoints of one host, which ranks cannot tell apart.
    pub fn check(&self, seen: &[Option<Seen>], cores: bool) -> Result<Checked, ApplyError> {
        let layout = Layout::new(self)?;
        Ok(compared(&layout, seen, cores))
    }
}

fn compared(layout: &Layout<'_>, seen: &[Option<Seen>], cores: bool) -> Checked {
    let mut checked = Checked {
        ranks: layout.ranks(),
        memory_known: seen.iter().flatten().all(|s| s.shared.is_some()),
        cores_known: seen.iter().flatten().all(|s| s.cores.is_some()),
        ..Checked::default()
    };
    for rank in 0..layout.ranks().max(seen.len()) {
        let expected = (rank < layout.ranks()).then(|| layout.host(rank));
        let found = seen.get(rank).and_then(|s| s.as_ref());
        let same = match (expected, found) {
            (Some(expected), Some(found)) => same_host(expected, &found.host),
            _ => false,
        };
        if !same {
            checked.elsewhere.push(Difference {
                rank,
                expected: expected.map(str::to_owned),
                found: found.map(|f| f.host.clone()),
            });
        } else if let Some(gpu) = found.and_then(|f| f.gpu.as_deref()) {
            let own = layout.node_name(rank);
            if own != gpu {
                checked.elsewhere.push(Difference {
                    rank,
                    expected: Some(own.to_owned()),
                    found: Some(gpu.to_owned()),
                });
            }
        }
    }
    // Shared memory and cores are reported only if every rank is on its host.
    if checked.elsewhere.is_empty() {
        checked.split = split(layout, seen);
        checked.notes = crowded(layout, seen);
        if cores {
            checked.off_core = off_core(layout, seen);
        }
    }
    checked
}

/// Whether two names are the same host: a domain suffix is optional, case is ignored.
pub fn same_host(a: &str, b: &str) -> bool {
    let first = |name: &str| name.split('.').next().unwrap_or("").to_ascii_lowercase();
    let whole = a.contains('.') && b.contains('.');
    if whole {
        a.eq_ignore_ascii_case(b)
    } else {
        first(a) == first(b)
    }
}

fn split(layout: &Layout<'_>, seen: &[Option<Seen>]) -> Vec<Split> {
    let mut all = Vec::new();
    for (place, ranks) in layout.ranks_by_place().iter().enumerate() {
        let shared = |&r: &u32| seen[r as usize].as_ref().and_then(|s| s.shared);
        let of: Vec<u32> = ranks.iter().filter_map(shared).collect();
        let count = ranks.len() as u32;
        if of.len() == ranks.len() && of.iter().any(|&s| s < count) {
            all.push(Split {
                host: layout.hosts[place].to_owned(),
                ranks: count,
                most_shared: of.into_iter().max().unwrap_or(0),
            });
        }
    }
    all
}

/// Ranks with an affinity mask other than the core of their slot.
fn off_core(layout: &Layout<'_>, seen: &[Option<Seen>]) -> Vec<OffCore> {
    let ranks = (0..layout.ranks()).filter_map(|rank| {
        let found = seen.get(rank)?.as_ref()?.cores.as_ref()?;
        let expected = layout.core(rank);
        (*found != expected.to_string()).then(|| OffCore {
            rank,
            host: layout.host(rank).to_owned(),
            expected,
            found: found.clone(),
        })
    });
    ranks.collect()
}

/// Hosts with more ranks than processors in a shared affinity mask, or with ranks bound to overlapping sets of
/// processors.
fn crowded(layout: &Layout<'_>, seen: &[Option<Seen>]) -> Vec<String> {
    let mut notes = Vec::new();
    for (place, ranks) in layout.ranks_by_place().iter().enumerate() {
        let host = layout.hosts[place];
        let mut users: BTreeMap<&str, usize> = BTreeMap::new();
        for &rank in ranks {
            if let Some(cpus) = seen[rank as usize].as_ref().and_then(|s| s.cpus.as_deref()) {
                *users.entry(cpus).or_default() += 1;
            }
        }
        for (cpus, users) in &users {
            if let Some(room) = processors(cpus)
                .map(|p| p.len())
                .filter(|room| users > room)
            {
                notes.push(format!(
                    "{users} ranks of {host} share {room} processors ({cpus})"
                ));
            }
        }
        let sets: Vec<(&str, BTreeSet<u32>)> = users
            .keys()
            .filter_map(|&cpus| Some((cpus, processors(cpus)?)))
            .collect();
        let overlap = |(i, a): (usize, &(&str, BTreeSet<u32>))| {
            let other = sets[i + 1..].iter().find(|b| !a.1.is_disjoint(&b.1))?;
            Some(format!(
                "ranks of {host} are bound to processors {} and {}, which overlap",
                a.0, other.0
            ))
        };
        notes.extend(sets.iter().enumerate().find_map(overlap));
    }
    notes
}

/// Processors of a list such as `0-3,8`; `None` if the list is truncated or malformed.
fn processors(list: &str) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last < first || last - first > MOST_PROCESSORS {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_the_same_with_and_without_domain() {
        assert!(same_host("n1", "N1.cluster.org") && same_host("n1.a.b", "n1"));
        assert!(!same_host("n1.a", "n1.b") && !same_host("n1", "n11"));
        assert!(!same_host("10.0.0.1", "10.0.0.2"));
    }

    #[test]
    fn processors_are_counted() {
        let count = |list| processors(list).map(|p| p.len());
        assert_eq!((count("0-3,8"), count("7")), (Some(5), Some(1)));
        for wrong in ["0-3,…", "", "3-1", "0-4294967295"] {
            assert_eq!(count(wrong), None, "{wrong}");
        }
    }
}
