//! A run of the search from one start: groups of tasks first, then single tasks.

use crate::arrangement::Slots;
use crate::evaluate::is_network;
use crate::graph::Graph;
use crate::groups::Groups;
use crate::linear::{Distances, anneal};
use crate::near::Near;
use crate::paths::Paths;
use crate::paths::stored::StoredPaths;
use crate::problem::{Objective, Problem};
use crate::schedule::{Budget, Effort};
use crate::search::{Aim, Search, Stage, Weights};
use crate::sharing::{Routers, share};
use hopbyte_fabric::random::Random;

/// Share of every group's bytes that a search considers; the lightest edges are left to the search of single
/// tasks.
const HEAVY: f32 = 0.97;

/// Number of nodes from which one search uses all threads.
const MANY: usize = 4096;

/// Single tasks may leave their group even if host links outside the objective become slower by up to this
/// factor.
const HOSTS: f64 = 1.25;

/// Shares of a run's effort: assignment to routers, placement on each router, and unrestricted moves.
const SHARING: (f64, f64, f64) = (0.55, 0.35, 0.1);

/// Shares of a run's effort for groups: assignment to groups at zero temperature, then towards a target;
/// placement inside the groups; and unrestricted moves.
const GROUPS: (f64, f64, f64, f64) = (0.06, 0.5, 0.28, 0.16);

/// Target of the search over groups, as a share of the worst time at zero temperature.
const AIM: f64 = 0.8;

/// Target of the search inside groups, as a share of the time of the links between them.
const INSIDE: f64 = 0.97;

/// Partitions of a fabric that are searched hierarchically.
pub(crate) enum Parts {
    /// Every place has its own path in: the assignment to routers dominates.
    Routers(Routers),
    /// Few links between groups of routers.
    Groups(Box<Groups>),
}

impl Parts {
    /// Chooses the partition from the routes of a problem.
    pub(crate) fn new(problem: &Problem<'_>, paths: &StoredPaths) -> Option<Self> {
        let routers = Routers::new(problem, paths).map(Self::Routers);
        routers.or_else(|| Groups::new(problem, paths).map(|g| Self::Groups(Box::new(g))))
    }
}

/// Data shared by all runs on one problem.
pub(crate) struct Engine<'a, P: Paths, D: Distances> {
    pub(crate) problem: &'a Problem<'a>,
    pub(crate) graph: &'a Graph,
    pub(crate) paths: &'a P,
    pub(crate) distances: &'a D,
    pub(crate) near: Near,
    pub(crate) weights: Weights,
    /// Tasks that every place takes.
    pub(crate) rooms: Vec<u32>,
    /// Whether one search is large enough for all threads.
    pub(crate) wide: bool,
    /// Whether parts of the fabric are searched first.
    pub(crate) parts: Option<Parts>,
}

/// A level of a search: units, their slots and the start.
struct Level {
    graph: Graph,
    slots: Slots,
    start: Vec<u32>,
    /// Unit of every task; empty if units are tasks.
    unit_of: Vec<u32>,
}

/// A placement by place, with the state of the search that made it.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) place_of: Vec<u32>,
    pub(crate) trials: u64,
}

impl<'a, P: Paths, D: Distances> Engine<'a, P, D> {
    pub(crate) fn new(
        problem: &'a Problem<'a>,
        graph: &'a Graph,
        (paths, distances): (&'a P, &'a D),
        parts: Option<Parts>,
        seed: u64,
    ) -> Self {
        let rooms: Vec<u32> = problem.allocation.nodes().iter().map(|n| n.1).collect();
        Self {
            parts: parts.filter(|p| matches!(p, Parts::Groups(_)) || rooms.iter().all(|&r| r == 1)),
            problem,
            graph,
            paths,
            distances,
            near: Near::new(problem, &mut Random::stream(seed, 0)),
            weights: weights(problem, paths),
            rooms,
            wide: problem.allocation.nodes().len() >= MANY,
        }
    }

