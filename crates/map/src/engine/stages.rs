//! Stages of a run: a search among the units of one level, whose result is the next stage's start.

use super::{Engine, HEAVY, Level, Outcome, Parts};
use crate::arrangement::Slots;
use crate::dense;
use crate::linear::{Distances, anneal};
use crate::paths::Paths;
use crate::problem::Objective;
use crate::schedule::Length;
use crate::search::{Search, Stage, Weights};
use hopbyte_fabric::random::Random;

impl<P: Paths, D: Distances> Engine<'_, P, D> {
    /// The units of a level, at the places of their tasks.
    pub(crate) fn level(&self, place_of: &[u32], grouped: bool) -> Level {
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
    pub(crate) fn take(state: &mut Outcome, level: &Level, end: &[u32]) {
        for (task, place) in state.place_of.iter_mut().enumerate() {
            let unit = level.unit_of.get(task).map_or(task, |&u| u as usize);
            *place = level.slots.place[end[unit] as usize];
        }
    }

    pub(super) fn linear_stage(
        &self,
        state: &mut Outcome,
        grouped: bool,
        (heat, share): (f64, f64),
        rng: &mut Random,
    ) {
        if state.effort.is_over() {
            return;
        }
        let level = self.level(&state.place_of, grouped);
        let budget = state.effort.part(share, true);
        let (end, trials, cut) = anneal(
            &level.graph,
            &level.slots,
            &self.near,
            self.distances,
            &level.start,
            (heat, budget, self.wide),
            rng,
        );
        state.trials += trials;
        state.effort.charge(trials, true);
        // The best of a stage on another graph or cost may be worse now than a little later.
        let direct = match self.problem.objective {
            Objective::RouteCost(_) => !grouped,
            Objective::HopBytes => !self.grouped(),
            _ => false,
        };
        if !cut || direct {
            Self::take(state, &level, &end);
            self.keep(state);
        }
    }

    /// Whether single tasks are searched by [`dense`].
    pub(crate) fn is_dense(&self) -> bool {
        let slots = self.rooms.iter().map(|&r| r as usize).sum();
        dense::is_dense(self.graph, slots)
    }

    pub(super) fn dense_stage(&self, state: &mut Outcome, share: f64, rng: &mut Random) {
        if state.effort.is_over() {
            return;
        }
        let level = self.level(&state.place_of, false);
        let budget = state.effort.part(share, true);
        let (graph, slots) = (&level.graph, &level.slots);
        let (end, trials, _) =
            dense::search(graph, slots, self.distances, &level.start, budget, rng);
        state.trials += trials;
        state.effort.charge(trials, true);
        // The best arrangement of a search that was cut short is also seen by a longer one.
        Self::take(state, &level, &end);
        self.keep(state);
    }

    /// Searches on link loads.
    pub(super) fn load_stage(
        &self,
        state: &mut Outcome,
        grouped: bool,
        (share, stage): (f64, &Stage),
        rng: &mut Random,
    ) {
        let weights = match (&self.fixed, state.effort.planned) {
            (Some(fixed), Length::Trials(_)) => fixed,
            _ => &self.weights,
        };
        self.weighted_stage(state, weights, (grouped, share, stage), rng);
    }

    pub(super) fn weighted_stage(
        &self,
        state: &mut Outcome,
        weights: &Weights,
        (grouped, share, stage): (bool, f64, &Stage),
        rng: &mut Random,
    ) {
        if state.effort.is_over() {
            return;
        }
        let level = self.level(&state.place_of, grouped);
        let near = match &self.parts {
            Some(Parts::Routers(routers)) if stage.home => &routers.beside,
            Some(Parts::Groups(groups)) if stage.home => &groups.beside,
            _ => &self.near,
        };
        let (graph, slots) = (&level.graph, &level.slots);
        let mut search = Search::new(self.paths, graph, slots, weights, near, &level.start);
        let budget = state.effort.part(share, false);
        let (_, cut) = search.run(stage, budget, (self.wide, rng));
        state.trials += search.trials;
        state.effort.charge(search.trials, false);
        if !cut || !grouped {
            let end = search.into_slots();
            Self::take(state, &level, &end);
            self.keep(state);
        }
    }
}
/// The stage of single tasks.
pub(super) fn single() -> Stage {
    Stage {
        stiffness: (20.0, 100.0),
        heat: 1.0,
        hot: 50,
        step: 1.5,
        home: false,
        aim: None,
    }
}
