//! Agents that reported under a node's name before the present one.
//!
//! Sequence numbers count an agent's reports since its start. A connection or a packet of an earlier agent may
//! arrive after its successor's reports, and the successor's after that: their numbers are continued, so that no
//! report is stored twice.

/// Maximum number of earlier agents of a node.
const MOST: usize = 4;

/// An agent, and its highest received and highest stored sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// Hash of the node's boot id.
    pub boot: u64,
    /// Start of the agent, nanoseconds since 1970.
    pub start: u64,
    /// Highest received sequence number.
    pub sequence: u64,
    /// Highest stored sequence number.
    pub kept: u64,
}

/// The earlier agents of a node, the last one at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier(Vec<Agent>);

impl Earlier {
    /// Replaces the agent `was` by that with a boot and a start, which continues its numbers if it reported before.
    pub fn change(&mut self, was: Agent, boot: u64, start: u64) -> Agent {
        let known = self
            .0
            .iter()
            .position(|a| (a.boot, a.start) == (boot, start));
        let now = known.map(|at| self.0.remove(at));
        if was.sequence > 0 {
            if self.0.len() == MOST {
                self.0.remove(0);
            }
            self.0.push(was);
        }
        now.unwrap_or(Agent {
            boot,
            start,
            ..Agent::default()
        })
    }

    /// Handles the end of a tick, whose block was stored or not.
    pub fn settle(&mut self, kept: bool) {
        for agent in &mut self.0 {
            if kept {
                agent.kept = agent.sequence;
            } else {
                agent.sequence = agent.kept;
            }
        }
    }

    /// Adds an agent as an older log has it.
    pub fn add(&mut self, agent: Agent) {
        let same = |a: &Agent| (a.boot, a.start) == (agent.boot, agent.start);
        match self.0.iter().position(same) {
            Some(at) if self.0[at].kept >= agent.kept => {}
            Some(at) => self.0[at] = agent,
            None if self.0.len() < MOST && agent.sequence > 0 => self.0.insert(0, agent),
            None => {}
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The earlier agents.
    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(start: u64, sequence: u64) -> Agent {
        Agent {
            boot: 1,
            start,
            sequence,
            kept: sequence,
        }
    }

    #[test]
    fn numbers_are_continued_and_bounded() {
        let mut earlier = Earlier::default();
        let received = Agent {
            sequence: 9,
            ..agent(1, 7)
        };
        assert_eq!(earlier.change(received, 1, 2), agent(2, 0));
        // The block with the last two reports was not stored.
        earlier.settle(false);
        assert_eq!(earlier.change(agent(2, 4), 1, 1), agent(1, 7));
        assert_eq!(earlier.change(agent(1, 8), 1, 2), agent(2, 4));
        // An agent without a report is not listed.
        assert_eq!(earlier.change(agent(3, 0), 1, 4), agent(4, 0));
        for start in 5..20 {
            earlier.change(agent(start, 1), 1, start + 1);
        }
        let starts: Vec<u64> = earlier.iter().map(|a| a.start).collect();
        assert_eq!(starts, [16, 17, 18, 19]);
    }

    #[test]
    fn of_older_logs_the_highest_number_counts() {
        let mut earlier = Earlier::default();
        for (start, sequence) in [(3, 5), (3, 4), (3, 6), (2, 1)] {
            earlier.add(agent(start, sequence));
        }
        let found: Vec<Agent> = earlier.iter().copied().collect();
        assert_eq!(found, [agent(2, 1), agent(3, 6)]);
    }
}