    /// Cost of a map of a graph's units, to compare starts.
    pub(crate) fn cost(&self, graph: &Graph, place_of: &[u32]) -> f64 {
        match self.problem.objective {
            Objective::WorstLink | Objective::WorstNetworkLink => self.loaded(graph, place_of),
            Objective::HopBytes | Objective::RouteCost(_) => self.linear(graph, place_of),
        }
    }

    /// Bytes × distance.
    pub(crate) fn linear(&self, graph: &Graph, place_of: &[u32]) -> f64 {
        let at = |t: u32| place_of[t as usize];
        (0..place_of.len() as u32)
            .flat_map(|t| graph.edges(t).iter().map(move |e| (t, e)))
            .map(|(t, e)| f64::from(e.out) * self.distances.get(at(t), at(e.to)))
            .sum()
    }

    /// The eighth norm of the times of the links in the objective: close to the maximum, and lower if fewer
    /// links are as slow.
    fn loaded(&self, graph: &Graph, place_of: &[u32]) -> f64 {
        let mut load = vec![0.0; self.paths.links()];
        for unit in 0..place_of.len() as u32 {
            let from = place_of[unit as usize];
            for edge in graph.edges(unit).iter().filter(|e| e.out > 0.0) {
                let (to, bytes) = (place_of[edge.to as usize], f64::from(edge.out));
                self.paths
                    .each(from, to, |l, share| load[l] += bytes * share);
            }
        }
        let times = load.iter().zip(&self.weights.seconds_per_byte);
        let counted = times.zip(&self.weights.counts).filter(|t| *t.1);
        let power = |((bytes, seconds), _): ((&f64, &f64), &bool)| (bytes * seconds).powi(8);
        counted.map(power).sum::<f64>().powf(0.125)
    }

    /// Searches from a start within `effort`; a `warm` run starts at a higher temperature and keeps less of its
    /// start. `tell` is called at the end of every stage.
    pub(crate) fn run(
        &self,
        (start, warm): (Vec<u32>, bool),
        effort: Effort,
        rng: &mut Random,
        tell: impl Fn(),
    ) -> Outcome {
        let mut state = Outcome {
            place_of: start,
            trials: 0,
        };
        let grouped = self.grouped();
        let loads = matches!(
            self.problem.objective,
            Objective::WorstLink | Objective::WorstNetworkLink
        );
        if !loads {
            if grouped {
                self.linear_stage(&mut state, true, (0.1, effort.part(0.8, true)), rng);
                self.linear_stage(&mut state, false, (0.01, effort.part(0.2, true)), rng);
            } else {
                let heat = if warm { 1.0 } else { 0.1 };
                self.linear_stage(&mut state, false, (heat, effort.part(1.0, true)), rng);
            }
            return state;
        }
        let mut stage = Stage {
            stiffness: (20.0, 100.0),
            heat: 1.0,
            hot: 50,
            step: 1.5,
            home: false,
            aim: None,
            budget: effort.part(1.0, false),
        };
        let hosts = match &self.parts {
            Some(Parts::Routers(routers)) => {
                self.by_router(routers, &mut state, (effort, stage), rng, tell);
                return state;
            }
            Some(Parts::Groups(groups)) => {
                let hosts = self.by_group(groups, &mut state, (effort, stage), rng, &tell);
                if !grouped {
                    return state;
                }
                hosts
            }
            None if grouped => {
                self.linear_stage(&mut state, true, (0.1, effort.part(0.2, true)), rng);
                tell();
                stage = Stage {
                    stiffness: (30.0, 30.0),
                    heat: 4.0,
                    step: 1.35,
                    budget: effort.part(0.35, false),
                    ..stage
                };
                let hosts = self.load_stage(&mut state, true, None, &stage, rng);
                tell();
                hosts
            }
            None => {
                self.load_stage(&mut state, false, None, &stage, rng);
                tell();
                return state;
            }
        };
        stage = Stage {
            stiffness: (10.0, 100.0),
            heat: 0.5,
            hot: 90,
            budget: effort.part(0.45, false),
            ..stage
        };
        self.load_stage(&mut state, false, Some(HOSTS * hosts), &stage, rng);
        tell();
        state
    }

