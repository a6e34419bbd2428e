//! Rails of ports: the adapters of equal number on different hosts.

use crate::ids::NodeId;

/// The rails of the ports of every host, and how many rails a whole host has.
///
/// A port has its position among its host's. Where a host has fewer ports than others and its ports have names of
/// theirs, a missing adapter leaves a gap, and does not renumber the adapters behind it.
pub fn rails<'a>(
    hosts: &[(&str, &[NodeId])],
    name: impl Fn(NodeId) -> &'a str,
) -> Vec<(Vec<u16>, u16)> {
    let labels = |&(host, ports): &(&str, &[NodeId])| -> Vec<&'a str> {
        let own = ports.iter().map(|&p| name(p));
        own.map(|n| n.strip_prefix(host).unwrap_or(n)).collect()
    };
    let all: Vec<Vec<&str>> = hosts.iter().map(labels).collect();
    let most = all.iter().map(Vec::len).max().unwrap_or(0);
    let whole: Option<&Vec<&str>> = all.iter().find(|l| l.len() == most);
    let of = |own: &Vec<&str>| {
        let position = |label: &&str| whole?.iter().position(|l| l == label);
        let found: Option<Vec<u16>> = own
            .iter()
            .map(|l| position(l).map(|at| at as u16))
            .collect();
        let found = found.filter(|f| f.len() < most && f.is_sorted_by(|a, b| a < b));
        match found {
            Some(found) => (found, most as u16),
            None => ((0..own.len() as u16).collect(), own.len() as u16),
        }
    };
    all.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_adapter_leaves_a_gap() {
        let names = [
            "a mlx5_0", "a mlx5_1", "a mlx5_2", "b mlx5_0", "b mlx5_2", "c ib9",
        ];
        let node = |n: usize| NodeId::of(n);
        let ports: Vec<NodeId> = (0..6).map(node).collect();
        let hosts = [("b", &ports[3..5]), ("a", &ports[..3]), ("c", &ports[5..])];
        let found = rails(&hosts, |n| names[n.index()]);
        // The name of the last one's adapter is no other host's.
        assert_eq!(found, [(vec![0, 2], 3), (vec![0, 1, 2], 3), (vec![0], 1)]);
    }
}
