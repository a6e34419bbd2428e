//! Lists of nodes: `miriel[063-065]`, `nid[00010-00020],nid00030:8`, `@hosts.txt`, `all`.

use super::is_option;
use crate::ObserveError;
use crate::text::{Limits, Text, lossy, without_comment};
use hopbyte_fabric::{Allocation, Fabric, FabricError, InputError, NodeId, similar};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
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
    let nodes = parse_node_list(list, fabric, &mut |_| ())?;
    let nodes = nodes
        .into_iter()
        .map(|(node, slots)| (node, slots.unwrap_or(ranks_per_node)))
        .collect();
    Ok(Allocation::new(fabric, nodes)?)
}

/// The nodes of a list with their slots: names separated by commas, with ranges in brackets (`c[0-1]n[00-03,7]`),
/// each with an optional `:SLOTS`; `@FILE` for a file of such lists, one or several per line, or for a launcher's host file
/// (`HOST slots=4`, repeated names); `all` for all nodes.
///
/// The name of a host with several endpoints or places means all of them, in order, and its slots are dealt to them. `say` is
/// told of a file that may have been cut.
pub fn parse_node_list(
    list: &str,
    fabric: &Fabric,
    say: &mut dyn FnMut(String),
) -> Result<Vec<(NodeId, Option<u32>)>, ObserveError> {
    let list = list.trim();
    if list == "all" {
        return Ok(fabric.places().into_iter().map(|n| (n, None)).collect());
    }
    let mut nodes = Vec::new();
    let names = Names::of(fabric);
    let Some(file) = list.strip_prefix('@') else {
        let place = Place {
            file: "node list",
            line: None,
        };
        add(list, &names, place, &mut nodes)?;
        if nodes.is_empty() {
            return Err(place.wrong("", "names of nodes").into());
        }
        return Ok(nodes);
    };
    let text = Text::read(Path::new(file), Limits::TEXT)?;
    text.unended().into_iter().for_each(say);
    let contents: Vec<(u64, Cow<'_, str>)> = text
        .lines()
        .map(|line| (line.number, lossy(without_comment(line.bytes))))
        .collect();
    let lines = contents
        .iter()
        .map(|(number, content)| (*number, host_line(content)));
    for (number, list) in added_up(lines) {
        let place = Place {
            file: text.file(),
            line: Some(number),
        };
        // Node names may contain blanks, so only commas and line ends separate them.
        add(&list, &names, place, &mut nodes)?;
    }
    if nodes.is_empty() {
        return Err(text.error("nothing", "names of nodes").into());
    }
    Ok(nodes)
}

/// The expected form of ranges.
fn ranges() -> String {
    format!("ranges such as [001-016,20], upwards, of at most {MAX_NAMES} names")
}

/// A line of a host file without its comment: the names, and the number of `slots=`. Names may contain blanks; other options
/// of launchers are left out.
pub fn host_line(line: &str) -> (&str, Option<&str>) {
    let word_at = |word: &str| word.as_ptr() as usize - line.as_ptr() as usize;
    let words = line.split_whitespace().skip(1);
    let mut options = words.filter(|w| is_option(w.as_bytes()));
    let Some(first) = options.next() else {
        return (line.trim(), None);
    };
    let mut all = std::iter::once(first).chain(options);
    let slots = all.find_map(|w| w.strip_prefix("slots="));
    (line[..word_at(first)].trim(), slots)
}

/// The lists of a file's lines, `NAME:SLOTS` where slots are stated. Where a name is repeated (PBS), each line without a
/// number is a slot, and they are added up.
fn added_up<'a>(
    lines: impl Iterator<Item = (u64, (&'a str, Option<&'a str>))>,
) -> Vec<(u64, Cow<'a, str>)> {
    let lines: Vec<_> = lines.filter(|(_, (list, _))| !list.is_empty()).collect();
    let mut times: HashMap<&str, u64> = HashMap::new();
    for (_, (list, _)) in lines.iter().filter(|l| l.1.1.is_none()) {
        *times.entry(list).or_default() += 1;
    }
    let is_repeated = times.values().any(|&n| n > 1);
    lines
        .into_iter()
        .filter_map(|(number, (list, slots))| {
            let list = match slots {
                Some(slots) => Cow::Owned(format!("{list}:{slots}")),
                None if is_repeated && !list.contains([',', ':']) => {
                    Cow::Owned(format!("{list}:{}", times.remove(list)?))
                }
                None => Cow::Borrowed(list),
            };
            Some((number, list))
        })
        .collect()
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

/// Names of nodes, and of hosts with several; a domain may be missing on either side.
pub(crate) struct Names<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) hosts: HashMap<&'a str, Vec<NodeId>>,
    /// Hosts with a domain by their first label; `None` if several have it.
    labels: HashMap<&'a str, Option<&'a str>>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(fabric: &'a Fabric) -> Self {
        let several = |h: &(&str, Vec<NodeId>)| h.1.len() > 1;
        let hosts = fabric.places_by_host();
        let mut labels = HashMap::new();
        for &(host, _) in &hosts {
            if let Some((label, _)) = host.split_once('.').filter(|_| is_host(host)) {
                let known = labels.entry(label).or_insert(Some(host));
                *known = known.filter(|&h| h == host);
            }
        }
        Self {
            fabric,
            hosts: hosts.into_iter().filter(several).collect(),
            labels,
        }
    }

    /// The places of a name; `None` if it is neither node nor host.
    fn known(&self, name: &str) -> Option<Vec<NodeId>> {
        let places = |node| self.fabric.places_at(node);
        let of_host = self.hosts.get(name).cloned();
        of_host.or_else(|| self.fabric.node_named(name).map(places))
    }

    /// The places of a name, which may have a domain that the fabric's lacks (`host.cluster.example`), or lack its domain.
    pub(crate) fn places(&self, name: &str) -> Option<Vec<NodeId>> {
        let alone = || {
            let (host, _) = name.split_once('.').filter(|_| is_host(name))?;
            self.known(host)
        };
        let whole = || self.known(self.labels.get(name).copied().flatten()?);
        self.known(name).or_else(alone).or_else(whole)
    }

    pub(super) fn find(&self, name: &str) -> Result<Vec<NodeId>, FabricError> {
        match self.places(name) {
            Some(places) => Ok(places),
            None => Ok(self.fabric.places_at(self.fabric.find_node(name)?)),
        }
    }

    /// The slots of a host dealt to its places; an error says how many it takes.
    fn dealt(
        &self,
        places: &[NodeId],
        slots: Option<u32>,
    ) -> Result<Vec<(NodeId, Option<u32>)>, String> {
        let Some(slots) = slots else {
            return Ok(places.iter().map(|&p| (p, None)).collect());
        };
        let inside = self.fabric.inside();
        let count = places.len() as u32;
        if slots > count
            && places
                .iter()
                .all(|&p| inside.is_some_and(|i| i.is_exclusive(p)))
        {
            return Err(format!("at most {count} slots, one for each GPU"));
        }
        Ok(deal(places, slots)
            .map(|(place, slots)| (place, Some(slots)))
            .collect())
    }
}