    /// Searches the assignment to groups, then the placement inside each, and finally among all places. Returns
    /// the time limit of the links outside the objective.
    fn by_group(
        &self,
        groups: &Groups,
        state: &mut Outcome,
        (effort, stage): (Effort, Stage),
        rng: &mut Random,
        tell: &impl Fn(),
    ) -> f64 {
        let grouped = self.grouped();
        let whole = if grouped { 0.55 } else { 1.0 };
        let part = |share: f64, cheap: bool| effort.part(whole * share, cheap);
        let level = self.level(&state.place_of, grouped);
        let (slots, order) = level.slots.gathered(&groups.of);
        let mut slot_at = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            slot_at[old as usize] = new as u32;
        }
        let start: Vec<u32> = level.start.iter().map(|&s| slot_at[s as usize]).collect();
        let (paths, weights, near) = (&groups.paths, &groups.weights, &groups.alone);
        let mut search = Search::new(paths, &level.graph, &slots, weights, near, &start, None);
        let cold = Stage {
            budget: part(GROUPS.0, true),
            ..stage
        };
        let worst = search.run(&cold, self.wide, rng).worst;
        tell();
        let aim = |aim: Aim| Stage {
            aim: Some(aim),
            hot: 10,
            ..stage
        };
        let hot = Stage {
            budget: part(GROUPS.1, true),
            ..aim(Aim {
                time: AIM * worst,
                excess: (1.0 - AIM) * worst,
                heat: (4.0, 0.0125),
                hop: 0.06,
            })
        };
        let worst = search.run(&hot, self.wide, rng).worst;
        state.trials += search.trials;
        let end = search.into_slots();
        let end: Vec<u32> = end.iter().map(|&s| order[s as usize]).collect();
        Self::take(state, &level, &end);
        tell();
        let home = Stage {
            home: true,
            budget: part(GROUPS.2, false),
            ..aim(Aim {
                time: INSIDE * worst,
                excess: (1.0 - AIM) * worst,
                heat: (2.0, 0.05),
                hop: 0.6,
            })
        };
        self.load_stage(state, grouped, None, &home, rng);
        tell();
        let last = Stage {
            stiffness: (100.0, 400.0),
            step: 0.6,
            budget: part(GROUPS.3, false),
            ..stage
        };
        self.load_stage(state, grouped, None, &last, rng)
    }

    /// Searches the assignment to routers, then the placement on each, and finally among all places.
    fn by_router(
        &self,
        routers: &Routers,
        state: &mut Outcome,
        (effort, stage): (Effort, Stage),
        rng: &mut Random,
        tell: impl Fn(),
    ) {
        let level = self.level(&state.place_of, false);
        let budget = effort.part(SHARING.0, true);
        let (end, trials) = share(
            &level.graph,
            &level.slots,
            routers,
            &level.start,
            budget,
            rng,
        );
        state.trials += trials;
        Self::take(state, &level, &end);
        tell();
        let stage = Stage {
            stiffness: (100.0, 400.0),
            step: 0.6,
            ..stage
        };
        for (home, share) in [(true, SHARING.1), (false, SHARING.2)] {
            let stage = Stage {
                home,
                budget: effort.part(share, false),
                ..stage
            };
            self.load_stage(state, false, None, &stage, rng);
            tell();
        }
    }

    /// Number of `tell` calls of [`Engine::run`].
    pub(crate) fn stages(&self) -> usize {
        match self.problem.objective {
            Objective::HopBytes | Objective::RouteCost(_) => 0,
            _ if matches!(self.parts, Some(Parts::Groups(_))) => 4,
            _ if self.parts.is_some() || self.grouped() => 3,
            _ => 1,
        }
    }

    fn grouped(&self) -> bool {
        self.rooms.iter().any(|&r| r > 1)
    }

    /// The units of a level, at the places of their tasks.
    fn level(&self, place_of: &[u32], grouped: bool) -> Level {
        let places = self.rooms.len();
        if !grouped {
            let each = (0..places as u32).zip(&self.rooms);
            let slots = Slots::new(
                places,
                each.flat_map(|(p, &room)| (0..room).map(move |_| (p, 1))),
            );
            let mut free = slots.first_free();
            // A placement never has more tasks than slots on a place.
            let start = place_of
                .iter()
                .map(|&p| free[p as usize].next().unwrap_or(0))
                .collect();
            return Level {
                graph: self.graph.clone(),
                slots,
                start,
                unit_of: Vec::new(),
            };
        }
        let mut number = vec![u32::MAX; places];
        let mut start = Vec::new();
        let unit_of: Vec<u32> = place_of
            .iter()
            .map(|&p| {
                let unit = &mut number[p as usize];
                if *unit == u32::MAX {
                    *unit = start.len() as u32;
                    start.push(p);
                }
                *unit
            })
            .collect();
        let slots = Slots::new(places, (0..places as u32).zip(self.rooms.iter().copied()));
        Level {
            graph: self.graph.quotient(&unit_of, start.len()).heaviest(HEAVY),
            slots,
            start,
            unit_of,
        }
    }

    /// Copies the final places of a level's units to their tasks.
    fn take(state: &mut Outcome, level: &Level, end: &[u32]) {
        for (task, place) in state.place_of.iter_mut().enumerate() {
            let unit = level.unit_of.get(task).map_or(task, |&u| u as usize);
            *place = level.slots.place[end[unit] as usize];
        }
    }

    fn linear_stage(
        &self,
        state: &mut Outcome,
        grouped: bool,
        how: (f64, Budget),
        rng: &mut Random,
    ) {
        let level = self.level(&state.place_of, grouped);
        let (end, trials) = anneal(
            &level.graph,
            &level.slots,
            &self.near,
            self.distances,
            &level.start,
            (how.0, how.1, self.wide),
            rng,
        );
        state.trials += trials;
        Self::take(state, &level, &end);
    }

    /// Searches on link loads; returns the time limit of the links outside the objective.
    fn load_stage(
        &self,
        state: &mut Outcome,
        grouped: bool,
        others: Option<f64>,
        stage: &Stage,
        rng: &mut Random,
    ) -> f64 {
        let level = self.level(&state.place_of, grouped);
        let near = match &self.parts {
            Some(Parts::Routers(routers)) if stage.home => &routers.beside,
            Some(Parts::Groups(groups)) if stage.home => &groups.beside,
            _ => &self.near,
        };
        let mut search = Search::new(
            self.paths,
            &level.graph,
            &level.slots,
            &self.weights,
            near,
            &level.start,
            others,
        );
        let others = search.others;
        search.run(stage, self.wide, rng);
        state.trials += search.trials;
        let end = search.into_slots();
        Self::take(state, &level, &end);
        others
    }
}

/// Weight of every link: with [`Objective::WorstNetworkLink`] host links only must not get worse.
fn weights<P: Paths>(problem: &Problem<'_>, paths: &P) -> Weights {
    let links = problem.fabric.links().len();
    let real = |number: usize| Some(paths.link(number)).filter(|l| l.index() < links);
    let all = matches!(problem.objective, Objective::WorstLink);
    let seconds = |number: usize| {
        let capacity = real(number).map_or(0.0, |l| problem.live_capacity(l));
        if capacity > 0.0 { 1.0 / capacity } else { 0.0 }
    };
    let counts = |number: usize| real(number).is_some_and(|l| all || is_network(problem, l));
    let hop = |number: usize| {
        let is_hop = real(number).is_some_and(|l| problem.fabric.is_hop(l));
        f64::from(u8::from(is_hop))
    };
    Weights {
        seconds_per_byte: (0..paths.links()).map(seconds).collect(),
        counts: (0..paths.links()).map(counts).collect(),
        hop: (0..paths.links()).map(hop).collect(),
    }
}
