//! Open MPI's monitoring component: one `.prof` file per rank.
//!
//! `E` lines are messages of the application, `I` lines those of the library itself (most of them collectives), `S`
//! and `R` one-sided puts and gets; the data of a get travel from the second rank to the first. They become the
//! phases "point-to-point", "library" and "one-sided". `C` and later lines repeat the same collectives from the
//! caller's view and are skipped.

use super::entries::{Entry, MAX_TASKS, Phases, messages, task};
use crate::ObserveError;
use crate::text::{Line, Text, decimal, lossy};
use hopbyte_fabric::{InputError, Traffic};
use std::collections::BTreeSet;

pub(super) fn read(source: &str, texts: &[Text]) -> Result<Traffic, ObserveError> {
    let mut phases = Phases::default();
    let mut ranks = BTreeSet::new();
    let mut tasks = 0;
    for text in texts {
        let file = File::parse(text, &mut phases)?;
        tasks = tasks.max(file.mentioned);
        let Some(rank) = file.rank.or_else(|| rank_of_name(text.file())) else {
            return Err(text
                .error(
                    "neither a line nor a number in its name",
                    "the file of a rank",
                )
                .into());
        };
        tasks = tasks.max(rank as usize + 1);
        if !ranks.insert(rank) {
            let expected = "one file for every rank";
            return Err(text
                .error(format!("rank {rank} once more"), expected)
                .into());
        }
    }
    complete(source, tasks, &ranks)?;
    phases.finish(source, tasks)
}

/// Refuses files of only some ranks, or of none, as the traffic of all.
pub(super) fn complete(
    source: &str,
    tasks: usize,
    ranks: &BTreeSet<u32>,
) -> Result<(), InputError> {
    if tasks == 0 {
        return Err(InputError::new(source, "no rank", "messages of ranks")
            .hint("the file may be cut short: copy it again"));
    }
    if ranks.len() == tasks {
        return Ok(());
    }
    let missing = (0..tasks as u32).find(|r| !ranks.contains(r)).unwrap_or(0);
    Err(InputError::new(
        source,
        format!("files of {} ranks; rank {missing} is missing", ranks.len()),
        format!("files of all {tasks} ranks"),
    )
    .hint("give the folder or archive that holds every rank's file"))
}

/// The number before the extension: `lj64.17.prof`.
pub(crate) fn rank_of_name(file: &str) -> Option<u32> {
    let packed = file.strip_suffix(".gz").or(file.strip_suffix(".zst"));
    let stem = packed.unwrap_or(file).rsplit_once('.')?.0;
    let digits = stem.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|&r| (r as usize) < MAX_TASKS)
}

/// Headings of the first part of a file and of its last, which the component writes even where the part is empty.
const FIRST_PART: &[u8] = b"# POINT TO POINT";
const LAST_PART: &[u8] = b"# COLLECTIVES";

/// Header data of a file.
#[derive(Default)]
struct File {
    rank: Option<u32>,
    /// Number of tasks implied by the ranks in the file.
    mentioned: usize,
}

impl File {
    fn parse(text: &Text, phases: &mut Phases) -> Result<Self, InputError> {
        let mut file = Self::default();
        let (mut headed, mut ended) = (false, false);
        for line in text.lines() {
            let Some(kind) = line.words().next().filter(|w| !w.starts_with(b"#")) else {
                headed |= line.trimmed() == FIRST_PART;
                ended |= line.trimmed() == LAST_PART;
                continue;
            };
            let (phase, reversed) = match kind {
                b"E" => ("point-to-point", false),
                b"I" => ("library", false),
                b"S" => ("one-sided", false),
                b"R" => ("one-sided", true),
                b"C" => {
                    file.mention(text, line)?;
                    continue;
                }
                b"D" | b"O2A" | b"A2O" | b"A2A" => continue,
                _ => {
                    let error =
                        text.error_at(line, "a line of kind E, I, S, R, C, D, O2A, A2O or A2A");
                    return Err(error);
                }
            };
            let (from, to, bytes, count) = file.mention(text, line)?;
            let (from, to) = if reversed { (to, from) } else { (from, to) };
            phases.add(phase, (from, to, bytes, count));
        }
        if headed && !ended {
            let expected = format!("{} at the end", lossy(LAST_PART));
            let error = text.error("messages alone", expected);
            return Err(error.hint("was the file cut off? the component writes all parts of a file, with their headings"));
        }
        Ok(file)
    }

    /// Reads `KIND SRC DST N bytes M msgs sent …` and records its ranks.
    fn mention(&mut self, text: &Text, line: Line<'_>) -> Result<Entry, InputError> {
        let words: Vec<&[u8]> = line.words().take(8).collect();
        let [_, from, to, size, b"bytes", count, b"msgs", b"sent"] = words[..] else {
            let expected = "KIND SRC DST N bytes M msgs sent";
            return Err(text.error_at(line, expected).hint("was the file cut off?"));
        };
        let from = task(text, line, from, MAX_TASKS)?;
        let to = task(text, line, to, MAX_TASKS)?;
        if let Some(rank) = self.rank.replace(from).filter(|&r| r != from) {
            return Err(text.error_at(line, format!("lines of rank {rank}, as before")));
        }
        self.mentioned = self.mentioned.max(from.max(to) as usize + 1);
        let size =
            decimal(size).ok_or_else(|| text.error_in(line, size, "bytes (a whole number)"))?;
        Ok((from, to, size as f64, messages(text, line, count)?))
    }
}
