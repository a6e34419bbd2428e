//! Switch trees and other switched fabrics as strips: hosts at the bottom, switches above them by
//! their distance from the hosts, every cable a pair of strokes, or half a cell where strokes are too many.

use super::mesh::Mesh;
use super::names::shorten_all;
use super::svg::{self, Anchor, Layer, Mark, num};
use super::{Geometry, Looks, Picture, glyph};
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write;

/// Height of a switch.
pub const BOX: f32 = 24.0;
/// Room between two strips of switches.
const RISE: f32 = 150.0;
/// Room for the name of a strip.
const CAPTION: f32 = 18.0;
/// Height, and maximum and minimum width of a host.
const HOST: [f32; 3] = [20.0, 15.0, 6.0];
/// Minimum distance of strokes at a switch; below it parallel cables are drawn as one.
const LEAST_SLOT: f32 = 1.5;
/// The same for these, below which they are cells, and the number of strokes that can be told apart.
const LEAST_STROKE: f32 = 1.0;
const MOST_STROKES: usize = 400;

/// A switch on its strip.
#[derive(Clone, Copy, Default)]
struct Place {
    level: usize,
    x: f32,
    y: f32,
    w: f32,
}

/// Positions of all switches.
pub struct Plan {
    places: Vec<Place>,
    /// Switches by level from 0 (next to the hosts), in order from the left.
    levels: Vec<Vec<RouterId>>,
    width: f32,
}

/// Strokes that are drawn as one: links of one direction between two switches, or a single link.
pub struct Strand {
    pub links: Vec<LinkId>,
    pub from: RouterId,
    pub to: RouterId,
}

/// All strands, with the places where they meet the switches.
struct Strands {
    list: Vec<Strand>,
    slots: Slots,
    /// Parallel cables are drawn as one.
    bundled: bool,
    mesh: Option<Mesh>,
}

/// Draws the strips.
pub fn picture(looks: &Looks, mut plan: Plan) -> Picture {
    let fabric = looks.fabric;
    let width = plan.width;
    let mut body = String::new();
    let mut captions = String::new();
    let strands = Strands::of(&plan, fabric);
    let height = plan.heights(fabric, strands.mesh.as_ref(), &mut captions);
    let mut geometry = Geometry::empty(fabric);
    draw(looks, &plan, &strands, &mut geometry).write(&mut body);
    let mut layer = Layer::new(1.0);
    boxes(looks, &plan, &mut body, &mut geometry);
    let job = hosts(looks, &plan, &mut layer, &mut body, &mut geometry);
    layer.write(&mut body);
    names(fabric, &plan, &mut body);
    body.push_str(&captions);
    if !job.is_empty() {
        let _ = writeln!(body, "<path class=\"jobmark\" d=\"{job}\"/>");
    }
    let mut words = format!(
        "{} switches in {} by their distance from the hosts (level 1 serves hosts); every host is a box with two bars, left \
         into and right out of the network. ",
        fabric.routers().len(),
        match plan.levels.len() {
            1 => "one strip".into(),
            n => format!("{n} strips"),
        }
    );
    words.push_str(match strands.mesh {
        None => "Each cable is two strokes, the right-hand one in the way of the traffic.",
        Some(_) => {
            "Above every switch is a cell for each switch of the strip above that it has cables to, in their order; \
             the left half of the cell is the way up, the right half the way down."
        }
    });
    if strands.bundled {
        words.push_str(" Parallel cables are drawn as one with the load of the worst.");
    }
    Picture {
        width,
        height,
        body,
        geometry,
        words,
    }
}

