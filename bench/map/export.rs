//! Problems in the files that other mappers read.

use crate::problems::Instance;
use hopbyte_fabric::{End, Fabric};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

/// Writes `traffic.grf`, `hops.txt` (between allocated hosts, small problems), `tasks.txt`, `hosts.txt`
/// (coordinates) and what Scotch needs of the machine: `target.tgt`, or `machine.grf` and `terminals.txt`.
pub fn export(it: &Instance, folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text);
    write("traffic.grf", traffic(it))?;
    write("tasks.txt", points(&it.coords))?;
    let nodes = it.allocation.nodes();
    let hosts: Vec<[f64; 3]> = nodes
        .iter()
        .filter_map(|&(node, _)| {
            let c = it.fabric.coord(it.fabric.node(node).router)?;
            Some(std::array::from_fn(|d| {
                c.get(d).map_or(0.0, |&c| f64::from(c))
            }))
        })
        .collect();
    if it.fabric.shape().is_some_and(|s| s.dims.len() == 3) {
        write("hosts.txt", points(&hosts))?;
    }
    match target(it) {
        Some(text) => write("target.tgt", text)?,
        None => {
            write("machine.grf", machine(&it.fabric))?;
            let mut text = format!("{}\n", nodes.len());
            for (host, _) in nodes {
                writeln!(text, "{}", host.0)?;
            }
            write("terminals.txt", text)?;
        }
    }
    if nodes.len() <= 64 {
        write("hops.txt", hops(it)?)?;
    }
    Ok(())
}

fn points(list: &[[f64; 3]]) -> String {
    list.iter().fold(String::new(), |mut text, p| {
        let _ = writeln!(text, "{} {} {}", p[0], p[1], p[2]);
        text
    })
}

/// The traffic as a weighted undirected graph: bytes both ways, a unit being eight bytes.
fn traffic(it: &Instance) -> String {
    let n = it.exchange.tasks();
    let mut rows: Vec<std::collections::BTreeMap<u32, f64>> = vec![Default::default(); n];
    for (from, m) in it.exchange.iter() {
        *rows[from as usize].entry(m.to).or_default() += m.bytes / 2.0;
        *rows[m.to as usize].entry(from).or_default() += m.bytes / 2.0;
    }
    let arcs: usize = rows.iter().map(std::collections::BTreeMap::len).sum();
    let mut text = format!("0\n{n} {arcs}\n0 010\n");
    for row in rows {
        let _ = write!(text, "{}", row.len());
        for (to, bytes) in row {
            let _ = write!(text, " {} {to}", ((bytes / 8.0) as u64).max(1));
        }
        text.push('\n');
    }
    text
}

/// A Scotch target where it has one: part of a torus (nodes of a router as its fastest dimension), or
/// the tree of a full fat tree.
fn target(it: &Instance) -> Option<String> {
    let nodes = it.allocation.nodes();
    if let Some(shape) = it.fabric.shape() {
        let each = it.fabric.nodes().len() / shape.positions();
        let mut dims: Vec<String> = shape.dims.iter().rev().map(u32::to_string).collect();
        dims.insert(0, each.to_string());
        let mut text = format!("sub\n{}", nodes.len());
        for &(node, _) in nodes {
            let router = it.fabric.node(node).router;
            let on = it.fabric.nodes_on(router);
            let slot = on.iter().position(|&n| n == node)?;
            let place = shape.position(it.fabric.coord(router)?)?;
            let _ = write!(text, " {}", place * each + slot);
        }
        let _ = writeln!(text, "\ntorusXD {} {}", dims.len(), dims.join(" "));
        return Some(text);
    }
    let tree = it.fabric.source() == "fat tree" && nodes.len() == it.fabric.nodes().len();
    tree.then(|| "tleaf 3 16 4 8 2 8 1\n".to_owned())
}

/// Hosts, then routers, and what joins them.
fn machine(fabric: &Fabric) -> String {
    let first = fabric.nodes().len() as u32;
    let number = |end: End| match end {
        End::Router(r) => Some(first + r.0),
        End::Node(n) => Some(n.0),
        End::Hosts(_) => None,
    };
    let mut rows = vec![std::collections::BTreeSet::new(); first as usize + fabric.routers().len()];
    for link in fabric.links() {
        if let (Some(a), Some(b)) = (number(link.from), number(link.to)) {
            rows[a as usize].insert(b);
            rows[b as usize].insert(a);
        }
    }
    let arcs: usize = rows.iter().map(std::collections::BTreeSet::len).sum();
    let mut text = format!("0\n{} {arcs}\n0 000\n", rows.len());
    for row in rows {
        let _ = write!(text, "{}", row.len());
        for to in row {
            let _ = write!(text, " {to}");
        }
        text.push('\n');
    }
    text
}

/// Hops between allocated hosts, a row a line.
fn hops(it: &Instance) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    let mut shares = Vec::new();
    for &(a, _) in it.allocation.nodes() {
        for &(b, _) in it.allocation.nodes() {
            shares.clear();
            if a != b {
                it.routing.shares(&it.fabric, a, b, &mut shares)?;
            }
            let hops = shares.iter().filter(|s| it.fabric.is_hop(s.0)).count();
            write!(text, "{hops} ")?;
        }
        text.push('\n');
    }
    Ok(text)
}
