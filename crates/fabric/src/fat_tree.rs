//! Fat trees: extended generalised fat trees, with oversubscription and rails.

use crate::bounds::{MAX_LEVELS, Size, product, sum};
use crate::builder::{FabricBuilder, LinkSpec};
use crate::error::FabricError;
use crate::fabric::{End, Fabric, Family};
use crate::ids::{NodeId, RouterId};
use crate::units::{BytesPerSecond, Seconds};

/// A tree of switches: each switch of level `l` has `down[l-1]` children (nodes at level 1) and `up[l]` parents;
/// `up[0]`, the number of switches per node, is 1. One cable joins a child and a parent (Öhring et al. 1995, XGFT).
#[derive(Clone, Debug, PartialEq)]
pub struct FatTree {
    /// Children of a switch, by level from the leaves.
    pub down: Vec<u32>,
    /// Parents of a switch, by level: entry `l` is for level-`l` switches; entry 0 is 1.
    pub up: Vec<u32>,
    /// Endpoints per host: endpoint `r` of every host in a unit is on the unit's leaf `r` (rail-optimised). 1 is the
    /// ordinary tree.
    pub rails: u32,
    /// Capacity of every cable, one direction.
    pub link: BytesPerSecond,
    /// Latency of one hop.
    pub hop_latency: Seconds,
}

impl FatTree {
    /// Tree of switches with `radix` ports: 2 or 3 levels, all ports used; `over` is the ratio of host ports to
    /// uplinks at the leaves.
    pub fn of_radix(radix: u32, levels: u32, over: u32) -> Option<Self> {
        if radix < 2 || !radix.is_multiple_of(2) || over == 0 || !radix.is_multiple_of(over + 1) {
            return None;
        }
        let hosts = radix / (over + 1) * over;
        let (half, uplinks) = (radix / 2, radix - hosts);
        let (down, up) = match levels {
            1 => (vec![radix], vec![1]),
            2 => (vec![hosts, radix], vec![1, uplinks]),
            3 => (vec![hosts, half, radix], vec![1, uplinks, half]),
            _ => return None,
        };
        Some(Self {
            down,
            up,
            rails: 1,
            link: BytesPerSecond::from_gb(12.5),
            hop_latency: Seconds(100e-9),
        })
    }

    /// Tree with these children and parents by level, see [`FatTree::down`] and [`FatTree::up`]; `None` if they do
    /// not form a tree, or one of more than eight levels or 2^32 switches or nodes.
    pub fn of_levels(down: Vec<u32>, up: Vec<u32>) -> Option<Self> {
        let whole = |sizes: &[u32]| {
            let product = sizes.iter().try_fold(1u32, |n, &s| n.checked_mul(s));
            product.is_some_and(|n| n > 0)
        };
        let fits = down.len() == up.len() && down.len() <= MAX_LEVELS && up.first() == Some(&1);
        if !fits || !whole(&down) || !whole(&up) {
            return None;
        }
        let tree = Self {
            down,
            up,
            rails: 1,
            link: BytesPerSecond::from_gb(12.5),
            hop_latency: Seconds(100e-9),
        };
        (tree.size().routers <= u64::from(u32::MAX)).then_some(tree)
    }

    /// The size of the fabric that [`FatTree::build`] creates.
    pub(crate) fn size(&self) -> Size {
        let all = |sizes: &[u32]| product(sizes.iter().map(|&s| u64::from(s)));
        let switches =
            |level: usize| all(&self.down[level..]).saturating_mul(all(&self.up[..level]));
        let ports = |level: usize| {
            let parents = self.up.get(level).copied().unwrap_or(0);
            u64::from(self.down[level - 1]) + u64::from(parents)
        };
        let levels = || 1..=self.levels();
        let nodes = all(&self.down);
        let cables = levels().map(|l| switches(l).saturating_mul(ports(l)));
        Size {
            routers: sum(levels().map(switches)),
            nodes,
            links: sum(cables.chain([nodes])),
            ports: levels().map(ports).max().unwrap_or(0),
        }
    }

    /// Levels of switches.
    pub fn levels(&self) -> usize {
        self.down.len()
    }

    /// Switches of level `l` (1 is the leaves).
    pub fn switches(&self, level: usize) -> u64 {
        let above: u64 = self.down[level..].iter().map(|&d| u64::from(d)).product();
        above * self.width(level)
    }

