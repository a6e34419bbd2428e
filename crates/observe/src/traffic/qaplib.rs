//! QAPLIB instances (`.dat`): n, then two matrices of n × n numbers with any line breaks (Burkard, Karisch, Rendl 1997).
//!
//! The format does not say which matrix has the flows. The other one has distances: if exactly one of the two is
//! symmetric with a zero diagonal and obeys the triangle inequality, it is the distances. Otherwise those with fewer zeros
//! off the diagonal are assumed to be, or the first of two with as many.

use super::entries::{Entry, MAX_TASKS, bytes, content_lines, single};
use crate::ObserveError;
use crate::text::{Line, Text, decimal, float};
use hopbyte_fabric::Traffic;
use std::collections::BTreeSet;

/// Maximum size of an instance: the number of its numbers is checked against the file.
const MOST: usize = 4096;

/// Whether the first number n is followed by 2 n² more, and its line, of `head` numbers, ends with it or after a matrix: other
/// formats begin with lines of a few numbers. Lines of three numbers below it are a list (NPB's `.topo`), unless n is three
/// and they do not list pairs.
pub(super) fn is_instance(text: &Text, head: usize, is_list: bool) -> bool {
    counts(text).is_some_and(|(n, count)| {
        let begins = head == 1 || head as u64 > n * n;
        begins && count == 2 * n * n && (!is_list || (n == 3 && !lists_pairs(text)))
    })
}

/// Whether the lines below the first begin with every pair of three ranks once, as those of a `.topo` with as many numbers as
/// an instance of three.
fn lists_pairs(text: &Text) -> bool {
    let pair = |line: Line<'_>| {
        let mut words = line.words().map(decimal);
        let (from, to) = (words.next()??, words.next()??);
        (from < 3 && to < 3 && from != to).then_some((from, to))
    };
    let pairs: Option<BTreeSet<_>> = content_lines(text).skip(1).map(pair).collect();
    pairs.is_some_and(|pairs| pairs.len() == 6)
}

/// The first number n, and the number of numbers after it up to 2 n²; `None` for other files.
fn counts(text: &Text) -> Option<(u64, u64)> {
    let mut words = content_lines(text).flat_map(|l| l.words().collect::<Vec<_>>());
    let first = words.next().and_then(decimal);
    let n = first.filter(|&n| (2..=MOST as u64).contains(&n))?;
    let mut count = 0;
    for word in words {
        count += 1;
        if count > 2 * n * n || float(word).is_none() {
            return None;
        }
    }
    Some((n, count))
}

/// What to say of a file of no known format that may be the beginning of an instance.
pub(super) fn may_be_cut(text: &Text) -> Option<String> {
    let alone = content_lines(text).next()?.words().count() == 1;
    let (n, count) = counts(text).filter(|_| alone)?;
    Some(format!(
        "a QAPLIB instance of size {n} has {} numbers after the first, this file {count}: was it cut off?",
        2 * n * n
    ))
}

pub(super) fn read(text: &Text) -> Result<Traffic, ObserveError> {
    let mut numbers = Vec::new();
    let mut tasks = 0;
    for line in content_lines(text) {
        for word in line.words() {
            if tasks == 0 {
                let n = decimal(word).filter(|&n| n > 0 && n <= MAX_TASKS.min(MOST) as u64);
                tasks = n.ok_or_else(|| text.error_in(line, word, "the size of the instance"))?
                    as usize;
                continue;
            }
            numbers.push(bytes(text, line, word)?);
        }
    }
    let each = tasks * tasks;
    if tasks == 0 || numbers.len() != 2 * each {
        let found = format!("{} numbers", numbers.len());
        return Err(text
            .error(found, format!("two matrices of {tasks} x {tasks}"))
            .into());
    }
    let (a, b) = numbers.split_at(each);
    let metric = (is_metric(a, tasks), is_metric(b, tasks));
    let flows_first = match metric {
        (true, false) => false,
        (false, true) => true,
        _ => zeros(a, tasks) > zeros(b, tasks),
    };
    let flows = if flows_first { a } else { b };
    let at = |i: usize| ((i / tasks) as u32, (i % tasks) as u32);
    let entries: Vec<Entry> = flows
        .iter()
        .enumerate()
        .filter(|(_, v)| **v > 0.0)
        .map(|(i, &v)| (at(i).0, at(i).1, v, 0))
        .collect();
    let mut traffic = single(text, tasks, entries)?;
    let (one, other) = if flows_first {
        ("first", "second")
    } else {
        ("second", "first")
    };
    let why = match metric.0 == metric.1 {
        true => " (assumed: it has more zeros, or as many and is the second)",
        false => "",
    };
    traffic.notes.push(format!(
        "QAPLIB: flows are the {one} matrix{why}; the {other} one, distances, is not used: the fabric has them"
    ));
    Ok(traffic)
}

/// Zeros off the diagonal.
fn zeros(matrix: &[f64], n: usize) -> usize {
    let off = matrix.iter().enumerate().filter(|(i, _)| i / n != i % n);
    off.filter(|(_, v)| **v == 0.0).count()
}

/// Whether a matrix is symmetric, zero on the diagonal, and obeys the triangle inequality.
fn is_metric(matrix: &[f64], n: usize) -> bool {
    let d = |i: usize, j: usize| matrix[i * n + j];
    (0..n).all(|i| {
        d(i, i) == 0.0
            && (0..n).all(|j| d(i, j) == d(j, i) && (0..n).all(|k| d(i, j) <= d(i, k) + d(k, j)))
    })
}
