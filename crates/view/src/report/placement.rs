//! Which ranks are on which node, before and after.

use super::{Job, words};
use crate::draw::escape;
use hopbyte_fabric::{Fabric, NodeId, Placement};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most rows of the table.
const ROWS: usize = 400;
/// Most ranks of a node that are listed one by one.
const SINGLE: usize = 64;
/// Most ranks that are listed one by one in all.
const ALL_SINGLE: usize = 8192;

/// Ranks by node.
fn by_node(placement: &Placement) -> BTreeMap<NodeId, Vec<u32>> {
    let mut nodes: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
    for rank in 0..placement.tasks() as u32 {
        nodes.entry(placement.node(rank)).or_default().push(rank);
    }
    nodes
}

/// Nodes of both placements.
pub fn nodes(job: &Job<'_>) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = by_node(job.before.placement).into_keys().collect();
    if let Some(after) = &job.after {
        nodes.extend(by_node(after.placement).into_keys());
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// A table of nodes with their ranks.
pub fn table(out: &mut String, fabric: &Fabric, job: &Job<'_>) {
    let before = by_node(job.before.placement);
    let after = job.after.as_ref().map(|a| by_node(a.placement));
    let nodes = nodes(job);
    let single = job.before.placement.tasks() <= ALL_SINGLE;
    let _ = write!(
        out,
        "<div class=\"scroll\"><table class=\"ranks\" id=\"ranks-table\"><caption>Ranks by node{}</caption><thead><tr><th scope=\"col\">Node</th><th scope=\"col\">Router</th><th scope=\"col\">{}</th>",
        if after.is_some() {
            "; underlined ranks come from another node"
        } else {
            ""
        },
        escape(&job.before.label)
    );
    if let Some(side) = &job.after {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(&side.label));
    }
    out.push_str("</tr></thead><tbody>");
    for &node in nodes.iter().take(ROWS) {
        let n = fabric.node(node);
        let _ = write!(
            out,
            "<tr data-node=\"{}\"><th scope=\"row\">{}</th><td>{}</td><td>",
            node,
            escape(&n.name),
            escape(&fabric.router(n.router).name)
        );
        let none = Vec::new();
        let here = before.get(&node).unwrap_or(&none);
        ranks(out, here, here, single);
        out.push_str("</td>");
        if let Some(after) = &after {
            out.push_str("<td>");
            ranks(out, after.get(&node).unwrap_or(&none), here, single);
            out.push_str("</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    if nodes.len() > ROWS {
        let _ = write!(
            out,
            "<p class=\"note\">{} more nodes are not listed here.</p>",
            nodes.len() - ROWS
        );
    }
}

/// Ranks one by one, those that were not `here` before underlined; or ranges, where there are many.
fn ranks(out: &mut String, ranks: &[u32], here: &[u32], single: bool) {
    if ranks.is_empty() {
        out.push_str("<span class=\"none\">none</span>");
        return;
    }
    if !single || ranks.len() > SINGLE {
        let _ = write!(out, "{}", words::ranges(ranks));
        return;
    }
    out.push_str("<span class=\"chips\">");
    for rank in ranks {
        let class = if here.binary_search(rank).is_ok() {
            "r"
        } else {
            "r new"
        };
        let _ = write!(
            out,
            "<span class=\"{class}\" data-rank=\"{rank}\">{rank}</span>"
        );
    }
    out.push_str("</span>");
}
