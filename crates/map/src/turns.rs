//! Traffic whose phases follow one another: the objective is the sum over phases of their worst links' times.
//!
//! The runs of [`crate::rounds`] work on the sum of all phases, whose worst link is never slower than that sum of times,
//! and keep the best placement by the latter. Each wave of runs begins with descents on the times themselves, from the
//! best placement of the runs and from the best of all. Their lengths depend on the wave alone, so that they are part of
//! a sequence that a budget of trials only cuts off.

use crate::bound::Bound;
use crate::problem::{MapError, Problem};
use crate::schedule::Stop;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Exchange, Placement};

/// Share of a search for descents. Guessed.
pub(crate) const DESCENT: f64 = 0.4;

/// Trials without an improvement after which a descent ends: by task, and at least. Guessed.
const STUCK: (u64, u64) = (200, 50_000);

/// Share by which a step may raise the time at first. Guessed.
const HOT: f64 = 0.02;

/// Trials, and messages of the first placement, between two looks at the clock.
const STRIDE: u64 = 64;
const MESSAGES: usize = 1024;

/// Number of places up to which routes are kept once they were computed.
const FEW: usize = 512;

/// Number of phases up to which each has a bound of its own.
const FEW_TURNS: usize = 32;

/// First random stream of the descents.
const STREAM: u64 = 1 << 33;

/// Adds the sum of the phases' own bounds, given the bound of a problem.
pub(crate) fn raise(whole: &mut Bound, problem: &Problem<'_>, of: impl Fn(&Problem<'_>) -> Bound) {
    if problem.turns.is_empty() {
        return;
    }
    let mut sum = 0.0;
    if problem.turns.len() <= FEW_TURNS {
        let alone = problem.turns.iter().map(|turn| problem.alone(turn));
        sum = alone.map(|p| of(&p).worst_link_seconds).sum();
    }
    // All phases at once are never slower than one after the other.
    whole.turns_seconds = Some(whole.worst_link_seconds.max(sum));
}

/// Descents on one problem.
pub(crate) struct Descents<'a> {
    problem: &'a Problem<'a>,
    /// The messages of every phase by receiver.
    back: Vec<Exchange>,
}

impl<'a> Descents<'a> {
    /// `None` if phases do not follow one another.
    pub(crate) fn of(problem: &'a Problem<'a>) -> Option<Self> {
        let back = |out: &Exchange| {
            let turned = out
                .iter()
                .map(|(from, m)| (m.to, from, m.bytes, m.messages));
            Exchange::new(out.tasks(), turned).unwrap_or_default()
        };
        problem.in_turn().then(|| Self {
            problem,
            back: problem
                .turns
                .iter()
                .map(|turn| back(turn.messages()))
                .collect(),
        })
    }

    /// The best placement by place of one descent of `planned` trials, of which `most` are left, and their number. One
    /// that is cut short is the beginning of the same with more.
    pub(crate) fn run(
        &self,
        start: &Placement,
        (planned, most): (u64, u64),
        (seed, number): (u64, u64),
        stop: Stop,
    ) -> Result<(Vec<u32>, u64), MapError> {
        let mut descent = Descent::new(self, start);
        if !descent.load(stop)? {
            return Ok((descent.place_of, 0));
        }
        let mut random = Random::stream(seed, STREAM + number);
        descent.run((planned, most), &mut random, stop)
    }
}

/// Loads of one phase.
struct Part<'a> {
    out: &'a Exchange,
    /// The same messages by receiver.
    back: &'a Exchange,
    bytes: Vec<f64>,
    worst: f64,
}

/// Links of a route with their shares.
type Links = Box<[(u32, f64)]>;

/// Routes between places.
struct Routes<'a> {
    problem: &'a Problem<'a>,
    kept: Vec<Option<Links>>,
    scratch: Vec<(hopbyte_fabric::LinkId, f64)>,
}

