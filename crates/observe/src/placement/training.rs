//! Rank orders of training frameworks, read back: torchrun's table, DLRover's world, JAX's permutation, Kueue's assignment.

use super::places::{Placed, Places, content_lines, no_node, rank};
use crate::ObserveError;
use crate::fabric::yaml::{self, Yaml};
use crate::text::{Line, Text, decimal_u32};
use hopbyte_fabric::{Allocation, Fabric, InputError, Placement, Slot};
use serde::Deserialize;
use std::collections::HashMap;

/// Whether a text is a JSON object with a key near its start.
pub(super) fn has_key(text: &Text, key: &str) -> bool {
    let start = &text.bytes()[..text.bytes().len().min(4096)];
    let key = format!("\"{key}\"");
    start.trim_ascii_start().starts_with(b"{")
        && memchr::memmem::find(start, key.as_bytes()).is_some()
}

/// Whether the first line is a host, a number and a list of numbers, in a file with a header.
pub(super) fn is_torchrun(text: &Text, first: Line<'_>) -> bool {
    let words: Vec<&[u8]> = first.words().collect();
    text.bytes().starts_with(b"# torchrun")
        && matches!(words[..], [_, node, gpus] if decimal_u32(node).is_some() && numbers(gpus).is_some())
}

fn numbers(list: &[u8]) -> Option<Vec<u32>> {
    list.split(|&b| b == b',').map(decimal_u32).collect()
}

/// Reads torchrun's table.
pub(super) fn torchrun<'a>(text: &Text, fabric: &'a Fabric) -> Result<Places<'a>, InputError> {
    let mut places = Places::of(fabric);
    let mut each = None;
    for line in content_lines(text) {
        let words: Vec<&[u8]> = line.words().collect();
        let [host, node, gpus] = words[..] else {
            return Err(text.error_at(line, "HOST NODE_RANK GPUS"));
        };
        let (list, wrong) = (gpus, |expected: &str| text.error_in(line, gpus, expected));
        let gpus = numbers(gpus).ok_or_else(|| wrong("GPUs such as 0,1,2,3"))?;
        let first = *each.get_or_insert(gpus.len());
        if gpus.len() != first {
            return Err(text.error_at(line, format!("{first} GPUs, as in the first line")));
        }
        let node = rank(text, line, node)?;
        let spot = places.node(text, line, host)?;
        if let Some(all) = places.gpus(spot)
            && gpus.iter().any(|&gpu| gpu as usize >= all)
        {
            let expected = format!("GPUs of this host, 0 to {}", all - 1);
            return Err(text.error_in(line, list, expected));
        }
        for (local, gpu) in (0u32..).zip(gpus) {
            let number = node
                .checked_mul(first as u32)
                .and_then(|n| n.checked_add(local));
            let number = number.filter(|&n| (n as usize) < crate::traffic::MAX_TASKS);
            let number = number.ok_or_else(|| text.error_at(line, "a node rank of a job"))?;
            places.add(text, line, number, (spot, Some(gpu)))?;
        }
    }
    Ok(places)
}

/// Reads Kueue's assignment: `ranksPerPod` ranks on each host in turn.
pub(super) fn kueue<'a>(text: &Text, fabric: &'a Fabric) -> Result<Places<'a>, InputError> {
    let document = yaml::document(text)?;
    let assignment = document.get("topologyAssignment");
    let domains = assignment
        .and_then(|a| a.get("domains"))
        .map_or(&[][..], Yaml::items);
    let each = document.word("ranksPerPod").unwrap_or("1");
    let most = crate::traffic::MAX_TASKS / domains.len().max(1);
    let count = |word: &str| {
        word.parse::<usize>()
            .ok()
            .filter(|n| (1..=most).contains(n))
    };
    let each = count(each).ok_or_else(|| text.error(each, "a number of ranks for each pod"))?;
    let mut places = Places::of(fabric);
    for domain in domains {
        let host = domain.get("values").and_then(|v| v.words().last().copied());
        let host = host.ok_or_else(|| domain.wrong(text, "a domain with the name of a host"))?;
        let pods = domain.word("count").unwrap_or("1");
        let pods = count(pods).filter(|p| p * each <= most);
        let pods = pods.ok_or_else(|| domain.wrong(text, "a number of pods"))?;
        let spot = places
            .named(host)
            .map_err(|e| no_node(text.error(host, "a node of the fabric"), &e))?;
        for _ in 0..pods * each {
            places.push((spot, None));
        }
    }
    Ok(places)
}

#[derive(Deserialize)]
struct Permutation {
    permutation: Vec<u32>,
}

