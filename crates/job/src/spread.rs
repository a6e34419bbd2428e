//! Search from many seeds, sequentially or as parts of an array job, and the best result.
//!
//! A part keeps `FOLDER/part-IofN.json`: the finished seeds, their results, and the best placement, rewritten
//! after every seed. The gathered result is independent of the split: values are compared exactly, and ties
//! go to the first seed.

use crate::error::{Context, JobError, Result};
use crate::identity::Sum;
use crate::mapping::Mapping;
use crate::question::{Effort, Question};
use crate::search::search;
use hopbyte_apply::write_atomic;
use hopbyte_fabric::{Exchange, Placement, Slot};
use hopbyte_map::{Baseline, Bound, Certificate, Evaluation, Problem, Progress, Verdict, baseline};
use hopbyte_observe::text::{Limits, Text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Schema of a part's file.
const SCHEMA: &str = "hopbyte.map-part/1";
/// Schema of a seed's result.
const SEED_SCHEMA: &str = "hopbyte.map-seed/1";

/// Number of seeds, and this part's share.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// Seeds to search from, counted from the effort's.
    pub seeds: u64,
    /// Only part I of N of them, from 1; without it the parts are gathered.
    pub part: Option<(u64, u64)>,
    /// Folder of the results, from which an interrupted search resumes.
    pub folder: Option<PathBuf>,
}

/// Result of [`best_of`].
pub enum Searched {
    /// The best of all seeds.
    Whole(Box<Mapping>),
    /// Results of one part, in the order of the seeds.
    Part(Vec<Tried>),
}

/// Result of a seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tried {
    schema: String,
    /// The seed.
    pub seed: u64,
    /// The objective.
    pub objective: String,
    /// Value of the objective.
    pub value: f64,
    /// Tie-breaking value.
    pub tie: f64,
    /// Swaps tried.
    pub trials: u64,
    wall_seconds: f64,
    cpu_seconds: f64,
}

/// The best placement of a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Best {
    seed: u64,
    best_baseline: Baseline,
    verdict: Verdict,
    bound: Bound,
    threads: usize,
    /// Whether every placement was searched.
    #[serde(default)]
    optimal: bool,
    #[serde(default)]
    limited: bool,
    /// Number of the node in the allocation, by rank.
    places: Vec<u32>,
    slots: Vec<u32>,
}

/// A part's file.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    schema: String,
    /// Fingerprint of all inputs that determine the result.
    question: String,
    tried: Vec<Tried>,
    best: Best,
}

impl Tried {
    /// Order by the objective, then the tie-breaking value, then the seed.
    fn before(&self, other: &Self) -> bool {
        let order = self.value.total_cmp(&other.value);
        let order = order.then(self.tie.total_cmp(&other.tie));
        order.then(self.seed.cmp(&other.seed)).is_lt()
    }
}

impl Best {
    fn new(problem: &Problem<'_>, found: &Mapping) -> Self {
        let c = &found.certificate;
        let slots = found.placement.slots();
        let place = |s: &Slot| problem.allocation.position(s.node).unwrap_or_default() as u32;
        Self {
            seed: c.seed,
            best_baseline: c.best_baseline.0,
            verdict: c.verdict,
            bound: c.bound.clone(),
            threads: c.threads,
            optimal: c.optimal,
            limited: c.limited,
            places: slots.iter().map(place).collect(),
            slots: slots.iter().map(|s| s.slot).collect(),
        }
    }

    /// The placement, checked, with its cost computed again.
    fn placed(&self, question: &Question) -> Result<(Placement, Evaluation)> {
        let problem = &question.problem();
        let nodes = problem.allocation.nodes();
        let slots = self.places.iter().zip(&self.slots).map(|(&place, &slot)| {
            let node = nodes
                .get(place as usize)
                .ok_or_else(|| JobError::refused("a node outside"))?
                .0;
            Ok(Slot { node, slot })
        });
        let slots = slots.collect::<Result<_>>()?;
        let placement = Placement::new(problem.fabric, problem.allocation, slots)?;
        let cost = question.evaluate(&placement)?;
        Ok((placement, cost))
    }
}

