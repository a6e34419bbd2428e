//! Performance variables of the MPI library in a record (`HOPBYTE_RECORD_PVARS`): lines `pvar` and `nopvar`.

use serde::Serialize;
use std::collections::BTreeMap;

/// A variable at the end of every rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// `MPI_T`'s class, such as `counter`, `size` or `timer`.
    pub class: String,
    /// Values by rank, in the library's unit; several for a variable with an entry for each rank, none for a rank
    /// without a value.
    pub by_rank: Vec<Vec<f64>>,
    /// The least of a rank's sums.
    pub least: f64,
    /// The most of them.
    pub most: f64,
    /// Sum over ranks.
    pub sum: f64,
}

/// Lines of all ranks.
#[derive(Debug, Default)]
pub(super) struct Variables {
    found: BTreeMap<String, (String, BTreeMap<usize, Vec<f64>>)>,
    /// Reasons by name, and the number of ranks.
    absent: BTreeMap<(String, String), usize>,
}

impl Variables {
    /// Adds a rank's lines.
    pub(super) fn add(&mut self, rank: usize, text: &str) {
        for line in text.lines() {
            let cells: Vec<&str> = line.split('\t').collect();
            match cells[..] {
                ["pvar", name, class, values, ..] => {
                    let Ok(values) = values.split(',').map(str::parse).collect() else {
                        let reason = format!("found values {values:?}, expected numbers");
                        *self.absent.entry((name.to_owned(), reason)).or_default() += 1;
                        continue;
                    };
                    let entry = self.found.entry(name.to_owned()).or_default();
                    class.clone_into(&mut entry.0);
                    entry.1.insert(rank, values);
                }
                ["nopvar", name, reason, ..] => {
                    let key = (name.to_owned(), reason.to_owned());
                    *self.absent.entry(key).or_default() += 1;
                }
                _ => {}
            }
        }
    }

    /// By name, for a job of `ranks`.
    pub(super) fn rows(&self, ranks: usize) -> Vec<Variable> {
        let rows = self.found.iter().map(|(name, (class, values))| {
            let sums = || values.values().map(|v| v.iter().sum::<f64>());
            Variable {
                name: name.clone(),
                class: class.clone(),
                by_rank: (0..ranks)
                    .map(|r| values.get(&r).cloned().unwrap_or_default())
                    .collect(),
                least: sums().fold(f64::INFINITY, f64::min),
                most: sums().fold(f64::NEG_INFINITY, f64::max),
                sum: sums().sum(),
            }
        });
        rows.collect()
    }

    /// Variables without a value, with the reason.
    pub(super) fn notes(&self) -> Vec<String> {
        let notes = self.absent.iter().map(|((name, reason), ranks)| {
            let s = if *ranks == 1 { "" } else { "s" };
            format!("HOPBYTE_RECORD_PVARS: {name}: {reason} ({ranks} rank{s})")
        });
        notes.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_ranks_are_kept_and_absent_ones_told() {
        let mut all = Variables::default();
        all.add(
            0,
            "pvar\tq\tsize\t1,2\nnopvar\tx\tnot there\nP\t0\t1\t8\t1\n",
        );
        all.add(
            2,
            "pvar\tq\tsize\t5\npvar\tbad\tsize\t1,x\nnopvar\tx\tnot there\n",
        );
        let rows = all.rows(3);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].by_rank, [vec![1.0, 2.0], vec![], vec![5.0]]);
        assert_eq!((rows[0].least, rows[0].most, rows[0].sum), (3.0, 5.0, 8.0));
        assert_eq!(
            all.notes(),
            [
                "HOPBYTE_RECORD_PVARS: bad: found values \"1,x\", expected numbers (1 rank)",
                "HOPBYTE_RECORD_PVARS: x: not there (2 ranks)"
            ]
        );
    }
}
