//! Messages of an application: bytes and counts between tasks, by phase.

use crate::bounds::{MAX_BYTES, MAX_MESSAGES, MAX_PAIRS, MAX_TASKS};
use crate::error::FabricError;

/// Data sent from one task to another in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Message {
    /// Receiving task.
    pub to: u32,
    /// Payload bytes.
    pub bytes: f64,
    /// Number of messages (0 if unknown).
    pub messages: u64,
}

/// Directed sparse traffic of one phase, rows sorted by receiver, without messages to the sender itself.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Exchange {
    offsets: Vec<usize>,
    messages: Vec<Message>,
}

impl Exchange {
    /// Of tasks without messages.
    pub fn empty(tasks: usize) -> Self {
        Self {
            offsets: vec![0; tasks + 1],
            messages: Vec::new(),
        }
    }

    /// From (sender, receiver, bytes, messages) in any order; entries of one pair are summed, and entries from a task
    /// to itself are dropped, because they cross no link. Refused: more tasks than a traffic may have, tasks beyond `tasks`, and bytes and messages
    /// outside their [bounds](crate::bounds).
    pub fn new(
        tasks: usize,
        entries: impl IntoIterator<Item = (u32, u32, f64, u64)>,
    ) -> Result<Self, FabricError> {
        if tasks > MAX_TASKS {
            return Err(FabricError::OutOfRange {
                what: "tasks".into(),
                found: tasks.to_string(),
                expected: format!("at most {MAX_TASKS}"),
            });
        }
        let mut list: Vec<Entry> = Vec::new();
        for (from, to, bytes, messages) in entries {
            Self::check(tasks, &(from, to, bytes, messages))?;
            if from != to && (bytes > 0.0 || messages > 0) {
                list.push((from, to, bytes, messages));
            }
        }
        if !list.is_sorted_by_key(|&(from, to, ..)| (from, to)) {
            list = by_pair(tasks, &list);
        }
        let mut offsets = vec![0; tasks + 1];
        let mut messages: Vec<Message> = Vec::with_capacity(list.len());
        let mut last = None;
        for (from, to, bytes, count) in list {
            match messages.last_mut() {
                Some(previous) if last == Some((from, to)) => {
                    previous.bytes += bytes;
                    previous.messages = previous.messages.saturating_add(count);
                }
                _ => {
                    messages.push(Message {
                        to,
                        bytes,
                        messages: count,
                    });
                    offsets[from as usize + 1] += 1;
                }
            }
            last = Some((from, to));
        }
        for task in 0..tasks {
            offsets[task + 1] += offsets[task];
        }
        messages.shrink_to_fit();
        Ok(Self { offsets, messages })
    }

    /// Refuses an entry outside its bounds.
    pub(crate) fn check(
        tasks: usize,
        &(from, to, bytes, messages): &(u32, u32, f64, u64),
    ) -> Result<(), FabricError> {
        let wrong = |what: &str, found: String, expected: String| FabricError::OutOfRange {
            what: format!("{what} from task {from} to task {to}"),
            found,
            expected,
        };
        if from.max(to) as usize >= tasks {
            return Err(wrong(
                "traffic",
                from.max(to).to_string(),
                format!("tasks 0 to {}", tasks.saturating_sub(1)),
            ));
        }
        if messages > MAX_MESSAGES {
            let expected = format!("at most {MAX_MESSAGES}");
            return Err(wrong("messages", messages.to_string(), expected));
        }
        if !(0.0..=MAX_BYTES).contains(&bytes) {
            return Err(wrong(
                "bytes",
                bytes.to_string(),
                format!("a number from 0 to {MAX_BYTES:e}"),
            ));
        }
        Ok(())
    }

    /// Number of tasks.
    pub fn tasks(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The messages from `task`.
    #[inline]
    pub fn sends(&self, task: u32) -> &[Message] {
        &self.messages[self.offsets[task as usize]..self.offsets[task as usize + 1]]
    }

    /// All entries as (sender, message).
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Message)> + '_ {
        (0..self.tasks() as u32)
            .flat_map(move |task| self.sends(task).iter().map(move |m| (task, m)))
    }

    /// Number of pairs that communicate.
    pub fn pairs(&self) -> usize {
        self.messages.len()
    }

    /// Sum of bytes.
    pub fn total_bytes(&self) -> f64 {
        // The sum of an empty f64 iterator is -0.
        self.messages.iter().map(|m| m.bytes).sum::<f64>() + 0.0
    }
}

