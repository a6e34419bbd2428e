//! The age of segments, by the ticks that the store holds.
//!
//! The age of a segment is the time recorded after it: the ticks of all segments, with gaps up to a bound. Neither names
//! nor the clock count. A clock that is 400 days ahead for one run leaves a gap of 400 days, which ages nothing; nor does
//! the time in which no collector ran, and in which the store did not grow.

/// Ticks of a segment: spans of their start times in nanoseconds since 1970, and its last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// First and last tick of every span.
    pub spans: Vec<(u64, u64)>,
}

impl Ticks {
    /// The latest tick.
    pub fn last_ns(&self) -> Option<u64> {
        self.spans.iter().map(|s| s.1).max()
    }

    /// The earliest tick.
    pub fn first_ns(&self) -> Option<u64> {
        self.spans.iter().map(|s| s.0).min()
    }
}

/// A decision on the segments of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Positions of the segments to delete.
    pub delete: Vec<usize>,
    /// Segments that are kept although the latest tick is later by more than the age: the time between was not
    /// recorded.
    pub doubtful: usize,
}

/// Maximum gap between ticks that counts as recorded, for an age at which segments are deleted: a tenth of it, between
/// ten minutes and a day.
pub fn gap_ns(retain_seconds: u64) -> u64 {
    (retain_seconds / 10).clamp(600, 86_400) * 1_000_000_000
}

/// Decides which segments have more than `retain_seconds` recorded after their last tick. A segment without a readable
/// tick is kept.
pub fn decide(segments: &[Ticks], retain_seconds: u64) -> Decision {
    let (retain, gap) = (
        retain_seconds.saturating_mul(1_000_000_000),
        gap_ns(retain_seconds),
    );
    let mut spans: Vec<(u64, u64)> = segments
        .iter()
        .flat_map(|s| s.spans.iter().copied())
        .collect();
    spans.sort_unstable();
    let mut recorded: Vec<(u64, u64)> = Vec::new();
    for (from, to) in spans {
        match recorded.last_mut() {
            Some(last) if from <= last.1.saturating_add(gap) => last.1 = last.1.max(to),
            _ => recorded.push((from, to)),
        }
    }
    let newest = recorded.last().map_or(0, |r| r.1);
    let mut decision = Decision::default();
    for (segment, at) in segments.iter().zip(0..) {
        let Some(end) = segment.last_ns() else {
            continue;
        };
        let after = recorded
            .iter()
            .map(|&(from, to)| to.saturating_sub(from.max(end)));
        let age = after.fold(0, u64::saturating_add);
        if age > retain {
            decision.delete.push(at);
        } else if newest.saturating_sub(end) > retain {
            decision.doubtful += 1;
        }
    }
    decision
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 86_400;

    /// A segment of ten minutes for every ten minutes between two times in seconds.
    fn recorded(from: u64, to: u64) -> Vec<Ticks> {
        let times = (from..to).step_by(600);
        let of = |t: u64| Ticks {
            spans: vec![(t * SECOND, (t + 599) * SECOND)],
        };
        times.map(of).collect()
    }

    #[test]
    fn segments_go_when_the_time_after_them_was_recorded() {
        let segments = recorded(0, 3 * DAY);
        let decision = decide(&segments, DAY);
        assert_eq!(decision.delete, (0..287).collect::<Vec<_>>());
        assert_eq!(decision.doubtful, 0);
        // A restart that takes an hour is a gap that counts.
        let paused: Vec<Ticks> = recorded(0, DAY)
            .into_iter()
            .chain(recorded(DAY + 3600, 2 * DAY + 3600))
            .collect();
        assert!(decide(&paused, DAY).delete.contains(&0));
    }

    #[test]
    fn a_clock_step_of_any_size_deletes_nothing_early() {
        let real = 20_000 * DAY;
        for days in [-400i64, -30, -2, 2, 30, 400, 100_000] {
            let wrong = real.saturating_add_signed(days * DAY as i64) + DAY / 2;
            let mut segments = recorded(real, real + DAY / 2);
            let before = segments.len();
            segments.extend(recorded(wrong, wrong + 1200));
            let decision = decide(&segments, DAY);
            assert_eq!(decision.delete, [0; 0], "{days} days");
            assert_eq!(decision.doubtful > 0, days.abs() >= 2, "{days} days: said");
            // Thereafter the right clock again: segments go by their age.
            segments.extend(recorded(real + DAY / 2, real + 2 * DAY + 600));
            let decision = decide(&segments, DAY);
            let gone: Vec<_> = decision.delete.iter().filter(|&&i| i < before).collect();
            assert!(
                gone.len() >= before - 2,
                "{days} days: {} of {before}",
                gone.len()
            );
        }
    }

    #[test]
    fn a_step_within_the_bound_is_early_by_at_most_the_bound() {
        let mut segments = recorded(0, DAY);
        let ahead = gap_ns(DAY) / SECOND;
        segments.extend(recorded(DAY + ahead - 600, DAY + ahead));
        for &at in &decide(&segments, DAY).delete {
            let age = DAY - segments[at].spans[0].1 / SECOND;
            assert!(age + ahead >= DAY, "{age}");
        }
    }

    #[test]
    fn segments_without_ticks_stay() {
        let mut segments = recorded(0, 3 * DAY);
        segments.insert(0, Ticks::default());
        assert!(!decide(&segments, DAY).delete.contains(&0));
    }
}
