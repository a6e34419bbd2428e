//! Dense networks without levels: traffic as a matrix of routers or of blocks of them.

use super::names::shorten_all;
use super::svg::{self, Anchor, Layer, Mark};
use super::{Geometry, Looks, Picture};
use hopbyte_fabric::{End, LinkId};
use std::collections::BTreeMap;

/// Maximum number of rows.
const MOST: usize = 180;
const SIDE: f32 = 860.0;
const CAPTION: f32 = 22.0;

/// Draws the matrix.
pub fn picture(looks: &Looks, width: f32) -> Picture {
    let fabric = looks.fabric;
    let routers = fabric.routers().len();
    let block = routers.div_ceil(MOST);
    let rows = routers.div_ceil(block);
    let label = 120.0;
    let cell = ((SIDE - label) / rows as f32).min(30.0);
    let left = ((width - cell * rows as f32 - label) / 2.0).max(0.0) + label;
    let top = CAPTION + 8.0;
    let mut geometry = Geometry::empty(fabric);
    let mut layer = Layer::new(0.5);
    let mut body = String::new();
    let caption = if block == 1 {
        "From router (row) to router (column); on the diagonal its hosts".into()
    } else {
        format!("From (row) to (column), {block} routers a row; on the diagonal also their hosts")
    };
    svg::text(&mut body, "tb", left, 14.0, Anchor::Start, &caption);
    let side = cell * rows as f32;
    svg::rect(&mut body, "panel", [left, top, side, side], 0.0);
    for ((row, column), links) in cells(looks, block) {
        let (x, y) = (left + column as f32 * cell, top + row as f32 * cell);
        let inset = 0.06 * cell;
        let inner = cell - 2.0 * inset;
        let mark: Mark = looks.worst_mark(&links);
        layer.meter(mark, [x + inset, y + inset, inner, inner]);
        for link in links {
            geometry.links[link.index()] = [x, y + cell / 2.0, x + cell, y + cell / 2.0];
        }
    }
    layer.write(&mut body);
    let firsts: Vec<&str> = fabric
        .router_ids()
        .step_by(block)
        .map(|r| fabric.router(r).name.as_str())
        .collect();
    for (row, name) in shorten_all(&firsts, 20).into_iter().enumerate() {
        let y = top + row as f32 * cell;
        if cell >= 8.0 || row % 10 == 0 {
            svg::text(
                &mut body,
                "t4",
                left - 5.0,
                y + cell / 2.0 + 3.0,
                Anchor::End,
                &name,
            );
        }
        for r in row * block..((row + 1) * block).min(routers) {
            geometry.routers[r] = [left + row as f32 * cell, y, cell, cell];
        }
    }
    for n in fabric.node_ids() {
        geometry.nodes[n.index()] = geometry.routers[fabric.node(n).router.index()];
    }
    Picture {
        width,
        height: top + side,
        body,
        geometry,
        words: format!(
            "{routers} routers; a cell shows the worst link from its row to its column, by colour and \
             by how full it is."
        ),
    }
}

fn cells(looks: &Looks, block: usize) -> BTreeMap<(usize, usize), Vec<LinkId>> {
    let fabric = looks.fabric;
    let router = |end: End| match end {
        End::Router(r) | End::Hosts(r) => r,
        End::Node(n) => fabric.node(n).router,
    };
    let mut cells: BTreeMap<(usize, usize), Vec<LinkId>> = BTreeMap::new();
    for id in fabric.link_ids() {
        let link = fabric.link(id);
        let key = [link.from, link.to].map(|end| router(end).index() / block);
        cells.entry((key[0], key[1])).or_default().push(id);
    }
    cells
}
