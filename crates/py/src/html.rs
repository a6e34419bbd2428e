//! Tables that notebooks show.

use hopbyte_view::draw::escape;

/// Rows that a notebook shows.
pub const ROWS: usize = 20;

/// A table with a caption; text is escaped. Rows beyond [`ROWS`] are counted.
pub fn table<R>(caption: &str, head: &[&str], rows: R) -> String
where
    R: IntoIterator<Item = Vec<String>, IntoIter: ExactSizeIterator>,
{
    let mut rows = rows.into_iter();
    let cells = |tag: &str, words: &mut dyn Iterator<Item = &str>| -> String {
        let cells = words.map(|w| format!("<{tag}>{}</{tag}>", escape(w)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let mut body = String::new();
    for row in rows.by_ref().take(ROWS) {
        body += &cells("td", &mut row.iter().map(String::as_str));
    }
    let rest = match rows.len() {
        0 => String::new(),
        n => format!("<p>… and {n} more rows</p>"),
    };
    let head = cells("th", &mut head.iter().copied());
    let caption = escape(caption);
    format!(
        "<table><caption>{caption}</caption><thead>{head}</thead><tbody>{body}</tbody></table>{rest}"
    )
}
