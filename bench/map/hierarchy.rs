//! The metric of SharedMap, IntMap and KaHIP: bytes times the distance of the level at which two processing elements
//! meet, in a machine that is a tree of equal parts.
//!
//! A problem is the traffic of one of the others, a hierarchy such as `4:8:16` (elements of the lowest part first) and as
//! many distances. For hopbyte it is a tree of routers, the levels so far apart that a route between two elements has
//! twice the distance in hops.

use crate::problems::{Instance, Network};
use hopbyte_fabric::{Allocation, Fabric, NodeId, Routing};
use std::error::Error;

/// Sizes and distances of the levels, lowest first.
pub struct Hierarchy {
    sizes: Vec<u32>,
    distances: Vec<u32>,
}

impl Hierarchy {
    pub fn parse(sizes: &str, distances: &str) -> Result<Self, Box<dyn Error>> {
        let list = |text: &str| {
            text.split(':')
                .map(str::parse)
                .collect::<Result<Vec<u32>, _>>()
        };
        let (sizes, distances) = (list(sizes)?, list(distances)?);
        let rising = distances.first() != Some(&0) && distances.windows(2).all(|d| d[0] < d[1]);
        if sizes.len() != distances.len() || !rising || sizes.contains(&0) {
            return Err("expected as many distances as sizes, rising".into());
        }
        Ok(Self { sizes, distances })
    }

    fn elements(&self) -> u32 {
        self.sizes.iter().product()
    }

    /// Distance of two elements.
    fn between(&self, a: u32, b: u32) -> u32 {
        let (mut a, mut b, mut far) = (a, b, 0);
        for (size, distance) in self.sizes.iter().zip(&self.distances) {
            if a == b {
                break;
            }
            (a, b, far) = (a / size, b / size, *distance);
        }
        far
    }

    /// Bytes times distance of all messages.
    pub fn sum(&self, it: &Instance, element: &[u32]) -> f64 {
        let at = |task: u32| element[task as usize];
        let cost = |(from, to, bytes)| f64::from(self.between(at(from), at(to))) * bytes;
        it.exchange
            .iter()
            .map(|(from, m)| cost((from, m.to, m.bytes)))
            .sum()
    }

    /// The traffic of an instance on the tree.
    pub fn instance(&self, it: Instance) -> Result<Instance, Box<dyn Error>> {
        let elements = self.elements();
        let each = (it.exchange.tasks() as u32).div_ceil(elements);
        let (fabric, routing) = self.tree()?;
        let nodes = (0..elements).map(|e| (NodeId(e), each)).collect();
        let allocation = Allocation::new(&fabric, nodes)?;
        Ok(Instance {
            fabric,
            routing,
            allocation,
            background: None,
            ..it
        })
    }

    /// Routers of the elements first, then those of each higher part; between a part and the next one as many links in a row
    /// as its distance exceeds the lower one's.
    fn tree(&self) -> Result<(Fabric, Routing), Box<dyn Error>> {
        let mut parents: Vec<u32> = Vec::new();
        let mut level: Vec<u32> = (0..self.elements()).collect();
        let mut next = self.elements();
        let mut below = 0;
        for (size, &distance) in self.sizes.iter().zip(&self.distances) {
            let mut above = Vec::new();
            let between = distance - below - 1;
            let first = next + level.len() as u32 * between;
            parents.resize((first + level.len() as u32 / size) as usize, u32::MAX);
            for (i, &router) in level.iter().enumerate() {
                let top = first + i as u32 / size;
                let mut at = router;
                for _ in 0..between {
                    parents[at as usize] = next;
                    (at, next) = (next, next + 1);
                }
                parents[at as usize] = top;
                if (i as u32).is_multiple_of(*size) {
                    above.push(top);
                }
            }
            (level, next, below) = (above, first + level.len() as u32 / size, distance);
        }
        Network::tree(&parents, self.elements())
    }
}
