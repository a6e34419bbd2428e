//! Merges the record files of ranks into one per job.

use super::launch::Job;
use super::times::{Sums, Times};
use super::variables::{Variable, Variables};
use crate::error::{Context, Result, refuse};
use hopbyte_apply::write_atomic;
use hopbyte_fabric::Traffic;
use hopbyte_observe::read_traffic;
use hopbyte_observe::text::{Limits, Text, lossy};
use hopbyte_observe::trace::recorded;
use hopbyte_observe::traffic::{
    INCOMPLETE, Others, RankHead, first_ranks, incomplete, live, unknown,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Input limits of a rank's file.
const RECORD: Limits = Limits {
    binary: true,
    ..Limits::ROWS
};

/// The folder, created if missing, as ranks need it: absolute, and without another job's record.
///
/// # Errors
/// It cannot be created, or holds another record.
pub fn new_folder(path: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
    let folder = path
        .canonicalize()
        .with_context(|| format!("finding {}", path.display()))?;
    let used = !files(&folder)?.is_empty() || !live::left_behind(&folder)?.is_empty();
    if used || !unwritten(&folder)?.is_empty() {
        refuse!(
            "{} has the record of another job\nhint: remove it, or choose another folder with --out",
            path.display()
        );
    }
    Ok(folder)
}

/// Time that ranks get to end after their launcher has ended.
const PATIENCE: Duration = Duration::from_secs(20);

/// Completes the records of ranks that were killed, from the counts that they left. Returns those that could not be
/// completed, with the reason.
///
/// # Errors
/// The folder cannot be read or written.
pub fn settle(folder: &Path) -> Result<Vec<String>> {
    let start = Instant::now();
    let mut problems = Vec::new();
    for counts in live::left_behind(folder)? {
        while live::is_running(&counts).unwrap_or(false) && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
        }
        let Some(record) = live::record_for(&counts) else {
            continue; // completed by the rank itself meanwhile
        };
        match live::recover(&counts) {
            Ok(text) => {
                write_atomic(&record, text.bytes())?;
                let _ = std::fs::remove_file(&counts);
                let _ = std::fs::remove_file(counts.with_extension("tmp"));
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    Ok(problems)
}

/// The files of ranks in a folder, sorted.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = entries(folder)?.iter().map(DirEntry::path).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "hbr"));
    paths.sort();
    Ok(paths)
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>> {
    let entries: std::io::Result<Vec<DirEntry>> =
        std::fs::read_dir(folder).and_then(Iterator::collect);
    entries.with_context(|| format!("reading {}", folder.display()))
}

/// Ranks that could not write their record: each printed the reason and left an empty temporary file.
fn unwritten(folder: &Path) -> Result<BTreeSet<usize>> {
    let rank = |entry: &DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let rest = name.strip_prefix("rank.")?.strip_suffix(".tmp")?;
        let rank = rest.split_once(".hbr.")?.0.parse().ok()?;
        (entry.metadata().ok()?.len() == 0).then_some(rank)
    };
    Ok(entries(folder)?.iter().filter_map(rank).collect())
}

/// Seconds in a call that a note is worth: most ranks of a job that is ended are in some call.
const HELD: f64 = 1.0;

/// Metadata of the ranks' files.
#[derive(Debug, Default)]
pub struct Ranks {
    size: usize,
    /// Sizes of all worlds but those of spawned processes, the launcher's names of the jobs, and files by rank: one of each
    /// unless several jobs wrote into the folder.
    sizes: BTreeSet<usize>,
    jobs: BTreeSet<String>,
    files: BTreeMap<usize, usize>,
    others: Others,
    /// Ranks that printed why they have no record.
    unwritten: BTreeSet<usize>,
    /// Host and how it ended, by rank in the first world.
    ranks: BTreeMap<usize, (String, String)>,
    /// Calls that had not returned at the ends of ranks, and seconds in them.
    inside: BTreeMap<usize, (String, Option<f64>)>,
    /// Functions with messages that are not in the record, and the reasons, of all ranks.
    unknown: Vec<(String, String)>,
    times: Sums,
    variables: Variables,
}

impl Ranks {
    /// Reads the files' headers and ends.
    ///
    /// # Errors
    /// A file that cannot be read or is not whole, or files of several jobs.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut all = Self {
            unwritten: unwritten(folder)?,
            ..Self::default()
        };
        for path in files(folder)? {
            all.add(&Text::read(&path, RECORD)?)?;
        }
        Ok(all)
    }

    fn add(&mut self, text: &Text) -> Result<()> {
        let head = RankHead::parse(text)?;
        self.others.add(&head);
        if head.spawned {
            return Ok(());
        }
        if head.host.is_empty() {
            return Err(text.error("no line 'host'", "the rank's host").into());
        }
        let rank = head.rank as usize;
        self.size = head.size;
        self.sizes.insert(head.size);
        self.jobs.extend(head.job.clone());
        *self.files.entry(rank).or_default() += 1;
        self.times.add(&head);
        self.variables.add(rank, &lossy(text.bytes()));
        self.ranks.insert(rank, (head.host, head.ended));
        self.unknown.extend(head.unknown);
        self.inside.extend(head.inside.map(|inside| (rank, inside)));
        Ok(())
    }

    /// Where the ranks' time went, if their records say so.
    pub fn times(&self) -> Option<Times> {
        self.times.times()
    }

    /// Several jobs, if there were.
    fn several(&self) -> Option<String> {
        let files = self.files.values().copied().max().unwrap_or(0);
        let jobs = files.max(self.sizes.len()).max(self.jobs.len());
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        (jobs > 1).then(|| {
            format!(
                "{jobs} MPI jobs ran (of {} ranks), and a record is of one: record each into a folder of its own",
                sizes.join(" and ")
            )
        })
    }

    /// Why a rank may have no record.
    fn reason(&self, absent: &[usize]) -> &'static str {
        let told = absent.iter().filter(|r| self.unwritten.contains(r)).count();
        match absent.len() - told {
            0 => "they could not write it, as they said",
            _ if told > 0 => {
                "some could not write it, as they said; others ended before MPI_Init, or their hosts do not share the folder"
            }
            _ => {
                "they ended before MPI_Init, or their hosts do not share the folder or may not write there"
            }
        }
    }

    /// Why there are not the counts of all ranks of one job, if so.
    pub fn unusable(&self) -> Option<String> {
        if self.ranks.is_empty() {
            let told = !self.unwritten.is_empty();
            let reason = if told {
                "they could not write it, as they said"
            } else {
                "no program called MPI_Init, or the hosts do not share the folder or may not write there"
            };
            return Some(format!("no rank left a record: {reason}"));
        }
        if let Some(several) = self.several() {
            return Some(several);
        }
        let absent: Vec<usize> = (0..self.size)
            .filter(|r| !self.ranks.contains_key(r))
            .collect();
        if !absent.is_empty() {
            return Some(format!(
                "{} of {} ranks left no record ({}): {}",
                absent.len(),
                self.size,
                first_ranks(&absent),
                self.reason(&absent)
            ));
        }
        None
    }

    /// Ranks that did not end by `MPI_Finalize`, with the cause.
    fn cut(&self) -> Vec<Cut> {
        let ranks = self.ranks.iter().filter(|(_, (_, e))| e != "finalize");
        ranks
            .map(|(&rank, (_, cause))| {
                let inside = self.inside.get(&rank);
                Cut {
                    rank,
                    cause: cause.clone(),
                    call: inside.map(|i| i.0.clone()),
                    call_seconds: inside.and_then(|i| i.1),
                }
            })
            .collect()
    }

    /// The calls in which ranks were at their ends for long, most ranks first: of a job that hung, which rank waited where.
    fn held(&self) -> Option<String> {
        let mut calls: BTreeMap<&str, (Vec<usize>, f64)> = BTreeMap::new();
        let long = |seconds: Option<f64>| seconds.is_none_or(|s| s >= HELD);
        for (&rank, (name, seconds)) in self.inside.iter().filter(|i| long(i.1.1)) {
            let call = calls.entry(name).or_default();
            call.0.push(rank);
            call.1 = call.1.max(seconds.unwrap_or(0.0));
        }
        let mut calls: Vec<_> = calls.into_iter().collect();
        calls.sort_by_key(|(_, (ranks, _))| std::cmp::Reverse(ranks.len()));
        let calls = calls.into_iter().map(|(name, (ranks, most))| {
            let time = match most > 0.0 {
                true => format!(" for up to {most:.1} s"),
                false => String::new(),
            };
            format!("{name}: {}{time}", first_ranks(&ranks))
        });
        let calls: Vec<String> = calls.collect();
        (!calls.is_empty()).then(|| format!("ranks that ended within a call: {}", calls.join("; ")))
    }

    /// The note about ranks that did not end by `MPI_Finalize` or made calls that the recorder does not know, or about
    /// processes that they started, if any.
    pub fn incomplete(&self) -> Option<String> {
        let ends = self.ranks.iter();
        incomplete(ends.map(|(&rank, (_, ended))| (rank as u32, ended.as_str())))
            .or_else(|| unknown(self.unknown.iter()))
            .or_else(|| self.others.note())
    }

    /// Number of hosts.
    pub fn hosts(&self) -> usize {
        let mut names: Vec<&str> = self.ranks.values().map(|(h, _)| h.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    }

    /// Host of every rank; empty if a rank is absent.
    pub fn hosts_by_rank(&self) -> Vec<String> {
        match self.unusable() {
            Some(_) => Vec::new(),
            None => self.ranks.values().map(|(host, _)| host.clone()).collect(),
        }
    }

    /// Placement of every rank, slots counted in rank order: the input of `--current`.
    pub fn placement_csv(&self) -> String {
        let mut text = "rank,node,slot\n".to_owned();
        let mut used: BTreeMap<&str, usize> = BTreeMap::new();
        for (rank, (host, _)) in &self.ranks {
            let slot = used.entry(host).or_default();
            let _ = writeln!(text, "{rank},{host},{slot}");
            *slot += 1;
        }
        text
    }
}