/// Whether a name with a dot may be a host with its domain, and no number or address.
fn is_host(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Slots of a host dealt to its places in blocks, the first ones taking one more; places without a slot are left out.
pub fn deal(places: &[NodeId], slots: u32) -> impl Iterator<Item = (NodeId, u32)> + '_ {
    let count = places.len().max(1) as u32;
    (0..).zip(places).filter_map(move |(i, &place)| {
        let own = slots / count + u32::from(i < slots % count);
        (own > 0).then_some((place, own))
    })
}

fn add(
    list: &str,
    fabric: &Names<'_>,
    place: Place<'_>,
    nodes: &mut Vec<(NodeId, Option<u32>)>,
) -> Result<(), ObserveError> {
    for item in items(list).ok_or_else(|| place.wrong(list, "closed brackets"))? {
        let item = item.trim();
        if item.is_empty() {
            continue;
        }
        // The whole name first: names may contain a colon or brackets.
        if let Some(found) = fabric.known(item) {
            nodes.extend(found.into_iter().map(|n| (n, None)));
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
        if let (None, Some((name, slots))) = (slots, item.rsplit_once(':'))
            && fabric.known(name).is_some()
        {
            let slots = format!("{slots} slots of {name}");
            return Err(place.wrong(&slots, "a whole number above zero").into());
        }
        let names = Some(names)
            .filter(|n| n.matches('[').count() <= MAX_RANGES)
            .and_then(expand)
            .ok_or_else(|| place.wrong(item, &ranges()))?;
        if nodes.len() as u64 + names.count() > MAX_NAMES as u64 {
            let expected = format!("at most {MAX_NAMES} nodes");
            return Err(place.wrong(item, &expected).into());
        }
        for name in names.names() {
            let found = fabric.find(&name).map_err(|e| {
                let error = super::places::no_node(place.wrong(&name, "a node of the fabric"), &e);
                if place.line.is_none() && Path::new(&name).is_file() {
                    return error.hint(format!("this is a file: write @{name}"));
                }
                match !similar(&name, ["all"]).is_empty() && name.len() < 5 {
                    true => error.hint("did you mean all, the nodes of the whole machine?"),
                    false => error,
                }
            })?;
            nodes.extend(fabric.dealt(&found, slots).map_err(|expected| {
                place
                    .wrong(item, &expected)
                    .hint("allocate more hosts, or fewer ranks on each")
            })?);
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
            let more = expand(item)?;
            if names.len() as u64 + more.count() > MAX_NAMES as u64 {
                return None;
            }
            names.extend(more.names());
        }
    }
    Some(names)
}

/// Names of a list, or of the lines of `@FILE`, each once; `option` is named in errors, and `say` is told
/// of a file that may have been cut.
///
/// # Errors
/// The file cannot be read, no list, or a name that occurs twice.
pub fn host_names(
    option: &str,
    list: &str,
    say: &mut dyn FnMut(String),
) -> Result<Vec<String>, ObserveError> {
    let text = match list.strip_prefix('@') {
        Some(file) => {
            let text = Text::read(Path::new(file), Limits::TEXT)?;
            text.unended().into_iter().for_each(say);
            let lines = text.lines().map(|l| lossy(l.bytes).into_owned());
            lines.collect::<Vec<_>>().join(",")
        }
        None => list.to_owned(),
    };
    let Some(names) = host_list(&text).filter(|names| !names.is_empty()) else {
        let expected = "names such as n[001-100],login1";
        return Err(InputError::new(option, format!("'{list}'"), expected).into());
    };
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(twice) => {
            Err(InputError::new(option, format!("node {twice} twice"), "each once").into())
        }
        None => Ok(names),
    }
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

/// First and last number, and the width of both.
type Range = (u64, u64, usize);

/// A name with ranges in brackets, read but not expanded.
struct Ranges<'a> {
    /// Text before each bracket, and its ranges with the width of their numbers.
    parts: Vec<(&'a str, Vec<Range>)>,
    tail: &'a str,
}

impl<'a> Ranges<'a> {
    fn parse(pattern: &'a str) -> Option<Self> {
        if pattern.len() > MAX_PATTERN && pattern.contains('[') {
            return None;
        }
        let (mut parts, mut tail) = (Vec::new(), pattern);
        while let Some((head, rest)) = tail.split_once('[') {
            let (ranges, after) = rest.split_once(']')?;
            let ranges: Option<Vec<_>> = ranges.split(',').map(Self::range).collect();
            parts.push((head, ranges?));
            tail = after;
        }
        Some(Self { parts, tail })
    }

    fn range(range: &str) -> Option<Range> {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        // The widths of both bounds must be equal: all names have the same width.
        let digits = |s: &str| (1..=20).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(from) || !digits(to) {
            return None;
        }
        let (low, high): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        (low <= high && high - low < MAX_NAMES as u64).then_some((low, high, from.len()))
    }

    /// Number of names, saturated.
    fn count(&self) -> u64 {
        let each = self.parts.iter().map(|(_, ranges)| {
            let sizes = ranges.iter().map(|(low, high, _)| high - low + 1);
            sizes.fold(0, u64::saturating_add)
        });
        each.fold(1, u64::saturating_mul)
    }

    /// The names, the last bracket's numbers fastest.
    fn names(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.count()).map(|number| {
            let (mut rest, mut name) = (number, self.tail.to_owned());
            for (head, ranges) in self.parts.iter().rev() {
                let sizes = ranges.iter().map(|(low, high, _)| high - low + 1);
                let mut at = rest % sizes.clone().sum::<u64>();
                rest /= sizes.sum::<u64>();
                for &(low, high, width) in ranges {
                    if at <= high - low {
                        name = format!("{head}{:0width$}{name}", low + at);
                        break;
                    }
                    at -= high - low + 1;
                }
            }
            name
        })
    }
}

