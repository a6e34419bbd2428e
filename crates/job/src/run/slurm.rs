//! Numbers of tasks that Slurm gives to the nodes of a job.

use super::allocation::{MOST, names};
use hopbyte_apply::folded_parts;
use hopbyte_fabric::{Allocation, Fabric, NodeId};
use hopbyte_observe::host_list;
use std::cell::LazyCell;
use std::collections::HashMap;

/// Parts of a list of hosts that a remark has.
const MOST_SHOWN: usize = 64;

/// A remark on the slots of an allocation of Slurm's own list, if they are not the tasks that `srun` starts on its nodes.
pub(crate) fn unlike_slurm(list: &str, allocation: &Allocation, fabric: &Fabric) -> Option<String> {
    let places = LazyCell::new(|| fabric.places_by_host().into_iter().collect());
    let slots = |host: &str| {
        let places: &HashMap<&str, Vec<NodeId>> = &places;
        let own = places.get(host).into_iter().flatten();
        let own = own.filter_map(|&place| allocation.position(place));
        own.map(|at| allocation.nodes()[at].1).sum()
    };
    unlike(list, &slots, &|name| std::env::var(name).ok())
}

fn unlike(
    list: &str,
    slots: &dyn Fn(&str) -> u32,
    scheduled: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let own = scheduled("SLURM_JOB_NODELIST")?;
    let hosts = names(&own).ok()?;
    if list != own && host_list(list)? != hosts {
        return None;
    }
    let sections = scheduled("SLURM_HET_SIZE").and_then(|n| n.parse::<u32>().ok());
    if let Some(sections) = sections.filter(|&n| n > 1) {
        return Some(format!(
            "SLURM_JOB_NODELIST has the nodes of one of the {sections} sections of this heterogeneous job; the others are in \
             SLURM_JOB_NODELIST_HET_GROUP_0 and so on"
        ));
    }
    let tasks = repeated(&scheduled("SLURM_TASKS_PER_NODE")?)?;
    // A host of another name in the machine's description has none.
    let is_alike = |(host, n): (&String, &u32)| [0, *n].contains(&slots(host));
    if tasks.len() != hosts.len() || hosts.iter().zip(&tasks).all(is_alike) {
        return None;
    }
    let mut counted = counted(&hosts, &tasks);
    let more = ["", ",…"][usize::from(counted.len() > MOST_SHOWN)];
    counted.truncate(MOST_SHOWN);
    Some(format!(
        "Slurm gives the nodes other numbers of tasks (SLURM_TASKS_PER_NODE), which srun would start in order: --nodes {}{more} takes \
         them as slots",
        counted.join(",")
    ))
}

/// Hosts with their tasks as parts of a list of nodes, `n[01-64]:4` and `n65:2`.
fn counted(hosts: &[String], tasks: &[u32]) -> Vec<String> {
    let mut at = 0;
    let runs = tasks.chunk_by(|a, b| a == b).flat_map(|run| {
        let names = &hosts[at..at + run.len()];
        at += run.len();
        let parts = folded_parts(names).into_iter();
        parts.map(|part| format!("{part}:{}", run[0]))
    });
    runs.collect()
}

/// Slurm's `4(x3),2`.
pub(super) fn repeated(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for item in text.split(',') {
        let (value, times) = match item.split_once("(x") {
            Some((value, times)) => (value, times.strip_suffix(')')?.parse().ok()?),
            None => (item, 1),
        };
        if all.len().saturating_add(times) > MOST as usize {
            return None;
        }
        all.extend(std::iter::repeat_n(value.parse::<u32>().ok()?, times));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_unlike_slurm_s_are_told() {
        let told = |list, n: [u32; 3], more: Option<(&str, &str)>| {
            let slots = |host: &str| {
                let host = ["n1", "n2", "n7"].iter().position(|h| *h == host);
                n[host.unwrap()]
            };
            let variable = |name: &str| match name {
                "SLURM_JOB_NODELIST" => Some("n[1-2,7]".to_owned()),
                "SLURM_TASKS_PER_NODE" => Some("7,2,1".to_owned()),
                _ => more.filter(|m| m.0 == name).map(|m| m.1.to_owned()),
            };
            unlike(list, &slots, &variable)
        };
        let said = told("n[1-2,7]", [4, 4, 4], None).unwrap();
        assert!(said.contains("--nodes n1:7,n2:2,n7:1 "), "{said}");
        assert!(told("n1,n2,n7", [4, 4, 4], None).is_some());
        assert_eq!(told("n1,n2", [4, 4, 4], None), None);
        assert_eq!(told("n[1-2,7]", [7, 2, 1], None), None);
        let hosts = host_list("n[0009-0100],n101,gpu,gpu,n[102-103]").unwrap();
        let tasks = [vec![4; 80], vec![2; 12], vec![3, 1, 1, 6, 6]].concat();
        assert_eq!(
            counted(&hosts, &tasks).join(","),
            "n[0009-0088]:4,n[0089-0100]:2,n101:3,gpu:1,gpu:1,n[102-103]:6"
        );
        let said = told("n[1-2,7]", [7, 2, 1], Some(("SLURM_HET_SIZE", "2"))).unwrap();
        assert!(said.contains("one of the 2 sections"), "{said}");
    }
}