impl Routes<'_> {
    /// Calls `f(link, share)` for every link of a route.
    fn each(&mut self, a: u32, b: u32, mut f: impl FnMut(u32, f64)) -> Result<(), MapError> {
        if a == b {
            return Ok(());
        }
        let places = self.problem.allocation.nodes().len();
        let at = a as usize * places + b as usize;
        if let Some(Some(links)) = self.kept.get(at) {
            links.iter().for_each(|&(link, share)| f(link, share));
            return Ok(());
        }
        let (problem, scratch) = (self.problem, &mut self.scratch);
        scratch.clear();
        let (from, to) = (problem.node_at(a), problem.node_at(b));
        let routed = problem.routing.shares(problem.fabric, from, to, scratch);
        routed.map_err(|dead| MapError::unroutable(problem.fabric, vec![dead]))?;
        scratch.iter().for_each(|s| f(s.0.index() as u32, s.1));
        if let Some(kept) = self.kept.get_mut(at) {
            *kept = Some(scratch.iter().map(|s| (s.0.index() as u32, s.1)).collect());
        }
        Ok(())
    }
}

/// Random swaps and moves of tasks, of which those that raise the time by more than a falling limit are undone.
struct Descent<'a> {
    routes: Routes<'a>,
    parts: Vec<Part<'a>>,
    /// Seconds of a byte on every link.
    per_byte: Vec<f64>,
    place_of: Vec<u32>,
    /// Tasks on every place, and free slots.
    on: Vec<Vec<u32>>,
    free: Vec<u32>,
    /// Changes of the present trial: part, link, bytes.
    changed: Vec<(u32, u32, f64)>,
}

impl<'a> Descent<'a> {
    fn new(all: &'a Descents<'a>, start: &Placement) -> Self {
        let problem = all.problem;
        let places = problem.allocation.nodes().len();
        let place = problem.places();
        let place_of: Vec<u32> = start
            .slots()
            .iter()
            .map(|s| place[s.node.index()])
            .collect();
        let slots = problem.allocation.nodes().iter().map(|n| n.1);
        let (mut on, mut free) = (vec![Vec::new(); places], slots.collect::<Vec<u32>>());
        for (task, &at) in (0..).zip(&place_of) {
            on[at as usize].push(task);
            free[at as usize] -= 1;
        }
        let links = problem.fabric.links().len();
        let per_byte = problem
            .fabric
            .link_ids()
            .map(|l| 1.0 / problem.live_capacity(l));
        let both = problem.turns.iter().zip(&all.back);
        let parts = both.map(|(turn, back)| Part {
            out: turn.messages(),
            back,
            bytes: vec![0.0; links],
            worst: 0.0,
        });
        Self {
            routes: Routes {
                problem,
                kept: vec![None; if places <= FEW { places * places } else { 0 }],
                scratch: Vec::new(),
            },
            parts: parts.collect(),
            per_byte: per_byte.collect(),
            place_of,
            on,
            free,
            changed: Vec::new(),
        }
    }

    /// Counts the loads of the present placement; false if it was stopped.
    fn load(&mut self, stop: Stop) -> Result<bool, MapError> {
        for part in &mut self.parts {
            for (number, (from, message)) in part.out.iter().enumerate() {
                if number.is_multiple_of(MESSAGES) && stop.is_set() {
                    return Ok(false);
                }
                let (a, b) = (
                    self.place_of[from as usize],
                    self.place_of[message.to as usize],
                );
                let add =
                    |link: u32, share: f64| part.bytes[link as usize] += message.bytes * share;
                self.routes.each(a, b, add)?;
            }
            part.worst = worst(&part.bytes, &self.per_byte);
        }
        Ok(true)
    }

    fn seconds(&self) -> f64 {
        self.parts.iter().map(|p| p.worst).sum()
    }

    /// The best placement, and the number of trials.
    fn run(
        &mut self,
        (planned, most): (u64, u64),
        random: &mut Random,
        stop: Stop,
    ) -> Result<(Vec<u32>, u64), MapError> {
        let tasks = self.place_of.len() as u64;
        let patience = (STUCK.0 * tasks).max(STUCK.1).min(planned);
        let most = most.min(planned);
        let (mut best, mut least) = (self.place_of.clone(), self.seconds());
        let (mut now, mut since, mut trials) = (least, 0, 0);
        while trials < most && since < patience {
            if trials.is_multiple_of(STRIDE) && stop.is_set() {
                break;
            }
            trials += 1;
            since += 1;
            let Some(step) = self.step(random) else {
                continue;
            };
            let cooled = (1.0 - since as f64 / patience as f64).powi(4);
            let before: Vec<f64> = self.parts.iter().map(|p| p.worst).collect();
            self.apply(step)?;
            let after = self.seconds();
            if after > now * (1.0 + HOT * cooled * random.unit()) {
                self.undo(step, &before);
                continue;
            }
            now = after;
            if now < least * (1.0 - 1e-9) {
                (least, since) = (now, 0);
                best.clone_from(&self.place_of);
            }
        }
        Ok((best, trials))
    }

