//! Breadth-first searches from many routers at a time, a bit of a word each.

/// Routers from which searches begin together.
pub(super) const TOGETHER: usize = u64::BITS as usize;

/// Routers that searches reached with the same hop, each with the bits of these searches.
pub(super) type Reached = Vec<(u32, u64)>;

/// At most [`TOGETHER`] searches.
pub(super) struct Together {
    /// By router: the searches that have reached it.
    pub(super) reached: Vec<u64>,
    /// The same for the next hop alone; zero between two hops.
    next: Vec<u64>,
}

impl Together {
    /// Searches over so many routers, which have not begun.
    pub(super) fn new(routers: usize) -> Self {
        Self {
            reached: vec![0; routers],
            next: vec![0; routers],
        }
    }

    /// Begins anew, with a search from each of these routers.
    pub(super) fn begin(&mut self, roots: impl Iterator<Item = u32>) -> Reached {
        self.reached.fill(0);
        let begin = |(bit, root): (usize, u32)| {
            self.reached[root as usize] |= 1 << bit;
            (root, 1 << bit)
        };
        roots.enumerate().map(begin).collect()
    }

    /// One hop: the routers before those of `ends` that the same searches have not reached. `before` gives the routers before
    /// one, with what `over` hears of each that is new, beside the bits.
    pub(super) fn step<'a, T, I: Iterator<Item = (u32, T)>>(
        &mut self,
        ends: impl Iterator<Item = &'a (u32, u64)>,
        before: impl Fn(u32) -> I,
        mut over: impl FnMut(T, u64),
    ) -> Reached {
        let mut found = Vec::new();
        for &(at, bits) in ends {
            for (from, link) in before(at) {
                let new = bits & !self.reached[from as usize];
                if new == 0 {
                    continue;
                }
                over(link, new);
                if self.next[from as usize] == 0 {
                    found.push((from, 0));
                }
                self.next[from as usize] |= new;
            }
        }
        for (from, new) in &mut found {
            *new = std::mem::take(&mut self.next[*from as usize]);
            self.reached[*from as usize] |= *new;
        }
        found
    }
}
