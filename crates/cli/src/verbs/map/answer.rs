//! What a mapping is worth, in words and numbers.

use super::node::Arranged;
use super::question::{Oracled, Question};
use crate::machine::MachineSource;
use crate::output::{Output, SIZES, TIMES, Table, count, scale};
use crate::saved::{self, Room};
use anyhow::Result;
use hopbyte_apply::Launch;
use hopbyte_fabric::units::bytes_text;
use hopbyte_fabric::{Fabric, LinkId, Placement};
use hopbyte_map::budget::{Advice, Migration};
use hopbyte_map::{Baseline, Bound, Certificate, Evaluation, Verdict};
use serde::Serialize;

/// Nodes whose ranks the text lists.
const NODES_SHOWN: usize = 40;

/// A placement and what it is worth.
pub struct Mapping {
    /// Where the ranks go.
    pub placement: Placement,
    /// What that is worth.
    pub certificate: Certificate,
    /// Whether it is worth to move there, where that was asked.
    pub migration: Option<Migration>,
    /// Seeds that were searched from, of which the best is kept.
    pub seeds: usize,
    /// What the slots of a node are, where its inside is known.
    pub inside: Option<Arranged>,
}

/// Everything about a mapping, for scripts and for `hopbyte apply`.
#[derive(Serialize)]
pub struct Record<'a> {
    schema: &'static str,
    hopbyte: &'static str,
    machine: &'a MachineSource,
    traffic: Sent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    background: Option<&'a saved::Background>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oracle: Option<&'a Oracled>,
    response_fraction: f64,
    objective: &'a str,
    calibration: &'static str,
    baseline: Cost,
    best_baseline: Named,
    current: Option<Cost>,
    result: Cost,
    bound: &'a Bound,
    verdict: Verdict,
    moved_tasks: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    migration: Option<&'a Migration>,
    seed: u64,
    seeds: usize,
    trials: u64,
    threads: usize,
    wall_seconds: f64,
    cpu_seconds: f64,
    allocation: Vec<Room>,
    placement: Vec<&'a str>,
    slots: Vec<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<&'a Arranged>,
}

#[derive(Serialize)]
struct Sent<'a> {
    source: &'a str,
    tasks: usize,
    pairs: usize,
    bytes: f64,
}

/// A baseline by name.
#[derive(Serialize)]
struct Named {
    name: Baseline,
    #[serde(flatten)]
    cost: Cost,
}

/// What a placement costs, links by name.
#[derive(Serialize)]
pub struct Cost {
    worst_link_seconds: f64,
    worst_link: Option<String>,
    worst_network_link_seconds: f64,
    worst_network_link: Option<String>,
    worst_host_link_seconds: f64,
    p99_link_seconds: f64,
    mean_link_seconds: f64,
    loaded_links: usize,
    hop_bytes: f64,
    average_dilation: f64,
    off_node_bytes: f64,
    worst_injection_bytes: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    route_cost: Option<f64>,
}

impl Cost {
    /// From what the mapper computed.
    pub fn of(fabric: &Fabric, e: &Evaluation) -> Self {
        let name = |link: Option<LinkId>| link.map(|l| fabric.link_name(l));
        Self {
            worst_link_seconds: e.worst_link_seconds,
            worst_link: name(e.worst_link),
            worst_network_link_seconds: e.worst_network_link_seconds,
            worst_network_link: name(e.worst_network_link),
            worst_host_link_seconds: e.worst_host_link_seconds,
            p99_link_seconds: e.p99_link_seconds,
            mean_link_seconds: e.mean_link_seconds,
            loaded_links: e.loaded_links,
            hop_bytes: e.hop_bytes,
            average_dilation: e.average_dilation,
            off_node_bytes: e.off_node_bytes,
            worst_injection_bytes: e.worst_injection_bytes,
            route_cost: e.route_cost,
        }
    }
}

impl Mapping {
    /// The placement on its way to a launcher; which MPI the job uses is not known here.
    pub fn launch<'a>(&'a self, question: &'a Question) -> Launch<'a> {
        Launch {
            fabric: &question.machine.fabric,
            allocation: &question.allocation,
            placement: &self.placement,
            mpich: None,
            cores: self.inside.as_ref().and_then(|i| i.cores.as_ref()),
        }
    }

