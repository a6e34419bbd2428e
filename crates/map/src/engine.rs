//! A run of the search from one start: groups of tasks first, then single tasks.

mod stages;

use crate::arrangement::Slots;
use crate::change::count;
use crate::graph::Graph;
use crate::groups::Groups;
use crate::levels::Levels;
use crate::linear::Distances;
use crate::near::Near;
use crate::paths::Paths;
use crate::paths::routers::{Between, RouterPaths};
use crate::problem::{Objective, Problem};
use crate::schedule::{Effort, Stop};
use crate::search::{Aim, Search, Stage, Standing, Weights};
use crate::sharing::{Routers, share};
use crate::weights::{has_fixed_hosts, weights};
use hopbyte_fabric::random::Random;
use stages::single;

/// Share of every group's bytes that a search considers; the lightest edges are left to the search of single
/// tasks.
const HEAVY: f32 = 0.97;

/// Number of nodes from which one search uses all threads.
const MANY: usize = 4096;

/// Weight of the share by which a start exceeds limits.
const OVER: f64 = 4.0;

/// Shares of a run's effort: assignment to routers, placement on each router, and unrestricted moves.
const SHARING: (f64, f64, f64) = (0.55, 0.35, 0.1);

/// Shares of a run's effort for groups: assignment to groups at zero temperature, then towards a target;
/// placement inside the groups; and unrestricted moves.
const GROUPS: (f64, f64, f64, f64) = (0.06, 0.5, 0.28, 0.16);

/// Target of the search over groups, as a share of the worst time at zero temperature.
const AIM: f64 = 0.8;

/// Target of the search inside groups, as a share of the time of the links between them.
const INSIDE: f64 = 0.97;

/// Share of a run on another objective.
const OTHER: f64 = 0.4;

/// Partitions of a fabric that are searched hierarchically.
pub(crate) enum Parts {
    /// Every place has its own path in: the assignment to routers dominates.
    Routers(Routers),
    /// Few links between groups of routers.
    Groups(Box<Groups>),
}

impl Parts {
    /// Chooses the partition from the routes of a problem; `None` if stopped.
    pub(crate) fn new<B: Between>(
        problem: &Problem<'_>,
        paths: &RouterPaths<B>,
        stop: Stop,
    ) -> Option<Self> {
        // Tasks that share a place share its path in.
        let single = problem.allocation.nodes().iter().all(|n| n.1 == 1);
        let routers = single.then(|| Routers::new(problem, paths, stop)).flatten();
        routers.map(Self::Routers).or_else(|| {
            if stop.is_set() {
                return None;
            }
            Groups::new(problem, paths, stop).map(|g| Self::Groups(Box::new(g)))
        })
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
    /// The weights without host links, if the worst of these is the same for all placements. Runs of few trials end lower
    /// with them, the long run by time higher.
    pub(crate) fixed: Option<Weights>,
    /// The weights of link times, if hop-bytes are the objective.
    timed: Option<Weights>,
    /// The levels of a tree, if bytes × distance is the objective and is not searched by [`dense`].
    pub(crate) levels: Option<Levels>,
    /// Tasks that every place takes.
    pub(crate) rooms: Vec<u32>,
    /// Whether one search is large enough for all threads.
    pub(crate) wide: bool,
    /// Whether parts of the fabric are searched first.
    pub(crate) parts: Option<Parts>,
}

/// A level of a search: units, their slots and the start.
pub(crate) struct Level {
    pub(crate) graph: Graph,
    pub(crate) slots: Slots,
    pub(crate) start: Vec<u32>,
    /// Unit of every task; empty if units are tasks.
    unit_of: Vec<u32>,
}

/// The way of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// Parts of the machine or groups of tasks first, then single tasks.
    Whole,
    /// Single tasks only, close to the start.
    Single,
    /// Bytes × distance first, then the objective; hot if that is the objective.
    Linear,
    /// Another objective first: link times for hop-bytes, bytes × distance for link times.
    Other,
}

