//! The files of launchers.

use super::nodes::host_line;
use super::places::{Placed, Places, content_lines, no_node, rank};
use crate::ObserveError;
use crate::text::{Line, Text, cell_texts, decimal, decimal_u32, lossy, words};
use hopbyte_fabric::{Allocation, Fabric, InputError, Placement, Slot};
use serde::Deserialize;

/// netloc's `resources.txt`: number of hosts, their names, the slots of each, then (core, rank) for every slot, host
/// by host; line breaks are not significant.
pub(super) fn resources<'a>(text: &Text, fabric: &'a Fabric) -> Result<Places<'a>, InputError> {
    let mut words = content_lines(text).flat_map(|line| line.words().map(move |w| (line, w)));
    let mut next = |expected: &str| {
        words.next().ok_or_else(|| {
            text.error("the end of the file", expected)
                .hint("was it cut off?")
        })
    };
    let (line, word) = next("a number of hosts")?;
    let hosts = decimal(word)
        .filter(|&n| n <= fabric.nodes().len() as u64)
        .ok_or_else(|| {
            text.error_in(line, word, "a number of hosts, at most the fabric's nodes")
        })?;
    let mut places = Places::of(fabric);
    places.slots_are_cores = true;
    let mut nodes = Vec::new();
    for _ in 0..hosts {
        let (line, name) = next("the name of a host")?;
        nodes.push(places.node(text, line, name)?);
    }
    let mut slots = Vec::new();
    for _ in 0..hosts {
        let (line, word) = next("the slots of a host")?;
        let count =
            decimal_u32(word).ok_or_else(|| text.error_in(line, word, "slots (a whole number)"))?;
        slots.push(count);
    }
    for (&node, &count) in nodes.iter().zip(&slots) {
        for _ in 0..count {
            let (line, word) = next("a core and its rank for every slot")?;
            let core = decimal_u32(word)
                .ok_or_else(|| text.error_in(line, word, "a core (a whole number)"))?;
            let (line, word) = next("a core and its rank for every slot")?;
            let rank = rank(text, line, word)?;
            places.add(text, line, rank, (node, Some(core)))?;
        }
    }
    if let Some((line, word)) = words.next() {
        return Err(text.error_in(line, word, "nothing after the last rank"));
    }
    Ok(places)
}

/// Content without the blanks around `=`, which Open MPI allows: `rank 0 = host slot = 1`.
fn joined(content: &[u8]) -> Vec<u8> {
    let mut joined: Vec<u8> = Vec::with_capacity(content.len());
    for word in words(content) {
        let apart = word.first() != Some(&b'=') && !matches!(joined.last(), None | Some(b'='));
        if apart {
            joined.push(b' ');
        }
        joined.extend_from_slice(word);
    }
    joined
}

/// Open MPI rankfile: `rank N=HOST slot=LIST`. A slot that is a single number is kept; for lists and `socket:core`
/// only the order of the lines counts.
pub(super) fn rankfile<'a>(text: &Text, fabric: &'a Fabric) -> Result<Places<'a>, InputError> {
    let mut places = Places::of(fabric);
    places.slots_are_cores = true;
    for line in content_lines(text) {
        let wrong = || text.error_at(line, "rank N=HOST slot=CORE");
        let joined = joined(line.bytes);
        let words: Vec<&[u8]> = words(&joined).collect();
        let [b"rank", place, ref slots @ ..] = words[..] else {
            return Err(wrong());
        };
        let at = place.iter().position(|&b| b == b'=').ok_or_else(wrong)?;
        let (number, host) = (&place[..at], &place[at + 1..]);
        let slot = match slots {
            [] => None,
            [slot] => {
                let slot = slot.strip_prefix(b"slot=").or(slot.strip_prefix(b"slots="));
                decimal_u32(slot.ok_or_else(wrong)?)
            }
            _ => return Err(wrong()),
        };
        let number = rank(text, line, number)?;
        places.add(text, line, number, (places.node(text, line, host)?, slot))?;
    }
    Ok(places)
}

/// CSV `rank,node[,slot]`, with or without this header; names with commas are quoted.
pub(super) fn csv<'a>(text: &Text, fabric: &'a Fabric) -> Result<Places<'a>, InputError> {
    let mut places = Places::of(fabric);
    for (line, i) in content_lines(text).zip(0..) {
        let cells =
            cell_texts(line.trimmed()).ok_or_else(|| text.error_at(line, "closed quotes"))?;
        let names: Vec<String> = cells.iter().map(|c| c.to_ascii_lowercase()).collect();
        if i == 0 && matches!(&names[..], [r, n, ..] if r == "rank" && n == "node") {
            continue;
        }
        let (number, name, slot) = match &cells[..] {
            [number, name] => (number, name, None),
            [number, name, slot] => {
                let slot = decimal_u32(slot.as_bytes()).ok_or_else(|| {
                    text.error_in(line, slot.as_bytes(), "a slot (a whole number)")
                })?;
                (number, name, Some(slot))
            }
            _ => return Err(text.error_at(line, "rank,node or rank,node,slot")),
        };
        let number = rank(text, line, number.as_bytes())?;
        let node = places.node(text, line, name.as_bytes())?;
        places.add(text, line, number, (node, slot))?;
    }
    Ok(places)
}