/// Searches from the remaining seeds; `say` takes remarks, `progress` is called from any thread.
///
/// # Errors
/// Errors of [`search`]; parts of another question, or damaged ones.
pub fn best_of(
    spread: &Spread,
    question: &Question,
    effort: &Effort,
    say: &mut dyn FnMut(String),
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Searched> {
    let problem = question.problem();
    let (seeds, folder) = (spread.seeds, spread.folder.as_deref());
    let all = effort.seed..effort.seed.saturating_add(seeds);
    let id = identity(&problem, effort, seeds);
    let mut parts = match folder {
        Some(folder) => read_all(folder, question, &id)?,
        None => BTreeMap::new(),
    };
    let done: Vec<u64> = parts
        .values()
        .flat_map(|p| p.tried.iter().map(|t| t.seed))
        .collect();
    if !done.is_empty() {
        say(format!("{} of {seeds} seeds were done before", done.len()));
    }
    let mine = |s: &u64| {
        spread
            .part
            .is_none_or(|(i, n)| (s - effort.seed) % n == i - 1)
    };
    let path = place(folder.unwrap_or(Path::new("")), spread.part);
    for seed in all.filter(|s| mine(s) && !done.contains(s)) {
        let effort = Effort {
            seed,
            ..effort.clone()
        };
        if effort.is_stopped() {
            break;
        }
        let found = search(question, &effort, progress)?;
        if found.certificate.interrupted {
            // A seed whose search was interrupted is searched again later; alone it is the answer.
            if parts.is_empty() && spread.part.is_none() {
                return Ok(Searched::Whole(Box::new(found)));
            }
            break;
        }
        add(&mut parts, (&path, &id), &problem, &found);
        if let (Some(folder), Some(part)) = (folder, parts.get(&path)) {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("making {}", folder.display()))?;
            write_atomic(&path, &(serde_json::to_string(part)? + "\n"))?;
        }
    }
    let mut tried: Vec<&Tried> = parts.values().flat_map(|p| &p.tried).collect();
    tried.sort_by_key(|t| t.seed);
    if spread.part.is_some() {
        tried.retain(|t| mine(&t.seed));
        return Ok(Searched::Part(tried.into_iter().cloned().collect()));
    }
    let mut mapping = gather(&parts, &tried, question)?;
    mapping.certificate.interrupted = (tried.len() as u64) < seeds && effort.is_stopped();
    // The remains of an interrupted search can resume from the results of its parts.
    let complete = !mapping.certificate.interrupted;
    for path in parts.keys().filter(|_| folder.is_some() && complete) {
        // The mapping contains the part; a leftover file is read again and found complete.
        let _ = std::fs::remove_file(path);
    }
    Ok(Searched::Whole(Box::new(mapping)))
}

/// Adds a seed's result to this part.
fn add(
    parts: &mut BTreeMap<PathBuf, Part>,
    (path, id): (&Path, &str),
    problem: &Problem<'_>,
    found: &Mapping,
) {
    let c = &found.certificate;
    let (value, tie) = c.result.score(&problem.objective);
    let tried = Tried {
        schema: SEED_SCHEMA.into(),
        seed: c.seed,
        objective: c.objective.clone(),
        value,
        tie,
        trials: c.trials,
        wall_seconds: c.wall_seconds,
        cpu_seconds: c.cpu_seconds,
    };
    match parts.get_mut(path) {
        Some(part) => {
            if part.tried.iter().all(|t| tried.before(t)) {
                part.best = Best::new(problem, found);
            }
            part.tried.push(tried);
        }
        None => {
            let part = Part {
                schema: SCHEMA.into(),
                question: id.into(),
                tried: vec![tried],
                best: Best::new(problem, found),
            };
            parts.insert(path.to_owned(), part);
        }
    }
}

/// The best of all parts, with a certificate over all of them.
fn gather(
    parts: &BTreeMap<PathBuf, Part>,
    tried: &[&Tried],
    question: &Question,
) -> Result<Mapping> {
    let problem = &question.problem();
    let first = tried
        .iter()
        .reduce(|a, b| if b.before(a) { b } else { a })
        .map(|t| t.seed);
    let best = parts.values().find(|p| Some(p.best.seed) == first);
    let best = best.ok_or_else(|| JobError::refused("no seed was searched from"))?;
    let best = &best.best;
    let (placement, result) = best.placed(question)?;
    let of = |which| -> Result<Option<(Placement, Evaluation)>> {
        let Some(placement) = baseline(problem, which, best.seed)? else {
            return Ok(None);
        };
        let cost = question.evaluate(&placement)?;
        Ok(Some((placement, cost)))
    };
    let (in_order, plain) =
        of(Baseline::InOrder)?.ok_or_else(|| JobError::refused("no placement in order"))?;
    let other = of(best.best_baseline)?.map_or(plain.clone(), |b| b.1);
    let certificate = Certificate {
        objective: problem.objective.to_string(),
        baseline: plain,
        best_baseline: (best.best_baseline, other),
        current: of(Baseline::Current)?.map(|c| c.1),
        result,
        divided: None,
        bound: best.bound.clone(),
        verdict: best.verdict,
        moved_tasks: placement.moved(problem.current.unwrap_or(&in_order)),
        seed: best.seed,
        trials: tried.iter().map(|t| t.trials).sum(),
        threads: best.threads,
        optimal: best.optimal,
        limited: best.limited,
        interrupted: false,
        wall_seconds: tried.iter().map(|t| t.wall_seconds).sum(),
        cpu_seconds: tried.iter().map(|t| t.cpu_seconds).sum(),
    };
    Ok(Mapping {
        seeds: tried.len(),
        ..Mapping::new(placement, certificate)
    })
}

