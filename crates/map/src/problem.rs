//! The mapping problem: machine, traffic, allocation and objective.

use hopbyte_fabric::{
    Allocation, Class, Exchange, Fabric, FabricError, LinkId, LinkState, NodeId, Phase, Placement,
    RouterId, Routing, Traffic, Unroutable,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Minimum share of a link's capacity that counts as live. A link that is saturated by other jobs still serves
/// in turn, and an infinite time would hide all other differences.
pub const LEAST_LIVE_SHARE: f64 = 0.01;

/// Cost of a byte that leaves its node, in hops, where such bytes may not grow.
pub(crate) const APART: f64 = 1.0 / 16.0;

/// Maximum number of messages of one task, out and in, that a search accepts.
const MOST_PARTNERS: u32 = 1 << 22;

/// Maximum number of unroutable pairs in an error.
const EXAMPLES: usize = 5;

/// The minimised objective, a [`Goal`](crate::Goal) with its input. Ties are broken by hop-bytes (for
/// [`Objective::HopBytes`] and [`Objective::RouteCost`] by the worst link time).
#[derive(Clone, Copy, Debug)]
pub enum Objective<'a> {
    /// Time of the worst directed link, injection and ejection included: bytes / live capacity.
    WorstLink,
    /// The same over links between routers only, for comparison with published figures and for machines with
    /// host links that are known not to limit.
    WorstNetworkLink,
    /// Bytes × hops of the request routes, summed.
    HopBytes,
    /// Bytes × cost of the pair of nodes, summed, as in paper 003: costs row by row (from), in the order of the
    /// allocation's nodes. Not-a-number means "not known" and counts as the mean.
    RouteCost(&'a [f32]),
}

impl Objective<'_> {
    /// Whether host links and bytes off node are outside the objective, so that a search may not raise them.
    pub fn has_limits(&self) -> bool {
        matches!(self, Self::WorstNetworkLink | Self::HopBytes)
    }
}

/// One of several phases that follow one another.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Name from the recorder or file.
    pub name: String,
    /// Its messages.
    pub exchange: Exchange,
    /// Bytes that load the route from task to task, as in [`Problem::loads`].
    pub loads: Option<Exchange>,
}

impl Turn {
    /// The bytes that load routes.
    pub(crate) fn messages(&self) -> &Exchange {
        self.loads.as_ref().unwrap_or(&self.exchange)
    }

    /// The phases of a traffic if they follow one another and are several; `loads` gives the bytes on the wire.
    ///
    /// # Errors
    /// Those of `loads`.
    pub fn all<E>(
        traffic: &Traffic,
        loads: impl Fn(&Exchange) -> Result<Option<Exchange>, E>,
    ) -> Result<Vec<Self>, E> {
        if !traffic.in_turn || traffic.phases.len() < 2 {
            return Ok(Vec::new());
        }
        let turn = |phase: &Phase| {
            Ok(Self {
                name: phase.name.clone(),
                exchange: phase.exchange.clone(),
                loads: loads(&phase.exchange)?,
            })
        };
        traffic.phases.iter().map(turn).collect()
    }
}

/// One mapping problem.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// The machine.
    pub fabric: &'a Fabric,
    /// Its routing.
    pub routing: &'a Routing,
    /// Load of other jobs on the links; unknown links count as free.
    pub background: Option<&'a LinkState>,
    /// Traffic between the tasks.
    pub exchange: &'a Exchange,
    /// Available nodes and slots.
    pub allocation: &'a Allocation,
    /// The minimised objective.
    pub objective: Objective<'a>,
    /// The current placement, for a warm start; the result is never worse.
    pub current: Option<&'a Placement>,
    /// Bytes that load the route from task to task, headers and responses included
    /// ([`hopbyte_fabric::wire::Overhead::loads`]); if absent, the payload of [`Problem::exchange`] alone. Link
    /// times use these; hop-bytes, bytes off node and route costs always use the payload.
    pub loads: Option<&'a Exchange>,
    /// Phases that follow one another, if the traffic has several; [`Problem::exchange`] is their sum. The objective
    /// [`Objective::WorstLink`] is then the sum of the times of the phases' worst links.
    pub turns: &'a [Turn],
    /// Whether hosts are kept whole: consecutive ranks fill each host's slots in order, and only hosts are permuted, as
    /// torchrun and others need. All baselines are then orders of hosts.
    pub keep_hosts: bool,
    /// Groups of tasks that stay in one unit of hosts each, if the units have room for all, even if the objective is lower
    /// without: tensor-parallel ranks, whose exchanges nothing overlaps. Without hosts they do not matter.
    pub together: &'a [Vec<u32>],
}

impl<'a> Problem<'a> {
    /// A problem with the default objective (worst link), no background and no current placement.
    pub fn new(
        fabric: &'a Fabric,
        routing: &'a Routing,
        exchange: &'a Exchange,
        allocation: &'a Allocation,
    ) -> Self {
        Self {
            fabric,
            routing,
            background: None,
            exchange,
            allocation,
            objective: Objective::WorstLink,
            current: None,
            loads: None,
            turns: &[],
            keep_hosts: false,
            together: &[],
        }
    }

