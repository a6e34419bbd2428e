//! Dimension-order routing in closed form, with Cray's rerouting around faults.

use super::legs::Legs;
use super::rings::Rings;
use super::unroutable::{Dead, Unroutable};
use super::{Routing, dependencies};
use crate::direction::Direction;
use crate::fabric::{End, Fabric, Family, NONE, Shape};
use crate::ids::{LinkId, NodeId, RouterId};
use rayon::prelude::*;
use std::sync::{Arc, OnceLock};

/// Routes that finish one dimension before they begin the next, in the shorter direction of each ring (paper 000,
/// V.C: X, then Y, then Z). Ties go in the positive direction.
///
/// With links down, a ring is travelled in the longer direction if the shorter one is broken; two breaks disconnect a
/// ring (paper 002, II.E). [`DimensionOrder::rerouted`] then tries other orders.
#[derive(Clone, Debug)]
pub struct DimensionOrder {
    shape: Shape,
    /// Orders to try for a pair; the first that connects it is used. One, unless rerouted.
    orders: Vec<Vec<u8>>,
    /// Link by router and [`Direction::index`], with its receiving router.
    links: Vec<[u32; 2]>,
    /// Breaks in the rings; `None` if every link is up.
    rings: Option<Rings>,
    /// Legs of all rings, made when first asked for.
    legs: OnceLock<Option<Arc<Legs>>>,
    /// Whether the mixture of orders was found to be free of credit loops; `None` for one order, and on machines too
    /// large to try lists.
    mixed_safely: Option<bool>,
    /// Whether every list was tried in vain.
    all_tried: bool,
}

/// Pairs of routers that are followed at most to find a list of orders without a credit loop, and lists that are tried.
const MOST_PAIRS: u64 = 1 << 27;
const MOST_LISTS: usize = 36;

/// Pairs of routers whose following takes as long as that of the rings of one router.
const RING_PAIRS: u64 = 256;

