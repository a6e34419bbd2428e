//! Problems in the file formats of other mappers.

use crate::problems::Instance;
use hopbyte_fabric::{End, Fabric};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

/// Writes `traffic.grf` and `traffic.metis`, `hops.txt` (between allocated hosts, small problems), `tasks.txt`,
/// `hosts.txt` (coordinates), the machine for Scotch: `target.tgt`, or `machine.grf` and
/// `terminals.txt`, and for mappers of trees `order.txt` and `levels.txt`.
pub fn export(it: &Instance, folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text);
    let rows = both_ways(it);
    write("traffic.grf", scotch(&rows))?;
    write("traffic.metis", metis(&rows))?;
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
    if nodes.len().is_power_of_two() {
        let order = halves(&hosts, (0..nodes.len() as u32).collect());
        write("levels.txt", levels(it, &order)?)?;
        write("order.txt", lines(&order))?;
    }
    match target(it) {
        Some(text) => write("target.tgt", text)?,
        None => {
            write("machine.grf", machine(&it.fabric))?;
            let hosts: Vec<u32> = nodes.iter().map(|n| n.0.0).collect();
            write(
                "terminals.txt",
                format!("{}\n{}", hosts.len(), lines(&hosts)),
            )?;
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

fn lines(numbers: &[u32]) -> String {
    numbers.iter().map(|n| format!("{n}\n")).collect()
}

/// Partners of every task and the mean bytes of both ways.
type Rows = Vec<BTreeMap<u32, f64>>;

fn both_ways(it: &Instance) -> Rows {
    let mut rows: Rows = vec![BTreeMap::new(); it.exchange.tasks()];
    for (from, m) in it.exchange.iter() {
        *rows[from as usize].entry(m.to).or_default() += m.bytes / 2.0;
        *rows[m.to as usize].entry(from).or_default() += m.bytes / 2.0;
    }
    rows
}

/// The traffic as a weighted undirected graph of Scotch, a unit being eight bytes.
fn scotch(rows: &Rows) -> String {
    let arcs: usize = rows.iter().map(BTreeMap::len).sum();
    let mut text = format!("0\n{} {arcs}\n0 010\n", rows.len());
    for row in rows {
        let _ = write!(text, "{}", row.len());
        for (to, bytes) in row {
            let _ = write!(text, " {} {to}", ((bytes / 8.0) as u64).max(1));
        }
        text.push('\n');
    }
    text
}

/// The same for METIS, in units of which all together stay below 32 bits times any distance.
fn metis(rows: &Rows) -> String {
    let arcs: usize = rows.iter().map(BTreeMap::len).sum();
    let total: f64 = rows.iter().flat_map(BTreeMap::values).sum();
    let unit = (total / 5e7).max(1.0);
    let mut text = format!("{} {} 1\n", rows.len(), arcs / 2);
    for row in rows {
        for (to, bytes) in row {
            let _ = write!(text, "{} {} ", to + 1, ((bytes / unit) as u64).max(1));
        }
        text.push('\n');
    }
    text
}

/// The hosts, bisected recursively across their longest side; in their given order without coordinates.
fn halves(coords: &[[f64; 3]], mut hosts: Vec<u32>) -> Vec<u32> {
    if hosts.len() < 2 || coords.is_empty() {
        return hosts;
    }
    let along = |d: usize| move |h: &u32| coords[*h as usize][d];
    let side = |d: usize| {
        let at = || hosts.iter().map(along(d));
        at().fold(f64::MIN, f64::max) - at().fold(f64::MAX, f64::min)
    };
    let longest = (0..3)
        .max_by(|&a, &b| side(a).total_cmp(&side(b)))
        .unwrap_or(0);
    hosts.sort_by(|a, b| along(longest)(a).total_cmp(&along(longest)(b)));
    let rest = hosts.split_off(hosts.len() / 2);
    [halves(coords, hosts), halves(coords, rest)].concat()
}

/// Of every level of the binary tree over `order`, lowest first, ten times the mean hops between its two sides.
fn levels(it: &Instance, order: &[u32]) -> Result<String, Box<dyn Error>> {
    let node = |i: usize| it.allocation.nodes()[order[i] as usize].0;
    let mut text = String::new();
    for level in 0..order.len().trailing_zeros() {
        let mut sum = 0;
        for i in 0..order.len() {
            sum += it
                .routing
                .hops(&it.fabric, node(i), node(i ^ (1 << level)))?;
        }
        writeln!(text, "{}", 10 * sum / order.len() + 1)?;
    }
    Ok(text)
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

/// Hosts, then routers, and the links between them.
fn machine(fabric: &Fabric) -> String {
    let first = fabric.nodes().len() as u32;
    let number = |end: End| match end {
        End::Router(r) => Some(first + r.0),
        End::Node(n) => Some(n.0),
        End::Hosts(_) => None,
    };
    let mut rows = vec![BTreeSet::new(); first as usize + fabric.routers().len()];
    for link in fabric.links() {
        if let (Some(a), Some(b)) = (number(link.from), number(link.to)) {
            rows[a as usize].insert(b);
            rows[b as usize].insert(a);
        }
    }
    let arcs: usize = rows.iter().map(BTreeSet::len).sum();
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
    for &(a, _) in it.allocation.nodes() {
        for &(b, _) in it.allocation.nodes() {
            write!(text, "{} ", it.routing.hops(&it.fabric, a, b)?)?;
        }
        text.push('\n');
    }
    Ok(text)
}
