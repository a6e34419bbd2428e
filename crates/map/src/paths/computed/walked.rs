//! Single paths, followed from router to router: forwarding tables, and fat trees in closed form.

use crate::problem::MapError;
use crate::schedule::Stop;
use hopbyte_fabric::routing::{Dead, Unroutable};
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId, Routing};
use rayon::prelude::*;

/// No router, no place.
const NONE: u32 = u32::MAX;

/// A link that leads to several places.
const SEVERAL: u32 = u32::MAX - 1;

/// A router without a route, and one that was not looked at.
const DEAD: u16 = u16::MAX;
const UNKNOWN: u16 = u16::MAX - 1;

/// Targets that are examined one after the other by one thread.
const TARGETS: usize = 256;

/// See the module documentation.
pub(crate) struct Walked<'a> {
    fabric: &'a Fabric,
    routing: &'a Routing,
    /// Receiving router of every link.
    next: Vec<u32>,
    /// Tables by target, if they fit: a route then reads one row of them.
    turned: Option<Turned>,
}

/// Forwarding tables by target.
struct Turned {
    routers: usize,
    /// By target × routers + router: position of the link in the router's row of `steps`, or [`END`].
    positions: Vec<u8>,
    /// Links and their receiving routers, by router × `width` + position.
    width: usize,
    steps: Vec<(u32, u32)>,
}

/// The last router of a route, or one without a route.
const END: u8 = u8::MAX;

/// Maximum number of bytes of turned tables.
const MOST_TURNED: usize = 1 << 28;

/// Hops from routers to nodes: a row for every node, or one for all nodes of a router if they are the same.
pub(crate) struct Rows {
    routers: usize,
    row_of: Vec<u32>,
    hops: Vec<u16>,
}

impl Rows {
    /// Hops from a router to a node, both by their number among sources and targets.
    #[inline]
    pub(crate) fn get(&self, router: u32, column: u32) -> f32 {
        let row = self.row_of[column as usize] as usize * self.routers;
        f32::from(self.hops[row + router as usize])
    }
}

impl<'a> Walked<'a> {
    /// `None` if routes are no chains of next hops, or of another kind.
    pub(crate) fn new(fabric: &'a Fabric, routing: &'a Routing) -> Option<Self> {
        let receiver = |link: LinkId| match fabric.link(link).to {
            End::Router(to) => to.0,
            _ => NONE,
        };
        matches!(routing, Routing::Tables(_) | Routing::Tree(_)).then(|| Self {
            fabric,
            routing,
            next: fabric.link_ids().map(receiver).collect(),
            turned: None,
        })
    }

    /// Turns tables for the targets, if that fits.
    pub(crate) fn turn(&mut self, targets: &[NodeId]) {
        let (fabric, routers) = (self.fabric, self.fabric.routers().len());
        let width = fabric.router_ids().map(|r| fabric.links_from(r).len());
        let width = width.max().unwrap_or(0);
        let Routing::Tables(tables) = self.routing else {
            return;
        };
        if width >= usize::from(END) || routers * targets.len() > MOST_TURNED {
            return;
        }
        let mut steps = vec![(NONE, NONE); routers * width];
        for (router, row) in fabric.router_ids().zip(steps.chunks_mut(width.max(1))) {
            for (step, link) in row.iter_mut().zip(fabric.links_from(router)) {
                *step = (link.0, self.next[link.index()]);
            }
        }
        let mut positions = vec![END; routers * targets.len()];
        let row = |(row, &to): (&mut [u8], &NodeId)| {
            for (router, at) in fabric.router_ids().zip(row) {
                let position = tables.position(router, to).map(usize::from);
                let goes_on = |&p: &usize| steps[router.index() * width + p].1 != NONE;
                *at = position.filter(goes_on).map_or(END, |p| p as u8);
            }
        };
        let rows = positions.par_chunks_mut(routers).zip(targets);
        rows.for_each(row);
        self.turned = Some(Turned {
            routers,
            positions,
            width,
            steps,
        });
    }

    /// Calls `f(link, 1)` for every link between routers.
    #[inline]
    pub(crate) fn each(
        &self,
        from: RouterId,
        (column, to): (u32, NodeId),
        mut f: impl FnMut(usize, f64),
    ) {
        if let Some(turned) = &self.turned {
            let row = &turned.positions[column as usize * turned.routers..][..turned.routers];
            let mut at = from.index();
            for _ in 0..turned.routers {
                let position = row[at];
                if position == END {
                    return;
                }
                let (link, next) = turned.steps[at * turned.width + usize::from(position)];
                f(link as usize, 1.0);
                at = next as usize;
            }
            return;
        }
        let mut at = from;
        for _ in 0..self.fabric.routers().len() {
            let Ok(link) = self.routing.next_link(self.fabric, at, to) else {
                return;
            };
            let next = self.next[link.index()];
            if next == NONE {
                return;
            }
            f(link.index(), 1.0);
            at = RouterId(next);
        }
    }

