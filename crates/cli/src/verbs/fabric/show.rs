//! `hopbyte fabric show FABRIC`.

use crate::args::FabricArgs;
use crate::output::{Answer, Output, Table, count};
use anyhow::Result;
use hopbyte_fabric::{Direction, Fabric, Family};
use hopbyte_job::summary::MachineSummary;

/// The machine to show.
#[derive(clap::Args, Debug)]
pub struct ShowArgs {
    #[command(flatten)]
    fabric: FabricArgs,
}

/// Shows it.
pub fn run(args: &ShowArgs, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    let show = MachineSummary::of(&machine);
    if out.json {
        out.object(&show)?;
        return Ok(Answer::Yes);
    }
    out.line(format!(
        "# {}: {}",
        show.source,
        family_text(&machine.fabric)
    ))?;
    out.line(format!("routing     {}", show.routing))?;
    for (name, n) in [
        ("routers", show.routers),
        ("nodes", show.nodes),
        ("links", show.links),
        ("host links", show.host_links),
        ("link ends", show.ports),
        ("components", show.components),
    ] {
        out.line(format!("{name:<10}  {}", count(n)))?;
    }
    if let Some(hosts) = &show.hosts {
        out.line(format!("hosts       {hosts}"))?;
    }
    out.line("")?;
    let mut table = Table::new(&["<kind", "links (directed)", "GB/s each way"]);
    let mut kinds: Vec<_> = show.kinds.iter().collect();
    kinds.sort_by_key(|(name, row)| (!row.hop, std::cmp::Reverse(row.links), *name));
    for (name, row) in kinds {
        for (links, capacity) in row.rows() {
            table.row([(*name).to_owned(), count(links), capacity]);
        }
    }
    out.table(&table)?;
    Ok(Answer::Yes)
}

/// `Gemini, torus 16 x 12 x 24`.
fn family_text(fabric: &Fabric) -> String {
    let family = match fabric.family() {
        Family::Gemini => "Cray Gemini",
        Family::Aries => "Cray Aries dragonfly",
        Family::Torus => "torus",
        Family::Mesh => "mesh",
        Family::InfiniBand => "InfiniBand",
        Family::Slingshot => "Slingshot",
        Family::Dragonfly => "dragonfly",
        Family::FatTree => "fat tree",
        Family::HyperX => "HyperX",
        _ => "network",
    };
    let Some(shape) = fabric.shape() else {
        return family.to_owned();
    };
    let name = |dim| match (fabric.family(), dim) {
        (Family::Aries, 0..3) => ["groups", "chassis", "slots"][dim].to_owned(),
        _ => Direction::letter(dim).to_string(),
    };
    let size = |(dim, size): (usize, &u32)| match name(dim).as_str() {
        "groups" => format!("groups {}", fabric.groups()),
        name => format!("{name} {size}"),
    };
    let dims: Vec<String> = shape.dims.iter().enumerate().map(size).collect();
    format!("{family}, {}", dims.join(" x "))
}