/// The state of a run.
pub(crate) struct Outcome {
    /// Place of every task.
    pub(crate) place_of: Vec<u32>,
    /// The best placement at the end of a stage, and its cost.
    best: (Standing, Vec<u32>),
    pub(crate) effort: Effort,
    pub(crate) trials: u64,
}

impl Outcome {
    /// The best placement seen.
    pub(crate) fn into_best(self) -> Vec<u32> {
        self.best.1
    }

    /// Trials that are left.
    pub(crate) fn left(&self) -> u64 {
        self.effort.left
    }
}

impl<'a, P: Paths, D: Distances> Engine<'a, P, D> {
    /// `reference` is a placement whose links outside the objective, and whose bytes off node, must not be exceeded.
    pub(crate) fn new(
        problem: &'a Problem<'a>,
        graph: &'a Graph,
        (paths, distances): (&'a P, &'a D),
        parts: Option<Parts>,
        (reference, seed): (&[u32], u64),
    ) -> Self {
        let rooms: Vec<u32> = problem.allocation.nodes().iter().map(|n| n.1).collect();
        let mut engine = Self {
            parts,
            problem,
            graph,
            paths,
            distances,
            near: Near::new(problem, &mut Random::stream(seed, 0)),
            weights: weights(problem, paths),
            fixed: None,
            timed: None,
            levels: None,
            rooms,
            wide: problem.allocation.nodes().len() >= MANY,
        };
        if problem.objective.has_limits() {
            let load = engine.loads(graph, reference);
            engine.weights.limits = engine.weights.of(&load);
        }
        let linear = matches!(
            problem.objective,
            Objective::HopBytes | Objective::RouteCost(_)
        );
        if linear && !engine.is_dense() {
            let limited = problem.objective.has_limits();
            let reference = limited.then_some((graph, reference));
            engine.levels = Levels::of(engine.rooms.len(), distances, reference);
        }
        if let Objective::HopBytes = problem.objective {
            let times = Problem {
                objective: Objective::WorstNetworkLink,
                ..*problem
            };
            engine.timed = Some(Weights {
                limits: engine.weights.limits,
                ..weights(&times, paths)
            });
        }
        if has_fixed_hosts(problem) {
            let load = engine.loads(graph, reference);
            let mut fixed = engine.weights.clone();
            fixed.fix_hosts(problem, paths, &load);
            engine.fixed = Some(fixed);
        }
        engine
    }

    /// Bytes on every link.
    fn loads(&self, graph: &Graph, place_of: &[u32]) -> Vec<f64> {
        let mut load = vec![0.0; self.paths.links()];
        count(self.paths, graph, &|u| place_of[u as usize], &mut load);
        load
    }

    /// Cost of a placement of the tasks.
    fn standing(&self, place_of: &[u32]) -> Standing {
        if let Objective::RouteCost(_) = self.problem.objective {
            return Standing {
                over: 0.0,
                worst: 0.0,
                hop_bytes: self.linear(self.graph, place_of),
            };
        }
        self.weights.standing(&self.loads(self.graph, place_of))
    }