/// `src,dst,bytes,messages,phase`, phases in order of their start. A last line from the last
/// rank to itself marks the number of ranks if that rank neither sent nor received. The first line is a comment if the
/// record is incomplete.
pub fn csv(traffic: &Traffic, incomplete: Option<&str>) -> String {
    let mut text = incomplete.map_or_else(String::new, |note| format!("# {note}\n"));
    text.push_str("src,dst,bytes,messages,phase\n");
    let start = text.len();
    let mut highest = 0;
    for phase in &traffic.phases {
        let name = phase.name.replace([',', '\n'], ";");
        for (from, m) in phase.exchange.iter() {
            let _ = writeln!(text, "{from},{},{},{},{name}", m.to, m.bytes, m.messages);
            highest = highest.max(from).max(m.to);
        }
    }
    let last = traffic.tasks as u32 - 1;
    if highest < last || text.len() == start {
        let name = traffic.phases.first().map_or("all", |p| &p.name);
        let _ = writeln!(text, "{last},{last},0,0,{}", name.replace([',', '\n'], ";"));
    }
    text
}

/// A merged record: `hopbyte.record/1`.
#[derive(Serialize)]
pub struct Merged {
    schema: &'static str,
    /// MPI.
    pub flavour: &'static str,
    /// Ranks.
    pub ranks: usize,
    /// Hosts.
    pub hosts: usize,
    /// Pairs of ranks.
    pub pairs: usize,
    /// Bytes sent.
    pub bytes: f64,
    /// Messages sent.
    pub messages: u64,
    /// By phase.
    pub phases: Vec<PhaseRow>,
    /// Whether every rank ended by `MPI_Finalize`, made no call that the recorder does not know, started no process and sent
    /// nothing to another world.
    pub complete: bool,
    /// Ranks that did not, whose counts are those up to their end.
    pub cut: Vec<Cut>,
    /// Algorithms of the expanded collectives, and omissions.
    pub notes: Vec<String>,
    /// File of the traffic.
    pub traffic: PathBuf,
    /// File of the placement.
    pub placement: PathBuf,
    /// Times; absent in records of older recorders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    /// Performance variables of the MPI library that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<Variable>,
    /// Whether there is a trace of every call of every rank.
    pub traced: bool,
    /// What the trace lacks.
    pub trace_notes: Vec<String>,
}

