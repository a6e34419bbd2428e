//! The answer to a mapping question: files, value of a migration, verdict in a sentence.

use crate::error::{Context, Result};
use crate::inside::Arranged;
use crate::predict::{Ask, Prediction, by_rank, predict};
use crate::question::Question;
use hopbyte_apply::{ApplyError, Job, Launch, Launcher, Prepared, Staged, Together, tidy};
use hopbyte_fabric::units::{TIMES, bytes_text, count, scale};
use hopbyte_fabric::{InputError, Placement};
use hopbyte_map::budget::{Advice, Migration};
use hopbyte_map::{Baseline, Certificate, Evaluation, Turn, Verdict, baseline};
use rustix::fs::{Access, access};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Maximum number of phases in a line.
const TURNS_SHOWN: usize = 8;

/// A placement with its certificate.
#[derive(Clone)]
pub struct Mapping {
    /// The placement.
    pub placement: Placement,
    /// The certificate.
    pub certificate: Certificate,
    /// Advice on migration, if requested.
    pub migration: Option<Migration>,
    /// Number of seeds searched; the best result is kept.
    pub seeds: usize,
    /// Parts of the node behind each slot, if known.
    pub inside: Option<Arranged>,
    /// Run time before and after it, if requested.
    pub run_time: Option<Prediction>,
}

/// The reference placement of a mapping and its label: the current one, or ranks in order.
///
/// # Errors
/// More ranks than slots.
pub fn before(question: &Question, mapping: &Mapping) -> Result<(&'static str, Placement)> {
    if let Some(current) = &question.current {
        return Ok(("as it was", current.clone()));
    }
    let seed = mapping.certificate.seed;
    let in_order = baseline(&question.problem(), Baseline::InOrder, seed)?;
    Ok((
        "in order, as launchers do",
        in_order.unwrap_or_else(|| mapping.placement.clone()),
    ))
}

impl Mapping {
    /// The result of one search.
    pub(crate) fn new(placement: Placement, certificate: Certificate) -> Self {
        Self {
            placement,
            certificate,
            migration: None,
            seeds: 1,
            inside: None,
            run_time: None,
        }
    }

    /// Predicts the run time of the traced job whose traffic was mapped, before and after.
    ///
    /// # Errors
    /// The traffic is no trace; see [`predict`].
    pub fn timed(mut self, question: &Question, network: Option<&str>) -> Result<Self> {
        let (name, was) = before(question, &self)?;
        self.run_time = Some(predict(&Ask {
            trace: &question.traffic,
            machine: &question.machine,
            network,
            placements: &[],
            nodes: None,
            ranks_per_node: None,
            seed: self.certificate.seed,
            collectives: None,
            operations_per_s: None,
            given: vec![
                (name.to_owned(), by_rank(&was)),
                ("mapped".to_owned(), by_rank(&self.placement)),
            ],
            background: question.background.as_deref(),
            measured: &[],
        })?);
        Ok(self)
    }

    /// The placement as input for a launcher; the job's MPI is not known here.
    pub fn launch<'a>(&'a self, question: &'a Question) -> Launch<'a> {
        Launch {
            fabric: &question.machine.fabric,
            allocation: &question.allocation,
            placement: &self.placement,
            mpich: None,
            cores: self.inside.as_ref().and_then(|i| i.cores.as_ref()),
            job: Some(Job {
                traffic: &question.traffic,
                routing: &question.machine.routing,
            }),
        }
    }

    /// Times of phases that follow one another, as a line for the placement before and one for the result.
    pub fn turns_text(&self, turns: &[Turn]) -> Vec<String> {
        let c = &self.certificate;
        let before = c.current.as_ref().unwrap_or(&c.baseline);
        if turns.is_empty() {
            return Vec::new();
        }
        let (unit, seconds) = scale(before.exchange_seconds(), &TIMES);
        let line = |name: &str, cost: &Evaluation| {
            let times = turns.iter().zip(&cost.turn_seconds).take(TURNS_SHOWN);
            let mut parts: Vec<String> = times
                .map(|(turn, time)| format!("{} {:.3}", turn.name, time / seconds))
                .collect();
            if turns.len() > TURNS_SHOWN {
                parts.push(format!("{} more", count(turns.len() - TURNS_SHOWN)));
            }
            let sum = cost.exchange_seconds() / seconds;
            format!(
                "phases in turn {unit}, {name}: {sum:.3} = {}",
                parts.join(" + ")
            )
        };
        let mut lines = vec![line("before", before), line("result", &c.result)];
        if let Some(bound) = c.bound.turns_seconds {
            lines.push(format!(
                "phases in turn {unit}, no less than: {:.3}",
                bound / seconds
            ));
        }
        lines
    }