    /// All of it, for scripts.
    pub fn record<'a>(&'a self, question: &'a Question) -> Record<'a> {
        let (fabric, c) = (&question.machine.fabric, &self.certificate);
        let (best, best_cost) = &c.best_baseline;
        Record {
            schema: saved::SCHEMA,
            hopbyte: env!("CARGO_PKG_VERSION"),
            machine: &question.source,
            traffic: Sent {
                source: &question.traffic.source,
                tasks: question.traffic.tasks,
                pairs: question.exchange.pairs(),
                bytes: question.exchange.total_bytes(),
            },
            background: question.background_source.as_ref(),
            oracle: question.oracle.as_ref(),
            response_fraction: question.response_fraction,
            objective: &c.objective,
            calibration: "uncalibrated: times are bytes over live capacity",
            baseline: Cost::of(fabric, &c.baseline),
            best_baseline: Named {
                name: *best,
                cost: Cost::of(fabric, best_cost),
            },
            current: c.current.as_ref().map(|e| Cost::of(fabric, e)),
            result: Cost::of(fabric, &c.result),
            bound: &c.bound,
            verdict: c.verdict,
            moved_tasks: c.moved_tasks,
            migration: self.migration.as_ref(),
            seed: c.seed,
            seeds: self.seeds,
            trials: c.trials,
            threads: c.threads,
            wall_seconds: c.wall_seconds,
            cpu_seconds: c.cpu_seconds,
            allocation: question
                .allocation
                .nodes()
                .iter()
                .map(|&(node, slots)| Room {
                    node: fabric.node(node).name.clone(),
                    slots,
                })
                .collect(),
            placement: self
                .placement
                .slots()
                .iter()
                .map(|s| fabric.node(s.node).name.as_str())
                .collect(),
            slots: self.placement.slots().iter().map(|s| s.slot).collect(),
            inside: self.inside.as_ref(),
        }
    }

    /// The costs side by side, the verdict, and the ranks of every node.
    pub fn write(&self, question: &Question, out: &mut Output) -> Result<()> {
        let c = &self.certificate;
        let of_seeds = match self.seeds {
            1 => String::new(),
            n => format!(" of {}", count(n)),
        };
        out.line(format!(
            "# {} tasks of {} sending {}; {} nodes with {} slots on {}",
            count(question.traffic.tasks),
            question.traffic.source,
            bytes_text(question.exchange.total_bytes()),
            count(question.allocation.nodes().len()),
            count(question.allocation.capacity()),
            question.machine.fabric.source(),
        ))?;
        out.line(format!(
            "# objective {}; {:.2} s of search, {:.2} s of processor time, seed {}{}; uncalibrated: time is bytes / live capacity",
            c.objective, c.wall_seconds, c.cpu_seconds, c.seed, of_seeds
        ))?;
        if let Some(oracle) = &question.oracle {
            out.line(format!("# links as of {oracle}"))?;
        }
        self.write_costs(&question.machine.fabric, out)?;
        out.line("")?;
        out.line(self.verdict_text())?;
        out.line("")?;
        if let Some(inside) = &self.inside {
            inside.write(out)?;
        }
        self.write_placement(question, out)
    }

    /// Cost of the placements, one a line.
    pub fn write_costs(&self, fabric: &Fabric, out: &mut Output) -> Result<()> {
        let c = &self.certificate;
        let (best, cost) = &c.best_baseline;
        let mut rows: Vec<(&str, &Evaluation)> = Vec::new();
        rows.extend(c.current.as_ref().map(|e| ("current", e)));
        rows.push(("in order", &c.baseline));
        if !matches!(best, Baseline::InOrder | Baseline::Current) {
            rows.push((baseline_name(*best), cost));
        }
        rows.push(("result", &c.result));
        let most =
            |value: fn(&Evaluation) -> f64| rows.iter().map(|r| value(r.1)).fold(0.0, f64::max);
        let (time, seconds) = scale(most(|e| e.worst_link_seconds), &TIMES);
        let (size, bytes) = scale(most(|e| e.hop_bytes), &SIZES);
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
        let values = cells(
            b.worst_link_seconds,
            b.hop_bytes,
            b.off_node_bytes,
            b.average_dilation,
        );
        table.row(["no less than".to_owned()].into_iter().chain(values));
        out.table(&table)?;
        Ok(())
    }

