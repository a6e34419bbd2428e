//! The readings that a live page keeps: for its charts, and to go back in time.

use hopbyte_fabric::LinkId;
use hopbyte_view::draw::{LinkLoads, Scale, Signs, Unit};
use serde::Serialize;
use std::collections::VecDeque;

/// Limit of kept readings.
const MOST: usize = 720;
/// Limit of the memory for their values, in bytes.
const MEMORY: usize = 256 << 20;

/// A reading.
pub struct Moment {
    /// Time of the reading, in seconds since 1970.
    pub unix_seconds: f64,
    /// Symbols of the links.
    pub signs: Signs,
    /// Source, window and coverage as a sentence.
    pub source: String,
    /// Notes on the reading.
    pub notes: Vec<String>,
    /// Quantities; values in single precision halve the memory.
    loads: Vec<Held>,
}

/// The values of a quantity.
struct Held {
    name: String,
    unit: Unit,
    /// Largest and mean known value; `None` without any.
    summary: Option<[f64; 2]>,
    scale: Option<Scale>,
    values: Vec<f32>,
}

/// A point of the charts.
#[derive(Serialize)]
pub struct Point {
    unix_seconds: f64,
    /// Largest and mean load by quantity; `null` if missing.
    values: Vec<Option<[f64; 2]>>,
}

/// The values of one link over time.
#[derive(Serialize)]
pub struct Series {
    unix_seconds: Vec<f64>,
    quantities: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    name: String,
    unit: &'static str,
    values: Vec<Option<f32>>,
}

impl Moment {
    /// A reading of these loads.
    pub fn new(unix_seconds: f64, loads: &[LinkLoads], signs: Signs) -> Self {
        Self {
            unix_seconds,
            signs,
            source: String::new(),
            notes: Vec::new(),
            loads: loads.iter().map(Held::of).collect(),
        }
    }

    /// The loads.
    pub fn loads(&self) -> Vec<LinkLoads> {
        self.loads.iter().map(Held::loads).collect()
    }

    fn held(&self, name: &str) -> Option<&Held> {
        self.loads.iter().find(|held| held.name == name)
    }

    fn bytes(&self) -> usize {
        self.loads.iter().map(|held| 4 * held.values.len()).sum()
    }
}

impl Held {
    fn of(loads: &LinkLoads) -> Self {
        let known: Vec<f64> = loads
            .values()
            .iter()
            .copied()
            .filter(|v| !v.is_nan())
            .collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        Self {
            name: loads.name.clone(),
            unit: loads.unit,
            summary: (!known.is_empty()).then(|| [loads.max(), mean]),
            scale: Scale::of([loads]),
            values: loads.values().iter().map(|&v| v as f32).collect(),
        }
    }

    fn loads(&self) -> LinkLoads {
        let values = self.values.iter().map(|&v| f64::from(v)).collect();
        LinkLoads::new(self.name.clone(), self.unit, values)
    }
}

/// Readings in order of their times. When they exceed a limit, every second one of the older half is dropped, so that
/// the far past is kept more coarsely than the near one.
#[derive(Default)]
pub struct Past {
    moments: VecDeque<Moment>,
    bytes: usize,
    /// Largest end of the scale so far, by quantity, so that pictures of different moments are comparable.
    scales: Vec<(String, Scale)>,
    /// Readings that were dropped.
    pub dropped: u64,
}

impl Past {
    /// Adds a reading.
    pub fn push(&mut self, moment: Moment) {
        for held in &moment.loads {
            self.extend_scale(held);
        }
        self.bytes += moment.bytes();
        self.moments.push_back(moment);
        while self.moments.len() > MOST || (self.bytes > MEMORY && self.moments.len() > 2) {
            self.thin();
        }
    }

    fn thin(&mut self) {
        let half = (self.moments.len() / 2).max(2);
        let mut at = 0;
        let before = self.moments.len();
        self.moments.retain(|_| {
            at += 1;
            at > half || at % 2 == 1
        });
        self.dropped += (before - self.moments.len()) as u64;
        self.bytes = self.moments.iter().map(Moment::bytes).sum();
    }

