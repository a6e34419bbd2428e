//! Records of hopbyte's own recorder (`mpi/FORMAT.md`): one `.hbr` file per rank.
//!
//! Each phase of the application becomes up to three: its name for point-to-point messages, the name with `
//! collectives` for collective calls as messages (`K` lines, expanded by the fabric's expander, and `C` lines, whose
//! destinations the calls gave), and with ` one-sided` for one-sided operations (`R` lines). Messages to other worlds
//! are left out.

use super::calls::{Alike, Calls, Groups, OUTSIDE, Part, Size, kind};
use super::entries::{MAX_TASKS, Phases, messages, task};
use super::prof::complete;
use crate::ObserveError;
use crate::text::{Line, Text, decimal, decimal_u32, lossy};
use hopbyte_fabric::collective::{Algorithms, How, Library};
use hopbyte_fabric::{InputError, Traffic};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

mod head;

pub use head::{RankHead, RankTimes};

/// End of the names of phases with the messages of collective calls.
const COLLECTIVES: &str = " collectives";

/// Maximum number of members in all groups together.
const MAX_MEMBERS: usize = 1 << 26;

/// A record with collective calls that become other messages if other ranks share a host.
#[derive(Debug)]
pub struct ByHost {
    source: String,
    texts: Vec<Text>,
    rules: Algorithms,
}

impl ByHost {
    pub(super) fn new(source: &str, texts: Vec<Text>, rules: Algorithms) -> Self {
        Self {
            source: source.to_owned(),
            texts,
            rules,
        }
    }

    /// The same under another name.
    pub(super) fn named(self, source: &str) -> Self {
        Self::new(source, self.texts, self.rules)
    }

    /// The messages that do not depend on hosts, or some of them.
    ///
    /// # Errors
    /// As for [`Self::traffic`].
    pub fn others(&self) -> Result<Traffic, ObserveError> {
        let mut traffic = read(&self.source, &self.texts, &self.rules)?.0;
        let mut phases = std::mem::take(&mut traffic.phases);
        phases.retain(|phase| !phase.name.ends_with(COLLECTIVES));
        Ok(Traffic {
            in_turn: traffic.in_turn,
            ..Traffic::phased(self.source.as_str(), traffic.tasks, phases)
        })
    }

    /// The traffic of ranks on these hosts (numbers by rank).
    ///
    /// # Errors
    /// More messages than an expansion may have.
    pub fn traffic(&self, hosts: Vec<u32>) -> Result<Traffic, ObserveError> {
        Ok(read_on(&self.source, &self.texts, &self.rules, Some(hosts))?.0)
    }
}

/// Reads the files of all ranks; `rules` selects the algorithms of collectives and contains only the user's choices. Also
/// whether the messages would be others if other ranks shared a host.
pub(super) fn read(
    source: &str,
    texts: &[Text],
    rules: &Algorithms,
) -> Result<(Traffic, bool), ObserveError> {
    read_on(source, texts, rules, None)
}

