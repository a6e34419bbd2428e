//! Calls of a job that its trace does not contain.

use std::collections::BTreeMap;

/// Counts of the missing calls, by reason.
#[derive(Default)]
pub(super) struct Lost {
    /// Ranks by the reason why their trace ends early.
    pub(super) cut: BTreeMap<String, u64>,
    pub(super) rounded: u64,
    pub(super) untraced: u64,
    pub(super) collectives: u64,
    /// Ranks whose calls came from several threads.
    pub(super) threaded: u64,
}

impl Lost {
    pub(super) fn is_complete(&self) -> bool {
        self.cut.is_empty() && self.rounded + self.untraced + self.collectives == 0
    }

    pub(super) fn notes(self) -> Vec<String> {
        let cut = self.cut.iter();
        let mut notes: Vec<String> = cut
            .map(|(why, ranks)| format!("incomplete: the traces of {ranks} ranks end early: {why}"))
            .collect();
        for (count, what) in [
            (
                self.untraced,
                "one-sided operations or messages to other worlds are not in the trace",
            ),
            (
                self.collectives,
                "collective calls of unknown groups are not in the trace",
            ),
            (
                self.rounded,
                "collective calls have equal blocks in place of more than 64 different ones",
            ),
        ] {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        }
        if self.threaded > 0 {
            notes.push(format!(
                "several threads of {} ranks called MPI: a rank's calls are one sequence, overlapping ones with a begin and a wait",
                self.threaded
            ));
        }
        notes
    }
}