impl Plan {
    /// Strips of the given width.
    pub fn new(fabric: &Fabric, width: f32) -> Self {
        let level = levels(fabric);
        let count = level.iter().max().map_or(1, |&l| l + 1);
        let mut rows: Vec<Vec<RouterId>> = vec![Vec::new(); count];
        for r in fabric.router_ids() {
            rows[level[r.index()]].push(r);
        }
        let mut plan = Self {
            places: level
                .iter()
                .map(|&level| Place {
                    level,
                    ..Place::default()
                })
                .collect(),
            levels: rows,
            width,
        };
        let neighbours = neighbours(fabric);
        let demand = demand(fabric, &level);
        (0..count).for_each(|l| plan.spread(l, &demand));
        // Barycentre sweeps: a switch moves towards the mean position of its neighbours.
        for sweep in 0..8 {
            let order: Vec<usize> = if sweep % 2 == 0 {
                (0..count).collect()
            } else {
                (0..count).rev().collect()
            };
            for l in order {
                plan.sort(l, &neighbours);
                plan.spread(l, &demand);
            }
        }
        plan
    }

    /// Whether most cables between switches lead from one strip to another.
    pub fn is_tree(&self, fabric: &Fabric) -> bool {
        let level = |r: RouterId| self.places[r.index()].level;
        let (mut across, mut within) = (0usize, 0usize);
        for link in fabric.links() {
            match (link.from, link.to) {
                (End::Router(a), End::Router(b)) if level(a) == level(b) => within += 1,
                (End::Router(_), End::Router(_)) => across += 1,
                _ => {}
            }
        }
        within * 2 <= across || across + within == 0
    }

    /// Strip of a switch, from 0 next to the hosts.
    pub fn level(&self, router: RouterId) -> usize {
        self.places[router.index()].level
    }

    /// Number of strips.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// Box of a switch: x, y, width, height.
    pub fn square(&self, router: RouterId) -> [f32; 4] {
        let p = self.places[router.index()];
        [p.x, p.y, p.w, BOX]
    }

    /// Middle of a switch.
    pub fn middle(&self, router: RouterId) -> f32 {
        let p = &self.places[router.index()];
        p.x + p.w / 2.0
    }

    fn sort(&mut self, level: usize, neighbours: &[Vec<RouterId>]) {
        let mut keyed: Vec<(f32, RouterId)> = self.levels[level]
            .iter()
            .map(|&r| {
                let others = neighbours[r.index()]
                    .iter()
                    .filter(|o| self.places[o.index()].level != level)
                    .map(|&o| self.middle(o));
                let (sum, n) = others.fold((0.0, 0), |(s, n), x| (s + x, n + 1));
                let at = if n == 0 {
                    self.middle(r)
                } else {
                    sum / n as f32
                };
                (at, r)
            })
            .collect();
        keyed.sort_by(|a, b| {
            // Equal within a pixel: keep the order of ids, so that pictures are stable.
            if (a.0 - b.0).abs() < 1.0 {
                a.1.cmp(&b.1)
            } else {
                a.0.total_cmp(&b.0)
            }
        });
        self.levels[level] = keyed.into_iter().map(|(_, r)| r).collect();
    }

    /// Divides the width among a level's switches.
    fn spread(&mut self, level: usize, demand: &[f32]) {
        let row = &self.levels[level];
        let gap = (self.width * 0.2 / row.len() as f32).clamp(1.0, 18.0);
        let free = self.width - gap * row.len() as f32;
        let total: f32 = row.iter().map(|r| demand[r.index()]).sum();
        let scale = (free / total).min(22.0);
        let mut x = (self.width - total * scale - gap * (row.len() - 1) as f32) / 2.0;
        for r in row {
            let w = demand[r.index()] * scale;
            let place = &mut self.places[r.index()];
            place.x = x;
            place.w = w;
            x += w + gap;
        }
    }

