//! Readings over an interval, of a stream of ticks.

use hopbyte_collect::store;
use hopbyte_fabric::Increase;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Ticks of a store that are read before the last one: a node may be missing in it. From this age on, the last tick is said
/// to be older than the time asked for.
const BEFORE_NS: u64 = 60_000_000_000;

/// Times in seconds are rounded.
const HALF_MICROSECOND: f64 = 5e-7;

/// Ticks that are added up until they cover an interval.
pub(crate) struct Window {
    seconds: f64,
    /// Time of the last reading.
    since: Option<f64>,
    sum: Option<Increase>,
}

impl Window {
    pub(crate) fn of(seconds: f64) -> Self {
        Self {
            seconds,
            since: None,
            sum: None,
        }
    }

    /// Adds a tick. Returns the sum when it covers the interval; the first tick alone, so that there is a reading.
    pub(crate) fn take(&mut self, tick: Increase) -> Option<Increase> {
        let at = tick.time_seconds;
        let sum = match self.sum.take() {
            Some(mut sum) => {
                sum.extend_by(&tick);
                sum
            }
            None => tick,
        };
        let short = self.since.zip(at);
        if short.is_some_and(|(since, at)| at - since + HALF_MICROSECOND < self.seconds) {
            self.sum = Some(sum);
            return None;
        }
        self.since = at;
        Some(sum)
    }
}

/// Where to begin to read a store for its last tick up to a time, and a sentence if that tick is far from it.
pub(crate) fn before(folder: &Path, to: u64) -> io::Result<(u64, Option<String>)> {
    let Some((before, last)) = store::last_ticks(folder, to)? else {
        return Ok((to.saturating_sub(BEFORE_NS), None));
    };
    let age = to - last;
    let note = (age >= BEFORE_NS && to < u64::MAX).then(|| {
        let seconds = Duration::from_nanos(age).as_secs();
        format!(
            "{}: no tick in the {seconds} s before the time asked for; this is the last one",
            folder.display()
        )
    });
    Ok((before.min(last.saturating_sub(BEFORE_NS)), note))
}

/// Where to begin to read a store for the ticks of the seconds up to one of them, and where to end. The first tick is only
/// the base of the next one's increase.
pub(crate) fn since(folder: &Path, to: f64, seconds: f64) -> io::Result<(u64, u64)> {
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    // A little earlier, so that the tick at its beginning is the base.
    let (from, to) = (ns((to - seconds - 1e-3).max(0.0)), ns(to));
    let ticks = store::last_ticks(folder, to)?;
    Ok((ticks.map_or(from, |(before, _)| from.min(before)), to))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use hopbyte_fabric::{LinkId, Quantity, spec};

    #[test]
    fn an_interval_of_a_stream_covers_every_tick_once() {
        let fabric = spec::fabric("torus:4x4").unwrap();
        let link = LinkId::of(0);
        let tick = |at: f64| {
            let mut tick = Increase::new(&fabric, "t");
            tick.time_seconds = Some(at);
            tick.window_seconds = Some(1.0);
            tick.set(Quantity::ReceivedBytes, link, 100.0);
            tick
        };
        let mut window = Window::of(10.0);
        let read: Vec<Increase> = (1..=25)
            .filter_map(|at| window.take(tick(f64::from(at))))
            .collect();
        let told = |t: &Increase| {
            (
                t.time_seconds.unwrap(),
                t.window_seconds.unwrap(),
                t.get(Quantity::ReceivedBytes, link).unwrap(),
            )
        };
        let told: Vec<_> = read.iter().map(told).collect();
        assert_eq!(
            told,
            [
                (1.0, 1.0, 100.0),
                (11.0, 10.0, 1000.0),
                (21.0, 10.0, 1000.0)
            ]
        );
    }
}
