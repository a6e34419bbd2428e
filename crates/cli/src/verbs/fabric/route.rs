//! `hopbyte fabric route FABRIC A B`.

use crate::args::{FabricOptions, fabric_help, read_machine};
use crate::output::{Answer, Output, Table};
use anyhow::Result;
use hopbyte_fabric::spec::is_fabric_spec;
use hopbyte_fabric::units::BytesPerSecond;
use hopbyte_fabric::{Class, Fabric, InputError, LinkId, NodeId, Routing};
use hopbyte_job::costs::end_of_route;
use serde::Serialize;
use std::path::Path;

/// Machine and pair.
#[derive(clap::Args, Debug)]
#[command(override_usage = "hopbyte fabric route [OPTIONS] [FABRIC] <FROM> <TO>")]
pub struct RouteArgs {
    /// The machine: a file, or a spec (default: the configured one)
    #[arg(value_name = "FABRIC", long_help = fabric_help())]
    fabric: String,
    #[command(flatten)]
    beside: FabricOptions,
    /// Sending node: name, host name, GUID, `lid:N`, nid, or the name of a router with one node
    #[arg(value_name = "FROM")]
    from: String,
    /// Receiving node
    #[arg(value_name = "TO")]
    to: String,
}

/// The answer.
#[derive(Serialize)]
struct Pair {
    schema: &'static str,
    from: String,
    to: String,
    routing: String,
    /// Whether this is the only path.
    single_path: bool,
    request: Option<Vec<Step>>,
    response: Option<Vec<Step>>,
    request_mean_hops: Option<f64>,
    response_mean_hops: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unroutable: Vec<String>,
}

/// One link of a route.
#[derive(Serialize)]
struct Step {
    link: String,
    from: String,
    to: String,
    kind: String,
    hop: bool,
    capacity_bytes_per_s: f64,
}

impl Step {
    fn of(fabric: &Fabric, link: LinkId) -> Self {
        let l = fabric.link(link);
        Self {
            link: fabric.link_name(link),
            from: fabric.end_name(l.from),
            to: fabric.end_name(l.to),
            kind: fabric.kind(link).name.clone(),
            hop: fabric.is_hop(link),
            capacity_bytes_per_s: l.capacity().0,
        }
    }
}

impl RouteArgs {
    /// The error of a machine behind nodes.
    fn swapped(&self) -> Option<InputError> {
        let mut words = vec![&self.fabric, &self.from, &self.to];
        let is_machine = |word: &&String| is_fabric_spec(word) || Path::new(word).is_file();
        let machine = words.remove(1 + words[1..].iter().position(is_machine)?);
        let found = format!("the machine {machine} behind {}", words[0]);
        let error = InputError::new("command line", found, "the machine, then two nodes");
        let hint = format!("hopbyte fabric route {machine} {} {}", words[0], words[1]);
        Some(error.of(Class::Refused).hint(hint))
    }
}

/// Finds both routes; exit code 1 if one is missing.
pub fn run(args: &RouteArgs, out: &mut Output) -> Result<Answer> {
    let machine = read_machine(&args.beside.source(&args.fabric), out);
    let machine = machine.map_err(|error| args.swapped().map_or(error, Into::into))?;
    let (fabric, routing) = (&machine.fabric, &machine.routing);
    let end = |name: &str| end_of_route(fabric, name);
    let (from, to) = (end(&args.from)?, end(&args.to)?);
    let mut unroutable = Vec::new();
    let request = steps(fabric, routing, from, to, &mut unroutable);
    let response = steps(fabric, routing, to, from, &mut unroutable);
    let pair = Pair {
        schema: "hopbyte.route/1",
        from: fabric.node(from).name.clone(),
        to: fabric.node(to).name.clone(),
        routing: routing.describe(),
        single_path: routing.has_one_path(fabric, from, to)
            && routing.has_one_path(fabric, to, from),
        request,
        response,
        request_mean_hops: routing.mean_hops(fabric, from, to).ok(),
        response_mean_hops: routing.mean_hops(fabric, to, from).ok(),
        unroutable,
    };
    match out.json {
        true => out.object(&pair)?,
        false => write(&pair, out)?,
    }
    Ok(Answer::of(pair.unroutable.is_empty()))
}

fn steps(
    fabric: &Fabric,
    routing: &Routing,
    from: NodeId,
    to: NodeId,
    unroutable: &mut Vec<String>,
) -> Option<Vec<Step>> {
    let mut links = Vec::new();
    match routing.path(fabric, from, to, &mut links) {
        Ok(()) => Some(links.into_iter().map(|l| Step::of(fabric, l)).collect()),
        Err(error) => {
            unroutable.push(error.describe(fabric));
            None
        }
    }
}

fn write(pair: &Pair, out: &mut Output) -> Result<()> {
    out.line(format!("# {} to {}: {}", pair.from, pair.to, pair.routing))?;
    if !pair.single_path {
        out.talk("one of several paths is shown; traffic is split over all of them");
    }
    let ways = [
        ("request", &pair.request, pair.request_mean_hops),
        ("response", &pair.response, pair.response_mean_hops),
    ];
    for (name, route, mean) in ways {
        let Some(route) = route else { continue };
        let hops = route.iter().filter(|s| s.hop).count();
        let rates = route.iter().map(|s| s.capacity_bytes_per_s);
        let rate = BytesPerSecond(rates.fold(f64::INFINITY, f64::min));
        out.line("")?;
        if route.is_empty() {
            out.line(format!("{name}: stays on the node"))?;
            continue;
        }
        let mean = mean.filter(|m| (m - hops as f64).abs() > 1e-9);
        let mean = mean.map_or(String::new(), |m| {
            format!(" ({m:.2} on average over all paths)")
        });
        out.line(format!("{name}: {hops} hops{mean}, at most {rate}"))?;
        let mut table = Table::new(&["hop", "<link", "<to", "<kind", "GB/s"]);
        let mut hop = 0;
        for step in route {
            hop += usize::from(step.hop);
            table.row([
                match step.hop {
                    true => hop.to_string(),
                    false => "-".into(),
                },
                step.link.clone(),
                step.to.clone(),
                step.kind.clone(),
                BytesPerSecond(step.capacity_bytes_per_s).gb_text(2),
            ]);
        }
        out.table(&table)?;
    }
    for reason in &pair.unroutable {
        out.line(format!("\n{reason}"))?;
    }
    Ok(())
}
