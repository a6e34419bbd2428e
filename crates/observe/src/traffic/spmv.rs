//! Traffic of repeated sparse matrix-vector products: `spmv:RANKS:FILE`.
//!
//! Rows and vector elements are distributed in blocks of equal length (PETSc's and Trilinos' default). Before each
//! product a rank receives once every value that its rows need and another rank holds.

use super::entries::MAX_TASKS;
use super::matrix_market;
use crate::ObserveError;
use crate::text::{Text, decimal};
use hopbyte_fabric::{Exchange, InputError, Traffic};

/// Prefix of such a spec.
pub(super) const START: &str = "spmv:";

/// Traffic of one product: of `spmv:RANKS:FILE`, FILE a sparse matrix (Matrix Market).
pub(super) fn traffic(spec: &str) -> Result<Traffic, ObserveError> {
    let wrong = |found: &str, expected: &str| {
        let error = InputError::new(spec, found, expected).of(hopbyte_fabric::Class::Spec);
        error.hint("write spmv:RANKS:FILE, FILE a sparse matrix in Matrix Market's coordinates")
    };
    let rest = spec.strip_prefix(START).unwrap_or_default();
    let (ranks, file) = rest.split_once(':').unwrap_or((rest, ""));
    let ranks = decimal(ranks.as_bytes())
        .filter(|r| (1..=MAX_TASKS as u64).contains(r))
        .ok_or_else(|| wrong(ranks, &format!("1 to {MAX_TASKS} ranks")))?;
    if file.is_empty() {
        return Err(wrong("no file", "a file after the ranks").into());
    }
    let mut traffic = product(&Text::read(file.as_ref(), super::entries::LIMITS)?, ranks)?;
    spec.clone_into(&mut traffic.source);
    Ok(traffic)
}

/// Exchange between `ranks` ranks before a product of a matrix (Matrix Market) and a vector.
///
/// # Errors
/// Not a square sparse matrix with a row for each rank; the error names the line.
pub fn product(text: &Text, ranks: u64) -> Result<Traffic, ObserveError> {
    let matrix = matrix_market::sparse(text)?;
    if ranks == 0 || matrix.rows < ranks as usize {
        let found = format!("{} rows", matrix.rows);
        let expected = format!("at least one row for each of {ranks} ranks");
        return Err(InputError::new(text.file(), found, expected).into());
    }
    let blocks = Blocks {
        rows: matrix.rows as u64,
        ranks,
    };
    // Pairs of value and receiving rank, each once.
    let mut needed: Vec<(u32, u32)> = matrix
        .entries
        .into_iter()
        .map(|(row, column)| (column, blocks.owner(row)))
        .filter(|&(column, to)| blocks.owner(column) != to)
        .collect();
    needed.sort_unstable();
    needed.dedup();
    let mut sent: Vec<(u32, u32)> = needed
        .into_iter()
        .map(|(column, to)| (blocks.owner(column), to))
        .collect();
    sent.sort_unstable();
    let messages = sent.chunk_by(|a, b| a == b).map(|values| {
        (
            values[0].0,
            values[0].1,
            values.len() as f64 * matrix.value_bytes,
            1,
        )
    });
    let exchange = Exchange::new(ranks as usize, messages)?;
    Ok(Traffic::single(text.file(), exchange))
}

/// Blocks of rows whose lengths differ by at most one, longer ones first.
struct Blocks {
    rows: u64,
    ranks: u64,
}