/// A rank that did not end by `MPI_Finalize`.
#[derive(Serialize)]
pub struct Cut {
    /// Rank.
    pub rank: usize,
    /// `abort`, `exit`, `_exit(STATUS)`, a signal, or `killed` if the cause is not known.
    pub cause: String,
    /// The MPI function that had not returned, and the seconds in it, if the signal was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_seconds: Option<f64>,
}

/// A phase of the job.
#[derive(Serialize)]
pub struct PhaseRow {
    /// Name.
    pub name: String,
    /// Pairs of ranks.
    pub pairs: usize,
    /// Bytes sent.
    pub bytes: f64,
    /// Messages sent.
    pub messages: u64,
}

impl Merged {
    /// Writes `traffic.csv`, `placement.csv` and itself, as `record.json`, into the folder of the record; collective calls
    /// become messages by `rules`, without them as the job's MPI decides.
    ///
    /// # Errors
    /// The record cannot be read, or the files not written.
    pub fn write(job: &Job, ranks: &Ranks, folder: &Path, rules: Option<&str>) -> Result<Self> {
        let mut source = folder.display().to_string();
        if let Some(rules) = rules {
            source += &format!(":collectives={rules}");
        }
        let traffic = read_traffic(&source)?;
        let paths = (folder.join("traffic.csv"), folder.join("placement.csv"));
        // The first says most.
        let incomplete = traffic.notes.iter().find(|n| n.starts_with(INCOMPLETE));
        let incomplete = incomplete.cloned();
        write_atomic(&paths.0, &csv(&traffic, incomplete.as_deref()))?;
        write_atomic(&paths.1, &ranks.placement_csv())?;
        let total = traffic.total();
        let messages =
            |exchange: &hopbyte_fabric::Exchange| exchange.iter().map(|(_, m)| m.messages).sum();
        // A job that was killed may leave traces of some ranks only: its counts do not depend on them.
        let (traced, trace_notes) = match job.trace {
            true => match recorded::folder(&folder.display().to_string()) {
                Ok(Some(trace)) => (trace.complete, trace.notes),
                Ok(None) => (false, Vec::new()),
                Err(error) => (false, vec![format!("no trace: {error}")]),
            },
            false => (false, Vec::new()),
        };
        let mut notes = traffic.notes;
        notes.extend(ranks.held());
        notes.extend(ranks.variables.notes());
        let merged = Self {
            times: ranks.times.times(),
            variables: ranks.variables.rows(traffic.tasks),
            traced,
            trace_notes,
            schema: "hopbyte.record/1",
            flavour: job.flavour.name(),
            ranks: traffic.tasks,
            hosts: ranks.hosts(),
            pairs: total.pairs(),
            bytes: total.total_bytes(),
            messages: messages(&total),
            phases: traffic
                .phases
                .iter()
                .map(|p| PhaseRow {
                    name: p.name.clone(),
                    pairs: p.exchange.pairs(),
                    bytes: p.exchange.total_bytes(),
                    messages: messages(&p.exchange),
                })
                .collect(),
            complete: incomplete.is_none(),
            cut: ranks.cut(),
            notes,
            traffic: paths.0,
            placement: paths.1,
        };
        let json = serde_json::to_string(&merged).context("writing record.json")?;
        write_atomic(&folder.join("record.json"), &(json + "\n"))?;
        Ok(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::{Exchange, Phase};

    /// A rank's file with these lines, its first and its last one.
    fn rank_file(lines: &str) -> Text {
        let lines = format!("# hopbyte-record 2\n{lines}");
        let whole = format!("{lines}end\t{}\n", lines.lines().count());
        Text::from_bytes("rank.hbr", whole.as_bytes(), RECORD).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let phase = |name: &str, entries: &[(u32, u32, f64, u64)]| Phase {
            name: name.into(),
            exchange: Exchange::new(5, entries.iter().copied()).unwrap(),
        };
        let traffic = Traffic {
            source: "job".into(),
            tasks: 5,
            phases: vec![
                phase("main", &[(0, 1, 80.0, 2)]),
                phase("solve/halo, x", &[(1, 0, 7.0, 1), (0, 1, 9.0, 3)]),
            ],
            in_turn: true,
            notes: Vec::new(),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traffic.csv");
        std::fs::write(&path, csv(&traffic, None)).unwrap();
        let read = hopbyte_observe::read_traffic(path.to_str().unwrap()).unwrap();
        assert_eq!(read.tasks, 5);
        assert_eq!(read.total(), traffic.total());
        assert_eq!(read.phases[1].name, "solve/halo; x");
        assert_eq!(read.phases[1].exchange, traffic.phases[1].exchange);
    }

    #[test]
    fn several_jobs_are_told_apart() {
        let file = |rank: usize, size: usize, job: &str| {
            rank_file(&format!(
                "rank\t{rank}\nsize\t{size}\nhost\tn\nspawned\t0\n{job}ended\tfinalize\n"
            ))
        };
        let told = |files: &[Text]| {
            let mut ranks = Ranks::default();
            for text in files {
                ranks.add(text).unwrap();
            }
            ranks.unusable()
        };
        let (a, b) = ("job\t1\n", "job\t2\n");
        assert!(told(&[file(0, 2, a), file(1, 2, a)]).is_none());
        assert!(told(&[file(0, 2, ""), file(1, 2, a)]).is_none());
        for files in [
            [file(0, 1, ""), file(0, 1, "")],
            [file(0, 2, ""), file(1, 4, "")],
            [file(0, 2, a), file(1, 2, b)],
        ] {
            assert!(told(&files).unwrap().starts_with("2 MPI jobs ran"));
        }
    }

    #[test]
    fn ranks_that_could_not_write_said_so() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rank.1.hbr.77.tmp"), "").unwrap();
        assert!(new_folder(folder.path()).is_err());
        let mut ranks = Ranks::read(folder.path()).unwrap();
        assert!(
            ranks
                .unusable()
                .unwrap()
                .ends_with("could not write it, as they said")
        );
        let one = rank_file("rank\t0\nsize\t2\nhost\tn\nspawned\t0\nended\tfinalize\n");
        ranks.add(&one).unwrap();
        assert_eq!(
            ranks.unusable().unwrap(),
            "1 of 2 ranks left no record (1): they could not write it, as they said"
        );
    }

    #[test]
    fn a_job_that_is_not_whole_is_told() {
        let mut ranks = Ranks::default();
        let with = |rank: usize, ended: &str, more: &str| {
            rank_file(&format!(
                "rank\t{rank}\nsize\t3\nhost\tn{}\nspawned\t0\n{more}ended\t{ended}\n",
                rank / 2
            ))
        };
        let file = |rank: usize, ended: &str| with(rank, ended, "");
        ranks.add(&file(0, "finalize")).unwrap();
        ranks.add(&file(1, "abort")).unwrap();
        assert!(
            ranks
                .unusable()
                .unwrap()
                .contains("1 of 3 ranks left no record (2)")
        );
        ranks.add(&file(2, "finalize")).unwrap();
        assert!(ranks.unusable().is_none());
        assert_eq!(
            ranks.incomplete().unwrap(),
            "incomplete: 1 of 3 ranks ended before MPI_Finalize (abort: 1); their counts are those up to then"
        );
        let strange = with(0, "finalize", "unknown\tMPIX_A\tnew\n");
        let mut whole = Ranks::default();
        whole.add(&strange).unwrap();
        assert_eq!(
            whole.incomplete().unwrap(),
            "incomplete: calls without messages in the record (MPIX_A on 1 ranks: new)"
        );
        let mut parent = Ranks::default();
        let child = rank_file("rank\t0\nsize\t3\nhost\tn0\nspawned\t1\nended\tfinalize\n");
        parent.add(&child).unwrap();
        assert!(
            parent
                .incomplete()
                .unwrap()
                .contains("1 processes that the job started")
        );
        // Without files of their own.
        parent
            .add(&with(0, "finalize", "started\t2\nstarted\t3\n"))
            .unwrap();
        assert!(
            parent
                .incomplete()
                .unwrap()
                .contains("5 processes that the job started")
        );
        assert_eq!(ranks.hosts(), 2);
        assert_eq!(
            ranks.placement_csv(),
            "rank,node,slot\n0,n0,0\n1,n0,1\n2,n1,0\n"
        );
        let late = with(1, "finalize", "time\t0\tlate\t1\n");
        let error = ranks.add(&late).unwrap_err().to_string();
        assert!(error.starts_with("rank.hbr:6: found late"), "{error}");
        let nonsense = Text::from_bytes("rank.hbr", b"nonsense", RECORD).unwrap();
        assert!(ranks.add(&nonsense).is_err());
    }
}
