//! Flows over time: transfers begin, share rates by [`Sharing`], and end.

use super::sharing::{FlowId, PathId, Sharing};
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

/// A transfer that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// The caller's number for it.
    pub tag: u32,
    /// Time of its end.
    pub seconds: f64,
    /// Its last bottleneck; `None` if it ran at its own limit.
    pub bottleneck: Option<u32>,
}

/// Simultaneous transfers with equal paths and limits are one flow of several members: they have
/// equal rates, and end in the order of their remaining bytes.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// Bytes that each member had received at `since`.
    received: f64,
    since: f64,
    rate: f64,
    limit: f64,
    /// Received bytes at which the next member ends, and that member.
    target: f64,
    tag: u32,
    members: u32,
    /// Time at which the last member began.
    begun: f64,
    /// Expected end of the next member; older entries in the queue are void.
    end: f64,
}

/// An expected end in the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
struct End {
    seconds: f64,
    flow: u32,
}

impl Eq for End {}

impl Ord for End {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = self.seconds.total_cmp(&other.seconds);
        by_time.then(self.flow.cmp(&other.flow))
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Runs transfers over shared resources.
#[derive(Clone, Debug)]
pub struct Clock {
    sharing: Sharing,
    now: f64,
    /// Transfers that would end within this share of the first one's duration end together. (Of the elapsed time it would
    /// delay every step of a long program by more than the step takes.)
    tolerance: f64,
    flows: Vec<Running>,
    /// Running flow by path.
    on_path: Vec<u32>,
    /// Members after the first, of flows that have several: (target, tag).
    waiting: HashMap<u32, BinaryHeap<Reverse<(u64, u32)>>>,
    /// Many ends at once, sorted, and the later ones.
    sorted: Vec<End>,
    passed: usize,
    queue: BinaryHeap<Reverse<End>>,
    ended: u64,
    dirty: bool,
}

/// No flow.
const NONE: u32 = u32::MAX;
/// Ends closer than this share of the time are simultaneous.
const SAME_TIME: f64 = 1e-12;
/// From this number of new ends on, sorting is faster than queueing.
const SORT_FROM: usize = 4096;

impl Clock {
    /// A clock at 0 over resources; `tolerance` 0 is exact.
    pub fn new(sharing: Sharing, tolerance: f64) -> Self {
        Self {
            sharing,
            now: 0.0,
            tolerance: tolerance.max(SAME_TIME),
            flows: Vec::new(),
            on_path: Vec::new(),
            waiting: HashMap::new(),
            sorted: Vec::new(),
            passed: 0,
            queue: BinaryHeap::new(),
            ended: 0,
            dirty: false,
        }
    }

    /// Current time.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Rates and resources.
    pub fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// Adds a path.
    pub fn add_path(&mut self, uses: &[super::Use]) -> PathId {
        self.sharing.add_path(uses)
    }

    /// Bytes that the running transfers of a path have received, each since it began.
    pub fn received(&self, path: PathId) -> f64 {
        let flow = self.on_path.get(path.0 as usize);
        let running = flow.and_then(|&flow| self.flows.get(flow as usize));
        running.map_or(0.0, |r| r.received + r.rate * (self.now - r.since))
    }

    /// Reserves memory for transfers on paths with `uses` uses in all.
    pub fn reserve(&mut self, transfers: usize, uses: usize) {
        self.sharing.reserve(transfers, uses);
        self.flows.reserve(transfers);
        self.on_path.reserve(transfers);
    }

    /// Transfers that ended so far.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Begins a transfer of `bytes` now, no faster than `limit`.
    pub fn begin(&mut self, path: PathId, bytes: f64, limit: f64, tag: u32) {
        self.dirty = true;
        let at = path.0 as usize;
        if self.on_path.len() <= at {
            self.on_path.resize(at + 1, NONE);
        }
        if let Some(running) = self.flows.get_mut(self.on_path[at] as usize)
            && running.limit == limit
        {
            let flow = self.on_path[at];
            running.received += running.rate * (self.now - running.since);
            running.since = self.now;
            let target = running.received + bytes;
            let (mut later, mut last) = (target, tag);
            if target < running.target {
                std::mem::swap(&mut later, &mut running.target);
                std::mem::swap(&mut last, &mut running.tag);
            }
            running.members += 1;
            running.begun = self.now;
            let members = f64::from(running.members);
            let waiting = self.waiting.entry(flow).or_default();
            waiting.push(Reverse((later.to_bits(), last)));
            self.sharing.set_count(FlowId(flow), members);
            self.expect(flow);
            return;
        }
        let flow = self.sharing.start(path, 1.0, limit);
        self.on_path[at] = flow.0;
        self.flows.push(Running {
            received: 0.0,
            since: self.now,
            rate: 0.0,
            limit,
            target: bytes,
            tag,
            members: 1,
            begun: self.now,
            end: f64::INFINITY,
        });
    }

