//! Dragonflies: fully connected groups of routers (Aries, Slingshot, canonical).

use crate::bounds::{Size, product, sum};
use crate::builder::{FabricBuilder, LinkSpec};
use crate::error::FabricError;
use crate::fabric::{End, Fabric, Family, Shape};
use crate::ids::RouterId;
use crate::units::{BytesPerSecond, Seconds};

/// Links of one class: number of tiles or cables between two routers, and the capacity of each.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkClass {
    /// Name of the kind.
    pub name: &'static str,
    /// Parallel tiles or cables per link.
    pub tiles: u16,
    /// Lanes of each.
    pub lanes_per_tile: u16,
    /// Capacity of each, one direction.
    pub tile_capacity: BytesPerSecond,
}

impl LinkClass {
    fn capacity(&self) -> BytesPerSecond {
        BytesPerSecond(self.tile_capacity.0 * f64::from(self.tiles))
    }
}

/// Assignment of the links between groups to the routers of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// To the routers in order and as evenly as possible, peer group after peer group.
    Consecutive,
    /// Cray's cabling of Aries: every chassis has the same number of links to a peer group, and a link joins the same
    /// chassis of both groups. Peers take the slots in order, a block of slots each; when the slots are used up, the
    /// next peer begins at slot 0 again. The published dumps of Edison and Theta follow this rule link by link.
    /// Where the numbers do not divide, [`Arrangement::Consecutive`].
    SameChassis,
}

/// Parameters of a dragonfly with groups that are all-to-all along each of their dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct Dragonfly {
    /// Family (Aries, Slingshot or Dragonfly).
    pub family: Family,
    /// Numbers of the groups; gaps are allowed (Edison has no group 12).
    pub groups: Vec<u32>,
    /// Routers along each dimension of a group with their links: chassis and slots of an Aries group, one dimension
    /// otherwise.
    pub local: Vec<(u32, LinkClass)>,
    /// Links between two groups.
    pub global_links: u32,
    /// Class of these links.
    pub global: LinkClass,
    /// Routers at which the links between groups end.
    pub arrangement: Arrangement,
    /// Nodes per router.
    pub nodes_per_router: u32,
    /// Capacity of each node's link, one direction.
    pub host: BytesPerSecond,
    /// Latency of one hop.
    pub hop_latency: Seconds,
}

impl Dragonfly {
    /// Routers of one group.
    pub fn routers_per_group(&self) -> u32 {
        self.local.iter().map(|(n, _)| n).product()
    }

    /// Builds it; `names` gives router and node names from coordinates (group, position in each local dimension) and
    /// the node's index on its router, with the node's own number.
    ///
    /// Real machines may be cabled otherwise; if the wiring matters, read the machine's own dump.
    pub fn build(
        &self,
        source: &str,
        names: impl Fn(&[u32], Option<u32>) -> (String, Option<u32>),
    ) -> Result<Fabric, FabricError> {
        self.size().check_distances(source)?;
        let mut b = FabricBuilder::new(self.family, source);
        let mut dims = vec![self.groups.iter().max().map_or(0, |g| g + 1)];
        dims.extend(self.local.iter().map(|(n, _)| n));
        b.shape(Shape {
            wrap: vec![false; dims.len()],
            dims,
        });
        let coords: Vec<Vec<u32>> = self.coords();
        for coord in &coords {
            b.router(names(coord, None).0, coord);
        }
        let mut next_port = vec![0u16; coords.len()];
        self.add_local(&mut b, &mut next_port);
        self.add_global(&mut b, &mut next_port);
        let host = b.kind("host", true);
        for (r, coord) in coords.iter().enumerate() {
            for n in 0..self.nodes_per_router {
                let (name, nid) = names(coord, Some(n));
                let host_name = nid.map_or_else(|| name.clone(), |nid| format!("nid{nid:05}"));
                let router = RouterId::of(r);
                let id = b.node_with_link(name, host_name, router, host, self.host);
                if let Some(nid) = nid {
                    b.set_nid(id, nid);
                }
            }
        }
        b.finish()
    }

    /// The size of the fabric that [`Dragonfly::build`] creates.
    pub(crate) fn size(&self) -> Size {
        let groups = self.groups.len() as u64;
        let each = product(self.local.iter().map(|(n, _)| u64::from(*n)));
        let routers = groups.saturating_mul(each);
        let nodes = routers.saturating_mul(self.nodes_per_router.into());
        let peers = |n: u32| u64::from(n).saturating_sub(1);
        let local = sum(self.local.iter().map(|(n, _)| peers(*n)));
        let global = product([groups.saturating_sub(1), self.global_links.into()]);
        let tiles = |(n, class): &(u32, LinkClass)| peers(*n).saturating_mul(class.tiles.into());
        Size {
            routers,
            nodes,
            links: sum([
                routers.saturating_mul(local),
                groups.saturating_mul(global),
                nodes.saturating_mul(2),
            ]),
            ports: sum([
                sum(self.local.iter().map(tiles)),
                product([
                    global.div_ceil(each.max(1)).max(1),
                    self.global.tiles.into(),
                ]),
            ]),
        }
    }

    /// Coordinates of all routers in id order.
    fn coords(&self) -> Vec<Vec<u32>> {
        let mut all: Vec<Vec<u32>> = self.groups.iter().map(|&g| vec![g]).collect();
        for (n, _) in &self.local {
            all = all
                .into_iter()
                .flat_map(|c| (0..*n).map(move |i| [&c[..], &[i]].concat()))
                .collect();
        }
        all
    }

