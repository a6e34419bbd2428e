//! Lists of nodes: `miriel[063-065]`, `nid[00010-00020],nid00030:8`, `@hosts.txt`, `all`.

use crate::ObserveError;
use crate::text::{Limits, Text, lossy};
use hopbyte_fabric::{Allocation, Fabric, InputError, NodeId};
use std::path::Path;

/// Maximum number of bracket ranges in a name.
const MAX_RANGES: usize = 8;
/// Maximum length of a pattern with ranges; every expanded name repeats it.
const MAX_PATTERN: usize = 1024;
/// Maximum number of names that a list may expand to.
const MAX_NAMES: usize = 1 << 20;

/// The allocation of a list of nodes, in its order; nodes without a number of slots in the list get `ranks_per_node`.
pub fn parse_nodes(
    list: &str,
    ranks_per_node: u32,
    fabric: &Fabric,
) -> Result<Allocation, ObserveError> {
    let nodes = parse_node_list(list, fabric)?;
    let nodes = nodes
        .into_iter()
        .map(|(node, slots)| (node, slots.unwrap_or(ranks_per_node)))
        .collect();
    Ok(Allocation::new(fabric, nodes)?)
}

/// The nodes of a list with their slots: names separated by commas, with ranges in brackets (`c[0-1]n[00-03,7]`),
/// each with an optional `:SLOTS`; `@FILE` for a file of such lists, one or several per line; `all` for all nodes.
pub fn parse_node_list(
    list: &str,
    fabric: &Fabric,
) -> Result<Vec<(NodeId, Option<u32>)>, ObserveError> {
    let list = list.trim();
    if list == "all" {
        return Ok(fabric.node_ids().map(|n| (n, None)).collect());
    }
    let mut nodes = Vec::new();
    let Some(file) = list.strip_prefix('@') else {
        let place = Place {
            file: "node list",
            line: None,
        };
        add(list, fabric, place, &mut nodes)?;
        if nodes.is_empty() {
            return Err(place.wrong("", "names of nodes").into());
        }
        return Ok(nodes);
    };
    let text = Text::read(Path::new(file), Limits::TEXT)?;
    for line in text.lines() {
        let content = lossy(line.bytes);
        let content = content.split('#').next().unwrap_or_default();
        let place = Place {
            file: text.file(),
            line: Some(line.number),
        };
        // Node names may contain blanks, so only commas and line ends separate them.
        add(content, fabric, place, &mut nodes)?;
    }
    if nodes.is_empty() {
        return Err(text.error("nothing", "names of nodes").into());
    }
    Ok(nodes)
}

/// Position of a list, for errors.
#[derive(Clone, Copy)]
struct Place<'a> {
    file: &'a str,
    line: Option<u64>,
}

impl Place<'_> {
    fn wrong(self, found: &str, expected: &str) -> InputError {
        let error = InputError::new(self.file, found, expected)
            .hint("a list is a,b:4,n[001-003,7] or @FILE or all; b:4 is node b with 4 slots");
        match self.line {
            Some(line) => error.at(line),
            None => error,
        }
    }
}

fn add(
    list: &str,
    fabric: &Fabric,
    place: Place<'_>,
    nodes: &mut Vec<(NodeId, Option<u32>)>,
) -> Result<(), ObserveError> {
    for item in items(list).ok_or_else(|| place.wrong(list, "closed brackets"))? {
        let item = item.trim();
        if item.is_empty() {
            continue;
        }
        // The whole name first: names may contain a colon or brackets.
        if let Ok(node) = fabric.find_node(item) {
            nodes.push((node, None));
            continue;
        }
        let (names, slots) = match item.rsplit_once(':') {
            Some((names, slots)) if slots.bytes().all(|b| b.is_ascii_digit()) => {
                let slots = slots.parse().ok().filter(|&s| s > 0);
                let slots =
                    slots.ok_or_else(|| place.wrong(item, "a number of slots above zero"))?;
                (names, Some(slots))
            }
            _ => (item, None),
        };
        let names = Some(names)
            .filter(|n| n.matches('[').count() <= MAX_RANGES)
            .and_then(expand)
            .ok_or_else(|| place.wrong(item, "ranges such as [001-016,20], upwards"))?;
        if nodes.len() + names.len() > MAX_NAMES {
            let expected = format!("at most {MAX_NAMES} nodes");
            return Err(place.wrong(item, &expected).into());
        }
        for name in names {
            let found = fabric.find_node(&name);
            let node = found.map_err(|e| {
                super::places::no_node(place.wrong(&name, "a node of the fabric"), &e)
            })?;
            nodes.push((node, slots));
        }
    }
    Ok(())
}

