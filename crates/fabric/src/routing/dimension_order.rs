//! Dimension-order routing in closed form.

use crate::fabric::{Direction, End, Fabric, Family, NONE, Shape};
use crate::ids::{LinkId, RouterId};

/// Routes that finish one dimension before they begin the next and take the shorter way round each
/// ring (paper 000, V.C: X, then Y, then Z). Both ways equally long: the positive one.
#[derive(Clone, Debug)]
pub struct DimensionOrder {
    shape: Shape,
    order: Vec<u8>,
    /// Link by router and [`Direction::index`].
    links: Vec<u32>,
}

impl DimensionOrder {
    /// X-Y-Z order for a fabric on a torus or mesh; `None` for other families.
    pub fn new(fabric: &Fabric) -> Option<Self> {
        if !matches!(
            fabric.family(),
            Family::Gemini | Family::Torus | Family::Mesh
        ) {
            return None;
        }
        let dims = fabric.shape()?.dims.len();
        Self::with_order(fabric, (0..dims as u8).collect())
    }

    /// The given order of dimensions; `None` when it is not a permutation of the grid's dimensions.
    pub fn with_order(fabric: &Fabric, order: Vec<u8>) -> Option<Self> {
        let shape = fabric.shape()?.clone();
        let dims = shape.dims.len();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..dims as u8) {
            return None;
        }
        let mut links = vec![NONE; fabric.routers().len() * 2 * dims];
        for id in fabric.link_ids() {
            let link = fabric.link(id);
            if let (End::Router(r), Some(direction)) = (link.from, link.direction) {
                links[r.index() * 2 * dims + direction.index()] = id.0;
            }
        }
        Some(Self {
            shape,
            order,
            links,
        })
    }

    /// The grid.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The order of dimensions.
    pub fn order(&self) -> &[u8] {
        &self.order
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let letters: Vec<String> = self
            .order
            .iter()
            .map(|&d| Direction::letter(d as usize).to_string())
            .collect();
        format!(
            "dimension order {}, shorter way round, ties positive",
            letters.join("-")
        )
    }

    /// The link leaving `router` in `direction`, in constant time.
    #[inline]
    pub fn link(&self, router: RouterId, direction: Direction) -> Option<LinkId> {
        let at = router.index() * 2 * self.shape.dims.len() + direction.index();
        let link = *self.links.get(at)?;
        (link != NONE).then_some(LinkId(link))
    }

    /// Which way dimension `dim` is travelled from coordinate `at` to `to`; `None` when equal.
    #[inline]
    pub fn direction(&self, dim: usize, at: u32, to: u32) -> Option<Direction> {
        if at == to {
            return None;
        }
        let positive = if self.shape.wrap[dim] {
            let n = self.shape.dims[dim];
            let ahead = if to > at { to - at } else { to + n - at };
            ahead <= n - ahead
        } else {
            to > at
        };
        Some(Direction {
            dim: dim as u8,
            positive,
        })
    }

    /// The next link from router `at` towards router `to`.
    #[inline]
    pub fn next(&self, fabric: &Fabric, at: RouterId, to: RouterId) -> Option<LinkId> {
        let (here, there) = (fabric.coord(at)?, fabric.coord(to)?);
        let direction = self
            .order
            .iter()
            .find_map(|&d| self.direction(d as usize, here[d as usize], there[d as usize]))?;
        self.link(at, direction)
    }
}
