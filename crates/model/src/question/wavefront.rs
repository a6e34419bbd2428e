//! Transport sweeps (KBA): Partisn, SNAP.

use super::limits::{not_negative, positive, product, size, step_messages};
use crate::engine::program::{Builder, Program};
use crate::error::ModelError;
use hopbyte_fabric::FabricError;
use serde::{Deserialize, Serialize};

/// Sweeps over a two-dimensional grid of ranks: the cells of a rank are cut into blocks along the third
/// dimension and groups of angles; a block needs the faces of its two upwind neighbours first. The
/// eight octants start at the four corners, two from each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wavefront {
    /// Ranks along the two cut dimensions.
    pub grid: [u32; 2],
    /// Cells of a rank along the three dimensions.
    pub cells: [u32; 3],
    /// Cells of a block along the third dimension.
    pub block: u32,
    /// Angles of an octant that are swept together.
    pub angles: u32,
    /// Groups of such angles in an octant.
    pub angle_groups: u32,
    /// Bytes of a cell face for one angle.
    #[serde(default = "word")]
    pub bytes_per_angle: f64,
    /// Computing for one cell and one angle.
    pub cell_angle_s: f64,
    /// Sweeps of all octants.
    pub iterations: u32,
    /// Global reductions after each sweep.
    #[serde(default)]
    pub reductions: u32,
}

fn word() -> f64 {
    8.0
}

impl Wavefront {
    pub(crate) fn check(&self) -> Result<u64, ModelError> {
        positive("iterations", self.iterations.into())?;
        not_negative("cell_angle_s", self.cell_angle_s)?;
        size("bytes_per_angle", self.bytes_per_angle)?;
        for (name, value) in [
            ("cells", self.cells.iter().copied().min().unwrap_or(0)),
            ("block", self.block),
            ("angles", self.angles),
            ("angle_groups", self.angle_groups),
        ] {
            positive(name, value.into())?;
        }
        product(&self.grid)
    }

    fn steps(&self) -> u64 {
        u64::from(self.cells[2].div_ceil(self.block)) * u64::from(self.angle_groups)
    }

    pub(crate) fn messages(&self) -> u64 {
        let ranks = u64::from(self.grid[0]) * u64::from(self.grid[1]);
        let each = self.steps().saturating_mul(2 * 8);
        let step = step_messages(ranks.saturating_mul(each), ranks, self.reductions);
        step.saturating_mul(self.iterations.into())
    }

    pub(crate) fn program(&self) -> Result<Program, FabricError> {
        let [nx, ny] = self.grid;
        let ranks = (nx * ny) as usize;
        let everybody: Vec<u32> = (0..ranks as u32).collect();
        let mut b = Builder::new(ranks);
        let face = |along: u32| {
            f64::from(along) * f64::from(self.block) * f64::from(self.angles) * self.bytes_per_angle
        };
        let (x_face, y_face) = (face(self.cells[1]), face(self.cells[0]));
        let cells = f64::from(self.cells[0]) * f64::from(self.cells[1]) * f64::from(self.block);
        let work = cells * f64::from(self.angles) * self.cell_angle_s;
        let mut tag = 0;
        for _ in 0..self.iterations {
            for octant in 0..8u32 {
                let (up_x, up_y) = (octant & 1 == 0, octant & 2 == 0);
                for _ in 0..self.steps() {
                    // Upwind ranks first, so that matching operations are written in order.
                    for i in 0..nx {
                        for j in 0..ny {
                            let x = if up_x { i } else { nx - 1 - i };
                            let y = if up_y { j } else { ny - 1 - j };
                            let rank = x * ny + y;
                            let step = |at: u32, n: u32, up: bool| {
                                if up {
                                    (at + 1 < n).then(|| at + 1)
                                } else {
                                    at.checked_sub(1)
                                }
                            };
                            let back = |at: u32, n: u32, up: bool| step(at, n, !up);
                            if let Some(from) = back(x, nx, up_x) {
                                b.receive(rank, from * ny + y, tag);
                            }
                            if let Some(from) = back(y, ny, up_y) {
                                b.receive(rank, x * ny + from, tag + 1);
                            }
                            b.wait_all(rank);
                            b.compute(rank, work);
                            if let Some(to) = step(x, nx, up_x) {
                                b.send(rank, to * ny + y, x_face, tag);
                            }
                            if let Some(to) = step(y, ny, up_y) {
                                b.send(rank, x * ny + to, y_face, tag + 1);
                            }
                        }
                    }
                    tag += 2;
                }
                // Sends of the octant end before the next one begins.
                everybody.iter().for_each(|&r| b.wait_all(r));
            }
            for _ in 0..self.reductions {
                b.allreduce(&everybody, 8.0)?;
            }
        }
        b.finish()
    }
}
