//! The causes of a slow network as text.

use super::Table;
use hopbyte_fabric::units::count;
use hopbyte_job::blame::Blame;
use std::fmt::Write as _;

/// The causes in text.
pub fn blame_text(found: &Blame, colour: bool) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "# {} of {} links read",
        count(found.links_read),
        count(found.links)
    );
    for (links, words) in [
        (found.links_loaded, "carry traffic"),
        (found.links_waiting, "wait for credits"),
    ] {
        if let Some(links) = links {
            let _ = write!(out, ", {} {words}", count(links));
        }
    }
    out.push('\n');
    for lack in &found.not_judged {
        let _ = writeln!(out, "# not judged: {lack}");
    }
    if found.causes.is_empty() {
        out.push_str(match found.waiting_is_open {
            false => "nothing to do: no link, node or adapter stands out\n",
            true => "no link, node or adapter stands out in what was judged\n",
        });
        return out;
    }
    let mut table = Table::new(&["<fault", "<kind", "<name", "links waiting", "<jobs on it"]);
    for c in &found.causes {
        table.row([
            c.fault.words().into(),
            c.kind.into(),
            c.name.clone(),
            count(c.waiting_links),
            c.victims.join(", "),
        ]);
    }
    out.push_str(&table.render(colour));
    for c in &found.causes {
        let [first, second] = &c.evidence;
        let _ = writeln!(out, "\n{} {}: {first} {second}", c.kind, c.name);
        if !c.or.is_empty() {
            let _ = write!(out, "cannot tell it from {}", c.or.join(" or "));
            let _ = match &c.probe {
                Some([from, to]) => writeln!(out, "; a transfer from {from} to {to}, alone, would"),
                None => writeln!(out),
            };
        }
    }
    out
}
