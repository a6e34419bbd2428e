//! Collective operations, as the messages that the fabric's expander gives.

use super::{Action, Builder, OpId};
use hopbyte_fabric::FabricError;
use hopbyte_fabric::collective::{Algorithms, Collective, Operation, Sizes, Step};

impl Builder {
    /// One collective operation of `members`; `operation` contains positions in it. A rank begins a round after its
    /// messages of the rounds before have ended; a ring repeats a round.
    ///
    /// # Errors
    /// Those of [`Operation::steps`]; more than `most` operations in the whole program.
    pub fn collective(
        &mut self,
        members: &[u32],
        operation: &Operation<'_>,
        most: usize,
    ) -> Result<(), FabricError> {
        let mut steps: Vec<Step> = Vec::new();
        let mut operations = self.len() as u64;
        operation.steps(&mut |step| {
            operations += 2 * u64::from(step.times);
            if operations <= most as u64 {
                steps.push(step);
            }
        })?;
        if operations > most as u64 {
            return Err(FabricError::OutOfRange {
                what: "operations of the program".into(),
                found: format!(
                    "{operations} with a {} of {} ranks",
                    operation.collective.name(),
                    members.len()
                ),
                expected: format!("at most {most}"),
            });
        }
        steps.sort_by_key(|s| s.round);
        for round in steps.chunk_by(|a, b| a.round == b.round) {
            self.round(members, round);
        }
        Ok(())
    }

    /// An allreduce of `bytes` by the default algorithm.
    ///
    /// # Errors
    /// Those of [`Builder::collective`].
    pub fn allreduce(&mut self, members: &[u32], bytes: f64) -> Result<(), FabricError> {
        let collective = Collective::Allreduce;
        let operation = Operation {
            collective,
            algorithm: Algorithms::default().choose(collective, members.len(), bytes),
            ranks: members.len() as u32,
            root: 0,
            sizes: Sizes::Same(bytes),
            hosts: &[],
        };
        self.collective(members, &operation, super::MAX_OPERATIONS)
    }

    fn round(&mut self, members: &[u32], steps: &[Step]) {
        let most = steps.iter().map(|s| s.times).max().unwrap_or(0);
        let mut begun: Vec<(u32, OpId)> = Vec::new();
        for turn in 0..most {
            begun.clear();
            for step in steps.iter().filter(|s| turn < s.times) {
                let (from, to) = (members[step.from as usize], members[step.to as usize]);
                let bytes = step.bytes;
                let send = self.unmatched(from, Action::Send { to, bytes });
                let receive = self.unmatched(to, Action::Receive { from });
                self.pair(send, receive);
                begun.extend([(from, send), (to, receive)]);
            }
            begun.sort_by_key(|b| b.0);
            for of_rank in begun.chunk_by(|a, b| a.0 == b.0) {
                let operations: Vec<OpId> = of_rank.iter().map(|b| b.1).collect();
                self.wait_these(of_rank[0].0, &operations);
            }
        }
    }
}
