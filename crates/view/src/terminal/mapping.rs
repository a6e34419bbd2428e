//! A mapping as text: costs side by side, the verdict, the ranks of every node.

use super::{Table, ranges};
use hopbyte_fabric::Fabric;
use hopbyte_fabric::units::{SIZES, TIMES, bytes_text, count, scale};
use hopbyte_job::mapping::baseline_name;
use hopbyte_job::{Arranged, Mapping, Question};
use hopbyte_map::{Baseline, Evaluation};
use std::fmt::Write as _;

/// Limit of listed nodes.
const NODES_SHOWN: usize = 40;

/// The costs side by side, the verdict, and the ranks of every node.
pub fn mapping_text(mapping: &Mapping, question: &Question, colour: bool) -> String {
    let c = &mapping.certificate;
    let of_seeds = match mapping.seeds {
        1 => String::new(),
        n => format!(" of {}", count(n)),
    };
    let mut page = format!(
        "# {} tasks of {} sending {}; {} nodes with {} slots on {}\n",
        count(question.exchange.tasks()),
        question.traffic,
        bytes_text(question.exchange.total_bytes()),
        count(question.allocation.nodes().len()),
        count(question.allocation.capacity()),
        question.machine.fabric.source(),
    );
    let _ = writeln!(
        page,
        "# objective {}; {:.2} s of search{}, {:.2} s of processor time, seed {}{}; uncalibrated: time is bytes / live capacity",
        c.objective,
        c.wall_seconds,
        if c.interrupted { " (interrupted)" } else { "" },
        c.cpu_seconds,
        c.seed,
        of_seeds
    );
    for note in &question.traffic_notes {
        let _ = writeln!(page, "# {note}");
    }
    if let Some(note) = question.following_note() {
        let _ = writeln!(page, "# {note}");
    }
    if let Some(wire) = question.loads.text() {
        let _ = writeln!(page, "# {wire}");
    }
    if question.keep_hosts {
        page += "# hosts are kept whole: blocks of ranks move from host to host\n";
    }
    if let Some(oracle) = &question.oracle {
        let _ = writeln!(page, "# links as of {oracle}");
    }
    if let Some(collector) = &question.collector {
        let _ = writeln!(page, "# links as of collector {}", collector.address);
    }
    page += &costs_text(mapping, &question.machine.fabric, colour);
    page.push('\n');
    for line in mapping.turns_text(&question.turns) {
        let _ = writeln!(page, "{line}");
    }
    let _ = writeln!(page, "{}", mapping.verdict_text());
    if let Some(prediction) = &mapping.run_time {
        let _ = writeln!(page, "{}", prediction.sentence);
    }
    page.push('\n');
    if let Some(inside) = &mapping.inside {
        page += &inside_text(inside, colour);
    }
    page + &placement_text(mapping, question, colour)
}

/// Cost of the placements, one per line.
pub fn costs_text(mapping: &Mapping, fabric: &Fabric, colour: bool) -> String {
    let c = &mapping.certificate;
    let (best, cost) = &c.best_baseline;
    let mut rows: Vec<(&str, &Evaluation)> = Vec::new();
    rows.extend(c.current.as_ref().map(|e| ("current", e)));
    rows.push(("in order", &c.baseline));
    if !matches!(best, Baseline::InOrder | Baseline::Current) {
        rows.push((baseline_name(*best), cost));
    }
    rows.push(("result", &c.result));
    let most = |value: fn(&Evaluation) -> f64| rows.iter().map(|r| value(r.1)).fold(0.0, f64::max);
    let (time, seconds) = scale(most(|e| e.worst_link_seconds), &TIMES);
    let (size, bytes) = scale(most(|e| e.hop_bytes.max(e.off_node_bytes)), &SIZES);
    let mut table = Table::new(&[
        "<placement",
        &format!("worst link {time}"),
        &format!("hop-bytes {size}"),
        &format!("off node {size}"),
        "dilation hops",
        "<worst link",
    ]);
    let cells = |worst: f64, hop_bytes: f64, off_node: f64, dilation: f64| {
        [
            format!("{:.3}", worst / seconds),
            format!("{:.3}", hop_bytes / bytes),
            format!("{:.3}", off_node / bytes),
            format!("{dilation:.3}"),
        ]
    };
    for (name, e) in rows {
        let link = e.worst_link.map_or("-".into(), |l| fabric.link_name(l));
        let values = cells(
            e.worst_link_seconds,
            e.hop_bytes,
            e.off_node_bytes,
            e.average_dilation,
        );
        table.row([name.to_owned()].into_iter().chain(values).chain([link]));
    }
    let b = &c.bound;
    let (worst, off) = (b.worst_link_seconds, b.off_node_bytes);
    let values = cells(worst, b.hop_bytes, off, b.average_dilation);
    table.row(["no less than".to_owned()].into_iter().chain(values));
    table.render(colour)
}

/// Bytes over the joints inside nodes.
fn inside_text(inside: &Arranged, colour: bool) -> String {
    if inside.joints.is_empty() {
        return String::new();
    }
    let most = inside.joints.iter().map(|j| j.bytes_in_order.max(j.bytes));
    let (unit, size) = scale(most.fold(0.0, f64::max), &SIZES);
    let mut table = Table::new(&[
        "<joint inside nodes",
        &format!("in order of ranks {unit}"),
        &format!("as placed {unit}"),
    ]);
    for joint in &inside.joints {
        let bytes = [joint.bytes_in_order, joint.bytes].map(|b| format!("{:.3}", b / size));
        table.row([joint.kind.clone()].into_iter().chain(bytes));
    }
    table.render(colour) + "\n"
}

fn placement_text(mapping: &Mapping, question: &Question, colour: bool) -> String {
    let allocation = &question.allocation;
    let mut ranks: Vec<Vec<u32>> = vec![Vec::new(); allocation.nodes().len()];
    for (task, slot) in (0..).zip(mapping.placement.slots()) {
        if let Some(place) = allocation.position(slot.node) {
            ranks[place].push(task);
        }
    }
    let mut table = Table::new(&["<node", "ranks", "<which"]);
    for (&(node, _), ranks) in allocation.nodes().iter().zip(&ranks).take(NODES_SHOWN) {
        let name = question.machine.fabric.node(node).name.clone();
        table.row([name, ranks.len().to_string(), ranges(ranks)]);
    }
    let mut page = table.render(colour);
    let more = ranks.len().saturating_sub(NODES_SHOWN);
    if more > 0 {
        let _ = writeln!(
            page,
            "… and {} more nodes; --emit csv prints all",
            count(more)
        );
    }
    page
}