/// File of part `i` of `n` (from 1), or of a search without parts.
fn place(folder: &Path, part: Option<(u64, u64)>) -> PathBuf {
    folder.join(match part {
        Some((i, n)) => format!("part-{i}of{n}.json"),
        None => "part.json".into(),
    })
}

/// All parts in a folder, by file; empty if the folder does not exist.
fn read_all(folder: &Path, question: &Question, id: &str) -> Result<BTreeMap<PathBuf, Part>> {
    let mut parts = BTreeMap::new();
    if !folder.exists() {
        return Ok(parts);
    }
    let list = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in list {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let ours = name == "part.json" || (name.starts_with("part-") && name.contains("of"));
        if ours && name.ends_with(".json") {
            let path = folder.join(&*name);
            let part = read(&path, question, id)?;
            parts.insert(path, part);
        }
    }
    Ok(parts)
}

/// A part, checked: it must be of the same question, and its placement must have the stated cost.
fn read(path: &Path, question: &Question, id: &str) -> Result<Part> {
    let text = Text::read(path, Limits::ROWS)?;
    let wrong = |found: String, expected: &str, hint: &str| text.error(found, expected).hint(hint);
    let anew = "delete it to begin anew";
    let part: Part = text
        .json("a part of a search as `hopbyte map --part` keeps it")
        .map_err(|e| e.hint(anew))?;
    if part.schema != SCHEMA {
        return Err(wrong(part.schema, SCHEMA, anew).into());
    }
    if part.question != id {
        let hint = "delete it, or name another --out: machine, traffic, nodes, counters, the search's options or \
                    hopbyte itself changed since (an oracle's counters do all the time: save them and give \
                    --background)";
        let (found, expected) = (
            format!("question {}", part.question),
            format!("question {id}"),
        );
        return Err(wrong(found, &expected, hint).into());
    }
    let said = part.tried.iter().find(|t| t.seed == part.best.seed);
    let holds = match (part.best.placed(question), said) {
        (Ok((_, cost)), Some(said)) => {
            let same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
            let (value, tie) = cost.score(&question.problem().objective);
            same(value, said.value) && same(tie, said.tie)
        }
        _ => false,
    };
    if !holds {
        let found = format!("a placement from seed {}", part.best.seed);
        return Err(wrong(found, "one with the stated cost", anew).into());
    }
    Ok(part)
}

/// A fingerprint of all inputs that determine the result.
fn identity(problem: &Problem<'_>, effort: &Effort, seeds: u64) -> String {
    let mut sum = Sum::new();
    sum.add(problem.fabric.fingerprint().as_bytes());
    for link in problem.fabric.link_ids() {
        sum.add(&problem.live_capacity(link).to_bits().to_le_bytes());
    }
    for &(node, slots) in problem.allocation.nodes() {
        sum.add(format!("{} {slots}", problem.fabric.node(node).name).as_bytes());
    }
    let both = [Some(problem.exchange), problem.loads];
    for (from, message) in both.into_iter().flatten().flat_map(Exchange::iter) {
        sum.add(format!("{from} {} {:e}", message.to, message.bytes).as_bytes());
    }
    for slot in problem.current.iter().flat_map(|p| p.slots()) {
        sum.add(format!("{} {}", slot.node.0, slot.slot).as_bytes());
    }
    if let hopbyte_map::Objective::RouteCost(costs) = problem.objective {
        costs.iter().for_each(|c| sum.add(&c.to_le_bytes()));
    }
    let words = format!(
        "{} {} {:?} {} {} {seeds}",
        problem.objective,
        problem.loads.is_some(),
        effort.trials,
        effort.seconds,
        effort.seed
    );
    sum.add(words.as_bytes());
    sum.text()
}