    fn add_local(&self, b: &mut FabricBuilder, next_port: &mut [u16]) {
        let size = self.routers_per_group();
        let mut stride = size;
        for (n, class) in &self.local {
            stride /= n;
            for group in 0..self.groups.len() as u32 {
                for r in 0..size {
                    let here = (r / stride) % n;
                    for there in here + 1..*n {
                        let peer = r + (there - here) * stride;
                        let pair = (RouterId(group * size + r), RouterId(group * size + peer));
                        self.join(b, next_port, pair, class);
                    }
                }
            }
        }
    }

    fn add_global(&self, b: &mut FabricBuilder, next_port: &mut [u16]) {
        let (groups, size) = (self.groups.len() as u32, self.routers_per_group());
        let each = (groups.saturating_sub(1) * self.global_links)
            .div_ceil(size)
            .max(1);
        let block = self.slots_per_peer();
        // Router of the k-th link of a group to a peer.
        let router = |group: u32, peer: u32, k: u32| {
            let rank = if peer > group { peer - 1 } else { peer };
            let local = match block {
                Some((width, slots)) => {
                    k / width * slots + rank % (slots / width) * width + k % width
                }
                None => (rank * self.global_links + k) / each,
            };
            RouterId(group * size + local)
        };
        for a in 0..groups {
            for z in a + 1..groups {
                for k in 0..self.global_links {
                    self.join(
                        b,
                        next_port,
                        (router(a, z, k), router(z, a, k)),
                        &self.global,
                    );
                }
            }
        }
    }

    /// Slots of a chassis with a link to one peer group, and slots of a chassis; `None` for the consecutive
    /// arrangement.
    fn slots_per_peer(&self) -> Option<(u32, u32)> {
        let [(chassis, _), (slots, _)] = self.local[..] else {
            return None;
        };
        let width = self.global_links / chassis;
        let divides = width > 0 && self.global_links == width * chassis && slots % width == 0;
        (self.arrangement == Arrangement::SameChassis && divides).then_some((width, slots))
    }

    /// Adds both directions of a link between two routers, on their next free ports.
    fn join(
        &self,
        b: &mut FabricBuilder,
        next_port: &mut [u16],
        (a, z): (RouterId, RouterId),
        class: &LinkClass,
    ) {
        let kind = b.kind(class.name, false);
        let spec = |from, to| LinkSpec {
            lanes: class.tiles * class.lanes_per_tile,
            lanes_in_service: class.tiles * class.lanes_per_tile,
            ..LinkSpec::new(
                End::Router(from),
                End::Router(to),
                kind,
                class.capacity(),
                self.hop_latency,
            )
        };
        let (there, back) = (b.link(spec(a, z)), b.link(spec(z, a)));
        for _ in 0..class.tiles {
            let (pa, pz) = (next_port[a.index()], next_port[z.index()]);
            b.port(there, pa, pz);
            b.port(back, pz, pa);
            next_port[a.index()] += 1;
            next_port[z.index()] += 1;
        }
    }
}

/// Names `g0-r3` for routers and `g0-r3-n1` for nodes, nodes numbered in order.
pub fn plain_names(coord: &[u32], node: Option<u32>) -> (String, Option<u32>) {
    let local: Vec<String> = coord[1..].iter().map(u32::to_string).collect();
    let router = format!("g{}-r{}", coord[0], local.join("-"));
    (
        node.map_or_else(|| router.clone(), |n| format!("{router}-n{n}")),
        None,
    )
}

/// Capacity of a Slingshot port, one direction: 200 Gbit/s (De Sensi et al. 2020, arXiv 2008.08886).
pub const SLINGSHOT_PORT: BytesPerSecond = BytesPerSecond(25e9);
/// Latency of a Slingshot switch, about 350 ns (the same).
pub const SLINGSHOT_HOP: Seconds = Seconds(350e-9);

/// A Slingshot system: all-to-all groups of 64-port switches.
pub fn slingshot(groups: u32, switches: u32, nodes: u32, global_links: u32) -> Dragonfly {
    let port = |name| LinkClass {
        name,
        tiles: 1,
        lanes_per_tile: 1,
        tile_capacity: SLINGSHOT_PORT,
    };
    Dragonfly {
        family: Family::Slingshot,
        groups: (0..groups).collect(),
        local: vec![(switches, port("local"))],
        global_links,
        global: port("global"),
        arrangement: Arrangement::Consecutive,
        nodes_per_router: nodes,
        host: SLINGSHOT_PORT,
        hop_latency: SLINGSHOT_HOP,
    }
}

/// A canonical dragonfly (Kim et al. 2008): `a` routers per group, each with `h` global links and `p` nodes, up to
/// a·h + 1 groups.
pub fn canonical(
    groups: u32,
    a: u32,
    p: u32,
    global_links: u32,
    link: BytesPerSecond,
) -> Dragonfly {
    let class = |name| LinkClass {
        name,
        tiles: 1,
        lanes_per_tile: 1,
        tile_capacity: link,
    };
    Dragonfly {
        family: Family::Dragonfly,
        groups: (0..groups).collect(),
        local: vec![(a, class("local"))],
        global_links,
        global: class("global"),
        arrangement: Arrangement::Consecutive,
        nodes_per_router: p,
        host: link,
        hop_latency: Seconds(100e-9),
    }
}