/// A hostfile: one host per line for every rank in turn, or `HOST slots=N` (and `HOST:N`) for N ranks.
pub(super) fn hostfile<'a>(text: &Text, fabric: &'a Fabric) -> Result<Places<'a>, InputError> {
    let mut places = Places::of(fabric);
    for line in content_lines(text) {
        let content = lossy(line.bytes);
        let (name, stated) = host_line(&content);
        let name = name.as_bytes();
        let mut count = 1;
        let mut host = places.node(text, line, name);
        if let (Err(_), Some(at)) = (&host, name.iter().rposition(|&b| b == b':')) {
            let slots = slots(text, line, &name[at + 1..], fabric)?;
            (host, count) = (places.node(text, line, &name[..at]), slots);
        }
        let host = host?;
        if let Some(number) = stated {
            count = slots(text, line, number.as_bytes(), fabric)?;
        }
        for _ in 0..count {
            places.push((host, None));
        }
    }
    Ok(places)
}

/// A number of slots that is plausible for a machine of this size.
fn slots(text: &Text, line: Line<'_>, word: &[u8], fabric: &Fabric) -> Result<u32, InputError> {
    let most = (crate::traffic::MAX_TASKS / fabric.nodes().len().max(1)).max(1) as u32;
    decimal_u32(word)
        .filter(|n| (1..=most).contains(n))
        .ok_or_else(|| text.error_in(line, word, format!("1 to {most} slots")))
}

/// `MPICH_RANK_ORDER`: the rank at every slot of the default launch (nodes filled one after the other), numbers and
/// ranges (upwards, `0-3`, or downwards, `3-0`) separated by commas or blanks.
pub(super) fn rank_order(
    text: &Text,
    fabric: &Fabric,
    allocation: Option<&Allocation>,
) -> Result<Placed, ObserveError> {
    let Some(allocation) = allocation else {
        return Err(text
            .error("a rank order", "the allocation beside it")
            .hint(
                "it permutes the ranks of the default launch: give the job's nodes in their order",
            )
            .into());
    };
    let mut order: Vec<u32> = Vec::new();
    for line in content_lines(text) {
        let words = line.bytes.split(|&b| b == b',' || b.is_ascii_whitespace());
        for word in words.map(<[u8]>::trim_ascii).filter(|w| !w.is_empty()) {
            let (from, to) = match word.iter().position(|&b| b == b'-') {
                Some(at) => (&word[..at], &word[at + 1..]),
                None => (word, word),
            };
            let (from, to) = (rank(text, line, from)?, rank(text, line, to)?);
            match from <= to {
                true => order.extend(from..=to),
                false => order.extend((to..=from).rev()),
            }
            if order.len() > allocation.capacity() {
                let expected = format!(
                    "at most {} ranks, the slots of the allocation",
                    allocation.capacity()
                );
                return Err(text.error_at(line, expected).into());
            }
        }
    }
    let mut slots: Vec<Option<Slot>> = vec![None; order.len()];
    for (slot, &rank) in allocation.slots().zip(&order) {
        match slots.get_mut(rank as usize) {
            Some(place @ None) => *place = Some(slot),
            _ => {
                let found = format!("rank {rank} among {} ranks", order.len());
                return Err(text.error(found, "every rank from 0 once").into());
            }
        }
    }
    let slots: Vec<Slot> = slots.into_iter().flatten().collect();
    Ok(Placed {
        placement: Placement::new(fabric, allocation, slots)?,
        allocation: allocation.clone(),
        order_is_known: true,
        states_gpus: false,
        notes: Vec::new(),
    })
}

/// Output of `hopbyte map --json` and `hopbyte apply --to json`.
#[derive(Deserialize)]
struct Saved {
    #[serde(alias = "nodes")]
    allocation: Option<Vec<Room>>,
    placement: Vec<String>,
    slots: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct Room {
    node: String,
    slots: u32,
}

/// Reads hopbyte's own JSON; its allocation is used if none is given.
pub(super) fn json(
    text: &Text,
    fabric: &Fabric,
    allocation: Option<&Allocation>,
) -> Result<Placed, ObserveError> {
    let saved: Saved = text.json("an object with `placement`, a list of node names")?;
    let slots = saved.slots.unwrap_or_default();
    if !slots.is_empty() && slots.len() != saved.placement.len() {
        let found = format!("{} nodes and {} slots", saved.placement.len(), slots.len());
        return Err(text.error(found, "as many slots as nodes").into());
    }
    let mut places = Places::of(fabric);
    for (i, name) in saved.placement.iter().enumerate() {
        let node = places.named(name);
        let node = node.map_err(|e| no_node(text.error(name, "a node of the fabric"), &e))?;
        places.push((node, slots.get(i).copied()));
    }
    let own = match (allocation, saved.allocation) {
        (None, Some(rooms)) => {
            let nodes = rooms
                .iter()
                .map(|r| Ok((fabric.find_node(&r.node)?, r.slots)))
                .collect::<Result<_, ObserveError>>()?;
            Some(Allocation::new(fabric, nodes)?)
        }
        _ => None,
    };
    places.finish(text, fabric, allocation.or(own.as_ref()))
}
