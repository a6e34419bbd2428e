//! Nodes and counters, from the options that name them.

use crate::error::{Result, refuse};
use crate::live;
use hopbyte_fabric::{Allocation, Fabric, LeftOut, LinkCounts, LinkState, NodeId};
use hopbyte_observe::counters::{Counted, without_links};
use hopbyte_observe::kinds::{Content, of_another_kind};
use hopbyte_observe::{CounterOptions, deal, parse_node_list, read_counters};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// State of every link, from counters.
pub struct LinkReading {
    /// Rates and ratios.
    pub state: LinkState,
    /// The source.
    pub source: String,
    /// Time of the reading in Unix seconds, if the source has a clock.
    pub time_seconds: Option<f64>,
    /// Rows of the source that named a link of the fabric.
    pub matched: usize,
    /// Rows that named no link of the fabric.
    pub unmatched: usize,
    /// Input that was read but not used in the figures.
    pub left_out: LeftOut,
    /// Caveats for the user, one sentence each.
    pub notes: Vec<String>,
}

impl LinkReading {
    /// A link state from another reader.
    pub fn of_state(source: impl Into<String>, state: LinkState) -> Self {
        Self {
            source: source.into(),
            time_seconds: None,
            matched: state.links_read(),
            unmatched: 0,
            left_out: LeftOut::default(),
            state,
            notes: Vec::new(),
        }
    }

    /// The reading, if the share in use of a link is known from it: its load on the capacities.
    ///
    /// # Errors
    /// None is known: the machine would pass for an idle one.
    pub fn of_loads(&self) -> Result<&Self> {
        if self.state.used_ratio.known() > 0 {
            return Ok(self);
        }
        let why = match self.state.window_seconds {
            None => {
                "the time between two readings is not known: give --interval SECONDS, or an earlier and a later file"
            }
            Some(_) => {
                "give counters of bytes, --metric for costs of other counters, or leave the load out"
            }
        };
        refuse!(
            "{}: found counters of {} links, none with the share of its capacity that is in use\nhint: {why}",
            self.source,
            self.state.links_read()
        );
    }

    /// The reading, if it has a link.
    ///
    /// # Errors
    /// No link was read: what is asked of its loads would be answered by their absence.
    pub fn of_links(&self, fabric: &Fabric) -> Result<&Self> {
        if self.matched > 0 {
            return Ok(self);
        }
        let source = match self.source.as_str() {
            "" => "counters",
            named => named,
        };
        let left_out = self.left_out.sentences().collect();
        Err(without_links(source, self.unmatched, left_out, fabric).into())
    }
}

