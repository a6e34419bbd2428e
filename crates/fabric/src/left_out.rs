//! What a reading does not use, by reason.

use std::collections::BTreeMap;

/// Readings left out of the result, counted by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<String, (usize, Vec<String>)>);

/// Largest number of names listed for each reason.
const NAMED: usize = 3;

impl LeftOut {
    /// Reason of rows and ports that name no link of the fabric.
    pub const NO_LINK: &str = "row that names no link of the machine";

    /// Counts one left-out item by its name.
    pub fn note(&mut self, reason: impl Into<String>, name: impl Into<String>) {
        self.note_all(reason, std::iter::once(name.into()));
    }

    /// Counts left-out items; their names are made only as far as they are listed.
    pub fn note_all(
        &mut self,
        reason: impl Into<String>,
        names: impl ExactSizeIterator<Item = String>,
    ) {
        if names.len() == 0 {
            return;
        }
        let (count, listed) = self.0.entry(reason.into()).or_default();
        *count += names.len();
        for name in names {
            if listed.len() >= NAMED {
                break;
            }
            if !listed.contains(&name) {
                listed.push(name);
            }
        }
    }

    /// Adds the items of another reading.
    pub fn extend(&mut self, other: &Self) {
        for (reason, (count, names)) in &other.0 {
            let own = self.0.entry(reason.clone()).or_default();
            own.0 += count;
            let new: Vec<String> = names
                .iter()
                .filter(|n| !own.1.contains(n))
                .cloned()
                .collect();
            own.1.extend(new);
            own.1.truncate(NAMED);
        }
    }

    /// The items beyond those of an earlier reading of the same devices.
    #[must_use]
    pub fn beyond(&self, before: &Self) -> Self {
        let nothing = (0, Vec::new());
        let more = self.0.iter().filter_map(|(reason, (count, names))| {
            let (less, old) = before.0.get(reason).unwrap_or(&nothing);
            let new = names.iter().filter(|n| !old.contains(n)).cloned().collect();
            (count > less).then(|| (reason.clone(), (count - less, new)))
        });
        Self(more.collect())
    }

    /// Whether nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reasons in order, each with its number of left-out items.
    pub fn counts(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(reason, (n, _))| (reason.as_str(), *n))
    }

    /// One sentence per reason: `2 left out, loopback interface: n1 lo, n2 lo`.
    pub fn sentences(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(reason, (count, names))| {
            let more = if *count > names.len() { ", …" } else { "" };
            format!("{count} left out, {reason}: {}{more}", names.join(", "))
        })
    }
}