    /// Keeps the current placement if it is the best so far.
    pub(crate) fn keep(&self, state: &mut Outcome) {
        let now = self.standing(&state.place_of);
        if now.better_than(&state.best.0) {
            state.best = (now, state.place_of.clone());
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
        let mut sum = 0.0;
        for (task, &here) in (0..).zip(place_of) {
            for edge in graph.edges(task) {
                let there = place_of[edge.to as usize];
                sum += f64::from(edge.out) * self.distances.get(here, there);
            }
        }
        sum
    }

    /// The eighth norm of the times of the links in the objective: close to the maximum, and lower if fewer
    /// links are as slow.
    fn loaded(&self, graph: &Graph, place_of: &[u32]) -> f64 {
        let load = self.loads(graph, place_of);
        let times = load.iter().zip(&self.weights.seconds_per_byte);
        let counted = times.zip(&self.weights.counts).filter(|t| *t.1);
        let power = |((bytes, seconds), _): ((&f64, &f64), &bool)| (bytes * seconds).powi(8);
        let norm = counted.map(power).sum::<f64>().powf(0.125);
        norm * (1.0 + OVER * self.weights.standing(&load).over)
    }

    /// Searches from a start. `tell` is called at the end of every stage.
    pub(crate) fn run(
        &self,
        (recipe, start): (Recipe, Vec<u32>),
        effort: Effort,
        rng: &mut Random,
        tell: &impl Fn(),
    ) -> Outcome {
        let mut state = Outcome {
            best: (self.standing(&start), start.clone()),
            place_of: start,
            effort,
            trials: 0,
        };
        match self.problem.objective {
            Objective::HopBytes | Objective::RouteCost(_) => {
                self.by_distance(recipe, &mut state, rng);
            }
            _ => self.by_load(recipe, &mut state, rng, tell),
        }
        tell();
        state
    }

    /// A run on bytes × distance.
    fn by_distance(&self, recipe: Recipe, state: &mut Outcome, rng: &mut Random) {
        let limited = self.problem.objective.has_limits();
        let whole = if limited { 0.8 } else { 1.0 };
        let stages: &[(bool, f64, f64)] = match recipe {
            Recipe::Whole | Recipe::Other if self.is_dense() => {
                self.dense_stage(state, whole, rng);
                &[]
            }
            Recipe::Other if let Some(timed) = &self.timed => {
                self.weighted_stage(state, timed, (false, OTHER, &single()), rng);
                &[(false, 0.02, 1.0 - OTHER)]
            }
            Recipe::Whole if let Some(levels) = &self.levels => {
                self.by_level(levels, state, whole, rng);
                &[]
            }
            Recipe::Whole if self.grouped() => &[(true, 0.1, 0.8), (false, 0.01, 0.2)],
            Recipe::Whole | Recipe::Other => &[(false, 0.1, 1.0)],
            Recipe::Single => &[(false, 0.02, 1.0)],
            Recipe::Linear => &[(false, 1.0, 1.0)],
        };
        for &(grouped, heat, share) in stages {
            self.linear_stage(state, grouped, (heat, whole * share), rng);
        }
        // Distances do not show the time of host links.
        if limited && self.standing(&state.place_of).over > 0.0 {
            let stage = Stage {
                stiffness: (30.0, 300.0),
                heat: 0.2,
                hot: 0,
                ..single()
            };
            self.load_stage(state, false, (1.0 - whole, &stage), rng);
        }
    }

    /// A run on link loads.
    fn by_load(&self, recipe: Recipe, state: &mut Outcome, rng: &mut Random, tell: &impl Fn()) {
        let grouped = self.grouped();
        match (recipe, &self.parts) {
            (Recipe::Single, _) => {
                self.load_stage(state, false, (1.0, &single()), rng);
                return;
            }
            (Recipe::Linear | Recipe::Other, _) => {
                let heat = if grouped { 0.1 } else { 0.3 };
                self.linear_stage(state, grouped, (heat, 0.3), rng);
                if grouped {
                    self.linear_stage(state, false, (0.01, 0.1), rng);
                }
                tell();
                self.load_stage(state, false, (0.6, &single()), rng);
                return;
            }
            (Recipe::Whole, Some(Parts::Routers(routers))) => {
                self.by_router(routers, state, rng, tell);
                return;
            }
            (Recipe::Whole, Some(Parts::Groups(groups))) => {
                self.by_group(groups, state, rng, tell);
                if !grouped {
                    return;
                }
            }
            (Recipe::Whole, None) if grouped => {
                self.linear_stage(state, true, (0.1, 0.2), rng);
                tell();
                let stage = Stage {
                    stiffness: (30.0, 30.0),
                    heat: 4.0,
                    step: 1.35,
                    ..single()
                };
                self.load_stage(state, true, (0.35, &stage), rng);
                tell();
            }
            (Recipe::Whole, None) => {
                self.load_stage(state, false, (1.0, &single()), rng);
                return;
            }
        }
        let stage = Stage {
            stiffness: (10.0, 100.0),
            heat: 0.5,
            hot: 90,
            ..single()
        };
        self.load_stage(state, false, (0.45, &stage), rng);
    }

    /// Searches the assignment to groups, then the placement inside each, and finally among all places.
    fn by_group(&self, groups: &Groups, state: &mut Outcome, rng: &mut Random, tell: &impl Fn()) {
        let grouped = self.grouped();
        let whole = if grouped { 0.55 } else { 1.0 };
        let Some(worst) = self.among_groups(groups, state, whole, rng) else {
            return;
        };
        tell();
        let home = Stage {
            home: true,
            hot: 10,
            aim: Some(Aim {
                time: INSIDE * worst,
                excess: (1.0 - AIM) * worst,
                heat: (2.0, 0.05),
                hop: 0.6,
            }),
            ..single()
        };
        self.load_stage(state, grouped, (whole * GROUPS.2, &home), rng);
        tell();
        let last = Stage {
            stiffness: (100.0, 400.0),
            step: 0.6,
            ..single()
        };
        self.load_stage(state, grouped, (whole * GROUPS.3, &last), rng);
    }

    /// Searches the assignment to groups; returns the time of the worst link between them. `None` if it was cut
    /// short.
    fn among_groups(
        &self,
        groups: &Groups,
        state: &mut Outcome,
        whole: f64,
        rng: &mut Random,
    ) -> Option<f64> {
        let level = self.level(&state.place_of, self.grouped());
        let (slots, order) = level.slots.gathered(&groups.of);
        let mut slot_at = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            slot_at[old as usize] = new as u32;
        }
        let start: Vec<u32> = level.start.iter().map(|&s| slot_at[s as usize]).collect();
        let (paths, weights, near) = (&groups.paths, &groups.weights, &groups.alone);
        let mut search = Search::new(paths, &level.graph, &slots, weights, near, &start);
        let (cold, cut) = search.run(
            &single(),
            state.effort.part(whole * GROUPS.0, true),
            (self.wide, rng),
        );
        state.effort.charge(search.trials, true);
        let hot = Stage {
            hot: 10,
            aim: Some(Aim {
                time: AIM * cold.worst,
                excess: (1.0 - AIM) * cold.worst,
                heat: (4.0, 0.0125),
                hop: 0.06,
            }),
            ..single()
        };
        let mut found = None;
        if !cut && !state.effort.is_over() {
            let budget = state.effort.part(whole * GROUPS.1, true);
            let before = search.trials;
            let (hot, cut) = search.run(&hot, budget, (self.wide, rng));
            state.effort.charge(search.trials - before, true);
            found = (!cut).then_some(hot.worst);
        }
        state.trials += search.trials;
        if found.is_some() {
            let end = search.into_slots();
            let end: Vec<u32> = end.iter().map(|&s| order[s as usize]).collect();
            Self::take(state, &level, &end);
            self.keep(state);
        }
        found
    }

    /// Searches the assignment to routers, then the placement on each, and finally among all places.
    fn by_router(
        &self,
        routers: &Routers,
        state: &mut Outcome,
        rng: &mut Random,
        tell: &impl Fn(),
    ) {
        if state.effort.is_over() {
            return;
        }
        let level = self.level(&state.place_of, false);
        let budget = state.effort.part(SHARING.0, true);
        let (graph, slots) = (&level.graph, &level.slots);
        let (end, trials, cut) = share(graph, slots, routers, &level.start, budget, rng);
        state.trials += trials;
        state.effort.charge(trials, true);
        if cut {
            return;
        }
        Self::take(state, &level, &end);
        self.keep(state);
        tell();
        for (home, share) in [(true, SHARING.1), (false, SHARING.2)] {
            let stage = Stage {
                stiffness: (100.0, 400.0),
                step: 0.6,
                home,
                ..single()
            };
            self.load_stage(state, false, (share, &stage), rng);
            tell();
        }
    }

    fn grouped(&self) -> bool {
        self.rooms.iter().any(|&r| r > 1)
    }
}