    /// Sets the heights of all strips from the top down, writes their names, returns the full height.
    fn heights(&mut self, fabric: &Fabric, mesh: Option<&Mesh>, body: &mut String) -> f32 {
        let mut y = 0.0;
        let top = self.levels.len() - 1;
        for level in (0..=top).rev() {
            let n = self.levels[level].len();
            let plural = if n == 1 { "switch" } else { "switches" };
            let name = format!("Level {} · {n} {plural}", level + 1);
            if level == top {
                svg::text(body, "t3", 0.0, y + 11.0, Anchor::Start, &name);
                y += CAPTION;
            } else {
                svg::text(body, "t3 halo", 0.0, y - 7.0, Anchor::Start, &name);
            }
            // Hosts of upper switches are above them, those of the lowest below.
            let rows = self.host_rows(fabric, level) as f32 * (HOST[0] + 3.0);
            if level > 0 {
                y += rows;
            }
            for r in &self.levels[level] {
                self.places[r.index()].y = y;
            }
            y += BOX;
            y += match level {
                0 => rows + 6.0,
                _ => mesh.map_or(RISE, |mesh| mesh.rise(level - 1)),
            };
        }
        let hosts = fabric.nodes().len();
        let name = format!("Hosts · {hosts} endpoints");
        svg::text(body, "t3", 0.0, y + 11.0, Anchor::Start, &name);
        y + CAPTION
    }

    fn host_rows(&self, fabric: &Fabric, level: usize) -> usize {
        self.levels[level]
            .iter()
            .map(|&r| {
                let n = fabric.nodes_on(r).len();
                n.div_ceil(self.hosts_a_row(r, n))
            })
            .max()
            .unwrap_or(0)
    }

    fn hosts_a_row(&self, router: RouterId, hosts: usize) -> usize {
        let most = (self.places[router.index()].w / HOST[2]).floor().max(1.0) as usize;
        hosts.clamp(1, most)
    }
}

/// Level of every switch: 0 for those with hosts, else the distance to one of them. A switch
/// with few endpoints beside others with many (aggregation nodes on spines) does not count.
fn levels(fabric: &Fabric) -> Vec<usize> {
    let hosts = |r: RouterId| fabric.nodes_on(r).len();
    let most = fabric.router_ids().map(hosts).max().unwrap_or(0);
    let mut level: Vec<Option<usize>> = fabric
        .router_ids()
        .map(|r| (hosts(r) > 0 && hosts(r) * 8 >= most).then_some(0))
        .collect();
    let neighbours = neighbours(fabric);
    let mut queue: VecDeque<RouterId> = fabric
        .router_ids()
        .filter(|r| level[r.index()].is_some())
        .collect();
    while let Some(at) = queue.pop_front() {
        let next = level[at.index()].map(|l| l + 1);
        for &other in &neighbours[at.index()] {
            if level[other.index()].is_none() {
                level[other.index()] = next;
                queue.push_back(other);
            }
        }
    }
    level.into_iter().map(|l| l.unwrap_or(0)).collect()
}

/// Other ends of each switch's cables, one entry per cable and direction.
fn neighbours(fabric: &Fabric) -> Vec<Vec<RouterId>> {
    let mut list = vec![Vec::new(); fabric.routers().len()];
    for link in fabric.links() {
        if let (End::Router(a), End::Router(b)) = (link.from, link.to) {
            list[a.index()].push(b);
        }
    }
    list
}

/// Relative width of each switch: the larger of its hosts and its cables up and down.
fn demand(fabric: &Fabric, level: &[usize]) -> Vec<f32> {
    let mut up = vec![0usize; level.len()];
    let mut down = vec![0usize; level.len()];
    for link in fabric.links() {
        if let (End::Router(a), End::Router(b)) = (link.from, link.to) {
            if level[a.index()] > level[b.index()] {
                down[a.index()] += 1;
            } else {
                up[a.index()] += 1;
            }
        }
    }
    fabric
        .router_ids()
        .map(|r| {
            let hosts = fabric.nodes_on(r).len();
            hosts.max(up[r.index()]).max(down[r.index()]).max(2) as f32
        })
        .collect()
}

impl Strands {
    /// Single cables, parallel ones as one, or cells, as there is room.
    fn of(plan: &Plan, fabric: &Fabric) -> Self {
        let single = gather(fabric, |link| link.0);
        let slots = Slots::new(plan, &single, fabric);
        let crowded = |list: &[Strand], least: f32, slots: &Slots| {
            slots.least < least || list.len() > MOST_STROKES
        };
        if !crowded(&single, LEAST_SLOT, &slots) {
            return Self {
                list: single,
                slots,
                bundled: false,
                mesh: None,
            };
        }
        let list = gather(fabric, |_| u32::MAX);
        let slots = Slots::new(plan, &list, fabric);
        let mesh = crowded(&list, LEAST_STROKE, &slots).then(|| Mesh::of(plan, &list));
        let bundled = list.iter().any(|b| b.links.len() > 1);
        Self {
            list,
            slots,
            bundled,
            mesh,
        }
    }
}

