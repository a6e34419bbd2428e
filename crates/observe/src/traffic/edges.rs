//! Lists of pairs: CSV `src,dst,bytes[,messages[,phase]]`, triplets, CHOLMOD's `.tri`, NPB's `.topo`.

use super::entries::{
    Entry, MAX_TASKS, Phases, bytes, content_lines, fields, messages, single, task, task_count,
};
use super::record::INCOMPLETE;
use crate::ObserveError;
use crate::text::{Line, Text, decimal, float, lossy};
use hopbyte_fabric::{InputError, Traffic};

/// CSV with a header of `src`, `dst`, `bytes` and optionally `messages` and `phase` in any order, or without a header
/// in that order. Ranks start at 0. The highest rank gives the number of tasks; a line of zero bytes from it to
/// itself reserves an idle task.
pub(super) fn csv(text: &Text) -> Result<Traffic, ObserveError> {
    let mut lines = content_lines(text).peekable();
    let mut columns = Columns {
        count: 0,
        places: [Some(0), Some(1), Some(2), None],
        phase: None,
    };
    if let Some(&first) = lines.peek() {
        columns.count = fields(first).count();
        if fields(first).any(|cell| float(cell).is_none()) {
            columns = Columns::of_header(text, first)?;
            lines.next();
        } else if columns.count == 4 {
            columns.places[3] = Some(3);
        }
    }
    let mut entries = Vec::new();
    let mut phases = columns.phase.map(|at| (at, Phases::default()));
    for line in lines {
        let entry = columns.entry(text, line)?;
        if let Some((at, phases)) = &mut phases {
            let name = fields(line).nth(*at).unwrap_or_default();
            phases.add(&lossy(name), entry);
        }
        entries.push(entry);
    }
    let mut traffic = match phases {
        Some((_, phases)) => {
            let all = phases.finish(text.file(), tasks_of(text, &entries)?);
            all.map(|traffic| Traffic {
                in_turn: true,
                ..traffic
            })
        }
        None => pairs(text, entries),
    }?;
    traffic.notes.extend(incomplete(text));
    Ok(traffic)
}

/// The first line of a list that `hopbyte record` wrote of a job that did not end by itself.
fn incomplete(text: &Text) -> Option<String> {
    let first = text.lines().next()?.bytes.strip_prefix(b"# ")?;
    first
        .starts_with(INCOMPLETE.as_bytes())
        .then(|| lossy(first).into_owned())
}

struct Columns {
    count: usize,
    /// Columns of `src`, `dst`, `bytes`, `messages`.
    places: [Option<usize>; 4],
    phase: Option<usize>,
}

impl Columns {
    fn of_header(text: &Text, line: Line<'_>) -> Result<Self, InputError> {
        let names: Vec<Vec<u8>> = fields(line).map(<[u8]>::to_ascii_lowercase).collect();
        let place = |name: &str| names.iter().position(|n| n == name.as_bytes());
        let places = ["src", "dst", "bytes", "messages"].map(place);
        if places[..3].iter().any(Option::is_none) {
            return Err(text
                .error_at(line, "the columns src, dst, bytes and perhaps messages")
                .hint("the header is src,dst,bytes,messages; a list without a header is in that order"));
        }
        Ok(Self {
            count: names.len(),
            places,
            phase: place("phase"),
        })
    }

    fn entry(&self, text: &Text, line: Line<'_>) -> Result<Entry, InputError> {
        let row: Vec<&[u8]> = fields(line).collect();
        if row.len() != self.count {
            let expected = format!("{} cells, as in the first line", self.count);
            return Err(text
                .error(format!("{} cells", row.len()), expected)
                .at(line.number));
        }
        let cell = |i: usize| self.places[i].and_then(|at| row.get(at)).copied();
        let missing = || text.error_at(line, "src,dst,bytes[,messages]");
        Ok((
            task(text, line, cell(0).ok_or_else(missing)?, MAX_TASKS)?,
            task(text, line, cell(1).ok_or_else(missing)?, MAX_TASKS)?,
            bytes(text, line, cell(2).ok_or_else(missing)?)?,
            cell(3).map_or(Ok(0), |word| messages(text, line, word))?,
        ))
    }
}

/// Lines `src dst bytes [messages]` between blanks, ranks from 0, without a header (CSparse).
pub(super) fn triplets(text: &Text) -> Result<Traffic, ObserveError> {
    let mut entries = Vec::new();
    for line in content_lines(text) {
        entries.push(triplet(text, line, MAX_TASKS)?);
    }
    if let (true, Some(head)) = (begins_with_sizes(&entries), content_lines(text).next()) {
        let expected = "%%MatrixMarket above rows, columns and entries";
        return Err(text
            .error_at(head, expected)
            .hint("without it, whether the matrix is symmetric is unknown: add %%MatrixMarket matrix coordinate real general (or symmetric); a list of ranks from 0 begins with the line src,dst,bytes")
            .into());
    }
    pairs(text, entries)
}

