//! Grids too large for single links: one cell per ring (or line) of links, with the load of its worst.

use super::lattice::Lattice;
use super::svg::{self, Anchor, Layer, Mark};
use super::{Geometry, Looks, Picture};
use hopbyte_fabric::{Direction, End};

/// Distance of panels and room for their captions.
const GAP: f32 = 16.0;
const CAPTION: f32 = 20.0;
/// Minimum and maximum size of a cell.
const CELL: [f32; 2] = [3.0, 14.0];
/// Maximum number of rows of cells in a panel.
const ROWS: usize = 240;

/// One panel per direction.
struct Panel {
    direction: Direction,
    columns: usize,
    /// Rows of the grid that share a row of cells.
    merged: usize,
    rows: usize,
}

impl Panel {
    fn new(lattice: &Lattice, direction: Direction) -> Self {
        let others = Self::others(lattice, direction);
        let size = |d: &usize| lattice.dims[*d] as usize;
        let columns = others.first().map_or(1, size);
        let rows: usize = others.iter().skip(1).map(size).product();
        let merged = rows.div_ceil(ROWS).max(1);
        Self {
            direction,
            columns,
            merged,
            rows: rows.div_ceil(merged),
        }
    }

    fn others(lattice: &Lattice, direction: Direction) -> Vec<usize> {
        (0..lattice.dims.len())
            .filter(|&d| d != direction.dim as usize)
            .collect()
    }

    /// Column and row of the ring that a router is on.
    fn cell(&self, lattice: &Lattice, coord: &[u32]) -> (usize, usize) {
        let others = Self::others(lattice, self.direction);
        let column = others.first().map_or(0, |&d| coord[d] as usize);
        let row = others.iter().skip(1).fold(0, |at, &d| {
            at * lattice.dims[d] as usize + coord[d] as usize
        });
        (column, row / self.merged)
    }
}

/// Draws two panels per dimension.
pub fn picture(looks: &Looks, lattice: &Lattice, width: f32) -> Picture {
    let mut geometry = Geometry::empty(looks.fabric);
    let mut layer = Layer::new(0.5);
    let mut body = String::new();
    let panels: Vec<Panel> = (0..2 * lattice.dims.len())
        .map(|i| Panel::new(lattice, Direction::of(i)))
        .collect();
    let (mut x, mut y, mut line) = (0.0f32, 0.0f32, 0.0f32);
    for panel in &panels {
        let cell = (width / 3.0 / panel.columns as f32).clamp(CELL[0], CELL[1]);
        let (w, h) = (
            panel.columns as f32 * cell,
            panel.rows as f32 * cell + CAPTION,
        );
        if x > 0.0 && x + w > width {
            x = 0.0;
            y += line + GAP;
            line = 0.0;
        }
        svg::rect(&mut body, "panel", [x, y + CAPTION, w, h - CAPTION], 0.0);
        svg::text(
            &mut body,
            "tb",
            x,
            y + 13.0,
            Anchor::Start,
            &caption(lattice, panel),
        );
        fill(
            looks,
            lattice,
            panel,
            [x, y + CAPTION, cell],
            &mut layer,
            &mut geometry,
        );
        x += w.max(150.0) + GAP;
        line = line.max(h);
    }
    layer.write(&mut body);
    Picture {
        width,
        height: y + line,
        body,
        geometry,
        words: format!(
            "{} routers on a {} grid, too many for single links: each cell is one ring or line of \
             links in the direction above it and shows the load of its worst link, by colour and by \
             how full the cell is.",
            looks.fabric.routers().len(),
            lattice.size_text()
        ),
    }
}

fn caption(lattice: &Lattice, panel: &Panel) -> String {
    let others = Panel::others(lattice, panel.direction);
    let letters: Vec<String> = others
        .iter()
        .map(|&d| Direction::letter(d).to_string())
        .collect();
    match &letters[..] {
        [] => format!("{} links", panel.direction),
        [x] => format!("{} links by {x}", panel.direction),
        [x, rest @ ..] => format!(
            "{} links by {x} (right) and {} (down)",
            panel.direction,
            rest.join(", ")
        ),
    }
}

fn fill(
    looks: &Looks,
    lattice: &Lattice,
    panel: &Panel,
    [x, y, cell]: [f32; 3],
    layer: &mut Layer,
    geometry: &mut Geometry,
) {
    let mut marks: Vec<Option<Mark>> = vec![None; panel.columns * panel.rows];
    for id in looks.fabric.link_ids() {
        let End::Router(from) = looks.fabric.link(id).from else {
            continue;
        };
        if lattice.direction(id) != Some(panel.direction) {
            continue;
        }
        let (column, row) = panel.cell(lattice, lattice.coord(from));
        let slot = &mut marks[row * panel.columns + column];
        let mark = looks.mark(id);
        *slot = Some(slot.map_or(mark, |m| m.max(mark)));
        let (left, top) = (x + column as f32 * cell, y + row as f32 * cell);
        geometry.links[id.index()] = [left, top + cell / 2.0, left + cell, top + cell / 2.0];
    }
    for (i, mark) in marks.iter().enumerate() {
        let (column, row) = (i % panel.columns, i / panel.columns);
        if let Some(mark) = mark {
            let inset = 0.06 * cell;
            layer.meter(
                *mark,
                [
                    x + column as f32 * cell + inset,
                    y + row as f32 * cell + inset,
                    cell - 2.0 * inset,
                    cell - 2.0 * inset,
                ],
            );
        }
    }
}