    fn extend_scale(&mut self, held: &Held) {
        let Some(fresh) = held.scale else {
            return;
        };
        match self.scales.iter_mut().find(|(name, _)| *name == held.name) {
            Some((_, scale)) if scale.unit == fresh.unit => scale.max = scale.max.max(fresh.max),
            Some((_, scale)) => *scale = fresh,
            None => self.scales.push((held.name.clone(), fresh)),
        }
    }

    /// The scale of a quantity.
    pub fn scale(&self, name: &str) -> Option<Scale> {
        let of = |(known, scale): &(String, Scale)| (known == name).then_some(*scale);
        self.scales.iter().find_map(of)
    }

    /// The latest reading.
    pub fn last(&self) -> Option<&Moment> {
        self.moments.back()
    }

    /// The reading at a time in seconds since 1970: the latest one until then, or the first one of all.
    pub fn at(&self, unix_seconds: f64) -> Option<&Moment> {
        let until = self.moments.iter().rev();
        let mut until = until.filter(|m| m.unix_seconds <= unix_seconds);
        until.next().or(self.moments.front())
    }

    /// Points of the charts, for these quantities.
    pub fn points(&self, names: &[String]) -> Vec<Point> {
        let point = |moment: &Moment| Point {
            unix_seconds: moment.unix_seconds,
            values: names
                .iter()
                .map(|name| moment.held(name)?.summary)
                .collect(),
        };
        self.moments.iter().map(point).collect()
    }

    /// Values of a link, of the quantities of the latest reading.
    pub fn of_link(&self, link: LinkId) -> Series {
        let line = |of: &Held| {
            let value = |m: &Moment| m.held(&of.name)?.values.get(link.index()).copied();
            Line {
                name: of.name.clone(),
                unit: LinkLoads::new("", of.unit, Vec::new()).unit_name(),
                values: self
                    .moments
                    .iter()
                    .map(|m| value(m).filter(|v| !v.is_nan()))
                    .collect(),
            }
        };
        let quantities = self
            .last()
            .map_or(Vec::new(), |m| m.loads.iter().map(line).collect());
        Series {
            unix_seconds: self.moments.iter().map(|m| m.unix_seconds).collect(),
            quantities,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(time: usize, links: usize) -> Moment {
        let loads = LinkLoads::new("used", Unit::Ratio, vec![time as f64; links]);
        Moment::new(time as f64, &[loads], Signs::default())
    }

    #[test]
    fn the_far_past_is_coarser_and_the_ends_stay() {
        let mut past = Past::default();
        for time in 0..5_000 {
            past.push(reading(time, 3));
        }
        assert!(past.moments.len() <= MOST && past.moments.len() > MOST / 2);
        assert_eq!(past.dropped as usize + past.moments.len(), 5_000);
        let times: Vec<f64> = past.moments.iter().map(|m| m.unix_seconds).collect();
        assert_eq!((times[0], times[times.len() - 1]), (0.0, 4_999.0));
        let gaps: Vec<f64> = times.windows(2).map(|t| t[1] - t[0]).collect();
        assert!(gaps.windows(2).all(|g| g[0] >= g[1] && g[1] >= 1.0));
        assert_eq!(past.at(4_998.5).unwrap().unix_seconds, 4_998.0);
        assert_eq!(past.at(-1.0).unwrap().unix_seconds, 0.0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut past = Past::default();
        for time in 0..40 {
            past.push(reading(time, 4 << 20));
            assert!(past.bytes <= MEMORY);
        }
        assert!(past.moments.len() > 5);
        assert_eq!(past.last().unwrap().unix_seconds, 39.0);
    }

    #[test]
    fn a_link_has_one_value_a_reading() {
        let mut past = Past::default();
        past.push(reading(1, 2));
        let unknown = LinkLoads::new("used", Unit::Ratio, vec![0.5, f64::NAN]);
        past.push(Moment::new(2.0, &[unknown], Signs::default()));
        let series = past.of_link(LinkId(1));
        assert_eq!(series.unix_seconds, [1.0, 2.0]);
        assert_eq!(series.quantities[0].values, [Some(1.0), None]);
    }
}