/// Bytes and messages between two tasks.
type Entry = (u32, u32, f64, u64);

/// The entries by sender and receiver, those of a pair in their order. Senders are counted: comparing them takes several
/// times as long.
fn by_pair(tasks: usize, entries: &[Entry]) -> Vec<Entry> {
    let mut ends = vec![0; tasks + 1];
    for &(from, ..) in entries {
        ends[from as usize + 1] += 1;
    }
    for task in 0..tasks {
        ends[task + 1] += ends[task];
    }
    let mut sorted = vec![(0, 0, 0.0, 0); entries.len()];
    // The beginning of every row becomes its end.
    for &entry in entries {
        let at = &mut ends[entry.0 as usize];
        sorted[*at] = entry;
        *at += 1;
    }
    let mut begin = 0;
    for &end in &ends[..tasks] {
        sorted[begin..end].sort_by_key(|entry| entry.1);
        begin = end;
    }
    sorted
}

/// A named part of the run (a code region, a time step, an exchange).
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Name from the recorder or file.
    pub name: String,
    /// The messages.
    pub exchange: Exchange,
}

/// All messages of an application, by phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Source of the traffic.
    pub source: String,
    /// Number of tasks (MPI ranks).
    pub tasks: usize,
    /// Phases, in order; at least one.
    pub phases: Vec<Phase>,
    /// Whether each phase ends before the next one begins, so that their times add up. Otherwise they are kinds of
    /// messages that may share the network.
    pub in_turn: bool,
    /// Assumptions and omissions, one sentence each.
    pub notes: Vec<String>,
}

impl Traffic {
    /// Traffic of a single phase.
    pub fn single(source: impl Into<String>, exchange: Exchange) -> Self {
        let phase = Phase {
            name: "all".into(),
            exchange,
        };
        Self {
            source: source.into(),
            tasks: phase.exchange.tasks(),
            phases: vec![phase],
            in_turn: false,
            notes: Vec::new(),
        }
    }

    /// Traffic of several phases; an empty phase is added if there is none.
    pub fn phased(source: impl Into<String>, tasks: usize, phases: Vec<Phase>) -> Self {
        let source = source.into();
        if phases.is_empty() {
            return Self::single(source, Exchange::empty(tasks));
        }
        Self {
            source,
            tasks,
            phases,
            in_turn: false,
            notes: Vec::new(),
        }
    }

    /// The sum of all phases.
    pub fn total(&self) -> Exchange {
        if let [one] = &self.phases[..] {
            return one.exchange.clone();
        }
        let entries = self.phases.iter().flat_map(|p| {
            p.exchange
                .iter()
                .map(|(from, m)| (from, m.to, m.bytes, m.messages))
        });
        // Entries come from checked exchanges, so they are in range.
        Exchange::new(self.tasks, entries).unwrap_or_default()
    }
}

/// A grid of tasks that exchange halos with their neighbours; last dimension fastest, the rank order of
/// `MPI_Cart_create`.
#[derive(Clone, Debug, PartialEq)]
pub struct Stencil {
    /// Tasks along each dimension.
    pub dims: Vec<u32>,
    /// Bytes to neighbours that differ in one, two, three, … dimensions; 0 means no message.
    pub bytes: Vec<f64>,
    /// Whether the grid wraps around.
    pub periodic: bool,
}

impl Stencil {
    /// Largest number of tasks in a stencil.
    pub const MAX_TASKS: usize = crate::bounds::MAX_TASKS;