/// The same for ranks on these hosts, in place of the recorded ones.
fn read_on(
    source: &str,
    texts: &[Text],
    rules: &Algorithms,
    on: Option<Vec<u32>>,
) -> Result<(Traffic, bool), ObserveError> {
    let mut heads = Vec::new();
    for text in texts {
        heads.push(RankHead::parse(text)?);
    }
    let world = texts.iter().zip(&heads).filter(|(_, h)| !h.spawned);
    let Some((_, first)) = world.clone().next() else {
        let error = InputError::new(source, "only spawned processes", "files of the first world");
        return Err(error.into());
    };
    let tasks = first.size;
    let settings = first.settings.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    let rules = rules.clone().or(first.library).with_settings(settings);
    let heads_of = world.clone().map(|(_, head)| head);
    let rules = rules.doubted(doubt(heads_of.clone()));
    let release = first.release.map_or(0, |r| r.0);
    let mut ranks = BTreeSet::new();
    let mut groups = Groups::new();
    let mut members = 0;
    for (text, head) in world.clone() {
        if head.size != tasks {
            let found = format!("a world of {} ranks", head.size);
            return Err(text
                .error(found, format!("{tasks}, as in the other files"))
                .into());
        }
        if !ranks.insert(head.rank) {
            let found = format!("rank {} once more", head.rank);
            return Err(text
                .error(found, "one file for every rank")
                .hint("did several jobs write into the folder? record each into its own")
                .into());
        }
        if let (Some(job), Some(other)) = (&head.job, &first.job)
            && job != other
        {
            return Err(text
                .error(
                    format!("job {job}"),
                    format!("job {other}, as in the other files"),
                )
                .hint("did several jobs write into the folder? record each into its own")
                .into());
        }
        for line in text.lines() {
            if let Some(group) = Group::parse(text, line, tasks)? {
                members += group.members.len();
                if members > MAX_MEMBERS {
                    let expected = format!("groups of at most {MAX_MEMBERS} members in all");
                    return Err(text.error_at(line, expected).into());
                }
                groups.insert(group.id, group.members);
            }
        }
    }
    complete(source, tasks, &ranks)?;
    let mut phases = Phases::default();
    let mut calls = Calls::default();
    let mut outside = 0;
    for (text, head) in world {
        outside += counts(text, (head.rank, tasks), &mut phases, &mut calls)?;
    }
    let on = on.unwrap_or_else(|| hosts(heads_of, tasks));
    let rules = rules.of_release(release).on_hosts(on);
    let depends = calls.depend_on_hosts(&groups, &rules);
    let mut notes = calls.expand(source, &groups, &rules, &mut phases)?;
    let ends = heads.iter().filter(|h| !h.spawned);
    let ends = ends.map(|h| (h.rank, h.ended.as_str()));
    let unknown = unknown(heads.iter().flat_map(|h| &h.unknown));
    let mut others = Others::default();
    heads.iter().for_each(|head| others.add(head));
    let first = incomplete(ends).into_iter().chain(unknown);
    let outside = (outside > 0)
        .then(|| format!("{INCOMPLETE}{outside} messages to other worlds are left out"));
    notes.splice(0..0, first.chain(others.note()).chain(outside));
    let mut traffic = phases.finish(source, tasks)?;
    traffic.notes = notes;
    traffic.in_turn = true;
    Ok((traffic, depends))
}

/// Why the decisions of the library that wrote the record may not be the known ones, if they may not.
fn doubt<'a>(mut heads: impl Iterator<Item = &'a RankHead>) -> Option<&'static str> {
    let first = heads.next()?;
    let mut hosts = HashSet::from([&first.host]);
    let ranks = 1 + heads.map(|h| hosts.insert(&h.host)).count();
    let shared = hosts.len() > 1 && ranks > hosts.len();
    library_doubt(first.library, first.release, shared)
}

/// The same for a library; `shared`: of ranks on several hosts, some of them on one.
pub(crate) fn library_doubt(
    library: Option<Library>,
    release: Option<(u32, u32)>,
    shared: bool,
) -> Option<&'static str> {
    match (library, release) {
        (Some(Library::OpenMpi), Some(release)) if release < (4, 1) => {
            Some("Open MPI before 4.1 decides by other tables")
        }
        (Some(Library::Mpich), _) if shared => {
            Some("MPICH reduces and broadcasts inside hosts and between them")
        }
        _ => None,
    }
}

/// Hosts of the ranks, by numbers.
fn hosts<'a>(heads: impl Iterator<Item = &'a RankHead>, tasks: usize) -> Vec<u32> {
    let mut hosts = vec![u32::MAX; tasks];
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    for head in heads {
        let next = numbers.len() as u32;
        hosts[head.rank as usize] = *numbers.entry(&head.host).or_insert(next);
    }
    hosts
}

