//! Times of collectives between placed ranks: bytes over the links of their routes, and latencies of their rounds.

use super::{Operation, Step};
use crate::error::FabricError;
use crate::fabric::Fabric;
use crate::ids::{LinkId, NodeId};
use crate::routing::Routing;
use std::collections::{BTreeMap, HashMap};

/// Cost of a collective that all groups call at once.
///
/// Messages are cut into pieces that follow each other, as NCCL's are, so that the time is that of the rounds' latencies and
/// of the bytes on the slowest link. It is a lower limit: latencies are those of links, without the software at the ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Sum over rounds of the longest latency of a route, in seconds.
    pub latency: f64,
    /// Time of the bytes of the slowest link, in seconds.
    pub bandwidth: f64,
}

impl Cost {
    /// The cost of one call of `operation` in each of several groups of nodes, whose members are in the order of ranks.
    ///
    /// # Errors
    /// As [`Operation::steps`]; nodes without a route between them.
    pub fn of(
        fabric: &Fabric,
        routing: &Routing,
        groups: &[Vec<NodeId>],
        operation: impl Fn(u32) -> Operation<'static>,
    ) -> Result<Self, FabricError> {
        let mut routes: HashMap<(NodeId, NodeId), Vec<(LinkId, f64)>> = HashMap::new();
        let mut loads = vec![0.0f64; fabric.links().len()];
        let mut latency = 0.0f64;
        for group in groups {
            let mut steps: Vec<Step> = Vec::new();
            operation(group.len() as u32).steps(&mut |step| steps.push(step))?;
            // Longest latency by first round and number of rounds.
            let mut rounds: BTreeMap<(u32, u32), f64> = BTreeMap::new();
            for step in steps {
                let ends = (group[step.from as usize], group[step.to as usize]);
                if ends.0 == ends.1 {
                    continue;
                }
                let route = match routes.entry(ends) {
                    std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::hash_map::Entry::Vacant(new) => {
                        let mut found = Vec::new();
                        routing
                            .shares(fabric, ends.0, ends.1, &mut found)
                            .map_err(|e| FabricError::OutOfRange {
                                what: "nodes of a collective".into(),
                                found: e.to_string(),
                                expected: "a route between all of them".into(),
                            })?;
                        new.insert(found)
                    }
                };
                let mut sum = 0.0;
                for &(link, share) in route.iter() {
                    loads[link.index()] += step.bytes * f64::from(step.times) * share;
                    sum += fabric.link(link).latency.0 * share;
                }
                let longest = rounds.entry((step.round, step.times)).or_default();
                *longest = longest.max(sum);
            }
            let own = rounds
                .iter()
                .map(|(&(_, times), l)| f64::from(times) * l)
                .sum();
            latency = latency.max(own);
        }
        let times = fabric
            .link_ids()
            .map(|l| loads[l.index()] / fabric.link(l).capacity().0);
        Ok(Self {
            latency,
            bandwidth: times.filter(|t| t.is_finite()).fold(0.0, f64::max),
        })
    }

    /// All seconds.
    pub fn seconds(&self) -> f64 {
        self.latency + self.bandwidth
    }
}

impl super::Collective {
    /// Bytes on the bus of each rank, by those of `bytes` as the expander takes them: what NCCL's tests and Inspector divide
    /// by the time of a call for its bus bandwidth (nccl-tests, `doc/PERFORMANCE.md`). `None` where they define none.
    pub fn bus_bytes(self, ranks: u32, bytes: f64) -> Option<f64> {
        let n = f64::from(ranks);
        match self {
            Self::Allreduce => Some(bytes * 2.0 * (n - 1.0) / n),
            // Sizes are blocks of ranks: (n - 1)/n of n blocks.
            Self::Allgather | Self::ReduceScatter | Self::Alltoall => Some(bytes * (n - 1.0)),
            Self::Broadcast | Self::Reduce => Some(bytes),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, Collective, Sizes};
    use super::*;
    use crate::spec;

    /// Rings of two hosts with four GPUs each: one message of the slowest pair, and the bytes of a port.
    #[test]
    fn rings_and_trees_cost_what_their_links_do() {
        let machine =
            spec::machine("fattree:down=4x4,up=1x4,rails=4,link=50,hosts=gh200-quad").unwrap();
        let places = machine.fabric.places();
        let of = |algorithm, nodes: &[NodeId]| {
            let op = |ranks| Operation {
                collective: Collective::Allreduce,
                algorithm,
                ranks,
                root: 0,
                sizes: Sizes::Same(8e9),
                hosts: &[],
            };
            Cost::of(&machine.fabric, &machine.routing, &[nodes.to_vec()], op).unwrap()
        };
        // Within a host the ring's links carry 2·3/4 of the vector, over NVLink of 150 GB/s.
        let inside = of(Algorithm::Ring, &places[..4]);
        assert!(
            (inside.bandwidth - 1.5 * 8.0 / 150.0).abs() < 1e-9,
            "{inside:?}"
        );
        // Over two hosts 2·7/8 of it leave by one port of 50 GB/s.
        let ring = of(Algorithm::Ring, &places[..8]);
        assert!(
            (ring.bandwidth - 1.75 * 8.0 / 50.0).abs() < 1e-9,
            "{ring:?}"
        );
        let tree = of(Algorithm::Tree, &places[..8]);
        assert!(tree.latency < ring.latency, "{tree:?} {ring:?}");
        assert_eq!(Collective::Allgather.bus_bytes(8, 1.0), Some(7.0));
        assert_eq!(Collective::Allreduce.bus_bytes(8, 8.0), Some(14.0));
    }
}