    /// All switches.
    pub fn routers(&self) -> u64 {
        (1..=self.levels()).map(|l| self.switches(l)).sum()
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u64 {
        self.down.iter().map(|&d| u64::from(d)).product()
    }

    /// Copies of a subtree's top at level `l`: the product of parents below.
    fn width(&self, level: usize) -> u64 {
        self.up[..level].iter().map(|&w| u64::from(w)).product()
    }

    /// First router id of a level.
    pub(crate) fn first(&self, level: usize) -> u64 {
        (1..level).map(|l| self.switches(l)).sum()
    }

    /// Router of a level by subtree and copy.
    pub(crate) fn router(&self, level: usize, subtree: u64, copy: u64) -> RouterId {
        RouterId::of((self.first(level) + subtree * self.width(level) + copy) as usize)
    }

    /// Level, subtree and copy of a router.
    pub(crate) fn place(&self, router: RouterId) -> (usize, u64, u64) {
        let mut rest = router.index() as u64;
        let mut level = 1;
        while level < self.levels() && rest >= self.switches(level) {
            rest -= self.switches(level);
            level += 1;
        }
        (level, rest / self.width(level), rest % self.width(level))
    }

    /// Far ends of a switch's links, in the order of [`FatTree::build`]: children, then parents.
    fn far_ends(&self, router: RouterId) -> Vec<End> {
        let (level, subtree, copy) = self.place(router);
        let below = u64::from(self.down[level - 1]);
        let child = |digit| match level {
            1 => End::Node(NodeId::of((subtree * below + digit) as usize)),
            _ => {
                let copy = copy % self.width(level - 1);
                End::Router(self.router(level - 1, subtree * below + digit, copy))
            }
        };
        let parent = |up: u64| {
            let above = u64::from(self.down[level]);
            End::Router(self.router(level + 1, subtree / above, copy + up * self.width(level)))
        };
        let parents = self.up.get(level).copied().map_or(0, u64::from);
        (0..below)
            .map(child)
            .chain((0..parents).map(parent))
            .collect()
    }

    /// Whether a fabric is this tree, with the same switches, nodes and links in the same order, so that its
    /// closed-form routing applies.
    pub fn describes(&self, fabric: &Fabric) -> bool {
        let counts = (fabric.routers().len() as u64, fabric.nodes().len() as u64);
        if counts != (self.routers(), self.nodes()) {
            return false;
        }
        let per_leaf = u64::from(self.down[0]);
        let is_placed = |n: NodeId| {
            let (leaf, seat) = (u64::from(n.0) / per_leaf, u64::from(n.0) % per_leaf);
            let (leaf, node) = (self.router(1, leaf, 0), fabric.node(n));
            node.router == leaf && fabric.links_from(leaf).get(seat as usize) == Some(&node.eject)
        };
        let is_joined = |r: RouterId| {
            let ends = fabric.links_from(r).iter().map(|&l| fabric.link(l).to);
            ends.eq(self.far_ends(r))
        };
        fabric.router_ids().all(is_joined) && fabric.node_ids().all(is_placed)
    }

    /// Builds it. Switches are named `leaf3`, `l2-5`, `l3-0`, nodes `h12` (`h12-r3` with rails), in the order of
    /// their leaves. The links of a switch are its children's in order, then its parents'.
    pub fn build(&self, source: &str) -> Result<Fabric, FabricError> {
        self.size().check_distances(source)?;
        let mut b = FabricBuilder::new(Family::FatTree, source);
        for level in 1..=self.levels() {
            for s in 0..self.switches(level) {
                let name = if level == 1 {
                    format!("leaf{s}")
                } else {
                    format!("l{level}-{s}")
                };
                b.router(name, &[]);
            }
        }
        let cable = b.kind("cable", false);
        let host = b.kind("host", true);
        for router in (0..self.routers() as usize).map(RouterId::of) {
            let (level, subtree, copy) = self.place(router);
            let below = u64::from(self.down[level - 1]);
            for (port, to) in (0u64..).zip(self.far_ends(router)) {
                let is_host = matches!(to, End::Node(_));
                let (kind, latency) = if is_host {
                    (host, Seconds(0.0))
                } else {
                    (cable, self.hop_latency)
                };
                let from = End::Router(router);
                let link = b.link(LinkSpec::new(from, to, kind, self.link, latency));
                if is_host {
                    continue;
                }
                let far_port = if port < below {
                    u64::from(self.down[level - 2]) + copy / self.width(level - 1)
                } else {
                    subtree % u64::from(self.down[level])
                };
                b.port(link, port as u16, far_port as u16);
            }
        }
        self.add_nodes(&mut b);
        b.finish()
    }

    fn add_nodes(&self, b: &mut FabricBuilder) {
        let per_leaf = u64::from(self.down[0]);
        let rails = u64::from(self.rails);
        let host_kind = b.kind("host", true);
        let ejects = self.leaf_ejects();
        for n in 0..self.nodes() {
            let (leaf, seat) = (n / per_leaf, n % per_leaf);
            let router = self.router(1, leaf, 0);
            let host = leaf / rails * per_leaf + seat;
            let name = if rails > 1 {
                format!("h{host}-r{}", leaf % rails)
            } else {
                format!("h{n}")
            };
            let (end, at) = (End::Node(NodeId::of(n as usize)), End::Router(router));
            let inject = b.link(LinkSpec::new(end, at, host_kind, self.link, Seconds(0.0)));
            let eject = crate::LinkId::of((leaf * ejects + seat) as usize);
            b.node(
                name,
                format!("h{host}"),
                Some(n as u32),
                router,
                inject,
                eject,
            );
        }
    }

    /// Links added per leaf: leaves come first, so the ids of ejection links follow from counts.
    fn leaf_ejects(&self) -> u64 {
        let parents = if self.levels() > 1 {
            u64::from(self.up[1])
        } else {
            0
        };
        u64::from(self.down[0]) + parents
    }
}