    /// The link of a router towards a node, and the router behind it; `None` at the end or without a route.
    fn step(&self, at: u32, to: NodeId) -> Option<(LinkId, u32)> {
        let next = self.routing.next_link(self.fabric, RouterId(at), to);
        let link = next.ok().filter(|&l| self.fabric.link(l).is_up())?;
        let next = self.next[link.index()];
        (next != NONE).then_some((link, next))
    }

    /// Hops of a router on the way to a node; `known` holds those of routers that were looked at.
    fn hops(&self, from: u32, to: NodeId, known: &mut [u16], way: &mut Vec<(u32, bool)>) -> u16 {
        let mut at = from;
        way.clear();
        let mut hops = loop {
            match known[at as usize] {
                UNKNOWN => {}
                found => break found,
            }
            // A router that is met again, in a loop, has no route.
            known[at as usize] = DEAD;
            match self.step(at, to) {
                Some((link, next)) => {
                    way.push((at, self.fabric.is_hop(link)));
                    at = next;
                }
                None => {
                    let end = self.fabric.node(to);
                    let last = self.routing.next_link(self.fabric, RouterId(at), to);
                    let arrives = last == Ok(end.eject) && self.fabric.link(end.eject).is_up();
                    known[at as usize] = if arrives { 0 } else { DEAD };
                    break known[at as usize];
                }
            }
        };
        for &(router, is_hop) in way.iter().rev() {
            if hops != DEAD {
                hops = (hops + u16::from(is_hop)).min(UNKNOWN - 1);
            }
            known[router as usize] = hops;
        }
        hops
    }

    /// Hops from routers, which their first nodes stand for, to nodes; `None` if stopped.
    ///
    /// # Errors
    /// Nodes without a route.
    pub(crate) fn rows(
        &self,
        (sources, targets): (&[NodeId], &[NodeId]),
        stop: Stop,
    ) -> Result<Option<Rows>, MapError> {
        let fabric = self.fabric;
        let is_whole = fabric.links().iter().all(hopbyte_fabric::Link::is_up);
        if !is_whole || !matches!(self.routing, Routing::Tree(_)) {
            return self.rows_to((sources, targets), stop);
        }
        // The nodes of a router are equally far from all others.
        let Some(mut rows) = self.rows_to((sources, sources), stop)? else {
            return Ok(None);
        };
        let mut row_of = vec![0; fabric.routers().len()];
        for (&source, &row) in sources.iter().zip(&rows.row_of) {
            row_of[fabric.node(source).router.index()] = row;
        }
        let row = |&n: &NodeId| row_of[fabric.node(n).router.index()];
        rows.row_of = targets.iter().map(row).collect();
        Ok(Some(rows))
    }

    /// [`Walked::rows`] of every target by itself.
    fn rows_to(
        &self,
        (sources, targets): (&[NodeId], &[NodeId]),
        stop: Stop,
    ) -> Result<Option<Rows>, MapError> {
        let fabric = self.fabric;
        let routers: Vec<u32> = sources.iter().map(|&s| fabric.node(s).router.0).collect();
        // Nodes of a router stand together.
        let mut order: Vec<u32> = (0..targets.len() as u32).collect();
        order.sort_by_key(|&c| fabric.node(targets[c as usize]).router);
        let part = |columns: &[u32]| {
            let mut known = vec![UNKNOWN; fabric.routers().len()];
            let (mut way, mut dead) = (Vec::new(), Vec::new());
            let (mut hops, mut of) = (Vec::<u16>::new(), Vec::new());
            let mut last = None;
            for &column in columns {
                if stop.is_set() {
                    break;
                }
                let to = targets[column as usize];
                known.fill(UNKNOWN);
                let row = routers
                    .iter()
                    .map(|&r| self.hops(r, to, &mut known, &mut way));
                let row: Vec<u16> = row.collect();
                dead.extend(self.dead(sources, to, &row));
                let router = fabric.node(to).router;
                let same = last == Some(router) && hops.ends_with(&row);
                if !same {
                    hops.extend(row);
                }
                last = Some(router);
                of.push((column, hops.len() / routers.len() - 1));
            }
            (hops, of, dead)
        };
        let parts: Vec<_> = order.par_chunks(TARGETS).map(part).collect();
        if stop.is_set() {
            return Ok(None);
        }
        let mut rows = Rows {
            routers: routers.len(),
            row_of: vec![0; targets.len()],
            hops: Vec::new(),
        };
        let mut all = Vec::new();
        for (hops, of, dead) in parts {
            let first = rows.hops.len() / routers.len();
            for (column, row) in of {
                rows.row_of[column as usize] = (first + row) as u32;
            }
            rows.hops.extend(hops);
            all.extend(dead);
        }
        match all.is_empty() {
            true => Ok(Some(rows)),
            false => Err(MapError::unroutable(fabric, all)),
        }
    }

