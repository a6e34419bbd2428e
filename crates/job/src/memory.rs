//! Memory of this host: kinds, nodes, page sizes, and the requests that can be met, as `hopbyte-memory` of `mpi/` finds
//! them. The kinds are decided there alone, so that a job and this answer cannot differ.

use crate::error::{Context, Result, refuse};
use crate::record::launch::beside;
use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// The answer in both forms, whole lines.
#[derive(Debug)]
pub struct Memory {
    /// A JSON object a line.
    pub json: String,
    /// Text, with units in the headings.
    pub text: String,
}

#[derive(Deserialize)]
#[serde(tag = "row", rename_all = "lowercase")]
enum Row {
    Node {
        node: u32,
        kind: String,
        reason: String,
        allowed: bool,
        total_bytes: u64,
        free_bytes: u64,
        file_bytes: u64,
        huge_pages: Vec<Huge>,
    },
    Pages {
        page_bytes: u64,
        base: bool,
        total: u64,
        free: u64,
        on_demand: u64,
        transparent: bool,
        transparent_shared: bool,
    },
    Request {
        kind: String,
        page_bytes: u64,
        works: bool,
        tried: bool,
        reason: Option<String>,
    },
}

#[derive(Deserialize)]
struct Huge {
    page_bytes: u64,
    free: u64,
}

/// Reads the memory of this host (`/`), or of a folder with a copy of its `sys` and `proc`.
pub fn read(root: &Path) -> Result<Memory> {
    let places = ["libexec/hopbyte".into(), "build/mpi".into()];
    let program = beside(
        "hopbyte-memory",
        None,
        &places,
        ("make -C mpi doctor", None),
    )?;
    let mut command = Command::new(&program);
    if root != Path::new("/") {
        if !root.join("sys/devices/system/node").is_dir() {
            refuse!("{}: no sys/devices/system/node there", root.display());
        }
        command.arg(root);
    }
    let done = command
        .output()
        .with_context(|| format!("running {}", program.display()))?;
    if !done.status.success() {
        refuse!("{}", String::from_utf8_lossy(&done.stderr).trim_end());
    }
    let json = String::from_utf8_lossy(&done.stdout).into_owned();
    let text = text(&json)?;
    Ok(Memory { json, text })
}

fn text(json: &str) -> Result<String> {
    let mut text =
        String::from("# node  kind     total MiB   free MiB  files MiB  free huge pages\n");
    let mut heading = false;
    for line in json.lines() {
        row(&serde_json::from_str(line)?, &mut text, &mut heading);
    }
    Ok(text)
}

/// Appends a row. Writing to a string cannot fail.
fn row(row: &Row, text: &mut String, heading: &mut bool) {
    let yes = |is: &bool, word: &'static str| if *is { word } else { "" };
    let _ = match row {
        Row::Node {
            node,
            kind,
            reason,
            allowed,
            total_bytes,
            free_bytes,
            file_bytes,
            huge_pages,
        } => {
            let huge: Vec<String> = huge_pages
                .iter()
                .map(|h| format!("{} of {}", h.free, page(h.page_bytes)))
                .collect();
            writeln!(
                text,
                "{node:6}  {kind:8} {:9} {:10} {:10}  {}; {reason}{}",
                total_bytes >> 20,
                free_bytes >> 20,
                file_bytes >> 20,
                huge.join(", "),
                yes(&!allowed, "; not for this process (cpuset)"),
            )
        }
        Row::Pages { base: true, .. } => Ok(()),
        Row::Pages {
            page_bytes,
            total,
            free,
            on_demand,
            transparent,
            transparent_shared,
            ..
        } => writeln!(
            text,
            "# pages of {}: {free} of {total} free, {on_demand} on demand{}{}",
            page(*page_bytes),
            yes(transparent, "; transparent ones for private memory"),
            yes(transparent_shared, " and for shared memory"),
        ),
        Row::Request {
            kind,
            page_bytes,
            works,
            tried,
            reason,
        } => {
            if !*heading {
                *heading = true;
                let how = if *tried { "tried" } else { "by the numbers" };
                let _ = writeln!(text, "# requests of one page with policy Mandatory, {how}");
            }
            let answer = if *works { "yes" } else { "no" };
            let why = reason.as_ref().map_or(String::new(), |r| format!(": {r}"));
            writeln!(
                text,
                "{answer:4}{kind}, pages of {}{why}",
                page(*page_bytes)
            )
        }
    };
}

/// 2M.
fn page(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let found = units.iter().find(|(shift, _)| bytes >> shift > 0);
    found.map_or(bytes.to_string(), |(shift, unit)| {
        format!("{}{unit}", bytes >> shift)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_every_row() {
        let json = concat!(
            r#"{"schema":"s","row":"node","node":2,"kind":"HBM","reason":"bandwidth","cpus":false,"allowed":false,"#,
            r#""total_bytes":268435456,"free_bytes":134217728,"file_bytes":0,"bandwidth_mb_per_s":1,"latency_ns":1,"#,
            r#""huge_pages":[{"page_bytes":2097152,"free":6}]}"#,
            "\n",
            r#"{"row":"pages","page_bytes":2097152,"base":false,"total":8,"free":6,"on_demand":0,"#,
            r#""transparent":true,"transparent_shared":false}"#,
            "\n",
            r#"{"row":"request","kind":"CXL","page_bytes":4096,"works":false,"tried":true,"reason":"none"}"#,
            "\n"
        );
        let text = text(json).unwrap();
        assert!(text.contains(
            "     2  HBM            256        128          0  6 of 2M; bandwidth; not for"
        ));
        assert!(text.contains(
            "# pages of 2M: 6 of 8 free, 0 on demand; transparent ones for private memory\n"
        ));
        assert!(text.ends_with("Mandatory, tried\nno  CXL, pages of 4K: none\n"));
    }
}