    /// What came of it, in a sentence.
    pub fn verdict_text(&self) -> String {
        let c = &self.certificate;
        if let Some(migration) = &self.migration {
            return advice_text(migration);
        }
        let (best, cost) = &c.best_baseline;
        let name = baseline_name(*best);
        if c.verdict == Verdict::NoImprovement {
            return format!(
                "no improvement: nothing better than {name} was found, which is returned"
            );
        }
        let change = |was: f64, is: f64| match (was, is) {
            (w, i) if w == i || w == 0.0 => "as before".to_owned(),
            (w, i) => format!("{:+.1} %", 100.0 * (i / w - 1.0)),
        };
        format!(
            "better than {name}: worst link {}, hop-bytes {}; {} of {} tasks move",
            change(cost.worst_link_seconds, c.result.worst_link_seconds),
            change(cost.hop_bytes, c.result.hop_bytes),
            count(c.moved_tasks),
            count(self.placement.tasks()),
        )
    }

    fn write_placement(&self, question: &Question, out: &mut Output) -> Result<()> {
        let allocation = &question.allocation;
        let mut ranks: Vec<Vec<u32>> = vec![Vec::new(); allocation.nodes().len()];
        for (task, slot) in (0..).zip(self.placement.slots()) {
            if let Some(place) = allocation.position(slot.node) {
                ranks[place].push(task);
            }
        }
        let mut table = Table::new(&["<node", "ranks", "<which"]);
        for (&(node, _), ranks) in allocation.nodes().iter().zip(&ranks).take(NODES_SHOWN) {
            let name = question.machine.fabric.node(node).name.clone();
            table.row([name, ranks.len().to_string(), ranges(ranks)]);
        }
        out.table(&table)?;
        let more = ranks.len().saturating_sub(NODES_SHOWN);
        if more > 0 {
            out.line(format!(
                "… and {} more nodes; --emit csv prints all",
                count(more)
            ))?;
        }
        Ok(())
    }
}

/// Whether to move, what it costs and what it brings.
fn advice_text(m: &Migration) -> String {
    let limit = match m.budget {
        Some(budget) if budget < m.wanted_tasks => {
            format!(
                " (a search without a budget would move {})",
                count(m.wanted_tasks)
            )
        }
        _ => String::new(),
    };
    if m.moving_tasks == 0 {
        return format!("stay: nothing better was found{limit}");
    }
    let change = 100.0 * (m.worst_link_ratio - 1.0);
    let what = format!(
        "{} tasks{limit} take {} along in {}; worst link {change:+.1} %",
        count(m.moving_tasks),
        bytes_text(m.moving_bytes),
        time_text(m.move_seconds)
    );
    let gain = m.gain_seconds.map_or(String::new(), |gain| {
        format!("; the rest of the run gains {}", time_text(gain))
    });
    match m.advice {
        Advice::Move => format!("move: {what}{gain}"),
        Advice::Stay => format!("stay, it does not pay: {what}{gain}"),
    }
}

/// A time with a unit that suits it.
fn time_text(seconds: f64) -> String {
    let (unit, size) = scale(seconds.abs(), &TIMES);
    format!("{:.3} {unit}", seconds / size)
}

fn baseline_name(baseline: Baseline) -> &'static str {
    match baseline {
        Baseline::InOrder => "in order",
        Baseline::RoundRobin => "round robin",
        Baseline::Random => "random",
        Baseline::Current => "current",
    }
}

/// `0-3,8,10-11` for sorted numbers.
pub fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => parts.push((n, n)),
        }
    }
    let words = parts.into_iter().map(|(a, b)| {
        if a == b {
            a.to_string()
        } else {
            format!("{a}-{b}")
        }
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn runs_of_ranks_are_short() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(ranges(&[]), "");
    }
}
