//! Size of a page: a terminal's, or unlimited.

use super::HISTORY;
use rustix::termios::tcgetwinsize;
use std::io::{IsTerminal, stdout};

/// Columns and rows.
#[derive(Clone, Copy)]
pub struct Room {
    columns: usize,
    rows: usize,
}

impl Room {
    /// Unlimited.
    pub const ENDLESS: Self = Self {
        columns: usize::MAX,
        rows: usize::MAX,
    };

    /// Size of the terminal on standard output, now; `None` if it is not a terminal.
    pub fn of_terminal() -> Option<Self> {
        let out = stdout();
        if !out.is_terminal() {
            return None;
        }
        // A terminal of unknown size reports zero.
        let known = |n: u16| if n == 0 { usize::MAX } else { n.into() };
        Some(tcgetwinsize(&out).map_or(Self::ENDLESS, |size| Self {
            columns: known(size.ws_col),
            rows: known(size.ws_row),
        }))
    }

    /// Ticks of a sparkline that fit behind the other columns, as wide as their head is.
    pub fn ticks(self, head: &str) -> usize {
        let left = self.columns.saturating_sub(head.chars().count() + 2);
        left.min(HISTORY)
    }

    /// The page's lines, truncated, and the number of omitted ones; the last row is for the cursor.
    pub fn fit(self, page: &str) -> String {
        let most = self.rows.saturating_sub(1).max(1);
        let lines = page.lines().count();
        let shown = if lines > most { most - 1 } else { lines };
        let mut text = String::with_capacity(page.len());
        for line in page.lines().take(shown) {
            text.extend(line.chars().take(self.columns));
            text.push('\n');
        }
        if shown < lines {
            let more = format!("{} more lines: --top, or a larger window", lines - shown);
            text.extend(more.chars().take(self.columns));
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_to_the_terminal() {
        let of = |columns, rows| Room { columns, rows };
        let page = "abcdef\n▁▂▃▄▅▆\nc\nd\n";
        assert_eq!(Room::ENDLESS.fit(page), page);
        assert_eq!(of(3, 5).fit(page), "abc\n▁▂▃\nc\nd\n");
        assert_eq!(of(9, 4).fit(page), "abcdef\n▁▂▃▄▅▆\n2 more li\n");
        assert_eq!(of(2, 0).fit(page), "4 \n");
        assert_eq!(
            (of(80, 9).ticks(&"x".repeat(70)), of(9, 9).ticks("12345678")),
            (8, 0)
        );
        assert_eq!(Room::ENDLESS.ticks("head"), HISTORY);
    }
}
