//! `hopbyte oracle query`: cost of the route between two nodes.

use crate::args::{self, CounterArgs, FabricOption, one_of};
use crate::output::{Answer, Output};
use anyhow::{Result, ensure};
use clap::builder::TypedValueParser;
use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_job::costs::{Asked, CostsSummary, PairCost, end_of_route, npy, read_pairs};
use hopbyte_job::inputs;
use hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts};
use hopbyte_view::terminal::{matrix_text, pairs_text};
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
        ensure!(
            query.counters.is_empty(),
            "--counters: metric {} needs no counters\nhint: leave the option out, or choose a metric of counters: {}",
            query.metric,
            Metric::counted()
                .map(Metric::name)
                .collect::<Vec<_>>()
                .join(", ")
        );
        inputs::unused(&query.about.options())?;
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
        (Some(from), Some(to), _) => vec![(end_of_route(fabric, from)?, end_of_route(fabric, to)?)],
        (_, _, Some(file)) => read_pairs(file, fabric)?,
        _ => anyhow::bail!("nothing asked\nhint: give FROM and TO, --pairs FILE or --all"),
    };
    let asked = Asked::new(query.metric, query.aggregate, query.over);
    let cost = |&pair: &(NodeId, NodeId)| PairCost::of(asked, fabric, &costs, pair);
    let answers: Vec<PairCost> = pairs.iter().map(cost).collect();
    for missing in answers.iter().filter_map(|a| a.pair.unroutable.as_ref()) {
        out.talk(missing);
    }
    let complete = answers.iter().all(|a| a.pair.unroutable.is_none());
    if out.json {
        for answer in &answers {
            out.object(answer)?;
        }
    } else {
        let text = pairs_text(&answers, out.colour());
        out.text(&text)?;
    }
    Ok(Answer::of(complete))
}

/// The whole matrix between routers: its distribution, and the most expensive pairs.
fn all(query: &Query, fabric: &Fabric, costs: &RouteCosts, out: &mut Output) -> Result<Answer> {
    let matrix = costs.routers()?;
    if let Some(path) = &query.out {
        hopbyte_apply::write_atomic_by(path, &mut |file| npy(&matrix, file))?;
    }
    let asked = Asked::new(query.metric, query.aggregate, query.over);
    let summary = CostsSummary::of(asked, fabric, &matrix);
    out.answer(&summary, matrix_text)?;
    Ok(Answer::Yes)
}