/// Reads JAX's permutation: numbers of devices, host by host in the allocation's order.
pub(super) fn jax(
    text: &Text,
    fabric: &Fabric,
    allocation: Option<&Allocation>,
) -> Result<Placed, ObserveError> {
    let read: Permutation = text.json("an object with `permutation`")?;
    let allocation = allocation.ok_or_else(|| needs_allocation(text))?;
    let devices: Vec<Slot> = by_host(fabric, allocation)
        .into_iter()
        .flat_map(|h| h.1)
        .collect();
    let slots = read.permutation.iter().map(|&d| {
        let found = format!("device {d}");
        let expected = format!("one of the {} devices of the allocation", devices.len());
        devices
            .get(d as usize)
            .copied()
            .ok_or_else(|| text.error(found, expected))
    });
    let slots = slots.collect::<Result<Vec<_>, _>>()?;
    Ok(Placed {
        placement: Placement::new(fabric, allocation, slots)?,
        allocation: allocation.clone(),
        order_is_known: true,
        states_gpus: true,
        notes: Vec::new(),
    })
}

/// Slots of an allocation by host, GPUs in their order.
fn by_host(fabric: &Fabric, allocation: &Allocation) -> Vec<(String, Vec<Slot>)> {
    let mut hosts: Vec<(String, Vec<(u32, Slot)>)> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    let inside = fabric.inside();
    for &(node, room) in allocation.nodes() {
        let host = fabric.node(node).host.as_str();
        let at = *index.entry(host).or_insert_with(|| {
            hosts.push((host.to_owned(), Vec::new()));
            hosts.len() - 1
        });
        let number = inside
            .filter(|i| i.is_exclusive(node))
            .and_then(|i| i.number_on_host(node));
        hosts[at]
            .1
            .extend((0..room).map(|slot| (number.unwrap_or(0), Slot { node, slot })));
    }
    let ordered = hosts.into_iter().map(|(host, mut slots)| {
        slots.sort_by_key(|s| s.0);
        (host, slots.into_iter().map(|s| s.1).collect())
    });
    ordered.collect()
}

/// Reads an order of Megatron's dimensions with its hosts: the ranks of the plan on the places of their numbers.
pub(super) fn megatron<'a>(text: &Text, fabric: &'a Fabric) -> Result<Places<'a>, InputError> {
    let (mut plan, mut order, mut each) = (None, None, None);
    let mut hosts = Vec::new();
    for line in content_lines(text) {
        let words: Vec<&[u8]> = line.words().collect();
        let word = |w: &[u8]| String::from_utf8_lossy(w).into_owned();
        match words[..] {
            [b"plan", spec] => plan = Some(word(spec)),
            [b"order", names] => order = Some(word(names)),
            [b"gpus", count] => each = decimal_u32(count).filter(|&n| n > 0),
            [b"host", name] => hosts.push((line, name)),
            _ => return Err(text.error_at(line, "plan, order, gpus or host with its value")),
        }
    }
    let (Some(plan), Some(order), Some(each)) = (plan, order, each) else {
        let found = "an order of dimensions without plan, order or gpus";
        return Err(text.error(found, "a line for each, and the hosts"));
    };
    let numbers = hopbyte_fabric::plan::numbers(&plan, &order);
    let numbers = numbers
        .ok_or_else(|| text.error(plan.clone(), "a plan, and an order of its dimensions"))?;
    let mut places = Places::of(fabric);
    if numbers.len() != hosts.len() * each as usize {
        let found = format!("{} hosts of {each}", hosts.len());
        return Err(text.error(found, format!("hosts for {} ranks", numbers.len())));
    }
    for (rank, number) in (0u32..).zip(numbers) {
        let (line, name) = hosts[(number / each) as usize];
        let spot = places.node(text, line, name)?;
        places.add(text, line, rank, (spot, Some(number % each)))?;
    }
    Ok(places)
}

/// Reads DLRover's world: node ranks of the allocation with their numbers of ranks, in rank order.
pub(super) fn dlrover(
    text: &Text,
    fabric: &Fabric,
    allocation: Option<&Allocation>,
) -> Result<Placed, ObserveError> {
    let document = yaml::document(text)?;
    let allocation = allocation.ok_or_else(|| needs_allocation(text))?;
    let hosts = by_host(fabric, allocation);
    let mut slots = Vec::new();
    for (node, count) in document.get("world").map_or(&[][..], Yaml::pairs) {
        let found = format!("node {node} with {} ranks", count.text().unwrap_or("?"));
        let expected = format!(
            "one of {} allocated nodes with ranks for its slots",
            hosts.len()
        );
        let host = node.parse::<usize>().ok().and_then(|n| hosts.get(n));
        let count = count.text().and_then(|c| c.parse::<usize>().ok());
        let own = host
            .zip(count)
            .and_then(|((_, slots), count)| slots.get(..count));
        slots.extend_from_slice(own.ok_or_else(|| text.error(found, expected))?);
    }
    Ok(Placed {
        placement: Placement::new(fabric, allocation, slots)?,
        allocation: allocation.clone(),
        order_is_known: true,
        states_gpus: false,
        notes: Vec::new(),
    })
}

fn needs_allocation(text: &Text) -> InputError {
    text.error(
        "an order of the allocation's nodes",
        "the allocation beside it",
    )
    .hint("give the job's nodes in their order")
}