fn gather(fabric: &Fabric, key: impl Fn(LinkId) -> u32) -> Vec<Strand> {
    let mut strands: BTreeMap<(RouterId, RouterId, u32), Strand> = BTreeMap::new();
    for id in fabric.link_ids() {
        if let (End::Router(from), End::Router(to)) = (fabric.link(id).from, fabric.link(id).to) {
            strands
                .entry((from, to, key(id)))
                .or_insert_with(|| Strand {
                    links: Vec::new(),
                    from,
                    to,
                })
                .links
                .push(id);
        }
    }
    strands.into_values().collect()
}

/// Positions at which strands meet the upper and lower edges of switches.
struct Slots {
    /// x by (strand, at its sending end).
    x: HashMap<(usize, bool), f32>,
    /// Minimum distance of two slots.
    least: f32,
}

impl Slots {
    fn new(plan: &Plan, strands: &[Strand], fabric: &Fabric) -> Self {
        let mut edges: BTreeMap<(RouterId, bool), Vec<(usize, bool)>> = BTreeMap::new();
        for (i, s) in strands.iter().enumerate() {
            for (here, there, sending) in [(s.from, s.to, true), (s.to, s.from, false)] {
                let (a, b) = (&plan.places[here.index()], &plan.places[there.index()]);
                // Links within a strip leave at the top.
                let top = b.level >= a.level;
                edges.entry((here, top)).or_default().push((i, sending));
            }
        }
        let mut slots = Self {
            x: HashMap::new(),
            least: f32::MAX,
        };
        for ((router, _), mut list) in edges {
            let place = &plan.places[router.index()];
            let key = |&(i, sending): &(usize, bool)| {
                let s = &strands[i];
                let other = if sending { s.to } else { s.from };
                let first = s.links[0];
                let cable = fabric.reverse(first).map_or(first, |r| r.min(first));
                let rising = plan.places[s.to.index()].level > plan.places[s.from.index()].level;
                (plan.middle(other), cable, rising)
            };
            list.sort_by(|a, b| {
                let (a, b) = (key(a), key(b));
                a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2)))
            });
            let pitch = place.w / list.len() as f32;
            slots.least = slots.least.min(pitch);
            for (n, slot) in list.into_iter().enumerate() {
                slots.x.insert(slot, place.x + (n as f32 + 0.5) * pitch);
            }
        }
        slots
    }

    fn x(&self, strand: usize, sending: bool) -> f32 {
        self.x.get(&(strand, sending)).copied().unwrap_or_default()
    }
}

fn draw(looks: &Looks, plan: &Plan, strands: &Strands, geometry: &mut Geometry) -> Layer {
    let slots = &strands.slots;
    let mut layer = Layer::new((slots.least / 4.0).clamp(0.35, 1.0));
    let barb = (slots.least * 0.9).clamp(0.0, 5.0);
    for (i, strand) in strands.list.iter().enumerate() {
        let mesh = strands.mesh.as_ref();
        if mesh.is_some_and(|mesh| mesh.draw(looks, plan, strand, &mut layer, geometry)) {
            continue;
        }
        let mark = looks.worst_mark(&strand.links);
        let (a, b) = (
            &plan.places[strand.from.index()],
            &plan.places[strand.to.index()],
        );
        let (x1, x2) = (slots.x(i, true), slots.x(i, false));
        let place = if a.level == b.level {
            let lift = (14.0 + 0.06 * (x2 - x1).abs()).min(0.55 * RISE);
            layer.path(mark, &arc(x1, x2, a.y, lift));
            let y = a.y - 0.75 * lift;
            [x1, y, x2, y]
        } else {
            let (y1, y2) = if a.level < b.level {
                (a.y, b.y + BOX)
            } else {
                (a.y + BOX, b.y)
            };
            let stroke = [x1, y1, x2, y2];
            layer.line(mark, stroke, if barb >= 2.0 { barb } else { 0.0 });
            stroke
        };
        for link in &strand.links {
            geometry.links[link.index()] = place;
        }
    }
    layer
}