/// The ranges of a pattern; `None` if it has a bad one, or more than 2^20 names.
fn expand(pattern: &str) -> Option<Ranges<'_>> {
    Ranges::parse(pattern).filter(|r| r.count() <= MAX_NAMES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;

    fn list(text: &str, fabric: &Fabric) -> Result<Vec<(String, Option<u32>)>, String> {
        let nodes = parse_node_list(text, fabric, &mut |_| ()).map_err(|e| e.to_string())?;
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
    fn host_files_of_launchers_are_lists() {
        let fabric = spec::fabric("gemini:2x2x8").unwrap();
        let slots = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let list = format!("@{}", file.path().display());
            let nodes = parse_node_list(&list, &fabric, &mut |_| ());
            nodes.map(|all| {
                all.into_iter()
                    .map(|(node, slots)| (node.0, slots))
                    .collect::<Vec<_>>()
            })
        };
        let two: Vec<(u32, Option<u32>)> = vec![(0, Some(4)), (1, Some(2))];
        for text in [
            "nid00000 slots=4 # first\nnid00001 slots=2 max_slots=2\n",
            "nid00000:4\nnid00001:2 binding=user:0 ifname=ib0\n",
            "nid00000\nnid00001\nnid00000\nnid00000\nnid00001\nnid00000\n",
        ] {
            assert_eq!(slots(text).unwrap(), two, "{text}");
        }
        let open: Vec<(u32, Option<u32>)> = vec![(0, None), (1, None)];
        assert_eq!(slots("nid00000\nnid00001 ifname=ib0\n").unwrap(), open);
        let error = slots("nid00000 slots=many\n").unwrap_err().to_string();
        assert!(
            error.contains("expected a whole number above zero"),
            "{error}"
        );
        let rails = spec::fabric("gpu-rails").unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "h0\nh0\nh1\n").unwrap();
        let dealt = list(&format!("@{}", file.path().display()), &rails).unwrap();
        let dealt: Vec<&str> = dealt.iter().map(|n| n.0.as_str()).collect();
        assert_eq!(dealt, ["h0-r0", "h0-r1", "h1-r0"]);
    }

    /// A host with several endpoints is named as schedulers name it.
    #[test]
    fn hosts_stand_for_their_places() {
        let rails = spec::fabric("gpu-rails").unwrap();
        let all = list("h[0-15]:8", &rails).unwrap();
        assert_eq!(all.len(), 128);
        assert_eq!((all[7].0.as_str(), all[7].1), ("h0-r7", Some(1)));
        assert_eq!(all[8].0, "h1-r0");
        let some = list("h3:2,h5", &rails).unwrap();
        let names: Vec<&str> = some.iter().map(|n| n.0.as_str()).collect();
        assert_eq!(names[..3], ["h3-r0", "h3-r1", "h5-r0"]);
        assert_eq!((some[2].1, some.len()), (None, 10));
        let error = list("h[0-15]:9", &rails).unwrap_err();
        assert!(
            error.contains("at most 8 slots, one for each GPU"),
            "{error}"
        );
        // Endpoints of an undescribed host share its slots.
        let open = spec::fabric("fattree:down=4x4,up=1x2,rails=2").unwrap();
        let slots = list("h1:5", &open).unwrap();
        assert_eq!(
            slots,
            [("h1-r0".to_owned(), Some(3)), ("h1-r1".to_owned(), Some(2))]
        );
        assert_eq!(list("all", &rails).unwrap()[1].0, "h0-r1");
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
