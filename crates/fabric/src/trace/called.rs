//! One collective operation, combined from its members' calls.

use super::{Call, Trace, wrong};
use crate::collective::{Algorithm, Algorithms, Collective, How, MAX_PAIRS, Sizes};
use crate::error::FabricError;
use std::borrow::Cow;

/// A collective call of all members of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// The operation.
    pub kind: Collective,
    /// How it is called.
    pub how: How,
    /// Position of the root in the group (0 without a root).
    pub root: u32,
    /// Bytes of each member.
    sizes: Vec<f64>,
    /// Bytes from each member to each; empty if no member has a row.
    matrix: Vec<f64>,
    /// Whether members without bytes for each other exchange no message.
    neighbors: bool,
}

impl Called {
    /// Combines the calls of `members`, each with the number of its call.
    ///
    /// # Errors
    /// Members that call different operations, short rows, and more than [`MAX_PAIRS`] pairs.
    pub fn gather(
        trace: &Trace,
        members: impl ExactSizeIterator<Item = (u32, usize)>,
    ) -> Result<Self, FabricError> {
        let n = members.len();
        let mut first: Option<(u32, Collective, u32)> = None;
        let mut how = How::default();
        let mut sizes = vec![0.0; n];
        let mut matrix = Vec::new();
        let mut neighbors = false;
        for (i, (member, at)) in members.enumerate() {
            let rank = &trace.ranks[member as usize];
            let Some(&Call::Collective {
                kind,
                how: called,
                root,
                bytes,
                row,
                neighbors: direct,
                ..
            }) = rank.calls.get(at)
            else {
                continue;
            };
            let (other, same, same_root) = *first.get_or_insert((member, kind, root));
            if (kind, root) != (same, same_root) {
                let found = format!("{} with root {root} as call {at}", kind.name());
                let same = same.name();
                let expected = format!("{same} with root {same_root}, as rank {other} calls it");
                return Err(wrong(member, found, expected));
            }
            sizes[i] = bytes;
            how = called;
            neighbors |= direct;
            if let Some(row) = row {
                let row = row as usize;
                let Some(values) = rank.rows.get(row..row + n) else {
                    let expected = format!("{n} sizes, one for each member");
                    return Err(wrong(member, "a short row", expected));
                };
                if n as u64 * n as u64 > MAX_PAIRS {
                    let found = format!("{} of {n} ranks", kind.name());
                    return Err(wrong(member, found, format!("at most {MAX_PAIRS} pairs")));
                }
                matrix.resize(n * n, 0.0);
                matrix[i * n..(i + 1) * n].copy_from_slice(values);
            }
        }
        let (_, kind, root) = first.unwrap_or((0, Collective::Barrier, 0));
        Ok(Self {
            kind,
            how,
            root,
            sizes,
            matrix,
            neighbors,
        })
    }

    /// Data sizes: a matrix if there are rows; a size for each member if they differ and the operation supports that;
    /// otherwise the largest for all.
    pub fn sizes(&self) -> Sizes<'_> {
        let most = self.sizes.iter().copied().fold(0.0, f64::max);
        let each = matches!(
            self.kind,
            Collective::Gather
                | Collective::Scatter
                | Collective::Allgather
                | Collective::ReduceScatter
        );
        if !self.matrix.is_empty() {
            Sizes::Matrix(&self.matrix)
        } else if each && self.sizes.iter().any(|&s| s != most) {
            Sizes::Each(&self.sizes)
        } else {
            Sizes::Same(most)
        }
    }

    /// Of these rules, those for such calls.
    pub fn rules<'r>(&self, rules: &'r Algorithms) -> Cow<'r, Algorithms> {
        rules.for_calls(self.kind, self.how)
    }

    /// Its algorithm by [`Called::rules`], for the mean of the members' bytes, or of their blocks if there are rows.
    pub fn algorithm(&self, rules: &Algorithms, members: &[u32]) -> Algorithm {
        let sizes = self.sizes();
        match sizes {
            Sizes::Matrix(_) if self.neighbors => Algorithm::Linear,
            Sizes::Matrix(_) => rules.choose_for(self.kind, true, members.len(), sizes.mean()),
            _ => {
                let vector = self.how.vector || matches!(sizes, Sizes::Each(_));
                rules.choose_among(self.kind, vector, members, sizes.mean())
            }
        }
    }
}