/// All names of a list with bracket ranges, not resolved in a fabric; `None` if a bracket is not closed, a range is
/// descending, or there are more than 2^20 names.
pub fn host_list(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for item in items(list)? {
        let item = item.trim();
        if item.matches('[').count() > MAX_RANGES {
            return None;
        }
        if !item.is_empty() {
            names.extend(expand(item)?);
        }
        if names.len() > MAX_NAMES {
            return None;
        }
    }
    Some(names)
}

/// Splits at commas outside brackets and parentheses; `None` if one is not closed.
fn items(list: &str) -> Option<Vec<&str>> {
    let mut items = Vec::new();
    let (mut depth, mut start) = (0i32, 0);
    for (i, c) in list.char_indices() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&list[start..i]);
                start = i + 1;
            }
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    items.push(&list[start..]);
    (depth == 0).then_some(items)
}

/// All names of a pattern with bracket ranges, the last bracket varying fastest. Leading zeros are kept.
fn expand(pattern: &str) -> Option<Vec<String>> {
    if pattern.len() > MAX_PATTERN && pattern.contains('[') {
        return None;
    }
    let Some((head, rest)) = pattern.split_once('[') else {
        return Some(vec![pattern.to_owned()]);
    };
    let (ranges, tail) = rest.split_once(']')?;
    let tails = expand(tail)?;
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        // The widths of both bounds must be equal: all names have the same width.
        let digits = |s: &str| (1..=20).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(from) || !digits(to) {
            return None;
        }
        let (low, high): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        if low > high || high - low >= MAX_NAMES as u64 {
            return None;
        }
        for number in low..=high {
            for tail in &tails {
                names.push(format!("{head}{number:0width$}{tail}", width = from.len()));
            }
            if names.len() > MAX_NAMES {
                return None;
            }
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;

    fn list(text: &str, fabric: &Fabric) -> Result<Vec<(String, Option<u32>)>, String> {
        let nodes = parse_node_list(text, fabric).map_err(|e| e.to_string())?;
        Ok(nodes
            .into_iter()
            .map(|(n, slots)| (fabric.node(n).name.clone(), slots))
            .collect())
    }

    #[test]
    fn names_ranges_slots_and_files() {
        let fabric = spec::fabric("gemini:2x2x8").unwrap();
        let names = |text: &str| -> Vec<String> {
            list(text, &fabric)
                .unwrap()
                .into_iter()
                .map(|n| n.0)
                .collect()
        };
        assert_eq!(
            names("c0-0c0s0n0, c0-0c0s0n1"),
            ["c0-0c0s0n0", "c0-0c0s0n1"]
        );
        assert_eq!(
            names("c0-0c0s[0-1]n[0,3]"),
            ["c0-0c0s0n0", "c0-0c0s0n3", "c0-0c0s1n0", "c0-0c0s1n3"]
        );
        // nids and host names resolve to the same nodes.
        assert_eq!(names("nid[00000-00001]"), names("0,1"));
        assert_eq!(
            list("nid00003:4,nid[00001,00002]:2,5", &fabric)
                .unwrap()
                .into_iter()
                .map(|n| n.1)
                .collect::<Vec<_>>(),
            [Some(4), Some(2), Some(2), None]
        );
        assert_eq!(names("all").len(), 64);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            "# the job\nnid00001:3\n\nnid[00004-00005],nid00006 # more\n",
        )
        .unwrap();
        let path = format!("@{}", file.path().display());
        assert_eq!(names(&path), names("nid00001,nid[00004-00006]"));
        let allocation = parse_nodes(&path, 8, &fabric).unwrap();
        assert_eq!(allocation.capacity(), 3 + 3 * 8);
    }

    #[test]
    fn bad_lists_are_named() {
        let fabric = spec::fabric("gemini:2x2x8").unwrap();
        for (text, found) in [
            ("", "nothing"),
            (",", "nothing"),
            ("nid[00001", "nid[00001"),
            ("nid00001]", "nid00001]"),
            ("nid[3-1]", "nid[3-1]"),
            ("nid[a-b]", "nid[a-b]"),
            ("nid[0-99999999999]", "nid[0-99999999999]"),
            (&format!("{}[0-999999]", "n".repeat(2000)), "nnnn"),
            (&format!("n[{}1-9]", "0".repeat(2000)), "n[0000"),
            ("nid[0-9][0-9][0-9][0-9][0-9][0-9][0-9]", "nid[0-9]"),
            ("nid00001:0", "nid00001:0"),
            (&"n[0]".repeat(100_000), "n[0]n[0]"),
            ("elsewhere", "found elsewhere, expected a node"),
            ("@/nonexistent/list", "/nonexistent/list"),
        ] {
            let error = list(text, &fabric).unwrap_err();
            assert!(error.contains(found), "{text}: {error}");
        }
        let twice = parse_nodes("0,nid00000", 1, &fabric)
            .unwrap_err()
            .to_string();
        assert!(twice.contains("it twice"), "{twice}");
    }
}