/// Whether the first of some triplets is the size line of a Matrix Market file, and the others its indices from 1: the
/// file lacks its first line.
fn begins_with_sizes(entries: &[Entry]) -> bool {
    let [(rows, columns, count, 0), rest @ ..] = entries else {
        return false;
    };
    let is_entry = |e: &Entry| (1..=*rows).contains(&e.0) && (1..=*columns).contains(&e.1);
    let all = rest.len() as f64;
    // A square matrix may have been cut too.
    (*count == all || (rows == columns && *count > all))
        && !rest.is_empty()
        && rest.iter().all(is_entry)
}

/// The number of tasks follows from the highest rank.
fn pairs(text: &Text, entries: Vec<Entry>) -> Result<Traffic, ObserveError> {
    single(text, tasks_of(text, &entries)?, entries)
}

fn tasks_of(text: &Text, entries: &[Entry]) -> Result<usize, InputError> {
    let tasks = entries.iter().map(|e| e.0.max(e.1) as usize + 1).max();
    tasks.ok_or_else(|| text.error("nothing", "at least one pair of ranks"))
}

fn triplet(text: &Text, line: Line<'_>, tasks: usize) -> Result<Entry, InputError> {
    let row: Vec<&[u8]> = line.words().collect();
    let (pair, count) = match row[..] {
        [from, to, size] => ([from, to, size], None),
        [from, to, size, count] => ([from, to, size], Some(count)),
        _ => return Err(text.error_at(line, "sender, receiver and bytes")),
    };
    Ok((
        task(text, line, pair[0], tasks)?,
        task(text, line, pair[1], tasks)?,
        bytes(text, line, pair[2])?,
        count.map_or(Ok(0), |word| messages(text, line, word))?,
    ))
}

/// NPB `.topo`: the number of ranks, then triplets.
pub(super) fn topo(text: &Text) -> Result<Traffic, ObserveError> {
    let mut lines = content_lines(text);
    let head = lines
        .next()
        .ok_or_else(|| text.error("nothing", "the number of ranks"))?;
    let tasks = task_count(text, head, head.trimmed())?;
    let mut entries = Vec::new();
    for line in lines {
        entries.push(triplet(text, line, tasks)?);
    }
    let senders = entries.iter().map(|e| e.0 as usize + 1).max().unwrap_or(0);
    let mut traffic = single(text, tasks, entries)?;
    if senders < tasks {
        let silent = tasks - senders;
        traffic.notes.push(format!(
            "the last {silent} of {tasks} ranks send nothing: was the file cut?"
        ));
    }
    Ok(traffic)
}

/// CHOLMOD's triplets: a header `rows columns entries stype`, then `i j [value]` from 1. `stype` -1 or 1 means that
/// only one half of a symmetric matrix is listed.
pub(super) fn cholmod(text: &Text) -> Result<Traffic, ObserveError> {
    let mut lines = content_lines(text);
    let head = lines
        .next()
        .ok_or_else(|| text.error("nothing", "rows, columns, entries and symmetry"))?;
    let words: Vec<&[u8]> = head.words().collect();
    let [rows, columns, count, symmetry] = words[..] else {
        let expected = "rows, columns, entries and symmetry";
        return Err(text.error_at(head, expected).into());
    };
    let tasks = square(text, head, rows, columns)?;
    let symmetric = match symmetry {
        b"0" => false,
        b"1" | b"-1" => true,
        other => {
            return Err(text
                .error_in(head, other, "a symmetry of -1, 0 or 1")
                .into());
        }
    };
    let mut entries = Vec::new();
    let mut found = 0u64;
    for line in lines {
        let words: Vec<&[u8]> = line.words().collect();
        let (i, j, value) = match words[..] {
            [i, j] => (i, j, 1.0),
            [i, j, value] => (i, j, bytes(text, line, value)?),
            _ => return Err(text.error_at(line, "row, column and value").into()),
        };
        let (i, j) = (
            from_one(text, line, i, tasks)?,
            from_one(text, line, j, tasks)?,
        );
        entries.push((i, j, value, 0));
        if symmetric && i != j {
            entries.push((j, i, value, 0));
        }
        found += 1;
    }
    same_count(text, head, count, found)?;
    single(text, tasks, entries)
}

/// Number of rows of a square matrix.
pub(super) fn square(
    text: &Text,
    line: Line<'_>,
    rows: &[u8],
    columns: &[u8],
) -> Result<usize, InputError> {
    let tasks = task_count(text, line, rows)?;
    if decimal(columns) != Some(tasks as u64) {
        return Err(text
            .error_in(line, columns, format!("{tasks} columns, as there are rows"))
            .hint("traffic is square: every task sends and receives"));
    }
    Ok(tasks)
}

/// An index that starts at 1.
pub(super) fn from_one(
    text: &Text,
    line: Line<'_>,
    word: &[u8],
    tasks: usize,
) -> Result<u32, InputError> {
    decimal(word)
        .filter(|n| (1..=tasks as u64).contains(n))
        .map(|n| n as u32 - 1)
        .ok_or_else(|| text.error_in(line, word, format!("an index from 1 to {tasks}")))
}

/// Checks the number of entries against the header.
pub(super) fn same_count(
    text: &Text,
    head: Line<'_>,
    said: &[u8],
    found: u64,
) -> Result<(), InputError> {
    if decimal(said) == Some(found) {
        return Ok(());
    }
    Err(text
        .error_in(head, said, format!("{found} entries, as many as follow"))
        .hint("was the file cut off?"))
}