    /// Whether the objective is the sum of the times of phases that follow one another.
    pub(crate) fn in_turn(&self) -> bool {
        matches!(self.objective, Objective::WorstLink) && !self.turns.is_empty()
    }

    /// The problem of one phase alone.
    pub(crate) fn alone(&self, turn: &'a Turn) -> Self {
        Self {
            exchange: &turn.exchange,
            loads: turn.loads.as_ref(),
            turns: &[],
            ..*self
        }
    }

    /// Link capacity that is left for this job, bytes per second: lanes in service × (1 − background use), at
    /// least [`LEAST_LIVE_SHARE`] of it; 0 for a link that is down.
    pub fn live_capacity(&self, link: LinkId) -> f64 {
        let used = self
            .background
            .and_then(|state| state.used_ratio.get(link))
            .unwrap_or(0.0);
        self.fabric.link(link).capacity().0 * (1.0 - used).clamp(LEAST_LIVE_SHARE, 1.0)
    }

    /// Checks constraints that the types do not enforce: matching sizes and valid numbers.
    pub(crate) fn check(&self) -> Result<(), MapError> {
        let (tasks, slots) = (self.exchange.tasks(), self.allocation.capacity());
        if tasks == 0 {
            return Err(MapError::NoTasks);
        }
        if tasks > slots {
            return Err(MapError::TooManyTasks { tasks, slots });
        }
        if let Some(loads) = self.loads
            && loads.tasks() != tasks
        {
            return Err(MapError::BadOption {
                what: "bytes on the wire",
                found: format!("{} tasks", loads.tasks()),
                expected: "as many tasks as in the traffic",
            });
        }
        if self.turns.iter().any(|t| t.exchange.tasks() != tasks) {
            return Err(MapError::BadOption {
                what: "phases",
                found: "another number of tasks".into(),
                expected: "as many tasks as in the traffic",
            });
        }
        if let Some(current) = self.current {
            self.check_placement(current)?;
        }
        if let Objective::RouteCost(costs) = self.objective {
            let nodes = self.allocation.nodes().len();
            if costs.len() != nodes * nodes {
                return Err(MapError::CostShape {
                    found: costs.len(),
                    nodes,
                });
            }
            let infinite = costs.iter().enumerate().filter(|c| c.1.is_infinite());
            let dead = infinite.filter_map(|(pair, _)| {
                let [from, to] = [pair / nodes, pair % nodes].map(|p| self.node_at(p as u32));
                let routed = self.routing.shares(self.fabric, from, to, &mut Vec::new());
                routed.err()
            });
            let dead: Vec<_> = dead.collect();
            if !dead.is_empty() {
                return Err(MapError::unroutable(self.fabric, dead));
            }
            if let Some(bad) = costs.iter().position(|c| *c < 0.0 || c.is_infinite()) {
                return Err(MapError::BadCost {
                    from: self.node_name(bad / nodes),
                    to: self.node_name(bad % nodes),
                    found: costs[bad],
                });
            }
        }
        Ok(())
    }

    /// Rejects tasks with so many partners that no search could finish, before any structure is built.
    pub(crate) fn check_partners(&self) -> Result<(), MapError> {
        let mut partners = vec![0u32; self.exchange.tasks()];
        for (from, message) in self.exchange.iter() {
            for end in [from, message.to] {
                partners[end as usize] = partners[end as usize].saturating_add(1);
            }
        }
        match partners.iter().position(|&n| n > MOST_PARTNERS) {
            Some(task) => Err(MapError::TooManyPartners {
                task: task as u32,
                partners: partners[task],
                most: MOST_PARTNERS,
            }),
            None => Ok(()),
        }
    }

    /// Checks that a placement fits this problem's tasks and allocation.
    pub(crate) fn check_placement(&self, placement: &Placement) -> Result<(), MapError> {
        let tasks = self.exchange.tasks();
        if placement.tasks() != tasks {
            return Err(MapError::PlacementSize {
                tasks,
                placed: placement.tasks(),
            });
        }
        match (0..tasks as u32).find(|&t| self.allocation.position(placement.node(t)).is_none()) {
            Some(task) => Err(MapError::OutsideAllocation {
                task,
                node: self.fabric.node(placement.node(task)).name.clone(),
            }),
            None => Ok(()),
        }
    }

    fn node_name(&self, place: usize) -> String {
        let (node, _) = self.allocation.nodes()[place];
        self.fabric.node(node).name.clone()
    }

    /// Position in the allocation by node id, without hashing; `u32::MAX` elsewhere.
    pub(crate) fn places(&self) -> Vec<u32> {
        let mut place = vec![u32::MAX; self.fabric.nodes().len()];
        for (i, &(node, _)) in self.allocation.nodes().iter().enumerate() {
            place[node.index()] = i as u32;
        }
        place
    }