    /// Current bottleneck of a path's transfers, if any run.
    pub fn bottleneck(&self, path: PathId) -> Option<u32> {
        let flow = *self.on_path.get(path.0 as usize)?;
        (flow != NONE).then(|| self.sharing.bottleneck(FlowId(flow)))?
    }

    /// Time of the next end, if any transfer runs.
    pub fn next_end(&mut self) -> Option<f64> {
        self.settle();
        self.first().map(|end| end.seconds)
    }

    /// Moves forward to `seconds`, before which no transfer ends.
    pub fn advance_to(&mut self, seconds: f64) {
        if seconds > self.now {
            self.settle();
            self.now = seconds;
        }
    }

    /// Moves to the next end and reports every transfer that ends then.
    pub fn end_next(&mut self, done: &mut Vec<Done>) {
        self.settle();
        let Some(first) = self.first() else {
            return;
        };
        let lasted = first.seconds - self.flows[first.flow as usize].begun;
        let until = first.seconds + (self.tolerance * lasted).max(SAME_TIME * first.seconds);
        while let Some(end) = self.first().filter(|e| e.seconds <= until) {
            self.drop_first();
            self.now = self.now.max(end.seconds);
            self.end_member(end, done);
        }
    }

    fn end_member(&mut self, end: End, done: &mut Vec<Done>) {
        let flow = end.flow;
        let running = &mut self.flows[flow as usize];
        self.ended += 1;
        self.dirty = true;
        done.push(Done {
            tag: running.tag,
            seconds: end.seconds,
            bottleneck: self.sharing.bottleneck(FlowId(flow)),
        });
        running.members -= 1;
        running.received = running.target;
        running.since = end.seconds;
        running.end = f64::INFINITY;
        let members = f64::from(running.members);
        self.sharing.set_count(FlowId(flow), members);
        let Some(waiting) = self.waiting.get_mut(&flow) else {
            return self.retire(flow);
        };
        match waiting.pop() {
            Some(Reverse((target, tag))) => {
                running.target = f64::from_bits(target);
                running.tag = tag;
                self.expect(flow);
            }
            None => {
                self.waiting.remove(&flow);
                self.retire(flow);
            }
        }
    }

    fn retire(&mut self, flow: u32) {
        let path = self.sharing.path_of(FlowId(flow));
        if self.on_path[path.0 as usize] == flow {
            self.on_path[path.0 as usize] = NONE;
        }
    }

    /// Updates rates, and with them the expected ends.
    fn settle(&mut self) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        self.sharing.settle();
        let changed = self.sharing.changed().len();
        let bulk = changed >= SORT_FROM && self.passed == self.sorted.len();
        if bulk {
            self.sorted.clear();
            self.passed = 0;
        }
        for i in 0..changed {
            let flow = self.sharing.changed()[i];
            let running = &mut self.flows[flow.0 as usize];
            running.received += running.rate * (self.now - running.since);
            running.since = self.now;
            running.rate = self.sharing.rate(flow);
            let end = running.expected();
            if bulk {
                running.end = end;
                self.sorted.push(End {
                    seconds: end,
                    flow: flow.0,
                });
            } else {
                self.expect(flow.0);
            }
        }
        if bulk {
            self.sorted.sort_unstable();
        }
    }

    /// Queues the end of a flow's next member.
    fn expect(&mut self, flow: u32) {
        let running = &mut self.flows[flow as usize];
        running.end = running.expected();
        if running.end < f64::INFINITY {
            self.queue.push(Reverse(End {
                seconds: running.end,
                flow,
            }));
        }
    }

    /// The first end that is still valid.
    fn first(&mut self) -> Option<End> {
        loop {
            let sorted = self.sorted.get(self.passed).copied();
            let queued = self.queue.peek().map(|Reverse(end)| *end);
            let first = match (sorted, queued) {
                (Some(a), Some(b)) => a.min(b),
                (a, b) => a.or(b)?,
            };
            if self.flows[first.flow as usize].end == first.seconds {
                return Some(first);
            }
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let sorted = self.sorted.get(self.passed);
        let queued = self.queue.peek().map(|Reverse(end)| end);
        match (sorted, queued) {
            (Some(a), Some(b)) if b < a => drop(self.queue.pop()),
            (None, _) => drop(self.queue.pop()),
            _ => self.passed += 1,
        }
    }
}

impl Running {
    fn expected(&self) -> f64 {
        if self.rate > 0.0 {
            self.since + ((self.target - self.received) / self.rate).max(0.0)
        } else {
            f64::INFINITY
        }
    }
}