    /// The pairs without a route to a node.
    fn dead(&self, sources: &[NodeId], to: NodeId, row: &[u16]) -> Vec<Unroutable> {
        let fabric = self.fabric;
        let up = |from: NodeId| fabric.link(fabric.node(from).inject).is_up();
        let mut found = Vec::new();
        for (&from, &hops) in sources.iter().zip(row) {
            if from != to && (hops == DEAD || !up(from)) {
                let mut links = Vec::new();
                let routed = self.routing.route(fabric, from, to, &mut links);
                found.push(routed.err().unwrap_or(Unroutable {
                    from,
                    to,
                    at: fabric.node(from).router,
                    reason: Dead::Loop,
                }));
            }
        }
        found
    }

    /// The links that carry all bytes from other routers to a node, and none to another node, for every node.
    pub(crate) fn ways_in(
        &self,
        (sources, targets): (&[RouterId], &[NodeId]),
        stop: Stop,
    ) -> Option<Vec<Vec<u32>>> {
        let part = |columns: &[NodeId], first: usize| {
            let mut user = vec![NONE; self.next.len()];
            let mut seen = vec![(NONE, 0); self.fabric.routers().len()];
            let mut found = Vec::with_capacity(columns.len());
            for (place, &to) in (first as u32..).zip(columns) {
                if stop.is_set() {
                    break;
                }
                found.push(self.way_in(sources, (place, to), &mut seen, &mut user));
            }
            (found, user)
        };
        let parts: Vec<_> = targets
            .par_chunks(TARGETS)
            .enumerate()
            .map(|(i, columns)| part(columns, i * TARGETS))
            .collect();
        if stop.is_set() {
            return None;
        }
        let mut user = vec![NONE; self.next.len()];
        let mut found = Vec::with_capacity(targets.len());
        for (more, users) in parts {
            found.extend(more);
            for (user, one) in user.iter_mut().zip(users) {
                *user = match (*user, one) {
                    (NONE, one) | (one, NONE) => one,
                    _ => SEVERAL,
                };
            }
        }
        for (place, links) in (0..).zip(&mut found) {
            links.retain(|&l| user[l as usize] == place);
        }
        Some(found)
    }

    /// The links that all routes from other routers to a node share. `seen` holds the node for which a router was seen,
    /// and the number of links from the first route's start to it; `user` the node whose routes use a link.
    fn way_in(
        &self,
        sources: &[RouterId],
        (place, to): (u32, NodeId),
        seen: &mut [(u32, u32)],
        user: &mut [u32],
    ) -> Vec<u32> {
        let home = self.fabric.node(to).router;
        let mut way: Vec<u32> = Vec::new();
        // Position at which the routes so far have joined the first.
        let mut begin = 0;
        let mut is_first = true;
        for &source in sources.iter().filter(|&&r| r != home) {
            let mut at = source.0;
            let mut joined = 0;
            loop {
                let (of, position) = seen[at as usize];
                if of == place {
                    joined = position;
                    break;
                }
                let position = if is_first { way.len() as u32 } else { NONE };
                seen[at as usize] = (place, position);
                let Some((link, next)) = self.step(at, to) else {
                    break;
                };
                let user = &mut user[link.index()];
                *user = match *user {
                    NONE => place,
                    one if one == place => place,
                    _ => SEVERAL,
                };
                if is_first {
                    way.push(link.0);
                }
                at = next;
            }
            // A route that joins another beside the first has joined the first where that one did.
            if !is_first && joined != NONE {
                begin = begin.max(joined);
            }
            is_first = false;
        }
        let mut links = way.split_off(begin as usize);
        links.sort_unstable();
        links
    }
}
