//! Collective operations as the messages of their usual algorithms.

use super::Builder;

impl Builder {
    fn new_tag(&mut self) -> u32 {
        self.next_tag += 1;
        self.next_tag
    }

    /// Two ranks exchange; both wait.
    fn swap(&mut self, a: u32, b: u32, bytes: f64, tag: u32) {
        for (me, other) in [(a, b), (b, a)] {
            self.send(me, other, bytes, tag);
            self.receive(me, other, tag);
        }
        self.wait_all(a);
        self.wait_all(b);
    }

    fn pass(&mut self, from: u32, to: u32, bytes: f64, tag: u32) {
        self.send(from, to, bytes, tag);
        self.receive(to, from, tag);
        self.wait_all(from);
        self.wait_all(to);
    }

    /// Nobody goes on before everybody came: dissemination, ⌈log2 n⌉ rounds.
    pub fn barrier(&mut self, ranks: &[u32]) {
        let n = ranks.len();
        let mut step = 1;
        while step < n {
            let tag = self.new_tag();
            for i in 0..n {
                self.send(ranks[i], ranks[(i + step) % n], 0.0, tag);
                self.receive(ranks[i], ranks[(i + n - step) % n], tag);
            }
            ranks.iter().for_each(|&r| self.wait_all(r));
            step *= 2;
        }
    }

    /// The first rank's data to all: binomial tree.
    pub fn broadcast(&mut self, ranks: &[u32], bytes: f64) {
        let n = ranks.len();
        let mut step = n.next_power_of_two() / 2;
        let tag = self.new_tag();
        while step > 0 {
            for i in (0..n).step_by(2 * step) {
                if i + step < n {
                    self.pass(ranks[i], ranks[i + step], bytes, tag);
                }
            }
            step /= 2;
        }
    }

    /// All data combined at the first rank: binomial tree.
    pub fn reduce(&mut self, ranks: &[u32], bytes: f64) {
        let n = ranks.len();
        let tag = self.new_tag();
        let mut step = 1;
        while step < n {
            for i in (0..n).step_by(2 * step) {
                if i + step < n {
                    self.pass(ranks[i + step], ranks[i], bytes, tag);
                }
            }
            step *= 2;
        }
    }

    /// All data combined at all: recursive doubling; ranks beyond a power of two hand their part over
    /// before and get the result after.
    pub fn allreduce(&mut self, ranks: &[u32], bytes: f64) {
        let n = ranks.len();
        if n < 2 {
            return;
        }
        let core = if n.is_power_of_two() {
            n
        } else {
            n.next_power_of_two() / 2
        };
        let tag = self.new_tag();
        for i in core..n {
            self.pass(ranks[i], ranks[i - core], bytes, tag);
        }
        let mut step = 1;
        while step < core {
            for i in 0..core {
                if i & step == 0 {
                    self.swap(ranks[i], ranks[i | step], bytes, tag);
                }
            }
            step *= 2;
        }
        for i in core..n {
            self.pass(ranks[i - core], ranks[i], bytes, tag);
        }
    }

    /// Everybody's data at everybody: ring, n-1 rounds of one part each.
    pub fn allgather(&mut self, ranks: &[u32], bytes: f64) {
        let n = ranks.len();
        let tag = self.new_tag();
        for _ in 1..n {
            for i in 0..n {
                self.send(ranks[i], ranks[(i + 1) % n], bytes, tag);
                self.receive(ranks[i], ranks[(i + n - 1) % n], tag);
            }
            ranks.iter().for_each(|&r| self.wait_all(r));
        }
    }

    /// Everybody's own part to everybody: pairwise, n-1 rounds; all rounds at once for small parts
    /// (`rounds_apart` false), as libraries do.
    pub fn alltoall(&mut self, ranks: &[u32], bytes: f64, rounds_apart: bool) {
        let n = ranks.len();
        let tag = self.new_tag();
        for step in 1..n {
            for i in 0..n {
                self.send(ranks[i], ranks[(i + step) % n], bytes, tag);
                self.receive(ranks[i], ranks[(i + n - step) % n], tag);
            }
            if rounds_apart || step + 1 == n {
                ranks.iter().for_each(|&r| self.wait_all(r));
            }
        }
    }
}