    /// The traffic of one exchange.
    pub fn traffic(&self, source: impl Into<String>) -> Result<Traffic, FabricError> {
        let tasks = self
            .dims
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d as usize));
        let Some(tasks) = tasks.filter(|t| (1..=Self::MAX_TASKS).contains(t)) else {
            return Err(FabricError::OutOfRange {
                what: "stencil".into(),
                found: format!("{:?} tasks", self.dims),
                expected: format!("1 to {} tasks", Self::MAX_TASKS),
            });
        };
        let offsets = self.offsets();
        let pairs = (tasks as u64).saturating_mul(offsets.len() as u64);
        if pairs > MAX_PAIRS {
            return Err(FabricError::OutOfRange {
                what: "stencil".into(),
                found: format!("{tasks} tasks with up to {} neighbours", offsets.len()),
                expected: format!("at most {MAX_PAIRS} pairs"),
            });
        }
        let entries = (0..tasks as u32).flat_map(|task| {
            let mut coord = vec![0u32; self.dims.len()];
            let mut rest = task;
            for (c, &d) in coord.iter_mut().zip(&self.dims).rev() {
                *c = rest % d;
                rest /= d;
            }
            offsets
                .iter()
                .filter_map(|(step, bytes)| Some((task, self.neighbour(&coord, step)?, *bytes, 1)))
                .collect::<Vec<_>>()
        });
        Ok(Traffic::single(source, Exchange::new(tasks, entries)?))
    }

    /// All steps to a neighbour with their bytes.
    fn offsets(&self) -> Vec<(Vec<i64>, f64)> {
        let mut steps: Vec<Vec<i64>> = vec![Vec::new()];
        for _ in &self.dims {
            steps = steps
                .into_iter()
                .flat_map(|s| [-1, 0, 1].map(|d| [s.clone(), vec![d]].concat()))
                .collect();
        }
        steps
            .into_iter()
            .filter_map(|step| {
                let order = step.iter().filter(|&&d| d != 0).count();
                let bytes = *self.bytes.get(order.checked_sub(1)?)?;
                (bytes > 0.0).then_some((step, bytes))
            })
            .collect()
    }

    fn neighbour(&self, coord: &[u32], step: &[i64]) -> Option<u32> {
        let mut id = 0u64;
        for ((&c, &s), &d) in coord.iter().zip(step).zip(&self.dims) {
            let moved = i64::from(c) + s;
            let inside = if self.periodic {
                moved.rem_euclid(i64::from(d))
            } else if (0..i64::from(d)).contains(&moved) {
                moved
            } else {
                return None;
            };
            id = id * u64::from(d) + inside as u64;
        }
        Some(id as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_tasks_than_a_traffic_has_are_refused_before_memory_is_taken() {
        let text = Exchange::new(usize::MAX - 1, []).unwrap_err().to_string();
        assert!(text.contains("at most 16777216"), "{text}");
    }

    #[test]
    fn exchange_adds_up_pairs_and_drops_self() {
        let e = Exchange::new(
            3,
            [
                (1, 0, 5.0, 1),
                (0, 2, 1.0, 1),
                (1, 0, 2.0, 3),
                (2, 2, 9.0, 1),
            ],
        )
        .unwrap();
        assert_eq!(
            e.sends(0),
            [Message {
                to: 2,
                bytes: 1.0,
                messages: 1
            }]
        );
        assert_eq!(
            e.sends(1),
            [Message {
                to: 0,
                bytes: 7.0,
                messages: 4
            }]
        );
        assert_eq!(e.sends(2), []);
        assert!(Exchange::new(2, [(0, 2, 1.0, 1)]).is_err());
        assert!(Exchange::new(2, [(0, 1, f64::NAN, 1)]).is_err());
        assert!(Exchange::new(2, [(0, 1, -1.0, 1)]).is_err());
    }

    #[test]
    fn stencils_have_the_neighbours_of_their_order() {
        let s = Stencil {
            dims: vec![4, 4, 4],
            bytes: vec![80_000.0, 800.0, 8.0],
            periodic: false,
        };
        let t = s.traffic("test").unwrap().total();
        // A corner task has 3 face, 3 edge and 1 corner neighbours, an inner one 6, 12 and 8.
        assert_eq!(t.sends(0).len(), 7);
        assert_eq!(t.sends(1 + 4 + 16).len(), 26);
        // Faces of an open 4x4x4 grid: 3 dimensions x 3 gaps x 16 pairs x 2 directions.
        let faces = t.iter().filter(|(_, m)| m.bytes == 80_000.0).count();
        assert_eq!(faces, 3 * 3 * 16 * 2);
        let torus = Stencil {
            dims: vec![4, 4, 4],
            bytes: vec![1.0],
            periodic: true,
        };
        assert_eq!(torus.traffic("test").unwrap().total().pairs(), 64 * 6);
        // Both neighbours along a ring of two are the same task: one pair, twice the bytes.
        let two = Stencil {
            dims: vec![2],
            bytes: vec![1.0],
            periodic: true,
        };
        assert_eq!(two.traffic("test").unwrap().total().sends(0)[0].bytes, 2.0);
    }
}
