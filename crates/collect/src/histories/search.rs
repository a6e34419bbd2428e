//! Depth-first search over the histories; a state is visited once.

use std::collections::HashSet;
use std::fmt::Debug;

/// A system and the events that change it.
pub trait State: Clone {
    /// One step of a history.
    type Event: Copy + Debug;

    /// Hash of the state.
    fn fingerprint(&self) -> u64;

    /// The events that are possible now.
    fn events(&self) -> Vec<Self::Event>;

    /// Takes a step of a history; the error is the promise that it breaks.
    fn step(&mut self, event: Self::Event) -> Result<(), String>;

    /// Lets the system run without faults: readings so far are stored in time.
    fn settle(self) -> Result<(), String>;
}

/// Visits all states. Returns their number and that of the steps between them, or the history
/// that breaks a promise.
///
/// One state of `settle_every` is run on without faults.
pub fn explore<S: State>(start: &S, settle_every: u64) -> Result<(u64, u64), String> {
    let mut search = Search {
        seen: HashSet::new(),
        path: Vec::new(),
        steps: 0,
        settle_every,
    };
    search.visit(start)?;
    Ok((search.seen.len() as u64, search.steps))
}

struct Search<S: State> {
    seen: HashSet<u64>,
    path: Vec<S::Event>,
    steps: u64,
    settle_every: u64,
}

impl<S: State> Search<S> {
    fn visit(&mut self, world: &S) -> Result<(), String> {
        let state = world.fingerprint();
        if !self.seen.insert(state) {
            return Ok(());
        }
        if state.is_multiple_of(self.settle_every) {
            let settles = world.clone().settle();
            settles.map_err(|why| {
                format!("{why}; after {:?}, if nothing fails any more", self.path)
            })?;
        }
        for event in world.events() {
            let mut next = world.clone();
            self.path.push(event);
            self.steps += 1;
            next.step(event)
                .map_err(|why| format!("{why}; after {:?}", self.path))?;
            self.visit(&next)?;
            self.path.pop();
        }
        Ok(())
    }
}
