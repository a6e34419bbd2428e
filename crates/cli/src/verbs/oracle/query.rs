//! `hopbyte oracle query`: what does the route between two nodes cost?

use super::super::Answer;
use crate::args::{CounterArgs, FabricOption};
use crate::output::{Output, Table, count};
use anyhow::Result;
use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_job::inputs;
use hopbyte_observe::text::{Limits, Text, lossy};
use hopbyte_oracle::{Aggregate, CostMatrix, Metric, Over, RouteCosts};
use hopbyte_serve::pair::{Asked, Pair};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What to ask.
#[derive(clap::Args, Debug)]
pub struct Query {
    /// Sending node
    #[arg(value_name = "FROM", requires = "to")]
    from: Option<String>,
    /// Receiving node
    #[arg(value_name = "TO")]
    to: Option<String>,
    /// The machine.
    #[command(flatten)]
    fabric: FabricOption,
    /// File of pairs, one a line: `FROM,TO` (or apart by a tab, or by one blank)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "all"])]
    pairs: Option<PathBuf>,
    /// All pairs of routers: prints the distribution and the dearest; --out keeps the matrix
    #[arg(long, conflicts_with = "from")]
    all: bool,
    /// Write the matrix of --all as a NumPy file (32-bit floats, row = from; NaN unknown)
    #[arg(long, value_name = "FILE.npy", requires = "all")]
    out: Option<PathBuf>,
    /// What counts on a link: hops, inverse-bandwidth, used, input-stall, credit-stall, bytes
    #[arg(long, default_value_t = Metric::Hops)]
    metric: Metric,
    /// Counters for the metrics that need them, as `hopbyte links` reads them (may be given twice)
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    counters: Vec<PathBuf>,
    /// What their files do not say.
    #[command(flatten)]
    about: CounterArgs,
    /// How the links of a route become one number: max, sum, mean
    #[arg(long, default_value_t = Aggregate::Sum)]
    aggregate: Aggregate,
    /// Which routes count: request, response, both
    #[arg(long, default_value_t = Over::Request)]
    over: Over,
}

/// One pair's cost.
#[derive(Serialize)]
struct Cost {
    schema: &'static str,
    from: String,
    to: String,
    #[serde(flatten)]
    asked: Asked,
    #[serde(flatten)]
    pair: Pair,
}

/// Answers.
pub fn run(query: &Query, out: &mut Output) -> Result<Answer> {
    let machine = query.fabric.read(out)?;
    let (fabric, routing) = (&machine.fabric, &machine.routing);
    let state = if query.metric.needs_state() {
        if query.counters.is_empty() {
            anyhow::bail!(
                "metric {} needs a reading of counters\nhint: give --counters FILE",
                query.metric
            );
        }
        let reading = inputs::reading(&query.counters, fabric, &query.about.options())?;
        reading.notes.iter().for_each(|note| out.talk(note));
        Some(reading.state)
    } else {
        None
    };
    let costs = RouteCosts::new(
        fabric,
        routing,
        state.as_ref(),
        query.metric,
        query.aggregate,
        query.over,
    );
    if query.all {
        return all(query, fabric, &costs, out);
    }
    let pairs = match (&query.from, &query.to, &query.pairs) {
        (Some(from), Some(to), _) => vec![(fabric.find_node(from)?, fabric.find_node(to)?)],
        (_, _, Some(file)) => read_pairs(file, fabric)?,
        _ => anyhow::bail!("nothing asked\nhint: give FROM and TO, --pairs FILE or --all"),
    };
    let asked = Asked::new(query.metric, query.aggregate, query.over);
    let cost = |&(from, to): &(NodeId, NodeId)| Cost {
        schema: "hopbyte.cost/1",
        from: fabric.node(from).name.clone(),
        to: fabric.node(to).name.clone(),
        asked,
        pair: Pair::of(fabric, &costs, (from, to)),
    };
    let answers: Vec<Cost> = pairs.iter().map(cost).collect();
    for missing in answers.iter().filter_map(|a| a.pair.unroutable.as_ref()) {
        out.talk(missing);
    }
    let complete = answers.iter().all(|a| a.pair.unroutable.is_none());
    if out.json {
        for answer in &answers {
            out.object(answer)?;
        }
    } else {
        write(query, answers, out)?;
    }
    Ok(if complete { Answer::Yes } else { Answer::No })
}

/// Reads a list of pairs: names apart by a comma, a tab or a blank; `#` begins a comment.
fn read_pairs(path: &Path, fabric: &Fabric) -> Result<Vec<(NodeId, NodeId)>> {
    let text = Text::read(path, Limits::TEXT)?;
    let mut pairs = Vec::new();
    for line in text.lines() {
        let content = lossy(line.trimmed());
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let halves = [',', '\t', ' '].iter().find_map(|&c| content.split_once(c));
        let Some((from, to)) = halves else {
            return Err(text.error_at(line, "FROM,TO").into());
        };
        let node = |name: &str| {
            fabric.find_node(name.trim()).map_err(|e| {
                let place = text.error_at(line, "the names of two nodes");
                place.hint(e.to_string())
            })
        };
        pairs.push((node(from)?, node(to)?));
    }
    Ok(pairs)
}

