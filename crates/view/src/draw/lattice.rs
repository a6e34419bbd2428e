//! Detects grids, with the coordinates of every router.

use hopbyte_fabric::{Direction, End, Fabric, Family, LinkId, RouterId};

/// A grid with a coordinate for every router and a direction for every link between routers.
pub struct Lattice {
    /// Routers along each dimension.
    pub dims: Vec<u32>,
    coords: Vec<u32>,
    directions: Vec<Option<Direction>>,
}

impl Lattice {
    /// The grid that the fabric declares, or the one in its router names (`sw-3-0-2`) if
    /// every cable confirms the names by connecting neighbours.
    pub fn of(fabric: &Fabric) -> Option<Self> {
        if matches!(
            fabric.family(),
            Family::Aries | Family::Dragonfly | Family::Slingshot
        ) {
            return None;
        }
        Self::declared(fabric).or_else(|| Self::spelled(fabric))
    }

    fn declared(fabric: &Fabric) -> Option<Self> {
        let dims = fabric.shape()?.dims.clone();
        let coords = fabric
            .router_ids()
            .map(|r| fabric.coord(r))
            .collect::<Option<Vec<_>>>()?
            .concat();
        Self::with_directions(fabric, dims, coords)
    }

    fn spelled(fabric: &Fabric) -> Option<Self> {
        let numbers: Vec<Vec<u32>> = fabric
            .routers()
            .iter()
            .map(|r| numbers(&r.name))
            .collect::<Option<_>>()?;
        let width = numbers.first()?.len();
        if width == 0 || numbers.iter().any(|n| n.len() != width) {
            return None;
        }
        let varying: Vec<usize> = (0..width)
            .filter(|&i| numbers.iter().any(|n| n[i] != numbers[0][i]))
            .collect();
        if varying.is_empty() || varying.len() > Direction::MAX_DIMENSIONS {
            return None;
        }
        let least: Vec<u32> = varying
            .iter()
            .filter_map(|&i| numbers.iter().map(|n| n[i]).min())
            .collect();
        let dims: Vec<u32> = varying
            .iter()
            .zip(&least)
            .filter_map(|(&i, &low)| Some(numbers.iter().map(|n| n[i]).max()? - low + 1))
            .collect();
        let positions: u64 = dims.iter().map(|&d| u64::from(d)).product();
        if positions > 2 * numbers.len() as u64 {
            return None;
        }
        let coord = |n: &[u32]| -> Vec<u32> {
            varying
                .iter()
                .zip(&least)
                .map(|(&i, &low)| n[i] - low)
                .collect()
        };
        let mut all: Vec<Vec<u32>> = numbers.iter().map(|n| coord(n)).collect();
        let coords = all.concat();
        all.sort_unstable();
        all.dedup();
        if all.len() != numbers.len() {
            return None;
        }
        Self::with_directions(fabric, dims, coords)
    }

    /// Finds the direction of every link between routers; `None` if one does not connect neighbours.
    fn with_directions(fabric: &Fabric, dims: Vec<u32>, coords: Vec<u32>) -> Option<Self> {
        let mut lattice = Self {
            dims,
            coords,
            directions: vec![None; fabric.links().len()],
        };
        for id in fabric.link_ids() {
            let link = fabric.link(id);
            if let (End::Router(a), End::Router(b)) = (link.from, link.to) {
                let direction = link.direction.or_else(|| lattice.step(a, b))?;
                lattice.directions[id.index()] = Some(direction);
            }
        }
        Some(lattice)
    }

    /// The direction from a router to its neighbour.
    fn step(&self, from: RouterId, to: RouterId) -> Option<Direction> {
        let (a, b) = (self.coord(from), self.coord(to));
        let mut differing = (0..self.dims.len()).filter(|&d| a[d] != b[d]);
        let dim = differing.next()?;
        if differing.next().is_some() {
            return None;
        }
        let n = self.dims[dim];
        let ahead = (b[dim] + n - a[dim]) % n;
        let positive = match ahead {
            1 if n > 2 || a[dim] == 0 => true,
            x if x == n - 1 => false,
            _ => return None,
        };
        Some(Direction {
            dim: dim as u8,
            positive,
        })
    }

    /// Coordinate of a router.
    pub fn coord(&self, router: RouterId) -> &[u32] {
        let n = self.dims.len();
        &self.coords[router.index() * n..(router.index() + 1) * n]
    }

    /// Direction of a link between routers.
    pub fn direction(&self, link: LinkId) -> Option<Direction> {
        self.directions[link.index()]
    }

    /// Whether a link is a wraparound of its dimension, by the coordinates of its ends.
    pub fn wraps(&self, fabric: &Fabric, link: LinkId) -> bool {
        let (Some(direction), End::Router(a)) = (self.direction(link), fabric.link(link).from)
        else {
            return false;
        };
        let dim = direction.dim as usize;
        let last = self.dims[dim] - 1;
        self.coord(a)[dim] == if direction.positive { last } else { 0 }
    }

    /// `5×4×3`.
    pub fn size_text(&self) -> String {
        let sizes: Vec<String> = self.dims.iter().map(u32::to_string).collect();
        sizes.join("×")
    }
}

/// All runs of digits in a name, `None` if one is too long to be a coordinate.
fn numbers(name: &str) -> Option<Vec<u32>> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter(|run| !run.is_empty())
        .map(|run| run.parse().ok().filter(|&n| n < 1 << 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::units::{BytesPerSecond, Seconds};
    use hopbyte_fabric::{FabricBuilder, LinkSpec, spec};

    fn ring(names: &[&str], cables: &[(u32, u32)]) -> Fabric {
        let mut b = FabricBuilder::new(Family::InfiniBand, "test");
        let kind = b.kind("4xQDR", false);
        for name in names {
            b.router(*name, &[]);
        }
        for &(x, y) in cables {
            for (x, y) in [(x, y), (y, x)] {
                b.link(LinkSpec::new(
                    End::Router(RouterId(x)),
                    End::Router(RouterId(y)),
                    kind,
                    BytesPerSecond(4e9),
                    Seconds(1e-7),
                ));
            }
        }
        b.finish().unwrap()
    }

    #[test]
    fn a_declared_torus_keeps_its_directions() {
        let fabric = spec::fabric("torus:4x3x2").unwrap();
        let lattice = Lattice::of(&fabric).unwrap();
        assert_eq!(lattice.dims, [4, 3, 2]);
        for l in fabric.link_ids().filter(|&l| fabric.is_hop(l)) {
            assert_eq!(lattice.direction(l), fabric.link(l).direction);
        }
    }

    #[test]
    fn names_count_only_when_the_cables_agree() {
        let names = ["sw-1-0", "sw-1-1", "sw-1-2", "sw-1-3"];
        let good = ring(&names, &[(0, 1), (1, 2), (2, 3), (3, 0)]);
        let lattice = Lattice::of(&good).unwrap();
        assert_eq!(lattice.dims, [4]);
        let turn = good.find_link("sw-1-3->sw-1-0 4xQDR").unwrap();
        assert_eq!(lattice.direction(turn), Direction::parse("X+"));
        assert!(lattice.wraps(&good, turn));
        assert!(Lattice::of(&ring(&names, &[(0, 2), (1, 3)])).is_none());
        assert!(Lattice::of(&ring(&["a1", "b1"], &[(0, 1)])).is_none());
        assert!(Lattice::of(&ring(&["a", "b"], &[(0, 1)])).is_none());
    }
}