    /// Whether bytes between two nodes stay on links inside hosts.
    pub(crate) fn is_inside(&self, from: NodeId, to: NodeId) -> bool {
        self.fabric
            .inside()
            .is_some_and(|inside| inside.is_joined(from, to))
    }

    /// The router at which a node's bytes enter the network.
    pub(crate) fn leaf(&self, node: NodeId) -> RouterId {
        let port = self.fabric.inside().map_or(node, |i| i.port_of(node));
        self.fabric.node(port).router
    }

    /// The node at a position of the allocation.
    pub(crate) fn node_at(&self, place: u32) -> NodeId {
        self.allocation.nodes()[place as usize].0
    }
}

/// Reason why a problem cannot be solved.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MapError {
    /// No tasks to place.
    #[error("the traffic has no tasks")]
    NoTasks,
    /// The allocation is too small.
    #[error(
        "{tasks} tasks and {slots} slots\nhint: allocate more nodes or allow more tasks per node"
    )]
    TooManyTasks {
        /// Tasks of the traffic.
        tasks: usize,
        /// Slots of the allocation.
        slots: usize,
    },
    /// A task with more partners than a search accepts.
    #[error(
        "task {task} communicates with {partners} others, above the limit of {most}\nhint: leave out all-to-one traffic, or count a collective by its algorithm"
    )]
    TooManyPartners {
        /// The task.
        task: u32,
        /// Its messages, out and in.
        partners: u32,
        /// Maximum number accepted.
        most: u32,
    },
    /// A placement of other traffic.
    #[error("the placement has {placed} tasks and the traffic {tasks}")]
    PlacementSize {
        /// Tasks of the traffic.
        tasks: usize,
        /// Tasks of the placement.
        placed: usize,
    },
    /// A placement of another allocation.
    #[error("task {task} is placed on {node}, which is not in the allocation")]
    OutsideAllocation {
        /// The task.
        task: u32,
        /// Its node in the placement.
        node: String,
    },
    /// Communicating tasks would be on nodes without a route between them.
    #[error("{count} pairs of nodes that exchange data have no route: {}\nhint: leave one side of each pair out of the allocation, or give the tables that route it", .examples.join("; "))]
    Unroutable {
        /// Number of pairs.
        count: usize,
        /// The first of them, as text.
        examples: Vec<String>,
    },
    /// A cost matrix of the wrong size.
    #[error(
        "route costs: found {found} values, expected {nodes} x {nodes}, one for each pair of allocated nodes"
    )]
    CostShape {
        /// Values given.
        found: usize,
        /// Nodes of the allocation.
        nodes: usize,
    },
    /// An invalid cost.
    #[error(
        "cost of the route from {from} to {to}: found {found}, expected a number not below zero, or not-a-number for unknown"
    )]
    BadCost {
        /// Source node.
        from: String,
        /// Target node.
        to: String,
        /// The value.
        found: f32,
    },
    /// An invalid option.
    #[error("{what}: found {found}, expected {expected}")]
    BadOption {
        /// The option.
        what: &'static str,
        /// Its value.
        found: String,
        /// Description of valid values.
        expected: &'static str,
    },
    /// An error in fabric, allocation or placement.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

impl MapError {
    /// Class of the error.
    pub fn class(&self) -> Class {
        match self {
            Self::NoTasks => Class::NoTasks,
            Self::TooManyTasks { .. } => Class::TooManyTasks,
            Self::TooManyPartners { .. } => Class::TooManyPartners,
            Self::PlacementSize { .. } | Self::OutsideAllocation { .. } => Class::OtherJob,
            Self::Unroutable { .. } => Class::NoRoute,
            Self::CostShape { .. } | Self::BadCost { .. } => Class::RouteCosts,
            Self::BadOption { .. } => Class::OutOfRange,
            Self::Fabric(error) => error.class(),
        }
    }

    /// Names the pairs without a route.
    pub(crate) fn unroutable(fabric: &Fabric, mut dead: Vec<Unroutable>) -> Self {
        dead.sort_by_key(|u| (u.from, u.to));
        dead.dedup_by_key(|u| (u.from, u.to));
        Self::Unroutable {
            count: dead.len(),
            examples: dead
                .iter()
                .take(EXAMPLES)
                .map(|u| u.describe(fabric))
                .collect(),
        }
    }
}

/// The baselines that every result is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// Tasks fill the nodes one after the other, the default of launchers.
    InOrder,
    /// Tasks are dealt to the nodes in turn.
    RoundRobin,
    /// A random permutation by the seed.
    Random,
    /// The current placement.
    Current,
    /// Hosts sorted by name as text, as torchrun's dynamic rendezvous does.
    TextOrder,
    /// Hosts sorted by name with numbers as numbers.
    NumberOrder,
}

impl Baseline {
    /// All of them; of equal ones the first counts.
    pub const ALL: [Self; 6] = [
        Self::InOrder,
        Self::RoundRobin,
        Self::Random,
        Self::Current,
        Self::TextOrder,
        Self::NumberOrder,
    ];
}