fn arc(x1: f32, x2: f32, y: f32, lift: f32) -> String {
    let top = num(y - lift);
    format!(
        "M{} {}C{} {top} {} {top} {} {}",
        num(x1),
        num(y),
        num(x1),
        num(x2),
        num(x2),
        num(y)
    )
}

fn boxes(looks: &Looks, plan: &Plan, body: &mut String, geometry: &mut Geometry) {
    for router in looks.fabric.router_ids() {
        let square = plan.square(router);
        geometry.routers[router.index()] = square;
        svg::rect(body, "router", square, 3.0);
    }
}

/// Names inside the switches, as far as they fit.
fn names(fabric: &Fabric, plan: &Plan, body: &mut String) {
    for row in &plan.levels {
        let fits = |&r: &RouterId| ((plan.square(r)[2] - 8.0) / 6.6) as usize;
        let named: Vec<RouterId> = row.iter().copied().filter(|r| fits(r) >= 5).collect();
        let full: Vec<&str> = named.iter().map(|&r| &*fabric.router(r).name).collect();
        let room = named.iter().map(fits).min().unwrap_or(0);
        for (&router, name) in named.iter().zip(shorten_all(&full, room)) {
            let [x, y, w, _] = plan.square(router);
            svg::text(body, "t3", x + w / 2.0, y + 16.0, Anchor::Middle, &name);
        }
    }
}

/// Draws every host; returns the marks under those of the job.
fn hosts(
    looks: &Looks,
    plan: &Plan,
    layer: &mut Layer,
    body: &mut String,
    geometry: &mut Geometry,
) -> String {
    let fabric = looks.fabric;
    let mut outlines = String::new();
    let mut job = String::new();
    for router in fabric.router_ids() {
        let nodes = fabric.nodes_on(router);
        let place = plan.places[router.index()];
        let a_row = plan.hosts_a_row(router, nodes.len());
        let pitch = (place.w / a_row as f32).min(HOST[1]);
        let left = place.x + (place.w - pitch * a_row as f32) / 2.0;
        for (n, &node) in nodes.iter().enumerate() {
            let x = left + (n % a_row) as f32 * pitch + 0.5;
            let row = (n / a_row) as f32 * (HOST[0] + 3.0);
            let y = if place.level == 0 {
                place.y + BOX + 5.0 + row
            } else {
                place.y - HOST[0] - 4.0 - row
            };
            let cell = [x, y, (pitch - 1.5).max(0.5 * pitch), HOST[0]];
            outlines.push_str(&glyph::square(cell));
            if looks.job.contains(&node) {
                let under = [x, y + cell[3] + 0.6, cell[2], 1.8];
                job.push_str(&glyph::square(under));
            }
            geometry.nodes[node.index()] = cell;
            meters(looks, node, cell, layer, geometry);
        }
    }
    let _ = writeln!(
        body,
        "<path class=\"router\" stroke-width=\"0.6\" d=\"{outlines}\"/>"
    );
    job
}

fn meters(
    looks: &Looks,
    node: NodeId,
    [x, y, w, h]: [f32; 4],
    layer: &mut Layer,
    geometry: &mut Geometry,
) {
    let node = looks.fabric.node(node);
    let gap = 0.8f32.min(0.1 * w);
    let bar = (w - 3.0 * gap) / 2.0;
    for (column, link) in [node.inject, node.eject].into_iter().enumerate() {
        let left = x + gap + column as f32 * (bar + gap);
        let mark = looks.mark(link);
        if !matches!(mark, Mark::Kind(_)) {
            layer.meter(mark, [left, y + 1.0, bar, h - 2.0]);
        }
        let middle = left + bar / 2.0;
        geometry.links[link.index()] = [middle, y, middle, y + h];
    }
}