impl Blocks {
    fn owner(&self, row: u32) -> u32 {
        let (row, short) = (u64::from(row), self.rows / self.ranks);
        let longer = self.rows % self.ranks;
        let boundary = longer * (short + 1);
        let owner = if row < boundary {
            row / (short + 1)
        } else {
            longer + (row - boundary) / short
        };
        owner as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Limits;

    fn sent(ranks: u64, content: &str) -> Result<Vec<(u32, u32, f64)>, String> {
        let text = Text::from_bytes("m.mtx", content.as_bytes(), Limits::TEXT).unwrap();
        let traffic = product(&text, ranks).map_err(|e| e.to_string())?;
        assert_eq!(traffic.tasks, ranks as usize);
        let total = traffic.total();
        Ok(total
            .iter()
            .map(|(from, m)| (from, m.to, m.bytes))
            .collect())
    }

    #[test]
    fn a_value_goes_once_to_each_rank_whose_rows_need_it() {
        // Five rows on two ranks: 0 to 2 and 3 to 4. Both rows of the second need column 1 (one value).
        let general = "%%MatrixMarket matrix coordinate real general\n5 5 5\n\
                       1 1 -2\n4 2 1e-3\n5 2 -7\n5 3 1\n1 5 4\n";
        assert_eq!(sent(2, general).unwrap(), [(0, 1, 16.0), (1, 0, 8.0)]);
        assert!(sent(1, general).unwrap().is_empty());
        // The other half of symmetric, skew-symmetric and Hermitian ones; complex values are twice as long.
        for (kind, bytes) in [
            ("real symmetric", 8.0),
            ("integer skew-symmetric", 8.0),
            ("complex hermitian", 16.0),
            ("pattern symmetric", 8.0),
        ] {
            let values = match kind.split(' ').next() {
                Some("complex") => "1 -1",
                Some("pattern") => "",
                _ => "-3",
            };
            let half = format!("%%MatrixMarket matrix coordinate {kind}\n4 4 1\n4 1 {values}\n");
            assert_eq!(
                sent(4, &half).unwrap(),
                [(0, 3, bytes), (3, 0, bytes)],
                "{kind}"
            );
        }
    }

    #[test]
    fn a_tridiagonal_matrix_is_a_chain() {
        let n = 1000;
        let entries: String = (2..=n).map(|i| format!("{i} {} -1\n", i - 1)).collect();
        let content = format!(
            "%%MatrixMarket matrix coordinate real symmetric\n{n} {n} {}\n{entries}",
            n - 1
        );
        let chain = sent(7, &content).unwrap();
        assert_eq!(chain.len(), 12);
        assert!(
            chain
                .iter()
                .all(|&(a, b, bytes)| a.abs_diff(b) == 1 && bytes == 8.0)
        );
    }

    #[test]
    fn matrices_that_cannot_be_spread_are_refused() {
        let head = "%%MatrixMarket matrix";
        for (content, found) in [
            (
                format!("{head} coordinate real general\n3 2 1\n1 1 1\n"),
                "m.mtx:2: found 2",
            ),
            (
                format!("{head} coordinate real general\n3 3 1\n1 1 1\n"),
                "3 rows",
            ),
            (
                format!("{head} coordinate real general\n9999999999 3 1\n1 1 1\n"),
                "9999999999",
            ),
            (
                format!("{head} coordinate real general\n8 8 1\n1 9 1\n"),
                "9",
            ),
            (
                format!("{head} coordinate real general\n8 8 1\n1 8\n"),
                "1 8",
            ),
            (
                format!("{head} coordinate real general\n8 8 1\n1 8 nan\n"),
                "nan",
            ),
            (
                format!("{head} coordinate real general\n8 8 2\n1 8 1\n"),
                "cut off",
            ),
            (
                format!("{head} array real general\n2 2\n1\n2\n3\n4\n"),
                "array",
            ),
            ("hello".into(), "hello"),
            (String::new(), "nothing"),
        ] {
            let error = sent(4, &content).unwrap_err();
            assert!(
                error.contains(found) && error.contains("expected"),
                "{content:?}: {error}"
            );
        }
        for (spec, found) in [
            ("spmv:0:a.mtx", "0"),
            ("spmv:x:a.mtx", "x"),
            ("spmv:1000000000000:a.mtx", "1000000000000"),
            ("spmv:4", "no file"),
            ("spmv:4:/nonexistent/a.mtx", "/nonexistent/a.mtx"),
        ] {
            let error = traffic(spec).unwrap_err().to_string();
            assert!(error.contains(found), "{spec}: {error}");
        }
    }
}