/// Reads counters: increases of several files are added up; of totals, the first and the last file
/// make the increase, and a single file covers the time since the counters' reset. `live` is this
/// machine, read twice; a folder is a captured tree.
pub fn reading(
    files: &[PathBuf],
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<LinkReading> {
    let mut notes = Vec::new();
    let counted = match live::read(files, fabric, options, &mut notes)? {
        Some(counted) => counted,
        None => {
            let refused = |e| match files {
                [file] => of_another_kind(file, Content::Counters, e),
                _ => e,
            };
            read_counters(files, fabric, options).map_err(refused)?
        }
    };
    let state = counted.state(fabric);
    notes.extend(remarks(&counted));
    if state.window_seconds.is_none() && state.used_ratio.known() == 0 {
        let how = match &counted {
            Counted::Totals(_) => {
                "these are totals since the counters began; give an earlier and a later file"
            }
            Counted::Increase(_) => "give --interval SECONDS",
        };
        notes.push(format!("the window is not known, so ratios are not: {how}"));
    }
    notes.extend(impossible(&state, &counted.source));
    Ok(LinkReading {
        source: counted.source.clone(),
        time_seconds: counted.time_seconds,
        matched: counted.matched,
        unmatched: counted.unmatched,
        left_out: counted.left_out.clone(),
        state,
        notes,
    })
}

/// Share of a capacity that is more than clocks and rates that are not quite right explain.
const IMPOSSIBLE: f64 = 1.05;

/// Links that carried more than they can.
fn impossible(state: &LinkState, source: &str) -> Option<String> {
    let used = state.used_ratio.as_slice().iter();
    let above: Vec<f64> = used.copied().filter(|&u| u > IMPOSSIBLE).collect();
    let most = above.iter().copied().reduce(f64::max)?;
    Some(format!(
        "{source}: {} links carried more than they can, up to {:.0} % of their capacity: is the window ({}) right, and the rates \
         of the machine?",
        above.len(),
        100.0 * most,
        state
            .window_seconds
            .map_or("not known".into(), |w| format!("{w} s"))
    ))
}

/// [`reading`] of files, if there are any.
///
/// # Errors
/// As there; properties of counters without files.
pub fn background(
    files: &[PathBuf],
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<Option<LinkReading>> {
    if files.is_empty() {
        return unused(options).map(|()| None);
    }
    reading(files, fabric, options).map(Some)
}

/// Refuses properties of counters where no file could lack them.
pub fn unused(options: &CounterOptions) -> Result<()> {
    let given: Vec<&str> = [
        ("interval", options.interval_seconds.is_some()),
        ("region", options.region.is_some()),
        ("node of the counters", options.node.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, is_given)| is_given.then_some(name))
    .collect();
    if given.is_empty() {
        return Ok(());
    }
    refuse!(
        "{}: no file of counters could lack it\nhint: give the file, or leave the option out",
        given.join(", ")
    );
}

/// Unused input of a reading, and the number of missing values by reason.
pub fn remarks(counted: &LinkCounts) -> Vec<String> {
    let file = &counted.source;
    let left_out = counted.left_out.sentences();
    let left_out = left_out.map(|words| format!("{file}: {words}"));
    left_out.chain(lost(counted)).collect()
}

fn lost(counted: &LinkCounts) -> Option<String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (.., why) in counted.lost() {
        *reasons.entry(why.words()).or_default() += 1;
    }
    let words: Vec<String> = reasons
        .iter()
        .map(|(why, n)| format!("{n} ({why})"))
        .collect();
    let file = &counted.source;
    (!words.is_empty()).then(|| format!("{file}: values not known: {}", words.join(", ")))
}

/// Reads a list of nodes; see [`allocate`]. `say` is told of a file that may have been cut.
///
/// # Errors
/// A name is not on the fabric, or named twice.
pub fn nodes(
    list: &str,
    ranks_per_node: Option<u32>,
    tasks: usize,
    fabric: &Fabric,
    say: &mut dyn FnMut(String),
) -> Result<Allocation> {
    allocate(
        parse_node_list(list, fabric, say)?,
        ranks_per_node,
        tasks,
        fabric,
    )
}

/// An allocation of nodes, with their slots if given. The others get `ranks_per_node`, which are those of a host, dealt to
/// its endpoints or described places, or the fewest slots that hold all tasks.
///
/// # Errors
/// A node is named twice, or has no slot.
pub fn allocate(
    nodes: Vec<(NodeId, Option<u32>)>,
    ranks_per_node: Option<u32>,
    tasks: usize,
    fabric: &Fabric,
) -> Result<Allocation> {
    let given: usize = nodes
        .iter()
        .filter_map(|&(_, slots)| slots)
        .map(|s| s as usize)
        .sum();
    let open = nodes.iter().filter(|(_, slots)| slots.is_none()).count();
    let fewest = tasks.saturating_sub(given).div_ceil(open.max(1)).max(1) as u32;
    if let Some(ranks) = ranks_per_node {
        return allocate_hosts(&nodes, ranks, fabric);
    }
    let is_gpu = |node| fabric.inside().is_some_and(|i| i.is_exclusive(node));
    for &(node, slots) in nodes.iter().filter(|n| is_gpu(n.0)) {
        if let Some(slots) = slots.filter(|&s| s > 1) {
            let name = &fabric.node(node).name;
            refuse!(
                "found {slots} ranks on {name}, expected 1: a GPU takes one\nhint: name the host, or allocate more"
            );
        }
    }
    let nodes = nodes
        .into_iter()
        .map(|(node, own)| (node, own.unwrap_or(if is_gpu(node) { 1 } else { fewest })));
    Ok(Allocation::new(fabric, nodes.collect())?)
}

/// The same with a number of ranks for every host.
fn allocate_hosts(
    nodes: &[(NodeId, Option<u32>)],
    ranks: u32,
    fabric: &Fabric,
) -> Result<Allocation> {
    let host = |n: NodeId| {
        let node = fabric.node(n);
        let host = Some(node.host.as_str()).filter(|host| !host.is_empty());
        host.unwrap_or(&node.name)
    };
    let is_gpu = |node| fabric.inside().is_some_and(|i| i.is_exclusive(node));
    let mut open: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
    for &(node, _) in nodes.iter().filter(|n| n.1.is_none()) {
        open.entry(host(node)).or_default().push(node);
    }
    let mut dealt: HashMap<NodeId, u32> = HashMap::new();
    for (name, places) in &open {
        let gpus = places.iter().all(|&p| is_gpu(p));
        if gpus && ranks as usize > places.len() {
            refuse!(
                "found {ranks} ranks on {name}, expected at most {}, one for each GPU\nhint: allocate more hosts",
                places.len()
            );
        }
        dealt.extend(deal(places, ranks));
    }
    let slots = |&(node, own): &(NodeId, Option<u32>)| {
        let slots = own.or_else(|| dealt.get(&node).copied())?;
        Some((node, slots))
    };
    Ok(Allocation::new(
        fabric,
        nodes.iter().filter_map(slots).collect(),
    )?)
}

#[cfg(test)]
mod tests {
    use super::{LinkReading, nodes};
    use hopbyte_fabric::units::BytesPerSecond;
    use hopbyte_fabric::{FabricBuilder, Family, LinkState, spec};

    #[test]
    fn ranks_per_node_are_those_of_a_host_with_several_adapters() {
        let mut builder = FabricBuilder::new(Family::Generic, "two hosts");
        let switch = builder.router("s", &[]);
        let kind = builder.kind("host", false);
        for (name, host) in [
            ("a 1", "a"),
            ("a 2", "a"),
            ("a 3", "a"),
            ("b 1", "b"),
            ("b 2", "b"),
        ] {
            builder.node_with_link(name, host, switch, kind, BytesPerSecond(1e9));
        }
        let fabric = builder.finish().unwrap();
        for (ranks, expected) in [(2, [1, 1, 0, 1, 1]), (4, [2, 1, 1, 2, 2])] {
            let found = nodes("a,b", Some(ranks), 4, &fabric, &mut |_| ()).unwrap();
            let slots = |n: usize| {
                let node = fabric.node_ids().nth(n).unwrap();
                found
                    .nodes()
                    .iter()
                    .find(|s| s.0 == node)
                    .map_or(0, |s| s.1)
            };
            assert_eq!(std::array::from_fn(slots), expected);
        }
    }

    #[test]
    fn a_reading_without_a_link_answers_nothing() {
        let fabric = spec::fabric("torus:4x4").unwrap();
        let reading = LinkReading::of_state("", LinkState::unknown(&fabric));
        let error = reading.of_links(&fabric).err().unwrap();
        assert_eq!(error.class().id(), "HB0105");
        assert!(
            error.to_string().contains("none of which names a link"),
            "{error}"
        );
    }
}