    /// The verdict in a sentence.
    pub fn verdict_text(&self) -> String {
        let c = &self.certificate;
        if let Some(migration) = &self.migration {
            return advice_text(migration);
        }
        let (best, cost) = &c.best_baseline;
        let name = baseline_name(*best);
        // Launchers place ranks in order, also if other placements were compared.
        let in_order = match best {
            Baseline::InOrder => String::new(),
            _ => format!("; against in order: {}", changes(&c.baseline, &c.result)),
        };
        let divided = self.divided_text();
        let limits = match c.current {
            Some(_) => "the current placement",
            None => "in order",
        };
        let proven = match (c.optimal, c.limited) {
            (true, false) => "; no other placement is better (all were searched)".to_owned(),
            (true, true) => format!(
                "; no other placement without more bytes between nodes or on host links than {limits} is better (all were \
                 searched)"
            ),
            (false, _) => String::new(),
        };
        if c.verdict == Verdict::NoImprovement {
            return format!(
                "no improvement: nothing better than {name} was found, which is returned{in_order}{proven}{divided}"
            );
        }
        format!(
            "better than {name}: {}{in_order}; {} of {} tasks move{proven}{divided}",
            changes(cost, &c.result),
            count(c.moved_tasks),
            count(self.placement.tasks()),
        )
    }

    /// Changes by a better placement that divides groups, as a further line; empty without one.
    fn divided_text(&self) -> String {
        let changes = |d| changes(&self.certificate.result, d);
        let divided = self.certificate.divided.as_ref().map(changes);
        divided.map_or_else(String::new, |changes| format!(
            "\ntensor-parallel groups stay together; with some of them on several hosts (--keep nothing): {changes}"
        ))
    }
}

/// Changes of the worst link and of hop-bytes.
fn changes(before: &Evaluation, after: &Evaluation) -> String {
    let change = |was: f64, is: f64| match (was, is) {
        (w, i) if w == i => "as before".to_owned(),
        (0.0, _) => "none before".to_owned(),
        (w, i) => format!("{:+.1} %", 100.0 * (i / w - 1.0)),
    };
    let time = match after.turn_seconds.len() {
        0 => "worst link",
        _ => "phases in turn",
    };
    format!(
        "{time} {}, hop-bytes {}",
        change(before.exchange_seconds(), after.exchange_seconds()),
        change(before.hop_bytes, after.hop_bytes)
    )
}

/// Output files of a mapping, and launchers without one.
#[derive(Debug, Default)]
pub struct WrittenFiles {
    /// Files written, `mapping.json` last.
    pub written: Vec<PathBuf>,
    /// Launchers that cannot express the placement, with the reason.
    pub refused: Vec<(Launcher, hopbyte_apply::Refusal)>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// Ranks of the largest job whose launcher files and page are written after an interrupt: that takes a tenth of a second.
pub const FEW_RANKS: usize = 10_000;

/// Refuses a folder that cannot be made or written, before the search whose result it is to take.
///
/// # Errors
/// A part of its path is a file, or this user may not write there; it has launchers' files that no mapping wrote.
pub fn check_folder(folder: &Path) -> Result<()> {
    let launchers = Launcher::ALL.into_iter().map(Launcher::file_name);
    let mut others = launchers.filter(|name| folder.join(name).exists());
    if !folder.join(MAPPING_FILE).exists()
        && let Some(name) = others.next()
    {
        let found = format!("a folder with a {name} and no {MAPPING_FILE}");
        let error = InputError::new("--out", found, "a new folder, or that of a mapping");
        let path = folder.join(name);
        let hint = format!(
            "{} would be overwritten: name another folder, or move it",
            path.display()
        );
        return Err(error.hint(hint).into());
    }
    let part = |f: &'_ Path| match f.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => f.to_owned(),
    };
    let Some(nearest) = folder.ancestors().map(part).find(|f| f.exists()) else {
        return Ok(());
    };
    if !nearest.is_dir() {
        let expected = "a folder, which is made if it is missing";
        let error = InputError::new("--out", folder.display().to_string(), expected);
        let hint = format!("{} is a file: name another folder", nearest.display());
        return Err(error.hint(hint).into());
    }
    let allowed = access(&nearest, Access::WRITE_OK | Access::EXEC_OK);
    let allowed = allowed.map_err(std::io::Error::from);
    allowed.with_context(|| format!("--out {}", folder.display()))
}

/// The file of the mapping itself.
pub const MAPPING_FILE: &str = "mapping.json";

/// A folder with the mapping itself, to which the launchers' files can be added.
pub struct Saved<'a> {
    question: &'a Question,
    mapping: &'a Mapping,
    folder: &'a Path,
    /// Files of an earlier mapping, which were removed.
    earlier: Vec<&'static str>,
    /// The launchers' files of at most [`FEW_RANKS`], which are written with the mapping.
    files: Option<WrittenFiles>,
}

