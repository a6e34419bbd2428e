//! Cables between two strips of switches as cells, where strokes would cover one another.

use super::strips::{BOX, Plan, Strand};
use super::svg::Layer;
use super::{Geometry, Looks};
use hopbyte_fabric::RouterId;
use std::collections::BTreeMap;

/// Minimum and maximum height of a cell.
const CELL: [f32; 2] = [3.0, 10.0];
/// Height of a mesh, as far as the cells' limits permit.
const HEIGHT: f32 = 150.0;
/// Distance of the cells from the upper switches.
const ABOVE: f32 = 6.0;
/// Room for the name of the lower strip below the cells.
const BELOW: f32 = 22.0;

/// Switches above each switch, from the left, by the level of the lower one.
pub struct Mesh {
    above: BTreeMap<RouterId, Vec<RouterId>>,
    /// Rows of cells above each level.
    rows: Vec<usize>,
}

impl Mesh {
    /// Cells for the strands from one strip to the next.
    pub fn of(plan: &Plan, strands: &[Strand]) -> Self {
        let mut above: BTreeMap<RouterId, Vec<RouterId>> = BTreeMap::new();
        for strand in strands {
            let (from, to) = (plan.level(strand.from), plan.level(strand.to));
            if from + 1 == to {
                above.entry(strand.from).or_default().push(strand.to);
            } else if to + 1 == from {
                above.entry(strand.to).or_default().push(strand.from);
            }
        }
        let mut rows = vec![0; plan.levels()];
        for (&router, list) in &mut above {
            list.sort_by(|&a, &b| plan.middle(a).total_cmp(&plan.middle(b)).then(a.cmp(&b)));
            list.dedup();
            let level = plan.level(router);
            rows[level] = rows[level].max(list.len());
        }
        Self { above, rows }
    }

    /// Height of a cell above a level.
    fn cell(&self, level: usize) -> f32 {
        (HEIGHT / self.rows[level].max(1) as f32).clamp(CELL[0], CELL[1])
    }

    /// Room between a level and the one above.
    pub fn rise(&self, level: usize) -> f32 {
        ABOVE + self.rows[level] as f32 * self.cell(level) + BELOW
    }

    /// Draws a strand as half of its cell: on the left up, on the right down. False if it does not lead to the next
    /// strip.
    pub fn draw(
        &self,
        looks: &Looks,
        plan: &Plan,
        strand: &Strand,
        layer: &mut Layer,
        geometry: &mut Geometry,
    ) -> bool {
        let up = plan.level(strand.to) == plan.level(strand.from) + 1;
        let (lower, upper) = match up {
            true => (strand.from, strand.to),
            false => (strand.to, strand.from),
        };
        let row = self.above.get(&lower).and_then(|list| {
            let row = list.iter().position(|&r| r == upper);
            row.filter(|_| plan.level(upper) == plan.level(lower) + 1)
        });
        let Some(row) = row else { return false };
        let cell = self.cell(plan.level(lower));
        let [left, _, width, _] = plan.square(lower);
        let top = plan.square(upper)[1] + BOX + ABOVE + row as f32 * cell;
        let half = width / 2.0;
        let x = if up { left } else { left + half };
        let gap = 0.08 * cell.min(half);
        let [w, h] = [half - gap, cell - 2.0 * gap];
        layer.meter(looks.worst_mark(&strand.links), [x, top + gap, w, h]);
        let middle = top + cell / 2.0;
        for link in &strand.links {
            geometry.links[link.index()] = [x, middle, x + w, middle];
        }
        true
    }
}