/// Pairs of routers, and orders, up to which every list of orders is tried.
const MOST_PAIRS_OF_ALL: u64 = 1 << 13;
const MOST_ORDERS_OF_ALL: usize = 6;

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

    /// The given order of dimensions; `None` if it is not a permutation of the grid's dimensions.
    pub fn with_order(fabric: &Fabric, order: Vec<u8>) -> Option<Self> {
        let shape = fabric.shape()?.clone();
        let dims = shape.dims.len();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..dims as u8) {
            return None;
        }
        let mut links = vec![[NONE; 2]; fabric.routers().len() * 2 * dims];
        for id in fabric.link_ids() {
            let link = fabric.link(id);
            let ends = (link.from, link.to, link.direction);
            if let (End::Router(r), End::Router(to), Some(direction)) = ends {
                links[r.index() * 2 * dims + direction.index()] = [id.0, to.0];
            }
        }
        let mut routing = Self {
            shape,
            orders: vec![order],
            links,
            rings: None,
            legs: OnceLock::new(),
            mixed_safely: None,
            all_tried: false,
        };
        routing.set_down(fabric, &[]);
        Some(routing)
    }

    /// Rerouting as in Cray's link recovery (paper 002, II.E): X-Y-Z if that connects every pair of routers with
    /// nodes; otherwise the first other order that connects them all; otherwise each pair uses the first order of a
    /// list that connects it, and pairs without one have no route. Of these lists the first without a credit loop is
    /// taken, if one is found.
    ///
    /// Where every router has nodes, a ring that is cut in two leaves pairs without a route in any order (those that
    /// differ in its dimension alone), and every order loses other pairs: then only a list serves all that can be
    /// served.
    pub fn rerouted(fabric: &Fabric) -> Option<Self> {
        Self::new(fabric)?.try_orders(fabric)
    }

    /// The same with further links assumed down.
    pub fn rerouted_without(fabric: &Fabric, down: &[LinkId]) -> Option<Self> {
        let mut routing = Self::new(fabric)?;
        routing.set_down(fabric, down);
        routing.try_orders(fabric)
    }

    fn try_orders(mut self, fabric: &Fabric) -> Option<Self> {
        let all = permutations(self.shape.dims.len() as u8);
        for order in &all {
            self.orders = vec![order.clone()];
            if self.serves_all(fabric) {
                return Some(self);
            }
        }
        Some(self.with_safe_list(fabric, all))
    }

    /// Takes the first list of orders without a credit loop, among those that the bound on pairs allows (on small
    /// machines all); the natural one if there is none.
    fn with_safe_list(mut self, fabric: &Fabric, all: Vec<Vec<u8>>) -> Self {
        let hosts = fabric
            .router_ids()
            .filter(|&r| !fabric.nodes_on(r).is_empty())
            .count() as u64;
        // A list is followed pair by pair, or by the rings and the pairs that need another order.
        let pairs = match self.legs(fabric) {
            Some(_) if hosts as usize == self.shape.positions() => hosts * RING_PAIRS,
            _ => hosts * hosts,
        };
        let most = (MOST_PAIRS / pairs.max(1)) as usize;
        let list = |first: usize, second: usize| -> Vec<Vec<u8>> {
            let rest = (0..all.len()).filter(|&i| i != first && i != second);
            let begin = if first == second {
                vec![first]
            } else {
                vec![first, second]
            };
            begin
                .into_iter()
                .chain(rest)
                .map(|i| all[i].clone())
                .collect()
        };
        // Every order first, then every two.
        let ones = (0..all.len()).map(|i| (i, i));
        let twos = (0..all.len() * all.len()).map(|i| (i / all.len(), i % all.len()));
        let pairs = ones.chain(twos.filter(|(i, j)| i != j));
        let few = pairs.take(most.min(MOST_LISTS)).map(|(i, j)| list(i, j));
        let every = hosts * hosts <= MOST_PAIRS_OF_ALL && all.len() <= MOST_ORDERS_OF_ALL;
        let lists = every.then(|| permutations(all.len() as u8));
        let rest = lists.iter().flatten();
        let rest = rest.map(|l| l.iter().map(|&i| all[i as usize].clone()).collect());
        for orders in few.chain(rest) {
            self.orders = orders;
            self.mixed_safely = Some(true);
            let routing = Routing::DimensionOrder(self.clone());
            if dependencies::credit_loop(fabric, &routing).is_none() {
                return self;
            }
        }
        self.mixed_safely = (most > 0).then_some(false);
        self.all_tried = every;
        self.orders = all;
        self
    }

    fn set_down(&mut self, fabric: &Fabric, down: &[LinkId]) {
        let is_down = |id: LinkId| !fabric.link(id).is_up() || down.contains(&id);
        let complete = fabric.router_ids().all(|r| {
            (0..2 * self.shape.dims.len())
                .map(Direction::of)
                .all(|direction| {
                    let expected = fabric
                        .coord(r)
                        .is_some_and(|c| self.has_neighbour(c, direction));
                    !expected || self.link(r, direction).is_some_and(|l| !is_down(l))
                })
        });
        let full = fabric.routers().len() == self.shape.positions();
        self.rings = (!(complete && full)).then(|| Rings::new(fabric, &self.shape, is_down));
        self.legs = OnceLock::new();
    }

    /// Whether a healthy grid has a link from `coord` in `direction`.
    fn has_neighbour(&self, coord: &[u32], direction: Direction) -> bool {
        let dim = direction.dim as usize;
        let (n, c) = (self.shape.dims[dim], coord[dim]);
        match (self.shape.wrap[dim], direction.positive) {
            (true, _) => n > 1,
            (false, true) => c + 1 < n,
            (false, false) => c > 0,
        }
    }

    /// Whether each pair of routers with nodes in service has a route in one of the orders.
    pub fn serves_all(&self, fabric: &Fabric) -> bool {
        let Some(rings) = &self.rings else {
            return true;
        };
        if rings.all_whole() && fabric.routers().len() == self.shape.positions() {
            return true;
        }
        let in_service = |r: &RouterId| {
            fabric
                .nodes_on(*r)
                .iter()
                .any(|&n| fabric.link(fabric.node(n).inject).is_up())
        };
        let hosts: Vec<RouterId> = fabric.router_ids().filter(in_service).collect();
        hosts.par_iter().all(|&a| {
            hosts
                .iter()
                .all(|&b| self.order_for(fabric, a, b).is_some())
        })
    }

    /// The grid.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The order of dimensions; after rerouting, the first one tried.
    pub fn order(&self) -> &[u8] {
        &self.orders[0]
    }

    /// One of the orders of dimensions, by the number that [`Self::order_for`] gives.
    pub fn order_at(&self, number: usize) -> &[u8] {
        &self.orders[number]
    }

    /// The orders of dimensions, of which each pair takes the first that connects it.
    pub fn orders(&self) -> &[Vec<u8>] {
        &self.orders
    }

    /// Whether all pairs use one order (a route then depends only on the destination).
    pub fn is_one_order(&self) -> bool {
        self.orders.len() == 1
    }

    /// Whether a mixture of orders was found to be free of credit loops; `None` for one order, and on machines of more
    /// routers than allow a list to be tried.
    pub fn is_mixed_safely(&self) -> Option<bool> {
        self.mixed_safely
    }

    /// Whether every list of orders was tried, and each has a credit loop.
    pub fn is_unsafe_in_every_order(&self) -> bool {
        self.mixed_safely == Some(false) && self.all_tried
    }

    /// Whether every link of the grid exists and is up.
    pub fn is_healthy(&self) -> bool {
        self.rings.is_none()
    }

    /// A one-line description.
    pub fn describe(&self) -> String {
        let letters: Vec<String> = self
            .order()
            .iter()
            .map(|&d| Direction::letter(d as usize).to_string())
            .collect();
        let way = if self.is_healthy() {
            "shorter way round"
        } else {
            "shorter way round that works"
        };
        let retry = match self.mixed_safely {
            None if self.is_one_order() => "",
            None | Some(true) => ", other orders where that one fails",
            Some(false) if self.all_tried => {
                ", other orders where that one fails (every list of orders has a credit loop)"
            }
            Some(false) => {
                ", other orders where that one fails (no list of orders without a credit loop was found)"
            }
        };
        format!(
            "dimension order {}{retry}, {way}, ties positive",
            letters.join("-")
        )
    }

    /// The link from `router` in `direction`, in constant time.
    #[inline]
    pub fn link(&self, router: RouterId, direction: Direction) -> Option<LinkId> {
        Some(self.step(router, direction)?.0)
    }

    /// The link and its receiving router.
    #[inline]
    fn step(&self, router: RouterId, direction: Direction) -> Option<(LinkId, RouterId)> {
        let at = router.index() * 2 * self.shape.dims.len() + direction.index();
        let [link, to] = *self.links.get(at)?;
        (link != NONE).then_some((LinkId(link), RouterId(to)))
    }

    /// Appends the links between two routers in one of the orders, ring by ring: same result as following
    /// [`DimensionOrder::next`], without a search at every router.
    pub(super) fn extend(
        &self,
        fabric: &Fabric,
        order: usize,
        (from, to): (RouterId, RouterId),
        out: &mut Vec<LinkId>,
    ) -> Result<(), (RouterId, Dead)> {
        let (Some(source), Some(there)) = (fabric.coord(from), fabric.coord(to)) else {
            return Err((from, Dead::NoEntry));
        };
        let mut here = [0u32; Direction::MAX_DIMENSIONS];
        let here = &mut here[..source.len()];
        here.copy_from_slice(source);
        let mut at = from;
        for &dim in &self.orders[order] {
            let dim = dim as usize;
            let direction = self.direction_around(dim, here, there[dim]);
            let Some(direction) = direction.map_err(|reason| (at, reason))? else {
                continue;
            };
            let n = self.shape.dims[dim];
            let ahead = (there[dim] + n - here[dim]) % n;
            for _ in 0..if direction.positive { ahead } else { n - ahead } {
                let (link, next) = self.step(at, direction).ok_or((at, Dead::NoLink))?;
                if self.rings.is_some() && !fabric.link(link).is_up() {
                    return Err((at, Dead::NoLink));
                }
                out.push(link);
                at = next;
            }
            here[dim] = there[dim];
        }
        Ok(())
    }

    /// Direction in dimension `dim` from coordinate `at` to `to` without faults; `None` if equal.
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

    /// The legs of all rings; `None` on grids too large for them.
    pub fn legs(&self, fabric: &Fabric) -> Option<&Legs> {
        let legs = self.legs.get_or_init(|| {
            let legs = Legs::new(fabric, self, self.rings.as_ref());
            legs.map(Arc::new)
        });
        legs.as_deref()
    }

    /// The direction from coordinate `here` along `dim` to `to`, avoiding breaks; `Err` if the ring is disconnected
    /// between them, `Ok(None)` if they are equal.
    fn direction_around(
        &self,
        dim: usize,
        here: &[u32],
        to: u32,
    ) -> Result<Option<Direction>, Dead> {
        match &self.rings {
            Some(rings) => rings.direction(self, dim, (here, to)),
            None => Ok(self.direction(dim, here[dim], to)),
        }
    }

    /// The first order that connects a pair of routers; `None` if there is none.
    pub fn order_for(&self, fabric: &Fabric, from: RouterId, to: RouterId) -> Option<usize> {
        if self.rings.is_none() {
            return Some(0);
        }
        let (source, target) = (fabric.coord(from)?, fabric.coord(to)?);
        if let Some(legs) = self.legs(fabric) {
            let source = (legs.position_of(from), source);
            let mut orders = self.orders.iter();
            return orders.position(|o| legs.links(o, source, target).is_some());
        }
        self.orders.iter().position(|order| {
            let mut here = [0u32; Direction::MAX_DIMENSIONS];
            let here = &mut here[..source.len()];
            here.copy_from_slice(source);
            order.iter().all(|&d| {
                let d = d as usize;
                let open = self.direction_around(d, here, target[d]).is_ok();
                here[d] = target[d];
                open
            })
        })
    }

    /// The next link from router `at` towards router `to` in one of the orders.
    #[inline]
    pub fn next(
        &self,
        fabric: &Fabric,
        order: usize,
        at: RouterId,
        to: RouterId,
    ) -> Result<LinkId, Dead> {
        let (Some(here), Some(there)) = (fabric.coord(at), fabric.coord(to)) else {
            return Err(Dead::NoEntry);
        };
        for &d in &self.orders[order] {
            if let Some(direction) = self.direction_around(d as usize, here, there[d as usize])? {
                return self.link(at, direction).ok_or(Dead::NoLink);
            }
        }
        Err(Dead::NoEntry)
    }

    /// The order of a route between two nodes.
    pub(super) fn order_of(
        &self,
        fabric: &Fabric,
        from: NodeId,
        to: NodeId,
    ) -> Result<usize, Unroutable> {
        let at = fabric.node(from).router;
        self.order_for(fabric, at, fabric.node(to).router)
            .ok_or(Unroutable {
                from,
                to,
                at,
                reason: Dead::NoLink,
            })
    }
}

/// All orders of `n` dimensions, the natural one first, in lexicographic order.
fn permutations(n: u8) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    for _ in 0..n {
        all = all
            .into_iter()
            .flat_map(|order: Vec<u8>| {
                (0..n)
                    .filter(|d| !order.contains(d))
                    .map(|d| [&order[..], &[d]].concat())
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    all
}