/// Dearest first.
fn write(query: &Query, mut answers: Vec<Cost>, out: &mut Output) -> Result<()> {
    answers.sort_by(|a, b| {
        let key = |c: &Cost| c.pair.cost.or(c.pair.lower).unwrap_or(f64::INFINITY);
        key(b).total_cmp(&key(a))
    });
    let name = heading(query.metric, query.aggregate);
    out.line(format!(
        "# {name} over the {} route, dearest first",
        over_text(query.over)
    ))?;
    let unit = format!("cost ({})", query.metric.unit());
    let mut table = Table::new(&["<from", "<to", &unit, "links", "read %"]);
    for answer in answers {
        let pair = &answer.pair;
        let value = match (pair.cost, pair.lower, pair.upper) {
            (Some(cost), ..) => number(cost),
            (None, Some(lower), Some(upper)) => format!("{}..{}", number(lower), number(upper)),
            (None, Some(lower), None) => format!(">= {}", number(lower)),
            _ => "no route".into(),
        };
        let read = format!("{:.0}", 100.0 * pair.coverage);
        let links = pair.links.to_string();
        table.row([answer.from, answer.to, value, links, read]);
    }
    out.table(&table)?;
    Ok(())
}

fn heading(metric: Metric, aggregate: Aggregate) -> String {
    format!("{aggregate} of {metric}")
}

fn over_text(over: Over) -> &'static str {
    match over {
        Over::Request => "request",
        Over::Response => "response",
        Over::Both => "request and response",
    }
}

/// Whole numbers as they are, ratios and seconds per byte with the digits that count.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value}");
    }
    if value.abs() < 1e-3 {
        format!("{value:.3e}")
    } else {
        format!("{value:.4}")
    }
}

/// The whole matrix between routers: its distribution, and the dearest pairs.
fn all(query: &Query, fabric: &Fabric, costs: &RouteCosts, out: &mut Output) -> Result<Answer> {
    let matrix = costs.all_routers()?;
    if let Some(path) = &query.out {
        hopbyte_apply::write_atomic(path, &npy(&matrix))?;
    }
    let summary = Summary::of(query, fabric, &matrix);
    if out.json {
        out.object(&summary)?;
        return Ok(Answer::Yes);
    }
    out.line(format!(
        "# {} over the {} route, all {} pairs of routers",
        heading(query.metric, query.aggregate),
        over_text(query.over),
        count(summary.pairs)
    ))?;
    let unit = format!("cost ({})", query.metric.unit());
    let mut table = Table::new(&["<of all pairs", &unit]);
    for (name, value) in [
        ("least", summary.min),
        ("median", summary.median),
        ("99 %", summary.percentile_99),
        ("most", summary.max),
    ] {
        table.row([
            name.to_owned(),
            value.map_or("-".into(), |v| number(f64::from(v))),
        ]);
    }
    out.table(&table)?;
    out.line(format!(
        "unknown {}, without a route {}",
        count(summary.unknown),
        count(summary.unroutable)
    ))?;
    if let Some((from, to)) = &summary.dearest {
        out.line(format!("dearest: {from} to {to}"))?;
    }
    Ok(Answer::Yes)
}

/// NumPy's own format, version 1: a header that ends on a multiple of 64 bytes, then the values.
fn npy(matrix: &CostMatrix) -> Vec<u8> {
    let n = matrix.size();
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({n}, {n}), }}");
    let unpadded = 10 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(matrix.as_slice().iter().flat_map(|v| v.to_le_bytes()));
    bytes
}

/// A cost matrix in a few numbers.
#[derive(Serialize)]
struct Summary {
    schema: &'static str,
    #[serde(flatten)]
    asked: Asked,
    pairs: usize,
    unknown: usize,
    unroutable: usize,
    min: Option<f32>,
    median: Option<f32>,
    percentile_99: Option<f32>,
    max: Option<f32>,
    dearest: Option<(String, String)>,
}

impl Summary {
    fn of(query: &Query, fabric: &Fabric, matrix: &CostMatrix) -> Self {
        let n = matrix.size();
        let off_diagonal = || {
            (0..n).flat_map(move |from| {
                let row = matrix.row(from).iter().enumerate();
                row.filter(move |&(to, _)| to != from)
                    .map(move |(to, &v)| (from, to, v))
            })
        };
        let mut values: Vec<f32> = off_diagonal()
            .map(|(.., v)| v)
            .filter(|v| v.is_finite())
            .collect();
        let max = values.iter().copied().reduce(f32::max);
        let dearest = off_diagonal()
            .find(|&(.., v)| Some(v) == max)
            .map(|(from, to, _)| {
                let name = |r| fabric.router(hopbyte_fabric::RouterId::of(r)).name.clone();
                (name(from), name(to))
            });
        let min = values.iter().copied().reduce(f32::min);
        let mut quantile = |share: f64| {
            let at = ((values.len() as f64 * share).ceil() as usize).checked_sub(1)?;
            let at = at.min(values.len() - 1);
            Some(*values.select_nth_unstable_by(at, f32::total_cmp).1)
        };
        Self {
            schema: "hopbyte.costs/1",
            asked: Asked::new(query.metric, query.aggregate, query.over),
            min,
            median: quantile(0.5),
            percentile_99: quantile(0.99),
            max,
            dearest,
            pairs: n * n.saturating_sub(1),
            unknown: off_diagonal().filter(|(.., v)| v.is_nan()).count(),
            unroutable: off_diagonal().filter(|(.., v)| v.is_infinite()).count(),
        }
    }
}
