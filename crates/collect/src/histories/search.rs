//! Depth-first search over the histories, on all threads; a state is visited once.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

/// A system and the events that change it.
pub trait State: Clone + Send + Sync {
    /// One step of a history.
    type Event: Copy + Debug + Send + Sync;

    /// Hash of the state: equal for states with the same future, whose orders differ only where no later step or
    /// promise depends on them.
    fn fingerprint(&self) -> u64;

    /// The events that are possible now, without those that are equal to another one.
    fn events(&self) -> Vec<Self::Event>;

    /// Takes a step of a history; the error is the promise that it breaks.
    fn step(&mut self, event: Self::Event) -> Result<(), String>;

    /// Lets the system run without faults: readings so far are stored in time.
    fn settle(self) -> Result<(), String>;
}

/// Visits all states. Returns their number and that of the steps between them, or a history that breaks a promise.
///
/// One state of `settle_every` is run on without faults.
pub fn explore<S: State>(start: &S, settle_every: u64) -> Result<(u64, u64), String> {
    let search = Search {
        seen: (0..SHARDS).map(|_| Mutex::default()).collect(),
        steps: AtomicU64::new(0),
        found: AtomicBool::new(false),
        settle_every,
    };
    // States near the start, each of which a thread explores; the others' states are shared.
    let mut roots = Vec::from([(start.clone(), Vec::new())]);
    search.is_new(start.fingerprint());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    while roots.len() < ROOTS * threads && !roots.is_empty() {
        let mut next = Vec::new();
        for (world, mut path) in roots {
            search.visit(&world, &path)?;
            search.each(&world, &mut path, |world, path| {
                next.push((world, path.clone()));
                Ok(())
            })?;
        }
        roots = next;
    }
    let taken = AtomicUsize::new(0);
    let explored: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let work = || {
            while let Some((world, path)) = roots.get(taken.fetch_add(1, Relaxed)) {
                search.descend(world, &mut path.clone())?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                let thread = Builder::new().stack_size(STACK);
                thread.spawn_scoped(scope, work)
            })
            .collect();
        let ended = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join(),
            Err(error) => Ok(Err(error.to_string())),
        });
        ended
            .map(|end| end.unwrap_or_else(|_| Err("a step panicked".into())))
            .collect()
    });
    explored.into_iter().collect::<Result<(), String>>()?;
    let states = search.seen.iter().map(|shard| {
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        shard.len() as u64
    });
    Ok((states.sum(), search.steps.into_inner()))
}

/// Parts of the set of states, so that threads seldom wait for each other.
const SHARDS: usize = 64;
/// Stack of a thread: a step calls the next one.
const STACK: usize = 64 << 20;
/// States per thread from which the threads begin.
const ROOTS: usize = 64;

struct Search {
    seen: Vec<Mutex<HashSet<u64>>>,
    steps: AtomicU64,
    found: AtomicBool,
    settle_every: u64,
}

impl Search {
    fn is_new(&self, state: u64) -> bool {
        let shard = &self.seen[state as usize % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        shard.insert(state)
    }

    /// Runs a state on without faults, if it is drawn.
    fn visit<S: State>(&self, world: &S, path: &[S::Event]) -> Result<(), String> {
        if (world.fingerprint() / SHARDS as u64).is_multiple_of(self.settle_every) {
            let settles = world.clone().settle();
            settles.map_err(|why| self.fails(&why, path, ", if nothing fails any more"))?;
        }
        Ok(())
    }

    /// Passes the new states behind a state.
    fn each<S: State>(
        &self,
        world: &S,
        path: &mut Vec<S::Event>,
        mut pass: impl FnMut(S, &mut Vec<S::Event>) -> Result<(), String>,
    ) -> Result<(), String> {
        for event in world.events() {
            if self.found.load(Relaxed) {
                return Ok(());
            }
            let mut next = world.clone();
            path.push(event);
            self.steps.fetch_add(1, Relaxed);
            next.step(event).map_err(|why| self.fails(&why, path, ""))?;
            if self.is_new(next.fingerprint()) {
                pass(next, path)?;
            }
            path.pop();
        }
        Ok(())
    }

    fn descend<S: State>(&self, world: &S, path: &mut Vec<S::Event>) -> Result<(), String> {
        self.visit(world, path)?;
        self.each(world, path, |next, path| self.descend(&next, path))
    }

    /// The history that breaks a promise; the other threads end.
    fn fails(&self, why: &str, path: &[impl Debug], then: &str) -> String {
        self.found.store(true, Relaxed);
        format!("{why}; after {path:?}{then}")
    }
}