/// Major and minor release of a text such as `Open MPI v4.1.4, package: …`.
pub(crate) fn release(version: &str) -> Option<(u32, u32)> {
    let digits = version.split('v').nth(1)?;
    let mut numbers = digits.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Start of a note about traffic that is not in a record.
pub const INCOMPLETE: &str = "incomplete: ";

/// The first of some ranks, for a sentence.
pub fn first_ranks(ranks: &[impl ToString]) -> String {
    let first: Vec<String> = ranks.iter().take(8).map(ToString::to_string).collect();
    let more = if ranks.len() > 8 { ", …" } else { "" };
    first.join(", ") + more
}

/// A note if ranks did not end by `MPI_Finalize`: how many, and the causes with their first ranks. `ended` holds ranks
/// with the word of their trailer.
pub fn incomplete<'a>(ended: impl Iterator<Item = (u32, &'a str)>) -> Option<String> {
    let mut causes: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let (mut ranks, mut cut) = (0, 0);
    for (rank, cause) in ended {
        ranks += 1;
        if cause != "finalize" {
            cut += 1;
            causes.entry(cause).or_default().push(rank);
        }
    }
    let causes: Vec<String> = causes
        .iter()
        .map(|(cause, ranks)| format!("{cause}: {}", first_ranks(ranks)))
        .collect();
    (cut > 0).then(|| {
        format!(
            "{INCOMPLETE}{cut} of {ranks} ranks ended before MPI_Finalize ({}); their counts are those up to then",
            causes.join("; ")
        )
    })
}

/// A note if ranks called functions whose messages are not in the record: their names and reasons. `calls` holds the
/// fields of each rank's `unknown` lines.
pub fn unknown<'a>(calls: impl Iterator<Item = &'a (String, String)>) -> Option<String> {
    let mut ranks: BTreeMap<&(String, String), u32> = BTreeMap::new();
    for call in calls {
        *ranks.entry(call).or_default() += 1;
    }
    let told: Vec<String> = ranks
        .iter()
        .map(|((name, reason), ranks)| format!("{name} on {ranks} ranks: {reason}"))
        .collect();
    let told = told.join("; ");
    (!told.is_empty()).then(|| format!("{INCOMPLETE}calls without messages in the record ({told})"))
}

/// Processes that the job started: those with files of their own, or more if the launcher started some without the recorder.
#[derive(Debug, Default)]
pub struct Others {
    files: u64,
    started: u64,
}

impl Others {
    /// Counts the process of this file, if the job started it, and those that it started.
    pub fn add(&mut self, head: &RankHead) {
        self.files += u64::from(head.spawned);
        self.started = self.started.saturating_add(head.started);
    }

    /// A note about them, if there were any.
    pub fn note(&self) -> Option<String> {
        let processes = self.files.max(self.started);
        (processes > 0).then(|| {
            format!("{INCOMPLETE}{processes} processes that the job started are another world: their traffic is left out")
        })
    }
}

fn cells(line: Line<'_>) -> Vec<&[u8]> {
    line.bytes.split(|&b| b == b'\t').collect()
}

/// A group with its members.
struct Group<'a> {
    id: &'a [u8],
    /// In order; [`OUTSIDE`] for those of another world.
    members: Vec<u32>,
}

impl<'a> Group<'a> {
    /// Reads `group ID SIZE RANKS`; `None` for other lines and for groups whose ranks are given elsewhere.
    fn parse(text: &Text, line: Line<'a>, tasks: usize) -> Result<Option<Self>, InputError> {
        let [b"group", id, size, list, ..] = cells(line)[..] else {
            return Ok(None);
        };
        if list == b"-" {
            return Ok(None);
        }
        let wrong = |found: &[u8]| text.error_in(line, found, "ranks such as 0-3,8,16-64:8");
        let most = decimal(size).ok_or_else(|| wrong(size))?;
        let mut ranks: Vec<u32> = Vec::new();
        for run in list.split(|&b| b == b',') {
            if run == b"x" {
                ranks.push(OUTSIDE);
                continue;
            }
            let (range, step) =
                split(run, b':').map_or((run, Some(1)), |(r, s)| (r, decimal_u32(s)));
            let (from, to) = split(range, b'-').unwrap_or((range, range));
            let (Some(from), Some(to), Some(step)) = (decimal_u32(from), decimal_u32(to), step)
            else {
                return Err(wrong(run));
            };
            if step == 0 || from > to || to as usize >= tasks {
                return Err(wrong(run));
            }
            ranks.extend((from..=to).step_by(step as usize));
            if ranks.len() as u64 > most {
                break;
            }
        }
        if ranks.len() as u64 != most {
            return Err(text.error_in(line, list, format!("{most} ranks, the group's size")));
        }
        Ok(Some(Self { id, members: ranks }))
    }
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let i = bytes.iter().position(|&b| b == at)?;
    Some((&bytes[..i], &bytes[i + 1..]))
}

