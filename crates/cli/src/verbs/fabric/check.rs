//! `hopbyte fabric check FABRIC [--down …]`.

use crate::args::FabricArgs;
use crate::output::{Answer, Output, count};
use anyhow::Result;
use hopbyte_fabric::check::{Check, Finding, letters};
use hopbyte_fabric::routing::DimensionOrder;
use hopbyte_fabric::{Fabric, InputError, LinkId, Routing};
use hopbyte_view::terminal::Progress;
use serde::Serialize;

/// The machine to check.
#[derive(clap::Args, Debug)]
pub struct CheckArgs {
    #[command(flatten)]
    fabric: FabricArgs,
    /// Check the machine once per cable with that cable removed (torus and mesh)
    #[arg(long)]
    each_link: bool,
}

/// The answer.
#[derive(Serialize)]
struct CheckReport {
    schema: &'static str,
    sound: bool,
    routable: bool,
    pairs: u64,
    unroutable_pairs: u64,
    /// The first unroutable pairs, source and destination.
    unroutable: Vec<[String; 2]>,
    components: usize,
    order: Option<String>,
    deadlock_free: bool,
    virtual_channels: &'static str,
    findings: Vec<Found>,
}

/// One finding.
#[derive(Serialize)]
struct Found {
    kind: &'static str,
    fatal: bool,
    text: String,
    links: Vec<String>,
}

impl Found {
    fn of(fabric: &Fabric, finding: &Finding) -> Self {
        Self {
            kind: finding.kind,
            fatal: finding.fatal,
            text: finding.text.clone(),
            links: finding.links.iter().map(|&l| fabric.link_name(l)).collect(),
        }
    }
}

/// Checks; exit code 1 for a fatal finding.
pub fn run(args: &CheckArgs, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    if args.each_link {
        return each_link(&machine.fabric, &machine.routing, out);
    }
    let healthy = machine.healthy.as_ref().map(|h| (&h.0, &h.1));
    let check = Check::of(&machine.fabric, &machine.routing, healthy);
    let report = CheckReport {
        schema: "hopbyte.check/1",
        sound: check.is_sound(),
        routable: check.reach.unroutable_pairs() == 0,
        pairs: check.reach.pairs,
        unroutable_pairs: check.reach.unroutable_pairs(),
        unroutable: check
            .reach
            .unroutable
            .iter()
            .map(|u| [u.from, u.to].map(|n| machine.fabric.node(n).name.clone()))
            .collect(),
        components: check.components,
        order: check.order,
        deadlock_free: check.deadlock_free,
        virtual_channels: check.virtual_channels.describe(),
        findings: check
            .findings
            .iter()
            .map(|f| Found::of(&machine.fabric, f))
            .collect(),
    };
    match out.json {
        true => out.object(&report)?,
        false => write(&report, machine.fabric.source(), out)?,
    }
    Ok(Answer::of(report.sound))
}

fn write(report: &CheckReport, source: &str, out: &mut Output) -> Result<()> {
    let verdict = if report.sound { "sound" } else { "not sound" };
    out.line(format!("# {source}: {verdict}"))?;
    let routable = report.pairs - report.unroutable_pairs;
    out.line(format!(
        "pairs with a route  {} of {}",
        count(routable as usize),
        count(report.pairs as usize)
    ))?;
    out.line(format!("components          {}", report.components))?;
    if let Some(order) = &report.order {
        out.line(format!("order               {order}"))?;
    }
    let free = if report.deadlock_free {
        "none"
    } else {
        "found"
    };
    out.line(format!(
        "credit loops        {free} (assuming {})",
        report.virtual_channels
    ))?;
    for finding in &report.findings {
        let weight = if finding.fatal { "error" } else { "note" };
        out.line(format!("\n{weight}: {} ({})", finding.text, finding.kind))?;
        for link in finding.links.iter().take(5) {
            out.line(format!("  {link}"))?;
        }
        if finding.links.len() > 5 {
            out.line("  … more with --json")?;
        }
    }
    for [from, to] in report.unroutable.iter().take(5) {
        out.line(format!("no route: {from} to {to}"))?;
    }
    Ok(())
}

/// One row of the study of single failures.
#[derive(Serialize)]
struct Single {
    schema: &'static str,
    link: String,
    routable: bool,
    order: Option<String>,
}

/// Removes every cable between routers, one at a time.
fn each_link(fabric: &Fabric, routing: &Routing, out: &mut Output) -> Result<Answer> {
    let Routing::DimensionOrder(_) = routing else {
        return Err(InputError::new(
            fabric.source(),
            routing.describe(),
            "dimension-order routing",
        )
        .hint("--each-link studies tori and meshes; use --down LINK on other machines")
        .into());
    };
    let is_cable = |l: &LinkId| {
        fabric.link(*l).is_between_routers() && fabric.reverse(*l).is_none_or(|back| *l < back)
    };
    let cables: Vec<LinkId> = fabric.link_ids().filter(is_cable).collect();
    let progress = Progress::new(out.quiet);
    let mut broken = 0;
    for (done, &cable) in cables.iter().enumerate() {
        progress.show(
            done as f64 / cables.len() as f64,
            "taking out one cable at a time",
        );
        let down: Vec<LinkId> = [Some(cable), fabric.reverse(cable)]
            .into_iter()
            .flatten()
            .collect();
        let order = DimensionOrder::rerouted_without(fabric, &down)
            .filter(|o| o.is_one_order() && o.serves_all(fabric));
        let name = fabric.link_name(cable);
        broken += usize::from(order.is_none());
        if out.json {
            out.object(&Single {
                schema: "hopbyte.check.single/1",
                link: name,
                routable: order.is_some(),
                order: order.map(|o| letters(&o)),
            })?;
        } else if order.is_none() {
            out.line(format!("no order serves all pairs without {name}"))?;
        }
    }
    drop(progress);
    if !out.json {
        out.line(format!(
            "# {}: {} cables taken out one at a time, {} leave pairs without a route",
            fabric.source(),
            count(cables.len()),
            count(broken)
        ))?;
    }
    Ok(Answer::of(broken == 0))
}