    /// A task and its new place, with the task that takes its old one, if any.
    fn step(&self, random: &mut Random) -> Option<Step> {
        let task = random.below(self.place_of.len()) as u32;
        let part = &self.parts[random.below(self.parts.len())];
        let sends = part.out.sends(task);
        // Half of the steps go to the place of a partner.
        let to = match sends.len() {
            n if n > 0 && random.below(2) == 0 => self.place_of[sends[random.below(n)].to as usize],
            _ => random.below(self.on.len()) as u32,
        };
        let from = self.place_of[task as usize];
        if to == from {
            return None;
        }
        let there = &self.on[to as usize];
        let other = match self.free[to as usize] {
            0 => Some(*there.get(random.below(there.len()))?),
            _ => None,
        };
        Some(Step {
            task,
            from,
            to,
            other,
        })
    }

    fn apply(&mut self, step: Step) -> Result<(), MapError> {
        self.changed.clear();
        self.account(step, -1.0)?;
        self.place(step);
        self.account(step, 1.0)?;
        for (number, part) in (0u32..).zip(&mut self.parts) {
            let mine = || self.changed.iter().filter(|c| c.0 == number);
            let (mut highest, mut touched) = (0.0f64, false);
            for &(_, link, bytes) in mine() {
                let at = link as usize;
                touched |= part.bytes[at] * self.per_byte[at] >= part.worst;
                part.bytes[at] += bytes;
            }
            for &(_, link, _) in mine() {
                highest = highest.max(part.bytes[link as usize] * self.per_byte[link as usize]);
            }
            part.worst = match touched && highest < part.worst {
                true => worst(&part.bytes, &self.per_byte),
                false => part.worst.max(highest),
            };
        }
        Ok(())
    }

    /// Notes the bytes of a step's tasks with a sign.
    fn account(&mut self, step: Step, sign: f64) -> Result<(), MapError> {
        for (number, part) in (0u32..).zip(&self.parts) {
            for task in std::iter::once(step.task).chain(step.other) {
                let place = &self.place_of;
                let here = place[task as usize];
                // Messages between the two are those of the first.
                let others = |to: u32| task == step.task || to != step.task;
                for (messages, out) in [(part.out, true), (part.back, false)] {
                    for m in messages.sends(task).iter().filter(|m| others(m.to)) {
                        let there = place[m.to as usize];
                        let (a, b) = if out { (here, there) } else { (there, here) };
                        let note = |link, share| {
                            self.changed.push((number, link, sign * m.bytes * share));
                        };
                        self.routes.each(a, b, note)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Changes the places of a step's tasks.
    fn place(&mut self, step: Step) {
        self.transfer(step.task, step.from, step.to);
        match step.other {
            Some(other) => self.transfer(other, step.to, step.from),
            None => {
                self.free[step.to as usize] -= 1;
                self.free[step.from as usize] += 1;
            }
        }
    }

    fn transfer(&mut self, task: u32, from: u32, to: u32) {
        self.on[from as usize].retain(|&t| t != task);
        self.on[to as usize].push(task);
        self.place_of[task as usize] = to;
    }

    fn undo(&mut self, step: Step, before: &[f64]) {
        self.place(Step {
            from: step.to,
            to: step.from,
            ..step
        });
        for &(number, link, bytes) in &self.changed {
            self.parts[number as usize].bytes[link as usize] -= bytes;
        }
        for (part, &was) in self.parts.iter_mut().zip(before) {
            part.worst = was;
        }
    }
}

#[derive(Clone, Copy)]
struct Step {
    task: u32,
    from: u32,
    to: u32,
    other: Option<u32>,
}

/// Time of the worst link.
fn worst(bytes: &[f64], per_byte: &[f64]) -> f64 {
    let loaded = bytes.iter().zip(per_byte).filter(|(b, _)| **b > 0.0);
    loaded.map(|(b, s)| b * s).fold(0.0, f64::max)
}