/// The name of a group, and its members.
pub(crate) type Named<'a> = (&'a [u8], Vec<u32>);

/// The name and members of a `group` line of a record or trace; `None` for other lines, groups listed elsewhere, and those
/// with members of other worlds.
pub(crate) fn group_members<'a>(
    text: &Text,
    line: Line<'a>,
    tasks: usize,
) -> Result<Option<Named<'a>>, InputError> {
    let group = Group::parse(text, line, tasks)?;
    Ok(group
        .filter(|g| !g.members.contains(&OUTSIDE))
        .map(|g| (g.id, g.members)))
}

/// Adds a rank's `P`, `C` and `R` lines to `phases`, its `K` lines to `calls`. Returns the messages to other worlds.
fn counts<'a>(
    text: &'a Text,
    (rank, tasks): (u32, usize),
    phases: &mut Phases,
    calls: &mut Calls<'a>,
) -> Result<u64, InputError> {
    let mut outside = 0;
    let mut names: HashMap<&[u8], String> = HashMap::new();
    for line in text.lines() {
        let cells = cells(line);
        if let [b"phase", id, name, ..] = cells[..] {
            names.insert(id, lossy(name).into_owned());
            continue;
        }
        if let [b"rounded", count] = cells[..] {
            calls.rounded = calls.rounded.max(messages(text, line, count)?);
            continue;
        }
        let (suffix, phase, to, size, count, inwards) = match cells[..] {
            [b"P", phase, to, size, count, ..] => ("", phase, to, size, count, false),
            [b"C", phase, _, _, to, size, count, ..] => {
                (COLLECTIVES, phase, to, size, count, false)
            }
            // The messages of these calls are in `C` lines.
            [b"K", _, _, _, _, b"-", _, _, ..] => continue,
            [b"K", phase, _, _, _, _, size, count, ..] => {
                (COLLECTIVES, phase, &b"-1"[..], size, count, false)
            }
            [b"R", phase, _, direction, to, size, count, ..] => {
                let inwards = match direction {
                    b"in" => true,
                    b"out" => false,
                    other => return Err(text.error_in(line, other, "in or out")),
                };
                (" one-sided", phase, to, size, count, inwards)
            }
            [b"P" | b"C" | b"K" | b"R", ..] => {
                return Err(text.error_at(line, "all fields of its kind"));
            }
            _ => continue,
        };
        let name = names
            .get(phase)
            .ok_or_else(|| text.error_in(line, phase, "a phase that was defined before"))?;
        let name_of_phase = format!("{name}{suffix}");
        let size = decimal(size)
            .ok_or_else(|| text.error_in(line, size, "bytes (a whole number)"))?
            as f64;
        let count = messages(text, line, count)?;
        if let [b"K", _, group, name, root, each, _, _, rest @ ..] = &cells[..] {
            let (group, name, root, each) = (*group, *name, *root, *each);
            phases.name(&name_of_phase);
            let (collective, vector) = kind(name).ok_or_else(|| {
                text.error_in(line, name, "a kind of collective call with one size")
            })?;
            let root = match root {
                b"-1" => 0,
                root => task(text, line, root, tasks)?,
            };
            let each = Size::parse(each)
                .ok_or_else(|| text.error_in(line, each, "a size such as 8, ~8 or -"))?;
            let alike = Alike {
                phase: name_of_phase,
                group,
                collective,
                root,
                size: each,
                how: How {
                    vector,
                    ..rest.first().map_or(How::default(), |words| How::of(words))
                },
            };
            let part = Part {
                bytes: size,
                calls: count,
            };
            calls.add(alike, rank, part);
            continue;
        }
        if to == b"-1" {
            outside += count;
            continue;
        }
        let other = task(text, line, to, tasks.min(MAX_TASKS))?;
        let (from, to) = if inwards {
            (other, rank)
        } else {
            (rank, other)
        };
        phases.add(&name_of_phase, (from, to, size, count));
    }
    Ok(outside)
}
