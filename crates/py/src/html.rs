//! Tables that notebooks show.

use hopbyte_view::draw::escape;

/// Rows that a notebook shows.
pub const ROWS: usize = 20;

/// A table with a caption; text is escaped. Rows beyond [`ROWS`] are counted.
pub fn table(caption: &str, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let cells = |tag: &str, words: &mut dyn Iterator<Item = &str>| -> String {
        let cells = words.map(|w| format!("<{tag}>{}</{tag}>", escape(w)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let mut body = String::new();
    let mut more = 0;
    for (at, row) in rows.into_iter().enumerate() {
        if at < ROWS {
            body += &cells("td", &mut row.iter().map(String::as_str));
        } else {
            more += 1;
        }
    }
    let rest = match more {
        0 => String::new(),
        n => format!("<p>… and {n} more rows</p>"),
    };
    let head = cells("th", &mut head.iter().copied());
    let caption = escape(caption);
    format!(
        "<table><caption>{caption}</caption><thead>{head}</thead><tbody>{body}</tbody></table>{rest}"
    )
}