impl<'a> Saved<'a> {
    /// Writes `mapping.json`, of a job of few ranks with the launchers' files. Files of an earlier mapping are removed
    /// when the new ones are complete beside them, so that a full disk changes nothing, and at no moment files of two
    /// placements are in the folder; if one cannot be replaced, all are put back.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn save(question: &'a Question, mapping: &'a Mapping, folder: &'a Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let text = crate::Document::of(question, mapping).text()?;
        let document = staged(folder, MAPPING_FILE, &text)?;
        let few = mapping.placement.tasks() <= FEW_RANKS;
        let launchers = few.then(|| Launchers::stage(question, mapping, folder));
        let launchers = launchers.transpose()?;
        let (earlier, files) = Together::change(|together| {
            let earlier = remove_earlier(folder, together)?;
            together.replace(document)?;
            let files = launchers.map(|l| l.commit(together)).transpose()?;
            Ok((earlier, files))
        })?;
        let names = Launcher::ALL.map(Launcher::file_name);
        tidy(folder, &[&names[..], &[MAPPING_FILE]].concat());
        Ok(Self {
            question,
            mapping,
            folder,
            earlier,
            files,
        })
    }

    /// Writes the file of each launcher that can express the placement, unless they are written.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn launchers(self) -> Result<WrittenFiles> {
        let mut files = match self.files {
            Some(files) => files,
            None => {
                let staged = Launchers::stage(self.question, self.mapping, self.folder)?;
                Together::change(|together| staged.commit(together))?
            }
        };
        let mut removed = self.earlier;
        removed.retain(|name| !files.written.iter().any(|path| path.ends_with(name)));
        if !removed.is_empty() {
            files.notes.push(format!(
                "removed of an earlier mapping: {}",
                removed.join(", ")
            ));
        }
        files.written.push(self.folder.join(MAPPING_FILE));
        Ok(files)
    }
}

/// Removes the launchers' files of an earlier mapping, and returns their names.
fn remove_earlier(folder: &Path, together: &mut Together) -> Result<Vec<&'static str>, ApplyError> {
    let mut earlier = Vec::new();
    if !folder.join(MAPPING_FILE).exists() {
        return Ok(earlier);
    }
    for launcher in Launcher::ALL.into_iter().filter(|l| *l != Launcher::Json) {
        let name = launcher.file_name();
        if together.remove(&folder.join(name))? {
            earlier.push(name);
        }
    }
    Ok(earlier)
}

fn staged(folder: &Path, name: &str, text: &str) -> Result<Staged> {
    let mut contents = |file: &mut dyn Write| file.write_all(text.as_bytes());
    Ok(Staged::write(&folder.join(name), &mut contents)?)
}

/// Launchers' files that are complete beside their names.
struct Launchers {
    files: WrittenFiles,
    staged: Vec<Staged>,
}

impl Launchers {
    fn stage(question: &Question, mapping: &Mapping, folder: &Path) -> Result<Self> {
        let mut files = WrittenFiles::default();
        let mut all = Vec::new();
        for launcher in Launcher::ALL.into_iter().filter(|l| *l != Launcher::Json) {
            let name = launcher.file_name();
            match mapping.launch(question).prepare(launcher) {
                Ok(Prepared { text, advice }) => match advice.refused {
                    Some(refusal) => files.refused.push((launcher, refusal)),
                    None => {
                        all.push(staged(folder, name, &text)?);
                        files.written.push(folder.join(name));
                    }
                },
                Err(_) if launcher.narrow() => {}
                Err(error) => files.notes.push(format!("no {name}: {error}")),
            }
        }
        Ok(Self { files, staged: all })
    }

    fn commit(self, together: &mut Together) -> Result<WrittenFiles, ApplyError> {
        let mut staged = self.staged.into_iter();
        staged.try_for_each(|staged| together.replace(staged))?;
        Ok(self.files)
    }
}

/// Writes `mapping.json` and the file of each launcher that can express the placement.
///
/// # Errors
/// The folder cannot be written.
pub fn write_files(question: &Question, mapping: &Mapping, folder: &Path) -> Result<WrittenFiles> {
    Saved::save(question, mapping, folder)?.launchers()
}

/// Advice on migration, with cost and gain.
fn advice_text(m: &Migration) -> String {
    let limit = match m.budget {
        Some(budget) if budget < m.wanted_tasks => {
            format!(
                " (a search without a budget would move {})",
                count(m.wanted_tasks)
            )
        }
        _ => String::new(),
    };
    if m.moving_tasks == 0 {
        return format!("stay: nothing better was found{limit}");
    }
    let change = 100.0 * (m.worst_link_ratio - 1.0);
    let what = format!(
        "{} tasks{limit} take {} along in {}; worst link {change:+.1} %",
        count(m.moving_tasks),
        bytes_text(m.moving_bytes),
        time_text(m.move_seconds)
    );
    let gain = m.gain_seconds.map_or(String::new(), |gain| {
        format!("; the rest of the run gains {}", time_text(gain))
    });
    match m.advice {
        Advice::Move => format!("move: {what}{gain}"),
        Advice::Stay => format!("stay, it does not pay: {what}{gain}"),
    }
}

/// A time in a suitable unit.
fn time_text(seconds: f64) -> String {
    let (unit, size) = scale(seconds.abs(), &TIMES);
    format!("{:.3} {unit}", seconds / size)
}

/// A baseline's name in text output.
pub fn baseline_name(baseline: Baseline) -> &'static str {
    match baseline {
        Baseline::InOrder => "in order",
        Baseline::RoundRobin => "round robin",
        Baseline::Random => "random",
        Baseline::Current => "current",
        Baseline::TextOrder => "hosts by name as text",
        Baseline::NumberOrder => "hosts by name",
    }
}
