//! Series of rates become totals: the rate times the time since the reading before is added to the total so far.
//!
//! All later steps then see counters. A rate holds until the next reading; its sum is right to the source's own sampling.

use super::reading::Reading;
use super::series::in_time;
use hopbyte_fabric::LeftOut;
use std::collections::HashMap;
use std::sync::Arc;

const TIMELESS: &str = "rate of a text without a time (give --interval, the seconds between two)";
const ALONE: &str = "rate of a device that was read once, beside totals of others";
const BESIDE: &str = "counter beside rates that were read once (two readings give its increase)";

/// Seconds that the rates of a single reading are given for.
const SECOND_NS: u64 = 1_000_000_000;

fn has_rates(reading: &Reading) -> bool {
    reading.layout.counters.iter().any(|c| c.behaviour.rate)
}

/// Makes totals of the rates of a reading; `earlier` is the one before, with totals.
pub(crate) fn accumulate(earlier: Option<&Reading>, later: &mut Reading) {
    if !has_rates(later) {
        return;
    }
    let rates = later.layout.clone();
    let mut layout = (*rates).clone();
    layout
        .counters
        .iter_mut()
        .for_each(|c| c.behaviour.rate = false);
    later.layout = Arc::new(layout);
    let before = earlier.map(|e| e.laid_out(&later.layout));
    let seconds = earlier.map(|e| e.moment.seconds_to(later.moment));
    for (i, counter) in rates.counters.iter().enumerate() {
        if !counter.behaviour.rate {
            continue;
        }
        let total = before.as_ref().and_then(|b| b.get(i)).unwrap_or(0);
        let grown = match (later.get(i), seconds) {
            (None, _) | (_, Some(Ok(None))) => None,
            (Some(_), None) => Some(0),
            (Some(rate), Some(Ok(Some(s)))) => Some((rate as f64 * s).round() as u64),
            // The clock stood still, or the device restarted: the total goes on, the increase is missing for that.
            (Some(_), Some(Err(_))) => Some(0),
        };
        later.set(i, grown.map(|g| total.saturating_add(g)));
    }
}

/// Makes totals of the rates in readings of many devices. If all were read once and have rates, the rates are given for
/// one second; rates without a time are left out.
pub(super) fn totals(readings: Vec<Reading>, left_out: &mut LeftOut) -> Vec<Reading> {
    if !readings.iter().any(has_rates) {
        return readings;
    }
    let key = |r: &Reading| (r.layout.node.clone(), r.layout.source.clone());
    let mut times: HashMap<(String, String), usize> = HashMap::new();
    for reading in &readings {
        *times.entry(key(reading)).or_default() += 1;
    }
    if times.len() == readings.len() && readings.iter().all(has_rates) {
        return readings
            .into_iter()
            .flat_map(|r| second(r, left_out))
            .collect();
    }
    let mut last: HashMap<(String, String), Reading> = HashMap::new();
    let mut all = in_time(readings);
    for reading in &mut all {
        let key = key(reading);
        let earlier = last.get(&key);
        let is_alone = times.get(&key) == Some(&1);
        let is_timeless = earlier.is_some_and(|e| e.moment.seconds_to(reading.moment) == Ok(None));
        if is_alone || is_timeless {
            clear(reading, if is_alone { ALONE } else { TIMELESS }, left_out);
        }
        accumulate(earlier, reading);
        last.insert(key, reading.clone());
    }
    all
}

/// The rates of a reading over a second.
fn second(mut reading: Reading, left_out: &mut LeftOut) -> [Reading; 2] {
    let moment = &mut reading.moment;
    if moment.time_ns.is_none() && moment.steady_ns.is_none() {
        moment.steady_ns = Some(SECOND_NS);
    }
    let mut earlier = reading.clone();
    for ns in [&mut earlier.moment.time_ns, &mut earlier.moment.steady_ns] {
        *ns = ns.map(|ns| ns.saturating_sub(SECOND_NS));
    }
    for (i, counter) in reading.layout.counters.iter().enumerate() {
        let is_count = !counter.behaviour.rate && !counter.quantity.is_gauge();
        if is_count && reading.get(i).is_some() {
            left_out.note(BESIDE, format!("{} {}", reading.layout.node, counter.name));
            earlier.set(i, None);
        }
    }
    accumulate(None, &mut earlier);
    accumulate(Some(&earlier), &mut reading);
    reading.layout = earlier.layout.clone();
    [earlier, reading]
}

/// Makes the rates of a reading missing.
pub(crate) fn lose(reading: &mut Reading) {
    let layout = reading.layout.clone();
    for (i, _) in (layout.counters.iter().enumerate()).filter(|(_, c)| c.behaviour.rate) {
        reading.set(i, None);
    }
}

fn clear(reading: &mut Reading, why: &str, left_out: &mut LeftOut) {
    let layout = reading.layout.clone();
    for (i, counter) in layout.counters.iter().enumerate() {
        if counter.behaviour.rate && reading.get(i).is_some() {
            left_out.note(why, format!("{} {}", layout.node, counter.name));
            reading.set(i, None);
        }
    }
}
