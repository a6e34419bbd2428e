//! `hopbyte fabric show FABRIC`.

use crate::args::FabricArgs;
use crate::output::{Answer, Output, Table, count};
use anyhow::Result;
use hopbyte_fabric::{Direction, Fabric, Family, Shape};
use hopbyte_job::Machine;
use serde::Serialize;
use std::collections::BTreeMap;

/// The machine to show.
#[derive(clap::Args, Debug)]
pub struct ShowArgs {
    #[command(flatten)]
    fabric: FabricArgs,
}

/// The answer.
#[derive(Serialize)]
struct Show<'a> {
    schema: &'static str,
    source: &'a str,
    family: Family,
    shape: Option<&'a Shape>,
    routing: String,
    routers: usize,
    nodes: usize,
    links: usize,
    host_links: usize,
    ports: usize,
    components: usize,
    kinds: BTreeMap<&'a str, KindRow>,
    notes: &'a [String],
}

/// Links of one kind.
#[derive(Serialize)]
struct KindRow {
    links: usize,
    capacity_bytes_per_s: f64,
    hop: bool,
}

impl<'a> Show<'a> {
    fn of(machine: &'a Machine) -> Self {
        let (fabric, routing) = (&machine.fabric, &machine.routing);
        let links = fabric.link_ids().filter(|&l| fabric.is_hop(l)).count();
        let onboard = |kind: &str| fabric.kinds().iter().any(|k| k.name == kind && k.onboard);
        Self {
            schema: "hopbyte.fabric/1",
            source: fabric.source(),
            family: fabric.family(),
            shape: fabric.shape(),
            routing: routing.describe(),
            routers: fabric.routers().len(),
            nodes: fabric.nodes().len(),
            links,
            host_links: fabric.links().len() - links,
            ports: fabric.port_count(),
            components: fabric.components(),
            notes: &machine.notes,
            kinds: fabric
                .kind_summary()
                .into_iter()
                .map(|(kind, (links, capacity))| {
                    let row = KindRow {
                        links,
                        capacity_bytes_per_s: capacity.0,
                        hop: !onboard(kind),
                    };
                    (kind, row)
                })
                .collect(),
        }
    }
}

/// Shows it.
pub fn run(args: &ShowArgs, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    let show = Show::of(&machine);
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
    out.line("")?;
    let mut table = Table::new(&["<kind", "links (directed)", "GB/s each way"]);
    let mut kinds: Vec<_> = show.kinds.iter().collect();
    kinds.sort_by_key(|(name, row)| (!row.hop, std::cmp::Reverse(row.links), *name));
    for (name, row) in kinds {
        table.row([
            (*name).to_owned(),
            count(row.links),
            format!("{:.3}", row.capacity_bytes_per_s / 1e9),
        ]);
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
