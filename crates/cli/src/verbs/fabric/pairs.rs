//! `hopbyte fabric pairs FABRIC`.

use crate::args::FabricArgs;
use crate::output::{Answer, Output, Table, count};
use anyhow::Result;
use hopbyte_fabric::{Fabric, MeanHops, Reach, Routing, Unroutable};
use serde::Serialize;
use std::collections::BTreeMap;

/// The machine.
#[derive(clap::Args, Debug)]
pub struct PairsArgs {
    #[command(flatten)]
    fabric: FabricArgs,
    /// Limit of unroutable pairs in the text (JSON names up to 1,000)
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// The answer.
#[derive(Serialize)]
struct Pairs {
    schema: &'static str,
    pairs: u64,
    routable: u64,
    hops: BTreeMap<MeanHops, u64>,
    unroutable_pairs: u64,
    unroutable: Vec<Missing>,
}

/// A pair without a route.
#[derive(Serialize)]
struct Missing {
    from: String,
    to: String,
    at: String,
    why: String,
}

impl Missing {
    fn of(fabric: &Fabric, pair: &Unroutable) -> Self {
        Self {
            from: fabric.node(pair.from).name.clone(),
            to: fabric.node(pair.to).name.clone(),
            at: fabric.router(pair.at).name.clone(),
            why: pair.describe(fabric),
        }
    }
}

/// Routes all pairs.
pub fn run(args: &PairsArgs, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    let reach = Reach::of(&machine.fabric, &machine.routing);
    if matches!(machine.routing, Routing::Hosts(_)) {
        out.talk("pairs of ports by the network's routes: links inside hosts, by which `fabric route` may leave by another port, are not taken");
    }
    let pairs = Pairs {
        schema: "hopbyte.pairs/1",
        pairs: reach.pairs,
        routable: reach.routable,
        unroutable_pairs: reach.unroutable_pairs(),
        unroutable: reach
            .unroutable
            .iter()
            .map(|u| Missing::of(&machine.fabric, u))
            .collect(),
        hops: reach.by_mean_hops(&machine.fabric, &machine.routing),
    };
    if out.json {
        out.object(&pairs)?;
        return Ok(Answer::Yes);
    }
    out.line(format!(
        "# {}: {} ordered pairs of nodes, {} with a route ({})",
        machine.fabric.source(),
        count(pairs.pairs as usize),
        count(pairs.routable as usize),
        machine.routing.describe()
    ))?;
    let hops = ["mean hops", "hops"][usize::from(machine.routing.is_single_path())];
    let mut table = Table::new(&[hops, "pairs", "% of pairs"]);
    for (hops, n) in &pairs.hops {
        let share = 100.0 * *n as f64 / pairs.pairs.max(1) as f64;
        table.row([hops.to_string(), count(*n as usize), format!("{share:.2}")]);
    }
    out.table(&table)?;
    if pairs.unroutable_pairs > 0 {
        out.line(format!(
            "\n{} pairs have no route:",
            count(pairs.unroutable_pairs as usize)
        ))?;
        for missing in pairs.unroutable.iter().take(args.top) {
            out.line(&missing.why)?;
        }
        let more = (pairs.unroutable_pairs as usize).saturating_sub(args.top);
        if more > 0 {
            out.line(format!("and {} more", count(more)))?;
        }
    }
    Ok(Answer::Yes)
}
