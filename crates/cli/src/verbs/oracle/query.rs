//! `hopbyte oracle query`: cost of the route between two nodes.

use crate::args::{self, CounterArgs, FabricOption, one_of};
use crate::output::{Answer, Output, Table, count};
use anyhow::Result;
use clap::builder::TypedValueParser;
use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_job::costs::{Asked, CostsSummary, Pair, npy, read_pairs};
use hopbyte_job::inputs;
use hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts};
use serde::Serialize;
use std::path::PathBuf;

/// Pairs, metric and machine.
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
    /// File of pairs, one per line: `FROM,TO` (or separated by a tab or one blank)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "all"])]
    pairs: Option<PathBuf>,
    /// All pairs of routers: prints the distribution and the most expensive pairs; --out keeps the matrix
    #[arg(long, conflicts_with = "from")]
    all: bool,
    /// Write the matrix of --all as a NumPy file (32-bit floats, row = from; NaN unknown)
    #[arg(long, value_name = "FILE.npy", requires = "all")]
    out: Option<PathBuf>,
    /// Metric of a link
    #[arg(long, value_parser = args::metrics(), default_value_t = Metric::Hops)]
    metric: Metric,
    /// Counters for the metrics that need them, as `hopbyte links` reads them (may be given twice)
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    counters: Vec<PathBuf>,
    /// Properties of the counters that their files lack.
    #[command(flatten)]
    about: CounterArgs,
    /// Aggregation along a route
    #[arg(long, value_parser = args::aggregates(), default_value_t = Aggregate::Sum)]
    aggregate: Aggregate,
    /// Request route, response route, or both
    #[arg(long, value_parser = overs(), default_value_t = Over::Request)]
    over: Over,
}

fn overs() -> impl TypedValueParser<Value = Over> {
    one_of(&Over::ALL.map(|o| (o.name(), o.about())))
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

/// Answers the query.
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
    Ok(Answer::of(complete))
}

/// Most expensive first.
fn write(query: &Query, mut answers: Vec<Cost>, out: &mut Output) -> Result<()> {
    answers.sort_by(|a, b| {
        let key = |c: &Cost| c.pair.cost.or(c.pair.lower).unwrap_or(f64::INFINITY);
        key(b).total_cmp(&key(a))
    });
    let name = heading(query.metric, query.aggregate);
    out.line(format!(
        "# {name} over the {} route, most expensive first",
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

/// Formats whole numbers exactly, ratios and seconds per byte with significant digits.
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

/// The whole matrix between routers: its distribution, and the most expensive pairs.
fn all(query: &Query, fabric: &Fabric, costs: &RouteCosts, out: &mut Output) -> Result<Answer> {
    let matrix = costs.routers()?;
    if let Some(path) = &query.out {
        hopbyte_apply::write_atomic_by(path, &mut |file| npy(&matrix, file))?;
    }
    let asked = Asked::new(query.metric, query.aggregate, query.over);
    let summary = CostsSummary::of(asked, fabric, &matrix);
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
